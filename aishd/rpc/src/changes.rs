//! `changes/*`: what waits to be kept or dropped, doing that while a run goes on, and taking back what was kept.

use std::cmp::Reverse;
use std::time::Duration;

use aish_proto::changes::{
    ChangesDiffResult, ChangesDropParams, ChangesKeepParams, ChangesListResult, ChangesParams,
    ChangesPartResult, ChangesShowParams, ChangesShowResult, Diff, DiffHunk, Drop, Keep,
    KeptChanges, List, Redo, RedoResult, Show, Undo, UndoResult,
};
use aish_proto::error::ErrorKind;
use aish_proto::id::ChangesId;
use aish_proto::method::Empty;
use aishd_conversation::request_error::RequestError;
use aishd_conversation::requests::{ConversationChange, PartRequest};
use aishd_log::audit::{AuditDraft, AuditFact, UndoOutcome};
use aishd_log::changes_undo::{ChangesUndo, UndoAct};
use aishd_log::run_changes::PartAct;
use aishd_platform::clock;
use aishd_tools::trial::{
    ChangeFailure, LayersHold, PartWish, ReversedChanges, TrialRoom, Undoable,
};
use jsonrpsee::RpcModule;
use tokio::time::timeout;

use super::connection::ClientConnection;
use super::method_error::MethodError;
use super::open_changes;
use super::{MethodCall, RpcServer, register};

/// How long a look waits for the end of the command that writes there.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<List, _, _>(module, list);
    register::<Show, _, _>(module, show);
    register::<Diff, _, _>(module, diff);
    register::<Keep, _, _>(module, keep);
    register::<Drop, _, _>(module, drop_part);
    register::<Undo, _, _>(module, undo);
    register::<Redo, _, _>(module, redo);
}

async fn list(call: MethodCall<List>) -> Result<ChangesListResult, MethodError> {
    let Empty {} = call.params;
    let open = open_changes::all(&call.server).await?;
    let all = look(&call.server, |room| room.undoable()).await?;
    let (mut undone, kept): (Vec<_>, Vec<_>) =
        all.into_iter().rev().partition(|it| it.undone_at.is_some());
    // Of those that were undone at once, the one that was kept first was undone last.
    undone.reverse();
    undone.sort_by_key(|it| Reverse(it.undone_at));
    Ok(ChangesListResult {
        open,
        kept: kept.into_iter().map(kept_changes).collect(),
        undone: undone.into_iter().map(kept_changes).collect(),
    })
}

fn kept_changes(it: Undoable) -> KeptChanges {
    let about = it.about.as_ref();
    KeptChanges {
        changes: it.changes,
        kept_at: clock::rfc3339(it.kept_at),
        conversation: about.and_then(|it| it.conversation),
        turn: about.and_then(|it| it.turn),
        number: about.and_then(|it| it.number),
        paths: it.about.map(|it| it.paths).unwrap_or_default(),
    }
}

async fn show(call: MethodCall<Show>) -> Result<ChangesShowResult, MethodError> {
    let ChangesShowParams {
        changes,
        only,
        diff,
    } = call.params;
    let open = open_changes::named(&call.server, changes).await?;
    let (looked, diff) = look_into(&call.server, changes, move |held| {
        let diff = diff.then(|| held.difference(&only)).transpose()?;
        Ok((held.look(&only)?, diff))
    })
    .await?;
    Ok(ChangesShowResult {
        open,
        changed: crate::tried::summary(looked.changed),
        seen: looked.seen,
        diff: diff.map(|it| it.text),
    })
}

async fn diff(call: MethodCall<Diff>) -> Result<ChangesDiffResult, MethodError> {
    let ChangesParams { changes } = call.params;
    let found = look_into(&call.server, changes, |held| held.difference(&[])).await?;
    let hunks = found.hunks.iter().map(|it| DiffHunk {
        line: it.start,
        lines: it.end - it.start,
    });
    Ok(ChangesDiffResult {
        hunks: hunks.collect(),
        digest: found.digest(changes).to_string(),
        diff: found.text,
    })
}

async fn keep(call: MethodCall<Keep>) -> Result<ChangesPartResult, MethodError> {
    let ChangesKeepParams {
        changes,
        only,
        seen,
    } = call.params;
    let wish = PartWish {
        act: PartAct::Keep,
        only,
        seen: Some(seen),
    };
    take_part(&call.server, &call.connection, changes, wish).await
}

async fn drop_part(call: MethodCall<Drop>) -> Result<ChangesPartResult, MethodError> {
    let ChangesDropParams { changes, only } = call.params;
    let wish = PartWish {
        act: PartAct::Drop,
        only,
        seen: None,
    };
    take_part(&call.server, &call.connection, changes, wish).await
}

async fn take_part(
    server: &RpcServer,
    connection: &ClientConnection,
    changes: ChangesId,
    wish: PartWish,
) -> Result<ChangesPartResult, MethodError> {
    let open = open_changes::named(server, changes).await?;
    if let Some(number) = open.number {
        return Err(RequestError::ChangesAsked(number).into());
    }
    let wanted = PartRequest {
        changes,
        wish,
        by: connection.person(),
    };
    let done = server.directory.with(open.conversation, |handle| {
        let wanted = wanted.clone();
        async move { handle.take_part(wanted).await }
    });
    Ok(ChangesPartResult {
        part: crate::tried::part(*done.await?),
    })
}

async fn undo(call: MethodCall<Undo>) -> Result<UndoResult, MethodError> {
    let ChangesParams { changes } = call.params;
    let undone = reverse(&call.server, &call.connection, UndoAct::Undo, changes);
    let undone = undone.await?;
    Ok(UndoResult {
        changes: undone.changes,
        count: undone.paths,
        reversible: undone.reversible,
    })
}

async fn redo(call: MethodCall<Redo>) -> Result<RedoResult, MethodError> {
    let ChangesParams { changes } = call.params;
    let redone = reverse(&call.server, &call.connection, UndoAct::Redo, changes);
    let redone = redone.await?;
    Ok(RedoResult {
        changes: redone.changes,
        count: redone.paths,
    })
}

/// Takes back what was kept, or does again what was taken back; the trail and the conversation are told.
async fn reverse(
    server: &RpcServer,
    connection: &ClientConnection,
    act: UndoAct,
    changes: ChangesId,
) -> Result<ReversedChanges, MethodError> {
    let by = connection.person();
    let done = look(server, move |room| {
        let all = room.undoable()?;
        let about = all.into_iter().find(|it| it.changes == changes);
        let done = match act {
            UndoAct::Undo => room.undo(changes),
            UndoAct::Redo => room.redo(changes),
        };
        Ok((about, done))
    });
    let (kept, done) = done.await?;
    // Of what was never kept there is nothing to tell.
    if let Some(kept) = kept {
        let about = kept.about.unwrap_or_default();
        let draft = AuditDraft {
            conversation: about.conversation,
            by: Some(by.clone()),
            ..AuditDraft::outside_conversation(clock::now(), told(act, changes, &done))
        };
        if let Err(error) = server.directory.record(draft).await {
            tracing::error!(%changes, %error, "an undo is not in the audit trail");
        }
        if let (Ok(done), Some(conversation)) = (&done, about.conversation) {
            let undo = Box::new(ChangesUndo {
                act,
                changes: done.changes,
                paths: about.paths,
                count: done.paths,
                reversible: done.reversible,
                directory: None,
            });
            let said = server.directory.with(conversation, |handle| {
                let (undo, by) = (undo.clone(), by.clone());
                async move { handle.change(ConversationChange::Undo(undo), by).await }
            });
            if let Err(error) = said.await {
                tracing::warn!(%changes, %error, "the conversation is not told of an undo");
            }
        }
    }
    let (done_word, hint) = match act {
        UndoAct::Undo => (
            "undone",
            "put these files back as they were, or undo the rest by hand",
        ),
        UndoAct::Redo => ("done again", "put these files back as the undo left them"),
    };
    match done {
        Ok(done) => {
            tracing::info!(%changes, by = by.name, "what was kept is {done_word}");
            Ok(done)
        }
        Err(conflict @ (ChangeFailure::Conflicts(_) | ChangeFailure::Unseen)) => {
            Err(MethodError::new(
                ErrorKind::Denied,
                format!("{conflict}; nothing is {done_word}"),
            )
            .hint(hint))
        }
        Err(unfinished @ ChangeFailure::Unfinished(_)) => {
            Err(MethodError::new(ErrorKind::Storage, unfinished.to_string()))
        }
        Err(ChangeFailure::Other(why)) => {
            Err(MethodError::new(ErrorKind::NotFound, why).hint("aishctl changes"))
        }
    }
}

/// Looks into layers in which nobody writes meanwhile.
async fn look_into<T: Send + 'static>(
    server: &RpcServer,
    changes: ChangesId,
    work: impl FnOnce(&LayersHold) -> Result<T, ChangeFailure> + Send + 'static,
) -> Result<T, MethodError> {
    let held = timeout(LOOK_WITHIN, server.directory.trials().hold_layers(changes)).await;
    let held = held.map_err(|_elapsed| MethodError::from(RequestError::LayersInUse))?;
    let done = tokio::task::spawn_blocking(move || work(&held)).await;
    let done = done.unwrap_or_else(|panic| Err(ChangeFailure::Other(panic.to_string())));
    done.map_err(|why| {
        MethodError::new(ErrorKind::NotFound, why.to_string()).hint("aishctl changes")
    })
}

fn told(
    act: UndoAct,
    changes: ChangesId,
    done: &Result<ReversedChanges, ChangeFailure>,
) -> AuditFact {
    let (outcome, paths) = match done {
        Ok(done) => (UndoOutcome::Undone, Some(done.paths)),
        Err(ChangeFailure::Conflicts(paths)) => (UndoOutcome::Conflict, Some(paths.len() as u64)),
        Err(ChangeFailure::Unfinished(_)) => (UndoOutcome::Unfinished, None),
        Err(ChangeFailure::Unseen | ChangeFailure::Other(_)) => (UndoOutcome::Failed, None),
    };
    AuditFact::ChangesUndone {
        act,
        changes,
        outcome,
        paths,
    }
}

/// Files are looked at beside the runtime.
async fn look<T: Send + 'static>(
    server: &RpcServer,
    work: impl FnOnce(&TrialRoom) -> Result<T, String> + Send + 'static,
) -> Result<T, MethodError> {
    let room = server.directory.trials().clone();
    let done = tokio::task::spawn_blocking(move || work(&room)).await;
    let done = done.unwrap_or_else(|panic| Err(panic.to_string()));
    done.map_err(|why| MethodError::new(ErrorKind::NotFound, why).hint("aishctl changes"))
}
