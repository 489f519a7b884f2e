//! What of a request its server may do without: nothing is sent that nobody set, and what a server refuses by name is left
//! out or renamed, told once, and remembered for this server and model.

use aish_proto::attach::ReplayStart;
use aish_proto::event::{Status, SummaryUpdated};
use aish_proto::turn::StopReason;
use aish_testkit::upstream::Request;
use aish_testkit::{Answer, Client, Upstream, World};
use serde_json::{Value, json};

use crate::context::{asked, preview};

/// Refuses as OpenAI's newer models do, one thing at a time.
fn refuses(request: &Request) -> Option<Answer> {
    let body = request.json();
    let (param, message) = if body.get("max_tokens").is_some() {
        (
            "max_tokens",
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        )
    } else if body.get("temperature").is_some() {
        (
            "temperature",
            "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
        )
    } else {
        return None;
    };
    let error = json!({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": "unsupported_value"}});
    Some(Answer::status(400, &error.to_string()))
}

fn picky() -> Upstream {
    let upstream = Upstream::start();
    upstream.answer_with(|request| refuses(request).unwrap_or_else(|| Answer::text("fine")));
    upstream
}

fn sent(request: &Request) -> [Value; 3] {
    let body = request.json();
    ["temperature", "max_tokens", "max_completion_tokens"].map(|name| body[name].clone())
}

/// The statuses of one answered question.
pub(crate) fn statuses(client: &Client) -> Vec<String> {
    let conversation = client.create();
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let turn = client.ask(conversation, "hello");
    follow.until_finished(turn);
    let record = client.wait_turn(turn);
    assert_eq!(
        (Some(StopReason::End), "fine"),
        (record.stop_reason, record.text.as_str()),
        "{:?}",
        record.error
    );
    let statuses = follow.events_so_far().iter();
    let statuses = statuses.filter_map(|it| it.read::<Status>());
    statuses.map(|it| it.text).collect()
}

#[test]
fn a_plain_preset_sends_nothing_that_nobody_set() {
    let (upstream, world) = (picky(), World::new());
    world.write_config(&upstream.config("plain"));
    let _daemon = world.daemon().spawn();
    assert_eq!(Vec::<String>::new(), statuses(&world.client()));
    let requests = upstream.requests();
    assert_eq!(1, requests.len());
    let body = requests[0].json();
    let names: Vec<&String> = body.as_object().unwrap().keys().collect();
    let expected = ["messages", "model", "stream", "stream_options"];
    assert!(
        names
            .iter()
            .all(|it| expected.contains(&it.as_str()) || *it == "tools"),
        "{names:?}"
    );
    upstream.finish();
}

#[test]
fn what_is_refused_is_sent_otherwise_and_that_is_remembered() {
    let (upstream, world) = (picky(), World::new());
    world.write_config(&format!(
        "default_model = \"newer\"\n{}",
        upstream.preset("newer", "temperature = 0.2\nmax_tokens = 50")
    ));
    let daemon = world.daemon().spawn();
    let client = world.client();
    assert_eq!(
        vec![
            "test-model takes no `max_tokens`: asked again with `max_completion_tokens`",
            "test-model takes no `temperature`: asked again without it",
        ],
        statuses(&client)
    );
    let bodies: Vec<[Value; 3]> = upstream.requests().iter().map(sent).collect();
    assert_eq!(
        vec![
            [json!(0.2), json!(50), Value::Null],
            [json!(0.2), Value::Null, json!(50)],
            [Value::Null, Value::Null, json!(50)],
        ],
        bodies
    );
    // Known now, and to the next daemon too; and what a preview shows is what is sent.
    assert_eq!(Vec::<String>::new(), statuses(&client));
    drop(client);
    daemon.kill9();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let shown = preview(&client, conversation, Some("and now")).body;
    asked(&client, conversation, "and now");
    let requests = upstream.requests();
    assert_eq!(5, requests.len());
    assert_eq!(shown, String::from_utf8_lossy(&requests[4].body));
    assert_eq!([Value::Null, Value::Null, json!(50)], sent(&requests[4]));
    upstream.finish();
}

/// A refusal that names nothing of ours, or that stays whatever is left out, is an error and not a loop.
#[test]
fn a_server_that_refuses_everything_is_asked_a_few_times_and_not_for_ever() {
    let (upstream, world) = (Upstream::start(), World::new());
    world.write_config(&format!(
        "default_model = \"stubborn\"\n{}",
        upstream.preset("stubborn", "temperature = 0.2\nmax_tokens = 50")
    ));
    let texts = [
        "temperature, max_tokens and stream_options are not supported",
        "max_tokens is not permitted",
        "your colour is not supported",
    ];
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let mut before = 0;
    for (text, most) in texts.into_iter().zip([2, 3, 1]) {
        let error = json!({"error": {"message": text}}).to_string();
        upstream.answer_with(move |_request| Answer::status(400, &error));
        let record = client.wait_turn(client.ask(client.create(), "hello"));
        assert_eq!(Some(StopReason::Upstream), record.stop_reason);
        let error = record.error.unwrap();
        assert!(error.message.contains(text), "{error:?}");
        let count = upstream.requests().len();
        assert_eq!(most, count - before, "{text}");
        before = count;
    }
}

/// Who sums up is such a model: the same request in another place.
#[test]
fn a_summary_is_made_by_such_a_model_too() {
    let (talker, summarizer, world) = (Upstream::start(), picky(), World::new());
    world.write_config(&format!(
        "default_model = \"talk\"\n{}\n{}\n[context]\nmax_turns = 3\nsummarize_on_evict = true\n",
        talker.preset("talk", ""),
        summarizer.preset("fast", "temperature = 0.2"),
    ));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let mut follow = client.attach(conversation, ReplayStart::Start);
    for text in ["one", "two", "three", "four"] {
        asked(&client, conversation, text);
    }
    let updated = follow.until(|it| it.read::<SummaryUpdated>().is_some());
    assert!(format!("{updated:?}").contains("fine"), "{updated:?}");
    assert_eq!(3, summarizer.requests().len());
}

/// What was learned can be read, outlives the daemon, and is forgotten when somebody says so.
#[test]
fn what_was_learned_of_a_server_is_shown_and_forgotten() {
    let (upstream, world) = (picky(), World::new());
    let more = "temperature = 0.2\nmax_tokens = 50\ncontext_tokens = 32000";
    world.write_config(&format!(
        "default_model = \"test\"\n{}",
        upstream.preset("test", more)
    ));
    let daemon = world.daemon().spawn();
    let show = || {
        world
            .ctl(&["model", "show", "test"])
            .run()
            .ok()
            .out()
            .to_owned()
    };
    assert!(show().contains("takes all that it was sent"), "{}", show());
    assert_eq!(2, statuses(&world.client()).len());
    let learned =
        "is not sent: temperature; the limit of an answer is called max_completion_tokens";
    assert!(
        show().contains(learned) && show().contains("32000 tokens"),
        "{}",
        show()
    );

    assert_eq!(0, daemon.terminate());
    let _daemon = world.daemon().spawn();
    assert!(show().contains(learned), "{}", show());
    assert_eq!(Vec::<String>::new(), statuses(&world.client()));
    let forgotten = world
        .ctl(&["model", "forget", "test"])
        .run()
        .ok()
        .out()
        .to_owned();
    assert!(
        forgotten.contains("is sent again: temperature"),
        "{forgotten}"
    );
    assert_eq!(2, statuses(&world.client()).len());

    let unknown = world.ctl(&["model", "show", "tset"]).run();
    assert!(
        unknown.err().contains("no model preset is called \"tset\""),
        "{}",
        unknown.err()
    );
    let probed = world
        .ctl(&["model", "probe", "test"])
        .run()
        .ok()
        .out()
        .to_owned();
    assert_eq!(2, probed.lines().count(), "{probed}");
}
