use aishd_log::sealed_answer::ApiDialect;
use aishd_model::preset::{Backend, KeyHeader};

use super::read;

/// What is not said is what the address tells, and then what the catalog knows.
#[test]
fn how_a_server_is_spoken_to_is_said_or_told_by_its_address() {
    let check = |keys: &str, expected: (ApiDialect, KeyHeader, Option<u64>, bool)| {
        let settings = read(&format!("[models.a]\n{keys}\n")).unwrap();
        let preset = &settings.models.presets["a"];
        let Backend::Http(endpoint) = &preset.backend else {
            panic!("{preset:?}");
        };
        let found = (
            endpoint.api,
            endpoint.auth,
            preset.context_tokens,
            preset.price.is_some(),
        );
        assert_eq!(expected, found, "{keys}");
    };
    let (chat, responses, messages) = (
        ApiDialect::Chat,
        ApiDialect::Responses,
        ApiDialect::Messages,
    );
    let bearer = KeyHeader::Bearer;
    let at = |url: &str, model: &str| format!("endpoint = \"{url}\"\nmodel = \"{model}\"");
    check(
        &at("https://api.anthropic.com", "claude-opus-4-7"),
        (messages, KeyHeader::XApiKey, Some(1_000_000), true),
    );
    check(
        &format!(
            "{}\ncontext_tokens = 1000\nauth = \"bearer\"",
            at("https://API.Anthropic.com", "claude-opus-4-7")
        ),
        (messages, bearer, Some(1000), true),
    );
    check(
        &at("https://api.openai.com/v1", "gpt-5"),
        (responses, bearer, Some(272_000), true),
    );
    check(
        &format!("{}\napi = \"chat\"", at("https://api.openai.com/v1", "x")),
        (chat, bearer, None, false),
    );
    check(
        &at("https://x.openai.azure.com/openai/v1", "gpt-5"),
        (chat, KeyHeader::ApiKey, None, false),
    );
    check(
        &at("https://h.test/anthropic", "m"),
        (messages, bearer, None, false),
    );
    check(
        &at("https://h.test/v1/responses", "m"),
        (responses, bearer, None, false),
    );
    check(
        &format!(
            "{}\napi = \"messages\"\nauth = \"x-api-key\"",
            at("http://127.0.0.1:1", "claude-opus-4-7")
        ),
        (messages, KeyHeader::XApiKey, None, false),
    );
}
