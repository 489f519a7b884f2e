//! Every environment variable that the daemon reads, and those that child processes get of it, on one page.

use std::collections::BTreeMap;
use std::ffi::OsString;

use aish_proto::network;

/// What every child process gets, every `LC_` variable and those of the network besides. What a child needs more is declared
/// for it.
const OF_CHILDREN: [&str; 9] = [
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TZ", "TMPDIR",
];

/// The daemon's surroundings, read once at start.
#[derive(Clone, Debug, Default)]
pub struct DaemonEnvironment {
    /// Path of the socket.
    pub aish_socket: Option<OsString>,
    /// Path of the configuration file.
    pub aish_config: Option<OsString>,
    /// A `tracing` filter, e.g. `aishd=debug`; beats the configuration.
    pub aish_log: Option<String>,
    /// A failpoint to arm; debug builds only.
    pub aish_failpoint: Option<String>,
    pub xdg_runtime_dir: Option<OsString>,
    /// Device and inode of the stream that the service manager made to the journal.
    pub journal_stream: Option<String>,
    /// Where the service manager listens, if one started us.
    pub notify_socket: Option<OsString>,
    /// Directories with the machine's configuration.
    pub xdg_config_dirs: Option<OsString>,
}

/// Reads what [`DaemonEnvironment`] lists.
pub fn read() -> DaemonEnvironment {
    DaemonEnvironment {
        aish_socket: get("AISH_SOCKET"),
        aish_config: get("AISH_CONFIG"),
        aish_log: text("AISH_LOG"),
        aish_failpoint: text("AISH_FAILPOINT"),
        xdg_runtime_dir: get("XDG_RUNTIME_DIR"),
        journal_stream: text("JOURNAL_STREAM"),
        notify_socket: get("NOTIFY_SOCKET"),
        xdg_config_dirs: get("XDG_CONFIG_DIRS"),
    }
}

/// The value of a variable that a preset names as `key_env`, if it is set.
pub fn key(name: &str) -> Option<String> {
    text(name)
}

/// The environment of child processes, before they get what is declared for them.
pub fn of_children() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| {
            OF_CHILDREN.contains(&name.as_str())
                || network::is_network(name)
                || name.starts_with("LC_")
        })
        .collect()
}

/// How servers are reached: proxies and certificates, as far as somebody has said so.
pub fn of_network() -> Vec<(&'static str, String)> {
    let set = |name: &'static str| Some((name, text(name)?));
    network::VARIABLES.into_iter().filter_map(set).collect()
}

/// Whether such a variable is set.
pub fn is_set(name: &str) -> bool {
    key(name).is_some()
}

fn get(name: &str) -> Option<OsString> {
    #[expect(clippy::disallowed_methods, reason = "this is the page")]
    let value = std::env::var_os(name);
    value.filter(|it| !it.is_empty())
}

fn text(name: &str) -> Option<String> {
    get(name).and_then(|it| it.into_string().ok())
}
