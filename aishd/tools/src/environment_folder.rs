//! What commands of conversations have exported, in files that only their owner can read: values may be secrets, so they are beside
//! the store and not in it, and in no copy of it.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aish_proto::id::ConversationId;
use aishd_log::lasting_environment::{LastingEnvironment, MAX_LASTING_BYTES};
use aishd_platform::private_file;

/// As JSON at most six bytes for one of a value.
const MAX_FILE_BYTES: u64 = 8 * MAX_LASTING_BYTES as u64;

/// A folder with a file for each conversation that has such variables; cheap to clone.
#[derive(Clone, Debug)]
pub struct EnvironmentFolder(Arc<PathBuf>);

impl EnvironmentFolder {
    /// It is made where it is missing.
    pub fn open(directory: &Path) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        Ok(Self(Arc::new(directory.to_owned())))
    }

    /// What a conversation has; what cannot be read is as if it were not there.
    pub fn read(&self, conversation: ConversationId) -> LastingEnvironment {
        let read = || -> io::Result<LastingEnvironment> {
            let mut text = vec![];
            let file = File::open(self.path(conversation))?;
            file.take(MAX_FILE_BYTES).read_to_end(&mut text)?;
            Ok(serde_json::from_slice(&text)?)
        };
        read().unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(%conversation, %error, "exported variables cannot be read, and are gone");
            }
            LastingEnvironment::default()
        })
    }

    /// Puts them in the place of what was there: after a kill there is the one or the other.
    pub fn write(
        &self,
        conversation: ConversationId,
        lasting: &LastingEnvironment,
    ) -> io::Result<()> {
        if lasting.is_empty() {
            return self.forget(conversation);
        }
        let text = serde_json::to_vec(lasting)?;
        private_file::replace(&self.path(conversation), &text)
    }

    pub fn forget(&self, conversation: ConversationId) -> io::Result<()> {
        match fs::remove_file(self.path(conversation)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes what belongs to no conversation that there is.
    pub fn keep_only(&self, is_there: impl Fn(ConversationId) -> bool) -> io::Result<()> {
        for entry in fs::read_dir(&*self.0)? {
            let name = entry?.file_name();
            let id = name.to_str().and_then(|it| it.strip_suffix(".json"));
            let id = id.and_then(|it| it.parse::<ConversationId>().ok());
            if !id.is_some_and(&is_there) {
                fs::remove_file(self.0.join(name))?;
            }
        }
        Ok(())
    }

    fn path(&self, conversation: ConversationId) -> PathBuf {
        self.0.join(format!("{conversation}.json"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;

    use aishd_log::lasting_environment::EnvironmentChange;

    use super::*;

    #[test]
    fn what_is_written_is_read_again_by_its_owner_alone_until_it_is_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let folder = EnvironmentFolder::open(&place.path().join("environments")).unwrap();
        let [one, other] = [1, 2].map(|it| ConversationId::from_bytes([it; 16]));
        let set = BTreeMap::from([("X".to_owned(), "1\n\"".to_owned())]);
        let change = EnvironmentChange {
            set,
            ..EnvironmentChange::default()
        };
        let lasting = LastingEnvironment::default().followed_by(change).unwrap();
        for it in [one, other] {
            folder.write(it, &lasting).unwrap();
        }
        assert_eq!(lasting, folder.read(one));
        let mode = fs::metadata(folder.path(one)).unwrap().permissions().mode();
        assert_eq!(0o600, mode & 0o777);
        folder.keep_only(|it| it == other).unwrap();
        assert!(folder.read(one).is_empty() && !folder.read(other).is_empty());
        folder.write(other, &LastingEnvironment::default()).unwrap();
        assert!(!folder.path(other).exists());
        fs::write(folder.path(one), "{").unwrap();
        assert!(folder.read(one).is_empty());
    }
}
