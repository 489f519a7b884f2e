//! What a check finds, of a store that is open and of one that lies there.

use std::fs;
use std::path::Path;

use aish_proto::id::Seq;

use super::super::check::{StoreVerdict, check};
use super::super::{OpenError, ScrubPlace, Store, index, values};
use super::{
    Dice, block_on, conversation, copy_with_a_segment, deletion, files_in, fill, read_all, rounds,
};

fn sound() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_with_segments_of(dir.path(), 64 << 10).unwrap();
    fill(&store, 6, 40);
    block_on(store.delete(conversation(2), deletion(2))).unwrap();
    store.close();
    dir
}

fn checked(dir: &Path) -> StoreVerdict {
    check(dir, &|_, _| {}).unwrap()
}

#[test]
fn a_whole_store_is_found_whole_open_and_lying_there() {
    let dir = sound();
    let before: Vec<_> = files_in(dir.path());
    let lying = checked(dir.path());
    assert!(lying.is_whole(), "{lying:?}");
    assert!(lying.records > 600 && lying.segments > 3, "{lying:?}");
    assert_eq!(before, files_in(dir.path()));
    let store = Store::open(dir.path()).unwrap();
    let steps = std::cell::RefCell::new(vec![]);
    let open = store.check(&|done, total| steps.borrow_mut().push((done, total)));
    let open = open.unwrap();
    assert!(open.is_whole(), "{open:?}");
    let steps = steps.into_inner();
    assert!(steps.len() > 100, "{} steps", steps.len());
    assert!(steps.iter().all(|(done, total)| done <= total));
    assert!(steps.last().is_some_and(|(done, total)| done == total));
    assert!(matches!(
        check(dir.path(), &|_, _| {}),
        Err(OpenError::Locked { .. })
    ));
}

/// With commits, deletions and compactions all the time nothing is found that is not so.
#[test]
fn a_check_beside_writers_finds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_with_segments_of(dir.path(), 32 << 10).unwrap();
    let writes = store.clone();
    let writer = std::thread::spawn(move || {
        for round in 0..40 {
            fill_one(&writes, 100 + round);
            block_on(writes.delete(conversation(100 + round), deletion(100 + round))).unwrap();
            if round % 8 == 0 {
                block_on(writes.erase()).unwrap();
            }
            fill_one(&writes, 500 + round);
        }
    });
    let mut checks = 0;
    while !writer.is_finished() || checks == 0 {
        let verdict = store.check(&|_, _| {}).unwrap();
        assert!(verdict.is_whole(), "{verdict:?}");
        checks += 1;
    }
    writer.join().unwrap();
    assert!(store.check(&|_, _| {}).unwrap().is_whole());
}

fn fill_one(store: &Store, number: u64) {
    let mut author = super::Author::new(number);
    for _ in 0..5 {
        let commit = author.turn_commit();
        author.took(&commit);
        block_on(store.commit(commit)).unwrap();
    }
}

#[test]
fn any_damage_to_the_journal_is_found_and_where() {
    let sound = sound();
    let mut dice = Dice::new(3);
    for round in 0..rounds("AISH_STORE_CHECKS", 12) {
        let (dir, path) = copy_with_a_segment(sound.path(), &mut dice);
        let mut bytes = fs::read(&path).unwrap();
        let at = usize::try_from(dice.below(bytes.len() as u64)).unwrap();
        if round % 3 == 0 {
            fs::remove_file(&path).unwrap();
        } else {
            bytes[at] ^= 2;
            fs::write(&path, bytes).unwrap();
        }
        let verdict = checked(dir.path());
        assert!(!verdict.damage.is_empty(), "{}: byte {at}", path.display());
        if round % 3 != 0 {
            let found = &verdict.damage[0];
            let around = found.offset..found.offset + found.bytes.max(1);
            assert!(
                found.file == path && around.contains(&(at as u64)),
                "{at}: {found:?}"
            );
        }
    }
}

/// What is said of a store after somebody has changed its index.
fn said_after(change: impl FnOnce(&sled::Db)) -> String {
    let dir = sound();
    let db = index::open(&dir.path().join("db")).unwrap();
    change(&db);
    index::flush(&db).unwrap();
    index::close(db);
    let verdict = checked(dir.path());
    assert!(verdict.damage.is_empty(), "{verdict:?}");
    verdict.index.join("; ")
}

#[test]
fn an_index_that_says_something_else_than_the_journal_is_found() {
    let event = values::event(conversation(3), Seq(7));
    let said = said_after(|db| drop(db.remove(&event).unwrap()));
    assert!(said.contains("it lacks event 7"), "{said}");
    let said = said_after(|db| {
        let other = values::event(conversation(3), Seq(8));
        let place = db.get(&other).unwrap().unwrap();
        drop(db.insert(&event, place).unwrap());
    });
    assert!(said.contains("event 7 of conversation"), "{said}");
    let said = said_after(|db| {
        for part in db.scan_prefix(values::state(conversation(3))).keys() {
            drop(db.remove(part.unwrap()).unwrap());
        }
    });
    assert!(said.contains("ends at 120, and its state"), "{said}");
}

#[test]
fn an_index_that_is_not_there_is_said_to_be_made_anew() {
    let dir = sound();
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let verdict = checked(dir.path());
    assert!(verdict.index[0].contains("makes it anew"), "{verdict:?}");
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(120, read_all(&store, 3).unwrap());
}

#[test]
fn what_rots_in_an_old_part_is_found_by_who_reads_it_again() {
    let dir = sound();
    let store = Store::open(dir.path()).unwrap();
    let scrub = || {
        let (mut place, mut segments) = (ScrubPlace::default(), 0);
        while let Some(next) = store.scrub(place).unwrap() {
            (place, segments) = (next, segments + 1);
        }
        segments
    };
    // Nothing is written anew any more.
    block_on(store.erase()).unwrap();
    assert!(scrub() > 1);
    assert_eq!(Vec::<String>::new(), store.health().damage);
    let path = files_in(&dir.path().join("journal")).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    scrub();
    let damage = store.health().damage;
    assert!(
        damage.len() == 1 && damage[0].contains(path.to_str().unwrap()),
        "{damage:?}"
    );
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    scrub();
    assert_eq!(Vec::<String>::new(), store.health().damage);
}
