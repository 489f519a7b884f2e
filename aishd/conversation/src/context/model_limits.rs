//! What servers were found not to take, kept beside the conversations, so that a daemon that was started anew does not
//! ask for it again.

use aishd_broker::FoundModelsStore;
use aishd_store::{Note, Store};

#[derive(Debug)]
pub struct NotTaken(Store);

impl NotTaken {
    pub fn new(store: &Store) -> Self {
        Self(store.clone())
    }
}

impl FoundModelsStore for NotTaken {
    fn read(&self, key: &str) -> Option<String> {
        match self.0.note(key) {
            Ok(note) => note,
            Err(error) => {
                tracing::debug!(%error, "what a server does not take cannot be read");
                None
            }
        }
    }

    fn keep(&self, key: String, text: String) {
        let forgets = false;
        // Where it cannot be kept it is learned again.
        let _kept = self.0.keep_note(Note { key, text, forgets });
    }
}
