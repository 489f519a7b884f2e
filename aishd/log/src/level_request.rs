//! A level that somebody wants for a provider, as a person is asked about it. A yes raises the level and is consent to no call.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::access::Access;
use crate::tool::ContentDigest;
use crate::tool_name::Alias;

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

pub fn upgrade_required(provider: &Alias, has: Access, needs: Access) -> String {
    format!(
        "Permission upgrade required for {provider}: level {} → {}",
        has.number(),
        needs.number()
    )
}
