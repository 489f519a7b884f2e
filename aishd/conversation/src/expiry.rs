//! Silence as an answer: when it will have been one, and what becomes of the confirms that nobody answered.

use std::time::Duration;

use aishd_log::confirm::ConfirmFate;
use aishd_log::state::confirms::OpenConfirm;
use aishd_log::time::Timestamp;
use aishd_platform::clock;
use aishd_rules::policy::OnSilence;
use tokio::time::Instant;

use super::Conversation;

impl Conversation {
    /// When silence will have been an answer to the first of the open confirms.
    pub(super) fn plan_expiry(&mut self) {
        let now = clock::now();
        let all = self
            .state
            .confirms
            .iter()
            .filter_map(|it| self.deadline(it));
        self.expiry_at = all.min().map(|deadline| {
            let ms = u64::try_from(deadline.0.saturating_sub(now.0)).unwrap_or_default();
            Instant::now() + Duration::from_millis(ms)
        });
    }

    /// At the confirm's own time, or after a while without anybody.
    fn deadline(&self, open: &OpenConfirm) -> Option<Timestamp> {
        let policy = self.around.policy.borrow();
        match open.expires_at {
            Some(at) => Some(at),
            None if self.attendance.is_attended() || policy.silence == OnSilence::Waits => None,
            None => {
                let since = open.requested_at.max(self.attendance.left_at());
                Some(Timestamp(
                    since.0.saturating_add_unsigned(policy.unattended_ms),
                ))
            }
        }
    }

    /// The time of an open confirm is over.
    pub(super) async fn expire_open(&mut self) {
        self.expiry_at = None;
        let now = clock::now();
        let is_over = |it: &&OpenConfirm| self.deadline(it).is_some_and(|it| it <= now);
        // What no turn waits for ends first: nothing goes on with its end.
        let mut over: Vec<OpenConfirm> = self
            .state
            .confirms
            .iter()
            .filter(is_over)
            .cloned()
            .collect();
        over.sort_by_key(|it| it.aside.is_none());
        for open in over {
            // The store takes no more now; the others are looked at again when it does.
            if self.unstored.is_some() {
                return;
            }
            tracing::info!(conversation = %self.id, confirm = %open.id, "nobody answered in time");
            let asking = self.turn.as_ref().and_then(|it| it.machine.asking());
            if open.aside.is_some() {
                self.end_aside(&open, ConfirmFate::Expired).await;
            } else if let Some(confirm) = asking.filter(|it| it.id == open.id).cloned() {
                self.expire(&confirm).await;
            } else {
                self.end_form(open.id, ConfirmFate::Expired).await;
            }
        }
        self.plan_expiry();
    }
}
