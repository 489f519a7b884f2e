//! A server wants a model to be asked while its tool runs: who sees it, what is sent and what is not,
//! where the answer goes, and how it ends that nobody allows.

use std::sync::Barrier;
use std::thread;

use aish_proto::audit::{AuditKind, AuditListParams};
use aish_proto::confirm::{AnswerOutcome, AnswerResult, ConfirmRecord, ConfirmState, Decision};
use aish_proto::event::ToolResult;
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::turn::{Cancel, StopReason, TurnParams};
use aish_testkit::upstream::Request;
use aish_testkit::{Answer as Said, Asked as _, Client, Gate};
use serde_json::{Value, json};

use crate::audit::records;
use crate::consent::{call_id, with};
use crate::forms::{Scene, answered, ends, filled, pending, told, words};
use crate::tools::events;

const ON: &str = "sampling = true";
/// What the model says to the server.
const WORD: &str = "Forty-two.";

pub(crate) fn asked(text: &str) -> Value {
    let content = json!({"type": "text", "text": text});
    json!({"messages": [{"role": "user", "content": content}], "systemPrompt": "be brief", "maxTokens": 77})
}

/// Only what a server wants has a limit: the preset of these tests has none.
fn is_for_server(request: &Request) -> bool {
    request.json().get("max_tokens").is_some()
}

fn for_server(scene: &Scene) -> Vec<Request> {
    let requests = scene.upstream.requests();
    requests.into_iter().filter(is_for_server).collect()
}

/// The model calls this tool; what its server asks gets this answer.
pub(crate) fn model_calls(
    scene: &Scene,
    tool: &str,
    arguments: Value,
    mut answer: impl FnMut() -> Said + Send + 'static,
) {
    let tool = tool.to_owned();
    scene.upstream.answer_with(move |request| {
        let messages = request.messages();
        if is_for_server(request) {
            answer()
        } else if messages.last().is_none_or(|(role, _)| role != "user") {
            Said::text("So be it.")
        } else {
            Said::stream().then_call(0, &call_id(), &tool, &arguments.to_string())
        }
    });
}

/// Asks, and the model calls a tool whose server asks this.
pub(crate) fn asks(scene: &Scene, client: &Client, asks: &[Value]) -> (ConversationId, TurnId) {
    let arguments = json!({"method": "sampling/createMessage", "asks": asks});
    model_calls(scene, "f__ask", arguments, || Said::text(WORD));
    let conversation = client.create();
    (conversation, client.ask(conversation, "do it"))
}

/// As [`asks`], with a model that answers by hand.
fn asks_by_hand(scene: &Scene, client: &Client) -> (Gate, ConversationId, TurnId, ConfirmRecord) {
    let (answer, gate) = Said::by_hand();
    let mut answer = Some(answer);
    let arguments = json!({"method": "sampling/createMessage", "asks": [asked("what?")]});
    model_calls(scene, "f__ask", arguments, move || answer.take().unwrap());
    let conversation = client.create();
    let turn = client.ask(conversation, "do it");
    let confirm = pending(client, conversation, 1).remove(0);
    (gate, conversation, turn, confirm)
}

/// The server that the makers of the protocol wrote: it gets the answer, and nothing else gets it.
#[test]
fn a_real_server_gets_an_answer_that_a_person_allowed() {
    let Some(scene) = Scene::everything(ON) else {
        return;
    };
    let client = scene.world.person("pts/5");
    let arguments = json!({"prompt": "what is it?", "maxTokens": 50});
    model_calls(&scene, "f__trigger-sampling-request", arguments, || {
        Said::text(WORD)
    });
    let conversation = client.create();
    let turn = client.ask(conversation, "a question of mine");
    let confirm = pending(&client, conversation, 1).remove(0);
    let request = &confirm.request;
    assert_eq!("f__trigger-sampling-request", request.call().tool);
    let shown = request.model();
    let prompt = "Resource trigger-sampling-request context: what is it?";
    assert_eq!(
        json!({"server": "f", "preset": "test", "model": shown.model, "maxTokens": 50, "temperature": 0.7,
            "systemPrompt": "You are a helpful test server.", "messages": [{"role": "user", "text": prompt}]}),
        json!(shown)
    );
    assert!(for_server(&scene).is_empty(), "nothing is sent before");
    let first = answered(&client, with(&confirm, Decision::AllowOnce));
    assert_eq!(AnswerOutcome::Resolved, first.outcome);
    assert_eq!("So be it.", client.wait_turn(turn).text);
    // What was shown was sent, once, and nothing of the conversation.
    let sent = for_server(&scene);
    assert_eq!(1, sent.len());
    let body = sent[0].json();
    assert_eq!(
        json!([{"role": "system", "content": "You are a helpful test server."}, {"role": "user", "content": prompt}]),
        body["messages"]
    );
    assert_eq!((&json!(50), None), (&body["max_tokens"], body.get("tools")));
    let heard = told(&scene).remove(0);
    for part in [WORD, r#""role": "assistant""#, r#""stopReason": "endTurn""#] {
        assert!(heard.contains(part), "{part}: {heard}");
    }
    assert!(
        words(&client, conversation).contains(&"mcp f got an answer of test".to_owned()),
        "{:?}",
        words(&client, conversation)
    );
    // Who allowed what to whom.
    let trail = records(
        &client,
        &AuditListParams {
            conversation: Some(conversation),
            ..AuditListParams::default()
        },
    );
    let of = |kind| trail.iter().find(|it| it.kind == kind).unwrap();
    let because = of(AuditKind::ConfirmRequested).because.clone();
    assert!(because.unwrap().starts_with("f wants an answer of test ("));
    let by = of(AuditKind::ConfirmResolved).by.clone().unwrap();
    assert_eq!(Some("pts/5"), by.tty.as_deref());
    // A later question has it only as far as the server told it.
    scene.upstream.answer(Said::text("Nothing."));
    client.wait_turn(client.ask(conversation, "and now?"));
    let last = scene.upstream.requests().pop().unwrap();
    let assistant = last.messages().into_iter();
    let mut assistant = assistant.filter(|(role, _)| role == "assistant");
    assert!(assistant.all(|(_, text)| !text.contains(WORD)));
    scene.upstream.finish();
}

/// What the server hears, and how the turn ends, when a person answers so.
#[track_caller]
fn check(decision: Decision, told_server: Option<&str>, stop: StopReason) {
    let Some(scene) = Scene::with(ON) else { return };
    let client = scene.world.person("pts/5");
    let (conversation, turn) = asks(&scene, &client, &[asked("what?")]);
    let confirm = pending(&client, conversation, 1).remove(0);
    for more in [Decision::AllowConversation, Decision::Edit] {
        client.refused::<aish_proto::confirm::Answer>(with(&confirm, more));
    }
    client.refused::<aish_proto::confirm::Answer>(filled(&confirm, json!({"x": 1})));
    let outcome = answered(&client, with(&confirm, decision)).outcome;
    assert_eq!(AnswerOutcome::Resolved, outcome);
    assert_eq!(Some(stop), client.wait_turn(turn).stop_reason);
    if let Some(expected) = told_server {
        assert_eq!(vec![expected], told(&scene));
    }
    assert_eq!(vec![ConfirmState::Denied], ends(&client, conversation));
    assert!(for_server(&scene).is_empty());
    scene.upstream.finish();
}

#[test]
fn what_is_not_allowed_is_not_asked() {
    let rejected = r#"[{"code": -1, "message": "the user rejected the sampling request"}]"#;
    check(Decision::Deny, Some(rejected), StopReason::End);
    check(Decision::Abort, None, StopReason::Denied);
}

/// Nobody is asked, and the server is told that there is no such method.
#[test]
fn it_is_off_unless_the_configuration_says_otherwise() {
    let Some(scene) = Scene::new() else { return };
    let client = scene.world.person("pts/5");
    let (conversation, turn) = asks(&scene, &client, &[asked("what?")]);
    client.wait_turn(turn);
    let off = r#"[{"code": -32601, "message": "this client lends no model to this server"}]"#;
    assert_eq!(vec![off], told(&scene));
    assert!(ends(&client, conversation).is_empty() && for_server(&scene).is_empty());
    scene.upstream.finish();
}

/// One call gets a few, each with a yes of its own; what cannot be shown is refused.
#[test]
fn one_call_gets_a_few_and_what_is_no_text_is_refused() {
    let Some(scene) = Scene::with(ON) else { return };
    let client = scene.world.person("pts/5");
    let mut image = asked("");
    image["messages"][0]["content"] =
        json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    let (conversation, turn) = asks(&scene, &client, &[image]);
    client.wait_turn(turn);
    let refused = "messages[0]: content of the type \\\"image\\\" is not taken, only text";
    assert_eq!(
        vec![format!(r#"[{{"code": -32602, "message": "{refused}"}}]"#)],
        told(&scene)
    );
    assert!(ends(&client, conversation).is_empty());
    let (conversation, turn) = asks(&scene, &client, &vec![asked("what?"); 6]);
    for confirm in pending(&client, conversation, 4) {
        answered(&client, with(&confirm, Decision::AllowOnce));
    }
    client.wait_turn(turn);
    let heard: Vec<Value> = serde_json::from_str(&told(&scene)[0]).unwrap();
    let texts = heard.iter().filter(|it| it["content"]["text"] == WORD);
    let rejected = heard.iter().filter(|it| it["code"] == -1);
    assert_eq!((4, 2), (texts.count(), rejected.count()), "{heard:?}");
    assert_eq!(4, for_server(&scene).len());
    let words = words(&client, conversation);
    let more = "f__ask asked for a model 2 times more than one call may; all of that was declined";
    assert_eq!(
        1,
        words.iter().filter(|it| it.contains(more)).count(),
        "{words:?}"
    );
    scene.upstream.finish();
}

/// Of two answers one counts, and the model is asked at most once.
#[test]
fn of_two_answers_one_counts() {
    let Some(scene) = Scene::with(ON) else { return };
    let people = ["pts/0", "pts/1"].map(|it| scene.world.person(it));
    for race in 0..20 {
        let (conversation, turn) = asks(&scene, &people[0], &[asked("what?")]);
        let confirm = pending(&people[0], conversation, 1).remove(0);
        let before = for_server(&scene).len();
        let start = Barrier::new(2);
        let outcomes: Vec<AnswerResult> = thread::scope(|scope| {
            let answers: Vec<_> = people
                .iter()
                .zip([Decision::AllowOnce, Decision::Deny])
                .map(|(person, decision)| {
                    let (start, confirm) = (&start, &confirm);
                    scope.spawn(move || {
                        start.wait();
                        answered(person, with(confirm, decision))
                    })
                })
                .collect();
            answers.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let won = outcomes.iter().map(|it| it.outcome);
        let won: Vec<bool> = won.map(|it| it == AnswerOutcome::Resolved).collect();
        assert!(won[0] != won[1], "race {race}: {outcomes:?}");
        people[0].wait_turn(turn);
        let asked = for_server(&scene).len() - before;
        assert_eq!(usize::from(won[0]), asked, "race {race}");
    }
    scene.upstream.finish();
}

/// The call is over, so nobody listens to the model any more.
#[test]
fn the_model_is_called_off_with_the_call() {
    let Some(scene) = Scene::with(ON) else { return };
    let client = scene.world.person("pts/5");
    let (gate, _, turn, confirm) = asks_by_hand(&scene, &client);
    answered(&client, with(&confirm, Decision::AllowOnce));
    gate.wait_request();
    client.done::<Cancel>(TurnParams { turn });
    gate.wait_hang_up();
    let stop = client.wait_turn(turn).stop_reason;
    assert_eq!(Some(StopReason::Cancelled), stop);
    scene.upstream.finish();
}

/// Whether it waits for a person or for the model, it is not asked again, and the call's reply says so.
#[test]
fn nothing_is_asked_again_after_a_kill() {
    for (allowed, asked, says) in [
        (
            false,
            0,
            "waited for a person's answer; the effect of this call is unknown",
        ),
        (true, 1, "the effect of this call is unknown"),
    ] {
        let Some(mut scene) = Scene::with(ON) else {
            return;
        };
        let client = scene.world.person("pts/5");
        let (gate, conversation, turn, confirm) = asks_by_hand(&scene, &client);
        if allowed {
            answered(&client, with(&confirm, Decision::AllowOnce));
            gate.wait_request();
        }
        drop(client);
        scene.daemon.take().unwrap().kill9();
        scene.daemon = Some(scene.world.daemon().spawn());
        let client = scene.world.person("pts/5");
        let late = answered(&client, with(&confirm, Decision::AllowOnce));
        assert_ne!(AnswerOutcome::Resolved, late.outcome);
        let stop = client.wait_turn(turn).stop_reason;
        assert_eq!(Some(StopReason::Interrupted), stop);
        let replies = events::<ToolResult>(&client, conversation);
        assert!(replies[0].content.contains(says), "{}", replies[0].content);
        assert_eq!((1, asked), (replies.len(), for_server(&scene).len()));
        scene.upstream.finish();
    }
}
