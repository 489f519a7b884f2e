//! What is damaged is set aside, and everything else can be read again.

use std::collections::BTreeSet;
use std::fs;

use aish_proto::id::Seq;
use aishd_log::event::Event;

use super::super::Store;
use super::super::check::check;
use super::super::repair::repair;
use super::{
    Author, Dice, block_on, conversation, copy_dir, copy_with_a_segment, deletion, files_in, fill,
    read_all, rounds, text_of,
};

const CONVERSATIONS: u64 = 6;

fn sound() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_with_segments_of(dir.path(), 64 << 10).unwrap();
    fill(&store, CONVERSATIONS, 40);
    block_on(store.delete(conversation(2), deletion(2))).unwrap();
    block_on(store.erase()).unwrap();
    store.close();
    dir
}

/// Reads a conversation, and returns which of its records are lost; the others say what they must.
fn lost_of(store: &Store, number: u64) -> Vec<Seq> {
    let records = store
        .records_after(conversation(number), Seq(0), usize::MAX)
        .unwrap();
    let mut lost = vec![];
    for (record, due) in records.iter().zip(1..) {
        assert_eq!(Seq(due), record.seq);
        let said = match &record.event {
            Event::UserMessage { text, .. } => text,
            Event::TurnFinished { text, .. } => &**text,
            Event::TurnStarted { model_id, .. } => model_id,
            Event::RecordLost {} => {
                lost.push(record.seq);
                continue;
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(text_of(number, due), *said);
    }
    let state = store.load(conversation(number)).unwrap().map(|it| it.state);
    assert_eq!(records.last().map(|it| it.seq), state.map(|it| it.last_seq));
    lost
}

#[test]
fn a_store_that_was_damaged_is_whole_again_but_for_what_is_said_to_be_lost() {
    let sound = sound();
    let epoch = {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(sound.path(), copy.path());
        Store::open(copy.path()).unwrap().epoch()
    };
    let mut dice = Dice::new(9);
    for round in 0..rounds("AISH_STORE_REPAIRS", 10) {
        let aside = tempfile::tempdir().unwrap();
        let (dir, path) = copy_with_a_segment(sound.path(), &mut dice);
        let mut bytes = fs::read(&path).unwrap();
        match round % 4 {
            0 => fs::remove_file(&path).unwrap(),
            1 => {
                let at = usize::try_from(dice.below(bytes.len() as u64)).unwrap();
                bytes.truncate(at);
                fs::write(&path, bytes).unwrap();
            }
            _ => {
                for _ in 0..3 {
                    let at = usize::try_from(dice.below(bytes.len() as u64)).unwrap();
                    bytes[at] ^= 2;
                }
                fs::write(&path, bytes).unwrap();
            }
        }
        let what = format!("round {round}, {}", path.display());
        // Half of them are opened once before, as daemons open them.
        let epoch = if round % 2 == 0 {
            epoch
        } else {
            Store::open(dir.path()).unwrap().epoch()
        };
        let done = repair(dir.path(), aside.path()).unwrap();
        assert!(!done.damage.is_empty(), "{what}");
        let store = Store::open_with_segments_of(dir.path(), 64 << 10).unwrap();
        assert_ne!(epoch, store.epoch(), "{what}");
        let verdict = store.check(&|_, _| {}).unwrap();
        assert!(verdict.is_whole(), "{what}: {verdict:?}");
        let mut lost = vec![];
        for number in (1..=CONVERSATIONS).filter(|it| *it != 2) {
            let of_this = lost_of(&store, number).len() as u64;
            if of_this > 0 {
                lost.push((conversation(number), of_this));
            }
        }
        assert_eq!(done.lost, lost, "{what}");
        assert!(store.load(conversation(2)).unwrap().is_none(), "{what}");
        // It goes on, also where the record of a question is lost.
        for (id, _) in &done.lost {
            let state = store.load(*id).unwrap().unwrap().state;
            assert!(state.constraints.read_only && state.grants.levels.is_empty());
        }
        block_on(store.commit(Author::new(99).turn_commit())).unwrap();
        store.close();
        let verdict = check(dir.path(), &|_, _| {}).unwrap();
        assert!(verdict.is_whole(), "{what}: {verdict:?}");
        assert_eq!(3, read_all(&Store::open(dir.path()).unwrap(), 99).unwrap());
        let nothing = repair(dir.path(), aside.path()).unwrap();
        assert!(nothing.damage.is_empty(), "{what}");
    }
}

/// The record that tells of the repair stands right behind what is missing.
#[test]
fn a_lost_end_of_the_audit_trail_is_told_and_no_longer_missed() {
    let (dir, aside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open_with_segments_of(dir.path(), 16 << 10).unwrap();
    fill(&store, 3, 20);
    store.close();
    let has_audit = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        text.contains("\"rec\":{\"audit\":")
    };
    let segments = files_in(&dir.path().join("journal"));
    fs::remove_file(segments.into_iter().rfind(has_audit).unwrap()).unwrap();
    let done = repair(dir.path(), aside.path()).unwrap();
    assert!(done.lost_of_trail > 0, "{done:?}");
    let verdict = check(dir.path(), &|_, _| {}).unwrap();
    assert!(verdict.is_whole(), "{verdict:?}");
    assert_eq!(done.lost_of_trail, verdict.trail.lost);
    let store = Store::open(dir.path()).unwrap();
    assert!(store.verify_trail(None).unwrap().is_whole());
}

#[test]
fn the_damaged_bytes_are_set_aside_as_they_were() {
    let (dir, aside) = (sound(), tempfile::tempdir().unwrap());
    let path = files_in(&dir.path().join("journal")).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let done = repair(dir.path(), aside.path()).unwrap();
    let kept = files_in(&done.set_aside.unwrap());
    assert_eq!(1, kept.len());
    let (from, length) = (done.damage[0].offset, done.damage[0].bytes);
    let from = usize::try_from(from).unwrap();
    let to = from + usize::try_from(length).unwrap();
    assert!((from..to).contains(&middle));
    assert_eq!(bytes[from..to], fs::read(&kept[0]).unwrap());
}

#[test]
fn a_store_that_is_whole_is_not_touched() {
    let (dir, aside) = (sound(), tempfile::tempdir().unwrap());
    let contents = || {
        let files = files_in(&dir.path().join("journal")).into_iter();
        let files = files.chain(files_in(&dir.path().join("db")));
        files
            .map(|it| (fs::read(&it).unwrap(), it))
            .collect::<BTreeSet<_>>()
    };
    let before = contents();
    let done = repair(dir.path(), aside.path()).unwrap();
    assert!(done.damage.is_empty() && done.set_aside.is_none());
    assert!(before == contents(), "it was touched");
}

/// Damage that names nobody may have been what took something back.
#[test]
fn without_an_index_whoever_may_have_lost_his_end_is_said_to_have() {
    let (dir, aside) = (sound(), tempfile::tempdir().unwrap());
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let segments = files_in(&dir.path().join("journal"));
    let middle = &segments[segments.len() / 2];
    let mut bytes = fs::read(middle).unwrap();
    let length = bytes.len();
    bytes[1000..length * 3 / 4].fill(0);
    fs::write(middle, bytes).unwrap();
    repair(dir.path(), aside.path()).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let read_only = |number| {
        let state = store.load(conversation(number)).unwrap().unwrap().state;
        state.constraints.read_only
    };
    // Each was written whole before the next one.
    let marked = [1, 3, 4, 5, 6].map(read_only);
    assert!(marked[0] && !marked[4], "{marked:?}");
    assert!(store.check(&|_, _| {}).unwrap().is_whole());
}

/// Of a group only the line that is damaged is lost, also where nothing was written behind it.
#[test]
fn what_is_readable_behind_a_damaged_line_stays() {
    let (dir, aside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open(dir.path()).unwrap();
    fill(&store, 1, 3);
    store.close();
    let path = files_in(&dir.path().join("journal")).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    let text = b"\"1/8:";
    let at = bytes.windows(text.len()).position(|it| it == text).unwrap();
    bytes[at + 1] ^= 1;
    fs::write(&path, bytes).unwrap();
    let found = check(dir.path(), &|_, _| {}).unwrap();
    assert_eq!(1, found.damage.len(), "{found:?}");
    repair(dir.path(), aside.path()).unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(vec![Seq(8)], lost_of(&store, 1));
}

#[test]
fn a_deletion_whose_line_is_damaged_stays_one() {
    let (dir, aside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open(dir.path()).unwrap();
    fill(&store, 3, 4);
    block_on(store.delete(conversation(2), deletion(2))).unwrap();
    block_on(store.commit(Author::new(99).turn_commit())).unwrap();
    store.close();
    let path = files_in(&dir.path().join("journal")).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    let line = b"\"rec\":{\"delete\":";
    let at = bytes.windows(line.len()).position(|it| it == line).unwrap();
    bytes[at + 40] ^= 1;
    fs::write(&path, bytes).unwrap();
    let done = repair(dir.path(), aside.path()).unwrap();
    assert_eq!(
        (1, true),
        (done.damage.len(), done.lost.is_empty()),
        "{done:?}"
    );
    let store = Store::open(dir.path()).unwrap();
    assert!(store.load(conversation(2)).unwrap().is_none());
    assert_eq!(12, read_all(&store, 3).unwrap());
    block_on(store.erase()).unwrap();
    super::crash::no_file_has(dir.path(), &[2], "after the repair");
}
