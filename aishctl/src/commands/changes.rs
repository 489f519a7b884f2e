//! `changes` and `undo`: what a command that was tried would change, and what was kept of one.

use aish_proto::changes::{ChangesParams, Diff, KeptChanges, List, Undo};
use aish_proto::id::ChangesId;
use aish_proto::method::Empty;
use clap::Subcommand;

use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{difference, table};
use crate::safe;

#[derive(Clone, Debug, Subcommand)]
pub enum ChangesCommand {
    /// What was kept and can be undone, the newest first
    #[command(alias = "list")]
    Ls,
    /// What a trial would change, while its question waits
    Diff {
        id: ChangesId,
        /// Straight to the terminal
        #[arg(long)]
        no_pager: bool,
    },
}

pub async fn run(context: &CommandContext, command: Option<&ChangesCommand>) -> PrintResult {
    match command {
        None | Some(ChangesCommand::Ls) => {
            let result = context.call::<List>(Empty {}).await?;
            context.print(&result, || {
                if result.kept.is_empty() {
                    return "nothing was kept that could be undone\n".to_owned();
                }
                let rows: Vec<Vec<String>> = result.kept.iter().map(row).collect();
                table::columns(&["id", "kept", "question", "files"], &rows)
            })
        }
        Some(ChangesCommand::Diff { id, .. }) => {
            let result = context.call::<Diff>(ChangesParams { changes: *id }).await?;
            let printed = context.print(&result, || difference::safe(&result.diff))?;
            Ok(printed.difference())
        }
    }
}

/// `undo`: the newest, or the one that is named.
pub async fn undo(context: &CommandContext, id: Option<ChangesId>) -> PrintResult {
    let changes = match id {
        Some(id) => id,
        None => {
            let kept = context.call::<List>(Empty {}).await?.kept;
            let newest = kept.first().ok_or_else(|| {
                Failure::new(Exit::UNKNOWN, "nothing was kept that could be undone")
            })?;
            newest.changes
        }
    };
    let params = ChangesParams { changes };
    let result = context.caller.call_within::<Undo>(params, None).await?;
    context.print(&result, || {
        format!("undone: the files are as they were before {changes} was kept\n")
    })
}

fn row(it: &KeptChanges) -> Vec<String> {
    let number = it.number.map_or_else(String::new, |it| format!("c{it}"));
    let paths: Vec<String> = it.paths.iter().map(|it| safe::visible(it)).collect();
    vec![
        it.changes.to_string(),
        it.kept_at.clone(),
        number,
        table::cut(&paths.join(", "), 60),
    ]
}
