//! The socket as a file: taken over from systemd, or made where no live daemon has one.

use std::fs::{self, File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{io, thread};

use aishd_platform::file_lock::{self, LockError};
use interprocess::local_socket::tokio::Listener;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName as _};
use interprocess::os::unix::local_socket::ListenerOptionsExt as _;
use interprocess::os::unix::uds_local_socket::tokio::Listener as UdsListener;
use rustix::fs::OFlags;

/// Beside the socket; whoever holds it may replace a dead socket.
const LOCK_NAME: &str = "aishd.lock";

/// How long a socket may still be listened on though nobody holds the lock.
const LISTENS_ON: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A listening socket, and what is needed to take it away again.
#[derive(Debug)]
pub struct ListeningSocket {
    pub listener: Listener,
    /// `None`: the service manager made the socket and keeps it.
    pub place: Option<SocketFile>,
}

/// A socket file of ours.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    inode: u64,
    /// Held for as long as we serve.
    _lock: File,
}

#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("another daemon{} serves {path}", pid.map(|it| format!(" (pid {it})")).unwrap_or_default())]
    Taken { path: String, pid: Option<u32> },
    #[error("{path} is in the way and is no socket")]
    NoSocket { path: String },
    #[error("{action} {path}")]
    Io {
        action: &'static str,
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("adopt the socket that the service manager passed")]
    Adopt(#[source] io::Error),
}

/// The socket that the service manager passed, if it passed one. Must be called on the runtime.
pub fn adopt() -> Result<Option<ListeningSocket>, SocketError> {
    let listener = listenfd::ListenFd::from_env()
        .take_unix_listener(0)
        .map_err(SocketError::Adopt)?;
    let Some(listener) = listener else {
        return Ok(None);
    };
    let listener = UdsListener::try_from(OwnedFd::from(listener)).map_err(SocketError::Adopt)?;
    Ok(Some(ListeningSocket {
        listener: listener.into(),
        place: None,
    }))
}

/// Makes the socket in its private directory. A dead one is replaced, a live one never. Must be called on
/// the runtime.
pub fn bind(path: &Path) -> Result<ListeningSocket, SocketError> {
    let lock = lock(path)?;
    clear(path)?;
    let io = |action| {
        move |source| SocketError::Io {
            action,
            path: path.display().to_string(),
            source,
        }
    };
    let name = path
        .to_fs_name::<GenericFilePath>()
        .map_err(io("name the socket"))?;
    let listener = ListenerOptions::new()
        .name(name)
        .mode(0o600)
        .reclaim_name(false)
        .create_tokio()
        .map_err(io("make the socket"))?;
    let inode = fs::symlink_metadata(path)
        .map_err(io("look at the socket"))?
        .ino();
    Ok(ListeningSocket {
        listener,
        place: Some(SocketFile {
            path: path.to_path_buf(),
            inode,
            _lock: lock,
        }),
    })
}

impl SocketFile {
    /// Removes the socket file, if it is still the one that we made.
    pub fn remove(self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|it| it.ino() == self.inode);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "remove the socket");
        }
    }
}

/// One daemon at a time may look at the socket file and replace it.
fn lock(socket: &Path) -> Result<File, SocketError> {
    let path = socket.with_file_name(LOCK_NAME);
    let shown = || path.display().to_string();
    let nofollow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nofollow)
        .open(&path)
        .map_err(|source| SocketError::Io {
            action: "open the lock",
            path: shown(),
            source,
        })?;
    match file_lock::take(&mut file) {
        Ok(()) => {}
        Err(LockError::Held(pid)) => {
            let path = socket.display().to_string();
            return Err(SocketError::Taken { path, pid });
        }
        Err(LockError::Io(source)) => {
            return Err(SocketError::Io {
                action: "lock",
                path: shown(),
                source,
            });
        }
    }
    // The process id is for people; the lock itself is what counts.
    let _best_effort = file_lock::sign(&mut file);
    Ok(file)
}

/// Removes a socket that nobody serves. Whoever holds the lock is the only one to serve, but a child that a killed daemon
/// was starting may listen for a moment longer.
fn clear(path: &Path) -> Result<(), SocketError> {
    let began = Instant::now();
    loop {
        match clear_once(path) {
            Err(SocketError::Taken { .. }) if began.elapsed() < LISTENS_ON => {
                thread::sleep(LOOK_AGAIN);
            }
            cleared => return cleared,
        }
    }
}

fn clear_once(path: &Path) -> Result<(), SocketError> {
    let shown = || path.display().to_string();
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => {
            return Err(SocketError::Io {
                action: "look at",
                path: shown(),
                source,
            });
        }
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::NoSocket { path: shown() });
    }
    match UnixStream::connect(path) {
        Ok(_somebody) => Err(SocketError::Taken {
            path: shown(),
            pid: None,
        }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)
            .map_err(|source| SocketError::Io {
                action: "remove the dead socket",
                path: shown(),
                source,
            }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(SocketError::Io {
            action: "try the socket",
            path: shown(),
            source,
        }),
    }
}
