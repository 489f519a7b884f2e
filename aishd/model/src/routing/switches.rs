//! Switches that people throw while the daemon runs. They lie over the whole configuration, hold for every conversation, and
//! stay as they are until somebody takes them back.

use aishd_log::routed::Which;
use serde::{Deserialize, Serialize};

use super::Routing;
use aishd_log::confirm::Person;
use aishd_log::time::At;

/// What somebody said last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    pub on: bool,
    pub by: Person,
    pub at: At,
}

/// Both; `None`: what is configured counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switches {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Switch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Switch>,
}

impl Switches {
    pub fn get(&self, which: Which) -> Option<&Switch> {
        match which {
            Which::Route => self.route.as_ref(),
            Which::Fallback => self.fallback.as_ref(),
        }
    }

    pub fn set(&mut self, which: Which, switch: Option<Switch>) {
        match which {
            Which::Route => self.route = switch,
            Which::Fallback => self.fallback = switch,
        }
    }

    /// Whether it is on, all told.
    pub fn is_on(&self, which: Which, configured: &Routing) -> bool {
        let configured = match which {
            Which::Route => configured.auto,
            Which::Fallback => configured.fallback,
        };
        self.get(which).map_or(configured, |it| it.on)
    }
}
