//! Blocks of a tool's result that are no text: what the log says of each. Their bytes stand before it.

use aish_proto::id::ResultId;
use serde::{Deserialize, Serialize};

/// What stands in for a media type that is none.
pub const UNKNOWN_MIME: &str = "application/octet-stream";
const MAX_MIME_BYTES: usize = 100;
const MAX_URI_BYTES: usize = 2048;
/// So much stands in one record of the log.
const PART_BYTES: usize = 256 << 10;
/// Blocks of one result that are kept; of more, the model is told that they were there.
pub const MAX_BLOCKS: usize = 64;

/// A block that can be read by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptBlock {
    pub result: ResultId,
    pub kind: BlockKind,
    pub mime: String,
    /// Of the block itself, whatever it is written as.
    pub bytes: u64,
    pub form: BlockForm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    Image,
    Audio,
    Resource,
    /// The block that names a resource, as JSON; what it names was not read.
    Link,
    /// Of a kind that this program does not know, or broken; as JSON.
    Other,
}

/// How the parts in the log are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockForm {
    Text,
    Base64,
}

/// A block and what it is made of, in the pieces in which the log holds it.
pub type KeptParts = (KeptBlock, Vec<String>);

/// A text in such pieces.
pub fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![];
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest.floor_char_boundary(PART_BYTES.min(rest.len()));
        let (part, after) = rest.split_at(at);
        parts.push(part.to_owned());
        rest = after;
    }
    parts
}

/// A media type as a server wrote it, if it is one: what passes can be shown, and put into a header.
pub fn mime(sent: &str) -> Option<&str> {
    let is_token = |it: &str| {
        let strange = |it: u8| !it.is_ascii_alphanumeric() && !b"!#$&-^_.+".contains(&it);
        !it.is_empty() && !it.bytes().any(strange)
    };
    let essence = sent.split(';').next().unwrap_or_default().trim_end();
    let (kind, sub) = essence.split_once('/')?;
    let plain = sent.bytes().all(|it| matches!(it, b' '..=b'~'));
    let short = sent.len() <= MAX_MIME_BYTES;
    (plain && short && is_token(kind) && is_token(sub)).then_some(sent)
}

/// A resource's name, if it is of a length to be repeated and has nothing in it that is no character of a name.
pub fn uri(sent: &str) -> Option<&str> {
    let strange = |it: char| it.is_control() || it.is_whitespace();
    let whole = !sent.is_empty() && sent.len() <= MAX_URI_BYTES;
    (whole && !sent.contains(strange)).then_some(sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_is_one_or_is_not_believed() {
        for good in [
            "image/png",
            "application/vnd.a+json",
            "text/plain; charset=\"utf-8\"",
        ] {
            assert_eq!(Some(good), mime(good));
        }
        let long = format!("a/{}", "b".repeat(MAX_MIME_BYTES));
        for bad in [
            "",
            "png",
            "a/",
            "/b",
            "a/b/c",
            "image/png\r\nX: y",
            "image/\u{1b}[2J",
            "<a>/b",
            "bild/größe",
            long.as_str(),
        ] {
            assert_eq!(None, mime(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_name_of_a_resource_is_repeated_whole_or_not() {
        assert_eq!(Some("file:///ä"), uri("file:///ä"));
        for bad in ["", "a b", "a\nb", "a\u{7}"] {
            assert_eq!(None, uri(bad), "{bad:?}");
        }
        assert_eq!(None, uri(&"x".repeat(MAX_URI_BYTES + 1)));
    }
}
