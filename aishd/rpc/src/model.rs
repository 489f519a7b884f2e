//! `model/*`.

use aish_proto::method::Empty;
use aish_proto::model::{
    KeyStatus, List, ModelApi, ModelListResult, ModelStatus, Probe, ProbeResult, ProbedServer,
};
use aishd_log::sealed_answer::ApiDialect;
use aishd_model::preset::{Backend, Preset};
use futures_util::future::join_all;
use jsonrpsee::RpcModule;

use super::method_error::MethodError;
use super::{MethodCall, RpcServer, event_conversion, register};

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<List, _, _>(module, list);
    register::<Probe, _, _>(module, probe);
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
