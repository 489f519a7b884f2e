//! Where sign-ins lie: a file for each, readable by nobody else, and whole or not there.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use aishd_platform::private_file;
use rustix::fs::OFlags;

use crate::record::{SignInRecord, VERSION};
use crate::secret::{base64url, sha256};

const MAX_BYTES: u64 = 1 << 20;
/// What others could do with it.
const OTHERS: u32 = 0o077;

#[derive(Clone, Debug)]
pub(crate) struct RecordStore {
    directory: PathBuf,
}

/// A sign-in cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreFault {
    #[error("{path}: {error}", path = .path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{path} can be read by others; chmod 600 it, and sign in again if somebody may have", path = .0.display())]
    Open(PathBuf),
    #[error("{path} is no record of a sign-in; take it away and sign in again", path = .0.display())]
    Unreadable(PathBuf),
    #[error("{path} is from a newer aishd", path = .0.display())]
    Newer(PathBuf),
}

impl RecordStore {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn file(&self, server: &str, account: &str) -> PathBuf {
        let name = base64url(&sha256(format!("{server}\n{account}").as_bytes()));
        self.directory.join(format!("{name}.json"))
    }

    /// The record of a server and an account; none is none.
    pub(crate) fn load(
        &self,
        server: &str,
        account: &str,
    ) -> Result<Option<SignInRecord>, StoreFault> {
        let path = self.file(server, account);
        let failed = |error| StoreFault::Io {
            path: path.clone(),
            error,
        };
        let flags = OFlags::NOFOLLOW.bits();
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags.cast_signed())
            .open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let about = file.metadata().map_err(failed)?;
        if about.mode() & OTHERS != 0 || about.uid() != rustix::process::geteuid().as_raw() {
            return Err(StoreFault::Open(path));
        }
        let mut text = String::new();
        let read = file.take(MAX_BYTES).read_to_string(&mut text);
        read.map_err(failed)?;
        let record: Result<SignInRecord, _> = serde_json::from_str(&text);
        match record {
            Ok(record) if record.version > VERSION => Err(StoreFault::Newer(path)),
            Ok(record) if record.server == server && record.account == account => Ok(Some(record)),
            Ok(_) | Err(_) => Err(StoreFault::Unreadable(path)),
        }
    }

    /// It is on disk when this returns; a crash before leaves what was there.
    pub(crate) fn save(&self, record: &SignInRecord) -> Result<(), StoreFault> {
        let path = self.file(&record.server, &record.account);
        self.write(&path, record).map_err(|error| StoreFault::Io {
            path: path.clone(),
            error,
        })
    }

    fn write(&self, path: &Path, record: &SignInRecord) -> io::Result<()> {
        let mut making = fs::DirBuilder::new();
        making.recursive(true).mode(0o700).create(&self.directory)?;
        let text = serde_json::to_vec_pretty(record)?;
        private_file::replace(path, &text)
    }

    pub(crate) fn remove(&self, record: &SignInRecord) -> Result<(), StoreFault> {
        self.remove_of(&record.server, &record.account)
    }

    /// Whatever lies there of a server and an account.
    pub(crate) fn remove_of(&self, server: &str, account: &str) -> Result<(), StoreFault> {
        let path = self.file(server, account);
        match fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StoreFault::Io { path, error }),
        }
    }

    /// Takes away what a crash left half written: nobody else writes here.
    pub(crate) fn tidy(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return;
        };
        for entry in entries.flatten() {
            if entry
                .path()
                .extension()
                .is_some_and(|it| it == private_file::UNFINISHED)
            {
                drop(fs::remove_file(entry.path()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    fn record() -> SignInRecord {
        serde_json::from_value(json!({
            "version": 1, "server": "https://a.example/mcp", "account": "", "resource": "https://a.example",
            "issuer": "https://as.example", "tokenEndpoint": "https://as.example/token",
            "client": {"id": "c", "method": "none", "source": "registered"},
            "tokens": {"access": "hush", "kind": "bearer", "scopes": [], "obtainedAt": 1},
            "fromTheFuture": {"x": 1},
        }))
        .unwrap()
    }

    #[test]
    fn a_record_is_kept_for_us_alone_and_whole() {
        let place = tempfile::tempdir().unwrap();
        let store = RecordStore::new(place.path().join("oauth"));
        let record = record();
        let load = || store.load(&record.server, "");
        assert_eq!(None, load().unwrap());
        store.save(&record).unwrap();
        store.save(&record).unwrap();
        assert_eq!(Some(&record), load().unwrap().as_ref());
        assert_eq!(None, store.load(&record.server, "work").unwrap());
        let path = store.file(&record.server, "");
        let mode = |it: &Path| fs::metadata(it).unwrap().mode() & 0o777;
        assert_eq!((0o600, 0o700), (mode(&path), mode(&store.directory)));
        assert_eq!(1, fs::read_dir(&store.directory).unwrap().count());
        assert!(!format!("{record:?}").contains("hush"));
        store.remove(&record).unwrap();
        store.remove(&record).unwrap();
        assert_eq!(None, load().unwrap());
    }

    #[test]
    fn what_others_may_have_read_or_written_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let store = RecordStore::new(place.path().join("oauth"));
        let record = record();
        store.save(&record).unwrap();
        let path = store.file(&record.server, "");
        let check = |expected: &str| {
            let error = store.load(&record.server, "").unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        check("can be read by others");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "{").unwrap();
        check("no record");
        let newer = SignInRecord {
            version: 9,
            ..record.clone()
        };
        fs::write(&path, serde_json::to_vec(&newer).unwrap()).unwrap();
        check("newer");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        check("oauth/");
        fs::write(store.directory.join("x.new"), "half").unwrap();
        store.tidy();
        assert!(!store.directory.join("x.new").exists());
    }
}
