//! Tool calls out of their fragments. Servers differ in how they say which call a fragment belongs to;
//! whatever they say, a call that does not hold one JSON object as arguments comes out marked as broken.

use std::fmt;

use aishd_log::tool_call::ToolCall;
use serde_json::{Map, Value};

/// Caps of one reply.
pub const MAX_CALLS: usize = 64;
pub const MAX_ARGUMENTS_BYTES: usize = 256 * 1024;
/// What is kept of fields that we do not know, per reply.
pub const MAX_EXTRA_BYTES: usize = 256 * 1024;
/// Longer ids and names are no server's; they are replaced or cut.
const MAX_ID_BYTES: usize = 256;
const MAX_NAME_CHARS: usize = 128;

/// One entry of a delta's `tool_calls`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallFragment {
    pub index: Option<u64>,
    pub id: Option<String>,
    pub name: Option<String>,
    /// As text; an object that came in place of text is already serialised.
    pub arguments: String,
    pub extra: Map<String, Value>,
}

/// The calls of one reply while it streams.
#[derive(Debug, Default)]
pub struct Assembler {
    slots: Vec<CallSlot>,
    last: Option<usize>,
    without_index: bool,
    extra_bytes: usize,
}

/// Why a stream has to be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamExcess {
    Calls,
    Index,
    Arguments,
}

/// Whether the stream said that it was finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnding {
    Complete,
    /// What arrived is kept, and no call of it may run: `{}` may be the start of something else.
    Broken,
}

#[derive(Debug, Default)]
struct CallSlot {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    extra: Map<String, Value>,
}

impl fmt::Display for StreamExcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calls => write!(f, "more than {MAX_CALLS} tool calls in one answer"),
            Self::Index => write!(f, "a tool call with an index of {MAX_CALLS} or more"),
            Self::Arguments => write!(
                f,
                "arguments of a tool call larger than {} KiB",
                MAX_ARGUMENTS_BYTES / 1024
            ),
        }
    }
}

impl Assembler {
    /// Takes the entries of one delta in order; `placed` learns where each piece of arguments went:
    /// the call's number, its name so far, the piece.
    pub fn push(
        &mut self,
        fragments: Vec<CallFragment>,
        mut placed: impl FnMut(u32, &str, &str),
    ) -> Result<(), StreamExcess> {
        let several = fragments.len() > 1;
        for (position, fragment) in fragments.into_iter().enumerate() {
            let number = self.place(&fragment, several.then_some(position))?;
            self.last = Some(number);
            let Some(slot) = self.slots.get_mut(number) else {
                continue;
            };
            if slot.id.is_empty() {
                slot.id = fragment.id.unwrap_or_default();
            }
            if slot.name.is_empty() {
                slot.name = fragment.name.unwrap_or_default();
            }
            merge(&mut slot.extra, fragment.extra, &mut self.extra_bytes);
            if fragment.arguments.is_empty() {
                continue;
            }
            if slot.arguments.len() + fragment.arguments.len() > MAX_ARGUMENTS_BYTES {
                return Err(StreamExcess::Arguments);
            }
            slot.arguments.push_str(&fragment.arguments);
            placed(
                u32::try_from(number).unwrap_or(u32::MAX),
                &slot.name,
                &fragment.arguments,
            );
        }
        Ok(())
    }

    /// How many calls were opened.
    #[expect(clippy::len_without_is_empty, reason = "`any` says it")]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether any call was opened.
    pub fn any(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Whether any fragment came without an index, so that its place was worked out from less.
    pub fn without_index(&self) -> bool {
        self.without_index
    }

    /// The calls in the order in which they were opened. `make_id` serves those whose server gave no usable id.
    pub fn finish(
        self,
        ending: StreamEnding,
        mut make_id: impl FnMut() -> String,
    ) -> Vec<ToolCall> {
        let mut calls: Vec<ToolCall> = Vec::with_capacity(self.slots.len());
        for slot in self.slots {
            let given = !slot.id.is_empty()
                && slot.id.len() <= MAX_ID_BYTES
                && calls.iter().all(|call| call.id != slot.id);
            let id = if given { slot.id } else { make_id() };
            let (arguments, mut broken) = checked(slot.arguments);
            let mut name: String = slot.name.chars().take(MAX_NAME_CHARS).collect();
            if name.is_empty() {
                // A name has to go back to the server in the history, and an empty one is refused.
                "unnamed".clone_into(&mut name);
                broken.get_or_insert_with(|| "the call has no name".to_owned());
            }
            match ending {
                StreamEnding::Complete => {}
                StreamEnding::Broken => broken = Some("the answer broke off".to_owned()),
            }
            calls.push(ToolCall {
                id,
                name,
                arguments,
                broken,
                extra: slot.extra,
            });
        }
        calls
    }

    /// The number of the slot that the fragment belongs to, opened if need be.
    fn place(
        &mut self,
        fragment: &CallFragment,
        position: Option<usize>,
    ) -> Result<usize, StreamExcess> {
        let id = fragment.id.as_deref().filter(|id| !id.is_empty());
        let found = match (fragment.index, id, position) {
            (Some(index), _, _) if index >= MAX_CALLS as u64 => return Err(StreamExcess::Index),
            (Some(index), Some(id), _) => self
                .newest(|slot| slot.index == Some(index) && (slot.id == id || slot.id.is_empty())),
            (Some(index), None, _) => self.newest(|slot| slot.index == Some(index)),
            (None, Some(id), _) => self.newest(|slot| slot.id == id),
            (None, None, Some(position)) => Some(position).filter(|at| *at < self.slots.len()),
            (None, None, None) => self.last,
        };
        self.without_index |= fragment.index.is_none();
        if let Some(number) = found {
            return Ok(number);
        }
        if self.slots.len() == MAX_CALLS {
            return Err(StreamExcess::Calls);
        }
        self.slots.push(CallSlot {
            index: fragment.index,
            ..CallSlot::default()
        });
        Ok(self.slots.len() - 1)
    }

    fn newest(&self, wanted: impl Fn(&CallSlot) -> bool) -> Option<usize> {
        self.slots.iter().rposition(wanted)
    }
}

/// Adds fields that we do not know to those that came before: text and lists go on, other values are replaced.
/// What would exceed [`MAX_EXTRA_BYTES`] in one reply is left out.
pub fn merge(into: &mut Map<String, Value>, from: Map<String, Value>, bytes: &mut usize) {
    for (name, value) in from {
        if value.is_null() {
            continue;
        }
        *bytes = bytes.saturating_add(name.len() + value.to_string().len());
        if *bytes > MAX_EXTRA_BYTES {
            return;
        }
        match (into.get_mut(&name), value) {
            (Some(Value::String(text)), Value::String(more)) => text.push_str(&more),
            (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
            (_, value) => {
                into.insert(name, value);
            }
        }
    }
}

/// Arguments that may go back to the server, and why the call must not run if they are not what came.
fn checked(arguments: String) -> (String, Option<String>) {
    let empty = || "{}".to_owned();
    if arguments.trim().is_empty() {
        return (empty(), None);
    }
    match serde_json::from_str::<Value>(&arguments) {
        Ok(Value::Object(_)) => (arguments, None),
        Ok(
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_),
        ) => (
            empty(),
            Some("the arguments are JSON, but no object".to_owned()),
        ),
        Err(error) => (
            empty(),
            Some(format!("the arguments are not one JSON object: {error}")),
        ),
    }
}

#[cfg(test)]
mod tests;
