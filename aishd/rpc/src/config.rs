//! `config/*`, and what else of the configuration goes over the wire.

use std::path::PathBuf;
use std::sync::Arc;

use aish_proto::config::{
    self as wire, Check, ConfigCheckParams, ConfigCheckResult, EffectiveSetting, Show, ShowParams,
    ShowResult,
};
use aishd_config::live::{ConfigStatus, LiveConfig};
use aishd_config::settings::NotifySettings;
use aishd_config::value::{Keymap, NotifyMethod, NotifyWhen, When};
use jsonrpsee::RpcModule;

use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register};

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Show, _, _>(module, show);
    register::<Check, _, _>(module, check);
}

async fn show(call: MethodCall<Show>) -> Result<ShowResult, MethodError> {
    let ShowParams { cwd } = call.params;
    let cwd = cwd.map(PathBuf::from);
    if cwd.as_ref().is_some_and(|it| !it.is_absolute()) {
        return Err(MethodError::params("cwd must be an absolute path"));
    }
    let mut values = read(&call.server, move |it| it.show(cwd.as_deref())).await?;
    super::route::overlay(&call.server, &mut values);
    let standing = call.server.config.watch_status().borrow().clone();
    let settings = values.into_iter().map(|it| EffectiveSetting {
        key: it.key,
        value: it.value,
        origin: it.origin,
    });
    Ok(ShowResult {
        settings: settings.collect(),
        file: call.server.config.file().map(|it| it.display().to_string()),
        named: call.server.config.is_named(),
        state: call.server.about.state_dir.display().to_string(),
        errors: standing.errors.clone(),
        restart_needed: standing.restart_needed.clone(),
    })
}

async fn check(call: MethodCall<Check>) -> Result<ConfigCheckResult, MethodError> {
    let ConfigCheckParams {} = call.params;
    let (errors, warnings) = read(&call.server, LiveConfig::check).await?;
    Ok(ConfigCheckResult { errors, warnings })
}

/// Asks the configuration, on a thread that may wait for files.
pub(super) async fn read<T: Send + 'static>(
    server: &RpcServer,
    ask: impl FnOnce(&LiveConfig) -> T + Send + 'static,
) -> Result<T, MethodError> {
    let live: Arc<LiveConfig> = server.config.clone();
    tokio::task::spawn_blocking(move || ask(&live))
        .await
        .map_err(|panic| MethodError::internal(&panic.to_string()))
}

/// How clients look.
pub(super) fn ui(standing: &ConfigStatus) -> wire::UiConfig {
    let ui = &standing.ui;
    wire::UiConfig {
        color: when(ui.color),
        markdown: when(ui.markdown),
        theme: ui.theme.clone(),
        editor: ui.editor.clone(),
        keymap: match ui.keymap {
            Keymap::Emacs => wire::KeymapName::Emacs,
            Keymap::Vi => wire::KeymapName::Vi,
        },
        pictures: ui.pictures,
        notify: notify(&standing.notify),
    }
}

fn notify(notify: &NotifySettings) -> wire::NotifyConfig {
    wire::NotifyConfig {
        when: match notify.when {
            NotifyWhen::Never => wire::NotifyWhen::Never,
            NotifyWhen::Unattended => wire::NotifyWhen::Unattended,
            NotifyWhen::Always => wire::NotifyWhen::Always,
        },
        method: match notify.method {
            NotifyMethod::Auto => wire::NotifyMethod::Auto,
            NotifyMethod::Desktop => wire::NotifyMethod::Desktop,
            NotifyMethod::Osc => wire::NotifyMethod::Osc,
            NotifyMethod::Bell => wire::NotifyMethod::Bell,
            NotifyMethod::Command => wire::NotifyMethod::Command,
        },
        after_ms: u64::try_from(notify.after.as_millis()).unwrap_or(u64::MAX),
    }
}

fn when(when: When) -> wire::ColorChoice {
    match when {
        When::Auto => wire::ColorChoice::Auto,
        When::Always => wire::ColorChoice::Always,
        When::Never => wire::ColorChoice::Never,
    }
}
