//! Who answered a question, or changed something.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::ClientId;

/// Who answered: process and user as the socket says, the terminal as the client said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Answerer {
    pub client_id: ClientId,
    pub name: String,
    pub tty: Option<String>,
    pub pid: Option<u32>,
    pub uid: Option<u32>,
}
