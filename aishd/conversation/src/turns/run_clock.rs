//! How long a turn has worked, and what it has spent.

use std::time::Duration;

use aishd_log::norris::RunSpending;
use aishd_log::spending::NanoUsd;
use aishd_log::state::ConversationState;
use tokio::time::Instant;

use crate::spending::budget::BudgetMeter;

/// How long a turn has worked, and what its requests have taken: those of tasks beside it among them.
#[derive(Debug)]
pub(crate) struct RunClock {
    worked: Duration,
    /// The last time that somebody looked.
    since: Instant,
    budget: BudgetMeter,
    /// What the conversation had taken before this turn.
    before: (u64, NanoUsd),
}

impl RunClock {
    /// Of a turn that begins.
    pub(crate) fn start(budget: &BudgetMeter) -> Self {
        Self {
            worked: Duration::ZERO,
            since: Instant::now(),
            before: budget.spent(),
            budget: budget.clone(),
        }
    }

    /// Of one that another daemon left, as far as the log says.
    pub(crate) fn of(state: &ConversationState, budget: &BudgetMeter) -> Self {
        let worked = state.norris.as_ref().map_or(0, |it| it.spent.ms);
        let of_turn = state.running.as_ref().map(|it| it.usage);
        let of_turn = of_turn.unwrap_or_default();
        let (tokens, cost) = budget.spent();
        Self {
            worked: Duration::from_millis(worked),
            before: (
                tokens.saturating_sub(of_turn.tokens()),
                cost.minus(of_turn.cost.unwrap_or_default()),
            ),
            ..Self::start(budget)
        }
    }

    /// Time has passed, in which the turn has worked or has waited for a person.
    pub(crate) fn tick(&mut self, worked: bool) {
        let now = Instant::now();
        if worked {
            self.worked += now.duration_since(self.since);
        }
        self.since = now;
    }

    /// When a turn that goes on working has worked for so many milliseconds more.
    pub(crate) fn ends_at(&self, left_ms: u64) -> Option<Instant> {
        self.since.checked_add(Duration::from_millis(left_ms))
    }

    pub(crate) fn spent(&self) -> RunSpending {
        let (tokens, cost) = self.budget.spent();
        RunSpending {
            ms: u64::try_from(self.worked.as_millis()).unwrap_or(u64::MAX),
            tokens: tokens.saturating_sub(self.before.0),
            cost: cost.minus(self.before.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use aishd_log::usage::Usage;

    use super::*;
    use crate::spending::budget::tests::meter;

    #[tokio::test(start_paused = true)]
    async fn only_work_counts_and_what_was_spent_before_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let budget = meter(&dir, None);
        let used = |tokens| Usage {
            input: Some(tokens),
            ..Usage::default()
        };
        budget.spend(&used(50));
        let mut clock = RunClock::start(&budget);
        tokio::time::advance(Duration::from_secs(3)).await;
        clock.tick(true);
        // A person is asked, and thinks about it.
        tokio::time::advance(Duration::from_secs(3600)).await;
        clock.tick(false);
        tokio::time::advance(Duration::from_secs(1)).await;
        clock.tick(true);
        budget.spend(&used(7));
        let spent = clock.spent();
        assert_eq!((4_000, 7), (spent.ms, spent.tokens));
        let end = Instant::now() + Duration::from_millis(250);
        assert_eq!(Some(end), clock.ends_at(250));
    }
}
