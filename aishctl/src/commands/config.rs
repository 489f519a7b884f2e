//! `config`: what the daemon knows of its configuration when one runs, and what its program says of the files when none
//! does. This client reads neither files nor TOML itself; `edit` only starts an editor on the file.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, BufRead as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitStatus, Stdio};

use aish_proto::config::{Show, ShowParams, ShowResult};
use aish_proto::daemon::{DaemonReloadResult, Reload};
use aish_proto::method::Empty;
use clap::Subcommand;
use serde::Deserialize;
use tokio::net::UnixStream;

use crate::client::connect::Caller;
use crate::client::daemon_link::{DaemonLink, DaemonReach, DaemonStart, DaemonWait};
use crate::client::{editor, spawn};
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::render::notice::{self, Notices};
use crate::safe;

#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// All that is wrong with the files, with the places
    Check,
    /// Every value in force
    Show {
        /// And who has said it
        #[arg(long)]
        origin: bool,
    },
    /// What a key means
    Explain { key: Option<String> },
    /// The files that are looked at
    Path,
    /// The JSON schema, for editors
    Schema,
    /// Edit your file, and check it
    Edit,
    /// Change one key of your file
    Set {
        key: String,
        /// As TOML, or a plain text; `-` reads it from stdin
        value: String,
    },
    /// Take a key or a table out of your file
    Unset { key: String },
    /// Let the files of this project count, as they are now: .aish/config.toml, AGENTS.md, AISH.md
    Trust {
        /// The project (absent: where you are)
        path: Option<PathBuf>,
        /// What is trusted
        #[arg(long, conflicts_with = "path")]
        list: bool,
    },
    /// Let them count no longer
    Untrust {
        /// The project (absent: where you are)
        path: Option<PathBuf>,
    },
}

/// What such a command works with.
#[derive(Debug)]
pub struct ConfigContext<'a> {
    pub around: &'a ClientEnvironment,
    pub global: &'a GlobalArgs,
    pub reach: DaemonReach,
}

/// The daemon that runs, and where it keeps things.
struct RunningDaemon {
    caller: Caller,
    shown: ShowResult,
    /// Its events are not wanted; dropped, the connection would be over.
    link: DaemonLink,
}

/// Runs it to its end.
pub async fn run(context: ConfigContext<'_>, command: &ConfigCommand) -> Result<Exit, Failure> {
    match command {
        ConfigCommand::Check => context.check().await,
        ConfigCommand::Show { origin } => context.show(*origin).await,
        ConfigCommand::Explain { key } => {
            let mut args = vec!["explain"];
            args.extend(key.as_deref());
            let running = context.running().await?;
            context
                .program(running.as_ref(), &args, JsonSupport::Asked)?
                .pass_on()
        }
        ConfigCommand::Path => {
            let running = context.running().await?;
            let args = ["path", "--project", &context.around.cwd_text()];
            context
                .program(running.as_ref(), &args, JsonSupport::Asked)?
                .pass_on()
        }
        ConfigCommand::Schema => context
            .program(None, &["schema"], JsonSupport::Never)?
            .pass_on(),
        ConfigCommand::Edit => context.edit().await,
        ConfigCommand::Set { key, value } => context.change(&["set", "--", key, value]).await,
        ConfigCommand::Unset { key } => context.change(&["unset", "--", key]).await,
        ConfigCommand::Trust { list: true, .. } => {
            let running = context.running().await?;
            context
                .program(running.as_ref(), &["trust", "--list"], JsonSupport::Never)?
                .pass_on()
        }
        ConfigCommand::Trust { path, .. } => {
            let place = context.place(path.as_deref());
            context.change(&["trust", "--", &place]).await
        }
        ConfigCommand::Untrust { path } => {
            let place = context.place(path.as_deref());
            context.change(&["untrust", "--", &place]).await
        }
    }
}

/// Whether a command has a form for programs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonSupport {
    Asked,
    Never,
}

/// `aishd config …`, ready to run.
struct ConfigProgram(Process);

impl ConfigProgram {
    /// Its output and its end are ours.
    fn pass_on(mut self) -> Result<Exit, Failure> {
        let status = self.0.status().map_err(|error| cannot_run(&error))?;
        Ok(Exit::passed_on(status))
    }

    /// Its output as text; its complaints are passed on.
    fn output(mut self) -> Result<(String, ExitStatus), Failure> {
        let done = self
            .0
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| cannot_run(&error))?;
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        Ok((text, done.status))
    }
}

fn cannot_run(error: &io::Error) -> Failure {
    Failure::new(Exit::FAILED, format!("cannot run aishd: {error}"))
}

impl ConfigContext<'_> {
    /// The daemon, if one runs. One that does not answer is said, and the files speak for themselves.
    async fn running(&self) -> Result<Option<RunningDaemon>, Failure> {
        let link = match self.reach.open(DaemonWait::No).await {
            Ok(link) => link,
            Err(failure) => {
                if UnixStream::connect(&self.reach.socket).await.is_ok() {
                    self.notices().print(&failure.message);
                }
                return Ok(None);
            }
        };
        let params = ShowParams {
            cwd: Some(self.around.cwd_text()),
        };
        // A daemon that is older than this question knows no answer.
        let Ok(shown) = link.caller.call::<Show>(params).await else {
            return Ok(None);
        };
        Ok(Some(RunningDaemon {
            caller: link.caller.clone(),
            shown,
            link,
        }))
    }

    /// The daemon, which is started where none runs and no socket was named.
    pub(crate) async fn started(&self) -> Result<DaemonLink, Failure> {
        let start = if self.global.socket.is_some() {
            DaemonStart::Forbidden
        } else {
            DaemonStart::Allowed
        };
        let reach = DaemonReach {
            start,
            ..self.reach.clone()
        };
        reach.open(DaemonWait::No).await
    }

    fn program(
        &self,
        running: Option<&RunningDaemon>,
        args: &[&str],
        json: JsonSupport,
    ) -> Result<ConfigProgram, Failure> {
        let daemon = spawn::daemon_beside(self.around).ok_or_else(|| {
            let message = "there is no aishd beside aishctl, which knows the configuration";
            Failure::new(Exit::NO_DAEMON, message).hint(".ci/dist of a checkout builds both")
        })?;
        let mut command = Process::new(daemon);
        if let Some(running) = running {
            command.arg("--state").arg(&running.shown.state);
            if let Some(file) = running.shown.file.as_ref().filter(|_| running.shown.named) {
                command.arg("--config").arg(file);
            }
        }
        command.arg("config").args(args);
        if json == JsonSupport::Asked && (self.global.json || self.global.jsonl) {
            command.arg("--json");
        }
        command.env_clear().envs(&self.around.variables);
        Ok(ConfigProgram(command))
    }

    fn place(&self, path: Option<&Path>) -> String {
        let place = path.map_or_else(|| self.around.cwd.clone(), |it| self.around.cwd.join(it));
        place.to_string_lossy().into_owned()
    }

    fn notices(&self) -> Notices {
        let dim = notice::is_coloured(self.global.color, self.around, self.around.stderr_terminal);
        Notices::new(Box::new(io::stderr()), self.global, dim)
    }

    async fn check(&self) -> Result<Exit, Failure> {
        let running = self.running().await?;
        let args = ["check", "--project", &self.around.cwd_text()];
        let exit = self
            .program(running.as_ref(), &args, JsonSupport::Asked)?
            .pass_on()?;
        if let Some(running) = running.filter(|it| !it.shown.restart_needed.is_empty()) {
            let keys = running.shown.restart_needed.join(", ");
            self.notices().print(&format!("restart needed for {keys}"));
        }
        Ok(exit)
    }

    async fn show(&self, origin: bool) -> Result<Exit, Failure> {
        let Some(running) = self.running().await? else {
            self.notices()
                .print("no daemon answers; this is what one would begin with");
            let mut args = vec!["show", "--project"];
            let cwd = self.around.cwd_text();
            args.push(&cwd);
            if origin {
                args.push("--origin");
            }
            return self.program(None, &args, JsonSupport::Asked)?.pass_on();
        };
        let shown = &running.shown;
        if self.global.json || self.global.jsonl {
            let text = serde_json::to_string(&shown.settings).map_err(|error| {
                Failure::new(Exit::FAILED, format!("cannot print the result: {error}"))
            })?;
            print(&format!("{}\n", safe::json_pipe(&text)))?;
        } else {
            let line = |it: &aish_proto::config::EffectiveSetting| {
                let (key, value) = (&it.key, &it.value);
                if origin {
                    format!("{key} = {value}  # {}\n", it.origin)
                } else {
                    format!("{key} = {value}\n")
                }
            };
            let text: String = shown.settings.iter().map(line).collect();
            print(&safe::screen(&text))?;
        }
        let mut notices = self.notices();
        if !shown.errors.is_empty() {
            notices.print("the files are invalid now, and this is what was in force before:");
            shown.errors.iter().for_each(|it| notices.print(it));
        }
        if !shown.restart_needed.is_empty() {
            let keys = shown.restart_needed.join(", ");
            notices.print(&format!(
                "the daemon goes on with other values until a restart: {keys}"
            ));
        }
        Ok(Exit::DONE)
    }

    /// Changes something, and lets the daemon take it over.
    pub(crate) async fn change(&self, args: &[&str]) -> Result<Exit, Failure> {
        let running = self.running().await?;
        let exit = self
            .program(running.as_ref(), args, JsonSupport::Never)?
            .pass_on()?;
        if exit != Exit::DONE {
            return Ok(exit);
        }
        self.take_over(running.as_ref()).await
    }

    /// Adds tables to the user's file, and lets the daemon take them over.
    pub async fn add(&self, tables: &str) -> Result<Exit, Failure> {
        match self.write(tables).await? {
            Exit::DONE => self.reload().await,
            exit => Ok(exit),
        }
    }

    /// Adds tables to the user's file, all of them or none.
    pub(crate) async fn write(&self, tables: &str) -> Result<Exit, Failure> {
        let running = self.running().await?;
        let mut program = self.program(running.as_ref(), &["add"], JsonSupport::Never)?;
        let mut child = program
            .0
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| cannot_run(&error))?;
        let written = child
            .stdin
            .take()
            .map(|mut it| it.write_all(tables.as_bytes()));
        let status = child.wait().map_err(|error| cannot_run(&error))?;
        let exit = Exit::passed_on(status);
        if let (Some(Err(error)), Exit::DONE) = (written, exit) {
            return Err(cannot_run(&error));
        }
        Ok(exit)
    }

    /// Whether a person can be asked here.
    pub(crate) fn may_prompt(&self) -> bool {
        self.around.stdin_terminal && !self.global.no_input
    }

    /// What was done, on stdout.
    pub(crate) fn say(&self, text: &str) -> Result<(), Failure> {
        print(text)
    }

    /// The preset that answers by default, as the daemon that runs has it.
    pub(crate) async fn default_model(&self) -> Result<Option<String>, Failure> {
        let running = self.running().await?;
        let mut settings = running.iter().flat_map(|it| &it.shown.settings);
        let value = settings.find(|it| it.key == "default_model");
        Ok(value.map(|it| it.value.trim_matches('"').to_owned()))
    }

    /// Lets a daemon that runs read its files again.
    pub(crate) async fn reload(&self) -> Result<Exit, Failure> {
        let running = self.running().await?;
        self.take_over(running.as_ref()).await
    }

    /// Says what the daemon makes of the files.
    async fn take_over(&self, running: Option<&RunningDaemon>) -> Result<Exit, Failure> {
        let Some(running) = running else {
            return Ok(Exit::DONE);
        };
        let done: DaemonReloadResult = running.caller.call::<Reload>(Empty {}).await?;
        let mut notices = self.notices();
        if !done.errors.is_empty() {
            notices.print("the daemon goes on with the configuration before:");
            done.errors.iter().for_each(|it| notices.print(it));
            return Ok(Exit::CONFIG);
        }
        if !done.restart_needed.is_empty() {
            let keys = done.restart_needed.join(", ");
            notices.print(&format!("restart needed for {keys}"));
        }
        Ok(Exit::DONE)
    }

    async fn edit(&self) -> Result<Exit, Failure> {
        let running = self.running().await?;
        let file = self.users_file(running.as_ref())?;
        let made = make(&file).map_err(|error| {
            Failure::new(
                Exit::FAILED,
                format!("cannot make {}: {error}", file.display()),
            )
        })?;
        let done = self.edit_until_valid(&file, running.as_ref());
        if made == FileCreation::Now && std::fs::metadata(&file).is_ok_and(|it| it.len() == 0) {
            // Nothing was written after all.
            drop(std::fs::remove_file(&file));
        }
        match done? {
            Exit::DONE => self.take_over(running.as_ref()).await,
            exit => {
                if running.is_some() {
                    self.notices()
                        .print("the daemon goes on with the configuration before");
                }
                Ok(exit)
            }
        }
    }

    fn edit_until_valid(
        &self,
        file: &Path,
        running: Option<&RunningDaemon>,
    ) -> Result<Exit, Failure> {
        let configured = self.editor(running)?;
        loop {
            self.open_editor(file, &configured)?;
            let exit = self
                .program(running, &["check"], JsonSupport::Never)?
                .pass_on()?;
            let may_ask = self.around.stdin_terminal && !self.global.no_input;
            if exit == Exit::DONE || !may_ask || !edit_again() {
                return Ok(exit);
            }
        }
    }

    /// `ui.editor`, if it names one.
    fn editor(&self, running: Option<&RunningDaemon>) -> Result<String, Failure> {
        #[derive(Deserialize)]
        struct Value {
            key: String,
            value: String,
        }
        if let Some(running) = running {
            return Ok(running.link.hello.ui.editor.clone());
        }
        let mut program = self.program(None, &["show", "--json"], JsonSupport::Never)?;
        program.0.stdin(Stdio::null());
        // The file may be what has to be mended.
        program.0.stderr(Stdio::null());
        let (text, _status) = program.output()?;
        let values: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
        let editor = values.into_iter().find(|it| it.key == "ui.editor");
        // A text of TOML, which is one of JSON too unless it is a strange one.
        let editor = editor.and_then(|it| serde_json::from_str(&it.value).ok());
        Ok(editor.unwrap_or_default())
    }

    fn open_editor(&self, file: &Path, configured: &str) -> Result<(), Failure> {
        let words = editor::program(self.around, configured)?;
        editor::run(&words, file, &editor::EditorPlace::Ours)
    }

    fn users_file(&self, running: Option<&RunningDaemon>) -> Result<PathBuf, Failure> {
        #[derive(Deserialize)]
        struct FileAt {
            path: PathBuf,
            layer: String,
        }
        let mut program = self.program(running, &["path", "--json"], JsonSupport::Never)?;
        program.0.stdin(Stdio::null());
        let (text, _status) = program.output()?;
        let files: Vec<FileAt> = serde_json::from_str(&text).unwrap_or_default();
        let user = files.into_iter().find(|it| it.layer == "user");
        user.map(|it| it.path).ok_or_else(|| {
            Failure::new(
                Exit::FAILED,
                "there is no home directory for a configuration",
            )
            .hint("set HOME or XDG_CONFIG_HOME")
        })
    }
}

/// Whether the file was there before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileCreation {
    Now,
    Before,
}

/// An empty file for its owner alone where there is none: an editor would make one that others can read.
fn make(file: &Path) -> io::Result<FileCreation> {
    if let Some(directory) = file.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
    }
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file);
    match made {
        Ok(_) => Ok(FileCreation::Now),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(FileCreation::Before),
        Err(error) => Err(error),
    }
}

fn edit_again() -> bool {
    let mut stderr = io::stderr();
    drop(stderr.write_all(b"edit again? [Y/n] "));
    drop(stderr.flush());
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    matches!(read, Ok(1..)) && matches!(answer.trim(), "" | "y" | "Y" | "yes")
}

fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::output(&error))
}
