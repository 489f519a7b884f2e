//! Identities and positions. Each is a type of its own, so that they do not mix.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
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
}
