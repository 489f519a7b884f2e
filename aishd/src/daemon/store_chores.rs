//! What is done for the store beside the serving: its limit follows the configuration, old parts are read again, and what was
//! kept for long enough goes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aish_proto::id::ConversationId;
use aishd_config::live::ConfigStatus;
use aishd_conversation::directory::{ListFilter, ListPosition, ListQuery};
use aishd_conversation::request_error::RequestError;
use aishd_log::time::Timestamp;
use aishd_platform::clock;
use aishd_rpc::RpcServer;
use aishd_store::{ScrubPlace, Store};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A part of the journal has some megabytes; with one a minute the disk is hardly used, and a gigabyte is read in two hours.
const SCRUB_EVERY: Duration = Duration::from_secs(60);
/// When all parts were read.
const SCRUB_AGAIN: Duration = Duration::from_secs(24 * 60 * 60);
/// How often is looked for what was kept for long enough.
const RETENTION_EVERY: Duration = Duration::from_secs(60 * 60);
/// Conversations that are looked at in one go.
const PAGE: usize = 64;
/// A clock that is set right goes no further than that at a time.
const CLOCK_ERROR_MS: i64 = 5 * 60 * 1000;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

pub(super) fn begin(chores: &mut JoinSet<()>, server: &Arc<RpcServer>, store: &Store) {
    let status = server.config.watch_status();
    chores.spawn(scrub(store.clone()));
    chores.spawn(follow_limit(store.clone(), status.clone()));
    chores.spawn(keep_no_longer(server.clone(), status));
}

/// Lets the store become as large as is configured.
async fn follow_limit(store: Store, mut status: watch::Receiver<Arc<ConfigStatus>>) {
    loop {
        let most = status.borrow_and_update().store.max_bytes;
        store.set_limit(most);
        if status.changed().await.is_err() {
            return;
        }
    }
}

/// Reads the closed parts of the journal one after the other, for ever.
async fn scrub(store: Store) {
    let mut place = ScrubPlace::default();
    loop {
        let reader = store.clone();
        let read = tokio::task::spawn_blocking(move || reader.scrub(place)).await;
        let pause = match read {
            Ok(Ok(Some(next))) => {
                place = next;
                SCRUB_EVERY
            }
            Ok(Ok(None)) => {
                place = ScrubPlace::default();
                SCRUB_AGAIN
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "read an old part of the journal again");
                SCRUB_EVERY
            }
            Err(_stopping) => return,
        };
        tokio::time::sleep(pause).await;
    }
}

/// Deletes what nobody has used for as many days as is configured. Not right after a start, and not where the clock has jumped since
/// it was looked at last: a wrong one must not make everything old.
async fn keep_no_longer(server: Arc<RpcServer>, mut status: watch::Receiver<Arc<ConfigStatus>>) {
    let mut seen: Option<SeenClock> = None;
    loop {
        let now = SeenClock::now();
        let is_trusted = seen.is_some_and(|it| it.goes_on_with(now));
        seen = Some(now);
        let days = status.borrow_and_update().store.keep_days;
        if let Some(days) = days.filter(|_| is_trusted) {
            let since = Timestamp(clock::now().0 - i64::from(days) * DAY_MS);
            match delete_unused(&server, since).await {
                Ok(0) => {}
                Ok(deleted) => tracing::info!(deleted, days, "deleted what nobody has used"),
                Err(error) => tracing::warn!(%error, "delete what nobody has used"),
            }
        }
        let changed = tokio::time::timeout(RETENTION_EVERY, status.changed()).await;
        if matches!(changed, Ok(Err(_))) {
            return;
        }
    }
}

/// What the clock said, and when that was.
#[derive(Clone, Copy, Debug)]
struct SeenClock {
    at: Instant,
    said: Timestamp,
}

impl SeenClock {
    fn now() -> Self {
        Self {
            at: Instant::now(),
            said: clock::now(),
        }
    }

    /// Whether the clock has gone on from here to there as time did. A machine that slept looks like one whose clock jumped, until
    /// the next look.
    fn goes_on_with(self, later: Self) -> bool {
        let passed = later.at.saturating_duration_since(self.at).as_millis();
        let said = i128::from(later.said.0) - i128::from(self.said.0);
        let passed = i128::try_from(passed).unwrap_or(i128::MAX);
        (said - passed).abs() <= i128::from(CLOCK_ERROR_MS)
    }
}

/// Returns how many were deleted.
async fn delete_unused(server: &RpcServer, since: Timestamp) -> Result<usize, RequestError> {
    let directory = &server.directory;
    let mut deleted = 0;
    let mut after = ListPosition {
        updated_at: since,
        conversation: ConversationId::from_bytes([0; 16]),
    };
    loop {
        let unused = ListQuery {
            filter: ListFilter::All,
            title: None,
            after: Some(after),
            limit: PAGE,
        };
        let page = directory.list(unused).await?;
        for (id, _) in page.conversations {
            if server.is_attached(id) {
                continue;
            }
            match directory.delete_unused(id, since).await {
                Ok(is_gone) => deleted += usize::from(is_gone),
                // One that cannot be read stays, for somebody to see to it.
                Err(error) => tracing::warn!(conversation = %id, %error, "it is not deleted"),
            }
        }
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    if deleted > 0
        && let Err(why) = directory.erase().await
    {
        tracing::warn!(why, "what was deleted has not left every file yet");
    }
    Ok(deleted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumped_is_not_believed() {
        let began = SeenClock::now();
        let after = |hours: u64, said_hours: i64| SeenClock {
            at: began.at + Duration::from_secs(hours * 3600),
            said: Timestamp(began.said.0 + said_hours * 3_600_000),
        };
        assert!(began.goes_on_with(began));
        assert!(began.goes_on_with(after(1, 1)));
        assert!(!began.goes_on_with(after(1, 24 * 365)));
        assert!(!began.goes_on_with(after(2, -3)));
    }
}
