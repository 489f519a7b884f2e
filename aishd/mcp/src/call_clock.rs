//! How long a call may still take. A person who is asked something on the way takes as long as people do:
//! that is not the server's time.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct SessionClock {
    patience: ReplyPatience,
    quiet: Instant,
    hard: Instant,
    /// Since when people are asked.
    stands_since: Option<Instant>,
}

impl SessionClock {
    pub(super) fn start(now: Instant, patience: ReplyPatience) -> Self {
        Self {
            patience,
            quiet: now + patience.quiet,
            hard: now + patience.longest,
            stands_since: None,
        }
    }

    /// The server said how far it is.
    pub(super) fn on_progress(&mut self, now: Instant) {
        self.quiet = now + self.patience.quiet;
    }

    /// So many questions wait for a person now.
    pub(super) fn people(&mut self, waiting: usize, now: Instant) {
        match (self.stands_since, waiting) {
            (None, 1..) => self.stands_since = Some(now),
            (Some(since), 0) => {
                self.stands_since = None;
                self.hard += now.duration_since(since);
                self.quiet = now + self.patience.quiet;
            }
            (None, 0) | (Some(_), 1..) => {}
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.stands_since.is_some()
    }

    /// When it is over, unless it stands.
    pub(super) fn end(&self) -> Instant {
        self.quiet.min(self.hard)
    }
}

/// How long an answer may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyPatience {
    /// Without any progress.
    pub(super) quiet: Duration,
    /// Whatever happens.
    pub(super) longest: Duration,
}

impl ReplyPatience {
    pub(super) fn once(time: Duration) -> Self {
        Self {
            quiet: time,
            longest: time,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Seconds from the start at which the clock runs out, after these: progress, people asked, people answered.
    #[track_caller]
    fn check(script: &[(&str, u64)], expected: Option<u64>) {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let patience = ReplyPatience {
            quiet: Duration::from_secs(10),
            longest: Duration::from_secs(30),
        };
        let mut clock = SessionClock::start(start, patience);
        for (what, seconds) in script {
            match *what {
                "progress" => clock.on_progress(at(*seconds)),
                "asked" => clock.people(1, at(*seconds)),
                "twice" => clock.people(2, at(*seconds)),
                "answered" => clock.people(0, at(*seconds)),
                other => panic!("{other}"),
            }
        }
        let end = (!clock.is_paused()).then(|| clock.end().duration_since(start).as_secs());
        assert_eq!(expected, end, "{script:?}");
    }

    #[test]
    fn people_have_their_own_time() {
        check(&[], Some(10));
        check(&[("progress", 8)], Some(18));
        check(&[("progress", 28)], Some(30));
        check(&[("asked", 5)], None);
        check(&[("asked", 5), ("twice", 6), ("asked", 900)], None);
        check(&[("asked", 5), ("answered", 905)], Some(915));
        check(
            &[("asked", 5), ("answered", 905), ("progress", 925)],
            Some(930),
        );
    }
}
