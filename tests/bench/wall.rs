//! What a wall costs a command, beside the same without one: `cargo bench -p aishd --bench wall`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on ends here, and its figures go to whoever runs it"
)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aishd_config::environment_variables;
use aishd_log::environment::ClientVariables;
use aishd_model::norris_settings::WidenedLimits;
use aishd_process::Children;
use aishd_process::spec::{ChildExit, ChildSpec};
use aishd_rules::boundary::{Boundary, BoundaryGround};
use aishd_rules::command_setting::CommandSetting;
use aishd_tools::contained_command::wall;
use tempfile::tempdir;

const ROUNDS: usize = 300;
/// What is demanded of Landlock.
const LIMIT: Duration = Duration::from_micros(1_500);

fn specs(world: &Path, children: &Children) -> [ChildSpec; 2] {
    let [work, home, state] = ["work", "home", "state"].map(|it| world.join(it));
    let scratch = state.join("scratch");
    for folder in [&work, &home, &scratch] {
        std::fs::create_dir_all(folder).unwrap();
    }
    let cwd = work.display().to_string();
    let setting = CommandSetting::new(ClientVariables::default(), children.base(), &cwd, |it| {
        Path::new(it).exists()
    });
    let ground = BoundaryGround {
        missing: None,
        own: vec![state],
        home: Some(home),
        scratch: scratch.clone(),
    };
    let boundary = Boundary::of_run(&ground, &WidenedLimits::default(), &[work], &setting).unwrap();
    let free = ChildSpec {
        args: ["-c", ":"].map(str::to_owned).to_vec(),
        env: setting.variables,
        ..ChildSpec::new("/bin/sh", cwd)
    };
    let held = ChildSpec {
        wall: Some(Box::new(wall(&boundary, &scratch))),
        ..free.clone()
    };
    [free, held]
}

fn once(runtime: &tokio::runtime::Runtime, children: &Children, spec: &ChildSpec) -> Duration {
    let begun = Instant::now();
    let exit = runtime.block_on(async {
        let mut child = children.spawn(spec).await.unwrap();
        child.wait().await
    });
    assert_eq!(ChildExit::Code(0), exit);
    begun.elapsed()
}

fn main() {
    let world = tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let aishd = PathBuf::from(env!("CARGO_BIN_EXE_aishd"));
    let children = Children::behind(aishd, environment_variables::of_children());
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
