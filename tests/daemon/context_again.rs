//! What comes again: exchanges by any event of theirs, answers that go on, copies with what had left.

use aish_proto::attach::ReplayStart;
use aish_proto::context::{Restore, RestoreParams};
use aish_proto::conversation::{Fork, ForkParams, Search, SearchHit, SearchParams};
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::turn::{AgainParams, Continue, Retry, StopReason};
use aish_testkit::{Answer, Client, Daemon, Upstream, World};

use crate::context::{asked, preview};

fn world(turns: u32) -> (Upstream, World, Daemon) {
    let (upstream, world) = (Upstream::start(), World::new());
    world.write_config(&format!(
        "{}\n[context]\nmax_turns = {turns}\n",
        upstream.config("test")
    ));
    let daemon = world.daemon().spawn();
    (upstream, world, daemon)
}

fn found(
    client: &Client,
    conversation: ConversationId,
    query: &str,
    limit: u32,
    cursor: Option<String>,
) -> (Vec<SearchHit>, Option<String>) {
    let found = client.done::<Search>(SearchParams {
        query: query.to_owned(),
        id: Some(conversation),
        include_archived: false,
        cursor,
        limit: Some(limit),
    });
    assert_eq!(found.more, found.next_cursor.is_some());
    (found.hits, found.next_cursor)
}

fn again(conversation: ConversationId, turn: TurnId, key: &str) -> AgainParams {
    AgainParams {
        conversation,
        turn: Some(turn),
        idempotency_key: key.to_owned(),
        model: None,
        accept_cost: false,
    }
}

/// A question that waited while others left came into the context after them.
#[test]
fn a_question_that_waited_has_not_left() {
    let (upstream, world, _daemon) = world(1);
    let client = world.client();
    let conversation = client.create();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let first = client.ask(conversation, "first pomelo");
    let mut follow = client.attach(conversation, ReplayStart::Start);
    gate.wait_request();
    let second = client.ask(conversation, "second pomelo");
    gate.text("done");
    gate.finish();
    follow.until_finished(first);
    follow.until_finished(second);
    let (hits, _) = found(&client, conversation, "pomelo", 10, None);
    let left: Vec<(Option<TurnId>, bool)> =
        hits.iter().map(|it| (it.turn, it.left_context)).collect();
    assert_eq!(vec![(Some(second), false), (Some(first), true)], left);
    upstream.finish();
}

/// What search shows can be put back by its event, also where another turn's question began the exchange.
#[test]
fn an_exchange_comes_back_by_any_event_of_it() {
    let (upstream, world, _daemon) = world(3);
    let client = world.client();
    let conversation = client.create();
    let first = asked(&client, conversation, "question");
    upstream.answer(Answer::text("the rest: pomelo"));
    let on = client
        .done::<Continue>(again(conversation, first, "on"))
        .turn;
    assert_eq!(Some(StopReason::End), client.wait_turn(on).stop_reason);
    // Only the last one goes on.
    let refused = client.refused::<Continue>(again(conversation, first, "other"));
    assert!(refused.message.contains("is not the last one"), "{refused}");
    for text in ["two", "three", "four"] {
        asked(&client, conversation, text);
    }
    let (hits, _) = found(&client, conversation, "pomelo", 10, None);
    assert_eq!((Some(on), true), (hits[0].turn, hits[0].left_context));
    let by = |turn, event| RestoreParams {
        conversation,
        turn,
        event,
    };
    assert!(client.call::<Restore>(by(None, None)).is_err());
    // Two are in the context, and the next question is the third.
    let refused = client.refused::<Restore>(by(None, Some(hits[0].seq)));
    assert_eq!("budgetExceeded", refused.kind());
    world.write_config(&format!(
        "{}\n[context]\nmax_turns = 6\n",
        upstream.config("test")
    ));
    client.done::<aish_proto::daemon::Reload>(aish_proto::method::Empty {});
    client.done::<Restore>(by(None, Some(hits[0].seq)));
    assert!(preview(&client, conversation, None).body.contains("pomelo"));
    let (hits, _) = found(&client, conversation, "pomelo", 10, None);
    assert!(!hits[0].left_context);
    let refused = client.refused::<Restore>(by(Some(on), None));
    assert!(refused.message.contains("is in the context"), "{refused}");
    // A retry takes it out again, and then it can come back.
    let retried = client
        .done::<Retry>(again(conversation, first, "retried"))
        .turn;
    client.wait_turn(retried);
    assert!(!preview(&client, conversation, None).body.contains("pomelo"));
    client.done::<Restore>(by(None, Some(hits[0].seq)));
    assert!(preview(&client, conversation, None).body.contains("pomelo"));
    upstream.finish();
}

/// To retry what went on is to ask the question again.
#[test]
fn a_retry_of_a_continuation_asks_its_question_again() {
    let (upstream, world, _daemon) = world(9);
    let client = world.client();
    let conversation = client.create();
    let first = asked(&client, conversation, "the question");
    let on = client
        .done::<Continue>(again(conversation, first, "on"))
        .turn;
    client.wait_turn(on);
    let retried = client.done::<Retry>(again(conversation, on, "again")).turn;
    client.wait_turn(retried);
    let messages = upstream.requests().pop().unwrap().messages();
    let said: Vec<&str> = messages[1..]
        .iter()
        .map(|(_, text)| text.as_str())
        .collect();
    assert_eq!(vec!["the question"], said);
    upstream.finish();
}

/// The newest come first, a page at a time, whatever they hold it in.
#[test]
fn a_search_goes_on_behind_its_last_hit() {
    let (upstream, world, _daemon) = world(9);
    let client = world.client();
    let conversation = client.create();
    let turns: Vec<TurnId> = (0..5)
        .map(|number| {
            asked(
                &client,
                conversation,
                &format!("{number} LINK {}", "x ".repeat(9_000)),
            )
        })
        .collect();
    let (mut listed, mut cursor) = (vec![], None);
    loop {
        let (hits, next) = found(&client, conversation, "link", 2, cursor);
        listed.extend(hits.into_iter().filter_map(|it| it.turn));
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(turns.iter().rev().copied().collect::<Vec<_>>(), listed);
    let refused = client.refused::<Search>(SearchParams {
        query: "link".to_owned(),
        id: None,
        include_archived: false,
        cursor: Some("nonsense".to_owned()),
        limit: None,
    });
    assert!(refused.message.contains("cursor"), "{refused}");
    upstream.finish();
}

/// A copy is shown what the original shows, and not all that ever was.
#[test]
fn a_copy_has_what_left_behind_it() {
    let (upstream, world, _daemon) = world(4);
    let client = world.client();
    let conversation = client.create();
    for number in 0..5 {
        asked(&client, conversation, &format!("question {number}"));
    }
    let shown = preview(&client, conversation, Some("then?"));
    assert_eq!(3, shown.turns);
    let id = client
        .done::<Fork>(ForkParams {
            id: conversation,
            at_seq: None,
        })
        .id;
    let copied = preview(&client, id, Some("then?"));
    assert_eq!((shown.body, 0), (copied.body, copied.evicts.len()));
    let archive = client.done::<aish_proto::context::Archive>(aish_proto::context::ArchiveParams {
        conversation: id,
        cursor: None,
        limit: None,
    });
    assert_eq!(3, archive.exchanges.len());
    upstream.finish();
}
