//! The tasks of a conversation, read from where the log has them: the state says where, and stays small. No request tells them
//! beside the log, so that what comes before a question stays the same bytes; the model reads them back by a call.

use aish_proto::id::{ConversationId, Seq};
use aishd_log::event::Event;
use aishd_log::todo::Todo;
use aishd_store::{ReadError, Store};
use aishd_tools::{ToolOutput, builtin};

/// None where nobody has written any, or where the record is lost.
pub(crate) fn find(
    store: &Store,
    conversation: ConversationId,
    seq: Seq,
) -> Result<Vec<Todo>, ReadError> {
    if seq == Seq(0) {
        return Ok(vec![]);
    }
    let record = match store.record(conversation, seq) {
        // A list that cannot be understood any more holds nobody up.
        Err(ReadError::Damaged(error)) => {
            tracing::warn!(%conversation, error, "the tasks of a conversation cannot be read");
            None
        }
        record => record?,
    };
    Ok(match record.map(|it| it.event) {
        Some(Event::TodosChanged { todos }) => todos,
        Some(_) | None => vec![],
    })
}

/// What a call of the model reads.
pub(crate) async fn read(store: Store, id: ConversationId, seq: Seq) -> ToolOutput {
    let read = tokio::task::spawn_blocking(move || find(&store, id, seq)).await;
    match read {
        Ok(Ok(todos)) => ToolOutput::from_text(builtin::todo_text(&todos)),
        Ok(Err(error)) => ToolOutput::failed(format!("[aish] tool dispatch failed: {error}")),
        Err(panic) => ToolOutput::failed(format!("[aish] tool dispatch failed: {panic}")),
    }
}
