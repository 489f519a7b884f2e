//! Which preset answers a question: a class by the look of the text, and the preset that is written
//! beside that class. Nothing is asked of a network, and nothing is a model's opinion.

mod classify;
mod path;
mod switches;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use aishd_log::routed::{ClassRule, QuestionClass};
pub use classify::classify;
use serde::{Deserialize, Serialize};
pub use switches::{RoutingSwitch, RoutingSwitches};

/// The class of a text, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classified {
    pub class: QuestionClass,
    pub rule: ClassRule,
}

/// What is configured of routing and of fallback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// Whether questions are routed, when no switch says otherwise.
    pub auto: bool,
    /// Classes that have a preset; the others keep the active one.
    pub classes: BTreeMap<QuestionClass, String>,
    /// Whether a request that failed may go to `fallback_model`, when no switch says otherwise.
    pub fallback: bool,
    pub fallback_model: String,
    /// The preset that gives conversations their titles.
    pub title_model: Option<String>,
}

/// Which preset a class means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meant {
    /// The class has none: the active preset stays.
    Active,
    Preset(String),
    /// One that is not there: the active preset stays, and somebody should know.
    Unknown(String),
}

impl Routing {
    /// The preset for a class, where `is_known` tells which presets there are.
    pub fn resolve(&self, class: QuestionClass, is_known: impl Fn(&str) -> bool) -> Meant {
        match self.classes.get(&class) {
            None => Meant::Active,
            Some(name) if is_known(name) => Meant::Preset(name.clone()),
            Some(name) => Meant::Unknown(name.clone()),
        }
    }
}
