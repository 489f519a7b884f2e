//! Commands that are tried: they run in layers over the files, in namespaces of their own, and what they change is read from
//! the layers afterwards. Nothing of it is real before somebody keeps it.

mod difference;
mod hunks;
mod kept_changes;
mod layer_places;
pub(crate) mod layer_watch;
mod layers_hold;
pub(crate) mod run_layers;
mod run_parts;
mod told;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aish_proto::id::ChangesId;
use aishd_layers::{
    BeyondCap, KeepChoice, KeepConflicts, KeepError, KeepOptions, KeepPlan, LayerSet,
    LayerSetError, LayerStore, ReadBounds, Recovered, RelPath,
};
use aishd_log::time::Timestamp;
use aishd_log::tried::ChangeSummary;
use aishd_platform::{clock, failpoint};
use aishd_process::contained::{Containment, Mechanism, WriteLayer, mount_points};
use aishd_profile::ProfileGround;
use aishd_rules::command_setting::CommandSetting;
use parking_lot::Mutex;
use tokio::sync::watch;

pub use self::difference::Difference;
pub use self::kept_changes::{KeptAbout, ReversedChanges, Undoable};
use self::layer_places::{layer_places, outermost, real};
use self::layer_watch::{LayerWatch, LayerWeights};
pub use self::layers_hold::{LayersHold, LookedAt};
pub use self::run_parts::{PartFound, PartWish};
use self::told::{few, shown, summary};

/// What is held so that keeping can be undone, at most.
const UNDO_BYTES: u64 = 1 << 30;
/// Where commands are tried; cheap to clone.
#[derive(Clone, Debug)]
pub struct TrialRoom(Arc<Room>);

#[derive(Debug)]
struct Room {
    layers: LayerStore,
    /// Where they are.
    directory: PathBuf,
    /// Layers that are to be kept, and whose question is over.
    held: Mutex<HashSet<ChangesId>>,
    /// Layers that somebody has for himself.
    in_use: watch::Sender<HashSet<ChangesId>>,
    /// What the layers of runs took when they were last weighed.
    weights: LayerWeights,
    /// What the last daemon began is done or taken back.
    recovered: watch::Sender<bool>,
    /// What the daemon before this one left.
    left: Vec<String>,
    profiles: ProfileGround,
}

/// A trial that can begin.
#[derive(Debug)]
pub struct Trial {
    room: TrialRoom,
    pub id: ChangesId,
    set: LayerSet,
    pub(super) containment: Containment,
    /// Whatever ends it early, its layers go.
    goes: bool,
}

/// How much is read of what a trial changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialReading {
    /// Which files.
    Files,
    /// And how, of as many as there is room for.
    Difference,
}

/// What a trial changed, held in its layers until it is kept or dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialChanges {
    pub summary: ChangeSummary,
    /// Empty where nobody wanted it.
    pub difference: String,
}

/// What was made real.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeepReport {
    /// The first ones of many.
    pub paths: Vec<String>,
    pub count: u64,
    /// What there is to be said of it besides.
    pub remark: String,
}

/// What was done of what the last daemon began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrialRecovery {
    /// For people.
    pub told: Vec<String>,
    /// Keeps that are taken back by now.
    pub undone: Vec<ChangesId>,
}

/// Why a wish to keep or to take back came to nothing. But for one that has not ended nothing was touched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeFailure {
    #[error("changed since by something else: {}", few(.0))]
    Conflicts(Vec<String>),
    /// What was looked at is not what is there.
    #[error("a command has changed that since it was looked at")]
    Unseen,
    /// It had begun, perhaps.
    #[error("it did not end, and the next start of aishd goes on with it or takes it back: {0}")]
    Unfinished(String),
    #[error("{0}")]
    Other(String),
}

impl TrialRoom {
    /// `directory` is made where it is missing.
    pub fn open(directory: &Path, profiles: ProfileGround) -> Result<Self, LayerSetError> {
        let layers = LayerStore::open(directory)?;
        Ok(Self(Arc::new(Room {
            held: Mutex::default(),
            in_use: watch::Sender::default(),
            weights: LayerWeights::default(),
            recovered: watch::Sender::new(false),
            left: layers.list()?,
            layers,
            directory: directory.to_owned(),
            profiles,
        })))
    }

    /// Why nothing can be tried here, as a real child has found out.
    pub async fn missing(&self) -> Option<String> {
        self.0.profiles.probe().await;
        self.known_missing()
    }

    /// The same as far as somebody has asked.
    pub fn known_missing(&self) -> Option<String> {
        if failpoint::misses("trial") {
            return Some("it is switched off".to_owned());
        }
        let probe = self.0.profiles.known()?;
        let needed = [&probe.user_namespaces, &probe.overlay, &probe.seccomp];
        needed.into_iter().find_map(Mechanism::missing)
    }

    /// Ends what the last daemon was doing to files, so that each keep is whole or as before, and says what it did. Of the
    /// layers that it left only those that `wanted` names stay.
    pub fn recover(&self, wanted: impl Fn(ChangesId) -> bool) -> TrialRecovery {
        let TrialRecovery {
            mut told,
            mut undone,
        } = TrialRecovery::default();
        match self.0.layers.recover() {
            Ok(all) => {
                for one in all {
                    match one {
                        Ok(recovered) => {
                            if let Recovered::Undone(id) = &recovered {
                                undone.extend(id.parse::<ChangesId>());
                            }
                            told.push(recovery(&recovered));
                        }
                        Err(error) => told.push(text(&error)),
                    }
                }
            }
            Err(error) => told.push(text(&error)),
        }
        for id in &self.0.left {
            let is_wanted = |it: ChangesId| wanted(it) || self.0.held.lock().contains(&it);
            if !id.parse().is_ok_and(is_wanted)
                && let Err(error) = self.0.layers.hide_set(id)
            {
                told.push(text(&error));
            }
        }
        self.sweep();
        told.extend(self.expire());
        told.extend(self.forget_lost().err().map(|it| text(&it)));
        self.0.recovered.send_replace(true);
        TrialRecovery { told, undone }
    }

    /// Makes the layers of a command that would run like this, over these directories among others. It waits for a tick of the file system's clock.
    pub fn begin(&self, setting: &CommandSetting, besides: &[PathBuf]) -> Result<Trial, String> {
        let id = ChangesId(clock::ulid());
        let lowers = self.lowers(setting, besides).map_err(|it| text(&it))?;
        let set = self
            .0
            .layers
            .create(&id.to_string(), &lowers, clock::now().0)
            .map_err(|it| text(&it))?;
        Ok(Trial {
            room: self.clone(),
            id,
            containment: self.containment(setting, Self::write_layers(&set)),
            set,
            goes: true,
        })
    }

    /// The directories that have layers: the homes, the command's own, these, and those for what is temporary.
    fn lowers(&self, setting: &CommandSetting, besides: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
        let besides = besides.iter().map(|it| real(it));
        let cwd = real(Path::new(&setting.cwd));
        let wanted = self.homes(setting).into_iter().chain([cwd]);
        Ok(layer_places(wanted.chain(besides), &mount_points()?))
    }

    fn write_layers(set: &LayerSet) -> Vec<WriteLayer> {
        let layers = (0..set.layers()).map(|it| WriteLayer {
            lower: set.lower(it),
            upper: set.upper(it),
            work: set.work(it),
        });
        layers.collect()
    }

    /// Around a command that changes nothing but layers.
    fn containment(&self, setting: &CommandSetting, layers: Vec<WriteLayer>) -> Containment {
        let cwd = real(Path::new(&setting.cwd));
        let projects: Vec<PathBuf> = cwd.ancestors().map(Path::to_owned).collect();
        let homes = self.homes(setting);
        Containment {
            layers,
            masks: (self.0.profiles).masks(&homes, &setting.variables, &projects),
            ..Containment::default()
        }
    }

    fn homes(&self, setting: &CommandSetting) -> Vec<PathBuf> {
        let given = setting.home().map(|it| real(Path::new(it)));
        let homes = self.0.profiles.home().map(Path::to_owned);
        let homes = homes.into_iter().chain(given);
        outermost(homes.collect())
    }

    /// Whether these paths of what was changed, or all of it, can be kept as things are.
    pub fn check(&self, id: ChangesId, only: &[String]) -> Result<(), ChangeFailure> {
        self.plan(id, only).map(drop)
    }

    fn plan(&self, id: ChangesId, only: &[String]) -> Result<(LayerSet, KeepPlan), ChangeFailure> {
        let set = self.0.layers.get(&id.to_string()).map_err(other)?;
        let choice = choice(&set, only)?;
        let plan = self.0.layers.plan(&set, &choice).map_err(other)?;
        if let KeepChoice::Paths(paths) = &choice
            && let Some(at) = paths
                .iter()
                .position(|(layer, path)| !plan.changes(*layer, path))
        {
            let why = format!("nothing was changed at {}", only[at]);
            return Err(ChangeFailure::Other(why));
        }
        let plan = without_conflicts(&set, plan)?;
        Ok((set, plan))
    }

    fn plan_choice(&self, set: &LayerSet, choice: &KeepChoice) -> Result<KeepPlan, ChangeFailure> {
        let plan = self.0.layers.plan(set, choice).map_err(other)?;
        without_conflicts(set, plan)
    }

    /// Makes what was changed real, or these paths of it, as a whole or not at all. The layers are gone then, but for a keep that
    /// has begun and did not end: recovery needs them.
    pub fn keep_or_drop(
        &self,
        id: ChangesId,
        only: &[String],
        now: Timestamp,
        about: &KeptAbout,
    ) -> Result<KeepReport, ChangeFailure> {
        let kept = self.keep_planned((id, id), only, now, about);
        if !matches!(kept, Err(ChangeFailure::Unfinished(_))) {
            self.drop_layers(id);
        }
        kept
    }

    /// An undo names it by the second of the two.
    fn keep_planned(
        &self,
        (id, undo): (ChangesId, ChangesId),
        only: &[String],
        now: Timestamp,
        about: &KeptAbout,
    ) -> Result<KeepReport, ChangeFailure> {
        let (set, plan) = self.plan(id, only)?;
        self.keep_plan(&set, &plan, (undo, now), about)
    }

    fn keep_plan(
        &self,
        set: &LayerSet,
        plan: &KeepPlan,
        (undo, now): (ChangesId, Timestamp),
        about: &KeptAbout,
    ) -> Result<KeepReport, ChangeFailure> {
        let count = plan.paths() as u64;
        if count == 0 {
            return Ok(KeepReport::default());
        }
        let options = KeepOptions {
            undo_id: undo.to_string(),
            conflicts: KeepConflicts::Refuse,
            undo_cap_bytes: UNDO_BYTES,
            beyond_cap: BeyondCap::GoWithoutUndo,
            kept_at_ms: now.0,
        };
        // Before it is kept: what recovery finishes is told of, too.
        if let Err(error) = self.note(undo, about) {
            tracing::warn!(changes = %undo, %error, "nothing will say what was kept");
        }
        let kept = match self.0.layers.keep(set, plan, &options) {
            Ok(kept) => kept,
            Err(error @ KeepError::Io { .. }) => {
                return Err(ChangeFailure::Unfinished(text(&error)));
            }
            Err(error) => {
                let _none_was_written = std::fs::remove_file(self.about_path(undo));
                return Err(match error {
                    KeepError::Conflicts(conflicts) => {
                        let paths = conflicts.iter();
                        let paths = paths.map(|it| shown(set, it.layer, &it.path));
                        ChangeFailure::Conflicts(paths.collect())
                    }
                    error => other(error),
                });
            }
        };
        let mut said = vec![];
        if kept.undo_bytes.is_none() {
            said.push("it cannot be undone: what was there before is too large".to_owned());
        }
        if !kept.not_kept.is_empty() {
            said.push(format!(
                "{} sockets and devices were left out",
                kept.not_kept.len()
            ));
        }
        Ok(KeepReport {
            paths: about.paths.clone(),
            count,
            remark: said.join("; "),
        })
    }

    /// These layers are wanted, though no question asks about them any more.
    pub fn hold(&self, id: ChangesId) {
        self.0.held.lock().insert(id);
    }

    /// Nothing of what a trial changed is wanted any more.
    pub fn drop_layers(&self, id: ChangesId) {
        self.0.held.lock().remove(&id);
        self.0.weights.forget(id);
        match self.0.layers.hide_set(&id.to_string()) {
            Ok(()) => self.sweep(),
            Err(error) => {
                tracing::warn!(changes = %id, error = %text(&error), "layers stay until the next start");
            }
        }
    }

    /// Removes what is hidden, in a thread that a stop does not wait for: of many files that takes minutes.
    fn sweep(&self) {
        let layers = self.0.layers.clone();
        let sweeping = std::thread::Builder::new().name("sweep-layers".to_owned());
        let begun = sweeping.spawn(move || {
            if let Err(error) = layers.sweep() {
                tracing::debug!(error = %text(&error), "what is hidden stays until the next time");
            }
        });
        if let Err(error) = begun {
            tracing::debug!(%error, "what is hidden stays until the next time");
        }
    }
}

impl Trial {
    /// Looks after the room that it takes.
    pub(super) fn watch(&self, most: u64) -> Result<LayerWatch, String> {
        LayerWatch::begin(&self.room.0.weights, self.id, &self.set, most)
    }

    /// Reads what was changed, once nothing that changes it runs any more, and the difference where it is wanted.
    pub fn end(&mut self, reading: TrialReading) -> Result<TrialChanges, String> {
        let read = || -> io::Result<TrialChanges> {
            let sealed = self.set.seal()?;
            let bounds = ReadBounds::default();
            let changes = self.set.changes(&bounds)?;
            Ok(TrialChanges {
                summary: summary(&self.set, &changes, sealed.changed_meanwhile),
                difference: match reading {
                    TrialReading::Files => String::new(),
                    TrialReading::Difference => Difference::of(&self.set, &changes, &bounds).text,
                },
            })
        };
        read().map_err(|error| format!("read what it changed: {error}"))
    }

    /// Its layers stay, for somebody who says so knows of them.
    pub fn hold(mut self) {
        self.goes = false;
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if !self.goes {
            return;
        }
        self.room.drop_layers(self.id);
    }
}

/// For people.
fn recovery(recovered: &Recovered) -> String {
    match recovered {
        Recovered::Kept(id) => format!("the changes {id} that were being kept are kept"),
        Recovered::WentBack(id, left) if left.is_empty() => {
            format!("the changes {id} that were being kept are taken back; keep them again")
        }
        Recovered::WentBack(id, left) => format!(
            "the changes {id} that were being kept are taken back, but for {} paths that somebody changed meanwhile",
            left.len()
        ),
        Recovered::Undone(id) => format!("the changes {id} that were being undone are undone"),
        Recovered::StillKept(id) => format!(
            "the changes {id} that were being undone stay: somebody else changed them meanwhile"
        ),
    }
}

/// What a person names, by the layers that it is in.
fn choice(set: &LayerSet, only: &[String]) -> Result<KeepChoice, ChangeFailure> {
    if only.is_empty() {
        return Ok(KeepChoice::All);
    }
    let place = |path: &String| {
        let place = (0..set.layers()).find_map(|layer| {
            let below = Path::new(path).strip_prefix(set.lower(layer)).ok()?;
            Some((layer, RelPath::new(below)?))
        });
        place.ok_or_else(|| ChangeFailure::Other(format!("nothing was changed at {path}")))
    };
    let paths = only.iter().map(place).collect::<Result<_, _>>()?;
    Ok(KeepChoice::Paths(paths))
}

/// Somebody else's work is never lost.
fn without_conflicts(set: &LayerSet, plan: KeepPlan) -> Result<KeepPlan, ChangeFailure> {
    if plan.conflicts.is_empty() {
        return Ok(plan);
    }
    let paths = plan.conflicts.iter();
    let paths = paths.map(|it| shown(set, it.layer, &it.path)).collect();
    Err(ChangeFailure::Conflicts(paths))
}

fn other(error: impl std::error::Error) -> ChangeFailure {
    ChangeFailure::Other(text(&error))
}

/// With its causes.
fn text(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said.push_str(&format!(": {error}"));
        cause = error.source();
    }
    said
}
