//! Lines for fine-tuning and retrieval: each is one exchange, `{"messages": [...]}` with a question and all that followed
//! on it, so that a line is an example by itself and a file of any length is read line by line.

use aish_proto::transfer::{ChatContent, ChatMessage, ChatRole, ExportedMessage};
use serde::Serialize;

/// A line that is longer ends where no call waits for its result, and the exchange goes on in the next one.
const LINE_BYTES: usize = 8 << 20;

#[derive(Debug, Default)]
pub(super) struct JsonLinesExport {
    open: Vec<ChatMessage>,
    bytes: usize,
    /// Results that are still to come.
    owed: usize,
}

#[derive(Serialize)]
struct JsonExportLine<'a> {
    messages: &'a [ChatMessage],
}

impl JsonLinesExport {
    pub(super) fn page(&mut self, messages: Vec<ExportedMessage>) -> String {
        let mut text = String::new();
        for ExportedMessage {
            exchange: _,
            begins,
            message,
        } in messages
        {
            if begins || (self.bytes > LINE_BYTES && self.owed == 0) {
                text.push_str(&self.end());
            }
            match message.role {
                ChatRole::Assistant => self.owed += message.tool_calls.len(),
                ChatRole::Tool => self.owed = self.owed.saturating_sub(1),
                ChatRole::User => {}
            }
            self.bytes += message.content.as_ref().map_or(0, ChatContent::bytes);
            self.open.push(message);
        }
        text
    }

    pub(super) fn end(&mut self) -> String {
        (self.bytes, self.owed) = (0, 0);
        let messages = std::mem::take(&mut self.open);
        if messages.is_empty() {
            return String::new();
        }
        let messages = &messages;
        serde_json::to_string(&JsonExportLine { messages }).unwrap_or_default() + "\n"
    }
}
