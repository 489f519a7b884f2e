//! One document with the conversation and every stored event of it, one a line.

use aish_proto::conversation::ConversationStatus;
use aish_proto::envelope::Envelope;
use aish_proto::id::Seq;

/// The number of this form; a change that a reader would notice makes another one.
const VERSION: u32 = 1;

#[derive(Debug)]
pub(super) struct JsonExport {
    conversation: String,
    begun: bool,
    events: u64,
}

impl JsonExport {
    pub(super) fn new(of: &ConversationStatus) -> Self {
        Self {
            conversation: serde_json::to_string(of).unwrap_or_default(),
            begun: false,
            events: 0,
        }
    }

    pub(super) fn page(&mut self, through: Seq, events: &[Envelope]) -> String {
        let mut text = String::new();
        if !std::mem::replace(&mut self.begun, true) {
            let conversation = &self.conversation;
            text.push_str(&format!(
                "{{\"v\":{VERSION},\"kind\":\"aish.conversation\",\"through\":{through},\"conversation\":{conversation},\"events\":["
            ));
        }
        for event in events {
            text.push_str(if self.events == 0 { "\n" } else { ",\n" });
            text.push_str(&serde_json::to_string(event).unwrap_or_default());
            self.events += 1;
        }
        text
    }

    pub(super) fn end(&mut self) -> String {
        "\n]}\n".to_owned()
    }
}
