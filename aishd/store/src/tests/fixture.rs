//! Stores of earlier programs load for ever: one of each format is kept, with fields in it that we do not know.

use std::path::Path;

use aish_proto::id::Seq;
use aishd_log::event::{Event, StopReason};

use super::super::{Store, index, values};
use super::driver::{Task, start, task};
use super::{conversation, copy_dir, fill, read_all, turn};

#[test]
fn a_store_of_format_1_loads_with_fields_that_nobody_knows() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/store/v1");
    let dir = tempfile::tempdir().unwrap();
    copy_dir(&kept, dir.path());
    let store = Store::open(dir.path()).unwrap();
    assert_eq!("01J00000000000000000000000", store.epoch().to_string());
    let id = conversation(1);
    let records = store.records_after(id, Seq(0), usize::MAX).unwrap();
    let kinds: Vec<_> = records.iter().map(|it| it.event.clone()).collect();
    assert_eq!(5, kinds.len());
    assert!(matches!(&kinds[0], Event::Created { cwd, .. } if cwd == "/home/u"));
    assert!(matches!(&kinds[1], Event::UserMessage { text, .. } if text == "what is a crab?"));
    assert!(matches!(&kinds[3], Event::AssistantMessage { text, .. } if &**text == "An animal."));
    assert!(matches!(
        &kinds[4],
        Event::TurnFinished {
            stop: StopReason::End,
            ..
        }
    ));
    let loaded = store.load(id).unwrap().unwrap();
    assert_eq!("what is a crab?", loaded.state.title());
    assert_eq!(1, loaded.state.turns);
    let used = store.find_turn(turn(1, 1)).unwrap().unwrap();
    assert_eq!((id, 2), (used.conversation, used.message_seq.0));
    let second = store.load(conversation(2)).unwrap().unwrap();
    assert_eq!("half an an", second.partial.unwrap().text);
    assert!(
        store.load(conversation(3)).unwrap().is_none(),
        "it was deleted"
    );
}

/// A daemon that is killed while it makes the index of a store of before anew leaves one that the next start goes on with.
#[test]
fn a_kill_while_a_store_of_before_is_carried_over_loses_nothing() {
    for place in ["recover.mid", "index.exchanged"] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        fill(&store, 3, 20);
        store.close();
        let db = index::open(&dir.path().join("db")).unwrap();
        drop(db.insert(values::FORMAT, b"1").unwrap());
        index::flush(&db).unwrap();
        index::close(db);
        let killed = Task {
            failpoint: format!("{place}=kill@1"),
            turns: 1,
            ..task(dir.path())
        };
        let output = start(&[], &killed).wait_with_output().unwrap();
        assert!(!output.status.success(), "{place} was never passed");
        let store = Store::open(dir.path()).unwrap();
        for number in 1..=3 {
            assert_eq!(60, read_all(&store, number).unwrap(), "{place}");
        }
        assert!(store.check(&|_, _| {}).unwrap().is_whole(), "{place}");
    }
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/store/v1");
    let dir = tempfile::tempdir().unwrap();
    copy_dir(&kept, dir.path());
    let killed = Task {
        failpoint: "recover.mid=kill@1".to_owned(),
        ..task(dir.path())
    };
    let output = start(&[], &killed).wait_with_output().unwrap();
    assert!(!output.status.success());
    let store = Store::open(dir.path()).unwrap();
    let records = store.records_after(conversation(1), Seq(0), usize::MAX);
    assert_eq!(5, records.unwrap().len());
}
