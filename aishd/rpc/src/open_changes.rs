//! Changes that nobody has kept or dropped yet: of runs that go on, of runs that are over, and of commands that were tried.

use aish_proto::changes::{ChangesSize, OpenChanges, OpenChangesStage};
use aish_proto::id::{ChangesId, ConversationId};
use aishd_conversation::handle::ReadError;
use aishd_conversation::questions::pending_questions::PendingQuestion;
use aishd_conversation::request_error::RequestError;
use aishd_log::confirm::ConfirmSubject;
use aishd_log::run_changes::{RunChanges, RunChangesStage, of_run};
use aishd_log::state::ConversationState;
use aishd_log::tried::ChangeSummary;
use aishd_tools::trial::TrialRoom;

use super::RpcServer;
use super::method_error::MethodError;

/// All of them, the oldest first.
pub(super) async fn all(server: &RpcServer) -> Result<Vec<OpenChanges>, MethodError> {
    let asked = server.directory.pending().watch().await;
    let asked = asked.borrow().clone();
    let mut open: Vec<OpenChanges> = asked.values().filter_map(|it| of_question(it)).collect();
    let (store, room) = (
        server.directory.store().clone(),
        server.directory.trials().clone(),
    );
    let found = tokio::task::spawn_blocking(move || {
        let mut found = vec![];
        for conversation in store.unsettled()? {
            let state = store.state(conversation)?.unwrap_or_default();
            found.extend(of_runs(conversation, &state, &room));
        }
        Ok::<_, ReadError>(found)
    });
    let found = found
        .await
        .map_err(|panic| MethodError::internal(&panic.to_string()))?;
    let found = found.map_err(|error| MethodError::internal(&error.to_string()))?;
    let is_asked = |it: &OpenChanges| open.iter().any(|other| other.changes == it.changes);
    let unasked: Vec<OpenChanges> = found.into_iter().filter(|it| !is_asked(it)).collect();
    open.extend(unasked);
    open.sort_by_key(|it| it.changes);
    Ok(open)
}

/// Those with this id.
pub(super) async fn named(
    server: &RpcServer,
    changes: ChangesId,
) -> Result<OpenChanges, MethodError> {
    let mut all = all(server).await?.into_iter();
    all.find(|it| it.changes == changes)
        .ok_or_else(|| RequestError::NoChanges(changes).into())
}

/// Of the runs of a conversation. How much it is is looked up where nobody writes there.
pub(super) fn of_runs(
    conversation: ConversationId,
    state: &ConversationState,
    room: &TrialRoom,
) -> Vec<OpenChanges> {
    let of_run = |it: &RunChanges| {
        let changes = of_run(it.turn);
        let held = room.try_hold_layers(changes);
        let looked = held.and_then(|it| it.changes().ok());
        let number = match &it.stage {
            RunChangesStage::Asked(number) => Some(*number),
            RunChangesStage::Ordered(order) => Some(order.number),
            RunChangesStage::InWork | RunChangesStage::Ended => None,
        };
        OpenChanges {
            changes,
            stage: match number {
                Some(_) => OpenChangesStage::RunAsked,
                None => OpenChangesStage::Run,
            },
            conversation,
            confirm: None,
            number,
            text: it.goal.clone(),
            size: looked.map(|it| size(&it.unwrap_or_default())),
        }
    };
    state.run_changes.iter().map(of_run).collect()
}

fn of_question(question: &PendingQuestion) -> Option<OpenChanges> {
    let confirm = &question.confirm;
    let (changes, stage, text, changed) = match (&confirm.subject, &question.tried) {
        (ConfirmSubject::Changes(it), _) => (
            it.changes(),
            OpenChangesStage::RunAsked,
            it.goal.clone(),
            &it.changed,
        ),
        (_, Some(tried)) => (
            tried.changes,
            OpenChangesStage::Tried,
            tried.command.clone(),
            &tried.changed,
        ),
        (_, None) => return None,
    };
    Some(OpenChanges {
        changes,
        stage,
        conversation: question.conversation,
        confirm: Some(confirm.id),
        number: Some(confirm.number),
        text,
        size: Some(size(changed)),
    })
}

fn size(changed: &ChangeSummary) -> ChangesSize {
    let lines = changed.listed.iter().filter_map(|it| it.lines);
    let (added, removed) = lines.fold((0, 0), |all, it| (all.0 + it.0, all.1 + it.1));
    ChangesSize {
        count: changed.count,
        added,
        removed,
    }
}
