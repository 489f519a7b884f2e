//! kill -9 at each place of a keep, of an undo and of a redo: what is left is recovered, as before or whole, and it says which.

use std::fs;

use super::driver;
use super::scene::{Scene, lacks_overlays};
use super::trees::{Times, difference, picture};
use crate::recover::Recovered;

/// Each kind of step, more than once.
const SCRIPT: &str = "
    echo more >> changed; echo new > new; rm gone; rm -r old; mkdir -p made/deep; echo x > made/deep/file
    rm file; mkdir file; echo in > file/in; rm -r dir; echo now > dir; chmod 600 mode; chmod 700 kept
    ln -s new link; ln new hard; chmod 444 made/deep/file; chmod 500 made
";

fn scene(across: bool) -> Scene {
    let scene = if across {
        Scene::across()
    } else {
        Scene::new()
    };
    for path in [
        "changed",
        "gone",
        "old/one",
        "old/two/three",
        "file",
        "dir/inner",
        "mode",
        "kept/stays",
    ] {
        super::scene::write(&scene.real.join(path), path);
    }
    scene.run("set", SCRIPT);
    scene
}

/// After a kill at the nth place; the recovery is killed as well, some places later.
fn recovered(scene: &Scene, nth: usize) -> Vec<Recovered> {
    for again in [1 + nth % 7, 1 + nth % 3] {
        driver::killed("recover", &scene.state(), again);
    }
    let recovered = scene.store.recover().unwrap();
    let recovered = recovered.into_iter().map(|one| one.unwrap()).collect();
    assert_eq!(scene.store.recover().unwrap().len(), 0, "once is enough");
    let shops = fs::read_dir(&scene.real).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with(".aish")
    });
    assert_eq!(shops.count(), 0, "no workshop stays");
    recovered
}

fn keeps_are_whole_or_as_before(across: bool) {
    let (mut went_back, mut went_on) = (0, 0);
    for nth in 1.. {
        let scene = scene(across);
        let before = picture(&scene.real, Times::Hidden);
        if !driver::killed("keep", &scene.state(), nth) {
            break;
        }
        let said = recovered(&scene, nth);
        let now = picture(&scene.real, Times::Hidden);
        let is_kept = !scene.store.undo_entries().unwrap().is_empty();
        match &said[..] {
            [Recovered::Kept(_)] => assert!(is_kept),
            [Recovered::WentBack(_, left)] => assert!(!is_kept && left.is_empty(), "place {nth}"),
            // The recovery that was killed had come to its end.
            [] => {}
            other => panic!("place {nth}: {other:?}"),
        }
        if is_kept {
            went_on += 1;
            let whole = super::kills::scene(across);
            whole
                .keep_all(&whole.store.get("set").unwrap(), "kept")
                .unwrap();
            assert_eq!(
                difference(&now, &picture(&whole.real, Times::Hidden)),
                None,
                "place {nth}"
            );
            scene.store.undo("kept").unwrap();
        } else {
            went_back += 1;
        }
        assert_eq!(
            difference(&picture(&scene.real, Times::Hidden), &before),
            None,
            "place {nth}"
        );
        // What went back can be kept as if nothing had been.
        let set = scene.store.get("set").unwrap();
        if !is_kept {
            set.seal().unwrap();
            let plan = scene
                .store
                .plan(&set, &crate::plan::KeepChoice::All)
                .unwrap();
            assert!(plan.paths() >= 10, "place {nth}: the layer is as it was");
        }
    }
    println!("{went_back} went back, {went_on} went on");
    assert!(went_back > 0 && went_on > 20);
}

#[test]
fn a_killed_keep_is_whole_or_as_before() {
    if lacks_overlays() {
        return;
    }
    keeps_are_whole_or_as_before(false);
}

#[test]
fn a_killed_keep_on_another_file_system_is_whole_or_as_before() {
    if lacks_overlays() {
        return;
    }
    keeps_are_whole_or_as_before(true);
}

fn undos_come_to_their_end(across: bool) {
    for nth in 1.. {
        let scene = scene(across);
        let before = picture(&scene.real, Times::Hidden);
        scene
            .keep_all(&scene.store.get("set").unwrap(), "kept")
            .unwrap();
        let whole = picture(&scene.real, Times::Hidden);
        if !driver::killed("undo", &scene.state(), nth) {
            break;
        }
        recovered(&scene, nth);
        let now = picture(&scene.real, Times::Hidden);
        match &*scene.stages() {
            "kept: undone" => {
                assert_eq!(difference(&now, &before), None, "place {nth}");
                scene.store.redo("kept", "again", 2_000).unwrap();
                let again = picture(&scene.real, Times::Hidden);
                assert_eq!(difference(&again, &whole), None, "place {nth}");
            }
            "kept: kept" => {
                assert_eq!(difference(&now, &whole), None, "place {nth}");
            }
            other => panic!("place {nth}: {other}"),
        }
    }
}

fn redos_are_whole_or_as_undone(across: bool) {
    let (mut went_back, mut went_on) = (0, 0);
    for nth in 1.. {
        let scene = scene(across);
        let before = picture(&scene.real, Times::Hidden);
        let set = scene.store.get("set").unwrap();
        scene.keep_all(&set, "kept").unwrap();
        let whole = picture(&scene.real, Times::Hidden);
        scene.store.undo("kept").unwrap();
        if !driver::killed("redo", &scene.state(), nth) {
            break;
        }
        recovered(&scene, nth);
        let now = picture(&scene.real, Times::Hidden);
        match &*scene.stages() {
            "again: kept" => {
                went_on += 1;
                assert_eq!(difference(&now, &whole), None, "place {nth}");
                scene.store.undo("again").unwrap();
                let now = picture(&scene.real, Times::Hidden);
                assert_eq!(difference(&now, &before), None, "place {nth}");
            }
            "kept: undone" => {
                went_back += 1;
                assert_eq!(difference(&now, &before), None, "place {nth}");
                scene.store.redo("kept", "later", 2_000).unwrap();
            }
            other => panic!("place {nth}: {other:?}"),
        }
    }
    println!("{went_back} went back, {went_on} went on");
    assert!(went_back > 0 && went_on > 20);
}

#[test]
fn a_killed_redo_is_whole_or_as_undone() {
    if lacks_overlays() {
        return;
    }
    redos_are_whole_or_as_undone(false);
}

#[test]
fn a_killed_redo_on_another_file_system_is_whole_or_as_undone() {
    if lacks_overlays() {
        return;
    }
    redos_are_whole_or_as_undone(true);
}

#[test]
fn a_killed_undo_comes_to_its_end() {
    if lacks_overlays() {
        return;
    }
    undos_come_to_their_end(false);
}

#[test]
fn a_killed_undo_on_another_file_system_comes_to_its_end() {
    if lacks_overlays() {
        return;
    }
    undos_come_to_their_end(true);
}
