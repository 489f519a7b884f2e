//! Talking to servers of models. The broker is a transport layer: it knows nothing of
//! conversations, of MCP or of policy.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aishd_log::api_dialect::ApiDialect;
use aishd_model::failure_hint::hint;
use aishd_model::model_settings::ModelSettings;
use aishd_model::optional_fields::LearnedFields;
use aishd_model::preset::{Backend, ModelEndpoint, Preset};
use aishd_model::refusal_cure::CureOutcome;
use aishd_model::reply::{BrokenRequest, Delta, Reply, RequestFailure, TimeoutStage};
use aishd_model::thinking::ThinkingStart;
use aishd_process::Children;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

mod answer;
mod answer_events;
mod api_key;
mod client;
mod demo;
mod discovery;
mod error;
mod found_models;
mod made_pictures;
mod offered_tools;
mod stream;
#[cfg(test)]
mod tests;

use answer::AnswerContext;
use api_key::{ApiKey, EndpointSecrets, EnvironmentSource};
use client::HttpClients;
use found_models::FoundModels;
pub use found_models::FoundModelsStore;
use offered_tools::OfferedTools;

/// HTTP clients and keys; cheap to clone.
#[derive(Clone)]
pub struct Broker {
    inner: Arc<Inner>,
}

type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;
type Learn = dyn Fn(&str) + Send + Sync;

struct Inner {
    clients: HttpClients,
    children: Children,
    environment: Box<Lookup>,
    lent: Mutex<BTreeMap<String, ApiKey>>,
    /// Endpoints and models whose answers begin in the middle of thinking.
    open: Mutex<BTreeSet<(String, String)>>,
    learn: Box<Learn>,
    found: FoundModels,
}

/// What one server said to a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub preset: Option<String>,
    pub endpoint: String,
    pub models: Result<Vec<String>, String>,
    /// How it can be spoken to, where that was asked.
    pub apis: Vec<ApiDialect>,
    pub ms: u64,
}

/// Which preset answers when none is configured.
#[derive(Clone, Debug)]
pub struct Discovery {
    pub preset: Arc<Preset>,
    /// Lines for people: what was found and used, or what was tried.
    pub notices: Vec<String>,
}

impl Broker {
    /// `environment` gives the daemon's own variables by name: keys of presets, and what a key command needs, which is
    /// run as one of the `children`.
    pub fn new(
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        children: Children,
    ) -> Self {
        Self::telling(environment, children, |_secret| {})
    }

    /// As [`Broker::new`]; `learn` is told of every secret before it is used, so that it can be kept out of logs.
    pub fn telling(
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        children: Children,
        learn: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                clients: HttpClients::default(),
                children,
                environment: Box::new(environment),
                lent: Mutex::default(),
                open: Mutex::default(),
                learn: Box::new(learn),
                found: FoundModels::default(),
            }),
        }
    }

    /// Values of environment variables by name, lent by a client; in memory only. What is lent goes before what the
    /// daemon was started with, because it is newer.
    pub fn lend(&self, secrets: BTreeMap<String, String>) {
        secrets.values().for_each(|it| (self.inner.learn)(it));
        let secrets = secrets
            .into_iter()
            .map(|(name, value)| (name, ApiKey::new(value)));
        let mut lent = self.inner.lent.lock();
        lent.extend(secrets);
    }

    /// Keeps what servers were found not to take, and reads what was kept.
    pub fn remember(&self, memory: impl FoundModelsStore + 'static) {
        self.inner.found.remember(Box::new(memory));
    }

    /// The preset with what its server was found not to take: requests are made of it.
    pub fn adapted(&self, preset: Arc<Preset>) -> Arc<Preset> {
        self.inner.found.adapted(preset)
    }

    /// Forgets what the preset's server was found not to take, and says what that was.
    pub fn forget(&self, preset: &Preset) -> LearnedFields {
        self.inner.found.forget(preset)
    }

    /// Whether the preset's key is there; `None` when it needs none. A key command is not run for this.
    pub async fn has_key(&self, preset: &Preset) -> Option<bool> {
        match &preset.backend {
            Backend::Demo => None,
            Backend::Http(endpoint) => api_key::present(&endpoint.key, &*self.inner).await,
        }
    }

    /// Sends one request body (made by `turn/request`) and streams the answer into `sink`.
    /// Dropping the future closes the connection at once.
    pub async fn stream(
        &self,
        preset: &Preset,
        body: String,
        sink: impl FnMut(Delta<'_>) + Send,
    ) -> Result<Reply, Box<BrokenRequest>> {
        let mut arrived = Reply::default();
        self.stream_into(preset, body, &mut arrived, sink).await
    }

    /// As [`Broker::stream`], and what has come so far is in `arrived`, for whoever drops the future.
    pub async fn stream_into(
        &self,
        preset: &Preset,
        body: String,
        arrived: &mut Reply,
        sink: impl FnMut(Delta<'_>) + Send,
    ) -> Result<Reply, Box<BrokenRequest>> {
        match &preset.backend {
            Backend::Demo => Ok(demo::answer(&body, arrived, sink).await),
            Backend::Http(endpoint) => {
                Box::pin(self.stream_http(preset, endpoint, body, arrived, sink)).await
            }
        }
    }

    async fn stream_http(
        &self,
        preset: &Preset,
        endpoint: &ModelEndpoint,
        body: String,
        arrived: &mut Reply,
        mut sink: impl FnMut(Delta<'_>) + Send,
    ) -> Result<Reply, Box<BrokenRequest>> {
        let unsent = |failure| {
            Box::new(BrokenRequest {
                hint: hint(&failure, preset),
                failure,
                partial: Reply::default(),
            })
        };
        if preset.model.is_empty() {
            let why = format!("the preset {} has no model", preset.name);
            return Err(unsent(RequestFailure::Config(why)));
        }
        let key = api_key::fetch(&endpoint.key, &*self.inner, &self.inner.children)
            .await
            .map_err(unsent)?;
        let secrets = self.inner.secrets(endpoint, key.as_ref());
        tracing::debug!(target: "aishd::content", preset = preset.name, body, "request");
        let mut body = Bytes::from(body);
        let mut cured = CureOutcome::default();
        let streamed = loop {
            let clients = &self.inner.clients;
            let opened = stream::open(clients, endpoint, key.as_ref(), body.clone()).await;
            let streamed = match opened {
                Ok((response, started)) => {
                    let limit = stream::ContentLimit::new(started, endpoint.timeouts);
                    let offered = OfferedTools::of(preset.api(), body.clone());
                    let body = stream::timed(response, started, endpoint.timeouts);
                    let asked = AnswerContext {
                        from: preset.seal_origin(),
                        think: self.think(preset, endpoint),
                        offered,
                    };
                    stream::read(body, limit, asked, arrived, &mut sink).await
                }
                Err(failure) => Err(unsent(failure)),
            };
            // Before anything of an answer, the same goes out once more without what the server does not want.
            let other = match &streamed {
                Err(broken) if broken.partial.is_silent() => {
                    cured.cure(preset, &body, &broken.failure)
                }
                Ok(_) | Err(_) => None,
            };
            match other {
                Some(other) => body = other.into(),
                None => break streamed,
            }
        };
        for told in &mut cured.told {
            *told = clean(std::mem::take(told), &secrets);
            tracing::info!(preset = preset.name, told, "a request was sent again");
        }
        match streamed {
            Ok(mut reply) => {
                self.inner.found.learn(preset, &cured.learned);
                keep_keys_out(&mut reply, &secrets);
                reply.cured = cured;
                tracing::debug!(target: "aishd::content", preset = preset.name, text = reply.text, "answer");
                if reply.began_in_thinking {
                    self.open_of().insert(place(preset, endpoint));
                }
                Ok(reply)
            }
            Err(mut broken) => {
                broken.failure = presentable(broken.failure, &secrets);
                keep_keys_out(&mut broken.partial, &secrets);
                broken.partial.cured = cured;
                broken.hint = hint(&broken.failure, preset);
                tracing::warn!(preset = preset.name, failure = %broken.failure, "no whole answer");
                Err(broken)
            }
        }
    }

    /// How an answer of this preset begins, as far as that is known.
    fn think(&self, preset: &Preset, endpoint: &ModelEndpoint) -> ThinkingStart {
        match preset.think {
            ThinkingStart::Auto if self.open_of().contains(&place(preset, endpoint)) => {
                ThinkingStart::Open
            }
            think @ (ThinkingStart::Auto | ThinkingStart::Open | ThinkingStart::Off) => think,
        }
    }

    fn open_of(&self) -> MutexGuard<'_, BTreeSet<(String, String)>> {
        self.inner.open.lock()
    }

    /// The preset for somebody who configured none: the first local server with a model that answers, else the demo.
    pub async fn discover(&self, models: &ModelSettings) -> Discovery {
        Box::pin(discovery::discover(&self.inner.clients, models)).await
    }

    /// The models that the preset's server lists, or why it does not, within the limit.
    pub async fn models_of(
        &self,
        endpoint: &ModelEndpoint,
        limit: Duration,
    ) -> Result<Vec<String>, RequestFailure> {
        let asked = Box::pin(discovery::probe_one(&self.inner, endpoint, limit));
        // A key command has a patience of its own.
        tokio::time::timeout(limit, asked)
            .await
            .unwrap_or(Err(RequestFailure::TimedOut(TimeoutStage::FirstByte)))
    }

    /// Asks every preset's server and the usual local ones what they serve, or that of one preset only.
    pub async fn probe(&self, models: &ModelSettings, only: Option<&str>) -> Vec<Probe> {
        Box::pin(discovery::probe(&self.inner, models, only)).await
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").finish_non_exhaustive()
    }
}

impl Inner {
    fn secrets(&self, endpoint: &ModelEndpoint, key: Option<&ApiKey>) -> EndpointSecrets {
        let secrets = EndpointSecrets::of(endpoint, key);
        secrets.each(&self.learn);
        secrets
    }
}

impl EnvironmentSource for Inner {
    fn get(&self, name: &str) -> Option<String> {
        let lent = self.lent.lock();
        match lent.get(name) {
            Some(secret) => Some(secret.expose().to_owned()),
            None => self.variable(name),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name)
    }
}

/// What is learned of a model is learned of it at this address.
fn place(preset: &Preset, endpoint: &ModelEndpoint) -> (String, String) {
    (endpoint.url.clone(), preset.model.clone())
}

/// A server's words as people and logs may see them: without keys first, because a shortened key would no longer be found.
fn clean(text: String, secrets: &EndpointSecrets) -> String {
    error::presentable(&secrets.redact(text))
}

/// Takes the keys out of what a server says of an answer. The answer itself is the model's.
fn keep_keys_out(reply: &mut Reply, secrets: &EndpointSecrets) {
    let words = reply.notes.iter_mut().chain(&mut reply.served_by);
    for said in words {
        *said = clean(std::mem::take(said), secrets);
    }
}

/// A failure as people and logs may see it.
fn presentable(failure: RequestFailure, secrets: &EndpointSecrets) -> RequestFailure {
    let clean = |text: String| clean(text, secrets);
    match failure {
        RequestFailure::Http {
            status,
            message,
            retry_after_ms,
            detail,
        } => RequestFailure::Http {
            status,
            message: clean(message),
            retry_after_ms,
            detail,
        },
        RequestFailure::Api { message, overflow } => RequestFailure::Api {
            message: clean(message),
            overflow,
        },
        RequestFailure::Transport(why) => RequestFailure::Transport(clean(why)),
        RequestFailure::Config(why) => RequestFailure::Config(clean(why)),
        RequestFailure::Key(why) => RequestFailure::Key(clean(why)),
        RequestFailure::TooLarge(what) => RequestFailure::TooLarge(clean(what)),
        RequestFailure::TooLong(why) => RequestFailure::TooLong(clean(why)),
        RequestFailure::Unreadable(why) => RequestFailure::Unreadable(clean(why)),
        _ => failure,
    }
}
