//! Where commands are tried, and what the daemon before this one left of that.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use aishd_conversation::directory::ConversationDirectory;
use aishd_profile::ProfileGround;
use aishd_tools::trial::TrialRoom;
use anyhow::Context as _;

use super::DaemonPaths;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Where their layers are.
pub(super) fn directory(around: &DaemonPaths) -> anyhow::Result<PathBuf> {
    let state = std::fs::canonicalize(&around.state_dir);
    Ok(state
        .context("look at the state directory")?
        .join("changes"))
}

pub(super) async fn open(
    around: &DaemonPaths,
    profiles: ProfileGround,
) -> anyhow::Result<TrialRoom> {
    let directory = directory(around)?;
    let opened = tokio::task::spawn_blocking(move || TrialRoom::open(&directory, profiles)).await?;
    opened.context("open the layers of what is tried")
}

/// Ends what was being done to files, and forgets once a day what was kept long ago. What questions still ask about stays, so this waits until all of them are known.
pub(super) async fn recover(directory: ConversationDirectory) {
    let asked = directory.pending().watch().await;
    let open = asked.borrow().clone();
    let tried = open
        .values()
        .filter_map(|it| Some(it.tried.as_ref()?.changes));
    let wanted: HashSet<_> = tried.collect();
    let room = directory.trials().clone();
    let told = tokio::task::spawn_blocking(move || room.recover(|it| wanted.contains(&it))).await;
    for it in told.unwrap_or_default() {
        tracing::warn!(what = it, "files that were being changed");
    }
    loop {
        tokio::time::sleep(DAY).await;
        let room = directory.trials().clone();
        if let Ok(Some(why)) = tokio::task::spawn_blocking(move || room.expire()).await {
            tracing::warn!(why, "what was kept long ago stays");
        }
    }
}
