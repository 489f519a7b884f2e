//! Tools of manifests: running a call of one in a process of its own. What runs is what was approved: of a
//! script the text that its digest is of, and not its file.

mod contract;
mod room;
mod uv;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};

use self::contract::{Answer, Ended, Known, Printed};
pub use self::contract::{Context, Given};
use self::room::{Room, Rooms};
use self::uv::Scripts;
use super::Output;
use super::result::judged;
use aishd_mcp_messages::expand::expand;
use aishd_mcp_messages::secret_name;
use aishd_mcp_messages::text::one_line;
use aishd_process::Children;
use aishd_process::running::Child;
use aishd_process::spec::{self, Spec, Stream};
use aishd_rules::registry::{Capability, Cwd, Manifest, Needs, Program, Runtime};

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
pub struct Runner(Arc<Means>);

pub type Environment = dyn Fn(&str) -> Option<String> + Send + Sync;

/// What a runner needs of others.
pub struct Means {
    pub children: Children,
    /// A directory that no other daemon uses.
    pub folder: PathBuf,
    /// The daemon's own variables.
    pub environment: Box<Environment>,
    /// Is told each secret before a program is, so that it can be kept out of logs.
    pub learn: Box<dyn Fn(&str) + Send + Sync>,
    /// Cuts out of a text what was learnt.
    pub redact: Box<dyn Fn(&str) -> String + Send + Sync>,
}

impl fmt::Debug for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Means").finish_non_exhaustive()
    }
}

/// One call.
#[derive(Clone, Debug)]
pub struct Job {
    pub manifest: Arc<Manifest>,
    pub capability: Capability,
    pub arguments: Map<String, Value>,
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.manifest == other.manifest
            && self.capability == other.capability
            && self.arguments == other.arguments
    }
}

/// A call that gave nothing.
struct Failure {
    why: String,
    /// The last lines of standard error.
    said: Vec<u8>,
}

impl Failure {
    fn new(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            said: vec![],
        }
    }
}

impl Runner {
    /// Removes what calls of a daemon that was killed have left. Blocks on files.
    pub fn new(means: Means) -> Self {
        let runner = Self(Arc::new(means));
        runner.rooms().clear();
        runner
    }

    fn rooms(&self) -> Rooms {
        Rooms::below(&self.0.folder)
    }

    pub(super) fn children(&self) -> &Children {
        &self.0.children
    }

    /// Runs one call to its end. Dropped, everything that it started is ended. Every failure becomes text.
    pub async fn run(&self, job: &Job, cwd: &str, context: &Context) -> Output {
        match self.answer(job, cwd, context).await {
            Ok(output) => output,
            Err(Failure { why, said }) => {
                let mut text = format!("[aish] tool {} failed: {why}", job.manifest.name);
                let said = self.last_lines(&said);
                if !said.is_empty() {
                    text.push_str("; it said: ");
                    text.push_str(&said);
                }
                Output::failed(text)
            }
        }
    }

    async fn answer(&self, job: &Job, cwd: &str, context: &Context) -> Result<Output, Failure> {
        is_as_found(&job.manifest.program).await?;
        let room = self.open_room().await?;
        let answered = self.answer_in(&room, job, cwd, context).await;
        room.close().await;
        answered
    }

    async fn answer_in(
        &self,
        room: &Room,
        job: &Job,
        cwd: &str,
        context: &Context,
    ) -> Result<Output, Failure> {
        let (manifest, begun) = (&job.manifest, Instant::now());
        let args = self.prepared(manifest, room).await?;
        let cwd = match &manifest.cwd {
            Cwd::Private => room.work(),
            Cwd::Conversation => PathBuf::from(cwd),
            Cwd::At(path) => path.clone(),
        };
        let mut spec = Spec::new(manifest.program.path.display().to_string(), cwd);
        spec.args = args;
        spec.env = self.env(manifest)?;
        let capability = job.capability.name.clone();
        spec.env.insert(CAPABILITY.to_owned(), capability);
        spec.provider = Some(manifest.name.as_str().into());
        spec.limits = spec::Limits {
            processes: manifest.limits.processes,
            memory_bytes: manifest.limits.memory_bytes,
            ..spec::Limits::default()
        };
        let reads = !manifest.reads.is_empty();
        let question = contract::question(&job.arguments, reads.then_some(context));
        let limit = manifest.limits.output_bytes;
        let within = manifest.limits.timeout;
        let (printed, said) = self.printed(&spec, question, limit, within).await?;
        let name = format!("{}__{}", manifest.name, job.capability.name);
        let errors = self.last_lines(&said);
        tracing::debug!(tool = %name, ms = begun.elapsed().as_millis(), stderr = %errors, "a call ended");
        let known = manifest.reads.iter().map(|name| {
            let given = context.get(name).map_or(0, |it| it.revision);
            (name.clone(), given)
        });
        let known: Known = known.collect();
        let answer = contract::answer(&printed, &known).map_err(|why| Failure { why, said })?;
        let Answer {
            outcome,
            value,
            changes,
        } = answer;
        let output = Output {
            ok: !outcome.is_error,
            attachments: outcome.attachments,
            changes,
            ..Output::answered(outcome.text)
        };
        let schema = job.capability.output.as_ref();
        Ok(judged(&name, schema, value, output))
    }

    async fn open_room(&self) -> Result<Room, Failure> {
        let rooms = self.rooms();
        let opened = tokio::task::spawn_blocking(move || rooms.open()).await;
        let opened = opened.map_err(|panic| Failure::new(panic.to_string()))?;
        opened.map_err(|error| Failure::new(format!("make its directory: {error}")))
    }

    /// The arguments, with what runs put in its place.
    async fn prepared(&self, manifest: &Manifest, room: &Room) -> Result<Vec<String>, Failure> {
        let program = &manifest.program;
        let copying = |error: io::Error| Failure::new(format!("copy its script: {error}"));
        match (&program.runtime, &program.script) {
            (Runtime::UvScript(needs), Some(script)) => {
                let scripts = Scripts::new(&self.0.folder);
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
                Ok(uv::to_run(&placed.path, &python, needs, &program.args))
            }
            (Runtime::Process | Runtime::Binary, Some(script)) => {
                let copy = room.copy(script).map_err(copying)?;
                let copy = copy.display().to_string();
                Ok(std::iter::once(copy)
                    .chain(program.args.iter().cloned())
                    .collect())
            }
            (Runtime::Process | Runtime::Binary | Runtime::UvScript(_), None) => {
                Ok(program.args.clone())
            }
        }
    }

    /// The interpreter of this machine that a script runs with.
    async fn python(&self, manifest: &Manifest, needs: &Needs) -> Result<String, Failure> {
        let arguments = uv::to_find(needs);
        let told = self.uv(manifest, arguments, "uv found no Python for it");
        let told = String::from_utf8(told.await?);
        let told = told.map_err(|error| Failure::new(format!("where Python is: {error}")))?;
        Ok(told.trim_end().to_owned())
    }

    /// Settles which packages a script runs with.
    async fn lock(&self, manifest: &Manifest, script: &Path, python: &str) -> Result<(), Failure> {
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
    ) -> Result<Vec<u8>, Failure> {
        let mut spec = Spec::new(manifest.program.path.display().to_string(), "/");
        spec.args = arguments;
        let (printed, said) = self.printed(&spec, vec![], 64 << 10, LOCK_WITHIN).await?;
        match printed.ended {
            Ended::Exit(spec::Exit::Code(0)) => Ok(printed.bytes),
            Ended::Exit(_) | Ended::TooMuch(_) | Ended::TooLong(_) => Err(Failure {
                why: why.to_owned(),
                said,
            }),
        }
    }

    fn env(&self, manifest: &Manifest) -> Result<BTreeMap<String, String>, Failure> {
        let entries = manifest.env.iter().map(|(name, text)| {
            let value = expand(text, &*self.0.environment)
                .map_err(|unset| Failure::new(format!("env.{name}: {unset}")))?;
            // `${HOME}` is none, and only so many secrets are kept out of logs.
            if secret_name::tells(name) || (value != *text && secret_name::tells(text)) {
                (self.0.learn)(&value);
            }
            Ok((name.clone(), value))
        });
        entries.collect()
    }

    async fn printed(
        &self,
        spec: &Spec,
        question: Vec<u8>,
        limit: usize,
        within: Duration,
    ) -> Result<(Printed, Vec<u8>), Failure> {
        let spec = Spec {
            stdin: Stream::Piped,
            stdout: Stream::Piped,
            stderr: Stream::Piped,
            ..spec.clone()
        };
        let mut child = self.0.children.spawn(&spec).await.map_err(|error| {
            let source = std::error::Error::source(&error).map(|it| format!(": {it}"));
            Failure::new(format!("{error}{}", source.unwrap_or_default()))
        })?;
        let mut heard = Heard::default();
        let listening = timeout(within, heard.listen(&mut child, question, limit));
        let ended = match listening.await {
            Ok(Ok(ended)) => ended,
            Ok(Err(error)) => return Err(Failure::new(format!("read its output: {error}"))),
            Err(_elapsed) => Ended::TooLong(within.as_millis()),
        };
        // Nothing of it is left when its answer is told.
        child.end(Duration::ZERO).await;
        let Heard { bytes, said } = heard;
        Ok((Printed { bytes, ended }, said))
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
async fn is_as_found(program: &Program) -> Result<(), Failure> {
    let path = program.path.clone();
    let leads_to = tokio::task::spawn_blocking(move || path.canonicalize()).await;
    match leads_to {
        Ok(Ok(real)) if real != program.real => Err(Failure::new(format!(
            "{} is another program than when its manifest was read: aishctl tools reload",
            program.path.display()
        ))),
        // One that is not there any more is said to be so where it is started.
        Ok(Ok(_) | Err(_)) | Err(_) => Ok(()),
    }
}

/// What was read of a child.
#[derive(Default)]
struct Heard {
    bytes: Vec<u8>,
    said: Vec<u8>,
}

impl Heard {
    /// Until the program ends, or prints too much; then for as long as it takes to empty the pipes.
    async fn listen(
        &mut self,
        child: &mut Child,
        question: Vec<u8>,
        limit: usize,
    ) -> io::Result<Ended> {
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
                false => return Ok(Ended::TooMuch(limit)),
            },
            exit = child.wait() => match timeout(DRAIN, &mut pipes).await {
                Ok(Ok(false)) => return Ok(Ended::TooMuch(limit)),
                Ok(Ok(true)) | Err(_) => exit,
                Ok(Err(error)) => return Err(error),
            },
        };
        Ok(Ended::Exit(exit))
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
