//! The presets that are configured, and what is configured about all requests.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use aishd_log::memory::MemorySettings;
use aishd_log::spending::NanoUsd;

use crate::context_budget::ContextSettings;
use crate::norris_settings;
use crate::preset::{DEMO, Preset};
use crate::routing::Routing;

/// The presets that are configured, and which one answers when nobody names one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSettings {
    pub presets: BTreeMap<String, Arc<Preset>>,
    /// A name in `presets`; `None`: none is configured, so one has to be found.
    pub default: Option<String>,
    /// Base URLs of the usual local servers, tried in this order when nothing is configured.
    pub local_servers: Vec<String>,
    /// How much of a conversation they are shown.
    pub context: ContextSettings,
    /// What they are told of what people keep.
    pub memory: MemorySettings,
    /// Which of them answers what, and which when one does not.
    pub routing: Routing,
    /// Runs that work by themselves.
    pub norris: norris_settings::NorrisSettings,
    /// What may be spent on a day (UTC), by all conversations together; `None`: as much as they like.
    pub daily_usd: Option<NanoUsd>,
    /// The price of a request from which on a person is asked before it; `None`: nobody is.
    pub ask_above_usd: Option<NanoUsd>,
    /// What holds below the roots of trusted projects instead.
    pub projects: BTreeMap<PathBuf, Arc<Self>>,
}

impl ModelSettings {
    /// The preset of this name, the built-in one among them.
    pub fn by_name(&self, name: &str) -> Option<Arc<Preset>> {
        match self.presets.get(name) {
            Some(preset) => Some(preset.clone()),
            None if name == DEMO => Some(Arc::new(Preset::demo())),
            None => None,
        }
    }

    /// What holds for a conversation in this directory: the nearest trusted project's, if it is in one.
    pub fn within<'a>(self: &'a Arc<Self>, directory: &str) -> &'a Arc<Self> {
        let directory = Path::new(directory);
        let strays = directory.components().any(|it| it == Component::ParentDir);
        if self.projects.is_empty() || strays {
            return self;
        }
        let nearest = directory.ancestors().find_map(|it| self.projects.get(it));
        nearest.unwrap_or(self)
    }
}
