//! The last words of a server: what a child wrote to its standard error, and what any told of itself; 64 KiB of it.

use std::collections::VecDeque;
use std::sync::Arc;

use aishd_platform::clock;
use parking_lot::Mutex;

const RING_BYTES: usize = 64 << 10;

/// Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub(super) struct StderrRing(Arc<Mutex<StderrLines>>);

#[derive(Debug, Default)]
struct StderrLines {
    bytes: VecDeque<u8>,
    lost: u64,
}

impl StderrRing {
    pub(super) fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock();
        let skipped = bytes.len().saturating_sub(RING_BYTES);
        kept.bytes.extend(&bytes[skipped..]);
        let over = kept.bytes.len().saturating_sub(RING_BYTES);
        kept.bytes.drain(..over);
        kept.lost += (skipped + over) as u64;
    }

    /// A line of ours.
    pub(super) fn push(&self, text: &str) {
        let now = clock::rfc3339(clock::now());
        self.add(format!("[aish] {now} {text}\n").as_bytes());
    }

    /// A line of what the server told the client, which is none of its standard error.
    pub(super) fn said(&self, text: &str) {
        let now = clock::rfc3339(clock::now());
        self.add(format!("[log] {now} {text}\n").as_bytes());
    }

    /// What is kept, and how many bytes before it are gone.
    pub(super) fn text(&self) -> (String, u64) {
        let mut kept = self.0.lock();
        let bytes: &[u8] = kept.bytes.make_contiguous();
        (String::from_utf8_lossy(bytes).into_owned(), kept.lost)
    }

    /// The last line that the child wrote.
    pub(super) fn last_line(&self) -> Option<String> {
        let (text, _) = self.text();
        let mut lines = text.lines().rev();
        // Only those since it was started.
        let since = |it: &&str| !(it.starts_with("[aish] ") && it.contains(" started as process"));
        let lines = lines.by_ref().take_while(since);
        let ours = |it: &str| it.starts_with("[aish] ") || it.starts_with("[log] ");
        let mut lines = lines.filter(|it| !it.trim().is_empty() && !ours(it));
        lines.next().map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_64_kib_are_kept() {
        let ring = StderrRing::default();
        ring.add(&vec![b'a'; RING_BYTES]);
        ring.add(b"newest\n");
        let (text, lost) = ring.text();
        assert_eq!((RING_BYTES, 7), (text.len(), lost));
        assert!(text.ends_with("newest\n"));
        ring.add(&vec![b'b'; RING_BYTES * 3]);
        assert_eq!(RING_BYTES, ring.text().0.len());
        ring.add(b"\nlast words\n\n");
        ring.push("ended");
        ring.said("info server: done");
        assert_eq!(Some("last words".to_owned()), ring.last_line());
    }
}
