//! How long it takes, printed. `AISH_LAYER_DIRS=1000 cargo test --release -p aishd-layers -- --nocapture large` is a workspace of
//! 100,000 files.

use std::fs;
use std::time::Instant;

use aish_testkit::surroundings;

use super::scene::{Scene, lacks_overlays, options};
use crate::changes::ReadBounds;
use crate::journal::KeepConflicts;
use crate::plan::KeepChoice;

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    println!("{what}: {:.1} ms", begun.elapsed().as_secs_f64() * 1_000.0);
    done
}

#[test]
fn a_layer_over_a_large_workspace_costs_what_was_changed() {
    if lacks_overlays() {
        return;
    }
    let dirs = surroundings::count("AISH_LAYER_DIRS").unwrap_or(30);
    let scene = Scene::new();
    for dir in 0..dirs {
        let dir = scene.real.join(format!("d{dir}"));
        fs::create_dir(&dir).unwrap();
        for file in 0..100 {
            fs::write(dir.join(format!("f{file}")), "some text\nin lines\n").unwrap();
        }
    }
    for round in 0..3 {
        let set = timed("create", || scene.begin(&format!("few{round}")));
        scene.step(&set, "for i in $(seq 20); do echo more >> d$i/f1; done");
        timed("seal 20 changes", || set.seal().unwrap());
        let read = timed("read 20 changes", || {
            set.changes(&ReadBounds::default()).unwrap()
        });
        assert_eq!(20, read.counts.modified);
        let plan = timed("plan 20", || {
            scene.store.plan(&set, &KeepChoice::All).unwrap()
        });
        let options = options(&format!("few{round}"), KeepConflicts::Refuse);
        timed("keep 20", || {
            scene.store.keep(&set, &plan, &options).unwrap()
        });
    }
    for round in 0..3 {
        let id = format!("many{round}");
        let set = scene.begin(&id);
        scene.step(
            &set,
            &format!(
                "for i in $(seq {}); do echo more >> d$i/f2; echo new > d7/new$i; done",
                dirs.min(501) - 1
            ),
        );
        timed("seal 1,000", || set.seal().unwrap());
        timed("read 1,000", || {
            set.changes(&ReadBounds::default()).unwrap()
        });
        let plan = timed("plan 1,000", || {
            scene.store.plan(&set, &KeepChoice::All).unwrap()
        });
        timed("keep 1,000 in 501 directories", || {
            scene
                .store
                .keep(&set, &plan, &options(&id, KeepConflicts::Refuse))
                .unwrap()
        });
        timed("undo 1,000", || scene.store.undo(&id).unwrap());
        timed("sweep", || scene.store.sweep().unwrap());
        timed("a sync alone", || {
            crate::copy::sync_all(fs::File::open(&scene.real).unwrap()).unwrap();
        });
    }
}
