//! `undo` and `redo`: what was kept is taken back, turn by turn, or done again.

use aish_proto::changes::{ChangesParams, KeptChanges, List, Redo, Undo, UndoAct};
use aish_proto::id::ChangesId;
use aish_proto::method::Empty;
use serde::Serialize;

use super::changes::here;
use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
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
    /// Paths of all of them together.
    count: u64,
    #[serde(skip)]
    paths: Vec<String>,
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
    let chosen = match id {
        Some(id) => candidates
            .into_iter()
            .filter(|it| it.changes == id)
            .collect(),
        None => of_last_turn(candidates),
    };
    let chosen = match (chosen.is_empty(), id) {
        (false, _) => chosen,
        // The daemon knows best why not.
        (true, Some(id)) => vec![unknown(id)],
        (true, None) => return Err(nothing(act)),
    };
    let mut done = Reversed::default();
    for one in chosen {
        let reversed = reverse(context, act, one.changes).await;
        let (changes, count) = reversed.map_err(|failure| after(&done, act, failure))?;
        done.changes.push(changes);
        done.count += count;
        done.paths.extend(one.paths);
    }
    context.print(&done, || told(act, &done))
}

async fn reverse(
    context: &CommandContext,
    act: UndoAct,
    changes: ChangesId,
) -> Result<(ChangesId, u64), Failure> {
    let params = ChangesParams { changes };
    Ok(match act {
        UndoAct::Undo => {
            let undone = context.caller.call_within::<Undo>(params, None).await?;
            (undone.changes, undone.count)
        }
        UndoAct::Redo => {
            let redone = context.caller.call_within::<Redo>(params, None).await?;
            (redone.changes, redone.count)
        }
    })
}

/// The first one, and what belongs to the same turn.
fn of_last_turn(candidates: Vec<KeptChanges>) -> Vec<KeptChanges> {
    let Some(first) = candidates.first() else {
        return vec![];
    };
    let Some(turn) = first.turn else {
        return candidates.into_iter().take(1).collect();
    };
    let same = candidates.into_iter();
    same.filter(|it| it.turn == Some(turn)).collect()
}

fn unknown(changes: ChangesId) -> KeptChanges {
    KeptChanges {
        changes,
        kept_at: String::new(),
        conversation: None,
        turn: None,
        number: None,
        paths: vec![],
    }
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
    let mut paths: Vec<String> = done.paths.iter().map(|it| safe::visible(it)).collect();
    paths.dedup();
    let more = paths.len().saturating_sub(FEW);
    paths.truncate(FEW);
    let mut listed = paths.join(", ");
    if more > 0 {
        listed.push_str(&format!(" and {more} more"));
    }
    let count = match done.count {
        1 => "1 path is".to_owned(),
        count => format!("{count} paths are"),
    };
    let (how, other) = match act {
        UndoAct::Undo => ("as before", "redo"),
        UndoAct::Redo => ("changed again", "undo"),
    };
    let listed = if listed.is_empty() {
        listed
    } else {
        format!(": {listed}")
    };
    format!("{count} {how}{listed}; aishctl {other} reverses it\n")
}
