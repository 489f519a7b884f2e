//! What was said and done last in a conversation, read from its log from the end on: the question, the answer, a thought, a
//! result, a command.

use aish_proto::conversation::{History, HistoryParams};
use aish_proto::envelope::Envelope;
use aish_proto::event::{AssistantMessage, AttachedText, ShellStarted, ToolResult, UserMessage};
use aish_proto::id::{ConversationId, Seq, TurnId};

use crate::client::connect::{Caller, RpcCallError};

const PAGE_EVENTS: u32 = 200;
/// Stands in the place of a question that is too long for a line of the wire, and the name by which that goes along.
pub(crate) const LONG_QUESTION: &str = "The request is the attached text \"question\".";
pub(crate) const QUESTION_NAME: &str = "question";

/// A question, and the position before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastQuestion {
    pub(crate) before: Seq,
    pub(crate) text: String,
    /// What went along.
    pub(crate) attachments: Vec<AttachedText>,
}

/// The last question that was asked in words, as it was asked first.
pub(crate) async fn question(
    caller: &Caller,
    conversation: ConversationId,
) -> Result<Option<LastQuestion>, RpcCallError> {
    let mut again = None;
    last(caller, conversation, |event| {
        let said = event.read::<UserMessage>()?;
        // Where it was asked again, the answer before stands beside the one after it.
        if again.is_some_and(|it| event.turn != Some(it)) {
            return None;
        }
        if said.retry_of.is_some() {
            again = said.retry_of;
            return None;
        }
        let is_asked = said.continues.is_none() && said.calls.is_empty();
        (is_asked && !said.text.trim().is_empty()).then(|| {
            let (mut text, mut attachments) = (said.text, said.attachments);
            let long = attachments.iter().position(|it| it.name == QUESTION_NAME);
            if let Some(long) = long.filter(|_| text == LONG_QUESTION) {
                text = attachments.remove(long).text;
            }
            LastQuestion {
                before: Seq(event.seq.map_or(0, |it| it.0.saturating_sub(1))),
                text,
                attachments,
            }
        })
    })
    .await
}

/// The last message of a model that says something.
pub(crate) async fn answer(
    caller: &Caller,
    conversation: ConversationId,
) -> Result<Option<String>, RpcCallError> {
    last(caller, conversation, |event| {
        let said = event.read::<AssistantMessage>()?.text;
        (!said.trim().is_empty()).then_some(said)
    })
    .await
}

/// What the model thought last.
pub(crate) async fn thought(
    caller: &Caller,
    conversation: ConversationId,
) -> Result<Option<String>, RpcCallError> {
    last(caller, conversation, |event| {
        let thought = event.read::<AssistantMessage>()?.reasoning;
        (!thought.trim().is_empty()).then_some(thought)
    })
    .await
}

/// The last result of a tool.
pub(crate) async fn result(
    caller: &Caller,
    conversation: ConversationId,
) -> Result<Option<ToolResult>, RpcCallError> {
    last(caller, conversation, Envelope::read::<ToolResult>).await
}

/// The newest command of a model that ran, and not in layers, behind this turn.
pub(crate) async fn command_since(
    caller: &Caller,
    conversation: ConversationId,
    turn: TurnId,
) -> Result<Option<String>, RpcCallError> {
    let found = last(caller, conversation, |event| {
        let of = event.turn?;
        if of == turn {
            return Some(None);
        }
        Some(Some(event.read::<ShellStarted>()?.command))
    });
    Ok(found.await?.flatten())
}

/// The first thing that is found, from the end of the log on.
async fn last<T>(
    caller: &Caller,
    id: ConversationId,
    mut find: impl FnMut(&Envelope) -> Option<T>,
) -> Result<Option<T>, RpcCallError> {
    let mut before_seq = None;
    loop {
        let params = HistoryParams {
            id,
            before_seq,
            limit: PAGE_EVENTS,
        };
        let page = caller.call::<History>(params).await?;
        if let Some(found) = page.events.iter().rev().find_map(&mut find) {
            return Ok(Some(found));
        }
        before_seq = page.events.first().and_then(|it| it.seq);
        if !page.more || before_seq.is_none() {
            return Ok(None);
        }
    }
}
