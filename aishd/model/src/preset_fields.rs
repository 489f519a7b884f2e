//! What a preset says of its requests beyond what aish writes by itself: sampling, how much is said, fields that are added
//! and fields that are left out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Fields that are the request itself: no preset says them.
pub const OF_THE_REQUEST: [&str; 7] = [
    "model",
    "messages",
    "input",
    "tools",
    "stream",
    "system",
    "instructions",
];

/// What a preset says of its requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PresetFields {
    /// From how much of what is probable words are chosen.
    pub top_p: Option<f64>,
    /// How much the model is to say.
    pub verbosity: Option<AnswerLength>,
    /// Fields that go over those that are written; an object joins its object.
    pub extra: Map<String, Value>,
    /// Fields that are never sent.
    pub omit: BTreeSet<String>,
}

/// How much a model is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerLength {
    Low,
    Medium,
    High,
}

impl AnswerLength {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

impl PresetFields {
    /// A request as it goes out. Values that nothing is said of stay as they are, byte for byte.
    pub fn applied_to(&self, body: String) -> String {
        if self.extra.is_empty() && self.omit.is_empty() {
            return body;
        }
        let fields: Result<BTreeMap<String, Box<RawValue>>, _> = serde_json::from_str(&body);
        let Ok(mut fields) = fields else { return body };
        for name in &self.omit {
            fields.remove(name);
        }
        for (name, said) in &self.extra {
            let written = fields.get(name).map(|it| serde_json::from_str(it.get()));
            let mut value: Value = written.and_then(Result::ok).unwrap_or_default();
            lay_over(&mut value, said);
            if let Ok(value) = serde_json::value::to_raw_value(&value) {
                fields.insert(name.clone(), value);
            }
        }
        serde_json::to_string(&fields).unwrap_or(body)
    }

    /// Which of these fields the preset adds itself.
    pub(crate) fn adds(&self, names: &[&'static str]) -> Option<&'static str> {
        names
            .iter()
            .find(|it| self.extra.contains_key(**it))
            .copied()
    }
}

fn lay_over(below: &mut Value, above: &Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (name, value) in above {
                lay_over(below.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (below, above) => below.clone_from(above),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_preset_adds_goes_over_what_is_written() {
        let check = |extra: Value, omit: &[&str], expected: &str| {
            let Value::Object(extra) = extra else {
                panic!("{extra}")
            };
            let fields = PresetFields {
                extra,
                omit: omit.iter().map(|it| (*it).to_owned()).collect(),
                ..PresetFields::default()
            };
            // A number as some servers seal it.
            let body = r#"{"model":"m","input":[{"n":1.10}],"text":{"verbosity":"low","format":{"a":1}},"stop":["x"]}"#;
            assert_eq!(expected, fields.applied_to(body.to_owned()));
        };
        let whole = r#"{"model":"m","input":[{"n":1.10}],"text":{"verbosity":"low","format":{"a":1}},"stop":["x"]}"#;
        check(json!({}), &[], whole);
        check(
            json!({}),
            &["text", "absent"],
            r#"{"input":[{"n":1.10}],"model":"m","stop":["x"]}"#,
        );
        check(
            json!({"stop": ["y"], "text": {"format": {"b": 2}}, "seed": 7}),
            &[],
            r#"{"input":[{"n":1.10}],"model":"m","seed":7,"stop":["y"],"text":{"format":{"a":1,"b":2},"verbosity":"low"}}"#,
        );
    }
}
