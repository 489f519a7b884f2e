//! The files that a project's people have written for models, and whether the person trusts them. They are instructions
//! from whoever wrote the directory, so one that is not trusted exactly as it is stays where it is.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use aishd_log::shown_name::shown_path;
use aishd_model::trusted_instructions::TrustedInstructions;
use aishd_turn::project::instructions::{InstructionText, NAMES};
use rustix::fs::{Mode, OFlags, open};
use sha2::{Digest as _, Sha256};

use super::file_stamp::StampSet;

/// A longer one is not read; a model is shown less anyway.
const MOST_BYTES: u64 = 256 << 10;
/// No directory is deeper than that on purpose.
const MOST_ANCESTORS: usize = 64;

/// Why a file is not what it could be.
#[derive(Debug, thiserror::Error)]
pub enum InstructionFault {
    #[error("it is larger than {MOST_BYTES} bytes")]
    Long,
    #[error("it is no UTF-8")]
    NoText,
    #[error("it is a link that leads out of the project")]
    Outside,
    #[error("it is no ordinary file")]
    NoFile,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// One that models are not told.
#[derive(Debug)]
pub(super) struct OmittedFile {
    root: PathBuf,
    file: PathBuf,
    why: OmitReason,
}

#[derive(Debug)]
enum OmitReason {
    Unknown,
    /// It was trusted with another text.
    Changed,
    Unreadable(InstructionFault),
}

/// Files of instructions at the root of the project that a directory is in, each with its text.
pub fn find(directory: &Path) -> Vec<(PathBuf, Result<String, InstructionFault>)> {
    let root = root(directory);
    let files = NAMES.map(|it| root.join(it)).into_iter();
    let there = files.filter(|it| fs::symlink_metadata(it).is_ok());
    there.map(|it| (it.clone(), read(&root, &it))).collect()
}

/// The text of a file of instructions, which stands at the root of its project.
pub fn text(file: &Path) -> Result<String, InstructionFault> {
    read(file.parent().unwrap_or(file), file)
}

/// The trusted ones, and what is not told.
pub(super) fn trusted(
    directory: &Path,
    trusted: &TrustedInstructions,
    stamps: &mut StampSet,
) -> (Vec<InstructionText>, Vec<OmittedFile>) {
    let root = root(directory);
    NAMES.iter().for_each(|it| stamps.note(&root.join(it)));
    let (mut told, mut left) = (vec![], vec![]);
    for (file, text) in find(directory) {
        let known = trusted.digest(&file);
        let why = match text {
            Ok(text) if known == Some(&digest(&text)) => {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                told.push(InstructionText {
                    name: name.into_owned(),
                    text,
                });
                continue;
            }
            Ok(_) if known.is_some() => OmitReason::Changed,
            Ok(_) => OmitReason::Unknown,
            Err(error) => OmitReason::Unreadable(error),
        };
        left.push(OmittedFile {
            root: root.clone(),
            file,
            why,
        });
    }
    (told, left)
}

impl OmittedFile {
    /// One line for a person.
    pub(super) fn remark(&self) -> String {
        let file = shown_path(&self.file.to_string_lossy());
        let what = match &self.why {
            OmitReason::Unknown => "is not trusted".to_owned(),
            OmitReason::Changed => "has changed since you trusted it".to_owned(),
            OmitReason::Unreadable(error) => return format!("models are not told {file}: {error}"),
        };
        let root = self.root.to_str();
        let command = root.and_then(|it| shlex::try_quote(it).ok()).map(|it| {
            let root = shown_path(&it);
            format!("; to have models follow it as it is now: aishctl config trust {root}")
        });
        format!(
            "{file} {what}, and models are not told it{}",
            command.unwrap_or_default()
        )
    }
}

/// The nearest directory that has `.git` or `.aish`, below the home directory if it is there; else the directory itself.
fn root(directory: &Path) -> PathBuf {
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
    let home = directories::BaseDirs::new();
    let home = home.and_then(|it| fs::canonicalize(it.home_dir()).ok());
    let above = directory.ancestors().take(MOST_ANCESTORS);
    let mut below_home =
        above.take_while(|it| home.as_ref().is_none_or(|home| !home.starts_with(it)));
    let marked = below_home.find(|it| it.join(".git").exists() || it.join(".aish").exists());
    marked.unwrap_or(&directory).to_path_buf()
}

/// The text of one. Nothing waits for whoever holds the other end of a pipe.
fn read(root: &Path, file: &Path) -> Result<String, InstructionFault> {
    let place = fs::canonicalize(file)?;
    if !place.starts_with(root) {
        return Err(InstructionFault::Outside);
    }
    let flags =
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let opened = open(&place, flags, Mode::empty()).map_err(io::Error::from)?;
    let opened = File::from(opened);
    if !opened.metadata()?.is_file() {
        return Err(InstructionFault::NoFile);
    }
    let mut bytes = vec![];
    opened.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(InstructionFault::Long);
    }
    String::from_utf8(bytes).map_err(|_| InstructionFault::NoText)
}

/// SHA-256 in hexadecimal.
pub(super) fn digest(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().map(|it| format!("{it:02x}")).collect()
}
