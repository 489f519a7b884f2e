//! What the configuration means: presets, limits, the filter of the log. All faults are reported at once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::limits::CLIENT_STALL_MS;

use super::file::{File, Model};
use super::{env, mcp, permissions};
use crate::core::event::Source;
use crate::core::mcp::settings::Mcp;
use crate::core::policy::Policy;
use crate::core::preset::{Backend, Endpoint, KeySource, Models, Preset, Timeouts};

/// The usual local servers, in the order in which they are tried (spec 80, 7): Ollama, LM Studio, llama.cpp,
/// vLLM, Jan, KoboldCpp, Docker Model Runner.
const LOCAL_SERVERS: [&str; 7] = [
    "http://127.0.0.1:11434/v1",
    "http://127.0.0.1:1234/v1",
    "http://127.0.0.1:8080/v1",
    "http://127.0.0.1:8000/v1",
    "http://127.0.0.1:1337/v1",
    "http://127.0.0.1:5001/v1",
    "http://127.0.0.1:12434/v1",
];

/// Everything that is configured, with the defaults in place of what is not.
#[derive(Clone, Debug)]
pub struct Settings {
    pub models: Arc<Models>,
    pub policy: Arc<Policy>,
    pub max_clients: usize,
    pub max_queue: usize,
    pub max_conversations_in_memory: usize,
    pub client_stall: Duration,
    pub log: String,
    pub mcp: Mcp,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            models: Arc::new(Models {
                presets: BTreeMap::new(),
                default: None,
                local_servers: LOCAL_SERVERS.map(str::to_owned).to_vec(),
            }),
            policy: Arc::default(),
            max_clients: 64,
            max_queue: 16,
            max_conversations_in_memory: 32,
            client_stall: Duration::from_millis(CLIENT_STALL_MS),
            log: "info".to_owned(),
            mcp: Mcp::default(),
        }
    }
}

impl Settings {
    /// Gives a file its meaning. `private`: the file is closed to others, so that a key may stand in it.
    pub fn from_file(file: &File, private: bool) -> Result<Self, Vec<String>> {
        let mut faults = vec![];
        let mut presets = BTreeMap::new();
        for (name, model) in &file.models {
            match preset(name, model, private) {
                Ok(preset) => {
                    presets.insert(name.clone(), Arc::new(preset));
                }
                Err(found) => faults.extend(found),
            }
        }
        if let Some(version) = file.config_version.filter(|it| *it != 1) {
            faults.push(format!(
                "config_version {version} is not known; this program knows 1"
            ));
        }
        let default = default_model(file, &mut faults);
        let policy = permissions::policy(
            &file.permissions,
            &file.mcp.auto_approve,
            &file.tools,
            &mut faults,
        );
        let defaults = Self::default();
        let local_servers = match &file.discovery.servers {
            Some(servers) => {
                let remote = servers.iter().filter(|it| !is_loopback(it));
                faults
                    .extend(remote.map(|it| format!("discovery.servers: {it} is not on loopback")));
                servers.clone()
            }
            None => defaults.models.local_servers.clone(),
        };
        let client_stall = match &file.limits.client_stall {
            Some(text) => {
                duration("limits.client_stall", text, &mut faults).unwrap_or(defaults.client_stall)
            }
            None => defaults.client_stall,
        };
        let mcp = mcp::settings(&file.mcp, private, &env::key, &mut faults);
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self {
            models: Arc::new(Models {
                presets,
                default,
                local_servers,
            }),
            policy: Arc::new(policy),
            max_clients: file.limits.max_clients.unwrap_or(defaults.max_clients),
            max_queue: file
                .limits
                .max_queue_per_conversation
                .unwrap_or(defaults.max_queue),
            max_conversations_in_memory: file
                .limits
                .max_conversations_in_memory
                .unwrap_or(defaults.max_conversations_in_memory),
            client_stall,
            log: file.logging.level.clone().unwrap_or(defaults.log),
            mcp,
        })
    }

    /// Dotted names of what differs from `before`.
    #[must_use]
    pub fn changes_from(&self, before: &Self) -> Vec<String> {
        let mut changed = vec![];
        let (old, new) = (&before.models.presets, &self.models.presets);
        let names = old
            .keys()
            .chain(new.keys().filter(|it| !old.contains_key(*it)));
        changed.extend(
            names
                .filter(|it| old.get(*it) != new.get(*it))
                .map(|it| format!("models.{it}")),
        );
        let mut note = |differs: bool, name: &str| {
            if differs {
                changed.push(name.to_owned());
            }
        };
        note(self.policy != before.policy, "permissions");
        note(
            before.models.default != self.models.default,
            "default_model",
        );
        note(
            before.models.local_servers != self.models.local_servers,
            "discovery.servers",
        );
        note(before.log != self.log, "logging.level");
        note(before.mcp != self.mcp, "mcp");
        changed
    }
}

/// The preset that answers when nobody names one; a single one needs no naming.
fn default_model(file: &File, faults: &mut Vec<String>) -> Option<String> {
    match &file.default_model {
        Some(name) if file.models.contains_key(name) || name == "demo" => Some(name.clone()),
        Some(name) => {
            faults.push(format!("default_model: there is no [models.{name}]"));
            None
        }
        None if file.models.contains_key("fast") => Some("fast".to_owned()),
        None => {
            let mut free = file.models.iter().filter(|(_, it)| it.costs_nothing());
            free.next().map(|(name, _)| name.clone())
        }
    }
}

impl Model {
    /// Nothing is ever sent to a paid model by itself: without a key it cannot be one.
    fn costs_nothing(&self) -> bool {
        self.key.is_none()
            && self.key_env.is_none()
            && self.key_file.is_none()
            && self.key_cmd.is_none()
    }
}

fn preset(name: &str, model: &Model, private: bool) -> Result<Preset, Vec<String>> {
    let mut faults = vec![];
    let mut fault = |text: String| faults.push(format!("models.{name}: {text}"));
    if name.is_empty()
        || name.len() > 64
        || name.chars().any(|it| it.is_control() || it.is_whitespace())
    {
        fault("a name has 1 to 64 characters and no white space".to_owned());
    }
    let url = model.endpoint.clone().unwrap_or_default();
    if !url.starts_with("http://") && !url.starts_with("https://") {
        fault("broker: endpoint is required and begins with http:// or https://".to_owned());
    }
    if model.model.as_deref().unwrap_or_default().is_empty() {
        fault("broker: model is required".to_owned());
    }
    if model.key.is_some() && !private {
        fault("a literal key is taken only from a file with mode 0600; better: key_env, key_file or key_cmd".to_owned());
    }
    let mut keys = vec![];
    keys.extend(model.key_env.clone().map(KeySource::Env));
    keys.extend(model.key_file.clone().map(|it| KeySource::File(home(&it))));
    keys.extend(model.key_cmd.clone().map(KeySource::Command));
    keys.extend(model.key.clone().map(KeySource::Literal));
    if keys.len() > 1 {
        fault("only one of key_env, key_file, key_cmd and key can be given".to_owned());
    }
    if model.key_cmd.as_ref().is_some_and(Vec::is_empty) {
        fault("key_cmd is empty".to_owned());
    }
    let defaults = if is_loopback(&url) {
        Timeouts::LOOPBACK
    } else {
        Timeouts::REMOTE
    };
    let mut time = |key: &str, text: &Option<String>, default: Duration| match text {
        Some(text) => {
            duration(&format!("models.{name}.timeouts.{key}"), text, &mut faults).unwrap_or(default)
        }
        None => default,
    };
    let timeouts = Timeouts {
        connect: time("connect", &model.timeouts.connect, defaults.connect),
        first_byte: time(
            "first_byte",
            &model.timeouts.first_byte,
            defaults.first_byte,
        ),
        idle: time("idle", &model.timeouts.idle, defaults.idle),
        content_idle: time(
            "content_idle",
            &model.timeouts.content_idle,
            defaults.content_idle,
        ),
    };
    if !faults.is_empty() {
        return Err(faults);
    }
    Ok(Preset {
        name: name.to_owned(),
        source: Source::Configured,
        backend: Backend::Http(Endpoint {
            url,
            key: keys.pop().unwrap_or(KeySource::None),
            headers: model.headers.clone(),
            timeouts,
        }),
        model: model.model.clone().unwrap_or_default(),
        temperature: model.temperature,
        max_tokens: model.max_tokens,
        context_tokens: model.context_tokens,
        use_tool_role: model.use_tool_role.unwrap_or(true),
        tools: model.tools.unwrap_or(true),
        include_usage: model.include_usage.unwrap_or(true),
    })
}

/// A path that begins with `~/`, in the home directory.
pub(super) fn home(path: &Path) -> std::path::PathBuf {
    match (path.strip_prefix("~"), directories::BaseDirs::new()) {
        (Ok(rest), Some(dirs)) => dirs.home_dir().join(rest),
        (Ok(_) | Err(_), _) => path.to_path_buf(),
    }
}

fn is_loopback(url: &str) -> bool {
    let authority = url.split("://").nth(1).unwrap_or_default();
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|it| it.is_loopback())
}

/// `250ms`, `5s`, `10m`, `1h`.
pub(super) fn duration(key: &str, text: &str, faults: &mut Vec<String>) -> Option<Duration> {
    let parsed = humantime::parse_duration(text)
        .ok()
        .filter(|it| !it.is_zero());
    if parsed.is_none() {
        faults.push(format!(
            "{key}: {text:?} is no duration such as \"250ms\", \"5s\" or \"10m\""
        ));
    }
    parsed
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn read(text: &str) -> Result<Settings, Vec<String>> {
        let file = file::parse(text).map_err(|(place, message)| vec![place, message])?;
        Settings::from_file(&file, /*private*/ false)
    }

    #[test]
    fn the_default_is_never_a_model_that_may_cost() {
        let paid = "[models.cloud]\nendpoint=\"https://x.test\"\nmodel=\"m\"\nkey_env=\"K\"\n";
        assert_eq!(None, read(paid).unwrap().models.default);
        let both = format!("{paid}[models.local]\nendpoint=\"http://127.0.0.1:9\"\nmodel=\"m\"\n");
        assert_eq!(
            Some("local".to_owned()),
            read(&both).unwrap().models.default
        );
        let named = format!("default_model=\"cloud\"\n{both}");
        assert_eq!(
            Some("cloud".to_owned()),
            read(&named).unwrap().models.default
        );
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let faults = read(
            "default_model=\"gone\"\n[models.a]\nendpoint=\"ftp://x\"\nkey=\"k\"\n[models.a.timeouts]\nidle=\"soon\"\n\
             [discovery]\nservers=[\"http://example.org/v1\"]\n",
        )
        .unwrap_err();
        let expected = [
            "models.a: broker: endpoint is required",
            "models.a: broker: model is required",
            "models.a: a literal key",
            "models.a.timeouts.idle: \"soon\"",
            "default_model: there is no [models.gone]",
            "discovery.servers: http://example.org/v1",
        ];
        assert_eq!(expected.len(), faults.len(), "{faults:#?}");
        for (fault, beginning) in faults.iter().zip(expected) {
            assert!(fault.starts_with(beginning), "{fault}");
        }
    }

    #[test]
    fn loopback_is_told_from_what_only_looks_like_it() {
        for url in [
            "http://127.0.0.1:1/v1",
            "http://localhost",
            "http://[::1]:8/v1",
            "http://127.9.9.9",
        ] {
            assert!(is_loopback(url), "{url}");
        }
        for url in [
            "http://127.0.0.1.evil.test/",
            "http://localhost@evil.test/",
            "https://10.0.0.1",
            "nonsense",
        ] {
            assert!(!is_loopback(url), "{url}");
        }
    }

    const EXAMPLE: &str = include_str!("../../../config/aishd.toml");

    /// The table that begins with this line, up to the next empty line, taken out of its comments.
    fn uncommented(first: &str) -> String {
        let lines = EXAMPLE.lines().skip_while(|it| *it != first);
        let lines = lines.take_while(|it| !it.is_empty());
        // What is indented as a remark goes on from the line before.
        let lines = lines.filter(|it| !it.starts_with("#       "));
        let said = lines.map(|it| it.trim_start_matches('#').trim_start());
        let keys = said.filter(|it| it.starts_with(['[', '"', ']']) || it.contains(" = "));
        keys.map(|it| format!("{it}\n")).collect()
    }

    #[test]
    fn the_example_file_is_read_and_says_nothing() {
        let settings = read(EXAMPLE).unwrap();
        assert_eq!(
            format!("{:?}", Settings::default()),
            format!("{settings:?}")
        );
    }

    #[test]
    fn the_defaults_in_the_example_file_are_the_defaults() {
        let tables = ["# [discovery]", "# [limits]", "# [logging]"].map(uncommented);
        let file = file::parse(&tables.concat()).unwrap();
        assert!(file.discovery.servers.is_some() && file.logging.level.is_some());
        let limits = &file.limits;
        assert!(limits.max_clients.is_some() && limits.max_queue_per_conversation.is_some());
        assert!(limits.max_conversations_in_memory.is_some() && limits.client_stall.is_some());
        let settings = Settings::from_file(&file, /*private*/ false).unwrap();
        assert_eq!(
            format!("{:?}", Settings::default()),
            format!("{settings:?}")
        );
    }

    #[test]
    fn the_presets_in_the_example_file_have_real_keys() {
        let fast = uncommented("# [models.fast]");
        let deep = uncommented("# [models.deep]");
        let file = file::parse(&format!("{fast}{deep}")).unwrap();
        let deep = &file.models["deep"];
        assert!(deep.key_cmd.is_some() && deep.context_tokens.is_some());
        let remote = Timeouts {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
            content_idle: Duration::from_secs(300),
        };
        assert_eq!(Timeouts::REMOTE, remote);
        assert_eq!(Some("5s"), deep.timeouts.connect.as_deref());
        assert_eq!(Some("300s"), deep.timeouts.content_idle.as_deref());
    }
}
