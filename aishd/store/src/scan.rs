//! Reading the journal back: which lines count, where a torn tail is cut, and what is damage.
//!
//! A bad line is a torn tail when nothing behind it knows it as durable. Otherwise something acknowledged is
//! damaged: that is told, and everything else is read.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use aish_proto::id::ConversationId;

use super::journal::LineLocation;
use super::line::{self, JournalPosition, JournalRecord, RecordPlace};
use super::segment::JournalSegment;

/// Lines of a whole commit, in order.
pub(super) type CommitLines<'a> = Vec<(JournalRecord<'a>, LineLocation)>;

#[expect(clippy::reversed_empty_ranges, reason = "it is empty")]
const NONE: RangeInclusive<JournalPosition> = 1..=0;

#[derive(Debug, thiserror::Error)]
pub(super) enum ScanError {
    #[error("read the journal")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Refused(String),
}

/// Acknowledged lines that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalDamage {
    pub file: PathBuf,
    pub offset: u64,
    /// How many bytes cannot be read; 0: they are not there.
    pub bytes: u64,
    /// Positions that are missing.
    pub(super) missing: RangeInclusive<JournalPosition>,
    pub what: String,
    /// Conversations that the damaged bytes still name.
    pub conversations: Vec<ConversationId>,
    /// Each line that is missing names its conversation, or is of none.
    pub(super) is_attributed: bool,
}

impl JournalDamage {
    pub(super) fn of(file: &Path, what: &str) -> Self {
        Self {
            file: file.to_owned(),
            offset: 0,
            bytes: 0,
            missing: NONE,
            what: what.to_owned(),
            conversations: vec![],
            is_attributed: false,
        }
    }

    pub(super) fn at(
        segment: &JournalSegment,
        offset: u64,
        missing: RangeInclusive<JournalPosition>,
        damaged: &[u8],
    ) -> Self {
        Self {
            offset,
            missing,
            bytes: damaged.len() as u64,
            conversations: named_in(damaged),
            ..Self::of(&segment.path, "acknowledged records cannot be read")
        }
    }
}

impl fmt::Display for JournalDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file, offset, what, ..
        } = self;
        write!(f, "{} is damaged at byte {offset}: {what}", file.display())
    }
}

/// How the journal ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JournalEnd {
    /// The last position that counts.
    pub(super) pos: JournalPosition,
    pub(super) committed: JournalPosition,
    /// Where the newest segment ends, and how many bytes behind it belong to an unfinished write.
    pub(super) size: u64,
    pub(super) torn: u64,
    /// What was acknowledged and cannot be read.
    pub(super) damage: Vec<JournalDamage>,
}

/// Reads everything behind `applied` (all, if none), one commit at a time.
pub(super) fn read(
    segments: &[JournalSegment],
    applied: Option<&LineLocation>,
    each: &mut dyn FnMut(CommitLines<'_>) -> Result<(), String>,
) -> Result<JournalEnd, ScanError> {
    let known = applied.map_or(0, |it| it.pos);
    JournalScan::begin(segments, applied, known).read(applied, each)
}

/// Reads everything. `known`: up to there was committed, as somebody remembers who has seen more of it than may be left.
pub(super) fn read_all(
    segments: &[JournalSegment],
    known: JournalPosition,
    each: &mut dyn FnMut(CommitLines<'_>) -> Result<(), String>,
) -> Result<JournalEnd, ScanError> {
    let mut ended = JournalScan::begin(segments, None, known).read(None, each)?;
    let is_told = ended.damage.iter().any(|it| it.missing.contains(&known));
    if ended.pos < known && !is_told {
        let newest = segments.last().map_or(Path::new(""), |it| &it.path);
        ended.damage.push(JournalDamage {
            offset: ended.size,
            bytes: ended.torn,
            missing: ended.pos + 1..=known,
            ..JournalDamage::of(newest, "acknowledged records are missing at its end")
        });
    }
    Ok(ended)
}

/// Where conversations are deleted behind `applied`, the last place of each.
pub(super) fn deletions(
    segments: &[JournalSegment],
    applied: Option<&LineLocation>,
) -> Result<HashMap<ConversationId, JournalPosition>, ScanError> {
    let mut found = HashMap::new();
    read(segments, applied, &mut |commit| {
        for (rec, at) in commit {
            if let JournalRecord::Delete(it) = rec {
                found.insert(it.conversation, at.pos);
            }
        }
        Ok(())
    })?;
    Ok(found)
}

#[derive(Debug)]
struct JournalScan<'a> {
    segments: &'a [JournalSegment],
    /// Up to here the index has everything.
    applied: JournalPosition,
    /// Up to here somebody knows that it was acknowledged.
    known: JournalPosition,
    ended: JournalEnd,
}

impl<'a> JournalScan<'a> {
    fn begin(
        segments: &'a [JournalSegment],
        applied: Option<&LineLocation>,
        known: JournalPosition,
    ) -> Self {
        Self {
            segments,
            applied: applied.map_or(0, |it| it.pos),
            known,
            ended: JournalEnd {
                pos: applied.map_or(0, |it| it.pos),
                committed: applied.map_or(0, |it| it.committed),
                ..JournalEnd::default()
            },
        }
    }

    fn read(
        mut self,
        applied: Option<&LineLocation>,
        each: &mut dyn FnMut(CommitLines<'_>) -> Result<(), String>,
    ) -> Result<JournalEnd, ScanError> {
        let (from, resume_at) = self.start(applied)?;
        for index in from..self.segments.len() {
            let offset = resume_at.filter(|_| index == from);
            self.segment(index, offset, each)?;
        }
        Ok(self.ended)
    }

    /// The segment to begin in, and the offset when it is known.
    fn start(&mut self, applied: Option<&LineLocation>) -> Result<(usize, Option<u64>), ScanError> {
        let Some(applied) = applied else {
            if let Some(first) = self.segments.first() {
                let missing = first.header.as_ref().and_then(|it| it.previous);
                if missing.is_some() {
                    let missing = 1..=first.first - 1;
                    self.damaged(first, 0, missing, "the segments before it are missing");
                }
                self.ended.pos = first.first - 1;
            }
            return Ok((0, None));
        };
        let Some(oldest) = self.segments.first() else {
            self.ended.pos = 0;
            return Ok((0, None));
        };
        let oldest_after = oldest.header.as_ref().map(|it| it.after);
        if oldest.first > applied.pos + 1 && oldest_after.is_none_or(|it| it > applied.pos) {
            let missing = applied.pos + 1..=oldest.first - 1;
            self.damaged(oldest, 0, missing, "the segments before it are missing");
        }
        let from = self
            .segments
            .iter()
            .rposition(|it| it.first <= applied.pos + 1)
            .unwrap_or(0);
        let home = self
            .segments
            .iter()
            .position(|it| it.first == applied.segment);
        if let Some(home) = home
            && stands_there(&self.segments[home], applied)?
        {
            return Ok((home, Some(applied.end)));
        }
        // The segment was compacted, or is not what it was: it is read from its start.
        if let Some(first) = self.segments.get(from) {
            self.ended.pos = first.first.saturating_sub(1);
        }
        Ok((from, None))
    }

    fn segment(
        &mut self,
        index: usize,
        offset: Option<u64>,
        each: &mut dyn FnMut(CommitLines<'_>) -> Result<(), String>,
    ) -> Result<(), ScanError> {
        let segment = &self.segments[index];
        let next = self.segments.get(index + 1);
        if segment.header.is_none() {
            self.damaged(segment, 0, NONE, "its header cannot be read");
        }
        let may_have_gaps = segment.header.as_ref().is_none_or(|it| it.compacted);
        if offset.is_none() {
            self.enter(index);
        }
        let limit = next.and_then(|it| it.header.as_ref()).map(|it| it.after);
        let at = offset.unwrap_or(segment.body_at);
        let bytes = read_from(segment, at)?;
        let mut cursor = 0;
        let mut commit: CommitLines<'_> = vec![];
        let mut commit_at = 0;
        while cursor < bytes.len() {
            let parsed = line::check(&bytes[cursor..]).and_then(|(rec, length)| {
                let rec = line::parse(rec).ok()?;
                let place = rec.place()?;
                Some((rec, place, length))
            });
            let expected = self.ended.pos + 1 + commit.len() as u64;
            let fits = parsed.as_ref().is_some_and(|(_, place, _)| {
                place.pos == expected || (place.pos > expected && may_have_gaps)
            });
            let Some((rec, place, length)) = parsed.filter(|_| fits) else {
                match self.behind_bad_line(&bytes, cursor, expected, index, at) {
                    Some((further, pos)) => {
                        // What was read of it belongs to a commit that was acknowledged.
                        self.complete(std::mem::take(&mut commit), each)?;
                        self.ended.pos = pos - 1;
                        cursor = further;
                        commit_at = further;
                        continue;
                    }
                    None => break,
                }
            };
            if limit.is_some_and(|limit| place.pos > limit) {
                break;
            }
            let location = self.location(segment.first, at, cursor, length, place, &rec);
            commit.push((rec, location));
            cursor += length;
            if place.last {
                self.complete(std::mem::take(&mut commit), each)?;
                commit_at = cursor;
            }
        }
        // Compaction may have taken the note that ended a commit, with a newer one in its place.
        let is_compacted = segment.header.as_ref().is_some_and(|it| it.compacted);
        if is_compacted && next.is_some() {
            self.complete(std::mem::take(&mut commit), each)?;
        }
        self.ended.size = at + commit_at as u64;
        self.ended.torn = (bytes.len() - commit_at) as u64;
        Ok(())
    }

    fn damaged(
        &mut self,
        segment: &JournalSegment,
        offset: u64,
        missing: RangeInclusive<JournalPosition>,
        what: &str,
    ) {
        let damage = JournalDamage {
            offset,
            missing,
            ..JournalDamage::of(&segment.path, what)
        };
        self.ended.damage.push(damage);
    }

    /// What the step from the segment before to this one says.
    fn enter(&mut self, index: usize) {
        let segment = &self.segments[index];
        let (Some(header), Some(before)) = (&segment.header, index.checked_sub(1)) else {
            self.ended.pos = self.ended.pos.max(segment.first.saturating_sub(1));
            return;
        };
        let before = &self.segments[before];
        let compacted = before.header.as_ref().is_none_or(|it| it.compacted);
        let chained = header.previous == Some(before.through());
        let whole =
            compacted || self.ended.pos >= header.after || self.ended.pos + 1 == segment.first;
        // What is missing for sure was said where the segment before was read.
        let is_told = self.ended.damage.iter().any(|it| it.file == before.path);
        if !chained || (!whole && !is_told) {
            let missing = self.ended.pos + 1..=segment.first - 1;
            self.damaged(
                before,
                self.ended.size,
                missing,
                "records behind it are missing",
            );
        }
        self.ended.pos = segment.first - 1;
    }

    fn location(
        &self,
        segment: JournalPosition,
        at: u64,
        cursor: usize,
        length: usize,
        place: RecordPlace,
        rec: &JournalRecord<'_>,
    ) -> LineLocation {
        let line = at + cursor as u64;
        let committed = match rec {
            JournalRecord::Partial(_) | JournalRecord::Header(_) => self.ended.committed,
            JournalRecord::Event(_)
            | JournalRecord::Delete(_)
            | JournalRecord::Note(_)
            | JournalRecord::Audit(_) => place.pos,
        };
        LineLocation {
            pos: place.pos,
            committed,
            segment,
            line,
            end: line + length as u64,
        }
    }

    fn complete(
        &mut self,
        commit: CommitLines<'_>,
        each: &mut dyn FnMut(CommitLines<'_>) -> Result<(), String>,
    ) -> Result<(), ScanError> {
        if let Some((_, location)) = commit.last() {
            self.ended.pos = location.pos;
            if location.pos <= self.applied {
                return Ok(());
            }
            self.ended.committed = self.ended.committed.max(location.committed);
            each(commit).map_err(ScanError::Refused)?;
        }
        Ok(())
    }

    /// Decides about a line that cannot be read or is not the next one: where to go on, and with which position; `None`: it is
    /// the end, or nothing behind it can be read.
    fn behind_bad_line(
        &mut self,
        bytes: &[u8],
        cursor: usize,
        expected: JournalPosition,
        index: usize,
        at: u64,
    ) -> Option<(usize, JournalPosition)> {
        let segment = &self.segments[index];
        let offset = at + cursor as u64;
        // The first line that can be read goes on, once anything shows that the bad one was acknowledged: also a later line.
        let mut next: Option<(usize, JournalPosition)> = None;
        let mut was_acknowledged = self.known.max(self.followed_through(index)) >= expected;
        let mut further = cursor;
        while next.is_none() || !was_acknowledged {
            let Some(newline) = bytes[further..].iter().position(|it| *it == b'\n') else {
                break;
            };
            further += newline + 1;
            let checked = line::check(&bytes[further..]);
            let Some(place) = checked.and_then(|(rec, _)| line::parse(rec).ok()?.place()) else {
                continue;
            };
            was_acknowledged |= place.durable >= expected;
            if place.pos >= expected {
                next = next.or(Some((further, place.pos)));
            }
        }
        if !was_acknowledged {
            return None;
        }
        let end = next.map_or(bytes.len(), |(further, _)| further);
        let last = match next {
            Some((_, pos)) => pos - 1,
            None => self.known.max(self.followed_through(index)),
        };
        let piece = &bytes[cursor..end];
        let lines = lines_in(piece);
        let is_attributed = next.is_some()
            && lines.len() as u64 == (last + 1).saturating_sub(expected)
            && lines
                .iter()
                .all(|it| costs_nobody(it) || named_by(it).is_some());
        self.ended.damage.push(JournalDamage {
            is_attributed,
            ..JournalDamage::at(segment, offset, expected..=last, piece)
        });
        next
    }

    /// Up to where everything was durable when a later segment was begun; 0: there is none.
    fn followed_through(&self, index: usize) -> JournalPosition {
        let later = self.segments[index + 1..].iter();
        let after = later.filter_map(|it| it.header.as_ref()).map(|it| it.after);
        after.max().unwrap_or(0)
    }
}

/// The conversations whose records damaged lines still seem to be.
pub(super) fn named_in(bytes: &[u8]) -> Vec<ConversationId> {
    let lines = lines_in(bytes);
    let named = lines.into_iter().filter(|it| !costs_nobody(it));
    let mut found: Vec<_> = named.filter_map(named_by).collect();
    found.dedup();
    found
}

fn lines_in(bytes: &[u8]) -> Vec<&[u8]> {
    let lines = bytes.split(|it| *it == b'\n');
    lines.filter(|it| !it.is_empty()).collect()
}

/// A piece of text, a note or a record of the audit trail costs no conversation anything.
fn costs_nobody(line: &[u8]) -> bool {
    let others: [&[u8]; 3] = [b"{\"audit\":", b"{\"partial\":", b"{\"note\":"];
    let begin = &line[..line.len().min(80)];
    others.iter().any(|it| position_of(it, begin).is_some())
}

fn named_by(line: &[u8]) -> Option<ConversationId> {
    const NAME: &[u8] = b"\"conversation\":\"";
    let at = position_of(NAME, line)? + NAME.len();
    std::str::from_utf8(line.get(at..at + 26)?)
        .ok()?
        .parse()
        .ok()
}

fn position_of(what: &[u8], line: &[u8]) -> Option<usize> {
    line.windows(what.len()).position(|it| it == what)
}

/// Whether the line that was applied last is where it was.
fn stands_there(segment: &JournalSegment, applied: &LineLocation) -> Result<bool, ScanError> {
    let mut line = vec![];
    let mut file = File::open(&segment.path)?;
    file.seek(SeekFrom::Start(applied.line))?;
    file.take(applied.end.saturating_sub(applied.line))
        .read_to_end(&mut line)?;
    let pos = line::check(&line)
        .and_then(|(rec, _)| line::parse(rec).ok())
        .and_then(|rec| rec.place())
        .map(|it| it.pos);
    Ok(pos == Some(applied.pos))
}

fn read_from(segment: &JournalSegment, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    let mut file = File::open(&segment.path)?;
    file.seek(SeekFrom::Start(offset))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
