//! Prompts that people keep: one file of text each, `prompts/NAME.md` beside the user's settings, to be
//! edited by hand as well. What others could have written is not read.

use std::path::{Path, PathBuf};
use std::{fs, io};

use aishd_platform::private_file;
use aishd_turn::saved_prompt::PromptName;

use super::file::{self, FileNeed};
use super::live::LiveConfig;
use super::source::ConfigOrigin;
use super::{paths, trust};

/// More than anybody keeps.
const MOST_PROMPTS: usize = 1000;
/// A longer one is no template.
pub const MOST_BYTES: usize = 256 << 10;

/// Where they are. Everything blocks on files.
#[derive(Clone, Debug)]
pub struct PromptFiles {
    folder: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum PromptsError {
    #[error("there is no directory of prompts, because there is no home")]
    Homeless,
    #[error("there is no prompt {0}")]
    Unknown(PromptName),
    #[error("there is a prompt {0} already")]
    Taken(PromptName),
    #[error("a prompt is 1 to {MOST_BYTES} bytes long, and this one has {0}")]
    Length(usize),
    /// A file that is not read, with its place and the reason.
    #[error("{0}")]
    Refused(String),
    #[error("{path}: {source}")]
    Io {
        path: String,
        #[source]
        source: io::Error,
    },
}

impl PromptFiles {
    pub fn of(live: &LiveConfig) -> Result<Self, PromptsError> {
        let home = live.file().and_then(Path::parent);
        let folder = home.ok_or(PromptsError::Homeless)?.join("prompts");
        Ok(Self { folder })
    }

    fn file(&self, name: &PromptName) -> PathBuf {
        self.folder.join(format!("{name}.md"))
    }

    /// The names in their order. Files of other names are none of ours.
    pub fn names(&self) -> Result<Vec<PromptName>, PromptsError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(source) => {
                let path = self.folder.display().to_string();
                return Err(PromptsError::Io { path, source });
            }
        };
        let name = |it: fs::DirEntry| it.file_name().to_str()?.strip_suffix(".md")?.parse().ok();
        let mut names: Vec<PromptName> = entries.flatten().filter_map(name).collect();
        names.sort();
        names.truncate(MOST_PROMPTS);
        Ok(names)
    }

    pub fn read(&self, name: &PromptName) -> Result<String, PromptsError> {
        let path = self.file(name);
        let read = file::read(ConfigOrigin::File(path.clone()), &path, FileNeed::Optional);
        let source = read.map_err(|fault| PromptsError::Refused(fault.line()))?;
        let source = source.ok_or_else(|| PromptsError::Unknown(name.clone()))?;
        measured(source.text())?;
        Ok(source.text().to_owned())
    }

    /// Keeps it; in place of the one that is there only if that is wanted. It is on disk when this returns.
    pub fn save(
        &self,
        name: &PromptName,
        text: &str,
        replace: bool,
    ) -> Result<PathBuf, PromptsError> {
        measured(text)?;
        let path = self.file(name);
        let fail = |source| PromptsError::Io {
            path: path.display().to_string(),
            source,
        };
        paths::private_parent(&self.folder).map_err(fail)?;
        let _alone = trust::alone_in(&self.folder).map_err(fail)?;
        if !replace && path.symlink_metadata().is_ok() {
            return Err(PromptsError::Taken(name.clone()));
        }
        private_file::replace(&path, text.as_bytes()).map_err(fail)?;
        Ok(path)
    }

    pub fn remove(&self, name: &PromptName) -> Result<PathBuf, PromptsError> {
        let path = self.file(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(PromptsError::Unknown(name.clone()))
            }
            Err(source) => Err(PromptsError::Io {
                path: path.display().to_string(),
                source,
            }),
        }
    }
}

fn measured(text: &str) -> Result<(), PromptsError> {
    if text.trim().is_empty() || text.len() > MOST_BYTES {
        return Err(PromptsError::Length(text.len()));
    }
    Ok(())
}
