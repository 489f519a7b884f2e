//! A restore or a repair that is killed in the middle leaves one store whole, the old one or the new one, and the next start says
//! which.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::Store;
use super::super::backup::back_up;
use super::super::check::check;
use super::super::restore::{restore, restore_in_place};
use super::driver::{Task, start, task};
use super::{Author, block_on, conversation, files_in, fill, read_all};

const CONVERSATIONS: u64 = 3;
/// Only what was there before the restore has it.
const SINCE: u64 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
    /// What was there before.
    Old,
    /// What was to come.
    New,
}

/// A store, closed, that went on after its backup.
struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let scene = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let store = Store::open_with_segments_of(&scene.store(), 16 << 10).unwrap();
        fill(&store, CONVERSATIONS, 20);
        back_up(&scene.store(), &scene.backup(), &|_, _| {}).unwrap();
        block_on(store.commit(Author::new(SINCE).turn_commit())).unwrap();
        store.close();
        scene
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn backup(&self) -> PathBuf {
        self.dir.path().join("backup")
    }

    /// Restores the backup in a process that is killed at a place.
    fn restore_up_to(&self, place: &str) {
        let backup = self.backup();
        let restoring = Task {
            restore: backup.to_str().unwrap().to_owned(),
            failpoint: format!("{place}=kill"),
            ..task(&self.store())
        };
        end_in_the_middle(&restoring);
    }

    /// What is beside the store and the backup.
    fn others(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let paths = entries.map(|it| it.unwrap().path());
        paths
            .filter(|it| *it != self.store() && *it != self.backup())
            .collect()
    }

    /// The next start finds one of them whole and says which; the one after that has nothing to say.
    fn check(&self, wanted: Whole, what: &str) {
        let store = Store::open(&self.store()).unwrap();
        assert_eq!(wanted, which(&store), "{what}");
        let told = store.repairs().join("; ");
        let words = match wanted {
            Whole::Old => "the store is the one of before",
            Whole::New => "the store is the one of the backup",
        };
        assert!(told.contains(words), "{what}: {told}");
        store.close();
        let others = self.others();
        match wanted {
            Whole::Old => assert_eq!(Vec::<PathBuf>::new(), others, "{what}"),
            Whole::New => {
                assert_eq!(1, others.len(), "{what}: {others:?}");
                assert!(told.contains(others[0].to_str().unwrap()), "{what}: {told}");
                let aside = Store::open(&others[0]).unwrap();
                assert_eq!(Whole::Old, which(&aside), "{what}");
            }
        }
        let store = Store::open(&self.store()).unwrap();
        assert_eq!((wanted, vec![]), (which(&store), store.repairs()), "{what}");
        block_on(store.commit(Author::new(20).turn_commit())).unwrap();
    }
}

fn end_in_the_middle(task: &Task) {
    let output = start(&[], task).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "it was never there: {said}");
}

fn which(store: &Store) -> Whole {
    for number in 1..=CONVERSATIONS {
        assert_eq!(60, read_all(store, number).unwrap());
    }
    assert!(store.check(&|_, _| {}).unwrap().is_whole());
    match store.load(conversation(SINCE)).unwrap() {
        Some(_) => Whole::Old,
        None => Whole::New,
    }
}

#[test]
fn a_restore_that_is_killed_leaves_the_old_store_or_the_new_one_and_says_which() {
    for (place, whole) in [
        ("restore.mid", Whole::Old),
        ("replacement.marked", Whole::Old),
        ("replacement.exchanged", Whole::New),
        ("replacement.aside", Whole::New),
    ] {
        let scene = Scene::new();
        scene.restore_up_to(place);
        scene.check(whole, place);
    }
}

/// Where a file system cannot exchange two directories there are two steps, and between them there is no store.
#[test]
fn a_restore_that_is_killed_where_directories_cannot_be_exchanged_goes_on_with_the_new_one() {
    for steps in 1..=2 {
        let scene = Scene::new();
        scene.restore_up_to("replacement.marked");
        let draft = scene.dir.path().join("store.restoring");
        let aside = fs::read_to_string(draft.join("replaces")).unwrap();
        fs::rename(scene.store(), scene.dir.path().join(aside)).unwrap();
        if steps == 2 {
            fs::rename(&draft, scene.store()).unwrap();
        }
        scene.check(Whole::New, &format!("after {steps} steps"));
    }
}

#[test]
fn whoever_restores_again_after_a_kill_loses_none_of_them() {
    for (place, asides) in [("restore.mid", 1), ("replacement.exchanged", 2)] {
        let scene = Scene::new();
        scene.restore_up_to(place);
        restore_in_place(&scene.backup(), &scene.store(), true, &|_, _| {}).unwrap();
        let store = Store::open(&scene.store()).unwrap();
        assert_eq!(Whole::New, which(&store), "{place}");
        let others = scene.others();
        assert_eq!(asides, others.len(), "{place}: {others:?}");
        let whole: Vec<_> = others
            .iter()
            .map(|it| which(&Store::open(it).unwrap()))
            .collect();
        assert!(whole.contains(&Whole::Old), "{place}: {whole:?}");
    }
}

/// Directories of somebody else, which are called as somebody may call them, are not touched.
#[test]
fn what_a_person_put_beside_the_store_stays() {
    let scene = Scene::new();
    let mine = ["store.old", "store.new", "store.bak"].map(|it| scene.dir.path().join(it));
    for it in &mine {
        super::copy_dir(&scene.store(), it);
    }
    fs::remove_dir_all(scene.store()).unwrap();
    let store = Store::open(&scene.store()).unwrap();
    assert!(store.load(conversation(1)).unwrap().is_none());
    assert_eq!(Vec::<String>::new(), store.repairs());
    store.close();
    drop(store);
    restore_in_place(&scene.backup(), &scene.store(), true, &|_, _| {}).unwrap();
    for it in &mine {
        assert_eq!(Whole::Old, which(&Store::open(it).unwrap()));
    }
}

#[test]
fn a_restore_to_where_nothing_was_that_is_killed_leaves_nothing_and_says_so() {
    for starts_between in [true, false] {
        let scene = Scene::new();
        fs::remove_dir_all(scene.store()).unwrap();
        scene.restore_up_to("restore.mid");
        if starts_between {
            let store = Store::open(&scene.store()).unwrap();
            assert!(store.load(conversation(1)).unwrap().is_none());
            let told = store.repairs().join("; ");
            assert!(told.contains("nothing of it is here"), "{told}");
            store.close();
            drop(store);
            restore_in_place(&scene.backup(), &scene.store(), true, &|_, _| {}).unwrap();
        } else {
            restore(&scene.backup(), &scene.store(), &|_, _| {}).unwrap();
        }
        let store = Store::open(&scene.store()).unwrap();
        assert_eq!((Whole::New, vec![]), (which(&store), store.repairs()));
    }
}

/// A restore that is refused leaves nothing of what it had copied.
#[test]
fn a_restore_that_fails_leaves_nothing() {
    let scene = Scene::new();
    let last = files_in(&scene.backup().join("journal")).pop().unwrap();
    fs::write(last, "rotten").unwrap();
    let elsewhere = scene.dir.path().join("elsewhere");
    restore(&scene.backup(), &elsewhere, &|_, _| {}).unwrap_err();
    assert_eq!(vec![elsewhere.join("lock")], files_in(&elsewhere));
    let refused = restore_in_place(&scene.backup(), &scene.store(), true, &|_, _| {});
    refused.unwrap_err();
    let store = Store::open(&scene.store()).unwrap();
    assert_eq!((Whole::Old, vec![]), (which(&store), store.repairs()));
}

/// Damages a record of a conversation. Returns its number.
fn damage(store: &Path) -> u64 {
    let segments = files_in(&store.join("journal"));
    let path = &segments[segments.len() / 2];
    let mut bytes = fs::read(path).unwrap();
    let text = b"\"2/";
    let at = bytes.windows(text.len()).position(|it| it == text).unwrap();
    bytes[at + 1] ^= 1;
    fs::write(path, bytes).unwrap();
    2
}

/// A store with a damaged record, whose repair was killed at a place.
fn repaired_up_to(place: &str) -> (Scene, u64) {
    let scene = Scene::new();
    let damaged = damage(&scene.store());
    let aside = scene.dir.path().join("aside");
    let repairing = Task {
        repair: aside.to_str().unwrap().to_owned(),
        failpoint: format!("{place}=kill"),
        ..task(&scene.store())
    };
    end_in_the_middle(&repairing);
    (scene, damaged)
}

/// Whoever looks sees one of the journals whole, the next start says which it is, and the one after that has nothing to say.
fn check_repaired(scene: &Scene, damaged: u64, wanted: Whole, what: &str) {
    let found = check(&scene.store(), &|_, _| {}).unwrap();
    assert_eq!(wanted == Whole::Old, !found.damage.is_empty(), "{what}");
    let store = Store::open(&scene.store()).unwrap();
    let told = store.repairs().join("; ");
    let (words, read_as) = match wanted {
        Whole::Old => ("it is the one of before", "damaged"),
        Whole::New => ("it is the new one", "RecordLost"),
    };
    assert!(told.contains(words), "{what}: {told}");
    let read = read_all(&store, damaged).unwrap_err();
    assert!(read.contains(read_as), "{what}: {read}");
    for number in (1..=CONVERSATIONS).filter(|it| *it != damaged) {
        assert_eq!(60, read_all(&store, number).unwrap(), "{what}");
    }
    assert_eq!(3, read_all(&store, SINCE).unwrap(), "{what}");
    store.close();
    for entry in fs::read_dir(scene.store()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.starts_with("journal."), "{what}: {name}");
    }
    let store = Store::open(&scene.store()).unwrap();
    let told = store.repairs().join("; ");
    assert!(!told.contains("ended in the middle"), "{what}: {told}");
}

#[test]
fn a_repair_that_is_killed_leaves_the_old_journal_or_the_new_one_and_says_which() {
    for (place, whole) in [
        ("repair.mid", Whole::Old),
        ("replacement.marked", Whole::Old),
        ("replacement.exchanged", Whole::New),
        ("replacement.aside", Whole::New),
    ] {
        let (scene, damaged) = repaired_up_to(place);
        check_repaired(&scene, damaged, whole, place);
    }
}

#[test]
fn a_repair_that_is_killed_where_directories_cannot_be_exchanged_goes_on_with_the_new_journal() {
    for steps in 1..=2 {
        let (scene, damaged) = repaired_up_to("replacement.marked");
        let below = |name| scene.store().join(name);
        fs::rename(below("journal"), below("journal.old")).unwrap();
        if steps == 2 {
            fs::rename(below("journal.new"), below("journal")).unwrap();
        }
        check_repaired(&scene, damaged, Whole::New, &format!("after {steps} steps"));
    }
}

/// As a program of before left it that could not exchange them.
#[test]
fn a_journal_that_was_put_aside_and_replaced_by_none_is_put_back() {
    let scene = Scene::new();
    let (journal, old) = (
        scene.store().join("journal"),
        scene.store().join("journal.old"),
    );
    super::copy_dir(&journal, &scene.store().join("journal.new"));
    fs::rename(&journal, &old).unwrap();
    let store = Store::open(&scene.store()).unwrap();
    assert_eq!(Whole::Old, which(&store));
    let told = store.repairs().join("; ");
    assert!(told.contains("it is the one of before"), "{told}");
    assert!(!old.exists());
}
