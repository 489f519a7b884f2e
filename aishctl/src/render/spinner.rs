//! The row that says what is waited for, on a terminal's stderr and only after a while.

use std::time::Duration;

use tokio::time::Instant;

use crate::render::table;

/// What is faster than this needs no word.
pub const SHOWN_AFTER: Duration = Duration::from_millis(400);
const FRAME: Duration = Duration::from_millis(100);
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// Narrower than any terminal, so that it is one row.
pub const COLUMNS: usize = 60;

/// Takes the row away and leaves the cursor at its beginning.
pub const ERASE: &str = "\r\u{1b}[K";

/// Turns while nothing has come.
#[derive(Debug)]
pub struct Spinner {
    began: Instant,
    next: Instant,
    frame: usize,
    over: bool,
}

impl Spinner {
    pub fn new(began: Instant) -> Self {
        Self {
            began,
            next: began + SHOWN_AFTER,
            frame: 0,
            over: false,
        }
    }

    /// There is something better to look at.
    pub fn stop(&mut self) {
        self.over = true;
    }

    /// Returns when the next row is due; never once it has stopped.
    pub async fn turned(&self) {
        if self.over {
            std::future::pending::<()>().await;
        } else {
            tokio::time::sleep_until(self.next).await;
        }
    }

    /// Nothing comes again, from now on.
    pub fn begin_again(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// The row as it is now, for the model of that name.
    pub fn row(&mut self, model: Option<&str>, now: Instant) -> String {
        let model = model.map(|it| format!("{it} · ")).unwrap_or_default();
        let seconds = now.duration_since(self.began).as_secs();
        self.turn(&format!("{model}waiting for first token {seconds} s"), now)
    }

    /// A row that says something else.
    pub fn turn(&mut self, said: &str, now: Instant) -> String {
        self.next = now + FRAME;
        let sign = FRAMES
            .get(self.frame % FRAMES.len())
            .copied()
            .unwrap_or_default();
        self.frame += 1;
        table::cut(&format!("{sign} {said}"), COLUMNS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_turns_after_a_while_and_never_once_it_stopped() {
        let began = Instant::now();
        let mut spinner = Spinner::new(began);
        spinner.turned().await;
        assert_eq!(SHOWN_AFTER, began.elapsed());
        assert_eq!(
            "⠋ deep · waiting for first token 0 s",
            spinner.row(Some("deep"), Instant::now())
        );
        spinner.turned().await;
        assert_eq!(SHOWN_AFTER + FRAME, began.elapsed());
        assert_eq!(
            "⠙ waiting for first token 3 s",
            spinner.row(None, began + Duration::from_secs(3))
        );
        let long = spinner.row(Some(&"m\u{1b}\n".repeat(99)), Instant::now());
        assert!(!long.contains(['\u{1b}', '\n']) && long.chars().count() <= COLUMNS);
        spinner.stop();
        let more = tokio::time::timeout(Duration::from_secs(9), spinner.turned());
        assert!(more.await.is_err());
    }
}
