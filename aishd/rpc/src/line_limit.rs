//! Events and records that would not fit in a line: the longest of their texts is cut, visibly. A text of
//! control characters is six times as long on the wire as in the store.

use aish_proto::limits::LINE_FROM_DAEMON_BYTES;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What one line can hold besides what stands around it: a reply's id, a notification's head.
pub(super) const FITTING_BYTES: usize = LINE_FROM_DAEMON_BYTES - (64 << 10);
/// A mark is no longer than this.
const MARK_BYTES: usize = 64;

/// The event as JSON, cut when it would be longer than a line.
pub(super) fn encoded(event: &impl Serialize) -> String {
    let text = serde_json::to_string(event).unwrap_or_default();
    if text.len() <= FITTING_BYTES {
        return text;
    }
    let mut value = serde_json::to_value(event).unwrap_or_default();
    cut_to(&mut value, text.len(), FITTING_BYTES);
    value.to_string()
}

/// The record, cut when its JSON would be longer than a line.
pub(super) fn record<T: Serialize + DeserializeOwned>(record: T) -> T {
    let bytes = serde_json::to_string(&record).map_or(0, |it| it.len());
    if bytes <= FITTING_BYTES {
        return record;
    }
    let mut value = serde_json::to_value(&record).unwrap_or_default();
    cut_to(&mut value, bytes, FITTING_BYTES);
    serde_json::from_value(value).unwrap_or(record)
}

/// Cuts the longest texts until `bytes`, the length of the JSON, is no more than `limit`.
fn cut_to(value: &mut Value, mut bytes: usize, limit: usize) {
    while bytes > limit {
        let Some((before, text)) = longest(value) else {
            return;
        };
        if before <= 2 * MARK_BYTES {
            return;
        }
        let wanted = before.saturating_sub(bytes - limit + MARK_BYTES);
        shorten(text, wanted);
        bytes = bytes - before + encoded_bytes(text);
    }
}

/// The text that takes most bytes as JSON, and how many.
fn longest(value: &mut Value) -> Option<(usize, &mut String)> {
    match value {
        Value::String(text) => Some((encoded_bytes(text), text)),
        Value::Array(items) => items.iter_mut().filter_map(longest).max_by_key(|it| it.0),
        Value::Object(fields) => fields
            .values_mut()
            .filter_map(longest)
            .max_by_key(|it| it.0),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Keeps a beginning that takes at most `wanted` bytes as JSON, and says how much is missing.
fn shorten(text: &mut String, wanted: usize) {
    let mut taken = 0;
    let end = text.char_indices().find_map(|(at, it)| {
        taken += char_bytes(it);
        (taken > wanted).then_some(at)
    });
    if let Some(end) = end {
        let missing = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("[… cut: {missing} bytes …]"));
    }
}

fn encoded_bytes(text: &str) -> usize {
    text.chars().map(char_bytes).sum()
}

/// How many bytes a character takes in a JSON text, as `serde_json` writes it.
fn char_bytes(it: char) -> usize {
    match it {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => it.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_stays_as_it_is() {
        let value = json!({"text": "\u{1b}é\"\\\n", "n": 1});
        assert_eq!(value.to_string(), encoded(&value));
        assert_eq!(value, record(value.clone()));
    }

    #[test]
    fn the_longest_texts_are_cut_until_it_fits() {
        for piece in ["\u{1b}", "é\"🙂a"] {
            let long = piece.repeat(FITTING_BYTES / 2 / piece.len());
            let value =
                json!({"data": {"text": long, "calls": [long, long]}, "seq": 7, "kind": "x"});
            let text = encoded(&value);
            assert!(text.len() <= FITTING_BYTES, "{}", text.len());
            assert!(
                text.len() > FITTING_BYTES - 4 * MARK_BYTES,
                "{}",
                text.len()
            );
            let back: Value = serde_json::from_str(&text).unwrap();
            assert_eq!((&json!(7), &json!("x")), (&back["seq"], &back["kind"]));
            assert!(text.contains("[… cut: "));
            assert_eq!(back, record(value));
        }
    }

    #[test]
    fn lengths_are_those_of_the_encoder() {
        for it in ('\0'..='\u{2ff}').chain(['漢', '🙂', '\u{2028}']) {
            let text = serde_json::to_string(&it.to_string()).unwrap();
            assert_eq!(text.len() - 2, char_bytes(it), "{it:?}");
        }
    }
}
