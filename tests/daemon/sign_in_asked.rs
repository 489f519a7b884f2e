//! A call to a server that wants a person to sign in: a question that every terminal sees, that outlives the daemon, and that is over
//! when somebody has signed in, wherever.

use aish_proto::confirm::{Answer, AnswerOutcome, ConfirmState, ConfirmSubject, Decision};
use aish_proto::event::{ConfirmRequested, ConfirmResolved, ToolCall};
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::mcp::ServerState;
use aish_proto::turn::{OnConfirm, UnattendedAction};
use aish_testkit::{Client, Daemon, World};
use serde_json::{Value, json};

use crate::consent::{pending, with};
use crate::lists::{call, params, result};
use crate::sign_in::{Guarded, sign_in, wait_for, world};
use crate::tools::events;

const REVOKED: &str = "needs a person to sign in again";

/// Tools of the server, called in a conversation of its own.
fn begin(client: &Client, tools: &[&str], then: UnattendedAction) -> (ConversationId, TurnId) {
    let conversation = client.create();
    let calls: Vec<Value> = tools
        .iter()
        .map(|it| call(it, &format!("guarded__{it}"), json!({})))
        .collect();
    let mut run = params(conversation, &calls);
    run.on_confirm = Some(OnConfirm {
        then,
        ..OnConfirm::default()
    });
    let turn = client.done::<aish_proto::tool::Run>(run).turn;
    (conversation, turn)
}

/// A server that somebody has signed in to.
struct SignedIn {
    server: Guarded,
    world: World,
    daemon: Daemon,
    client: Client,
    issuer: String,
}

fn signed_in(client: impl Fn(&World) -> Client) -> SignedIn {
    let server = Guarded::start();
    let world = world(&server);
    let daemon = world.daemon().spawn();
    let client = client(&world);
    wait_for(&client, ServerState::NeedsSignIn);
    let issuer = sign_in(&client, &server).issuer;
    SignedIn {
        server,
        world,
        daemon,
        client,
        issuer,
    }
}

fn a_person(world: &World) -> Client {
    world.person("pts/3")
}

fn revoke(server: &Guarded) {
    server.turn(&json!({"expire": true, "refresh": "invalid_grant"}));
}

#[test]
fn a_call_waits_over_a_kill_until_somebody_has_signed_in_and_then_runs_once() {
    let SignedIn {
        server,
        world,
        daemon,
        client,
        issuer,
    } = signed_in(a_person);
    revoke(&server);
    let (conversation, turn) = begin(&client, &["look"], UnattendedAction::Ask);
    let asked = pending(&client, conversation);
    let ConfirmSubject::SignIn(subject) = &*asked.request.subject else {
        panic!("{asked:?}");
    };
    assert_eq!(
        ("guarded", Some(issuer.as_str()), "guarded__look"),
        (
            subject.server.as_str(),
            subject.issuer.as_deref(),
            subject.call.tool.as_str()
        )
    );
    assert!(subject.why.contains(REVOKED), "{}", subject.why);
    let shown = world.ctl(&["confirm", "ls"]).run().ok();
    assert!(
        shown.out().contains("sign in to guarded"),
        "{}",
        shown.out()
    );
    // It is the same question after a kill.
    drop(client);
    daemon.kill9();
    let _daemon = world.daemon().spawn();
    let client = world.person("pts/4");
    let again = pending(&client, conversation);
    assert_eq!(asked.request, again.request);
    wait_for(&client, ServerState::NeedsSignIn);
    server.turn(&json!({"refresh": "ok"}));
    sign_in(&client, &server);
    client.wait_turn(turn);
    assert_eq!("done look", result(&client, conversation, "look").content);
    assert_eq!(json!(1), server.seen()["calls"]);
    let ends = events::<ConfirmResolved>(&client, conversation);
    let ends: Vec<_> = ends.iter().map(|it| (it.state, it.by.is_some())).collect();
    assert_eq!(vec![(ConfirmState::Allowed, false)], ends);
    assert_eq!(2, events::<ToolCall>(&client, conversation).len());
    let late = client.done::<Answer>(with(&again, Decision::AllowOnce));
    assert_eq!(AnswerOutcome::AlreadyResolved, late.outcome);
}

#[test]
fn a_no_tells_the_model_why_and_a_yes_without_a_sign_in_asks_again() {
    let scene = signed_in(a_person);
    let (client, server) = (&scene.client, &scene.server);
    revoke(server);
    let (conversation, turn) = begin(client, &["look"], UnattendedAction::Ask);
    let first = pending(client, conversation);
    let tried = client.done::<Answer>(with(&first, Decision::AllowOnce));
    assert_eq!(AnswerOutcome::Resolved, tried.outcome);
    let second = pending(client, conversation);
    assert_ne!(first.request.confirm, second.request.confirm);
    let mut no = with(&second, Decision::Deny);
    no.reason = Some("not today".to_owned());
    client.done::<Answer>(no);
    client.wait_turn(turn);
    let said = result(client, conversation, "look").content;
    assert!(
        said.contains(REVOKED) && said.ends_with("; denied by user: not today"),
        "{said}"
    );
    assert_eq!(json!(0), server.seen()["calls"]);
}

#[test]
fn where_nobody_can_be_asked_the_call_fails_with_the_next_command() {
    let scene = signed_in(World::client);
    let (client, server) = (&scene.client, &scene.server);
    revoke(server);
    let (conversation, turn) = begin(client, &["look"], UnattendedAction::Deny);
    client.wait_turn(turn);
    let said = result(client, conversation, "look").content;
    assert!(said.ends_with(": aishctl mcp login guarded"), "{said}");
    assert!(events::<ConfirmRequested>(client, conversation).is_empty());
}

#[test]
fn what_needs_more_than_was_granted_waits_for_more() {
    let scene = signed_in(a_person);
    let (client, server) = (&scene.client, &scene.server);
    let (conversation, turn) = begin(client, &["look", "write"], UnattendedAction::Ask);
    let asked = pending(client, conversation);
    let ConfirmSubject::SignIn(subject) = &*asked.request.subject else {
        panic!("{asked:?}");
    };
    assert_eq!(vec!["files:write"], subject.scopes);
    sign_in(client, server);
    client.wait_turn(turn);
    assert_eq!("done write", result(client, conversation, "write").content);
    assert_eq!("done look", result(client, conversation, "look").content);
}
