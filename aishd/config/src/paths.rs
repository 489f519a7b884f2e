//! Where the daemon keeps things: XDG directories, made for their owner alone.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use aish_proto::place::{self, PlaceEnvironment, SOCKET_PATH_BYTES};
use directories::ProjectDirs;

use super::environment_variables::DaemonEnvironment;

#[derive(Debug, thiserror::Error)]
pub enum PathError {
    #[error(
        "the socket path is {bytes} bytes long, and no client can connect to more than {SOCKET_PATH_BYTES}: {path}"
    )]
    SocketTooLong { path: String, bytes: usize },
    #[error("make the directory {path}")]
    Make {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("{path} is not a directory")]
    NotADirectory { path: String },
    #[error("the directory {path} belongs to user {owner}, not to us")]
    Foreign { path: String, owner: u32 },
    #[error("the directory {path} is open to others (mode {mode:o}); it must be 0700")]
    Open { path: String, mode: u32 },
    #[error("there is no home directory to keep the state in; name one with --state")]
    Homeless,
}

/// The socket's path, checked for length.
pub fn socket(flag: Option<&Path>, env: &DaemonEnvironment) -> Result<PathBuf, PathError> {
    let uid = rustix::process::getuid().as_raw();
    let run_user = format!("/run/user/{uid}");
    let run_user_owned =
        std::fs::symlink_metadata(run_user).is_ok_and(|it| it.is_dir() && it.uid() == uid);
    let path = place::socket(&PlaceEnvironment {
        flag: flag.map(Path::to_path_buf),
        aish_socket: env.aish_socket.clone(),
        xdg_runtime_dir: env.xdg_runtime_dir.clone(),
        runtime_shared: place::is_shared(env.xdg_runtime_dir.as_deref(), uid),
        uid,
        run_user_owned,
    });
    let bytes = path.as_os_str().len();
    if bytes > SOCKET_PATH_BYTES {
        let path = path.display().to_string();
        return Err(PathError::SocketTooLong { path, bytes });
    }
    Ok(path)
}

/// The state directory: `$XDG_STATE_HOME/aish`.
pub fn state(flag: Option<&Path>) -> Result<PathBuf, PathError> {
    if let Some(path) = flag {
        return Ok(path.to_path_buf());
    }
    let dirs = ProjectDirs::from("", "", "aish").ok_or(PathError::Homeless)?;
    Ok(dirs
        .state_dir()
        .unwrap_or(dirs.data_local_dir())
        .to_path_buf())
}

/// The machine's files, the least important first: `aish/config.toml` in each directory of `$XDG_CONFIG_DIRS`.
pub fn machine(env: &DaemonEnvironment) -> Vec<PathBuf> {
    let listed = env.xdg_config_dirs.clone();
    let listed = listed.unwrap_or_else(|| "/etc/xdg".into());
    let directories = std::env::split_paths(&listed).filter(|it| it.is_absolute());
    let mut files: Vec<PathBuf> = directories.map(|it| it.join("aish/config.toml")).collect();
    files.reverse();
    files
}

/// The user's file: `--config`, `AISH_CONFIG`, then `$XDG_CONFIG_HOME/aish/config.toml`.
pub fn config(flag: Option<&Path>, env: &DaemonEnvironment) -> Option<PathBuf> {
    let named = flag
        .map(Path::to_path_buf)
        .or_else(|| env.aish_config.clone().map(PathBuf::from));
    named
        .or_else(|| ProjectDirs::from("", "", "aish").map(|it| it.config_dir().join("config.toml")))
}

/// Makes what is missing of a directory, for us alone. What is there stays as it is.
pub fn private_parent(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// An error with its cause.
pub fn describe(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Makes a directory for us alone, or checks that the one that is there is ours and closed to others.
pub fn private_dir(path: &Path) -> Result<(), PathError> {
    let shown = || path.display().to_string();
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    if let Err(source) = made {
        let path = shown();
        return Err(PathError::Make { path, source });
    }
    let found = std::fs::symlink_metadata(path).map_err(|source| PathError::Make {
        path: shown(),
        source,
    })?;
    if !found.is_dir() {
        return Err(PathError::NotADirectory { path: shown() });
    }
    let (owner, mode) = (found.uid(), found.mode() & 0o777);
    if owner != rustix::process::geteuid().as_raw() {
        return Err(PathError::Foreign {
            path: shown(),
            owner,
        });
    }
    if mode & 0o077 != 0 {
        return Err(PathError::Open {
            path: shown(),
            mode,
        });
    }
    Ok(())
}
