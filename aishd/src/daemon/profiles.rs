//! What programs under a profile are started with, and that each of them stands in the audit trail.

use std::path::PathBuf;

use aishd_conversation::directory::ConversationDirectory;
use aishd_log::audit::{AuditDraft, AuditFact};
use aishd_platform::clock;
use aishd_process::Children;
use aishd_profile::{HeldStart, ProfileGround};
use aishd_rules::boundary::BoundaryGround;
use tokio::sync::mpsc;

/// Starts that wait to be recorded; who starts a program waits for no disk.
const WAITING: usize = 256;

/// The ground, and what is started on it.
pub(super) fn ground(
    children: &Children,
    boundary: &BoundaryGround,
    layers: PathBuf,
) -> (ProfileGround, mpsc::Receiver<HeldStart>) {
    let (tell, told) = mpsc::channel(WAITING);
    let tell = move |start| {
        if tell.try_send(start).is_err() {
            tracing::warn!("the start of a program under a profile is not in the audit trail");
        }
    };
    let (home, own) = (boundary.home.clone(), boundary.own.clone());
    let ground = ProfileGround::new(children.clone(), layers, home, own, Box::new(tell));
    (ground, told)
}

/// Records them, for ever.
pub(super) async fn record(directory: ConversationDirectory, mut told: mpsc::Receiver<HeldStart>) {
    while let Some(start) = told.recv().await {
        let HeldStart {
            provider,
            profile,
            landlock,
        } = start;
        let fact = AuditFact::ProgramHeld {
            provider,
            profile,
            landlock,
        };
        let draft = AuditDraft::outside_conversation(clock::now(), fact);
        if let Err(error) = directory.record(draft).await {
            tracing::warn!(%error, "record the start of a program under a profile");
        }
    }
    std::future::pending::<()>().await;
}
