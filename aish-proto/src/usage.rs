//! `usage/*`: what models were asked for and what that cost, and budgets.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::id::ConversationId;
use crate::method::methods;

/// What requests took. Null: nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub cached_input_tokens: Option<u64>,
    /// Of the request: what the server keeps from now on, which some take more for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_written_tokens: Option<u64>,
    pub reasoning_tokens: Option<u64>,
    /// Some of these tokens were counted by no server, and are believed from bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Of the requests whose price was known, by the price that was configured then; null: of none was it.
    #[serde(default)]
    pub cost_usd: Option<Usd>,
    /// Requests; 0 where they are of a time when nobody counted them.
    #[serde(default)]
    pub requests: u64,
    /// Those of them that nobody knows the cost of, so that `costUsd` is too little.
    #[serde(default)]
    pub unpriced: u64,
}

const NANOS: f64 = 1e9;
/// Beyond this a number of dollars has no room for single nanos.
const MOST_NANOS: f64 = 9e15;

methods! {
    /// What was taken of models, as sums by day, conversation or model. Days are of UTC.
    Get: "usage/get", Observer, Unordered, UsageGetParams => UsageGetResult;
}

/// An amount of money: on the wire a number of US dollars, here in whole billionths of one, so that sums are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd {
    pub nanos: u64,
}

impl Usd {
    /// `None`: it is no amount of money that can be held.
    pub fn of(dollars: f64) -> Option<Self> {
        let nanos = (dollars * NANOS).round();
        let fits = nanos.is_finite() && (0.0..=MOST_NANOS).contains(&nanos);
        fits.then_some(Self {
            nanos: nanos as u64,
        })
    }

    pub fn dollars(self) -> f64 {
        self.nanos as f64 / NANOS
    }
}

/// `$1.50`, `$0.000045`: at least cents, and no zeros behind them.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:09}", self.nanos % 1_000_000_000);
        let kept = digits.trim_end_matches('0').len().max(2);
        let rest = digits.get(..kept).unwrap_or("00");
        write!(f, "${}.{rest}", self.nanos / 1_000_000_000)
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        let refused = || de::Error::custom("expected a number of US dollars from 0 to 9000000");
        Self::of(dollars).ok_or_else(refused)
    }
}

impl JsonSchema for Usd {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Usd".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": MOST_NANOS / NANOS })
    }
}

/// What a conversation may take of models. Absent: as much as it likes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationBudget {
    /// Of requests and their answers together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Of the requests whose price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Usd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetBudgetParams {
    pub id: ConversationId,
    /// In place of the one before; null: none.
    pub budget: Option<ConversationBudget>,
}

/// How far a budget is used up: in tokens or in money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetAmounts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_tokens: Option<u64>,
    /// What requests under way are expected to take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_usd: Option<Usd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent_usd: Option<Usd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way_usd: Option<Usd>,
}

/// Which budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BudgetKind {
    /// The conversation's, of tokens.
    ConversationTokens,
    /// The conversation's, of money.
    ConversationUsd,
    /// `limits.daily_spend_usd`, of all conversations together.
    DayUsd,
}

/// Why a model was asked where no answer of a turn came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RequestPurpose {
    /// An answer that ended before its first word.
    Answer,
    /// Summing up what left the context.
    Summary,
    /// Proposing what is worth remembering of a conversation.
    Memory,
    /// A server of MCP wanted it.
    Sampling,
    /// Whether an action of a run is safe.
    Opinion,
    /// What a conversation is to be called.
    Title,
}

/// What sums are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UsageGrouping {
    #[default]
    Day,
    Conversation,
    /// Presets, with what their servers were asked for.
    Model,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageGetParams {
    #[serde(default)]
    pub by: UsageGrouping,
    /// Only from the day on (UTC) in which this time lies, such as 2026-11-21T10:00:00Z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The same, as the time that has gone by since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_ms: Option<u64>,
}

/// One sum. Of `day`, `conversation` and `model` it has what it is by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageRow {
    /// Such as 2026-11-21.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    /// By conversation, and absent: those that were deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A preset by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// What its server was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub usage: Usage,
}

/// Today, in UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageToday {
    pub day: String,
    /// By the prices that are known.
    pub spent_usd: Usd,
    /// What requests that are under way are expected to cost.
    pub under_way_usd: Usd,
    /// `limits.daily_spend_usd`; null: there is none.
    pub limit_usd: Option<Usd>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageGetResult {
    pub by: UsageGrouping,
    /// The first day of the sums, if not all days count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Days oldest first, all else the dearest first; at most 1000.
    pub rows: Vec<UsageRow>,
    /// Whether there are more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// Of all, those that are not among `rows` too.
    pub total: Usage,
    pub today: UsageToday,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, nanos: u64, shown: &str) {
        let usd: Usd = serde_json::from_str(json).unwrap();
        assert_eq!((nanos, shown), (usd.nanos, usd.to_string().as_str()));
        let again: Usd = serde_json::from_str(&serde_json::to_string(&usd).unwrap()).unwrap();
        assert_eq!(usd, again);
    }

    #[test]
    fn money_is_a_number_of_dollars_and_loses_nothing_on_the_way() {
        check("0", 0, "$0.00");
        check("1.5", 1_500_000_000, "$1.50");
        check("0.000000001", 1, "$0.000000001");
        check("12345.678901234", 12_345_678_901_234, "$12345.678901234");
        for wrong in ["-1", "1e12", "\"1\"", "null"] {
            assert!(serde_json::from_str::<Usd>(wrong).is_err(), "{wrong}");
        }
    }
}
