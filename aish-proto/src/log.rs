//! `log/*`: what the daemon logs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::SubscriptionId;
use crate::method::methods;

methods! {
    /// A subscription to the log: the last lines that are kept, then those to come, as `logLines`. It ends with
    /// `conversation/detach`.
    Tail: "log/tail", Observer, Unordered, TailParams => TailResult;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TailParams {
    /// How many of the lines that are kept.
    #[serde(default = "some")]
    pub lines: u32,
}

fn some() -> u32 {
    100
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TailResult {
    pub subscription: SubscriptionId,
}
