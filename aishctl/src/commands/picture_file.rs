//! A picture or a PDF that goes along with a question: known by its first bytes, read within its limit, and sent in base64.

use std::io::{self, Read};

use aish_proto::limits::{PDF_BYTES, PICTURES};
use aish_proto::picture::PictureKind;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::size;

/// So much is enough to tell what a file is.
pub const LOOKED_AT_BYTES: usize = 12;

/// One that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureFile {
    pub name: String,
    pub kind: PictureKind,
    pub bytes: u64,
    pub base64: String,
}

/// What something is that begins so, if it is no text.
pub fn kind_of(name: &str, head: &[u8]) -> Result<Option<PictureKind>, Failure> {
    if let Some(kind) = PictureKind::of(head) {
        return Ok(Some(kind));
    }
    match other_kind(head) {
        None => Ok(None),
        Some(other) => Err(Failure::new(
            Exit::USAGE,
            format!("{name} is a {other} picture, which no model takes"),
        )
        .hint(format!("magick {name} {name}.png makes one that they take"))),
    }
}

/// Pictures that have to be converted.
fn other_kind(head: &[u8]) -> Option<&'static str> {
    let brand = head.get(4..12).unwrap_or_default();
    match head {
        _ if head.starts_with(b"II*\0") || head.starts_with(b"MM\0*") => Some("TIFF"),
        _ if head.starts_with(b"BM") && head.contains(&0) => Some("BMP"),
        _ if head.starts_with(b"8BPS\0") => Some("Photoshop"),
        _ if brand == b"ftypavif" => Some("AVIF"),
        _ if [&b"ftypheic"[..], b"ftypheix", b"ftypmif1"].contains(&brand) => Some("HEIC"),
        _ => None,
    }
}

/// The whole of one, of which `head` has been read.
pub fn read(
    name: &str,
    kind: PictureKind,
    head: Vec<u8>,
    from: &mut dyn Read,
) -> Result<PictureFile, Failure> {
    let most = kind.most_bytes();
    let mut content = head;
    let failed =
        |error: io::Error| Failure::new(Exit::USAGE, format!("cannot read {name}: {error}"));
    from.take(most + 1)
        .read_to_end(&mut content)
        .map_err(failed)?;
    let bytes = content.len() as u64;
    if bytes > most {
        let most = size::bytes(most);
        let what = kind.name();
        return Err(Failure::new(
            Exit::LIMIT,
            format!("{name} is too large: a {what} of at most {most} goes along with a question"),
        )
        .hint(format!(
            "a smaller copy serves as well: magick {name} -resize 1600x1600 smaller.jpg"
        )));
    }
    Ok(PictureFile {
        name: name.to_owned(),
        kind,
        bytes,
        base64: BASE64_STANDARD.encode(content),
    })
}

/// There is no room for one more.
pub fn too_many(name: &str) -> Failure {
    let most = size::bytes(PDF_BYTES as u64);
    Failure::new(
        Exit::LIMIT,
        format!("{name}: a question takes {PICTURES} pictures and PDFs, of {most} together"),
    )
    .hint("ask with fewer of them, or with smaller copies")
}

impl PictureFile {
    /// One that is here already; else why it does not go along.
    pub fn of(name: String, content: &[u8]) -> Result<Self, &'static str> {
        let kind =
            PictureKind::of(content).ok_or("which is no text and no picture that models take")?;
        let bytes = content.len() as u64;
        if bytes > kind.most_bytes() {
            return Err("which is too large to go along with a question");
        }
        Ok(Self {
            name,
            kind,
            bytes,
            base64: BASE64_STANDARD.encode(content),
        })
    }

    /// What it is called on the screen.
    pub fn note(&self) -> String {
        let (name, bytes) = (&self.name, size::bytes(self.bytes));
        format!("attached {name} ({}, {bytes})", self.kind.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(head: &[u8], expected: &str) {
        let found = match kind_of("x", head) {
            Ok(None) => "text".to_owned(),
            Ok(Some(kind)) => kind.name().to_owned(),
            Err(failure) => failure.message,
        };
        assert_eq!(expected, found);
    }

    #[test]
    fn what_a_file_is_its_first_bytes_say() {
        check(b"\x89PNG\r\n\x1a\n\0\0\0\x0d", "PNG");
        check(b"%PDF-\x31.7\n%\xe2\xe3", "PDF");
        check(b"", "text");
        check(b"BMW and VW", "text");
        check(
            b"BM\x36\0\0\0\0\0\0\0\x36\0",
            "x is a BMP picture, which no model takes",
        );
        check(
            b"\0\0\0\x18ftypheic",
            "x is a HEIC picture, which no model takes",
        );
        check(b"MM\0*", "x is a TIFF picture, which no model takes");
    }

    #[test]
    fn a_picture_is_read_up_to_its_limit() {
        let most = usize::try_from(PictureKind::Gif.most_bytes()).unwrap();
        let taken = |bytes: usize| {
            read(
                "x",
                PictureKind::Gif,
                b"GIF89a".to_vec(),
                &mut io::repeat(7).take(bytes as u64 - 6),
            )
        };
        assert_eq!(most as u64, taken(most).unwrap().bytes);
        let failure = taken(most + 1).unwrap_err();
        assert_eq!(Exit::LIMIT, failure.exit);
    }
}
