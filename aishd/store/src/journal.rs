//! The journal's writing end: lines are appended to the current segment and synced group by group.
//!
//! After an error the segment is given up: its pages cannot be trusted any more, so nothing is acknowledged
//! until another one was made and synced.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use aish_proto::id::{ConversationId, Epoch};
use aishd_log::audit::chain::ChainHead;
use aishd_log::spending::SpentSum;
use aishd_platform::clock;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::line::{
    self, AuditRec, DeleteRec, EncodeError, EventRec, FORMAT, JournalPosition, JournalRecord,
    NoteRec, PartialRec, RecordPlace, SegmentHeader,
};
use super::{Note, Partial, segment};

pub(super) const SEGMENT_BYTES: u64 = 8 * 1024 * 1024;

/// Where a line ends, so that replay can go on behind it; kept in sled as what it has applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LineLocation {
    pub(super) pos: JournalPosition,
    /// The last position that a commit or a deletion has, up to here: the rest are pieces of text.
    pub(super) committed: JournalPosition,
    pub(super) segment: JournalPosition,
    /// Where the line begins and where the next one does.
    pub(super) line: u64,
    pub(super) end: u64,
}

/// What a line says, before it has a place.
#[derive(Debug)]
pub(super) enum JournalEntry<'a> {
    Event {
        conversation: ConversationId,
        record: &'a RawValue,
        last: bool,
    },
    Partial(&'a Partial),
    Delete {
        conversation: ConversationId,
        spent: &'a [SpentSum],
        last: bool,
    },
    Note {
        note: &'a Note,
        last: bool,
    },
    Audit {
        head: ChainHead,
        entry: &'a RawValue,
        last: bool,
    },
}

#[derive(Debug)]
pub(super) struct Journal {
    dir: PathBuf,
    epoch: Epoch,
    current: Option<CurrentSegment>,
    /// The newest segment, also when it was given up.
    newest: Option<JournalPosition>,
    next_pos: JournalPosition,
    durable: JournalPosition,
    committed: JournalPosition,
    bytes: u64,
    /// A segment that has so many bytes is closed.
    pub(super) segment_bytes: u64,
}

#[derive(Debug)]
struct CurrentSegment {
    file: File,
    first: JournalPosition,
    size: u64,
    durable_size: u64,
}

/// How the journal stands when start-up has read it.
#[derive(Clone, Copy, Debug)]
pub(super) struct JournalResume {
    pub(super) newest: Option<JournalPosition>,
    /// Go on in the newest segment at this offset; `None`: begin another.
    pub(super) at: Option<u64>,
    pub(super) next_pos: JournalPosition,
    pub(super) durable: JournalPosition,
    pub(super) committed: JournalPosition,
    pub(super) bytes: u64,
}

impl JournalResume {
    /// A journal that has nothing yet.
    pub(super) const NEW: Self = Self {
        newest: None,
        at: None,
        next_pos: 1,
        durable: 0,
        committed: 0,
        bytes: 0,
    };
}

#[derive(Debug, thiserror::Error)]
pub(super) enum AppendError {
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Journal {
    pub(super) fn resume(dir: &Path, epoch: Epoch, from: JournalResume) -> io::Result<Self> {
        let mut journal = Self {
            dir: dir.to_owned(),
            epoch,
            current: None,
            newest: from.newest,
            next_pos: from.next_pos,
            durable: from.durable,
            committed: from.committed,
            bytes: from.bytes,
            segment_bytes: SEGMENT_BYTES,
        };
        if let (Some(first), Some(size)) = (from.newest, from.at) {
            let file = super::disk::open_existing(&segment::path(dir, first))?;
            // What was read may never have been synced, and from here on it counts as durable.
            file.set_len(size)?;
            file.sync_all()?;
            journal.durable = journal.next_pos - 1;
            journal.current = Some(CurrentSegment {
                file,
                first,
                size,
                durable_size: size,
            });
        }
        Ok(journal)
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The last position that was used.
    pub(super) fn last_pos(&self) -> JournalPosition {
        self.next_pos - 1
    }

    /// The last position of a commit that is durable.
    pub(super) fn committed(&self) -> JournalPosition {
        self.committed.min(self.durable)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// The first position of the segment that is being written; those before it are closed.
    pub(super) fn current_first(&self) -> Option<JournalPosition> {
        self.current.as_ref().map(|it| it.first)
    }

    /// Begins another segment if the current one is full or was given up. Returns whether it did.
    pub(super) fn roll_if_due(&mut self) -> io::Result<bool> {
        match &self.current {
            Some(current) if current.size < self.segment_bytes => Ok(false),
            Some(_) | None => self.roll().map(|()| true),
        }
    }

    /// Closes the current segment, durable to its end, and begins another.
    pub(super) fn roll(&mut self) -> io::Result<()> {
        if self.current.is_some() {
            self.sync()?;
        }
        let header = SegmentHeader {
            format: FORMAT,
            epoch: self.epoch,
            first: self.next_pos,
            after: self.durable,
            previous: self.newest,
            compacted: false,
            generation: 0,
            through: None,
            rewritten: None,
            created: clock::now(),
        };
        if self.newest == Some(self.next_pos) {
            // The newest one has no line that counts: it is replaced, and keeps its own predecessor.
            return self.begin(SegmentHeader {
                previous: self.predecessor()?,
                ..header
            });
        }
        self.begin(header)
    }

    fn predecessor(&self) -> io::Result<Option<JournalPosition>> {
        let segments = segment::list(&self.dir)?;
        let newest = segments.iter().find(|it| Some(it.first) == self.newest);
        Ok(newest
            .and_then(|it| it.header.as_ref())
            .and_then(|it| it.previous))
    }

    fn begin(&mut self, header: SegmentHeader) -> io::Result<()> {
        let first = header.first;
        let (file, size) = segment::begin(&self.dir, header)?;
        self.newest = Some(first);
        self.bytes += size;
        self.current = Some(CurrentSegment {
            file,
            first,
            size,
            durable_size: size,
        });
        Ok(())
    }

    /// Writes the lines of one group; they are durable after `sync`. Returns where each one stands.
    pub(super) fn append(
        &mut self,
        entries: &[JournalEntry<'_>],
    ) -> Result<Vec<LineLocation>, AppendError> {
        self.roll_if_due()?;
        let Some(current) = &mut self.current else {
            return Err(io::Error::other("no segment to write to").into());
        };
        let mut lines = vec![];
        let mut locations = Vec::with_capacity(entries.len());
        let (mut pos, mut committed) = (self.next_pos, self.committed);
        for entry in entries {
            let line = current.size + lines.len() as u64;
            let place = RecordPlace {
                pos,
                durable: self.durable,
                last: entry.is_last(),
            };
            line::encode(&entry.at(place), &mut lines)?;
            if !matches!(entry, JournalEntry::Partial(_)) {
                committed = pos;
            }
            locations.push(LineLocation {
                pos,
                committed,
                segment: current.first,
                line,
                end: current.size + lines.len() as u64,
            });
            pos += 1;
        }
        // Also after an error these positions are not used again: the lines may be there.
        self.next_pos = pos;
        current.file.write_all_at(&lines, current.size)?;
        current.size += lines.len() as u64;
        self.bytes += lines.len() as u64;
        self.committed = committed;
        Ok(locations)
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        if current.durable_size < current.size {
            current.file.sync_data()?;
            current.durable_size = current.size;
        }
        self.durable = self.next_pos - 1;
        Ok(())
    }

    /// After an error: what was not durable is cut off as well as that goes, and the segment is left.
    pub(super) fn give_up(&mut self) {
        let Some(current) = self.current.take() else {
            return;
        };
        self.bytes -= current.size - current.durable_size;
        self.committed = self.committed.min(self.durable);
        let cut = current
            .file
            .set_len(current.durable_size)
            .and_then(|()| current.file.sync_data());
        if let Err(error) = cut {
            tracing::warn!(%error, "could not cut a failed write off the journal");
        }
    }
}

impl<'a> JournalEntry<'a> {
    fn is_last(&self) -> bool {
        match self {
            Self::Event { last, .. }
            | Self::Delete { last, .. }
            | Self::Note { last, .. }
            | Self::Audit { last, .. } => *last,
            Self::Partial(_) => true,
        }
    }

    fn at(&self, place: RecordPlace) -> JournalRecord<'a> {
        match self {
            Self::Event {
                conversation,
                record,
                ..
            } => JournalRecord::Event(EventRec {
                place,
                conversation: *conversation,
                record,
            }),
            Self::Partial(partial) => JournalRecord::Partial(PartialRec {
                place,
                conversation: partial.conversation,
                turn: partial.turn,
                item: partial.item,
                offset: partial.offset,
                text: partial.text.clone(),
            }),
            Self::Audit { head, entry, .. } => JournalRecord::Audit(AuditRec {
                place,
                n: head.n,
                hash: head.hash,
                entry,
            }),
            Self::Delete {
                conversation,
                spent,
                ..
            } => JournalRecord::Delete(DeleteRec {
                place,
                conversation: *conversation,
                spent: spent.to_vec(),
            }),
            Self::Note { note, .. } => JournalRecord::Note(NoteRec {
                place,
                key: note.key.clone(),
                text: note.text.clone(),
                forgets: note.forgets,
            }),
        }
    }
}
