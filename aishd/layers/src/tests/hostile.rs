//! Layers as no honest command makes them.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use super::scene::{self, Scene, lacks_overlays, rel};
use super::trees::{Times, difference, picture};
use crate::change_kind::ChangeKind;
use crate::changes::ReadBounds;

#[test]
fn sockets_and_devices_are_named_and_left_behind() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::new();
    let set = scene.begin("set");
    let listener = UnixListener::bind(set.upper(0).join("socket")).unwrap();
    fs::write(set.upper(0).join("file"), "1").unwrap();
    set.seal().unwrap();
    let kept = scene.keep_all(&set, "kept").unwrap();
    assert_eq!(kept.not_kept, [(0, rel("socket"))]);
    assert_eq!(picture(&scene.real, Times::Hidden).len(), 2);
    drop(listener);
}

#[test]
fn a_link_in_the_place_of_a_directory_is_a_link() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("d/secret", "1")]);
    let outside = scene.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let set = scene.begin("set");
    symlink(&outside, set.upper(0).join("d")).unwrap();
    symlink("/etc/passwd", set.upper(0).join("passwd")).unwrap();
    set.seal().unwrap();
    let changes = set.changes(&ReadBounds::default()).unwrap();
    assert_eq!(
        changes
            .listed
            .iter()
            .map(|change| change.kind)
            .collect::<Vec<_>>(),
        [ChangeKind::Replaced, ChangeKind::Created]
    );
    assert_eq!(
        scene::diff(&set, "passwd").as_deref(),
        Some(""),
        "its target is not read"
    );
    scene.keep_all(&set, "kept").unwrap();
    assert_eq!(fs::read_link(scene.real.join("d")).unwrap(), outside);
    scene.store.undo("kept").unwrap();
    assert_eq!(scene.read("d/secret"), "1");
}

#[test]
fn what_nobody_may_read_is_read_and_keeps_its_mode() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("old", "1")]);
    let set = scene.run(
        "set",
        "mkdir -p shut/in; echo 1 > shut/in/file; chmod 000 shut/in/file shut/in; chmod 111 shut; chmod 000 old",
    );
    set.changes(&ReadBounds::default()).unwrap();
    scene.keep_all(&set, "kept").unwrap();
    let mode = |path: &str| {
        fs::metadata(scene.real.join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    assert_eq!((mode("old"), mode("shut")), (0o000, 0o111));
    scene.store.undo("kept").unwrap();
    assert_eq!(picture(&scene.real, Times::Hidden).len(), 2);
    assert_eq!(scene.read("old"), "1");
}

#[test]
fn a_layer_that_goes_on_has_the_modes_that_the_command_gave() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::new();
    let set = scene.run("set", "mkdir d; echo 1 > d/f; chmod 000 d");
    set.reopen().unwrap();
    scene.step(&set, "test $(stat -c %a d) = 0");
}

#[test]
fn directories_nested_without_end_are_told_and_dropped() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::new();
    let set = scene.run(
        "set",
        "for i in $(seq 400); do mkdir d; cd d; done; echo 1 > deep",
    );
    assert_eq!(
        set.changes(&ReadBounds::default()).unwrap().counts.too_deep,
        1
    );
    scene.store.hide_set("set").unwrap();
    scene.store.sweep().unwrap();
    assert_eq!(
        fs::read_dir(scene.state().join("layers")).unwrap().count(),
        0
    );
}

#[test]
fn a_real_directory_that_is_another_one_now_is_not_touched() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", "1")]);
    let set = scene.run("set", "echo 2 > a");
    fs::rename(&scene.real, scene.dir.path().join("aside")).unwrap();
    fs::create_dir(&scene.real).unwrap();
    fs::write(scene.real.join("a"), "other").unwrap();
    assert!(matches!(
        scene.keep_all(&set, "kept"),
        Err(crate::KeepError::LowerGone(_))
    ));
    assert_eq!(scene.read("a"), "other");
}

#[test]
fn names_of_any_bytes_are_kept() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::new();
    let set = scene.run(
        "set",
        "printf 1 > \"$(printf 'a\\nb')\"; printf 1 > \"$(printf '\\377')\"; printf 1 > -- ' '",
    );
    let before = picture(&set.upper(0), Times::Shown).len();
    scene.keep_all(&set, "kept").unwrap();
    assert_eq!(picture(&scene.real, Times::Shown).len(), before);
    scene.store.undo("kept").unwrap();
    assert_eq!(
        difference(
            &picture(&scene.real, Times::Hidden),
            &picture(&scene.real, Times::Hidden)
        ),
        None
    );
    assert_eq!(picture(&scene.real, Times::Hidden).len(), 1);
}
