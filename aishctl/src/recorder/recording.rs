//! What is kept of a recorded shell: the output of the last command that ended, and of the one that runs.

use crate::recorder::kept_output::{KeptOutput, LatestOutput};
use crate::recorder::marks::{MarkScanner, ShellMark, TerminalPiece};
use crate::recorder::output_text::OutputText;

/// What a question takes along, in rows and in bytes.
const ROWS: usize = 100;
const BYTES: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct Recording {
    scanner: MarkScanner,
    word: String,
    running: Option<OutputText>,
    /// What is typed now is not shown, so what is printed is not kept.
    hidden: bool,
    latest: LatestOutput,
}

/// What came of bytes from the shell's terminal.
#[derive(Debug, Default)]
pub(crate) struct RecordedPiece {
    /// What the person's terminal is to see.
    pub(crate) shown: Vec<u8>,
    /// There is news for those who ask.
    pub(crate) latest: Option<LatestOutput>,
}

impl Recording {
    pub(crate) fn new(word: String) -> Self {
        Self {
            scanner: MarkScanner::new(word.clone()),
            word,
            running: None,
            hidden: false,
            latest: LatestOutput::default(),
        }
    }

    /// What is typed is not shown from here on. At its prompt a shell does that, and all is well.
    pub(crate) fn hide(&mut self) {
        self.hidden = self.running.is_some();
    }

    /// A command runs and has printed something.
    pub(crate) fn has_text(&self) -> bool {
        self.running.as_ref().is_some_and(OutputText::has_text)
    }

    pub(crate) fn unhide(&mut self) {
        self.hidden = false;
    }

    /// Takes in what the shell's terminal printed.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> RecordedPiece {
        let mut read = RecordedPiece::default();
        for piece in self.scanner.read(bytes) {
            match piece {
                TerminalPiece::Bytes(bytes) => {
                    if let Some(running) = &mut self.running {
                        running.add(&bytes, self.hidden);
                    }
                    read.shown.extend(bytes);
                }
                TerminalPiece::Mark(ShellMark::OutputBegins(_)) => {
                    self.running = Some(OutputText::default());
                    self.hidden = false;
                }
                TerminalPiece::Mark(ShellMark::Prompt(number)) => {
                    if let Some(ended) = self.running.take() {
                        self.latest.output = Some(self.end_of(&ended));
                    }
                    self.latest.prompt = number;
                    read.latest = Some(self.latest.clone());
                }
            }
        }
        read
    }

    /// What the scanner holds back still.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.scanner.rest()
    }

    fn end_of(&self, ended: &OutputText) -> KeptOutput {
        let (rows, all) = ended.finish();
        let mut room = BYTES;
        let fits = rows.iter().rev().take(ROWS).take_while(|row| {
            let fits = room > row.len();
            room = room.saturating_sub(row.len() + 1);
            fits
        });
        let kept = fits.count();
        let rows = rows.into_iter().rev().take(kept).collect::<Vec<_>>();
        let text: Vec<String> = rows
            .into_iter()
            .rev()
            // A shell that prints its own variables prints this one too.
            .map(|row| row.replace(&self.word, "…"))
            .collect();
        KeptOutput {
            text: text.join("\n"),
            kept,
            all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &str, expected: Option<(&str, usize, usize)>) {
        let mut recording = Recording::new("W".to_owned());
        let mut latest = LatestOutput::default();
        for byte in bytes.as_bytes() {
            let read = recording.read(&[*byte]);
            latest = read.latest.unwrap_or(latest);
        }
        let kept = latest.output.map(|it| (it.text.clone(), it.kept, it.all));
        let expected = expected.map(|(text, kept, all)| (text.to_owned(), kept, all));
        assert_eq!(expected, kept);
    }

    #[test]
    fn what_is_printed_while_nothing_is_echoed_is_not_kept() {
        let mut recording = Recording::new("W".to_owned());
        // At a prompt nothing is.
        recording.hide();
        recording.read(b"\x1b]133;C;aish=W;1\x07Password: ");
        recording.hide();
        recording.read(b"secret\r\n");
        recording.unhide();
        let read = recording.read(b"welcome\r\n\x1b]133;D;0;aish=W;2\x07");
        let kept = read.latest.and_then(|it| it.output).unwrap();
        assert_eq!("Password:\n[not recorded]\nwelcome", kept.text);
    }

    #[test]
    fn the_last_command_that_ended_is_kept() {
        let begins = "\x1b]133;C;aish=W;1\x07";
        let prompt = "\x1b]133;D;1;aish=W;2\x07";
        check("typed", None);
        check(&format!("{prompt}typed"), None);
        check(
            &format!("{begins}out\r\n{prompt}typed"),
            Some(("out", 1, 1)),
        );
        check(&format!("{begins}{prompt}typed"), Some(("", 0, 0)));
        // An empty line at the next prompt is no command, and one that runs still has not ended.
        check(
            &format!("{begins}out{prompt}\r\n{prompt}{begins}more"),
            Some(("out", 1, 1)),
        );
        check(
            &format!("{begins}one{prompt}{begins}two\x1b]133;D;0;aish=X;3\x07{prompt}"),
            Some(("two", 1, 1)),
        );
        check(&format!("{begins}x=W{prompt}"), Some(("x=…", 1, 1)));
        let long: String = (0..250).map(|at| format!("{at}\r\n")).collect();
        let last: Vec<String> = (150..250).map(|at: i32| at.to_string()).collect();
        check(
            &format!("{begins}{long}{prompt}"),
            Some((&last.join("\n"), 100, 250)),
        );
        let wide = "x".repeat(1_990);
        let rows = format!("{wide}\r\n").repeat(20);
        let last = [wide.as_str(); 8].join("\n");
        check(&format!("{begins}{rows}{prompt}"), Some((&last, 8, 20)));
    }
}
