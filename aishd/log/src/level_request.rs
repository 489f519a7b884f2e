//! A level that somebody wants for a provider, as a person is asked about it. A yes raises the level and is consent to no call.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

use aish_proto::id::{ConfirmId, Seq};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::access::Access;
use crate::confirm::{AnsweringPerson, ConfirmFate, Decision, Resolution};
use crate::time::Timestamp;
use crate::tool::ContentDigest;
use crate::tool_name::{Alias, ToolName};

/// What a person may answer.
pub const OPTIONS: [Decision; 2] = [Decision::RaiseOnly, Decision::Deny];

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelRequest {
    pub id: ConfirmId,
    /// One row of numbers with the conversation's other confirms.
    pub number: u32,
    pub upgrade: LevelStep,
    /// The tool that somebody wanted to call. `None`: the level itself was asked for.
    #[serde(
        rename = "wanted_for",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub wanted_for: Option<ToolName>,
    /// Who asked.
    pub by: AnsweringPerson,
    /// Silence is a no from then on. `None`: while nobody is attached, a day of it is.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
}

/// The level that a provider had when it was asked for, and the one that it would get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelStep {
    pub provider: Alias,
    pub from: Access,
    pub to: Access,
}

/// What a yes does at the moment when it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantOnYes {
    Raises {
        from: Access,
    },
    /// The provider got there in another way.
    AlreadyThere,
    /// It was bounded since; nothing is raised, not even as far as it may be.
    AboveMaximum,
}

impl LevelStep {
    /// What an answer is bound to.
    pub fn digest(&self) -> ContentDigest {
        ContentDigest::of_value(&json!({
            "permission": self.provider.as_str(),
            "from": self.from.number(),
            "to": self.to.number(),
        }))
    }

    /// For people.
    pub fn why(&self) -> String {
        upgrade_required(&self.provider, self.from, self.to)
    }

    pub fn granted(&self, has: Access, max: Access) -> GrantOnYes {
        if self.to > max {
            GrantOnYes::AboveMaximum
        } else if self.to <= has {
            GrantOnYes::AlreadyThere
        } else {
            GrantOnYes::Raises { from: has }
        }
    }
}

/// One that waits; the whole of it is in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRaise {
    pub id: ConfirmId,
    pub seq: Seq,
    pub requested_at: Timestamp,
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    pub upgrade: LevelStep,
}

impl OpenRaise {
    /// Whether it has an end of its own, and that has come.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|it| it <= now)
    }

    /// How it ends without an answer.
    pub fn unanswered(&self, fate: ConfirmFate, now: Timestamp) -> Resolution {
        Resolution::unanswered(self.id, fate, self.waited_ms(now))
    }

    pub fn waited_ms(&self, now: Timestamp) -> Option<u64> {
        u64::try_from(now.0.saturating_sub(self.requested_at.0)).ok()
    }
}

pub fn upgrade_required(provider: &Alias, has: Access, needs: Access) -> String {
    format!(
        "Permission upgrade required for {provider}: level {} → {}",
        has.number(),
        needs.number()
    )
}
