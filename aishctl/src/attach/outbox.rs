//! Questions on their way: kept until the daemon has them, sent one at a time because calls may overtake each other,
//! and again under the same key when the connection was lost.

use std::collections::VecDeque;

use aish_proto::id::ConversationId;
use aish_proto::turn::{Attachment, Send, SendMode, SendParams, SendResult};
use ulid::Ulid;

use crate::client::connect::{Caller, RpcCallError};
use crate::commands::file_mention::{AttachedFile, AttachedKind};
use crate::commands::resource_mention::{self, MentionedResource};
use crate::commands::{ask, last_said};

/// Lines that wait to be sent; no more are read until one is.
pub(super) const LINES: usize = 64;

/// What was typed, and for which conversation: that is the one which the window was on then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TypedAsk {
    pub(super) conversation: ConversationId,
    key: String,
    pub(super) text: String,
    /// Read when it was typed, so that it is the same question each time it is sent.
    pub(super) files: Vec<AttachedFile>,
    /// What it takes was said, and a person wants it sent.
    accepts_cost: bool,
}

impl TypedAsk {
    fn new(conversation: ConversationId, text: String, files: Vec<AttachedFile>) -> Self {
        Self {
            conversation,
            key: Ulid::new().to_string(),
            text,
            files,
            accepts_cost: false,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct AskOutbox {
    lines: VecDeque<TypedAsk>,
    sending: bool,
    /// The first was not answered in time.
    late: bool,
    /// Those that a person has to know the price of first.
    costly: VecDeque<TypedAsk>,
}

impl AskOutbox {
    pub(super) fn put(
        &mut self,
        conversation: ConversationId,
        text: String,
        files: Vec<AttachedFile>,
    ) {
        let question = TypedAsk::new(conversation, text, files);
        self.lines.push_back(question);
    }

    /// Before all others that are not on their way.
    pub(super) fn put_first(
        &mut self,
        conversation: ConversationId,
        text: String,
        files: Vec<AttachedFile>,
    ) {
        let at = usize::from(self.sending).min(self.lines.len());
        let question = TypedAsk::new(conversation, text, files);
        self.lines.insert(at, question);
    }

    /// The next question to send, unless one is on its way.
    pub(super) fn next(&mut self) -> Option<TypedAsk> {
        let next = self.lines.front().filter(|_| !self.sending).cloned();
        self.sending |= next.is_some();
        next
    }

    /// It has arrived, or it is refused.
    pub(super) fn done(&mut self) -> Option<TypedAsk> {
        self.sending = false;
        self.late = false;
        self.lines.pop_front()
    }

    /// It was refused for what it takes, and is at hand.
    pub(super) fn set_costly_aside(&mut self) {
        self.sending = false;
        self.late = false;
        self.costly.extend(self.lines.pop_front());
    }

    /// A person wants it sent all the same. False: there is none.
    pub(super) fn accept_cost(&mut self) -> bool {
        let Some(mut question) = self.costly.pop_front() else {
            return false;
        };
        question.accepts_cost = true;
        let at = usize::from(self.sending).min(self.lines.len());
        self.lines.insert(at, question);
        true
    }

    /// The connection is gone; nobody knows whether it has arrived.
    pub(super) fn lost(&mut self) {
        self.sending = false;
        self.late = false;
    }

    /// No answer in time, and nobody knows either. True for the first time.
    pub(super) fn late(&mut self) -> bool {
        self.sending = false;
        !std::mem::replace(&mut self.late, true)
    }

    pub(super) fn is_late(&self) -> bool {
        self.late
    }

    pub(super) fn unsent(&self) -> impl Iterator<Item = &str> {
        let unsent = self.costly.iter().chain(&self.lines);
        unsent.map(|it| it.text.as_str())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && !self.sending
    }

    pub(super) fn is_full(&self) -> bool {
        self.lines.len() >= LINES
    }
}

/// Sends one question; what is too large for one line of the wire goes ahead in pieces.
pub(super) async fn send(
    caller: &Caller,
    model: Option<String>,
    question: TypedAsk,
) -> Result<SendResult, RpcCallError> {
    let TypedAsk {
        conversation,
        key,
        mut text,
        files,
        accepts_cost,
    } = question;
    let mut attachments = Vec::new();
    let escaped = |text: &str| serde_json::to_string(text).map_or(usize::MAX, |it| it.len());
    let mentioned = resource_mention::read(caller, &text).await?;
    if escaped(&text) > caller.line_bytes().saturating_sub(16 << 10) {
        let blob = ask::put_blob(caller, &text).await?;
        attachments.push(Attachment {
            name: last_said::QUESTION_NAME.to_owned(),
            text: None,
            blob: Some(blob),
            base64: false,
        });
        text = last_said::LONG_QUESTION.to_owned();
    }
    let is_read_again = |name: &str| mentioned.iter().any(|it| it.name() == name);
    let files = files.into_iter().filter(|it| !is_read_again(&it.name));
    let files = files.map(|it| match it.kind {
        AttachedKind::Picture(picture) => (it.name, picture.base64, true),
        AttachedKind::File { .. } | AttachedKind::Names { .. } => (it.name, it.text, false),
    });
    let files: Vec<_> = files.collect();
    let mentioned = mentioned.into_iter().map(|it| match it {
        MentionedResource::Text { name, text } => (name, text, false),
        MentionedResource::Picture(picture) => (picture.name, picture.base64, true),
    });
    for (name, content, base64) in files.into_iter().chain(mentioned) {
        let inline = escaped(&content) <= caller.line_bytes() / 8;
        let blob = if inline {
            None
        } else {
            Some(ask::put_blob(caller, &content).await?)
        };
        attachments.push(Attachment {
            name,
            text: inline.then_some(content),
            blob,
            base64,
        });
    }
    let params = SendParams {
        conversation,
        text,
        idempotency_key: key,
        mode: SendMode::Queue,
        expected_turn: None,
        model,
        attachments,
        on_confirm: None,
        max_tool_depth: None,
        new: None,
        accept_cost: accepts_cost,
    };
    caller.call::<Send>(params).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_sent_at_a_time_and_again_under_its_key() {
        let (here, there) = (
            ConversationId::from_bytes([1; 16]),
            ConversationId::from_bytes([2; 16]),
        );
        let mut outbox = AskOutbox::default();
        outbox.put(here, "one".into(), vec![]);
        outbox.put(there, "two".into(), vec![]);
        let first = outbox.next().unwrap();
        assert_eq!(None, outbox.next());
        outbox.put_first(here, "now".into(), vec![]);
        outbox.lost();
        assert_eq!(Some(first), outbox.next());
        drop(outbox.done());
        assert_eq!("now", outbox.next().unwrap().text);
        drop(outbox.done());
        let second = outbox.next().unwrap();
        assert_eq!(("two", there), (second.text.as_str(), second.conversation));
        assert!(!outbox.is_empty());
        drop(outbox.done());
        assert!(outbox.is_empty());
    }

    #[test]
    fn what_is_dear_is_sent_once_a_person_says_so_and_goes_first() {
        let here = ConversationId::from_bytes([1; 16]);
        let mut outbox = AskOutbox::default();
        outbox.put(here, "a whole log".into(), vec![]);
        outbox.put(here, "two".into(), vec![]);
        assert!(!outbox.accept_cost());
        let first = outbox.next().unwrap();
        outbox.set_costly_aside();
        assert!(outbox.accept_cost() && !outbox.accept_cost());
        let again = outbox.next().unwrap();
        assert_eq!((first.key, true), (again.key, again.accepts_cost));
    }
}
