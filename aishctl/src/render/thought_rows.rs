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
    /// The rows that an event adds.
    pub(crate) fn take(&mut self, event: &ClientEvent) -> Vec<String> {
        let mut rows = vec![];
        match &event.data {
            Event::ReasoningDelta(delta) => {
                if delta.item != self.item {
                    self.end(&mut rows);
                    (self.item, self.seen) = (delta.item, 0);
                }
                // What came before may come again after a reconnect.
                let known = self.seen.saturating_sub(delta.offset);
                let known = usize::try_from(known).unwrap_or(usize::MAX);
                let end = delta.offset + delta.text.len() as u64;
                self.seen = self.seen.max(end);
                for piece in delta
                    .text
                    .get(known..)
                    .unwrap_or_default()
                    .split_inclusive('\n')
                {
                    self.open.push_str(piece.trim_end_matches('\n'));
                    if piece.ends_with('\n') {
                        self.end(&mut rows);
                    }
                }
            }
            Event::TextDelta(_)
            | Event::ToolArgumentsDelta(_)
            | Event::AssistantMessage(_)
            | Event::TurnFinished(_) => self.end(&mut rows),
            _ => {}
        }
        rows
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
    use serde_json::json;

    use super::*;
    use crate::test_daemon;

    #[test]
    fn lines_come_whole_and_once() {
        let mut thoughts = ThoughtRows::default();
        let mut take = |kind: &str, item: u32, offset: u64, text: &str| {
            let data = json!({"item": item, "offset": offset, "text": text});
            let event = test_daemon::event(test_daemon::envelope(None, kind, data));
            thoughts.take(&event)
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
}
