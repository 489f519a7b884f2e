//! Where commands are tried, and what the daemon before this one left of that.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use aish_proto::id::ChangesId;
use aishd_conversation::directory::ConversationDirectory;
use aishd_log::audit::{AuditDraft, AuditFact, UndoOutcome};
use aishd_log::changes_undo::UndoAct;
use aishd_log::run_changes::of_run;
use aishd_platform::clock;
use aishd_profile::ProfileGround;
use aishd_store::ReadError;
use aishd_tools::trial::{TrialRecovery, TrialRoom};
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

/// The layers of runs whose changes nobody has kept or dropped. `None`: a conversation cannot be read, which may have some.
async fn of_runs(directory: &ConversationDirectory) -> Option<Vec<ChangesId>> {
    let store = directory.store().clone();
    let read = tokio::task::spawn_blocking(move || {
        let mut found = vec![];
        for conversation in store.unsettled()? {
            let state = store.state(conversation)?.unwrap_or_default();
            found.extend(state.run_changes.iter().map(|it| of_run(it.turn)));
        }
        Ok::<_, ReadError>(found)
    });
    match read.await {
        Ok(Ok(found)) => Some(found),
        Ok(Err(error)) => {
            tracing::warn!(%error, "layers stay: it is not known whose they are");
            None
        }
        Err(_panic) => None,
    }
}

/// Ends what was being done to files, and forgets once a day what was kept long ago. What questions still ask about stays, so this waits until all of them are known.
pub(super) async fn recover(directory: ConversationDirectory) {
    let asked = directory.pending().watch().await;
    let open = asked.borrow().clone();
    let tried = open
        .values()
        .filter_map(|it| Some(it.tried.as_ref()?.changes));
    let mut wanted: HashSet<_> = tried.collect();
    let of_runs = of_runs(&directory).await;
    let is_known = of_runs.is_some();
    wanted.extend(of_runs.unwrap_or_default());
    let room = directory.trials().clone();
    let done =
        tokio::task::spawn_blocking(move || room.recover(|it| !is_known || wanted.contains(&it)))
            .await;
    let TrialRecovery { told, undone } = done.unwrap_or_default();
    for it in told {
        tracing::warn!(what = it, "files that were being changed");
    }
    for changes in undone {
        let fact = AuditFact::ChangesUndone {
            act: UndoAct::Undo,
            changes,
            outcome: UndoOutcome::Undone,
            paths: None,
        };
        let draft = AuditDraft::outside_conversation(clock::now(), fact);
        if let Err(error) = directory.record(draft).await {
            tracing::warn!(%error, "record what was taken back");
        }
    }
    loop {
        tokio::time::sleep(DAY).await;
        let room = directory.trials().clone();
        if let Ok(Some(why)) = tokio::task::spawn_blocking(move || room.expire()).await {
            tracing::warn!(why, "what was kept long ago stays");
        }
    }
}
