//! A command that is tried and kept leaves what it would have left for real; undone, it has left nothing; and done again, the same
//! as at first.

use std::fs;

use aish_testkit::surroundings;

use super::driver;
use super::scene::{Scene, lacks_overlays};
use super::trees::{Chance, Operation, Times, any_operation, copy, difference, perform, picture};

#[test]
fn random_trees_are_kept_as_they_would_be_for_real() {
    if lacks_overlays() {
        return;
    }
    let trees = surroundings::count("AISH_LAYER_TREES").unwrap_or(40) as u64;
    let seed = surroundings::seed().unwrap_or(0x1a7e_5eed);
    println!("AISH_TEST_SEED={seed}");
    for tree in 0..trees {
        check(seed.wrapping_mul(1_000).wrapping_add(tree));
    }
}

fn check(seed: u64) {
    let mut chance = Chance(seed);
    let scene = if seed % 4 == 3 {
        Scene::across()
    } else {
        Scene::new()
    };
    for _ in 0..60 {
        let _as_it_may = perform(&scene.real, &any_operation(&mut chance, false));
    }
    let copied = scene.dir.path().join("copy");
    copy(&scene.real, &copied);
    let before = picture(&scene.real, Times::Shown);
    let operations: Vec<Operation> = (0..1 + chance.below(40))
        .map(|_| any_operation(&mut chance, true))
        .collect();

    let script = scene.dir.path().join("operations");
    fs::write(&script, serde_json::to_vec(&operations).unwrap()).unwrap();
    let set = scene.begin("set");
    let (command, input) = driver::operations(&script);
    scene.mounted(&set, &command, input);
    set.seal().unwrap();
    assert_eq!(
        difference(&picture(&scene.real, Times::Shown), &before),
        None,
        "seed {seed}: reading changes nothing"
    );
    for operation in &operations {
        let _as_it_may = perform(&copied, operation);
    }

    let told = |what: &str| format!("seed {seed}: {what}: {operations:#?}");
    let kept = scene.keep_all(&set, "kept");
    let kept = kept.unwrap_or_else(|error| panic!("{} {error:?}", told("kept")));
    assert!(kept.conflicts.is_empty());
    let (real, wanted) = (
        picture(&scene.real, Times::Hidden),
        picture(&copied, Times::Hidden),
    );
    if let Some(difference) = difference(&real, &wanted) {
        panic!("{}\n{difference}", told("not as for real"));
    }
    let left = set.changes(&crate::ReadBounds::default()).unwrap();
    assert_eq!(
        left.counts.total(),
        0,
        "{} {:?}",
        told("the layer still holds"),
        left.listed
    );

    scene
        .store
        .undo("kept")
        .unwrap_or_else(|error| panic!("{} {error:?}", told("undone")));
    if let Some(difference) = difference(&picture(&scene.real, Times::Shown), &before) {
        panic!("{}\n{difference}", told("not as before"));
    }
    scene
        .store
        .redo("kept", "again", 2_000)
        .unwrap_or_else(|error| panic!("{} {error:?}", told("done again")));
    if let Some(difference) = difference(&picture(&scene.real, Times::Hidden), &wanted) {
        panic!("{}\n{difference}", told("not as it was kept"));
    }
    scene
        .store
        .undo("again")
        .unwrap_or_else(|error| panic!("{} {error:?}", told("undone again")));
    if let Some(difference) = difference(&picture(&scene.real, Times::Shown), &before) {
        panic!(
            "{}\n{difference}",
            told("not as before, at the second time")
        );
    }
}

#[test]
fn turns_are_taken_back_one_by_one_and_done_again() {
    if lacks_overlays() {
        return;
    }
    take_turns(Scene::new(), /*links*/ true);
}

#[test]
fn turns_on_another_file_system_are_taken_back_one_by_one_and_done_again() {
    if lacks_overlays() {
        return;
    }
    // What comes back is a copy, and no other name of what stayed.
    take_turns(Scene::across(), /*links*/ false);
}

/// Many turns one after the other, some taken back and done again, with restarts in between.
fn take_turns(mut scene: Scene, links: bool) {
    let turns = surroundings::count("AISH_LAYER_TURNS").unwrap_or(30);
    let seed = surroundings::seed().unwrap_or(0x1a7e_5eed);
    println!("AISH_TEST_SEED={seed}");
    let mut chance = Chance(seed);
    // What was there before each turn, and its keep.
    let mut past = vec![];
    for turn in 0..turns {
        let before = picture(&scene.real, Times::Shown);
        let operations: Vec<Operation> = (0..1 + chance.below(12))
            .map(|_| any_operation(&mut chance, links))
            .collect();
        let script = scene.dir.path().join("operations");
        fs::write(&script, serde_json::to_vec(&operations).unwrap()).unwrap();
        let set = scene.begin(&format!("set-{turn}"));
        let (command, input) = driver::operations(&script);
        scene.mounted(&set, &command, input);
        set.seal().unwrap();
        let id = format!("turn-{turn}");
        scene.keep_all(&set, &id).unwrap();
        let after = picture(&scene.real, Times::Hidden);
        past.push((before, id, after));
        if chance.below(4) == 0 {
            scene.restart();
        }
        let back = chance.below(past.len().min(4) + 1);
        let mut undone = vec![];
        for _ in 0..back {
            let (before, id, after) = past.pop().unwrap();
            scene.store.undo(&id).unwrap();
            let now = picture(&scene.real, Times::Shown);
            assert_eq!(difference(&now, &before), None, "seed {seed}: undo of {id}");
            undone.push((id, after));
        }
        if chance.below(4) == 0 {
            scene.restart();
        }
        for _ in 0..chance.below(back + 1) {
            let (id, after) = undone.pop().unwrap();
            let before = picture(&scene.real, Times::Shown);
            let again = format!("{id}-");
            scene.store.redo(&id, &again, 2_000).unwrap();
            let now = picture(&scene.real, Times::Hidden);
            assert_eq!(difference(&now, &after), None, "seed {seed}: redo of {id}");
            past.push((before, again, after));
        }
    }
    while let Some((before, id, _)) = past.pop() {
        scene.store.undo(&id).unwrap();
        let now = picture(&scene.real, Times::Shown);
        assert_eq!(difference(&now, &before), None, "seed {seed}: undo of {id}");
    }
}
