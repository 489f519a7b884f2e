//! From a result of `tools/call` to what a model reads (MCP-9); one strange block costs itself only.

use serde_json::Value;

use super::outcome::{Attachment, Body, Outcome};
use super::text::one_line;

const MAX_LABEL_CHARS: usize = 200;

/// Flattens a result. A server may send anything: what is no result at all is shown as it is.
#[must_use]
pub fn flatten(result: &Value) -> Outcome {
    let mut outcome = Outcome {
        is_error: result.get("isError").and_then(Value::as_bool) == Some(true),
        structured: result
            .get("structuredContent")
            .filter(|it| !it.is_null())
            .cloned(),
        ..Outcome::default()
    };
    let mut lines = vec![];
    let mut has_text = false;
    match result.get("content") {
        Some(Value::Array(blocks)) => {
            for block in blocks {
                match read(block) {
                    Block::Text(text) => {
                        has_text = true;
                        lines.push(text);
                    }
                    Block::Other(attachment) => {
                        lines.push(attachment.placeholder.clone());
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
    if let (false, Some(structured)) = (has_text, &outcome.structured) {
        lines.insert(0, structured.to_string());
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
    outcome.text = lines.join("\n");
    outcome
}

enum Block {
    Text(String),
    Other(Attachment),
}

fn read(block: &Value) -> Block {
    let text = |name| block.get(name).and_then(Value::as_str);
    match text("type").unwrap_or_default() {
        "text" => match block.get("text") {
            Some(Value::String(text)) => Block::Text(text.clone()),
            Some(other) => Block::Text(other.to_string()),
            None => unknown(block, "text"),
        },
        kind @ ("image" | "audio") => match text("data") {
            Some(data) => {
                let mime = text("mimeType").unwrap_or("application/octet-stream");
                bytes(kind, mime, "", data)
            }
            None => unknown(block, kind),
        },
        "resource" => resource(block),
        "resource_link" => {
            let uri = text("uri").unwrap_or_default();
            let name = text("title").or(text("name")).unwrap_or_default();
            let label = [uri, name].join(" ");
            Block::Other(Attachment {
                placeholder: format!("[resource link {}]", one_line(&label, MAX_LABEL_CHARS)),
                mime: text("mimeType").unwrap_or_default().to_owned(),
                body: Body::Link(uri.to_owned()),
            })
        }
        other => unknown(block, other),
    }
}

fn resource(block: &Value) -> Block {
    let inner = block.get("resource").unwrap_or(&Value::Null);
    let text = |name| inner.get(name).and_then(Value::as_str);
    let uri = text("uri").unwrap_or_default();
    if let Some(data) = text("blob") {
        let mime = text("mimeType").unwrap_or("application/octet-stream");
        return bytes("resource", mime, uri, data);
    }
    let Some(content) = text("text") else {
        return unknown(block, "resource");
    };
    let mime = text("mimeType").unwrap_or("text/plain");
    let label = [uri, mime].join(" ");
    Block::Other(Attachment {
        placeholder: format!(
            "[resource {} {}]",
            one_line(&label, MAX_LABEL_CHARS),
            size(content.len())
        ),
        mime: mime.to_owned(),
        body: Body::Text(content.to_owned()),
    })
}

fn bytes(kind: &str, mime: &str, uri: &str, base64: &str) -> Block {
    let padding = base64.bytes().rev().take_while(|it| *it == b'=').count();
    let length = (base64.len() / 4 * 3 + (base64.len() % 4).saturating_sub(1)).saturating_sub(
        if base64.len().is_multiple_of(4) {
            padding
        } else {
            0
        },
    );
    let label = if uri.is_empty() {
        mime.to_owned()
    } else {
        format!("{uri} {mime}")
    };
    Block::Other(Attachment {
        placeholder: format!(
            "[{kind} {} {}]",
            one_line(&label, MAX_LABEL_CHARS),
            size(length)
        ),
        mime: mime.to_owned(),
        body: Body::Base64(base64.to_owned()),
    })
}

/// A kind of block from the future, or a broken one: it is kept, and the model is told that it was there.
fn unknown(block: &Value, kind: &str) -> Block {
    let json = block.to_string();
    let kind = if kind.is_empty() { "untyped" } else { kind };
    Block::Other(Attachment {
        placeholder: format!(
            "[block {} {}]",
            one_line(kind, MAX_LABEL_CHARS),
            size(json.len())
        ),
        mime: "application/json".to_owned(),
        body: Body::Unknown(json),
    })
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
            "see\n[image image/png 34 KiB]\n[audio audio/wav 3 B]\n[resource file:///a text/plain 5 B]\n\
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

    /// design/mcp, 2, row 2: results were lost to a strange block or to none.
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
