//! What the program is asked, and what it answers.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::call::FetchCall;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FetchRequest {
    pub call: FetchCall,
    /// The one way out.
    pub proxy: SocketAddr,
    /// How long a connection may wait there for a person.
    pub host_wait_ms: u64,
    /// What the request says it is.
    pub user_agent: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FetchReply {
    /// A page was read.
    pub ok: bool,
    /// For the model: the page, or why there is none.
    pub text: String,
}
