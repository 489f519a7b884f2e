//! What the configuration means: presets, limits, the filter of the log. All that is wrong is reported at once, each
//! with its place.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aishd_log::memory;
use aishd_log::profile::Profile;
use aishd_mcp_messages::settings::McpSettings;
use aishd_model::context_budget::ContextSettings;
use aishd_model::model_settings::ModelSettings;
use aishd_model::trusted_instructions::TrustedInstructions;
use aishd_rules::policy::Policy;

use super::address::{self, NetworkDistance};
use super::fault::Fault;
use super::filter;
use super::keys::File;
use super::layers::LayerStack;
use super::preset::PresetCheck;
use super::source::ConfigOrigin;
use super::table_reader::{KeyLeaf, TableEntry, join, nearest};
use super::value::{Contain, Keymap, LogFormat, NotifyMethod, NotifyWhen, When};
use crate::key_values::{IsSet, home, places, time, value_of, whole_number};

/// The built-in responder, which needs no preset.
const DEMO: &str = "demo";
/// What ends after the turns needs some of the six seconds of a stop, too.
pub const GRACE_MOST_MS: u64 = 3_000;

/// Everything that is configured, with the defaults in place of what is not.
#[derive(Clone, Debug)]
pub struct Settings {
    pub models: Arc<ModelSettings>,
    pub mcp: McpSettings,
    pub policy: Arc<Policy>,
    /// Directories with manifests of tools, besides the usual one.
    pub tool_folders: Vec<PathBuf>,
    /// What the system message begins with was read from here.
    pub system_prompt_file: Option<PathBuf>,
    pub max_clients: usize,
    pub max_queue: usize,
    pub max_conversations_in_memory: usize,
    pub client_stall: Duration,
    /// The directory that holds the store; absent: the usual one.
    pub state: Option<PathBuf>,
    /// Time that running turns get at a stop.
    pub grace: Duration,
    pub store: StoreSettings,
    pub log: LoggingSettings,
    pub notify: NotifySettings,
    pub ui: UiSettings,
    /// Every key that is said, with the value that counts.
    pub entries: Vec<TableEntry>,
}

/// What is kept of conversations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSettings {
    /// How large it may become; `None`: as large as the disk.
    pub max_bytes: Option<u64>,
    /// Conversations that nobody has used for so many days are deleted; `None`: none are.
    pub keep_days: Option<u32>,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggingSettings {
    /// A filter that `tracing` takes.
    pub filter: String,
    pub format: LogFormat,
    /// Fields whose name contains one of these are written without their value.
    pub redact: Vec<String>,
    /// Whether prompts and answers may be logged.
    pub content: bool,
}

/// What becomes of a question that waits while nobody looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifySettings {
    pub when: NotifyWhen,
    pub method: NotifyMethod,
    /// A program and its arguments; empty: none.
    pub command: Vec<String>,
    /// What the kernel holds the program to.
    pub contain: Profile,
    /// How long it has to have waited.
    pub after: Duration,
}

/// How clients look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UiSettings {
    pub color: When,
    pub markdown: When,
    pub theme: String,
    pub editor: String,
    pub keymap: Keymap,
    pub pictures: bool,
}

impl Settings {
    /// Gives a stack of layers its meaning. Absent when there is an error among the faults.
    pub fn of(stack: &LayerStack, is_set: IsSet<'_>) -> (Option<Self>, Vec<Fault>) {
        let mut faults = vec![];
        let file = &stack.file;
        let models = models(stack, is_set, &mut faults);
        let mcp = super::mcp::mcp(stack, &mut faults);
        let policy = super::permissions::policy(stack, &mut faults);
        super::permissions::unknown_providers(stack, &mut faults);
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
            .filter(|it| it.value.value > Duration::from_millis(GRACE_MOST_MS))
        {
            let message = "`shutdown.grace`: expected at most 3s";
            faults.push(Fault::error(&grace.place, message).help("a stop is over within 6s"));
        }
        check_state(&file.daemon.state, &mut faults);
        let tool_folders = places("tools.dirs", &file.tools.dirs, &mut faults);
        faults.sort_by_key(|it| (it.source.name(), it.span.as_ref().map(|it| it.start)));
        if faults.iter().any(Fault::is_error) {
            return (None, faults);
        }
        let limits = &file.limits;
        let settings = Self {
            models: Arc::new(models),
            mcp,
            policy: Arc::new(policy),
            tool_folders,
            system_prompt_file: super::system_prompt::file_of(&file.context),
            max_clients: whole_number(&limits.max_clients),
            max_queue: whole_number(&limits.max_queue_per_conversation),
            max_conversations_in_memory: whole_number(&limits.max_conversations_in_memory),
            client_stall: time(&limits.client_stall),
            state: file.daemon.state.as_ref().map(|it| home(&it.value)),
            grace: time(&file.shutdown.grace),
            store: StoreSettings::of(file),
            log: LoggingSettings::of(file),
            notify: NotifySettings::of(file),
            ui: UiSettings::of(file),
            entries: stack.entries(),
        };
        (Some(settings), faults)
    }

    /// Dotted names of what differs from `before`; of a preset only its name.
    pub fn changes_from(&self, before: &Self) -> Vec<String> {
        let said = |it: &Self| -> BTreeMap<String, super::table_reader::TomlText> {
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
        let opening = |it: &Self| it.models.context.system_prompt.clone();
        if self.system_prompt_file.is_some() && opening(before) != opening(self) {
            changed.push("context.system_prompt_file".to_owned());
        }
        let projects =
            |it: &Self| -> BTreeMap<PathBuf, Arc<ModelSettings>> { it.models.projects.clone() };
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

    /// What these keys are set to, as TOML, where it is short; of a secret only that it is there.
    pub fn short_values(&self, keys: &[String]) -> BTreeMap<String, String> {
        let entries = self.entries.iter().filter(|it| keys.contains(&it.key));
        let values = entries.map(|it| (it.key.clone(), it.display()));
        values
            .filter(|(_, it)| it.len() <= SHORT_VALUE_BYTES)
            .collect()
    }
}

/// A value that is longer says little on a line.
const SHORT_VALUE_BYTES: usize = 60;

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
pub fn needs_restart(key: &str) -> bool {
    const KEYS: [&str; 3] = ["logging.format", "logging.redact", "logging.content"];
    const AT_ONCE: [&str; 2] = ["limits.daily_spend_usd", "limits.ask_above_usd"];
    let is_limit = key.starts_with("limits.") && !AT_ONCE.contains(&key);
    is_limit || key.starts_with("daemon.") || KEYS.contains(&key)
}

impl LoggingSettings {
    fn of(file: &File) -> Self {
        let log = &file.logging;
        Self {
            filter: value_of(&log.level).unwrap_or_default(),
            format: value_of(&log.format).unwrap_or(LogFormat::Auto),
            redact: value_of(&log.redact).unwrap_or_default(),
            content: value_of(&log.content).unwrap_or(false),
        }
    }
}

impl StoreSettings {
    fn of(file: &File) -> Self {
        let store = &file.store;
        let bytes = store.max_bytes.as_ref().map(|it| it.value.0);
        let days = store.keep_days.as_ref().map(|it| it.value.0);
        Self {
            max_bytes: bytes.filter(|it| *it > 0),
            keep_days: days.filter(|it| *it > 0).and_then(|it| it.try_into().ok()),
        }
    }
}

impl NotifySettings {
    fn of(file: &File) -> Self {
        let notify = &file.notify;
        Self {
            when: value_of(&notify.when).unwrap_or(NotifyWhen::Unattended),
            method: value_of(&notify.method).unwrap_or(NotifyMethod::Auto),
            command: value_of(&notify.command).unwrap_or_default(),
            contain: value_of(&notify.contain).map_or(Profile::Open, Contain::profile),
            after: time(&notify.after),
        }
    }
}

impl UiSettings {
    fn of(file: &File) -> Self {
        let ui = &file.ui;
        Self {
            color: value_of(&ui.color).unwrap_or(When::Auto),
            markdown: value_of(&ui.markdown).unwrap_or(When::Auto),
            theme: value_of(&ui.theme).unwrap_or_default(),
            editor: value_of(&ui.editor).unwrap_or_default(),
            keymap: value_of(&ui.keymap).unwrap_or(Keymap::Emacs),
            pictures: value_of(&ui.pictures).unwrap_or(true),
        }
    }
}

fn check_state(state: &KeyLeaf<PathBuf>, faults: &mut Vec<Fault>) {
    let Some(state) = state else { return };
    if !home(&state.value).is_absolute() {
        let message = "`daemon.state`: expected an absolute path, or one that begins with ~/";
        faults.push(Fault::error(&state.place, message));
    }
}

/// The presets of a stack, and the one that answers when nobody names one.
pub(super) fn models(
    stack: &LayerStack,
    is_set: IsSet<'_>,
    faults: &mut Vec<Fault>,
) -> ModelSettings {
    let file = &stack.file;
    let mut presets = BTreeMap::new();
    for (name, model) in &file.models {
        let check = PresetCheck {
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
                Ok(NetworkDistance::Loopback) => continue,
                Ok(NetworkDistance::Local | NetworkDistance::Far) => {
                    "it is not on this machine".to_owned()
                }
                Err(wrong) => wrong,
            };
            let message = format!("`discovery.servers`: {server}: {wrong}");
            let help = "a server elsewhere is a preset: [models.NAME]";
            faults.push(Fault::error(&servers.place, message).help(help));
        }
    }
    ModelSettings {
        default: default_model(stack, faults),
        context: context(stack, faults),
        memory: memory(stack, faults),
        routing: super::routing::routing(stack, faults),
        norris: super::norris::norris(stack, faults),
        daily_usd: super::spending::daily(stack, &presets, faults),
        ask_above_usd: super::spending::ask_above(stack),
        presets,
        local_servers: value_of(&file.discovery.servers).unwrap_or_default(),
        projects: BTreeMap::new(),
    }
}

/// How much models are shown of a conversation.
fn context(stack: &LayerStack, faults: &mut Vec<Fault>) -> ContextSettings {
    let context = &stack.file.context;
    let usual = ContextSettings::default();
    let summarizes = value_of(&context.summarize_on_evict).unwrap_or(false);
    let models = &stack.file.models;
    if let (Some(on), Some(named)) = (&context.summarize_on_evict, &context.summarizer_model)
        && on.value
        && !models.contains_key(&named.value)
        && named.value != DEMO
    {
        let message = format!(
            "`context.summarizer_model`: there is no [models.{}], so nothing is summed up",
            join("", &named.value)
        );
        let is_default = named.place.source.origin == ConfigOrigin::Default;
        let place = if is_default { &on.place } else { &named.place };
        let fault = Fault::warning(place, message);
        faults.push(fault.help("say which preset sums up what leaves the context"));
    }
    ContextSettings {
        system_prompt: super::system_prompt::text(context, faults),
        project: value_of(&context.project).and_then(|it| it.then(TrustedInstructions::default)),
        max_turns: whole_number(&context.max_turns),
        max_tokens: value_of(&context.max_tokens).map(|it| it.0),
        reserve_tokens: value_of(&context.reserve_tokens).map_or(usual.reserve_tokens, |it| it.0),
        summarizer: value_of(&context.summarizer_model).filter(|_| summarizes),
        max_summary_chars: whole_number(&context.max_summary_chars),
        tools_percent: value_of(&stack.file.tools.context_percent)
            .map_or(usual.tools_percent, |it| it.0),
        pinned_tools: super::permissions::pinned(stack, faults),
    }
}

fn memory(stack: &LayerStack, faults: &mut Vec<Fault>) -> memory::MemorySettings {
    let memory = &stack.file.memory;
    let proposes = memory.summarize_on_close.as_ref().filter(|it| it.value);
    let named = value_of(&stack.file.context.summarizer_model);
    let proposer = named.filter(|it| stack.file.models.contains_key(it) || it == DEMO);
    if let (Some(on), None) = (proposes, &proposer) {
        let message = "`memory.summarize_on_close`: `context.summarizer_model` names no preset, so nothing is proposed";
        faults.push(Fault::warning(&on.place, message));
    }
    memory::MemorySettings {
        max_chars: whole_number(&memory.max_chars),
        proposer: proposer.filter(|_| proposes.is_some()),
    }
}

/// The preset that answers when nobody names one; a single one needs no naming.
fn default_model(stack: &LayerStack, faults: &mut Vec<Fault>) -> Option<String> {
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

#[cfg(test)]
mod tests;
