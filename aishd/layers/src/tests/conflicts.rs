//! What somebody else changed is never overwritten, and nothing is lost.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::scene::{self, Scene, lacks_overlays, options, paths, rel, write};
use super::trees::{Times, difference, picture};
use crate::journal::KeepConflicts;
use crate::keep::{BeyondCap, KeepError, KeepOptions};
use crate::plan::{Conflict, KeepChoice};
use crate::step::ConflictReason;
use crate::undo::UndoError;

pub(super) fn shown(conflicts: &[Conflict]) -> Vec<(String, ConflictReason)> {
    let shown = |conflict: &Conflict| {
        (
            conflict.path.as_path().to_string_lossy().into_owned(),
            conflict.why,
        )
    };
    conflicts.iter().map(shown).collect()
}

fn check(
    files: &[(&str, &str)],
    script: &str,
    meanwhile: impl FnOnce(&Scene),
    expected: &[(&str, ConflictReason)],
) {
    let scene = Scene::with(files);
    let set = scene.run("set", script);
    meanwhile(&scene);
    let before = picture(&scene.real, Times::Shown);
    let refused = scene.keep_all(&set, "kept").unwrap_err();
    let KeepError::Conflicts(conflicts) = &refused else {
        panic!("{refused:?}");
    };
    let expected: Vec<_> = expected
        .iter()
        .map(|(path, why)| ((*path).to_owned(), *why))
        .collect();
    assert_eq!(shown(conflicts), expected);
    assert_eq!(
        difference(&picture(&scene.real, Times::Shown), &before),
        None,
        "nothing is kept"
    );

    let kept = scene
        .keep(&set, "rest", &KeepChoice::All, KeepConflicts::KeepTheRest)
        .unwrap();
    assert_eq!(shown(&kept.conflicts), expected);
    let after = picture(&scene.real, Times::Hidden);
    for (path, _) in &expected {
        let there: Vec<_> = after
            .iter()
            .filter(|(at, _)| at.is_at_or_below(&rel(path)))
            .collect();
        let was = picture(&scene.real, Times::Hidden);
        assert_eq!(
            there,
            was.iter()
                .filter(|(at, _)| at.is_at_or_below(&rel(path)))
                .collect::<Vec<_>>()
        );
    }
    assert_eq!(scene.read("other"), "ours\n", "the rest is kept");
    scene.store.undo("rest").unwrap();
    assert_eq!(
        difference(&picture(&scene.real, Times::Shown), &before),
        None,
        "and can be undone"
    );
}

#[test]
fn a_change_by_somebody_else_is_a_conflict() {
    if lacks_overlays() {
        return;
    }
    let since = |path: &'static str| move |scene: &Scene| write(&scene.real.join(path), "theirs");
    check(
        &[("a", "1")],
        "echo 2 > a; echo ours > other",
        since("a"),
        &[("a", ConflictReason::ChangedSince)],
    );
    check(
        &[],
        "echo 2 > a; echo ours > other",
        since("a"),
        &[("a", ConflictReason::Appeared)],
    );
    check(
        &[("a", "1")],
        "rm a; echo ours > other",
        since("a"),
        &[("a", ConflictReason::ChangedSince)],
    );
    check(
        &[("a", "1")],
        "chmod 600 a; echo ours > other",
        since("a"),
        &[("a", ConflictReason::ChangedSince)],
    );
    let gone = |scene: &Scene| fs::remove_file(scene.real.join("a")).unwrap();
    check(
        &[("a", "1")],
        "echo 2 > a; echo ours > other",
        gone,
        &[("a", ConflictReason::Vanished)],
    );
    let mode = |scene: &Scene| {
        fs::set_permissions(scene.real.join("a"), fs::Permissions::from_mode(0o600)).unwrap();
    };
    check(
        &[("a", "1")],
        "echo 2 > a; echo ours > other",
        mode,
        &[("a", ConflictReason::ChangedSince)],
    );
}

#[test]
fn a_file_that_somebody_put_into_a_removed_directory_is_not_lost() {
    if lacks_overlays() {
        return;
    }
    let files = [("d/one", "1"), ("d/e/two", "2")];
    let put = |scene: &Scene| write(&scene.real.join("d/e/theirs"), "theirs");
    for script in [
        "rm -r d",
        "rm -r d; echo now > d",
        "rm -r d; mkdir d; echo in > d/in",
    ] {
        check(
            &files,
            &format!("{script}; echo ours > other"),
            put,
            &[("d", ConflictReason::ChangedSince)],
        );
    }
}

#[test]
fn what_was_changed_while_the_command_ran_is_told_from_what_was_before() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", "1"), ("b", "1")]);
    let set = scene.begin("set");
    scene.step(&set, "echo 2 > a; echo 2 > b");
    write(&scene.real.join("a"), "theirs");
    let report = set.seal().unwrap();
    assert_eq!(
        report.changed_meanwhile, 1,
        "b was written in the tick before the begin"
    );
    let Err(KeepError::Conflicts(conflicts)) = scene.keep_all(&set, "kept") else {
        panic!("kept");
    };
    assert_eq!(
        shown(&conflicts),
        [("a".to_owned(), ConflictReason::ChangedMeanwhile)]
    );
}

#[test]
fn the_second_of_two_layers_conflicts_with_the_first() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", "1"), ("b", "1")]);
    let one = scene.run("one", "echo one > a; echo one > mine");
    let two = scene.run(
        "two",
        "echo two > a; echo two > b; mkdir new; echo two > new/two",
    );
    scene.keep_all(&one, "one").unwrap();
    let kept = scene
        .keep(&two, "two", &KeepChoice::All, KeepConflicts::KeepTheRest)
        .unwrap();
    assert_eq!(
        shown(&kept.conflicts),
        [("a".to_owned(), ConflictReason::ChangedSince)]
    );
    assert_eq!(
        ["a", "b", "mine", "new/two"].map(|path| scene.read(path)),
        ["one\n", "two\n", "one\n", "two\n"]
    );
    assert_eq!(scene::diff(&two, "a").unwrap().lines().last(), Some("+two"));
}

#[test]
fn a_part_is_kept_with_the_directories_that_it_needs() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("old/a", "1"), ("old/b", "1")]);
    let set = scene.run(
        "set",
        "mkdir -p new/deep; echo 1 > new/deep/file; echo 1 > new/other; ln new/other new/hard
        rm -r old; mkdir old; echo 2 > old/a",
    );
    scene
        .keep(
            &set,
            "part",
            &paths(&["new/deep/file", "old/a", "new/hard"]),
            KeepConflicts::Refuse,
        )
        .unwrap();
    assert_eq!(
        ["new/deep/file", "old/a", "new/hard"].map(|path| scene.read(path)),
        ["1\n", "2\n", "1\n"]
    );
    assert_eq!(
        scene.read("old/b"),
        "1",
        "what the new directory hides is not chosen"
    );
    assert!(!scene.real.join("new/other").exists());
    // The layer goes on: what is written there now is not written into what was kept.
    set.reopen().unwrap();
    scene.step(&set, "echo more >> new/other; test \"$(cat new/hard)\" = 1");
    assert_eq!(scene.read("new/hard"), "1\n");
}

#[test]
fn an_undo_refuses_where_somebody_changed_what_was_kept() {
    if lacks_overlays() {
        return;
    }
    let check = |change: fn(&Scene), expected: &[(&str, ConflictReason)]| {
        let scene = Scene::with(&[("a", "1"), ("gone", "1")]);
        let set = scene.run("set", "echo 2 > a; rm gone; mkdir d; echo 1 > d/x");
        scene.keep_all(&set, "kept").unwrap();
        change(&scene);
        let before = picture(&scene.real, Times::Hidden);
        let Err(UndoError::Conflicts(conflicts)) = scene.store.undo("kept") else {
            panic!("undone");
        };
        let expected: Vec<_> = expected
            .iter()
            .map(|(path, why)| ((*path).to_owned(), *why))
            .collect();
        assert_eq!(shown(&conflicts), expected);
        assert_eq!(
            difference(&picture(&scene.real, Times::Hidden), &before),
            None
        );
        assert_eq!(scene.store.recover().unwrap().len(), 0);
    };
    check(
        |scene| write(&scene.real.join("a"), "theirs"),
        &[("a", ConflictReason::ChangedSince)],
    );
    check(
        |scene| write(&scene.real.join("gone"), "theirs"),
        &[("gone", ConflictReason::Appeared)],
    );
    check(
        |scene| fs::remove_dir_all(scene.real.join("d")).unwrap(),
        &[
            ("d", ConflictReason::Vanished),
            ("d/x", ConflictReason::Vanished),
            ("d", ConflictReason::Vanished),
        ],
    );
    // Only seen as the directory is taken back.
    check(
        |scene| write(&scene.real.join("d/theirs"), "theirs"),
        &[("d", ConflictReason::ChangedSince)],
    );
}

#[test]
fn what_is_more_than_the_cap_is_kept_without_an_undo_or_at_any_price() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", &"x".repeat(100_000)), ("b", &"x".repeat(100_000))]);
    let keep = |id: &str, beyond_cap| {
        let set = scene.run(id, &format!("echo {id} > a"));
        let plan = scene.store.plan(&set, &KeepChoice::All).unwrap();
        let options = KeepOptions {
            undo_cap_bytes: 10,
            beyond_cap,
            ..options(id, KeepConflicts::Refuse)
        };
        scene.store.keep(&set, &plan, &options).unwrap().undo_bytes
    };
    assert_eq!(keep("without", BeyondCap::GoWithoutUndo), None);
    assert!(matches!(
        scene.store.undo("without"),
        Err(UndoError::Dropped { .. })
    ));
    assert!(keep("paid", BeyondCap::PayForUndo).is_some());
    scene.store.undo("paid").unwrap();
    assert_eq!(scene.read("a"), "without\n");
    assert_eq!(scene.store.expire(1_001).unwrap(), ["paid", "without"]);
    assert!(matches!(
        scene.store.undo("without"),
        Err(UndoError::Missing(_))
    ));
}

#[test]
fn a_directory_that_became_a_link_is_not_followed() {
    if lacks_overlays() {
        return;
    }
    let exchange = |scene: &Scene| {
        let outside = scene.dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        write(&outside.join("a"), "outside");
        fs::rename(scene.real.join("d"), scene.real.join("aside")).unwrap();
        symlink(&outside, scene.real.join("d")).unwrap();
    };
    for script in [
        "echo 2 > d/a",
        "rm d/a",
        "echo 2 > d/new",
        "chmod 600 d/a",
        "mkdir d/e; echo 1 > d/e/f",
    ] {
        // Before the plan, and between the plan and the keep.
        for early in [true, false] {
            let scene = Scene::with(&[("d/a", "1")]);
            let set = scene.run("set", script);
            if early {
                exchange(&scene);
            }
            let plan = scene.store.plan(&set, &KeepChoice::All).unwrap();
            if !early {
                exchange(&scene);
            }
            let kept = scene
                .store
                .keep(&set, &plan, &options("kept", KeepConflicts::Refuse));
            assert!(
                matches!(kept, Err(KeepError::Conflicts(_))),
                "{script} {early}: {kept:?}"
            );
            let outside = scene.dir.path().join("outside");
            assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{script}");
            assert_eq!(
                fs::read_to_string(outside.join("a")).unwrap(),
                "outside",
                "{script}"
            );
            assert_eq!(scene.read("aside/a"), "1");
        }
    }
}

#[test]
fn what_changes_between_the_plan_and_the_keep_is_seen() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", "1"), ("b", "1"), ("c", "1")]);
    let set = scene.run("set", "echo 2 > a; rm b; echo 2 > new; echo 2 > c");
    let plan = scene.store.plan(&set, &KeepChoice::All).unwrap();
    for path in ["b", "new"] {
        write(&scene.real.join(path), "theirs");
    }
    let kept = scene
        .store
        .keep(&set, &plan, &options("kept", KeepConflicts::Refuse));
    assert!(matches!(kept, Err(KeepError::Conflicts(_))), "{kept:?}");
    assert_eq!(
        ["a", "b", "c", "new"].map(|path| scene.read(path)),
        ["1", "theirs", "1", "theirs"]
    );
    let kept = scene
        .store
        .keep(&set, &plan, &options("rest", KeepConflicts::KeepTheRest))
        .unwrap();
    assert_eq!(
        shown(&kept.conflicts),
        [
            ("b".to_owned(), ConflictReason::ChangedSince),
            ("new".to_owned(), ConflictReason::Appeared)
        ]
    );
    assert_eq!(
        ["a", "b", "c", "new"].map(|path| scene.read(path)),
        ["2\n", "theirs", "2\n", "theirs"]
    );
}

#[test]
fn a_later_step_builds_on_what_somebody_changed_between_steps() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", "1"), ("b", "1"), ("d/x", "1")]);
    let set = scene.run("set", "echo 2 > a; echo 1 > d/new");
    write(&scene.real.join("b"), "theirs");
    set.reopen().unwrap();
    assert!(!set.is_sealed());
    scene.step(
        &set,
        "test \"$(cat a)\" = 2; test \"$(cat b)\" = theirs; echo mine >> b",
    );
    assert_eq!(0, set.seal().unwrap().changed_meanwhile);
    scene.keep_all(&set, "kept").unwrap();
    assert_eq!(
        ["a", "b", "d/new"].map(|path| scene.read(path)),
        ["2\n", "theirsmine\n", "1\n"]
    );
}

#[test]
fn what_a_step_changed_is_compared_with_what_lay_below_it_then() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", "1"), ("d/x", "1")]);
    let set = scene.run("set", "echo 2 > a; chmod 700 d");
    write(&scene.real.join("a"), "theirs");
    write(&scene.real.join("d/x"), "theirs");
    set.reopen().unwrap();
    // The second step takes away a directory of which the first had changed only the mode.
    scene.step(&set, "echo 3 > a; rm -r d");
    assert_eq!(1, set.seal().unwrap().changed_meanwhile);
    let plan = scene.store.plan(&set, &KeepChoice::All).unwrap();
    assert_eq!(
        shown(&plan.conflicts),
        [
            ("a".to_owned(), ConflictReason::ChangedSince),
            ("d".to_owned(), ConflictReason::ChangedMeanwhile)
        ]
    );
}

#[test]
fn a_run_goes_on_with_what_was_kept_of_it_meanwhile() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", "1"), ("gone", "1")]);
    let set = scene.run(
        "set",
        "echo 2 > a; rm gone; mkdir d; echo 1 > d/x; echo 1 > other",
    );
    scene
        .keep(
            &set,
            "first",
            &paths(&["a", "gone", "d/x"]),
            KeepConflicts::Refuse,
        )
        .unwrap();
    set.seal().unwrap();
    set.reopen().unwrap();
    scene.step(
        &set,
        "echo 3 >> a; test ! -e gone; echo 2 >> d/x; test -e other",
    );
    set.seal().unwrap();
    scene.keep_all(&set, "second").unwrap();
    assert_eq!(
        ["a", "gone", "d/x", "other"].map(|path| scene.read(path)),
        ["2\n3\n", "<entity not found>", "1\n2\n", "1\n"]
    );
    scene.store.undo("second").unwrap();
    scene.store.undo("first").unwrap();
    assert_eq!(["a", "gone"].map(|path| scene.read(path)), ["1", "1"]);
}
