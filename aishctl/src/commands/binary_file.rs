//! What is no text, and no picture or PDF either: it does not go along with a question. A model would be shown signs that stand for
//! bytes which nobody can read, and a person would pay for them.

use crate::exit::Exit;
use crate::failure::Failure;

/// So much of a file is looked at.
pub(crate) const LOOKED_AT_BYTES: usize = 8 << 10;
/// Of so many bytes of a text at most one is a sign that no terminal shows.
const TEXT_BYTES_PER_SIGN: usize = 20;
/// Where an archive of `tar` says that it is one.
const TAR_AT: usize = 257;

/// How files of a kind begin, what they are called, and what shows what is in them.
const KINDS: [(&[u8], &str, &str); 14] = [
    (b"\x7fELF", "a program", "strings"),
    (b"\x1f\x8b", "gzip data", "zcat"),
    (b"BZh", "bzip2 data", "bzcat"),
    (b"\xfd7zXZ\0", "xz data", "xzcat"),
    (b"\x28\xb5\x2f\xfd", "zstd data", "zstdcat"),
    (b"PK\x03\x04", "a zip archive", "unzip -l"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z l"),
    (
        b"SQLite format 3\0",
        "an SQLite database",
        "sqlite3 -readonly",
    ),
    (b"OggS", "an Ogg recording", "ffprobe"),
    (b"fLaC", "a FLAC recording", "ffprobe"),
    (b"ID3", "an MP3 recording", "ffprobe"),
    (b"\x1aE\xdf\xa3", "a Matroska film", "ffprobe"),
    (b"\0asm", "a WebAssembly module", "wasm-objdump -x"),
    (b"\xca\xfe\xba\xbe", "a Java class", "javap"),
];

/// Refuses what begins so, if that is no text.
pub(crate) fn refuse(name: &str, head: &[u8]) -> Result<(), Failure> {
    let head = head.get(..LOOKED_AT_BYTES).unwrap_or(head);
    // In a command that somebody may copy.
    let quoted = shlex::try_quote(name).unwrap_or(name.into());
    if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
        return Err(refused(format!("{name} is text in UTF-16")).hint(format!(
            "iconv -f UTF-16 -t UTF-8 {quoted} makes one in UTF-8"
        )));
    }
    let is_tar = head.get(TAR_AT..TAR_AT + 5) == Some(b"ustar");
    let tar = is_tar.then_some(("a tar archive", "tar tvf"));
    let known = KINDS.iter().find(|it| head.starts_with(it.0));
    // A word may begin as such a file does; what follows then is text.
    let known = known.filter(|it| !it.0.is_ascii() || !is_text(head));
    match tar.or(known.map(|it| (it.1, it.2))) {
        Some((what, shown_by)) => Err(refused(format!("{name} is {what}, which is no text"))
            .hint(format!("{shown_by} {quoted} | aishctl ask ... sends what is in it"))),
        None if is_text(head) => Ok(()),
        None => Err(refused(format!("{name} holds no text")).hint(format!(
            "strings {quoted} | aishctl ask ... sends what can be read of it; or ask with its path, and let a command look at it"
        ))),
    }
}

/// Text in whatever encoding that has letters where ASCII has them. Zero bytes may part its lines.
fn is_text(head: &[u8]) -> bool {
    let is_sign = |it: &&u8| it.is_ascii_control() && !matches!(it, 0 | 0x07..=0x0d | 0x1b);
    let signs = head.iter().filter(is_sign).count();
    // The end may have gone through a character.
    let is_utf8 = std::str::from_utf8(head).map_or_else(|it| it.error_len().is_none(), |_| true);
    let has_few_signs = signs * TEXT_BYTES_PER_SIGN <= head.len();
    match head.contains(&0) {
        true => is_utf8 && has_few_signs,
        false => is_utf8 || has_few_signs,
    }
}

fn refused(message: String) -> Failure {
    Failure::new(Exit::USAGE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(head: &[u8], expected: &str) {
        let said = refuse("x", head).map_or_else(|it| it.message, |()| "text".to_owned());
        assert_eq!(expected, said, "{head:?}");
    }

    #[test]
    fn what_is_no_text_is_named_and_text_of_all_kinds_is_none_of_it() {
        check(b"", "text");
        check("fn a() {} // ü 日本\r\n\t\u{1b}[1mbold".as_bytes(), "text");
        check(b"caf\xe9, in Latin 1", "text");
        check(b"A=1\0B=2\0", "text");
        check(
            b"BZh is what such a file begins with, and ID3 another one",
            "text",
        );
        check(&"日".as_bytes()[..2], "text");
        check(
            b"\x7fELF\x02\x01\x01\0\0",
            "x is a program, which is no text",
        );
        check(b"\x1f\x8b\x08", "x is gzip data, which is no text");
        check(b"PK\x03\x04\x14\0", "x is a zip archive, which is no text");
        check(b"\xff\xfeh\0i\0", "x is text in UTF-16");
        check(b"\0\x01\x02\x03", "x holds no text");
        check(b"abc\0\xff\xfe\xfd", "x holds no text");
        let mut tar = vec![b'a'; 300];
        tar[1..TAR_AT].fill(0);
        tar[TAR_AT..TAR_AT + 5].copy_from_slice(b"ustar");
        check(&tar, "x is a tar archive, which is no text");
        let noise: Vec<u8> = (0..=255).filter(|it| *it != 0).cycle().take(4000).collect();
        check(&noise, "x holds no text");
    }
}
