//! Exchanges that left the context, as the log has them.

use std::fmt;

use aish_proto::id::{Seq, TurnId};
use serde::{Deserialize, Serialize};

/// An exchange that left the context, so that it is found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftExchange {
    /// The turn of its question.
    pub turn: TurnId,
    /// Reading it begins with this record: its question, or what started its turn.
    pub begin: Seq,
    /// The records of its first and last message.
    pub first: Seq,
    pub last: Seq,
    /// About what it took in a request.
    #[serde(default)]
    pub bytes: u64,
}

impl LeftExchange {
    /// Whether a message of it came with this record.
    pub fn holds(&self, at: Seq) -> bool {
        self.first <= at && at <= self.last
    }
}

/// Exchanges that left the context together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eviction {
    /// The last message that left.
    pub through: Seq,
    /// The first message that stays: whatever a reader finds before it is none. `None`: it is behind `through`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Seq>,
    /// Reading what stays begins with this record. `None`: behind `through`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Seq>,
    /// Exchanges that left with it.
    #[serde(default)]
    pub count: u64,
    /// Those of them that had not left before, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exchanges: Vec<LeftExchange>,
    /// The eviction before it that has such a list; 0: there is none. So the archive is found without the log.
    #[serde(default)]
    pub previous: Seq,
}

impl Eviction {
    /// Whether a message that came with this record stays.
    pub fn spares(&self, at: Seq) -> bool {
        match self.before {
            Some(before) => at >= before,
            None => at > self.through,
        }
    }
}

/// An exchange that left, as people name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictedExchange {
    /// By a turn that is in it.
    Turn(TurnId),
    /// By an event of it.
    Event(Seq),
}

impl fmt::Display for EvictedExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn(turn) => write!(f, "turn {turn}"),
            Self::Event(seq) => write!(f, "event {seq}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of evictions from before there were lists of what left.
    #[test]
    fn an_old_eviction_loads() {
        let old: Eviction = serde_json::from_str(r#"{"through":7,"later":1}"#).unwrap();
        let expected = Eviction {
            through: Seq(7),
            ..Eviction::default()
        };
        assert_eq!(expected, old);
    }
}
