//! `resource`: the shared context of a conversation, JSON under names for its tools and its people.

use std::path::{Path, PathBuf};

use aish_proto::id::ConversationId;
use aish_proto::resource::{
    self as wire, ChangedResult, Create, Delete, Get, List, ResourceCreateParams,
    ResourceDeleteParams, ResourceGetParams, ResourceListParams, Update, UpdateParams,
};
use clap::Subcommand;
use serde_json::Value;

use crate::client::connect::{Caller, RpcCallError};
use crate::command_output::{CommandOutput, OutputKind, PrintResult};
use crate::commands::ask;
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::event_lines::{author, change_word};
use crate::render::table;
use crate::{file, safe};

const PAGE: u32 = 500;
/// A file with blanks in it may be so long; what is left without them is the daemon's to judge.
const FILE_BYTES: u64 = 8 << 20;

#[derive(Clone, Debug, Subcommand)]
pub enum ResourceCommand {
    /// Their names, without what they hold
    #[command(alias = "list")]
    Ls,
    /// What one of them holds
    Get { name: String },
    /// Make one, or replace what it holds
    Put {
        name: String,
        /// A file with JSON; `-` is stdin
        file: PathBuf,
        /// Only if it is at this revision; 0: only if there is none
        #[arg(long, value_name = "N")]
        revision: Option<u64>,
    },
    /// Delete one
    #[command(alias = "delete")]
    Rm {
        name: String,
        /// Only if it is at this revision
        #[arg(long, value_name = "N")]
        revision: Option<u64>,
    },
}

pub async fn run(context: &CommandContext, command: Option<&ResourceCommand>) -> PrintResult {
    let meant = context.meant(context.name(None)).await?;
    match command {
        None | Some(ResourceCommand::Ls) => list(context, meant.id).await,
        Some(ResourceCommand::Get { name }) => get(context, meant.id, name).await,
        Some(ResourceCommand::Put {
            name,
            file,
            revision,
        }) => {
            let data = json(file)?;
            let put = put(&context.caller, meant.id, name, data, *revision).await;
            changed(context, &put?)
        }
        Some(ResourceCommand::Rm { name, revision }) => {
            let params = ResourceDeleteParams {
                conversation: meant.id,
                name: name.clone(),
                expected_revision: *revision,
            };
            changed(context, &context.call::<Delete>(params).await?)
        }
    }
}

async fn list(context: &CommandContext, conversation: ConversationId) -> PrintResult {
    let mut all: Vec<wire::ResourceMetadata> = vec![];
    let mut cursor = None;
    loop {
        let params = ResourceListParams {
            conversation,
            cursor,
            limit: Some(PAGE),
        };
        let page = context.call::<List>(params).await?;
        all.extend(page.resources);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    context.print(&all, || {
        let row = |it: &wire::ResourceMetadata| {
            vec![
                it.name.clone(),
                it.revision.to_string(),
                it.bytes.to_string(),
                it.updated_at.clone(),
                author(&it.updated_by),
            ]
        };
        let rows: Vec<Vec<String>> = all.iter().map(row).collect();
        table::columns(&["name", "revision", "bytes", "updated", "by"], &rows)
    })
}

async fn get(context: &CommandContext, conversation: ConversationId, name: &str) -> PrintResult {
    let params = ResourceGetParams {
        conversation,
        name: name.to_owned(),
    };
    let result = context.call::<Get>(params).await?;
    if context.global.json || context.global.jsonl {
        return context.print(&result, String::new);
    }
    let shown = serde_json::to_string_pretty(&result.data);
    let shown = shown.map_err(|error| Failure::new(Exit::FAILED, error.to_string()))?;
    Ok(CommandOutput {
        // As JSON it is shown with its escapes, and means the same.
        kind: OutputKind::Json,
        ..CommandOutput::text(format!("{shown}\n"))
    })
}

async fn put(
    caller: &Caller,
    conversation: ConversationId,
    name: &str,
    data: Value,
    revision: Option<u64>,
) -> Result<ChangedResult, RpcCallError> {
    let text = data.to_string();
    let (data, blob) = if text.len() < caller.line_bytes() / 2 {
        (Some(data), None)
    } else {
        (None, Some(ask::put_blob(caller, &text).await?))
    };
    let name = name.to_owned();
    if revision == Some(0) {
        let params = ResourceCreateParams {
            conversation,
            name,
            data,
            blob,
        };
        return caller.call::<Create>(params).await;
    }
    let params = UpdateParams {
        conversation,
        name,
        data,
        blob,
        expected_revision: revision,
        create: revision.is_none(),
    };
    caller.call::<Update>(params).await
}

/// What a file holds, or stdin.
fn json(path: &Path) -> Result<Value, Failure> {
    let text = file::read(path, FILE_BYTES)?;
    serde_json::from_slice(&text).map_err(|error| {
        let message = format!("{} is not JSON: {error}", file::name(path));
        Failure::new(Exit::USAGE, message)
    })
}

fn changed(context: &CommandContext, result: &ChangedResult) -> PrintResult {
    context.print(result, || {
        format!(
            "{} {}, revision {}\n",
            safe::one_line(&result.name),
            change_word(result.change),
            result.revision
        )
    })
}
