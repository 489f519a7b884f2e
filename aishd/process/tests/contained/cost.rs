//! What it costs: `cargo test --release -p aishd-process --test contained -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use aishd_process::contained::Containment;
use aishd_process::spec::ChildSpec;
use aishd_process::wall::Wall;

use crate::Test;
use crate::place::{Place, User, runtime};

pub(crate) const TESTS: &[Test] = &[("cost_of_a_child", cost)];

const ROUNDS: usize = 200;

fn cost() {
    let place = Place::new(User::Ours);
    let layer = place.layer("work", "one");
    let home = place.layer("home", "two");
    let masks = (0..20).map(|it| format!("home/secret-{it}"));
    let masks = masks.map(|it| {
        place.write(&it, "");
        place.path(&it)
    });
    let everything = Containment {
        masks: masks.collect(),
        layers: vec![layer, home],
        ..Containment::default()
    };
    place.give();
    let plain = ChildSpec::new("true", place.path("work"));
    let wall = ChildSpec {
        wall: Some(Box::new(Wall::of_system(&place.path("work")))),
        ..plain.clone()
    };
    let namespaces = ChildSpec {
        contained: Some(Box::default()),
        ..plain.clone()
    };
    let everything = ChildSpec {
        contained: Some(Box::new(everything)),
        ..plain.clone()
    };
    for (name, spec) in [
        ("plain", plain),
        ("Landlock wall", wall),
        ("namespaces", namespaces),
        ("everything, two layers and 20 masks", everything),
    ] {
        let took = took(&place, &spec);
        let milliseconds = |it: Duration| it.as_secs_f64() * 1e3;
        let (least, p50) = (milliseconds(took[0]), milliseconds(took[ROUNDS / 2]));
        println!("{name}: p50 {p50:.2} ms, at least {least:.2} ms");
    }
}

/// The shortest first.
fn took(place: &Place, spec: &ChildSpec) -> Vec<Duration> {
    let children = place.children();
    let mut took: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            runtime().block_on(async {
                let began = Instant::now();
                let mut child = children.spawn(spec).await.unwrap();
                child.wait().await;
                let took = began.elapsed();
                child.end(Duration::ZERO).await;
                took
            })
        })
        .collect();
    took.sort();
    took
}
