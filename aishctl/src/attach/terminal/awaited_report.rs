//! Whether the terminal was asked something a moment ago: then what may be the beginning of its answer waits for the rest.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// An answer that comes later is taken out of the keys only where it comes in one piece.
const EXPECTED_FOR: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct AwaitedReport(Mutex<Option<Instant>>);

impl AwaitedReport {
    pub(super) fn expect(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    pub(super) fn is_expected(&self) -> bool {
        self.0.lock().is_some_and(|it| it.elapsed() < EXPECTED_FOR)
    }
}
