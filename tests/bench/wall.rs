//! What a wall costs a command, beside the same without one: `cargo bench -p aishd --bench wall`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on ends here, and its figures go to whoever runs it"
)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aishd_config::env;
use aishd_log::environment::Environment;
use aishd_model::norris_settings::Widened;
use aishd_process::Children;
use aishd_process::spec::{Exit, Spec};
use aishd_rules::boundary::{Boundary, Ground};
use aishd_rules::setting::Setting;
use aishd_tools::inside::wall;
use tempfile::tempdir;

const ROUNDS: usize = 300;
/// What is demanded of Landlock.
const LIMIT: Duration = Duration::from_micros(1_500);

fn specs(world: &Path, children: &Children) -> [Spec; 2] {
    let [work, home, state] = ["work", "home", "state"].map(|it| world.join(it));
    let scratch = state.join("scratch");
    for folder in [&work, &home, &scratch] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let cwd = work.display().to_string();
    let setting = Setting::new(Environment::default(), children.base(), &cwd, |it| {
        Path::new(it).exists()
    });
    let ground = Ground {
        missing: None,
        own: vec![state],
        home: Some(home),
        scratch: scratch.clone(),
    };
    let boundary = Boundary::of_run(&ground, &Widened::default(), &[work], &setting).unwrap();
    let free = Spec {
        args: ["-c", ":"].map(str::to_owned).to_vec(),
        env: setting.variables,
        ..Spec::new("/bin/sh", cwd)
    };
    let held = Spec {
        wall: Some(Box::new(wall(&boundary, &scratch))),
        ..free.clone()
    };
    [free, held]
}

fn once(runtime: &tokio::runtime::Runtime, children: &Children, spec: &Spec) -> Duration {
    let begun = Instant::now();
    let exit = runtime.block_on(async {
        let mut child = children.spawn(spec).await.unwrap();
        child.wait().await
    });
    assert_eq!(Exit::Code(0), exit);
    begun.elapsed()
}

fn main() {
    let world = tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let aishd = PathBuf::from(env!("CARGO_BIN_EXE_aishd"));
    let children = Children::behind(aishd, env::of_children());
    let specs = specs(&world.path().canonicalize().unwrap(), &children);
    // By turns, so that what else the machine does meets both.
    let mut times: [Vec<Duration>; 2] = [vec![], vec![]];
    for _ in 0..ROUNDS {
        for (spec, times) in specs.iter().zip(&mut times) {
            times.push(once(&runtime, &children, spec));
        }
    }
    for (what, times) in ["without a wall", "within one"].iter().zip(&mut times) {
        times.sort();
        let late = times[ROUNDS * 99 / 100];
        println!("{what}: p50 {:?}, p99 {late:?}", times[ROUNDS / 2]);
    }
    let more = times[1][ROUNDS / 2].saturating_sub(times[0][ROUNDS / 2]);
    let held = if more < LIMIT { "held" } else { "MISSED" };
    println!("a wall costs {more:?} (p50); limit {LIMIT:?} {held}");
}
