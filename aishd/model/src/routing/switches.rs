//! Switches that people throw while the daemon runs. They lie over the whole configuration, hold for every conversation, and
//! stay as they are until somebody takes them back.

use aishd_log::answering_person::AnsweringPerson;
use aishd_log::routed::RoutedSide;
use aishd_log::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::Routing;

/// What somebody said last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingSwitch {
    pub on: bool,
    pub by: AnsweringPerson,
    pub at: Timestamp,
}

/// Both; `None`: what is configured counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingSwitches {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<RoutingSwitch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<RoutingSwitch>,
}

impl RoutingSwitches {
    pub fn get(&self, which: RoutedSide) -> Option<&RoutingSwitch> {
        match which {
            RoutedSide::Route => self.route.as_ref(),
            RoutedSide::Fallback => self.fallback.as_ref(),
        }
    }

    pub fn set(&mut self, which: RoutedSide, switch: Option<RoutingSwitch>) {
        match which {
            RoutedSide::Route => self.route = switch,
            RoutedSide::Fallback => self.fallback = switch,
        }
    }

    /// Whether it is on, all told.
    pub fn is_on(&self, which: RoutedSide, configured: &Routing) -> bool {
        let configured = match which {
            RoutedSide::Route => configured.auto,
            RoutedSide::Fallback => configured.fallback,
        };
        self.get(which).map_or(configured, |it| it.on)
    }
}
