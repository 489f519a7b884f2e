//! One conversation as each dialect has it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use aishd_log::api_dialect::ApiDialect;
use aishd_log::sealed_answer::{SealedAnswer, SealedPart};
use aishd_log::tool_call::ToolCall;
use aishd_model::optional_fields::{LearnedFields, OptionalField, OutputLimit, RequestOptions};
use aishd_model::preset::{Backend, CacheLife, KeyHeader, KeySource, ModelEndpoint, Preset};
use aishd_model::preset::{ThinkingEffort, Timeouts};
use aishd_model::preset_fields::{AnswerLength, PresetFields};
use serde_json::{Map, Value, json};

use super::encode;
use super::prompt::{Prompt, PromptItem, PromptPurpose, PromptTool};

fn preset(api: ApiDialect, model: &str) -> Preset {
    Preset {
        model: model.to_owned(),
        backend: Backend::Http(ModelEndpoint {
            url: "https://h/v1".to_owned(),
            api,
            auth: KeyHeader::Bearer,
            key: KeySource::None,
            headers: std::collections::BTreeMap::new(),
            timeouts: Timeouts::REMOTE,
        }),
        ..Preset::demo()
    }
}

fn call(id: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: "a__b".to_owned(),
        arguments: arguments.to_owned(),
        broken: None,
        extra: Map::from_iter([("mine".to_owned(), json!(1))]),
    }
}

fn sealed(preset: &Preset, parts: Vec<SealedPart>) -> SealedAnswer {
    SealedAnswer {
        from: preset.seal_origin(),
        parts,
    }
}

fn seal(json: &str) -> SealedPart {
    SealedPart::Seal(json.to_owned())
}

fn said(bytes: usize) -> SealedPart {
    SealedPart::Text { bytes, phase: None }
}

fn user(text: &str) -> PromptItem<'_> {
    PromptItem::User {
        text: text.into(),
        pictures: vec![],
    }
}

fn answer<'a>(
    text: &'a str,
    calls: &'a [ToolCall],
    sealed: Option<&'a SealedAnswer>,
) -> PromptItem<'a> {
    PromptItem::Assistant {
        text: text.into(),
        calls,
        extra: None,
        sealed,
    }
}

fn body(preset: &Preset, prompt: &Prompt<'_>) -> Value {
    serde_json::from_str(&encode(preset, prompt)).unwrap()
}

/// The conversation, a tool, and nothing that anybody set.
fn conversation(items: Vec<PromptItem<'_>>) -> Prompt<'_> {
    Prompt {
        system: "be brief",
        items,
        purpose: PromptPurpose::Conversation { key: Some("k") },
        ..Prompt::default()
    }
}

#[track_caller]
fn check_messages(preset: &Preset, items: Vec<PromptItem<'_>>, expected: &Value) {
    let body = body(preset, &conversation(items));
    assert_eq!(*expected, body["messages"], "{}", body["messages"]);
}

const KEPT: &str = r#"{"type":"ephemeral"}"#;

fn kept() -> Value {
    serde_json::from_str(KEPT).unwrap()
}

#[test]
fn messages_have_all_results_first_and_four_places_that_are_kept() {
    let preset = preset(ApiDialect::Messages, "claude-opus-4-7");
    let (one, two) = (call("toolu_1", "{}"), call("odd.id", r#"{"x":1}"#));
    let calls = [one, two];
    let odd = super::call_id::fitting("odd.id", |it| it != b'.').into_owned();
    let schema = json!({"type": "object"});
    let tool = |name| PromptTool {
        name,
        description: "does",
        schema: &schema,
    };
    let prompt = Prompt {
        tools: vec![tool("a__b"), tool("a__c")],
        ..conversation(vec![
            user("hi"),
            answer("ho", &[], None),
            user("look"),
            answer("Looking.", &calls, None),
            PromptItem::Tool {
                call: "toolu_1",
                content: "one".into(),
                pictures: vec![],
            },
            PromptItem::Tool {
                call: "odd.id",
                content: "".into(),
                pictures: vec![],
            },
            user("and go on"),
        ])
    };
    let expected = json!({
        "model": "claude-opus-4-7", "stream": true, "max_tokens": 8192,
        "system": [{"type": "text", "text": "be brief", "cache_control": kept()}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "ho"}]},
            {"role": "user", "content": [{"type": "text", "text": "look"}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "toolu_1", "name": "a__b", "input": {}},
                {"type": "tool_use", "id": odd, "name": "a__b", "input": {"x": 1}, "cache_control": kept()},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "one"},
                {"type": "tool_result", "tool_use_id": odd, "content": ""},
                {"type": "text", "text": "and go on", "cache_control": kept()},
            ]},
        ],
        "tools": [
            {"name": "a__b", "description": "does", "input_schema": {"type": "object"}},
            {"name": "a__c", "description": "does", "input_schema": {"type": "object"}, "cache_control": kept()},
        ],
    });
    assert_eq!(expected, body(&preset, &prompt));
    let marks = encode(&preset, &prompt).matches("cache_control").count();
    assert_eq!(4, marks);
}

#[test]
fn thinking_goes_back_as_it_was_sealed_and_in_its_place() {
    let preset = preset(ApiDialect::Messages, "m");
    let raw = r#"{"type":"thinking","thinking":"a\u00e9","signature":"Eq=="}"#;
    let calls = [call("toolu_1", "{}")];
    let parts = vec![seal(raw), said(2), SealedPart::Call(0)];
    let sealed = sealed(&preset, parts);
    let items = || {
        vec![
            user("q"),
            answer("ok", &calls, Some(&sealed)),
            PromptItem::Tool {
                call: "toolu_1",
                content: "r".into(),
                pictures: vec![],
            },
        ]
    };
    let text = encode(&preset, &conversation(items()));
    assert!(text.contains(raw), "{text}");
    check_messages(
        &preset,
        items(),
        &json!([
            {"role": "user", "content": [{"type": "text", "text": "q"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "aé", "signature": "Eq=="},
                {"type": "text", "text": "ok"},
                {"type": "tool_use", "id": "toolu_1", "name": "a__b", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "r", "cache_control": kept()},
            ]},
        ]),
    );
}

#[test]
fn what_messages_refuse_is_not_written() {
    let preset = Preset {
        cache: CacheLife::Off,
        ..preset(ApiDialect::Messages, "m")
    };
    let thought = sealed(&preset, vec![seal("{}")]);
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    // No empty text, no thinking alone, and somebody begins.
    check_messages(
        &preset,
        vec![
            answer("before", &[], None),
            user(" \n"),
            answer("", &[], Some(&thought)),
            user("q"),
        ],
        &json!([
            {"role": "user", "content": text("(nothing)")},
            {"role": "assistant", "content": text("before")},
            {"role": "user", "content": [
                {"type": "text", "text": "(nothing)"}, {"type": "text", "text": "q"},
            ]},
        ]),
    );
}

/// Servers that number the calls of each answer anew give the same id twice; the result belongs to the call before it.
#[test]
fn no_two_calls_of_messages_have_one_id() {
    let preset = Preset {
        cache: CacheLife::Off,
        ..preset(ApiDialect::Messages, "m")
    };
    let (once, twice) = ([call("c", "{}")], [call("c", "{}"), call("c", "{}")]);
    let result = |content| PromptItem::Tool {
        call: "c",
        content: Cow::Borrowed(content),
        pictures: vec![],
    };
    let items = vec![
        user("q"),
        answer("", &once, None),
        result("1"),
        answer("", &twice, None),
        result("2"),
        result("3"),
    ];
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "a__b", "input": {}});
    let result = |id: &str, content: &str| json!({"type": "tool_result", "tool_use_id": id, "content": content});
    check_messages(
        &preset,
        items.clone(),
        &json!([
            {"role": "user", "content": [{"type": "text", "text": "q"}]},
            {"role": "assistant", "content": [call("c")]},
            {"role": "user", "content": [result("c", "1")]},
            {"role": "assistant", "content": [call("c__2"), call("c__3")]},
            {"role": "user", "content": [result("c__2", "2"), result("c__3", "3")]},
        ]),
    );
    // What was called is known, though it is offered no more.
    let body = body(&preset, &conversation(items));
    assert_eq!(
        (json!("a__b"), json!("object"), json!({"type": "none"})),
        (
            body["tools"][0]["name"].clone(),
            body["tools"][0]["input_schema"]["type"].clone(),
            body["tool_choice"].clone()
        )
    );
}

#[test]
fn messages_are_told_of_thinking_only_what_somebody_set() {
    let asks = |preset: Preset, temperature| {
        let mut prompt = conversation(vec![user("q")]);
        prompt.options = RequestOptions {
            temperature,
            limit: None,
            stop: &[],
        };
        let body = body(&preset, &prompt);
        let fields = ["temperature", "thinking", "output_config"];
        fields.map(|it| body[it].clone())
    };
    let of = |model, effort| Preset {
        effort,
        ..preset(ApiDialect::Messages, model)
    };
    let nothing = [Value::Null, Value::Null, Value::Null];
    let high = Some(ThinkingEffort::High);
    assert_eq!(nothing, asks(of("claude-opus-4-5", None), None));
    assert_eq!(nothing, asks(of("claude-opus-4-7", None), Some(0.5)));
    let [temperature, ..] = asks(of("claude-opus-4-5", None), Some(0.5));
    assert_eq!(json!(0.5), temperature);
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    assert_eq!(
        [Value::Null, adaptive, json!({"effort": "high"})],
        asks(of("claude-opus-4-7", high), Some(0.5))
    );
    let budget = json!({"type": "enabled", "budget_tokens": 24_000});
    assert_eq!(
        [Value::Null, budget, Value::Null],
        asks(of("claude-opus-4-5", high), Some(0.5))
    );
    let mut learned = of("claude-opus-4-7", high);
    learned.learned.without.insert(OptionalField::Effort);
    assert_eq!(nothing, asks(learned, None));
}

/// What a preset says beyond the usual, in the words of each dialect; a learned or known list of efforts is kept to.
#[test]
fn each_dialect_has_its_place_for_what_a_preset_says() {
    let extra = json!({"seed": 7, "reasoning": {"summary": "none"}});
    let said = |api, model| Preset {
        effort: Some(ThinkingEffort::Minimal),
        fields: PresetFields {
            top_p: Some(0.5),
            verbosity: Some(AnswerLength::Low),
            extra: extra.as_object().unwrap().clone(),
            omit: BTreeSet::from(["store".to_owned()]),
        },
        learned: LearnedFields {
            efforts: Some([ThinkingEffort::Low].into_iter().collect()),
            ..LearnedFields::default()
        },
        ..preset(api, model)
    };
    let check = |preset: &Preset, expected: Value| {
        let body = body(preset, &conversation(vec![user("hi")]));
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(*value, body[name], "{name}: {body}");
        }
        assert_eq!(json!(7), body["seed"]);
    };
    check(
        &said(ApiDialect::Chat, "m"),
        json!({"top_p": 0.5, "verbosity": "low", "reasoning_effort": "low", "text": null, "model": "m"}),
    );
    check(
        &said(ApiDialect::Responses, "m"),
        json!({"top_p": 0.5, "verbosity": null, "text": {"verbosity": "low"}, "store": null,
            "reasoning": {"effort": "low", "summary": "none"}, "stream": true}),
    );
    // It thinks, so that its sampling is its own.
    check(
        &said(ApiDialect::Messages, "claude-opus-4-6"),
        json!({"top_p": null, "verbosity": null, "text": null, "output_config": {"effort": "low"}}),
    );
    let quiet = Preset {
        effort: None,
        ..said(ApiDialect::Messages, "claude-opus-4-5")
    };
    check(
        &quiet,
        json!({"top_p": 0.5, "verbosity": null, "thinking": null}),
    );
    let mut learned = said(ApiDialect::Responses, "m");
    let without = [OptionalField::TopP, OptionalField::Verbosity];
    learned.learned.without.extend(without);
    check(&learned, json!({"top_p": null, "text": null}));
    // Who takes no temperature takes none of this either.
    check(
        &said(ApiDialect::Responses, "gpt-5"),
        json!({"top_p": null}),
    );
}

#[test]
fn responses_have_the_whole_conversation_and_leave_nothing_at_the_server() {
    let preset = preset(ApiDialect::Responses, "gpt-5");
    let raw = r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gA=="}"#;
    let long = "x".repeat(65);
    let calls = [call("call_1", r#"{"x":1}"#), call(&long, "{}")];
    let short = super::call_id::fitting(&long, |_| true).into_owned();
    let commentary = SealedPart::Text {
        bytes: 2,
        phase: Some("commentary".to_owned()),
    };
    let parts = vec![
        seal(raw),
        commentary,
        SealedPart::Call(0),
        SealedPart::Call(1),
        seal(raw),
    ];
    let sealed = sealed(&preset, parts);
    let schema = json!({"type": "object"});
    let prompt = Prompt {
        tools: vec![PromptTool {
            name: "a__b",
            description: "does",
            schema: &schema,
        }],
        ..conversation(vec![
            user("q"),
            answer("ok", &calls, Some(&sealed)),
            PromptItem::Tool {
                call: "call_1",
                content: "r".into(),
                pictures: vec![],
            },
            PromptItem::Tool {
                call: &long,
                content: "s".into(),
                pictures: vec![],
            },
            answer("done", &[], None),
            user("more"),
        ])
    };
    let message =
        |role: &str, text: &str| json!({"type": "message", "role": role, "content": text});
    let mut first = message("assistant", "ok");
    first["phase"] = "commentary".into();
    let expected = json!({
        "model": "gpt-5", "stream": true, "store": false, "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "k", "instructions": "be brief",
        "input": [
            message("user", "q"),
            serde_json::from_str::<Value>(raw).unwrap(),
            first,
            {"type": "function_call", "call_id": "call_1", "name": "a__b", "arguments": "{\"x\":1}"},
            {"type": "function_call", "call_id": short, "name": "a__b", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "r"},
            {"type": "function_call_output", "call_id": short, "output": "s"},
            message("assistant", "done"),
            message("user", "more"),
        ],
        "tools": [{"type": "function", "name": "a__b", "description": "does", "parameters": {"type": "object"}, "strict": false}],
    });
    assert_eq!(expected, body(&preset, &prompt));
    assert!(encode(&preset, &prompt).contains(raw));
}

#[test]
fn responses_are_told_what_somebody_set_and_no_thoughts_are_wanted_of_who_has_none() {
    let mut preset = Preset {
        effort: Some(ThinkingEffort::Minimal),
        ..preset(ApiDialect::Responses, "gpt-4.1")
    };
    let stop = ["END".to_owned()];
    let mut prompt = Prompt {
        options: RequestOptions {
            temperature: Some(1.5),
            limit: Some(OutputLimit::Set(1)),
            stop: &stop,
        },
        ..conversation(vec![user("q")])
    };
    let fields = |preset: &Preset, prompt: &Prompt<'_>| {
        let body = body(preset, prompt);
        [
            "temperature",
            "max_output_tokens",
            "reasoning",
            "include",
            "prompt_cache_key",
        ]
        .map(|it| body[it].clone())
    };
    let effort = json!({"effort": "minimal", "summary": "auto"});
    assert_eq!(
        [
            json!(1.5),
            json!(16),
            effort.clone(),
            Value::Null,
            json!("k")
        ],
        fields(&preset, &prompt)
    );
    // A question beside all conversations leaves nothing to be kept.
    prompt.purpose = PromptPurpose::Aside;
    prompt.options.limit = Some(OutputLimit::Said(200));
    preset.model = "gpt-5".to_owned();
    assert_eq!(
        [Value::Null, json!(4_200), effort, Value::Null, Value::Null],
        fields(&preset, &prompt)
    );
    for field in [OptionalField::Limit, OptionalField::Effort] {
        preset.learned.without.insert(field);
    }
    let nothing = || Value::Null;
    let nothing = [nothing(), nothing(), nothing(), nothing(), nothing()];
    assert_eq!(nothing, fields(&preset, &prompt));
}

#[test]
fn a_chat_is_what_it_was() {
    let preset = preset(ApiDialect::Chat, "m");
    let calls = [call("c", "{}")];
    let extra = Map::from_iter([("reasoning_content".to_owned(), json!("hm"))]);
    let thought = sealed(&preset, vec![seal("{}")]);
    let prompt = conversation(vec![
        user("q"),
        PromptItem::Assistant {
            text: "".into(),
            calls: &calls,
            extra: Some(&extra),
            sealed: Some(&thought),
        },
        PromptItem::Tool {
            call: "c",
            content: "r".into(),
            pictures: vec![],
        },
    ]);
    assert_eq!(
        concat!(
            r#"{"model":"m","stream":true,"messages":[{"role":"system","content":"be brief"},"#,
            r#"{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","#,
            r#""function":{"arguments":"{}","name":"a__b"},"mine":1}],"reasoning_content":"hm"},"#,
            r#"{"role":"tool","tool_call_id":"c","content":"r"}]}"#
        ),
        encode(&preset, &prompt)
    );
}
