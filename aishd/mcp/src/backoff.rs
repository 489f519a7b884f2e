//! When a server that failed is tried again: after 1, 2, 4 … 60 s, and a little more so that not all come at once.

use std::time::Duration;

use aishd_platform::clock;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// A session that lived so long was a good one: its end is the first failure again.
const GOOD: Duration = Duration::from_secs(30);
/// Not even who needs it tries it again sooner.
const LEAST: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    tried_at: Option<Instant>,
}

impl Backoff {
    pub(super) fn tried(&mut self) {
        self.tried_at = Some(Instant::now());
    }

    pub(super) fn may_try(&self) -> bool {
        self.tried_at.is_none_or(|it| it.elapsed() >= LEAST)
    }

    pub(super) fn lived(&mut self, time: Duration) {
        if time >= GOOD {
            self.failures = 0;
        }
    }

    /// The pause after one more failure.
    pub(super) fn next(&mut self) -> Duration {
        let pause = FIRST.saturating_mul(1 << self.failures.min(6)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        // Up to a tenth more.
        let chance = u32::try_from(clock::ulid().random() % 100).unwrap_or_default();
        pause + pause * chance / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_a_minute_and_begin_anew_after_a_good_session() {
        let mut backoff = Backoff::default();
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let pause = backoff.next();
            let most = Duration::from_secs(seconds).mul_f64(1.1);
            assert!(
                pause >= Duration::from_secs(seconds) && pause <= most,
                "{pause:?}"
            );
        }
        backoff.lived(Duration::from_secs(29));
        assert!(backoff.next() >= LONGEST);
        backoff.lived(GOOD);
        assert!(backoff.next() < FIRST * 2);
        assert!(backoff.may_try());
        backoff.tried();
        assert!(!backoff.may_try());
        tokio::time::advance(LEAST).await;
        assert!(backoff.may_try());
    }
}
