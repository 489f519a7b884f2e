//! What requests to models took.

use serde::{Deserialize, Serialize};

use crate::spending::NanoUsd;

/// Tokens as the server counted them; `None` where it did not say. Once a request is charged for, also what it cost; then
/// sums of these say what many requests took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    #[serde(default)]
    pub input: Option<u64>,
    #[serde(default)]
    pub output: Option<u64>,
    #[serde(default)]
    pub cached_input: Option<u64>,
    /// Of the input: what the server keeps from now on, which some take more for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_written: Option<u64>,
    #[serde(default)]
    pub reasoning: Option<u64>,
    /// Some of it was not counted by a server, and is believed from bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Of the requests whose price was known; `None`: of none was it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<NanoUsd>,
    /// Requests that were charged for.
    #[serde(default, skip_serializing_if = "is_none")]
    pub requests: u64,
    /// Those of them that nobody knows the cost of.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unpriced: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Sums field by field; what neither side knows stays unknown.
    pub fn plus(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        Self {
            input: sum(self.input, other.input),
            output: sum(self.output, other.output),
            cached_input: sum(self.cached_input, other.cached_input),
            cache_written: sum(self.cache_written, other.cache_written),
            reasoning: sum(self.reasoning, other.reasoning),
            estimated: self.estimated || other.estimated,
            cost: match (self.cost, other.cost) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or_default().plus(b.unwrap_or_default())),
            },
            requests: self.requests.saturating_add(other.requests),
            unpriced: self.unpriced.saturating_add(other.unpriced),
        }
    }

    /// Of requests and answers together.
    pub fn tokens(&self) -> u64 {
        let (input, output) = (self.input.unwrap_or(0), self.output.unwrap_or(0));
        input.saturating_add(output)
    }
}
