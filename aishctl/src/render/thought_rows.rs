//! What a model thinks, line by line as it comes, where somebody wants to see it.

use aish_proto::event::{ClientEvent, Event};

use crate::safe;

/// Rows of it begin with this.
const MARK: &str = "  ~ ";

#[derive(Debug, Default)]
pub(crate) struct ThoughtRows {
    /// The message whose thinking it is, and how much of it was taken in.
    item: u32,
    seen: u64,
    /// The beginning of a line whose end has not come.
    open: String,
}

impl ThoughtRows {
    /// The rows that an event adds; of what is past none.
    pub(crate) fn take(&mut self, event: &ClientEvent, is_past: bool) -> Vec<String> {
        let mut rows = vec![];
        match &event.data {
            Event::ReasoningDelta(delta) => {
                self.add((delta.item, delta.offset), &delta.text, &mut rows);
            }
            // Deltas are a courtesy: what they did not bring is here.
            Event::AssistantMessage(message) if !is_past => {
                self.add((message.item, 0), &message.reasoning, &mut rows);
                self.end(&mut rows);
            }
            Event::TextDelta(_) | Event::ToolArgumentsDelta(_) | Event::AssistantMessage(_) => {
                self.end(&mut rows);
            }
            // Messages of the next one are counted anew.
            Event::TurnFinished(_) => {
                self.end(&mut rows);
                (self.item, self.seen) = (0, 0);
            }
            _ => {}
        }
        rows
    }

    fn add(&mut self, (item, offset): (u32, u64), text: &str, rows: &mut Vec<String>) {
        if item != self.item {
            self.end(rows);
            (self.item, self.seen) = (item, 0);
        }
        // What came before may come again after a reconnect.
        let known = usize::try_from(self.seen.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.seen = self.seen.max(offset + text.len() as u64);
        for piece in text.get(known..).unwrap_or_default().split_inclusive('\n') {
            self.open.push_str(piece.trim_end_matches('\n'));
            if piece.ends_with('\n') {
                self.end(rows);
            }
        }
    }

    fn end(&mut self, rows: &mut Vec<String>) {
        let line = safe::one_line(std::mem::take(&mut self.open).trim());
        if !line.is_empty() {
            rows.push(format!("{MARK}{line}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_daemon;

    #[test]
    fn lines_come_whole_and_once() {
        let mut thoughts = ThoughtRows::default();
        let mut take = |kind: &str, item: u32, offset: u64, text: &str| {
            let data = json!({"item": item, "offset": offset, "text": text});
            let event = test_daemon::event(test_daemon::envelope(None, kind, data));
            thoughts.take(&event, false)
        };
        assert_eq!(0, take("reasoningDelta", 0, 0, "one").len());
        assert_eq!(
            vec!["  ~ one two", "  ~ three"],
            take("reasoningDelta", 0, 1, "ne two\n\nthree\nfo")
        );
        assert_eq!(vec!["  ~ fo"], take("textDelta", 0, 0, "x"));
        assert_eq!(0, take("reasoningDelta", 1, 0, "other\u{1b}[2J").len());
        assert_eq!(vec!["  ~ other[2J"], take("reasoningDelta", 2, 0, "y"));
    }

    /// A server may be quicker than deltas are sent, and each turn counts its messages from 0.
    #[test]
    fn what_no_delta_brought_is_taken_from_the_message_in_each_turn() {
        let mut thoughts = ThoughtRows::default();
        let mut take = |kind: &str, data: Value, is_past| {
            let event = test_daemon::event(test_daemon::envelope(Some(1), kind, data));
            thoughts.take(&event, is_past)
        };
        let message = || json!({"item": 0, "text": "so", "reasoning": "a plan\nfor it", "complete": true, "usage": null});
        let delta = json!({"item": 0, "offset": 0, "text": "a plan\nfor"});
        let ended = || json!({"stopReason": "end", "text": "", "usage": null});
        for _ in 0..2 {
            assert_eq!(
                vec!["  ~ a plan"],
                take("reasoningDelta", delta.clone(), false)
            );
            assert_eq!(
                vec!["  ~ for it"],
                take("assistantMessage", message(), false)
            );
            assert_eq!(0, take("turnFinished", ended(), false).len());
        }
        assert_eq!(
            vec!["  ~ a plan", "  ~ for it"],
            take("assistantMessage", message(), false)
        );
        take("turnFinished", ended(), false);
        assert_eq!(0, take("assistantMessage", message(), true).len());
    }
}
