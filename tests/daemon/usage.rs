//! What models took: of every request, whatever became of it, at the price of its moment; the same after any crash, and when
//! the index is built anew.

use std::fs;

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{
    Archive, ConversationDeleteParams, ConversationListParams, ConversationParams, Delete, Fork,
    ForkParams, List, Rename, RenameParams, StatusOf,
};
use aish_proto::daemon::Reload;
use aish_proto::event::{AssistantMessage, ModelUsed, TurnFinished};
use aish_proto::id::ConversationId;
use aish_proto::method::Empty;
use aish_proto::turn::{Cancel, StopReason, TurnParams};
use aish_proto::usage::{
    Get, RequestPurpose, Usage, UsageGetParams, UsageGetResult, UsageGrouping, UsageRow, Usd,
};
use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Client, Upstream, World};
use serde_json::json;

use crate::fallback::{Scene, Told};
use crate::tools::events;

/// Two thousand nanos a token that is sent, five hundred one that the server had still, and ten thousand one it says.
pub(crate) const PRICE: &str = "price = { input = 2.0, output = 10.0, cached_input = 0.5 }";

pub(crate) fn priced(upstream: &Upstream, more: &str) -> World {
    let world = World::new();
    let preset = upstream.preset("paid", PRICE);
    world.write_config(&format!("default_model = \"paid\"\n{preset}{more}"));
    world
}

fn get(client: &Client, by: UsageGrouping) -> UsageGetResult {
    client.done::<Get>(UsageGetParams {
        by,
        ..UsageGetParams::default()
    })
}

/// `~` where it is believed, tokens in and out, nanos and requests without a price.
pub(crate) fn said(usage: &Usage) -> String {
    let number = |it: Option<u64>| it.map_or("?".to_owned(), |it| it.to_string());
    format!(
        "{}{}+{} {} {}x {}",
        if usage.estimated { "~" } else { "" },
        number(usage.input_tokens),
        number(usage.output_tokens),
        number(usage.cost_usd.map(|it| it.nanos)),
        usage.requests,
        usage.unpriced,
    )
}

fn rows(client: &Client, by: UsageGrouping) -> Vec<String> {
    let name = |it: &UsageRow| {
        let id = it.conversation.map(|it| it.to_string());
        let preset = it.preset.clone();
        let title = it.title.clone();
        title.or(preset).or(id).unwrap_or_else(|| "-".to_owned())
    };
    let rows = get(client, by).rows;
    rows.iter()
        .map(|it| format!("{} {}", name(it), said(&it.usage)))
        .collect()
}

fn of(client: &Client, id: ConversationId) -> String {
    let status = client.done::<StatusOf>(ConversationParams { id });
    said(&status.usage)
}

fn with_cached(input: u64, cached: u64, output: u64) -> Answer {
    let usage = json!({"prompt_tokens": input, "completion_tokens": output,
        "prompt_tokens_details": {"cached_tokens": cached}});
    let answer = Answer::text("hi").usage(None);
    answer.then_frame(json!({"choices": [], "usage": usage}))
}

#[test]
fn a_request_costs_what_its_server_counted_and_one_that_is_not_counted_is_believed() {
    let upstream = Upstream::start();
    let world = priced(&upstream, "");
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let id = client.create();
    upstream.answer(Answer::text("hi").usage(Some((1000, 100))));
    upstream.answer(with_cached(1000, 800, 10));
    upstream.answer(Answer::text("twelve bytes").usage(None));
    let asked = || client.wait_turn(client.ask(id, "hello")).usage.unwrap();
    assert_eq!("1000+100 3000000 1x 0", said(&asked()));
    let cached = asked();
    assert_eq!("1000+10 900000 1x 0", said(&cached));
    assert_eq!(Some(800), cached.cached_input_tokens);
    let believed = asked();
    let (input, output) = (
        believed.input_tokens.unwrap(),
        believed.output_tokens.unwrap(),
    );
    assert!(believed.estimated && input > 10 && (1..=12).contains(&output));
    assert_eq!(
        input * 2000 + output * 10_000,
        believed.cost_usd.unwrap().nanos
    );
    let nanos = 3_900_000 + believed.cost_usd.unwrap().nanos;
    let all = format!("~{}+{} {nanos} 3x 0", 2000 + input, 110 + output);
    assert_eq!(all, of(&client, id));
    let result = get(&client, UsageGrouping::Day);
    assert_eq!(all, said(&result.total));
    assert_eq!(
        (Some(result.today.day.clone()), all.clone()),
        (result.rows[0].day.clone(), said(&result.rows[0].usage))
    );
    assert_eq!(Usd { nanos }, result.today.spent_usd);
    assert_eq!(
        vec![format!("hello {all}")],
        rows(&client, UsageGrouping::Conversation)
    );
    assert_eq!(
        vec![format!("paid {all}")],
        rows(&client, UsageGrouping::Model)
    );
    upstream.finish();
}

#[test]
fn a_turn_takes_what_all_its_rounds_take() {
    let upstream = Upstream::start();
    let more = "[tools]\nbuiltin = true\n[mcp.auto_approve]\n\"aish__*\" = true\n";
    let world = priced(&upstream, more);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let id = client.create();
    let call = Answer::stream().then_call(0, "c1", "aish__time", "{}");
    upstream.answer(call.usage(Some((10, 1))));
    upstream.answer(Answer::text("noon").usage(Some((20, 2))));
    let record = client.wait_turn(client.ask(id, "when?"));
    assert_eq!("30+3 90000 2x 0", said(&record.usage.unwrap()));
    let messages: Vec<AssistantMessage> = events(&client, id);
    let parts: Vec<String> = messages
        .iter()
        .flat_map(|it| it.usage)
        .map(|it| said(&it))
        .collect();
    assert_eq!(vec!["10+1 30000 1x 0", "20+2 60000 1x 0"], parts);
}

#[test]
fn what_was_paid_stays_what_it_was_when_the_price_changes_or_goes() {
    let upstream = Upstream::start();
    let world = priced(&upstream, "");
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let id = client.create();
    let asked = || said(&client.wait_turn(client.ask(id, "hello")).usage.unwrap());
    assert_eq!("7+5 64000 1x 0", asked());
    let preset = |price: &str| {
        let text = format!(
            "default_model = \"paid\"\n{}",
            upstream.preset("paid", price)
        );
        world.write_config(&text);
        client.done::<Reload>(Empty {});
    };
    preset("price = { input = 4.0, output = 20.0 }");
    assert_eq!("7+5 128000 1x 0", asked());
    preset("");
    assert_eq!("7+5 ? 1x 1", asked());
    assert_eq!(
        vec!["paid 21+15 192000 3x 1"],
        rows(&client, UsageGrouping::Model)
    );
    preset("price = { input = 0, output = 0 }");
    assert_eq!("7+5 0 1x 0", asked());
    assert_eq!(
        vec!["paid 28+20 192000 4x 1"],
        rows(&client, UsageGrouping::Model)
    );
}

#[test]
fn a_request_that_fell_back_is_of_who_answered_and_of_who_may_have_read_it() {
    let scene = Scene::new(/*fallback*/ true, "");
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    scene.local.answer(Answer::status(503, "{}"));
    assert_eq!(
        "7+5 ? 1x 1",
        said(&Told::of(&client, None).record.usage.unwrap())
    );
    assert_eq!(
        vec!["cloud 7+5 ? 1x 1"],
        rows(&client, UsageGrouping::Model)
    );
    // This one took the whole request and said nothing.
    scene.local.answer(Answer::stream().then_stall());
    let told = Told::of(&client, None);
    let usage = told.record.usage.unwrap();
    assert!(usage.estimated && usage.requests == 2 && usage.input_tokens.unwrap() > 20);
    let silent = told.all::<ModelUsed>();
    assert_eq!(1, silent.len());
    assert_eq!(
        ("fast", RequestPurpose::Answer),
        (silent[0].model.as_str(), silent[0].purpose)
    );
    assert!(told.place("modelUsed") < told.place("fallbackUsed"));
    let by_model = rows(&client, UsageGrouping::Model);
    assert_eq!(2, by_model.len(), "{by_model:?}");
    assert!(by_model.contains(&"cloud 14+10 ? 2x 2".to_owned()));
}

#[test]
fn an_answer_that_was_stopped_in_the_middle_is_paid_as_far_as_it_came() {
    let upstream = Upstream::start();
    let world = priced(&upstream, "");
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let id = client.create();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut follow = client.attach(id, ReplayStart::Start);
    let turn = client.ask(id, "hello");
    gate.text(&"word ".repeat(30));
    follow.until_kind("textDelta");
    client.done::<Cancel>(TurnParams { turn });
    let record = client.wait_turn(turn);
    assert_eq!(Some(StopReason::Cancelled), record.stop_reason);
    let usage = record.usage.unwrap();
    assert!(usage.estimated && usage.requests == 1, "{usage:?}");
    assert_eq!(Some(50), usage.output_tokens);
    let end: Vec<TurnFinished> = events(&client, id);
    assert_eq!(Some(usage), end[0].usage);
    assert_eq!(of(&client, id), said(&usage));
}

#[test]
fn what_was_under_way_at_a_kill_is_believed_once_and_nothing_is_counted_twice() {
    let upstream = Upstream::start();
    let world = priced(&upstream, "");
    let daemon = world.daemon().spawn();
    let client = world.client();
    let id = client.create();
    assert_eq!(
        "7+5 64000 1x 0",
        said(&client.wait_turn(client.ask(id, "hello")).usage.unwrap())
    );
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let turn = client.ask(id, "and more?");
    gate.wait_request();
    daemon.kill9();
    let daemon = world.daemon().spawn();
    let client = world.client();
    let record = client.wait_turn(turn);
    assert_eq!(Some(StopReason::Interrupted), record.stop_reason);
    let usage = record.usage.unwrap();
    assert!(
        usage.estimated && usage.requests == 1 && usage.input_tokens.unwrap() > 5,
        "{usage:?}"
    );
    let before = (
        of(&client, id),
        rows(&client, UsageGrouping::Model),
        get(&client, UsageGrouping::Day).today.spent_usd,
    );
    assert_eq!(usage.cost_usd.unwrap().nanos + 64_000, before.2.nanos);
    daemon.kill9();
    let after = |client: &Client| {
        (
            of(client, id),
            rows(client, UsageGrouping::Model),
            get(client, UsageGrouping::Day).today.spent_usd,
        )
    };
    let daemon = world.daemon().spawn();
    assert_eq!(before, after(&world.client()), "after another restart");
    assert_eq!(0, daemon.terminate());
    fs::remove_dir_all(world.state().join("store/db")).unwrap();
    let _daemon = world.daemon().spawn();
    assert_eq!(
        before,
        after(&world.client()),
        "with an index that was built anew"
    );
}

/// Wherever the daemon dies about the commit, a turn that ended has been counted once.
#[test]
fn a_kill_about_a_commit_loses_and_doubles_nothing() {
    // A start writes a few times too.
    for (point, nth) in [
        ("turn.before_commit", 2),
        ("turn.after_commit", 2),
        ("store.after_write", 9),
        ("store.after_sync", 9),
        ("store.after_apply", 9),
    ] {
        let upstream = Upstream::start();
        let world = priced(&upstream, "");
        let kill = format!("{point}=kill@{nth}");
        let mut daemon = world.daemon().failpoint(&kill).spawn();
        let asking = || {
            let client = world.client();
            let id = client.create();
            for _ in 0..4 {
                client.wait_turn(client.ask(id, "hello"));
            }
        };
        let _died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(asking));
        daemon.wait_exit();
        let daemon = world.daemon().spawn();
        let client = world.client();
        let states = client.done::<List>(ConversationListParams::default());
        for listed in states.conversations {
            // It is read only when what the dead daemon left has been ended.
            let params = ConversationParams { id: listed.id };
            let status = client.done::<StatusOf>(params);
            let messages: Vec<AssistantMessage> = events(&client, status.id);
            let used: Vec<ModelUsed> = events(&client, status.id);
            let requests = messages.iter().filter(|it| it.usage.is_some()).count() + used.len();
            assert_eq!(requests as u64, status.usage.requests, "{point}");
            let sums = rows(&client, UsageGrouping::Conversation);
            let expected =
                (requests > 0).then(|| format!("{} {}", status.title, said(&status.usage)));
            assert_eq!(expected.into_iter().collect::<Vec<_>>(), sums, "{point}");
        }
        let before = rows(&client, UsageGrouping::Day);
        assert_eq!(0, daemon.terminate());
        fs::remove_dir_all(world.state().join("store/db")).unwrap();
        let _daemon = world.daemon().spawn();
        assert_eq!(before, rows(&world.client(), UsageGrouping::Day), "{point}");
    }
}

#[test]
fn a_summary_is_paid_by_its_conversation_at_the_price_of_its_own_preset() {
    let (talker, summarizer) = (Upstream::start(), Upstream::start());
    let world = World::new();
    world.write_config(&format!(
        "default_model = \"talk\"\n{}{}[context]\nmax_turns = 3\nsummarize_on_evict = true\n",
        talker.preset("talk", "price = { input = 0, output = 0 }"),
        summarizer.preset("fast", PRICE),
    ));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let id = client.create();
    summarizer.answer(Answer::text("They counted apples.").usage(Some((300, 20))));
    for text in ["one", "two", "three", "four"] {
        client.wait_turn(client.ask(id, text));
    }
    let mut follow = client.attach(id, ReplayStart::Start);
    let used: ModelUsed = follow.until_kind("modelUsed").read().unwrap();
    assert_eq!(
        ("fast", RequestPurpose::Summary),
        (used.model.as_str(), used.purpose)
    );
    assert_eq!("300+20 800000 1x 0", said(&used.usage));
    follow.until_kind("summaryUpdated");
    assert_eq!("328+40 800000 5x 0", of(&client, id));
    assert_eq!(
        vec!["fast 300+20 800000 1x 0", "talk 28+20 0 4x 0"],
        rows(&client, UsageGrouping::Model)
    );
}

#[test]
fn what_is_proposed_to_be_remembered_is_paid_by_the_conversation_that_was_put_away() {
    let upstream = Upstream::start();
    let world = World::new();
    world.write_config(&format!(
        "default_model = \"fast\"\n{}[memory]\nsummarize_on_close = true\n",
        upstream.preset("fast", PRICE)
    ));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let id = client.create();
    client.wait_turn(client.ask(id, "hello"));
    let mut follow = client.attach(id, ReplayStart::Now);
    client.done::<Archive>(ConversationParams { id });
    let used: ModelUsed = follow.until_kind("modelUsed").read().unwrap();
    assert_eq!(
        (RequestPurpose::Memory, "7+5 64000 1x 0"),
        (used.purpose, &*said(&used.usage))
    );
    assert_eq!("14+10 128000 2x 0", of(&client, id));
}

#[test]
fn a_deleted_conversation_leaves_its_money_under_no_name_and_a_copy_costs_nothing() {
    let upstream = Upstream::start();
    let world = priced(&upstream, "");
    let daemon = world.daemon().spawn();
    let client = world.client();
    let id = client.create();
    client.wait_turn(client.ask(id, "hello"));
    let copy = client.done::<Fork>(ForkParams { id, at_seq: None }).id;
    let params = RenameParams {
        id: copy,
        title: "copy".to_owned(),
    };
    client.done::<Rename>(params);
    assert_eq!("?+? ? 0x 0", of(&client, copy));
    assert_eq!(
        vec!["hello 7+5 64000 1x 0"],
        rows(&client, UsageGrouping::Conversation)
    );
    let confirm_title = "hello".to_owned();
    client.done::<Delete>(ConversationDeleteParams { id, confirm_title });
    assert_eq!(
        vec!["- 7+5 64000 1x 0"],
        rows(&client, UsageGrouping::Conversation)
    );
    client.wait_turn(client.ask(copy, "hello again"));
    let both = ["copy 7+5 64000 1x 0", "- 7+5 64000 1x 0"];
    let sorted = |client: &Client| {
        let mut rows = rows(client, UsageGrouping::Conversation);
        rows.sort();
        rows.reverse();
        rows
    };
    assert_eq!(both.to_vec(), sorted(&client));
    daemon.kill9();
    fs::remove_dir_all(world.state().join("store/db")).unwrap();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    assert_eq!(both.to_vec(), sorted(&client));
    assert_eq!(
        128_000,
        get(&client, UsageGrouping::Day).today.spent_usd.nanos
    );
    let since = |text: &str| UsageGetParams {
        since: Some(text.to_owned()),
        ..UsageGetParams::default()
    };
    assert_eq!(0, client.done::<Get>(since("2999-01-01")).total.requests);
    assert_eq!(
        2,
        client
            .done::<Get>(since("2020-01-01T10:00:00+02:00"))
            .total
            .requests
    );
    assert_eq!(-32602, client.refused::<Get>(since("yesterday")).code);
}

/// A server's request for a model is paid by the conversation whose call it belongs to.
#[test]
fn what_a_server_asks_of_a_model_is_paid_by_its_conversation() {
    let Some(scene) = crate::forms::Scene::with("sampling = true") else {
        return;
    };
    let client = scene.world.client();
    let (id, turn) = crate::sampling::asks(&scene, &client, &[crate::sampling::asked("what?")]);
    let confirm = crate::forms::pending(&client, id, 1).remove(0);
    let yes = crate::consent::with(&confirm, aish_proto::confirm::Decision::AllowOnce);
    crate::forms::answered(&client, yes);
    let record = client.wait_turn(turn);
    assert_eq!("21+15 ? 3x 3", said(&record.usage.unwrap()));
    let used: Vec<ModelUsed> = events(&client, id);
    let used: Vec<_> = used
        .iter()
        .map(|it| (it.purpose, said(&it.usage)))
        .collect();
    assert_eq!(
        vec![(RequestPurpose::Sampling, "7+5 ? 1x 1".to_owned())],
        used
    );
    until_true("its sums", || of(&client, id) == "21+15 ? 3x 3");
}
