//! A tool call as a model wrote it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A complete call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The server's id, or one made up when it gave none.
    pub id: String,
    pub name: String,
    /// One JSON object as text; `{}` when what came was none.
    pub arguments: String,
    /// Why the call must not run: what came as arguments was not one JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// Fields of the call that we do not know and the same model wants back.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}
