//! `undo` and `redo`: what was kept is taken back, turn by turn, or done again.

use std::collections::BTreeSet;

use aish_proto::changes::{ChangesParams, KeptChanges, List, Redo, Undo, UndoAct, UndoResult};
use aish_proto::id::{ChangesId, ConversationId, TurnId};
use aish_proto::method::Empty;
use serde::Serialize;

use super::changes::here;
use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::commands::last_said;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::safe;

/// So many files are named.
const FEW: usize = 5;

/// What was done, in the order that it was done in.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Reversed {
    changes: Vec<ChangesId>,
    /// Paths of each of them, together.
    count: u64,
    /// What is too large to be done again.
    for_good: u64,
    /// Those that are named, each once.
    #[serde(skip)]
    paths: BTreeSet<String>,
    /// How many were named, also more than once.
    #[serde(skip)]
    named: u64,
}

/// The one that is named; else all of the last turn that has any, of the conversation that was named or of all.
///
/// # Errors
/// There are none; or one could not be taken back, and what was done before it stays done.
pub async fn run(context: &CommandContext, act: UndoAct, id: Option<ChangesId>) -> PrintResult {
    let mut all = context.call::<List>(Empty {}).await?;
    if let (None, Some(id)) = (id, here(context).await?) {
        all.kept.retain(|it| it.conversation == Some(id));
        all.undone.retain(|it| it.conversation == Some(id));
    }
    let candidates = match act {
        UndoAct::Undo => all.kept,
        UndoAct::Redo => all.undone,
    };
    let place = candidates
        .first()
        .and_then(|it| it.conversation.zip(it.turn));
    let chosen = match id {
        // Where it is not among them, the daemon knows best why not.
        Some(id) => {
            let found = candidates.into_iter().find(|it| it.changes == id);
            vec![(id, found.map(|it| it.paths).unwrap_or_default())]
        }
        None => of_last_turn(candidates, act),
    };
    if chosen.is_empty() {
        return Err(nothing(act));
    }
    if let (UndoAct::Undo, None, Some(place)) = (act, id, place) {
        is_of_the_last(context, place, &chosen).await?;
    }
    let mut done = Reversed::default();
    for (changes, paths) in chosen {
        let reversed = reverse(context, act, changes).await;
        let reversed = reversed.map_err(|failure| after(&done, act, failure))?;
        done.changes.push(reversed.changes);
        done.count += reversed.count;
        done.for_good += u64::from(!reversed.reversible);
        done.named += paths.len() as u64;
        done.paths.extend(paths);
    }
    context.print(&done, || told(act, &done))
}

async fn reverse(
    context: &CommandContext,
    act: UndoAct,
    changes: ChangesId,
) -> Result<UndoResult, Failure> {
    let params = ChangesParams { changes };
    Ok(match act {
        UndoAct::Undo => context.caller.call_within::<Undo>(params, None).await?,
        UndoAct::Redo => {
            let redone = context.caller.call_within::<Redo>(params, None).await?;
            UndoResult {
                changes: redone.changes,
                count: redone.count,
                reversible: true,
            }
        }
    })
}

/// The first one and what belongs to the same turn, with their paths: undone from the newest on, done again in the order
/// that they were kept in.
fn of_last_turn(candidates: Vec<KeptChanges>, act: UndoAct) -> Vec<(ChangesId, Vec<String>)> {
    let first = candidates.first().map(|it| (it.changes, it.turn));
    let is_of_it = |it: &KeptChanges| {
        first.is_some_and(|(id, turn)| it.changes == id || (turn.is_some() && it.turn == turn))
    };
    let mut chosen: Vec<KeptChanges> = candidates.into_iter().filter(is_of_it).collect();
    if act == UndoAct::Redo {
        chosen.sort_by(|one, other| one.kept_at.cmp(&other.kept_at));
    }
    chosen
        .into_iter()
        .map(|it| (it.changes, it.paths))
        .collect()
}

/// Whoever takes the last turn back means what it did. What a command did there in the files themselves is held by nobody, and
/// an earlier turn was not meant.
async fn is_of_the_last(
    context: &CommandContext,
    (conversation, turn): (ConversationId, TurnId),
    chosen: &[(ChangesId, Vec<String>)],
) -> Result<(), Failure> {
    let since = last_said::command_since(&context.caller, conversation, turn).await?;
    let Some(command) = since else { return Ok(()) };
    let ids: Vec<String> = chosen.iter().map(|it| it.0.to_string()).collect();
    let command = safe::one_line(&command);
    let message = format!(
        "the last turn ran `{command}` in the files themselves, which nothing takes back (one that is tried first, with t, can be)"
    );
    Err(Failure::new(Exit::USAGE, message).hint(format!(
        "what was kept in an earlier turn: aishctl undo {}",
        ids.join(", aishctl undo ")
    )))
}

fn nothing(act: UndoAct) -> Failure {
    let message = match act {
        UndoAct::Undo => "nothing was kept that could be undone",
        UndoAct::Redo => "nothing was undone that could be done again",
    };
    Failure::new(Exit::UNKNOWN, message).hint("aishctl changes")
}

/// One of several came to nothing.
fn after(done: &Reversed, act: UndoAct, failure: Failure) -> Failure {
    if done.changes.is_empty() {
        return failure;
    }
    let message = format!(
        "{}; but then: {}",
        told(act, done).trim_end(),
        failure.message
    );
    Failure { message, ..failure }
}

fn told(act: UndoAct, done: &Reversed) -> String {
    // Where all are named, one that several turns changed counts once.
    let count = if done.named == done.count {
        done.paths.len() as u64
    } else {
        done.count
    };
    let few = done.paths.iter().take(FEW);
    let few: Vec<String> = few.map(|it| safe::visible(it)).collect();
    let mut listed = few.join(", ");
    let more = count.saturating_sub(few.len() as u64);
    if more > 0 && !few.is_empty() {
        listed.push_str(&format!(" and {more} more"));
    }
    let listed = if listed.is_empty() {
        listed
    } else {
        format!(": {listed}")
    };
    let count = match count {
        1 => "1 path is".to_owned(),
        count => format!("{count} paths are"),
    };
    let (how, other) = match act {
        UndoAct::Undo if done.for_good > 0 => {
            ("as before", "it was too large to be held for a redo")
        }
        UndoAct::Undo => ("as before", "aishctl redo reverses it"),
        UndoAct::Redo => ("changed again", "aishctl undo reverses it"),
    };
    format!("{count} {how}{listed}; {other}\n")
}
