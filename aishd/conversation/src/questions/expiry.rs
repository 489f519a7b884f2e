//! Silence as an answer: when it will have been one.

use std::time::Duration;

use aishd_log::state::confirms::{AsideSubject, OpenConfirm};
use aishd_log::time::Timestamp;
use aishd_rules::asking::Presence;
use aishd_rules::policy::{OnSilence, Policy};
use tokio::time::Instant;

use crate::view::viewers::{Attendance, AttendanceChanges};

/// Who could answer, and when silence counts as an answer.
#[derive(Debug)]
pub(crate) struct ConfirmExpiry {
    pub(crate) attendance: Attendance,
    /// The same, as changes to wait for.
    pub(crate) attended: AttendanceChanges,
    /// When the time of the first open question is over.
    pub(crate) due: Option<Instant>,
}

impl ConfirmExpiry {
    pub(crate) fn new(attendance: Attendance) -> Self {
        Self {
            attended: attendance.changes(),
            attendance,
            due: None,
        }
    }

    pub(crate) fn presence(&self) -> Presence {
        if self.attendance.is_attended() {
            Presence::Attended
        } else {
            Presence::Unattended
        }
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Waits until somebody comes to look, or leaves. Cancel-safe.
    pub(crate) async fn attendance_changed(&mut self) {
        self.attended.changed().await;
    }

    /// When silence will have been an answer to the first of the open questions.
    pub(crate) fn plan(&mut self, open: &[OpenConfirm], policy: &Policy, now: Timestamp) {
        let deadlines = open.iter().filter_map(|it| self.deadline(it, policy));
        self.due = deadlines.min().map(|deadline| {
            let ms = u64::try_from(deadline.0.saturating_sub(now.0)).unwrap_or_default();
            Instant::now() + Duration::from_millis(ms)
        });
    }

    /// At the question's own time, or after a while without anybody.
    fn deadline(&self, open: &OpenConfirm, policy: &Policy) -> Option<Timestamp> {
        // What was worked out waits for as long as it takes.
        if let Some(AsideSubject::Changes(_)) = open.aside {
            return None;
        }
        let waits = policy.silence == OnSilence::Waits || self.attendance.is_attended();
        open.expires_at.or_else(|| {
            let since = open.requested_at.max(self.attendance.left_at());
            let deadline = since.0.saturating_add_unsigned(policy.unattended_ms);
            (!waits).then_some(Timestamp(deadline))
        })
    }

    /// The questions whose time is over. Those that no turn waits for come first: nothing goes on with their end.
    pub(crate) fn over(
        &self,
        open: &[OpenConfirm],
        policy: &Policy,
        now: Timestamp,
    ) -> Vec<OpenConfirm> {
        let is_over = |it: &&OpenConfirm| self.deadline(it, policy).is_some_and(|it| it <= now);
        let mut over: Vec<OpenConfirm> = open.iter().filter(is_over).cloned().collect();
        over.sort_by_key(|it| it.aside.is_none());
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::viewers::QuestionWatchers;
    use aish_proto::id::{ConfirmId, Seq};

    fn asked(number: u8, at: i64, expires_at: Option<i64>) -> OpenConfirm {
        OpenConfirm {
            id: ConfirmId::from_bytes([number; 16]),
            seq: Seq(number.into()),
            requested_at: Timestamp(at),
            expires_at: expires_at.map(Timestamp),
            subject: None,
            call: None,
            aside: None,
            tried: None,
        }
    }

    fn nobody() -> Attendance {
        Attendance::beside(&QuestionWatchers::default())
    }

    fn policy(silence: OnSilence) -> Policy {
        Policy {
            silence,
            unattended_ms: 100,
            ..Policy::default()
        }
    }

    #[track_caller]
    fn check(
        expiry: &ConfirmExpiry,
        open: &[OpenConfirm],
        rules: OnSilence,
        now: i64,
        expected: &[u8],
    ) {
        let over = expiry.over(open, &policy(rules), Timestamp(now));
        let over: Vec<u8> = over.iter().map(|it| it.id.to_bytes()[0]).collect();
        assert_eq!(expected, over, "at {now}");
    }

    #[test]
    fn silence_counts_at_a_questions_own_time_and_after_a_while_without_anybody() {
        let watchers = QuestionWatchers::default();
        let attendance = Attendance::beside(&watchers);
        let expiry = ConfirmExpiry::new(attendance.clone());
        let open = [asked(1, 10, None), asked(2, 20, Some(60))];
        check(&expiry, &open, OnSilence::Denies, 59, &[]);
        check(&expiry, &open, OnSilence::Denies, 60, &[2]);
        check(&expiry, &open, OnSilence::Denies, 110, &[1, 2]);
        // Where silence is no answer, only a time of its own ends a question.
        check(&expiry, &open, OnSilence::Waits, 110, &[2]);
        // Somebody is there: so it is while they are, and from then on anew.
        let viewer = attendance.attend();
        assert_eq!(Presence::Attended, expiry.presence());
        check(&expiry, &open, OnSilence::Denies, 110, &[2]);
        drop(viewer);
        assert_eq!(Presence::Unattended, expiry.presence());
        let left_at = attendance.left_at().0;
        check(&expiry, &open, OnSilence::Denies, left_at + 99, &[2]);
        check(&expiry, &open, OnSilence::Denies, left_at + 100, &[1, 2]);
        // Who watches the questions of all conversations is there for this one too.
        let watcher = watchers.attend();
        assert_eq!(Presence::Attended, expiry.presence());
        check(&expiry, &open, OnSilence::Denies, left_at + 100, &[2]);
        drop(watcher);
        assert_eq!(Presence::Unattended, expiry.presence());
    }

    #[test]
    fn what_no_turn_waits_for_ends_first() {
        let expiry = ConfirmExpiry::new(nobody());
        let mut aside = asked(3, 10, None);
        aside.aside = Some(AsideSubject::Memory);
        check(
            &expiry,
            &[asked(1, 10, None), aside],
            OnSilence::Denies,
            200,
            &[3, 1],
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_deadline_is_waited_for_and_one_that_has_passed_is_due_at_once() {
        let mut expiry = ConfirmExpiry::new(nobody());
        expiry.plan(&[], &policy(OnSilence::Denies), Timestamp(0));
        assert_eq!(None, expiry.due());
        let open = [asked(1, 10, None), asked(2, 20, Some(60))];
        expiry.plan(&open, &policy(OnSilence::Denies), Timestamp(20));
        assert_eq!(
            Some(Instant::now() + Duration::from_millis(40)),
            expiry.due()
        );
        expiry.plan(&open, &policy(OnSilence::Denies), Timestamp(500));
        assert_eq!(Some(Instant::now()), expiry.due());
    }
}
