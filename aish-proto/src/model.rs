//! `model/*`: the presets, and the servers behind them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::method::{Empty, methods};

methods! {
    /// The presets, as configured or found.
    List: "model/list", Observer, Unordered, Empty => ModelListResult;
    /// Asks each preset's server, and the usual local ones, what they serve. It never sends a prompt to a paid one.
    Probe: "model/probe", Observer, Unordered, ProbeParams => ProbeResult;
    /// What is known of the model of a preset, and what was learned of its server.
    Show: "model/show", Observer, Unordered, ModelParams => ModelShowResult;
    /// Forgets what was learned of the server of a preset: it is sent everything again.
    Forget: "model/forget", Driver, Unordered, ModelParams => ForgetResult;
    /// Asks one server, which no preset need name yet, which models it serves. It sends no prompt.
    Serves: "model/serves", Driver, Unordered, ServesParams => ServesResult;
    /// What the daemon knows of models before they are asked comes from here.
    ModelCatalog: "model/catalog", Observer, Unordered, Empty => ModelCatalogResult;
    /// Makes a catalog of a file that somebody got, and goes by it from now on.
    UpdateCatalog: "model/updateCatalog", Driver, Unordered, UpdateCatalogParams => UpdateCatalogResult;
    /// Back to the catalog that came with the program.
    ResetCatalog: "model/resetCatalog", Driver, Unordered, Empty => ModelCatalogResult;
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

/// A preset, by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelParams {
    pub name: String,
}

/// What requests of this preset go by. Null is what nobody knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelShowResult {
    pub status: ModelStatus,
    /// What the model takes in, in tokens.
    pub context_tokens: Option<u64>,
    /// Its longest answer, in tokens: as the preset sets it, else as the catalog has it.
    pub max_tokens: Option<u64>,
    /// Whether it takes a temperature.
    pub temperature: bool,
    /// Whether it is offered tools.
    pub tools: bool,
    pub pictures: Option<bool>,
    pub pdfs: Option<bool>,
    /// What its server takes, in US dollars for a million tokens.
    pub price: Option<ModelPrice>,
    /// The day of the catalog of models that knows it: the one that came with the program, or one that was handed over; null
    /// when none does.
    pub catalog: Option<String>,
    /// What its server was found not to take, for people.
    pub learned: Vec<String>,
}

/// In US dollars for a million tokens, as text: `0.15`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelPrice {
    pub input: String,
    pub output: String,
    pub cached_input: Option<String>,
    pub cache_write: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForgetResult {
    /// What was known of it until now.
    pub forgotten: Vec<String>,
}

/// Which servers are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProbeParams {
    /// That of this preset alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
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

/// A catalog of models.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogStatus {
    /// When it was made or handed over: `2026-08-18`.
    pub day: String,
    /// Whose data it is: `models.dev` or `litellm`.
    pub origin: String,
    /// How many it knows.
    pub models: u64,
}

/// The catalogs in use. Where both know something of a model, the newer one counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCatalogResult {
    /// The one that came with the program.
    pub built_in: CatalogStatus,
    /// The one that somebody handed over; null when nobody did.
    pub handed: Option<CatalogStatus>,
    /// Why the configuration cannot be read now, so that presets stay as they are.
    pub errors: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateCatalogParams {
    /// The absolute path of models.dev's `api.json`, or of LiteLLM's `model_prices_and_context_window.json`.
    pub file: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateCatalogResult {
    pub catalog: ModelCatalogResult,
    /// Models of the file that are not taken over: at no host that is known, without text in their answers, or with nothing
    /// said of them.
    pub left_out: u64,
}
