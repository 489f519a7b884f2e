//! The marks that a shell's script puts into the output (OSC 133): where the output of a command begins and where it ends. They
//! carry a word that the shell alone was given, so nothing that a program prints is taken for one. The terminal does not see
//! them; what has another form passes as it is.

/// How each of them begins.
const PREFIX: &[u8] = b"\x1b]133;";
/// More than the longest mark of ours.
const LONGEST: usize = 128;
const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;

/// What the shell says, with the number of its prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShellMark {
    /// What follows is printed by the command typed at that prompt.
    OutputBegins(u64),
    /// The shell is about to show that prompt.
    Prompt(u64),
}

/// A part of what came from the shell's terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TerminalPiece {
    Bytes(Vec<u8>),
    Mark(ShellMark),
}

/// Finds marks in bytes that come in any pieces.
#[derive(Debug)]
pub(crate) struct MarkScanner {
    word: String,
    /// What may become a mark.
    held: Vec<u8>,
}

impl MarkScanner {
    pub(crate) fn new(word: String) -> Self {
        Self { word, held: vec![] }
    }

    pub(crate) fn read(&mut self, bytes: &[u8]) -> Vec<TerminalPiece> {
        let mut pieces = vec![];
        let mut plain = vec![];
        for &byte in bytes {
            if let Some(mark) = self.take(byte, &mut plain) {
                if !plain.is_empty() {
                    pieces.push(TerminalPiece::Bytes(std::mem::take(&mut plain)));
                }
                pieces.push(TerminalPiece::Mark(mark));
            }
        }
        if !plain.is_empty() {
            pieces.push(TerminalPiece::Bytes(plain));
        }
        pieces
    }

    /// What is still held, when nothing more comes.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn take(&mut self, byte: u8, plain: &mut Vec<u8>) -> Option<ShellMark> {
        let within = self.held.len();
        let ends_in_escape = within > PREFIX.len() && self.held.last() == Some(&ESCAPE);
        let goes_on = match within {
            0 => byte == ESCAPE,
            _ if within < PREFIX.len() => PREFIX.get(within) == Some(&byte),
            _ if ends_in_escape => byte == b'\\',
            _ => within < LONGEST && (byte >= b' ' || byte == BELL || byte == ESCAPE),
        };
        if !goes_on {
            // An escape ends what it stands behind, and may begin a mark itself.
            let begins_anew = ends_in_escape.then(|| self.held.pop()).flatten();
            plain.append(&mut self.held);
            self.held.extend(begins_anew);
            if begins_anew.is_some() || byte == ESCAPE {
                return self.take(byte, plain);
            }
            plain.push(byte);
            return None;
        }
        self.held.push(byte);
        let ([body @ .., BELL] | [body @ .., ESCAPE, b'\\']) = self.held.strip_prefix(PREFIX)?
        else {
            return None;
        };
        let mark = std::str::from_utf8(body).ok().and_then(|it| self.mark(it));
        if mark.is_some() {
            self.held.clear();
        } else {
            plain.append(&mut self.held);
        }
        mark
    }

    /// `C;aish=WORD;NUMBER` and `D;STATUS;aish=WORD;NUMBER`.
    fn mark(&self, body: &str) -> Option<ShellMark> {
        let (kind, rest) = body.split_once(';')?;
        let rest = match kind {
            "C" => rest,
            "D" => rest.split_once(';')?.1,
            _ => return None,
        };
        let (word, number) = rest.strip_prefix("aish=")?.split_once(';')?;
        let number = number.parse().ok().filter(|_| word == self.word)?;
        Some(if kind == "C" {
            ShellMark::OutputBegins(number)
        } else {
            ShellMark::Prompt(number)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the terminal sees, with the marks in brackets, however the bytes are cut.
    #[track_caller]
    fn check(bytes: &str, expected: &str) {
        for size in 1..=bytes.len() {
            let mut scanner = MarkScanner::new("W".to_owned());
            let mut seen = vec![];
            for piece in bytes.as_bytes().chunks(size) {
                for piece in scanner.read(piece) {
                    match piece {
                        TerminalPiece::Bytes(bytes) => seen.extend(bytes),
                        TerminalPiece::Mark(ShellMark::OutputBegins(number)) => {
                            seen.extend(format!("[C{number}]").bytes());
                        }
                        TerminalPiece::Mark(ShellMark::Prompt(number)) => {
                            seen.extend(format!("[D{number}]").bytes());
                        }
                    }
                }
            }
            seen.extend(scanner.rest());
            assert_eq!(expected, String::from_utf8_lossy(&seen), "cut at {size}");
        }
    }

    #[test]
    fn marks_are_taken_out_and_all_else_passes() {
        check(
            "a\x1b]133;C;aish=W;7\x07b\x1b]133;D;101;aish=W;8\x1b\\c",
            "a[C7]b[D8]c",
        );
        for other in [
            "\x1b[31mred\x1b[0m \x1b\x1b\x1b",
            "\x1b]133;A\x07\x1b]133;C;aish=V;7\x07\x1b]133;D;0\x1b\\",
            "\x1b]133;C;aish=W\x07\x1b]133;C;aish=W;x\x07\x1b]133;E;aish=W;1\x07",
            "\x1b]133",
            "\x1b]133;C;aish=W;7\n\x07",
            "größe 日本 \x1b]0;title\x07",
        ] {
            check(other, other);
        }
        let endless = format!("\x1b]133;{}", "x".repeat(1000));
        check(&endless, &endless);
    }

    #[test]
    fn what_a_program_left_open_hides_no_mark() {
        check("\x1b]133;C;x\x1b]133;D;1;aish=W;2\x07", "\x1b]133;C;x[D2]");
        check("\x1b]13\x1b]133;D;1;aish=W;2\x07", "\x1b]13[D2]");
        check("\x1b\x1b]133;D;1;aish=W;2\x07", "\x1b[D2]");
        check("\x1bP\x1b]133;D;1;aish=W;2\x07", "\x1bP[D2]");
    }
}
