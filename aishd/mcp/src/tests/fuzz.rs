//! What MCP servers send, damaged: lines of a pipe, streams of events, lists of tools and results of calls.

use std::collections::BTreeSet;

use aish_testkit::{Chance, fuzz};
use aishd_mcp_messages::content;
use aishd_mcp_messages::tool::{self, HeaderMirroring, MAX_TOOLS};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::super::inbox::{CallHearer, Inbox, QuestionPurpose};
use super::super::message::{self, ServerMessage};
use super::super::sse::{ResumePoint, SseEvents};
use super::super::stdio;
use super::PATIENCE;

const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hé"},{"type":"image","data":"QUJD","mimeType":"image/png"},{"type":"resource","resource":{"uri":"file:///a","text":"b"}},{"type":"resource_link","uri":"file:///a","name":"b"},{"type":"audio","data":"QQ=="}],"structuredContent":{"a":1},"isError":false}}"#;
const TOOLS: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"read_file","title":"Read","description":"Reads.","inputSchema":{"type":"object","properties":{"path":{"type":"string","x-mcp-header":"Path"}},"required":["path"]},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"destructiveHint":false}},{"name":"b"}],"nextCursor":"2"}}"#;
const LINES: [&str; 6] = [
    RESULT,
    TOOLS,
    r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such tool","data":{"a":[1]}}}"#,
    r#"{"jsonrpc":"2.0","id":"7","method":"elicitation/create","params":{"message":"who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5,"total":1,"message":"half"}}"#,
    r#"[{"jsonrpc":"2.0","method":"notifications/tools/list_changed"},{"id":"1","result":{}},{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}]"#,
];

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.unwrap() })
}

/// Whatever stood on a line, the answer on the next one arrives, unless another one came first.
#[test]
fn damaged_lines_hide_no_answer() {
    fuzz(LINES, |input| {
        let (to_actor, mut actor) = mpsc::channel(1 << 16);
        let (changed, _changes) = watch::channel(0);
        let inbox = Inbox::new(1, to_actor, changed, Default::default());
        let mut question = inbox.ask(QuestionPurpose::Call, CallHearer::default());
        let mut bytes = input.to_vec();
        bytes.extend_from_slice(b"\n{\"id\":1,\"result\":\"the last line\"}\n");
        block_on(stdio::read(&bytes[..], &inbox));
        let reply = question.reply.try_recv();
        let became = match reply.expect("there is an answer") {
            Ok(result) => format!("result {}", result == "the last line"),
            Err(broken) => format!("{broken:?}").chars().take(12).collect(),
        };
        let mut to_actor = 0;
        while actor.try_recv().is_ok() {
            to_actor += 1;
        }
        format!("{became} {to_actor} {}", kinds(input))
    });
}

fn kinds(line: &[u8]) -> String {
    let kind = |it: &ServerMessage| match it {
        ServerMessage::Response { id, body } => format!("{id:?} {}", body.is_ok()),
        ServerMessage::Request { method, .. } => format!("asks {}", method.len()),
        ServerMessage::Notification { method, .. } => format!("says {}", method.len()),
    };
    let messages = message::read(line);
    messages.map_or_else(
        || "no JSON".to_owned(),
        |it| it.iter().map(kind).collect::<Vec<_>>().join(", "),
    )
}

/// A list of tools or a result may be anything: what is understood of it keeps its bounds.
#[test]
fn damaged_results_keep_their_bounds() {
    fuzz([RESULT, TOOLS], |input| {
        let Some(Ok(result)) = message::read(input).and_then(|it| {
            it.into_iter().find_map(|it| match it {
                ServerMessage::Response { body, .. } => Some(body),
                ServerMessage::Request { .. } | ServerMessage::Notification { .. } => None,
            })
        }) else {
            return "no result".to_owned();
        };
        let outcome = content::flatten(&result);
        assert!(
            outcome
                .attachments
                .iter()
                .all(|it| outcome.text[..it.end].ends_with(']'))
        );
        let entries = result["tools"].as_array().cloned().unwrap_or_default();
        let listed = tool::read(&entries, "fuzz", HeaderMirroring::Headers);
        let names: BTreeSet<&str> = listed.tools.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names.len(), listed.tools.len(), "each name once");
        assert!(listed.tools.len() <= MAX_TOOLS.min(entries.len()));
        for tool in &listed.tools {
            assert!(tool.called.bytes().all(|it| it.is_ascii_graphic()));
            assert!(tool.input_schema.is_object());
            // What is kept in the store is read again as the same tool.
            let again = tool::read(&[tool.written()], "fuzz", HeaderMirroring::Headers);
            assert_eq!(Some(tool), again.tools.first());
        }
        format!(
            "{} {} {} {:?}",
            listed.tools.len(),
            listed.remarks.lines().len(),
            outcome.attachments.len(),
            listed.tools.first().map(tool::ServerTool::hints)
        )
    });
}

/// A stream of events is the same however the network cut it, and none of its events is longer than a line may be.
#[test]
fn damaged_event_streams_are_the_same_in_any_pieces() {
    let mut chance = Chance::seeded(1);
    let corpus = [
        format!("id: 1\nretry: 500\nevent: message\ndata: {RESULT}\n\n"),
        format!(
            ": ping\r\n\r\ndata: {}\r\ndata: x\r\n\r\nid: 2\r\n\r\n",
            json!({"id": 1})
        ),
        "event: endpoint\ndata: /messages?session=1\n\n".to_owned(),
    ];
    fuzz(corpus, |input| {
        let mut rest = Bytes::copy_from_slice(input);
        let whole = block_on(events(vec![rest.clone()]));
        let mut pieces = vec![];
        while !rest.is_empty() {
            pieces.push(rest.split_to(rest.len().min(1 + chance.below(40))));
        }
        assert_eq!(whole, block_on(events(pieces)));
        let (seen, place) = whole;
        format!(
            "{} {:?} {}",
            seen.len(),
            place.retry,
            place.last_id.is_some()
        )
    });
}

async fn events(pieces: Vec<Bytes>) -> (Vec<Value>, ResumePoint) {
    let pieces = pieces.into_iter().map(Ok);
    let mut events = SseEvents::new(futures_util::stream::iter(pieces));
    let (mut seen, mut place) = (vec![], ResumePoint::default());
    while let Some(event) = events.next(&mut place).await {
        seen.push(match event {
            Ok(event) => json!([event.kind, event.data]),
            Err(failure) => json!(failure.to_string()),
        });
    }
    (seen, place)
}
