//! The only place that looks at the process's environment, directory and terminals. Everything else
//! gets a [`ClientEnvironment`], so that tests need no environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use aish_proto::place;

use crate::controlling_terminal;

#[derive(Clone, Debug, Default)]
pub struct ClientEnvironment {
    pub variables: BTreeMap<OsString, OsString>,
    pub cwd: PathBuf,
    pub uid: u32,
    /// Our own executable; the daemon's is beside it.
    pub program: Option<PathBuf>,
    /// The terminal we sit on, e.g. `pts/3`.
    pub tty: Option<String>,
    pub stdin_terminal: bool,
    pub stdout_terminal: bool,
    pub stderr_terminal: bool,
    /// Somebody can be asked at the terminal that we were started from, also where stdin or stderr lead elsewhere. Who
    /// redirected all three wants to be asked nothing.
    pub own_terminal: bool,
    /// How wide the terminal of stdout was when we started.
    pub stdout_columns: Option<usize>,
    /// What files that we make are not for others.
    pub umask: Option<u32>,
}

impl ClientEnvironment {
    pub fn ours() -> Self {
        let name = |fd: std::os::fd::BorrowedFd<'_>| {
            rustix::termios::ttyname(fd, Vec::new())
                .ok()
                .and_then(|it| it.into_string().ok())
                .map(|it| it.trim_start_matches("/dev/").to_owned())
        };
        let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let terminals = [
            stdin.is_terminal(),
            stdout.is_terminal(),
            stderr.is_terminal(),
        ];
        let tty = match terminals {
            [true, _, _] => name(rustix::stdio::stdin()),
            [_, true, _] => name(rustix::stdio::stdout()),
            [_, _, true] => name(rustix::stdio::stderr()),
            [false, false, false] => None,
        };
        Self {
            variables: std::env::vars_os().collect(),
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            uid: rustix::process::getuid().as_raw(),
            program: std::env::current_exe().ok(),
            tty,
            stdin_terminal: terminals[0],
            stdout_terminal: terminals[1],
            stderr_terminal: terminals[2],
            own_terminal: terminals.contains(&true) && controlling_terminal::open().is_some(),
            stdout_columns: terminals[1].then(stdout_columns).flatten(),
            umask: umask(),
        }
    }

    /// A variable as text; an empty one counts as unset.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables
            .get(OsStr::new(name))
            .and_then(|it| it.to_str())
            .filter(|it| !it.is_empty())
    }

    fn absolute(&self, name: &str) -> Option<PathBuf> {
        self.variables
            .get(OsStr::new(name))
            .map(PathBuf::from)
            .filter(|it| it.is_absolute())
    }

    /// The daemon's socket, by the one rule that both sides have.
    pub fn socket(&self, flag: Option<&Path>) -> PathBuf {
        let run_user = PathBuf::from(format!("/run/user/{}", self.uid));
        let run_user_owned =
            std::fs::symlink_metadata(run_user).is_ok_and(|it| it.is_dir() && it.uid() == self.uid);
        place::socket(&place::PlaceEnvironment {
            flag: flag.map(Path::to_owned),
            aish_socket: self.variables.get(OsStr::new("AISH_SOCKET")).cloned(),
            xdg_runtime_dir: self.variables.get(OsStr::new("XDG_RUNTIME_DIR")).cloned(),
            runtime_shared: place::is_shared(
                self.variable("XDG_RUNTIME_DIR").map(OsStr::new),
                self.uid,
            ),
            uid: self.uid,
            run_user_owned,
        })
    }

    /// Where the daemon keeps its store and log; `None` without a home.
    pub fn state_directory(&self) -> Option<PathBuf> {
        self.absolute("XDG_STATE_HOME")
            .or_else(|| Some(self.absolute("HOME")?.join(".local/state")))
            .map(|it| it.join("aish"))
    }

    /// Where the user's programs are configured; `None` without a home.
    pub fn config_home(&self) -> Option<PathBuf> {
        self.absolute("XDG_CONFIG_HOME")
            .or_else(|| Some(self.absolute("HOME")?.join(".config")))
    }

    /// Whether the user's service manager is to start the daemon: its socket unit is installed.
    pub fn has_socket_unit(&self) -> bool {
        self.variable("AISH_SOCKET").is_none()
            && self
                .config_home()
                .is_some_and(|it| it.join("systemd/user/aishd.socket").exists())
    }

    /// The nearest directory at or above ours that has `.git` or `.aish`, else ours.
    pub fn project_root(&self) -> &Path {
        project_root_of(&self.cwd)
    }

    pub fn cwd_text(&self) -> String {
        self.cwd.to_string_lossy().into_owned()
    }
}

/// The nearest directory at or above this one that has `.git` or `.aish`, else the directory itself.
pub fn project_root_of(directory: &Path) -> &Path {
    directory
        .ancestors()
        .find(|it| it.join(".git").exists() || it.join(".aish").exists())
        .unwrap_or(directory)
}

/// Asked of the kernel, because the call that reads it sets it.
fn umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

/// How wide the terminal of stdout is now.
pub fn stdout_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|it| *it > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_root_is_the_nearest_marked_directory() {
        let directory = tempfile::tempdir().unwrap();
        let deep = directory.path().join("project/src/deep");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir(directory.path().join("project/.git")).unwrap();
        let around = ClientEnvironment {
            cwd: deep,
            ..ClientEnvironment::default()
        };
        assert_eq!(directory.path().join("project"), around.project_root());
        std::fs::create_dir(directory.path().join("project/src/.aish")).unwrap();
        assert_eq!(directory.path().join("project/src"), around.project_root());
    }

    #[test]
    fn state_is_in_the_xdg_place_or_under_home() {
        let mut around = ClientEnvironment::default();
        assert_eq!(None, around.state_directory());
        around.variables.insert("HOME".into(), "/home/u".into());
        assert_eq!(
            Some("/home/u/.local/state/aish".into()),
            around.state_directory()
        );
        around
            .variables
            .insert("XDG_STATE_HOME".into(), "relative".into());
        assert_eq!(
            Some("/home/u/.local/state/aish".into()),
            around.state_directory()
        );
        around
            .variables
            .insert("XDG_STATE_HOME".into(), "/s".into());
        assert_eq!(Some("/s/aish".into()), around.state_directory());
    }
}
