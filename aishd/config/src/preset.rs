//! One preset: what its keys come to, and what is wrong with them.

use aishd_log::api_dialect::ApiDialect;
use aishd_log::event::PresetSource;
use aishd_log::spending::TokenPrice;
use aishd_model::optional_fields::LearnedFields;
use aishd_model::preset::{
    Backend, CacheLife, KeyHeader, KeySource, ModelEndpoint, Preset, ThinkingEffort, Timeouts,
};
use aishd_model::thinking::ThinkingStart;
use url::Url;

use super::address::{self, NetworkDistance};
use super::fault::Fault;
use super::keys::{self, Model};
use super::layers::LayerStack;
use super::source::{ConfigOrigin, FileExposure, SourcePlace};
use super::table_reader::{KeyLeaf, LocatedValue, join};
use super::value::{Api, Auth, Cache, DollarAmount, Effort, SecretText, Thinks, TimeSpan};
use crate::key_values::{IsSet, home, value_of};

/// How often a server elsewhere is asked again. One on this machine does not fail for being busy.
const USUAL_RETRIES: u32 = 2;

/// One preset, while it is looked at.
pub(super) struct PresetCheck<'a> {
    pub(super) name: &'a str,
    pub(super) model: &'a Model,
    pub(super) stack: &'a LayerStack,
    pub(super) is_set: IsSet<'a>,
}

impl PresetCheck<'_> {
    pub(super) fn preset(&self, faults: &mut Vec<Fault>) -> Option<Preset> {
        let before = faults.len();
        self.check_name(faults);
        let url = self.endpoint(faults);
        let model = self.required("model", &self.model.model, faults);
        let key = self.key(url.as_ref(), faults);
        let price = self.price(faults);
        let fields = self.fields(faults);
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
        let usual = if near == Some(NetworkDistance::Loopback) {
            Timeouts::LOOPBACK
        } else {
            Timeouts::REMOTE
        };
        let limit =
            |leaf: &KeyLeaf<TimeSpan>, usual| leaf.as_ref().map_or(usual, |it| it.value.value);
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        // A hint: what is said here goes before it.
        let id = model.as_deref().unwrap_or_default();
        let port = url.as_ref().and_then(Url::port);
        let facts = self.stack.catalog.facts(&host.to_lowercase(), port, id);
        self.check_effort(&facts, id, faults);
        let header = |(name, value): (&String, &KeyLeaf<_>)| Some((name.clone(), secret(value)?));
        Some(Preset {
            name: self.name.to_owned(),
            source: PresetSource::Configured,
            backend: Backend::Http(ModelEndpoint {
                api: self.api(),
                auth: self.auth(),
                url: value_of(&self.model.endpoint)?,
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
            temperature: value_of(&self.model.temperature).map(|it| it.0),
            max_tokens: value_of(&self.model.max_tokens).map(|it| it.0),
            effort: value_of(&self.model.effort).map(effort),
            fields,
            cache: match value_of(&self.model.cache) {
                None | Some(Cache::FiveMinutes) => CacheLife::FiveMinutes,
                Some(Cache::OneHour) => CacheLife::OneHour,
                Some(Cache::Off) => CacheLife::Off,
            },
            context_tokens: value_of(&self.model.context_tokens)
                .map(|it| it.0)
                .or(facts.context_tokens),
            use_tool_role: value_of(&self.model.use_tool_role).unwrap_or(true),
            tools: value_of(&self.model.tools).unwrap_or(facts.tools != Some(false)),
            max_tools: value_of(&self.model.max_tools).and_then(|it| usize::try_from(it.0).ok()),
            retries: value_of(&self.model.retries)
                .and_then(|it| u32::try_from(it.0).ok())
                .unwrap_or(if near == Some(NetworkDistance::Loopback) {
                    0
                } else {
                    USUAL_RETRIES
                }),
            pictures: value_of(&self.model.pictures),
            include_usage: value_of(&self.model.include_usage).unwrap_or(true),
            think: match value_of(&self.model.think) {
                None | Some(Thinks::Auto) => ThinkingStart::Auto,
                Some(Thinks::Open) => ThinkingStart::Open,
                Some(Thinks::Off) => ThinkingStart::Off,
            },
            price: price.or(facts.price),
            facts,
            learned: LearnedFields::default(),
        })
    }

    /// As somebody says, else as the address does.
    fn said_api(&self) -> Option<ApiDialect> {
        Some(match value_of(&self.model.api)? {
            Api::Chat => ApiDialect::Chat,
            Api::Responses => ApiDialect::Responses,
            Api::Messages => ApiDialect::Messages,
        })
    }

    pub(super) fn api(&self) -> ApiDialect {
        let url = self.model.endpoint.as_ref().map(|it| &*it.value);
        let known = || url.and_then(ModelEndpoint::known_api);
        self.said_api().or_else(known).unwrap_or_default()
    }

    fn auth(&self) -> KeyHeader {
        let url = self.model.endpoint.as_ref().map(|it| &*it.value);
        match value_of(&self.model.auth) {
            Some(Auth::Bearer) => KeyHeader::Bearer,
            Some(Auth::XApiKey) => KeyHeader::XApiKey,
            Some(Auth::ApiKey) => KeyHeader::ApiKey,
            Some(Auth::None) => KeyHeader::None,
            None => KeyHeader::usual(url.unwrap_or_default(), self.said_api()),
        }
    }

    pub(super) fn path(&self) -> String {
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

    /// Half a price is none: what it leaves out would count as nothing.
    fn price(&self, faults: &mut Vec<Fault>) -> Option<TokenPrice> {
        let keys::Price {
            input,
            output,
            cached_input,
            cache_write,
        } = &self.model.price;
        let nano = |leaf: &KeyLeaf<DollarAmount>| leaf.as_ref().map(|it| it.value.nano());
        match (nano(input), nano(output)) {
            (Some(input), Some(output)) => Some(TokenPrice {
                input,
                output,
                cached_input: nano(cached_input),
                cache_write: nano(cache_write),
            }),
            (had_input, _) => {
                let parts = [input, output, cached_input, cache_write];
                let first = parts.into_iter().flatten().next()?;
                let lacks = if had_input.is_some() {
                    "output"
                } else {
                    "input"
                };
                let message = format!("`{}.price` has no `{lacks}`", self.path());
                let help = "for example price = { input = 3.0, output = 15.0 }, in US dollars for a million tokens";
                faults.push(Fault::error(&first.place, message).help(help));
                None
            }
        }
    }

    fn required(
        &self,
        key: &str,
        leaf: &KeyLeaf<String>,
        faults: &mut Vec<Fault>,
    ) -> Option<String> {
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

    fn endpoint(&self, faults: &mut Vec<Fault>) -> Option<Url> {
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
    fn key(&self, url: Option<&Url>, faults: &mut Vec<Fault>) -> KeySource {
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
            check_literal(key, "better: key_env, key_file or key_cmd", faults);
        }
        if let (Some(way), Some(url)) = (ways.first(), url)
            && url.scheme() == "http"
            && address::distance(url) == NetworkDistance::Far
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

    fn check_variable(&self, name: &LocatedValue<String>, faults: &mut Vec<Fault>) {
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

pub(super) fn effort(said: Effort) -> ThinkingEffort {
    match said {
        Effort::None => ThinkingEffort::None,
        Effort::Minimal => ThinkingEffort::Minimal,
        Effort::Low => ThinkingEffort::Low,
        Effort::Medium => ThinkingEffort::Medium,
        Effort::High => ThinkingEffort::High,
        Effort::XHigh => ThinkingEffort::XHigh,
        Effort::Max => ThinkingEffort::Max,
    }
}

/// One of the ways to say a key.
struct KeySpelling<'a> {
    name: &'static str,
    place: &'a SourcePlace,
    source: KeySource,
}

fn way<'a, T>(
    name: &'static str,
    leaf: &'a KeyLeaf<T>,
    source: impl FnOnce(&T) -> KeySource,
) -> Option<KeySpelling<'a>> {
    leaf.as_ref().map(|it| KeySpelling {
        name,
        place: &it.place,
        source: source(&it.value),
    })
}

/// A secret that stands in the file; `better` says where else it could.
pub(super) fn check_literal(key: &LocatedValue<SecretText>, better: &str, faults: &mut Vec<Fault>) {
    let source = &key.place.source;
    if key.value.0.trim().is_empty() {
        faults.push(Fault::error(&key.place, "the key is empty"));
        return;
    }
    match (&source.origin, source.access) {
        (ConfigOrigin::CommandLine, _) => {
            let message = "a key on the command line is seen by every process";
            faults.push(Fault::error(&key.place, message).help(better));
        }
        (_, FileExposure::Readable(mode)) => {
            let file = source.name();
            let message = format!(
                "{file} holds a key and can be read by others (mode {mode:04o}): chmod 600 {file}"
            );
            faults.push(Fault::error(&key.place, message).help(better));
        }
        (_, FileExposure::Private) => {
            let message = "the key stands in the file itself";
            faults.push(Fault::warning(&key.place, message).help(better));
        }
    }
}

fn secret(leaf: &KeyLeaf<SecretText>) -> Option<String> {
    leaf.as_ref().map(|it| it.value.0.clone())
}
