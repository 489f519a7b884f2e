//! Copies of the journal in another directory. The journal alone is copied: the index is made of it (`restore`).
//!
//! Whoever copies needs nobody's leave and holds nobody up. Closed segments never change under their name, but for compaction,
//! which puts another file there: the files are opened first, and when the list of segments is the same before and after that,
//! what is open is the journal as it was at one moment. Up to the last whole commit of its last segment it is a prefix of the
//! history.
//!
//! Each file of a backup is named after what is in it, and a manifest says which belong to it. It is exchanged in one step when
//! everything is there, so that a backup which is cut off leaves the one before.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use aishd_log::time::Timestamp;
use aishd_log::tool::ContentDigest;
use aishd_platform::file_lock::{self, LockError};
use aishd_platform::{clock, failpoint};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::line::{self, FORMAT};
use super::segment::{self, JournalSegment};
use super::{OpenError, disk};

const MANIFEST: &str = "backup.json";
pub(super) const SEGMENTS: &str = "journal";
const LOCK: &str = "lock";
const DRAFT: &str = "backup.json.part";
/// A file that is there already is read again about every so many backups.
const READ_AGAIN: u64 = 8;
/// Segments that change while they are opened are opened again, so often.
const ATTEMPTS: usize = 100;
const CHUNK: usize = 256 * 1024;

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreBackup {
    pub at: Timestamp,
    pub files: u64,
    pub bytes: u64,
    /// Of these were copied this time.
    pub copied_bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{path}")]
    Io {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("{0} holds no store")]
    NoStore(String),
    #[error("{0} has other files in it: name a directory that is empty, or an earlier backup")]
    NotEmpty(String),
    #[error("another backup is being made in {0}")]
    Busy(String),
    #[error("{0} is no backup: it has no {MANIFEST}")]
    NoBackup(String),
    #[error("{0} is a symbolic link, and none is followed to a backup or within one")]
    Link(String),
    #[error("the backup {path} is damaged: {what}")]
    Damaged { path: String, what: String },
    #[error("the backup has format {found}, and this program knows formats up to {known}")]
    Newer { found: u32, known: u32 },
    #[error("there is a store in {0} already")]
    HasStore(String),
    #[error("the journal changed {ATTEMPTS} times while it was opened")]
    Restless,
    #[error(transparent)]
    Open(#[from] OpenError),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BackupManifest {
    /// The form of this file.
    pub(super) v: u32,
    /// The newest format of its segments.
    pub(super) format: u32,
    pub(super) at: Timestamp,
    /// How many were made here before.
    #[serde(default)]
    pub(super) number: u64,
    pub(super) segments: Vec<BackupFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BackupFile {
    /// As the segment is called in a store.
    pub(super) name: String,
    /// As it is called here.
    pub(super) file: String,
    pub(super) bytes: u64,
    pub(super) sha256: ContentDigest,
}

impl BackupManifest {
    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|it| it.bytes).sum()
    }
}

pub(super) fn at_path(path: &Path) -> impl FnOnce(io::Error) -> BackupError + use<> {
    let path = path.display().to_string();
    move |source| BackupError::Io { path, source }
}

/// Brings the backup in `target` up to the store in `dir`, which may be in use; the directory is made where it is not there.
/// Files that it has already are not copied again. Blocks.
pub fn back_up(
    dir: &Path,
    target: &Path,
    progress: &dyn Fn(u64, u64),
) -> Result<StoreBackup, BackupError> {
    let journal = dir.join("journal");
    let opened = open_all(&journal)?;
    if opened.is_empty() {
        return Err(BackupError::NoStore(dir.display().to_string()));
    }
    let mut backup = BackupDirectory::take(target)?;
    let at = clock::now();
    let last = opened.len() - 1;
    let lengths = opened
        .iter()
        .map(|it| it.file.metadata().map_or(0, |it| it.len()));
    let total: u64 = lengths.sum();
    let (mut segments, mut done, mut copied_bytes) = (vec![], 0, 0);
    for (number, segment) in opened.iter().enumerate() {
        let bytes = if number == last {
            segment.whole_commits()
        } else {
            segment.file.metadata().map(|it| it.len())
        };
        let bytes = bytes.map_err(at_path(&segment.path))?;
        let (file, is_new) = backup.keep(segment, bytes)?;
        if is_new {
            copied_bytes += bytes;
        }
        done += bytes;
        progress(done, total);
        segments.push(file);
        failpoint::pass("backup.mid");
    }
    let bytes = segments.iter().map(|it| it.bytes).sum();
    let files = segments.len() as u64;
    backup.finish(at, segments)?;
    Ok(StoreBackup {
        at,
        files,
        bytes,
        copied_bytes,
    })
}

/// A segment as it was when all were opened.
struct OpenedSegment {
    path: PathBuf,
    file: File,
}

/// All segments at one moment.
fn open_all(journal: &Path) -> Result<Vec<OpenedSegment>, BackupError> {
    let list = || segment::list(journal).map_err(at_path(journal));
    let what = |it: &JournalSegment| (it.first, it.header.clone());
    let mut before = list()?;
    for _ in 0..ATTEMPTS {
        // `None` where one is gone since.
        let opened = before.iter().map(OpenedSegment::open);
        let opened = opened.collect::<Result<Option<Vec<_>>, _>>()?;
        let after = list()?;
        match opened {
            // One that was begun meanwhile is not in it.
            Some(opened)
                if after
                    .iter()
                    .take(before.len())
                    .map(what)
                    .eq(before.iter().map(what)) =>
            {
                return Ok(opened);
            }
            Some(_) | None => before = after,
        }
    }
    Err(BackupError::Restless)
}

impl OpenedSegment {
    fn open(segment: &JournalSegment) -> Result<Option<Self>, BackupError> {
        let opened = open_part(&segment.path)?.map(|file| Self {
            path: segment.path.clone(),
            file,
        });
        Ok(opened)
    }

    /// Up to where it has whole commits, which are durable then.
    fn whole_commits(&self) -> io::Result<u64> {
        let mut bytes = vec![];
        (&self.file).seek(SeekFrom::Start(0))?;
        (&self.file).read_to_end(&mut bytes)?;
        self.file.sync_data()?;
        let (mut at, mut whole) = (0, 0);
        while at < bytes.len() {
            let Some((rec, length)) = line::check(&bytes[at..]) else {
                let next = line::next_readable(&bytes, at);
                if next == bytes.len() {
                    break;
                }
                // What is damaged is kept as it is.
                at = next;
                continue;
            };
            at += length;
            let place = line::parse(rec).ok().map(|it| it.place());
            if place.is_some_and(|it| it.is_none_or(|it| it.last)) {
                whole = at;
            }
        }
        Ok(whole as u64)
    }

    /// The name of what is in its first `bytes` bytes.
    fn name(&self, bytes: u64) -> io::Result<String> {
        let mut header = vec![0; 4096];
        (&self.file).seek(SeekFrom::Start(0))?;
        let length = (&self.file).read(&mut header)?;
        let header = &header[..length];
        let line = line::check(header).map_or(header.len(), |(_, length)| length);
        let sum = crc32c::crc32c(&header[..line]);
        let stem = self.path.file_stem().unwrap_or_default().display();
        Ok(format!("{stem}-{sum:08x}-{bytes}.jsonl"))
    }
}

/// Whether a directory without a manifest has nothing but what a backup that was cut off leaves.
fn has_only_ours(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().display().to_string();
        let is_directory = entry.file_type()?.is_dir();
        let is_known = match name.as_str() {
            LOCK | DRAFT => !is_directory,
            SEGMENTS if is_directory => {
                let mut files = fs::read_dir(entry.path())?;
                files.all(|it| it.is_ok_and(|it| is_ours(&it.file_name().display().to_string())))
            }
            _ => false,
        };
        if !is_known {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a file is called as those of backups are, whole or not: `00000000000000000001-0a1b2c3d-4711.jsonl`.
pub(super) fn is_ours(name: &str) -> bool {
    let stem = name
        .strip_suffix(".jsonl")
        .or_else(|| name.strip_suffix(".part"));
    let mut parts = stem.unwrap_or_default().split('-');
    let is_number = |it: Option<&str>| {
        it.is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()))
    };
    let first = parts.next();
    let sum = parts.next();
    is_number(first)
        && first.is_some_and(|it| it.len() == 20)
        && sum.is_some_and(|it| it.len() == 8 && it.bytes().all(|it| it.is_ascii_hexdigit()))
        && is_number(parts.next())
        && parts.next().is_none()
}

/// A directory that holds a backup, or will.
struct BackupDirectory {
    path: PathBuf,
    /// What it has from earlier.
    known: Vec<BackupFile>,
    /// Backups that were made here before.
    number: u64,
    _lock: File,
}

impl BackupDirectory {
    fn take(path: &Path) -> Result<Self, BackupError> {
        let (lock_path, segments) = (path.join(LOCK), path.join(SEGMENTS));
        for part in [path, &lock_path, &segments] {
            refuse_link(part)?;
        }
        disk::make_dir(path).map_err(at_path(path))?;
        let (number, known) = match read_manifest(path) {
            Ok(manifest) => (manifest.number + 1, manifest.segments),
            Err(BackupError::NoBackup(_)) => {
                if !has_only_ours(path).map_err(at_path(path))? {
                    return Err(BackupError::NotEmpty(path.display().to_string()));
                }
                (0, vec![])
            }
            Err(error) => return Err(error),
        };
        let mut lock = disk::open_lock(&lock_path).map_err(at_path(&lock_path))?;
        match file_lock::take(&mut lock) {
            Ok(()) => file_lock::sign(&mut lock).map_err(at_path(&lock_path))?,
            Err(LockError::Held(_)) => return Err(BackupError::Busy(path.display().to_string())),
            Err(LockError::Io(source)) => return Err(at_path(&lock_path)(source)),
        }
        disk::make_dir(&segments).map_err(at_path(&segments))?;
        Ok(Self {
            path: path.to_owned(),
            known,
            number,
            _lock: lock,
        })
    }

    /// Sees to it that the first `bytes` bytes of a segment are here. Returns whether they had to be copied.
    fn keep(
        &mut self,
        segment: &OpenedSegment,
        bytes: u64,
    ) -> Result<(BackupFile, bool), BackupError> {
        let file = segment.name(bytes).map_err(at_path(&segment.path))?;
        let target = self.path.join(SEGMENTS).join(&file);
        // A link there is none of ours, and is replaced.
        let has = fs::symlink_metadata(&target).is_ok_and(|it| it.is_file() && it.len() == bytes);
        let known = self.known.iter().find(|it| it.file == file);
        if let Some(known) = known.filter(|_| has)
            && (!self.is_read_again(&file) || digest_of(&target, bytes)? == Some(known.sha256))
        {
            return Ok((known.clone(), false));
        }
        let copied = copy(&segment.file, &target, bytes).map_err(at_path(&target))?;
        let name = segment.path.file_name().unwrap_or_default();
        let kept = BackupFile {
            name: name.display().to_string(),
            file,
            bytes,
            sha256: copied,
        };
        Ok((kept, true))
    }

    /// Files rot there as elsewhere, and as long as the store has what is in them they can be copied again.
    fn is_read_again(&self, file: &str) -> bool {
        let number = u64::from(crc32c::crc32c(file.as_bytes())).wrapping_add(self.number);
        number.is_multiple_of(READ_AGAIN)
    }

    /// From now on this is the backup; files of the one before that are not in it go.
    fn finish(self, at: Timestamp, segments: Vec<BackupFile>) -> Result<(), BackupError> {
        let directory = self.path.join(SEGMENTS);
        disk::sync_dir(&directory).map_err(at_path(&directory))?;
        let listed: HashSet<String> = segments.iter().map(|it| it.file.clone()).collect();
        let manifest = BackupManifest {
            v: 1,
            format: FORMAT,
            at,
            number: self.number,
            segments,
        };
        let path = self.path.join(MANIFEST);
        let draft = self.path.join(DRAFT);
        let text = serde_json::to_vec_pretty(&manifest).map_err(|it| at_path(&path)(it.into()))?;
        let _left_over = fs::remove_file(&draft);
        let written = disk::create_new(&draft).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        failpoint::pass("backup.copied");
        written
            .and_then(|()| disk::rename(&draft, &path))
            .map_err(at_path(&path))?;
        let removed = fs::read_dir(&directory).and_then(|entries| {
            for entry in entries {
                let entry = entry?;
                let name = entry.file_name().display().to_string();
                if is_ours(&name) && !listed.contains(&name) {
                    fs::remove_file(entry.path())?;
                }
            }
            disk::sync_dir(&directory)
        });
        removed.map_err(at_path(&directory))
    }
}

/// Also where the path ends with a slash, which leads through a link as a rule.
pub(super) fn refuse_link(path: &Path) -> Result<(), BackupError> {
    let path = path.components().as_path();
    if fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink()) {
        return Err(BackupError::Link(path.display().to_string()));
    }
    Ok(())
}

/// A file that is one, and no way to another. `None`: it is not there.
pub(super) fn open_part(path: &Path) -> Result<Option<File>, BackupError> {
    refuse_link(path)?;
    let flags = disk::no_follow() | disk::no_waiting();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at_path(path)(error)),
    };
    let is_file = file.metadata().map_err(at_path(path))?.is_file();
    if !is_file {
        return Err(at_path(path)(io::Error::other("it is no regular file")));
    }
    Ok(Some(file))
}

fn digest_of(path: &Path, bytes: u64) -> Result<Option<ContentDigest>, BackupError> {
    let Some(file) = open_part(path)? else {
        return Ok(None);
    };
    let digest = pass(&file, bytes, |_| Ok(())).map_err(at_path(path))?;
    Ok(Some(digest))
}

/// Copies the first bytes into a file that gets its name when it is whole. Returns their digest.
pub(super) fn copy(from: &File, target: &Path, bytes: u64) -> io::Result<ContentDigest> {
    let draft = target.with_extension("part");
    let _left_over = fs::remove_file(&draft);
    let mut to = disk::create_new(&draft)?;
    let digest = pass(from, bytes, |chunk| to.write_all(chunk))?;
    to.sync_all()?;
    fs::rename(&draft, target)?;
    Ok(digest)
}

/// Hands the first bytes on, and returns their digest.
fn pass(
    mut from: &File,
    bytes: u64,
    mut on: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<ContentDigest> {
    from.seek(SeekFrom::Start(0))?;
    let mut digest = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    let mut left = bytes;
    while left > 0 {
        let wanted = usize::try_from(left).map_or(CHUNK, |it| it.min(CHUNK));
        let length = from.read(&mut chunk[..wanted])?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        digest.update(&chunk[..length]);
        on(&chunk[..length])?;
        left -= length as u64;
    }
    Ok(ContentDigest(digest.finalize().into()))
}

pub(super) fn read_manifest(backup: &Path) -> Result<BackupManifest, BackupError> {
    let path = backup.join(MANIFEST);
    let Some(mut file) = open_part(&path)? else {
        return Err(BackupError::NoBackup(backup.display().to_string()));
    };
    let mut text = vec![];
    file.read_to_end(&mut text).map_err(at_path(&path))?;
    let manifest: BackupManifest =
        serde_json::from_slice(&text).map_err(|error| BackupError::Damaged {
            path: path.display().to_string(),
            what: error.to_string(),
        })?;
    if manifest.format > FORMAT {
        return Err(BackupError::Newer {
            found: manifest.format,
            known: FORMAT,
        });
    }
    Ok(manifest)
}
