//! Whether something is half printed, as events tell it: what belongs to none of it waits until it is whole.

use std::collections::BTreeSet;

use aish_proto::event::{ClientEvent, Event};

/// The answer, the calls and the commands whose end has not come.
#[derive(Debug, Default)]
pub(crate) struct HalfPrinted {
    answer: bool,
    calls: BTreeSet<String>,
    commands: BTreeSet<String>,
}

impl HalfPrinted {
    pub(crate) fn take(&mut self, event: &ClientEvent) {
        match &event.data {
            Event::Snapshot(snapshot) => {
                *self = Self {
                    answer: snapshot.running.is_some(),
                    ..Self::default()
                };
            }
            Event::TextDelta(_) | Event::ReasoningDelta(_) => self.answer = true,
            Event::AssistantMessage(_) => self.answer = false,
            Event::TurnFinished(_) => {
                self.answer = false;
                self.calls.clear();
            }
            Event::ToolCall(called) => {
                // What called it is whole.
                self.answer = false;
                self.calls.insert(called.call.clone());
            }
            Event::ToolResult(result) => {
                self.calls.remove(&result.call);
            }
            Event::ShellStarted(started) => {
                self.commands.insert(started.call.clone());
            }
            Event::ShellFinished(finished) => {
                self.commands.remove(&finished.call);
            }
            _ => {}
        }
    }

    /// Nothing is.
    pub(crate) fn is_whole(&self) -> bool {
        !self.answer && self.calls.is_empty() && self.commands.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_daemon;

    #[test]
    fn all_that_has_begun_has_to_end() {
        let mut half = HalfPrinted::default();
        let mut after = |kind: &str, data: Value| {
            half.take(&test_daemon::event(test_daemon::envelope(None, kind, data)));
            half.is_whole()
        };
        let call = |name: &str| json!({"call": name, "name": "a__b", "arguments": "{}", "digest": "", "rule": "", "ok": true, "content": ""});
        let delta = json!({"item": 0, "offset": 0, "text": "so"});
        assert!(!after("textDelta", delta.clone()));
        assert!(!after("toolCall", call("1")));
        assert!(!after("toolCall", call("2")));
        assert!(!after("toolResult", call("1")));
        assert!(after("toolResult", call("2")));
        let begun = json!({"call": "3", "command": "x", "cwd": "/", "shell": "sh", "digest": "", "rule": ""});
        assert!(!after("shellStarted", begun));
        let ended = json!({"call": "3", "command": "x", "ending": "exited", "output": "", "bytes": 0, "intoContext": true});
        assert!(after("shellFinished", ended));
        assert!(!after("textDelta", delta));
        let message = json!({"item": 0, "text": "so", "complete": true});
        assert!(after("assistantMessage", message));
    }
}
