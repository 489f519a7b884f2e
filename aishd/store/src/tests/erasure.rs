//! What is deleted and forgotten leaves every file, whatever happened to the store meanwhile.

use std::fs;
use std::path::Path;

use aish_proto::id::Seq;

use super::super::{Note, Store, segment};
use super::crash::no_file_has;
use super::{
    Author, block_on, conversation, deletion, files_in, fill, finished, read_all, user_message,
};

/// Conversations 1 to 4, with records in several segments.
fn several_segments(dir: &Path) -> Store {
    let store = Store::open_with_segments_of(dir, 32 << 10).unwrap();
    fill(&store, 4, 40);
    store
}

fn delete(store: &Store, number: u64) {
    block_on(store.delete(conversation(number), deletion(number))).unwrap();
}

#[test]
fn an_index_that_is_made_anew_before_what_was_deleted_has_gone_still_knows_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = several_segments(dir.path());
    delete(&store, 2);
    store.close();
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = Store::open_with_segments_of(dir.path(), 32 << 10).unwrap();
    block_on(store.erase()).unwrap();
    no_file_has(dir.path(), &[2], "after the erasure");
    assert_eq!(120, read_all(&store, 3).unwrap());
}

#[test]
fn where_a_segment_cannot_be_written_anew_it_is_said_and_the_next_erasure_does_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = several_segments(dir.path());
    // Where new files would be written there is something that is not ours.
    let segments = files_in(&dir.path().join("journal"));
    let in_the_way = segments.iter().map(|it| it.with_extension("tmp"));
    in_the_way
        .clone()
        .for_each(|it| fs::create_dir(it).unwrap());
    delete(&store, 2);
    let refused = block_on(store.erase()).unwrap_err();
    assert!(refused.contains("write"), "{refused}");
    assert_eq!(120, read_all(&store, 3).unwrap());
    in_the_way.for_each(|it| fs::remove_dir(it).unwrap());
    block_on(store.erase()).unwrap();
    no_file_has(dir.path(), &[2], "after the second erasure");
    assert_eq!(120, read_all(&store, 3).unwrap());
}

#[test]
fn a_damaged_line_stays_as_it_is_and_keeps_no_deletion_up() {
    let dir = tempfile::tempdir().unwrap();
    let store = several_segments(dir.path());
    store.close();
    let first = files_in(&dir.path().join("journal")).remove(0);
    let mut bytes = fs::read(&first).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&first, &bytes).unwrap();
    let store = Store::open_with_segments_of(dir.path(), 32 << 10).unwrap();
    delete(&store, 2);
    block_on(store.erase()).unwrap();
    no_file_has(dir.path(), &[2], "after the erasure");
    let whole = [1, 3, 4].map(|it| read_all(&store, it));
    assert_eq!(2, whole.iter().filter(|it| it.is_ok()).count(), "{whole:?}");
    assert_eq!(1, store.check(&|_, _| {}).unwrap().damage.len());
}

#[test]
fn a_segment_that_another_holds_since_is_taken_away_and_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = several_segments(dir.path());
    let journal = dir.path().join("journal");
    let before: Vec<_> = files_in(&journal)
        .into_iter()
        .map(|it| (fs::read(&it).unwrap(), it))
        .collect();
    for number in [1, 2, 4] {
        delete(&store, number);
    }
    block_on(store.erase()).unwrap();
    store.close();
    // A power cut can bring names back that were removed and not yet synced.
    let kept = segment::list(&journal).unwrap();
    let held = |it: &&(Vec<u8>, std::path::PathBuf)| {
        !it.1.exists()
            && it.1.file_stem().unwrap().to_str()
                < kept.last().unwrap().path.file_stem().unwrap().to_str()
    };
    let held: Vec<_> = before.iter().filter(held).collect();
    assert!(!held.is_empty(), "nothing was merged");
    for (bytes, path) in &held {
        fs::write(path, bytes).unwrap();
    }
    let store = Store::open_with_segments_of(dir.path(), 32 << 10).unwrap();
    assert!(store.load(conversation(2)).unwrap().is_none());
    assert_eq!(120, read_all(&store, 3).unwrap());
    block_on(store.erase()).unwrap();
    no_file_has(dir.path(), &[1, 2, 4], "after the next start");
}

/// The note that ended a commit is replaced by a newer one and leaves the journal; what was committed with it stays.
#[test]
fn a_commit_whose_last_line_left_the_journal_is_still_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_with_segments_of(dir.path(), 32 << 10).unwrap();
    let note = |text: &str| Note {
        key: "book".to_owned(),
        text: text.to_owned(),
        forgets: true,
    };
    let mut author = Author::new(7);
    let first = author.commit(vec![(user_message("asked".to_owned(), None), None)]);
    let first = super::super::Commit {
        audit: vec![],
        ..first
    };
    author.took(&first);
    block_on(store.commit_with(first, Some(note("one")))).unwrap();
    fill(&store, 2, 20);
    block_on(store.keep(note("two"), vec![])).unwrap();
    block_on(store.erase()).unwrap();
    let last = author.commit(vec![(finished("told"), None)]);
    block_on(store.commit(last)).unwrap();
    store.close();
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = Store::open_with_segments_of(dir.path(), 32 << 10).unwrap();
    let records = store
        .records_after(conversation(7), Seq(0), 10_000)
        .unwrap();
    assert_eq!(2, records.len());
    assert_eq!(Some("two".to_owned()), store.note("book").unwrap());
}

/// Damaged bytes of somebody who is deleted go with him; where nobody knows whose they are, that is said.
#[test]
fn damaged_bytes_are_not_kept_of_somebody_who_was_deleted() {
    for named in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        several_segments(dir.path()).close();
        let text = b"\"2/5:";
        let holding = files_in(&dir.path().join("journal"))
            .into_iter()
            .find_map(|path| {
                let bytes = fs::read(&path).unwrap();
                let at = bytes.windows(text.len()).position(|it| it == text)?;
                Some((path, bytes, at))
            });
        let (path, mut bytes, at) = holding.unwrap();
        // In the length of the line's text, or over the beginning of the line with its name.
        let line = bytes[..at].iter().rposition(|it| *it == b'\n').unwrap() + 1;
        if named {
            bytes[line + 12] ^= 1;
        } else {
            bytes[line + 2..line + 160].fill(b'x');
        }
        fs::write(&path, bytes).unwrap();
        let store = Store::open_with_segments_of(dir.path(), 32 << 10).unwrap();
        delete(&store, 2);
        let erased = block_on(store.erase());
        if named {
            erased.unwrap();
            no_file_has(dir.path(), &[2], "after the erasure");
        } else {
            let why = erased.unwrap_err();
            assert!(why.contains("aishctl store repair"), "{why}");
        }
        assert_eq!(120, read_all(&store, 3).unwrap());
    }
}
