//! What commands of runs are kept within: whether this kernel can do it, found out once by trying, and what of aish's own
//! nobody reaches.

use std::path::{Path, PathBuf};

use aishd_config::environment_variables::DaemonEnvironment;
use aishd_config::paths;
use aishd_platform::{clock, failpoint};
use aishd_process::Children;
use aishd_rules::boundary::BoundaryGround;
use aishd_tools::contained_command::remove;
use directories::BaseDirs;

use super::DaemonPaths;
use super::configuration::StartConfiguration;

/// What is removed by one program; the rest goes at the start after this one.
const LEFT_AT_ONCE: usize = 1000;

/// Tries it with a real child.
pub(super) async fn ground(
    children: &Children,
    configured: &StartConfiguration,
    around: &DaemonPaths,
) -> BoundaryGround {
    let state = real(&around.state_dir);
    // One for each start, so that what others left can be told from what is in use.
    let scratch = state.join("scratch").join(clock::ulid().to_string());
    let missing = if failpoint::misses("boundary") {
        Some("it is switched off".to_owned())
    } else {
        children.probe(&scratch).await.err()
    };
    if let Some(why) = &missing {
        tracing::warn!(%why, "runs ask about every command");
    }
    let socket = around.socket_path.parent();
    let usual = paths::config(None, &DaemonEnvironment::default());
    let usual = usual.as_deref().and_then(Path::parent);
    let own = configured.places().chain(usual).chain(socket);
    BoundaryGround {
        missing,
        own: own.map(real).chain([state]).collect(),
        home: BaseDirs::new().map(|it| real(it.home_dir())),
        scratch,
    }
}

/// Removes what daemons before this one left of the temporary directories of commands.
pub(super) async fn clear(children: Children, ours: PathBuf) {
    let Some(folder) = ours.parent().map(Path::to_owned) else {
        return;
    };
    let all = folder.clone();
    let listed = tokio::task::spawn_blocking(move || {
        let entries = std::fs::read_dir(all).into_iter().flatten().flatten();
        let others = entries.map(|it| it.path()).filter(|it| *it != ours);
        others.take(LEFT_AT_ONCE).collect::<Vec<_>>()
    });
    if let Ok(left) = listed.await {
        remove(&children, &folder, &left).await;
    }
}

fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
