//! Writing closed segments anew without what nobody speaks of any more: what deleted conversations said, texts that are whole
//! elsewhere, notes that newer ones replaced. Several of them become one.
//!
//! A line is dropped only where it is known why. The new file takes the place of the first segment in one step and says
//! which others it holds; those go when the index knows where the lines stand. Whoever ends in between leaves that to the
//! next start (`relocation`).

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use aishd_platform::{clock, failpoint};
use sled::{Batch, Db};

use super::body::BodyPlace;
use super::index::{self, IndexFault};
use super::line::{self, FORMAT, JournalPosition, JournalRecord, SegmentHeader};
use super::relocation::{Relocation, key_of, owner_of, place_under};
use super::segment::ClosedSegment;
use super::values::{self, LineOwner};
use super::{Alive, disk, scan};

/// Segments as they are to be; nobody sees it yet.
#[derive(Debug)]
pub(super) struct RewrittenRun {
    draft: PathBuf,
    target: PathBuf,
    /// Those that it holds besides the one whose place it takes.
    others: Vec<PathBuf>,
    pub(super) batch: Batch,
    /// A file with damaged bytes of which nobody knows whose they are.
    pub(super) nobody_knows: Option<PathBuf>,
    /// How many bytes fewer there are.
    pub(super) shorter: u64,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum CompactionError {
    #[error("write a segment of the journal anew")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Index(#[from] IndexFault),
    #[error("the header of {} is damaged", .0.display())]
    Damaged(PathBuf),
}

/// Writes a run of neighbours anew into a draft. `erased_through`: everything that was erased up to there is known to the index.
pub(super) fn rewrite(
    run: &[ClosedSegment],
    db: &Db,
    erased_through: JournalPosition,
    alive: &Alive,
) -> Result<Option<RewrittenRun>, CompactionError> {
    let (Some(oldest), Some(newest)) = (run.first(), run.last()) else {
        return Ok(None);
    };
    let (first, through) = (oldest.segment.first, newest.segment.through());
    let header = header_of(run, oldest, through)?;
    let generation = header.generation;
    let mut rewritten = vec![];
    line::encode(&JournalRecord::Header(header), &mut rewritten).map_err(io::Error::other)?;
    let mut relocation = Relocation::new(db, first..=through, erased_through);
    let mut owners = BTreeSet::new();
    // Also where the lines that made this its home never reached the disk.
    for (owner, _) in index::erased(db)? {
        owners.extend(run.iter().map(|it| (owner.clone(), it.segment.first)));
    }
    let mut bytes_before = 0;
    let mut nobody_knows = None;
    for part in run {
        alive.tell();
        let bytes = fs::read(&part.segment.path)?;
        bytes_before += bytes.len() as u64;
        let mut at = usize::try_from(part.segment.body_at).unwrap_or(usize::MAX);
        let mut last_pos = part.segment.first.saturating_sub(1);
        while at < bytes.len() {
            let checked = line::check(&bytes[at..]);
            let parsed = checked.and_then(|(rec, length)| Some((line::parse(rec).ok()?, length)));
            let Some((rec, length)) = parsed else {
                // Behind the last line that counts there may be half of one.
                if last_pos >= part.limit {
                    break;
                }
                let next = line::next_readable(&bytes, at);
                let piece = &bytes[at..next];
                if keep_damaged(db, piece, &mut rewritten, &mut relocation)? {
                    nobody_knows = Some(part.segment.path.clone());
                }
                at = next;
                continue;
            };
            let Some(place) = rec.place().filter(|it| it.pos <= part.limit) else {
                break;
            };
            last_pos = place.pos;
            owners.extend(owner_of(&rec).map(|it| (it, part.segment.first)));
            let here = BodyPlace::new(part.segment.first, at as u64, length);
            if stays(db, &rec, here)? {
                let now = BodyPlace::new(first, rewritten.len() as u64, length);
                relocation.line(&rec, now)?;
                rewritten.extend_from_slice(&bytes[at..at + length]);
            }
            at += length;
        }
    }
    let mut batch = relocation.finish(generation, owners);
    for part in &run[1..] {
        batch.remove(values::segment(part.segment.first));
    }
    let target = oldest.segment.path.clone();
    let draft = target.with_extension("tmp");
    write_draft(&draft, &rewritten)?;
    failpoint::pass("compact.mid");
    Ok(Some(RewrittenRun {
        draft,
        target,
        others: run[1..].iter().map(|it| it.segment.path.clone()).collect(),
        batch,
        nobody_knows,
        shorter: bytes_before.saturating_sub(rewritten.len() as u64),
    }))
}

fn write_draft(draft: &Path, bytes: &[u8]) -> io::Result<()> {
    let _left_over = fs::remove_file(draft);
    let written = disk::create_new(draft).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if written.is_err() {
        let _not_there = fs::remove_file(draft);
    }
    written
}

impl RewrittenRun {
    /// Puts it where the oldest of the run was.
    pub(super) fn replace(&self) -> io::Result<()> {
        let replaced = disk::rename(&self.draft, &self.target);
        if replaced.is_err() {
            // It is there still where the rename itself failed.
            let _not_there = fs::remove_file(&self.draft);
        }
        failpoint::pass("compact.replaced");
        replaced
    }

    /// Takes away what it holds of others, once the index knows.
    pub(super) fn remove_others(&self) -> io::Result<()> {
        failpoint::pass("compact.applied");
        for path in &self.others {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        match self.target.parent() {
            Some(journal) if !self.others.is_empty() => disk::sync_dir(journal),
            Some(_) | None => Ok(()),
        }
    }
}

/// The header of what a run becomes.
fn header_of(
    run: &[ClosedSegment],
    oldest: &ClosedSegment,
    through: JournalPosition,
) -> Result<SegmentHeader, CompactionError> {
    let Some(header) = &oldest.segment.header else {
        let path = oldest.segment.path.clone();
        return Err(CompactionError::Damaged(path));
    };
    let generations = run.iter().filter_map(|it| it.segment.header.as_ref());
    let newest = generations.map(|it| it.generation).max();
    Ok(SegmentHeader {
        format: FORMAT,
        compacted: true,
        generation: 1 + newest.unwrap_or_default(),
        through: (through > oldest.segment.first).then_some(through),
        rewritten: Some(clock::now()),
        ..header.clone()
    })
}

/// Damaged bytes stay as they are, for somebody may still read something of them; those of somebody who was deleted go with him.
/// Returns whether nobody knows whose they are.
fn keep_damaged(
    db: &Db,
    piece: &[u8],
    rewritten: &mut Vec<u8>,
    relocation: &mut Relocation<'_>,
) -> Result<bool, IndexFault> {
    let named = scan::named_in(piece);
    for conversation in &named {
        if index::is_deleted(db, *conversation)? {
            return Ok(false);
        }
    }
    rewritten.extend_from_slice(piece);
    for conversation in &named {
        relocation.holds(LineOwner::conversation(*conversation));
    }
    Ok(named.is_empty())
}

/// Whether a line that stands `here` is to be kept.
fn stays(db: &Db, rec: &JournalRecord<'_>, here: BodyPlace) -> Result<bool, IndexFault> {
    let Some(key) = key_of(rec)? else {
        // What replays over an old index must still hear of the deletion.
        return Ok(true);
    };
    let known = place_under(db, &key)?;
    if known == Some(here) {
        return Ok(true);
    }
    Ok(match rec {
        JournalRecord::Event(it) => {
            let owner = LineOwner::conversation(it.conversation);
            erased_at(db, &owner)?.is_none_or(|erased| erased < it.place.pos)
        }
        JournalRecord::Note(_) => known.is_none_or(|it| it < here),
        JournalRecord::Partial(_) => false,
        JournalRecord::Audit(_) | JournalRecord::Delete(_) | JournalRecord::Header(_) => true,
    })
}

/// Where something was erased, while it may still be in the journal.
pub(super) fn erased_at(db: &Db, owner: &LineOwner) -> Result<Option<JournalPosition>, IndexFault> {
    let pos = db.get(owner.erased())?;
    Ok(pos.and_then(|it| <[u8; 8]>::try_from(&*it).ok().map(u64::from_be_bytes)))
}
