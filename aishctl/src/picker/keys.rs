//! Keys of a terminal as a picker understands them, however their bytes were cut.

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PickKey {
    Text(char),
    Backspace,
    Clear,
    Up,
    Down,
    PageUp,
    PageDown,
    Enter,
    Leave,
}

const ESCAPE: u8 = 0x1b;
/// No sequence of a key is longer.
const LONGEST: usize = 16;

/// Takes bytes and gives keys; what may go on is held.
#[derive(Debug, Default)]
pub(super) struct PickKeys {
    held: Vec<u8>,
}

impl PickKeys {
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<PickKey> {
        self.held.extend_from_slice(bytes);
        let mut keys = vec![];
        while let Some((key, length)) = next(&self.held) {
            self.held.drain(..length);
            keys.extend(key);
        }
        keys
    }

    /// Nothing has come for a moment: an escape that stands alone is the key of that name.
    pub(super) fn rest(&mut self) -> Option<PickKey> {
        let is_escape = self.held.first() == Some(&ESCAPE);
        self.held.clear();
        is_escape.then_some(PickKey::Leave)
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.held.is_empty()
    }
}

/// The first key, if it means something, and how long it is; `None`: it is not complete.
fn next(bytes: &[u8]) -> Option<(Option<PickKey>, usize)> {
    let first = *bytes.first()?;
    if first == ESCAPE {
        return escape(bytes);
    }
    let key = match first {
        b'\r' | b'\n' => Some(PickKey::Enter),
        // Ctrl-C, Ctrl-D, Ctrl-G
        0x03 | 0x04 | 0x07 => Some(PickKey::Leave),
        0x7f | 0x08 => Some(PickKey::Backspace),
        // Ctrl-U, Ctrl-W
        0x15 | 0x17 => Some(PickKey::Clear),
        // Ctrl-P, Ctrl-K; Ctrl-N, Tab
        0x10 | 0x0b => Some(PickKey::Up),
        0x0e | b'\t' => Some(PickKey::Down),
        0..0x20 => None,
        _ => return text(bytes),
    };
    Some((key, 1))
}

fn text(bytes: &[u8]) -> Option<(Option<PickKey>, usize)> {
    let most = bytes.get(..bytes.len().min(4))?;
    let valid = match std::str::from_utf8(most) {
        Ok(text) => text,
        Err(error) => {
            let (good, _) = most.split_at(error.valid_up_to());
            match (std::str::from_utf8(good), error.error_len()) {
                (Ok(""), None) => return None,
                (Ok(""), Some(bad)) => return Some((None, bad)),
                (Ok(text), _) => text,
                (Err(_), _) => return Some((None, 1)),
            }
        }
    };
    let it = valid.chars().next()?;
    let key = (!it.is_control()).then_some(PickKey::Text(it));
    Some((key, it.len_utf8()))
}

fn escape(bytes: &[u8]) -> Option<(Option<PickKey>, usize)> {
    match bytes.get(1)? {
        b'[' | b'O' => {}
        // Two of them are one that was meant, and Alt with a letter is nothing here.
        &ESCAPE => return Some((Some(PickKey::Leave), 2)),
        _ => return Some((None, 2)),
    }
    let ends = |it: &u8| (0x40..=0x7e).contains(it);
    let Some(end) = bytes.iter().skip(2).position(ends) else {
        return (bytes.len() > LONGEST).then_some((None, bytes.len()));
    };
    let length = end + 3;
    let key = match bytes.get(2..length)? {
        b"A" => Some(PickKey::Up),
        b"B" => Some(PickKey::Down),
        b"5~" => Some(PickKey::PageUp),
        b"6~" => Some(PickKey::PageDown),
        _ => None,
    };
    Some((key, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same for every way to cut the bytes in two.
    #[track_caller]
    fn check(bytes: &[u8], expected: &[PickKey]) {
        for at in 0..=bytes.len() {
            let mut keys = PickKeys::default();
            let mut seen = keys.take(&bytes[..at]);
            seen.extend(keys.take(&bytes[at..]));
            assert_eq!(expected, seen, "cut at {at}");
        }
    }

    #[test]
    fn keys_are_told_apart_however_they_are_cut() {
        use PickKey::{Backspace, Clear, Down, Enter, Leave, PageDown, PageUp, Text, Up};
        check("aé日".as_bytes(), &[Text('a'), Text('é'), Text('日')]);
        check(b"\x1b[A\x1bOB\x1b[5~\x1b[6~", &[Up, Down, PageUp, PageDown]);
        check(b"\x1b[1;5C\x1b[3~x", &[Text('x')]);
        check(b"\x7f\x15\r\x03", &[Backspace, Clear, Enter, Leave]);
        check(b"a\xff\xfeb", &[Text('a'), Text('b')]);
        check(b"\x1bx\x00y", &[Text('y')]);
    }

    #[test]
    fn an_escape_alone_leaves_after_a_moment() {
        let mut keys = PickKeys::default();
        assert!(keys.take(b"\x1b").is_empty() && keys.is_waiting());
        assert_eq!(Some(PickKey::Leave), keys.rest());
        assert!(!keys.is_waiting());
        keys.take("日".as_bytes().get(..2).unwrap());
        assert_eq!(None, keys.rest());
    }
}
