//! `aishd config …`: what can be said of the configuration without a running daemon. It prints and exits; `aishctl
//! config` runs it, so that clients need to know nothing of files and TOML.

mod check;
mod trusting;

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use aishd_project::instructions;
use clap::Subcommand;
use serde::Serialize;

use super::edit::{self, SetError, ValueSource};
use super::effective_values::{self, WithOrigin};
use super::fault::Fault;
use super::layers::LayerPaths;
use super::load::{self, LoadedConfig};
use super::paths::describe;
use super::table_reader::TableEntry;
use super::trust::{TrustStatus, TrustedFiles};
use super::{fault_picture, project, safe_text, schema};
use crate::key_values::IsSet;

/// How such a command ends.
mod exit {
    pub(super) const DONE: u8 = 0;
    pub(super) const FAILED: u8 = 1;
    pub(super) const USAGE: u8 = 2;
    /// There is no such key, or no such file.
    pub(super) const UNKNOWN: u8 = 8;
    /// The configuration is invalid.
    pub(super) const CONFIG: u8 = 78;
}

#[derive(Clone, Debug, Subcommand)]
pub enum ConfigAction {
    /// All that is wrong, with its place
    Check {
        /// Where somebody works: the file of the project there is looked at too
        #[arg(long, value_name = "DIR")]
        project: Option<PathBuf>,
        #[arg(long)]
        json: bool,
    },
    /// Every value that counts
    Show {
        /// And where each is said
        #[arg(long)]
        origin: bool,
        #[arg(long, value_name = "DIR")]
        project: Option<PathBuf>,
        #[arg(long)]
        json: bool,
    },
    /// What a key means
    Explain {
        key: Option<String>,
        #[arg(long)]
        json: bool,
    },
    /// The files that are looked at
    Path {
        #[arg(long, value_name = "DIR")]
        project: Option<PathBuf>,
        #[arg(long)]
        json: bool,
    },
    /// The JSON schema of a file
    Schema,
    /// Change one key of the user's file
    Set {
        key: String,
        /// As TOML, or a plain text; `-` reads it from stdin
        value: String,
    },
    /// Take a key or a table out of the user's file
    Unset { key: String },
    /// Add the tables on standard input to the user's file
    Add,
    /// Trust the files of a project as they are now
    Trust {
        /// The project, or a directory in it
        directory: Option<PathBuf>,
        /// What is trusted
        #[arg(long, conflicts_with = "directory")]
        list: bool,
    },
    /// Trust the files of a project no longer
    Untrust { directory: PathBuf },
}

/// What a command works with.
#[derive(Clone, Copy)]
pub struct ActionContext<'a> {
    pub place: &'a LayerPaths,
    pub is_set: IsSet<'a>,
}

impl std::fmt::Debug for ActionContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ActionContext").field(self.place).finish()
    }
}

/// What a command has to say.
struct ActionOutput {
    out: String,
    err: String,
    code: u8,
}

impl ActionOutput {
    fn done(out: String) -> Self {
        Self {
            out,
            err: String::new(),
            code: exit::DONE,
        }
    }

    fn failed(code: u8, err: String) -> Self {
        Self {
            out: String::new(),
            err,
            code,
        }
    }
}

/// Runs it, and prints.
pub fn run(command: &ConfigAction, desk: ActionContext<'_>) -> ExitCode {
    let said = desk.answer(command);
    let _nobody_reads = io::stderr().write_all(said.err.as_bytes());
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(said.out.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Ok(()) => ExitCode::from(said.code),
        // Who has read enough has not failed.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(141),
        Err(_) => ExitCode::from(exit::FAILED),
    }
}

impl ActionContext<'_> {
    fn answer(self, command: &ConfigAction) -> ActionOutput {
        match command {
            ConfigAction::Check { project, json } => self.check(project.as_deref(), *json),
            ConfigAction::Show {
                origin,
                project,
                json,
            } => self.show(project.as_deref(), *origin, *json),
            ConfigAction::Explain { key, json } => {
                self.explain(key.as_deref().unwrap_or_default(), *json)
            }
            ConfigAction::Path { project, json } => self.path(project.as_deref(), *json),
            ConfigAction::Schema => ActionOutput::done(schema::text()),
            ConfigAction::Set { key, value } => self.set(key, value),
            ConfigAction::Unset { key } => changed(edit::unset(self.place, key, self.is_set)),
            ConfigAction::Add => match from_stdin() {
                Ok(text) => changed(edit::add(self.place, &text, self.is_set)),
                Err(said) => said,
            },
            ConfigAction::Trust { list: true, .. } => self.trusted(),
            ConfigAction::Trust { directory, .. } => match directory {
                Some(directory) => self.trust(directory),
                None => ActionOutput::failed(exit::USAGE, "aishd: name a directory\n".to_owned()),
            },
            ConfigAction::Untrust { directory } => self.untrust(directory),
        }
    }

    fn load(self) -> LoadedConfig {
        load::load(self.place, self.is_set)
    }

    fn show(self, project: Option<&Path>, origin: bool, json: bool) -> ActionOutput {
        let loaded = self.load();
        let Some(settings) = &loaded.settings else {
            let errors: Vec<Fault> = loaded.faults.into_iter().filter(Fault::is_error).collect();
            return ActionOutput::failed(exit::CONFIG, fault_picture::pictures(&errors));
        };
        let values = effective_values::values(settings, &loaded, project);
        let origin = if origin {
            WithOrigin::Yes
        } else {
            WithOrigin::No
        };
        if json {
            return ActionOutput::done(json_line(&values));
        }
        ActionOutput::done(values.iter().map(|it| it.line(origin)).collect())
    }

    fn explain(self, key: &str, json: bool) -> ActionOutput {
        let about = if key.is_empty() {
            schema::top()
        } else {
            match schema::explain(key) {
                Ok(about) => about,
                Err(meant) => {
                    let key = safe_text::safe(key);
                    let hint = meant.unwrap_or_else(|| "aishctl config explain".to_owned());
                    let err = format!("aishd: there is no key {key}\nhint: {hint}\n");
                    return ActionOutput::failed(exit::UNKNOWN, err);
                }
            }
        };
        if json {
            return ActionOutput::done(json_line(&about));
        }
        let mut out = String::new();
        let title = if about.key.is_empty() {
            "config.toml"
        } else {
            &about.key
        };
        let _never_fails = writeln!(
            out,
            "{title}: {}\n\n{}",
            about.takes,
            fill(&about.description)
        );
        if let Some(default) = &about.default {
            let _never_fails = writeln!(out, "\ndefault  {default}");
        }
        if let Some(now) = self.now(key) {
            let space = if about.default.is_some() { "" } else { "\n" };
            let _never_fails = writeln!(
                out,
                "{space}now      {}  # {}",
                now.display(),
                now.place.origin()
            );
        }
        if !about.keys.is_empty() {
            let _never_fails = writeln!(out, "\nkeys     {}", about.keys.join(", "));
        }
        ActionOutput::done(out)
    }

    /// What counts for this key now, if somebody says it who is not the default.
    fn now(self, key: &str) -> Option<TableEntry> {
        let loaded = self.load();
        let entries = loaded.layers.merged().entries();
        entries.into_iter().find(|it| {
            it.key == key && it.place.source.origin != super::source::ConfigOrigin::Default
        })
    }

    fn path(self, project: Option<&Path>, json: bool) -> ActionOutput {
        let machine = self.place.machine.iter().map(|it| (it.clone(), "machine"));
        let user = self.place.user.iter().map(|it| (it.clone(), "user"));
        let found = project.and_then(project::find);
        let project = found.iter().map(|it| (it.clone(), "project"));
        let trust = self.load().trust;
        let files: Vec<FileAt> = machine
            .chain(user)
            .chain(project)
            .map(|(path, layer)| FileAt {
                state: state_of(&path, layer, &trust),
                path: path.display().to_string(),
                layer,
            })
            .collect();
        if json {
            return ActionOutput::done(json_line(&files));
        }
        let line = |it: &FileAt| {
            format!(
                "{}  # {}, {}\n",
                safe_text::safe(&it.path),
                it.layer,
                it.state
            )
        };
        ActionOutput::done(files.iter().map(line).collect())
    }

    fn set(self, key: &str, value: &str) -> ActionOutput {
        let mut text = value.to_owned();
        let mut given = ValueSource::Argument;
        if value == "-" {
            given = ValueSource::Stdin;
            text = match from_stdin() {
                Ok(text) => text,
                Err(said) => return said,
            };
            text.truncate(text.trim_end_matches(['\n', '\r']).len());
        }
        changed(edit::set(self.place, key, &text, given, self.is_set))
    }
}

fn from_stdin() -> Result<String, ActionOutput> {
    let mut text = String::new();
    let stdin = io::stdin().lock();
    let read = stdin
        .take(super::file::MOST_BYTES)
        .read_to_string(&mut text);
    match read {
        Ok(_) => Ok(text),
        Err(error) => Err(ActionOutput::failed(
            exit::FAILED,
            format!("aishd: read the value from stdin: {error}\n"),
        )),
    }
}

/// What is said of a change of the user's file.
fn changed(changed: Result<PathBuf, SetError>) -> ActionOutput {
    match changed {
        Ok(path) => ActionOutput::done(format!("{}\n", path.display())),
        Err(error) => {
            let mut err = match &error {
                SetError::Invalid(faults) => fault_picture::pictures(faults) + "\n",
                _ => String::new(),
            };
            let _never_fails = writeln!(err, "aishd: {}", safe_text::safe(&describe(&error)));
            let code = match error {
                SetError::Invalid(_) => exit::CONFIG,
                SetError::NoKey(_) | SetError::IsTable(_) | SetError::NoTable(_) => exit::USAGE,
                SetError::Exists(_) => {
                    err.push_str(
                        "hint: take another name, or change what is there: aishctl config edit\n",
                    );
                    exit::USAGE
                }
                SetError::NotThere(_) => exit::UNKNOWN,
                SetError::SecretArgument => {
                    err.push_str("hint: give - as the value, and the key on stdin\n");
                    exit::USAGE
                }
                SetError::Homeless | SetError::Write { .. } => exit::FAILED,
            };
            ActionOutput::failed(code, err)
        }
    }
}

#[derive(Serialize)]
struct FileAt {
    path: String,
    layer: &'static str,
    state: &'static str,
}

fn state_of(path: &Path, layer: &str, trust: &TrustedFiles) -> &'static str {
    if !super::file::is_there(path) {
        return "not there";
    }
    if layer != "project" {
        return "read";
    }
    let text = match project::root_of(path) {
        Some(_) => project::read(path)
            .map(|it| it.map(|it| it.source.text().to_owned()))
            .ok(),
        None => instructions::text(path).map(Some).ok(),
    };
    match text {
        Some(Some(text)) => match trust.status_of(path, &text) {
            TrustStatus::Trusted => "trusted",
            TrustStatus::Changed => "changed since it was trusted",
            TrustStatus::Unknown => "not trusted",
        },
        Some(None) => "not there",
        None => "cannot be read",
    }
}

fn json_line<T: Serialize>(value: &T) -> String {
    let mut text = serde_json::to_string(value).unwrap_or_default();
    text.push('\n');
    text
}

/// A text in lines of at most 80 columns.
fn fill(text: &str) -> String {
    let mut lines: Vec<String> = vec![];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= 80 => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}
