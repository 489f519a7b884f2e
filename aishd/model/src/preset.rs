//! Model presets: how to reach one model, and with which settings.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use aishd_log::api_dialect::ApiDialect;
use aishd_log::event::PresetSource;
use aishd_log::picture::PictureKind;
use aishd_log::sealed_answer::SealOrigin;
use aishd_log::spending::TokenPrice;

use crate::catalog::CatalogFacts;
use crate::model_families;
use crate::optional_fields::{LearnedFields, OptionalField};
use crate::preset_fields::PresetFields;
use crate::thinking::ThinkingStart;
pub use crate::thinking_effort::ThinkingEffort;

/// The built-in responder can always be asked by name.
pub(crate) const DEMO: &str = "demo";

pub const OPENAI: &str = "api.openai.com";
pub const ANTHROPIC: &str = "api.anthropic.com";
const AZURE: &str = ".openai.azure.com";
/// Where other places of models have a door for programs that speak to Anthropic; those add the version themselves.
const ANTHROPIC_PATH: &str = "/anthropic";

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
    /// How much it is to think; `None`: nobody said.
    pub effort: Option<ThinkingEffort>,
    /// What else it says of its requests.
    pub fields: PresetFields,
    /// How long its server is to keep what it has read, where that can be said.
    pub cache: CacheLife,
    pub context_tokens: Option<u64>,
    /// Whether results go back as `role: "tool"`.
    pub use_tool_role: bool,
    /// Whether the model can call tools at all.
    pub tools: bool,
    /// How many of them one request may have; `None`: nobody said.
    pub max_tools: Option<usize>,
    /// How often a request is sent again that its server cannot answer just now.
    pub retries: u32,
    /// Whether the model takes pictures and PDFs; `None`: nobody said.
    pub pictures: Option<bool>,
    /// Whether to ask for `stream_options.include_usage`.
    pub include_usage: bool,
    /// How its answers begin.
    pub think: ThinkingStart,
    /// What its server takes; `None`: nobody said.
    pub price: Option<TokenPrice>,
    /// What the catalog knows of the model.
    pub facts: CatalogFacts,
    /// What its server was found not to take.
    pub learned: LearnedFields,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Backend {
    Http(ModelEndpoint),
    /// The built-in responder: a script, not a model.
    Demo,
}

/// A server of models.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelEndpoint {
    /// As configured; [`ModelEndpoint::base`] is what is asked.
    pub url: String,
    /// How it is spoken to.
    pub api: ApiDialect,
    /// How the key goes along.
    pub auth: KeyHeader,
    pub key: KeySource,
    pub headers: BTreeMap<String, String>,
    pub timeouts: Timeouts,
}

/// The header that the key goes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHeader {
    /// `Authorization: Bearer`.
    Bearer,
    /// `x-api-key`, as Anthropic has it.
    XApiKey,
    /// `api-key`, as Azure has it.
    ApiKey,
    /// None: it is not sent.
    None,
}

/// How long a server keeps what it has read of a request, where a dialect can say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheLife {
    #[default]
    FiveMinutes,
    OneHour,
    /// Nothing is said of it.
    Off,
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

impl KeyHeader {
    /// As the server at this address wants it, as far as is known, or as it is usual where it is `said` how to speak to it.
    pub fn usual(url: &str, said: Option<ApiDialect>) -> Self {
        let host = host_of(url);
        if host == ANTHROPIC {
            Self::XApiKey
        } else if host.ends_with(AZURE) {
            Self::ApiKey
        } else if said == Some(ApiDialect::Messages) {
            Self::XApiKey
        } else {
            Self::Bearer
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
    /// What is asked: `/v1` is added when the endpoint has no path of its own, and the path of a dialect and a closing
    /// slash are taken away, since people paste those too.
    pub fn base(&self) -> String {
        self.parts().0
    }

    /// How a server at this address is spoken to, where that is known of the address.
    pub fn known_api(url: &str) -> Option<ApiDialect> {
        let (path, _) = without_query(url);
        let path = path.trim_end_matches('/');
        let ends = |it: &ApiDialect| path.ends_with(&format!("/{}", it.path()));
        let host = host_of(url);
        ApiDialect::ALL.into_iter().find(ends).or(match &*host {
            OPENAI => Some(ApiDialect::Responses),
            ANTHROPIC => Some(ApiDialect::Messages),
            _ if path.ends_with(ANTHROPIC_PATH) => Some(ApiDialect::Messages),
            _ => None,
        })
    }

    /// Whose server it is: scheme, host and port.
    pub fn origin(&self) -> String {
        let base = self.base();
        let (scheme, rest) = base.split_once("://").unwrap_or(("", &base));
        let place = rest.split(['/', '?']).next().unwrap_or_default();
        let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
        format!("{scheme}://{place}").to_ascii_lowercase()
    }

    /// The name or number of the machine, in lower case.
    pub fn host(&self) -> String {
        host_of(&self.url)
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
        let (url, query) = without_query(&self.url);
        let url = url.trim_end_matches('/');
        let mut paths = ApiDialect::ALL.into_iter();
        // A whole path is asked as it is.
        if let Some(base) = paths.find_map(|it| url.strip_suffix(&format!("/{}", it.path()))) {
            return (base.trim_end_matches('/').to_owned(), query);
        }
        let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
        let version = if !after_scheme.contains('/') || url.ends_with(ANTHROPIC_PATH) {
            "/v1"
        } else {
            ""
        };
        (format!("{url}{version}"), query)
    }
}

fn without_query(url: &str) -> (&str, Option<&str>) {
    let url = url.trim();
    let (url, _fragment) = url.split_once('#').unwrap_or((url, ""));
    match url.split_once('?') {
        None => (url, None),
        Some((url, query)) => (url, Some(query)),
    }
}

fn host_of(url: &str) -> String {
    let (url, _) = without_query(url);
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split('/').next().unwrap_or_default();
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let host = match place.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => place.split(':').next().unwrap_or_default(),
    };
    host.to_ascii_lowercase()
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

    /// How its server is spoken to.
    pub fn api(&self) -> ApiDialect {
        match &self.backend {
            Backend::Http(endpoint) => endpoint.api,
            Backend::Demo => ApiDialect::Chat,
        }
    }

    /// The name of the machine that its server is on; empty for the demo.
    pub fn host(&self) -> String {
        match &self.backend {
            Backend::Http(endpoint) => endpoint.host(),
            Backend::Demo => String::new(),
        }
    }

    /// Whether a request may have a temperature, as far as is known.
    pub fn takes_temperature(&self) -> bool {
        self.facts
            .temperature
            .unwrap_or_else(|| !model_families::refuses_temperature(&self.model))
    }

    /// Whether it takes such files, as far as is known.
    pub fn takes(&self, kind: PictureKind) -> Option<bool> {
        let known = match kind {
            PictureKind::Pdf => self.facts.pdfs,
            PictureKind::Png | PictureKind::Jpeg | PictureKind::Gif | PictureKind::Webp => {
                self.facts.pictures
            }
        };
        let refused = self.learned.without.contains(&OptionalField::Pictures);
        self.pictures.or(refused.then_some(false)).or(known)
    }

    /// How much it is told to think: as is wished, or what comes nearest to that.
    pub fn effort_sent(&self) -> Option<ThinkingEffort> {
        self.nearest_effort(self.effort?)
    }

    /// What comes nearest to an effort among those that it takes, as was learned, else as the catalog has it.
    pub fn nearest_effort(&self, wished: ThinkingEffort) -> Option<ThinkingEffort> {
        match self.learned.efforts.or(self.facts.efforts) {
            Some(taken) => taken.nearest(wished),
            None => Some(wished),
        }
    }

    /// Whether it may think before it answers, as far as is known.
    pub fn may_think(&self) -> bool {
        !model_families::never_thinks(&self.model)
    }

    /// Whose seals it takes back.
    pub fn seal_origin(&self) -> SealOrigin {
        SealOrigin {
            api: self.api(),
            origin: match &self.backend {
                Backend::Http(endpoint) => endpoint.origin(),
                Backend::Demo => String::new(),
            },
            model: self.model.clone(),
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
            effort: None,
            fields: PresetFields::default(),
            cache: CacheLife::default(),
            context_tokens: None,
            use_tool_role: true,
            tools: true,
            max_tools: None,
            retries: 0,
            pictures: Some(false),
            include_usage: false,
            think: ThinkingStart::Off,
            price: None,
            facts: CatalogFacts::default(),
            learned: LearnedFields::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model_settings::ModelSettings;

    fn endpoint(url: &str) -> ModelEndpoint {
        ModelEndpoint {
            url: url.to_owned(),
            api: ModelEndpoint::known_api(url).unwrap_or_default(),
            auth: KeyHeader::Bearer,
            key: KeySource::None,
            headers: BTreeMap::new(),
            timeouts: Timeouts::LOOPBACK,
        }
    }

    #[track_caller]
    fn check(url: &str, asked: &str) {
        let endpoint = endpoint(url);
        assert_eq!(asked, endpoint.address(endpoint.api.path()));
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

    #[test]
    fn an_address_says_how_a_server_is_spoken_to() {
        check(
            "https://api.openai.com",
            "https://api.openai.com/v1/responses",
        );
        check(
            "https://API.openai.com/v1/",
            "https://API.openai.com/v1/responses",
        );
        check(
            "https://api.anthropic.com",
            "https://api.anthropic.com/v1/messages",
        );
        check("https://h/anthropic", "https://h/anthropic/v1/messages");
        // A whole path is asked as it is.
        check("http://h:1/chat/completions", "http://h:1/chat/completions");
        check("http://h/messages?beta=true", "http://h/messages?beta=true");
        check("http://h/x/responses/", "http://h/x/responses");
        check(
            "https://api.openai.com/v1/chat/completions",
            "https://api.openai.com/v1/chat/completions",
        );
        check(
            "https://api.openai.com.evil.example",
            "https://api.openai.com.evil.example/v1/chat/completions",
        );
    }

    #[test]
    fn a_seal_goes_back_to_the_server_that_it_came_from() {
        let origin = |url: &str| endpoint(url).origin();
        assert_eq!("https://h:8443", origin("https://H:8443/v1"));
        assert_eq!(origin("http://h/v1"), origin("http://h/v1/messages?x=1"));
        assert_ne!(origin("http://h"), origin("https://h"));
        assert_ne!(origin("http://h:1"), origin("http://h:2"));
        assert_eq!("http://h", origin("http://user:secret@h/"));
    }
}
