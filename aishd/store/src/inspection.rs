//! What a store looks like to somebody who does not open it, because it may be one that cannot be opened: no lock is taken,
//! nothing is repaired and nothing is written. Of the index only its presence is seen; it is made again from the journal.

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use super::line::{FORMAT, JournalRecord};
use super::recover::total_bytes;
use super::scan::{self, ScanError};
use super::segment;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLook {
    /// There is none yet.
    Nothing,
    Whole(WholeReading),
    /// A newer program wrote it, in this format; ours is the other.
    Newer {
        found: u32,
        known: u32,
    },
    /// Why it cannot be read.
    Broken(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WholeReading {
    pub journal_bytes: u64,
    pub conversations: usize,
    /// Bytes of a last write that was not finished: they are cut off at the next start.
    pub torn: u64,
    /// The index is there.
    pub has_index: bool,
    /// There was no time for all of it.
    pub is_part: bool,
}

/// Reads the journal in `dir`, until then at most. Blocks.
pub fn look(dir: &Path, until: Instant) -> StoreLook {
    let broken = |error: std::io::Error| StoreLook::Broken(format!("it cannot be read: {error}"));
    let has_index = match dir.join("db").try_exists() {
        Ok(there) => there,
        Err(error) => return broken(error),
    };
    let segments = match segment::list(&dir.join("journal")) {
        Ok(segments) => segments,
        Err(error) => return broken(error),
    };
    match segments.iter().filter_map(|it| it.format).max() {
        Some(found) if found > FORMAT => {
            let known = FORMAT;
            return StoreLook::Newer { found, known };
        }
        Some(_) => {}
        None if segments.is_empty() && has_index => {
            return StoreLook::Broken(
                "its journal is gone, and only its index is there".to_owned(),
            );
        }
        None if segments.is_empty() => return StoreLook::Nothing,
        None => {}
    }
    let mut conversations = HashSet::new();
    let mut is_part = false;
    let read = scan::read(&segments, None, &mut |commit| {
        for (rec, _) in commit {
            match rec {
                JournalRecord::Event(it) => drop(conversations.insert(it.conversation)),
                JournalRecord::Delete(it) => drop(conversations.remove(&it.conversation)),
                JournalRecord::Header(_)
                | JournalRecord::Partial(_)
                | JournalRecord::Note(_)
                | JournalRecord::Audit(_) => {}
            }
        }
        is_part = Instant::now() >= until;
        if is_part {
            return Err("there was no time for the rest".to_owned());
        }
        Ok(())
    });
    let torn = match read {
        Ok(ended) if !ended.damage.is_empty() => {
            return StoreLook::Broken(ended.damage[0].to_string());
        }
        Ok(ended) => ended.torn,
        Err(ScanError::Refused(_)) if is_part => 0,
        Err(error @ ScanError::Refused(_)) => return StoreLook::Broken(error.to_string()),
        Err(ScanError::Io(error)) => return broken(error),
    };
    StoreLook::Whole(WholeReading {
        journal_bytes: total_bytes(&segments),
        conversations: conversations.len(),
        torn,
        has_index,
        is_part,
    })
}
