//! What a server wants a model to be asked, read from its `sampling/createMessage`. It comes from outside: either
//! a person can be shown all of it, or it is refused with a reason that its author understands. What is asked of the
//! conversation (`includeContext`) and of other models (`modelPreferences`) is not read: it gets neither.

use aishd_log::canonical::canonical;
use aishd_log::confirm::ForModel;
use aishd_mcp_messages::bounded_text::one_line;
use aishd_model::preset::Preset;
use aishd_model::reply::{FinishReason, Reply};
use serde_json::{Value, json};

/// Of the whole request, in its canonical spelling.
const MAX_BYTES: usize = 64 << 10;
const MAX_MESSAGES: usize = 64;
/// As many as the usual servers take.
const MAX_STOPS: usize = 4;
const MAX_STOP_CHARS: usize = 200;
/// The longest answer that a server gets.
const MAX_TOKENS: u64 = 4096;

/// One request to a model, whole: nothing else goes to it.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingRequest {
    /// The alias of the server that asks.
    pub server: String,
    pub preset: String,
    pub model: String,
    pub system_prompt: Option<String>,
    pub messages: Vec<SamplingMessage>,
    pub max_tokens: u64,
    pub temperature: Option<f64>,
    pub stop_sequences: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingMessage {
    pub role: SamplingRole,
    pub text: String,
}

/// Whose message it is said to be; the server wrote both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingRole {
    User,
    Assistant,
}

impl SamplingRole {
    /// As servers of models spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// Why it is not asked; the server is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SamplingError {
    #[error("the request has {0} bytes, and {MAX_BYTES} are taken")]
    TooLong(usize),
    #[error("messages: there are none")]
    NoMessages,
    #[error("{0} messages are too many")]
    TooManyMessages(usize),
    #[error("messages[{0}]: its role is not user or assistant")]
    Role(usize),
    #[error("messages[{at}]: content of the type {kind:?} is not taken, only text")]
    NotText { at: usize, kind: String },
    #[error("maxTokens is not a number of 1 or more")]
    NoLimit,
    #[error("tools are not taken")]
    Tools,
    #[error("stopSequences: {MAX_STOPS} texts of {MAX_STOP_CHARS} characters are taken")]
    Stops,
}

/// What the server `alias` asks of the preset.
pub fn read(
    alias: &str,
    params: &Value,
    preset: (&str, &str),
) -> Result<SamplingRequest, SamplingError> {
    let bytes = canonical(params).len();
    if bytes > MAX_BYTES {
        return Err(SamplingError::TooLong(bytes));
    }
    let given = |name| params.get(name).filter(|it| !it.is_null());
    if given("tools").is_some_and(|it| it.as_array().is_none_or(|it| !it.is_empty())) {
        return Err(SamplingError::Tools);
    }
    let messages = given("messages").and_then(Value::as_array);
    let messages = messages.ok_or(SamplingError::NoMessages)?;
    if messages.is_empty() {
        return Err(SamplingError::NoMessages);
    }
    if messages.len() > MAX_MESSAGES {
        return Err(SamplingError::TooManyMessages(messages.len()));
    }
    let messages = messages.iter().enumerate().map(|(at, it)| message(at, it));
    let limit = given("maxTokens").and_then(|it| it.as_u64().filter(|it| *it > 0));
    let system = given("systemPrompt").and_then(Value::as_str);
    let temperature = given("temperature").and_then(Value::as_f64);
    Ok(SamplingRequest {
        server: alias.to_owned(),
        preset: preset.0.to_owned(),
        model: preset.1.to_owned(),
        system_prompt: system.filter(|it| !it.is_empty()).map(str::to_owned),
        messages: messages.collect::<Result<_, _>>()?,
        max_tokens: limit.ok_or(SamplingError::NoLimit)?.min(MAX_TOKENS),
        temperature: temperature.filter(|it| (0.0..=2.0).contains(it)),
        stop_sequences: stops(given("stopSequences"))?,
    })
}

fn message(at: usize, message: &Value) -> Result<SamplingMessage, SamplingError> {
    let role = match message.get("role").and_then(Value::as_str) {
        Some("user") => SamplingRole::User,
        Some("assistant") => SamplingRole::Assistant,
        Some(_) | None => return Err(SamplingError::Role(at)),
    };
    // Newer servers may send several blocks.
    let blocks = match message.get("content") {
        Some(Value::Array(blocks)) => blocks.iter().collect(),
        Some(block) => vec![block],
        None => vec![],
    };
    let mut texts = vec![];
    for block in &blocks {
        let kind = block.get("type").and_then(Value::as_str);
        match (kind, block.get("text").and_then(Value::as_str)) {
            (Some("text"), Some(text)) => texts.push(text),
            (kind, _) => {
                let kind = one_line(kind.unwrap_or_default(), 40);
                return Err(SamplingError::NotText { at, kind });
            }
        }
    }
    Ok(SamplingMessage {
        role,
        text: texts.join("\n\n"),
    })
}

fn stops(given: Option<&Value>) -> Result<Vec<String>, SamplingError> {
    let Some(given) = given else {
        return Ok(vec![]);
    };
    let all = given.as_array().ok_or(SamplingError::Stops)?;
    if all.len() > MAX_STOPS {
        return Err(SamplingError::Stops);
    }
    let each = all.iter().map(|it| {
        let text = it.as_str().filter(|it| !it.is_empty());
        let text = text.filter(|it| it.chars().count() <= MAX_STOP_CHARS);
        text.map(str::to_owned).ok_or(SamplingError::Stops)
    });
    each.collect()
}

/// The longest answer that this preset gives to it.
pub fn limited(asked: SamplingRequest, preset: &Preset) -> SamplingRequest {
    let most = preset.max_tokens.unwrap_or(asked.max_tokens);
    SamplingRequest {
        max_tokens: asked.max_tokens.min(most),
        ..asked
    }
}

/// The model's answer as its server is told it.
pub fn result(reply: &Reply, model: &str) -> Value {
    let stop = match reply.finish {
        Some(FinishReason::Length) => "maxTokens",
        Some(
            FinishReason::Stop
            | FinishReason::ToolCalls
            | FinishReason::ContentFilter
            | FinishReason::Paused
            | FinishReason::Other,
        )
        | None => "endTurn",
    };
    json!({
        "role": "assistant",
        "content": {"type": "text", "text": reply.text},
        "model": reply.served_by.as_deref().unwrap_or(model),
        "stopReason": stop,
    })
}

/// What a person is shown and the model is asked.
pub fn read_bounded(alias: &str, asked: &ForModel) -> Result<SamplingRequest, SamplingError> {
    let mut read = read(alias, &asked.params, (&asked.preset, &asked.model))?;
    read.max_tokens = read.max_tokens.min(asked.max_tokens);
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "cases are written as values")]
    fn asked(more: Value) -> Value {
        let mut params = json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
            "maxTokens": 10,
        });
        let more = more.as_object().cloned().unwrap_or_default();
        params.as_object_mut().unwrap().extend(more);
        params
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "cases are written as values")]
    fn check(more: Value, expected: &str) {
        let said = match read("s", &asked(more.clone()), ("p", "m")) {
            Ok(read) => {
                let messages = read.messages.iter();
                let messages = messages.map(|it| json!({"role": it.role.name(), "text": it.text}));
                let all = json!({
                    "maxTokens": read.max_tokens, "messages": messages.collect::<Vec<_>>(),
                    "stopSequences": read.stop_sequences, "systemPrompt": read.system_prompt,
                    "temperature": read.temperature,
                });
                let said = all.as_object().unwrap().clone().into_iter();
                let said = said.filter(|(_, it)| !it.is_null() && *it != json!([]));
                canonical(&said.collect())
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(expected, said, "{more}");
    }

    const PLAIN: &str = r#"{"maxTokens":10,"messages":[{"role":"user","text":"hi"}]}"#;

    /// Nothing of the conversation goes along, and the preset is the person's choice.
    #[test]
    fn what_asks_for_more_than_an_answer_gets_an_answer() {
        check(json!({}), PLAIN);
        check(
            json!({"includeContext": "allServers", "metadata": {"x": 1}, "tools": [],
                "modelPreferences": {"hints": [{"name": "big"}]}, "systemPrompt": null, "temperature": 7}),
            PLAIN,
        );
        check(
            json!({"systemPrompt": "be brief", "temperature": 0.5, "stopSequences": ["END"], "maxTokens": 1_000_000}),
            r#"{"maxTokens":4096,"messages":[{"role":"user","text":"hi"}],"stopSequences":["END"],"systemPrompt":"be brief","temperature":0.5}"#,
        );
        let blocks = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        check(
            json!({"messages": [{"role": "assistant", "content": blocks}]}),
            r#"{"maxTokens":10,"messages":[{"role":"assistant","text":"a\n\nb"}]}"#,
        );
    }

    #[test]
    fn what_a_person_cannot_be_shown_is_refused() {
        let content = |content: Value| json!({"messages": [{"role": "user", "content": content}]});
        for kind in ["image", "audio", "tool_result"] {
            check(
                content(json!([{"type": "text", "text": "a"}, {"type": kind, "data": "AA=="}])),
                &format!("messages[0]: content of the type {kind:?} is not taken, only text"),
            );
        }
        let no_text = "messages[0]: content of the type \"\" is not taken, only text";
        check(content(json!("hi")), no_text);
        check(json!({"messages": []}), "messages: there are none");
        check(json!({"messages": "hi"}), "messages: there are none");
        check(
            json!({"messages": [{"role": "system", "content": []}]}),
            "messages[0]: its role is not user or assistant",
        );
        check(
            json!({"messages": vec![json!({}); 65]}),
            "65 messages are too many",
        );
        for limit in [json!(null), json!(0), json!(-1), json!("9")] {
            check(
                json!({"maxTokens": limit}),
                "maxTokens is not a number of 1 or more",
            );
        }
        check(json!({"tools": [{"name": "t"}]}), "tools are not taken");
        let stops = "stopSequences: 4 texts of 200 characters are taken";
        check(json!({"stopSequences": ["a", "b", "c", "d", "e"]}), stops);
        check(json!({"stopSequences": [""]}), stops);
        check(
            json!({"systemPrompt": "x".repeat(MAX_BYTES)}),
            "the request has 65637 bytes, and 65536 are taken",
        );
    }

    #[test]
    fn the_answer_says_which_model_gave_it_and_why_it_ended() {
        let check = |finish, served_by: Option<&str>, expected: (&str, &str)| {
            let reply = Reply {
                text: "so".to_owned(),
                finish,
                served_by: served_by.map(str::to_owned),
                ..Reply::default()
            };
            let result = result(&reply, "m");
            assert_eq!(expected.0, result["model"]);
            assert_eq!(expected.1, result["stopReason"]);
            assert_eq!(
                (&json!("assistant"), &json!({"type": "text", "text": "so"})),
                (&result["role"], &result["content"])
            );
        };
        check(Some(FinishReason::Stop), None, ("m", "endTurn"));
        check(
            Some(FinishReason::Length),
            Some("m-2"),
            ("m-2", "maxTokens"),
        );
        check(None, None, ("m", "endTurn"));
    }
}
