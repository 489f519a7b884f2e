//! Which closed segments are written anew, and which of them together.

use std::ops::Range;

/// Less that is dead is not worth a segment that is written anew.
const LEAST_DEAD_BYTES: u64 = 64 * 1024;
/// The same where everything is to go that can; a header counts as dead.
const LEAST_OF_EVERYTHING: u64 = 4 * 1024;
/// What is read for one, in segments.
const MOST_READ: u64 = 4;
/// So many small neighbours become one.
const MANY: usize = 4;

/// What is written anew when somebody waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CompactionGoal {
    /// What holds something that was deleted or forgotten.
    Erased,
    /// What holds anything that nobody speaks of any more.
    Everything,
}

/// A closed segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentFacts {
    pub(super) bytes: u64,
    pub(super) live_bytes: u64,
    /// It holds what is to leave every file.
    pub(super) holds_erased: bool,
}

impl SegmentFacts {
    fn is_due(&self, goal: CompactionGoal) -> bool {
        let dead = self.bytes.saturating_sub(self.live_bytes);
        let is_worth_it = match goal {
            CompactionGoal::Erased => dead >= LEAST_DEAD_BYTES && dead >= self.bytes / 2,
            CompactionGoal::Everything => dead >= LEAST_OF_EVERYTHING,
        };
        self.holds_erased || is_worth_it
    }

    fn is_small(&self, segment_bytes: u64) -> bool {
        self.live_bytes < segment_bytes / 4
    }
}

/// Runs of segments, each of which becomes one, the newest first. `segments` are in order; one becomes at most about as long
/// as `segment_bytes`.
pub(super) fn runs(
    segments: &[SegmentFacts],
    segment_bytes: u64,
    goal: CompactionGoal,
) -> Vec<Range<usize>> {
    let mut runs = vec![];
    let mut from = 0;
    while from < segments.len() {
        let mut to = from;
        let (mut live_bytes, mut bytes) = (0, 0);
        while let Some(next) = segments.get(to) {
            let is_meant = next.is_due(goal) || next.is_small(segment_bytes);
            // The writer does nothing else meanwhile.
            let fits = to == from
                || (live_bytes + next.live_bytes <= segment_bytes
                    && bytes + next.bytes <= MOST_READ * segment_bytes);
            if !(is_meant && fits) {
                break;
            }
            live_bytes += next.live_bytes;
            bytes += next.bytes;
            to += 1;
        }
        let run = &segments[from..to];
        let is_due = run.iter().any(|it| it.is_due(goal));
        if is_due || run.len() >= MANY {
            runs.push(from..to);
        }
        from = to.max(from + 1);
    }
    runs.reverse();
    runs
}

#[cfg(test)]
mod tests {
    use super::{CompactionGoal, SegmentFacts, runs};

    const FULL: u64 = 8 << 20;

    /// Segments by their bytes in KiB: all, live, and `!` for one with something erased.
    fn check(segments: &[&str], expected: &[(usize, usize)]) {
        check_for(CompactionGoal::Erased, segments, expected);
    }

    fn check_for(goal: CompactionGoal, segments: &[&str], expected: &[(usize, usize)]) {
        let facts = |text: &&str| {
            let holds_erased = text.ends_with('!');
            let text = text.trim_end_matches('!');
            let (bytes, live) = text.split_once('/').unwrap();
            let kib = |it: &str| it.parse::<u64>().unwrap() << 10;
            SegmentFacts {
                bytes: kib(bytes),
                live_bytes: kib(live),
                holds_erased,
            }
        };
        let segments: Vec<_> = segments.iter().map(facts).collect();
        let runs = runs(&segments, FULL, goal).into_iter();
        let runs: Vec<_> = runs.map(|it| (it.start, it.end)).collect();
        assert_eq!(expected, runs);
    }

    #[test]
    fn what_lives_stays_where_it_is() {
        check(&["8192/8192", "8192/5000", "8192/8000"], &[]);
        check(&["100/90"], &[]);
        check(&[], &[]);
    }

    #[test]
    fn what_is_mostly_dead_or_holds_what_was_erased_is_written_anew() {
        check(&["8192/8192", "8192/4000", "8192/8192"], &[(1, 2)]);
        check(&["8192/8192", "8192/8000!"], &[(1, 2)]);
        check(&["100/40"], &[]);
        check(&["100/10", "8192/8192"], &[(0, 1)]);
    }

    #[test]
    fn who_asks_for_everything_gets_what_is_less_than_half_dead_too() {
        let segments = ["8192/8192", "8192/8000", "8192/8190"];
        check(&segments, &[]);
        check_for(CompactionGoal::Everything, &segments, &[(1, 2)]);
    }

    #[test]
    fn neighbours_become_one_that_is_no_longer_than_any() {
        check(&["8192/0", "8192/0", "8192/100"], &[(0, 3)]);
        check(&["8192/4000", "8192/4000", "8192/4000"], &[(2, 3), (0, 2)]);
        check(&["90/90", "90/90", "90/90"], &[]);
        check(&["90/90", "90/90", "90/90", "90/90"], &[(0, 4)]);
        check(&["8192/8000", "90/90", "8192/10!"], &[(1, 3)]);
    }
}
