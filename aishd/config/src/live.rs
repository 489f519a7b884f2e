//! The configuration while the daemon runs. It is read again when somebody asks or a file changes; a bad one keeps the
//! old, and everybody can see which of the two it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aishd_log::answering_person::AnsweringPerson;
use aishd_mcp_messages::settings::McpSettings;
use aishd_model::catalog::CatalogTables;
use aishd_model::model_settings::ModelSettings;
use aishd_rules::policy::Policy;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::effective_values::{self, ShownValue};
use super::fault::Fault;
use super::layers::LayerPaths;
use super::load::{self, IgnoredProjectFile, LoadedConfig};
use super::settings::{NotifySettings, Settings, StoreSettings, UiSettings, needs_restart};
use super::{project, trust};

/// The configuration in force.
pub struct LiveConfig {
    place: LayerPaths,
    is_set: fn(&str) -> bool,
    /// What only a restart can change is as it was then.
    started: Settings,
    /// Held while files are read, so that the newest reading is the last one taken over.
    reading: Mutex<()>,
    /// Held for moments only: whoever looks at the configuration waits for no file.
    now: Mutex<CurrentConfig>,
    models: watch::Sender<Arc<ModelSettings>>,
    mcp: watch::Sender<McpSettings>,
    policy: watch::Sender<Arc<Policy>>,
    standing: watch::Sender<Arc<ConfigStatus>>,
    apply: ApplySettings,
}

/// Takes settings over before they are in force, or says why they cannot be.
pub type ApplySettings = Box<dyn Fn(&Settings) -> Result<(), String> + Send + Sync>;

struct CurrentConfig {
    settings: Settings,
    loaded: LoadedConfig,
}

/// What is different now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigChange {
    /// Dotted names.
    pub keys: Vec<String>,
    /// What those are set to, as TOML, where that is short and no secret.
    pub values: BTreeMap<String, String>,
    /// Who has changed it beside all files.
    pub by: Option<AnsweringPerson>,
}

/// How the configuration stands since it was last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigStatus {
    /// Rises with each reading that has something to tell.
    pub number: u64,
    /// What that reading changed.
    pub changed: ConfigChange,
    /// Why the files as they are now are not in force, if they are not.
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
    /// Keys whose new value waits for a restart.
    pub restart_needed: Vec<String>,
    pub ui: UiSettings,
    pub notify: NotifySettings,
    pub grace: Duration,
    pub store: StoreSettings,
}

/// What to do with a file that has errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnErrors {
    Tell,
    /// Somebody may be in the middle of writing it.
    Hold,
}

/// Where reading the files again has led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadOutcome {
    Told(Arc<ConfigStatus>),
    /// There are errors, and nobody was told.
    Held,
}

impl std::fmt::Debug for LiveConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveConfig")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl LiveConfig {
    /// `apply` is told of settings that are new before anybody else is.
    pub fn new(
        place: LayerPaths,
        settings: Settings,
        loaded: LoadedConfig,
        is_set: fn(&str) -> bool,
        apply: ApplySettings,
    ) -> Self {
        let standing = ConfigStatus {
            number: 0,
            changed: ConfigChange::default(),
            errors: vec![],
            warnings: warnings(&loaded),
            restart_needed: vec![],
            ui: settings.ui.clone(),
            notify: settings.notify.clone(),
            grace: settings.grace,
            store: settings.store,
        };
        Self {
            place,
            is_set,
            started: settings.clone(),
            models: watch::channel(settings.models.clone()).0,
            mcp: watch::channel(settings.mcp.clone()).0,
            policy: watch::channel(settings.policy.clone()).0,
            standing: watch::channel(Arc::new(standing)).0,
            reading: Mutex::default(),
            now: Mutex::new(CurrentConfig { settings, loaded }),
            apply,
        }
    }

    pub fn models(&self) -> watch::Receiver<Arc<ModelSettings>> {
        self.models.subscribe()
    }

    pub fn mcp(&self) -> watch::Receiver<McpSettings> {
        self.mcp.subscribe()
    }

    pub fn policy(&self) -> watch::Receiver<Arc<Policy>> {
        self.policy.subscribe()
    }

    pub fn watch_status(&self) -> watch::Receiver<Arc<ConfigStatus>> {
        self.standing.subscribe()
    }

    /// Reads everything again. Blocks on files.
    pub fn reload(&self, errors: OnErrors) -> ReloadOutcome {
        let _one_at_a_time = self.reading.lock();
        let loaded = load::load(&self.place, &self.is_set);
        let Some(settings) = loaded.settings.clone() else {
            if errors == OnErrors::Hold {
                return ReloadOutcome::Held;
            }
            return self.stays(error_lines(&loaded.faults));
        };
        if let Err(error) = (self.apply)(&settings) {
            return self.stays(vec![error]);
        }
        let keys = settings.changes_from(&self.now.lock().settings);
        let changed = ConfigChange {
            values: settings.short_values(&keys),
            keys,
            by: None,
        };
        let late = settings.changes_from(&self.started);
        let standing = ConfigStatus {
            number: 0,
            changed,
            errors: vec![],
            warnings: warnings(&loaded),
            restart_needed: late.into_iter().filter(|it| needs_restart(it)).collect(),
            ui: settings.ui.clone(),
            notify: settings.notify.clone(),
            grace: settings.grace,
            store: settings.store,
        };
        self.models.send_if_modified(|models| {
            let differs = *models != settings.models;
            models.clone_from(&settings.models);
            differs
        });
        self.mcp.send_if_modified(|mcp| {
            let differs = *mcp != settings.mcp;
            mcp.clone_from(&settings.mcp);
            differs
        });
        self.policy.send_if_modified(|policy| {
            let differs = *policy != settings.policy;
            policy.clone_from(&settings.policy);
            differs
        });
        *self.now.lock() = CurrentConfig { settings, loaded };
        ReloadOutcome::Told(self.publish(standing))
    }

    /// The configuration before stays, for these reasons.
    fn stays(&self, errors: Vec<String>) -> ReloadOutcome {
        for line in &errors {
            tracing::error!("{line}; the configuration before stays");
        }
        let before = self.standing.borrow().clone();
        ReloadOutcome::Told(self.publish(ConfigStatus {
            changed: ConfigChange::default(),
            errors,
            ..(*before).clone()
        }))
    }

    /// Everybody is told when there is something to tell.
    fn publish(&self, mut standing: ConfigStatus) -> Arc<ConfigStatus> {
        let before = self.standing.borrow().clone();
        standing.number = before.number;
        let said_before = ConfigStatus {
            changed: ConfigChange::default(),
            ..(*before).clone()
        };
        if standing != said_before {
            standing.number += 1;
            let ConfigStatus {
                changed,
                restart_needed,
                ..
            } = &standing;
            tracing::info!(changed = ?changed.keys, ?restart_needed, "configuration read again");
            for warning in standing
                .warnings
                .iter()
                .filter(|it| !before.warnings.contains(it))
            {
                tracing::warn!("{warning}");
            }
        }
        let standing = Arc::new(standing);
        if standing.number == before.number {
            return standing;
        }
        self.standing.send_replace(standing.clone());
        standing
    }

    /// Tells everybody of values that are different now, and in no file. Waits for who reads one.
    pub fn announce(&self, changed: ConfigChange) {
        let _one_at_a_time = self.reading.lock();
        let before = self.standing.borrow().clone();
        self.publish(ConfigStatus {
            changed,
            ..(*before).clone()
        });
    }

    /// What is wrong with the files as they are now: errors and warnings.
    pub fn check(&self) -> (Vec<String>, Vec<String>) {
        let loaded = load::load(&self.place, &self.is_set);
        (error_lines(&loaded.faults), warnings(&loaded))
    }

    /// Every value in force, in general or for a conversation in a directory.
    pub fn show(&self, directory: Option<&Path>) -> Vec<ShownValue> {
        let now = self.now.lock();
        effective_values::values(&now.settings, &now.loaded, directory)
    }

    /// The user's file.
    pub fn file(&self) -> Option<&Path> {
        self.place.user.as_deref()
    }

    /// Directories with manifests of tools, besides the usual one.
    pub fn tool_folders(&self) -> Vec<PathBuf> {
        self.now.lock().settings.tool_folders.clone()
    }

    /// What is known of models.
    pub fn catalog(&self) -> CatalogTables {
        self.now.lock().loaded.layers.below.catalog.clone()
    }

    /// It was named by hand, so that it has to be there.
    pub fn is_named(&self) -> bool {
        self.place.named
    }

    /// What somebody who works in this directory should know of a project's file there.
    pub fn notice(&self, directory: &Path) -> Option<IgnoredProjectFile> {
        let (trust, left_out) = {
            let now = self.now.lock();
            (now.loaded.trust.clone(), now.loaded.left_out.clone())
        };
        load::notice(directory, &trust, &left_out)
    }

    /// Every file whose change may matter.
    pub fn files(&self) -> Vec<PathBuf> {
        let now = self.now.lock();
        let mut files = self.place.machine.clone();
        files.extend(self.place.user.clone());
        files.extend(self.place.state.as_deref().map(trust::place));
        files.extend(now.settings.system_prompt_file.clone());
        let trusted = now.loaded.trust.files.keys();
        files.extend(trusted.filter(|it| project::root_of(it).is_some()).cloned());
        files
    }
}

fn error_lines(faults: &[Fault]) -> Vec<String> {
    let errors = faults.iter().filter(|it| it.is_error());
    errors.take(super::fault::MOST).map(Fault::line).collect()
}

/// Warnings, and errors of projects, which concern only conversations there.
fn warnings(loaded: &LoadedConfig) -> Vec<String> {
    let of_projects = loaded.left_out.values().flatten();
    let all = loaded.faults.iter().filter(|it| !it.is_error());
    all.chain(of_projects).map(Fault::line).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::thread;

    use super::*;

    #[test]
    fn who_looks_at_it_does_not_wait_for_who_reads_it_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, "").unwrap();
        let place = LayerPaths {
            machine: vec![],
            user: Some(file.clone()),
            named: true,
            log: None,
            assignments: vec![],
            state: None,
        };
        let loaded = load::load(&place, &|_| false);
        let settings = loaded.settings.clone().unwrap();
        let (began, begins) = sync_channel(0);
        let (may_go_on, goes_on) = sync_channel::<()>(0);
        let goes_on = Mutex::new(goes_on);
        let slow = Box::new(move |_: &Settings| {
            began.send(()).unwrap();
            goes_on.lock().recv().unwrap();
            Ok(())
        });
        let live = Arc::new(LiveConfig::new(place, settings, loaded, |_| false, slow));
        let reloading = live.clone();
        let reload = thread::spawn(move || reloading.reload(OnErrors::Tell));
        begins.recv().unwrap();
        assert_eq!(vec![file], live.files());
        may_go_on.send(()).unwrap();
        assert!(matches!(reload.join().unwrap(), ReloadOutcome::Told(_)));
    }
}
