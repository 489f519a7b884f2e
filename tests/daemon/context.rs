//! What a model is shown of a conversation, what leaves that, and what comes back.

use aish_proto::attach::ReplayStart;
use aish_proto::context::{
    Archive, ArchiveParams, ArchiveResult, ContextPreviewParams, ContextPreviewResult, Preview,
    Restore, RestoreParams,
};
use aish_proto::conversation::{Search, SearchParams};
use aish_proto::envelope::Envelope;
use aish_proto::event::{Evicted, Status};
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::mcp::Pin;
use aish_proto::turn::{FailureClass, OnConfirm, Send, SendParams, StopReason};
use aish_testkit::client::question;
use aish_testkit::{Answer, Client, Daemon, Upstream, World};

use crate::pinned::{Scene, pin};

fn world(context: &str, preset: &str) -> (Upstream, World, Daemon) {
    let (upstream, world) = (Upstream::start(), World::new());
    world.write_config(&format!(
        "default_model = \"test\"\n{}\n[context]\n{context}\n",
        upstream.preset("test", preset)
    ));
    let daemon = world.daemon().spawn();
    (upstream, world, daemon)
}

/// Asks, and waits for the end.
#[track_caller]
pub(crate) fn asked(client: &Client, conversation: ConversationId, text: &str) -> TurnId {
    let turn = client.ask(conversation, text);
    assert_eq!(Some(StopReason::End), client.wait_turn(turn).stop_reason);
    turn
}

pub(crate) fn preview(
    client: &Client,
    conversation: ConversationId,
    text: Option<&str>,
) -> ContextPreviewResult {
    client.done::<Preview>(ContextPreviewParams {
        conversation,
        text: text.map(str::to_owned),
        attachments: vec![],
        model: None,
        on_confirm: None,
    })
}

fn archive(client: &Client, conversation: ConversationId) -> ArchiveResult {
    client.done::<Archive>(ArchiveParams {
        conversation,
        cursor: None,
        limit: None,
    })
}

/// The stored events so far.
pub(crate) fn log(client: &Client, conversation: ConversationId) -> Vec<Envelope> {
    let mut follow = client.attach(conversation, ReplayStart::Start);
    follow.until_kind("replayComplete");
    follow.events_so_far().to_vec()
}

pub(crate) fn statuses(log: &[Envelope]) -> Vec<String> {
    let texts = log.iter().filter_map(Envelope::read::<Status>);
    texts.map(|it| it.text).collect()
}

fn by_turn(conversation: ConversationId, turn: TurnId) -> RestoreParams {
    RestoreParams {
        conversation,
        turn: Some(turn),
        event: None,
    }
}

fn questions(upstream: &Upstream) -> Vec<String> {
    let messages = upstream.requests().pop().unwrap().messages();
    let users = messages.into_iter().filter(|(role, _)| role == "user");
    users.map(|(_, text)| text).collect()
}

fn last_body(upstream: &Upstream) -> String {
    String::from_utf8(upstream.requests().pop().unwrap().body).unwrap()
}

#[test]
fn old_turns_leave_together_and_people_are_told_once() {
    let (upstream, world, _daemon) = world("max_turns = 5", "");
    let client = world.client();
    let conversation = client.create();
    for number in 1..=6 {
        asked(&client, conversation, &format!("question {number}"));
    }
    // Of six exchanges five are too many only by one, and three stay: there is room until the next time.
    let expected = ["question 4", "question 5", "question 6"];
    assert_eq!(expected.to_vec(), questions(&upstream));
    asked(&client, conversation, "question 7");
    asked(&client, conversation, "question 8");
    assert_eq!(5, questions(&upstream).len());
    let log = log(&client, conversation);
    let evicted: Vec<u64> = log
        .iter()
        .filter_map(Envelope::read::<Evicted>)
        .map(|it| it.turns)
        .collect();
    assert_eq!(vec![3], evicted);
    let told = "3 old turns left the context; originals archived — :context archive";
    assert_eq!(vec![told.to_owned()], statuses(&log));
    upstream.finish();
}

/// The request is built by one function, whatever is in it: tools, a question that is not there yet, exchanges that leave.
#[test]
fn the_preview_is_the_bytes_that_are_sent() {
    let (upstream, world, _daemon) = world("max_turns = 4\n[tools]\nbuiltin = true", "");
    let client = world.client();
    let conversation = client.create();
    upstream.answer_with(|request| {
        if request.question().contains("time")
            && !request.messages().iter().any(|it| it.0 == "tool")
        {
            return Answer::stream().then_call(0, &crate::consent::call_id(), "aish__time", "{}");
        }
        Answer::text("said \"so\"\n\tand 漢字")
    });
    for number in 0..12 {
        let text = format!("question {number} \u{7} é");
        let before = preview(&client, conversation, Some(&text));
        asked(&client, conversation, &text);
        assert_eq!(last_body(&upstream), before.body, "question {number}");
        assert_eq!(before.body.len() as u64, before.bytes);
        assert_eq!(
            number % 3 == 1 && number > 3,
            !before.evicts.is_empty(),
            "{number}"
        );
        let again = preview(&client, conversation, None);
        assert_eq!((again.turns, 4), (before.turns, again.max_turns));
    }
    // The second request of a turn, seen while a person is asked between the two.
    let turn = client.ask(conversation, "the time?");
    let mut follow = client.attach(conversation, ReplayStart::Start);
    follow.until_kind("confirmRequested");
    client.done::<aish_proto::turn::Cancel>(aish_proto::turn::TurnParams { turn });
    let after = preview(&client, conversation, Some("well?"));
    assert!(after.body.contains("\"tool_call_id\""), "{}", after.body);
    asked(&client, conversation, "well?");
    assert_eq!(last_body(&upstream), after.body);
    assert!(
        after.tokens.tools > 50 && after.tokens.system > 20,
        "{:?}",
        after.tokens
    );
    upstream.finish();
}

#[test]
fn the_preview_has_what_pinned_resources_hold() {
    let scene = Scene::with("watched");
    let client = scene.world.client();
    let conversation = client.create();
    client.done::<Pin>(pin(conversation, "note://1"));
    let before = preview(&client, conversation, Some("first"));
    asked(&client, conversation, "first");
    assert_eq!(last_body(&scene.upstream), before.body);
    assert!(before.body.contains("<pinned name="));
    assert!(before.tokens.pinned > 5, "{:?}", before.tokens);
    scene.upstream.finish();
}

#[test]
fn what_left_is_found_listed_and_put_back_over_a_kill() {
    let (upstream, world, daemon) = world("max_turns = 4", "");
    let client = world.client();
    let conversation = client.create();
    let turns: Vec<TurnId> = (1..=5)
        .map(|number| asked(&client, conversation, &format!("question {number} pomelo")))
        .collect();
    let left = archive(&client, conversation);
    let listed: Vec<TurnId> = left.exchanges.iter().map(|it| it.turn).collect();
    assert_eq!(
        (vec![turns[2], turns[1], turns[0]], 3),
        (listed, left.total)
    );
    let restore = |client: &Client, turn| client.call::<Restore>(by_turn(conversation, turn));
    restore(&client, turns[1]).unwrap();
    let back = archive(&client, conversation);
    let restored: Vec<bool> = back.exchanges.iter().map(|it| it.restored).collect();
    assert_eq!((vec![false, true, false], 2), (restored, back.total));
    let refused = restore(&client, turns[1]).unwrap_err();
    assert!(refused.message.contains("is in the context"), "{refused}");
    let refused = restore(&client, turns[4]).unwrap_err();
    assert_eq!("notFound", refused.kind());
    // With the next question there would be one too many, and what was put back would never be shown.
    let refused = restore(&client, turns[0]).unwrap_err();
    assert_eq!("budgetExceeded", refused.kind());
    // It stands where it stood, also for a daemon that was not there.
    let before = preview(&client, conversation, Some("then?"));
    daemon.kill9();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    assert_eq!(
        before.body,
        preview(&client, conversation, Some("then?")).body
    );
    asked(&client, conversation, "then?");
    let expected = [
        "question 2 pomelo",
        "question 4 pomelo",
        "question 5 pomelo",
        "then?",
    ];
    assert_eq!(expected.to_vec(), questions(&upstream));
    // There is no room for another one, and nothing else leaves for it.
    let refused = restore(&client, turns[0]).unwrap_err();
    assert_eq!("budgetExceeded", refused.kind());
    assert!(
        refused.message.contains("context.max_turns is 4"),
        "{refused}"
    );
    // When it is too much again, what was put back leaves first, and is listed once.
    asked(&client, conversation, "and then?");
    assert_eq!(2, questions(&upstream).len());
    let listed = archive(&client, conversation);
    let all: Vec<TurnId> = listed.exchanges.iter().map(|it| it.turn).collect();
    assert_eq!(vec![turns[4], turns[3], turns[2], turns[1], turns[0]], all);
    assert_eq!(5, listed.total);
    let found = client.done::<Search>(SearchParams {
        query: "POMELO".to_owned(),
        id: Some(conversation),
        include_archived: false,
        cursor: None,
        limit: None,
    });
    let hits: Vec<(Option<TurnId>, bool)> = found
        .hits
        .iter()
        .map(|it| (it.turn, it.left_context))
        .collect();
    assert_eq!(
        turns
            .iter()
            .rev()
            .map(|it| (Some(*it), true))
            .collect::<Vec<_>>(),
        hits
    );
    upstream.finish();
}

/// It says what is too long, by how much, and what to do; nothing is sent and nothing leaves for it.
#[test]
fn a_question_that_is_too_long_is_refused_in_words_and_hurts_nothing() {
    let (upstream, world, _daemon) = world("", "context_tokens = 1000");
    let client = world.client();
    let conversation = client.create();
    upstream.answer(Answer::text("hi").usage(Some((100, 5))));
    asked(&client, conversation, "hello");
    let requests = upstream.requests().len();
    let text = "pomelo ".repeat(2_000);
    let before = preview(&client, conversation, Some(&text));
    let turn = client.ask(conversation, &text);
    let record = client.wait_turn(turn);
    assert_eq!(Some(StopReason::Upstream), record.stop_reason);
    let error = record.error.unwrap();
    assert_eq!(FailureClass::ContextOverflow, error.class);
    let said = &error.message;
    assert!(
        said.contains("test has room for 500 (1000 without the 500 that are kept for the answer)"),
        "{said}"
    );
    assert!(
        said.contains("raise context_tokens of [models.test]"),
        "{said}"
    );
    assert_eq!(said.strip_prefix("broker: "), before.too_long.as_deref());
    assert_eq!(requests, upstream.requests().len());
    let evictions = log(&client, conversation);
    assert!(!evictions.iter().any(|it| it.kind == "evicted"));
    asked(&client, conversation, "shorter");
    // The long one has left with what was before it, for it does not fit.
    assert_eq!(vec!["shorter".to_owned()], questions(&upstream));
    upstream.finish();
}

/// A server that counts is believed, also by the next daemon.
#[test]
fn a_token_is_what_the_server_counts() {
    let (upstream, world, daemon) = world("", "context_tokens = 8000");
    let client = world.client();
    let conversation = client.create();
    let usual = preview(&client, conversation, Some("hello"));
    assert_eq!(3.0, usual.tokens.bytes_per_token);
    upstream.answer(Answer::text("hi").usage(Some((usual.bytes / 5, 5))));
    asked(&client, conversation, "hello");
    let ratio = preview(&client, conversation, None).tokens.bytes_per_token;
    assert!((4.9..5.1).contains(&ratio), "{ratio}");
    assert_eq!(0, daemon.terminate());
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let remembered = preview(&client, conversation, None).tokens;
    assert_eq!(
        (ratio, Some(8000)),
        (remembered.bytes_per_token, remembered.limit)
    );
    // It says that everything is a token: the next request is held to that, and no further than two bytes.
    upstream.answer(Answer::text("hi").usage(Some((u64::MAX / 2, 5))));
    asked(&client, conversation, "again");
    let least = preview(&client, conversation, None).tokens.bytes_per_token;
    assert!((2.0..ratio).contains(&least), "{least}");
    upstream.finish();
}

/// A long talk: every request is one that a strict server takes (the upstream examines it), the last questions are in it,
/// and nothing is lost.
#[test]
fn a_talk_goes_on_over_many_evictions() {
    let (upstream, world, _daemon) = world("max_turns = 6\n[tools]\nbuiltin = true", "");
    let client = world.client();
    let conversation = client.create();
    upstream.answer_with(|request| {
        let calls = request.question().contains("call");
        let last = request.messages().pop().unwrap().0;
        if calls && last == "user" {
            return Answer::stream().then_call(0, &crate::consent::call_id(), "aish__time", "{}");
        }
        Answer::text("yes")
    });
    let mut turns = vec![];
    for number in 0..60 {
        let text = if number % 3 == 0 {
            format!("call {number}")
        } else {
            format!("plain {number}")
        };
        let params = SendParams {
            on_confirm: Some(OnConfirm {
                allow: vec!["aish__time".to_owned()],
                ..OnConfirm::default()
            }),
            ..question(conversation, &text)
        };
        let turn = client.done::<Send>(params).turn;
        assert_eq!(Some(StopReason::End), client.wait_turn(turn).stop_reason);
        turns.push(turn);
        let asked = questions(&upstream);
        assert!((1..=6).contains(&asked.len()), "{asked:?}");
        assert_eq!(Some(&text), asked.last());
    }
    let log = log(&client, conversation);
    let said = log.iter().filter(|it| it.kind == "userMessage").count();
    assert_eq!(60, said);
    // In pages, each exchange once, the newest first.
    let (mut listed, mut cursor) = (vec![], None);
    loop {
        let page = client.done::<Archive>(ArchiveParams {
            conversation,
            cursor,
            limit: Some(7),
        });
        listed.extend(page.exchanges.into_iter().map(|it| it.turn));
        cursor = page.next_cursor;
        if cursor.is_none() {
            assert_eq!(listed.len() as u64, page.total);
            break;
        }
    }
    listed.reverse();
    assert_eq!(turns[..listed.len()], listed);
    assert!(listed.len() >= 54, "{}", listed.len());
    upstream.finish();
}
