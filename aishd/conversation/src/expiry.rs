//! Silence as an answer: when it will have been one, and what becomes of the confirms that nobody answered.

use std::time::Duration;

use aish_proto::id::ConfirmId;
use aishd_log::confirm::{ConfirmFate, Resolution};
use aishd_log::time::Timestamp;
use aishd_platform::clock;
use aishd_rules::policy::OnSilence;
use tokio::time::Instant;

use super::Conversation;

impl Conversation {
    /// When silence will have been an answer to the first of the open confirms.
    pub(super) fn plan_expiry(&mut self) {
        let now = clock::now();
        let in_turn = self.state.confirms.iter();
        let in_turn = in_turn.filter_map(|it| self.deadline(it.requested_at, it.expires_at));
        let raises = self.state.raises.iter();
        let raises = raises.filter_map(|it| self.deadline(it.requested_at, it.expires_at));
        let proposals = self.state.proposals.iter();
        let proposals = proposals.filter_map(|it| self.deadline(it.requested_at, None));
        let all = in_turn.chain(raises).chain(proposals);
        self.expiry_at = all.min().map(|deadline| {
            let ms = u64::try_from(deadline.0.saturating_sub(now.0)).unwrap_or_default();
            Instant::now() + Duration::from_millis(ms)
        });
    }

    /// At the confirm's own time, or after a while without anybody.
    fn deadline(
        &self,
        requested_at: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Option<Timestamp> {
        let policy = self.around.policy.borrow();
        match expires_at {
            Some(at) => Some(at),
            None if self.attendance.is_attended() || policy.silence == OnSilence::Waits => None,
            None => {
                let since = requested_at.max(self.attendance.left_at());
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
        let is_over = |requested_at, expires_at| {
            let deadline = self.deadline(requested_at, expires_at);
            deadline.is_some_and(|it| it <= now)
        };
        let raises = self.state.raises.iter();
        let raises = raises.filter(|it| is_over(it.requested_at, it.expires_at));
        let raises = raises.map(|it| it.unanswered(ConfirmFate::Expired, now));
        let proposals = self.state.proposals.iter();
        let proposals = proposals.filter(|it| is_over(it.requested_at, None));
        let proposals = proposals.map(|it| it.unanswered(ConfirmFate::Expired, now));
        let aside: Vec<Resolution> = raises.chain(proposals).collect();
        let in_turn = self.state.confirms.iter();
        let in_turn = in_turn.filter(|it| is_over(it.requested_at, it.expires_at));
        let in_turn: Vec<ConfirmId> = in_turn.map(|it| it.id).collect();
        for end in aside {
            if self.unstored.is_some() {
                return;
            }
            tracing::info!(conversation = %self.id, confirm = %end.confirm, "nobody answered in time");
            self.end_aside(end).await;
        }
        for id in in_turn {
            // The store takes no more now; the others are looked at again when it does.
            if self.unstored.is_some() {
                return;
            }
            tracing::info!(conversation = %self.id, confirm = %id, "nobody answered in time");
            let asking = self.turn.as_ref().and_then(|it| it.machine.asking());
            if let Some(confirm) = asking.filter(|it| it.id == id).cloned() {
                self.expire(&confirm).await;
            } else {
                self.end_form(id, ConfirmFate::Expired).await;
            }
        }
        self.plan_expiry();
    }
}
