//! What the two sides tell each other before anything else.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The protocol this build speaks.
pub const PROTOCOL: u32 = 2;

/// The form of the event envelope, its field `v`.
pub const EVENT_SCHEMA: u32 = 1;

/// The program version, for people; compatibility is decided by [`PROTOCOL`] alone.
pub const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// The protocols that one side can speak, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProtocolRange {
    pub min: u32,
    pub max: u32,
}

impl ProtocolRange {
    pub const OURS: Self = Self {
        min: PROTOCOL,
        max: PROTOCOL,
    };

    /// For who writes calls by hand: what a frame looks like is known to the writer.
    pub const ANY: Self = Self {
        min: 1,
        max: PROTOCOL,
    };

    /// The newest protocol that both sides speak.
    pub fn common(self, other: Self) -> Option<u32> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }
}

/// For people: `protocol 2`, `protocols 1 to 3`.
impl fmt::Display for ProtocolRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            write!(f, "protocol {}", self.max)
        } else {
            write!(f, "protocols {} to {}", self.min, self.max)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ours: (u32, u32), theirs: (u32, u32), expected: Option<u32>) {
        let range = |(min, max)| ProtocolRange { min, max };
        assert_eq!(expected, range(ours).common(range(theirs)));
        assert_eq!(expected, range(theirs).common(range(ours)));
    }

    #[test]
    fn the_newest_common_protocol_is_chosen() {
        check((1, 1), (1, 1), Some(1));
        check((1, 3), (2, 5), Some(3));
        check((1, 2), (3, 4), None);
    }
}
