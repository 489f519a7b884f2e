//! This program, started again: as the command in a layer, or as a daemon that is killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aishd_platform::failpoint;

use super::scene::options;
use super::trees::{Operation, perform};
use crate::journal::KeepConflicts;
use crate::layer_set::LayerStore;
use crate::plan::Choice;

const WHAT: &str = "AISH_LAYER_CHILD";
const WHERE: &str = "AISH_LAYER_PATH";
const KILL: &str = "AISH_LAYER_KILL";

#[expect(
    clippy::disallowed_methods,
    reason = "what the test that started us wants"
)]
pub(super) fn from_environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn command(what: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--ignored",
        "--exact",
        "tests::driver::child",
        "--nocapture",
    ]);
    command.env(WHAT, what).env(WHERE, path);
    command
}

/// Does the operations that are written in a file, in the directory that it starts in.
pub(super) fn operations(path: &Path) -> Command {
    command("operations", path)
}

/// Keeps or undoes, and is killed as it passes the nth place; `false`: it came to its end.
pub(super) fn killed(what: &str, state: &Path, nth: usize) -> bool {
    let mut command = command(what, state);
    command.env(KILL, format!("layers.step=kill@{nth}"));
    let output = command.output().unwrap();
    let killed = std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(9);
    assert!(
        killed || output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    killed
}

#[test]
#[ignore = "started by other tests"]
fn child() {
    let (Some(what), Some(path)) = (from_environment(WHAT), from_environment(WHERE)) else {
        return;
    };
    if let Some(kill) = from_environment(KILL) {
        failpoint::arm(&kill);
    }
    let store = |path: &str| LayerStore::open(Path::new(path)).unwrap();
    match &*what {
        "operations" => {
            let operations: Vec<Operation> =
                serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            for operation in operations {
                let _as_it_may = perform(&PathBuf::from("."), &operation);
            }
        }
        "keep" => {
            let store = store(&path);
            let set = store.get("set").unwrap();
            let plan = store.plan(&set, &Choice::All).unwrap();
            store
                .keep(&set, &plan, &options("kept", KeepConflicts::Refuse))
                .unwrap();
        }
        "recover" => {
            for recovered in store(&path).recover().unwrap() {
                recovered.unwrap();
            }
        }
        "undo" => store(&path).undo("kept").unwrap(),
        other => panic!("{other}"),
    }
}
