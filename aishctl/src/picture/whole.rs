//! A picture as its file has it, for terminals that read files themselves: what moves goes on moving. Only bytes that begin as
//! a picture are sent, in base64, within the terminal's own frame.

use aish_proto::picture::PictureKind;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::protocol::PictureProtocol;

/// So many rows of the terminal at most.
const ROWS: u32 = 24;
/// Kitty takes a picture in pieces of at most so many characters.
const PIECE: usize = 4096;

/// What draws it, with a line end behind it; `None`: the terminal reads no files of this kind.
pub(crate) fn drawn(protocol: PictureProtocol, content: &[u8]) -> Option<String> {
    let kind = PictureKind::of(content)?;
    match (protocol, kind) {
        (PictureProtocol::Kitty, PictureKind::Png) => {
            let keys = format!("a=T,f=100,q=2,r={},", content_rows(content));
            Some(kitty(&keys, content) + "\n")
        }
        (PictureProtocol::Inline, PictureKind::Png | PictureKind::Jpeg | PictureKind::Gif) => {
            let size = content.len();
            let data = BASE64_STANDARD.encode(content);
            Some(format!(
                "\x1b]1337;File=inline=1;size={size};height={};preserveAspectRatio=1:{data}\x07\n",
                content_rows(content)
            ))
        }
        (PictureProtocol::Kitty | PictureProtocol::Inline | PictureProtocol::Sixel { .. }, _) => {
            None
        }
    }
}

/// Kitty's graphics protocol, "Transferring pixel data": `f=100` is PNG, `a=T` shows it at once, `q=2` asks for no answer,
/// and `m=1` says that another piece follows.
pub(super) fn kitty(keys: &str, content: &[u8]) -> String {
    let data = BASE64_STANDARD.encode(content);
    let mut rest = data.as_str();
    let mut begins = keys;
    let mut out = String::with_capacity(data.len() + data.len() / PIECE * 16 + 64);
    loop {
        // Base64 is ASCII.
        let (piece, behind) = rest.split_at(rest.len().min(PIECE));
        let more = u8::from(!behind.is_empty());
        out.push_str(&format!("\x1b_G{begins}m={more};{piece}\x1b\\"));
        if behind.is_empty() {
            return out;
        }
        rest = behind;
        begins = "";
    }
}

/// How many rows it gets: a small one is not blown up. A row is taken to be twenty pixels high.
fn content_rows(content: &[u8]) -> u32 {
    const ROW_PIXELS: u32 = 20;
    // PNG says its height at a fixed place (RFC 2083, section 11.2.1); of others the most is taken.
    let said = content
        .get(20..24)
        .filter(|_| PictureKind::of(content) == Some(PictureKind::Png))
        .and_then(|it| it.try_into().ok())
        .map(u32::from_be_bytes);
    said.map_or(ROWS, |it| it.div_ceil(ROW_PIXELS).clamp(1, ROWS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(height: u32, more: usize) -> Vec<u8> {
        let mut content = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x05".to_vec();
        content.extend(height.to_be_bytes());
        content.resize(content.len() + more, 0x1b);
        content
    }

    /// What stands between the frames of the terminal has no byte that could end one.
    #[track_caller]
    fn pieces(drawn: &str) -> Vec<(&str, &str)> {
        let body = drawn.strip_suffix("\x1b\\\n").expect("an end");
        let body = body.strip_prefix("\x1b_G").expect("a beginning");
        let pieces: Vec<_> = body
            .split("\x1b\\\x1b_G")
            .map(|it| it.split_once(';').expect("keys and data"))
            .collect();
        for (_, data) in &pieces {
            assert!(
                data.bytes()
                    .all(|it| it.is_ascii_alphanumeric() || b"+/=".contains(&it))
            );
        }
        pieces
    }

    #[test]
    fn kitty_gets_a_png_in_pieces() {
        let content = png(90, 9000);
        let shown = drawn(PictureProtocol::Kitty, &content).unwrap();
        let pieces = pieces(&shown);
        let keys: Vec<&str> = pieces.iter().map(|it| it.0).collect();
        assert_eq!(vec!["a=T,f=100,q=2,r=5,m=1", "m=1", "m=0"], keys);
        let data: String = pieces.iter().map(|it| it.1).collect();
        assert_eq!(content, BASE64_STANDARD.decode(data).unwrap());
        assert!(pieces.iter().all(|it| it.1.len() <= PIECE));
    }

    #[test]
    fn what_a_terminal_cannot_show_is_not_sent() {
        for (protocol, content) in [
            (PictureProtocol::Kitty, &b"GIF89a..."[..]),
            (PictureProtocol::Inline, b"%PDF-"),
            (PictureProtocol::Inline, b"\x1b]52;c;aGk=\x07"),
            (PictureProtocol::Kitty, b""),
        ] {
            assert_eq!(None, drawn(protocol, content));
        }
        let shown = drawn(PictureProtocol::Inline, b"GIF89a\x07\x1b").unwrap();
        assert_eq!(
            "\x1b]1337;File=inline=1;size=8;height=24;preserveAspectRatio=1:R0lGODlhBxs=\x07\n",
            shown
        );
    }
}
