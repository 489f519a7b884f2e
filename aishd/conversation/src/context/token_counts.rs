//! What the servers of presets count as a token, learned from each answer that says it. It is kept beside the
//! conversations, so that a daemon that was started anew does not let exchanges leave that fit.

use std::collections::HashMap;
use std::sync::Arc;

use aishd_log::tool::ContentDigest;
use aishd_model::context_budget::{BytesPerToken, CountedTokens};
use aishd_model::preset::{Backend, Preset};
use aishd_store::{Note, Store};
use parking_lot::Mutex;

/// A change by less is not written down.
const WORTH_A_NOTE: f64 = 0.05;

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct TokenCounts {
    store: Store,
    known: Arc<Mutex<HashMap<String, KnownTokens>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct KnownTokens {
    /// `None`: its server has not counted yet.
    ratio: Option<BytesPerToken>,
    noted: Option<BytesPerToken>,
    /// The last that was believed.
    last: Option<CountedTokens>,
}

impl TokenCounts {
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone(),
            known: Arc::default(),
        }
    }

    /// By what requests of this preset are measured now.
    pub fn ratio(&self, preset: &Preset) -> BytesPerToken {
        self.known_tokens(&key(preset)).ratio.unwrap_or_default()
    }

    /// A server has counted so many tokens in a request of so many bytes.
    pub fn learn(&self, preset: &Preset, bytes: usize, tokens: Option<u64>) {
        let Some(tokens) = tokens else { return };
        let bytes = bytes as u64;
        let counted = CountedTokens { bytes, tokens };
        let key = key(preset);
        let before = self.known_tokens(&key);
        if !counted.is_credible(before.last) {
            return;
        }
        let ratio = BytesPerToken::learned(before.ratio, counted);
        let far = |it: BytesPerToken| (it.get() / ratio.get() - 1.0).abs() > WORTH_A_NOTE;
        let mut noted = before.noted;
        if noted.is_none_or(far) {
            let text = ratio.get().to_string();
            let note = Note {
                key: key.clone(),
                text,
                forgets: false,
            };
            if self.store.keep_note(note) {
                noted = Some(ratio);
            }
        }
        let ratio = Some(ratio);
        let last = Some(counted);
        self.known
            .lock()
            .insert(key, KnownTokens { ratio, noted, last });
    }

    fn known_tokens(&self, key: &str) -> KnownTokens {
        if let Some(known) = self.known.lock().get(key) {
            return *known;
        }
        let note = match self.store.note(key) {
            Ok(note) => note.and_then(|it| serde_json::from_str::<BytesPerToken>(&it).ok()),
            Err(error) => {
                tracing::debug!(%error, "what a token is cannot be read");
                None
            }
        };
        let ratio = note.map(BytesPerToken::checked);
        let known = KnownTokens {
            ratio,
            noted: ratio,
            last: None,
        };
        *self.known.lock().entry(key.to_owned()).or_insert(known)
    }
}

/// The model counts, and whose server it is. The address may hold what nobody is to read in a note.
fn key(preset: &Preset) -> String {
    let server = match &preset.backend {
        Backend::Demo => String::new(),
        Backend::Http(endpoint) => ContentDigest::of(endpoint.url.as_bytes()).to_string(),
    };
    format!(
        "bytes_per_token\n{}\n{}\n{server}",
        preset.name, preset.model
    )
}

#[cfg(test)]
mod tests {
    use aishd_log::api_dialect::ApiDialect;
    use aishd_model::preset::{KeyHeader, KeySource, ModelEndpoint, Timeouts};

    use super::*;

    #[test]
    fn each_server_counts_for_itself() {
        let at = |url: &str| Preset {
            backend: Backend::Http(ModelEndpoint {
                url: url.to_owned(),
                api: ApiDialect::Chat,
                auth: KeyHeader::Bearer,
                key: KeySource::None,
                headers: std::collections::BTreeMap::new(),
                timeouts: Timeouts::LOOPBACK,
            }),
            ..Preset::demo()
        };
        assert_ne!(key(&at("http://a:secret@h/")), key(&at("http://b/")));
        assert!(!key(&at("http://a:secret@h/")).contains("secret"));
    }
}
