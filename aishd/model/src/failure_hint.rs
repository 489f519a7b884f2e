//! What to do about a request that failed, by what its server said: the key of the configuration or the command that
//! cures it. Where nothing is known the same may be sent again, and then there is no hint.

use aishd_log::api_dialect::ApiDialect;

use crate::optional_fields::OptionalField;
use crate::preset::{Backend, KeySource, Preset};
use crate::reply::{HttpDetail, RequestFailure};
use crate::tool_limit;

/// No context is smaller, in tokens.
const LEAST_CONTEXT: u64 = 256;

/// Where the size of a context stands in the words of servers.
const CONTEXT_IS: [&str; 8] = [
    "maximum context length is ",
    "available context size (",
    "context size is ",
    "context window of ",
    "context length of ",
    "context length is ",
    "maximum number of tokens allowed (",
    "tokens > ",
];

/// What helps; `None`: the same may go better another time.
pub fn hint(failure: &RequestFailure, preset: &Preset) -> Option<String> {
    let key = |name: &str| format!("models.{}.{name}", preset.name);
    match failure {
        RequestFailure::Http {
            status,
            message,
            detail,
            retry_after_ms,
        } => {
            let cure = of_answer(Some(*status), message, *detail, preset);
            cure.or_else(|| retry_after_ms.and_then(after_rest))
        }
        RequestFailure::Api { message, overflow } => {
            let detail = if *overflow {
                HttpDetail::ContextOverflow
            } else {
                HttpDetail::None
            };
            of_answer(None, message, detail, preset)
        }
        RequestFailure::Empty => Some(place(preset)),
        RequestFailure::Transport(why) if why.contains("certificate") || why.contains("UnknownIssuer") => {
            Some(
                "name the certificate of your authority: SSL_CERT_FILE=FILE.pem in the shell that starts aishd (aishctl rpc daemon/shutdown ends this one)"
                    .to_owned(),
            )
        }
        RequestFailure::Key(_) => Some(of_key(preset)),
        RequestFailure::Config(_) => Some("aishctl config check shows what is wrong".to_owned()),
        RequestFailure::TooLarge(_) => Some(format!("{} bounds an answer", key("max_tokens"))),
        RequestFailure::TooLong(_) => Some(format!(
            "ask with less at once, or raise {} or context.max_tokens",
            key("context_tokens")
        )),
        _ => None,
    }
}

/// When a server takes requests again that wants to be left alone for longer than anybody is kept waiting.
fn after_rest(ms: u64) -> Option<String> {
    /// What is shorter is over when it is read.
    const SHORT_MS: u64 = 20_000;
    let seconds = ms.div_ceil(1000);
    let rest = match seconds {
        0..=120 => format!("{seconds} seconds"),
        121..=7_200 => format!("{} minutes", seconds.div_ceil(60)),
        _ => format!("{} hours", seconds.div_ceil(3_600)),
    };
    (ms > SHORT_MS).then(|| {
        format!("its server takes no requests for {rest}: aishctl retry then, or ask another model with -m NAME")
    })
}

fn of_answer(
    status: Option<u16>,
    message: &str,
    detail: HttpDetail,
    preset: &Preset,
) -> Option<String> {
    let text = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|it| text.contains(it));
    let key = |name: &str| format!("models.{}.{name}", preset.name);
    if let Some(cure) = of_detail(detail, &text, preset) {
        return Some(cure);
    }
    let refuses = has(&[
        "not support",
        "unsupported",
        "does not have",
        "requires",
        "not allowed",
    ]);
    if let Some(api) = other_dialect(status, &text, preset) {
        return Some(format!(
            "{} = \"{}\" speaks to it as it wants",
            key("api"),
            api.as_str()
        ));
    }
    if has(&["tool", "function call"]) && (refuses || has(&["--jinja"])) {
        return Some(format!("{} = false asks it without tools", key("tools")));
    }
    if tool_limit::is_refused(message, None) {
        return of_detail(HttpDetail::TooManyTools, &text, preset);
    }
    if has(&["stream_options"]) {
        return Some(format!("{} = false leaves it out", key("include_usage")));
    }
    if has(&["temperature"]) && preset.temperature.is_some() {
        return Some(format!("change {}, or take it out", key("temperature")));
    }
    if has(&["max_tokens", "max_completion_tokens"]) && preset.max_tokens.is_some() {
        return Some(format!("change {}, or take it out", key("max_tokens")));
    }
    of_status(status, message, &text, preset)
}

/// Where it was told apart from other failures already.
fn of_detail(detail: HttpDetail, text: &str, preset: &Preset) -> Option<String> {
    let key = |name: &str| format!("models.{}.{name}", preset.name);
    if let HttpDetail::Refuses(field) = detail
        && let Some(name) = preset.fields.adds(field.names())
    {
        return Some(format!("take {name} out of {}", key("extra")));
    }
    Some(match detail {
        HttpDetail::ContextOverflow => match context_in(text) {
            Some(tokens) => format!(
                "{} = {tokens} keeps requests below that",
                key("context_tokens")
            ),
            None => format!(
                "ask with less at once, or set {} to what the model takes in",
                key("context_tokens")
            ),
        },
        HttpDetail::ModelNotFound => format!(
            "aishctl model probe shows what this server has; {} names one",
            key("model")
        ),
        HttpDetail::Refuses(OptionalField::StreamOptions) => {
            format!("{} = false leaves it out", key("include_usage"))
        }
        HttpDetail::Refuses(OptionalField::Temperature) => {
            format!("take {} out", key("temperature"))
        }
        HttpDetail::Refuses(OptionalField::TopP) => format!("take {} out", key("top_p")),
        HttpDetail::Refuses(OptionalField::Verbosity) => {
            format!("take {} out", key("verbosity"))
        }
        HttpDetail::Refuses(OptionalField::Limit) => format!("take {} out", key("max_tokens")),
        HttpDetail::Refuses(OptionalField::StopSequences) => {
            "the server that asks has to do without stop sequences".to_owned()
        }
        HttpDetail::Refuses(OptionalField::Effort) => format!("take {} out", key("effort")),
        HttpDetail::Refuses(OptionalField::CacheMarks | OptionalField::CacheKey) => {
            format!("{} = \"off\" leaves it out", key("cache"))
        }
        HttpDetail::Refuses(OptionalField::Pictures) => {
            format!("{} = false leaves them out", key("pictures"))
        }
        HttpDetail::Refuses(OptionalField::SealedThinking) | HttpDetail::RefusesSeals => {
            "a new conversation has none of it: ask there, or another model with -m NAME".to_owned()
        }
        HttpDetail::TakesNoTools => format!("{} = false asks it without tools", key("tools")),
        HttpDetail::TooManyTools => format!(
            "{} says how many it may have, and {} = false asks it without; aishctl mcp list shows whose they are",
            key("max_tools"),
            key("tools")
        ),
        HttpDetail::None => return None,
    })
}

/// By the status, where the words say nothing that is known.
fn of_status(status: Option<u16>, message: &str, text: &str, preset: &Preset) -> Option<String> {
    let has = |words: &[&str]| words.iter().any(|it| text.contains(it));
    let key = |name: &str| format!("models.{}.{name}", preset.name);
    let asks_for_money = has(&[
        "billing",
        "insufficient_quota",
        "current quota",
        "credits",
        "credit balance",
        "insufficient balance",
        "payment",
    ]);
    if status == Some(402) || asks_for_money {
        return Some(
            "the account behind this key cannot pay for it: see the provider's billing, or ask another model with -m NAME"
                .to_owned(),
        );
    }
    match status {
        // Nothing of this is cured by asking again.
        Some(401 | 403 | 407) if has(&["sign in", "sign-in", "log in", "login", "a web page"]) => Some(format!(
            "a page to sign in answers in place of the API: sign in there first, or correct {}",
            key("endpoint")
        )),
        Some(401) => Some(of_key(preset)),
        Some(403) if RequestFailure::is_about_key(message) => Some(of_key(preset)),
        Some(403) => Some(format!(
            "the server does not permit this, and says why; {} names another model, and -m NAME asks another preset",
            key("model")
        )),
        Some(300..=399 | 404 | 405 | 410) => Some(place(preset)),
        Some(400..=499) if !matches!(status, Some(408 | 409 | 425 | 429)) => Some(
            "the same would be refused again: change the question, or ask another model with -m NAME".to_owned(),
        ),
        Some(_) => None,
        None if has(&["no event stream", "not json"]) => Some(place(preset)),
        None => None,
    }
}

/// What answers is no API, or none that is spoken here.
fn place(preset: &Preset) -> String {
    format!(
        "models.{}.endpoint has to be the API's address up to /v1, and a proxy may answer in its place; aishctl model probe shows what answers",
        preset.name
    )
}

/// The dialect that the server wants instead, where it says so.
fn other_dialect(status: Option<u16>, text: &str, preset: &Preset) -> Option<ApiDialect> {
    let about_path = status.is_none_or(|it| (400..500).contains(&it));
    let named = |it: &ApiDialect| match it {
        ApiDialect::Chat => text.contains("/chat/completions"),
        ApiDialect::Responses => text.contains("/responses"),
        ApiDialect::Messages => text.contains("/messages"),
    };
    // It often names the one that was asked as well.
    let mut others = ApiDialect::ALL.into_iter().filter(|it| *it != preset.api());
    others.find(named).filter(|_| about_path)
}

fn of_key(preset: &Preset) -> String {
    let name = &preset.name;
    let Backend::Http(endpoint) = &preset.backend else {
        return String::new();
    };
    match &endpoint.key {
        KeySource::Env(variable) => format!(
            "set {variable} in this shell to a valid key (aishctl lends it to aishd), or correct models.{name}.key_env; then ask again"
        ),
        KeySource::File(_) => format!(
            "the key comes from models.{name}.key_file: put a valid one there (aishctl key set), then ask again"
        ),
        KeySource::Command(_) => format!(
            "the key comes from models.{name}.key_cmd: see that it prints a valid one, then ask again"
        ),
        KeySource::Literal(_) => format!("correct models.{name}.key, then ask again"),
        KeySource::None => format!(
            "the server wants a key: models.{name}.key_env names the variable that it is in"
        ),
    }
}

/// How much the model takes in, as its server says.
fn context_in(text: &str) -> Option<u64> {
    let after = CONTEXT_IS.iter().filter_map(|it| text.split_once(it));
    let mut numbers = after.filter_map(|(_, rest)| {
        let digits = rest
            .bytes()
            .take_while(|it| it.is_ascii_digit() || *it == b',');
        let digits: String = digits.map(char::from).filter(|it| *it != ',').collect();
        digits.parse::<u64>().ok()
    });
    numbers.find(|it| *it >= LEAST_CONTEXT)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::preset::{KeyHeader, ModelEndpoint, Timeouts};

    fn preset(url: &str) -> Preset {
        Preset {
            name: "test".to_owned(),
            temperature: Some(3.0),
            max_tokens: Some(1_000_000),
            backend: Backend::Http(ModelEndpoint {
                url: url.to_owned(),
                api: ApiDialect::Chat,
                auth: KeyHeader::Bearer,
                key: KeySource::Env("TEST_KEY".to_owned()),
                headers: BTreeMap::new(),
                timeouts: Timeouts::LOOPBACK,
            }),
            ..Preset::demo()
        }
    }

    fn http(status: u16, message: &str, detail: HttpDetail) -> RequestFailure {
        RequestFailure::Http {
            status,
            message: message.to_owned(),
            retry_after_ms: None,
            detail,
        }
    }

    /// What servers say, and what has to stand in the hint.
    #[expect(
        clippy::too_many_lines,
        reason = "one row for each thing that servers say"
    )]
    fn table() -> Vec<(RequestFailure, &'static str, &'static str)> {
        use HttpDetail as Is;
        let here = "http://h/v1";
        vec![
            (
                http(
                    400,
                    "registry.ollama.ai/library/x does not support tools",
                    Is::None,
                ),
                here,
                "models.test.tools = false",
            ),
            (
                http(500, "tools param requires --jinja flag", Is::None),
                here,
                "models.test.tools = false",
            ),
            (
                http(
                    400,
                    "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 202 instead.",
                    Is::None,
                ),
                here,
                "models.test.max_tools",
            ),
            (
                http(
                    400,
                    "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use /v1/responses instead.",
                    Is::None,
                ),
                here,
                "models.test.api = \"responses\"",
            ),
            (
                http(
                    404,
                    "Invalid URL (POST /v1/chat/completions); use /v1/messages",
                    Is::None,
                ),
                here,
                "models.test.api = \"messages\"",
            ),
            (
                http(404, "Not Found", Is::None),
                here,
                "models.test.endpoint",
            ),
            (
                http(
                    400,
                    "stream_options is only allowed when stream is enabled",
                    Is::None,
                ),
                here,
                "models.test.include_usage = false",
            ),
            (
                http(400, "temperature must be between 0 and 2", Is::None),
                here,
                "models.test.temperature",
            ),
            (
                http(
                    400,
                    "max_tokens is too large: 1000000. This model supports at most 16384 completion tokens",
                    Is::None,
                ),
                here,
                "models.test.max_tokens",
            ),
            (
                http(
                    400,
                    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
                    Is::ContextOverflow,
                ),
                here,
                "models.test.context_tokens = 8192",
            ),
            (
                http(
                    400,
                    "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
                    Is::ContextOverflow,
                ),
                here,
                "models.test.context_tokens = 4096",
            ),
            (
                http(
                    400,
                    "prompt is too long: 210000 tokens > 200000 maximum",
                    Is::ContextOverflow,
                ),
                here,
                "context_tokens = 200000",
            ),
            (
                http(400, "too long", Is::ContextOverflow),
                here,
                "models.test.context_tokens",
            ),
            (
                http(404, "model \"x\" not found", Is::ModelNotFound),
                here,
                "aishctl model probe",
            ),
            (http(401, "Invalid API Key", Is::None), here, "TEST_KEY"),
            (
                http(403, "Invalid API token", Is::None),
                here,
                "models.test.key_env",
            ),
            (
                http(403, "Country, region, or territory not supported", Is::None),
                here,
                "says why",
            ),
            (
                http(403, "a web page, \"Sign in\"", Is::None),
                here,
                "sign in",
            ),
            (http(402, "Payment Required", Is::None), here, "billing"),
            (
                http(
                    429,
                    "You exceeded your current quota, please check your plan and billing details.",
                    Is::None,
                ),
                here,
                "billing",
            ),
            (
                http(307, "redirects are not followed", Is::None),
                here,
                "models.test.endpoint",
            ),
            (
                http(400, "messages: roles must alternate", Is::None),
                here,
                "refused again",
            ),
            (RequestFailure::Empty, here, "aishctl model probe"),
            (
                RequestFailure::Transport(
                    "TLS: invalid peer certificate: UnknownIssuer".to_owned(),
                ),
                here,
                "SSL_CERT_FILE",
            ),
            (
                RequestFailure::Config("the preset has no endpoint".to_owned()),
                here,
                "aishctl config check",
            ),
            (
                RequestFailure::TooLong(String::new()),
                here,
                "context.max_tokens",
            ),
        ]
    }

    #[test]
    fn the_cure_is_named() {
        for (failure, url, expected) in table() {
            let hint = hint(&failure, &preset(url));
            assert!(
                hint.as_deref().is_some_and(|it| it.contains(expected)),
                "{failure}: {hint:?}"
            );
        }
    }

    #[test]
    fn a_long_rest_is_told() {
        let limited = |retry_after_ms| RequestFailure::Http {
            status: 429,
            message: "slow down".to_owned(),
            retry_after_ms,
            detail: HttpDetail::None,
        };
        for (ms, expected) in [
            (None, None),
            (Some(20_000), None),
            (Some(90_000), Some("for 90 seconds: aishctl retry then")),
            (Some(900_001), Some("for 16 minutes: ")),
            (Some(86_400_000), Some("for 24 hours: ")),
        ] {
            let hint = hint(&limited(ms), &preset("http://h"));
            let found = hint.as_deref().zip(expected);
            assert_eq!(expected.is_some(), hint.is_some(), "{hint:?}");
            assert!(found.is_none_or(|(it, part)| it.contains(part)), "{hint:?}");
        }
    }

    #[test]
    fn what_may_go_better_next_time_has_no_hint() {
        for failure in [
            http(503, "loading", HttpDetail::None),
            http(429, "too many requests", HttpDetail::None),
            http(408, "", HttpDetail::None),
            RequestFailure::Cut,
            RequestFailure::Refused,
            RequestFailure::Api {
                message: "overloaded".to_owned(),
                overflow: false,
            },
        ] {
            assert_eq!(None, hint(&failure, &preset("http://h")), "{failure}");
        }
    }

    /// A hint that names what does not exist is worse than none.
    #[test]
    fn the_keys_and_commands_of_hints_exist() {
        let keys = include_str!("../../config/src/keys.rs");
        let commands = concat!(
            include_str!("../../../aishctl/src/args.rs"),
            include_str!("../../../aishctl/src/commands/model.rs"),
        );
        for (failure, url, _) in table() {
            let hint = hint(&failure, &preset(url)).unwrap();
            let words = hint
                .split(|it: char| it.is_whitespace() || matches!(it, ',' | ';' | ':' | '(' | ')'));
            let words: Vec<&str> = words.filter(|it| !it.is_empty()).collect();
            for (at, word) in words.iter().enumerate() {
                let key = word
                    .strip_prefix("models.test.")
                    .or_else(|| word.strip_prefix("context."));
                if let Some(key) = key {
                    assert!(
                        keys.contains(&format!("        {key}: KeyLeaf<")),
                        "{key} in {hint}"
                    );
                }
                if *word == "aishctl" && words[at + 1] != "lends" {
                    for command in &words[at + 1..at + 3] {
                        let mut letters = command.chars();
                        let first = letters.next().unwrap().to_ascii_uppercase();
                        let variant = format!("{first}{}", letters.as_str());
                        let known = [" {", "(", ",", "\n"]
                            .iter()
                            .any(|end| commands.contains(&format!("    {variant}{end}")));
                        assert!(
                            known || ["check", "list", "daemon/shutdown"].contains(command),
                            "{command} in {hint}"
                        );
                    }
                }
            }
        }
    }
}
