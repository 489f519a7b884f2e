//! `aishd config …`: what can be said of the configuration without a running daemon. It prints and exits; `aishctl
//! config` runs it, so that clients need to know nothing of files and TOML.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;

use super::edit::{self, Given, SetError};
use super::fault::{self, Fault, Severity};
use super::layers::Where;
use super::load::{self, Loaded};
use super::paths::describe;
use super::project;
use super::schema;
use super::settings::{IsSet, Settings};
use super::table::Entry;
use super::trust::{self, Digest, Standing, Trust};

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
pub enum Command {
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
    /// Trust the file of a project as it is now
    Trust {
        /// The project, or a directory in it
        directory: Option<PathBuf>,
        /// What is trusted
        #[arg(long, conflicts_with = "directory")]
        list: bool,
    },
    /// Trust the file of a project no longer
    Untrust { directory: PathBuf },
}

/// What a command works with.
#[derive(Clone, Copy)]
pub struct Desk<'a> {
    pub place: &'a Where,
    pub is_set: IsSet<'a>,
}

impl std::fmt::Debug for Desk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Desk").field(self.place).finish()
    }
}

/// What a command has to say.
struct Said {
    out: String,
    err: String,
    code: u8,
}

impl Said {
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
#[must_use]
pub fn run(command: &Command, desk: Desk<'_>) -> ExitCode {
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

impl Desk<'_> {
    fn answer(self, command: &Command) -> Said {
        match command {
            Command::Check { project, json } => self.check(project.as_deref(), *json),
            Command::Show {
                origin,
                project,
                json,
            } => self.show(project.as_deref(), *origin, *json),
            Command::Explain { key, json } => {
                self.explain(key.as_deref().unwrap_or_default(), *json)
            }
            Command::Path { project, json } => self.path(project.as_deref(), *json),
            Command::Schema => Said::done(schema::text()),
            Command::Set { key, value } => self.set(key, value),
            Command::Trust { list: true, .. } => self.trusted(),
            Command::Trust { directory, .. } => match directory {
                Some(directory) => self.trust(directory),
                None => Said::failed(exit::USAGE, "aishd: name a directory\n".to_owned()),
            },
            Command::Untrust { directory } => self.untrust(directory),
        }
    }

    fn load(self) -> Loaded {
        load::load(self.place, self.is_set)
    }

    fn check(self, project: Option<&Path>, json: bool) -> Said {
        let loaded = self.load();
        let mut faults = loaded.faults.clone();
        faults.extend(loaded.left_out.values().flatten().cloned());
        let mut notes = vec![];
        if let Some(file) = project.and_then(project::find) {
            let mut unused = self.of_project(&loaded, &file);
            let seen = loaded.left_out.contains_key(&file);
            match project.and_then(|it| load::notice(it, &loaded.trust, &loaded.left_out)) {
                Some(_) if seen => {}
                Some(notice) => {
                    // It does not count, so it makes nothing invalid.
                    notes.push(format!("note: {}", notice.text));
                    for fault in &mut unused {
                        fault.severity = Severity::Warning;
                    }
                    faults.append(&mut unused);
                }
                None => faults.append(&mut unused),
            }
        }
        faults.sort_by_key(|it| it.severity);
        let errors = faults.iter().filter(|it| it.is_error()).count();
        let code = if errors == 0 {
            exit::DONE
        } else {
            exit::CONFIG
        };
        if json {
            let report = Report {
                ok: errors == 0,
                problems: faults.iter().take(fault::MOST).map(Problem::of).collect(),
                notes,
            };
            return Said {
                code,
                ..Said::done(json_line(&report))
            };
        }
        let mut out = fault::pictures(&faults);
        for note in notes {
            let _never_fails = writeln!(out, "{note}");
        }
        if !out.is_empty() {
            out.push('\n');
        }
        let warnings = faults.len() - errors;
        out.push_str(&match (errors, warnings) {
            (0, 0) => "ok\n".to_owned(),
            (0, warnings) => format!("ok, with {}\n", count(warnings, "warning")),
            (errors, 0) => format!("{}\n", count(errors, "error")),
            (errors, warnings) => {
                format!(
                    "{}, {}\n",
                    count(errors, "error"),
                    count(warnings, "warning")
                )
            }
        });
        Said {
            code,
            ..Said::done(out)
        }
    }

    fn of_project(self, loaded: &Loaded, file: &Path) -> Vec<Fault> {
        match project::read(file) {
            Ok(Some(layer)) => project::models(&loaded.layers, &layer, self.is_set).1,
            Ok(None) => vec![],
            Err(fault) => vec![fault],
        }
    }

    fn show(self, project: Option<&Path>, origin: bool, json: bool) -> Said {
        let loaded = self.load();
        let Some(settings) = &loaded.settings else {
            let errors: Vec<Fault> = loaded.faults.into_iter().filter(Fault::is_error).collect();
            return Said::failed(exit::CONFIG, fault::pictures(&errors));
        };
        let values = values(settings, &loaded, project);
        if json {
            return Said::done(json_line(&values));
        }
        Said::done(values.iter().map(|it| it.line(origin)).collect())
    }

    fn explain(self, key: &str, json: bool) -> Said {
        let about = if key.is_empty() {
            schema::top()
        } else {
            match schema::explain(key) {
                Ok(about) => about,
                Err(meant) => {
                    let key = super::veil::safe(key);
                    let hint = meant.unwrap_or_else(|| "aishctl config explain".to_owned());
                    let err = format!("aishd: there is no key {key}\nhint: {hint}\n");
                    return Said::failed(exit::UNKNOWN, err);
                }
            }
        };
        if json {
            return Said::done(json_line(&about));
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
                now.value.shown(),
                now.place.origin()
            );
        }
        if !about.keys.is_empty() {
            let _never_fails = writeln!(out, "\nkeys     {}", about.keys.join(", "));
        }
        Said::done(out)
    }

    /// What counts for this key now, if somebody says it who is not the default.
    fn now(self, key: &str) -> Option<Entry> {
        let loaded = self.load();
        let entries = loaded.layers.whole().entries();
        entries
            .into_iter()
            .find(|it| it.key == key && it.place.source.origin != super::source::Origin::Default)
    }

    fn path(self, project: Option<&Path>, json: bool) -> Said {
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
            return Said::done(json_line(&files));
        }
        let line = |it: &FileAt| {
            format!(
                "{}  # {}, {}\n",
                super::veil::safe(&it.path),
                it.layer,
                it.state
            )
        };
        Said::done(files.iter().map(line).collect())
    }

    fn set(self, key: &str, value: &str) -> Said {
        let mut text = value.to_owned();
        let mut given = Given::Argument;
        if value == "-" {
            given = Given::Stdin;
            text.clear();
            let read = io::stdin()
                .lock()
                .take(super::file::MOST_BYTES)
                .read_to_string(&mut text);
            if let Err(error) = read {
                return Said::failed(
                    exit::FAILED,
                    format!("aishd: read the value from stdin: {error}\n"),
                );
            }
            text.truncate(text.trim_end_matches(['\n', '\r']).len());
        }
        match edit::set(self.place, key, &text, given, self.is_set) {
            Ok(path) => Said::done(format!("{}\n", path.display())),
            Err(error) => {
                let mut err = match &error {
                    SetError::Invalid(faults) => fault::pictures(faults) + "\n",
                    SetError::NoKey(_)
                    | SetError::IsTable(_)
                    | SetError::NoTable(_)
                    | SetError::SecretArgument
                    | SetError::Homeless
                    | SetError::Write { .. } => String::new(),
                };
                let _never_fails = writeln!(err, "aishd: {}", super::veil::safe(&describe(&error)));
                let code = match error {
                    SetError::Invalid(_) => exit::CONFIG,
                    SetError::NoKey(_) | SetError::IsTable(_) | SetError::NoTable(_) => exit::USAGE,
                    SetError::SecretArgument => {
                        err.push_str("hint: give - as the value, and the key on stdin\n");
                        exit::USAGE
                    }
                    SetError::Homeless | SetError::Write { .. } => exit::FAILED,
                };
                Said::failed(code, err)
            }
        }
    }

    /// The state directory: also of a configuration with errors, as far as it says one.
    fn state(self) -> Result<PathBuf, Said> {
        let stack = super::layers::Layers::read(self.place).whole();
        let said = stack
            .file
            .daemon
            .state
            .map(|it| super::settings::home(&it.value));
        super::paths::state(said.as_deref())
            .map_err(|error| Said::failed(exit::FAILED, format!("aishd: {error}\n")))
    }

    fn trust(self, directory: &Path) -> Said {
        let directory = match std::fs::canonicalize(directory) {
            Ok(directory) => directory,
            Err(error) => {
                let text = format!("aishd: find {}: {error}\n", directory.display());
                return Said::failed(exit::UNKNOWN, text);
            }
        };
        let Some(file) = project::find(&directory) else {
            let text = format!(
                "aishd: there is no .aish/config.toml in {} or above it\n",
                super::veil::safe(&directory.display().to_string())
            );
            return Said::failed(exit::UNKNOWN, text);
        };
        let layer = match project::read(&file) {
            Ok(Some(layer)) => layer,
            Ok(None) => {
                return Said::failed(exit::UNKNOWN, "aishd: the file has just gone\n".to_owned());
            }
            Err(fault) => return Said::failed(exit::CONFIG, fault::pictures(&[fault])),
        };
        let loaded = self.load();
        let (models, faults) = project::models(&loaded.layers, &layer, self.is_set);
        let mut err = fault::pictures(&faults);
        if models.is_none() {
            err.push_str("\naishd: nothing was trusted: the file is invalid\n");
            return Said::failed(exit::CONFIG, err);
        }
        let digest = Digest::of(layer.source.text());
        let line = format!(
            "trusted {} as it is now (sha256 {})\n",
            layer.source.name(),
            digest.as_str().get(..16).unwrap_or_default()
        );
        let changed = self
            .state()
            .map(|state| trust::change(&state, |it| drop(it.files.insert(file, digest))));
        match changed {
            Ok(Ok(())) => Said {
                err,
                ..Said::done(line)
            },
            Ok(Err(error)) => Said::failed(exit::FAILED, format!("aishd: {}\n", describe(&error))),
            Err(said) => said,
        }
    }

    fn untrust(self, directory: &Path) -> Said {
        let directory =
            std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
        let state = match self.state() {
            Ok(state) => state,
            Err(said) => return said,
        };
        let mut removed = None;
        let changed = trust::change(&state, |it| {
            let known = directory.ancestors().map(project::file_of);
            let known = known.into_iter().find(|file| it.files.contains_key(file));
            if let Some(file) = known {
                it.files.remove(&file);
                removed = Some(file);
            }
        });
        match (changed, removed) {
            (Ok(()), Some(file)) => {
                let shown = file.display().to_string();
                Said::done(format!(
                    "{} is not trusted any more\n",
                    super::veil::safe(&shown)
                ))
            }
            (Ok(()), None) => {
                let shown = directory.display().to_string();
                let text = format!(
                    "aishd: nothing is trusted in {} or above it\n",
                    super::veil::safe(&shown)
                );
                Said::failed(exit::UNKNOWN, text)
            }
            (Err(error), _) => Said::failed(exit::FAILED, format!("aishd: {}\n", describe(&error))),
        }
    }

    fn trusted(self) -> Said {
        let state = match self.state() {
            Ok(state) => state,
            Err(said) => return said,
        };
        match Trust::read(&state) {
            Ok(trust) => {
                let line = |file: &PathBuf| {
                    let state = state_of(file, "project", &trust);
                    format!(
                        "{}  # {state}\n",
                        super::veil::safe(&file.display().to_string())
                    )
                };
                Said::done(trust.files.keys().map(line).collect())
            }
            Err(error) => Said::failed(exit::FAILED, format!("aishd: {}\n", describe(&error))),
        }
    }
}

/// Every value that counts, and where it is said.
#[must_use]
pub fn values(settings: &Settings, loaded: &Loaded, project: Option<&Path>) -> Vec<Shown> {
    let file = project.and_then(project::find);
    let layer = file
        .as_deref()
        .and_then(|it| project::read(it).ok().flatten());
    let layer = layer.filter(|it| {
        let models = project.map(|it| settings.models.within(&it.display().to_string()).clone());
        let trusted = file
            .as_deref()
            .is_some_and(|file| loaded.trust.standing(file, it.source.text()) == Standing::Trusted);
        trusted && models.is_some()
    });
    let (entries, default) = match (&layer, project) {
        (Some(layer), Some(project)) => (
            loaded.layers.with_project(layer).entries(),
            settings
                .models
                .within(&project.display().to_string())
                .default
                .clone(),
        ),
        _ => (settings.entries.clone(), settings.models.default.clone()),
    };
    shown(&entries, default.as_deref())
}

/// Entries as they may be shown; the preset that answers is among them even if nobody has said so.
#[must_use]
pub fn shown(entries: &[Entry], default_model: Option<&str>) -> Vec<Shown> {
    let mut values: Vec<Shown> = entries.iter().map(Shown::of).collect();
    if let Some(name) = default_model.filter(|_| !values.iter().any(|it| it.key == "default_model"))
    {
        values.push(Shown {
            key: "default_model".to_owned(),
            value: toml::Value::from(name).to_string(),
            origin: "default".to_owned(),
        });
    }
    values.sort_by(|a, b| a.key.cmp(&b.key));
    values
}

/// One value that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    pub key: String,
    /// As TOML; of a secret only that it is there.
    pub value: String,
    /// `file:line`, or who else has said it.
    pub origin: String,
}

impl Shown {
    fn of(entry: &Entry) -> Self {
        Self {
            key: entry.key.clone(),
            value: entry.value.shown().to_owned(),
            origin: entry.place.origin(),
        }
    }

    fn line(&self, origin: bool) -> String {
        let value = super::veil::safe(&self.value);
        if origin {
            format!("{} = {value}  # {}\n", self.key, self.origin)
        } else {
            format!("{} = {value}\n", self.key)
        }
    }
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    problems: Vec<Problem>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Problem {
    severity: &'static str,
    file: String,
    line: Option<usize>,
    column: Option<usize>,
    message: String,
    hint: Option<String>,
}

impl Problem {
    fn of(fault: &Fault) -> Self {
        let at = fault
            .span
            .as_ref()
            .map(|it| fault.source.line_and_column(it.start));
        Self {
            severity: match fault.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            file: fault.source.name(),
            line: at.map(|it| it.0),
            column: at.map(|it| it.1),
            message: fault.message.clone(),
            hint: fault.label.clone().or_else(|| fault.help.clone()),
        }
    }
}

#[derive(Serialize)]
struct FileAt {
    path: String,
    layer: &'static str,
    state: &'static str,
}

fn state_of(path: &Path, layer: &str, trust: &Trust) -> &'static str {
    if !super::file::is_there(path) {
        return "not there";
    }
    if layer != "project" {
        return "read";
    }
    match project::read(path) {
        Ok(Some(it)) => match trust.standing(path, it.source.text()) {
            Standing::Trusted => "trusted",
            Standing::Changed => "changed since it was trusted",
            Standing::Unknown => "not trusted",
        },
        Ok(None) => "not there",
        Err(_) => "cannot be read",
    }
}

fn count(n: usize, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {what}{s}")
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
