//! Questions and answers: what is kept, what waits, what stops.

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{
    ConversationParams, Rename, RenameParams, SetModel, SetModelParams, StatusOf,
};
use aish_proto::event::{TurnFinished, UserMessage};
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::turn::{
    AgainParams, Attachment, Cancel, Continue, FailureClass, QueueList, QueueMove, QueueMoveParams,
    QueueParams, QueueRemove, QueueTurnParams, Retry, Send, SendMode, StopReason, TurnParams,
    TurnStatus, Wait, WaitParams,
};
use aish_testkit::client::question;
use aish_testkit::{Answer, Client, Upstream, World};

fn again(conversation: ConversationId, turn: Option<TurnId>, key: &str) -> AgainParams {
    AgainParams {
        conversation,
        turn,
        idempotency_key: key.to_owned(),
        model: None,
        accept_cost: false,
    }
}

#[test]
fn a_question_is_answered_and_the_next_one_remembers_it() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    upstream.answer(Answer::text("It is 4.").usage(Some((12, 5))));
    let record = client.wait_turn(client.ask(conversation, "what is 2 + 2?"));
    assert_eq!(
        (Some(StopReason::End), "It is 4."),
        (record.stop_reason, record.text.as_str())
    );
    assert_eq!(Some(12), record.usage.and_then(|it| it.input_tokens));
    client.wait_turn(client.ask(conversation, "and twice that?"));
    let said = upstream.wait_requests(2).messages();
    let roles: Vec<&str> = said.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(vec!["system", "user", "assistant", "user"], roles);
    assert_eq!("It is 4.", said[2].1);
    let status = client.done::<StatusOf>(ConversationParams { id: conversation });
    assert_eq!(("what is 2 + 2?", 2), (status.title.as_str(), status.turns));
}

/// The same key is the same turn, now, later, and after a restart; another question with it is an error.
#[test]
fn a_key_asks_once() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let mut params = question(conversation, "only once");
    params.idempotency_key = "k1".to_owned();
    let first = client.done::<Send>(params.clone());
    assert!(!first.duplicate);
    let again = client.done::<Send>(params.clone());
    assert_eq!(
        (first.turn, first.seq, true),
        (again.turn, again.seq, again.duplicate)
    );
    client.wait_turn(first.turn);
    assert_eq!(0, daemon.terminate());
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let after = client.done::<Send>(params.clone());
    assert_eq!((first.turn, true), (after.turn, after.duplicate));
    params.text = "something else".to_owned();
    let refused = client.refused::<Send>(params);
    assert_eq!(-32602, refused.code, "{refused}");
    assert_eq!(1, upstream.requests().len());
}

#[test]
fn fifty_sends_of_one_key_at_once_are_one_turn() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let conversation = world.client().create();
    let turns: Vec<_> = std::thread::scope(|scope| {
        let send = || {
            let mut params = question(conversation, "together");
            params.idempotency_key = "same".to_owned();
            world.client().done::<Send>(params)
        };
        let threads: Vec<_> = (0..50).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(1, turns.iter().filter(|it| !it.duplicate).count());
    assert!(turns.iter().all(|it| it.turn == turns[0].turn));
    world.client().wait_turn(turns[0].turn);
    assert_eq!(1, upstream.requests().len());
}

/// Questions wait in their order; what waits can be moved, taken out, refused.
#[test]
fn questions_wait_for_the_running_turn() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let running = client.ask(conversation, "first");
    gate.wait_request();
    let [second, third, fourth] =
        ["second", "third", "fourth"].map(|it| client.ask(conversation, it));
    let params = QueueParams { conversation };
    let positions = |client: &Client| -> Vec<TurnId> {
        client
            .done::<QueueList>(params)
            .queue
            .iter()
            .map(|it| it.turn)
            .collect()
    };
    assert_eq!(vec![second, third, fourth], positions(&client));
    client.done::<QueueMove>(QueueMoveParams {
        conversation,
        turn: fourth,
        position: 1,
    });
    assert_eq!(vec![fourth, second, third], positions(&client));
    client.done::<QueueRemove>(QueueTurnParams {
        conversation,
        turn: second,
    });
    let removed = client.wait_turn(second);
    assert_eq!(Some(StopReason::Cancelled), removed.stop_reason);
    let mut params = question(conversation, "now or never");
    params.mode = SendMode::Reject;
    assert_eq!("busy", client.refused::<Send>(params).kind());
    let mut params = question(conversation, "only with that one");
    params.expected_turn = Some(second);
    assert_eq!("staleTurn", client.refused::<Send>(params).kind());
    gate.text("answered");
    gate.finish();
    for turn in [running, fourth, third] {
        assert_eq!(Some(StopReason::End), client.wait_turn(turn).stop_reason);
    }
    let asked: Vec<String> = upstream.requests().iter().map(|it| it.question()).collect();
    assert_eq!(vec!["first", "fourth", "third"], asked);
}

#[test]
fn a_full_queue_says_so() {
    let upstream = Upstream::start();
    let world = World::new();
    let limit = "\n[limits]\nmax_queue_per_conversation = 2\n";
    world.write_config(&format!("{}{limit}", upstream.config("test")));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    client.ask(conversation, "first");
    gate.wait_request();
    client.ask(conversation, "second");
    client.ask(conversation, "third");
    let refused = client.refused::<Send>(question(conversation, "one too many"));
    assert_eq!(("overloaded", -31006), (refused.kind(), refused.code));
    gate.finish();
}

/// The request is dropped at once, the text is kept, the turn says who stopped it.
#[test]
fn a_cancel_drops_the_request_and_keeps_the_text() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let mut follow = client.attach(conversation, ReplayStart::Now);
    follow.until_kind("replayComplete");
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let turn = client.ask(conversation, "count");
    gate.text("one two");
    follow.until_kind("textDelta");
    assert!(client.done::<Cancel>(TurnParams { turn }).cancelled);
    gate.wait_hang_up();
    let end: TurnFinished = follow.until_finished(turn).read().unwrap();
    assert_eq!(
        (StopReason::Cancelled, "one two"),
        (end.stop_reason, end.text.as_str())
    );
    assert!(
        !client.done::<Cancel>(TurnParams { turn }).cancelled,
        "a second time it is over already"
    );
    client.wait_turn(client.ask(conversation, "go on"));
    let said = upstream.wait_requests(2).messages();
    assert_eq!(("assistant".to_owned(), "one two".to_owned()), said[2]);
}

#[test]
fn a_cancel_before_the_first_byte_and_of_a_waiting_turn_ends_both() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    upstream.answer(Answer::silence());
    let running = client.ask(conversation, "silence");
    upstream.wait_requests(1);
    let waiting = client.ask(conversation, "never asked");
    for turn in [waiting, running] {
        assert!(client.done::<Cancel>(TurnParams { turn }).cancelled);
        let record = client.wait_turn(turn);
        assert_eq!(
            (Some(StopReason::Cancelled), ""),
            (record.stop_reason, record.text.as_str())
        );
    }
    assert_eq!(1, upstream.requests().len());
}

#[test]
fn waiting_has_a_limit_of_its_own_and_the_turn_goes_on() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let turn = client.ask(conversation, "slow");
    let params = WaitParams {
        turn,
        timeout_ms: Some(1),
    };
    assert_eq!("timeout", client.refused::<Wait>(params).kind());
    assert_eq!(
        TurnStatus::Running,
        client
            .done::<aish_proto::turn::Get>(TurnParams { turn })
            .status
    );
    gate.text("there");
    gate.finish();
    assert_eq!("there", client.wait_turn(turn).text);
}

/// Only a retry or a continuation asks again, each in a turn of its own.
#[test]
fn a_failed_turn_can_be_asked_again_or_continued() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    upstream.answer(Answer::stream().then_text("the beginning").then_cut());
    let failed = client.ask(conversation, "tell");
    let record = client.wait_turn(failed);
    assert_eq!(
        (Some(StopReason::Upstream), Some(FailureClass::Cut)),
        (record.stop_reason, record.error.map(|it| it.class))
    );
    assert_eq!("the beginning", record.text);
    let go_on = client.done::<Continue>(again(conversation, None, "c"));
    client.wait_turn(go_on.turn);
    let said = upstream.wait_requests(2).messages();
    assert_eq!("the beginning", said[2].1);
    assert!(
        said[3].1.contains("Continue exactly where it ended"),
        "{said:?}"
    );
    let retried = client.done::<Retry>(again(conversation, Some(failed), "r"));
    client.wait_turn(retried.turn);
    let said = upstream.wait_requests(3).messages();
    assert!(!said.iter().any(|it| it.1 == "the beginning"), "{said:?}");
    assert_eq!("tell", said.last().unwrap().1);
    let same = client.done::<Retry>(again(conversation, Some(failed), "r"));
    assert_eq!((retried.turn, true), (same.turn, same.duplicate));
}

/// What a script branches on.
#[test]
fn failures_end_the_turn_with_their_class() {
    let upstream = Upstream::start();
    let world = World::new();
    let nobody = format!(
        "[models.nobody]\nendpoint = \"{}\"\nmodel = \"m\"\n",
        Upstream::nobody()
    );
    world.write_config(&format!("{}{nobody}", upstream.config("test")));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let class = |model: Option<&str>| {
        let mut params = question(conversation, "hello?");
        params.model = model.map(str::to_owned);
        let record = client.wait_turn(client.done::<Send>(params).turn);
        assert_eq!(Some(StopReason::Upstream), record.stop_reason);
        let error = record.error.unwrap();
        (error.class, error.message)
    };
    let (kind, message) = class(Some("nobody"));
    assert_eq!(
        (FailureClass::Unreachable, "transport: Connection refused"),
        (kind, message.as_str())
    );
    upstream.answer(Answer::status(401, r#"{"error":{"message":"bad key"}}"#));
    assert_eq!(FailureClass::Unauthorized, class(None).0);
    upstream.answer(Answer::status(
        400,
        r#"{"error":{"message":"no such thing"}}"#,
    ));
    let (kind, message) = class(None);
    assert_eq!(FailureClass::Rejected, kind);
    assert_eq!("transport: HTTP 400: no such thing", message);
    upstream.answer(Answer::html());
    assert_eq!(FailureClass::Rejected, class(None).0);
    // One wait for a short Retry-After, then one more try.
    upstream.answer(Answer::busy(1));
    upstream.answer(Answer::text("better now"));
    let record = client.wait_turn(client.ask(conversation, "busy?"));
    assert_eq!("better now", record.text);
}

/// A turn goes on when every client has gone.
#[test]
fn a_turn_outlives_its_clients() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let turn = client.ask(conversation, "go on alone");
    gate.wait_request();
    drop(client);
    gate.text("done anyway");
    gate.finish();
    assert_eq!("done anyway", world.client().wait_turn(turn).text);
}

/// Nothing is offered, so a call is answered as unknown, and the model may say something else.
#[test]
fn a_model_that_calls_what_was_never_offered_is_told_so() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    upstream.answer(
        Answer::stream()
            .then_call(0, "call_1", "fs__read", r#"{"path":"x"}"#)
            .finish(Some("tool_calls")),
    );
    upstream.answer(Answer::text("I cannot read files."));
    let mut follow = client.attach(conversation, ReplayStart::Now);
    follow.until_kind("replayComplete");
    let turn = client.ask(conversation, "read x");
    follow.until_finished(turn);
    let recording = follow.recording();
    let kinds = recording.kinds();
    assert!(
        kinds.contains(&"toolArgumentsDelta") && kinds.contains(&"toolResult"),
        "{kinds:?}"
    );
    let said = upstream.wait_requests(2).messages();
    assert!(said.last().unwrap().1.contains("unknown tool"), "{said:?}");
    assert_eq!("I cannot read files.", client.wait_turn(turn).text);
}

/// Wire: `steer` joins before the next model request of the running turn.
#[test]
fn a_steering_question_joins_the_running_turn() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let running = client.ask(conversation, "look around");
    gate.wait_request();
    let mut params = question(conversation, "in the attic too");
    params.mode = SendMode::Steer;
    let steering = client.done::<Send>(params).turn;
    gate.delta(&serde_json::json!({"tool_calls": [
        {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    ]}));
    gate.finish();
    client.wait_turn(running);
    let merged = client.wait_turn(steering);
    assert_eq!(Some(running), merged.merged_into);
    let said = upstream.wait_requests(2).messages();
    assert_eq!(
        ("user".to_owned(), "in the attic too".to_owned()),
        said.last().unwrap().clone()
    );
    assert_eq!(2, upstream.requests().len());
}

/// A name by hand beats the conversation's, which beats the default.
#[test]
fn the_model_is_the_one_that_was_named() {
    let (one, two) = (Upstream::start(), Upstream::start());
    let world = World::new();
    let config = format!(
        "default_model = \"one\"\n{}{}",
        one.preset("one", ""),
        two.preset("two", "")
    );
    world.write_config(&config);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    client.wait_turn(client.ask(conversation, "default"));
    let mut params = question(conversation, "by hand");
    params.model = Some("two".to_owned());
    client.wait_turn(client.done::<Send>(params).turn);
    client.wait_turn(client.ask(conversation, "default again"));
    assert_eq!((2, 1), (one.requests().len(), two.requests().len()));
    client.done::<SetModel>(SetModelParams {
        id: conversation,
        model: Some("two".to_owned()),
    });
    client.wait_turn(client.ask(conversation, "the conversation's"));
    assert_eq!((2, 2), (one.requests().len(), two.requests().len()));
    let mut params = question(conversation, "nobody");
    params.model = Some("three".to_owned());
    assert_eq!("notFound", client.refused::<Send>(params).kind());
}

/// What was named by hand and is not configured any more is not answered by somebody else.
#[test]
fn a_model_that_is_gone_is_not_replaced_in_silence() {
    let upstream = Upstream::start();
    let world = World::new();
    let config =
        |names: &[&str]| -> String { names.iter().map(|it| upstream.preset(it, "")).collect() };
    world.write_config(&format!(
        "default_model = \"one\"\n{}",
        config(&["one", "two"])
    ));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    client.ask(conversation, "first");
    gate.wait_request();
    let mut params = question(conversation, "for two alone");
    params.model = Some("two".to_owned());
    let waiting = client.done::<Send>(params).turn;
    world.write_config(&format!("default_model = \"one\"\n{}", config(&["one"])));
    client.done::<aish_proto::daemon::Reload>(aish_proto::method::Empty {});
    gate.text("done");
    gate.finish();
    let record = client.wait_turn(waiting);
    let error = record.error.unwrap();
    assert_eq!(FailureClass::Config, error.class);
    assert!(error.message.contains("two"), "{}", error.message);
    assert_eq!(1, upstream.requests().len());
}

/// A question that steers joins the next request also after a pause that the server asked for.
#[test]
fn steering_joins_after_a_pause() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let mut follow = client.attach(conversation, ReplayStart::Now);
    follow.until_kind("replayComplete");
    upstream.answer(Answer::busy(1));
    client.ask(conversation, "first");
    follow.until_kind("status");
    let mut params = question(conversation, "and this");
    params.mode = SendMode::Steer;
    let steering = client.done::<Send>(params).turn;
    assert!(client.wait_turn(steering).merged_into.is_some());
    assert_eq!("first\n\nand this", upstream.wait_requests(2).question());
}

/// Attachments and pieces: what was put ahead goes along, and what is too large is refused whole.
#[test]
fn large_input_goes_ahead_in_pieces() {
    use aish_proto::daemon::{BlobPut, BlobPutParams};
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let put = |blob, text: &str| {
        let text = text.to_owned();
        client.done::<BlobPut>(BlobPutParams { blob, text })
    };
    let half = "0123456789".repeat(40_000);
    let first = put(None, &half);
    let second = put(Some(first.blob), &half);
    assert_eq!(800_000, second.bytes);
    let mut params = question(conversation, "how long?");
    params.attachments = vec![Attachment {
        name: "stdin".to_owned(),
        text: None,
        blob: Some(first.blob),
        base64: false,
    }];
    let mut follow = client.attach(conversation, ReplayStart::Now);
    follow.until_kind("replayComplete");
    params.model = Some("none".to_owned());
    assert_eq!(
        "notFound",
        client.refused::<Send>(params.clone()).kind(),
        "there is no such model, and the blob stays"
    );
    params.model = None;
    let turn = client.done::<Send>(params.clone()).turn;
    let message: UserMessage = follow.until_kind("userMessage").read().unwrap();
    assert_eq!(800_000, message.attachments[0].text.len());
    follow.until_finished(turn);
    assert!(upstream.wait_requests(1).question().len() > 800_000);
    params.idempotency_key = "again".to_owned();
    assert_eq!(
        "notFound",
        client.refused::<Send>(params.clone()).kind(),
        "a blob is used once"
    );
    let (one, two) = (put(None, &half), put(None, &half));
    let attachment = |blob| Attachment {
        name: "a".to_owned(),
        text: None,
        blob: Some(blob),
        base64: false,
    };
    params.attachments = vec![
        attachment(one.blob),
        attachment(two.blob),
        attachment(put(None, &half).blob),
    ];
    assert_eq!("tooLarge", client.refused::<Send>(params).kind());
}

/// Titles come from the first message, can be changed, and say nothing that a screen could trip over.
#[test]
fn conversations_have_titles() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let rename = |title: &str| {
        client.call::<Rename>(RenameParams {
            id: conversation,
            title: title.to_owned(),
        })
    };
    assert_eq!(-32602, rename("bell\u{7}").unwrap_err().code);
    assert_eq!(-32602, rename(" ").unwrap_err().code);
    rename("build").unwrap();
    let status = client.done::<StatusOf>(ConversationParams { id: conversation });
    assert_eq!("build", status.title);
}

/// An actor that nobody needs leaves memory, also after a client has waited for its turn; it is there again when asked.
#[test]
fn a_conversation_that_nobody_needs_leaves_memory() {
    let upstream = Upstream::start();
    let world = World::new();
    let limit = "\n[limits]\nmax_conversations_in_memory = 0\n";
    world.write_config(&format!("{}{limit}", upstream.config("test")));
    let daemon = world.daemon().env("AISH_LOG", "debug").spawn();
    let client = world.client();
    let conversation = client.create();
    client.wait_turn(client.ask(conversation, "one"));
    let closed = || daemon.log_text().contains("closed: nobody needs it");
    aish_testkit::wait::until_true("it closes", closed);
    client.wait_turn(client.ask(conversation, "two"));
    let roles = upstream.wait_requests(2).messages().len();
    assert_eq!(4, roles, "it remembers");
}
