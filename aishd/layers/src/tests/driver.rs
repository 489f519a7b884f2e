//! This program, started again: as the command in a layer, or as a daemon that is killed.

use std::fs;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aishd_platform::failpoint;
use serde::{Deserialize, Serialize};

use super::scene::options;
use super::trees::{Operation, perform};
use crate::journal::KeepConflicts;
use crate::layer_set::LayerStore;
use crate::plan::KeepChoice;

/// What this program is started for, on its input.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Job {
    what: String,
    path: PathBuf,
    failpoint: String,
}

/// The program, and what it is to read.
fn command(job: &Job) -> (Command, Stdio) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--ignored",
        "--exact",
        "tests::driver::child",
        "--nocapture",
    ]);
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(&serde_json::to_vec(job).unwrap()).unwrap();
    input.rewind().unwrap();
    (command, input.into())
}

/// Does the operations that are written in a file, in the directory that it starts in.
pub(super) fn operations(path: &Path) -> (Command, Stdio) {
    command(&Job {
        what: "operations".to_owned(),
        path: path.to_owned(),
        ..Job::default()
    })
}

/// Keeps, undoes or does again, and is killed as it passes the nth place; `false`: it came to its end.
pub(super) fn killed(what: &str, state: &Path, nth: usize) -> bool {
    let job = Job {
        what: what.to_owned(),
        path: state.to_owned(),
        failpoint: format!("layers.step=kill@{nth}"),
    };
    let (mut command, input) = command(&job);
    let output = command.stdin(input).output().unwrap();
    let killed = std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(9);
    assert!(
        killed || output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    killed
}

#[test]
#[ignore = "run by other tests"]
fn child() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).unwrap();
    let Ok(Job {
        what,
        path,
        failpoint,
    }) = serde_json::from_str(&text)
    else {
        return;
    };
    failpoint::arm(&failpoint);
    let store = |path: &Path| LayerStore::open(path).unwrap();
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
            let plan = store.plan(&set, &KeepChoice::All).unwrap();
            store
                .keep(&set, &plan, &options("kept", KeepConflicts::Refuse))
                .unwrap();
        }
        "keep part" => {
            let store = store(&path);
            let set = store.get("set").unwrap();
            let part = super::scene::paths(&["a", "d/x", "gone", "new/f"]);
            let plan = store.plan(&set, &part).unwrap();
            store
                .keep(&set, &plan, &options("kept", KeepConflicts::Refuse))
                .unwrap();
        }
        "drop" => {
            let set = store(&path).get("set").unwrap();
            set.drop_part(&KeepChoice::All).unwrap();
        }
        "recover" => {
            for recovered in store(&path).recover().unwrap() {
                recovered.unwrap();
            }
        }
        "undo" => {
            store(&path).undo("kept").unwrap();
        }
        "redo" => {
            store(&path).redo("kept", "again", 2_000).unwrap();
        }
        other => panic!("{other}"),
    }
}
