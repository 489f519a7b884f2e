//! Sums of what was taken of models: the same live, after a restart, built anew, and when the records they are of are gone.

use aishd_log::event::Event;
use aishd_log::spending::{Day, NanoUsd, PaidRequest, Payee, SpendingPurpose};
use aishd_log::time::Timestamp;
use aishd_log::usage::Usage;

use super::super::Store;
use super::{Author, block_on, conversation, deletion, turn};
use crate::Commit;

const DAY: i64 = 86_400_000;

fn used(preset: &str, input: u64, cost: Option<u64>) -> Event {
    Event::ModelUsed(Box::new(PaidRequest {
        payee: Payee::new(preset, "m", None, SpendingPurpose::Summary),
        usage: Usage {
            input: Some(input),
            cost: cost.map(NanoUsd),
            requests: 1,
            unpriced: u64::from(cost.is_none()),
            ..Usage::default()
        },
    }))
}

/// As an answer has it; one of an older program names nobody.
fn said(preset: Option<&str>, input: u64) -> Event {
    let usage = Usage {
        input: Some(input),
        requests: 1,
        ..Usage::default()
    };
    Event::AssistantMessage {
        item: 0,
        text: "hi".into(),
        reasoning: String::new(),
        calls: vec![],
        commands: vec![],
        extra: serde_json::Map::new(),
        sealed: None,
        complete: true,
        served_by: None,
        usage: Some(usage),
        payee: preset.map(|it| Box::new(Payee::new(it, "m", None, SpendingPurpose::Answer))),
    }
}

fn commit(author: &mut Author, day: i64, events: Vec<Event>) -> Commit {
    let events = events.into_iter().map(|it| (it, Some(turn(1, 1))));
    let commit = author.commit_at(Timestamp(day * DAY + 7), events.collect());
    author.took(&commit);
    commit
}

/// Every sum as `day conversation preset tokens cost requests`.
fn sums(store: &Store) -> Vec<String> {
    let name = |it: Option<aish_proto::id::ConversationId>| match it {
        None => "-".to_owned(),
        Some(id) => (1..9)
            .find(|it| conversation(*it) == id)
            .map_or("?".to_owned(), |it| it.to_string()),
    };
    let mut sums: Vec<String> = store
        .spent_since(Day(0))
        .unwrap()
        .into_iter()
        .map(|it| {
            let usage = it.usage;
            let cost = usage.cost.map_or("?".to_owned(), |it| it.0.to_string());
            let (day, of, tokens) = (it.day.0, name(it.conversation), usage.tokens());
            format!(
                "{day} {of} {} {tokens} {cost} {}",
                it.preset, usage.requests
            )
        })
        .collect();
    sums.sort();
    sums
}

fn built_anew(dir: &std::path::Path, store: Store) -> Store {
    store.close();
    drop(store);
    std::fs::remove_dir_all(dir.join("db")).unwrap();
    Store::open(dir).unwrap()
}

#[test]
fn sums_are_the_same_live_after_a_restart_and_built_anew() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (mut one, mut other) = (Author::new(1), Author::new(2));
    for commit in [
        commit(
            &mut one,
            3,
            vec![used("fast", 10, Some(5)), said(Some("fast"), 1)],
        ),
        commit(
            &mut one,
            3,
            vec![used("cloud", 7, Some(9)), said(None, 999)],
        ),
        commit(&mut other, 3, vec![used("fast", 100, None)]),
        commit(
            &mut one,
            4,
            vec![used("fast", 20, Some(1)), used("fast", 30, None)],
        ),
    ] {
        block_on(store.commit(commit)).unwrap();
    }
    let expected = vec![
        "3 1 cloud 7 9 1",
        "3 1 fast 11 5 2",
        "3 2 fast 100 ? 1",
        "4 1 fast 50 1 2",
    ];
    assert_eq!(expected, sums(&store));
    assert_eq!(NanoUsd(14), store.spent_on(Day(3)).unwrap());
    assert_eq!(1, store.spent_since(Day(4)).unwrap().len());
    store.close();
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(expected, sums(&store), "after a restart");
    let store = built_anew(dir.path(), store);
    assert_eq!(expected, sums(&store), "built anew");
}

/// In one group with what it spends last, and again when its records have left the journal.
#[test]
fn what_a_deleted_conversation_took_stays_under_no_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let (mut one, mut other) = (Author::new(1), Author::new(2));
    block_on(store.commit(commit(&mut one, 3, vec![used("fast", 10, Some(5))]))).unwrap();
    block_on(store.commit(commit(&mut other, 3, vec![used("fast", 1, Some(1))]))).unwrap();
    let last = commit(&mut one, 4, vec![used("fast", 20, Some(7))]);
    let together = async {
        let deleted = store.delete(conversation(1), deletion(1));
        let (stored, deleted) = tokio::join!(store.commit(last), deleted);
        stored.unwrap();
        deleted.unwrap();
    };
    block_on(together);
    // What its running turn wrote meanwhile goes too, and its money stays.
    let mut again = Author::new(1);
    block_on(store.commit(commit(&mut again, 4, vec![used("fast", 3, Some(2))]))).unwrap();
    block_on(store.delete(conversation(1), vec![])).unwrap();
    let expected = vec!["3 - fast 10 5 1", "3 2 fast 1 1 1", "4 - fast 23 9 2"];
    assert_eq!(expected, sums(&store));
    let store = built_anew(dir.path(), store);
    assert_eq!(expected, sums(&store), "built anew");
    store.close();
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    block_on(store.erase()).unwrap();
    assert_eq!(expected, sums(&store), "compacted");
    let store = built_anew(dir.path(), store);
    assert_eq!(expected, sums(&store), "built anew of what is left");
    assert!(store.load(conversation(1)).unwrap().is_none());
}
