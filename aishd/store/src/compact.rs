//! Taking deleted conversations, and notes that newer ones replaced, out of closed segments, one segment a step.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Write as _};

use aish_proto::id::ConversationId;
use aishd_platform::failpoint;

use super::disk;
use super::line::{self, JournalPosition, JournalRecord, SegmentHeader};
use super::segment::ClosedSegment;

/// Rewrites one segment without what the deleted conversations said before they were deleted, and without notes whose keys
/// are `noted` in segments after it; it learns those of this one. What stands behind its limit was never acknowledged: it
/// replaces nothing, and goes. Returns how many bytes it became shorter. A segment with a line
/// that cannot be read is left alone.
pub(super) fn segment(
    ClosedSegment { segment, limit }: &ClosedSegment,
    deleted: &HashMap<ConversationId, JournalPosition>,
    noted: &mut HashSet<String>,
) -> io::Result<u64> {
    let Some(header) = &segment.header else {
        return Ok(0);
    };
    let bytes = fs::read(&segment.path)?;
    let body_at = usize::try_from(segment.body_at).unwrap_or(usize::MAX);
    let body = bytes.get(body_at..).unwrap_or_default();
    let Some(kept) = rewrite_without(body, *limit, deleted, noted) else {
        return Ok(0);
    };
    let header = SegmentHeader {
        compacted: true,
        ..header.clone()
    };
    let mut rewritten = vec![];
    line::encode(&JournalRecord::Header(header), &mut rewritten).map_err(io::Error::other)?;
    rewritten.extend_from_slice(&kept);

    let draft = segment.path.with_extension("tmp");
    let _left_over = fs::remove_file(&draft);
    let written = disk::create_new(&draft).and_then(|mut file| {
        file.write_all(&rewritten)?;
        file.sync_all()
    });
    failpoint::pass("compact.mid");
    let replaced = written.and_then(|()| disk::rename(&draft, &segment.path));
    if replaced.is_err() {
        let _not_there = fs::remove_file(&draft);
    }
    replaced?;
    Ok((bytes.len() as u64).saturating_sub(rewritten.len() as u64))
}

/// The lines that stay; `None` if all do, or one cannot be read.
fn rewrite_without(
    body: &[u8],
    limit: JournalPosition,
    deleted: &HashMap<ConversationId, JournalPosition>,
    noted: &mut HashSet<String>,
) -> Option<Vec<u8>> {
    let counted = live_body(body, limit)?;
    let newest = newest_notes(counted)?;
    let gone =
        |conversation, pos: JournalPosition| deleted.get(&conversation).is_some_and(|it| pos < *it);
    let mut kept = Vec::with_capacity(counted.len());
    let mut rest = counted;
    while !rest.is_empty() {
        let (rec, length) = line::check(rest)?;
        let drop = match line::parse(rec).ok()? {
            JournalRecord::Event(it) => gone(it.conversation, it.place.pos),
            JournalRecord::Partial(it) => gone(it.conversation, it.place.pos),
            JournalRecord::Note(it) => {
                noted.contains(&it.key) || newest.get(&it.key) != Some(&it.place.pos)
            }
            // What replays over an old index must still hear of the deletion, and what was told of it stays.
            JournalRecord::Delete(_) | JournalRecord::Header(_) | JournalRecord::Audit(_) => false,
        };
        if !drop {
            kept.extend_from_slice(&rest[..length]);
        }
        rest = &rest[length..];
    }
    noted.extend(newest.into_keys());
    (kept.len() < body.len()).then_some(kept)
}

/// The lines up to `limit`.
fn live_body(body: &[u8], limit: JournalPosition) -> Option<&[u8]> {
    let mut length = 0;
    // Behind the last line that counts there may be half of one.
    let mut ends = false;
    while length < body.len() && !ends {
        let (rec, bytes) = line::check(&body[length..])?;
        let pos = line::parse(rec).ok()?.place()?.pos;
        if pos > limit {
            break;
        }
        length += bytes;
        ends = pos == limit;
    }
    Some(&body[..length])
}

/// Where the last note of each key stands.
fn newest_notes(mut body: &[u8]) -> Option<HashMap<String, JournalPosition>> {
    let mut newest = HashMap::new();
    while !body.is_empty() {
        let (rec, length) = line::check(body)?;
        if let JournalRecord::Note(it) = line::parse(rec).ok()? {
            newest.insert(it.key, it.place.pos);
        }
        body = &body[length..];
    }
    Some(newest)
}
