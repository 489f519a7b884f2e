//! What a layer is said to have changed.

use std::fs;

use super::scene::{self, Scene, lacks_overlays};
use crate::changes::{Changes, ReadBounds};
use crate::diff::TextChange;
use crate::layer_set::LayerSetError;

fn shown(changes: &Changes) -> Vec<String> {
    let show = |change: &crate::Change| {
        let text = match change.text {
            Some(TextChange::Lines { added, removed }) => format!(" +{added} -{removed}"),
            Some(other) => format!(" {other:?}"),
            None => String::new(),
        };
        format!(
            "{:?} {}{text}",
            change.kind,
            change.path.as_path().display()
        )
    };
    changes.listed.iter().map(show).collect()
}

fn check(files: &[(&str, &str)], script: &str, expected: &[&str]) {
    let scene = Scene::with(files);
    let set = scene.run("set", script);
    assert_eq!(
        shown(&set.changes(&ReadBounds::default()).unwrap()),
        expected,
        "{script}"
    );
}

#[test]
fn each_kind_of_change_is_told() {
    if lacks_overlays() {
        return;
    }
    check(
        &[("a", "1\n2\n3\n")],
        "echo 4 >> a; sed -i 1d a",
        &["Modified a +1 -1"],
    );
    check(
        &[],
        "echo 1 > b; mkdir d; ln -s b l; mkfifo f",
        &["Created b +1 -0", "Created d", "Created f", "Created l"],
    );
    check(
        &[("a", "1\n"), ("d/x", "1\n")],
        "rm a; rm -r d",
        &["Removed a +0 -1", "Removed d"],
    );
    check(
        &[("a", "1\n"), ("d/x", "1\n")],
        "rm a; mkdir a; rm -r d; echo 1 > d",
        &["Replaced a +0 -1", "Replaced d +1 -0"],
    );
    check(
        &[("d/x", "1\n")],
        "rm -r d; mkdir d; echo 2 > d/x",
        &["Replaced d", "Modified d/x +1 -1"],
    );
    check(
        &[("a", "1\n"), ("d/x", "1\n")],
        "chmod 600 a; chmod 700 d",
        &["Attributes a", "Attributes d"],
    );
    check(&[("a", "1\n")], "ln a b", &["Linked a", "Created b +1 -0"]);
    check(
        &[("a", "1\n")],
        "printf '\\0' > a; head -c 600000 /dev/zero > big",
        &["Modified a Binary", "Created big Large"],
    );
    check(&[], "chmod 750 .", &["Attributes "]);
}

#[test]
fn what_was_only_touched_is_told_apart() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", "1"), ("b", "1"), ("c", "1"), ("d/e", "1")]);
    let set = scene.run("set", "touch a; : >> b; echo -n 1 > c; : >> d/e");
    let changes = set.changes(&ReadBounds::default()).unwrap();
    assert_eq!(shown(&changes), ["Touched a", "Touched c"]);
    assert_eq!((changes.counts.untouched, changes.counts.touched), (2, 2));
}

#[test]
fn a_list_has_an_end_and_the_counts_have_none() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::new();
    let set = scene.run("set", "for i in $(seq 500); do echo $i > f$i; done");
    let bounds = ReadBounds {
        listed: 10,
        ..ReadBounds::default()
    };
    let changes = set.changes(&bounds).unwrap();
    assert_eq!(
        (
            changes.listed.len(),
            changes.unlisted,
            changes.counts.created
        ),
        (10, 490, 500)
    );
    let weight = set.weight();
    // Not compared: while a file system writes a file out, it counts its blocks otherwise from one moment to the next.
    assert!(changes.stored_bytes > 0 && weight.bytes > 0 && !weight.partly);
}

#[test]
fn a_diff_is_unified_and_of_text_only() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", "1\n2\n"), ("b", "\0")]);
    let set = scene.run("set", "echo 3 > a; echo 1 > b; printf '\\377\\n' > latin");
    let diff = |path| scene::diff(&set, path);
    assert_eq!(diff("a").unwrap(), "@@ -1,2 +1 @@\n-1\n-2\n+3\n");
    assert_eq!(diff("b"), None);
    assert_eq!(diff("latin").unwrap(), "@@ -0,0 +1 @@\n+\u{fffd}\n");
}

#[test]
fn sets_are_made_listed_and_dropped() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::new();
    let set = scene.run("one", "mkdir -p d/e; chmod 000 d; echo 1 > f");
    assert_eq!(
        (set.id(), set.layers(), set.lower(0)),
        ("one", 1, scene.real.clone())
    );
    scene.begin("two");
    assert_eq!(scene.store.list().unwrap(), ["one", "two"]);
    assert!(matches!(
        scene.store.create("one", &[], 0),
        Err(LayerSetError::Exists(_))
    ));
    assert!(matches!(
        scene.store.get("../one"),
        Err(LayerSetError::BadId(_))
    ));
    scene.store.hide_set("one").unwrap();
    assert!(matches!(
        scene.store.get("one"),
        Err(LayerSetError::Missing(_))
    ));
    scene.store.sweep().unwrap();
    let layers = scene.state().join("layers");
    assert_eq!(fs::read_dir(layers).unwrap().count(), 1);
}

/// A directory that takes the place of one of the same name has what was made in it, the same as before too.
#[test]
fn what_is_in_a_directory_made_anew_is_kept_also_where_it_is_as_before() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("d/b/same", "text\n"), ("d/b/gone", "old\n")]);
    let set = scene.run(
        "set",
        "touch -d @1000 d/b d/b/same; cp -a d other; rm -rf d; cp -a other d; rm d/b/gone; rm -rf other; mkdir d/b/new",
    );
    scene.keep_all(&set, "kept").unwrap();
    assert_eq!("text\n", scene.read("d/b/same"));
    assert!(scene.real.join("d/b/new").is_dir());
    assert!(!scene.real.join("d/b/gone").exists());
    scene.store.undo("kept").unwrap();
    assert_eq!("old\n", scene.read("d/b/gone"));
    assert!(!scene.real.join("d/b/new").exists());
}
