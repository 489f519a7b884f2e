//! What servers were found not to take, for each model of theirs: kept so that it is refused once, and not with every
//! request of every day.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use aishd_log::tool::ContentDigest;
use aishd_model::optional_fields::LearnedFields;
use aishd_model::preset::{Backend, Preset};
use parking_lot::Mutex;

/// Where it is kept.
pub trait FoundModelsStore: Send + Sync {
    fn read(&self, key: &str) -> Option<String>;
    fn keep(&self, key: String, text: String);
}

#[derive(Default)]
pub(super) struct FoundModels {
    memory: OnceLock<Box<dyn FoundModelsStore>>,
    known: Mutex<HashMap<String, LearnedFields>>,
}

impl fmt::Debug for FoundModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FoundModels").finish_non_exhaustive()
    }
}

impl FoundModels {
    pub(super) fn remember(&self, memory: Box<dyn FoundModelsStore>) {
        let _first_counts = self.memory.set(memory);
    }

    pub(super) fn adapted(&self, preset: Arc<Preset>) -> Arc<Preset> {
        let Some(key) = key(&preset) else {
            return preset;
        };
        let learned = self.learned(&key);
        if learned == preset.learned {
            return preset;
        }
        Arc::new(Preset {
            learned,
            ..Preset::clone(&preset)
        })
    }

    pub(super) fn learn(&self, preset: &Preset, newer: &LearnedFields) {
        let Some(key) = key(preset).filter(|_| !newer.is_nothing()) else {
            return;
        };
        let before = self.learned(&key);
        let learned = before.clone().and(newer);
        if learned == before {
            return;
        }
        self.known.lock().insert(key.clone(), learned.clone());
        if let (Some(memory), Ok(text)) = (self.memory.get(), serde_json::to_string(&learned)) {
            memory.keep(key, text);
        }
    }

    /// What was learned until now; nothing of it counts any more.
    pub(super) fn forget(&self, preset: &Preset) -> LearnedFields {
        let Some(key) = key(preset) else {
            return LearnedFields::default();
        };
        let before = self.learned(&key);
        if !before.is_nothing() {
            self.known
                .lock()
                .insert(key.clone(), LearnedFields::default());
            if let Some(memory) = self.memory.get() {
                memory.keep(key, "{}".to_owned());
            }
        }
        before
    }

    fn learned(&self, key: &str) -> LearnedFields {
        if let Some(known) = self.known.lock().get(key) {
            return known.clone();
        }
        let kept = self.memory.get().and_then(|it| it.read(key));
        let learned = kept.and_then(|it| serde_json::from_str(&it).ok());
        let learned: LearnedFields = learned.unwrap_or_default();
        self.known
            .lock()
            .entry(key.to_owned())
            .or_insert(learned)
            .clone()
    }
}

/// Whose server, and which model. The address may hold what nobody is to read in a note.
fn key(preset: &Preset) -> Option<String> {
    match &preset.backend {
        Backend::Demo => None,
        Backend::Http(endpoint) => Some(format!(
            "not_taken\n{}\n{}",
            preset.model,
            ContentDigest::of(endpoint.base().as_bytes())
        )),
    }
}
