//! Which files of projects the user trusts: by absolute path and SHA-256, in a private file of the state directory. A
//! changed file is another file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use aishd_platform::private_file;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The form of the file.
const FORM: u32 = 1;
/// More than anybody can have decided.
const MOST_BYTES: u64 = 4 << 20;

/// What is trusted, as it was when it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedFiles {
    /// By the path of the file.
    pub files: BTreeMap<PathBuf, FileDigest>,
}

/// SHA-256 in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDigest(String);

/// What the user has said about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustStatus {
    Trusted,
    /// It was trusted with another content.
    Changed,
    Unknown,
}

#[derive(Serialize, Deserialize)]
struct StoredTrust {
    form: u32,
    files: BTreeMap<String, FileDigest>,
}

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("{action} {path}")]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is open to others, or not yours: chmod 600 {path}")]
    Open { path: PathBuf },
    #[error("{path} is damaged; remove it to trust nothing again")]
    Damaged { path: PathBuf },
    #[error("the path {path:?} is no UTF-8")]
    NoText { path: PathBuf },
}

impl FileDigest {
    pub fn of(text: &str) -> Self {
        let hash = Sha256::digest(text.as_bytes());
        Self(hash.iter().map(|it| format!("{it:02x}")).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The directory that has nothing but the file, so that one can watch it.
pub fn directory(state: &Path) -> PathBuf {
    state.join("trust")
}

/// The file itself.
pub fn place(state: &Path) -> PathBuf {
    directory(state).join("projects.json")
}

impl TrustedFiles {
    /// None there means that nothing is trusted.
    pub fn read(state: &Path) -> Result<Self, TrustError> {
        let path = place(state);
        let fail = |action, source| TrustError::Io {
            action,
            path: path.clone(),
            source,
        };
        let opened = match File::open(&path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(fail("open", error)),
        };
        let about = opened.metadata().map_err(|it| fail("look at", it))?;
        let ours = about.uid() == rustix::process::geteuid().as_raw();
        if !ours || about.mode() & 0o077 != 0 {
            return Err(TrustError::Open { path });
        }
        let limited = io::Read::take(opened, MOST_BYTES);
        let stored: StoredTrust = serde_json::from_reader(io::BufReader::new(limited))
            .map_err(|_| TrustError::Damaged { path: path.clone() })?;
        if stored.form != FORM {
            return Err(TrustError::Damaged { path });
        }
        let files = stored.files.into_iter();
        Ok(Self {
            files: files.map(|(path, hash)| (path.into(), hash)).collect(),
        })
    }

    pub fn status_of(&self, path: &Path, text: &str) -> TrustStatus {
        match self.files.get(path) {
            Some(digest) if *digest == FileDigest::of(text) => TrustStatus::Trusted,
            Some(_) => TrustStatus::Changed,
            None => TrustStatus::Unknown,
        }
    }

    fn write(&self, state: &Path) -> Result<(), TrustError> {
        let mut files = BTreeMap::new();
        for (path, digest) in &self.files {
            let Some(text) = path.to_str() else {
                return Err(TrustError::NoText { path: path.clone() });
            };
            files.insert(text.to_owned(), digest.clone());
        }
        let path = place(state);
        let text = serde_json::to_string_pretty(&StoredTrust { form: FORM, files });
        let text = text.map_err(|_| TrustError::Damaged { path: path.clone() })?;
        private_file::replace(&path, text.as_bytes()).map_err(|source| TrustError::Io {
            action: "write",
            path,
            source,
        })
    }
}

/// Changes what is trusted; two at the same moment do not lose each other's word.
pub fn change(state: &Path, change: impl FnOnce(&mut TrustedFiles)) -> Result<(), TrustError> {
    let directory = directory(state);
    let fail = |action, source| TrustError::Io {
        action,
        path: directory.clone(),
        source,
    };
    let mut builder = fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(&directory);
    made.map_err(|it| fail("make", it))?;
    let _alone = alone_in(&directory).map_err(|it| fail("lock", it))?;
    let mut trust = TrustedFiles::read(state)?;
    change(&mut trust);
    trust.write(state)
}

/// Waits until nobody else changes files of this directory. Dropped, it lets the next one.
pub fn alone_in(directory: &Path) -> io::Result<File> {
    let lock = File::open(directory)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_changed_file_is_another_file() {
        let world = tempfile::tempdir().unwrap();
        let path = Path::new("/p/.aish/config.toml");
        let standing = |text: &str| {
            TrustedFiles::read(world.path())
                .unwrap()
                .status_of(path, text)
        };
        assert_eq!(TrustStatus::Unknown, standing("a"));
        let trust = |text: &str| {
            let digest = FileDigest::of(text);
            change(world.path(), |it| {
                drop(it.files.insert(path.into(), digest));
            })
            .unwrap();
        };
        trust("a");
        assert_eq!(TrustStatus::Trusted, standing("a"));
        assert_eq!(TrustStatus::Changed, standing("a "));
        trust("a ");
        assert_eq!(TrustStatus::Trusted, standing("a "));
        change(world.path(), |it| drop(it.files.remove(path))).unwrap();
        assert_eq!(TrustStatus::Unknown, standing("a "));
        let mode = |it: &Path| fs::metadata(it).unwrap().mode() & 0o777;
        assert_eq!(0o600, mode(&place(world.path())));
        assert_eq!(0o700, mode(&directory(world.path())));
        assert_eq!(1, fs::read_dir(directory(world.path())).unwrap().count());
    }

    #[test]
    fn what_others_could_have_written_is_no_word_of_the_user() {
        let world = tempfile::tempdir().unwrap();
        change(world.path(), |_| ()).unwrap();
        let path = place(world.path());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(matches!(
            TrustedFiles::read(world.path()),
            Err(TrustError::Open { .. })
        ));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "{}").unwrap();
        assert!(matches!(
            TrustedFiles::read(world.path()),
            Err(TrustError::Damaged { .. })
        ));
        assert!(
            change(world.path(), |_| ()).is_err(),
            "and it is not overwritten"
        );
    }

    #[test]
    fn ten_at_once_lose_nothing() {
        let world = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for n in 0..10 {
                let state = world.path();
                scope.spawn(move || {
                    let path = PathBuf::from(format!("/{n}"));
                    change(state, |it| drop(it.files.insert(path, FileDigest::of("x")))).unwrap();
                });
            }
        });
        assert_eq!(10, TrustedFiles::read(world.path()).unwrap().files.len());
    }
}
