//! From a result of `tools/call` to what a model reads; one strange block costs itself only.

use aishd_log::block::{self, BlockKind, MAX_BLOCKS, UNKNOWN_MIME};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use serde_json::Value;

use crate::bounded_text::one_line;
use crate::outcome::{AttachmentBody, OutcomeAttachment, ToolOutcome};

const MAX_LABEL_CHARS: usize = 200;
/// Of the text of embedded resources, in all of one result; the whole is kept beside it.
const MAX_RESOURCE_BYTES: usize = 64 << 10;
const JSON: &str = "application/json";

/// Servers leave the padding out, and end in bits that mean nothing.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Flattens a result. A server may send anything: what is no result at all is shown as it is.
pub fn flatten(result: &Value) -> ToolOutcome {
    with_room(result, MAX_RESOURCE_BYTES)
}

/// The same where the texts of embedded resources go along beside it.
pub fn outcome_of(result: &Value) -> ToolOutcome {
    with_room(result, 0)
}

fn with_room(result: &Value, mut room: usize) -> ToolOutcome {
    let mut outcome = ToolOutcome {
        is_error: result.get("isError").and_then(Value::as_bool) == Some(true),
        structured: result
            .get("structuredContent")
            .filter(|it| !it.is_null())
            .cloned(),
        ..ToolOutcome::default()
    };
    let mut lines = vec![];
    // Of each attachment, its line.
    let mut standing = vec![];
    let mut has_text = false;
    let mut left_out = 0_usize;
    match result.get("content") {
        Some(Value::Array(blocks)) => {
            for block in blocks {
                // A few bytes of a strange block must not become many, so beyond a measure they are only counted.
                if outcome.attachments.len() == MAX_BLOCKS && !is_text(block) {
                    left_out += 1;
                    continue;
                }
                match read(block) {
                    ContentBlock::Text(text) => {
                        has_text = true;
                        lines.push(text);
                    }
                    ContentBlock::Other(placeholder, attachment) => {
                        standing.push(lines.len());
                        lines.push(placeholder);
                        outcome.attachments.push(attachment);
                    }
                    ContentBlock::Told(placeholder, text, attachment) => {
                        standing.push(lines.len());
                        lines.push(placeholder);
                        lines.extend(bounded(&text, &mut room));
                        outcome.attachments.push(attachment);
                    }
                }
            }
        }
        // Seen in servers that skip the list of blocks.
        Some(Value::String(text)) => {
            has_text = true;
            lines.push(text.clone());
        }
        Some(Value::Null) | None => {}
        Some(other) => {
            has_text = true;
            lines.push(other.to_string());
        }
    }
    if left_out > 0 {
        lines.push(format!(
            "[{left_out} more blocks not kept: too much for one result]"
        ));
    }
    if let (false, Some(structured)) = (has_text, &outcome.structured) {
        lines.insert(0, structured.to_string());
        standing.iter_mut().for_each(|it| *it += 1);
    } else if lines.is_empty() && result.get("content").is_none() {
        // Not `{}`, which says that nothing is to be said.
        let empty = result.as_object().is_some_and(|it| {
            it.keys()
                .all(|it| matches!(it.as_str(), "_meta" | "isError" | "resultType"))
        });
        if !empty && !result.is_null() {
            lines.push(result.to_string());
        }
    }
    let mut end = 0;
    let ends: Vec<usize> = lines
        .iter()
        .map(|it| {
            end += it.len() + 1;
            end - 1
        })
        .collect();
    for (attachment, line) in outcome.attachments.iter_mut().zip(standing) {
        attachment.end = ends[line];
    }
    outcome.text = lines.join("\n");
    outcome
}

/// The text of an embedded resource, up to a measure: a model that calls a tool to read a file wants to read it.
fn bounded(text: &str, room: &mut usize) -> Option<String> {
    if text.is_empty() || *room == 0 {
        return None;
    }
    let end = text.floor_char_boundary(*room);
    *room -= end;
    Some(if end == text.len() {
        text.to_owned()
    } else {
        format!("{}[cut: {} bytes]", &text[..end], text.len())
    })
}

enum ContentBlock {
    Text(String),
    /// With the line that stands for it.
    Other(String, OutcomeAttachment),
    /// The same, with a text that is to be read where it stands.
    Told(String, String, OutcomeAttachment),
}

fn is_text(block: &Value) -> bool {
    block.get("type").is_some_and(|it| it == "text") && block.get("text").is_some()
}

fn read(block: &Value) -> ContentBlock {
    let text = |name| block.get(name).and_then(Value::as_str);
    match text("type").unwrap_or_default() {
        "text" => match block.get("text") {
            Some(Value::String(text)) => ContentBlock::Text(text.clone()),
            Some(other) => ContentBlock::Text(other.to_string()),
            None => unknown(block, "text"),
        },
        "image" => match text("data") {
            Some(data) => bytes(BlockKind::Image, text("mimeType"), "", data),
            None => unknown(block, "image"),
        },
        "audio" => match text("data") {
            Some(data) => bytes(BlockKind::Audio, text("mimeType"), "", data),
            None => unknown(block, "audio"),
        },
        "resource" => resource(block),
        "resource_link" => {
            let uri = text("uri").unwrap_or_default();
            let name = text("title").or(text("name")).unwrap_or_default();
            let label = one_line(&[uri, name].join(" "), MAX_LABEL_CHARS);
            ContentBlock::Other(
                format!("[resource link {label}]"),
                OutcomeAttachment {
                    kind: BlockKind::Link,
                    mime: JSON.to_owned(),
                    uri: block::uri(uri).map(str::to_owned),
                    body: AttachmentBody::Text(block.to_string()),
                    end: 0,
                },
            )
        }
        other => unknown(block, other),
    }
}

fn resource(block: &Value) -> ContentBlock {
    let inner = block.get("resource").unwrap_or(&Value::Null);
    let text = |name| inner.get(name).and_then(Value::as_str);
    let uri = text("uri").unwrap_or_default();
    if let Some(data) = text("blob") {
        return bytes(BlockKind::Resource, text("mimeType"), uri, data);
    }
    let Some(content) = text("text") else {
        return unknown(block, "resource");
    };
    let mime = text("mimeType").and_then(block::mime);
    let mime = mime.unwrap_or("text/plain");
    let body = AttachmentBody::Text(content.to_owned());
    match attachment_block(BlockKind::Resource, mime, "", uri, body) {
        ContentBlock::Other(placeholder, attachment) => {
            ContentBlock::Told(placeholder, content.to_owned(), attachment)
        }
        other @ (ContentBlock::Text(_) | ContentBlock::Told(..)) => other,
    }
}

fn bytes(kind: BlockKind, mime: Option<&str>, uri: &str, base64: &str) -> ContentBlock {
    let mime = mime.and_then(block::mime).unwrap_or(UNKNOWN_MIME);
    match decoded(base64) {
        Some(bytes) => attachment_block(kind, mime, "", uri, AttachmentBody::Bytes(bytes)),
        // Whoever looks into it sees what was sent.
        None => {
            let body = AttachmentBody::Text(base64.to_owned());
            attachment_block(kind, "text/plain", ", not base64", uri, body)
        }
    }
}

/// In either alphabet, and over several lines.
fn decoded(base64: &str) -> Option<Vec<u8>> {
    let digits = base64.bytes().filter(|it| !it.is_ascii_whitespace());
    let digits = digits.map(|it| match it {
        b'-' => b'+',
        b'_' => b'/',
        other => other,
    });
    BASE64.decode(digits.collect::<Vec<u8>>()).ok()
}

fn attachment_block(
    kind: BlockKind,
    mime: &str,
    remark: &str,
    uri: &str,
    body: AttachmentBody,
) -> ContentBlock {
    let word = match kind {
        BlockKind::Image => "image",
        BlockKind::Audio => "audio",
        BlockKind::Resource => "resource",
        BlockKind::Link => "resource link",
        BlockKind::Other => "block",
    };
    let label = one_line(&[uri, mime].join(" "), MAX_LABEL_CHARS);
    ContentBlock::Other(
        format!("[{word} {label}{remark} {}]", size(body.bytes())),
        OutcomeAttachment {
            kind,
            mime: mime.to_owned(),
            uri: block::uri(uri).map(str::to_owned),
            body,
            end: 0,
        },
    )
}

/// A kind of block from the future, or a broken one: it is kept, and the model is told that it was there.
fn unknown(block: &Value, kind: &str) -> ContentBlock {
    let json = block.to_string();
    let kind = if kind.is_empty() { "untyped" } else { kind };
    let label = one_line(kind, MAX_LABEL_CHARS);
    ContentBlock::Other(
        format!("[block {label} {}]", size(json.len())),
        OutcomeAttachment {
            kind: BlockKind::Other,
            mime: JSON.to_owned(),
            uri: None,
            body: AttachmentBody::Text(json),
            end: 0,
        },
    )
}

/// `34 KiB`, and bytes below one of them.
fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 0x10_0000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "cases are written as values")]
    fn check(result: Value, expected: &str) {
        let outcome = flatten(&result);
        let mark = if outcome.is_error { "error: " } else { "" };
        assert_eq!(expected, format!("{mark}{}", outcome.text), "{result}");
    }

    #[test]
    fn texts_are_joined_and_the_rest_is_named() {
        check(
            json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b\nc"}]}),
            "a\nb\nc",
        );
        check(
            json!({"content": [{"type": "text", "text": "Error: no such file"}], "isError": true}),
            "error: Error: no such file",
        );
        check(
            json!({"content": [{"type": "text", "text": "Error: no such file"}], "isError": "yes"}),
            "Error: no such file",
        );
        let image = "A".repeat(46_424);
        check(
            json!({"content": [
                {"type": "text", "text": "see"},
                {"type": "image", "mimeType": "image/png", "data": image},
                {"type": "audio", "mimeType": "audio/wav", "data": "QUJD"},
                {"type": "resource", "resource": {"uri": "file:///a", "text": "hello"}},
                {"type": "resource", "resource": {"uri": "x://b", "mimeType": "a/b", "blob": "QQ=="}},
                {"type": "resource_link", "uri": "file:///c", "name": "a\nname"},
            ]}),
            "see\n[image image/png 34 KiB]\n[audio audio/wav 3 B]\n[resource file:///a text/plain 5 B]\nhello\n\
             [resource x://b a/b 1 B]\n[resource link file:///c a name]",
        );
    }

    #[test]
    fn structured_content_speaks_where_no_text_does() {
        let structured = json!({"temperature": 3});
        check(
            json!({"content": [], "structuredContent": structured}),
            r#"{"temperature":3}"#,
        );
        check(
            json!({"content": [{"type": "text", "text": "3 °C"}], "structuredContent": structured}),
            "3 °C",
        );
        check(json!({"structuredContent": [1, 2]}), "[1,2]");
        check(json!({"structuredContent": null, "content": []}), "");
    }

    /// What is kept is what was meant, with a type and a name that can be repeated anywhere.
    #[test]
    fn blocks_are_read_to_their_bytes() {
        #[track_caller]
        #[expect(clippy::needless_pass_by_value, reason = "cases are written as values")]
        fn check(block: Value, line: &str, mime: &str, body: &[u8]) {
            let outcome = flatten(&json!({"content": [{"type": "text", "text": "é"}, block]}));
            let [kept] = &outcome.attachments[..] else {
                panic!("{outcome:?}");
            };
            let bytes = match &kept.body {
                AttachmentBody::Bytes(bytes) => bytes.clone(),
                AttachmentBody::Text(text) => text.clone().into_bytes(),
            };
            assert_eq!(
                format!("é\n{line}"),
                outcome.text[..kept.end],
                "{outcome:?}"
            );
            assert_eq!(outcome.text.len(), kept.end);
            assert_eq!((mime, body), (kept.mime.as_str(), &bytes[..]));
        }
        let image =
            |mime: &str, data: &str| json!({"type": "image", "mimeType": mime, "data": data});
        let png = b"\x89PNG\xff\xfe";
        for data in ["iVBOR//+", "iVBOR__-", " iVBO\nR//+\r\n"] {
            check(
                image("image/png", data),
                "[image image/png 6 B]",
                "image/png",
                png,
            );
        }
        for data in ["QQ==", "QQ", "QR=="] {
            check(
                image("image/png", data),
                "[image image/png 1 B]",
                "image/png",
                b"A",
            );
        }
        check(
            image("image/png", ""),
            "[image image/png 0 B]",
            "image/png",
            b"",
        );
        let strange = image("x\r\n\u{1b}[2J", "QQ==");
        check(
            strange,
            "[image application/octet-stream 1 B]",
            UNKNOWN_MIME,
            b"A",
        );
        for data in ["!!", "A", "QQ==QQ==", "Q\u{e9}=="] {
            let line = format!("[image text/plain, not base64 {} B]", data.len());
            check(
                image("image/png", data),
                &line,
                "text/plain",
                data.as_bytes(),
            );
        }
        let link = json!({"type": "resource_link", "uri": "file:///c", "name": "n"});
        let json = link.to_string();
        check(
            link,
            "[resource link file:///c n]",
            "application/json",
            json.as_bytes(),
        );
    }

    #[test]
    fn a_line_is_found_behind_structured_content_too() {
        let image = json!({"type": "image", "mimeType": "image/png", "data": "QQ=="});
        let outcome = flatten(&json!({"content": [image, image], "structuredContent": {"a": 1}}));
        let ends: Vec<&str> = outcome
            .attachments
            .iter()
            .map(|it| &outcome.text[..it.end])
            .collect();
        let first = "{\"a\":1}\n[image image/png 1 B]";
        assert_eq!(vec![first, &outcome.text], ends);
    }

    /// What is small on the wire stays small.
    #[test]
    fn many_strange_blocks_are_counted() {
        let mut content = vec![json!(7); 100_000];
        content.push(json!({"type": "text", "text": "the end"}));
        let outcome = flatten(&json!({ "content": content }));
        assert_eq!(MAX_BLOCKS, outcome.attachments.len());
        let lines: Vec<&str> = outcome.text.lines().collect();
        assert_eq!(MAX_BLOCKS + 2, lines.len());
        assert_eq!(
            [
                "the end",
                "[99936 more blocks not kept: too much for one result]"
            ],
            lines[MAX_BLOCKS..]
        );
    }

    /// Results were lost to a strange block or to none.
    #[test]
    fn strange_results_are_passed_on() {
        check(
            json!({"content": [{"type": "json", "json": {"a": 1}}, {"type": "text", "text": "b"}]}),
            "[block json 30 B]\nb",
        );
        check(
            json!({"content": [7, {"type": "image"}]}),
            "[block untyped 1 B]\n[block image 16 B]",
        );
        check(json!({"content": "plain"}), "plain");
        check(json!({"content": {"a": 1}}), r#"{"a":1}"#);
        check(json!({"content": [{"type": "text", "text": 5}]}), "5");
        check(json!({}), "");
        check(json!({"_meta": {"x": 1}}), "");
        check(json!({"answer": 42}), r#"{"answer":42}"#);
        check(json!("done"), r#""done""#);
        check(json!(null), "");
    }
}
