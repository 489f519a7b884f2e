//! The tools of a session: when they are asked for again, and what is kept of them.

use std::sync::Arc;
use std::time::Duration;

use aishd_mcp_messages::tool::ListedTools;
use tokio::time::Instant;

use super::super::capability_cache::RememberedServer;
use super::super::error::WireFailure;
use super::super::lifecycle;
use super::{McpSession, SessionDone, SessionPhase};

/// Between the answer to one list and the next question for it, where nobody wants it at once.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// How often a server is asked that says all the time that its tools changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListingPace {
    pause: Duration,
    answered: Option<Instant>,
}

impl Default for ListingPace {
    fn default() -> Self {
        Self {
            pause: SHORTEST,
            answered: None,
        }
    }
}

impl ListingPace {
    pub(super) fn on_answer(&mut self, now: Instant) {
        self.answered = Some(now);
    }

    /// When the tools are to be listed that changed now. A server that cannot wait waits longer each time.
    fn due(&mut self, now: Instant) -> Instant {
        let Some(answered) = self.answered else {
            return now;
        };
        let quiet = answered + self.pause;
        if quiet <= now {
            self.pause = (self.pause / 2).max(SHORTEST);
            return now;
        }
        self.pause = (self.pause * 2).min(LONGEST);
        quiet
    }
}

impl McpSession {
    pub(super) fn list(&mut self) {
        let SessionPhase::Up(up) = &mut self.phase else {
            return;
        };
        if std::mem::replace(&mut up.listing, true) {
            up.changed_since = true;
            return;
        }
        let (peer, limits) = (up.live.peer.clone(), self.shared.limits());
        let (identity, session) = (self.status.identity.clone(), self.next_id);
        let server = self.server.clone();
        self.tasks.spawn(async move {
            let of = (identity.as_str(), &server.tools);
            SessionDone::Listed(session, lifecycle::tools(&peer, of, limits).await)
        });
    }

    pub(super) fn changed(&mut self) {
        let SessionPhase::Up(up) = &mut self.phase else {
            return;
        };
        let _seen = up.changes.borrow_and_update();
        if up.listing {
            up.changed_since = true;
        } else if up.list_again_at.is_none() {
            up.list_again_at = Some(self.pace.due(Instant::now()));
        }
    }

    pub(super) fn on_listed(&mut self, result: Result<ListedTools, WireFailure>) {
        let SessionPhase::Up(up) = &mut self.phase else {
            return;
        };
        let now = Instant::now();
        self.pace.on_answer(now);
        up.listing = false;
        if std::mem::take(&mut up.changed_since) && up.list_again_at.is_none() {
            up.list_again_at = Some(self.pace.due(now));
        }
        let told = match result {
            Ok(listed) => {
                self.take(listed);
                self.publish();
                Ok(())
            }
            Err(failure) => {
                tracing::warn!(mcp = %self.alias, %failure, "list its tools again");
                Err(failure)
            }
        };
        for asker in std::mem::take(&mut self.refreshing) {
            let _gone = asker.send(told.clone());
        }
    }

    /// The tools as they are now, also for the next start of the daemon.
    pub(super) fn take(&mut self, listed: ListedTools) {
        let remarks = listed.remarks.lines();
        for remark in &remarks {
            if !self.status.remarks.contains(remark) {
                tracing::warn!(mcp = %self.alias, "{remark}");
            }
        }
        self.holds.begin(listed.holds);
        self.status.remarks = remarks.into();
        self.status.left_out = listed.left_out.into();
        self.status.tools = listed.tools.into_iter().map(Arc::new).collect();
        if let SessionPhase::Up(up) = &self.phase {
            let now = RememberedServer {
                era: Some(up.live.peer.era),
                about: self.status.about.clone(),
                tools: self.status.tools.clone(),
            };
            self.keeping.is_now(now);
            self.keep(/*at_once*/ false);
        }
    }

    /// Has what is new written down, if it is time.
    pub(super) fn keep(&mut self, at_once: bool) {
        if let Some(text) = self.keeping.take(Instant::now(), at_once) {
            self.shared.keep(&self.server.endpoint, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At which seconds a server is asked that says at these that its tools changed, and answers at once.
    fn asked(changes: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let (begun, mut pace) = (Instant::now(), ListingPace::default());
        let at = |it: u64| begun + Duration::from_secs(it);
        pace.on_answer(begun);
        let mut asked = vec![];
        for change in changes {
            let last = asked.last().copied().unwrap_or_default();
            let due = pace.due(at(change.max(last)));
            pace.on_answer(due);
            asked.push(due.duration_since(begun).as_secs());
        }
        asked
    }

    #[test]
    fn who_is_quiet_is_asked_at_once_and_who_never_is_less_and_less() {
        assert_eq!(vec![5, 15, 30], asked([5, 15, 30]));
        assert_eq!(vec![1, 3, 7, 15, 31, 63, 123, 183], asked([0; 8]));
        // After the flood it is at once again.
        assert_eq!(vec![1, 3, 7, 60, 70, 80], asked([0, 0, 0, 60, 70, 80]));
    }
}
