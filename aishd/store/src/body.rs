//! Where the lines of the journal stand that the index speaks of, and reading them. What was said lives in the journal alone;
//! the index knows the place of each line.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::index::IndexFault;
use super::journal::LineLocation;
use super::line::{self, JournalPosition, JournalRecord};
use super::segment;

/// Segments that are kept open for reading.
const MOST_OPEN: usize = 16;
/// Who reads one line after the other reads so much at once.
const READ_AHEAD: u64 = 64 * 1024;

/// Where a line stands. Its segment is named by the first position that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BodyPlace {
    pub(super) segment: JournalPosition,
    pub(super) line: u64,
    pub(super) length: u32,
}

impl BodyPlace {
    pub(super) fn new(segment: JournalPosition, line: u64, length: usize) -> Self {
        Self {
            segment,
            line,
            // A line has at most eight digits of length.
            length: u32::try_from(length).unwrap_or(u32::MAX),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.segment.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.line.to_be_bytes());
        bytes[16..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, IndexFault> {
        let parts = bytes
            .split_first_chunk::<8>()
            .and_then(|(segment, rest)| Some((segment, rest.split_first_chunk::<8>()?)));
        let place = parts.and_then(|(segment, (line, length))| {
            Some(Self {
                segment: u64::from_be_bytes(*segment),
                line: u64::from_be_bytes(*line),
                length: u32::from_be_bytes(length.try_into().ok()?),
            })
        });
        place.ok_or_else(|| IndexFault::garbled("a place in the journal"))
    }

    fn end(self) -> u64 {
        self.line + u64::from(self.length)
    }
}

impl From<LineLocation> for BodyPlace {
    fn from(at: LineLocation) -> Self {
        let length = usize::try_from(at.end - at.line).unwrap_or(usize::MAX);
        Self::new(at.segment, at.line, length)
    }
}

/// The segments, open for reading.
#[derive(Debug)]
pub(super) struct JournalFiles {
    journal: PathBuf,
    /// The one that was read last is the last.
    open: Mutex<Vec<(JournalPosition, Arc<File>)>>,
}

impl JournalFiles {
    pub(super) fn new(journal: &Path) -> Self {
        Self {
            journal: journal.to_owned(),
            open: Mutex::default(),
        }
    }

    fn file(&self, segment: JournalPosition) -> io::Result<Arc<File>> {
        let mut open = self.open.lock();
        let known = open.iter().position(|(first, _)| *first == segment);
        let file = match known {
            Some(at) => open.remove(at).1,
            None => Arc::new(File::open(segment::path(&self.journal, segment))?),
        };
        if open.len() >= MOST_OPEN {
            open.remove(0);
        }
        open.push((segment, Arc::clone(&file)));
        Ok(file)
    }

    /// These have been written anew, or are gone.
    pub(super) fn forget(&self, segments: impl Fn(JournalPosition) -> bool) {
        self.open.lock().retain(|(first, _)| !segments(*first));
    }

    pub(super) fn reader(&self) -> BodyReader<'_> {
        BodyReader {
            files: self,
            segment: 0,
            at: 0,
            bytes: vec![],
            length: 0,
        }
    }
}

/// Reads lines, and what stands beside them where one comes after the other.
#[derive(Debug)]
pub(super) struct BodyReader<'a> {
    files: &'a JournalFiles,
    /// What was read last, and where it begins.
    segment: JournalPosition,
    at: u64,
    bytes: Vec<u8>,
    /// How much of `bytes` was read; the rest is room for the next piece.
    length: usize,
}

impl BodyReader<'_> {
    /// What a line says.
    ///
    /// # Errors
    /// [`IndexFault::Journal`] where the line is damaged or gone.
    pub(super) fn read(&mut self, place: BodyPlace) -> Result<JournalRecord<'_>, IndexFault> {
        let has = self.segment == place.segment
            && self.at <= place.line
            && place.end() <= self.at + self.length as u64;
        if !has {
            self.fill(place)?;
        }
        let from = usize::try_from(place.line - self.at).unwrap_or(usize::MAX);
        let to = from.saturating_add(place.length as usize);
        let read = self.bytes.get(..self.length);
        let rec = read.and_then(|it| it.get(from..to)).and_then(line::check);
        let rec = rec.map(|(rec, _)| line::parse(rec));
        match rec {
            Some(Ok(rec)) => Ok(rec),
            Some(Err(_)) | None => Err(damaged(self.files, place, "it is damaged")),
        }
    }

    fn fill(&mut self, place: BodyPlace) -> Result<(), IndexFault> {
        let goes_on = self.segment == place.segment && self.length > 0;
        let ahead = if goes_on { READ_AHEAD } else { 0 };
        let wanted = u64::from(place.length).max(ahead);
        let goes_back = goes_on && place.line < self.at;
        let at = if goes_back {
            place.end().saturating_sub(wanted)
        } else {
            place.line
        };
        let wanted = usize::try_from(wanted).unwrap_or_default();
        self.length = 0;
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
        let read = self.files.file(place.segment).and_then(|file| {
            let room = self.bytes.get_mut(..wanted).unwrap_or_default();
            read_at_most(&file, room, at)
        });
        match read {
            Ok(length) => self.length = length,
            Err(error) => {
                self.segment = 0;
                if error.kind() == io::ErrorKind::NotFound {
                    return Err(damaged(self.files, place, "it is not there"));
                }
                return Err(IndexFault::disk(error));
            }
        }
        (self.segment, self.at) = (place.segment, at);
        Ok(())
    }
}

fn damaged(files: &JournalFiles, place: BodyPlace, what: &str) -> IndexFault {
    let file = segment::path(&files.journal, place.segment);
    IndexFault::Journal(format!(
        "{} cannot be read at byte {}: {what}",
        file.display(),
        place.line
    ))
}

/// As `read_exact_at`, up to the end of the file.
fn read_at_most(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], at + length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
