//! Whether the person at this window looks, and what is to be done about a question when he does not: one
//! notice for each question, and one reminder when half of its time is over.

use std::collections::BTreeMap;
use std::time::Duration;

use aish_proto::config::{NotifyConfig, NotifyWhen};
use aish_proto::id::ConfirmId;
use tokio::time::Instant;

/// Who has pressed no key for so long does not look.
const AWAY: Duration = Duration::from_secs(30);

/// What the terminal says of itself; most say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TerminalFocus {
    #[default]
    Unknown,
    Here,
    Elsewhere,
}

/// When the person was last known to be there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastSeen {
    pub(crate) keyed_at: Instant,
    pub(crate) focus: TerminalFocus,
}

/// One that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingQuestion {
    pub(super) confirm: ConfirmId,
    /// How long it waits until it is a no, if it has an end.
    pub(super) patience: Option<Duration>,
}

#[derive(Debug, Default)]
pub(super) struct Attention {
    /// When each is to be told of next, unless somebody looks; absent when there is no more to tell.
    waiting: BTreeMap<ConfirmId, NotifyPlan>,
}

#[derive(Clone, Copy, Debug)]
struct NotifyPlan {
    next: Option<Instant>,
    reminder: Option<Instant>,
}

impl Attention {
    /// These wait now.
    pub(super) fn waits(&mut self, open: &[WaitingQuestion], now: Instant, notify: NotifyConfig) {
        self.waiting
            .retain(|id, _| open.iter().any(|it| it.confirm == *id));
        for it in open {
            self.waiting.entry(it.confirm).or_insert(NotifyPlan {
                next: Some(now + Duration::from_millis(notify.after_ms)),
                reminder: it.patience.map(|all| now + all / 2),
            });
        }
    }

    /// When there may be something to tell.
    pub(super) fn due(&self, looked: LastSeen, notify: NotifyConfig) -> Option<Instant> {
        let plans = self.waiting.values();
        plans.filter_map(|it| at(it.next?, looked, notify)).min()
    }

    /// Those that are to be told of now.
    pub(super) fn take(
        &mut self,
        now: Instant,
        looked: LastSeen,
        notify: NotifyConfig,
    ) -> Vec<ConfirmId> {
        let mut told = vec![];
        for (confirm, plan) in &mut self.waiting {
            let due = plan.next.and_then(|it| at(it, looked, notify));
            if due.is_some_and(|it| it <= now) {
                told.push(*confirm);
                plan.next = plan.reminder.take().map(|it| it.max(now));
            }
        }
        told
    }
}

/// When something planned is done: not before somebody has been away for long enough.
fn at(planned: Instant, looked: LastSeen, notify: NotifyConfig) -> Option<Instant> {
    match (notify.when, looked.focus) {
        (NotifyWhen::Never, _) => None,
        (NotifyWhen::Always, _) | (NotifyWhen::Unattended, TerminalFocus::Elsewhere) => {
            Some(planned)
        }
        (NotifyWhen::Unattended, TerminalFocus::Unknown | TerminalFocus::Here) => {
            Some(planned.max(looked.keyed_at + AWAY))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A question comes at second 100, and has this many seconds; the last key was pressed at that second. Gives the
    /// seconds at which it is told of.
    #[track_caller]
    fn check(
        when: NotifyWhen,
        focus: TerminalFocus,
        keyed: u64,
        patience: Option<u64>,
        expected: &[u64],
    ) {
        let start = Instant::now();
        let second = |it: u64| start + Duration::from_secs(it);
        let looked = LastSeen {
            keyed_at: second(keyed),
            focus,
        };
        let notify = NotifyConfig {
            when,
            ..NotifyConfig::default()
        };
        let open = [WaitingQuestion {
            confirm: ConfirmId::from_bytes([1; 16]),
            patience: patience.map(Duration::from_secs),
        }];
        let mut attention = Attention::default();
        let mut told = vec![];
        for at in 100..1000 {
            attention.waits(&open, second(at), notify);
            let due = attention.due(looked, notify);
            let now = attention.take(second(at), looked, notify);
            assert_eq!(
                due.is_some_and(|it| it <= second(at)),
                !now.is_empty(),
                "{at}"
            );
            told.extend(now.iter().map(|_| at));
        }
        assert_eq!(expected, told, "{when:?} {focus:?}");
        attention.waits(&[], second(1000), notify);
        assert_eq!(None, attention.due(looked, notify));
    }

    #[test]
    fn each_question_is_told_of_once_and_brought_to_mind_once() {
        let unattended = NotifyWhen::Unattended;
        check(unattended, TerminalFocus::Unknown, 0, None, &[102]);
        check(unattended, TerminalFocus::Unknown, 90, None, &[120]);
        check(unattended, TerminalFocus::Here, 100, Some(600), &[130, 400]);
        check(
            unattended,
            TerminalFocus::Elsewhere,
            100,
            Some(600),
            &[102, 400],
        );
        check(
            unattended,
            TerminalFocus::Elsewhere,
            100,
            Some(2),
            &[102, 103],
        );
        check(NotifyWhen::Always, TerminalFocus::Here, 100, None, &[102]);
        check(
            NotifyWhen::Never,
            TerminalFocus::Elsewhere,
            0,
            Some(600),
            &[],
        );
    }
}
