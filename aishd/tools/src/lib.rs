//! Who offers tools, and running a call of one. What may run is decided elsewhere; this room does what it is told.

pub mod builtin;
pub mod builtin_kind;
mod command_network;
mod command_note;
pub mod contained_command;
pub mod entered_directory;
pub mod environment_folder;
mod fetch;
mod files;
pub mod machine;
mod piece_text;
pub mod registry;
mod result;
mod result_blocks;
mod server_asides;
pub mod shell;
pub mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aishd_files::{FileCall, FileReply, FileRequest, SeenFile, elsewhere};
use aishd_log::command_result::CommandResult;
use aishd_log::ending::CommandEnding;
use aishd_log::pattern::Pattern;
use aishd_log::pinned_resource::{PinnedContent, PinnedEntry};
use aishd_log::server_task::ServerTask;
use aishd_log::shell as command;
use aishd_log::tool::Tool;
use aishd_log::tool_name::Alias;
use aishd_log::tried::ChangeSummary;
pub use aishd_mcp::call_listener::BegunTask;
use aishd_mcp::hub::Hub;
pub use aishd_mcp::{
    CallNote as Said, ElicitationAnswer as Filled, ElicitationCall as Form,
    SamplingCall as ForModel, SamplingOutcome, SignInWanted,
};
use aishd_mcp::{FailureSide, ToolCallError};
use aishd_mcp_messages::server::{ServerPhase, ServerSnapshot};
use aishd_mcp_messages::tool_approval::{ApprovedTool, offered_tool};
pub use aishd_profile::{
    HostAnswer, HostQuestion, HostRules, HostScheme, NetworkWish, OpenQuestion, QuestionSettings,
    host_patterns,
};
use aishd_profile::{OWN_TREES, ProfileGround};
use aishd_rules::catalog::Catalog;
use aishd_rules::command_setting::CommandSetting;
use aishd_rules::gate::AdmittedCall;
use aishd_rules::policy::Policy;
use aishd_rules::registry::{Manifest, ManifestRegistry};
use aishd_rules::secrets;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use self::registry::{CallContext, CallPlace, ManifestRunner, RunnerJob};
use self::result::judged;
pub use self::result::{CallProgress, ToolOutput, returned};
pub use self::server_asides::ServerAsides;
use self::trial::{Trial, TrialChanges, TrialReading, TrialRoom};

/// What a call says that waits to be heard.
const NOTES: usize = 64;
/// A request does not wait longer for what is pinned.
const HELD_WITHIN: Duration = Duration::from_secs(10);

/// All tools there are, and the way to run them; cheap to clone.
#[derive(Clone, Debug)]
pub struct ToolRunner {
    hub: Hub,
    servers: watch::Receiver<Arc<ServerSnapshot>>,
    /// What manifests say.
    registry: watch::Receiver<Arc<ManifestRegistry>>,
    publisher: Arc<watch::Sender<Arc<ManifestRegistry>>>,
    runner: ManifestRunner,
    /// Made anew when a number has changed.
    made: Arc<Mutex<CatalogVersion>>,
}

/// A catalog, and the numbers of servers and manifests that it is of; none at first.
type CatalogVersion = (Option<(u64, u64)>, Arc<Catalog>);

/// All tools at one moment.
#[derive(Clone, Debug)]
pub struct Toolset {
    /// Grows whenever a tool came, went or changed.
    pub version: u64,
    pub catalog: Arc<Catalog>,
    /// What of it is written down.
    pub registry: Arc<ManifestRegistry>,
}

/// Reads what was changed, once nothing that changes it runs any more.
async fn read_trial(
    mut trial: Trial,
    reading: TrialReading,
) -> Result<(Box<Trial>, TrialChanges), String> {
    let read = tokio::task::spawn_blocking(move || {
        let read = trial.end(reading)?;
        Ok((Box::new(trial), read))
    });
    read.await.unwrap_or_else(|panic| Err(panic.to_string()))
}

/// Of a change in a directory of the program's own, such as `/dev/shm`.
const NOWHERE: &str = "nothing would be changed: that directory is not real for this tool. Choose a path in the conversation's directories.";

/// What a call that changes files came to.
#[derive(Debug)]
pub enum TriedFileChange {
    /// Nothing was changed; why, and what to do next, for the model.
    Refused(String),
    Held {
        /// For the model, where it is kept.
        text: String,
        /// What the conversation has seen of the file then.
        seen: Option<SeenFile>,
        held: TrialChanges,
        /// Its layers go with it, unless somebody holds them.
        trial: Box<Trial>,
    },
}

/// What a call needs to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum CallWork {
    Builtin(builtin::BuiltinCall),
    /// A program of a manifest is run.
    Program(Box<RunnerJob>),
    /// A server is asked.
    Mcp,
    /// It is not what was approved any more, or is no call.
    Refused(String),
}

impl ToolRunner {
    /// The tools of the daemon itself and of these servers; those of manifests come when they are published.
    pub fn new(hub: Hub, runner: ManifestRunner) -> Self {
        let servers = hub.servers();
        let (publisher, registry) = watch::channel(Arc::default());
        Self {
            hub,
            servers,
            registry,
            publisher: Arc::new(publisher),
            runner,
            made: Arc::default(),
        }
    }

    /// The same tools in sessions of one conversation's own, which end with the last of these handles.
    pub fn with_own_roots(&self, roots: Vec<PathBuf>) -> Self {
        Self {
            hub: self.hub.with_own_roots(roots),
            ..self.clone()
        }
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        self.toolset().catalog
    }

    /// What there is now, with its number.
    pub fn toolset(&self) -> Toolset {
        let servers = self.servers.borrow().clone();
        let registry = self.registry.borrow().clone();
        let numbers = (servers.toolset, registry.number);
        let mut made = self.made.lock();
        if made.0 != Some(numbers) {
            *made = (Some(numbers), Arc::new(catalog(&servers, &registry)));
        }
        Toolset {
            // Each of the two only grows, and so does the sum.
            version: numbers.0 + numbers.1,
            catalog: made.1.clone(),
            registry,
        }
    }

    /// What manifests say now.
    pub fn registry(&self) -> Arc<ManifestRegistry> {
        self.registry.borrow().clone()
    }

    /// These manifests count from now on, and no others; `faults` is what is wrong with any. Returns a line for each provider
    /// that came, went or changed.
    pub fn publish(&self, manifests: Vec<Arc<Manifest>>, faults: &[String]) -> Vec<String> {
        let mut changes = vec![];
        self.publisher.send_if_modified(|registry| {
            let now = registry.followed_by(manifests);
            changes = now.changes_from(registry);
            let differs = now.differs_from(registry);
            if !differs && registry.faults == faults {
                return false;
            }
            // With other faults only, the tools are the same and so is their number.
            let now = if differs {
                now
            } else {
                ManifestRegistry::clone(registry)
            };
            *registry = Arc::new(now.with_faults(faults.to_vec()));
            true
        });
        changes
    }

    /// Names that a manifest cannot have.
    pub fn taken_aliases(&self) -> BTreeSet<Alias> {
        let servers = self.servers.borrow().clone();
        let own = builtin::tools().map(|it| it.name.alias().clone());
        let own = own.chain([command::tool().name.alias().clone()]);
        let others = servers.list.iter().map(|it| it.alias.clone());
        own.into_iter().chain(others).collect()
    }

    /// Rules that speak of tools which their provider does not have, though it has told what it has. A slip in a
    /// deny rule denies nothing, so somebody should know.
    pub fn unmatched(&self, policy: &Policy) -> Vec<Pattern> {
        let servers = self.servers.borrow().clone();
        let has_told = |it: &Alias| {
            let server = servers.get(it);
            let is_known = self.registry.borrow().providers.contains_key(it);
            is_known || it.is_own() || server.is_some_and(|it| it.state == ServerPhase::Ready)
        };
        let catalog = self.catalog();
        let unknown = catalog.unknown_to(policy.patterns());
        let commands = command::tool();
        let [command, commands] = [
            Pattern::Tool(commands.name.clone()),
            Pattern::Provider(commands.name.alias().clone()),
        ];
        let mut unknown: Vec<Pattern> = unknown
            .into_iter()
            .filter(|it| ![&command, &commands].contains(&it))
            .filter(|it| has_told(it.provider()))
            .collect();
        unknown.sort();
        unknown.dedup();
        unknown
    }

    /// Waits until a server or a tool has come, gone or changed.
    pub async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        tokio::select! {
            changed = self.servers.changed() => changed,
            changed = self.registry.changed() => changed,
        }
    }

    /// Asks servers for their tools again where the time is over for which they said that a list holds. It waits for none.
    pub fn freshen(&self) {
        self.hub.freshen();
    }

    /// What has to be done for a call, if the tool still is what the gate looked at.
    pub fn work(&self, go: &AdmittedCall) -> CallWork {
        let name = &go.tool.name;
        let toolset = self.toolset();
        let now = toolset.catalog.get(name).cloned();
        let is_same = |now: &Arc<Tool>| {
            Arc::ptr_eq(now, &go.tool) || now.definition_digest() == go.tool.definition_digest()
        };
        if now.is_some_and(|it| !is_same(&it)) {
            return CallWork::Refused(format!(
                "[aish] tool dispatch failed: {name} changed after the call was let through; nothing ran"
            ));
        }
        match builtin::call(name, &go.arguments) {
            Some(Ok(call)) => CallWork::Builtin(call),
            Some(Err(why)) => CallWork::Refused(format!("[aish] tool dispatch failed: {why}")),
            None => match program(&toolset.registry, go) {
                Some(job) => CallWork::Program(Box::new(job)),
                // Its session looks at the definition once more, right before it asks.
                None => CallWork::Mcp,
            },
        }
    }

    /// Runs a program of a manifest to its end; dropped, it is ended. `context` has what its manifest reads, as far as it
    /// is there.
    pub async fn run(
        &self,
        job: &RunnerJob,
        place: &CallPlace,
        context: &CallContext,
    ) -> ToolOutput {
        self.runner.run(job, place, context).await
    }

    /// Variables that every command has.
    pub fn base(&self) -> &BTreeMap<String, String> {
        self.runner.children().base()
    }

    /// Runs a command of this machine to its end, or until it is cancelled; dropped, it is ended. `print` hears what it
    /// prints.
    pub async fn command(
        &self,
        command: &str,
        setting: &Arc<CommandSetting>,
        limits: shell::CommandLimits,
        cancel: &CancellationToken,
        print: impl FnMut(&str),
    ) -> CommandResult {
        if setting.held_by.read().is_some() {
            let profiles = self.runner.profiles();
            return shell::run_reading(profiles, command, setting, limits, cancel, print).await;
        }
        let children = self.runner.children();
        shell::run(children, command, setting, limits, cancel, print).await
    }

    /// The same of a command of a run that works in layers.
    pub async fn command_in_layers(
        &self,
        command: &str,
        setting: &Arc<CommandSetting>,
        limits: shell::CommandLimits,
        cancel: &CancellationToken,
        run: shell::RunRoom,
        print: impl FnMut(&str),
    ) -> CommandResult {
        let profiles = self.runner.profiles();
        shell::run_in_layers(profiles, command, setting, limits, cancel, run, print).await
    }

    /// Why nothing can be tried here.
    pub async fn misses_for_trials(&self, room: &TrialRoom) -> Option<String> {
        room.missing().await
    }

    /// What programs under a profile are started with.
    pub fn profiles(&self) -> &ProfileGround {
        self.runner.profiles()
    }

    /// Runs a command in the layers of a trial to its end, or until it is cancelled, and says what it changed.
    ///
    /// # Errors
    /// Why it did not begin, or why what it changed cannot be read; the layers are gone then.
    pub async fn try_command(
        &self,
        command: &str,
        setting: &CommandSetting,
        limits: shell::CommandLimits,
        cancel: &CancellationToken,
        (trial, reach): (Trial, NetworkWish),
    ) -> Result<(CommandResult, ChangeSummary, Box<Trial>), String> {
        let profiles = self.runner.profiles();
        let within = (&trial, reach);
        let ended = shell::run_tried(profiles, command, setting, limits, cancel, within).await;
        let ended = match ended {
            Ok(ended) if ended.ending != CommandEnding::Cancelled => ended,
            other => {
                return Err(other.err().unwrap_or_else(|| "it was cancelled".to_owned()));
            }
        };
        let (trial, read) = read_trial(trial, TrialReading::Files).await?;
        Ok((ended, read.summary, trial))
    }

    /// Does a call of a tool for files that only reads; every failure becomes text. It says what was seen.
    pub async fn read_files(
        &self,
        call: FileCall,
        place: &CallPlace,
    ) -> (ToolOutput, Option<SeenFile>) {
        let profiles = self.runner.profiles();
        let request = self.file_request(call, place, vec![]);
        // It was approved by that name, and may lie where the program would see only what is its own.
        let mut roots = place.roots.clone();
        if let Some(named) = elsewhere(&request) {
            if OWN_TREES.iter().any(|it| named == Path::new(it)) {
                let why = "it is a directory of the tool's own here: name what is in it";
                return (
                    ToolOutput::refused(format!("{}: {why}", named.display())),
                    None,
                );
            }
            roots.push(named);
        }
        let reply = files::read(profiles, &request, &roots).await;
        let seen = reply.as_ref().ok().and_then(|it| it.seen.clone());
        (files::output(reply), seen)
    }

    /// Does a call of a tool for files that changes some, in layers: what it came to is a proposal, which is held where it
    /// changed anything.
    ///
    /// # Errors
    /// Why it did not come to an end.
    pub async fn try_file_change(
        &self,
        call: FileCall,
        place: &CallPlace,
        seen: Vec<SeenFile>,
        setting: &CommandSetting,
        room: &TrialRoom,
    ) -> Result<TriedFileChange, String> {
        if let Some(why) = self.misses_for_trials(room).await {
            return Err(format!("{why}; `aishctl doctor` says more"));
        }
        let request = self.file_request(call, place, seen);
        let making = (room.clone(), setting.clone(), place.roots.clone());
        let made = tokio::task::spawn_blocking(move || making.0.begin(&making.1, &making.2)).await;
        let trial = made.unwrap_or_else(|panic| Err(panic.to_string()))?;
        let children = self.runner.profiles().children();
        let FileReply {
            text,
            failure,
            seen,
            picture: _,
        } = files::change(children, &request, &trial, setting.umask()).await?;
        if failure.is_some() {
            return Ok(TriedFileChange::Refused(text));
        }
        let (trial, held) = read_trial(trial, TrialReading::Difference).await?;
        if held.summary.count == 0 {
            return Ok(TriedFileChange::Refused(NOWHERE.to_owned()));
        }
        Ok(TriedFileChange::Held {
            text,
            seen,
            held,
            trial,
        })
    }

    fn file_request(&self, call: FileCall, place: &CallPlace, seen: Vec<SeenFile>) -> FileRequest {
        FileRequest {
            call,
            directory: place.cwd.clone().into(),
            home: self.runner.profiles().home().map(Path::to_owned),
            roots: place.roots.clone(),
            keys: secrets::of_project().map(str::to_owned).collect(),
            seen,
        }
    }

    /// What these resources hold now, or why they cannot be read; none is waited for long.
    pub async fn pinned_contents(&self, pinned: &[PinnedEntry]) -> Vec<PinnedContent> {
        let each = pinned.iter().map(|it| async move {
            let never = CancellationToken::new();
            let read = self.hub.current(&it.alias, &it.uri, &never);
            let text = match tokio::time::timeout(HELD_WITHIN, read).await {
                Ok(Ok(text)) => text,
                Ok(Err(error)) => format!("[aish] it cannot be read now: {error}"),
                Err(_elapsed) => "[aish] it cannot be read now: its server is slow".to_owned(),
            };
            PinnedContent::new(it, text)
        });
        futures_util::future::join_all(each).await
    }

    /// What a resource holds; every failure becomes text.
    pub async fn read_resource(
        &self,
        server: &Alias,
        uri: &str,
        cancel: &CancellationToken,
    ) -> ToolOutput {
        match self.hub.resource_text(server, uri, cancel).await {
            Ok(text) => ToolOutput::from_text(text),
            Err(error) => ToolOutput::failed(failed(&error)),
        }
    }

    /// How often somebody has signed in to a server, where one can.
    pub fn sign_ins(&self, server: &Alias) -> Option<u64> {
        self.hub.sign_ins(server)
    }

    /// Returns when a server is there and somebody has signed in to it: another number of times than `before`, where that is
    /// known. Cancel-safe.
    pub async fn signed_in(&self, server: &Alias, before: Option<u64>) {
        let mut servers = self.servers.clone();
        loop {
            let found = servers.borrow_and_update().get(server).cloned();
            let is_ready = found.is_some_and(|it| it.state == ServerPhase::Ready);
            let is_new = before.is_none_or(|it| self.hub.sign_ins(server) != Some(it));
            if is_ready && is_new {
                return;
            }
            if servers.changed().await.is_err() {
                // Nobody will say so any more.
                return std::future::pending().await;
            }
        }
    }

    /// Asks a server. Every failure becomes text for the model. `said` hears what the call says meanwhile. With a task it
    /// was asked before: only what comes of it is waited for.
    pub async fn ask(
        &self,
        (go, task): (&AdmittedCall, Option<ServerTask>),
        cancel: &CancellationToken,
        mut said: impl FnMut(Said),
        asides: ServerAsides,
    ) -> ToolOutput {
        let (notes, mut heard) = mpsc::channel(NOTES);
        let ears = asides.heard_with(notes);
        let arguments = go.arguments.clone();
        let mut call = pin!(async {
            match task {
                Some(task) => {
                    let alias = go.tool.name.alias();
                    self.hub.follow(alias, task, ears, cancel).await
                }
                None => {
                    let approved = ApprovedTool::of(&go.tool);
                    self.hub.call(approved, arguments, ears, cancel).await
                }
            }
        });
        let outcome = loop {
            tokio::select! {
                biased;
                Some(note) = heard.recv() => said(note),
                outcome = &mut call => break outcome,
            }
        };
        match outcome {
            Ok(outcome) => {
                let servers = self.servers.borrow().clone();
                let listed = servers.tool(&go.tool.name);
                let schema = listed.and_then(|it| it.output_schema.as_ref());
                let output = ToolOutput {
                    ok: !outcome.is_error,
                    attachments: outcome.attachments,
                    ..ToolOutput::from_text(outcome.text)
                };
                let name = go.tool.name.to_string();
                judged(&name, schema, outcome.structured, output)
            }
            Err(error) => ToolOutput {
                sign_in: self.hub.sign_in_wanted(&error),
                ..ToolOutput::failed(failed(&error))
            },
        }
    }
}

fn program(registry: &ManifestRegistry, go: &AdmittedCall) -> Option<RunnerJob> {
    let (manifest, capability) = registry.find(&go.tool)?;
    Some(RunnerJob {
        manifest: manifest.clone(),
        capability: capability.clone(),
        arguments: go.arguments.clone(),
    })
}

fn failed(error: &ToolCallError) -> String {
    let unknown = if error.may_have_happened() {
        "; the effect of this call is unknown"
    } else {
        ""
    };
    match error.side() {
        // What a server answered is an answer: it is not unknown.
        FailureSide::Dispatch => format!("[aish] tool dispatch failed: {error}"),
        FailureSide::Transport => format!("[aish] tool transport error: {error}{unknown}"),
        FailureSide::Cancelled => format!("[aish] cancelled{unknown}"),
    }
}

fn catalog(servers: &ServerSnapshot, registry: &ManifestRegistry) -> Catalog {
    let own = builtin::tools().map(Arc::new);
    let written = registry.tools().cloned();
    // No server can pass for a part of the daemon.
    let others = servers.list.iter();
    let others = others.filter(|it| !it.alias.is_own());
    let theirs = others.flat_map(|server| {
        let tools = server.tools.iter();
        tools.filter_map(|tool| offered_tool(server, tool).map(Arc::new))
    });
    let theirs = theirs.filter(|it| !registry.providers.contains_key(it.name.alias()));
    Catalog::new(own.chain(written).chain(theirs))
}

/// A member of a call's arguments that has to be a text.
fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    arguments
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("{name:?} has to be a text"))
}
