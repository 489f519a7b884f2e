//! A conversation's context belongs to the conversation: what one request has no room for, or a reload changes, takes nothing
//! from it.

use aish_proto::confirm::{Answer as AnswerConfirm, Decision};
use aish_proto::context::{ContextPreviewParams, Preview};
use aish_proto::conversation::{ConversationParams, StatusOf};
use aish_proto::daemon::Reload;
use aish_proto::id::ConversationId;
use aish_proto::method::Empty;
use aish_proto::turn::{Send, SendParams, StopReason};
use aish_testkit::client::question;
use aish_testkit::{Answer, Client, Upstream, World};

use crate::consent::{call_id, pending, with};
use crate::context::{asked, log, preview, statuses};

fn questions(upstream: &Upstream) -> Vec<String> {
    let messages = upstream.requests().pop().unwrap().messages();
    let users = messages.into_iter().filter(|(role, _)| role == "user");
    users.map(|(_, text)| text).collect()
}

fn evictions(client: &Client, conversation: ConversationId) -> usize {
    let log = log(client, conversation);
    log.iter().filter(|it| it.kind == "evicted").count()
}

#[test]
fn a_request_to_a_smaller_preset_takes_nothing_out_of_the_conversation() {
    let (own, small, world) = (Upstream::start(), Upstream::start(), World::new());
    world.write_config(&format!(
        "default_model = \"own\"\n{}{}[routing]\nfallback = true\nfallback_model = \"small\"\n",
        own.preset("own", "context_tokens = 64000"),
        small.preset("small", "context_tokens = 2000"),
    ));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let long = |number: usize| format!("question {number} {}", "word ".repeat(400));
    for number in 0..6 {
        asked(&client, conversation, &long(number));
    }
    let params = SendParams {
        model: Some("small".to_owned()),
        ..question(conversation, "for once")
    };
    let before = client.done::<Preview>(ContextPreviewParams {
        conversation,
        text: Some("for once".to_owned()),
        attachments: vec![],
        model: Some("small".to_owned()),
        on_confirm: None,
    });
    let turn = client.done::<Send>(params).turn;
    assert_eq!(Some(StopReason::End), client.wait_turn(turn).stop_reason);
    assert!(questions(&small).len() < 5, "{:?}", questions(&small));
    let sent = String::from_utf8(small.requests().pop().unwrap().body).unwrap();
    assert_eq!(sent, before.body);
    assert_eq!(0, before.evicts.len());
    asked(&client, conversation, "again");
    assert_eq!(8, questions(&own).len());
    // The same with a fallback.
    own.answer(Answer::status(500, "{}"));
    asked(&client, conversation, "while it is down");
    assert_eq!(2, small.requests().len());
    assert!(questions(&small).len() < 6, "{:?}", questions(&small));
    asked(&client, conversation, "up again");
    assert_eq!(10, questions(&own).len());
    assert_eq!(0, evictions(&client, conversation));
    own.finish();
    small.finish();
}

/// A turn keeps to the rules that it began with.
#[test]
fn a_reload_changes_the_context_of_the_next_turn() {
    let (upstream, world) = (Upstream::start(), World::new());
    let config = |turns: u32| {
        let preset = upstream.preset("test", "");
        format!(
            "default_model = \"test\"\n{preset}\n[tools]\nbuiltin = true\n[context]\nmax_turns = {turns}\n"
        )
    };
    world.write_config(&config(10));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    for number in 0..3 {
        asked(&client, conversation, &format!("question {number}"));
    }
    upstream.answer(Answer::stream().then_call(0, &call_id(), "aish__time", "{}"));
    let turn = client.ask(conversation, "the time?");
    let confirm = pending(&client, conversation);
    world.write_config(&config(2));
    client.done::<Reload>(Empty {});
    client.done::<AnswerConfirm>(with(&confirm, Decision::AllowOnce));
    client.wait_turn(turn);
    assert_eq!(4, questions(&upstream).len());
    assert_eq!(0, evictions(&client, conversation));
    asked(&client, conversation, "and now?");
    assert_eq!(1, questions(&upstream).len());
    upstream.finish();
}

/// Whoever looks changes nothing: the first turn still says what is wrong, and no server is looked for.
#[test]
fn a_preview_is_only_a_look() {
    let (upstream, world) = (Upstream::start(), World::new());
    world.write_config(&format!(
        "{}\n[routing]\nauto = true\n[routing.classes]\ncode = \"nobody\"\n",
        upstream.config("test")
    ));
    let daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let text = "fix ./main.py";
    preview(&client, conversation, Some(text));
    asked(&client, conversation, text);
    let told = statuses(&log(&client, conversation));
    assert!(told.iter().any(|it| it.contains("\"nobody\"")), "{told:?}");
    upstream.finish();
    daemon.kill9();
    let upstream = Upstream::start();
    upstream.models(&["test-model"]);
    world.write_config(&format!(
        "[discovery]\nservers = [{:?}]\n",
        upstream.endpoint()
    ));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let refused = client.refused::<Preview>(ContextPreviewParams {
        conversation,
        text: Some(text.to_owned()),
        attachments: vec![],
        model: None,
        on_confirm: None,
    });
    assert_eq!("notFound", refused.kind());
    assert_eq!(0, upstream.probes() + upstream.requests().len());
    let status = client.done::<StatusOf>(ConversationParams { id: conversation });
    assert_eq!(1, status.turns);
}
