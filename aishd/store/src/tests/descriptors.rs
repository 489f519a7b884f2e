//! However long a store is open and whatever is done with it, it has few files open.

use std::fs;
use std::path::Path;

use super::super::backup::back_up;
use super::super::{ScrubPlace, Store};
use super::{Author, block_on, deletion, files_in, partial_of, read_all, rounds};

/// Segments that are kept open for reading, those that are written, sled's, the lock.
const MOST: usize = 16 + 8;

/// What this process has open below `dir`; `None` where nobody can tell.
fn open_below(dir: &Path) -> Option<Vec<String>> {
    let entries = fs::read_dir("/proc/self/fd").ok()?;
    let targets = entries.filter_map(|it| fs::read_link(it.ok()?.path()).ok());
    // What was removed is told as `PATH (deleted)`.
    let targets = targets.map(|it| it.display().to_string());
    let dir = dir.display().to_string();
    Some(targets.filter(|it| it.starts_with(&dir)).collect())
}

#[test]
fn the_files_that_a_store_has_open_do_not_become_more() {
    let dir = tempfile::tempdir().unwrap();
    let (root, backup) = (dir.path().join("store"), dir.path().join("backup"));
    if open_below(dir.path()).is_none() {
        println!("skipped: nobody says here what is open");
        return;
    }
    let store = Store::open_with_segments_of(&root, 16 << 10).unwrap();
    let (mut most, mut most_segments, mut scrubbed) = (vec![], 0, ScrubPlace::default());
    for round in 0..rounds("AISH_STORE_OPEN", 6) {
        let numbers = 100 * round..100 * round + 20;
        for number in numbers.clone() {
            let mut author = Author::new(number);
            for turn in 0..10 {
                assert!(store.keep_partial(partial_of(number, turn, 0, "half of an answer")));
                let commit = author.turn_commit();
                author.took(&commit);
                block_on(store.commit(commit)).unwrap();
            }
        }
        let segments = files_in(&root.join("journal")).len();
        most_segments = most_segments.max(segments);
        // All of them are read, in other orders too.
        for number in numbers.clone().chain(numbers.clone().rev()) {
            assert_eq!(30, read_all(&store, number).unwrap());
        }
        assert!(store.verify_trail(None).unwrap().is_whole());
        while let Some(next) = store.scrub(scrubbed).unwrap() {
            scrubbed = next;
        }
        scrubbed = ScrubPlace::default();
        back_up(&root, &backup, &|_, _| {}).unwrap();
        for number in numbers.step_by(2) {
            let id = Author::new(number).id();
            block_on(store.delete(id, deletion(number))).unwrap();
        }
        if round % 2 == 0 {
            block_on(store.erase()).unwrap();
        } else {
            block_on(store.compact()).unwrap();
        }
        assert!(store.check(&|_, _| {}).unwrap().is_whole());
        let open = open_below(dir.path()).unwrap();
        if open.len() > most.len() {
            most = open;
        }
    }
    println!("{} open with up to {most_segments} segments", most.len());
    assert!(most_segments > 2 * MOST, "too few: {most_segments}");
    assert!(most.len() <= MOST, "{most:#?}");
    store.close();
    // Also while somebody still has the handle.
    assert_eq!(Some(vec![]), open_below(dir.path()), "after the end");
    drop(store);
}
