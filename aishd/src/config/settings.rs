//! What the configuration means: presets, limits, the filter of the log. All that is wrong is reported at once, each
//! with its place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::address::{self, Distance};
use super::fault::Fault;
use super::filter;
use super::keys::{File, Model};
use super::layers::Stack;
use super::source::{Access, Origin};
use super::table::{Entry, Leaf, Located, join, nearest};
use super::value::{Keymap, LogFormat, Time, When, Whole};
use crate::core::event::Source;
use crate::core::preset::{Backend, Endpoint, KeySource, Models, Preset, Timeouts};

/// The built-in responder, which needs no preset.
const DEMO: &str = "demo";
/// What ends after the turns needs some of the 10 s of a stop, too (OPS-4).
const GRACE_MOST: Duration = Duration::from_secs(8);

/// Everything that is configured, with the defaults in place of what is not.
#[derive(Clone, Debug)]
pub struct Settings {
    pub models: Arc<Models>,
    pub max_clients: usize,
    pub max_queue: usize,
    pub max_conversations_in_memory: usize,
    pub client_stall: Duration,
    /// The directory that holds the store; absent: the usual one.
    pub state: Option<PathBuf>,
    /// Time that running turns get at a stop.
    pub grace: Duration,
    pub log: Log,
    pub ui: Ui,
    /// Every key that is said, with the value that counts.
    pub entries: Vec<Entry>,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// A filter that `tracing` takes.
    pub filter: String,
    pub format: LogFormat,
    /// Fields whose name contains one of these are written without their value.
    pub redact: Vec<String>,
    /// Whether prompts and answers may be logged.
    pub content: bool,
}

/// How clients look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ui {
    pub color: When,
    pub markdown: When,
    pub theme: String,
    pub editor: String,
    pub keymap: Keymap,
}

/// Whether a variable of the environment is set.
pub type IsSet<'a> = &'a dyn Fn(&str) -> bool;

impl Settings {
    /// Gives a stack of layers its meaning. Absent when there is an error among the faults.
    pub fn of(stack: &Stack, is_set: IsSet<'_>) -> (Option<Self>, Vec<Fault>) {
        let mut faults = vec![];
        let file = &stack.file;
        let models = models(stack, is_set, &mut faults);
        if let Some(level) = &file.logging.level
            && let Err(wrong) = filter::check(&level.value)
        {
            let mut fault = Fault::error(&level.place, wrong.message);
            fault.label = wrong.label;
            faults.push(fault);
        }
        if let Some(grace) = file
            .shutdown
            .grace
            .as_ref()
            .filter(|it| it.value.value > GRACE_MOST)
        {
            let message = "`shutdown.grace`: expected at most 8s";
            faults.push(Fault::error(&grace.place, message).help("a stop is over within 10s"));
        }
        check_state(&file.daemon.state, &mut faults);
        faults.sort_by_key(|it| (it.source.name(), it.span.as_ref().map(|it| it.start)));
        if faults.iter().any(Fault::is_error) {
            return (None, faults);
        }
        let limits = &file.limits;
        let settings = Self {
            models: Arc::new(models),
            max_clients: whole(&limits.max_clients),
            max_queue: whole(&limits.max_queue_per_conversation),
            max_conversations_in_memory: whole(&limits.max_conversations_in_memory),
            client_stall: time(&limits.client_stall),
            state: file.daemon.state.as_ref().map(|it| home(&it.value)),
            grace: time(&file.shutdown.grace),
            log: Log::of(file),
            ui: Ui::of(file),
            entries: stack.entries(),
        };
        (Some(settings), faults)
    }

    /// Dotted names of what differs from `before`; of a preset only its name.
    #[must_use]
    pub fn changes_from(&self, before: &Self) -> Vec<String> {
        let said = |it: &Self| -> BTreeMap<String, super::table::Said> {
            it.entries
                .iter()
                .map(|it| (it.key.clone(), it.value.clone()))
                .collect()
        };
        let (old, new) = (said(before), said(self));
        let keys = old.keys().chain(new.keys());
        let mut changed: Vec<String> = keys
            .filter(|it| old.get(*it) != new.get(*it))
            .map(|it| preset_key(it))
            .collect();
        if before.models.default != self.models.default {
            changed.push("default_model".to_owned());
        }
        let projects = |it: &Self| -> BTreeMap<PathBuf, Arc<Models>> { it.models.projects.clone() };
        let (old, new) = (projects(before), projects(self));
        let roots = old.keys().chain(new.keys());
        changed.extend(
            roots
                .filter(|it| old.get(*it) != new.get(*it))
                .map(|it| it.display().to_string()),
        );
        changed.sort();
        changed.dedup();
        changed
    }
}

/// `models.name` of `models.name.endpoint`.
fn preset_key(key: &str) -> String {
    let Some(rest) = key.strip_prefix("models.") else {
        return key.to_owned();
    };
    let end = match rest.strip_prefix('"') {
        Some(quoted) => quoted.rfind('"').map_or(rest.len(), |it| it + 2),
        None => rest.find('.').unwrap_or(rest.len()),
    };
    format!("models.{}", &rest[..end.min(rest.len())])
}

/// What a running daemon cannot change.
#[must_use]
pub fn needs_restart(key: &str) -> bool {
    const KEYS: [&str; 3] = ["logging.format", "logging.redact", "logging.content"];
    key.starts_with("limits.") || key.starts_with("daemon.") || KEYS.contains(&key)
}

impl Log {
    fn of(file: &File) -> Self {
        let log = &file.logging;
        Self {
            filter: said(&log.level).unwrap_or_default(),
            format: said(&log.format).unwrap_or(LogFormat::Auto),
            redact: said(&log.redact).unwrap_or_default(),
            content: said(&log.content).unwrap_or(false),
        }
    }
}

impl Ui {
    fn of(file: &File) -> Self {
        let ui = &file.ui;
        Self {
            color: said(&ui.color).unwrap_or(When::Auto),
            markdown: said(&ui.markdown).unwrap_or(When::Auto),
            theme: said(&ui.theme).unwrap_or_default(),
            editor: said(&ui.editor).unwrap_or_default(),
            keymap: said(&ui.keymap).unwrap_or(Keymap::Emacs),
        }
    }
}

fn said<T: Clone>(leaf: &Leaf<T>) -> Option<T> {
    leaf.as_ref().map(|it| it.value.clone())
}

/// The lowest layer says it; a test sees to that.
fn whole<const LEAST: u64, const MOST: u64>(leaf: &Leaf<Whole<LEAST, MOST>>) -> usize {
    let number = leaf.as_ref().map_or(LEAST, |it| it.value.0);
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn time(leaf: &Leaf<Time>) -> Duration {
    leaf.as_ref().map_or(Duration::ZERO, |it| it.value.value)
}

fn check_state(state: &Leaf<PathBuf>, faults: &mut Vec<Fault>) {
    let Some(state) = state else { return };
    if !home(&state.value).is_absolute() {
        let message = "`daemon.state`: expected an absolute path, or one that begins with ~/";
        faults.push(Fault::error(&state.place, message));
    }
}

/// The presets of a stack, and the one that answers when nobody names one.
pub(super) fn models(stack: &Stack, is_set: IsSet<'_>, faults: &mut Vec<Fault>) -> Models {
    let file = &stack.file;
    let mut presets = BTreeMap::new();
    for (name, model) in &file.models {
        let check = Check {
            name,
            model,
            stack,
            is_set,
        };
        if let Some(preset) = check.preset(faults) {
            presets.insert(name.clone(), Arc::new(preset));
        }
    }
    if let Some(servers) = &file.discovery.servers {
        for server in &servers.value {
            let near = address::parse(server).map(|it| address::distance(&it));
            let wrong = match near {
                Ok(Distance::Loopback) => continue,
                Ok(Distance::Local | Distance::Far) => "it is not on this machine".to_owned(),
                Err(wrong) => wrong,
            };
            let message = format!("`discovery.servers`: {server}: {wrong}");
            let help = "a server elsewhere is a preset: [models.NAME]";
            faults.push(Fault::error(&servers.place, message).help(help));
        }
    }
    Models {
        default: default_model(stack, faults),
        presets,
        local_servers: said(&file.discovery.servers).unwrap_or_default(),
        projects: BTreeMap::new(),
    }
}

/// The preset that answers when nobody names one; a single one needs no naming.
fn default_model(stack: &Stack, faults: &mut Vec<Fault>) -> Option<String> {
    let file = &stack.file;
    match &file.default_model {
        Some(named) if file.models.contains_key(&named.value) || named.value == DEMO => {
            Some(named.value.clone())
        }
        Some(named) => {
            if stack.broken.contains("") || stack.broken.contains("models") {
                return None;
            }
            let known: Vec<&str> = file.models.keys().map(String::as_str).collect();
            let message = format!(
                "`default_model`: there is no [models.{}]",
                join("", &named.value)
            );
            let fault = Fault::error(&named.place, message);
            faults.push(match nearest(&named.value, &known) {
                Some(name) => fault.label(format!("did you mean `{name}`?")),
                None if known.is_empty() => fault,
                None => fault.help(format!("there are: {}", known.join(", "))),
            });
            None
        }
        None if file.models.contains_key("fast") => Some("fast".to_owned()),
        // Nothing is ever sent to a paid model by itself: without a key it cannot be one.
        None => {
            let mut free = file.models.iter().filter(|(_, it)| !it.has_key());
            free.next().map(|(name, _)| name.clone())
        }
    }
}

/// One preset, while it is looked at.
struct Check<'a> {
    name: &'a str,
    model: &'a Model,
    stack: &'a Stack,
    is_set: IsSet<'a>,
}

impl Check<'_> {
    fn preset(&self, faults: &mut Vec<Fault>) -> Option<Preset> {
        let before = faults.len();
        self.check_name(faults);
        let url = self.endpoint(faults);
        let model = self.required("model", &self.model.model, faults);
        let key = self.key(url.as_ref(), faults);
        let near = url.as_ref().map(address::distance);
        if faults
            .get(before..)
            .is_some_and(|it| it.iter().any(Fault::is_error))
        {
            return None;
        }
        let Model {
            timeouts, headers, ..
        } = self.model;
        let usual = if near == Some(Distance::Loopback) {
            Timeouts::LOOPBACK
        } else {
            Timeouts::REMOTE
        };
        let limit = |leaf: &Leaf<Time>, usual| leaf.as_ref().map_or(usual, |it| it.value.value);
        let header = |(name, value): (&String, &Leaf<_>)| Some((name.clone(), secret(value)?));
        Some(Preset {
            name: self.name.to_owned(),
            source: Source::Configured,
            backend: Backend::Http(Endpoint {
                url: said(&self.model.endpoint)?,
                key,
                headers: headers.iter().filter_map(header).collect(),
                timeouts: Timeouts {
                    connect: limit(&timeouts.connect, usual.connect),
                    first_byte: limit(&timeouts.first_byte, usual.first_byte),
                    idle: limit(&timeouts.idle, usual.idle),
                    content_idle: limit(&timeouts.content_idle, usual.content_idle),
                },
            }),
            model: model?,
            temperature: said(&self.model.temperature).map(|it| it.0),
            max_tokens: said(&self.model.max_tokens).map(|it| it.0),
            context_tokens: said(&self.model.context_tokens).map(|it| it.0),
            use_tool_role: said(&self.model.use_tool_role).unwrap_or(true),
            tools: said(&self.model.tools).unwrap_or(true),
            include_usage: said(&self.model.include_usage).unwrap_or(true),
        })
    }

    fn path(&self) -> String {
        join("models", self.name)
    }

    /// Something in this table could not be read, so that what is missing may be just that.
    fn is_broken(&self) -> bool {
        let broken = &self.stack.broken;
        broken.contains("") || broken.contains(&self.path())
    }

    fn check_name(&self, faults: &mut Vec<Fault>) {
        let name = self.name;
        let long = name.is_empty() || name.chars().count() > 64;
        let odd = name.chars().any(|it| it.is_control() || it.is_whitespace());
        if (long || odd)
            && let Some(place) = self.stack.names.get(&self.path())
        {
            let message = "the name of a preset has 1 to 64 characters and no white space";
            faults.push(Fault::error(place, message));
        }
    }

    fn required(&self, key: &str, leaf: &Leaf<String>, faults: &mut Vec<Fault>) -> Option<String> {
        match leaf {
            Some(said) if !said.value.trim().is_empty() => return Some(said.value.clone()),
            Some(said) => {
                let message = format!("`{}.{key}` is empty", self.path());
                faults.push(Fault::error(&said.place, message));
            }
            None if self.is_broken() => {}
            None => {
                if let Some(place) = self.stack.names.get(&self.path()) {
                    let message = format!("[{}] has no `{key}`", self.path());
                    faults.push(Fault::error(place, message).label(format!("`{key}` is required")));
                }
            }
        }
        None
    }

    fn endpoint(&self, faults: &mut Vec<Fault>) -> Option<url::Url> {
        let text = self.required("endpoint", &self.model.endpoint, faults)?;
        let place = &self.model.endpoint.as_ref()?.place;
        match address::parse(&text) {
            Ok(url) => Some(url),
            Err(wrong) => {
                let fault = Fault::error(place, format!("`{}.endpoint`: {wrong}", self.path()));
                faults.push(if wrong.contains("password") {
                    fault.help("use key_env, or headers")
                } else {
                    fault.help("for example http://127.0.0.1:11434/v1")
                });
                None
            }
        }
    }

    /// Where the key comes from, and what is to be said about that.
    fn key(&self, url: Option<&url::Url>, faults: &mut Vec<Fault>) -> KeySource {
        let Model {
            key_env,
            key_file,
            key_cmd,
            key,
            ..
        } = self.model;
        let mut ways = vec![];
        ways.extend(way("key_env", key_env, |it| KeySource::Env(it.clone())));
        ways.extend(way("key_file", key_file, |it| KeySource::File(home(it))));
        ways.extend(way("key_cmd", key_cmd, |it| KeySource::Command(it.clone())));
        ways.extend(way("key", key, |it| KeySource::Literal(it.0.clone())));
        for second in ways.iter().skip(1) {
            let message = format!(
                "`{}` has `{}` and `{}`",
                self.path(),
                ways[0].name,
                second.name
            );
            let fault = Fault::error(second.place, message);
            faults.push(fault.help("only one of key_env, key_file, key_cmd and key can be given"));
        }
        if let Some(command) = key_cmd
            .as_ref()
            .filter(|it| it.value.first().is_none_or(String::is_empty))
        {
            let message = format!("`{}.key_cmd` names no program", self.path());
            faults.push(Fault::error(&command.place, message));
        }
        if let Some(name) = key_env {
            self.check_variable(name, faults);
        }
        if let Some(key) = key {
            check_literal(key, faults);
        }
        if let (Some(way), Some(url)) = (ways.first(), url)
            && url.scheme() == "http"
            && address::distance(url) == Distance::Far
        {
            let place = self
                .model
                .endpoint
                .as_ref()
                .map_or(way.place, |it| &it.place);
            let message = format!(
                "the key of `{}` is sent over the network without encryption",
                self.path()
            );
            faults.push(Fault::warning(place, message).help("use https://"));
        }
        ways.into_iter()
            .next()
            .map_or(KeySource::None, |it| it.source)
    }

    fn check_variable(&self, name: &Located<String>, faults: &mut Vec<Fault>) {
        let text = &name.value;
        if text.is_empty() || text.contains(['=', '\0']) || text.chars().any(char::is_whitespace) {
            let message = format!("`{}.key_env` is no name of a variable", self.path());
            faults.push(Fault::error(&name.place, message).help("the name, not the key itself"));
        } else if !(self.is_set)(text) {
            let message = format!("the variable {text} is not set");
            let help = "the daemon does not have it; a client that has it lends it";
            faults.push(Fault::warning(&name.place, message).help(help));
        }
    }
}

/// One of the ways to say a key.
struct Way<'a> {
    name: &'static str,
    place: &'a super::source::Place,
    source: KeySource,
}

fn way<'a, T>(
    name: &'static str,
    leaf: &'a Leaf<T>,
    source: impl FnOnce(&T) -> KeySource,
) -> Option<Way<'a>> {
    leaf.as_ref().map(|it| Way {
        name,
        place: &it.place,
        source: source(&it.value),
    })
}

fn check_literal(key: &Located<super::value::Secret>, faults: &mut Vec<Fault>) {
    let source = &key.place.source;
    if key.value.0.trim().is_empty() {
        faults.push(Fault::error(&key.place, "the key is empty"));
        return;
    }
    let better = "better: key_env, key_file or key_cmd";
    match (&source.origin, source.access) {
        (Origin::CommandLine, _) => {
            let message = "a key on the command line is seen by every process";
            faults.push(Fault::error(&key.place, message).help(better));
        }
        (_, Access::Readable(mode)) => {
            let file = source.name();
            let message = format!(
                "{file} holds a key and can be read by others (mode {mode:04o}): chmod 600 {file}"
            );
            faults.push(Fault::error(&key.place, message).help(better));
        }
        (_, Access::Private) => {
            let message = "the key stands in the file itself";
            faults.push(Fault::warning(&key.place, message).help(better));
        }
    }
}

fn secret(leaf: &Leaf<super::value::Secret>) -> Option<String> {
    leaf.as_ref().map(|it| it.value.0.clone())
}

/// A path that begins with `~/`, in the home directory.
pub(super) fn home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), directories::BaseDirs::new()) {
        (Ok(rest), Some(dirs)) => dirs.home_dir().join(rest),
        (Ok(_) | Err(_), _) => path.to_path_buf(),
    }
}

#[cfg(test)]
mod tests;
