//! Running a command of this machine in a process of its own: no terminal, nothing on its input, both outputs in
//! one. When its end is told, nothing that it started is left.

pub mod job;

use std::collections::BTreeMap;
use std::future::pending;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::ChangesId;
use aishd_log::command_result::{CommandResult, LeftByShell, WholeOutput};
use aishd_log::ending::{BoundaryFailure, CommandEnding};
use aishd_log::network::NetworkUse;
use aishd_log::profile::Profile;
use aishd_log::shell::PROVIDER;
use aishd_log::shortened_result::MAX_KEPT_BYTES;
use aishd_process::child::Child;
use aishd_process::spec::{ChildExit, ChildSpec, StandardStream};
use aishd_process::{Children, SpawnError};
use aishd_profile::{HeldChild, NetworkWish, ProfileError, ProfileGround, ProfileWish};
use aishd_rules::boundary::{LAYERS_REMARK, READS_REMARK, explains, is_cut};
use aishd_rules::command_setting::{CommandHold, CommandSetting};
use aishd_rules::needs_terminal;
use aishd_rules::policy::Policy;
use rustix::fs::{Access, access};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::ToolOutput;
use super::command_network::CommandNetwork;
use super::command_note;
use super::contained_command::ContainedCommand;
use super::piece_text::PieceText;
use super::result::returned;
use super::trial::layer_watch::LayerWatch;
use super::trial::{Trial, TrialRoom};

/// How long output is read after the shell has ended: what it left behind may hold the pipe.
const DRAIN: Duration = Duration::from_millis(500);
/// How long what a command left in its temporary directory is removed before its end is told.
const CLEAR_WITHIN: Duration = Duration::from_secs(2);
const PIECE_BYTES: usize = 16 << 10;
/// So that a line about what is left out is kept too.
const MOST_KEPT_BYTES: usize = MAX_KEPT_BYTES - (1 << 10);

/// What one command may take.
#[derive(Clone, Copy, Debug)]
pub struct CommandLimits {
    pub(super) time: Duration,
    output_bytes: usize,
    /// What layers take of the disk.
    layer_bytes: u64,
    /// Characters of its output that a model is shown.
    shown_chars: usize,
}

impl CommandLimits {
    pub fn of(policy: &Policy) -> Self {
        Self {
            time: Duration::from_millis(policy.shell.timeout_ms),
            output_bytes: policy.shell.max_output_bytes.min(MOST_KEPT_BYTES),
            layer_bytes: policy.shell.max_layer_bytes,
            shown_chars: policy.max_result_chars,
        }
    }

    pub(super) fn is_over(self) -> CommandEnding {
        CommandEnding::TimedOut {
            after_ms: u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// Whether a file can be executed.
pub fn is_program(path: &str) -> bool {
    Path::new(path).is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// Runs a command to its end, or until it is cancelled; `print` hears what it prints while it comes. Dropped, everything
/// that it started is ended.
pub(super) async fn run(
    children: &Children,
    command: &str,
    setting: &Arc<CommandSetting>,
    limits: CommandLimits,
    cancel: &CancellationToken,
    print: impl FnMut(&str),
) -> CommandResult {
    let begun = Instant::now();
    let inside = match ContainedCommand::of(setting) {
        Ok(inside) => inside,
        Err(error) => {
            let why = format!("make a temporary directory for it: {error}");
            return CommandResult::failed(why, &setting.cwd);
        }
    };
    let spec = spec(command, setting, inside.as_ref());
    let before = spec.env.clone();
    let spawned = cancel.run_until_cancelled(children.spawn(&spec)).await;
    let child = match spawned {
        Some(Ok(child)) => child,
        other => {
            if let Some(inside) = inside {
                inside.end(children, Duration::ZERO).await;
            }
            return not_begun(other.and_then(Result::err), setting);
        }
    };
    let mut heard = CommandHeard::new(limits, print);
    let ending = heard
        .hear_to_the_end(child, (command, setting), limits, cancel, begun, pending())
        .await;
    let within = match inside {
        Some(inside) => heard.end_inside(inside, ending, children).await,
        None => BoundaryFailure::None,
    };
    let left = heard.left(setting, &before, ending);
    CommandResult {
        within,
        left: left.map(Box::new),
        ..heard.result(ending, setting, limits, begun)
    }
}

/// As [`run`], in the layers of a trial.
pub(super) async fn run_tried(
    profiles: &ProfileGround,
    command: &str,
    setting: &CommandSetting,
    limits: CommandLimits,
    cancel: &CancellationToken,
    (trial, reach): (&Trial, NetworkWish),
) -> Result<CommandResult, String> {
    let begun = Instant::now();
    let watch = trial.watch(limits.layer_bytes)?;
    let mut spec = spec(command, setting, None);
    // Nothing that is started by text that nobody has approved is a client of ours.
    spec.provider = None;
    spec.env.retain(|name, _| !is_cut(name));
    spec.contained = Some(Box::new(trial.containment.clone()));
    let started = CommandNetwork::start(profiles, &mut spec, reach);
    let (child, network) = match cancel.run_until_cancelled(started).await {
        Some(Ok(started)) => started,
        Some(Err(error)) => return Err(not_started(&error)),
        None => return Err("it was cancelled".to_owned()),
    };
    let before = spec.env;
    let mut heard = CommandHeard::new(limits, |_: &str| {});
    let (ending, full) = heard
        .hear_watched(child, (command, setting), limits, cancel, begun, watch)
        .await;
    let network = heard.end_network(network).await;
    match full {
        Some(why) => Err(format!("it was ended: {why}; nothing of it is held")),
        None => {
            let left = heard.left(setting, &before, ending).map(|left| {
                let hidden = trial.containment.masks.clone();
                Box::new(LeftByShell { hidden, ..left })
            });
            Ok(CommandResult {
                network,
                left,
                ..heard.result(ending, setting, limits, begun)
            })
        }
    }
}

/// Where a command of a run works: its layers.
#[derive(Clone, Debug)]
pub struct RunRoom {
    pub room: TrialRoom,
    pub changes: ChangesId,
    pub reach: NetworkWish,
}

/// As [`run`], in the layers of the run that it is of. When its end is told they are sealed.
pub(super) async fn run_in_layers(
    profiles: &ProfileGround,
    command: &str,
    setting: &Arc<CommandSetting>,
    limits: CommandLimits,
    cancel: &CancellationToken,
    RunRoom {
        room,
        changes,
        reach,
    }: RunRoom,
    print: impl FnMut(&str),
) -> CommandResult {
    let begun = Instant::now();
    // Another command of the run that was cancelled may be on its way out.
    let Some(held) = cancel.run_until_cancelled(room.hold_layers(changes)).await else {
        return not_begun(None, setting);
    };
    let making = setting.clone();
    let made = tokio::task::spawn_blocking(move || {
        let directories = making.held_by.layers().unwrap_or_default();
        held.begin_step(&making, directories)
    });
    let step = match made.await.unwrap_or_else(|panic| Err(panic.to_string())) {
        Ok(step) => step,
        Err(why) => return held_back(why, setting),
    };
    let watch = match step.watch(limits.layer_bytes) {
        Ok(watch) => watch,
        Err(why) => return held_back(why, setting),
    };
    let mut spec = spec(command, setting, None);
    spec.contained = Some(Box::new(step.containment.clone()));
    // Who cancels now ends it when it has begun: nothing writes in layers that nobody waits for.
    let (child, network) = match CommandNetwork::start(profiles, &mut spec, reach).await {
        Ok(started) => started,
        Err(error) => return not_begun(Some(error), setting),
    };
    let mut heard = CommandHeard::new(limits, print);
    let (ending, full) = heard
        .hear_watched(child, (command, setting), limits, cancel, begun, watch)
        .await;
    let within = match full {
        Some(why) => {
            heard.remark(&format!(
                "[aish] it was ended: {why}; what the run does not need can be removed"
            ));
            BoundaryFailure::Failed
        }
        None => heard.note_hold(LAYERS_REMARK, ending),
    };
    let network = heard.end_network(network).await;
    let sealed = tokio::task::spawn_blocking(move || step.end()).await;
    if let Err(why) = sealed.unwrap_or_else(|panic| Err(panic.to_string())) {
        heard.remark(&format!("[aish] {why}"));
    }
    CommandResult {
        within,
        network,
        ..heard.result(ending, setting, limits, begun)
    }
}

/// As [`run`], where it can write nothing that stays.
pub(super) async fn run_reading(
    profiles: &ProfileGround,
    command: &str,
    setting: &Arc<CommandSetting>,
    limits: CommandLimits,
    cancel: &CancellationToken,
    print: impl FnMut(&str),
) -> CommandResult {
    let begun = Instant::now();
    let wish = ProfileWish {
        profile: Profile::Read,
        roots: setting.held_by.read().unwrap_or_default(),
        ..ProfileWish::OPEN
    };
    let spawned = profiles.spawn(spec(command, setting, None), wish);
    let child = match cancel.run_until_cancelled(spawned).await {
        Some(Ok(HeldChild { child, .. })) => child,
        None => return not_begun(None, setting),
        Some(Err(ProfileError::Spawn(error))) => return not_begun(Some(error), setting),
        Some(Err(error)) => return held_back(error.to_string(), setting),
    };
    let mut heard = CommandHeard::new(limits, print);
    let ending = heard
        .hear_to_the_end(child, (command, setting), limits, cancel, begun, pending())
        .await;
    let within = heard.note_hold(READS_REMARK, ending);
    CommandResult {
        within,
        ..heard.result(ending, setting, limits, begun)
    }
}

/// What was to hold it cannot be had, which a person may be asked about.
fn held_back(why: String, setting: &CommandSetting) -> CommandResult {
    CommandResult {
        within: BoundaryFailure::Stopped,
        ..CommandResult::failed(why, &setting.cwd)
    }
}

fn spec(
    command: &str,
    setting: &CommandSetting,
    inside: Option<&ContainedCommand<'_>>,
) -> ChildSpec {
    let mut env = setting.variables.clone();
    if let Some(inside) = inside {
        inside.name_scratch(&mut env);
    }
    // What nobody has agreed to leaves nothing to others.
    let noting = command_note::noting(&setting.shell, command);
    let noting = noting.filter(|_| !setting.held_by.is_held());
    let takes_note = noting.is_some();
    let text = noting.unwrap_or_else(|| command.to_owned());
    ChildSpec {
        args: vec!["-c".to_owned(), text],
        env,
        umask: setting.umask(),
        stderr: StandardStream::Joined,
        takes_note,
        wall: inside.map(ContainedCommand::wall),
        // A run is granted what its launch says, and nothing beside it.
        provider: (!setting.held_by.is_held()).then(|| PROVIDER.into()),
        ..ChildSpec::new(setting.shell.clone(), setting.cwd.clone())
    }
}

/// It was cancelled before it began, or could not begin.
fn not_begun(error: Option<SpawnError>, setting: &CommandSetting) -> CommandResult {
    let Some(error) = error else {
        return CommandResult {
            ending: CommandEnding::Cancelled,
            ..CommandResult::failed(String::new(), &setting.cwd)
        };
    };
    CommandResult {
        within: ContainedCommand::of_refusal(&error),
        ..CommandResult::failed(not_started(&error), &setting.cwd)
    }
}

fn not_started(error: &SpawnError) -> String {
    let source = std::error::Error::source(error).map(|it| format!(": {it}"));
    let help = match error {
        SpawnError::Directory { .. } => "; `cd DIR` goes to one that is there",
        _ => "",
    };
    format!("{error}{}{help}", source.unwrap_or_default())
}

/// What was read of a command.
struct CommandHeard<P> {
    text: PieceText,
    /// What its shell said of its variables and its directory.
    note: Vec<u8>,
    print: P,
}

impl<P: FnMut(&str)> CommandHeard<P> {
    fn new(limits: CommandLimits, print: P) -> Self {
        Self {
            text: PieceText::new(limits.output_bytes),
            note: vec![],
            print,
        }
    }

    /// The same of one that writes in layers; and why it was ended, if they have more than they may.
    async fn hear_watched(
        &mut self,
        child: Child,
        command: (&str, &CommandSetting),
        limits: CommandLimits,
        cancel: &CancellationToken,
        begun: Instant,
        watch: LayerWatch,
    ) -> (Option<CommandEnding>, Option<String>) {
        let mut full = None;
        let at_end = watch.clone();
        let watching = async { full = Some(watch.full().await) };
        let ending = self
            .hear_to_the_end(child, command, limits, cancel, begun, watching)
            .await;
        if ending.is_some() && full.is_none() {
            let looked = tokio::task::spawn_blocking(move || at_end.full_at_end());
            full = looked.await.ok().flatten();
        }
        let ending = ending.map(|it| full.as_ref().map_or(it, |_| CommandEnding::Full));
        (ending, full)
    }

    /// Reads until the command ends, its time is over, what it may write is `full`, or somebody cancels: then it is `None`, and
    /// something of it may run on for a moment.
    async fn hear_to_the_end(
        &mut self,
        mut child: Child,
        (command, setting): (&str, &CommandSetting),
        limits: CommandLimits,
        cancel: &CancellationToken,
        begun: Instant,
        full: impl Future<Output = ()>,
    ) -> Option<CommandEnding> {
        let wants_terminal = needs_terminal::is_wanted_by(command, setting);
        let time = if wants_terminal {
            limits.time.min(needs_terminal::PATIENCE)
        } else {
            limits.time
        };
        let over = begun + time;
        let ending = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            () = sleep_until(over) => Some(CommandEnding::TimedOut {
                after_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            }),
            () = full => Some(CommandEnding::Full),
            ending = self.listen(&mut child) => Some(ending),
        };
        if ending.is_some() {
            // Nothing of it is left when its end is told.
            child.end(Duration::ZERO).await;
        } else if let CommandHold::Layers(_) = setting.held_by {
            // What it wrote is to be read.
            child.end(Duration::ZERO).await;
        } else {
            // The one who cancels does not wait for what ignores that; its keeper goes on until nothing is left.
            drop(child);
        }
        if ending.is_some_and(CommandEnding::is_failure)
            && (wants_terminal || self.text.has(needs_terminal::is_missed_in))
        {
            self.remark(needs_terminal::NONE);
        }
        ending
    }

    fn result(
        self,
        ending: Option<CommandEnding>,
        setting: &CommandSetting,
        limits: CommandLimits,
        begun: Instant,
    ) -> CommandResult {
        let (text, bytes) = self.text.finish();
        let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let shown = returned(ToolOutput::from_text(text), ms, limits.shown_chars);
        CommandResult {
            ending: ending.unwrap_or(CommandEnding::Cancelled),
            output: shown.content,
            bytes,
            ms,
            kept: shown
                .kept
                .map(|(result, parts)| WholeOutput::New(result, parts)),
            within: BoundaryFailure::None,
            ran_in: setting.cwd.clone(),
            moved: None,
            network: None,
            left: None,
        }
    }

    /// What it left to others, where it ended by itself.
    fn left(
        &self,
        setting: &CommandSetting,
        given: &BTreeMap<String, String>,
        ending: Option<CommandEnding>,
    ) -> Option<LeftByShell> {
        let Some(CommandEnding::Exited { .. }) = ending else {
            return None;
        };
        command_note::left(&self.note, &setting.cwd, given)
    }

    async fn listen(&mut self, child: &mut Child) -> CommandEnding {
        let mut note = vec![];
        let pipe = child.note.take();
        let ending = {
            let mut reading = pin!(command_note::read(pipe, &mut note));
            let mut printing = pin!(self.listen_to_output(child));
            let mut is_read = false;
            let ending = loop {
                tokio::select! {
                    ending = &mut printing => break ending,
                    () = &mut reading, if !is_read => is_read = true,
                }
            };
            if !is_read {
                // What it left behind may hold the pipe.
                let _what_was_said_counts = timeout(DRAIN, reading).await;
            }
            ending
        };
        self.note = note;
        ending
    }

    async fn listen_to_output(&mut self, child: &mut Child) -> CommandEnding {
        let Some(mut stdout) = child.stdout.take() else {
            return ended(child.wait().await);
        };
        let exit = tokio::select! {
            biased;
            () = self.read(&mut stdout) => child.wait().await,
            exit = child.wait() => {
                let _held_by_what_it_left = timeout(DRAIN, self.read(&mut stdout)).await;
                exit
            }
        };
        ended(exit)
    }

    /// What the boundary had to do with how it ended, told where that was badly.
    async fn end_inside(
        &mut self,
        inside: ContainedCommand<'_>,
        ending: Option<CommandEnding>,
        children: &Children,
    ) -> BoundaryFailure {
        let Some(ending) = ending else {
            // Something of it may still run, and whoever cancels does not wait.
            inside.end(children, Duration::ZERO).await;
            return BoundaryFailure::None;
        };
        let within = if ending.is_failure() {
            let (remark, within) = inside.of_failure(self.text.has(explains));
            self.remark(&remark);
            within
        } else {
            ContainedCommand::of_success(self.text.has(explains))
        };
        inside.end(children, CLEAR_WITHIN).await;
        within
    }

    /// What held it had to do with how it ended, told where that sounds like the reason.
    fn note_hold(&mut self, remark: &str, ending: Option<CommandEnding>) -> BoundaryFailure {
        let sounds = self.text.has(explains);
        match ending {
            None => BoundaryFailure::None,
            Some(ending) if ending.is_failure() && sounds => {
                self.remark(remark);
                BoundaryFailure::Stopped
            }
            // The last program of a pipe says nothing of those before it.
            Some(ending) if ending.is_failure() || sounds => BoundaryFailure::Failed,
            Some(_) => BoundaryFailure::None,
        }
    }

    /// What was reached, and refused, told in one line.
    async fn end_network(&mut self, network: CommandNetwork) -> Option<Box<NetworkUse>> {
        let used = network.end().await;
        let line = used.line()?;
        self.remark(&format!("network: {line}"));
        Some(Box::new(used))
    }

    /// Adds a line of ours behind all of it.
    fn remark(&mut self, line: &str) {
        let begin = if self.text.begins_line() { "" } else { "\n" };
        let line = format!("{begin}{line}\n");
        (self.print)(self.text.push(line.as_bytes()));
    }

    /// Reads to the end.
    async fn read(&mut self, from: &mut Receiver) {
        let mut piece = vec![0; PIECE_BYTES];
        // Whatever is wrong with the pipe, there is no more to read.
        while let Ok(got @ 1..) = from.read(&mut piece).await {
            let new = self.text.push(&piece[..got]);
            if !new.is_empty() {
                (self.print)(new);
            }
        }
    }
}

fn ended(exit: ChildExit) -> CommandEnding {
    match exit {
        ChildExit::Code(code) => CommandEnding::Exited { code },
        ChildExit::Signal(signal) => CommandEnding::Signalled { signal },
        ChildExit::Unknown => CommandEnding::Unknown,
    }
}
