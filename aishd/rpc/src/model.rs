//! `model/*`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::method::Empty;
use aish_proto::model::{
    Forget, ForgetResult, KeyStatus, List, ModelApi, ModelListResult, ModelPrice, ModelShowResult,
    ModelStatus, Probe, ProbeResult, ProbedServer, Serves, ServesParams, ServesResult, Show,
};
use aish_proto::picture::PictureKind;
use aishd_config::address::{self, NetworkDistance};
use aishd_conversation::request_error::RequestError;
use aishd_log::api_dialect::ApiDialect;
use aishd_log::spending::NanoUsd;
use aishd_model::model_settings::ModelSettings;
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
    register::<Show, _, _>(module, show);
    register::<Forget, _, _>(module, forget);
}

async fn list(call: MethodCall<List>) -> Result<ModelListResult, MethodError> {
    let Empty {} = call.params;
    let models = call.server.directory.models();
    let broker = call.server.directory.broker();
    let default = models.default.as_deref();
    let presets = models.presets.values();
    let shown = presets.map(async |it| status(it, default, broker.has_key(it).await));
    let mut list: Vec<ModelStatus> = join_all(shown).await;
    if !models.presets.contains_key("demo") {
        list.push(status(&Preset::demo(), default, None));
    }
    Ok(ModelListResult { models: list })
}

/// `has_key`: `None` when it needs none.
fn status(preset: &Preset, default: Option<&str>, has_key: Option<bool>) -> ModelStatus {
    ModelStatus {
        name: preset.name.clone(),
        source: event_conversion::source_of(preset.source),
        endpoint: match &preset.backend {
            Backend::Http(endpoint) => Some(endpoint.url.clone()),
            Backend::Demo => None,
        },
        model: preset.model.clone(),
        api: shown(preset.api()),
        default: default == Some(preset.name.as_str()),
        key: match has_key {
            None => KeyStatus::None,
            Some(true) => KeyStatus::Present,
            Some(false) => KeyStatus::Missing,
        },
    }
}

async fn show(call: MethodCall<Show>) -> Result<ModelShowResult, MethodError> {
    let models = call.server.directory.models();
    let broker = call.server.directory.broker();
    let preset = broker.adapted(preset_of(&models, &call.params.name)?);
    let dollars = |amount: NanoUsd| amount.to_string().trim_start_matches('$').to_owned();
    let facts = preset.facts;
    Ok(ModelShowResult {
        status: status(
            &preset,
            models.default.as_deref(),
            broker.has_key(&preset).await,
        ),
        context_tokens: preset.context_tokens,
        max_tokens: preset.max_tokens.or(facts.output_tokens),
        temperature: preset.takes_temperature(),
        tools: preset.tools && !preset.learned.takes_no_tools,
        pictures: preset.takes(PictureKind::Png),
        pdfs: preset.takes(PictureKind::Pdf),
        price: preset.price.map(|it| ModelPrice {
            input: dollars(it.input),
            output: dollars(it.output),
            cached_input: it.cached_input.map(dollars),
            cache_write: it.cache_write.map(dollars),
        }),
        catalog: facts.day.map(|it| it.to_string()),
        learned: preset.learned.lines(),
    })
}

async fn forget(call: MethodCall<Forget>) -> Result<ForgetResult, MethodError> {
    let models = call.server.directory.models();
    let preset = preset_of(&models, &call.params.name)?;
    let forgotten = call.server.directory.broker().forget(&preset);
    Ok(ForgetResult {
        forgotten: forgotten.lines(),
    })
}

fn preset_of(models: &ModelSettings, name: &str) -> Result<Arc<Preset>, MethodError> {
    let unknown = || RequestError::UnknownModel(name.to_owned());
    models.by_name(name).ok_or_else(|| unknown().into())
}

fn shown(api: ApiDialect) -> ModelApi {
    match api {
        ApiDialect::Chat => ModelApi::Chat,
        ApiDialect::Responses => ModelApi::Responses,
        ApiDialect::Messages => ModelApi::Messages,
    }
}

async fn probe(call: MethodCall<Probe>) -> Result<ProbeResult, MethodError> {
    let only = call.params.preset.as_deref();
    if let Some(name) = only {
        preset_of(&call.server.directory.models(), name)?;
    }
    let servers = call.server.directory.probe_models(only).await;
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
