//! Identities and positions. Each is a type of its own, so that they do not mix.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::Ulid;

macro_rules! ulid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(#[schemars(with = "String")] pub Ulid);

        impl $name {
            /// The 16 bytes of the ULID, in its sorting order.
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_bytes()
            }

            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Ulid::from_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ulid::DecodeError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let ulid = Ulid::from_string(text)?;
                // 26 characters hold 130 bits, and the two that are too many must not be lost in silence.
                if text.as_bytes().first() > Some(&b'7') {
                    return Err(ulid::DecodeError::InvalidChar);
                }
                Ok(Self(ulid))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(D::Error::custom)
            }
        }
    };
}

ulid_id! {
    /// What clients attach to.
    ConversationId
}
ulid_id! {
    /// From a send to the final answer.
    TurnId
}
ulid_id! {
    /// One connection of one program, given by the daemon at `daemon/hello`.
    ClientId
}
ulid_id! {
    /// One `conversation/attach` of one connection.
    SubscriptionId
}
ulid_id! {
    /// Input that was sent ahead in pieces by `blob/put`.
    BlobId
}
ulid_id! {
    /// One question to a person.
    ConfirmId
}
ulid_id! {
    /// A tool's result that is kept whole beside the log's shorter form of it.
    ResultId
}
ulid_id! {
    /// What one command changed in a copy of the files, and what became of that.
    ChangesId
}
ulid_id! {
    /// One life of the store: it changes when the store was replaced or lost events, and a cursor
    /// of another epoch means nothing.
    Epoch
}

/// Position in the log of one conversation: 1, 2, 3, … without gaps. 0 is before the first.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A command in the background, numbered from 1 in its conversation and written `job-1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema)]
pub struct JobId(#[schemars(with = "String")] pub u32);

const JOB: &str = "job-";

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{JOB}{}", self.0)
    }
}

impl FromStr for JobId {
    type Err = JobIdError;

    /// Also without its `job-`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.strip_prefix(JOB).unwrap_or(text);
        number.parse().map(Self).map_err(|_| JobIdError)
    }
}

/// It is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobIdError;

impl fmt::Display for JobIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "jobs are called {JOB}1, {JOB}2 and so on")
    }
}

impl std::error::Error for JobIdError {}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        into.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_too_large_is_refused_and_not_cut() {
        let check = |text: &str, expected: bool| {
            let read = serde_json::from_value::<ConversationId>(text.into()).ok();
            assert_eq!(expected, read.is_some(), "{text}");
            assert_eq!(read, text.parse().ok());
        };
        check("7ZZZZZZZZZZZZZZZZZZZZZZZZZ", true);
        check("8ZZZZZZZZZZZZZZZZZZZZZZZZZ", false);
        check("zzzzzzzzzzzzzzzzzzzzzzzzzz", false);
        check("", false);
    }

    #[test]
    fn a_job_is_written_with_its_word_and_read_without_it_too() {
        assert_eq!("job-12", JobId(12).to_string());
        let check = |text: &str, expected: Option<u32>| {
            let read = serde_json::from_value::<JobId>(text.into()).ok();
            assert_eq!(expected.map(JobId), read, "{text}");
        };
        check("job-12", Some(12));
        check("12", Some(12));
        check("job-", None);
        check("job--1", None);
        check("job-4294967296", None);
    }
}
