//! From the command line and the environment to settings, and to the configuration that lives with the daemon.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aishd_config::Settings;
use aishd_config::environment_variables::{self, DaemonEnvironment};
use aishd_config::fault::{self, Fault};
use aishd_config::layers::{LayerPaths, assign_path};
use aishd_config::live::LiveConfig;
use aishd_config::load::{self, LoadedConfig};
use aishd_config::paths::{self, PathError};
use aishd_config::value::LogFormat;
use aishd_logging::{LineFormat, LogSettings, RunningLog};

use super::rule_audit::StoreWitness;
use crate::args::DaemonArgs;

/// The configuration has these faults.
#[derive(Debug, thiserror::Error)]
#[error("the configuration is invalid\n{}", self.lines())]
pub(super) struct ConfigFault(Vec<Fault>);

impl ConfigFault {
    fn lines(&self) -> String {
        let errors = self.0.iter().filter(|it| it.is_error());
        let lines: Vec<String> = errors.take(fault::MOST).map(Fault::line).collect();
        lines.join("\n")
    }
}

/// A configuration that one can start with.
#[derive(Debug)]
pub(super) struct StartConfiguration {
    pub(super) settings: Settings,
    /// The state directory in use.
    pub(super) state: PathBuf,
    loaded: LoadedConfig,
    place: LayerPaths,
}

/// Where the layers are.
pub(super) fn find(args: &DaemonArgs, env: &DaemonEnvironment) -> LayerPaths {
    let mut assignments = args.set.clone();
    assignments.extend(args.state.iter().map(|it| assign_path("daemon.state", it)));
    LayerPaths {
        machine: paths::machine(env),
        user: paths::config(args.config.as_deref(), env),
        named: args.config.is_some() || env.aish_config.is_some(),
        log: env.aish_log.clone(),
        assignments,
        state: args.state.clone(),
    }
}

pub(super) fn load(
    args: &DaemonArgs,
    env: &DaemonEnvironment,
) -> anyhow::Result<StartConfiguration> {
    let mut place = find(args, env);
    let loaded = load::load(&place, &environment_variables::is_set);
    let Some(settings) = loaded.settings.clone() else {
        return Err(ConfigFault(loaded.faults).into());
    };
    let state = state(&place, &settings)?;
    place.state = Some(state.clone());
    Ok(StartConfiguration {
        settings,
        state,
        loaded,
        place,
    })
}

fn state(place: &LayerPaths, settings: &Settings) -> Result<PathBuf, PathError> {
    match &place.state {
        Some(state) => Ok(state.clone()),
        None => load::state(settings),
    }
}

/// What the log has to know.
fn log(settings: &Settings) -> LogSettings {
    LogSettings {
        level: settings.log.filter.clone(),
        format: match settings.log.format {
            LogFormat::Auto => LineFormat::Auto,
            LogFormat::Text => LineFormat::Text,
            LogFormat::Json => LineFormat::Json,
            LogFormat::Journald => LineFormat::Journald,
        },
        redact: settings.log.redact.clone(),
        content: settings.log.content,
    }
}

impl StartConfiguration {
    /// The configuration file in use, and the folders with tools: who writes there says what runs.
    pub(super) fn places(&self) -> impl Iterator<Item = &Path> {
        let folders = self.settings.tool_folders.iter();
        self.place.user.iter().chain(folders).map(PathBuf::as_path)
    }

    pub(super) fn log(&self) -> LogSettings {
        log(&self.settings)
    }

    pub(super) fn log_warnings(&self) {
        let of_projects = self.loaded.left_out.values().flatten();
        for fault in self.loaded.faults.iter().chain(of_projects) {
            tracing::warn!("{}", fault.line());
        }
    }

    /// The configuration as it goes on from here. The log follows it, and no rule changes untold.
    pub(super) fn live(self, logging: RunningLog, witness: StoreWitness) -> Arc<LiveConfig> {
        let apply = move |settings: &Settings| {
            witness.of_change(settings)?;
            logging.follow(&log(settings));
            Ok(())
        };
        let Self {
            settings,
            loaded,
            place,
            ..
        } = self;
        Arc::new(LiveConfig::new(
            place,
            settings,
            loaded,
            environment_variables::is_set,
            Box::new(apply),
        ))
    }
}
