//! How large a person lets the store become.

use std::sync::atomic::{AtomicU64, Ordering};

/// A word is said when so much of it is taken, in hundredths.
const NEARLY: u64 = 90;

/// Sizes are in bytes; the journal and the index count together.
#[derive(Debug, Default)]
pub(super) struct SizeLimit {
    /// 0: there is none.
    most: AtomicU64,
    index_bytes: AtomicU64,
}

impl SizeLimit {
    pub(super) fn set(&self, most: Option<u64>) {
        self.most.store(most.unwrap_or(0), Ordering::Relaxed);
    }

    /// The index is so large now; it is looked at when it is opened and when it is flushed.
    pub(super) fn note_index(&self, bytes: u64) {
        self.index_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The limit, and how much is taken of it.
    pub(super) fn taken(&self, journal_bytes: u64) -> Option<(u64, u64)> {
        let most = self.most.load(Ordering::Relaxed);
        let taken = journal_bytes + self.index_bytes.load(Ordering::Relaxed);
        (most > 0).then_some((most, taken))
    }

    /// What may still be written; `None`: as much as the disk takes.
    pub(super) fn left(&self, journal_bytes: u64) -> Option<u64> {
        let (most, taken) = self.taken(journal_bytes)?;
        Some(most.saturating_sub(taken))
    }

    /// A word for people where the limit is near.
    pub(super) fn warning(&self, journal_bytes: u64) -> Option<String> {
        let (most, taken) = self.taken(journal_bytes)?;
        let hundredths = taken.saturating_mul(100) / most;
        (hundredths >= NEARLY).then(|| {
            format!("the store takes {hundredths} % of what it may (store.max_bytes = {most})")
        })
    }
}
