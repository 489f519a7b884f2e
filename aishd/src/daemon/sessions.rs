//! The sessions with MCP servers: built from what they need of the others, and kept those of the configuration.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use aishd_config::environment_variables;
use aishd_logging::Redactor;
use aishd_mcp::hub::Hub;
use aishd_mcp::hub_parts::HubParts;
use aishd_mcp_messages::settings::McpSettings;
use aishd_profile::ProfileGround;
use aishd_signin::{SignIn, SignInParts};
use aishd_store::{Note, Store};
use tokio::sync::watch;

/// Time for MCP servers to end by themselves once their input is closed.
const WAIT: Duration = Duration::from_secs(1);

/// The hub, with no session yet. The log learns its secrets before they are used.
pub(super) fn hub(
    store: &Store,
    profiles: ProfileGround,
    redactor: Redactor,
    sign_ins: PathBuf,
) -> Hub {
    let learner = redactor.clone();
    let sign_in = sign_in(sign_ins, &redactor);
    let (recalled, kept, listed) = (store.clone(), store.clone(), store.clone());
    Hub::new(HubParts {
        profiles,
        sign_in,
        environment: Box::new(environment_variables::key),
        recall: Box::new(move |key| recalled.note(key).ok().flatten()),
        keep: Box::new(move |key, text| {
            let key = key.to_owned();
            if !kept.keep_note(Note {
                key,
                text,
                forgets: false,
            }) {
                tracing::warn!("what an MCP server offers could not be kept");
            }
        }),
        roots: Box::new(move || directories(&listed)),
        redact: Box::new(move |text| redactor.redact(text)),
        learn: Box::new(move |secret| learner.learn(secret)),
        elicitation: true,
    })
}

/// Signing in to servers; what comes of it lies in this directory.
fn sign_in(directory: PathBuf, redactor: &Redactor) -> SignIn {
    let (learner, redactor) = (redactor.clone(), redactor.clone());
    SignIn::new(SignInParts {
        directory,
        environment: Box::new(environment_variables::key),
        learn: Box::new(move |secret| learner.learn(secret)),
        redact: Box::new(move |text| redactor.redact(text)),
    })
}

/// Where the conversations are that nobody has put away.
fn directories(store: &Store) -> Vec<PathBuf> {
    let open = store.directories().unwrap_or_default();
    let all: BTreeSet<PathBuf> = open.into_iter().map(PathBuf::from).collect();
    all.into_iter().filter(|it| it.is_absolute()).collect()
}

/// Keeps the sessions those of the configuration. It waits for no server.
pub(super) async fn follow(hub: Hub, mut settings: watch::Receiver<McpSettings>) {
    loop {
        let now = settings.borrow_and_update().clone();
        hub.configure(now).await;
        if settings.changed().await.is_err() {
            // Nobody can change them any more.
            return;
        }
    }
}

/// Ends them. Those that do not end in time are dropped, and their children's keepers do the rest.
pub(super) async fn stop(hub: &Hub) {
    let _in_time = tokio::time::timeout(WAIT, hub.stop()).await;
    // A renewal that is under way may hold the only token that is left.
    let _in_time = tokio::time::timeout(WAIT, hub.signed()).await;
}
