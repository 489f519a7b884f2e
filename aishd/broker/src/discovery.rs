//! A first model for somebody who configured none, and what the servers say that are there.
//! Only this machine's own servers are ever taken unasked: others may cost money or see what they should not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aishd_log::api_dialect::ApiDialect;
use aishd_log::event::PresetSource;
use aishd_model::catalog::CatalogFacts;
use aishd_model::model_settings::ModelSettings;
use aishd_model::optional_fields::LearnedFields;
use aishd_model::preset::{
    ANTHROPIC, Backend, CacheLife, KeyHeader, KeySource, ModelEndpoint, Preset, Timeouts,
};
use aishd_model::preset_fields::PresetFields;
use aishd_model::reply::RequestFailure;
use aishd_model::thinking::ThinkingStart;
use futures_util::future::join_all;
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::api_key::{self, ApiKey, EndpointSecrets};
use super::client::{self, HttpClients};
use super::{Discovery, Inner, Probe, error, presentable, stream};

/// Somebody waits for their first answer meanwhile, and a server on this machine lists its models at once.
const LIST_LIMIT: Duration = Duration::from_millis(300);
const REMOTE_LIST_LIMIT: Duration = Duration::from_secs(3);
/// A model may have to be loaded first.
const TRIAL_LIMIT: Duration = Duration::from_secs(10);
const LIST_BYTES: usize = 1024 * 1024;
/// Models of one server that are tried before the next server is.
const TRIALS: usize = 3;

/// A model as its server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ListedModel {
    id: String,
    owner: String,
    context_tokens: Option<u64>,
}

pub(super) async fn discover(clients: &HttpClients, models: &ModelSettings) -> Discovery {
    let servers: Vec<(ModelEndpoint, Url)> = models
        .local_servers
        .iter()
        .map(|url| local(url))
        .filter_map(|endpoint| {
            let url = client::address(&endpoint, "models").ok()?;
            client::is_loopback(&url).then_some((endpoint, url))
        })
        .collect();
    let lists = join_all(
        servers
            .iter()
            .map(|(endpoint, _)| list(clients, endpoint, None, LIST_LIMIT)),
    )
    .await;
    let mut notices = Vec::new();
    for ((endpoint, url), listed) in servers.iter().zip(lists) {
        let Ok(listed) = listed else { continue };
        let chat = listed.iter().filter(|model| can_chat(&model.id));
        let mut failed = None;
        for model in chat.take(TRIALS) {
            match try_chat(clients, endpoint, &model.id).await {
                Ok(()) => {
                    notices.push(format!(
                        "no config; found {} at {} with {} — using it for now; {}",
                        kind(url, &model.owner).1,
                        place(url),
                        model.id,
                        how_to_keep(url, &model.id)
                    ));
                    return Discovery {
                        preset: Arc::new(preset(endpoint, url, model)),
                        notices,
                    };
                }
                Err(failure) => failed = Some(format!("{}: {failure}", model.id)),
            }
        }
        let owner = listed.first().map_or("", |model| &model.owner);
        notices.push(format!(
            "found {} at {}, but no model that answers ({})",
            kind(url, owner).1,
            place(url),
            failed.unwrap_or_else(|| "it lists none for chat".to_owned())
        ));
    }
    let tried: Vec<String> = servers
        .iter()
        .map(|(_, url)| kind(url, "").1.to_lowercase())
        .collect();
    let configured = models.presets.values();
    let mut configured = configured.filter(|it| matches!(it.backend, Backend::Http(_)));
    let none = match configured.next() {
        None => "no model configured".to_owned(),
        Some(preset) => {
            let name = &preset.name;
            format!(
                "no model answers by default; {name} does where it is named (aishctl ask -m {name}), or always: aishctl model default {name}"
            )
        }
    };
    notices.push(match tried.join(", ") {
        tried if tried.is_empty() => none,
        tried => format!("{none}, none found on this machine (tried {tried})"),
    });
    notices.push("answering with the built-in demo: a script, not a model".to_owned());
    Discovery {
        preset: Arc::new(Preset::demo()),
        notices,
    }
}

pub(super) async fn probe(inner: &Inner, models: &ModelSettings, only: Option<&str>) -> Vec<Probe> {
    let configured = models
        .presets
        .values()
        .filter(|it| only.is_none_or(|only| it.name == only))
        .filter_map(|preset| match &preset.backend {
            Backend::Demo => None,
            Backend::Http(endpoint) => Some((Some(preset.name.clone()), endpoint.clone())),
        });
    let mut asked: Vec<(Option<String>, ModelEndpoint)> = configured.collect();
    for url in models.local_servers.iter().filter(|_| only.is_none()) {
        let server = local(url);
        let known = asked.iter().any(|(_, known)| known.base() == server.base());
        let near = client::address(&server, "models").is_ok_and(|url| client::is_loopback(&url));
        if near && !known {
            asked.push((None, server));
        }
    }
    join_all(asked.into_iter().map(|(preset, endpoint)| async move {
        let started = Instant::now();
        let limit = match preset {
            Some(_) => REMOTE_LIST_LIMIT,
            None => LIST_LIMIT,
        };
        let models = probe_one(inner, &endpoint, limit).await;
        let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let apis = match (&preset, &models) {
            // Who cannot be reached is not asked three times more.
            (Some(_), Ok(_) | Err(RequestFailure::Http { .. } | RequestFailure::Api { .. })) => {
                spoken(inner, &endpoint, limit).await
            }
            (Some(_), Err(_)) | (None, _) => vec![],
        };
        Probe {
            preset,
            endpoint: endpoint.base(),
            models: models.map_err(|failure| failure.to_string()),
            apis,
            ms,
        }
    }))
    .await
}

pub(super) async fn probe_one(
    inner: &Inner,
    endpoint: &ModelEndpoint,
    limit: Duration,
) -> Result<Vec<String>, RequestFailure> {
    let key = api_key::fetch(&endpoint.key, inner, &inner.children).await?;
    let secrets = inner.secrets(endpoint, key.as_ref());
    match list(&inner.clients, endpoint, key.as_ref(), limit).await {
        Ok(listed) => Ok(listed.into_iter().map(|model| model.id).collect()),
        Err(failure) => Err(presentable(failure, &secrets)),
    }
}

/// How a server can be spoken to: it says what is wrong with an empty request where it reads one, which costs nothing.
async fn spoken(inner: &Inner, endpoint: &ModelEndpoint, limit: Duration) -> Vec<ApiDialect> {
    let Ok(key) = api_key::fetch(&endpoint.key, inner, &inner.children).await else {
        return vec![];
    };
    let asked = ApiDialect::ALL.map(|api| {
        let endpoint = ModelEndpoint {
            api,
            ..endpoint.clone()
        };
        let key = key.clone();
        async move {
            let url = client::address(&endpoint, api.path())?;
            let client = inner
                .clients
                .get(client::reach(&url), endpoint.timeouts.connect)?;
            let request = client
                .post(url)
                .headers(client::headers(&endpoint, key.as_ref())?)
                .header(CONTENT_TYPE, "application/json")
                .body("{}");
            stream::send(&client, request, Instant::now() + limit).await
        }
    });
    let answers = join_all(asked).await;
    let reads = |it: &Result<_, RequestFailure>| match it {
        Ok(_) => true,
        Err(failure) => matches!(failure.status(), Some(400 | 401 | 422 | 500)),
    };
    let spoken = ApiDialect::ALL.into_iter().zip(&answers);
    spoken
        .filter(|(_, answer)| reads(answer))
        .map(|(api, _)| api)
        .collect()
}

/// `GET <base>/models`; anything but a list of models is a failure, since many programs answer on these ports.
async fn list(
    clients: &HttpClients,
    endpoint: &ModelEndpoint,
    key: Option<&ApiKey>,
    limit: Duration,
) -> Result<Vec<ListedModel>, RequestFailure> {
    let mut url = client::address(endpoint, "models")?;
    if endpoint.host() == ANTHROPIC {
        // Without it there are twenty on a page.
        url.query_pairs_mut().append_pair("limit", "1000");
    }
    let deadline = Instant::now() + limit;
    let client = clients.get(client::reach(&url), endpoint.timeouts.connect)?;
    let request = client.get(url).headers(client::headers(endpoint, key)?);
    let response = stream::send(&client, request, deadline).await?;
    let body = stream::bounded(response, LIST_BYTES, deadline).await;
    if body.trim().is_empty() {
        return Err(RequestFailure::Empty);
    }
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    let text = |model: &Value, name: &str| Some(model.get(name)?.as_str()?.to_owned());
    let listed = body
        .get("data")
        .and_then(Value::as_array)
        .map(|models| {
            models.iter().filter_map(|model| {
                let window = model.get("meta").and_then(|meta| meta.get("n_ctx"));
                Some(ListedModel {
                    id: text(model, "id")?,
                    owner: text(model, "owned_by").unwrap_or_default(),
                    context_tokens: window
                        .or_else(|| model.get("max_model_len"))
                        .and_then(Value::as_u64),
                })
            })
        })
        .ok_or_else(|| RequestFailure::Api {
            message: "the server lists no models".to_owned(),
            overflow: false,
        })?;
    Ok(listed.collect())
}

/// Whether the model answers a chat of one token.
async fn try_chat(
    clients: &HttpClients,
    endpoint: &ModelEndpoint,
    model: &str,
) -> Result<(), RequestFailure> {
    let deadline = Instant::now() + TRIAL_LIMIT;
    let body = json!({
        "model": model,
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 1,
        "stream": false,
    });
    let url = client::address(endpoint, "chat/completions")?;
    let client = clients.get(client::reach(&url), endpoint.timeouts.connect)?;
    let request = client.post(url).json(&body);
    let response = stream::send(&client, request, deadline)
        .await
        .map_err(|failure| presentable(failure, &EndpointSecrets::of(endpoint, None)))?;
    let body = stream::bounded(response, LIST_BYTES, deadline).await;
    let answered = serde_json::from_str::<Value>(&body).is_ok_and(|answer| {
        let choices = answer.get("choices").and_then(Value::as_array);
        choices.is_some_and(|choices| !choices.is_empty())
    });
    if answered {
        Ok(())
    } else {
        Err(super::answer::not_a_stream(&error::presentable(
            &error::start(&body),
        )))
    }
}

/// Embedding and rerank models are listed like any other; only their names tell.
fn can_chat(id: &str) -> bool {
    let id = id.to_lowercase();
    ![
        "embed", "rerank", "bge-", "minilm", "e5-", "gte-", "whisper", "tts",
    ]
    .iter()
    .any(|mark| id.contains(mark))
}

fn local(url: &str) -> ModelEndpoint {
    ModelEndpoint {
        url: url.to_owned(),
        api: ApiDialect::Chat,
        auth: KeyHeader::Bearer,
        key: KeySource::None,
        headers: BTreeMap::new(),
        timeouts: Timeouts::LOOPBACK,
    }
}

fn preset(endpoint: &ModelEndpoint, url: &Url, model: &ListedModel) -> Preset {
    Preset {
        name: kind(url, &model.owner).0.to_owned(),
        source: PresetSource::Discovered,
        backend: Backend::Http(endpoint.clone()),
        model: model.id.clone(),
        temperature: None,
        max_tokens: None,
        effort: None,
        fields: PresetFields::default(),
        cache: CacheLife::default(),
        context_tokens: model.context_tokens,
        use_tool_role: true,
        tools: true,
        max_tools: None,
        retries: 0,
        pictures: None,
        include_usage: true,
        think: ThinkingStart::Auto,
        price: None,
        facts: CatalogFacts::default(),
        learned: LearnedFields::default(),
    }
}

/// What a server is, as a name and for people: from whom it says its models are, else from its usual port.
fn kind(url: &Url, owner: &str) -> (&'static str, &'static str) {
    match (owner, url.port_or_known_default()) {
        ("llamacpp", _) => ("llamacpp", "llama.cpp"),
        ("library", _) => ("ollama", "Ollama"),
        ("vllm", _) => ("vllm", "vLLM"),
        ("organization_owner", _) => ("lmstudio", "LM Studio"),
        ("koboldcpp", _) => ("koboldcpp", "KoboldCpp"),
        (_, Some(11434)) => ("ollama", "Ollama"),
        (_, Some(1234)) => ("lmstudio", "LM Studio"),
        (_, Some(8080)) => ("llamacpp", "llama.cpp"),
        (_, Some(8000)) => ("vllm", "vLLM"),
        (_, Some(1337)) => ("jan", "Jan"),
        (_, Some(5001)) => ("koboldcpp", "KoboldCpp"),
        (_, Some(12434)) => ("docker", "Docker Model Runner"),
        (_, _) => ("local", "a local server"),
    }
}

fn place(url: &Url) -> String {
    let port = url.port_or_known_default().unwrap_or_default();
    format!("{}:{port}", url.host_str().unwrap_or_default())
}

/// The command, unless the server's name of its model would be more than a word in a shell.
fn how_to_keep(url: &Url, model: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || "._:/@+-".contains(it);
    let is_word = model.chars().all(plain) && !model.starts_with('-');
    if is_word {
        // What its list of models stands below.
        let path = url.path().trim_end_matches("/models");
        let endpoint = format!("{}://{}{path}", url.scheme(), place(url));
        format!("to keep it: aishctl model add NAME --endpoint {endpoint} --id {model}")
    } else {
        "to keep it: aishctl model add".to_owned()
    }
}
