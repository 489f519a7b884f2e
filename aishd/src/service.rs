//! The service manager: what we tell it while we start, run, reload and stop. Where there is none, nothing
//! is said.
//!
//! The watchdog is fed by the store's writer and by nobody else: a task of the runtime asks the writer for a sign of
//! life, and the writer gives it. When either of them hangs, the service manager notices and starts us again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tokio::time::MissedTickBehavior;

/// Reading a long journal may take this much longer from each sign of life on.
const MORE_TIME: Duration = Duration::from_secs(30);
/// A start that is shorter needs no more time.
const SHORT_START: Duration = Duration::from_secs(5);
/// Signs of life come in thousands while a journal is read; the service manager needs few.
const SPARING: Duration = Duration::from_secs(1);
/// Nor has it to hear of every turn.
const BETWEEN_STATUSES: Duration = Duration::from_millis(250);

/// We serve.
pub fn ready() {
    notify(&[NotifyState::Ready]);
}

/// We are going; what still runs has a little time.
pub fn stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
}

/// One line for `systemctl status`.
fn status(text: &str) {
    notify(&[NotifyState::Status(text)]);
}

/// Reads the configuration again, between the words that let `systemctl reload` wait for it.
pub fn reloading<T>(reload: impl FnOnce() -> T) -> T {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "the monotonic clock"),
    }
    let done = reload();
    notify(&[NotifyState::Ready]);
    done
}

/// How often the writer is to be asked; `None` when nobody watches.
pub fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|it| it / 3)
}

/// Asks for a sign of life again and again, one at a time. `beat` returns once it was given.
pub async fn feed<F: Future<Output = ()>>(every: Duration, beat: impl Fn() -> F) {
    let mut tick = tokio::time::interval(every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        beat().await;
    }
}

/// Says how many conversations are open and how many turns run, whenever that is different.
pub async fn report<F: Future<Output = ()>>(
    now: impl Fn() -> (usize, usize),
    changed: impl Fn() -> F,
) {
    let mut said = String::new();
    loop {
        let (open, running) = now();
        let text = load(open, running);
        if text != said {
            status(&text);
            said = text;
        }
        changed().await;
        tokio::time::sleep(BETWEEN_STATUSES).await;
    }
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "tell the service manager");
    }
}

/// Signs of life of the store, passed on: more time while it opens, the watchdog's food afterwards.
#[derive(Debug)]
pub struct StorePulse {
    began: Instant,
    ready: AtomicBool,
    sparing: Duration,
    /// Milliseconds after `began`.
    last: AtomicU64,
}

impl StorePulse {
    pub fn new(watchdog: Option<Duration>) -> Self {
        Self {
            began: Instant::now(),
            ready: AtomicBool::new(false),
            // Shorter than the time between two questions, so that each answer counts.
            sparing: watchdog.map_or(SPARING, |it| SPARING.min(it / 2)),
            last: AtomicU64::new(0),
        }
    }

    /// From now on the watchdog runs.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    /// The store gets on. Called by the thread that does its work.
    pub fn beat(&self) {
        let now = self.began.elapsed();
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let since = now_ms.saturating_sub(self.last.load(Ordering::Relaxed));
        if u128::from(since) < self.sparing.as_millis() {
            return;
        }
        self.last.store(now_ms, Ordering::Relaxed);
        if self.ready.load(Ordering::Relaxed) {
            notify(&[NotifyState::Watchdog]);
        } else if now > SHORT_START {
            let more = u32::try_from(MORE_TIME.as_micros()).unwrap_or(u32::MAX);
            let status = "reading the journal";
            notify(&[
                NotifyState::ExtendTimeoutUsec(more),
                NotifyState::Status(status),
            ]);
        }
    }
}

/// `2 conversations open, 1 turn running`.
fn load(open: usize, running: usize) -> String {
    let some = |count: usize, one: &str| {
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {one}{plural}")
    };
    match (open, running) {
        (0, _) => "idle".to_owned(),
        (open, 0) => format!("{} open", some(open, "conversation")),
        (open, running) => format!(
            "{} open, {} running",
            some(open, "conversation"),
            some(running, "turn")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_a_sentence() {
        assert_eq!("idle", load(0, 0));
        assert_eq!("1 conversation open", load(1, 0));
        assert_eq!("2 conversations open, 1 turn running", load(2, 1));
        assert_eq!("2 conversations open, 2 turns running", load(2, 2));
    }
}
