//! How long it takes; run by hand, in a release build:
//! `cargo test --release -p aishd-layers -- --ignored --nocapture figures`.

use std::fs;
use std::time::Instant;

use super::scene::{Scene, options};
use crate::changes::ReadBounds;
use crate::journal::KeepConflicts;
use crate::plan::Choice;

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    println!("{what}: {:.1} ms", begun.elapsed().as_secs_f64() * 1_000.0);
    done
}

#[test]
#[ignore = "figures, not a test"]
fn figures() {
    let scene = Scene::new();
    for dir in 0..1_000 {
        let dir = scene.real.join(format!("d{dir}"));
        fs::create_dir(&dir).unwrap();
        for file in 0..100 {
            fs::write(dir.join(format!("f{file}")), "some text\nin lines\n").unwrap();
        }
    }
    for round in 0..3 {
        let set = timed("create", || scene.begin(&format!("few{round}")));
        scene.step(&set, "for i in $(seq 20); do echo more >> d$i/f1; done");
        timed("seal 20 changes of 100,000 files", || set.seal().unwrap());
        timed("read 20 changes of 100,000 files", || {
            set.changes(&ReadBounds::default()).unwrap()
        });
        let plan = timed("plan 20", || scene.store.plan(&set, &Choice::All).unwrap());
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
            "for i in $(seq 500); do echo more >> d$i/f2; echo new > d7/new$i; done",
        );
        timed("seal 1,000", || set.seal().unwrap());
        timed("read 1,000", || {
            set.changes(&ReadBounds::default()).unwrap()
        });
        let plan = timed("plan 1,000", || {
            scene.store.plan(&set, &Choice::All).unwrap()
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
