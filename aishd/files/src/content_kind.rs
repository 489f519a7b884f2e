//! What a file is, by its first bytes: a picture that can be shown, text, or something else that has a name.

/// How many bytes decide.
pub(crate) const HEAD_BYTES: usize = 8 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentKind {
    Text,
    /// With its media type.
    Picture(&'static str),
    /// With what it is called.
    Binary(&'static str),
}

/// Beginnings that say what a file is, and where they stand.
const KNOWN: &[(usize, &[u8], &str)] = &[
    (0, b"%PDF-", "a PDF document"),
    (0, b"\x7fELF", "a program or a library (ELF)"),
    (0, b"PK\x03\x04", "a ZIP archive or an office document"),
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"BZh", "a bzip2 archive"),
    (0, b"\xfd7zXZ\0", "an xz archive"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"SQLite format 3\0", "a SQLite database"),
    (0, b"\xca\xfe\xba\xbe", "a Java class"),
    (0, b"\0asm", "a WebAssembly module"),
    (0, b"OggS", "Ogg audio or video"),
    (0, b"fLaC", "FLAC audio"),
    (0, b"ID3", "MP3 audio"),
    (4, b"ftyp", "MP4 audio or video"),
    (0, b"BM", "a BMP picture"),
    (0, b"II*\0", "a TIFF picture"),
    (0, b"MM\0*", "a TIFF picture"),
    (0, b"\0\0\x01\0", "an icon"),
];

impl ContentKind {
    /// Of a file that begins so; `head` is [`HEAD_BYTES`] of it, or all.
    pub(crate) fn of(head: &[u8]) -> Self {
        let head = &head[..head.len().min(HEAD_BYTES)];
        if let Some(media_type) = picture(head) {
            return Self::Picture(media_type);
        }
        let has_mark = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
        let is_binary = !has_mark && head.contains(&0) || is_noise(head);
        let known = KNOWN.iter().find(|(at, begin, _)| {
            let rest = head.get(*at..);
            rest.is_some_and(|it| it.starts_with(begin))
        });
        match known {
            Some((_, _, name)) if is_binary => Self::Binary(name),
            // It begins with text.
            Some((_, b"%PDF-", name)) => Self::Binary(name),
            _ if is_binary => Self::Binary("no text"),
            _ => Self::Text,
        }
    }
}

fn picture(head: &[u8]) -> Option<&'static str> {
    if head.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if head.starts_with(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") {
        Some("image/gif")
    } else if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}

/// A third of it is in no encoding that we know, and is no text in one that we do not know either.
fn is_noise(head: &[u8]) -> bool {
    let has_mark = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
    let invalid: usize = head.utf8_chunks().map(|it| it.invalid().len()).sum();
    let controls = head
        .iter()
        .filter(|it| {
            it.is_ascii_control() && !matches!(it, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b | 8)
        })
        .count();
    !has_mark && (invalid + controls) * 3 > head.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_how_it_begins() {
        let check = |head: &[u8], expected: ContentKind| {
            assert_eq!(expected, ContentKind::of(head), "{head:?}");
        };
        check(b"", ContentKind::Text);
        check(b"fn main() {}\n", ContentKind::Text);
        check("größer 日本語".as_bytes(), ContentKind::Text);
        check(b"caf\xe9 au lait, s'il vous pla\xeet", ContentKind::Text);
        check(b"\xff\xfea\0b\0", ContentKind::Text);
        check(b"\x1b[31mred\x1b[0m\n", ContentKind::Text);
        check(b"BM is a word", ContentKind::Text);
        check(b"\x89PNG\r\n\x1a\n\0\0", ContentKind::Picture("image/png"));
        check(b"\xff\xd8\xff\xe0", ContentKind::Picture("image/jpeg"));
        check(b"GIF89a", ContentKind::Picture("image/gif"));
        check(b"RIFF\0\0\0\0WEBPVP8 ", ContentKind::Picture("image/webp"));
        check(b"%PDF-x\n", ContentKind::Binary("a PDF document"));
        check(
            b"\x7fELF\x02\x01\x01\0",
            ContentKind::Binary("a program or a library (ELF)"),
        );
        check(b"\x1f\x8b\x08\0\0", ContentKind::Binary("a gzip archive"));
        check(b"a\0b", ContentKind::Binary("no text"));
        check(&[0xe9; 40], ContentKind::Binary("no text"));
    }
}
