//! `model/*`: the presets, and the servers behind them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::method::{Empty, methods};

methods! {
    /// The presets, as configured or found.
    List: "model/list", Observer, Unordered, Empty => ModelListResult;
    /// Asks each preset's server, and the usual local ones, what they serve. It never sends a prompt to a paid one.
    Probe: "model/probe", Observer, Unordered, Empty => ProbeResult;
    /// Asks one server, which no preset need name yet, which models it serves. It sends no prompt.
    Serves: "model/serves", Driver, Unordered, ServesParams => ServesResult;
}

/// Where a preset comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ModelSource {
    Configured,
    /// Found on a usual local port; used until something is configured.
    Discovered,
    /// The built-in responder: a script, not a model.
    Demo,
    /// There is none: the turn runs a list of calls.
    None,
    /// None was asked here: the answer was imported.
    Imported,
}

/// How a server of models is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ModelApi {
    /// Chat completions.
    Chat,
    /// As `OpenAI`'s newer models want it.
    Responses,
    /// As Anthropic's do.
    Messages,
}

impl ModelApi {
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelStatus {
    pub name: String,
    pub source: ModelSource,
    /// Null for the demo.
    pub endpoint: Option<String>,
    pub model: String,
    /// How its server is spoken to.
    pub api: ModelApi,
    pub default: bool,
    /// Whether a key is configured, and whether it is there.
    pub key: KeyStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum KeyStatus {
    None,
    Present,
    Missing,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelListResult {
    pub models: Vec<ModelStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbedServer {
    /// The preset that names it; null for a usual local port.
    pub preset: Option<String>,
    pub endpoint: String,
    pub ok: bool,
    /// Model ids that it lists.
    pub models: Vec<String>,
    /// How it can be spoken to, as far as it answers an empty request; only of the servers of presets.
    pub apis: Vec<ModelApi>,
    /// What went wrong, if something did.
    pub error: Option<String>,
    pub ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeResult {
    pub servers: Vec<ProbedServer>,
}

/// Where a server is, and how it knows who asks. At most one of the keys is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServesParams {
    pub endpoint: String,
    /// How it is spoken to, where its address does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<ModelApi>,
    /// The variable that holds the key: the daemon's, or one that a client has lent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// The file that the key is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<String>,
    /// The command that prints the key, and its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_cmd: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServesResult {
    /// Model ids that it lists.
    pub models: Vec<String>,
    /// Why it could not be asked, if it could not.
    pub error: Option<String>,
}
