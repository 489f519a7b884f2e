//! What of a request its server may do without, and may refuse by its name: sampling, the limit of an answer, the wish
//! for counts. Nothing of it is sent that nobody set. What a server refuses is left out, or sent under the other name, and
//! that is remembered for this server and model.

use std::collections::{BTreeSet, HashSet};

use aishd_log::sealed_answer::ApiDialect;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::picture_refusal::{self, PictureRefusal};
use crate::preset::Preset;
use crate::reply::{HttpDetail, RequestFailure};
use crate::tool_limit;

/// Where the limit counts what the model thinks as well, an answer of a few words needs so much more.
pub const FOR_THOUGHT_TOKENS: u64 = 4_000;

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
    /// How much to think.
    #[serde(rename = "effort")]
    Effort,
    /// The wish for what it thinks in a sealed form.
    #[serde(rename = "sealed_thinking")]
    SealedThinking,
    /// Whose requests begin alike.
    #[serde(rename = "cache_key")]
    CacheKey,
    /// Up to where a server is to keep what it has read.
    #[serde(rename = "cache_marks")]
    CacheMarks,
    /// Pictures and PDFs, in whose places a line stands.
    #[serde(rename = "pictures")]
    Pictures,
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
    let host = preset.host();
    if host == "api.openai.com" || host.ends_with(".openai.azure.com") {
        LimitName::MaxCompletionTokens
    } else {
        LimitName::MaxTokens
    }
}

/// The optional fields of a chat completion, in the order in which they are sent.
pub fn fields(preset: &Preset, options: RequestOptions<'_>) -> Vec<(&'static str, Value)> {
    let sends = |field| !preset.learned.without.contains(&field);
    let takes = |field| sends(field) && preset.takes_temperature();
    let mut fields = vec![];
    if preset.include_usage && sends(OptionalField::StreamOptions) {
        fields.push(("stream_options", json!({"include_usage": true})));
    }
    if let Some(temperature) = options
        .temperature
        .filter(|_| takes(OptionalField::Temperature))
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
    if let Some(effort) = preset.effort.filter(|_| sends(OptionalField::Effort)) {
        fields.push(("reasoning_effort", json!(effort.as_str())));
    }
    if !options.stop.is_empty() && sends(OptionalField::StopSequences) {
        fields.push(("stop", json!(options.stop)));
    }
    fields
}

/// Which of these a server refuses with such words, where it names one; `param` is the name that it gives apart.
pub fn refused(message: &str, param: Option<&str>) -> Option<OptionalField> {
    if picture_refusal::refused(message).is_some() {
        return Some(OptionalField::Pictures);
    }
    let text = message.to_lowercase();
    if !REFUSALS.iter().any(|it| text.contains(it)) {
        return None;
    }
    // Another address is another matter.
    if text.contains("/v1/responses") {
        return None;
    }
    if text.contains("encrypted content") {
        return Some(OptionalField::SealedThinking);
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
        .find_map(|it| of_name(it).filter(|_| !PLAIN_WORDS.contains(it)));
    let quoted = |it: &str| {
        ['\'', '"', '`']
            .iter()
            .any(|mark| text.contains(&format!("{mark}{it}{mark}")))
    };
    let mut plain = PLAIN_WORDS.into_iter().filter(|it| quoted(it));
    named.or_else(|| plain.find_map(of_name))
}

/// Names that are words of any sentence: they mean the field only in quotes.
const PLAIN_WORDS: [&str; 4] = ["stop", "include", "reasoning", "effort"];

fn of_name(name: &str) -> Option<OptionalField> {
    match name {
        "temperature" => Some(OptionalField::Temperature),
        "max_tokens" | "max_completion_tokens" | "max_output_tokens" => Some(OptionalField::Limit),
        "stream_options" | "include_usage" => Some(OptionalField::StreamOptions),
        "stop" | "stop_sequences" => Some(OptionalField::StopSequences),
        "reasoning_effort" | "reasoning" | "thinking" | "output_config" | "effort" => {
            Some(OptionalField::Effort)
        }
        "include" => Some(OptionalField::SealedThinking),
        "prompt_cache_key" => Some(OptionalField::CacheKey),
        "cache_control" => Some(OptionalField::CacheMarks),
        _ => None,
    }
}

impl CureOutcome {
    /// The same request as this server wants it, if it refused something optional that is in it. Each is cured once, so
    /// this ends.
    #[expect(
        clippy::too_many_lines,
        reason = "one arm for each way to refuse something, and what cures it"
    )]
    pub fn cure(
        &mut self,
        preset: &Preset,
        body: &[u8],
        failure: &RequestFailure,
    ) -> Option<String> {
        let field = match failure {
            // By a server with several ways to say so.
            RequestFailure::Http {
                status: 400..=422 | 500..=501,
                detail: HttpDetail::Refuses(OptionalField::Pictures),
                message,
                ..
            } => return self.without_pictures(preset, body, message),
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
            RequestFailure::Http {
                detail: HttpDetail::RefusesSeals,
                ..
            } => return self.without_seals(preset, body),
            RequestFailure::Api {
                message,
                overflow: false,
            } => match refused(message, None) {
                Some(OptionalField::Pictures) => {
                    return self.without_pictures(preset, body, message);
                }
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
                let names = ["stop", "stop_sequences"];
                names.iter().find_map(|it| body.remove(*it))?;
                format!("{model} takes no `stop`: asked again without it")
            }
            OptionalField::Effort => {
                let names = ["reasoning_effort", "reasoning", "thinking", "output_config"];
                let removed = names
                    .map(|it| body.remove(it))
                    .into_iter()
                    .flatten()
                    .count();
                if removed == 0 {
                    return None;
                }
                format!("{model} cannot be told how much to think: asked again without that")
            }
            OptionalField::SealedThinking => {
                body.remove("include")?;
                format!("{model} does not hand out what it thinks: asked again without that")
            }
            OptionalField::CacheKey => {
                body.remove("prompt_cache_key")?;
                format!("the server of {model} takes no `prompt_cache_key`: asked again without it")
            }
            OptionalField::CacheMarks => {
                let mut rest = Value::Object(body);
                if !without_marks(&mut rest) {
                    return None;
                }
                let told = format!(
                    "the server of {model} takes no `cache_control`: asked again without it"
                );
                self.told.push(told);
                self.learned.without.insert(field);
                return Some(rest.to_string());
            }
            OptionalField::Pictures => return None,
            OptionalField::Limit => {
                // There it has to be said.
                if preset.api() == ApiDialect::Messages {
                    return None;
                }
                if body.remove("max_output_tokens").is_none()
                    && let Some(renamed) = self.renamed_limit(preset, &mut body)
                {
                    return renamed.then(|| Value::Object(body).to_string());
                }
                self.learned.limit = None;
                format!("{model} takes no limit of an answer: asked again without it")
            }
        };
        self.learned.without.insert(field);
        self.told.push(told);
        Some(Value::Object(body).to_string())
    }

    /// The limit under its other name, once. `None`: it was that already, and is taken out; false: there is none in it.
    fn renamed_limit(&mut self, preset: &Preset, body: &mut Map<String, Value>) -> Option<bool> {
        let names = [LimitName::MaxTokens, LimitName::MaxCompletionTokens];
        let Some(sent) = names.into_iter().find(|it| body.contains_key(it.name())) else {
            return Some(false);
        };
        let tokens = body.remove(sent.name())?;
        if self.learned.limit.is_some() {
            return None;
        }
        let other = sent.other();
        body.insert(other.name().to_owned(), tokens);
        self.learned.limit = Some(other);
        self.told.push(format!(
            "{} takes no `{}`: asked again with `{}`",
            preset.model,
            sent.name(),
            other.name()
        ));
        Some(true)
    }

    /// The same request without what the server sealed itself: it may have another key by now.
    fn without_seals(&mut self, preset: &Preset, body: &[u8]) -> Option<String> {
        let mut body: Map<String, Value> = serde_json::from_slice(body).ok()?;
        let is_seal = |it: &Value| {
            let kind = it["type"].as_str();
            kind.is_some_and(|it| matches!(it, "reasoning" | "thinking" | "redacted_thinking"))
        };
        let mut removed = false;
        let mut sweep = |list: &mut Vec<Value>| {
            let before = list.len();
            list.retain(|it| !is_seal(it));
            removed |= list.len() < before;
        };
        if let Some(Value::Array(input)) = body.get_mut("input") {
            sweep(input);
        }
        let messages = body.get_mut("messages").and_then(Value::as_array_mut);
        for message in messages.into_iter().flatten() {
            if let Some(Value::Array(content)) = message.get_mut("content") {
                sweep(content);
            }
        }
        if !removed {
            return None;
        }
        self.told.push(format!(
            "the server of {} does not take back what it thought before: asked again without that",
            preset.model
        ));
        Some(Value::Object(body).to_string())
    }

    /// The same request with lines in place of its pictures, once.
    fn without_pictures(&mut self, preset: &Preset, body: &[u8], message: &str) -> Option<String> {
        let mut body: Map<String, Value> = serde_json::from_slice(body).ok()?;
        if !picture_refusal::take_out(&mut body) {
            return None;
        }
        let model = &preset.model;
        self.told.push(match picture_refusal::refused(message)? {
            PictureRefusal::All => {
                self.learned.without.insert(OptionalField::Pictures);
                format!("{model} takes no pictures: asked again without them")
            }
            PictureRefusal::This => format!(
                "the server of {model} refused a picture: asked again without any ({message})"
            ),
        });
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
        let called = called(&body);
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
    it["function"]["name"].as_str().or(it["name"].as_str())
}

/// The names of all that was called in a request, in whatever dialect it is.
fn called(body: &Map<String, Value>) -> HashSet<&str> {
    let list = |name: &str| {
        body.get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let is_call = |it: &&Value| {
        let kind = it["type"].as_str();
        kind.is_some_and(|it| matches!(it, "function_call" | "tool_use"))
    };
    let in_messages = list("messages").flat_map(|it| {
        let lists = ["tool_calls", "content"].map(|name| it[name].as_array());
        lists.into_iter().flatten().flatten()
    });
    let of_chat = |it: &&Value| it["function"].is_object();
    let calls = in_messages.filter(|it| of_chat(it) || is_call(it));
    let calls = calls.chain(list("input").filter(is_call));
    calls.filter_map(name).collect()
}

/// Takes the marks of what is to be kept out, and says whether there were any.
fn without_marks(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => {
            let had = fields.remove("cache_control").is_some();
            let had_below = fields.iter_mut().filter_map(|(name, it)| {
                // The schema of a tool is its own.
                (name != "input_schema" && name != "input").then(|| without_marks(it))
            });
            had_below.fold(had, |any, it| any | it)
        }
        Value::Array(list) => list
            .iter_mut()
            .fold(false, |any, it| any | without_marks(it)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
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
        check("images that include text are not supported", None, None);
        check(
            "Encrypted content is not supported with this model.",
            None,
            Some(OptionalField::SealedThinking),
        );
        check(
            "adaptive thinking is not supported on this model",
            None,
            Some(OptionalField::Effort),
        );
        check(
            "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
            Some("reasoning.effort"),
            Some(OptionalField::Effort),
        );
        check(
            "system.0.cache_control: Extra inputs are not permitted",
            None,
            Some(OptionalField::CacheMarks),
        );
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
            OptionalField::Effort,
            OptionalField::SealedThinking,
            OptionalField::CacheKey,
            OptionalField::CacheMarks,
            OptionalField::Pictures,
        ] {
            assert_eq!(None, cured.cure(&preset, bare.as_bytes(), &http(field)));
        }
        assert_eq!((3, None), (cured.told.len(), cured.learned.limit));
        let kept = serde_json::to_string(&cured.learned).unwrap();
        assert_eq!(r#"{"without":["temperature","limit"],"limit":null}"#, kept);
        assert_eq!(cured.learned, serde_json::from_str(&kept).unwrap());
    }
}
