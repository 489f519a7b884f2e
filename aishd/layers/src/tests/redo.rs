//! What was undone is done again, unless somebody changed it since; and undos one after the other.

use std::fs;

use super::conflicts::shown;
use super::scene::{Scene, lacks_overlays, options, write};
use super::trees::{Times, difference, picture};
use crate::journal::KeepConflicts;
use crate::keep::KeepOptions;
use crate::plan::KeepChoice;
use crate::step::ConflictReason;
use crate::undo::{Redoable, UndoError};

#[test]
fn what_was_undone_is_not_done_again_over_what_somebody_changed_since() {
    if lacks_overlays() {
        return;
    }
    let files = [("a", "1"), ("b", "1"), ("d/x", "1"), ("mode", "1")];
    let script = "echo 2 > a; rm b; echo 2 > new; rm -r d; chmod 600 mode";
    for (theirs, path, why) in [
        ("echo 3 > a", "a", ConflictReason::ChangedSince),
        ("rm a", "a", ConflictReason::Vanished),
        ("echo 3 >> b", "b", ConflictReason::ChangedSince),
        ("echo 3 > new", "new", ConflictReason::Appeared),
        ("echo 3 > d/y", "d", ConflictReason::ChangedSince),
        ("chmod 640 mode", "mode", ConflictReason::ChangedSince),
    ] {
        let scene = Scene::with(&files);
        scene.keep_all(&scene.run("set", script), "kept").unwrap();
        scene.store.undo("kept").unwrap();
        let theirs = std::process::Command::new("sh")
            .args(["-ec", theirs])
            .current_dir(&scene.real)
            .status();
        assert!(theirs.unwrap().success());
        let before = picture(&scene.real, Times::Shown);
        match scene.store.redo("kept", "again", 2_000) {
            Err(UndoError::Conflicts(conflicts)) => {
                assert_eq!(shown(&conflicts), [(path.to_owned(), why)]);
            }
            other => panic!("{path}: {other:?}"),
        }
        let now = picture(&scene.real, Times::Shown);
        assert_eq!(difference(&now, &before), None, "{path}");
        assert_eq!("kept: undone", scene.stages());
    }
}

#[test]
fn what_was_taken_back_waits_until_it_is_done_again_or_not_wanted() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", "1")]);
    scene
        .keep_all(&scene.run("set", "echo 2 > a"), "kept")
        .unwrap();
    fn missing<T>(tried: &Result<T, UndoError>) -> bool {
        matches!(tried, Err(UndoError::Missing(_)))
    }
    assert!(missing(&scene.store.redo("kept", "again", 2_000)));
    scene.store.undo("kept").unwrap();
    assert!(missing(&scene.store.undo("kept")));
    assert_eq!(1, scene.store.redo("kept", "again", 2_000).unwrap());
    assert_eq!(
        ("2\n", "again: kept"),
        (&*scene.read("a"), &*scene.stages())
    );
    assert!(missing(&scene.store.redo("kept", "more", 2_000)));
    scene.store.undo("again").unwrap();
    scene.store.forget_undone("again").unwrap();
    assert!(missing(&scene.store.redo("again", "more", 2_000)));
    assert_eq!(("1", ""), (&*scene.read("a"), &*scene.stages()));
}

#[test]
fn what_is_more_than_the_cap_does_not_wait_for_a_redo() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", "1")]);
    let set = scene.run("set", "head -c 100000 /dev/zero > new");
    let plan = scene.store.plan(&set, &KeepChoice::All).unwrap();
    let options = KeepOptions {
        undo_cap_bytes: 50_000,
        ..options("kept", KeepConflicts::Refuse)
    };
    scene.store.keep(&set, &plan, &options).unwrap();
    let undone = scene.store.undo("kept").unwrap();
    assert_eq!((1, Redoable::No), (undone.paths, undone.redo));
    assert_eq!("", scene.stages());
    scene.store.sweep().unwrap();
    assert_eq!(0, fs::read_dir(scene.state().join("undo")).unwrap().count());
}

/// The second keep has moved what the first one had made, and its undo puts that back: it is nobody else's change.
#[test]
fn keeps_of_one_large_file_are_undone_one_after_the_other() {
    if lacks_overlays() {
        return;
    }
    for scene in [Scene::new(), Scene::across()] {
        let write = |letter: &str| format!("head -c 3000000 /dev/zero | tr '\\0' {letter} > large");
        for (id, letter) in [("one", "1"), ("two", "2"), ("three", "3")] {
            scene
                .keep_all(&scene.run(&format!("set-{id}"), &write(letter)), id)
                .unwrap();
        }
        let begin = || scene.read("large").chars().next();
        for (id, now) in [("three", Some('2')), ("two", Some('1'))] {
            scene.store.undo(id).unwrap();
            assert_eq!(now, begin());
        }
        scene.store.redo("two", "two-", 2_000).unwrap();
        scene.store.redo("three", "three-", 2_000).unwrap();
        assert_eq!(Some('3'), begin());
        for id in ["three-", "two-", "one"] {
            scene.store.undo(id).unwrap();
        }
        assert_eq!("<entity not found>", scene.read("large"));
    }
}

/// Directories are replaced by directories, and a later turn removes what an earlier one had changed.
#[test]
fn directories_are_replaced_removed_and_done_again() {
    if lacks_overlays() {
        return;
    }
    let files = [
        ("d/x", "1"),
        ("p/build/sub/y", "1"),
        ("src/x", "1"),
        ("src/deep/z", "1"),
    ];
    let turns = [
        (
            "one",
            "rm -r d; mkdir d; echo 2 > d/x; rm -r p/build; mkdir -p p/build/sub; echo 2 > p/build/sub/y",
        ),
        (
            "two",
            "echo 2 > src/x; echo 2 > src/deep/new; mkdir made; echo 1 > made/a",
        ),
        ("three", "rm -r src made"),
    ];
    for scene in [Scene::new(), Scene::across()] {
        for (path, content) in files {
            write(&scene.real.join(path), content);
        }
        let mut pictures = vec![picture(&scene.real, Times::Hidden)];
        for (id, script) in turns {
            scene
                .keep_all(&scene.run(&format!("set-{id}"), script), id)
                .unwrap();
            pictures.push(picture(&scene.real, Times::Hidden));
        }
        for ((id, _), before) in turns.iter().zip(&pictures).rev() {
            scene.store.undo(id).unwrap();
            assert_eq!(
                difference(&picture(&scene.real, Times::Hidden), before),
                None,
                "{id}"
            );
        }
        for ((id, _), after) in turns.iter().zip(&pictures[1..]) {
            let done = scene.store.redo(id, &format!("{id}-"), 2_000);
            assert!(done.is_ok(), "{id}: {done:?}");
            assert_eq!(
                difference(&picture(&scene.real, Times::Hidden), after),
                None,
                "{id}"
            );
        }
        for ((id, _), before) in turns.iter().zip(&pictures).rev() {
            scene.store.undo(&format!("{id}-")).unwrap();
            assert_eq!(
                difference(&picture(&scene.real, Times::Hidden), before),
                None,
                "{id}"
            );
        }
    }
}

#[test]
fn names_of_one_file_that_were_removed_together_come_back_as_names_of_one_file() {
    use std::os::unix::fs::MetadataExt as _;
    if lacks_overlays() {
        return;
    }
    for scene in [Scene::new(), Scene::across()] {
        write(&scene.real.join("one"), "1");
        fs::hard_link(scene.real.join("one"), scene.real.join("two")).unwrap();
        scene
            .keep_all(&scene.run("set", "rm one two"), "kept")
            .unwrap();
        scene.store.undo("kept").unwrap();
        let links = |name| fs::metadata(scene.real.join(name)).unwrap().nlink();
        assert_eq!((2, 2), (links("one"), links("two")));
    }
}
