//! `mcp/complete`: what an argument of a prompt or a variable of a resource template may become, as its server says.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::method::methods;

methods! {
    /// Values that begin like the one that is typed. For keys like Tab: a server that is slow is not waited for long.
    Complete: "mcp/complete", Driver, Unordered, CompleteParams => CompleteResult;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompleteParams {
    pub alias: String,
    /// The prompt whose argument is typed; this, or `template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The template, as `mcp/resources` has its `uri`, whose variable is typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The argument's name, or the variable's.
    pub argument: String,
    /// What is typed of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The other arguments or variables that have values already.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompleteResult {
    /// At most 100 whole values, in the server's order. Those that hide something (controls, characters that show nothing)
    /// or are longer than 1024 bytes are left out.
    pub values: Vec<String>,
    /// How many the server says that there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// There are more than these.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}
