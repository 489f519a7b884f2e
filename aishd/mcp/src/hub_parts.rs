//! What the hub is built from.

use std::path::PathBuf;

use aishd_profile::ProfileGround;
use aishd_signin::SignIn;

use crate::secrets::LearnSecret;

type HubEnvironment = dyn Fn(&str) -> Option<String> + Send + Sync;

type RecallServer = dyn Fn(&str) -> Option<String> + Send + Sync;

type KeepServer = dyn Fn(&str, String) + Send + Sync;

/// What the hub is built from.
pub struct HubParts {
    /// Starts servers that are children.
    pub profiles: ProfileGround,
    /// Signs people in to servers.
    pub sign_in: SignIn,
    /// The daemon's own variables.
    pub environment: Box<HubEnvironment>,
    /// What was kept under a key, if anything was.
    pub recall: Box<RecallServer>,
    /// Keeps a text under a key, over the end of the daemon.
    pub keep: Box<KeepServer>,
    /// The directories of the conversations.
    pub roots: Box<dyn Fn() -> Vec<PathBuf> + Send + Sync>,
    /// Is told each secret that goes to a server, before it does, so that it can be kept out of logs.
    pub learn: Box<LearnSecret>,
    /// Cuts out of a text what was learnt, and what looks like a secret.
    pub redact: Box<dyn Fn(&str) -> String + Send + Sync>,
    /// Whether a call may bring a form before people; what is off is not announced.
    pub elicitation: bool,
}

impl std::fmt::Debug for HubParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HubParts").finish_non_exhaustive()
    }
}
