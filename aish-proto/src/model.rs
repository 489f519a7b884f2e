//! `model/*`: the presets, and the servers behind them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::method::{Empty, methods};

methods! {
    /// The presets, as configured or found.
    List: "model/list", Observer, Unordered, Empty => ModelListResult;
    /// Asks each preset's server, and the usual local ones, what they serve. It never sends a prompt to a paid one.
    Probe: "model/probe", Observer, Unordered, Empty => ProbeResult;
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelStatus {
    pub name: String,
    pub source: ModelSource,
    /// Null for the demo.
    pub endpoint: Option<String>,
    pub model: String,
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
    /// What went wrong, if something did.
    pub error: Option<String>,
    pub ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeResult {
    pub servers: Vec<ProbedServer>,
}
