//! Reading the parts of the journal again, one at a time: what a disk loses is found while a backup still has it, and not when
//! somebody wants to read it.

use std::path::Path;

use super::line::{self, JournalPosition, JournalRecord};
use super::scan::JournalDamage;
use super::segment::{self, JournalSegment};
use super::{ReadError, Store};

/// How far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubPlace(JournalPosition);

impl Store {
    /// Reads the next segment. Returns where to go on; `None`: that was the last one. What is damaged is in
    /// [`super::Health::damage`] from then on. Blocks.
    pub fn scrub(&self, after: ScrubPlace) -> Result<Option<ScrubPlace>, ReadError> {
        let failed = |it: std::io::Error| ReadError::Unavailable(it.to_string());
        let journal = self.shared.dir.join("journal");
        let segments = segment::list(&journal).map_err(failed)?;
        let Some(at) = segments.iter().position(|it| it.first > after.0) else {
            return Ok(None);
        };
        let next = &segments[at];
        let bytes = match std::fs::read(&next.path) {
            Ok(bytes) => bytes,
            // It was written anew with its neighbours.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => vec![],
            Err(error) => return Err(failed(error)),
        };
        let behind = segments.get(at + 1).and_then(|it| it.header.as_ref());
        // It may have been written anew since the list was made.
        let header = line::check(&bytes).and_then(|(rec, _)| line::parse(rec).ok());
        let is_compacted = match header {
            Some(JournalRecord::Header(it)) => it.compacted,
            _ => true,
        };
        // A segment that was written anew may have lost its last lines with good reason.
        let through = behind.map(|it| it.after).filter(|_| !is_compacted);
        let found = damage_in(next, &bytes, through.unwrap_or(0));
        self.shared.update(|it| {
            for damage in found.iter().filter(|found| !it.damage.contains(found)) {
                tracing::error!(%damage, "the store is damaged: aishctl store check");
            }
            let is_there = |file: &Path| segments.iter().any(|it| it.path == file);
            it.damage
                .retain(|known| known.file != next.path && is_there(&known.file));
            it.damage.extend(found);
        });
        Ok(Some(ScrubPlace(next.first)))
    }
}

/// `through`: what it has up to there was acknowledged.
fn damage_in(
    segment: &JournalSegment,
    bytes: &[u8],
    through: JournalPosition,
) -> Vec<JournalDamage> {
    let mut found = vec![];
    let (mut at, mut last) = (0, segment.first.saturating_sub(1));
    while at < bytes.len() {
        if let Some((rec, length)) = line::check(&bytes[at..]) {
            let place = line::parse(rec).ok().and_then(|it| it.place());
            last = place.map_or(last, |it| it.pos);
            at += length;
            continue;
        }
        let next = line::next_readable(bytes, at);
        // Behind the last line that counts there may be half of one.
        if next < bytes.len() || last < through {
            let damage =
                JournalDamage::at(segment, at as u64, last + 1..=through, &bytes[at..next]);
            found.push(damage);
        }
        if next == bytes.len() {
            return found;
        }
        at = next;
    }
    if last < through {
        found.push(JournalDamage {
            offset: bytes.len() as u64,
            ..JournalDamage::of(&segment.path, "records at its end are missing")
        });
    }
    found
}
