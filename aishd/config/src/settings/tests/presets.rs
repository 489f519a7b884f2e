use aishd_log::api_dialect::ApiDialect;
use aishd_model::catalog::{CatalogDay, CatalogFacts, CatalogTable, CatalogTables};
use aishd_model::preset::{Backend, KeyHeader};
use aishd_model::thinking_effort::ThinkingEffort;

use serde_json::json;

use super::{FileExposure, Settings, layers, nothing_is_set, read};

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

/// Where the catalog knows less efforts than somebody wishes, the nearest one is sent, and that is said.
#[test]
fn an_effort_that_the_catalog_does_not_know_is_a_remark() {
    let facts = CatalogFacts {
        efforts: Some(
            [ThinkingEffort::Low, ThinkingEffort::High]
                .into_iter()
                .collect(),
        ),
        ..CatalogFacts::default()
    };
    let key = |model: &str| ("h.test".to_owned(), model.to_owned());
    let models = [(key("m"), facts), (key("claude-opus-4-1"), facts)];
    let day = CatalogDay::parse("2999-01-01").unwrap();
    let table = CatalogTable::of(
        day,
        "models.dev",
        models.iter().map(|(key, facts)| (key, facts)),
    );
    let check = |keys: &str, sent: Option<&str>, expected: &[&str]| {
        let text = format!("[models.a]\nendpoint = \"https://h.test/v1\"\n{keys}\n");
        let mut stack = layers(&text, FileExposure::Private).merged();
        stack.catalog = CatalogTables::new(Some(table.clone()));
        let (settings, faults) = Settings::of(&stack, &nothing_is_set);
        let preset = &settings.unwrap().models.presets["a"];
        assert_eq!(
            sent,
            preset.effort_sent().map(ThinkingEffort::as_str),
            "{keys}"
        );
        let remarks: Vec<&str> = faults
            .iter()
            .filter(|it| it.message.contains("effort"))
            .map(|it| &*it.message)
            .collect();
        assert_eq!(expected, remarks, "{keys}");
    };
    check("model = \"m\"\neffort = \"high\"", Some("high"), &[]);
    check(
        "model = \"m\"\neffort = \"max\"",
        Some("high"),
        &["`models.a.effort`: the catalog of 2999-01-01 has low, high for m: `high` is sent"],
    );
    check("model = \"other\"\neffort = \"max\"", Some("max"), &[]);
    // There it is a number of tokens.
    check(
        "model = \"claude-opus-4-1\"\napi = \"messages\"\neffort = \"max\"",
        Some("high"),
        &[],
    );
}

#[test]
fn more_fields_are_read_as_json_has_them() {
    let text = "[models.a]\nendpoint = \"https://h.test/v1\"\nmodel = \"m\"\nomit = [\"stop\"]\n\
        [models.a.extra]\nseed = 0x10\nbig = 1.5\n\"odd name\" = [true, { x = \"y\" }]\n";
    let settings = read(text).unwrap();
    let fields = &settings.models.presets["a"].fields;
    let expected = json!({"seed": 16, "big": 1.5, "odd name": [true, {"x": "y"}]});
    assert_eq!(expected.as_object().unwrap(), &fields.extra);
    assert!(fields.omit.contains("stop"));
    let shown = settings
        .entries
        .iter()
        .find(|it| it.key == "models.a.extra");
    assert_eq!(
        r#"{ big = 1.5, "odd name" = [true, { x = "y" }], seed = 16 }"#,
        shown.unwrap().display()
    );
}
