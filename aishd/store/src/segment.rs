//! Segments as files: their names, how one is begun, and their headers.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::disk;
use super::line::{self, JournalPosition, JournalRecord, SegmentHeader};

/// Where segments seem to be missing they are looked for so often.
const ATTEMPTS: usize = 10;
/// A header is far shorter.
const HEADER_READ_BYTES: u64 = 64 * 1024;

/// A segment that is there, with what its header says; `None` where the header is damaged.
#[derive(Clone, Debug)]
pub(super) struct JournalSegment {
    pub(super) first: JournalPosition,
    pub(super) path: PathBuf,
    pub(super) header: Option<SegmentHeader>,
    /// Said even by a header of a format that we do not know.
    pub(super) format: Option<u32>,
    /// Bytes of the header's line.
    pub(super) body_at: u64,
}

impl JournalSegment {
    /// The beginning of the last segment that it holds.
    pub(super) fn through(&self) -> JournalPosition {
        let said = self.header.as_ref().and_then(|it| it.through);
        said.unwrap_or(self.first)
    }
}

pub(super) fn path(journal: &Path, first: JournalPosition) -> PathBuf {
    journal.join(format!("{first:020}.jsonl"))
}

/// The part of a header that every format keeps.
#[derive(serde::Deserialize)]
struct HeaderProbe {
    header: ProbeHeader,
}

#[derive(serde::Deserialize)]
struct ProbeHeader {
    format: u32,
}

/// All segments in order. Half-made ones (`.tmp`) are none, nor are those that another one holds.
pub(super) fn list(journal: &Path) -> io::Result<Vec<JournalSegment>> {
    let mut segments = list_once(journal)?;
    for _ in 0..ATTEMPTS {
        // A directory that changes while it is read may seem to lack a file that was exchanged for another.
        if is_chained(&segments) {
            break;
        }
        segments = list_once(journal)?;
    }
    Ok(segments)
}

/// Whether each segment follows on the one before it, as far as their headers say.
fn is_chained(segments: &[JournalSegment]) -> bool {
    let mut before = None;
    segments.iter().all(|it| {
        let previous = it.header.as_ref().map(|it| it.previous);
        let is_next = previous.is_none_or(|it| it == before);
        before = Some(it.through());
        is_next
    })
}

fn list_once(journal: &Path) -> io::Result<Vec<JournalSegment>> {
    let mut held_through = 0;
    let mut segments = list_all(journal)?;
    segments.retain(|it| {
        let is_held = it.first <= held_through;
        held_through = held_through.max(it.through());
        !is_held
    });
    Ok(segments)
}

/// Takes away segments that another one holds, once the index knows.
pub(super) fn remove_held(journal: &Path) -> io::Result<()> {
    let kept = list(journal)?;
    for segment in list_all(journal)? {
        if !kept.iter().any(|it| it.first == segment.first) {
            fs::remove_file(segment.path)?;
        }
    }
    disk::sync_dir(journal)
}

fn list_all(journal: &Path) -> io::Result<Vec<JournalSegment>> {
    let entries = match fs::read_dir(journal) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(error),
    };
    let mut segments = vec![];
    for entry in entries {
        let path = entry?.path();
        let first = path
            .file_name()
            .and_then(|it| it.to_str())
            .and_then(|it| it.strip_suffix(".jsonl"))
            .filter(|it| it.len() == 20)
            .and_then(|it| it.parse().ok());
        match first.map(|first| read_header(first, path)) {
            Some(Ok(segment)) => segments.push(segment),
            // Another one holds it since.
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Some(Err(error)) => return Err(error),
            None => {}
        }
    }
    segments.sort_by_key(|it| it.first);
    Ok(segments)
}

/// A segment that is not written any more, which compaction may rewrite.
#[derive(Debug)]
pub(super) struct ClosedSegment {
    pub(super) segment: JournalSegment,
    /// Where the next segment goes on: what stands behind it here was never acknowledged.
    pub(super) limit: JournalPosition,
}

/// Those before `current` whose limit is known.
pub(super) fn closed(journal: &Path, current: JournalPosition) -> Vec<ClosedSegment> {
    let segments = list(journal).unwrap_or_default();
    let limits: Vec<_> = segments
        .iter()
        .skip(1)
        .map(|it| it.header.as_ref().map(|it| it.after))
        .collect();
    segments
        .into_iter()
        .zip(limits)
        .filter(|(it, _)| it.first < current)
        .filter_map(|(segment, limit)| {
            Some(ClosedSegment {
                segment,
                limit: limit?,
            })
        })
        .collect()
}

fn read_header(first: JournalPosition, path: PathBuf) -> io::Result<JournalSegment> {
    let mut start = vec![];
    File::open(&path)?
        .take(HEADER_READ_BYTES)
        .read_to_end(&mut start)?;
    let checked = line::check(&start);
    let format = checked
        .and_then(|(rec, _)| serde_json::from_slice::<HeaderProbe>(rec).ok())
        .map(|it| it.header.format);
    let found = checked.and_then(|(rec, bytes)| match line::parse(rec) {
        Ok(JournalRecord::Header(header)) => Some((header, bytes)),
        Ok(
            JournalRecord::Event(_)
            | JournalRecord::Partial(_)
            | JournalRecord::Delete(_)
            | JournalRecord::Note(_)
            | JournalRecord::Audit(_),
        )
        | Err(_) => None,
    });
    let (header, body_at) = match found {
        Some((header, bytes)) => (Some(header), bytes),
        None => (None, 0),
    };
    Ok(JournalSegment {
        first,
        path,
        header,
        format,
        body_at: body_at as u64,
    })
}

/// Begins a segment. It gets its name only when it is synced, so that a segment without a header is damaged
/// and never merely young. Returns the file, to be written at the returned offset.
pub(super) fn begin(journal: &Path, header: SegmentHeader) -> io::Result<(File, u64)> {
    let target = path(journal, header.first);
    let draft = target.with_extension("tmp");
    let made = write_draft(&draft, header).and_then(|made| {
        disk::rename(&draft, &target)?;
        Ok(made)
    });
    if made.is_err() {
        let _not_there = fs::remove_file(&draft);
    }
    made
}

fn write_draft(draft: &Path, header: SegmentHeader) -> io::Result<(File, u64)> {
    let _left_over = fs::remove_file(draft);
    let mut bytes = vec![];
    line::encode(&JournalRecord::Header(header), &mut bytes).map_err(io::Error::other)?;
    let mut file = disk::create_new(draft)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    Ok((file, bytes.len() as u64))
}

/// Takes away what a crash left half made.
pub(super) fn remove_drafts(journal: &Path) -> io::Result<()> {
    for entry in fs::read_dir(journal)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "tmp") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
