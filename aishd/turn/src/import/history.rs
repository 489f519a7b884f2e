//! From messages to the facts of turns that are over. Every call gets exactly one reply, as live.

use std::collections::VecDeque;

use aish_proto::id::TurnId;
use aishd_log::event::{
    Attachment, Event, ImportedFrom, PresetSource, RefusedCall, StopReason, TurnOrigin,
};
use aishd_log::tool_call::ToolCall;
use serde_json::Map;

use super::ImportedFact;
use super::line::ImportedMessage;
use crate::request::NO_RESULT;

/// The name of what answered, where presets stand.
const ELSEWHERE: &str = "imported";

/// The turn that goes on, and what has been counted.
#[derive(Debug, Default)]
pub(super) struct ImportHistory {
    turn: Option<OpenTurn>,
    /// Calls of the last answer that have no result yet.
    owed: VecDeque<ToolCall>,
    counted: ImportedFrom,
}

#[derive(Debug)]
struct OpenTurn {
    turn: TurnId,
    items: u32,
    /// The last answer.
    text: String,
}

impl ImportHistory {
    pub(super) fn take(
        &mut self,
        message: ImportedMessage,
        new_turn: &mut dyn FnMut() -> TurnId,
        facts: &mut Vec<ImportedFact>,
    ) -> Result<(), String> {
        let waits_for_result = self.owed.front().map(|it| it.id.clone());
        match message {
            ImportedMessage::System => {
                self.counted.left_out += 1;
                return Ok(());
            }
            ImportedMessage::Tool { call, content } => {
                let place = self.owed.iter().position(|it| it.id == call);
                let owed = place.and_then(|it| self.owed.remove(it));
                let (Some(owed), Some(open)) = (owed, &self.turn) else {
                    return Err(format!("no call {call:?} waits for this result"));
                };
                facts.push((open.turn, result(owed, content)));
            }
            ImportedMessage::User(text, attachments) => {
                if let Some(call) = waits_for_result {
                    return Err(format!("the call {call:?} has no result before this"));
                }
                self.close(facts);
                let turn = new_turn();
                facts.extend(question(text, attachments).map(|it| (turn, it)));
                self.counted.exchanges += 1;
                self.turn = Some(OpenTurn {
                    turn,
                    items: 0,
                    text: String::new(),
                });
            }
            ImportedMessage::Assistant { text, calls } => {
                if let Some(call) = waits_for_result {
                    return Err(format!("the call {call:?} has no result before this"));
                }
                let Some(open) = &mut self.turn else {
                    return Err("a conversation begins with a question of a user".to_owned());
                };
                open.text.clone_from(&text);
                self.owed.extend(calls.iter().cloned());
                facts.push((open.turn, answer(open.items, text, calls)));
                open.items += 1;
            }
        }
        self.counted.messages += 1;
        Ok(())
    }

    /// Calls whose result is in no file get one that says so.
    pub(super) fn settle(&mut self, facts: &mut Vec<ImportedFact>) {
        let Some(open) = &self.turn else { return };
        for call in self.owed.drain(..) {
            self.counted.unanswered += 1;
            facts.push((open.turn, result(call, NO_RESULT.to_owned())));
        }
    }

    /// Ends the turn that goes on.
    pub(super) fn close(&mut self, facts: &mut Vec<ImportedFact>) {
        self.settle(facts);
        let ended = self.turn.take().map(|it| {
            let end = Event::TurnFinished {
                stop: StopReason::End,
                text: it.text.into(),
                usage: None,
                error: None,
                merged_into: None,
            };
            (it.turn, end)
        });
        facts.extend(ended);
    }

    pub(super) fn imported(&self, bytes: u64) -> ImportedFrom {
        ImportedFrom {
            bytes,
            ..self.counted
        }
    }
}

fn question(text: String, attachments: Vec<Attachment>) -> [Event; 2] {
    [
        Event::UserMessage {
            text,
            attachments,
            key: None,
            model: None,
            origin: TurnOrigin::Imported,
            on_confirm: None,
            max_tool_depth: None,
            calls: None,
            environment: None,
        },
        Event::TurnStarted {
            model: ELSEWHERE.to_owned(),
            model_id: ELSEWHERE.to_owned(),
            source: PresetSource::Imported,
            context_tokens: None,
        },
    ]
}

fn answer(item: u32, text: String, calls: Vec<ToolCall>) -> Event {
    Event::AssistantMessage {
        item,
        text: text.into(),
        reasoning: String::new(),
        calls,
        commands: vec![],
        extra: Map::new(),
        sealed: None,
        complete: true,
        served_by: None,
        usage: None,
        payee: None,
    }
}

/// It says of itself that nothing ran here.
fn result(call: ToolCall, content: String) -> Event {
    Event::ToolResult {
        call: call.id,
        name: call.name,
        ok: true,
        content,
        denial: None,
        ms: None,
        kept: None,
        blocks: vec![],
        structured: None,
        refused: Some(Box::new(RefusedCall {
            subject: None,
            because: "imported".to_owned(),
            imported: true,
        })),
    }
}
