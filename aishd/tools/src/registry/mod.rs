//! Tools of manifests: running a call of one in a process of its own. What runs is what was approved: of a
//! script the text that its digest is of, and not its file.

mod contract;
mod uv;
mod work_directory;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use aishd_log::profile::Profile;
use aishd_mcp_messages::bounded_text::one_line;
use aishd_mcp_messages::secret_name;
use aishd_mcp_messages::variable_expansion::expand;
use aishd_process::Children;
use aishd_process::child::Child;
use aishd_process::spec::{self, ChildSpec, StandardStream};
use aishd_profile::{HeldChild, OWN_TEMPORARY, ProfileGround, ProfileWish};
use aishd_rules::registry::{
    CallDirectory, Capability, Manifest, ManifestProgram, ScriptNeeds, ScriptRuntime,
};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};

pub use self::contract::{CallContext, GivenResource};
use self::contract::{KnownRevisions, ProgramAnswer, ProgramEnd, ProgramOutput};
use self::uv::ScriptStore;
use self::work_directory::{WorkDirectories, WorkDirectory};
use super::ToolOutput;
use super::result::judged;

/// The variable that tells a program which of its capabilities is called.
const CAPABILITY: &str = "AISH_CAPABILITY";
/// How long output is read after the program has ended: what it left behind may hold the pipe.
const DRAIN: Duration = Duration::from_millis(500);
/// The end of what it said on standard error.
const MAX_ERRORS_BYTES: usize = 8 << 10;
const MAX_ERROR_LINES: usize = 5;
const MAX_ERROR_CHARS: usize = 300;
/// Fetching what a script needs.
const LOCK_WITHIN: Duration = Duration::from_secs(120);

/// What runs programs of manifests; cheap to clone.
#[derive(Clone, Debug)]
pub struct ManifestRunner(Arc<RunnerServices>);

pub type RunnerEnvironment = dyn Fn(&str) -> Option<String> + Send + Sync;

/// What a runner needs of others.
pub struct RunnerServices {
    /// Starts programs, each under its profile.
    pub profiles: ProfileGround,
    /// A directory that no other daemon uses.
    pub folder: PathBuf,
    /// The daemon's own variables.
    pub environment: Box<RunnerEnvironment>,
    /// Is told each secret before a program is, so that it can be kept out of logs.
    pub learn: Box<dyn Fn(&str) + Send + Sync>,
    /// Cuts out of a text what was learnt.
    pub redact: Box<dyn Fn(&str) -> String + Send + Sync>,
}

impl fmt::Debug for RunnerServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerServices").finish_non_exhaustive()
    }
}

/// One call.
#[derive(Clone, Debug)]
pub struct RunnerJob {
    pub manifest: Arc<Manifest>,
    pub capability: Capability,
    pub arguments: Map<String, Value>,
}

impl PartialEq for RunnerJob {
    fn eq(&self, other: &Self) -> bool {
        self.manifest == other.manifest
            && self.capability == other.capability
            && self.arguments == other.arguments
    }
}

/// Where a call of a conversation runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallPlace {
    /// The conversation's directory.
    pub cwd: String,
    /// What it may write in a workspace.
    pub roots: Vec<PathBuf>,
}

/// What is started, but for the program itself.
struct PreparedProgram {
    args: Vec<String>,
    /// The copy of its script.
    script: Option<PathBuf>,
}

/// A call that gave nothing.
struct ProgramFailure {
    why: String,
    /// The last lines of standard error.
    said: Vec<u8>,
}

impl ProgramFailure {
    fn new(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            said: vec![],
        }
    }
}

impl ManifestRunner {
    /// Removes what calls of a daemon that was killed have left. Blocks on files.
    pub fn new(means: RunnerServices) -> Self {
        let runner = Self(Arc::new(means));
        runner.rooms().clear();
        runner
    }

    fn rooms(&self) -> WorkDirectories {
        WorkDirectories::below(&self.0.folder)
    }

    pub(super) fn children(&self) -> &Children {
        self.0.profiles.children()
    }

    pub(super) fn profiles(&self) -> &ProfileGround {
        &self.0.profiles
    }

    /// Runs one call to its end. Dropped, everything that it started is ended. Every failure becomes text.
    pub async fn run(
        &self,
        job: &RunnerJob,
        place: &CallPlace,
        context: &CallContext,
    ) -> ToolOutput {
        match Box::pin(self.answer(job, place, context)).await {
            Ok(output) => output,
            Err(ProgramFailure { why, said }) => {
                let mut text = format!("[aish] tool {} failed: {why}", job.manifest.name);
                let said = self.last_lines(&said);
                if !said.is_empty() {
                    text.push_str("; it said: ");
                    text.push_str(&said);
                }
                ToolOutput::failed(text)
            }
        }
    }

    async fn answer(
        &self,
        job: &RunnerJob,
        place: &CallPlace,
        context: &CallContext,
    ) -> Result<ToolOutput, ProgramFailure> {
        is_as_found(&job.manifest.program).await?;
        let room = self.open_room().await?;
        let answered = self.answer_in(&room, job, place, context).await;
        room.close().await;
        answered
    }

    async fn answer_in(
        &self,
        room: &WorkDirectory,
        job: &RunnerJob,
        place: &CallPlace,
        context: &CallContext,
    ) -> Result<ToolOutput, ProgramFailure> {
        let (manifest, begun) = (&job.manifest, Instant::now());
        let profile = manifest.profile(&job.capability);
        let PreparedProgram { args, script } = self.prepared(manifest, room).await?;
        let mut roots = place.roots.clone();
        let cwd = match &manifest.cwd {
            CallDirectory::Private if profile != Profile::Open => PathBuf::from(OWN_TEMPORARY),
            CallDirectory::Private => room.work(),
            CallDirectory::Conversation => PathBuf::from(&place.cwd),
            CallDirectory::At(path) => {
                roots.push(path.clone());
                path.clone()
            }
        };
        let mut spec = ChildSpec::new(manifest.program.path.display().to_string(), cwd);
        spec.args = args;
        spec.env = self.env(manifest)?;
        let capability = job.capability.name.clone();
        spec.env.insert(CAPABILITY.to_owned(), capability);
        if profile != Profile::Open && manifest.program.runtime.is_uv() {
            spec.env
                .insert("UV_CACHE_DIR".to_owned(), format!("{OWN_TEMPORARY}/uv"));
        }
        spec.provider = Some(manifest.name.as_str().into());
        spec.limits = spec::KernelLimits {
            processes: manifest.limits.processes,
            memory_bytes: manifest.limits.memory_bytes,
            ..spec::KernelLimits::default()
        };
        let reads = !manifest.reads.is_empty();
        let question = contract::question(&job.arguments, reads.then_some(context));
        let limit = manifest.limits.output_bytes;
        let within = manifest.limits.timeout;
        let wish = ProfileWish {
            profile,
            roots: &roots,
            write: &manifest.write,
            programs: script.as_slice(),
            hidden: &[],
            hosts: Some(&manifest.hosts),
            provider: Some(&manifest.name),
        };
        let running = self.printed((spec, wish), question, limit, within);
        let (printed, said) = running.await?;
        let name = format!("{}__{}", manifest.name, job.capability.name);
        let errors = self.last_lines(&said);
        tracing::debug!(tool = %name, ms = begun.elapsed().as_millis(), stderr = %errors, "a call ended");
        let known = manifest.reads.iter().map(|name| {
            let given = context.get(name).map_or(0, |it| it.revision);
            (name.clone(), given)
        });
        let known: KnownRevisions = known.collect();
        let answer =
            contract::answer(&printed, &known).map_err(|why| ProgramFailure { why, said })?;
        let ProgramAnswer {
            outcome,
            value,
            changes,
        } = answer;
        let output = ToolOutput {
            ok: !outcome.is_error,
            attachments: outcome.attachments,
            changes,
            ..ToolOutput::from_text(outcome.text)
        };
        let schema = job.capability.output.as_ref();
        Ok(judged(&name, schema, value, output))
    }

    async fn open_room(&self) -> Result<WorkDirectory, ProgramFailure> {
        let rooms = self.rooms();
        let opened = tokio::task::spawn_blocking(move || rooms.open()).await;
        let opened = opened.map_err(|panic| ProgramFailure::new(panic.to_string()))?;
        opened.map_err(|error| ProgramFailure::new(format!("make its directory: {error}")))
    }

    /// The arguments, with what runs put in its place.
    async fn prepared(
        &self,
        manifest: &Manifest,
        room: &WorkDirectory,
    ) -> Result<PreparedProgram, ProgramFailure> {
        let program = &manifest.program;
        let copying = |error: io::Error| ProgramFailure::new(format!("copy its script: {error}"));
        match (&program.runtime, &program.script) {
            (ScriptRuntime::UvScript(needs), Some(script)) => {
                let scripts = ScriptStore::new(&self.0.folder);
                let placed = scripts.place(script, needs).map_err(copying)?;
                let python = match &placed.python {
                    Some(python) => python.clone(),
                    None => {
                        let found = self.python(manifest, needs).await?;
                        placed.settle(&found).map_err(copying)?;
                        found
                    }
                };
                if let Some(unlocked) = &placed.unlocked {
                    self.lock(manifest, &unlocked.copy, &python).await?;
                    unlocked.settle().map_err(copying)?;
                }
                Ok(PreparedProgram {
                    args: uv::to_run(&placed.path, &python, needs, &program.args),
                    script: Some(placed.path),
                })
            }
            (ScriptRuntime::Process | ScriptRuntime::Binary, Some(script)) => {
                let copy = room.copy(script).map_err(copying)?;
                let first = copy.display().to_string();
                let args = std::iter::once(first).chain(program.args.iter().cloned());
                Ok(PreparedProgram {
                    args: args.collect(),
                    script: Some(copy),
                })
            }
            (ScriptRuntime::Process | ScriptRuntime::Binary | ScriptRuntime::UvScript(_), None) => {
                Ok(PreparedProgram {
                    args: program.args.clone(),
                    script: None,
                })
            }
        }
    }

    /// The interpreter of this machine that a script runs with.
    async fn python(
        &self,
        manifest: &Manifest,
        needs: &ScriptNeeds,
    ) -> Result<String, ProgramFailure> {
        let arguments = uv::to_find(needs);
        let told = self.uv(manifest, arguments, "uv found no Python for it");
        let told = String::from_utf8(told.await?);
        let told =
            told.map_err(|error| ProgramFailure::new(format!("where Python is: {error}")))?;
        Ok(told.trim_end().to_owned())
    }

    /// Settles which packages a script runs with.
    async fn lock(
        &self,
        manifest: &Manifest,
        script: &Path,
        python: &str,
    ) -> Result<(), ProgramFailure> {
        let arguments = uv::to_lock(script, python);
        let locked = self.uv(manifest, arguments, "uv could not settle its packages");
        locked.await.map(drop)
    }

    /// What uv prints, in a directory that says nothing to it.
    async fn uv(
        &self,
        manifest: &Manifest,
        arguments: Vec<String>,
        why: &str,
    ) -> Result<Vec<u8>, ProgramFailure> {
        let mut spec = ChildSpec::new(manifest.program.path.display().to_string(), "/");
        spec.args = arguments;
        let running = self.printed((spec, ProfileWish::OPEN), vec![], 64 << 10, LOCK_WITHIN);
        let (printed, said) = running.await?;
        match printed.ended {
            ProgramEnd::Exit(spec::ChildExit::Code(0)) => Ok(printed.bytes),
            ProgramEnd::Exit(_) | ProgramEnd::TooMuch(_) | ProgramEnd::TooLong(_) => {
                Err(ProgramFailure {
                    why: why.to_owned(),
                    said,
                })
            }
        }
    }

    fn env(&self, manifest: &Manifest) -> Result<BTreeMap<String, String>, ProgramFailure> {
        let entries = manifest.env.iter().map(|(name, text)| {
            let value = expand(text, &*self.0.environment)
                .map_err(|unset| ProgramFailure::new(format!("env.{name}: {unset}")))?;
            // `${HOME}` is none, and only so many secrets are kept out of logs.
            if secret_name::is_secret_name(name)
                || (value != *text && secret_name::is_secret_name(text))
            {
                (self.0.learn)(&value);
            }
            Ok((name.clone(), value))
        });
        entries.collect()
    }

    async fn printed(
        &self,
        (spec, wish): (ChildSpec, ProfileWish<'_>),
        question: Vec<u8>,
        limit: usize,
        within: Duration,
    ) -> Result<(ProgramOutput, Vec<u8>), ProgramFailure> {
        let spec = ChildSpec {
            stdin: StandardStream::Piped,
            stdout: StandardStream::Piped,
            stderr: StandardStream::Piped,
            ..spec
        };
        let spawned = self.0.profiles.spawn(spec, wish).await;
        let HeldChild { mut child, network } = spawned.map_err(|error| {
            let source = std::error::Error::source(&error).map(|it| format!(": {it}"));
            let hint = error.hint().map(|it| format!("; in its manifest: {it}"));
            let [source, hint] = [source, hint].map(Option::unwrap_or_default);
            ProgramFailure::new(format!("{error}{source}{hint}"))
        })?;
        let mut heard = HeardOutput::default();
        let listening = timeout(within, heard.listen(&mut child, question, limit));
        let ended = match listening.await {
            Ok(Ok(ended)) => ended,
            Ok(Err(error)) => return Err(ProgramFailure::new(format!("read its output: {error}"))),
            Err(_elapsed) => ProgramEnd::TooLong(within.as_millis()),
        };
        // Nothing of it is left when its answer is told.
        child.end(Duration::ZERO).await;
        drop(network);
        let HeardOutput { bytes, said } = heard;
        Ok((ProgramOutput { bytes, ended }, said))
    }

    /// On one line, without secrets.
    fn last_lines(&self, said: &[u8]) -> String {
        let text = String::from_utf8_lossy(said);
        let lines: Vec<&str> = text.lines().filter(|it| !it.trim().is_empty()).collect();
        let last = lines.len().saturating_sub(MAX_ERROR_LINES);
        let lines = lines[last..].iter();
        let lines = lines.map(|it| one_line(&(self.0.redact)(it), MAX_ERROR_CHARS));
        lines.collect::<Vec<_>>().join(" | ")
    }
}

/// Consent was to the program that the path led to, and a link may lead elsewhere now.
async fn is_as_found(program: &ManifestProgram) -> Result<(), ProgramFailure> {
    let path = program.path.clone();
    let leads_to = tokio::task::spawn_blocking(move || path.canonicalize()).await;
    match leads_to {
        Ok(Ok(real)) if real != program.real => Err(ProgramFailure::new(format!(
            "{} is another program than when its manifest was read: aishctl tools reload",
            program.path.display()
        ))),
        // One that is not there any more is said to be so where it is started.
        Ok(Ok(_) | Err(_)) | Err(_) => Ok(()),
    }
}

/// What was read of a child.
#[derive(Default)]
struct HeardOutput {
    bytes: Vec<u8>,
    said: Vec<u8>,
}

impl HeardOutput {
    /// Until the program ends, or prints too much; then for as long as it takes to empty the pipes.
    async fn listen(
        &mut self,
        child: &mut Child,
        question: Vec<u8>,
        limit: usize,
    ) -> io::Result<ProgramEnd> {
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let Self { bytes, said } = self;
        let telling = async move {
            if let Some(mut stdin) = stdin {
                // Who does not read is not told.
                let _unread = stdin.write_all(&question).await;
            }
        };
        let reading = async move {
            match stdout {
                Some(stdout) => read_up_to(stdout, limit, bytes).await,
                None => Ok(true),
            }
        };
        let hearing = async move {
            if let Some(stderr) = stderr {
                keep_last(stderr, said).await;
            }
        };
        let pipes = async move {
            let mut beside = std::pin::pin!(async { tokio::join!(telling, hearing) });
            let mut reading = std::pin::pin!(reading);
            let mut beside_over = false;
            loop {
                tokio::select! {
                    whole = &mut reading => {
                        let whole = whole?;
                        if whole && !beside_over {
                            let ((), ()) = (&mut beside).await;
                        }
                        return io::Result::Ok(whole);
                    }
                    ((), ()) = &mut beside, if !beside_over => beside_over = true,
                }
            }
        };
        let mut pipes = std::pin::pin!(pipes);
        let exit = tokio::select! {
            whole = &mut pipes => match whole? {
                true => child.wait().await,
                false => return Ok(ProgramEnd::TooMuch(limit)),
            },
            exit = child.wait() => match timeout(DRAIN, &mut pipes).await {
                Ok(Ok(false)) => return Ok(ProgramEnd::TooMuch(limit)),
                Ok(Ok(true)) | Err(_) => exit,
                Ok(Err(error)) => return Err(error),
            },
        };
        Ok(ProgramEnd::Exit(exit))
    }
}

/// False when there was more.
async fn read_up_to(
    mut from: impl AsyncRead + Unpin,
    limit: usize,
    into: &mut Vec<u8>,
) -> io::Result<bool> {
    let mut piece = vec![0; 16 << 10];
    loop {
        let got = from.read(&mut piece).await?;
        if got == 0 {
            return Ok(true);
        }
        if into.len() + got > limit {
            return Ok(false);
        }
        into.extend_from_slice(&piece[..got]);
    }
}

async fn keep_last(mut from: impl AsyncRead + Unpin, into: &mut Vec<u8>) {
    let mut piece = vec![0; 4 << 10];
    while let Ok(got @ 1..) = from.read(&mut piece).await {
        into.extend_from_slice(&piece[..got]);
        let over = into.len().saturating_sub(MAX_ERRORS_BYTES);
        into.drain(..over);
    }
}
