//! What a server wants a model to be asked while its call runs, as a person is shown it. Plain values.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One request to a model, whole: nothing else goes to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SamplingRequest {
    /// The alias of the server that asks.
    pub server: String,
    /// The preset that answers.
    pub preset: String,
    /// Its model.
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Oldest first.
    pub messages: Vec<SamplingMessage>,
    /// The longest answer: what the server wants, or less.
    pub max_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Texts before which the model ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SamplingMessage {
    pub role: SamplingRole,
    pub text: String,
}

/// Whose message it is said to be; the server wrote both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SamplingRole {
    User,
    Assistant,
}

impl fmt::Display for SamplingRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        })
    }
}
