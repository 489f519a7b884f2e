//! The row of an answer that is being written: it stands above the line until it is whole and goes to the rows above.

use std::time::Duration;

use tokio::time::Instant;

use super::OpenWindow;
use super::ui::UserInterface;

/// It is drawn anew so often at most, however fast a model writes.
const REST: Duration = Duration::from_millis(60);

#[derive(Debug, Default)]
pub(super) struct BegunRow {
    shown: Option<(String, usize)>,
    changed_at: Option<Instant>,
    /// What is shown is not all of it.
    is_behind: bool,
}

impl BegunRow {
    /// What to show of a row that has come so far, with its columns. Another row than before is shown at once.
    fn take(&mut self, row: Option<(String, usize)>, now: Instant) -> Option<&str> {
        let goes_on = match (&self.shown, &row) {
            (Some((_, before)), Some((_, columns))) => columns >= before,
            _ => false,
        };
        let rests = self.changed_at.is_some_and(|it| now < it + REST);
        self.is_behind = goes_on && rests && row != self.shown;
        if !self.is_behind && row != self.shown {
            self.shown = row;
            self.changed_at = Some(now);
        }
        self.shown.as_ref().map(|(row, _)| row.as_str())
    }

    /// When there is more of it to be shown.
    fn due(&self) -> Option<Instant> {
        self.changed_at
            .filter(|_| self.is_behind)
            .map(|it| it + REST)
    }
}

impl<U: UserInterface> OpenWindow<U> {
    /// The one row above the line: what goes on, or else what is being written.
    pub(super) fn show_live(&mut self) {
        // In a pipe there is no such row, and nothing to be found out for it.
        if !self.has_editor() {
            return;
        }
        let now = Instant::now();
        let columns = self.display.ui.columns().unwrap_or_default();
        let begun = self.begun.take(self.rows.row_begun(columns), now);
        let (on, off) = match self.window.look.is_colored() {
            true => ("\u{1b}[2m", "\u{1b}[0m"),
            false => ("", ""),
        };
        let live = self.live.row(now, columns);
        let live = live.map(|it| format!("{on}{it}{off}"));
        self.display.ui.live(live.or(begun.map(str::to_owned)));
    }

    /// When that row is another one by itself.
    pub(super) fn live_due(&self) -> Option<Instant> {
        let dues = [self.live.due(Instant::now()), self.begun.due()];
        dues.into_iter()
            .flatten()
            .min()
            .filter(|_| self.has_editor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> (String, usize) {
        (text.to_owned(), text.len())
    }

    #[test]
    fn a_fast_model_draws_it_now_and_then_and_its_end_at_once() {
        let (mut begun, start) = (BegunRow::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(Some("a"), begun.take(Some(row("a")), at(0)));
        assert_eq!(Some("a"), begun.take(Some(row("a b")), at(10)));
        assert_eq!(Some(at(60)), begun.due());
        assert_eq!(Some("a b c"), begun.take(Some(row("a b c")), at(60)));
        assert_eq!(None, begun.due());
        // The row was whole, and the next one has begun.
        assert_eq!(Some("d"), begun.take(Some(row("d")), at(61)));
        assert_eq!(None, begun.take(None, at(62)));
    }
}
