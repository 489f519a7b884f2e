//! What the model is shown of a conversation: messages in the order in which turns ran, folded from the log.

use std::collections::{HashMap, VecDeque};

use aish_proto::id::{Seq, TurnId};
use serde_json::{Map, Value};

use super::block::Form;
use super::event::{Attachment, Event, Origin, Record, Source};
use super::reply::ToolCall;

/// What a continued turn says to a model that has already written something.
const CONTINUE: &str = "[aish] Your last answer was interrupted. Continue exactly where it ended.";

/// One turn of spec 20, MSG-1.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    User {
        text: String,
    },
    Assistant {
        text: String,
        calls: Vec<ToolCall>,
        extra: Map<String, Value>,
        /// The model that wrote it: only that one gets `extra` back.
        model_id: String,
    },
    Tool {
        call: String,
        name: String,
        content: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    /// The record that put it here; eviction goes by this position.
    at: Seq,
    turn: Option<TurnId>,
    message: Message,
}

#[derive(Clone, Debug, PartialEq)]
struct Waiting {
    text: String,
    origin: Origin,
}

/// The messages that are in the context, and the questions that wait for their turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    entries: VecDeque<Entry>,
    waiting: HashMap<TurnId, Waiting>,
    model_id: String,
    /// The model that writes the next message, where it is not the turn's own.
    falls_back_to: Option<String>,
    /// A result is in it that is not whole.
    keeps_results: bool,
    /// The last turn that ran a list of calls, and where it started.
    listed: Option<(TurnId, Seq)>,
}

impl Transcript {
    /// Takes the next record in; the same function live and on load.
    pub fn apply(&mut self, record: &Record) {
        match &record.event {
            Event::UserMessage {
                text,
                attachments,
                origin,
                calls,
                ..
            } => {
                if let Some(turn) = record.turn {
                    let text = with_attachments(text, attachments);
                    let origin = match origin {
                        // The rest of a list has its own question: no answer of a model goes on.
                        Origin::Continue(_) if calls.is_some() => Origin::Asked,
                        Origin::Asked | Origin::Retry(_) | Origin::Continue(_) => *origin,
                    };
                    self.waiting.insert(turn, Waiting { text, origin });
                }
            }
            Event::TurnStarted {
                model_id, source, ..
            } => {
                self.model_id.clone_from(model_id);
                self.falls_back_to = None;
                if *source == Source::None {
                    self.listed = record.turn.map(|it| (it, record.seq));
                }
                self.place(record, record.turn);
            }
            Event::FellBack { model_id, .. } => self.falls_back_to = Some(model_id.clone()),
            Event::AssistantMessage {
                text, calls, extra, ..
            } => {
                let writer = self.falls_back_to.take();
                let message = Message::Assistant {
                    text: text.clone(),
                    calls: calls.iter().map(|it| self.named(record, it)).collect(),
                    extra: extra.clone(),
                    model_id: writer.unwrap_or_else(|| self.model_id.clone()),
                };
                self.push(record, message);
            }
            Event::ToolResult {
                call,
                name,
                content,
                kept,
                blocks,
                ..
            } => {
                let reads = blocks.iter().any(|it| it.form == Form::Text);
                self.keeps_results |= kept.is_some() || reads;
                let call = self.id(record, call);
                self.reply(record, &call, name, content);
            }
            Event::Evicted { through } => self.entries.retain(|it| it.at > *through),
            Event::TurnFinished { merged_into, .. } => {
                if merged_into.is_some() {
                    self.place(record, record.turn);
                } else if let Some(turn) = record.turn {
                    // A waiting turn that was taken out says nothing to the model.
                    self.waiting.remove(&turn);
                }
            }
            Event::Created { .. }
            | Event::TurnQueued { .. }
            | Event::RouteDecided(_)
            | Event::ModelChanged { .. }
            | Event::Renamed { .. }
            | Event::ArchivedChanged { .. }
            | Event::ConfirmRequested(_)
            | Event::RaiseRequested(_)
            | Event::ConfirmResolved(_)
            | Event::ToolStarted { .. }
            | Event::ResultKept { .. }
            | Event::PermissionChanged { .. }
            | Event::ResourcePinned(_)
            | Event::ResourceUnpinned(_)
            | Event::ResourceChanged(_)
            | Event::ConstraintsChanged { .. }
            | Event::Status { .. } => {}
        }
    }

    pub fn messages(&self) -> impl ExactSizeIterator<Item = &Message> {
        self.entries.iter().map(|it| &it.message)
    }

    /// Whether there is more to read of a result than it shows.
    #[must_use]
    pub fn keeps_results(&self) -> bool {
        self.keeps_results
    }

    /// The position up to which the older half of the exchanges can leave, the last exchange never (CTX-2).
    #[must_use]
    pub fn evictable(&self) -> Option<Seq> {
        let starts: Vec<usize> = (0..self.entries.len())
            .filter(|&index| matches!(self.entries[index].message, Message::User { .. }))
            .collect();
        let keep_from = *starts.get(starts.len().div_ceil(2).max(1))?;
        // Replies stand in the order of their calls, which need not be that of the log.
        self.entries.range(..keep_from).map(|it| it.at).max()
    }

    /// What a model's server is told a call is called: people name the calls of each list alike, and no two of a
    /// conversation may have one id.
    fn id(&self, record: &Record, id: &str) -> String {
        match self.listed {
            Some((turn, seq)) if record.turn == Some(turn) => format!("list{seq}-{id}"),
            Some(_) | None => id.to_owned(),
        }
    }

    fn named(&self, record: &Record, call: &ToolCall) -> ToolCall {
        ToolCall {
            id: self.id(record, &call.id),
            ..call.clone()
        }
    }

    /// A reply takes its place among those to the same message, in the order of the calls (MCP-13).
    fn reply(&mut self, record: &Record, call: &str, name: &str, content: &str) {
        let mut place = self.entries.len();
        let asked = self.entries.iter().rev().find_map(|it| match &it.message {
            Message::Assistant { calls, .. } => Some(calls),
            Message::User { .. } | Message::Tool { .. } => None,
        });
        if let Some(calls) = asked {
            let rank = |id: &str| calls.iter().position(|it| it.id == id);
            let own = rank(call);
            let later = |it: &Entry| match &it.message {
                Message::Tool { call, .. } => own.is_some() && rank(call) > own,
                Message::User { .. } | Message::Assistant { .. } => false,
            };
            while place > 0 && self.entries.get(place - 1).is_some_and(later) {
                place -= 1;
            }
        }
        let message = Message::Tool {
            call: call.to_owned(),
            name: name.to_owned(),
            content: content.to_owned(),
        };
        self.entries.insert(
            place,
            Entry {
                at: record.seq,
                turn: record.turn,
                message,
            },
        );
    }

    fn push(&mut self, record: &Record, message: Message) {
        self.entries.push_back(Entry {
            at: record.seq,
            turn: record.turn,
            message,
        });
    }

    fn place(&mut self, record: &Record, turn: Option<TurnId>) {
        let Some(waiting) = turn.and_then(|it| self.waiting.remove(&it)) else {
            return;
        };
        let text = match waiting.origin {
            Origin::Asked => waiting.text,
            Origin::Retry(old) => {
                self.entries.retain(|it| it.turn != Some(old));
                waiting.text
            }
            Origin::Continue(_) => match self.entries.back().map(|it| &it.message) {
                // Nothing was written yet, or results wait: the same request says it all.
                Some(Message::User { .. } | Message::Tool { .. }) => return,
                Some(Message::Assistant { .. }) | None => CONTINUE.to_owned(),
            },
        };
        self.push(record, Message::User { text });
    }
}

/// The question, and what came with it, as one text.
fn with_attachments(text: &str, attachments: &[Attachment]) -> String {
    let mut whole = text.to_owned();
    for attachment in attachments {
        let name = attachment.name.replace(['"', '\n'], "_");
        let newline = if attachment.text.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        whole.push_str("\n\n<attachment name=\"");
        whole.push_str(&name);
        whole.push_str("\">\n");
        whole.push_str(&attachment.text);
        whole.push_str(newline);
        whole.push_str("</attachment>");
    }
    whole
}

#[cfg(test)]
mod tests;
