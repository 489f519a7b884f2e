//! What compaction has taken out of some segments only is no damage when the journal deletes it further on.

use std::collections::{HashMap, HashSet};
use std::fs;

use aish_proto::id::Seq;

use super::super::{OpenError, Store, compact, segment};
use super::{Author, block_on, conversation, deletion, read_all};

/// Three segments: conversations 1 and 2 have records in each, and `gone` is deleted in the last one.
fn three_segments(dir: &std::path::Path, gone: &[u64]) {
    let mut authors = [1, 2].map(Author::new);
    for round in 0..3 {
        let store = Store::open(dir).unwrap();
        for author in &mut authors {
            let commit = author.turn_commit();
            author.took(&commit);
            block_on(store.commit(commit)).unwrap();
        }
        // A start closes a segment that has a deletion in it.
        block_on(store.commit(Author::new(50 + round).turn_commit())).unwrap();
        block_on(store.delete(conversation(50 + round), deletion(50 + round))).unwrap();
        if round == 2 {
            for number in gone {
                block_on(store.delete(conversation(*number), deletion(*number))).unwrap();
            }
        }
        store.close();
    }
}

/// Takes conversation 1 out of the oldest segment alone, as compaction did that heard of its deletion half-way.
fn take_out_of_the_oldest(dir: &std::path::Path) {
    let closed = segment::closed(&dir.join("journal"), u64::MAX);
    assert!(closed.len() >= 2, "{closed:?}");
    let deleted = HashMap::from([(conversation(1), u64::MAX)]);
    let shorter = compact::segment(&closed[0], &deleted, &mut HashSet::new()).unwrap();
    assert!(shorter > 0, "nothing was taken out");
}

#[test]
fn a_conversation_that_was_deleted_while_the_journal_was_compacted_does_not_stop_a_start_without_the_index()
 {
    let dir = tempfile::tempdir().unwrap();
    three_segments(dir.path(), &[1]);
    take_out_of_the_oldest(dir.path());
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert!(store.load(conversation(1)).unwrap().is_none());
    let left = store.records_after(conversation(1), Seq(0), 1).unwrap();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(9, read_all(&store, 2).unwrap());
    store.close();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(9, read_all(&store, 2).unwrap());
}

#[test]
fn records_that_are_missing_and_were_not_deleted_are_damage_still() {
    let dir = tempfile::tempdir().unwrap();
    three_segments(dir.path(), &[]);
    take_out_of_the_oldest(dir.path());
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    for _ in 0..2 {
        let refused = Store::open(dir.path()).unwrap_err();
        assert!(
            matches!(refused, OpenError::Io { .. } | OpenError::Damaged { .. }),
            "{refused:?}"
        );
    }
}
