//! What of a request its server may do without, and may refuse by its name: sampling, the limit of an answer, the wish
//! for counts. Nothing of it is sent that nobody set. What a server refuses is left out, or sent under the other name, and
//! that is remembered for this server and model.

use std::collections::{BTreeSet, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::preset::{Backend, Preset};
use crate::reply::{HttpDetail, RequestFailure};
use crate::tool_limit;

/// Where the limit counts what the model thinks as well, an answer of a few words needs so much more.
const FOR_THOUGHT_TOKENS: u64 = 4_000;

/// A server that takes fewer tools each time it is asked is not asked for ever.
const MOST_CUTS: u32 = 3;

/// How servers say that they do not want a field.
const REFUSALS: [&str; 14] = [
    "unsupported",
    "not supported",
    "no longer supported",
    "does not support",
    "doesn't support",
    "deprecated",
    "unrecognized",
    "unknown parameter",
    "unknown field",
    "unknown argument",
    "extra inputs",
    "not permitted",
    "not allowed",
    "unexpected keyword",
];

/// Something that a request can be without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OptionalField {
    #[serde(rename = "temperature")]
    Temperature,
    #[serde(rename = "limit")]
    Limit,
    #[serde(rename = "stream_options")]
    StreamOptions,
    #[serde(rename = "stop")]
    StopSequences,
}

/// What a server calls the limit of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    MaxTokens,
    /// What the model thinks counts too.
    MaxCompletionTokens,
}

/// What a server was found to want otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedFields {
    #[serde(default)]
    pub without: BTreeSet<OptionalField>,
    #[serde(default)]
    pub limit: Option<LimitName>,
    /// How many tools a request may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tools: Option<usize>,
    /// It refuses a request that has tools. Known until the daemon ends: it is often how the server was started.
    #[serde(skip)]
    pub takes_no_tools: bool,
}

/// What became of a request that a server refused for something optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CureOutcome {
    pub learned: LearnedFields,
    /// For people.
    pub told: Vec<String>,
    /// How often tools were left out.
    cuts: u32,
}

/// What somebody set for one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestOptions<'a> {
    pub temperature: Option<f64>,
    pub limit: Option<OutputLimit>,
    pub stop: &'a [String],
}

/// The longest answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputLimit {
    /// As it was set.
    Set(u64),
    /// Of what is said; what the model thinks has room beside it.
    Said(u64),
}

impl LimitName {
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::MaxTokens => Self::MaxCompletionTokens,
            Self::MaxCompletionTokens => Self::MaxTokens,
        }
    }
}

impl LearnedFields {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// With what was learned since.
    pub fn and(mut self, newer: &Self) -> Self {
        self.without.extend(&newer.without);
        self.limit = newer.limit.or(self.limit);
        self.max_tools = newer.max_tools.or(self.max_tools);
        self.takes_no_tools |= newer.takes_no_tools;
        self
    }
}

/// What this preset's server calls the limit: as was learned, else by whose server it is.
pub fn limit_name(preset: &Preset) -> LimitName {
    if let Some(name) = preset.learned.limit {
        return name;
    }
    let host = match &preset.backend {
        Backend::Http(endpoint) => endpoint.host(),
        Backend::Demo => String::new(),
    };
    if host == "api.openai.com" || host.ends_with(".openai.azure.com") {
        LimitName::MaxCompletionTokens
    } else {
        LimitName::MaxTokens
    }
}

/// The optional fields of a request, in the order in which they are sent.
pub fn fields(preset: &Preset, options: RequestOptions<'_>) -> Vec<(&'static str, Value)> {
    let sends = |field| !preset.learned.without.contains(&field);
    let mut fields = vec![];
    if preset.include_usage && sends(OptionalField::StreamOptions) {
        fields.push(("stream_options", json!({"include_usage": true})));
    }
    if let Some(temperature) = options
        .temperature
        .filter(|_| sends(OptionalField::Temperature))
    {
        fields.push(("temperature", json!(temperature)));
    }
    if let Some(limit) = options.limit.filter(|_| sends(OptionalField::Limit)) {
        let name = limit_name(preset);
        let tokens = match (limit, name) {
            (OutputLimit::Set(tokens), _) | (OutputLimit::Said(tokens), LimitName::MaxTokens) => {
                tokens
            }
            (OutputLimit::Said(tokens), LimitName::MaxCompletionTokens) => {
                tokens + FOR_THOUGHT_TOKENS
            }
        };
        fields.push((name.name(), json!(tokens)));
    }
    if !options.stop.is_empty() && sends(OptionalField::StopSequences) {
        fields.push(("stop", json!(options.stop)));
    }
    fields
}

/// Which of these a server refuses with such words, where it names one; `param` is the name that it gives apart.
pub fn refused(message: &str, param: Option<&str>) -> Option<OptionalField> {
    let text = message.to_lowercase();
    if !REFUSALS.iter().any(|it| text.contains(it)) {
        return None;
    }
    if let Some(param) = param.filter(|it| !it.is_empty()) {
        let first = param.split(['.', '[']).next().unwrap_or(param);
        return of_name(first);
    }
    // Other words than names of fields may be in it too, so they are looked for in the order in which they mean most.
    let words: Vec<&str> = text
        .split(|it: char| !it.is_ascii_alphanumeric() && it != '_')
        .collect();
    let named = words
        .iter()
        .find_map(|it| of_name(it).filter(|it| *it != OptionalField::StopSequences));
    let quoted = |it: &str| {
        ['\'', '"', '`']
            .iter()
            .any(|mark| text.contains(&format!("{mark}{it}{mark}")))
    };
    named.or_else(|| quoted("stop").then_some(OptionalField::StopSequences))
}

fn of_name(name: &str) -> Option<OptionalField> {
    match name {
        "temperature" => Some(OptionalField::Temperature),
        "max_tokens" | "max_completion_tokens" => Some(OptionalField::Limit),
        "stream_options" | "include_usage" => Some(OptionalField::StreamOptions),
        "stop" => Some(OptionalField::StopSequences),
        _ => None,
    }
}

impl CureOutcome {
    /// The same request as this server wants it, if it refused something optional that is in it. Each is cured once, so
    /// this ends.
    pub fn cure(
        &mut self,
        preset: &Preset,
        body: &[u8],
        failure: &RequestFailure,
    ) -> Option<String> {
        let field = match failure {
            RequestFailure::Http {
                status: 400 | 422,
                detail: HttpDetail::Refuses(field),
                ..
            } => *field,
            RequestFailure::Http {
                detail: HttpDetail::TooManyTools,
                message,
                ..
            } => return self.with_fewer_tools(preset, body, message),
            RequestFailure::Http {
                detail: HttpDetail::TakesNoTools,
                ..
            } => return self.without_tools(preset, body),
            RequestFailure::Api {
                message,
                overflow: false,
            } => match refused(message, None) {
                Some(field) => field,
                None if tool_limit::takes_none(message) => {
                    return self.without_tools(preset, body);
                }
                None if tool_limit::is_refused(message, None) => {
                    return self.with_fewer_tools(preset, body, message);
                }
                None => return None,
            },
            _ => return None,
        };
        let mut body: Map<String, Value> = serde_json::from_slice(body).ok()?;
        let model = &preset.model;
        let told = match field {
            OptionalField::Temperature => {
                body.remove("temperature")?;
                format!("{model} takes no `temperature`: asked again without it")
            }
            OptionalField::StreamOptions => {
                body.remove("stream_options")?;
                format!(
                    "the server of {model} takes no `stream_options`: asked again without it, and tokens are estimated"
                )
            }
            OptionalField::StopSequences => {
                body.remove("stop")?;
                format!("{model} takes no `stop`: asked again without it")
            }
            OptionalField::Limit => {
                let names = [LimitName::MaxTokens, LimitName::MaxCompletionTokens];
                let sent = names.into_iter().find(|it| body.contains_key(it.name()))?;
                let tokens = body.remove(sent.name())?;
                // Where neither name is wanted it goes without.
                if self.learned.limit.is_none() {
                    let other = sent.other();
                    body.insert(other.name().to_owned(), tokens);
                    self.learned.limit = Some(other);
                    self.told.push(format!(
                        "{model} takes no `{}`: asked again with `{}`",
                        sent.name(),
                        other.name()
                    ));
                    return Some(Value::Object(body).to_string());
                }
                self.learned.limit = None;
                format!("{model} takes no limit of an answer: asked again without it")
            }
        };
        self.learned.without.insert(field);
        self.told.push(told);
        Some(Value::Object(body).to_string())
    }

    /// The same request without tools. What was called before stays in it.
    fn without_tools(&mut self, preset: &Preset, body: &[u8]) -> Option<String> {
        let mut body: Map<String, Value> = serde_json::from_slice(body).ok()?;
        body.remove("tools")?;
        self.learned.takes_no_tools = true;
        self.told.push(format!(
            "{} takes no tools: asked again without them",
            preset.model
        ));
        Some(Value::Object(body).to_string())
    }

    /// The same request with as many tools as these words say that the server takes.
    fn with_fewer_tools(&mut self, preset: &Preset, body: &[u8], message: &str) -> Option<String> {
        if self.cuts == MOST_CUTS {
            return None;
        }
        let mut body: Map<String, Value> = serde_json::from_slice(body).ok()?;
        let Some(Value::Array(mut tools)) = body.get("tools").cloned() else {
            return None;
        };
        let messages = body.get("messages").and_then(Value::as_array);
        let calls = messages.into_iter().flatten();
        let calls = calls.filter_map(|it| it["tool_calls"].as_array()).flatten();
        let called: HashSet<&str> = calls.filter_map(name).collect();
        let names: Vec<&str> = tools
            .iter()
            .map(|it| name(it).unwrap_or_default())
            .collect();
        let chosen = tool_limit::chosen(
            &names,
            &called,
            tool_limit::limit_from_error(message, names.len()),
        );
        self.told
            .extend(tool_limit::left_out_notice(&preset.model, &names, &chosen));
        self.learned.max_tools = Some(chosen.len());
        self.cuts += 1;
        let mut at = 0..;
        tools.retain(|_| at.next().is_some_and(|it| chosen.contains(&it)));
        // Some servers refuse an empty list.
        if tools.is_empty() {
            body.remove("tools");
        } else {
            body.insert("tools".to_owned(), Value::Array(tools));
        }
        Some(Value::Object(body).to_string())
    }
}

/// What a tool, or a call of one, is called.
fn name(it: &Value) -> Option<&str> {
    it["function"]["name"].as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, param: Option<&str>, expected: Option<OptionalField>) {
        assert_eq!(expected, refused(message, param), "{message}");
    }

    /// The words of real servers.
    #[test]
    fn a_refusal_is_told_from_another_complaint() {
        let temperature = Some(OptionalField::Temperature);
        check(
            "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
            Some("temperature"),
            temperature,
        );
        check(
            "`temperature` is deprecated for this model.",
            None,
            temperature,
        );
        check(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            Some("max_tokens"),
            Some(OptionalField::Limit),
        );
        check(
            "Unrecognized request argument supplied: max_completion_tokens",
            None,
            Some(OptionalField::Limit),
        );
        check(
            r#"[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]"#,
            None,
            Some(OptionalField::StreamOptions),
        );
        check(
            "Unsupported parameter: 'stop' is not supported with this model.",
            Some("stop"),
            Some(OptionalField::StopSequences),
        );
        check(
            "`stop` is not supported",
            None,
            Some(OptionalField::StopSequences),
        );
        // What is no field of ours, or is wanted otherwise, is not left out.
        check(
            "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use /v1/responses instead.",
            Some("reasoning_effort"),
            None,
        );
        check(
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
            Some("max_tokens"),
            None,
        );
        check(
            "temperature must be between 0 and 2",
            Some("temperature"),
            None,
        );
        check("this model does not support tools", None, None);
        check("please stop, streaming is not supported", None, None);
    }

    fn http(field: OptionalField) -> RequestFailure {
        RequestFailure::Http {
            status: 400,
            message: String::new(),
            retry_after_ms: None,
            detail: HttpDetail::Refuses(field),
        }
    }

    #[test]
    fn each_thing_is_left_out_once_and_the_limit_is_renamed_first() {
        let preset = Preset::demo();
        let mut cured = CureOutcome::default();
        let sent = br#"{"model":"m","max_tokens":5,"temperature":1.0}"#;
        let renamed = cured
            .cure(&preset, sent, &http(OptionalField::Limit))
            .unwrap();
        assert_eq!(
            json!({"model": "m", "max_completion_tokens": 5, "temperature": 1.0}),
            serde_json::from_str::<Value>(&renamed).unwrap()
        );
        assert_eq!(Some(LimitName::MaxCompletionTokens), cured.learned.limit);
        let without = cured
            .cure(&preset, renamed.as_bytes(), &http(OptionalField::Limit))
            .unwrap();
        assert_eq!(
            json!({"model": "m", "temperature": 1.0}),
            serde_json::from_str::<Value>(&without).unwrap()
        );
        let bare = cured
            .cure(
                &preset,
                without.as_bytes(),
                &http(OptionalField::Temperature),
            )
            .unwrap();
        assert_eq!(r#"{"model":"m"}"#, bare);
        for field in [
            OptionalField::Temperature,
            OptionalField::Limit,
            OptionalField::StreamOptions,
            OptionalField::StopSequences,
        ] {
            assert_eq!(None, cured.cure(&preset, bare.as_bytes(), &http(field)));
        }
        assert_eq!((3, None), (cured.told.len(), cured.learned.limit));
        let kept = serde_json::to_string(&cured.learned).unwrap();
        assert_eq!(r#"{"without":["temperature","limit"],"limit":null}"#, kept);
        assert_eq!(cured.learned, serde_json::from_str(&kept).unwrap());
    }
}
