//! What of a request its server may do without, and may refuse by its name: sampling, the limit of an answer, the wish
//! for counts. Nothing of it is sent that nobody set. What a server refuses is left out, or sent under the other name, and
//! that is remembered for this server and model.

use std::collections::BTreeSet;

use aishd_log::tool::ContentDigest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::effort_refusal;
use crate::picture_refusal;
use crate::preset::Preset;
use crate::thinking_effort::EffortSet;

/// Where the limit counts what the model thinks as well, an answer of a few words needs so much more.
pub const FOR_THOUGHT_TOKENS: u64 = 4_000;

/// How servers say that they do not want a field.
const REFUSALS: [&str; 16] = [
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
    "cannot both be specified",
    "which is the maximum allowed",
];

/// Something that a request can be without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OptionalField {
    #[serde(rename = "temperature")]
    Temperature,
    #[serde(rename = "top_p")]
    TopP,
    #[serde(rename = "limit")]
    Limit,
    #[serde(rename = "stream_options")]
    StreamOptions,
    #[serde(rename = "stop")]
    StopSequences,
    /// How much to think.
    #[serde(rename = "effort")]
    Effort,
    /// How much to say.
    #[serde(rename = "verbosity")]
    Verbosity,
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

/// How many pictures that a server refused are remembered.
const MOST_PICTURES: usize = 64;

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
    /// The longest answer that it takes as a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_output: Option<u64>,
    /// How many tools a request may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tools: Option<usize>,
    /// How much it can be told to think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efforts: Option<EffortSet>,
    /// Pictures that it refused, by their base64: they are not sent to it again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<ContentDigest>,
    /// It refuses a request that has tools. Known until the daemon ends: it is often how the server was started.
    #[serde(skip)]
    pub takes_no_tools: bool,
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

impl OptionalField {
    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::TopP => "top_p",
            Self::Limit => "a limit of an answer",
            Self::StreamOptions => "stream_options: tokens are estimated",
            Self::StopSequences => "stop",
            Self::Effort => "effort: how much to think",
            Self::Verbosity => "verbosity",
            Self::SealedThinking => "its own thinking, given back",
            Self::CacheKey => "prompt_cache_key",
            Self::CacheMarks => "cache_control",
            Self::Pictures => "pictures and PDFs",
        }
    }

    /// What it is called at the top of requests, in all dialects.
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Self::Temperature => &["temperature"],
            Self::TopP => &["top_p"],
            Self::Limit => &["max_tokens", "max_completion_tokens", "max_output_tokens"],
            Self::StreamOptions => &["stream_options"],
            Self::StopSequences => &["stop", "stop_sequences"],
            Self::Effort => &["reasoning_effort", "reasoning", "thinking", "output_config"],
            Self::Verbosity => &["verbosity", "text"],
            Self::SealedThinking => &["include"],
            Self::CacheKey => &["prompt_cache_key"],
            // They stand within what is asked.
            Self::CacheMarks | Self::Pictures => &[],
        }
    }
}

impl LimitName {
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }

    pub(crate) fn other(self) -> Self {
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
        self.most_output = newer.most_output.or(self.most_output);
        self.efforts = newer.efforts.or(self.efforts);
        self.takes_no_tools |= newer.takes_no_tools;
        self.refuse_pictures(&newer.pictures);
        self
    }

    /// For people: what is not sent, one thing a line.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.without.iter().map(|it| it.name().to_owned()).collect();
        lines.extend(
            self.limit
                .map(|it| format!("the limit of an answer is called {}", it.name())),
        );
        lines.extend(
            self.most_output
                .map(|it| format!("answers of more than {it} tokens")),
        );
        lines.extend(self.max_tools.map(|it| format!("more than {it} tools")));
        lines.extend(
            self.efforts
                .map(|it| format!("an effort other than {}", it.words(", "))),
        );
        if self.takes_no_tools {
            lines.push("tools, until this daemon ends".to_owned());
        }
        match self.pictures.len() {
            0 => {}
            1 => lines.push("a picture that it refused".to_owned()),
            many => lines.push(format!("{many} pictures that it refused")),
        }
        lines
    }

    /// The newest of very many.
    pub(crate) fn refuse_pictures(&mut self, refused: &[ContentDigest]) {
        for digest in refused {
            if !self.pictures.contains(digest) {
                self.pictures.push(*digest);
            }
        }
        let too_many = self.pictures.len().saturating_sub(MOST_PICTURES);
        self.pictures.drain(..too_many);
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
    if let Some(top_p) = preset.fields.top_p.filter(|_| takes(OptionalField::TopP)) {
        fields.push(("top_p", json!(top_p)));
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
    if let Some(effort) = preset
        .effort_sent()
        .filter(|_| sends(OptionalField::Effort))
    {
        fields.push(("reasoning_effort", json!(effort.as_str())));
    }
    let verbosity = preset.fields.verbosity;
    if let Some(verbosity) = verbosity.filter(|_| sends(OptionalField::Verbosity)) {
        fields.push(("verbosity", json!(verbosity.as_str())));
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
    if effort_refusal::is_refused(message, param) {
        return Some(OptionalField::Effort);
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
        // There it stands within another, with what is no matter of ours.
        let param = param.strip_prefix("text.").unwrap_or(param);
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
        "top_p" => Some(OptionalField::TopP),
        "verbosity" => Some(OptionalField::Verbosity),
        "max_tokens" | "max_completion_tokens" | "max_output_tokens" => Some(OptionalField::Limit),
        "stream_options" | "include_usage" => Some(OptionalField::StreamOptions),
        "stop" | "stop_sequences" => Some(OptionalField::StopSequences),
        // xAI's spelling.
        "reasoningeffort" | "reasoningEffort" => Some(OptionalField::Effort),
        "reasoning_effort" | "reasoning" | "thinking" | "output_config" | "effort" => {
            Some(OptionalField::Effort)
        }
        "include" => Some(OptionalField::SealedThinking),
        "prompt_cache_key" => Some(OptionalField::CacheKey),
        "cache_control" => Some(OptionalField::CacheMarks),
        _ => None,
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
    #[expect(clippy::too_many_lines, reason = "one case after the other")]
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
        check(
            "Model grok-4 does not support parameter reasoningEffort.",
            None,
            Some(OptionalField::Effort),
        );
        check(
            "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
            None,
            Some(OptionalField::Temperature),
        );
        check(
            "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for claude-3-opus-20240229",
            None,
            Some(OptionalField::Limit),
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
            "Unsupported value: 'minimal' is not supported with this model. Supported values are: 'low', 'medium', and 'high'.",
            None,
            Some(OptionalField::Effort),
        );
        let verbosity = "Unsupported value: 'low' is not supported with this model. Supported values are: 'medium'.";
        check(
            verbosity,
            Some("text.verbosity"),
            Some(OptionalField::Verbosity),
        );
        check(verbosity, Some("verbosity"), Some(OptionalField::Verbosity));
        check(verbosity, Some("text.format"), None);
        check(
            "Unsupported parameter: 'top_p' is not supported with this model.",
            None,
            Some(OptionalField::TopP),
        );
        check(
            "system.0.cache_control: Extra inputs are not permitted",
            None,
            Some(OptionalField::CacheMarks),
        );
    }
}
