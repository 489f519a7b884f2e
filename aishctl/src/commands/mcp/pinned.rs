//! `mcp pin`: resources that a conversation keeps in its context.

use aish_proto::id::ConversationId;
use aish_proto::mcp::{McpConversationParams, Pin, Pinned, PinnedResult, ResourcePinParams, Unpin};

use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::commands::mcp::patience;
use crate::failure::Failure;
use crate::safe;

pub(super) async fn pin(context: &CommandContext, alias: &str, uri: &str) -> PrintResult {
    let params = params(here(context).await?, alias, uri);
    let pinned = context
        .caller
        .call_within::<Pin>(params, Some(patience(context)));
    render(context, &pinned.await?)
}

pub(super) async fn unpin(context: &CommandContext, alias: &str, uri: &str) -> PrintResult {
    let params = params(here(context).await?, alias, uri);
    let left = context
        .caller
        .call_within::<Unpin>(params, Some(patience(context)));
    render(context, &left.await?)
}

pub(super) async fn list(context: &CommandContext) -> PrintResult {
    let conversation = here(context).await?;
    let params = McpConversationParams { conversation };
    let pinned = context.call::<Pinned>(params).await?;
    render(context, &pinned)
}

async fn here(context: &CommandContext) -> Result<ConversationId, Failure> {
    let found = context.meant(context.name(None));
    Ok(found.await?.id)
}

fn params(conversation: ConversationId, alias: &str, uri: &str) -> ResourcePinParams {
    ResourcePinParams {
        conversation,
        alias: alias.to_owned(),
        uri: uri.to_owned(),
    }
}

fn render(context: &CommandContext, result: &PinnedResult) -> PrintResult {
    context.print(result, || {
        if result.pinned.is_empty() {
            return "nothing is pinned here\n".to_owned();
        }
        let each = result.pinned.iter();
        each.map(|it| format!("@{}:{}\n", it.alias, safe::one_line(&it.uri)))
            .collect()
    })
}
