//! What `intent/negotiate` answers without any tool: conversations, and levels that somebody wants raised (NEG-3, PRM-3).

use aish_proto::error::ErrorKind;
use aish_proto::id::ConversationId;
use aish_proto::intent::{LifecycleStatus, NegotiateResult};

use super::negotiate::stopped;
use super::refusal::Refusal;
use super::{Server, convert, permission};
use crate::core::access::Access;
use crate::core::alignment::Alignment;
use crate::core::lifecycle::Lifecycle;

/// Conversations that a list has.
const MOST: usize = 100;

pub(super) async fn answer(
    server: &Server,
    conversation: ConversationId,
    action: Lifecycle,
) -> Result<NegotiateResult, Refusal> {
    match action {
        Lifecycle::Status => status(server, conversation).await,
        Lifecycle::Switch(to) => status(server, to).await,
        Lifecycle::List => list(server).await,
        Lifecycle::Upgrade { provider, to } => upgrade(server, conversation, &provider, to).await,
    }
}

async fn status(server: &Server, id: ConversationId) -> Result<NegotiateResult, Refusal> {
    let handle = server.directory.open(id).await?;
    let state = handle.view().borrow().state.clone();
    let models = server.directory.models();
    let default = models.within(&state.cwd).default.clone();
    let status = LifecycleStatus {
        conversation: convert::status(id, &state, server.rooms.attached(id)),
        preset: state.model.clone().or(default),
        providers: permission::levels(server, &state.grants),
        resources: state.resources,
    };
    let levels = status.providers.iter();
    let levels: Vec<String> = levels
        .map(|it| format!("{} {}", it.provider, it.level))
        .collect();
    let output = format!(
        "{id} {}: {} turns, {} resources, levels: {}",
        state.title(),
        state.turns,
        state.resources,
        levels.join(", ")
    );
    Ok(NegotiateResult {
        status: Some(Box::new(status)),
        ..done(output)
    })
}

async fn list(server: &Server) -> Result<NegotiateResult, Refusal> {
    let states = server.directory.states().await?;
    let open = states.iter().filter(|(_, it)| !it.archived).take(MOST);
    let conversations: Vec<_> = open
        .map(|(id, state)| convert::status(*id, state, server.rooms.attached(*id)))
        .collect();
    let lines = conversations
        .iter()
        .map(|it| format!("{} {}", it.id, it.title));
    let output = lines.collect::<Vec<_>>().join("\n");
    Ok(NegotiateResult {
        conversations,
        ..done(output)
    })
}

/// A level is a person's to give, and it is not given here.
async fn upgrade(
    server: &Server,
    conversation: ConversationId,
    provider: &str,
    to: Access,
) -> Result<NegotiateResult, Refusal> {
    let provider = permission::provider(server, provider)?;
    let handle = server.directory.open(conversation).await?;
    let state = handle.view().borrow().state.clone();
    let policy = server.directory.policy();
    let has = policy.level(&provider, &state.grants);
    if to <= has {
        return Ok(done(format!(
            "{provider} is already at level {}",
            has.number()
        )));
    }
    let alignment = Alignment::of_level(&provider, to, &policy);
    match &alignment {
        Alignment::Contradiction { reason, .. } => {
            let output = format!("denied by policy: {reason}");
            Ok(stopped(output, &alignment))
        }
        Alignment::Aligned | Alignment::Unknown => {
            let message = format!(
                "Permission upgrade required for {provider}: level {} → {}; a person grants it",
                has.number(),
                to.number()
            );
            let hint = format!(
                "aishctl perm grant {provider} {} -C {conversation}",
                to.number()
            );
            Err(Refusal::new(ErrorKind::Denied, message).hint(hint))
        }
    }
}

fn done(output: String) -> NegotiateResult {
    NegotiateResult {
        success: true,
        ..stopped(output, &Alignment::Aligned)
    }
}
