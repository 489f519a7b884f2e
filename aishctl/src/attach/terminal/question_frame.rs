//! The question that stands on the screen, and what counts as an answer to it: nothing that was typed before it stood
//! there, nor in the moment after.

use std::time::Instant;

use aish_proto::id::ConfirmId;

use crate::render::typed_lines::TYPE_AHEAD;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TerminalFrame {
    question: Option<ConfirmId>,
    /// Its rows wait to be drawn.
    queued: bool,
    /// When they were.
    drawn_at: Option<Instant>,
    /// When the line got its first character.
    begun_at: Option<Instant>,
}

impl TerminalFrame {
    /// The next rows are this question, or none stands any more.
    pub(super) fn asks(&mut self, question: Option<ConfirmId>) {
        self.question = question;
        self.queued = false;
        self.drawn_at = None;
    }

    /// Rows were added to those that wait.
    pub(super) fn rows(&mut self) {
        self.queued = self.question.is_some();
    }

    /// All that waited was drawn.
    pub(super) fn drawn(&mut self, now: Instant) {
        if self.queued {
            self.drawn_at.get_or_insert(now);
        }
    }

    /// The line is this now.
    pub(super) fn line(&mut self, line: &str, now: Instant) {
        if line.is_empty() {
            self.begun_at = None;
        } else {
            self.begun_at.get_or_insert(now);
        }
    }

    /// The question that a line answers which ends now. The next line begins.
    pub(super) fn end_line(&mut self) -> Option<ConfirmId> {
        let begun_at = self.begun_at.take()?;
        self.answered_at(begun_at)
    }

    /// The question that a key of this moment answers.
    pub(super) fn answered_at(&self, at: Instant) -> Option<ConfirmId> {
        let stands = |drawn: Instant| at.saturating_duration_since(drawn) >= TYPE_AHEAD;
        self.question.filter(|_| self.drawn_at.is_some_and(stands))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The question is drawn after a second; the line is begun and then ended at these milliseconds.
    #[track_caller]
    fn check(begun_ms: u64, is_answer: bool) {
        let (start, question) = (Instant::now(), ConfirmId::from_bytes([1; 16]));
        let at = |ms| start + Duration::from_millis(ms);
        let mut frame = TerminalFrame::default();
        if begun_ms < 1000 {
            frame.line("y", at(begun_ms));
        }
        frame.asks(Some(question));
        frame.drawn(at(500));
        frame.rows();
        frame.drawn(at(1000));
        frame.drawn(at(1200));
        if begun_ms >= 1000 {
            frame.line("y", at(begun_ms));
        }
        frame.line("ye", at(5000));
        let expected = is_answer.then_some(question);
        assert_eq!(expected, frame.end_line(), "{begun_ms}");
        assert_eq!(expected, frame.answered_at(at(begun_ms)));
        assert_eq!(None, frame.end_line());
    }

    #[test]
    fn what_was_typed_ahead_is_no_answer() {
        check(0, false);
        check(999, false);
        check(1000, false);
        check(1299, false);
        check(1300, true);
        check(9000, true);
    }

    #[test]
    fn a_question_that_is_not_drawn_or_does_not_stand_takes_no_answer() {
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(9));
        let question = ConfirmId::from_bytes([1; 16]);
        let mut frame = TerminalFrame::default();
        frame.drawn(now);
        frame.asks(Some(question));
        frame.drawn(now);
        assert_eq!(
            None,
            frame.answered_at(later),
            "rows from before were drawn"
        );
        frame.rows();
        assert_eq!(None, frame.answered_at(later));
        frame.drawn(now);
        assert_eq!(Some(question), frame.answered_at(later));
        frame.asks(None);
        assert_eq!(None, frame.answered_at(later));
    }
}
