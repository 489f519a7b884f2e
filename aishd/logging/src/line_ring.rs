//! The last lines of the log, for clients that ask. Who reads too slowly loses lines and learns how many.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

/// What is kept at most.
const KEPT_BYTES: usize = 256 * 1024;
/// A longer line is cut, with a mark.
const LINE_BYTES: usize = 8 * 1024;
const CUT: &str = " [cut]";

/// Lines in their order; cheap to clone. The first line ever has the number 0.
#[derive(Clone, Debug)]
pub struct LogRing {
    kept: Arc<Mutex<RingLines>>,
    /// The number of the line to come.
    next: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct RingLines {
    lines: VecDeque<Arc<str>>,
    bytes: usize,
    /// The number of the first one that is left.
    first: u64,
}

/// Lines from a position on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingPage {
    pub lines: Vec<Arc<str>>,
    /// Lines between the position and the first of these that are gone.
    pub missed: u64,
    /// Where to go on.
    pub next: u64,
}

impl Default for LogRing {
    fn default() -> Self {
        Self {
            kept: Arc::default(),
            next: watch::channel(0).0,
        }
    }
}

impl LogRing {
    pub(super) fn push(&self, line: &str) {
        let mut line = line.to_owned();
        if line.len() > LINE_BYTES {
            line.truncate(line.floor_char_boundary(LINE_BYTES));
            line.push_str(CUT);
        }
        let mut kept = self.lock_lines();
        kept.bytes += line.len();
        kept.lines.push_back(line.into());
        while kept.bytes > KEPT_BYTES {
            let Some(oldest) = kept.lines.pop_front() else {
                break;
            };
            kept.bytes -= oldest.len();
            kept.first += 1;
        }
        let next = kept.first + kept.lines.len() as u64;
        // Within the lock, so that numbers never go back.
        self.next.send_replace(next);
    }

    /// Lines with the number `position` and later, of about `max_bytes`; at least one, if any.
    pub fn after(&self, position: u64, max_bytes: usize) -> RingPage {
        let kept = self.lock_lines();
        let missed = kept.first.saturating_sub(position);
        let skip = usize::try_from(position.saturating_sub(kept.first)).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let mut lines = vec![];
        for line in kept.lines.iter().skip(skip) {
            bytes += line.len();
            if bytes > max_bytes && !lines.is_empty() {
                break;
            }
            lines.push(line.clone());
        }
        let next = position.max(kept.first) + lines.len() as u64;
        RingPage {
            lines,
            missed,
            next,
        }
    }

    /// Where the last `count` lines begin that are kept.
    pub fn tail(&self, count: usize) -> u64 {
        let kept = self.lock_lines();
        kept.first + kept.lines.len().saturating_sub(count) as u64
    }

    /// Tells of new lines: the value is the number of the line to come.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.next.subscribe()
    }

    fn lock_lines(&self) -> MutexGuard<'_, RingLines> {
        self.kept.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(page: &RingPage) -> Vec<&str> {
        page.lines.iter().map(|it| &**it).collect()
    }

    #[test]
    fn it_is_read_from_any_position_in_pages() {
        let ring = LogRing::default();
        for line in ["a", "b", "c"] {
            ring.push(line);
        }
        assert_eq!(["a", "b", "c"][..], texts(&ring.after(0, 100)));
        let page = ring.after(0, 2);
        assert_eq!((&["a", "b"][..], 2), (&texts(&page)[..], page.next));
        assert_eq!(["c"][..], texts(&ring.after(page.next, 0)));
        assert_eq!((1, 3), (ring.tail(2), ring.tail(0)));
        assert_eq!((0, 3), (ring.tail(9), *ring.watch().borrow()));
        assert_eq!(0, ring.after(3, 100).lines.len());
    }

    #[test]
    fn who_is_too_slow_learns_how_many_lines_are_gone() {
        let ring = LogRing::default();
        let line = "x".repeat(1024);
        for _ in 0..300 {
            ring.push(&line);
        }
        let page = ring.after(0, usize::MAX);
        assert_eq!((44, 256, 300), (page.missed, page.lines.len(), page.next));
        assert_eq!(0, ring.after(page.next, 1).missed);
    }

    #[test]
    fn a_long_line_is_cut_where_a_character_ends() {
        let ring = LogRing::default();
        ring.push(&"ä".repeat(LINE_BYTES));
        let line = ring.after(0, 1).lines[0].clone();
        assert!(line.len() <= LINE_BYTES + CUT.len() && line.ends_with("ä [cut]"));
    }
}
