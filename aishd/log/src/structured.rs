//! The value of a result, where it has one that fits the output schema of its tool: for clients that read values. A model is
//! shown the text.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A larger value is not kept a second time beside a text that says something else.
const MAX_VALUE_BYTES: usize = 256 << 10;

/// How the log has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredResult {
    /// The text of the result is its JSON.
    Text,
    /// It is this, beside the text.
    Value(Value),
}

impl StructuredResult {
    /// `None`: it is too large to be kept beside the text.
    pub fn of(value: &Value, text: &str) -> Option<Self> {
        if serde_json::from_str::<Value>(text).is_ok_and(|it| it == *value) {
            return Some(Self::Text);
        }
        let fits = value.to_string().len() <= MAX_VALUE_BYTES;
        fits.then(|| Self::Value(value.clone()))
    }

    /// The same where something else is put into the text.
    pub fn apart_from(self, text: &str) -> Option<Self> {
        match self {
            Self::Text => serde_json::from_str(text).ok().map(Self::Value),
            Self::Value(_) => Some(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_kept_once_and_not_at_any_size() {
        let value = json!({"b": [1.5], "a": "é"});
        let text = StructuredResult::of(&value, "{\"a\": \"é\", \"b\": [1.5]}");
        assert_eq!(Some(StructuredResult::Text), text);
        let beside = StructuredResult::of(&value, "b is 1.5");
        assert_eq!(Some(StructuredResult::Value(value.clone())), beside);
        let apart = StructuredResult::Text.apart_from(&value.to_string());
        assert_eq!(Some(StructuredResult::Value(value)), apart);
        let large = json!("x".repeat(MAX_VALUE_BYTES));
        assert_eq!(None, StructuredResult::of(&large, "much"));
        assert_eq!(
            Some(StructuredResult::Text),
            StructuredResult::of(&large, &large.to_string())
        );
    }
}
