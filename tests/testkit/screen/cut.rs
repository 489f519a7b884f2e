//! What the emulator does not know: rows that are cut at the edge of the screen and do not wrap (DECAWM, `ESC [ ? 7 l`).

use unicode_width::UnicodeWidthChar as _;
use vt100::Parser;

const ESCAPE: u8 = 0x1b;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    Wrapped,
    Cut,
}

/// How much of this the emulator may have: whole characters, for it loses the one after a character that comes in two
/// pieces, and whole sequences.
pub(super) fn whole(bytes: &[u8]) -> usize {
    let text = match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        // No text at all: the emulator may do with it what it likes.
        Err(_) => bytes.len(),
    };
    let begun = bytes[..text].iter().rposition(|it| *it == ESCAPE);
    match begun {
        Some(at) if sequence(&bytes[at..text]).is_none() => at,
        Some(_) | None => text,
    }
}

/// The length of the sequence that begins here, if its end has come.
fn sequence(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [_, b'[', rest @ ..] => {
            let end = rest.iter().position(|it| (0x40..=0x7e).contains(it))?;
            Some(end + 3)
        }
        [_, _, ..] => Some(2),
        _ => None,
    }
}

/// Feeds it, and tells what holds afterwards.
pub(super) fn process(emulator: &mut Parser, bytes: &[u8], mut now: Cut) -> Cut {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|it| *it == ESCAPE) {
        let (text, escape) = rest.split_at(at);
        write(emulator, text, now);
        let (escape, after) = escape.split_at(sequence(escape).unwrap_or(escape.len()));
        match escape {
            b"\x1b[?7l" => now = Cut::Cut,
            b"\x1b[?7h" => now = Cut::Wrapped,
            _ => emulator.process(escape),
        }
        rest = after;
    }
    write(emulator, rest, now);
    now
}

fn write(emulator: &mut Parser, text: &[u8], now: Cut) {
    match (now, std::str::from_utf8(text)) {
        (Cut::Cut, Ok(text)) => {
            for it in text.chars() {
                let screen = emulator.screen();
                let (_, column) = screen.cursor_position();
                let (_, columns) = screen.size();
                if usize::from(column) + it.width().unwrap_or(0) <= usize::from(columns.get()) {
                    emulator.process(it.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        (Cut::Cut | Cut::Wrapped, _) => emulator.process(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_while_they_should_be() {
        let (height, width) = super::super::size(5, 4);
        let mut emulator = Parser::new(height, width, 10);
        let all = "\u{1b}[?7labc\u{65e5}defg\r\n\u{1b}[31m1234567\r\n\u{1b}[?7h1234567";
        let mut held = vec![];
        let mut now = Cut::Wrapped;
        for byte in all.bytes() {
            held.push(byte);
            let end = whole(&held);
            now = process(&mut emulator, &held[..end], now);
            held.drain(..end);
        }
        let expected = ["abc\u{65e5}", "12345", "12345", "67"];
        assert_eq!(expected, *super::super::rows_of(&mut emulator));
    }
}
