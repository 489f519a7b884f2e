//! Talking to OpenAI-compatible servers (spec 20). The broker is a transport layer: it knows nothing of
//! conversations, of MCP or of policy.

use std::sync::Arc;

use crate::core::preset::{Models, Preset};
use crate::core::reply::{Broken, Delta, Reply};

/// HTTP clients and keys; cheap to clone.
#[derive(Clone, Debug)]
pub struct Broker {}

/// What one server said to a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub preset: Option<String>,
    pub endpoint: String,
    pub models: Result<Vec<String>, String>,
    pub ms: u64,
}

/// Which preset answers when none is configured.
#[derive(Clone, Debug)]
pub struct Discovery {
    pub preset: Arc<Preset>,
    /// Lines for people: what was found and used, or what was tried.
    pub notices: Vec<String>,
}

impl Broker {
    #[must_use]
    pub fn new(_keys: std::collections::BTreeMap<String, String>) -> Self {
        todo!()
    }

    /// Values of environment variables by name, lent by a client; in memory only.
    pub fn lend(&self, _secrets: std::collections::BTreeMap<String, String>) {
        todo!()
    }

    /// Whether the preset's key is there; `None` when it needs none.
    #[must_use]
    pub fn has_key(&self, _preset: &Preset) -> Option<bool> {
        todo!()
    }

    /// Sends one request body (made by `core::request`) and streams the answer into `sink`.
    /// Dropping the future closes the connection at once (BRK-13).
    pub async fn stream(
        &self,
        _preset: &Preset,
        _body: String,
        _sink: impl FnMut(Delta<'_>) + Send,
    ) -> Result<Reply, Box<Broken>> {
        todo!()
    }

    /// The preset for somebody who configured none: the first local server with a model that answers, else the demo.
    pub async fn discover(&self, _models: &Models) -> Discovery {
        todo!()
    }

    /// Asks every preset's server and the usual local ones what they serve.
    pub async fn probe(&self, _models: &Models) -> Vec<Probe> {
        todo!()
    }
}
