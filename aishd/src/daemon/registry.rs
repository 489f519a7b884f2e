//! Tools of manifests: what runs their programs, where their files are, and following these.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::watch::{Eye, Look};
use aishd_config::env;
use aishd_config::live::Live;
use aishd_config::shelf::{self, Shelf, Which};
use aishd_logging::Redactor;
use aishd_mcp::hub::Hub;
use aishd_process::Children;
use aishd_tools::Tools;
use aishd_tools::registry::{Means, Runner};

/// The tools of these servers, and what runs programs of others. The log learns their secrets before they do.
pub(super) fn tools(hub: &Hub, children: &Children, state: &Path, redactor: &Redactor) -> Tools {
    let (learner, redactor) = (redactor.clone(), redactor.clone());
    let runner = Runner::new(Means {
        children: children.clone(),
        folder: state.join("tools"),
        environment: Box::new(env::key),
        learn: Box::new(move |secret| learner.learn(secret)),
        redact: Box::new(move |text| redactor.redact(text)),
    });
    Tools::new(hub.clone(), runner)
}

/// The manifests as they are now, published.
pub(super) async fn shelf(live: Arc<Live>, tools: &Tools) -> Arc<Shelf> {
    let path = env::of_children().remove("PATH").unwrap_or_default();
    let (taken, published) = (tools.clone(), tools.clone());
    let shelf = Arc::new(Shelf::new(
        live,
        shelf::Means {
            find: Box::new(move |name| find(&path, name)),
            taken: Box::new(move || taken.taken()),
            publish: Box::new(move |manifests, faults| published.publish(manifests, faults)),
        },
    ));
    read(&shelf).await;
    shelf
}

fn find(path: &str, name: &str) -> Option<PathBuf> {
    let mut places = std::env::split_paths(path).filter(|it| it.is_absolute());
    places.find_map(|it| {
        let program = it.join(name);
        let about = program.metadata().ok()?;
        let runs = about.is_file() && about.permissions().mode() & 0o111 != 0;
        runs.then_some(program)
    })
}

/// Reads those that have changed, or were never read.
async fn read(shelf: &Arc<Shelf>) {
    let reading = shelf.clone();
    let read = tokio::task::spawn_blocking(move || reading.read(Which::Changed)).await;
    if let Err(panic) = read {
        tracing::error!(%panic, "manifests of tools could not be read");
    }
}

/// Reads them, and again whenever a file or the configuration changes, for ever.
pub(super) async fn follow(shelf: Arc<Shelf>, live: Arc<Live>) {
    let watched = shelf.clone();
    let mut eye = Eye::open(move || Look {
        files: watched.scripts(),
        folders: watched.folders(),
    });
    let mut standing = live.standing();
    let mut servers = live.mcp();
    loop {
        read(&shelf).await;
        eye.look_after().await;
        tokio::select! {
            () = eye.changed() => {}
            Ok(()) = standing.changed() => {}
            Ok(()) = servers.changed() => {}
            else => return,
        }
    }
}
