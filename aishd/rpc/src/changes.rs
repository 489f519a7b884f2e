//! `changes/*`: what a trial would change, and taking back what was kept of one.

use aish_proto::changes::{
    ChangesDiffResult, ChangesListResult, ChangesParams, Diff, KeptChanges, List, Undo, UndoResult,
};
use aish_proto::error::ErrorKind;
use aish_proto::id::ChangesId;
use aish_proto::method::Empty;
use aishd_log::audit::{AuditDraft, AuditFact, UndoOutcome};
use aishd_platform::clock;
use aishd_tools::trial::{ChangeFailure, TrialRoom};
use jsonrpsee::RpcModule;

use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register};

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<List, _, _>(module, list);
    register::<Diff, _, _>(module, diff);
    register::<Undo, _, _>(module, undo);
}

async fn list(call: MethodCall<List>) -> Result<ChangesListResult, MethodError> {
    let Empty {} = call.params;
    let kept = look(&call.server, |room| room.kept()).await?;
    let kept = kept.into_iter().rev().map(|it| KeptChanges {
        changes: it.changes,
        kept_at: clock::rfc3339(it.kept_at),
        conversation: it.about.as_ref().and_then(|it| it.conversation),
        number: it.about.as_ref().map(|it| it.number),
        paths: it.about.map(|it| it.paths).unwrap_or_default(),
    });
    Ok(ChangesListResult {
        kept: kept.collect(),
    })
}

async fn diff(call: MethodCall<Diff>) -> Result<ChangesDiffResult, MethodError> {
    let ChangesParams { changes } = call.params;
    let diff = look(&call.server, move |room| room.diff(changes)).await?;
    Ok(ChangesDiffResult { diff })
}

async fn undo(call: MethodCall<Undo>) -> Result<UndoResult, MethodError> {
    let ChangesParams { changes } = call.params;
    let by = call.connection.person();
    let undone = look(&call.server, move |room| {
        let kept = room.kept()?;
        let about = kept.into_iter().find(|it| it.changes == changes);
        Ok((about, room.undo(changes)))
    });
    let (kept, undone) = undone.await?;
    // Of what was never kept there is nothing to tell.
    if let Some(kept) = kept {
        let draft = AuditDraft {
            conversation: kept.about.and_then(|it| it.conversation),
            by: Some(by.clone()),
            ..AuditDraft::outside_conversation(clock::now(), told(changes, &undone))
        };
        if let Err(error) = call.server.directory.record(draft).await {
            tracing::error!(%changes, %error, "an undo is not in the audit trail");
        }
    }
    match undone {
        Ok(_paths) => {
            tracing::info!(%changes, by = by.name, "what was kept is undone");
            Ok(UndoResult { changes })
        }
        Err(conflict @ ChangeFailure::Conflicts(_)) => Err(MethodError::new(
            ErrorKind::Denied,
            format!("{conflict}; nothing is undone"),
        )
        .hint("put these files back as they were, or undo the rest by hand")),
        Err(unfinished @ ChangeFailure::Unfinished(_)) => {
            Err(MethodError::new(ErrorKind::Storage, unfinished.to_string()))
        }
        Err(ChangeFailure::Other(why)) => {
            Err(MethodError::new(ErrorKind::NotFound, why).hint("aishctl changes"))
        }
    }
}

fn told(changes: ChangesId, undone: &Result<u64, ChangeFailure>) -> AuditFact {
    let (outcome, paths) = match undone {
        Ok(paths) => (UndoOutcome::Undone, Some(*paths)),
        Err(ChangeFailure::Conflicts(paths)) => (UndoOutcome::Conflict, Some(paths.len() as u64)),
        Err(ChangeFailure::Unfinished(_)) => (UndoOutcome::Unfinished, None),
        Err(ChangeFailure::Other(_)) => (UndoOutcome::Failed, None),
    };
    AuditFact::ChangesUndone {
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
