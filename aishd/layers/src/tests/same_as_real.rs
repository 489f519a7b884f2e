//! A command that is tried and kept leaves what it would have left for real; undone, it has left nothing.

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
}
