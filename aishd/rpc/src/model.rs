//! `model/*`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use aish_proto::method::Empty;
use aish_proto::model::{
    KeyStatus, List, ModelApi, ModelListResult, ModelStatus, Probe, ProbeResult, ProbedServer,
    Serves, ServesParams, ServesResult,
};
use aishd_config::address::{self, NetworkDistance};
use aishd_log::sealed_answer::ApiDialect;
use aishd_model::preset::{Backend, KeyHeader, KeySource, ModelEndpoint, Preset, Timeouts};
use futures_util::future::join_all;
use jsonrpsee::RpcModule;

use super::method_error::MethodError;
use super::{MethodCall, RpcServer, event_conversion, register};

/// A person waits for it.
const SERVES_LIMIT: Duration = Duration::from_secs(15);

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<List, _, _>(module, list);
    register::<Probe, _, _>(module, probe);
    register::<Serves, _, _>(module, serves);
}

async fn list(call: MethodCall<List>) -> Result<ModelListResult, MethodError> {
    let Empty {} = call.params;
    let models = call.server.directory.models();
    let broker = call.server.directory.broker();
    let default = models.default.as_deref();
    let show = async |preset: &Preset| ModelStatus {
        name: preset.name.clone(),
        source: event_conversion::source_of(preset.source),
        endpoint: match &preset.backend {
            Backend::Http(endpoint) => Some(endpoint.url.clone()),
            Backend::Demo => None,
        },
        model: preset.model.clone(),
        api: shown(preset.api()),
        default: default == Some(preset.name.as_str()),
        key: match broker.has_key(preset).await {
            None => KeyStatus::None,
            Some(true) => KeyStatus::Present,
            Some(false) => KeyStatus::Missing,
        },
    };
    let mut list: Vec<ModelStatus> = join_all(models.presets.values().map(|it| show(it))).await;
    if !models.presets.contains_key("demo") {
        list.push(show(&Preset::demo()).await);
    }
    Ok(ModelListResult { models: list })
}

fn shown(api: ApiDialect) -> ModelApi {
    match api {
        ApiDialect::Chat => ModelApi::Chat,
        ApiDialect::Responses => ModelApi::Responses,
        ApiDialect::Messages => ModelApi::Messages,
    }
}

async fn probe(call: MethodCall<Probe>) -> Result<ProbeResult, MethodError> {
    let Empty {} = call.params;
    let servers = call.server.directory.probe_models().await;
    let show = |it: aishd_conversation::directory::Probed| ProbedServer {
        preset: it.preset,
        endpoint: it.endpoint,
        ok: it.models.is_ok(),
        error: it.models.as_ref().err().cloned(),
        models: it.models.unwrap_or_default(),
        apis: it.apis.into_iter().map(shown).collect(),
        ms: it.ms,
    };
    Ok(ProbeResult {
        servers: servers.into_iter().map(show).collect(),
    })
}

async fn serves(call: MethodCall<Serves>) -> Result<ServesResult, MethodError> {
    let endpoint = endpoint(call.params)?;
    let broker = call.server.directory.broker();
    let found = broker.models_of(&endpoint, SERVES_LIMIT).await;
    Ok(ServesResult {
        error: found.as_ref().err().map(ToString::to_string),
        models: found.unwrap_or_default(),
    })
}

/// As a preset with these keys would have it.
fn endpoint(said: ServesParams) -> Result<ModelEndpoint, MethodError> {
    let url = address::parse(&said.endpoint)
        .map_err(|wrong| MethodError::params(&format!("endpoint: {wrong}")))?;
    let mut keys = [
        said.key_env.map(KeySource::Env),
        said.key_file.map(PathBuf::from).map(KeySource::File),
        said.key_cmd.map(KeySource::Command),
    ]
    .into_iter()
    .flatten();
    let key = keys.next().unwrap_or(KeySource::None);
    if keys.next().is_some() {
        return Err(MethodError::params(
            "only one of keyEnv, keyFile and keyCmd can be said",
        ));
    }
    match &key {
        KeySource::File(file) if !file.is_absolute() => {
            return Err(MethodError::params("keyFile must be an absolute path"));
        }
        KeySource::Command(words) if words.is_empty() => {
            return Err(MethodError::params("keyCmd has no program"));
        }
        KeySource::None => {}
        _a_key if url.scheme() == "http" && address::distance(&url) == NetworkDistance::Far => {
            return Err(MethodError::params(
                "the key would be sent over the network without encryption; use https://",
            ));
        }
        _any_other => {}
    }
    let api = said.api.map(dialect);
    Ok(ModelEndpoint {
        api: api
            .or_else(|| ModelEndpoint::known_api(&said.endpoint))
            .unwrap_or_default(),
        auth: KeyHeader::usual(&said.endpoint, api),
        key,
        headers: BTreeMap::new(),
        timeouts: Timeouts::REMOTE,
        url: said.endpoint,
    })
}

fn dialect(api: ModelApi) -> ApiDialect {
    match api {
        ModelApi::Chat => ApiDialect::Chat,
        ModelApi::Responses => ApiDialect::Responses,
        ModelApi::Messages => ApiDialect::Messages,
    }
}
