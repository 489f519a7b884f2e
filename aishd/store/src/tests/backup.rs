//! A backup is a prefix of what was acknowledged, whatever goes on meanwhile and wherever it is cut off.

use std::fs;
use std::path::Path;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

use super::super::Store;
use super::super::backup::{BackupError, back_up};
use super::super::restore::restore;
use super::driver::{said, start, task};
use super::{Author, Dice, block_on, conversation, deletion, files_in, fill, read_all, rounds};

fn back_up_quietly(dir: &Path, target: &Path) -> super::super::backup::StoreBackup {
    back_up(dir, target, &|_, _| {}).unwrap()
}

/// The store that a backup becomes.
fn restored(backup: &Path) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("store");
    restore(backup, &target, &|_, _| {}).unwrap();
    let store = Store::open(&target).unwrap();
    (dir, store)
}

#[test]
fn a_backup_becomes_the_same_store_and_only_what_is_new_is_copied() {
    let (dir, backups) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = backups.path().join("aish");
    let store = Store::open_with_segments_of(dir.path(), 64 << 10).unwrap();
    fill(&store, 4, 40);
    let first = back_up_quietly(dir.path(), &target);
    assert_eq!(first.bytes, first.copied_bytes);
    let again = back_up_quietly(dir.path(), &target);
    assert_eq!((first.bytes, 0), (again.bytes, again.copied_bytes));
    block_on(store.commit(Author::new(9).turn_commit())).unwrap();
    let third = back_up_quietly(dir.path(), &target);
    assert!(third.copied_bytes < third.bytes / 2, "{third:?}");

    let (_dir, copy) = restored(&target);
    assert_ne!(store.epoch(), copy.epoch());
    for number in 1..=4 {
        assert_eq!(120, read_all(&copy, number).unwrap());
    }
    assert_eq!(3, read_all(&copy, 9).unwrap());
    assert_eq!(Vec::<String>::new(), copy.repairs());
    assert!(copy.check(&|_, _| {}).unwrap().is_whole());
    block_on(copy.commit(Author::new(10).turn_commit())).unwrap();

    // What is deleted leaves the backup with the next one.
    block_on(store.delete(conversation(2), deletion(2))).unwrap();
    block_on(store.erase()).unwrap();
    back_up_quietly(dir.path(), &target);
    super::crash::no_file_has(&target, &[2], "the next backup");
    let (_dir, copy) = restored(&target);
    assert!(copy.load(conversation(2)).unwrap().is_none());
    assert_eq!(120, read_all(&copy, 3).unwrap());
}

#[test]
fn what_is_no_backup_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    fill(&store, 2, 3);
    let target = dir.path().join("backup");
    let refused = restore(&target, &dir.path().join("other"), &|_, _| {});
    assert!(
        matches!(refused, Err(BackupError::NoBackup(_))),
        "{refused:?}"
    );
    let refused = back_up(&dir.path().join("nothing"), &target, &|_, _| {});
    assert!(
        matches!(refused, Err(BackupError::NoStore(_))),
        "{refused:?}"
    );
    fs::create_dir(dir.path().join("full")).unwrap();
    fs::write(dir.path().join("full/letter"), "dear").unwrap();
    let refused = back_up(
        &dir.path().join("store"),
        &dir.path().join("full"),
        &|_, _| {},
    );
    assert!(
        matches!(refused, Err(BackupError::NotEmpty(_))),
        "{refused:?}"
    );
    // Also where it has a directory that is called like ours.
    let diary = dir.path().join("notes/journal");
    fs::create_dir_all(&diary).unwrap();
    fs::write(diary.join("today"), "dear").unwrap();
    let refused = back_up(
        &dir.path().join("store"),
        &dir.path().join("notes"),
        &|_, _| {},
    );
    assert!(
        matches!(refused, Err(BackupError::NotEmpty(_))) && diary.join("today").exists(),
        "{refused:?}"
    );
    back_up_quietly(&dir.path().join("store"), &target);
    store.close();
    drop(store);
    let refused = restore(&target, &dir.path().join("store"), &|_, _| {});
    assert!(
        matches!(refused, Err(BackupError::HasStore(_))),
        "{refused:?}"
    );
    let file = files_in(&target.join("journal")).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    bytes[200] ^= 1;
    fs::write(&file, bytes).unwrap();
    let refused = restore(&target, &dir.path().join("other"), &|_, _| {});
    assert!(
        matches!(refused, Err(BackupError::Damaged { .. })),
        "{refused:?}"
    );
}

/// Three writers write, others are deleted and the journal is compacted, and the backups are killed in the middle of it.
#[test]
fn backups_of_a_store_that_is_written_are_each_a_whole_prefix() {
    let (dir, backups) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = backups.path().join("aish");
    let churning = super::driver::Task {
        churn: true,
        producers: 3,
        life: 1,
        ..task(dir.path())
    };
    let mut child = start(&[], &churning);
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut output = String::new();
    let mut acknowledged = [0; 4];
    let (mut whole, mut killed) = (0, 0);
    let mut dice = Dice::new(5);
    let wanted = rounds("AISH_STORE_BACKUPS", 4);
    while whole < wanted {
        // What was acknowledged before the backup began is in it.
        read_until_acknowledged(&mut stdout, &mut output);
        for (_, number, seq) in said(&output).into_iter().filter(|it| it.0 == "ack") {
            acknowledged[usize::try_from(number).unwrap()] = seq;
        }
        let place = ["backup.mid", "backup.copied", ""][usize::try_from(dice.below(3)).unwrap()];
        let is_whole = back_up_in_a_process(dir.path(), &target, place, 1 + dice.below(4));
        if !is_whole {
            killed += 1;
        }
        if !target.join("backup.json").exists() {
            assert!(whole == 0 && !is_whole);
            continue;
        }
        // What it wrote while this one is looked at would only make the next one longer.
        signal(&child, Signal::STOP);
        let (_restored, store) = restored(&target);
        for number in 1..=3 {
            let last = read_all(&store, number).unwrap();
            let wanted = acknowledged[usize::try_from(number).unwrap()];
            assert!(!is_whole || last >= wanted, "{number}: {last} of {wanted}");
        }
        let verdict = store.check(&|_, _| {}).unwrap();
        assert!(verdict.is_whole(), "{verdict:?}");
        assert_eq!(Vec::<String>::new(), store.repairs());
        store.close();
        signal(&child, Signal::CONT);
        whole += u64::from(is_whole);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    println!("{whole} backups, {killed} of them killed before; each was whole");
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn read_until_acknowledged(stdout: &mut impl std::io::BufRead, output: &mut String) {
    let before = output.len();
    while !output[before..].contains("ack 1 ") {
        assert!(stdout.read_line(output).unwrap() > 0, "it ended: {output}");
    }
}

/// Makes a backup, which is killed at the `nth` passing of a place. Returns whether it was made.
fn back_up_in_a_process(dir: &Path, target: &Path, place: &str, nth: u64) -> bool {
    let failpoint = if place.is_empty() {
        String::new()
    } else {
        let nth = if place == "backup.copied" { 1 } else { nth };
        format!("{place}=kill@{nth}")
    };
    let task = super::driver::Task {
        backup: target.to_str().unwrap().to_owned(),
        failpoint,
        ..task(dir)
    };
    let output = start(&[], &task).wait_with_output().unwrap();
    output.status.success()
}

#[test]
fn a_backup_that_rots_is_made_good_while_the_store_has_what_was_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let (from, target) = (dir.path().join("store"), dir.path().join("backup"));
    let store = Store::open_with_segments_of(&from, 64 << 10).unwrap();
    fill(&store, 4, 40);
    back_up_quietly(&from, &target);
    let file = files_in(&target.join("journal")).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    bytes[2000] ^= 1;
    fs::write(&file, bytes).unwrap();
    let refused = restore(&target, &dir.path().join("other"), &|_, _| {});
    assert!(
        matches!(refused, Err(BackupError::Damaged { .. })),
        "{refused:?}"
    );
    for _ in 0..8 {
        back_up_quietly(&from, &target);
    }
    restore(&target, &dir.path().join("another"), &|_, _| {}).unwrap();
}
