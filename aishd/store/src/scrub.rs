//! Reading old parts of the journal again, one at a time: what a disk loses is found while a backup still has it, and not when
//! somebody wants to read it.

use super::line::{self, JournalPosition};
use super::scan::JournalDamage;
use super::{ReadError, Store, segment};

/// How far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubPlace(JournalPosition);

impl Store {
    /// Reads the next closed segment. Returns where to go on; `None`: that was the last one. What is damaged is in
    /// [`super::Health::damage`] from then on. Blocks.
    pub fn scrub(&self, after: ScrubPlace) -> Result<Option<ScrubPlace>, ReadError> {
        let failed = |it: std::io::Error| ReadError::Unavailable(it.to_string());
        let journal = self.shared.dir.join("journal");
        let segments = segment::list(&journal).map_err(failed)?;
        let Some((_current, closed)) = segments.split_last() else {
            return Ok(None);
        };
        let Some(next) = closed.iter().find(|it| it.first > after.0) else {
            return Ok(None);
        };
        let bytes = match std::fs::read(&next.path) {
            Ok(bytes) => bytes,
            // It was written anew with its neighbours.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => vec![],
            Err(error) => return Err(failed(error)),
        };
        let found = damage_in(next, &bytes);
        self.shared.update(|it| {
            it.damage.retain(|known| known.file != next.path);
            it.damage.extend(found);
        });
        Ok(Some(ScrubPlace(next.first)))
    }
}

fn damage_in(segment: &segment::JournalSegment, bytes: &[u8]) -> Vec<JournalDamage> {
    let mut found = vec![];
    let mut at = 0;
    while at < bytes.len() {
        if let Some((_, length)) = line::check(&bytes[at..]) {
            at += length;
            continue;
        }
        let next = line::next_readable(bytes, at);
        // Behind the last line that counts there may be half of one.
        if next < bytes.len() {
            found.push(JournalDamage::at(segment, at as u64, &bytes[at..next]));
        }
        at = next;
    }
    found
}
