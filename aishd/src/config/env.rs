//! Every environment variable that the daemon reads, on one page.

use std::ffi::OsString;

/// The daemon's surroundings, read once at start.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// Path of the socket.
    pub aish_socket: Option<OsString>,
    /// Path of the configuration file.
    pub aish_config: Option<OsString>,
    /// A `tracing` filter, e.g. `aishd=debug`; beats the configuration.
    pub aish_log: Option<String>,
    /// A failpoint to arm; debug builds only.
    pub aish_failpoint: Option<String>,
    pub xdg_runtime_dir: Option<OsString>,
    /// Directories with the machine's configuration.
    pub xdg_config_dirs: Option<OsString>,
}

/// Reads what [`Env`] lists.
#[must_use]
pub fn read() -> Env {
    Env {
        aish_socket: get("AISH_SOCKET"),
        aish_config: get("AISH_CONFIG"),
        aish_log: text("AISH_LOG"),
        aish_failpoint: text("AISH_FAILPOINT"),
        xdg_runtime_dir: get("XDG_RUNTIME_DIR"),
        xdg_config_dirs: get("XDG_CONFIG_DIRS"),
    }
}

/// The value of a variable that a preset names as `key_env`, if it is set.
#[must_use]
pub fn key(name: &str) -> Option<String> {
    text(name)
}

/// Whether such a variable is set.
#[must_use]
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
