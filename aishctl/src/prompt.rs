//! A question to the person at this terminal while something else goes on. Lines are read only while a question
//! stands, and nothing counts that was typed before it stood there.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aish_proto::confirm::Decision;
use aish_proto::event::ConfirmRequested;
use aish_proto::id::ConfirmId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;

use crate::confirm::{TYPE_AHEAD, forget_typed};
use crate::consent::{self, Extent, Word};

/// As much as a terminal takes in one line.
const LINE_BYTES: usize = 4096;
/// How often the reading thread looks whether a line is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// The question that stands, if one does, and the thread that reads the answer.
#[derive(Debug, Default)]
pub struct Prompter {
    open: Option<Question>,
    reader: Option<Reader>,
}

/// A question while it stands on a screen.
#[derive(Debug)]
pub struct Question {
    pub request: ConfirmRequested,
    /// All of it stood on the screen.
    seen: bool,
    /// What was chosen and has to be said once more.
    sure: Option<Decision>,
}

#[derive(Debug)]
struct Reader {
    wanted: Arc<AtomicBool>,
    lines: mpsc::Receiver<String>,
}

/// What there is to do about a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Reaction {
    Say(String),
    Answer(Box<ConfirmRequested>, Decision, Option<String>),
}

impl Prompter {
    /// Puts a question; the text is to be shown.
    pub fn ask(&mut self, request: ConfirmRequested) -> String {
        let mut question = Question::new(request);
        let text = question.show();
        self.open = Some(question);
        self.reader.get_or_insert_with(Reader::start).want();
        text
    }

    /// The question is settled; false when it was another one.
    pub fn settle(&mut self, confirm: ConfirmId) -> bool {
        let own = self
            .open
            .as_ref()
            .is_some_and(|it| it.request.confirm == confirm);
        if own {
            self.open = None;
            if let Some(reader) = &self.reader {
                reader.wanted.store(false, Ordering::SeqCst);
            }
        }
        own
    }

    /// The next line that is an answer; never, while no question stands.
    pub async fn typed(&mut self) -> String {
        match (&self.open, &mut self.reader) {
            (Some(_), Some(reader)) => match reader.lines.recv().await {
                Some(line) => line,
                // The terminal has gone; the question can be answered elsewhere.
                None => std::future::pending().await,
            },
            (_, _) => std::future::pending().await,
        }
    }

    pub fn take(&mut self, line: &str) -> Reaction {
        let Some(open) = &mut self.open else {
            return Reaction::Say(String::new());
        };
        let reaction = open.take(consent::word(line, &open.request));
        if let (Reaction::Say(_), Some(reader)) = (&reaction, &self.reader) {
            reader.want();
        }
        reaction
    }
}

impl Question {
    #[must_use]
    pub fn new(request: ConfirmRequested) -> Self {
        Self {
            request,
            seen: false,
            sure: None,
        }
    }

    /// The text, which is to be shown now.
    pub fn show(&mut self) -> String {
        self.seen |= !consent::is_long(&self.request);
        format!(
            "{}{}",
            consent::question(&self.request, Extent::Short),
            consent::choices(&self.request)
        )
    }

    /// What a word at it leads to.
    pub fn take(&mut self, word: Word) -> Reaction {
        let again = consent::choices(&self.request);
        match word {
            Word::View => {
                self.seen = true;
                Reaction::Say(format!(
                    "{}{again}",
                    consent::question(&self.request, Extent::Whole)
                ))
            }
            Word::Help => Reaction::Say(format!("{}{again}", consent::help(&self.request))),
            Word::Unclear(_) => {
                Reaction::Say(format!("  that is no answer; nothing happened\n{again}"))
            }
            Word::Decide(decision, _)
                if !self.seen && decision != Decision::Deny && decision != Decision::Abort =>
            {
                Reaction::Say(format!("  look at all of it first: v\n{again}"))
            }
            Word::Decide(Decision::AllowProvider, _)
                if self.sure != Some(Decision::AllowProvider) =>
            {
                self.sure = Some(Decision::AllowProvider);
                Reaction::Say(
                    "  all tools of this provider, without asking? A once more: ".to_owned(),
                )
            }
            Word::Decide(decision, reason) => {
                Reaction::Answer(Box::new(self.request.clone()), decision, reason)
            }
        }
    }
}

impl Reader {
    fn start() -> Self {
        let wanted = Arc::new(AtomicBool::new(false));
        let (sender, lines) = mpsc::channel(1);
        let flag = wanted.clone();
        std::thread::spawn(move || read_lines(&flag, &sender));
        Self { wanted, lines }
    }

    fn want(&self) {
        self.wanted.store(true, Ordering::SeqCst);
    }
}

fn read_lines(wanted: &AtomicBool, lines: &mpsc::Sender<String>) {
    while !lines.is_closed() {
        if !wanted.load(Ordering::SeqCst) {
            std::thread::sleep(LOOK);
            continue;
        }
        std::thread::sleep(TYPE_AHEAD);
        forget_typed();
        while wanted.load(Ordering::SeqCst) && !lines.is_closed() {
            match is_readable() {
                Ok(true) => {
                    let Some(line) = read_line() else { return };
                    // Taken back meanwhile: the line was no answer to anything.
                    if wanted.swap(false, Ordering::SeqCst) && lines.blocking_send(line).is_err() {
                        return;
                    }
                }
                Ok(false) => {}
                Err(_) => return,
            }
        }
    }
}

/// A terminal gives a line at a time. Read without the buffer of the standard library: what is not read belongs to
/// whoever reads the terminal after us.
fn read_line() -> Option<String> {
    let mut line = vec![0; LINE_BYTES];
    let read = rustix::io::read(rustix::stdio::stdin(), &mut line).ok()?;
    line.truncate(read);
    (read > 0).then(|| String::from_utf8_lossy(&line).into_owned())
}

fn is_readable() -> io::Result<bool> {
    let stdin = rustix::stdio::stdin();
    let mut fds = [PollFd::from_borrowed_fd(stdin, PollFlags::IN)];
    let patience = Timespec::try_from(LOOK).ok();
    Ok(poll(&mut fds, patience.as_ref())? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consent::tests::request;

    fn opened(arguments: &str, level: u8) -> Prompter {
        let request = request("fs__read", arguments, level);
        let mut question = Question::new(request);
        question.show();
        Prompter {
            open: Some(question),
            reader: None,
        }
    }

    #[track_caller]
    fn check(prompter: &mut Prompter, line: &str, expected: Option<Decision>) {
        let decided = match prompter.take(line) {
            Reaction::Answer(_, decision, _) => Some(decision),
            Reaction::Say(_) => None,
        };
        assert_eq!(expected, decided, "{line}");
    }

    /// R5: a long text cannot be allowed before its end was shown.
    #[test]
    fn what_was_not_seen_cannot_be_allowed() {
        let mut long = opened(&format!("{{\"a\":\"{}\"}}", "x".repeat(5000)), 1);
        check(&mut long, "y", None);
        check(&mut long, "v", None);
        check(&mut long, "y", Some(Decision::AllowOnce));
        let mut unseen = opened(&format!("{{\"a\":\"{}\"}}", "x".repeat(5000)), 1);
        check(&mut unseen, "n", Some(Decision::Deny));
    }

    #[test]
    fn a_whole_provider_is_allowed_by_saying_so_twice() {
        let mut prompter = opened("{}", 1);
        check(&mut prompter, "A", None);
        check(&mut prompter, "A", Some(Decision::AllowProvider));
    }

    #[test]
    fn a_question_that_is_settled_elsewhere_takes_no_answer() {
        let mut prompter = opened("{}", 1);
        assert!(!prompter.settle(ConfirmId::from_bytes([9; 16])));
        assert!(prompter.settle(ConfirmId::from_bytes([1; 16])));
        check(&mut prompter, "y", None);
    }
}
