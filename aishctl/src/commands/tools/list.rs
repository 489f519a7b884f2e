//! `tools list|show`: what there is to call, and how it stands to a conversation.

use aish_proto::id::ConversationId;
use aish_proto::mcp::Profile;
use aish_proto::tool::{Describe, DescribeParams, List, ToolDescription, ToolListParams};
use serde_json::Value;

use crate::client::conversation_choice;
use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{held_to, table};
use crate::safe;

const SUMMARY_COLUMNS: usize = 60;

/// The conversation that was named.
pub(super) async fn named_conversation(
    context: &CommandContext,
) -> Result<Option<ConversationId>, Failure> {
    Ok(match context.name(None) {
        Some(name) => Some(
            conversation_choice::by_name(&context.caller, name)
                .await?
                .id,
        ),
        None => None,
    })
}

pub(super) async fn list(context: &CommandContext, provider: Option<&str>) -> PrintResult {
    let conversation = named_conversation(context).await?;
    let mut whole = context
        .call::<List>(ToolListParams {
            conversation,
            cursor: None,
        })
        .await?;
    while let Some(cursor) = whole.next_cursor.take() {
        let params = ToolListParams {
            conversation,
            cursor: Some(cursor),
        };
        let page = context.call::<List>(params).await?;
        whole.tools.extend(page.tools);
        whole.next_cursor = page.next_cursor;
    }
    if let Some(provider) = provider {
        whole.tools.retain(|it| it.provider == provider);
        if whole.tools.is_empty() {
            let provider = safe::one_line(provider);
            let message = format!("no provider {provider} has tools now");
            return Err(Failure::new(Exit::UNKNOWN, message).hint("aishctl mcp list"));
        }
    }
    context.print(&whole, || {
        let row = |it: &ToolDescription| {
            let description = it.description.lines().next().unwrap_or_default();
            vec![
                it.name.clone(),
                level(it.level_required),
                permission_word(it).to_owned(),
                table::cut(description, SUMMARY_COLUMNS),
            ]
        };
        let rows: Vec<Vec<String>> = whole.tools.iter().map(row).collect();
        let held: Vec<_> = whole.tools.iter().map(|it| it.contain).collect();
        held_to::columns(&["tool", "needs", "here", "description"], rows, 2, &held)
    })
}

/// How it stands to the conversation, in a word or two.
fn permission_word(tool: &ToolDescription) -> &'static str {
    match () {
        () if tool.denied.is_some() => "denied",
        () if !tool.offered => "not offered",
        () if tool.asks => "asks",
        () => "runs",
    }
}

pub(super) async fn show(context: &CommandContext, name: &str) -> PrintResult {
    let params = DescribeParams {
        name: name.to_owned(),
        conversation: named_conversation(context).await?,
    };
    let tool = context.call::<Describe>(params).await?;
    context.print(&tool, || render(&tool))
}

fn render(tool: &ToolDescription) -> String {
    let title = tool.title.iter().map(|it| format!(" · {it}"));
    let mut text = format!("{}{}\n", tool.name, title.collect::<String>());
    for line in tool.description.lines() {
        text.push_str(&format!("  {line}\n"));
    }
    if let Some(short) = &tool.short_name {
        text.push_str(&format!("told to models as: {short}\n"));
    }
    let (needs, has) = (level(tool.level_required), level(tool.level));
    let provider = &tool.provider;
    text.push_str(&format!("needs level {needs}; {provider} has {has}\n"));
    match tool.contain {
        Some(Profile::Read) => text.push_str("held to reading: it writes in a /tmp of its own, sees no keys, and reaches only hosts that it is given\n"),
        Some(Profile::Workspace) => text.push_str("held to its directories: it writes there and in a /tmp of its own, sees no keys, and reaches only hosts that it is given\n"),
        Some(Profile::Open) | None => {}
    }
    match &tool.denied {
        Some(rule) => text.push_str(&format!("denied: {}\n", safe::one_line(rule))),
        None if !tool.offered => text.push_str("models are not offered it\n"),
        None if tool.asks => text.push_str("a person is asked about a call\n"),
        None => text.push_str("nobody is asked about a call\n"),
    }
    let parts = [
        ("arguments", Some(&tool.input_schema)),
        ("result", tool.output_schema.as_ref()),
        (
            "annotations (nothing is believed for them)",
            Some(&tool.annotations),
        ),
    ];
    for (name, value) in parts {
        if let Some(value) = value.filter(|it: &&Value| !it.is_null()) {
            let value = serde_json::to_string_pretty(value).unwrap_or_default();
            text.push_str(&format!("{name}:\n{value}\n"));
        }
    }
    text.push_str(&format!("digest: {}\n", tool.digest));
    text
}

fn level(number: u8) -> String {
    let name = match number {
        1 => " read",
        2 => " write",
        3 => " execute",
        0 | 4.. => "",
    };
    format!("{number}{name}")
}
