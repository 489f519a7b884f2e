//! The sessions with MCP servers: built from what they need of the others, and kept those of the configuration.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use aishd_config::environment_variables;
use aishd_conversation::directory::ConversationDirectory;
use aishd_log::audit::{AuditDraft, AuditFact, ServerChange, SignInAudit};
use aishd_log::tool::ContentDigest;
use aishd_logging::Redactor;
use aishd_mcp::hub::Hub;
use aishd_mcp::hub_parts::HubParts;
use aishd_mcp_messages::bounded_text::one_line;
use aishd_mcp_messages::settings::McpSettings;
use aishd_platform::clock;
use aishd_profile::ProfileGround;
use aishd_signin::{FailedRenewal, SignIn, SignInParts};
use aishd_store::{Note, Store};
use tokio::sync::{mpsc, watch};

/// Time for MCP servers to end by themselves once their input is closed.
const WAIT: Duration = Duration::from_secs(1);
const MAX_ISSUER_CHARS: usize = 200;
const MAX_ERROR_CHARS: usize = 80;
/// Renewals that failed and wait to be recorded.
pub(super) const UNRECORDED: usize = 64;

/// The hub, with no session yet. The log learns its secrets before they are used.
pub(super) fn hub(
    store: &Store,
    profiles: ProfileGround,
    redactor: Redactor,
    (sign_ins, not_renewed): (PathBuf, mpsc::Sender<FailedRenewal>),
) -> Hub {
    let learner = redactor.clone();
    let sign_in = sign_in(sign_ins, &redactor, not_renewed);
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
fn sign_in(
    directory: PathBuf,
    redactor: &Redactor,
    not_renewed: mpsc::Sender<FailedRenewal>,
) -> SignIn {
    let (learner, redactor) = (redactor.clone(), redactor.clone());
    SignIn::new(SignInParts {
        directory,
        environment: Box::new(environment_variables::key),
        learn: Box::new(move |secret| learner.learn(secret)),
        not_renewed: Box::new(move |failed| {
            // Each is told once, so that it is full only where nothing is written any more.
            if let Err(error) = not_renewed.try_send(failed) {
                tracing::warn!(%error, "a renewal that failed is not recorded");
            }
        }),
        redact: Box::new(move |text| redactor.redact(text)),
    })
}

/// Puts renewals that failed on the audit trail, of each server that has that sign-in.
pub(super) async fn record_renewals(
    hub: Hub,
    directory: ConversationDirectory,
    mut failed: mpsc::Receiver<FailedRenewal>,
) {
    while let Some(failed) = failed.recv().await {
        let at = SignInAudit {
            issuer: one_line(&failed.issuer, MAX_ISSUER_CHARS),
            scopes: vec![],
            error: Some(one_line(&failed.error, MAX_ERROR_CHARS)),
        };
        for provider in hub.not_renewed(&failed) {
            let told = AuditFact::ServerChanged {
                provider,
                change: ServerChange::NotRenewed,
                place: Some(ContentDigest::of(failed.issuer.as_bytes())),
                sign_in: Some(Box::new(at.clone())),
            };
            let draft = AuditDraft::outside_conversation(clock::now(), told);
            if let Err(error) = directory.record(draft).await {
                tracing::warn!(%error, "record a renewal that failed");
            }
        }
    }
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
