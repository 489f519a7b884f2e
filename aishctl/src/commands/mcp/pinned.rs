//! `mcp pin`: resources that a conversation keeps in its context.

use aish_proto::id::ConversationId;
use aish_proto::mcp::{McpConversationParams, Pin, Pinned, PinnedResult, ResourcePinParams, Unpin};

use crate::client::conversation_choice;
use crate::command_output::CommandOutput;
use crate::commands::command_context::CommandContext;
use crate::commands::mcp::patience;
use crate::failure::Failure;
use crate::safe;

pub(super) async fn pin(
    desk: &CommandContext,
    alias: &str,
    uri: &str,
) -> Result<CommandOutput, Failure> {
    let params = params(here(desk).await?, alias, uri);
    let pinned = desk.caller.call_within::<Pin>(params, Some(patience(desk)));
    render(desk, &pinned.await?)
}

pub(super) async fn unpin(
    desk: &CommandContext,
    alias: &str,
    uri: &str,
) -> Result<CommandOutput, Failure> {
    let params = params(here(desk).await?, alias, uri);
    let left = desk
        .caller
        .call_within::<Unpin>(params, Some(patience(desk)));
    render(desk, &left.await?)
}

pub(super) async fn list(desk: &CommandContext) -> Result<CommandOutput, Failure> {
    let conversation = here(desk).await?;
    let params = McpConversationParams { conversation };
    let pinned = desk.caller.call::<Pinned>(params).await?;
    render(desk, &pinned)
}

async fn here(desk: &CommandContext) -> Result<ConversationId, Failure> {
    let found = conversation_choice::resolve(&desk.caller, &desk.around, desk.name(None));
    Ok(found.await?.id)
}

fn params(conversation: ConversationId, alias: &str, uri: &str) -> ResourcePinParams {
    ResourcePinParams {
        conversation,
        alias: alias.to_owned(),
        uri: uri.to_owned(),
    }
}

fn render(desk: &CommandContext, result: &PinnedResult) -> Result<CommandOutput, Failure> {
    desk.print(result, || {
        if result.pinned.is_empty() {
            return "nothing is pinned here\n".to_owned();
        }
        let each = result.pinned.iter();
        each.map(|it| format!("@{}:{}\n", it.alias, safe::one_line(&it.uri)))
            .collect()
    })
}
