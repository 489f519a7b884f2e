//! Every stream of `tests/data/streams`, cut in every way, gives exactly what its expect file says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use aishd_log::api_dialect::ApiDialect;
use aishd_log::sealed_answer::SealOrigin;
use aishd_model::call_assembly::{MAX_ARGUMENTS_BYTES, MAX_CALLS};
use aishd_model::preset::Timeouts;
use aishd_model::reply::{BrokenRequest, Delta, FinishReason, Reply, RequestFailure};
use aishd_model::thinking::ThinkingStart;
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::super::answer::AnswerContext;
use super::super::offered_tools::OfferedTools;
use super::super::stream::{ContentLimit, read};

const OFFER: &[u8] = br#"{"tools":[{"function":{"name":"shell__run"}}]}"#;
/// Longer streams are cut in two only at every 41st place.
const SMALL_BYTES: usize = 1200;

pub(super) struct Case {
    name: String,
    pub(super) body: Vec<u8>,
    expected: Value,
}

pub(super) fn cases() -> Vec<Case> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/streams");
    let mut cases: Vec<Case> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "sse"))
        .map(|path| Case {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            body: std::fs::read(&path).unwrap(),
            expected: serde_json::from_slice(
                &std::fs::read(path.with_extension("expect.json")).unwrap(),
            )
            .unwrap(),
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(cases.len() >= 50, "streams are missing: {}", cases.len());
    cases
}

#[derive(Debug, Default)]
pub(super) struct Deltas {
    text: String,
    reasoning: String,
    arguments: BTreeMap<u32, String>,
}

/// Reads a body that arrives in these pieces.
pub(super) async fn read_pieces(
    pieces: Vec<Bytes>,
    asked: &str,
) -> (Result<Reply, Box<BrokenRequest>>, Deltas) {
    read_as(ApiDialect::Chat, pieces, asked).await
}

/// The same in any dialect.
pub(super) async fn read_as(
    api: ApiDialect,
    pieces: Vec<Bytes>,
    asked: &str,
) -> (Result<Reply, Box<BrokenRequest>>, Deltas) {
    let body = futures_util::stream::iter(pieces.into_iter().map(Ok));
    let limit = ContentLimit::new(Instant::now(), Timeouts::LOOPBACK);
    let mut deltas = Deltas::default();
    let asked = AnswerContext {
        from: SealOrigin {
            api,
            origin: "http://h".to_owned(),
            model: asked.to_owned(),
        },
        think: ThinkingStart::Auto,
        offered: OfferedTools::of(api, Bytes::from_static(OFFER)),
    };
    let mut arrived = Reply::default();
    let reply = read(body, limit, asked, &mut arrived, |delta| match delta {
        Delta::Text(text) => deltas.text.push_str(text),
        Delta::Reasoning(text) => deltas.reasoning.push_str(text),
        Delta::Arguments { call, text, .. } => {
            deltas.arguments.entry(call).or_default().push_str(text);
        }
    })
    .await;
    (reply, deltas)
}

/// The outcome in the form of the expect files: what is empty is left out, made-up ids are not shown.
pub(super) fn outcome(reply: Result<Reply, Box<BrokenRequest>>, deltas: &Deltas) -> Value {
    let (reply, failure) = match reply {
        Ok(reply) => (reply, None),
        Err(broken) => (broken.partial, Some(broken.failure)),
    };
    if reply.began_in_thinking {
        // Its beginning was shown as text, before its end said otherwise.
        assert!(deltas.text.ends_with(&reply.text), "{deltas:?}");
    } else {
        assert_eq!(reply.text, deltas.text, "deltas make up the text");
        assert_eq!(
            reply.reasoning, deltas.reasoning,
            "deltas make up the reasoning"
        );
    }
    let calls: Vec<Value> = reply
        .calls
        .iter()
        .zip(0..)
        .map(|(call, number)| {
            assert!(!call.id.is_empty());
            let streamed = deltas.arguments.get(&number).cloned().unwrap_or_default();
            let mut shown = json!({"name": call.name, "arguments": call.arguments});
            if streamed != call.arguments {
                shown["streamed"] = streamed.into();
            }
            if let Some(why) = &call.broken {
                shown["broken"] = why.clone().into();
            }
            if !call.extra.is_empty() {
                shown["extra"] = call.extra.clone().into();
            }
            shown
        })
        .collect();
    let finish = reply.finish.map(|finish| match finish {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::Paused => "pause",
        FinishReason::Other => "other",
    });
    let usage = reply.usage.map(|usage| {
        let mut usage = serde_json::to_value(usage).unwrap();
        usage
            .as_object_mut()
            .unwrap()
            .retain(|_, tokens| !tokens.is_null());
        usage
    });
    let mut all = json!({
        "text": reply.text,
        "reasoning": reply.reasoning,
        "calls": calls,
        "finish": finish,
        "usage": usage,
        "refused": reply.refused.then_some(true),
        "served_by": reply.served_by,
        "extra": reply.extra,
        "sealed": reply.sealed.map(|it| it.parts),
        "notes": reply.notes,
        "failure": failure.as_ref().map(ToString::to_string),
        "class": failure.map(|failure| serde_json::to_value(failure.class()).unwrap()),
    });
    all.as_object_mut().unwrap().retain(|_, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    });
    all
}

async fn check(case: &Case, pieces: Vec<Bytes>, how: &str) {
    let mut expected = case.expected.clone();
    let fields = expected.as_object_mut().unwrap();
    let asked = fields.remove("asked").unwrap_or_else(|| "m".into());
    let api = fields.remove("api").unwrap_or_else(|| "chat".into());
    let api = serde_json::from_value(api).unwrap();
    let (reply, deltas) = read_as(api, pieces, asked.as_str().unwrap()).await;
    let mut outcome = outcome(reply, &deltas);
    if !fields.contains_key("class") {
        outcome.as_object_mut().unwrap().remove("class");
    }
    assert_eq!(expected, outcome, "{}, {how}", case.name);
}

fn cut(body: &Bytes, size: usize) -> Vec<Bytes> {
    (0..body.len())
        .step_by(size)
        .map(|at| body.slice(at..(at + size).min(body.len())))
        .collect()
}

#[tokio::test]
async fn every_stream_is_understood_in_pieces_of_every_size() {
    for case in cases() {
        let body = Bytes::from(case.body.clone());
        check(&case, vec![body.clone()], "whole").await;
        for size in [1, 2, 3, 5, 7, 64] {
            check(&case, cut(&body, size), &format!("in pieces of {size}")).await;
        }
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for seed in 0..5 {
            let mut rest = body.clone();
            let mut pieces = Vec::new();
            while !rest.is_empty() {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let size = usize::try_from(random % 97).unwrap().min(rest.len());
                pieces.push(rest.split_to(size));
            }
            check(&case, pieces, &format!("random cuts {seed}")).await;
        }
    }
}

#[tokio::test]
async fn every_stream_is_understood_however_it_is_cut_in_two() {
    for case in cases() {
        let body = Bytes::from(case.body.clone());
        let step = if body.len() > SMALL_BYTES { 41 } else { 1 };
        for at in (0..=body.len()).step_by(step) {
            let pieces = vec![body.slice(..at), body.slice(at..)];
            check(&case, pieces, &format!("cut at {at}")).await;
        }
    }
}

#[tokio::test]
async fn a_stream_that_ends_anywhere_before_its_end_is_a_failure_with_what_had_come() {
    let cases = cases();
    let case = cases
        .iter()
        .find(|case| case.name == "openai_text_usage")
        .unwrap();
    let finish_at = String::from_utf8_lossy(&case.body)
        .find("\"stop\"")
        .unwrap();
    for at in 0..finish_at {
        let (reply, deltas) = read_pieces(vec![case.body[..at].to_vec().into()], "m").await;
        let broken = reply.unwrap_err();
        let expected = if at == 0 {
            RequestFailure::Empty
        } else {
            RequestFailure::Cut
        };
        assert_eq!(expected, broken.failure, "cut at {at}");
        assert_eq!(deltas.text, broken.partial.text);
        assert!("Hello".starts_with(&deltas.text));
    }
}

#[tokio::test]
async fn caps_end_an_answer_and_keep_what_came() {
    let text = |text: &str| {
        let chunk = json!({"model": "m", "choices": [{"index": 0, "delta": {"content": text}}]});
        Bytes::from(format!("data: {chunk}\n\n"))
    };
    let endless = vec![text(&"x".repeat(64 * 1024)); 100];
    let (reply, deltas) = read_pieces(endless, "m").await;
    let broken = reply.unwrap_err();
    assert_eq!(
        "api: the answer is longer than 4 MiB",
        broken.failure.to_string()
    );
    assert_eq!(4 * 1024 * 1024, deltas.text.len());

    let endless = vec![Bytes::from(vec![b'd'; 64 * 1024]); 300];
    let (reply, _) = read_pieces(endless, "m").await;
    assert_eq!(
        "api: a line of the answer is longer than 16384 KiB",
        reply.unwrap_err().failure.to_string()
    );

    let mut endless = vec![text("ab")];
    endless.extend(vec![Bytes::from_static(b"data: 0123456789\n"); 1_600_000]);
    let (reply, deltas) = read_pieces(endless, "m").await;
    assert_eq!(
        "api: an event of the answer is longer than 16384 KiB",
        reply.unwrap_err().failure.to_string()
    );
    assert_eq!("ab", deltas.text);

    let arguments = json!({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "function": {"name": "f", "arguments": "x".repeat(MAX_ARGUMENTS_BYTES)}}
    ]}}]});
    let endless = vec![Bytes::from(format!("data: {arguments}\n\n")); 2];
    let (reply, deltas) = read_pieces(endless, "m").await;
    let broken = reply.unwrap_err();
    assert!(
        matches!(broken.failure, RequestFailure::TooLarge(_)),
        "{:?}",
        broken.failure
    );
    assert_eq!(MAX_ARGUMENTS_BYTES, deltas.arguments[&0].len());
    assert_eq!("{}", broken.partial.calls[0].arguments);
    assert!(broken.partial.calls[0].broken.is_some());

    let whole = vec![Bytes::from(vec![b'{'; 1024 * 1024]); 9];
    let (reply, _) = read_pieces(whole, "m").await;
    let failure = reply.unwrap_err().failure;
    assert!(
        matches!(failure, RequestFailure::TooLarge(_)),
        "{failure:?}"
    );
}

#[tokio::test]
async fn the_model_that_answered_is_named_when_it_is_another() {
    let chunk = r#"data: {"model":"other","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}"#;
    let body = vec![Bytes::from_static(chunk.as_bytes())];
    let named = read_pieces(body.clone(), "asked")
        .await
        .0
        .unwrap()
        .served_by;
    assert_eq!(Some("other"), named.as_deref());
    assert_eq!(None, read_pieces(body, "other").await.0.unwrap().served_by);
}

#[tokio::test]
async fn a_second_choice_is_left_alone() {
    let mut body = String::new();
    for (index, text) in [(0, "a"), (1, "X"), (0, "b"), (1, "Y")] {
        let chunk = json!({"choices": [{"index": index, "delta": {"content": text}}]});
        body.push_str(&format!("data: {chunk}\n\n"));
    }
    body.push_str("data: [DONE]\n\n");
    let (reply, _) = read_pieces(vec![body.into()], "m").await;
    assert_eq!("ab", reply.unwrap().text);
}

/// The whole path from bytes to deltas; run it with `--nocapture` in a release build for figures that count.
#[tokio::test]
async fn cost_of_an_event_is_printed() {
    let chunk = r#"data: {"id":"chatcmpl-8700209ed9d44c56ae9beba0","object":"chat.completion.chunk","created":1795256413,"model":"m","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":"word "},"logprobs":null,"finish_reason":null}],"usage":null}"#;
    let events = 20_000;
    for size in [chunk.len() + 2, 8192] {
        let body = Bytes::from(format!("{chunk}\n\n").repeat(events));
        let pieces = cut(&body, size);
        let started = std::time::Instant::now();
        let (reply, deltas) = read_pieces(pieces, "m").await;
        let took = started.elapsed();
        assert!(reply.is_err() && deltas.text.len() == events * "word ".len());
        println!(
            "parse path: {:.2} µs an event of {} bytes in pieces of {size}",
            took.as_secs_f64() * 1e6 / 20_000.0,
            chunk.len()
        );
    }
}

pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(async {
            tokio::time::timeout(Duration::from_secs(10), future)
                .await
                .unwrap()
        })
}

/// Bytes that look like streams often enough to get past the first letter.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "data: ",
        "data:",
        "\n",
        "\n\n",
        "\r",
        "\r\n",
        "{",
        "}",
        "[DONE]",
        "event: error",
        ":",
        "\u{feff}",
        "error:",
        r#"{"choices":[{"delta":{"content":"é"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"name":"f","arguments":"{"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"arguments":{}}},{}]},"finish_reason":"stop"}]}"#,
        r#"{"error":{"message":"no"}}"#,
        r#"{"usage":{"prompt_tokens":-1}}"#,
    ]);
    let piece = prop_oneof![
        4 => words.prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn arbitrary_bytes_end_well_and_in_any_pieces_alike(body in bodies(), size in 1usize..30) {
        let body = Bytes::from(body);
        let (whole, whole_deltas) = block_on(read_pieces(vec![body.clone()], "m"));
        let (pieces, deltas) = block_on(read_pieces(cut(&body, size), "m"));
        let calls = match &whole {
            Ok(reply) => &reply.calls,
            Err(broken) => &broken.partial.calls,
        };
        prop_assert!(calls.len() <= MAX_CALLS);
        for call in calls {
            prop_assert!(serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok());
            prop_assert!(whole.is_ok() || call.broken.is_some());
        }
        prop_assert_eq!(outcome(whole, &whole_deltas), outcome(pieces, &deltas));
    }
}
