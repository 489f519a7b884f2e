//! Model presets: how to reach one model, and with which settings.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use aishd_log::event::PresetSource;
use aishd_log::spending::TokenPrice;

use crate::optional_fields::LearnedFields;
use crate::thinking::ThinkingStart;

/// The built-in responder can always be asked by name.
pub(crate) const DEMO: &str = "demo";

/// One way to reach one model.
#[derive(Clone, Debug, PartialEq)]
pub struct Preset {
    pub name: String,
    pub source: PresetSource,
    pub backend: Backend,
    /// What the server is asked for.
    pub model: String,
    pub temperature: Option<f64>,
    pub max_tokens: Option<u64>,
    pub context_tokens: Option<u64>,
    /// Whether results go back as `role: "tool"`.
    pub use_tool_role: bool,
    /// Whether the model can call tools at all.
    pub tools: bool,
    /// How many of them one request may have; `None`: nobody said.
    pub max_tools: Option<usize>,
    /// Whether to ask for `stream_options.include_usage`.
    pub include_usage: bool,
    /// How its answers begin.
    pub think: ThinkingStart,
    /// What its server takes; `None`: nobody said.
    pub price: Option<TokenPrice>,
    /// What its server was found not to take.
    pub learned: LearnedFields,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Backend {
    Http(ModelEndpoint),
    /// The built-in responder: a script, not a model.
    Demo,
}

/// An OpenAI-compatible server.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelEndpoint {
    /// As configured; [`ModelEndpoint::base`] is what is asked.
    pub url: String,
    pub key: KeySource,
    pub headers: BTreeMap<String, String>,
    pub timeouts: Timeouts,
}

/// Where the key comes from. It is read when it is needed, and sent only to this endpoint.
#[derive(Clone, PartialEq, Eq)]
pub enum KeySource {
    None,
    /// An environment variable of the daemon, or lent by a client at hello.
    Env(String),
    File(PathBuf),
    Command(Vec<String>),
    Literal(String),
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Env(name) => f.debug_tuple("Env").field(name).finish(),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Command(argv) => f.debug_tuple("Command").field(&argv.first()).finish(),
            Self::Literal(_) => f.write_str("Literal(..)"),
        }
    }
}

/// Limits of one stream. There is no limit on the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    /// From the request to the first byte of the answer, the model's reading of the prompt included.
    pub first_byte: Duration,
    /// The longest silence between two bytes, comments counted as bytes.
    pub idle: Duration,
    /// The longest time without content, whatever else comes.
    pub content_idle: Duration,
}

impl ModelEndpoint {
    /// What is asked: `/v1` is added when the endpoint has no path of its own, and the path of the chat itself
    /// and a closing slash are taken away, since people paste those too.
    pub fn base(&self) -> String {
        self.parts().0
    }

    /// The name or number of the machine, in lower case.
    pub fn host(&self) -> String {
        let base = self.base();
        let rest = base.split_once("://").map_or(&*base, |(_, rest)| rest);
        let place = rest.split(['/', '?']).next().unwrap_or_default();
        let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
        let host = match place.strip_prefix('[') {
            Some(six) => six.split(']').next().unwrap_or_default(),
            None => place.split(':').next().unwrap_or_default(),
        };
        host.to_ascii_lowercase()
    }

    /// The address of something below [`ModelEndpoint::base`], with the endpoint's own query.
    pub fn address(&self, below: &str) -> String {
        let (base, query) = self.parts();
        match query {
            None => format!("{base}/{below}"),
            Some(query) => format!("{base}/{below}?{query}"),
        }
    }

    fn parts(&self) -> (String, Option<&str>) {
        let url = self.url.trim();
        let (url, _fragment) = url.split_once('#').unwrap_or((url, ""));
        let (url, query) = match url.split_once('?') {
            None => (url, None),
            Some((url, query)) => (url, Some(query)),
        };
        let url = url.trim_end_matches('/');
        let url = url
            .strip_suffix("/chat/completions")
            .unwrap_or(url)
            .trim_end_matches('/');
        let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
        let version = if after_scheme.contains('/') {
            ""
        } else {
            "/v1"
        };
        (format!("{url}{version}"), query)
    }
}

impl Timeouts {
    pub const LOOPBACK: Self = Self {
        connect: Duration::from_secs(5),
        first_byte: Duration::from_secs(600),
        idle: Duration::from_secs(60),
        content_idle: Duration::from_secs(300),
    };
    pub const REMOTE: Self = Self {
        first_byte: Duration::from_secs(120),
        ..Self::LOOPBACK
    };
}

impl Preset {
    /// It is asked without a key, so that asking it costs nothing.
    pub fn has_no_key(&self) -> bool {
        match &self.backend {
            Backend::Http(endpoint) => endpoint.key == KeySource::None,
            Backend::Demo => true,
        }
    }

    /// A script answers, and no model.
    pub fn is_demo(&self) -> bool {
        match self.backend {
            Backend::Demo => true,
            Backend::Http(_) => false,
        }
    }

    /// Whether its requests cannot cost anything, so that no budget of money stops them: it is a script, or was found on
    /// this machine, or has a price of nothing. One without a price may cost anything.
    pub fn is_free(&self) -> bool {
        match self.source {
            PresetSource::Demo
            | PresetSource::Discovered
            | PresetSource::None
            | PresetSource::Imported => true,
            PresetSource::Configured => self.price.is_some_and(|it| it.is_nothing()),
        }
    }

    /// The built-in responder.
    pub fn demo() -> Self {
        Self {
            name: DEMO.to_owned(),
            source: PresetSource::Demo,
            backend: Backend::Demo,
            model: "demo".to_owned(),
            temperature: None,
            max_tokens: None,
            context_tokens: None,
            use_tool_role: true,
            tools: true,
            max_tools: None,
            include_usage: false,
            think: ThinkingStart::Off,
            price: None,
            learned: LearnedFields::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model_settings::ModelSettings;

    #[track_caller]
    fn check(url: &str, chat: &str) {
        let endpoint = ModelEndpoint {
            url: url.to_owned(),
            key: KeySource::None,
            headers: BTreeMap::new(),
            timeouts: Timeouts::LOOPBACK,
        };
        assert_eq!(chat, endpoint.address("chat/completions"));
    }

    #[test]
    fn a_conversation_has_the_models_of_its_project() {
        let named = |name: &str, projects| {
            Arc::new(ModelSettings {
                default: Some(name.to_owned()),
                projects,
                ..ModelSettings::default()
            })
        };
        let none = BTreeMap::new;
        let projects = BTreeMap::from([
            (PathBuf::from("/p"), named("outer", none())),
            (PathBuf::from("/p/q"), named("inner", none())),
        ]);
        let models = named("all", projects);
        for (directory, expected) in [
            ("/", "all"),
            ("/p", "outer"),
            ("/p/", "outer"),
            ("/pq", "all"),
            ("/p/x/y", "outer"),
            ("/p/q/z", "inner"),
            ("/p/q/../../etc", "all"),
            ("p/q", "all"),
            ("", "all"),
        ] {
            let found = models.within(directory).default.as_deref();
            assert_eq!(Some(expected), found, "{directory}");
        }
    }

    #[test]
    fn the_version_is_added_only_to_an_empty_path() {
        check("http://h:1", "http://h:1/v1/chat/completions");
        check("http://h:1/", "http://h:1/v1/chat/completions");
        check("http://h/v1", "http://h/v1/chat/completions");
        check(" http://h/v1/ ", "http://h/v1/chat/completions");
        check("https://h/api/v4//", "https://h/api/v4/chat/completions");
        check(
            "https://h/v1/chat/completions",
            "https://h/v1/chat/completions",
        );
        check(
            "https://h/openai?api-version=1",
            "https://h/openai/chat/completions?api-version=1",
        );
        check("http://[::1]:8080", "http://[::1]:8080/v1/chat/completions");
    }
}
