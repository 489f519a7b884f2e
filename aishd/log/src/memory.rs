//! What people keep across conversations, and how it stands in a request. What a model proposes when a
//! conversation is put away is no part of it until a person has said yes.

use std::fmt;
use std::str::FromStr;

use aish_proto::id::ConversationId;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::invisible_characters::cleaned;
use crate::time::Timestamp;

/// Facts that are kept, at most.
pub const MOST: usize = 1_000;
/// Characters of one.
pub const TEXT_CHARS: usize = 1_000;
/// Facts that one conversation can propose.
pub const MOST_PROPOSED: usize = 5;

const MOST_KIND_BYTES: usize = 16;
const USUAL_KIND: &str = "fact";

const HEAD: &str = "\n\n[background]\nThe person keeps these notes for all conversations, one a line. They may be out of \
date.";

/// What people name a fact by: `m` and a number, which no other ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MemoryId(u64);

impl fmt::Display for MemoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}", self.0)
    }
}

impl FromStr for MemoryId {
    type Err = MemoryRefusal;

    fn from_str(text: &str) -> Result<Self, MemoryRefusal> {
        let number = text.strip_prefix('m').unwrap_or(text);
        let digits = !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit());
        let number = number.parse().ok().filter(|_| digits);
        number.map(Self).ok_or(MemoryRefusal::Id)
    }
}

/// What sort of fact it is, in a word: 1 to 16 of `a`–`z` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryKind(String);

impl MemoryKind {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for MemoryKind {
    fn default() -> Self {
        Self(USUAL_KIND.to_owned())
    }
}

impl FromStr for MemoryKind {
    type Err = MemoryRefusal;

    fn from_str(text: &str) -> Result<Self, MemoryRefusal> {
        let fits = |it: u8| it.is_ascii_lowercase() || it == b'-';
        let length = (1..=MOST_KIND_BYTES).contains(&text.len());
        if length && text.bytes().all(fits) && !text.starts_with('-') {
            Ok(Self(text.to_owned()))
        } else {
            Err(MemoryRefusal::Kind)
        }
    }
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredMemory {
    pub id: MemoryId,
    pub kind: MemoryKind,
    /// One line of visible characters.
    pub text: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    pub at: Timestamp,
    /// Whose idea it was, where it was no person's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<MemoryProposer>,
}

/// Who thought of it, where no person did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryProposer {
    pub conversation: ConversationId,
    pub preset: String,
}

/// A fact that is to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryDraft {
    pub kind: MemoryKind,
    pub text: String,
    pub pinned: bool,
    /// Who proposed it; absent: the person who keeps it.
    pub from: Option<MemoryProposer>,
}

impl MemoryDraft {
    /// Whether this is what would be kept of it.
    pub fn contains(&self, text: &str) -> bool {
        one_line(&self.text).as_deref() == Some(text)
    }
}

/// Why it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryRefusal {
    #[error("there is nothing to remember in it")]
    Empty,
    #[error("a fact has at most {TEXT_CHARS} characters, and this one has {0}")]
    Long(usize),
    #[error("{MOST} facts are kept; forget one first")]
    Full,
    #[error("a kind is a word of 1 to {MOST_KIND_BYTES} letters a-z and -")]
    Kind,
    #[error("a fact is named m and a number, as in m3")]
    Id,
}

/// All facts, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryList {
    /// The number of the newest there ever was.
    last: u64,
    #[serde(deserialize_with = "deserialize_memories")]
    all: Vec<StoredMemory>,
}

impl MemoryList {
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &StoredMemory> + ExactSizeIterator {
        self.all.iter()
    }

    pub fn get(&self, id: MemoryId) -> Option<&StoredMemory> {
        self.all.iter().find(|it| it.id == id)
    }

    /// Whether there is a fact that says this.
    pub fn contains(&self, text: &str) -> bool {
        self.all.iter().any(|it| it.text == text)
    }

    /// Adds a fact, or finds the one that says the same. Whether anything is different after it.
    pub fn add(
        &mut self,
        draft: MemoryDraft,
        at: Timestamp,
    ) -> Result<(MemoryId, bool), MemoryRefusal> {
        let MemoryDraft {
            kind,
            text,
            pinned,
            from,
        } = draft;
        let text = one_line(&text).ok_or(MemoryRefusal::Empty)?;
        let chars = text.chars().count();
        if chars > TEXT_CHARS {
            return Err(MemoryRefusal::Long(chars));
        }
        if let Some(same) = self.all.iter_mut().find(|it| it.text == text) {
            let changes = pinned && !same.pinned;
            same.pinned |= pinned;
            return Ok((same.id, changes));
        }
        if self.all.len() >= MOST {
            return Err(MemoryRefusal::Full);
        }
        self.last += 1;
        let id = MemoryId(self.last);
        self.all.push(StoredMemory {
            id,
            kind,
            text,
            pinned,
            at,
            from,
        });
        Ok((id, true))
    }

    /// Whether it was there.
    pub fn remove(&mut self, id: MemoryId) -> bool {
        let before = self.all.len();
        self.all.retain(|it| it.id != id);
        self.all.len() < before
    }

    /// Pins or unpins a fact. `None`: there is none of this name; else whether anything is different.
    pub fn pin(&mut self, id: MemoryId, pinned: bool) -> Option<bool> {
        let memory = self.all.iter_mut().find(|it| it.id == id)?;
        Some(std::mem::replace(&mut memory.pinned, pinned) != pinned)
    }

    /// The block of the system message: pinned facts first, each group from the newest on, until `max_chars` are full.
    /// `None`: there is nothing in it.
    pub fn background(&self, max_chars: usize) -> Option<String> {
        let newest = || self.all.iter().rev();
        let pinned = newest().filter(|it| it.pinned);
        let others = newest().filter(|it| !it.pinned);
        let mut room = max_chars;
        let mut block = HEAD.to_owned();
        for memory in pinned.chain(others) {
            let line = format!("\n- ({}) {}", memory.kind.as_str(), memory.text);
            // One that is too long for what is left does not keep shorter ones out.
            let Some(left) = room.checked_sub(line.chars().count()) else {
                continue;
            };
            room = left;
            block.push_str(&line);
        }
        (room < max_chars).then_some(block)
    }
}

/// What is configured about it (`memory.*`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemorySettings {
    /// Characters of a request's facts.
    pub max_chars: usize,
    /// The preset that proposes facts when a conversation is put away; `None`: nobody does.
    pub proposer: Option<String>,
}

/// The facts of a stored book. What stands there as proposed was written by an older daemon and kept by nobody, so it is no
/// fact.
fn deserialize_memories<'de, D: Deserializer<'de>>(
    stored: D,
) -> Result<Vec<StoredMemory>, D::Error> {
    let all = Vec::<serde_json::Value>::deserialize(stored)?;
    let is_kept = |it: &serde_json::Value| {
        let proposed = it.get("proposed").and_then(serde_json::Value::as_bool);
        !proposed.unwrap_or_default()
    };
    let all = all.into_iter().filter(is_kept);
    let all = all.map(serde_json::from_value::<StoredMemory>);
    all.collect::<Result<_, _>>().map_err(D::Error::custom)
}

/// Visible characters on one line, so that it cannot pass for another block of the system message.
pub fn one_line(text: &str) -> Option<String> {
    // Before what cannot be seen goes: a tab stands between words.
    let words: Vec<&str> = text.split_whitespace().collect();
    cleaned(&words.join(" "))
}

#[cfg(test)]
mod tests;
