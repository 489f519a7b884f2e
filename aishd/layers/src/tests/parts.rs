//! Parts that are kept or dropped while a run goes on in its layers.

use super::driver;
use super::scene::{Scene, lacks_overlays, paths, rel};
use super::trees::{Times, difference, picture};
use crate::journal::KeepConflicts;
use crate::keep::KeepError;
use crate::layer_set::LayerSet;
use crate::plan::KeepChoice;
use crate::recover::Recovered;

fn next_step(scene: &Scene, set: &LayerSet, script: &str) {
    set.reopen().unwrap();
    scene.step(set, script);
    set.seal().unwrap();
}

fn keep_part(scene: &Scene, set: &LayerSet, undo: &str, choice: &KeepChoice) {
    scene
        .keep(set, undo, choice, KeepConflicts::Refuse)
        .unwrap();
    scene.store.seal_upon(set, undo).unwrap();
}

/// What was kept is written again, its directories go as a whole, and none of it is somebody else's.
#[test]
fn what_was_kept_of_a_run_is_no_conflict_whatever_it_does_there_afterwards() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", "1"), ("d/x", "1"), ("d/y", "1"), ("e/x", "1")]);
    let set = scene.run(
        "set",
        "echo 2 > a; echo 2 > d/x; mkdir -p new/deep; echo 1 > new/deep/f; echo 1 > new/g; echo 2 > e/x",
    );
    keep_part(
        &scene,
        &set,
        "first",
        &paths(&["a", "d/x", "new/deep/f", "e"]),
    );
    assert_eq!(
        ["a", "d/x", "new/deep/f", "new/g"].map(|it| scene.read(it)),
        ["2\n", "2\n", "1\n", "<entity not found>"]
    );
    next_step(
        &scene,
        &set,
        "test \"$(cat a)\" = 2; echo 3 > a; test -e new/g; echo 1 > new/deep/h; echo 3 > e/x",
    );
    // Its directories go: of all that is in them the run knows.
    next_step(&scene, &set, "rm -r d new e");
    let plan = scene.store.plan(&set, &KeepChoice::All).unwrap();
    assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
    scene.keep_all(&set, "second").unwrap();
    assert_eq!("3\n", scene.read("a"));
    for gone in ["d", "new", "e"] {
        assert!(!scene.real.join(gone).exists(), "{gone}");
    }
    scene.store.undo("second").unwrap();
    scene.store.undo("first").unwrap();
    assert_eq!(
        ["a", "d/x", "e/x", "new/g"].map(|it| scene.read(it)),
        ["1", "1", "1", "<entity not found>"]
    );
}

/// What somebody else does after a part was kept is theirs, as before.
#[test]
fn what_somebody_changes_after_a_part_was_kept_is_a_conflict() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", "1"), ("b", "1"), ("d/x", "1"), ("d/y", "1")]);
    let set = scene.run("set", "echo 2 > a; echo 2 > b; echo 2 > d/x");
    keep_part(&scene, &set, "first", &paths(&["a", "d/x"]));
    next_step(&scene, &set, "echo 3 > a; chmod 700 d");
    for theirs in ["a", "b", "d/y"] {
        super::scene::write(&scene.real.join(theirs), "theirs");
    }
    next_step(&scene, &set, "rm -r d");
    let Err(KeepError::Conflicts(conflicts)) = scene.keep_all(&set, "second") else {
        panic!("somebody else's work is lost");
    };
    let conflicts: Vec<_> = conflicts.into_iter().map(|it| it.path).collect();
    assert_eq!(["a", "b", "d"].map(rel).to_vec(), conflicts);
    assert_eq!("theirs", scene.read("d/y"));
}

#[test]
fn what_is_dropped_of_a_run_is_as_before_for_its_next_step() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", "1"), ("b", "1"), ("gone", "1"), ("d/x", "1")]);
    let set = scene.run(
        "set",
        "echo 2 > a; echo 2 > b; rm gone; rm -r d; mkdir d; echo new > d/new; mkdir made; echo 1 > made/x; echo 1 > made/y; chmod 500 made",
    );
    let before = picture(&scene.real, Times::Hidden);
    let dropped = set
        .drop_part(&paths(&["a", "gone", "d", "made/x"]))
        .unwrap();
    assert_eq!(5, dropped.paths);
    next_step(
        &scene,
        &set,
        "test \"$(cat a gone d/x b)\" = \"$(printf '1112')\"; test ! -e d/new; test ! -e made/x; test -e made/y",
    );
    assert_eq!(
        None,
        difference(&before, &picture(&scene.real, Times::Hidden))
    );
    let dropped = set.drop_part(&KeepChoice::All).unwrap();
    assert_eq!(3, dropped.paths);
    assert_eq!(0, set.drop_part(&KeepChoice::All).unwrap().paths);
    next_step(
        &scene,
        &set,
        "test \"$(cat b)\" = 1; test ! -e made; echo 3 > b",
    );
    scene.keep_all(&set, "kept").unwrap();
    assert_eq!(["1", "3\n"], ["a", "b"].map(|it| scene.read(it)));
}

/// A directory that hides another one would go on to hide what was kept of it.
#[test]
fn a_part_of_a_directory_that_took_the_place_of_another_cannot_stand_alone() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("d/x", "1"), ("e/x", "1"), ("file", "1")]);
    let set = scene.run(
        "set",
        "rm -r d; mkdir d; echo new > d/new; mkdir -p fresh/in; echo 1 > fresh/in/f; echo 2 > e/x; rm file; mkdir file; echo 1 > file/f",
    );
    let check = |chosen: &[&str], expected: &[&str]| {
        let split = set.split_by(&paths(chosen)).unwrap();
        let expected: Vec<_> = expected.iter().map(|it| (0, rel(it))).collect();
        assert_eq!(expected, split, "{chosen:?}");
    };
    check(&["d/new"], &["d"]);
    check(&["d"], &[]);
    check(&["d", "d/new"], &[]);
    check(&["fresh/in/f", "e/x", "file/f"], &[]);
    assert!(set.split_by(&KeepChoice::All).unwrap().is_empty());
}

#[test]
fn what_was_looked_at_has_a_name_that_is_another_when_it_is_changed() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", "1"), ("b", "1")]);
    let set = scene.run("set", "echo 2 > a; echo 2 > b; chmod 000 b");
    let seen = |choice: &KeepChoice| {
        set.changes(&crate::changes::ReadBounds::default()).unwrap();
        set.seen(choice).unwrap()
    };
    let (all, a) = (seen(&KeepChoice::All), seen(&paths(&["a"])));
    assert_eq!(all, seen(&KeepChoice::All));
    next_step(&scene, &set, "cat a");
    assert_eq!(a, seen(&paths(&["a"])), "nothing was changed");
    next_step(&scene, &set, "touch -r a time; echo 3 > b; touch -r time b");
    assert_eq!(a, seen(&paths(&["a"])));
    assert_ne!(all, seen(&KeepChoice::All));
    // With its size and its time as they were.
    next_step(&scene, &set, "echo 3 > a; touch -r time a");
    assert_ne!(a, seen(&paths(&["a"])));
}

/// kill -9 at each place of a keep of a part, and of the recovery: the run goes on over what is real then, and keeps the rest.
#[test]
fn a_part_whose_keep_was_killed_is_whole_or_as_before_and_the_run_goes_on() {
    if lacks_overlays() {
        return;
    }
    let (mut went_back, mut went_on) = (0, 0);
    for nth in 1.. {
        let scene = Scene::with(&[("a", "1"), ("d/x", "1"), ("gone", "1")]);
        let script = "echo 2 > a; echo 2 > d/x; rm gone; mkdir new; echo 1 > new/f; echo 1 > new/g; ln new/g new/h";
        let set = scene.run("set", script);
        if !driver::killed("keep part", &scene.state(), nth) {
            break;
        }
        driver::killed("recover", &scene.state(), 1 + nth % 5);
        let said: Vec<Recovered> = scene
            .store
            .recover()
            .unwrap()
            .into_iter()
            .map(Result::unwrap)
            .collect();
        let is_kept = !scene.store.undo_entries().unwrap().is_empty();
        assert!(
            !matches!(&said[..], [Recovered::WentBack(..)]) || !is_kept,
            "place {nth}: {said:?}"
        );
        let now = ["a", "d/x", "new/f", "new/g"].map(|it| scene.read(it));
        if is_kept {
            went_on += 1;
            assert_eq!(
                ["2\n", "2\n", "1\n", "<entity not found>"],
                now,
                "place {nth}"
            );
            scene.store.seal_upon(&set, "kept").unwrap();
        } else {
            went_back += 1;
            let none = "<entity not found>";
            assert_eq!(["1", "1", none, none], now, "place {nth}");
        }
        next_step(
            &scene,
            &set,
            "echo 3 > a; rm -r d; test ! -e gone; echo 2 >> new/f; cat new/g new/h",
        );
        scene.keep_all(&set, "rest").unwrap();
        assert_eq!(
            ["3\n", "<entity not found>", "1\n2\n", "1\n"],
            ["a", "d/x", "new/f", "new/g"].map(|it| scene.read(it)),
            "place {nth}"
        );
    }
    println!("{went_back} went back, {went_on} went on");
    assert!(went_back > 0 && went_on > 5);
}

/// Killed in the middle of dropping: doing it again drops the rest, and nothing real is another than before.
#[test]
fn a_drop_that_was_killed_is_done_again() {
    if lacks_overlays() {
        return;
    }
    for nth in 1.. {
        let scene = Scene::with(&[("a", "1"), ("d/x", "1"), ("gone", "1")]);
        let set = scene.run(
            "set",
            "echo 2 > a; echo 2 > d/x; rm gone; mkdir new; echo 1 > new/f",
        );
        let before = picture(&scene.real, Times::Hidden);
        if !driver::killed("drop", &scene.state(), nth) {
            break;
        }
        set.drop_part(&KeepChoice::All).unwrap();
        next_step(
            &scene,
            &set,
            "test \"$(cat a d/x gone)\" = 111; test ! -e new; echo 5 > own",
        );
        assert_eq!(
            None,
            difference(&before, &picture(&scene.real, Times::Hidden))
        );
        let plan = scene.store.plan(&set, &KeepChoice::All).unwrap();
        assert_eq!((1, 0), (plan.paths(), plan.conflicts.len()), "place {nth}");
    }
}
