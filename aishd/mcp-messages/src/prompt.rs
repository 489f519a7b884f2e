//! From the messages of a prompt to one question.

use aishd_log::block::BlockKind;
use serde_json::{Value, json};

use crate::bounded_text::one_line;
use crate::content;
use crate::outcome::AttachmentBody;

const MAX_NAME_CHARS: usize = 200;

/// What is asked, and the texts that go along with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedPrompt {
    pub text: String,
    /// Each with its name.
    pub texts: Vec<(String, String)>,
}

/// A message that is not the user's own says whose it is.
pub fn render(messages: &[Value]) -> RenderedPrompt {
    let mut rendered = RenderedPrompt::default();
    let mut parts = vec![];
    for message in messages {
        let block = message.get("content").unwrap_or(&Value::Null);
        if block.is_null() {
            continue;
        }
        // One block, or several as in the results of tools.
        let blocks = match block {
            Value::Array(_) => block.clone(),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => json!([block]),
        };
        let outcome = if let Value::String(text) = block {
            content::outcome_of(&json!({"content": text}))
        } else {
            content::outcome_of(&json!({ "content": blocks }))
        };
        for attachment in outcome.attachments {
            if let (BlockKind::Resource, AttachmentBody::Text(text)) =
                (attachment.kind, attachment.body)
            {
                let line = outcome.text[..attachment.end].lines().next_back();
                let name = line.unwrap_or_default().trim_matches(['[', ']']);
                let name = name.strip_prefix("resource ").unwrap_or(name);
                let name = one_line(name, MAX_NAME_CHARS);
                rendered.texts.push((name, text));
            }
        }
        match message.get("role").and_then(Value::as_str) {
            Some("user") | None => parts.push(outcome.text),
            Some(other) => parts.push(format!("[{}]\n{}", one_line(other, 20), outcome.text)),
        }
    }
    rendered.text = parts.join("\n\n");
    rendered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(messages: &Value, text: &str, texts: &[(&str, &str)]) {
        let rendered = render(messages.as_array().unwrap());
        assert_eq!(text, rendered.text);
        let seen = rendered.texts.iter();
        let seen: Vec<_> = seen.map(|(n, t)| (n.as_str(), t.as_str())).collect();
        assert_eq!(texts, seen);
    }

    #[test]
    fn a_prompt_becomes_one_question() {
        let said = |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
        check(&json!([said("user", "a")]), "a", &[]);
        check(
            &json!([said("user", "a"), said("assistant", "b"), said("user", "c")]),
            "a\n\n[assistant]\nb\n\nc",
            &[],
        );
        let resource = json!({"role": "user", "content": {"type": "resource", "resource": {"uri": "note://1", "mimeType": "text/plain", "text": "buy milk"}}});
        check(
            &json!([said("user", "a"), resource]),
            "a\n\n[resource note://1 text/plain 8 B]",
            &[("note://1 text/plain 8 B", "buy milk")],
        );
        // As servers write them that have not read the specification.
        check(&json!([{"content": "a"}, {"role": "user"}, 7]), "a", &[]);
    }
}
