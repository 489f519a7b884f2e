//! Questions of a command that sets something up, asked at this terminal one after the other.

use std::io::{self, BufRead as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::typed_lines::{TypedLines, forget_typed};
use crate::{controlling_terminal, safe};

/// Asks until something is answered; nothing means `usual`, where there is that.
pub(crate) fn ask(question: &str, usual: Option<&str>) -> Result<String, Failure> {
    let shown = usual.map(|it| format!(" [{it}]")).unwrap_or_default();
    loop {
        say(&format!("{question}{shown}: "))?;
        let mut line = String::new();
        let read = io::stdin()
            .lock()
            .read_line(&mut line)
            .map_err(|it| failed(&it))?;
        match (line.trim(), usual) {
            // What ends the input is no answer.
            ("", _) if read == 0 => return Err(unanswered()),
            ("", None) => {}
            ("", Some(usual)) => return Ok(usual.to_owned()),
            (answer, _) => return Ok(answer.to_owned()),
        }
    }
}

/// Asks until it is a yes or a no.
pub(crate) fn is_agreed(question: &str, usual: &str) -> Result<bool, Failure> {
    loop {
        match ask(question, Some(usual))?.to_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _another_word => say("yes or no?\n")?,
        }
    }
}

/// Asks at the terminal that we were started from whether a question is to be sent all the same; whatever is no yes is a no.
pub(crate) async fn is_accepted(about: &str) -> Result<bool, Failure> {
    let question = format!("{}: send it? [y/N] ", safe::one_line(about));
    forget_typed();
    match controlling_terminal::open() {
        Some(mut terminal) => terminal
            .write_all(question.as_bytes())
            .map_err(|it| failed(&it))?,
        None => say(&question)?,
    }
    let mut lines = TypedLines::start();
    lines.want_more();
    let line = lines.next().await.unwrap_or_default();
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// The words of a command that somebody typed as one.
pub(crate) fn words(command: &str) -> Result<Vec<String>, Failure> {
    let words = shlex::split(command).filter(|it| !it.is_empty());
    let why = "the command cannot be read: a quote is not closed";
    words.ok_or_else(|| Failure::new(Exit::USAGE, why))
}

/// Asks for what is not to stand on the screen.
pub(crate) fn ask_hidden(question: &str) -> Result<String, Failure> {
    // Before there is a question: what is typed at once is not shown either.
    let hidden = HiddenInput::begin().map_err(|it| failed(&it))?;
    say(&format!("{question} (it is not shown): "))?;
    let typed = read_line();
    drop(hidden);
    say("\n")?;
    typed
}

pub(crate) fn say(text: &str) -> Result<(), Failure> {
    let mut stderr = io::stderr().lock();
    stderr
        .write_all(text.as_bytes())
        .map_err(|it| failed(&it))?;
    stderr.flush().map_err(|it| failed(&it))
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(Exit::FAILED, format!("cannot ask: {error}"))
}

fn unanswered() -> Failure {
    Failure::new(Exit::USAGE, "nothing was answered")
}

/// The terminal without echo. Its keys send no signals meanwhile, so that none of them ends us before it is as it was.
struct HiddenInput(Termios);

impl HiddenInput {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(rustix::stdio::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        let _hung_up = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.0);
    }
}

/// A line, key by key.
fn read_line() -> Result<String, Failure> {
    let mut line = vec![];
    let mut key = [0];
    loop {
        let read = rustix::io::retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut key));
        match (read.map_err(|it| failed(&it.into()))?, key[0]) {
            (0, _) | (_, 0x04) if line.is_empty() => return Err(unanswered()),
            (0, _) | (_, b'\r' | b'\n' | 0x04) => break,
            // Ctrl-C and Ctrl-Backslash.
            (_, 0x03 | 0x1c) => return Err(Failure::new(Exit::INTERRUPTED, "nothing was changed")),
            (_, 0x15) => line.clear(),
            (_, 0x7f | 0x08) => {
                // A letter of several bytes goes whole.
                while line.pop().is_some_and(|it: u8| it & 0xc0 == 0x80) {}
            }
            (_, byte) => line.push(byte),
        }
    }
    String::from_utf8(line).map_err(|_| Failure::new(Exit::USAGE, "that is not UTF-8"))
}
