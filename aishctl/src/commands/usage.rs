//! `usage`: what models took, in tokens and money; and what a conversation may take.

use aish_proto::conversation::{ConversationStatus, SetBudget};
use aish_proto::usage::{
    ConversationBudget, Get, SetBudgetParams, Usage, UsageGetParams, UsageGetResult, UsageGrouping,
    UsageRow, Usd,
};
use clap::{Args, ValueEnum};

use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::render::table;
use crate::since::{self, PastTime};

const TITLE_WIDTH: usize = 40;

#[derive(Args, Clone, Debug)]
pub struct UsageArgs {
    /// What the sums are of
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub by: UsageTotals,
    /// Only from the day on (UTC) in which this was: 7d, 2026-11-21, 2026-11-21T10:00:00Z
    #[arg(long, value_name = "T", value_parser = day)]
    pub since: Option<PastTime>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum UsageTotals {
    #[default]
    Day,
    Conv,
    Model,
}

/// What a conversation may take. Without an option it is shown.
#[derive(Args, Clone, Debug)]
pub struct BudgetArgs {
    pub conversation: Option<String>,
    /// Of requests and their answers together
    #[arg(long, value_name = "N")]
    pub tokens: Option<u64>,
    /// In US dollars, by the prices that are configured
    #[arg(long, value_name = "X", value_parser = usd)]
    pub usd: Option<Usd>,
    /// As much as it likes
    #[arg(long, conflicts_with_all = ["tokens", "usd"])]
    pub off: bool,
}

/// As other times, and a date alone.
fn day(text: &str) -> Result<PastTime, String> {
    let is_date = text.len() == 10
        && text.bytes().enumerate().all(|(at, it)| match at {
            4 | 7 => it == b'-',
            _ => it.is_ascii_digit(),
        });
    if is_date {
        return Ok(PastTime::Time(format!("{text}T00:00:00Z")));
    }
    since::parse(text)
}

/// An amount as people write it.
pub fn usd(text: &str) -> Result<Usd, String> {
    let dollars = text.strip_prefix('$').unwrap_or(text).parse().ok();
    dollars
        .and_then(Usd::of)
        .ok_or_else(|| format!("`{text}` is no amount of US dollars (try 0.50)"))
}

pub async fn run(context: &CommandContext, args: &UsageArgs) -> PrintResult {
    let (since, max_age_ms) = match &args.since {
        None => (None, None),
        Some(PastTime::Time(time)) => (Some(time.clone()), None),
        Some(PastTime::Ago(ago)) => (None, u64::try_from(ago.as_millis()).ok()),
    };
    let params = UsageGetParams {
        by: match args.by {
            UsageTotals::Day => UsageGrouping::Day,
            UsageTotals::Conv => UsageGrouping::Conversation,
            UsageTotals::Model => UsageGrouping::Model,
        },
        since,
        max_age_ms,
    };
    let result = context.call::<Get>(params).await?;
    context.print(&result, || table(&result))
}

fn table(result: &UsageGetResult) -> String {
    let UsageGetResult {
        by,
        since,
        rows,
        more,
        total,
        today,
    } = result;
    let what = match by {
        UsageGrouping::Day => "day (UTC)",
        UsageGrouping::Conversation => "conversation",
        UsageGrouping::Model => "model",
    };
    let mut lines: Vec<Vec<String>> = rows.iter().map(|it| line(name(it), &it.usage)).collect();
    lines.push(line("total".to_owned(), total));
    let head = [what, "requests", "input", "cached", "output", "cost"];
    let mut text = table::columns(&head, &lines);
    if *more {
        text.push_str("… and more, which are in the total\n");
    }
    if let Some(since) = since {
        text.push_str(&format!("since {since}\n"));
    }
    if total.estimated {
        text.push_str("~ some of it no server counted: believed from bytes\n");
    }
    if total.unpriced > 0 {
        text.push_str(&format!(
            "+ without {} of presets that have no price (models.NAME.price)\n",
            requests(total.unpriced)
        ));
    }
    let limit = match today.limit_usd {
        Some(limit) => format!(" of {limit} (limits.daily_spend_usd)"),
        // Nothing that has a price is not the same as nothing that costs.
        None if total.unpriced > 0 && total.cost_usd.is_none() => return text,
        None => String::new(),
    };
    text.push_str(&format!(
        "today, {} UTC: {}{limit}\n",
        today.day, today.spent_usd
    ));
    text
}

fn requests(count: u64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} request{plural}")
}

fn name(row: &UsageRow) -> String {
    let UsageRow {
        day,
        conversation,
        title,
        preset,
        model,
        usage: _,
    } = row;
    match (day, conversation, preset, model) {
        (Some(day), ..) => day.clone(),
        (None, Some(id), ..) => match title {
            Some(title) => table::cut(title, TITLE_WIDTH),
            None => id.to_string(),
        },
        (None, None, Some(preset), Some(model)) => format!("{preset} ({model})"),
        (None, None, Some(preset), None) => preset.clone(),
        (None, None, None, _) => "(deleted)".to_owned(),
    }
}

fn line(name: String, usage: &Usage) -> Vec<String> {
    let tokens = |it: Option<u64>| it.map_or_else(|| "–".to_owned(), |it| it.to_string());
    let believed = if usage.estimated { "~" } else { "" };
    vec![
        name,
        usage.requests.to_string(),
        format!("{believed}{}", tokens(usage.input_tokens)),
        tokens(usage.cached_input_tokens),
        format!("{believed}{}", tokens(usage.output_tokens)),
        cost(usage),
    ]
}

/// What is known of a cost; a `+` where that is not all.
fn cost(usage: &Usage) -> String {
    let more = if usage.unpriced > 0 { "+" } else { "" };
    match usage.cost_usd {
        Some(cost) => format!("{cost}{more}"),
        None => "–".to_owned(),
    }
}

/// Shows what a conversation may take, or changes that.
pub async fn budget(context: &CommandContext, args: &BudgetArgs) -> PrintResult {
    let name = context.name(args.conversation.as_deref());
    let found = context.meant(name).await?;
    let before = found.budget.unwrap_or_default();
    if !args.off && args.tokens.is_none() && args.usd.is_none() {
        let shown = serde_json::json!({"conversation": found.id, "budget": found.budget, "usage": found.usage});
        return context.print(&shown, || format!("{}: {}\n", found.title, amounts(&found)));
    }
    let after = ConversationBudget {
        tokens: args.tokens.or(before.tokens),
        usd: args.usd.or(before.usd),
    };
    let params = SetBudgetParams {
        id: found.id,
        budget: (!args.off).then_some(after),
    };
    let result = context.call::<SetBudget>(params).await?;
    let now = ConversationStatus {
        budget: params.budget,
        ..found
    };
    context.print(&result, || format!("{}: {}\n", now.title, amounts(&now)))
}

/// What a conversation took and may take: `12 requests, 5230 tokens of 10000, $0.02 of $0.50`.
pub fn amounts(status: &ConversationStatus) -> String {
    let usage = &status.usage;
    let budget = status.budget.unwrap_or_default();
    let tokens = usage.input_tokens.unwrap_or(0) + usage.output_tokens.unwrap_or(0);
    let believed = if usage.estimated { "~" } else { "" };
    let mut text = format!("{}, {believed}{tokens} tokens", requests(usage.requests));
    if let Some(most) = budget.tokens {
        text.push_str(&format!(" of {most}"));
    }
    match (usage.cost_usd, budget.usd) {
        (None, None) => {}
        (_, Some(most)) => {
            let spent = usage.cost_usd.unwrap_or_default();
            text.push_str(&format!(", {spent} of {most}"));
        }
        (Some(_), None) => text.push_str(&format!(", {}", cost(usage))),
    }
    if usage.unpriced > 0 {
        let unpriced = requests(usage.unpriced);
        text.push_str(&format!(" ({unpriced} without a price not counted)"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_money_are_read_as_people_write_them() {
        let time = |it: &str| Ok(PastTime::Time(it.to_owned()));
        assert_eq!(time("2026-11-21T00:00:00Z"), day("2026-11-21"));
        assert_eq!(time("2026-11-21T10:00:00Z"), day("2026-11-21T10:00:00Z"));
        assert!(day("7d").is_ok() && day("2026-1-2").is_err() && day("today").is_err());
        assert_eq!(Ok(500_000_000), usd("0.50").map(|it| it.nanos));
        assert_eq!(Ok(2_000_000_000), usd("$2").map(|it| it.nanos));
        assert!(usd("-1").is_err() && usd("much").is_err());
    }

    #[test]
    fn sums_say_what_is_believed_and_what_they_leave_out() {
        let result: UsageGetResult = serde_json::from_value(serde_json::json!({
            "by": "model", "since": "2026-11-20",
            "rows": [
                {"preset": "cloud", "model": "large", "usage": {"inputTokens": 1000, "outputTokens": 200,
                    "cachedInputTokens": 800, "reasoningTokens": null, "costUsd": 0.0126, "requests": 2, "unpriced": 0}},
                {"preset": "fast", "model": "m", "usage": {"inputTokens": 50, "outputTokens": 7,
                    "cachedInputTokens": null, "reasoningTokens": null, "estimated": true, "costUsd": null,
                    "requests": 1, "unpriced": 1}},
            ],
            "total": {"inputTokens": 1050, "outputTokens": 207, "cachedInputTokens": 800, "reasoningTokens": null,
                "estimated": true, "costUsd": 0.0126, "requests": 3, "unpriced": 1},
            "today": {"day": "2026-11-22", "spentUsd": 0.0126, "underWayUsd": 0.0, "limitUsd": 5.0},
        }))
        .unwrap();
        let expected = "\
model          requests  input  cached  output  cost
cloud (large)  2         1000   800     200     $0.0126
fast (m)       1         ~50    –       ~7      –
total          3         ~1050  800     ~207    $0.0126+
since 2026-11-20
~ some of it no server counted: believed from bytes
+ without 1 request of presets that have no price (models.NAME.price)
today, 2026-11-22 UTC: $0.0126 of $5.00 (limits.daily_spend_usd)
";
        assert_eq!(expected, table(&result));
    }
}
