//! What compaction has taken out of some segments only is no damage when the journal deletes it further on.

use std::fs;

use aish_proto::id::Seq;

use super::super::change_batch::{ChangeBatch, IndexCache};
use super::super::{Alive, Note, Store, compact, index, segment};
use super::crash::no_file_has;
use super::{
    Author, block_on, conversation, deletion, files_in, fill, partial_of, read_all, user_message,
};

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

/// Takes conversation 1 out of the oldest segment alone, as compaction did that ended half-way.
fn take_out_of_the_oldest(dir: &std::path::Path, is_deleted: bool) {
    let closed = segment::closed(&dir.join("journal"), u64::MAX);
    // The daemon may have made one of them; what was written last is in another.
    assert!(!closed.is_empty());
    let db = index::open(&dir.join("db")).unwrap();
    if !is_deleted {
        let mut memory = IndexCache::default();
        let mut changes = ChangeBatch::new(&db, &mut memory);
        let at = index::applied(&db).unwrap().unwrap();
        changes.delete(conversation(1), &[], at).unwrap();
    }
    let rewritten = compact::rewrite(&closed[..1], &db, 0, &Alive::default())
        .unwrap()
        .unwrap();
    assert!(rewritten.shorter > 0, "nothing was taken out");
    rewritten.replace().unwrap();
    index::close(db);
}

#[test]
fn a_conversation_that_was_deleted_while_the_journal_was_compacted_does_not_stop_a_start_without_the_index()
 {
    let dir = tempfile::tempdir().unwrap();
    three_segments(dir.path(), &[1]);
    take_out_of_the_oldest(dir.path(), true);
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
fn a_conversation_whose_records_are_missing_says_so_and_the_others_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    three_segments(dir.path(), &[]);
    take_out_of_the_oldest(dir.path(), false);
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    for _ in 0..2 {
        let store = Store::open(dir.path()).unwrap();
        let refused = store.load(conversation(1)).unwrap_err().to_string();
        assert!(refused.contains("has no records between"), "{refused}");
        assert_eq!(9, read_all(&store, 2).unwrap());
        store.close();
    }
}

/// Sizes of all files of the store.
fn bytes_on_disk(dir: &std::path::Path) -> u64 {
    let lengths = files_in(dir)
        .into_iter()
        .filter(|it| !it.ends_with("reserve"))
        .map(|it| fs::metadata(it).map_or(0, |it| it.len()));
    lengths.sum()
}

#[test]
fn what_was_deleted_and_forgotten_is_in_no_file_once_that_was_said() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let note = |text: &str, forgets| Note {
        key: "memories".to_owned(),
        text: text.to_owned(),
        forgets,
    };
    let mut kept = Author::new(1);
    for number in 10..20 {
        let mut author = Author::new(number);
        for turn in 0..20 {
            assert!(store.keep_partial(partial_of(number, turn, 0, &format!("\"{number}/half"))));
            let commit = author.turn_commit();
            author.took(&commit);
            block_on(store.commit(commit)).unwrap();
        }
        let commit = kept.turn_commit();
        kept.took(&commit);
        block_on(store.commit(commit)).unwrap();
    }
    // It is told by one note and left out by the next but one.
    block_on(store.keep(note("[\"90/a\",\"91/b\"]", false), vec![])).unwrap();
    block_on(store.keep(note("[\"90/a\",\"91/b\",\"92/c\"]", false), vec![])).unwrap();
    block_on(store.keep(note("[\"91/b\"]", true), vec![])).unwrap();
    let gone: Vec<u64> = (10..20).step_by(2).collect();
    for number in &gone {
        block_on(store.delete(conversation(*number), deletion(*number))).unwrap();
    }
    block_on(store.erase()).unwrap();
    no_file_has(dir.path(), &gone, "after the erasure");
    no_file_has(dir.path(), &[90, 92], "after the erasure");
    assert_eq!(
        Some("[\"91/b\"]".to_owned()),
        store.note("memories").unwrap()
    );
    for number in gone.iter().map(|it| it + 1) {
        assert_eq!(60, read_all(&store, number).unwrap());
    }
    assert_eq!(30, read_all(&store, 1).unwrap());
    assert!(store.verify_trail(None).unwrap().is_whole());
    store.close();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(60, read_all(&store, 11).unwrap());
    no_file_has(dir.path(), &gone, "after a start");
}

#[test]
fn room_that_was_deleted_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_with_segments_of(dir.path(), 256 << 10).unwrap();
    fill(&store, 2, 5);
    let before = bytes_on_disk(dir.path());
    let text = "It is long. ".repeat(2000);
    for round in 0..4 {
        for number in 100..110 {
            let mut author = Author::new(number + round * 10);
            for _ in 0..20 {
                let commit = author.commit(vec![(user_message(text.clone(), None), None)]);
                author.took(&commit);
                block_on(store.commit(commit)).unwrap();
            }
            block_on(store.delete(author.id(), deletion(number))).unwrap();
        }
        block_on(store.erase()).unwrap();
        let after = bytes_on_disk(dir.path());
        let segments = files_in(&dir.path().join("journal")).len();
        assert!(
            after < before + (2 << 20) && segments <= 6,
            "round {round}: {after} bytes after {before}, {segments} segments"
        );
    }
    assert_eq!(15, read_all(&store, 2).unwrap());
}

#[test]
fn who_asks_for_it_gets_back_all_the_room_that_is_not_needed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_with_segments_of(dir.path(), 256 << 10).unwrap();
    // Pieces of texts that became whole answers are dead, and less than half of each segment.
    for number in 1..=4 {
        let mut author = Author::new(number);
        for _ in 0..30 {
            let seq = author.state.last_seq.0;
            let half = super::text_of(number, seq + 3);
            assert!(store.keep_partial(partial_of(number, seq + 1, 0, &half)));
            let commit = author.turn_commit();
            author.took(&commit);
            block_on(store.commit(commit)).unwrap();
        }
    }
    let before = store.stat().unwrap();
    block_on(store.compact()).unwrap();
    let after = store.stat().unwrap();
    let dead = |it: &super::super::stat::StoreStat| it.journal_bytes - it.live_bytes.unwrap();
    assert!(
        dead(&before) > 20_000 && dead(&after) < 8_000,
        "{before:?} {after:?}"
    );
    for number in 1..=4 {
        assert_eq!(90, read_all(&store, number).unwrap());
    }
    assert!(store.check(&|_, _| {}).unwrap().is_whole());
}
