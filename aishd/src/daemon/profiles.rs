//! What programs under a profile are started with, and that each of them stands in the audit trail.

use std::path::PathBuf;

use aishd_config::environment_variables;
use aishd_conversation::directory::ConversationDirectory;
use aishd_log::audit::{AuditDraft, AuditFact};
use aishd_platform::clock;
use aishd_process::Children;
use aishd_profile::{EgressGround, HeldNews, HeldStart, NameLookup, ProfileGround, Upstream};
use aishd_rules::boundary::BoundaryGround;
use tokio::sync::mpsc;

/// Starts that wait to be recorded; who starts a program waits for no disk.
const WAITING: usize = 256;

/// The ground, and what is started on it.
pub(super) fn ground(
    children: &Children,
    boundary: &BoundaryGround,
    layers: PathBuf,
) -> (ProfileGround, mpsc::Receiver<HeldNews>) {
    let (tell, told) = mpsc::channel(WAITING);
    let tell = move |news| {
        if tell.try_send(news).is_err() {
            tracing::warn!("what a program under a profile did is not in the audit trail");
        }
    };
    let (home, own) = (boundary.home.clone(), boundary.own.clone());
    let ground = ProfileGround::new(
        children.clone(),
        layers,
        home,
        own,
        egress(),
        Box::new(tell),
    );
    (ground, told)
}

/// How contained programs go out, as the environment has it for the daemon itself.
fn egress() -> EgressGround {
    let upstream = Upstream::of_environment(environment_variables::key);
    let upstream = upstream.unwrap_or_else(|error| {
        tracing::warn!(%error, "contained programs go out directly");
        Upstream::Direct
    });
    EgressGround {
        upstream,
        names: NameLookup::default(),
    }
}

/// Records them, for ever.
pub(super) async fn record(directory: ConversationDirectory, mut told: mpsc::Receiver<HeldNews>) {
    while let Some(news) = told.recv().await {
        let fact = match news {
            HeldNews::Started(HeldStart {
                provider,
                profile,
                landlock,
            }) => AuditFact::ProgramHeld {
                provider,
                profile,
                landlock,
            },
            HeldNews::Reached { provider, network } => AuditFact::ProgramReached {
                provider: Some(provider),
                network: Box::new(network),
            },
        };
        let draft = AuditDraft::outside_conversation(clock::now(), fact);
        if let Err(error) = directory.record(draft).await {
            tracing::warn!(%error, "record the start of a program under a profile");
        }
    }
    std::future::pending::<()>().await;
}
