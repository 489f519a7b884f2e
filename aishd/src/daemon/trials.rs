//! Where commands are tried, and what the daemon before this one left of that.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use aish_proto::id::ChangesId;
use aishd_conversation::directory::ConversationDirectory;
use aishd_log::run_changes::of_run;
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

/// The layers of runs whose changes nobody has kept or dropped.
async fn of_runs(directory: &ConversationDirectory) -> Vec<ChangesId> {
    let store = directory.store().clone();
    let read = tokio::task::spawn_blocking(move || {
        let unsettled = store.unsettled().unwrap_or_default();
        let states = unsettled.into_iter().filter_map(|it| store.state(it).ok()?);
        let turns = states.flat_map(|it| it.run_changes.into_iter().map(|it| of_run(it.turn)));
        turns.collect()
    });
    read.await.unwrap_or_default()
}

/// Ends what was being done to files, and forgets once a day what was kept long ago. What questions still ask about stays, so this waits until all of them are known.
pub(super) async fn recover(directory: ConversationDirectory) {
    let asked = directory.pending().watch().await;
    let open = asked.borrow().clone();
    let tried = open
        .values()
        .filter_map(|it| Some(it.tried.as_ref()?.changes));
    let mut wanted: HashSet<_> = tried.collect();
    wanted.extend(of_runs(&directory).await);
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
