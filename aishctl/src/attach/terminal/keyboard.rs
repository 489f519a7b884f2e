//! From the person's terminal to the editor's: every byte as it came, but for what the editor cannot take. Pastes
//! that would not fit on the screen become a mark; bytes that are no UTF-8 are left out, for the editor would give
//! up the line. The editor reads from a terminal of its own, and may set that one's modes as it likes: what is
//! typed while it is between two lines is never echoed and never lost.

use std::fs::File;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use aish_proto::limits;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use super::dropped_file;
use super::screen::Screen;
use crate::attach::attention::TerminalFocus;
use crate::attach::look::WindowLook;
use crate::attach::ui::UserInput;
use crate::picture::answers::AnswerFilter;
use crate::render::notice;

const PASTE_BEGINS: &[u8] = b"\x1b[200~";
const PASTE_ENDS: &str = "\x1b[201~";
/// How long the rest of what may be an answer of the terminal can take.
const REST: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// Ctrl-C ends a paste whose end does not come.
const INTERRUPT: char = '\u{3}';

/// Both ends of the editor's terminal: what is typed is written to the first, the editor reads the second.
pub(super) fn editors_terminal() -> io::Result<(File, OwnedFd)> {
    let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&keys)?;
    unlockpt(&keys)?;
    let name = ptsname(&keys, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let read = open(name.as_c_str(), flags, Mode::empty())?;
    let mut modes = tcgetattr(&read)?;
    modes.make_raw();
    tcsetattr(&read, OptionalActions::Now, &modes)?;
    Ok((File::from(keys), read))
}

/// Carries what is typed until the terminal is gone.
pub(super) fn carry(
    tty: OwnedFd,
    mut to: File,
    ear: &PipeReader,
    screen: &Arc<Screen>,
    look: WindowLook,
) {
    let mut tty = File::from(tty);
    let mut filter = PasteFilter::default();
    let mut answers = AnswerFilter::default();
    let mut page = [0; 4096];
    loop {
        match wait(&tty, ear, answers.is_holding().then_some(&REST)) {
            Ok(KeyboardReady::Keys) => {}
            Ok(KeyboardReady::Silence) => {
                if to.write_all(answers.rest().as_bytes()).is_err() {
                    return;
                }
                continue;
            }
            Ok(KeyboardReady::Hush) => {
                screen.hush.rest(ear);
                continue;
            }
            Err(_) => break,
        }
        let read = match tty.read(&mut page) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for typed in filter.take(&page[..read]) {
            let bytes = match typed {
                TypedInput::Keys(keys) => {
                    let (keys, said) = answers.take(&keys, screen.answer.is_expected());
                    for answer in said {
                        // A window that is busy draws no picture now.
                        drop(screen.inputs.try_send(UserInput::Terminal(answer)));
                    }
                    let (keys, focus) = turned(&keys);
                    screen.note_activity(focus, &keys);
                    keys
                }
                TypedInput::Paste(text) if text.len() > limits::INPUT_BYTES => {
                    let told = format!(
                        "that paste is {} bytes, a question takes {}; aishctl ask -f FILE takes part of a file",
                        text.len(),
                        limits::INPUT_BYTES
                    );
                    let columns = Some(screen.size().0);
                    screen.show(&notice::rows(&told, look.is_colored(), columns));
                    PASTE_ENDS.to_owned()
                }
                TypedInput::Paste(text) => pasted(screen, text) + PASTE_ENDS,
            };
            if to.write_all(bytes.as_bytes()).is_err() {
                return;
            }
        }
    }
    // The terminal hung up: nobody sits here any more.
    drop(screen.inputs.blocking_send(UserInput::End));
}

/// What stands in the line for a paste.
fn pasted(screen: &Screen, text: String) -> String {
    let dropped = screen.is_question().then(|| dropped_file::mention(&text));
    if let Some(mention) = dropped.flatten() {
        return mention;
    }
    if screen.takes_paste(&text) {
        text
    } else {
        screen.keep_paste(text)
    }
}

/// What there is to do for the keyboard.
enum KeyboardReady {
    Keys,
    /// None came in time.
    Silence,
    /// Somebody else gets the keys.
    Hush,
}

fn wait(
    tty: &File,
    ear: &PipeReader,
    limit: Option<&Timespec>,
) -> rustix::io::Result<KeyboardReady> {
    loop {
        let mut fds = [
            PollFd::new(tty, PollFlags::IN),
            PollFd::new(ear, PollFlags::IN),
        ];
        match poll(&mut fds, limit) {
            Ok(0) => return Ok(KeyboardReady::Silence),
            Ok(_) if !fds[1].revents().is_empty() => return Ok(KeyboardReady::Hush),
            Ok(_) => return Ok(KeyboardReady::Keys),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The keys without what the terminal says of itself, and the last of that.
fn turned(keys: &str) -> (String, Option<TerminalFocus>) {
    const HERE: &str = "\u{1b}[I";
    const ELSEWHERE: &str = "\u{1b}[O";
    let focus = match (keys.rfind(HERE), keys.rfind(ELSEWHERE)) {
        (None, None) => return (keys.to_owned(), None),
        (here, elsewhere) if here > elsewhere => TerminalFocus::Here,
        (_, _) => TerminalFocus::Elsewhere,
    };
    (keys.replace(HERE, "").replace(ELSEWHERE, ""), Some(focus))
}

/// What was typed, taken apart.
#[derive(Debug, PartialEq, Eq)]
enum TypedInput {
    Keys(String),
    /// What was pasted; its beginning was a key and has been passed on, its end has not.
    Paste(String),
}

/// Finds pastes and characters, however the bytes were cut.
#[derive(Debug, Default)]
struct PasteFilter {
    /// The first bytes of a character.
    held: Vec<u8>,
    /// How much of the mark that begins a paste has come.
    begun: usize,
    paste: Option<String>,
}

impl PasteFilter {
    fn take(&mut self, bytes: &[u8]) -> Vec<TypedInput> {
        self.held.extend_from_slice(bytes);
        let mut text = String::new();
        loop {
            match std::str::from_utf8(&self.held) {
                Ok(all) => {
                    text.push_str(all);
                    self.held.clear();
                    break;
                }
                Err(error) => {
                    let (good, rest) = self.held.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(good));
                    let Some(bad) = error.error_len() else {
                        self.held = rest.to_vec();
                        break;
                    };
                    self.held = rest.get(bad..).unwrap_or_default().to_vec();
                }
            }
        }
        self.split(&text)
    }

    fn split(&mut self, text: &str) -> Vec<TypedInput> {
        let mut typed = Vec::new();
        let mut keys = String::new();
        for it in text.chars() {
            if let Some(paste) = &mut self.paste {
                if it == INTERRUPT {
                    self.paste = None;
                    typed.push(TypedInput::Paste(String::new()));
                    continue;
                }
                // One byte more than a question takes says that it is too large; the rest is only counted out.
                paste.push(it);
                if it == '~' && paste.ends_with(PASTE_ENDS) {
                    let length = paste.len() - PASTE_ENDS.len();
                    paste.truncate(length);
                    typed.push(TypedInput::Paste(clean(paste)));
                    self.paste = None;
                } else if paste.len() > 4 * limits::INPUT_BYTES {
                    let tail =
                        paste.split_off(paste.ceil_char_boundary(paste.len() - PASTE_ENDS.len()));
                    paste.truncate(paste.floor_char_boundary(2 * limits::INPUT_BYTES));
                    paste.push_str(&tail);
                }
                continue;
            }
            keys.push(it);
            self.begun = match u8::try_from(it) {
                Ok(byte) if byte == PASTE_BEGINS[self.begun] => self.begun + 1,
                Ok(byte) => usize::from(byte == PASTE_BEGINS[0]),
                Err(_) => 0,
            };
            if self.begun == PASTE_BEGINS.len() {
                self.begun = 0;
                self.paste = Some(String::new());
                typed.push(TypedInput::Keys(std::mem::take(&mut keys)));
            }
        }
        if !keys.is_empty() {
            typed.push(TypedInput::Keys(keys));
        }
        typed
    }
}

/// Line ends are line feeds, and no control character gets into the line by a paste.
fn clean(pasted: &str) -> String {
    pasted
        .replace("\r\n", "\n")
        .replace('\r', "\n")
        .chars()
        .filter(|it| matches!(it, '\n' | '\t') || !it.is_control())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same for every way to cut the bytes in two.
    #[track_caller]
    fn check(bytes: &[u8], expected: &[&str]) {
        for at in 0..=bytes.len() {
            let mut filter = PasteFilter::default();
            let mut seen: Vec<String> = Vec::new();
            for piece in [&bytes[..at], &bytes[at..]] {
                for typed in filter.take(piece) {
                    match typed {
                        TypedInput::Keys(keys) => match seen.last_mut() {
                            Some(last) if !last.starts_with("paste ") => last.push_str(&keys),
                            Some(_) | None => seen.push(keys),
                        },
                        TypedInput::Paste(text) => seen.push(format!("paste {text}")),
                    }
                }
            }
            assert_eq!(expected, seen, "cut at {at}");
        }
    }

    #[test]
    fn keys_pass_as_they_are() {
        check(
            "abc\r\u{1b}[A日本\u{4}".as_bytes(),
            &["abc\r\u{1b}[A日本\u{4}"],
        );
        check(b"a\xff\xfeb\xe6\x97", &["ab"]);
        check(b"\x1b[20\x1b[2", &["\x1b[20\x1b[2"]);
    }

    #[test]
    fn what_a_terminal_says_of_itself_is_no_key() {
        for (keys, left, focus) in [
            ("ab", "ab", None),
            ("\u{1b}[I", "", Some(TerminalFocus::Here)),
            ("a\u{1b}[Ob\u{1b}[Ic", "abc", Some(TerminalFocus::Here)),
            (
                "\u{1b}[I\u{1b}[O\u{1b}[A",
                "\u{1b}[A",
                Some(TerminalFocus::Elsewhere),
            ),
        ] {
            assert_eq!((left.to_owned(), focus), turned(keys), "{keys:?}");
        }
    }

    #[test]
    fn a_paste_is_one_thing_with_line_feeds() {
        check(
            b"x\x1b[200~one\r\ntwo\rthree\x1b[31m\x1b[201~y",
            &["x\x1b[200~", "paste one\ntwo\nthree[31m", "y"],
        );
        check(b"\x1b[200~stuck\x03q", &["\x1b[200~", "paste ", "q"]);
        check(
            "\u{1b}[200~日本~\u{1b}[201~".as_bytes(),
            &["\x1b[200~", "paste 日本~"],
        );
    }

    #[test]
    fn a_paste_without_end_does_not_grow_for_ever() {
        let mut filter = PasteFilter::default();
        drop(filter.take(PASTE_BEGINS));
        for _ in 0..64 {
            drop(filter.take(&[b'x'; 1 << 18]));
        }
        assert!(filter.paste.as_ref().unwrap().len() <= 5 * limits::INPUT_BYTES);
        let last = filter.take(PASTE_ENDS.as_bytes());
        assert!(matches!(&last[..], [TypedInput::Paste(text)] if text.len() > limits::INPUT_BYTES));
    }
}
