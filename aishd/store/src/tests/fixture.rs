//! Stores of earlier programs load for ever: one of each format is kept, with fields in it that we do not know.

use std::path::Path;

use aish_proto::id::Seq;
use aishd_log::event::{Event, StopReason};

use super::super::Store;
use super::{conversation, copy_dir, turn};

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
