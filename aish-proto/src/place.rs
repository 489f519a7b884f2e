//! Where the socket is. Both sides ask this one function, so that they meet.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// Longest path that every client can connect to: `sun_path` less its terminating zero.
pub const SOCKET_PATH_BYTES: usize = 107;

/// Name of the socket in its directory.
pub const SOCKET_NAME: &str = "aishd.sock";

/// The parts of the process's surroundings that decide the place.
#[derive(Clone, Debug, Default)]
pub struct PlaceEnvironment {
    /// `--socket`.
    pub flag: Option<PathBuf>,
    /// `AISH_SOCKET`.
    pub aish_socket: Option<OsString>,
    /// `XDG_RUNTIME_DIR`.
    pub xdg_runtime_dir: Option<OsString>,
    pub uid: u32,
    /// Whether others may write in `XDG_RUNTIME_DIR` too, or it is another user's.
    pub runtime_shared: bool,
    /// Whether `/run/user/UID` is a directory that this user owns.
    pub run_user_owned: bool,
}

/// The socket's path: `--socket`, then `AISH_SOCKET`, then `$XDG_RUNTIME_DIR/aish` (`aish-UID` where
/// that directory is not the user's own, as `/tmp`), then an owned
/// `/run/user/UID/aish`, then `/tmp/aish-UID`. Empty and relative variables count as unset.
pub fn socket(around: &PlaceEnvironment) -> PathBuf {
    if let Some(path) = &around.flag {
        return path.clone();
    }
    let absolute = |value: &Option<OsString>| {
        value
            .as_ref()
            .map(PathBuf::from)
            .filter(|it| it.is_absolute())
    };
    if let Some(path) = absolute(&around.aish_socket) {
        return path;
    }
    let directory = match absolute(&around.xdg_runtime_dir) {
        // Everybody may write there: a name for all users would be the first one's.
        Some(runtime) if around.runtime_shared => runtime.join(format!("aish-{}", around.uid)),
        Some(runtime) => runtime.join("aish"),
        None if around.run_user_owned => PathBuf::from(format!("/run/user/{}/aish", around.uid)),
        None => PathBuf::from(format!("/tmp/aish-{}", around.uid)),
    };
    directory.join(SOCKET_NAME)
}

/// Whether a runtime directory is not this user's alone.
pub fn is_shared(runtime: Option<&OsStr>, uid: u32) -> bool {
    runtime
        .and_then(|it| fs::metadata(it).ok())
        .is_some_and(|it| it.uid() != uid || it.mode() & 0o002 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(around: PlaceEnvironment, expected: &str) {
        let around = PlaceEnvironment { uid: 7, ..around };
        assert_eq!(PathBuf::from(expected), socket(&around));
    }

    #[test]
    fn the_first_place_that_is_set_wins() {
        let all = PlaceEnvironment {
            flag: Some("here.sock".into()),
            aish_socket: Some("/env.sock".into()),
            xdg_runtime_dir: Some("/run/user/9".into()),
            runtime_shared: false,
            uid: 7,
            run_user_owned: true,
        };
        check(all.clone(), "here.sock");
        let all = PlaceEnvironment { flag: None, ..all };
        check(all.clone(), "/env.sock");
        let all = PlaceEnvironment {
            aish_socket: Some("".into()),
            ..all
        };
        check(all.clone(), "/run/user/9/aish/aishd.sock");
        let shared = PlaceEnvironment {
            xdg_runtime_dir: Some("/tmp".into()),
            runtime_shared: true,
            ..all.clone()
        };
        check(shared, "/tmp/aish-7/aishd.sock");
        let all = PlaceEnvironment {
            xdg_runtime_dir: Some("relative".into()),
            ..all
        };
        check(all.clone(), "/run/user/7/aish/aishd.sock");
        check(
            PlaceEnvironment {
                run_user_owned: false,
                ..all
            },
            "/tmp/aish-7/aishd.sock",
        );
    }
}
