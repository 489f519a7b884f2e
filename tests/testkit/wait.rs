//! Waiting for a condition, with a limit and a message. The only polling that tests do.

use std::time::{Duration, Instant};

/// How long a test waits for something that should come at once: the machine may be slow, so it is generous.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Runs `probe` until it gives a value; panics with `what` when `limit` is over.
#[track_caller]
pub fn until<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(
            Instant::now() < deadline,
            "waited {limit:?} in vain for: {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `holds` until it is true, for [`PATIENCE`] at most.
#[track_caller]
pub fn until_true(what: &str, mut holds: impl FnMut() -> bool) {
    until(what, PATIENCE, || holds().then_some(()));
}

/// What is left until `deadline`; `None` when it is over.
pub(crate) fn left(deadline: Instant) -> Option<Duration> {
    deadline
        .checked_duration_since(Instant::now())
        .filter(|it| !it.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_returns_what_the_probe_found() {
        let mut rounds = 0;
        let found = until("the third round", PATIENCE, || {
            rounds += 1;
            (rounds == 3).then_some("here")
        });
        assert_eq!("here", found);
    }

    #[test]
    #[should_panic(expected = "in vain for: the sea to part")]
    fn it_says_what_did_not_come() {
        until("the sea to part", Duration::from_millis(20), || None::<()>);
    }
}
