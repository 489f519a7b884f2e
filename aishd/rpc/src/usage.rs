//! `usage/get`, and what was taken as the wire shows it.

use std::collections::BTreeMap;

use aish_proto::event as wire;
use aish_proto::id::ConversationId;
use aish_proto::usage::{
    self as shown, Get, UsageGetParams, UsageGetResult, UsageGrouping, UsageRow, UsageToday, Usd,
};
use aishd_log::budget::{BudgetChanged, BudgetLimits, BudgetReached, BudgetScope};
use aishd_log::spending::{Day, NanoUsd, PaidRequest, Payee, SpendingPurpose, SpentSum};
use aishd_log::time::Timestamp;
use aishd_log::usage::Usage;
use aishd_platform::clock;
use jsonrpsee::RpcModule;

use super::answerer::answerer;
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register};

/// Sums in one answer.
const ROWS_MOST: usize = 1000;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Get, _, _>(module, get);
}

async fn get(call: MethodCall<Get>) -> Result<UsageGetResult, MethodError> {
    let UsageGetParams {
        by,
        since,
        max_age_ms,
    } = call.params;
    let directory = &call.server.directory;
    let since = since.map(|it| day_of(&it)).transpose()?;
    let since = since.max(max_age_ms.map(|it| ago(clock::now(), it)));
    let spent = directory.spent_since(since.unwrap_or_default()).await?;
    let total = spent
        .iter()
        .fold(Usage::default(), |sum, it| sum.plus(it.usage));
    let mut rows = rows(by, &spent);
    let more = rows.len() > ROWS_MOST;
    if by == UsageGrouping::Day {
        // The newest are looked for.
        rows.drain(..rows.len().saturating_sub(ROWS_MOST));
    } else {
        rows.truncate(ROWS_MOST);
    }
    if by == UsageGrouping::Conversation {
        let shown = rows.iter().filter_map(|it| it.conversation).collect();
        let states = directory.states_of(shown).await?;
        for row in &mut rows {
            let state = row.conversation.and_then(|it| states.get(&it));
            row.title = state.map(|it| it.title().to_owned());
        }
    }
    let (today, spent_usd, under_way) = directory.ledger().today();
    Ok(UsageGetResult {
        by,
        since: since.map(date),
        rows,
        more,
        total: usage_of(total),
        today: UsageToday {
            day: date(today),
            spent_usd: usd(spent_usd),
            under_way_usd: usd(under_way),
            limit_usd: directory.models().daily_usd.map(usd),
        },
    })
}

fn day_of(text: &str) -> Result<Day, MethodError> {
    let whole = clock::parse(text).or_else(|| clock::parse(&format!("{text}T00:00:00Z")));
    whole.map(Day::of).ok_or_else(|| {
        let why = format!("since: {text:?} is no time such as 2026-11-21T10:00:00Z");
        MethodError::params(&why)
    })
}

fn ago(now: Timestamp, ms: u64) -> Day {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    Day::of(Timestamp(now.0.saturating_sub(ms).max(0)))
}

/// `2026-11-21`.
fn date(day: Day) -> String {
    let time = clock::rfc3339(day.begin());
    time.get(..10).unwrap_or(&time).to_owned()
}

/// Sums in the order of their days, or else the dearest first, and among those that cost the same the largest.
fn rows(by: UsageGrouping, spent: &[SpentSum]) -> Vec<UsageRow> {
    let mut sums: BTreeMap<(Day, Option<ConversationId>, &str, &str), Usage> = BTreeMap::new();
    for it in spent {
        let key = match by {
            UsageGrouping::Day => (it.day, None, "", ""),
            UsageGrouping::Conversation => (Day(0), it.conversation, "", ""),
            UsageGrouping::Model => (Day(0), None, it.preset.as_str(), it.model_id.as_str()),
        };
        let sum = sums.entry(key).or_default();
        *sum = sum.plus(it.usage);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    if by != UsageGrouping::Day {
        sums.sort_by_key(|(_, usage)| std::cmp::Reverse((usage.cost, usage.tokens())));
    }
    let name = |it: &str| (by == UsageGrouping::Model).then(|| it.to_owned());
    let row = |((day, conversation, preset, model), usage): (_, Usage)| UsageRow {
        day: (by == UsageGrouping::Day).then(|| date(day)),
        conversation,
        title: None,
        preset: name(preset),
        model: name(model),
        usage: usage_of(usage),
    };
    sums.into_iter().map(row).collect()
}

pub(super) fn usage_of(usage: Usage) -> aish_proto::usage::Usage {
    let Usage {
        input,
        output,
        cached_input,
        cache_written,
        reasoning,
        estimated,
        cost,
        requests,
        unpriced,
    } = usage;
    aish_proto::usage::Usage {
        input_tokens: input,
        output_tokens: output,
        cached_input_tokens: cached_input,
        cache_written_tokens: cache_written,
        reasoning_tokens: reasoning,
        estimated,
        cost_usd: cost.map(usd),
        requests,
        unpriced,
    }
}

pub(super) fn usd(nano: NanoUsd) -> Usd {
    Usd { nanos: nano.0 }
}

/// Nothing where there is none.
pub(super) fn budget(budget: BudgetLimits) -> Option<shown::ConversationBudget> {
    let BudgetLimits { tokens, usd: money } = budget;
    (!budget.is_none()).then(|| shown::ConversationBudget {
        tokens,
        usd: money.map(usd),
    })
}

/// As a client said it.
pub(super) fn budget_limits(budget: Option<shown::ConversationBudget>) -> BudgetLimits {
    let shown::ConversationBudget { tokens, usd } = budget.unwrap_or_default();
    BudgetLimits {
        tokens,
        usd: usd.map(|it| NanoUsd(it.nanos)),
    }
}

pub(super) fn model_used(paid: PaidRequest) -> wire::ModelUsed {
    let PaidRequest { payee, usage } = paid;
    let Payee {
        preset,
        model_id,
        price: _,
        purpose,
    } = payee;
    wire::ModelUsed {
        model: preset,
        model_id,
        purpose: match purpose {
            SpendingPurpose::Answer => shown::RequestPurpose::Answer,
            SpendingPurpose::Summary => shown::RequestPurpose::Summary,
            SpendingPurpose::Memory => shown::RequestPurpose::Memory,
            SpendingPurpose::Sampling => shown::RequestPurpose::Sampling,
            SpendingPurpose::Opinion => shown::RequestPurpose::Opinion,
            SpendingPurpose::Title => shown::RequestPurpose::Title,
        },
        usage: usage_of(usage),
    }
}

pub(super) fn budget_changed(changed: BudgetChanged) -> wire::BudgetChanged {
    wire::BudgetChanged {
        budget: budget(changed.budget),
        by: changed.by.map(answerer),
    }
}

pub(super) fn reached(
    reached: BudgetReached,
    conversation: Option<ConversationId>,
) -> wire::BudgetReached {
    let BudgetReached {
        which,
        limit,
        spent,
        under_way,
    } = reached;
    let (kind, is_money) = match which {
        BudgetScope::ConversationTokens => (shown::BudgetKind::ConversationTokens, false),
        BudgetScope::ConversationUsd => (shown::BudgetKind::ConversationUsd, true),
        BudgetScope::DayUsd => (shown::BudgetKind::DayUsd, true),
    };
    let tokens = |it: u64| (!is_money).then_some(it);
    let money = |it: u64| is_money.then_some(Usd { nanos: it });
    let name = conversation.map_or_else(String::new, |it| it.to_string());
    wire::BudgetReached {
        budget: kind,
        amounts: shown::BudgetAmounts {
            limit_tokens: tokens(limit),
            spent_tokens: tokens(spent),
            under_way_tokens: tokens(under_way),
            limit_usd: money(limit),
            spent_usd: money(spent),
            under_way_usd: money(under_way),
        },
        text: reached.to_string(),
        hint: reached.remedy(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(day: u32, conversation: Option<u8>, preset: &str, tokens: u64, cost: u64) -> SpentSum {
        SpentSum {
            day: Day(day),
            conversation: conversation.map(|it| ConversationId::from_bytes([it; 16])),
            preset: preset.to_owned(),
            model_id: "m".to_owned(),
            usage: Usage {
                input: Some(tokens),
                cost: (cost > 0).then_some(NanoUsd(cost)),
                requests: 1,
                ..Usage::default()
            },
        }
    }

    #[track_caller]
    fn check(by: UsageGrouping, expected: &[&str]) {
        let all = [
            spent(0, Some(1), "fast", 100, 0),
            spent(1, Some(1), "cloud", 10, 7),
            spent(1, Some(2), "fast", 50, 0),
            spent(20_000, None, "cloud", 1, 90),
        ];
        let shown = rows(by, &all).into_iter().map(|row| {
            let id = row.conversation.map(|it| it.to_bytes()[0].to_string());
            let cost = row.usage.cost_usd.map(|it| it.nanos);
            let name = row.day.or(row.preset).or(id).unwrap_or_default();
            format!(
                "{name} {} {cost:?} {}",
                row.usage.input_tokens.unwrap_or(0),
                row.usage.requests
            )
        });
        assert_eq!(expected, shown.collect::<Vec<_>>());
    }

    #[test]
    fn sums_are_by_what_was_asked_for_and_the_dearest_come_first() {
        check(
            UsageGrouping::Day,
            &[
                "1970-01-01 100 None 1",
                "1970-01-02 60 Some(7) 2",
                "2024-10-04 1 Some(90) 1",
            ],
        );
        check(
            UsageGrouping::Model,
            &["cloud 11 Some(97) 2", "fast 150 None 2"],
        );
        check(
            UsageGrouping::Conversation,
            &[" 1 Some(90) 1", "1 110 Some(7) 2", "2 50 None 1"],
        );
    }

    #[test]
    fn a_day_is_named_by_any_time_in_it() {
        let check = |text: &str, expected: &str| assert_eq!(expected, date(day_of(text).unwrap()));
        check("2026-11-21", "2026-11-21");
        check("2026-11-21T23:59:59Z", "2026-11-21");
        check("2026-11-22T01:00:00+02:00", "2026-11-21");
        assert!(day_of("yesterday").is_err());
    }
}
