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
use crate::render::undone::{self, UndoneSum};
use crate::safe;

/// Which changes somebody means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedChanges {
    /// Those of the last turn, which has nothing behind it that stays.
    Last,
    /// Those of the last turn that has any, whatever ran since.
    Earlier,
    Named(ChangesId),
}

impl WantedChanges {
    pub fn new(named: Option<ChangesId>, earlier: bool) -> Self {
        match (named, earlier) {
            (Some(id), _) => Self::Named(id),
            (None, true) => Self::Earlier,
            (None, false) => Self::Last,
        }
    }
}

/// What was done, in the order that it was done in.
#[derive(Debug)]
pub(crate) struct Reversed {
    pub(crate) changes: Vec<ChangesId>,
    pub(crate) sum: UndoneSum,
}

/// The same for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReversedReport<'a> {
    changes: &'a [ChangesId],
    /// Paths of each of them, together.
    count: u64,
    /// What is too large to be done again.
    for_good: u64,
}

/// One of several came to nothing: what was done before it stays done.
#[derive(Debug)]
pub(crate) struct HalfReversed {
    pub(crate) done: Reversed,
    /// Why the next one was not done, and which paths are as they were.
    pub(crate) failure: Failure,
}

/// The one that is named; else all of the last turn that has any, of the conversation that was named or of all.
///
/// # Errors
/// There are none; or one could not be taken back, and what was done before it stays done.
pub async fn run(context: &CommandContext, act: UndoAct, wanted: WantedChanges) -> PrintResult {
    let done = reverse_all(context, act, wanted).await;
    let done = done.map_err(HalfReversed::told)?;
    let report = ReversedReport {
        changes: &done.changes,
        count: done.sum.all_paths(),
        for_good: done.sum.for_good,
    };
    context.print(&report, || format!("{}\n", done.sum.sentence()))
}

/// The same, for who tells of it by himself.
pub(crate) async fn reverse_all(
    context: &CommandContext,
    act: UndoAct,
    wanted: WantedChanges,
) -> Result<Reversed, HalfReversed> {
    let mut done = Reversed {
        changes: vec![],
        sum: UndoneSum::new(act),
    };
    let chosen = match chosen(context, act, wanted).await {
        Ok(chosen) => chosen,
        Err(failure) => return Err(HalfReversed { done, failure }),
    };
    for (at, (changes, paths)) in chosen.iter().enumerate() {
        match reverse(context, act, *changes).await {
            Ok(reversed) => {
                done.changes.push(reversed.changes);
                done.sum.add(reversed.count, reversed.reversible, paths);
            }
            Err(failure) => {
                let left = chosen.get(at..).unwrap_or_default();
                let failure = if chosen.len() > 1 {
                    with_what_is_left(act, left, failure)
                } else {
                    failure
                };
                return Err(HalfReversed { done, failure });
            }
        }
    }
    Ok(done)
}

/// What is to be reversed, with its paths as far as they are known.
async fn chosen(
    context: &CommandContext,
    act: UndoAct,
    wanted: WantedChanges,
) -> Result<Vec<(ChangesId, Vec<String>)>, Failure> {
    let mut all = context.call::<List>(Empty {}).await?;
    let is_named = matches!(wanted, WantedChanges::Named(_));
    if let (false, Some(id)) = (is_named, here(context).await?) {
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
    let chosen = match wanted {
        // Where it is not among them, the daemon knows best why not.
        WantedChanges::Named(id) => {
            let found = candidates.into_iter().find(|it| it.changes == id);
            vec![(id, found.map(|it| it.paths).unwrap_or_default())]
        }
        WantedChanges::Last | WantedChanges::Earlier => of_last_turn(candidates, act),
    };
    if chosen.is_empty() {
        return Err(nothing(act));
    }
    if let (UndoAct::Undo, WantedChanges::Last, Some(place)) = (act, wanted, place) {
        is_of_the_last(context, place).await?;
    }
    Ok(chosen)
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
) -> Result<(), Failure> {
    let since = last_said::command_since(&context.caller, conversation, turn).await?;
    let Some(command) = since else { return Ok(()) };
    let command = safe::one_line(&command);
    let message = format!(
        "the last turn ran `{command}` in the files themselves, which nothing takes back (one that is tried first, with t, can be)"
    );
    Err(Failure::new(Exit::USAGE, message)
        .hint("what was kept in an earlier turn: aishctl undo --earlier"))
}

fn nothing(act: UndoAct) -> Failure {
    let message = match act {
        UndoAct::Undo => {
            "nothing was kept that could be undone (a command that is tried first, with t, can be; one that ran in the files themselves cannot)"
        }
        UndoAct::Redo => "nothing was undone that could be done again",
    };
    Failure::new(Exit::UNKNOWN, message).hint("aishctl changes")
}

impl HalfReversed {
    /// For who reads one message.
    fn told(self) -> Failure {
        let Self { done, failure } = self;
        if done.changes.is_empty() {
            return failure;
        }
        let message = format!("{}; but then: {}", done.sum.sentence(), failure.message);
        Failure { message, ..failure }
    }
}

/// Names what stays as it is, beside why.
fn with_what_is_left(act: UndoAct, left: &[(ChangesId, Vec<String>)], failure: Failure) -> Failure {
    let paths: BTreeSet<&String> = left.iter().flat_map(|it| &it.1).collect();
    let count = paths.len() as u64;
    let listed = undone::listed(paths.into_iter(), count, None);
    let how = match act {
        UndoAct::Undo => "not taken back",
        UndoAct::Redo => "not done again",
    };
    let message = format!("{} ({how}{listed})", failure.message);
    Failure { message, ..failure }
}
