//! Tools of manifests: what runs their programs, where their files are, and following these.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aishd_config::environment_variables;
use aishd_config::live::LiveConfig;
use aishd_config::manifest_store::{self, ManifestSelection, ManifestStore};
use aishd_logging::Redactor;
use aishd_mcp::hub::Hub;
use aishd_profile::ProfileGround;
use aishd_tools::ToolRunner;
use aishd_tools::registry::{ManifestRunner, RunnerServices};

use super::watch::{FileWatcher, WatchedPaths};

/// The tools of these servers, and what runs programs of others. The log learns their secrets before they do.
pub(super) fn tools(
    hub: &Hub,
    profiles: &ProfileGround,
    state: &Path,
    redactor: &Redactor,
) -> ToolRunner {
    let (learner, redactor) = (redactor.clone(), redactor.clone());
    let runner = ManifestRunner::new(RunnerServices {
        profiles: profiles.clone(),
        folder: state.join("tools"),
        environment: Box::new(environment_variables::key),
        learn: Box::new(move |secret| learner.learn(secret)),
        redact: Box::new(move |text| redactor.redact(text)),
    });
    ToolRunner::new(hub.clone(), runner)
}

/// The manifests as they are now, published.
pub(super) async fn manifests(live: Arc<LiveConfig>, tools: &ToolRunner) -> Arc<ManifestStore> {
    let path = environment_variables::of_children()
        .remove("PATH")
        .unwrap_or_default();
    let (taken, published) = (tools.clone(), tools.clone());
    let manifests = Arc::new(ManifestStore::new(
        live,
        manifest_store::ManifestStoreServices {
            find: Box::new(move |name| find(&path, name)),
            taken: Box::new(move || taken.taken_aliases()),
            publish: Box::new(move |manifests, faults| published.publish(manifests, faults)),
        },
    ));
    read(&manifests).await;
    manifests
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
async fn read(manifests: &Arc<ManifestStore>) {
    let reading = manifests.clone();
    let read = tokio::task::spawn_blocking(move || reading.read(ManifestSelection::Changed)).await;
    if let Err(panic) = read {
        tracing::error!(%panic, "manifests of tools could not be read");
    }
}

/// Reads them, and again whenever a file or the configuration changes, for ever.
pub(super) async fn follow(manifests: Arc<ManifestStore>, live: Arc<LiveConfig>) {
    let watched = manifests.clone();
    let mut eye = FileWatcher::open(move || WatchedPaths {
        files: watched.scripts(),
        folders: watched.folders(),
    });
    let mut standing = live.watch_status();
    let mut servers = live.mcp();
    loop {
        read(&manifests).await;
        eye.look_after().await;
        tokio::select! {
            () = eye.changed() => {}
            Ok(()) = standing.changed() => {}
            Ok(()) = servers.changed() => {}
            else => return,
        }
    }
}
