//! `changes`: what commands and runs changed in layers over the files, looked at, kept or dropped from any terminal; and
//! what was kept.

use std::path::Path;
use std::time::SystemTime;

use aish_proto::changes::{
    ChangesDiffResult, ChangesDropParams, ChangesKeepParams, ChangesListResult, ChangesParams,
    ChangesShowParams, ChangesShowResult, Diff, Drop, Keep, KeptChanges, List, OpenChanges,
    OpenChangesStage, PartAct, PartOfChanges, Show,
};
use aish_proto::id::{ChangesId, ConversationId};
use aish_proto::method::Empty;
use clap::Subcommand;

use crate::client::connect::Caller;
use crate::client::conversation_choice;
use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::commands::confirm::keep::{KeepSelection, ask_to_keep};
use crate::commands::confirm::{self, ConfirmCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::ago::{self, ago};
use crate::render::question::{hunks, tried};
use crate::render::{difference, table};
use crate::safe;

/// So much of the name of what was looked at has to be said at least.
const LEAST_SEEN: usize = 8;

#[derive(Clone, Debug, Subcommand)]
pub enum ChangesCommand {
    /// What waits to be kept or dropped, and what was kept and can be undone, the newest first
    #[command(alias = "list")]
    Ls,
    /// Each file of changes that wait: of a run, also while it goes on, or of a command that was tried
    Show {
        /// Their id, the end of it, or the number of the question about them (c7)
        id: String,
        /// Only these files and directories, by their absolute paths or the ends of them
        files: Vec<String>,
    },
    /// Their difference, line by line
    Diff {
        id: String,
        /// Only these files and directories
        files: Vec<String>,
        /// With the number of each hunk, and the name of the difference, by which some of them are kept
        #[arg(long, conflicts_with = "files")]
        hunks: bool,
        /// Straight to the terminal
        #[arg(long)]
        no_pager: bool,
    },
    /// Make them real. A run that goes on works on over them; where a question asks about them, this is the answer
    Keep {
        id: String,
        /// Keep only this file or directory, by its absolute path or the end of it; may be given more than once
        #[arg(long, value_name = "PATH")]
        only: Vec<String>,
        /// What was looked at, as `changes show` names it; needed for a run that goes on, where nobody can be asked
        #[arg(long, value_name = "PREFIX")]
        seen: Option<String>,
    },
    /// Drop them. A run that goes on works on without them; where a question asks about them, this is a no
    Drop {
        id: String,
        /// Drop only this file or directory of a run that goes on; may be given more than once
        #[arg(long, value_name = "PATH")]
        only: Vec<String>,
    },
}

pub async fn run(context: &CommandContext, command: Option<&ChangesCommand>) -> PrintResult {
    match command {
        None | Some(ChangesCommand::Ls) => list(context).await,
        Some(ChangesCommand::Show { id, files }) => {
            let changes = find(context, id).await?.changes;
            let shown = show(context, changes, files).await?;
            context.print(&shown, || rows(&shown))
        }
        Some(ChangesCommand::Diff {
            id, files, hunks, ..
        }) if files.is_empty() => {
            let changes = find(context, id).await?.changes;
            let result = context.call::<Diff>(ChangesParams { changes }).await?;
            let printed = context.print(&result, || match hunks {
                true => numbered(&result),
                false => difference::safe(&result.diff),
            })?;
            Ok(printed.difference())
        }
        Some(ChangesCommand::Diff { id, files, .. }) => {
            let changes = find(context, id).await?.changes;
            let params = ChangesShowParams {
                changes,
                only: named(context, changes, files).await?,
                diff: true,
            };
            let result = context.call::<Show>(params).await?;
            let diff = result.diff.clone().unwrap_or_default();
            let printed = context.print(&result, || difference::safe(&diff))?;
            Ok(printed.difference())
        }
        Some(ChangesCommand::Keep { id, only, seen }) => {
            keep(context, id, only, seen.as_deref()).await
        }
        Some(ChangesCommand::Drop { id, only }) => drop_them(context, id, only).await,
    }
}

/// Each hunk below its number, and how some of them are kept.
fn numbered(result: &ChangesDiffResult) -> String {
    if result.hunks.is_empty() {
        let more =
            "there are no hunks to choose from; files are kept by confirm keep --only PATH\n";
        return difference::safe(&result.diff) + more;
    }
    let shown = hunks::numbered(result, &[]).unwrap_or_default();
    let name: String = result.digest.chars().take(2 * LEAST_SEEN).collect();
    format!("{shown}difference {name}: confirm keep ID --hunks N,… --difference {name}\n")
}

async fn list(context: &CommandContext) -> PrintResult {
    let mut result = context.call::<List>(Empty {}).await?;
    if let Some(id) = here(context).await? {
        result.open.retain(|it| it.conversation == id);
        result.kept.retain(|it| it.conversation == Some(id));
        result.undone.retain(|it| it.conversation == Some(id));
    }
    context.print(&result, || listed(&result, context.around.stdout_columns))
}

/// The conversation that was named, if one was.
pub async fn here(context: &CommandContext) -> Result<Option<ConversationId>, Failure> {
    Ok(match context.name(None) {
        Some(name) => {
            let found = conversation_choice::by_name(&context.caller, name).await?;
            Some(found.id)
        }
        None => None,
    })
}

fn listed(result: &ChangesListResult, width: Option<usize>) -> String {
    let now = ago::now();
    let of = |all: &[KeptChanges]| all.iter().map(|it| row(it, now)).collect();
    let tables: [(_, Vec<Vec<String>>); 3] = [
        (
            ["id", "waits", "files", "of"],
            result.open.iter().map(open_row).collect(),
        ),
        (["id", "kept", "question", "files"], of(&result.kept)),
        (
            ["id", "undone, was kept", "question", "files"],
            of(&result.undone),
        ),
    ];
    let tables = tables.iter().filter(|(_, rows)| !rows.is_empty());
    let tables: Vec<String> = tables
        .map(|(head, rows)| table::fitted(head, rows, width))
        .collect();
    if tables.is_empty() {
        "nothing waits, and nothing was kept that could be undone\n".to_owned()
    } else {
        tables.join("\n")
    }
}

fn open_row(it: &OpenChanges) -> Vec<String> {
    let waits = match (it.stage, it.number) {
        (OpenChangesStage::Run, _) => "the run goes on".to_owned(),
        (OpenChangesStage::RunAsked, Some(number)) => format!("c{number}, the run is over"),
        (OpenChangesStage::Tried, Some(number)) => format!("c{number}, tried"),
        (OpenChangesStage::RunAsked | OpenChangesStage::Tried, None) => "is asked".to_owned(),
    };
    let size = match it.size {
        None => "a command writes there".to_owned(),
        Some(size) => format!("{}{}", size.count, lines(size.added, size.removed)),
    };
    vec![
        it.changes.to_string(),
        waits,
        size,
        table::cut(&safe::visible(&it.text), 60),
    ]
}

/// ` +12 −4`
fn lines(added: u64, removed: u64) -> String {
    let mut text = String::new();
    if added > 0 {
        text.push_str(&format!(" +{added}"));
    }
    if removed > 0 {
        text.push_str(&format!(" −{removed}"));
    }
    text
}

async fn show(
    context: &CommandContext,
    changes: ChangesId,
    files: &[String],
) -> Result<ChangesShowResult, Failure> {
    let params = ChangesShowParams {
        changes,
        only: named(context, changes, files).await?,
        diff: false,
    };
    Ok(context.call::<Show>(params).await?)
}

/// The paths that somebody means by their ends.
async fn named(
    context: &CommandContext,
    changes: ChangesId,
    files: &[String],
) -> Result<Vec<String>, Failure> {
    if files.is_empty() {
        return Ok(vec![]);
    }
    let params = ChangesShowParams {
        changes,
        only: vec![],
        diff: false,
    };
    let all = context.call::<Show>(params).await?.changed;
    let named = files.iter().map(|it| tried::named(&all, it));
    Ok(named.collect())
}

fn rows(shown: &ChangesShowResult) -> String {
    let what = match shown.open.stage {
        OpenChangesStage::Run => "the run goes on",
        OpenChangesStage::RunAsked => "the run is over",
        OpenChangesStage::Tried => "tried",
    };
    let mut text = format!(
        "{what}: {}\n{}\n",
        safe::visible(&shown.open.text),
        tried::count(&shown.changed)
    );
    for row in tried::files(&shown.changed) {
        text.push_str(&row);
        text.push('\n');
    }
    let id = shown.open.changes;
    let seen: String = shown.seen.chars().take(2 * LEAST_SEEN).collect();
    text.push_str(&match shown.open.number {
        None => format!("seen {seen}: changes keep {id} --seen {seen}, or changes drop {id}\n"),
        Some(number) => format!("c{number} asks: changes keep {id}, or changes drop {id}\n"),
    });
    text
}

async fn keep(
    context: &CommandContext,
    id: &str,
    only: &[String],
    seen: Option<&str>,
) -> PrintResult {
    let open = find(context, id).await?;
    if let Some(confirm) = open.confirm {
        // Whoever says the whole id has it from what was looked at.
        let is_whole = id.eq_ignore_ascii_case(&open.changes.to_string());
        let named = is_whole.then_some(open.changes);
        let part = KeepSelection {
            only: only.to_vec(),
            ..KeepSelection::default()
        };
        return confirm::keep::keep(context, &confirm.to_string(), named, &part).await;
    }
    let shown = show(context, open.changes, only).await?;
    match seen {
        Some(prefix) if prefix.len() >= LEAST_SEEN && shown.seen.starts_with(prefix) => {}
        Some(_) => {
            return Err(Failure::new(
                Exit::CONFLICT,
                format!("that is not what is there now (at least {LEAST_SEEN} digits of it)"),
            )
            .hint(format!("aishctl changes show {}", open.changes)));
        }
        None if context.may_prompt => {
            ask_to_keep(rows_of(&shown), "keep it, while the run goes on?").await?;
        }
        None => {
            return Err(
                Failure::new(Exit::USAGE, "nobody here can see what would be kept").hint(format!(
                    "changes show {} names what is there, and --seen says it",
                    open.changes
                )),
            );
        }
    }
    let params = ChangesKeepParams {
        changes: open.changes,
        only: named(context, open.changes, only).await?,
        seen: shown.seen,
    };
    // It waits for a command that writes there.
    let result = context.caller.call_within::<Keep>(params, None).await?;
    context.print(&result, || done(&result.part))
}

/// Without the last line, which says how to go on.
fn rows_of(shown: &ChangesShowResult) -> String {
    let rows = rows(shown);
    let mut rows: Vec<&str> = rows.lines().collect();
    rows.pop();
    rows.join("\n")
}

async fn drop_them(context: &CommandContext, id: &str, only: &[String]) -> PrintResult {
    let open = find(context, id).await?;
    let Some(confirm) = open.confirm else {
        let params = ChangesDropParams {
            changes: open.changes,
            only: named(context, open.changes, only).await?,
        };
        let result = context.caller.call_within::<Drop>(params, None).await?;
        return context.print(&result, || done(&result.part));
    };
    if !only.is_empty() {
        return Err(
            Failure::new(Exit::USAGE, "a no drops all of it; a part can be kept")
                .hint(format!("aishctl changes keep {} --only PATH", open.changes)),
        );
    }
    let deny = ConfirmCommand::Deny {
        id: confirm.to_string(),
        reason: vec![],
        abort: false,
    };
    confirm::run(context, Some(&deny)).await
}

fn done(part: &PartOfChanges) -> String {
    let count = match part.count {
        1 => "1 path".to_owned(),
        count => format!("{count} paths"),
    };
    let remark = part.remark.as_deref().map(safe::visible);
    let remark = remark.map_or(String::new(), |it| format!(" ({it})"));
    match part.act {
        PartAct::Keep => format!(
            "kept: {count}, and the run goes on over them{remark}; aishctl undo {} takes them back\n",
            part.part
        ),
        PartAct::Drop => format!("dropped: {count}, and the run goes on without them{remark}\n"),
    }
}

/// Changes by their id, the end of it, or the number of the question about them.
async fn find(context: &CommandContext, name: &str) -> Result<OpenChanges, Failure> {
    let here = here(context).await?;
    let open = context.call::<List>(Empty {}).await?.open;
    let upper = name.to_uppercase();
    let is_called = |it: &OpenChanges| {
        let id = it.changes.to_string();
        let is_here = here.is_none_or(|here| here == it.conversation);
        let by_number = it.number.is_some_and(|number| format!("c{number}") == name);
        id == upper || (is_here && (by_number || (name.len() >= 4 && id.ends_with(&upper))))
    };
    let mut found: Vec<OpenChanges> = open.into_iter().filter(is_called).collect();
    match (found.pop(), found.len()) {
        (Some(one), 0) => Ok(one),
        (Some(_), others) => Err(Failure::new(
            Exit::USAGE,
            format!("{} changes are called {}", others + 1, safe::one_line(name)),
        )
        .hint("say which by their id: aishctl changes")),
        (None, _) => {
            let message = format!("no changes called {} wait", safe::one_line(name));
            Err(Failure::new(Exit::UNKNOWN, message).hint("aishctl changes"))
        }
    }
}

/// What waits in this conversation, in one line each.
pub async fn waiting(caller: &Caller, conversation: ConversationId) -> Result<String, Failure> {
    let open = caller.call::<List>(Empty {}).await?.open;
    let own = open
        .into_iter()
        .filter(|it| it.conversation == conversation && it.size.is_none_or(|it| it.count > 0));
    Ok(own
        .map(|it| {
            let size = it.size.map_or_else(String::new, |it| {
                let files = if it.count == 1 { "file" } else { "files" };
                format!(": {} {files}{}", it.count, lines(it.added, it.removed))
            });
            format!(
                "what the run changed waits{size}; aishctl changes show {}\n",
                it.changes
            )
        })
        .collect())
}

fn row(it: &KeptChanges, now: SystemTime) -> Vec<String> {
    let number = it.number.map_or_else(String::new, |it| format!("c{it}"));
    vec![
        it.changes.to_string(),
        ago(&it.kept_at, now),
        number,
        table::cut(&files(&it.paths), 60),
    ]
}

/// `a, sub/b in /w`: where there is no room, it is the directory that is cut.
fn files(paths: &[String]) -> String {
    let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
    let mut directory = paths.first().and_then(|it| it.parent());
    while let Some(common) = directory
        && !paths.iter().all(|it| it.starts_with(common))
    {
        directory = common.parent();
    }
    let directory = directory.unwrap_or(Path::new(""));
    let names = paths
        .iter()
        .map(|it| it.strip_prefix(directory).unwrap_or(it));
    let names: Vec<String> = names
        .map(|it| safe::visible(&it.to_string_lossy()))
        .collect();
    format!(
        "{} in {}",
        names.join(", "),
        safe::visible(&directory.to_string_lossy())
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn files_are_named_before_where_they_are() {
        for (paths, expected) in [
            (vec!["/w/p/notes.md"], "notes.md in /w/p"),
            (vec!["/w/p/a", "/w/p/sub/b"], "a, sub/b in /w/p"),
            (vec!["/w/p/a", "/w/q\u{1b}"], "p/a, q\\u{1b} in /w"),
            (vec!["/a", "/w/q"], "a, w/q in /"),
            (vec!["/w/p", "/w/p/a"], "p, p/a in /w"),
        ] {
            let paths: Vec<String> = paths.into_iter().map(str::to_owned).collect();
            assert_eq!(expected, super::files(&paths));
        }
    }
}
