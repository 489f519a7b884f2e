//! A backup is often on a disk that others write too. A symbolic link in it leads nowhere.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::super::Store;
use super::super::backup::{BackupError, back_up};
use super::super::restore::restore;
use super::{Author, block_on, conversation, copy_dir, files_in, fill, read_all};

/// A store, and a backup of it.
struct Scene {
    dir: tempfile::TempDir,
    store: Store,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_with_segments_of(&dir.path().join("store"), 16 << 10).unwrap();
        fill(&store, 2, 20);
        let scene = Self { dir, store };
        scene.back_up(&scene.backup()).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn backup(&self) -> PathBuf {
        self.path("backup")
    }

    fn back_up(&self, target: &Path) -> Result<(), BackupError> {
        back_up(&self.path("store"), target, &|_, _| {}).map(|_| ())
    }

    /// Puts a link in the place of something that is moved away, and returns where that is.
    fn link_instead_of(&self, path: &Path) -> PathBuf {
        let elsewhere = self.path("elsewhere");
        fs::rename(path, &elsewhere).unwrap();
        symlink(&elsewhere, path).unwrap();
        elsewhere
    }

    fn restore(&self, backup: &Path) -> Result<(), BackupError> {
        restore(backup, &self.path("restored"), &|_, _| {}).map(|_| ())
    }
}

/// What was asked is not done, and the link is named.
fn refused(outcome: Result<(), BackupError>, link: &Path) {
    match outcome {
        Err(BackupError::Link(named)) => assert_eq!(link.display().to_string(), named),
        other => panic!("{}: {other:?}", link.display()),
    }
}

/// What is in a file, or in all below a directory.
fn contents(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = if path.is_dir() {
        files_in(path)
    } else {
        vec![path.to_owned()]
    };
    let read = |it: PathBuf| (it.clone(), fs::read(it).unwrap());
    files.into_iter().map(read).collect()
}

#[test]
fn a_path_that_is_a_link_is_neither_written_nor_restored() {
    let scene = Scene::new();
    let link = scene.backup();
    let elsewhere = scene.link_instead_of(&link);
    block_on(scene.store.commit(Author::new(9).turn_commit())).unwrap();
    let before = contents(&elsewhere);
    refused(scene.back_up(&link), &link);
    refused(scene.restore(&link), &link);
    let through = PathBuf::from(format!("{}/", link.display()));
    refused(scene.back_up(&through), &link);
    refused(scene.restore(&through), &link);
    assert!(before == contents(&elsewhere), "it was written through");
    // Whoever means what it leads to names that.
    scene.back_up(&elsewhere).unwrap();
    scene.restore(&elsewhere).unwrap();
}

#[test]
fn a_part_of_a_backup_that_is_a_link_is_neither_written_nor_restored() {
    for part in ["journal", "backup.json", "lock"] {
        let scene = Scene::new();
        let link = scene.backup().join(part);
        let elsewhere = scene.link_instead_of(&link);
        block_on(scene.store.commit(Author::new(9).turn_commit())).unwrap();
        let before = contents(&elsewhere);
        refused(scene.back_up(&scene.backup()), &link);
        assert!(before == contents(&elsewhere), "{part}: written through");
        if part == "lock" {
            scene.restore(&scene.backup()).unwrap();
        } else {
            refused(scene.restore(&scene.backup()), &link);
            assert!(!scene.path("restored/journal").exists(), "{part}");
        }
    }
}

/// Also one that leads to just what should be there.
#[test]
fn a_link_in_the_place_of_a_file_is_not_restored_and_the_next_backup_has_the_file() {
    let scene = Scene::new();
    let link = files_in(&scene.backup().join("journal")).remove(0);
    let elsewhere = scene.link_instead_of(&link);
    let was = fs::read(&elsewhere).unwrap();
    refused(scene.restore(&scene.backup()), &link);
    assert!(!scene.path("restored/journal").exists());
    scene.back_up(&scene.backup()).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_file());
    assert_eq!(was, fs::read(&link).unwrap());
    assert_eq!(was, fs::read(&elsewhere).unwrap());
    scene.restore(&scene.backup()).unwrap();
    let restored = Store::open(&scene.path("restored")).unwrap();
    assert_eq!(60, read_all(&restored, 1).unwrap());
}

#[test]
fn what_a_link_beside_the_files_leads_to_is_no_part_of_it() {
    let scene = Scene::new();
    // Somebody else's conversation, called like a file of a backup, of a store, and like neither.
    let others = scene.path("others");
    let store = Store::open(&others).unwrap();
    block_on(store.commit(Author::new(77).turn_commit())).unwrap();
    store.close();
    let secret = files_in(&others.join("journal")).remove(0);
    let was = fs::read(&secret).unwrap();
    let journal = scene.backup().join("journal");
    let listed = files_in(&journal).remove(0);
    let listed = listed.file_name().unwrap().to_str().unwrap();
    let names = [
        format!("99999999999999999999{}", &listed[20..]),
        "99999999999999999999.jsonl".to_owned(),
        "letter".to_owned(),
        format!("{}.part", listed.strip_suffix(".jsonl").unwrap()),
    ];
    for name in &names {
        symlink(&secret, journal.join(name)).unwrap();
    }
    symlink(&others, journal.join("directory")).unwrap();
    symlink(&secret, scene.backup().join("backup.json.part")).unwrap();
    scene.restore(&scene.backup()).unwrap();
    let restored = Store::open(&scene.path("restored")).unwrap();
    assert_eq!(60, read_all(&restored, 2).unwrap());
    assert!(restored.load(conversation(77)).unwrap().is_none());
    assert!(restored.check(&|_, _| {}).unwrap().is_whole());
    restored.close();
    // The next backup writes through none of them.
    block_on(scene.store.commit(Author::new(9).turn_commit())).unwrap();
    scene.back_up(&scene.backup()).unwrap();
    assert_eq!(was, fs::read(&secret).unwrap());
    let copy = scene.path("copy");
    copy_dir(&scene.path("store/journal"), &copy);
    super::crash::no_file_has(&copy, &[77], "the store");
}

/// Segments of a store are files too.
#[test]
fn a_link_in_the_journal_of_the_store_is_not_backed_up() {
    let scene = Scene::new();
    let link = files_in(&scene.path("store/journal")).remove(0);
    scene.link_instead_of(&link);
    refused(scene.back_up(&scene.path("another")), &link);
}
