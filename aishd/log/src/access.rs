//! What a tool may do to the world, in three steps.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A level of permission; each holds the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// What every provider has unless a person gave it more.
    #[default]
    Read,
    Write,
    Execute,
}

impl Access {
    pub fn number(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Write => 2,
            Self::Execute => 3,
        }
    }

    /// 1, 2 or 3; there are no others.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Read),
            2 => Some(Self::Write),
            3 => Some(Self::Execute),
            0 | 4.. => None,
        }
    }

    /// What a server says of its own tool. Not saying is no harmlessness, and not even `reads_only`
    /// makes a call run unasked.
    pub fn from_hints(reads_only: Option<bool>, destructive: Option<bool>) -> Self {
        match (reads_only, destructive) {
            (Some(true), Some(false) | None) => Self::Read,
            (Some(false) | None, Some(false)) => Self::Write,
            (Some(_) | None, Some(true)) | (Some(false) | None, None) => Self::Execute,
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
        })
    }
}

impl Serialize for Access {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u8(self.number())
    }
}

impl<'de> Deserialize<'de> for Access {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = u8::deserialize(from)?;
        Self::from_number(number)
            .ok_or_else(|| serde::de::Error::custom(format!("there is no level {number}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_of_a_server_counts_as_the_worst() {
        for (reads_only, destructive, expected) in [
            (None, None, 3),
            (Some(true), None, 1),
            (Some(true), Some(false), 1),
            (Some(true), Some(true), 3),
            (Some(false), None, 3),
            (Some(false), Some(false), 2),
            (None, Some(false), 2),
            (None, Some(true), 3),
        ] {
            let access = Access::from_hints(reads_only, destructive);
            assert_eq!(expected, access.number(), "{reads_only:?} {destructive:?}");
        }
    }

    #[test]
    fn there_are_three_levels_and_no_others() {
        let known: Vec<u8> = (0..=255)
            .filter(|it| Access::from_number(*it).is_some())
            .collect();
        assert_eq!(vec![1, 2, 3], known);
        assert!(serde_json::from_str::<Access>("4").is_err());
        assert_eq!("2", serde_json::to_string(&Access::Write).unwrap());
    }
}
