//! What a user of `ask` gets, against a daemon played line by line.

mod interrupted;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use aish_proto::error::ErrorKind;
use aish_proto::id::BlobId;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use super::*;
use crate::client::daemon_link::tests::reach;
use crate::signals::TerminalSignal;
use crate::test_daemon::{self, GatewayPeer, PeerLink};

/// What was written to stderr.
#[derive(Clone, Default)]
struct Stderr(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut held = self.0.lock();
        held.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Stdout whose reader goes away after so many bytes.
struct Stdout {
    written: Vec<u8>,
    reader_takes: usize,
    /// The reader neither reads nor goes.
    stuck: bool,
    /// Told at each write.
    shown: Arc<Notify>,
}

impl AsyncWrite for Stdout {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.shown.notify_one();
        if self.stuck {
            return Poll::Pending;
        }
        if self.written.len() >= self.reader_takes {
            return Poll::Ready(Err(std::io::ErrorKind::BrokenPipe.into()));
        }
        self.written.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

struct World {
    peer: GatewayPeer,
    global: GlobalArgs,
    args: AskArgs,
    stdin: Vec<u8>,
    form: OutputForm,
    terminal: bool,
    reader_takes: usize,
    stuck: bool,
    shown: Arc<Notify>,
    variables: Vec<(&'static str, &'static str)>,
    signals: ClientSignals,
    press: mpsc::Sender<TerminalSignal>,
}

struct Got {
    code: u8,
    out: String,
    err: String,
    hint: String,
}

impl World {
    fn new() -> Self {
        let (press, signals) = ClientSignals::scripted();
        Self {
            peer: GatewayPeer::new(),
            global: GlobalArgs::default(),
            args: AskArgs {
                text: vec!["why".into()],
                ..AskArgs::default()
            },
            stdin: Vec::new(),
            form: OutputForm::Text,
            terminal: false,
            reader_takes: usize::MAX,
            stuck: false,
            shown: Arc::default(),
            variables: vec![],
            signals,
            press,
        }
    }

    /// Asks while the script plays the daemon.
    async fn ask<S: AsyncFnOnce(&GatewayPeer, &mpsc::Sender<TerminalSignal>)>(
        mut self,
        script: S,
    ) -> Got {
        let mut reach = reach(&self.peer.socket);
        for (name, value) in self.variables {
            reach.around.variables.insert(name.into(), value.into());
        }
        let stderr = Stderr::default();
        let mut notices = Notices::new(Box::new(stderr.clone()), &self.global, false);
        let to = Stdout {
            written: Vec::new(),
            reader_takes: self.reader_takes,
            stuck: self.stuck,
            shown: self.shown.clone(),
        };
        let mut output = AnswerOutput {
            markdown: None,
            begun: false,
            to,
            form: self.form,
            terminal: self.terminal,
            open_line: false,
            reported: false,
        };
        let asker = AskContext {
            reach: &reach,
            global: &self.global,
            notices: &mut notices,
            output: &mut output,
            signals: &mut self.signals,
            began: Instant::now(),
            list: None,
            draw: None,
        };
        let mut stdin = &self.stdin[..];
        let (done, ()) = tokio::join!(
            Box::pin(run(asker, &self.args, &mut stdin)),
            script(&self.peer, &self.press)
        );
        let (code, failure) = match done {
            Ok(exit) => (exit.code(), None),
            Err(failure) => (failure.exit.code(), Some(failure)),
        };
        let mut err = String::from_utf8(stderr.0.lock().clone()).unwrap();
        err.push_str(
            &failure
                .as_ref()
                .map(|it| it.message.clone())
                .unwrap_or_default(),
        );
        Got {
            code,
            out: String::from_utf8(output.to.written).unwrap(),
            err,
            hint: failure.and_then(|it| it.hint).unwrap_or_default(),
        }
    }
}

/// Hello, the question that makes its conversation, and the attach.
async fn begin(peer: &GatewayPeer) -> PeerLink {
    let mut link = peer.greet().await;
    let asked = link.sent(2, 0).await;
    assert_eq!(json!({"cwd": "/"}), asked["new"]);
    let since = link.attach(3, Value::Null).await;
    assert_eq!(json!("start"), since);
    link.event(Some(2), "userMessage", json!({"text": "why"}))
        .await;
    link.event(
        Some(3),
        "turnStarted",
        json!({"model": "fast", "modelId": "m", "source": "configured"}),
    )
    .await;
    link.event(None, "replayComplete", json!({"through": 3}))
        .await;
    link
}

async fn delta(link: &mut PeerLink, offset: u64, text: &str) {
    link.event(
        None,
        "textDelta",
        json!({"item": 0, "offset": offset, "text": text}),
    )
    .await;
}

async fn finish(link: &mut PeerLink, text: &str, reason: &str, error: Value) {
    link.event(
        Some(4),
        "assistantMessage",
        json!({"item": 0, "text": text, "complete": reason == "end", "usage": null}),
    )
    .await;
    let usage = json!({"inputTokens": 5, "outputTokens": null});
    link.event(
        Some(5),
        "turnFinished",
        json!({"stopReason": reason, "text": text, "usage": usage, "error": error}),
    )
    .await;
}

#[tokio::test]
async fn the_answer_is_on_stdout_with_a_final_newline_and_nothing_else() {
    let got = World::new()
        .ask(async |peer, _| {
            let mut link = begin(peer).await;
            delta(&mut link, 0, "bec").await;
            delta(&mut link, 3, "au\u{1b}se").await;
            finish(&mut link, "becau\u{1b}se so", "end", Value::Null).await;
            link.expect_end().await;
        })
        .await;
    assert_eq!(
        (0, "because so\n", ""),
        (got.code, got.out.as_str(), got.err.as_str())
    );
}

/// Who asks waits for the daemon once: the question is sent before hello is answered.
#[tokio::test]
async fn a_question_goes_with_the_introduction() {
    let got = World::new()
        .ask(async |peer, _| {
            let mut link = peer.accept().await;
            let hello = link.expect("daemon/hello").await;
            assert_eq!(true, hello.params["tentative"]);
            let send = link.expect("turn/send").await;
            let attach = link.expect("conversation/attach").await;
            link.reply(&hello, test_daemon::hello(&[])).await;
            link.refuse(&attach, ErrorKind::NotFound, "no", None).await;
            link.refuse(&send, ErrorKind::Overloaded, "sixteen wait", None)
                .await;
            link.expect_end().await;
        })
        .await;
    assert_eq!("sixteen wait", got.err);
}

/// And where the daemon wants a key first, nothing begins without it; it is the same question then.
#[tokio::test]
async fn a_question_waits_for_the_key_that_is_lent() {
    let got = World {
        variables: vec![("A_KEY", "a")],
        ..World::new()
    }
    .ask(async |peer, _| {
        let mut link = peer.accept().await;
        let hello = link.expect("daemon/hello").await;
        let early = link.expect("turn/send").await;
        let attach = link.expect("conversation/attach").await;
        link.reply(&hello, test_daemon::hello(&["A_KEY"])).await;
        for call in [&early, &attach] {
            link.refuse(call, ErrorKind::NotInitialized, "hello comes first", None)
                .await;
        }
        let hello = link.expect("daemon/hello").await;
        assert_eq!(json!({"A_KEY": "a"}), hello.params["secrets"]);
        assert!(hello.params.get("tentative").is_none());
        link.reply(&hello, test_daemon::hello(&[])).await;
        let send = link.expect("turn/send").await;
        assert_eq!(early.params, send.params);
        link.refuse(&send, ErrorKind::Overloaded, "sixteen wait", None)
            .await;
    })
    .await;
    assert_eq!("sixteen wait", got.err);
}

#[tokio::test]
async fn json_is_one_object_with_the_exact_text() {
    let got = World {
        form: OutputForm::Json,
        ..World::new()
    }
    .ask(async |peer, _| {
        let mut link = begin(peer).await;
        delta(&mut link, 0, "a\u{1b}").await;
        finish(&mut link, "a\u{1b}b", "end", Value::Null).await;
    })
    .await;
    let mut report: Value = serde_json::from_str(&got.out).unwrap();
    assert!(report["ms"].take().is_u64());
    let usage = json!({"input_tokens": 5, "output_tokens": null, "cached_input_tokens": null, "reasoning_tokens": null, "estimated": false});
    let made: ConversationId = serde_json::from_value(report["conversation"].clone()).unwrap();
    let expected = json!({"v": 1, "conversation": made, "turn": test_daemon::turn(), "model": "fast", "routed": null,
        "answered": {"preset": "fast", "model": "m"}, "fallback": [],
        "text": "a\u{1b}b", "tool_calls": [], "denied": 0, "usage": usage, "cost_usd": null, "ms": null, "stop_reason": "end", "error": null});
    assert_eq!(expected, report);
    assert!(!got.out.contains('\u{1b}') && got.out.ends_with("}\n"));
}

#[tokio::test]
async fn jsonl_is_the_events_unchanged() {
    let got = World {
        form: OutputForm::Events,
        ..World::new()
    }
    .ask(async |peer, _| {
        let mut link = begin(peer).await;
        link.event(None, "laterKind", json!({"new": 1})).await;
        finish(&mut link, "x", "end", Value::Null).await;
    })
    .await;
    let events: Vec<Value> = got
        .out
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    let kinds: Vec<&str> = events
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        vec![
            "snapshot",
            "userMessage",
            "turnStarted",
            "replayComplete",
            "laterKind",
            "assistantMessage",
            "turnFinished"
        ],
        kinds
    );
    assert_eq!(
        test_daemon::envelope(None, "laterKind", json!({"new": 1})),
        events[4]
    );
}

#[tokio::test]
async fn a_refused_key_is_4_and_is_json_too() {
    let error = json!({"class": "unauthorized", "message": "api: 401"});
    let got = World {
        form: OutputForm::Json,
        ..World::new()
    }
    .ask(async |peer, _| finish(&mut begin(peer).await, "", "upstream", error).await)
    .await;
    let report: Value = serde_json::from_str(&got.out).unwrap();
    assert_eq!((4, "api: 401"), (got.code, got.err.as_str()));
    assert_eq!(
        json!({"class": "unauthorized", "message": "api: 401"}),
        report["error"]
    );
}

#[tokio::test]
async fn an_answer_without_text_is_no_success() {
    let got = World::new()
        .ask(async |peer, _| finish(&mut begin(peer).await, "", "end", Value::Null).await)
        .await;
    assert_eq!((1, ""), (got.code, got.out.as_str()));
    assert!(got.err.contains("nothing") && got.hint.contains("retry"));
}

#[tokio::test]
async fn stdin_goes_along_and_what_is_too_large_for_a_line_goes_ahead_in_pieces() {
    let mut world = World::new();
    world.stdin = "日\u{1}x".repeat(100_000).into_bytes();
    let expected = String::from_utf8(world.stdin.clone()).unwrap();
    let got = world
        .ask(async |peer, _| {
            let mut link = peer.greet().await;
            let mut whole = String::new();
            let blob = BlobId::from_bytes([8; 16]);
            while whole.len() < expected.len() {
                let call = link.expect("blob/put").await;
                assert_eq!(whole.is_empty(), call.params.get("blob").is_none());
                whole.push_str(call.params["text"].as_str().unwrap());
                link.reply(&call, json!({"blob": blob, "bytes": whole.len()}))
                    .await;
            }
            assert!(whole == expected);
            let params = link.sent(2, 0).await;
            assert_eq!(
                (json!("why"), json!([{"name": "stdin", "blob": blob}])),
                (params["text"].clone(), params["attachments"].clone())
            );
            link.attach(3, Value::Null).await;
            finish(&mut link, "x", "end", Value::Null).await;
        })
        .await;
    assert_eq!((0, "x\n"), (got.code, got.out.as_str()));
}

#[tokio::test]
async fn detach_prints_the_turn_and_leaves() {
    let mut world = World::new();
    world.args.detach = true;
    let got = world
        .ask(async |peer, _| {
            let mut link = peer.greet().await;
            link.sent(2, 0).await;
            link.expect_end().await;
        })
        .await;
    assert_eq!(
        (0, format!("{}\n", test_daemon::turn())),
        (got.code, got.out)
    );
}

#[tokio::test]
async fn notices_are_on_stderr_and_quiet_silences_them() {
    for quiet in [false, true] {
        let mut world = World::new();
        world.global.quiet = quiet;
        let got = world
            .ask(async |peer, _| {
                let mut link = begin(peer).await;
                link.event(
                    Some(4),
                    "status",
                    json!({"level": "info", "text": "no config\u{7}"}),
                )
                .await;
                link.event(
                    Some(5),
                    "status",
                    json!({"level": "debug", "text": "detail"}),
                )
                .await;
                let text = json!({"stopReason": "end", "text": "x", "usage": null});
                link.event(Some(6), "turnFinished", text).await;
            })
            .await;
        let expected = if quiet { "" } else { "[aish] no config\n" };
        assert_eq!(
            (0, "x\n", expected),
            (got.code, got.out.as_str(), got.err.as_str())
        );
    }
}

#[tokio::test]
async fn a_full_queue_is_7_and_a_missing_model_8() {
    for (kind, code) in [
        (ErrorKind::Overloaded, 7),
        (ErrorKind::NotFound, 8),
        (ErrorKind::Busy, 1),
    ] {
        let got = World::new()
            .ask(async |peer, _| {
                let mut link = peer.greet().await;
                let call = link.expect("turn/send").await;
                link.refuse(&call, kind, "no", Some("do this")).await;
            })
            .await;
        assert_eq!(
            (code, "no", "do this"),
            (got.code, got.err.as_str(), got.hint.as_str())
        );
    }
}

#[tokio::test]
async fn code_alone_is_printed_and_none_is_no_success() {
    for (answer, code, out) in [("a\n```\nx\n```\n", 0, "x\n"), ("only words", 1, "")] {
        let got = World {
            form: OutputForm::Code,
            ..World::new()
        }
        .ask(async |peer, _| finish(&mut begin(peer).await, answer, "end", Value::Null).await)
        .await;
        assert_eq!((code, out), (got.code, got.out.as_str()));
    }
}
