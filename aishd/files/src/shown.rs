//! How lines, names and numbers look to a model: numbered, cut where they are long, and never more than a reply has room for.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::text::shown_bytes;

/// Characters of one line; the rest is said to be there.
pub(crate) const LINE_CHARS: usize = 2000;
/// What one reply has of a file, or of a list.
pub(crate) const REPLY_BYTES: usize = 48 * 1024;

/// A line with its number, as `cat -n` shows it.
pub(crate) fn numbered(number: usize, line: &str) -> String {
    format!("{number:>6}\t{}\n", cut(line, LINE_CHARS))
}

/// A line of which not more than this is shown; whoever reads on is told how much there is.
pub(crate) fn cut(line: &str, chars: usize) -> String {
    let cut = match line.char_indices().nth(chars) {
        None => line.to_owned(),
        Some((at, _)) => {
            let more = line[at..].chars().count();
            format!("{}… [{more} more characters in this line]", &line[..at])
        }
    };
    // Not every service takes one in a text.
    cut.replace('\0', "\\x00")
}

/// Some lines of a text with their numbers, from `first` (counted from 1), at most `most` of them.
pub(crate) fn snippet(text: &str, first: usize, most: usize) -> String {
    let lines = lines(text).enumerate();
    let wanted = lines.skip(first.saturating_sub(1)).take(most);
    wanted
        .map(|(at, line)| format!("{:>6}\t{}\n", at + 1, cut(line, 300)))
        .collect()
}

/// The lines of a text without their ends.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').map(without_end)
}

pub(crate) fn without_end(line: &str) -> &str {
    match line.strip_suffix('\n') {
        Some(line) => line.strip_suffix('\r').unwrap_or(line),
        None => line,
    }
}

/// The line, from 1, in which a byte of a text stands.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    memchr::memchr_iter(b'\n', &text.as_bytes()[..at]).count() + 1
}

/// A path on one line: what is no text, or would not be seen, is `\xNN`.
pub(crate) fn path_text(path: &Path) -> String {
    name_text(path.as_os_str().as_bytes())
}

pub(crate) fn name_text(name: &[u8]) -> String {
    let (text, _invalid) = shown_bytes(name);
    if !text.contains(char::is_control) {
        return text.into_owned();
    }
    let escaped = text.chars().map(|it| match it {
        it if it.is_ascii_control() => format!("\\x{:02x}", u32::from(it)),
        it if it.is_control() => it.escape_unicode().to_string(),
        it => it.to_string(),
    });
    escaped.collect()
}

/// `1 line`, `3 lines`.
pub(crate) fn counted(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    }
}

/// A size for people: `812 B`, `1.2 KB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut tenths = bytes / 100;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if tenths < 10_000 {
            break;
        }
        tenths /= 1000;
        unit = next;
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn lines_are_numbered_and_cut() {
        assert_eq!("     7\ta b\n", numbered(7, "a b"));
        assert_eq!("grö… [2 more characters in this line]", cut("größe", 3));
        assert_eq!("größe", cut("größe", 5));
        assert_eq!("a\\x00b", cut("a\0b", 5));
        assert_eq!("     2\tb\n     3\tc\n", snippet("a\nb\r\nc\nd", 2, 2));
        assert_eq!(vec!["a", "", "b"], lines("a\n\nb").collect::<Vec<_>>());
        assert_eq!(vec!["a"], lines("a\r\n").collect::<Vec<_>>());
        assert_eq!(3, line_of("a\nb\nc", 4));
    }

    #[test]
    fn a_name_is_one_line_of_text() {
        let check = |bytes: &[u8], expected: &str| {
            assert_eq!(expected, path_text(Path::new(OsStr::from_bytes(bytes))));
        };
        check("größe 1".as_bytes(), "größe 1");
        check(b"a\nb\xff\x1b", "a\\x0ab\\xff\\x1b");
        check("a\u{85}".as_bytes(), "a\\u{85}");
    }

    #[test]
    fn numbers_are_for_people() {
        let check = |bytes, expected: &str| assert_eq!(expected, size(bytes));
        check(0, "0 B");
        check(999, "999 B");
        check(1234, "1.2 KB");
        check(999_999, "999.9 KB");
        check(10_485_760, "10.4 MB");
        check(u64::MAX, "18446.7 PB");
        assert_eq!("1 line", counted(1, "line"));
        assert_eq!("0 lines", counted(0, "line"));
    }
}
