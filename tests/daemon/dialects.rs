//! Servers that speak Anthropic's messages or OpenAI's responses: a question with rounds of calls, what the model thought sent
//! back as it was sealed, what is kept at the server, errors in the middle, and the key where each wants it.

use aish_proto::conversation::{SetModel, SetModelParams};
use aish_proto::event::{AssistantMessage, Evicted, TurnFinished};
use aish_proto::id::ConversationId;
use aish_proto::model::{ModelApi, Probe, ProbeParams};
use aish_proto::turn::{FailureClass, StopReason};
use aish_testkit::upstream::Request;
use aish_testkit::upstream::speech::signature;
use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Client, Daemon, Upstream, World};
use serde_json::{Value, json};

use crate::consent::call_id;
use crate::context::{asked, log, preview, statuses};
use crate::tools::events;

const APIS: [&str; 2] = ["messages", "responses"];

struct Scene {
    upstream: Upstream,
    world: World,
    daemon: Daemon,
}

impl Scene {
    /// A preset that speaks this, with the tools of the daemon, which nobody is asked about.
    fn new(api: &str, more: &str) -> Self {
        let (upstream, world) = (Upstream::start(), World::new());
        let preset = upstream.preset("test", &format!("api = \"{api}\"\n{more}"));
        world.write_config(&format!(
            "default_model = \"test\"\n{preset}\n[tools]\nbuiltin = true\n[mcp.auto_approve]\n\"aish__*\" = true\n"
        ));
        let daemon = world.daemon().spawn();
        Self {
            upstream,
            world,
            daemon,
        }
    }

    /// To a question the model thinks and calls a tool, and says a word when it has the result.
    fn model_thinks_and_calls(&self) {
        self.upstream.answer_with(|request| {
            if request.messages().last().is_some_and(|it| it.0 == "tool") {
                return Answer::text("So late.").cached(3, 2);
            }
            Answer::stream()
                .then_reasoning("The clock ")
                .then_reasoning("knows.")
                .then_text("Looking.")
                .then_call(0, &call_id(), "aish__time", "{}")
        });
    }
}

fn bodies(upstream: &Upstream) -> Vec<String> {
    let requests = upstream.requests();
    let text = |it: &Request| String::from_utf8(it.body.clone()).unwrap();
    requests.iter().map(text).collect()
}

/// What the server wants back of the thought, as the dialect has it.
fn sealed(api: &str) -> Value {
    let (thought, seal) = ("The clock knows.", signature("The clock knows."));
    match api {
        "messages" => json!({"type": "thinking", "thinking": thought, "signature": seal}),
        _ => json!({
            "type": "reasoning", "id": "it_0", "summary": [{"type": "summary_text", "text": thought}],
            "encrypted_content": seal,
        }),
    }
}

/// Those of a request.
fn seals(body: &str) -> Vec<Value> {
    let body: Value = serde_json::from_str(body).unwrap();
    let list = |it: &Value| it.as_array().cloned().unwrap_or_default();
    let messages = list(&body["messages"]);
    let blocks = messages.iter().flat_map(|it| list(&it["content"]));
    let all = blocks.chain(list(&body["input"]));
    let is_seal = |it: &Value| it["type"] == "thinking" || it["type"] == "reasoning";
    all.filter(is_seal).collect()
}

#[test]
fn a_round_of_calls_takes_back_what_the_model_thought_and_so_does_the_next_daemon() {
    for api in APIS {
        let scene = Scene::new(api, "");
        scene.model_thinks_and_calls();
        let Scene {
            upstream,
            world,
            daemon,
        } = scene;
        let client = world.client();
        let conversation = client.create();
        asked(&client, conversation, "what time is it?");
        let answers: Vec<AssistantMessage> = events(&client, conversation);
        let said: Vec<(&str, &str)> = answers
            .iter()
            .map(|it| (it.text.as_str(), it.reasoning.as_str()))
            .collect();
        assert_eq!(
            vec![("Looking.", "The clock knows."), ("So late.", "")],
            said,
            "{api}"
        );
        let first = bodies(&upstream);
        assert_eq!(2, first.len());
        assert_eq!(Vec::<Value>::new(), seals(&first[0]));
        assert_eq!(vec![sealed(api)], seals(&first[1]), "{api}");
        // In front of the call that it was for, and after nothing else of the answer.
        let at = |what: &str| {
            first[1]
                .find(what)
                .unwrap_or_else(|| panic!("{what}: {api}"))
        };
        let thought = at("The clock knows.");
        assert!(
            thought < at("Looking.") && at("Looking.") < at("call_"),
            "{api}"
        );
        drop(client);
        daemon.kill9();
        let _daemon = world.daemon().spawn();
        let client = world.client();
        upstream.answer_with(|_| Answer::text("Later."));
        asked(&client, conversation, "and now?");
        let later = bodies(&upstream).pop().unwrap();
        assert_eq!(vec![sealed(api)], seals(&later), "{api}");
        upstream.finish();
    }
}

#[test]
fn what_one_server_sealed_goes_to_no_other_model() {
    for api in APIS {
        let (upstream, world) = (Upstream::start(), World::new());
        let other = upstream
            .preset("other", &format!("api = \"{api}\""))
            .replace("test-model", "other-model");
        let chat = upstream.preset("chat", "");
        world.write_config(&format!(
            "default_model = \"test\"\n{}{other}{chat}",
            upstream.preset("test", &format!("api = \"{api}\""))
        ));
        let _daemon = world.daemon().spawn();
        let client = world.client();
        let conversation = client.create();
        upstream.answer(
            Answer::stream()
                .then_reasoning("secret plan")
                .then_text("ok"),
        );
        asked(&client, conversation, "hi");
        for (model, count) in [("other", 0), ("chat", 0), ("test", 1)] {
            client.done::<SetModel>(SetModelParams {
                id: conversation,
                model: Some(model.to_owned()),
            });
            asked(&client, conversation, "go on");
            let body = bodies(&upstream).pop().unwrap();
            let found = body.matches(&signature("secret plan")).count();
            assert_eq!(count, found, "{api} to {model}");
            // Nor is it said in clear words.
            assert_eq!(count > 0, body.contains("secret plan"), "{api} to {model}");
        }
        upstream.finish();
    }
}

#[test]
fn what_was_cached_and_written_is_counted_and_paid_for() {
    for (api, nanos) in [
        ("messages", 4 * 2_000 + 10 * 500 + 6 * 4_000 + 5 * 10_000),
        ("responses", 10 * 2_000 + 10 * 500 + 5 * 10_000),
    ] {
        let price = "price = { input = 2.0, output = 10.0, cached_input = 0.5, cache_write = 4.0 }";
        let scene = Scene::new(api, price);
        let client = scene.world.client();
        let conversation = client.create();
        scene
            .upstream
            .answer(Answer::text("hi").usage(Some((20, 5))).cached(10, 6));
        asked(&client, conversation, "hello");
        let ended: Vec<TurnFinished> = events(&client, conversation);
        let usage = ended[0].usage.unwrap();
        assert_eq!(
            (Some(20), Some(5), Some(10)),
            (
                usage.input_tokens,
                usage.output_tokens,
                usage.cached_input_tokens
            ),
            "{api}"
        );
        let written = (api == "messages").then_some(6);
        assert_eq!(written, usage.cache_written_tokens);
        assert_eq!(nanos, usage.cost_usd.unwrap().nanos, "{api}");
        scene.upstream.finish();
    }
}

/// The end of a question, as it is stored.
fn ends(client: &Client, conversation: ConversationId) -> (Option<StopReason>, String) {
    let turn = client.ask(conversation, "well?");
    let record = client.wait_turn(turn);
    let said = match record.error {
        Some(error) => format!("{:?} {}", error.class, error.message),
        None => record.text,
    };
    (record.stop_reason, said)
}

fn event(api: &str, data: &Value) -> Vec<u8> {
    let name = data["type"].as_str().unwrap_or("error");
    match api {
        "messages" => format!("event: {name}\ndata: {data}\n\n").into_bytes(),
        _ => format!("data: {data}\n\n").into_bytes(),
    }
}

fn overloaded(api: &str) -> Vec<u8> {
    let error = match api {
        "messages" => {
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
        }
        _ => {
            json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_is_overloaded", "message": "Overloaded"}}})
        }
    };
    event(api, &error)
}

#[test]
fn errors_in_the_middle_of_an_answer_are_what_they_would_have_been_in_front_of_it() {
    for api in APIS {
        let scene = Scene::new(api, "");
        let client = scene.world.client();
        let conversation = client.create();
        let check = |answer: Answer, expected: (StopReason, &str)| {
            scene.upstream.answer(answer);
            let (stop, said) = ends(&client, conversation);
            assert_eq!(Some(expected.0), stop, "{api}: {said}");
            assert!(said.starts_with(expected.1), "{api}: {said}");
        };
        let status = if api == "messages" { 529 } else { 503 };
        let overload = format!("Unreachable transport: HTTP {status}: Overloaded");
        check(
            Answer::stream().then_bytes(overloaded(api)).finish(None),
            (StopReason::Upstream, &overload),
        );
        let half = || Answer::stream().then_text("Half");
        check(
            half().then_bytes(overloaded(api)).finish(None),
            (StopReason::Upstream, &overload),
        );
        check(
            half().then_cut(),
            (StopReason::Upstream, "Cut transport: the stream was cut"),
        );
        check(
            half().finish(Some("length")),
            (StopReason::MaxTokens, "Half"),
        );
        // What had come stays, and a cut thought is sealed by nobody.
        check(
            Answer::stream().then_reasoning("cut off").then_cut(),
            (StopReason::Upstream, "Cut"),
        );
        check(Answer::text("Whole."), (StopReason::End, "Whole."));
        let body = bodies(&scene.upstream).pop().unwrap();
        assert!(body.contains("Half") && !body.contains("cut off"), "{body}");
        // The server that is busy is waited for once, as it asks.
        scene.upstream.answer(
            Answer::status(
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            )
            .header("retry-after-ms", "10"),
        );
        check(Answer::text("Now."), (StopReason::End, "Now."));
        scene.upstream.finish();
    }
}

#[test]
fn a_full_context_is_told_and_a_refusal_is_one() {
    let scene = Scene::new("messages", "");
    let client = scene.world.client();
    let conversation = client.create();
    let refusal = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 250000 tokens > 200000 maximum"}}"#;
    scene.upstream.answer(Answer::status(400, refusal));
    let turn = client.ask(conversation, "well?");
    let error = client.wait_turn(turn).error.unwrap();
    assert_eq!(FailureClass::ContextOverflow, error.class);
    scene
        .upstream
        .answer(Answer::text("I").finish(Some("refusal")));
    assert_eq!(
        (Some(StopReason::Refusal), "I".to_owned()),
        ends(&client, conversation)
    );
    // It stops in the middle of its own work, and goes on when it is sent that back.
    for text in ["One", "Two", "Three", "Four"] {
        scene
            .upstream
            .answer(Answer::text(text).finish(Some("pause_turn")));
    }
    let before = scene.upstream.requests().len();
    assert_eq!(
        (Some(StopReason::End), "Four".to_owned()),
        ends(&client, conversation)
    );
    assert_eq!(before + 4, scene.upstream.requests().len());
    let last = scene
        .upstream
        .requests()
        .pop()
        .unwrap()
        .messages()
        .pop()
        .unwrap();
    assert_eq!(("assistant".to_owned(), "Three".to_owned()), last);
    scene.upstream.finish();
}

#[test]
fn a_seal_that_the_server_does_not_take_back_is_left_out() {
    let refusal = r#"{"error":{"message":"The encrypted content could not be verified.","type":"invalid_request_error","param":null,"code":"invalid_encrypted_content"}}"#;
    let scene = Scene::new("responses", "");
    let client = scene.world.client();
    let conversation = client.create();
    scene
        .upstream
        .answer(Answer::stream().then_reasoning("hm").then_text("ok"));
    asked(&client, conversation, "hi");
    scene.upstream.answer(Answer::status(400, refusal));
    asked(&client, conversation, "go on");
    let bodies = bodies(&scene.upstream);
    let counts: Vec<usize> = bodies.iter().map(|it| seals(it).len()).collect();
    assert_eq!(vec![0, 1, 0], counts);
    let told = statuses(&log(&client, conversation));
    assert_eq!(
        vec![
            "the server of test-model does not take back what it thought before: asked again without that"
        ],
        told
    );
    scene.upstream.finish();
}

/// Without the marks of what is to be kept, which go on with the conversation and are no part of what is read.
fn unmarked(body: &str) -> String {
    body.replace(r#","cache_control":{"type":"ephemeral"}"#, "")
}

/// Where the messages begin, and what of them stands in front of their end.
fn beginning(body: &str) -> &str {
    let list = ["\"messages\":[", "\"input\":["];
    let at = list.iter().find_map(|it| body.find(it)).unwrap();
    let end = body.rfind("],\"tools\":").unwrap();
    let rest = &body[at..end];
    // The last message goes on where results are joined by a question.
    rest.trim_end_matches(['}', ']'])
}

#[test]
fn a_request_begins_as_the_one_before_it_did_byte_for_byte() {
    for api in ["messages", "responses", "chat"] {
        let scene = Scene::new(api, "");
        scene.model_thinks_and_calls();
        let client = scene.world.client();
        let conversation = client.create();
        for number in 0..3 {
            let text = format!("question {number}: \"what\" time is it, é?");
            let shown = preview(&client, conversation, Some(&text)).body;
            asked(&client, conversation, &text);
            // What is looked at beforehand is what is sent.
            let sent = bodies(&scene.upstream);
            assert_eq!(shown, sent[sent.len() - 2], "{api}");
        }
        let sent: Vec<String> = bodies(&scene.upstream)
            .iter()
            .map(|it| unmarked(it))
            .collect();
        assert_eq!(6, sent.len());
        let head = |body: &str| {
            let at = ["\"messages\":[", "\"input\":["]
                .iter()
                .find_map(|it| body.find(it));
            body[..at.unwrap()].to_owned()
        };
        for pair in sent.windows(2) {
            assert_eq!(head(&pair[0]), head(&pair[1]), "{api}");
            let (before, after) = (beginning(&pair[0]), beginning(&pair[1]));
            assert!(after.starts_with(before), "{api}:\n{before}\n{after}");
            let tools = |it: &str| it[it.rfind("],\"tools\":").unwrap()..].to_owned();
            assert_eq!(tools(&pair[0]), tools(&pair[1]), "{api}");
        }
        scene.upstream.finish();
    }
}

/// What leaves the context changes what stands behind the system message, once; then requests go on as before.
#[test]
fn an_eviction_costs_the_beginning_once() {
    for api in ["messages", "responses"] {
        let scene = Scene::new(api, "[context]\nmax_turns = 6\n");
        let client = scene.world.client();
        let conversation = client.create();
        for number in 0..12 {
            asked(&client, conversation, &format!("question {number}"));
        }
        let evicted: Vec<Evicted> = events(&client, conversation);
        assert!(evicted.len() > 1, "{evicted:?}");
        let sent: Vec<String> = bodies(&scene.upstream)
            .iter()
            .map(|it| unmarked(it))
            .collect();
        let goes_on = |pair: &&[String]| beginning(&pair[1]).starts_with(beginning(&pair[0]));
        let lost = sent.windows(2).filter(|it| !goes_on(it)).count();
        assert_eq!(evicted.len(), lost, "{api}");
        scene.upstream.finish();
    }
}

/// A summary is asked for in the dialect of its preset, and leaves nothing to be kept.
#[test]
fn requests_beside_a_conversation_speak_the_same_dialect() {
    for api in ["messages", "responses"] {
        let context =
            "[context]\nmax_turns = 2\nsummarize_on_evict = true\nsummarizer_model = \"test\"\n";
        let scene = Scene::new(api, context);
        let client = scene.world.client();
        let conversation = client.create();
        scene.upstream.answer_with(|request| {
            let asked = request.question();
            let asks = asked.contains("Sum this up") || asked.contains("Extend the summary");
            Answer::text(if asks { "They counted." } else { "fine" })
        });
        for number in 0..4 {
            asked(&client, conversation, &format!("question {number}"));
        }
        until_true("a summary in a request", || {
            asked(&client, conversation, "and?");
            let last = bodies(&scene.upstream).pop().unwrap_or_default();
            last.contains("They counted.")
        });
        let requests = scene.upstream.requests();
        let aside = requests
            .iter()
            .find(|it| it.question().contains("Sum this up"));
        let body = aside.unwrap().json();
        assert_eq!("system", aside.unwrap().messages()[0].0);
        let limit = match api {
            "messages" => (&body["max_tokens"], json!(300)),
            _ => (&body["max_output_tokens"], json!(4_300)),
        };
        assert_eq!(limit.1, *limit.0, "{api}");
        for absent in [
            "tools",
            "include",
            "prompt_cache_key",
            "thinking",
            "temperature",
        ] {
            assert_eq!(Value::Null, body[absent], "{api}");
        }
        assert!(!body.to_string().contains("cache_control"), "{body}");
        scene.upstream.finish();
    }
}

#[test]
fn the_same_conversation_has_the_same_key_and_another_has_another() {
    let scene = Scene::new("responses", "");
    let client = scene.world.client();
    let (one, other) = (client.create(), client.create());
    for conversation in [one, one, other] {
        asked(&client, conversation, "hi");
    }
    let keys: Vec<Value> = scene
        .upstream
        .requests()
        .iter()
        .map(|it| it.json()["prompt_cache_key"].clone())
        .collect();
    assert!(
        keys[0].is_string() && keys[0] == keys[1] && keys[0] != keys[2],
        "{keys:?}"
    );
    let id = one.to_string();
    assert!(!keys[0].as_str().unwrap().contains(&id));
    scene.upstream.finish();
}

#[test]
fn the_key_is_where_each_server_wants_it() {
    for (api, auth, header) in [
        ("messages", "x-api-key", "x-api-key"),
        ("messages", "bearer", "authorization"),
        ("responses", "api-key", "api-key"),
        ("chat", "none", ""),
    ] {
        let (upstream, world) = (Upstream::start(), World::new());
        world.write("home/key", "sk-of-the-test\n");
        let file = world.path("home/key");
        let more = format!("api = \"{api}\"\nauth = \"{auth}\"\nkey_file = {file:?}");
        let preset = upstream.preset("test", &more);
        world.write_config(&format!("default_model = \"test\"\n{preset}"));
        let _daemon = world.daemon().spawn();
        let client = world.client();
        asked(&client, client.create(), "hi");
        let request = upstream.requests().pop().unwrap();
        let sent: Vec<(&str, &str)> = ["authorization", "x-api-key", "api-key"]
            .iter()
            .filter_map(|name| Some((*name, request.header(name)?)))
            .collect();
        let value = if auth == "bearer" {
            "Bearer sk-of-the-test"
        } else {
            "sk-of-the-test"
        };
        let expected = Some((header, value)).filter(|it| !it.0.is_empty());
        assert_eq!(
            expected.into_iter().collect::<Vec<_>>(),
            sent,
            "{api} {auth}"
        );
        let version = (api == "messages").then_some("2023-06-01");
        assert_eq!(version, request.header("anthropic-version"));
        let body = String::from_utf8_lossy(&request.body);
        assert!(!body.contains("sk-of"), "{body}");
        upstream.finish();
    }
}

/// How much a model is to think, and what its server is to keep, in the words of each dialect and model.
#[test]
fn a_preset_s_wishes_are_said_as_each_server_has_them() {
    let wishes = "effort = \"high\"\nmax_tokens = 30000\ncache = \"1h\"";
    for (api, model, expected) in [
        (
            "messages",
            "claude-sonnet-4-6",
            json!({"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}, "max_tokens": 30000}),
        ),
        (
            "messages",
            "claude-sonnet-4-0",
            json!({"thinking": {"type": "enabled", "budget_tokens": 24000}, "max_tokens": 30000}),
        ),
        (
            "responses",
            "gpt-5.1",
            json!({"reasoning": {"effort": "high", "summary": "auto"}, "max_output_tokens": 30000}),
        ),
        ("chat", "gpt-5.1", json!({"reasoning_effort": "high"})),
    ] {
        let (upstream, world) = (Upstream::start(), World::new());
        let more = format!("api = \"{api}\"\n{wishes}");
        let preset = upstream.preset("test", &more).replace("test-model", model);
        world.write_config(&format!("default_model = \"test\"\n{preset}"));
        let _daemon = world.daemon().spawn();
        let client = world.client();
        asked(&client, client.create(), "hi");
        let body = upstream.requests().pop().unwrap().json();
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(value, &body[name], "{api} {model}: {name}");
        }
        let kept = body.to_string().contains(r#""ttl":"1h""#);
        assert_eq!(api == "messages", kept, "{api}");
        upstream.finish();
    }
}

#[test]
fn a_probe_says_how_a_server_can_be_spoken_to() {
    let scene = Scene::new("messages", "");
    let client = scene.world.client();
    let servers = client.done::<Probe>(ProbeParams::default()).servers;
    let ours = servers
        .iter()
        .find(|it| it.preset.as_deref() == Some("test"));
    let all = vec![ModelApi::Chat, ModelApi::Responses, ModelApi::Messages];
    assert_eq!(all, ours.unwrap().apis);
    assert_eq!(0, scene.upstream.requests().len());
    scene.upstream.finish();
}
