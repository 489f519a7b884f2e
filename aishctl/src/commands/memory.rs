//! `memory`, `remember`, `forget`: facts that you keep for all conversations. What models propose is answered with
//! `confirm`.

use std::path::{Path, PathBuf};

use aish_proto::confirm::{self, ConfirmSubject};
use aish_proto::conversation::ErasureResult;
use aish_proto::memory::{
    Add, AddParams, AddResult, List, MemoryFact as Fact, MemoryListResult, MemoryNameParams,
    MemoryPinParams, Pin, Remove,
};
use aish_proto::method::Empty;
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::command_output::{CommandOutput, OutputKind, PrintResult};
use crate::commands::command_context::CommandContext;
use crate::commands::conversation::rest;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::table;
use crate::{file, safe};

/// More than a thousand facts of a thousand characters take.
const FILE_BYTES: u64 = 16 << 20;

#[derive(Clone, Debug, Subcommand)]
pub enum MemoryCommand {
    /// What is kept
    #[command(alias = "list")]
    Ls,
    /// Keep a fact
    Add(RememberArgs),
    /// Forget facts
    #[command(alias = "forget")]
    Rm {
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Tell models this one before others
    Pin {
        id: String,
    },
    Unpin {
        id: String,
    },
    /// What is kept as JSON, a fact a line
    Export,
    /// Keep what a file of `memory export` has
    Import {
        /// `-` is stdin
        file: PathBuf,
    },
}

#[derive(Args, Clone, Debug)]
pub struct RememberArgs {
    #[arg(required = true)]
    pub text: Vec<String>,
    /// What sort of fact it is, in a word; `fact` when it is not said
    #[arg(long, value_name = "WORD")]
    pub kind: Option<String>,
    /// Tell models this one before others
    #[arg(long)]
    pub pin: bool,
}

/// A line of `memory export`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryLine {
    #[serde(default)]
    kind: Option<String>,
    text: String,
    #[serde(default)]
    pinned: bool,
    /// When it came; not read again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

pub async fn run(context: &CommandContext, command: Option<&MemoryCommand>) -> PrintResult {
    match command {
        None | Some(MemoryCommand::Ls) => list(context).await,
        Some(MemoryCommand::Add(remembered)) => remember(context, remembered).await,
        Some(MemoryCommand::Rm { ids }) => forget(context, ids).await,
        Some(MemoryCommand::Pin { id }) => pin(context, id, true).await,
        Some(MemoryCommand::Unpin { id }) => pin(context, id, false).await,
        Some(MemoryCommand::Export) => export(context).await,
        Some(MemoryCommand::Import { file }) => import(context, file).await,
    }
}

pub async fn remember(context: &CommandContext, remembered: &RememberArgs) -> PrintResult {
    let RememberArgs { text, kind, pin } = remembered;
    let params = AddParams {
        text: text.join(" "),
        kind: kind.clone(),
        pinned: *pin,
    };
    let result = context.call::<Add>(params).await?;
    context.print(&result, || {
        let AddResult { memory, changed } = &result;
        let known = if *changed { "" } else { " already" };
        format!("{} is kept{known}: {}\n", memory.id, line(memory))
    })
}

pub async fn forget(context: &CommandContext, ids: &[String]) -> PrintResult {
    let mut erased = ErasureResult::default();
    for id in ids {
        let params = MemoryNameParams { id: id.clone() };
        erased = context.call::<Remove>(params).await?;
    }
    let told = json!({"forgotten": ids, "remains": erased.remains});
    context.print(&told, || {
        let ids: Vec<String> = ids.iter().map(|it| safe::one_line(it)).collect();
        format!("{} forgotten{}\n", ids.join(", "), rest(&erased))
    })
}

async fn pin(context: &CommandContext, id: &str, pinned: bool) -> PrintResult {
    let id = id.to_owned();
    let fact = context.call::<Pin>(MemoryPinParams { id, pinned }).await?;
    context.print(&fact, || {
        let how = if pinned { "pinned" } else { "not pinned" };
        format!("{} is {how}: {}\n", fact.id, line(&fact))
    })
}

async fn list(context: &CommandContext) -> PrintResult {
    let result = context.call::<List>(Empty {}).await?;
    let open = context.call::<confirm::List>(confirm::ConfirmListParams::default());
    let open = open.await?.confirms;
    let proposed = open
        .iter()
        .filter(|it| matches!(*it.request.subject, ConfirmSubject::Memory(_)));
    let proposed = proposed.count();
    context.print(&result, || table(&result, proposed))
}

fn table(result: &MemoryListResult, proposed: usize) -> String {
    let row = |it: &Fact| {
        let state = if it.pinned { "pinned" } else { "" };
        vec![it.id.clone(), state.to_owned(), line(it)]
    };
    let rows: Vec<Vec<String>> = result.memories.iter().map(row).collect();
    let mut text = if rows.is_empty() {
        "nothing is kept: aishctl remember TEXT\n".to_owned()
    } else {
        table::columns(&["id", "", "fact"], &rows)
    };
    match proposed {
        0 => {}
        1 => text.push_str("1 fact is proposed: aishctl confirm ls\n"),
        2.. => text.push_str(&format!(
            "{proposed} facts are proposed: aishctl confirm ls\n"
        )),
    }
    text
}

fn line(fact: &Fact) -> String {
    format!("({}) {}", fact.kind, safe::one_line(&fact.text))
}

async fn export(context: &CommandContext) -> PrintResult {
    let result = context.call::<List>(Empty {}).await?;
    let mut text = String::new();
    for it in &result.memories {
        let line = MemoryLine {
            kind: Some(it.kind.clone()),
            text: it.text.clone(),
            pinned: it.pinned,
            at: Some(it.at.clone()),
        };
        let line = serde_json::to_string(&line).map_err(|error| {
            Failure::new(Exit::FAILED, format!("cannot print the result: {error}"))
        })?;
        text.push_str(&line);
        text.push('\n');
    }
    Ok(CommandOutput {
        kind: OutputKind::Json,
        ..CommandOutput::text(text)
    })
}

/// Every line is read before the first is kept; what is kept already is not kept twice, so an import that was cut short can
/// be made again.
async fn import(context: &CommandContext, path: &Path) -> PrintResult {
    let bytes = file::read(path, FILE_BYTES)?;
    let wrong = |number: usize, why: &str| {
        let message = format!(
            "{}, line {number}: {}; nothing was kept",
            file::name(path),
            safe::one_line(why)
        );
        Failure::new(Exit::USAGE, message)
    };
    let mut lines = vec![];
    for (number, line) in (1..).zip(bytes.split(|it| *it == b'\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let line: MemoryLine =
            serde_json::from_slice(line).map_err(|error| wrong(number, &error.to_string()))?;
        lines.push(line);
    }
    let (mut new, all) = (0, lines.len());
    for MemoryLine {
        kind, text, pinned, ..
    } in lines
    {
        let params = AddParams { text, kind, pinned };
        let added = context.call::<Add>(params).await?;
        new += usize::from(added.changed);
    }
    context.print(&json!({"facts": all, "new": new}), || {
        format!("{all} facts, {new} of them new\n")
    })
}
