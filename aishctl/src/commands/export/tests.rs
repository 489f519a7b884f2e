use aish_proto::envelope::Envelope;
use aish_proto::id::{Seq, TurnId};
use aish_proto::transfer::{
    ChatCall, ChatCallKind, ChatContent, ChatFunction, ChatMessage, ChatRole, ExportedMessage,
};
use expect_test::{ExpectFile, expect_file};
use serde_json::{Value, json};

use super::*;
use crate::test_daemon;

/// A conversation with everything in it that a stranger could want to break out of.
fn events() -> Vec<Envelope> {
    let hostile = "\u{1b}]0;owned\u{7}\u{202e}";
    let turn = TurnId::from_bytes([3; 16]);
    let confirm = "000000000G000000000000000G";
    let kinds: Vec<(&str, bool, Value)> = vec![
        (
            "created",
            false,
            json!({"title": "t", "model": null, "cwd": "/w"}),
        ),
        (
            "userMessage",
            true,
            json!({"text": "why does it fail?\n## not ours", "attachments": [{"name": "a</summary>.txt", "text": "```\nopen"}]}),
        ),
        (
            "turnStarted",
            true,
            json!({"model": "fast", "modelId": "m`1", "source": "configured"}),
        ),
        (
            "assistantMessage",
            true,
            json!({"item": 0, "text": format!("I look.\n\n```rust\nlet x: Vec<u8>;\n```\n</details><script>{hostile}"),
                "reasoning": "hm", "toolCalls": [{"id": "c1", "name": "fs__read", "arguments": "{\"path\":\"a\"}"}],
                "complete": true, "usage": null}),
        ),
        (
            "confirmResolved",
            true,
            json!({"confirm": confirm, "state": "allowed", "decision": "allowOnce",
                "by": {"clientId": confirm, "name": "aish", "tty": "pts/3", "pid": 7, "uid": 1000}, "waitedMs": 5}),
        ),
        (
            "toolResult",
            true,
            json!({"call": "c1", "name": "fs__read", "ok": true, "content": format!("````\n</details>\n{hostile}x"), "ms": 38}),
        ),
        (
            "assistantMessage",
            true,
            json!({"item": 1, "text": "It is ![so](http://x/?q=secret).", "complete": false, "usage": null}),
        ),
        (
            "answerPictures",
            true,
            json!({"item": 1, "blocks": [{"result": "00000000000000000000000007", "kind": "image",
                "mimeType": "image/png</p>*", "bytes": 68, "uri": null}]}),
        ),
        (
            "turnFinished",
            true,
            json!({"stopReason": "upstream", "text": "", "usage": null,
                "error": {"class": "unreachable", "message": "transport: *no* <route>"}}),
        ),
        ("renamed", false, json!({"title": "`x` <y>"})),
        (
            "status",
            false,
            json!({"level": "info", "text": "6 old turns left the context"}),
        ),
    ];
    let event = |(number, (kind, in_turn, data)): (u64, (&str, bool, Value))| {
        let mut event = test_daemon::envelope(Some(number), kind, data);
        event["ts"] = json!(format!("2026-11-22T14:0{}:11.5{number:02}Z", number % 7));
        event["turn"] = if in_turn { json!(turn) } else { Value::Null };
        serde_json::from_value(event).unwrap()
    };
    (1..).zip(kinds).map(event).collect()
}

fn messages() -> Vec<ExportedMessage> {
    let message = |role, content: Option<&str>| ChatMessage {
        role,
        content: content.map(|it| ChatContent::Text(it.to_owned())),
        tool_calls: vec![],
        tool_call_id: None,
    };
    let call = ChatCall {
        id: "c1".to_owned(),
        kind: ChatCallKind::Function,
        function: ChatFunction {
            name: "fs__read".to_owned(),
            arguments: "{\"path\":\"a\"}".to_owned(),
        },
    };
    let said = [
        (true, message(ChatRole::User, Some("why?\u{7f}\u{202e}"))),
        (
            false,
            ChatMessage {
                tool_calls: vec![call],
                ..message(ChatRole::Assistant, None)
            },
        ),
        (
            false,
            ChatMessage {
                tool_call_id: Some("c1".to_owned()),
                ..message(ChatRole::Tool, Some("42\n"))
            },
        ),
        (false, message(ChatRole::Assistant, Some("so"))),
        (true, message(ChatRole::User, Some("and?"))),
    ];
    let exported = |(begins, message)| ExportedMessage {
        exchange: None,
        begins,
        message,
    };
    said.into_iter().map(exported).collect()
}

fn status() -> ConversationStatus {
    let mut status = test_daemon::status("linker <trouble> *here*", 10);
    status["createdAt"] = json!("2026-11-22T14:00:00.000Z");
    serde_json::from_value(status).unwrap()
}

/// As it goes into a file, from pages of so many events.
fn exported(format: ExportForm, page: usize) -> String {
    let mut document = ExportDocument::new(format, &status());
    let mut text = String::new();
    let result = |events: &[Envelope], messages: &[ExportedMessage]| ConversationExportResult {
        through: Seq(10),
        events: events.to_vec(),
        messages: messages.to_vec(),
        next_cursor: None,
    };
    match document.needs() {
        ExportFormat::Events => {
            for events in events().chunks(page) {
                text.push_str(&document.page(result(events, &[])));
            }
        }
        ExportFormat::Messages => {
            for messages in messages().chunks(page) {
                text.push_str(&document.page(result(&[], messages)));
            }
        }
    }
    text.push_str(&document.end());
    if document.is_json() {
        crate::safe::json_pipe(&text).into_owned()
    } else {
        text
    }
}

#[track_caller]
fn check(format: ExportForm, expected: &ExpectFile) {
    let whole = exported(format, usize::MAX);
    expected.assert_eq(&whole);
    assert_eq!(whole, exported(format, 1), "pages of one");
    let safe = whole
        .chars()
        .all(|it| it == '\n' || it == '\t' || !it.is_control());
    assert!(safe, "a control character");
}

#[test]
fn each_form_is_as_it_is_written_down() {
    check(
        ExportForm::Md,
        &expect_file!["../../../../tests/data/export/conversation.md"],
    );
    check(
        ExportForm::Jsonl,
        &expect_file!["../../../../tests/data/export/conversation.jsonl"],
    );
    check(
        ExportForm::Json,
        &expect_file!["../../../../tests/data/export/conversation.json"],
    );
    check(
        ExportForm::Cast,
        &expect_file!["../../../../tests/data/export/conversation.cast"],
    );
}

/// Questions that waited for their turn, one of them given up and one without an answer yet.
#[test]
fn each_question_stands_above_its_answer() {
    let turn = |it: u8| json!(TurnId::from_bytes([it; 16]));
    let asked = |it: u8| ("userMessage", it, json!({"text": format!("question {it}")}));
    let started = |it| {
        (
            "turnStarted",
            it,
            json!({"model": "fast", "modelId": "m", "source": "configured"}),
        )
    };
    let answered = |it: u8| {
        let text = format!("answer {it}");
        (
            "assistantMessage",
            it,
            json!({"item": 0, "text": text, "complete": true, "usage": null}),
        )
    };
    let ended = |it, why: &str| {
        (
            "turnFinished",
            it,
            json!({"stopReason": why, "text": "", "usage": null}),
        )
    };
    let mut document = MarkdownExport::new(&status());
    let mut text = String::new();
    let events = [
        asked(1),
        started(1),
        asked(2),
        asked(3),
        asked(4),
        answered(1),
        ended(3, "cancelled"),
        ended(1, "end"),
        started(2),
        answered(2),
        ended(2, "end"),
    ];
    for (number, (kind, of, data)) in (1..).zip(events) {
        let mut event = test_daemon::envelope(Some(number), kind, data);
        event["turn"] = turn(of);
        text.push_str(&document.event(&serde_json::from_value(event).unwrap()));
    }
    text.push_str(&document.end());
    let of = |line: &str| line.starts_with("> ") || line.starts_with("*aish:*");
    let said: Vec<&str> = text.lines().filter(|it| of(it)).collect();
    assert_eq!(
        [
            "> question 1",
            "> answer 1",
            "> question 3",
            "*aish:* cancelled",
            "> question 2",
            "> answer 2",
            "> question 4"
        ],
        said[..],
        "{text}"
    );
}

#[test]
fn a_document_is_json_and_has_every_event() {
    let document: Value = serde_json::from_str(&exported(ExportForm::Json, 3)).unwrap();
    let events: Vec<Value> = events()
        .iter()
        .map(|it| serde_json::to_value(it).unwrap())
        .collect();
    assert_eq!(
        (json!(1), json!(events)),
        (document["v"].clone(), document["events"].clone())
    );
    let empty = ExportDocument::new(ExportForm::Json, &status()).page(ConversationExportResult {
        through: Seq(0),
        events: vec![],
        messages: vec![],
        next_cursor: None,
    });
    let empty: Value = serde_json::from_str(&(empty + "\n]}\n")).unwrap();
    assert_eq!(json!([]), empty["events"]);
}

/// The grammar of asciicast v2: an object, then rows of a time that never goes back, "o", and text.
#[test]
fn a_recording_is_one_by_its_grammar() {
    let text = exported(ExportForm::Cast, 2);
    let mut lines = text.lines();
    let header: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(json!(2), header["version"]);
    assert!(header["width"].is_u64() && header["height"].is_u64() && header["timestamp"].is_u64());
    assert!(header["idle_time_limit"].is_f64() && header["title"].is_string());
    let mut before = 0.0;
    let mut rows = 0;
    for line in lines {
        let (at, kind, text): (f64, String, String) = serde_json::from_str(line).unwrap();
        assert!(at >= before && kind == "o", "{line}");
        before = at;
        rows += 1;
        let plain = text.replace("\r\n", "");
        assert!(!plain.chars().any(char::is_control), "{line}");
    }
    assert!(rows > 3 && before > 0.0, "{text}");
}

/// A line of a huge exchange ends only where every call has its result.
#[test]
fn a_line_that_is_too_long_is_cut_between_rounds() {
    let mut said = messages();
    let long = "x".repeat(9 << 20);
    said[1].message.content = Some(ChatContent::Text(long));
    let mut lines = JsonLinesExport::default();
    let text = lines.page(said) + &lines.end();
    let roles: Vec<Vec<String>> = text
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let messages = line["messages"].as_array().unwrap().clone();
            messages
                .iter()
                .map(|it| it["role"].as_str().unwrap().to_owned())
                .collect()
        })
        .collect();
    assert_eq!(
        vec![
            vec!["user", "assistant", "tool"],
            vec!["assistant"],
            vec!["user"]
        ],
        roles
    );
}

#[test]
fn the_form_is_the_flag_s_or_that_of_the_archive() {
    let args = ExportArgs::default();
    let archive = ExportArgs {
        archive: true,
        ..ExportArgs::default()
    };
    let json = GlobalArgs {
        json: true,
        ..GlobalArgs::default()
    };
    let named = ExportArgs {
        format: Some(ExportForm::Cast),
        ..archive.clone()
    };
    assert_eq!(ExportForm::Md, args.format(&GlobalArgs::default()));
    assert_eq!(ExportForm::Jsonl, archive.format(&GlobalArgs::default()));
    assert_eq!(ExportForm::Json, archive.format(&json));
    assert_eq!(ExportForm::Cast, named.format(&json));
}

/// The name belongs to the whole only.
#[tokio::test]
async fn a_file_is_there_when_it_is_whole_and_replaces_only_when_told() {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("out.md");
    let mut sink = ExportSink::file(&place, false).unwrap();
    sink.write("half", false).await.unwrap();
    assert!(!place.exists());
    drop(sink);
    assert_eq!(0, std::fs::read_dir(directory.path()).unwrap().count());
    let mut sink = ExportSink::file(&place, false).unwrap();
    sink.write("whole", false).await.unwrap();
    sink.finish().await.unwrap();
    assert_eq!("whole", std::fs::read_to_string(&place).unwrap());
    let mode = place.metadata().unwrap().permissions().mode();
    assert_eq!(0o600, mode & 0o777);
    assert!(
        ExportSink::file(&place, false)
            .unwrap_err()
            .message
            .contains("is there already")
    );
    // A link is replaced, and what it leads to is not written to.
    let link = directory.path().join("link.md");
    std::os::unix::fs::symlink(&place, &link).unwrap();
    assert!(ExportSink::file(&link, false).is_err());
    let mut sink = ExportSink::file(&link, true).unwrap();
    sink.write("other", false).await.unwrap();
    sink.finish().await.unwrap();
    assert!(!link.symlink_metadata().unwrap().is_symlink());
    assert_eq!("whole", std::fs::read_to_string(&place).unwrap());
}
