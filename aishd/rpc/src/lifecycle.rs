//! What `intent/negotiate` answers without any tool: conversations, and levels that somebody wants raised.

use aish_proto::confirm::Denial;
use aish_proto::id::ConversationId;
use aish_proto::intent::{LifecycleStatus, NegotiateParams, NegotiateResult};
use aishd_conversation::directory::{ListFilter, ListQuery};
use aishd_conversation::requests::LevelRequestOutcome;
use aishd_log::access::Access;
use aishd_rules::alignment::ActionVerdict;
use aishd_rules::level_request::WantedLevel;
use aishd_rules::lifecycle::Lifecycle;

use super::connection::ClientConnection;
use super::method_error::MethodError;
use super::negotiate::{asked_for, stopped, want_level};
use super::turn::on_confirm;
use super::{RpcServer, event_conversion, permission};

/// Conversations that a list has.
const MOST: usize = 100;

pub(super) async fn answer(
    server: &RpcServer,
    connection: &ClientConnection,
    params: &NegotiateParams,
    action: Lifecycle,
) -> Result<NegotiateResult, MethodError> {
    match action {
        Lifecycle::Status => status(server, params.conversation).await,
        Lifecycle::Switch(to) => status(server, to).await,
        Lifecycle::List => list(server).await,
        Lifecycle::Upgrade { provider, to } => {
            upgrade(server, connection, params, &provider, to).await
        }
    }
}

async fn status(server: &RpcServer, id: ConversationId) -> Result<NegotiateResult, MethodError> {
    let handle = server.directory.open(id).await?;
    let state = handle.view().borrow().state.clone();
    let models = server.directory.models();
    let default = models.within(&state.cwd).default.clone();
    let status = LifecycleStatus {
        conversation: event_conversion::status(id, &state, server.attached.count(id)),
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

async fn list(server: &RpcServer) -> Result<NegotiateResult, MethodError> {
    let query = ListQuery {
        filter: ListFilter::Open,
        title: None,
        after: None,
        limit: MOST,
    };
    let page = server.directory.list(query).await?;
    let open = page.conversations.iter();
    let conversations: Vec<_> = open
        .map(|(id, state)| event_conversion::status(*id, state, server.attached.count(*id)))
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

/// A level is a person's to give: a person is asked, and it is not given here.
async fn upgrade(
    server: &RpcServer,
    connection: &ClientConnection,
    params: &NegotiateParams,
    provider: &str,
    to: Access,
) -> Result<NegotiateResult, MethodError> {
    let provider = permission::provider(server, provider)?;
    let alignment = ActionVerdict::of_level(&provider, to, &server.directory.policy());
    if let ActionVerdict::Contradiction { reason, .. } = &alignment {
        let output = format!("denied by policy: {reason}");
        return Ok(stopped(output, &alignment));
    }
    let on_confirm = params.on_confirm.as_ref().map(on_confirm).transpose()?;
    let _alone = connection.change.lock().await;
    let wanted = WantedLevel {
        provider: provider.clone(),
        to,
        wanted_for: None,
        on_confirm: on_confirm.unwrap_or_default(),
        by: connection.person(),
    };
    Ok(
        match want_level(server, params.conversation, wanted).await? {
            LevelRequestOutcome::Already(level) => {
                done(format!("{provider} is already at level {}", level.number()))
            }
            LevelRequestOutcome::Asked(confirm, upgrade) => {
                asked_for(params.conversation, confirm, &upgrade)
            }
            LevelRequestOutcome::Unasked(upgrade, why) => {
                let output = format!(
                    "{}; nobody is asked: {why}. A person can do it with: aishctl perm grant {provider} {} -C {}",
                    upgrade.why(),
                    to.number(),
                    params.conversation
                );
                NegotiateResult {
                    is_error: true,
                    denied: Some(Denial::NoApprover),
                    ..stopped(output, &alignment)
                }
            }
        },
    )
}

fn done(output: String) -> NegotiateResult {
    NegotiateResult {
        success: true,
        ..stopped(output, &ActionVerdict::Aligned)
    }
}
