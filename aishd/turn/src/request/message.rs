//! A message as it stands in a request. The texts of a long conversation are megabytes, so that they are written without a
//! detour; what is small is left to `serde_json`.

use std::borrow::Cow;

use aishd_log::tool_call::ToolCall;
use aishd_log::tool_name::on_the_wire;
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::escape::quote;

/// One message on its way out; `text` is joined from several where roles would stand side by side.
#[derive(Debug)]
pub(super) enum OutgoingMessage<'a> {
    System(&'a str),
    User(SharedText<'a>),
    Assistant {
        text: SharedText<'a>,
        calls: &'a [ToolCall],
        /// Present when the model that wrote it is the one asked.
        extra: Option<&'a Map<String, Value>>,
    },
    Tool {
        call: &'a str,
        content: &'a str,
    },
}

/// A text that is only copied when something is joined to it.
pub(super) type SharedText<'a> = Cow<'a, str>;

impl OutgoingMessage<'_> {
    /// About what it takes, escapes apart.
    pub(super) fn room(&self) -> usize {
        const AROUND: usize = 64;
        let text = match self {
            Self::System(text) => text.len(),
            Self::User(text) => text.len(),
            Self::Assistant { text, calls, .. } => {
                let arguments = calls.iter().map(|it| AROUND + it.arguments.len());
                text.len() + arguments.sum::<usize>()
            }
            Self::Tool { content, .. } => content.len(),
        };
        AROUND + text
    }

    pub(super) fn add_to(&self, to: &mut String) {
        match self {
            Self::System(text) => push_message("system", text, to),
            Self::User(text) => push_message("user", text, to),
            Self::Assistant { text, calls, extra } => {
                push_message("assistant", text, to);
                if !calls.is_empty() {
                    field("tool_calls", &MessageCalls(calls, extra.is_some()), to);
                }
                for (name, value) in extra.iter().copied().flatten() {
                    field(name, value, to);
                }
            }
            Self::Tool { call, content } => {
                to.push_str("{\"role\":\"tool\"");
                field("tool_call_id", call, to);
                to.push_str(",\"content\":");
                quote(content, to);
            }
        }
        to.push('}');
    }
}

fn push_message(role: &str, content: &str, to: &mut String) {
    to.push_str("{\"role\":\"");
    to.push_str(role);
    to.push_str("\",\"content\":");
    quote(content, to);
}

fn field(name: &str, value: &impl Serialize, to: &mut String) {
    to.push(',');
    quote(name, to);
    to.push(':');
    add(to, value);
}

/// What has no key that is not a text cannot fail.
pub(super) fn add(to: &mut String, value: &impl Serialize) {
    to.push_str(&serde_json::to_string(value).unwrap_or_default());
}

/// The calls of one message, and whether their own unknown fields go along.
struct MessageCalls<'a>(&'a [ToolCall], bool);

impl Serialize for MessageCalls<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut seq = to.serialize_seq(Some(self.0.len()))?;
        for call in self.0 {
            seq.serialize_element(&OneCall(call, self.1))?;
        }
        seq.end()
    }
}

struct OneCall<'a>(&'a ToolCall, bool);

impl Serialize for OneCall<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(call, with_extra) = self;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("id", &call.id)?;
        map.serialize_entry("type", "function")?;
        let function = serde_json::json!({
            "name": on_the_wire(&call.name),
            "arguments": call.arguments,
        });
        map.serialize_entry("function", &function)?;
        if *with_extra {
            for (name, value) in &call.extra {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}
