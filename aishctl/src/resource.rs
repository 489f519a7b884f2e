//! `resource`: the shared context of a conversation, JSON under names for its tools and its people.

use std::path::{Path, PathBuf};

use aish_proto::event::ResourceChanged;
use aish_proto::id::ConversationId;
use aish_proto::resource::{
    self as wire, ChangedResult, Create, CreateParams, Delete, DeleteParams, Get, GetParams, List,
    ListParams, ResourceAuthor, ResourceChangeKind, Update, UpdateParams,
};
use clap::Subcommand;
use serde_json::Value;

use crate::ask;
use crate::connect::{CallError, Caller};
use crate::desk::{Desk, Printed};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{consent, file, resolve, safe, table};

const PAGE: u32 = 500;
/// A file with blanks in it may be so long; what is left without them is the daemon's to judge.
const FILE_BYTES: u64 = 8 << 20;

#[derive(Clone, Debug, Subcommand)]
pub enum Resource {
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

pub async fn run(desk: &Desk, command: Option<&Resource>) -> Result<Printed, Failure> {
    let meant = resolve::meant(&desk.caller, &desk.around, desk.name(None)).await?;
    match command {
        None | Some(Resource::Ls) => list(desk, meant.id).await,
        Some(Resource::Get { name }) => get(desk, meant.id, name).await,
        Some(Resource::Put {
            name,
            file,
            revision,
        }) => {
            let data = json(file)?;
            let put = put(&desk.caller, meant.id, name, data, *revision).await;
            changed(desk, &put?)
        }
        Some(Resource::Rm { name, revision }) => {
            let params = DeleteParams {
                conversation: meant.id,
                name: name.clone(),
                expected_revision: *revision,
            };
            changed(desk, &desk.caller.call::<Delete>(params).await?)
        }
    }
}

async fn list(desk: &Desk, conversation: ConversationId) -> Result<Printed, Failure> {
    let mut all: Vec<wire::Resource> = vec![];
    let mut cursor = None;
    loop {
        let params = ListParams {
            conversation,
            cursor,
            limit: Some(PAGE),
        };
        let page = desk.caller.call::<List>(params).await?;
        all.extend(page.resources);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    desk.print(&all, || {
        let row = |it: &wire::Resource| {
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

async fn get(desk: &Desk, conversation: ConversationId, name: &str) -> Result<Printed, Failure> {
    let params = GetParams {
        conversation,
        name: name.to_owned(),
    };
    let result = desk.caller.call::<Get>(params).await?;
    if desk.global.json || desk.global.jsonl {
        return desk.print(&result, String::new);
    }
    let shown = serde_json::to_string_pretty(&result.data);
    let shown = shown.map_err(|error| Failure::new(Exit::FAILED, error.to_string()))?;
    Ok(Printed {
        // As JSON it is shown with its escapes, and means the same.
        json: true,
        ..Printed::text(format!("{shown}\n"))
    })
}

async fn put(
    caller: &Caller,
    conversation: ConversationId,
    name: &str,
    data: Value,
    revision: Option<u64>,
) -> Result<ChangedResult, CallError> {
    let text = data.to_string();
    let (data, blob) = if text.len() < caller.line_bytes() / 2 {
        (Some(data), None)
    } else {
        (None, Some(ask::put(caller, &text).await?))
    };
    let name = name.to_owned();
    if revision == Some(0) {
        let params = CreateParams {
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

fn changed(desk: &Desk, result: &ChangedResult) -> Result<Printed, Failure> {
    desk.print(result, || {
        format!(
            "{} {}, revision {}\n",
            safe::one_line(&result.name),
            word(result.change),
            result.revision
        )
    })
}

/// A change as a line of the window.
pub fn line(changed: &ResourceChanged) -> String {
    format!(
        "resource {} {} by {} (revision {})",
        changed.name,
        word(changed.change),
        author(&changed.by),
        changed.revision
    )
}

fn word(change: ResourceChangeKind) -> &'static str {
    match change {
        ResourceChangeKind::Created => "created",
        ResourceChangeKind::Updated => "updated",
        ResourceChangeKind::Deleted => "deleted",
    }
}

fn author(by: &ResourceAuthor) -> String {
    match (&by.provider, &by.person) {
        (Some(provider), _) => provider.clone(),
        (None, Some(person)) => consent::who(person),
        (None, None) => "somebody".to_owned(),
    }
}
