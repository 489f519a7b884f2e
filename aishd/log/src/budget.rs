//! What may be spent: by a conversation, in tokens and in money, and by everybody on a day. A budget stops the next
//! request; one that is under way is let come to its end.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::answering_person::AnsweringPerson;
use crate::spending::NanoUsd;
use crate::usage::Usage;

/// What a conversation may take. `None`: as much as it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetLimits {
    /// Of its requests and their answers together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<NanoUsd>,
}

impl BudgetLimits {
    pub fn is_none(&self) -> bool {
        self.tokens.is_none() && self.usd.is_none()
    }
}

/// A conversation may take another amount than before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetChanged {
    #[serde(default)]
    pub budget: BudgetLimits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AnsweringPerson>,
}

/// Whose budget is used up, and by how much. Where money is meant, amounts are nanos.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetReached {
    pub which: BudgetScope,
    pub limit: u64,
    pub spent: u64,
    /// What requests that are under way are expected to take.
    #[serde(default)]
    pub under_way: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    ConversationTokens,
    ConversationUsd,
    /// `limits.daily_spend_usd`.
    DayUsd,
}

impl BudgetReached {
    /// What to type for more.
    pub fn remedy(&self, conversation: &str) -> String {
        match self.which {
            BudgetScope::ConversationTokens => {
                format!("aishctl conv budget {conversation} --tokens N raises it, --off takes it away")
            }
            BudgetScope::ConversationUsd => {
                format!("aishctl conv budget {conversation} --usd X raises it, --off takes it away")
            }
            BudgetScope::DayUsd => "it begins anew at 00:00 UTC; limits.daily_spend_usd in the configuration raises it \
                (aishctl config edit)"
                .to_owned(),
        }
    }
}

/// `the budget of this conversation is used up: $0.51 of $0.50`.
impl fmt::Display for BudgetReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = |it: u64| match self.which {
            BudgetScope::ConversationTokens => format!("{it} tokens"),
            BudgetScope::ConversationUsd | BudgetScope::DayUsd => NanoUsd(it).to_string(),
        };
        let whose = match self.which {
            BudgetScope::ConversationTokens | BudgetScope::ConversationUsd => {
                "the budget of this conversation"
            }
            BudgetScope::DayUsd => "the budget of today, UTC, (limits.daily_spend_usd)",
        };
        let (spent, limit) = (amount(self.spent), amount(self.limit));
        write!(f, "{whose} is used up: {spent} of {limit}")?;
        if self.under_way > 0 {
            let under_way = amount(self.under_way);
            write!(f, ", and {under_way} expected of requests under way")?;
        }
        Ok(())
    }
}

/// What was taken, and what is expected of requests that are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetAccount {
    pub tokens: u64,
    pub usd: NanoUsd,
    pub tokens_under_way: u64,
    pub usd_under_way: NanoUsd,
}

impl BudgetAccount {
    pub fn of(usage: &Usage) -> Self {
        Self {
            tokens: usage.tokens(),
            usd: usage.cost.unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Whether the next request of a conversation may be sent. One that cannot cost anything is stopped by no
    /// budget of money.
    pub fn check(&self, budget: &BudgetLimits, is_free: bool) -> Result<(), BudgetReached> {
        if let Some(limit) = budget.tokens {
            let which = BudgetScope::ConversationTokens;
            check(which, limit, self.tokens, self.tokens_under_way)?;
        }
        match budget.usd {
            Some(limit) if !is_free => self.check_usd(BudgetScope::ConversationUsd, limit),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether another request that may cost something may be sent under this limit.
    pub fn check_usd(&self, which: BudgetScope, limit: NanoUsd) -> Result<(), BudgetReached> {
        check(which, limit.0, self.usd.0, self.usd_under_way.0)
    }

    /// A request is under way.
    pub fn hold(&mut self, tokens: u64, usd: NanoUsd) {
        self.tokens_under_way = self.tokens_under_way.saturating_add(tokens);
        self.usd_under_way = self.usd_under_way.plus(usd);
    }

    /// It has ended.
    pub fn release(&mut self, tokens: u64, usd: NanoUsd) {
        self.tokens_under_way = self.tokens_under_way.saturating_sub(tokens);
        self.usd_under_way = self.usd_under_way.minus(usd);
    }

    /// It took so much.
    pub fn spend(&mut self, usage: &Usage) {
        self.tokens = self.tokens.saturating_add(usage.tokens());
        self.usd = self.usd.plus(usage.cost.unwrap_or_default());
    }
}

fn check(which: BudgetScope, limit: u64, spent: u64, under_way: u64) -> Result<(), BudgetReached> {
    if spent.saturating_add(under_way) < limit {
        return Ok(());
    }
    Err(BudgetReached {
        which,
        limit,
        spent,
        under_way,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(tokens: Option<u64>, usd: Option<u64>, is_free: bool, expected: &str) {
        let account = BudgetAccount {
            tokens: 100,
            usd: NanoUsd(5_000_000),
            tokens_under_way: 10,
            usd_under_way: NanoUsd(1_000_000),
        };
        let budget = BudgetLimits {
            tokens,
            usd: usd.map(NanoUsd),
        };
        let said = match account.check(&budget, is_free) {
            Ok(()) => "sent".to_owned(),
            Err(reached) => reached.to_string(),
        };
        assert_eq!(expected, said);
    }

    #[test]
    fn a_budget_stops_the_request_that_would_begin_beyond_it() {
        check(None, None, false, "sent");
        check(Some(111), Some(6_000_001), false, "sent");
        check(
            Some(110),
            None,
            true,
            "the budget of this conversation is used up: 100 tokens of 110 tokens, and 10 tokens expected of requests \
             under way",
        );
        check(
            None,
            Some(6_000_000),
            false,
            "the budget of this conversation is used up: $0.005 of $0.006, and $0.001 expected of requests under way",
        );
        check(None, Some(0), true, "sent");
        check(
            Some(0),
            None,
            true,
            "the budget of this conversation is used up: 100 tokens of 0 tokens, and 10 tokens \
            expected of requests under way",
        );
    }

    #[test]
    fn what_was_expected_is_given_back_and_what_was_taken_counts() {
        let mut account = BudgetAccount::default();
        account.hold(50, NanoUsd(7));
        account.hold(1, NanoUsd(1));
        account.release(50, NanoUsd(7));
        account.spend(&Usage {
            input: Some(3),
            output: Some(4),
            cost: Some(NanoUsd(9)),
            ..Usage::default()
        });
        let expected = BudgetAccount {
            tokens: 7,
            usd: NanoUsd(9),
            tokens_under_way: 1,
            usd_under_way: NanoUsd(1),
        };
        assert_eq!(expected, account);
    }
}
