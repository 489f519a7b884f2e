//! Conversations leave the daemon and come into it, page by page, whole or not at all.

use aish_proto::audit::{AuditKind, AuditListParams, List as AuditList, Verify, VerifyParams};
use aish_proto::conversation::{
    ConversationListParams, ConversationParams, ConversationStatus, List, ListState, Search,
    SearchParams, StatusOf,
};
use aish_proto::envelope::Envelope;
use aish_proto::event::{Imported, ToolCall};
use aish_proto::id::ConversationId;
use aish_proto::transfer::{
    ChatContent, ChatRole, ConversationExportParams, ConversationImportParams, Export,
    ExportFormat, ExportedMessage, Import, ImportDone, ImportedAs,
};
use aish_testkit::wait::{PATIENCE, until};
use aish_testkit::{Answer, Client, Upstream, World, disk, surroundings};
use serde_json::{Value, json};
use ulid::Ulid;

use crate::context::{asked, log};

/// All pages of an export.
pub(crate) fn messages(client: &Client, id: ConversationId, archive: bool) -> Vec<ExportedMessage> {
    pages(client, id, ExportFormat::Messages, archive).1
}

pub(crate) fn pages(
    client: &Client,
    id: ConversationId,
    format: ExportFormat,
    archive: bool,
) -> (Vec<Envelope>, Vec<ExportedMessage>) {
    let (mut events, mut messages) = (vec![], vec![]);
    let mut cursor = None;
    loop {
        let params = ConversationExportParams {
            id,
            format,
            archive,
            cursor,
        };
        let page = client.done::<Export>(params);
        events.extend(page.events);
        messages.extend(page.messages);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return (events, messages);
        }
    }
}

fn texts(messages: &[ExportedMessage]) -> Vec<String> {
    let text = |it: &ExportedMessage| match &it.message.content {
        Some(ChatContent::Text(text)) => text.clone(),
        Some(ChatContent::Parts(_)) | None => String::new(),
    };
    messages.iter().map(text).collect()
}

pub(crate) fn piece(
    id: ConversationId,
    offset: u64,
    text: &str,
    end: bool,
) -> ConversationImportParams {
    ConversationImportParams {
        id,
        offset,
        text: text.to_owned(),
        end,
        new: (offset == 0).then(|| ImportedAs {
            title: None,
            model: None,
            cwd: "/".to_owned(),
        }),
    }
}

/// An import in pieces of so many bytes.
pub(crate) fn imported(client: &Client, text: &str, piece_bytes: usize) -> ImportDone {
    let id = ConversationId(Ulid::new());
    let mut offset = 0;
    let mut rest = text;
    loop {
        let (now, more) = rest.split_at(rest.floor_char_boundary(piece_bytes));
        let end = more.is_empty();
        let result = client.done::<Import>(piece(id, offset, now, end));
        (offset, rest) = (result.taken, more);
        if let Some(done) = result.done {
            return done;
        }
    }
}

pub(crate) fn lines(messages: &[ExportedMessage]) -> String {
    let mut lines: Vec<Vec<Value>> = vec![];
    for it in messages {
        let message = serde_json::to_value(&it.message).unwrap();
        match lines.last_mut() {
            Some(line) if !it.begins => line.push(message),
            Some(_) | None => lines.push(vec![message]),
        }
    }
    lines
        .iter()
        .map(|it| json!({"messages": it}).to_string() + "\n")
        .collect()
}

pub(crate) fn example(number: usize, bytes: usize) -> String {
    let text = "x".repeat(bytes);
    json!({"messages": [
        {"role": "user", "content": format!("question {number}")},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "fs__write", "arguments": "{\"path\":\"/etc\"}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "written"},
        {"role": "assistant", "content": text},
    ]})
    .to_string()
        + "\n"
}

fn all(client: &Client) -> Vec<ConversationStatus> {
    let params = ConversationListParams {
        state: ListState::All,
        ..ConversationListParams::default()
    };
    client.done::<List>(params).conversations
}

fn world() -> (Upstream, World) {
    let (upstream, world) = (Upstream::start(), World::new());
    let preset = upstream.preset("test", "");
    world.write_config(&format!(
        "default_model = \"test\"\n{preset}\n[context]\nmax_turns = 3\n[tools]\nbuiltin = true\n"
    ));
    (upstream, world)
}

#[test]
fn what_was_said_is_exported_and_the_archive_is_what_left() {
    let (upstream, world) = world();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    for number in 1..=5 {
        asked(&client, conversation, &format!("question {number}"));
    }
    let whole = messages(&client, conversation, false);
    let questions: Vec<_> = texts(&whole).into_iter().step_by(2).collect();
    assert_eq!(
        [
            "question 1",
            "question 2",
            "question 3",
            "question 4",
            "question 5"
        ]
        .to_vec(),
        questions
    );
    assert!(
        whole
            .iter()
            .all(|it| it.begins == (it.message.role == ChatRole::User))
    );
    // Three are too many only by one, and then two of them leave.
    let left = messages(&client, conversation, true);
    assert_eq!(whole[..left.len()], left[..]);
    assert!(!left.is_empty() && left.len() < whole.len(), "{left:?}");
    let (events, none) = pages(&client, conversation, ExportFormat::Events, false);
    assert!(none.is_empty());
    assert_eq!(
        log(&client, conversation)
            .into_iter()
            .filter(|it| it.seq.is_some())
            .collect::<Vec<_>>(),
        events
    );
    let (archived, _) = pages(&client, conversation, ExportFormat::Events, true);
    assert!(archived.iter().all(|it| it.turn.is_some()) && archived.len() < events.len());
    let wrong = ConversationExportParams {
        id: conversation,
        format: ExportFormat::Events,
        archive: false,
        cursor: Some("x".to_owned()),
    };
    assert_eq!(-32602, client.refused::<Export>(wrong).code);
    upstream.finish();
}

/// The cursor holds the head, whatever happens meanwhile.
#[test]
fn an_export_is_of_the_moment_in_which_it_began() {
    let (upstream, world) = world();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let long: String = (0..30).map(|it| example(it, 100_000)).collect();
    let id = imported(&client, &long, 100_000).conversation;
    let first = client.done::<Export>(ConversationExportParams {
        id,
        format: ExportFormat::Messages,
        archive: false,
        cursor: None,
    });
    asked(&client, id, "something new");
    let mut all = first.messages;
    let mut cursor = first.next_cursor;
    assert!(cursor.is_some());
    while let Some(next) = cursor {
        let page = client.done::<Export>(ConversationExportParams {
            id,
            format: ExportFormat::Messages,
            archive: false,
            cursor: Some(next),
        });
        assert_eq!(first.through, page.through);
        all.extend(page.messages);
        cursor = page.next_cursor;
    }
    assert_eq!((120, long), (all.len(), lines(&all)));
    upstream.finish();
}

#[test]
fn what_is_imported_is_history_and_no_consent() {
    let (upstream, world) = world();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let text = example(1, 10);
    let done = imported(&client, &text, 7);
    assert_eq!(
        (1, 4, 0, false),
        (
            done.exchanges,
            done.messages,
            done.unanswered,
            done.duplicate
        )
    );
    let id = done.conversation;
    assert_eq!(text, lines(&messages(&client, id, false)));
    let status = client.done::<StatusOf>(ConversationParams { id });
    assert_eq!(
        ("question 1", None, 1),
        (status.title.as_str(), status.last_turn, status.turns)
    );
    let log = log(&client, id);
    assert!(
        !log.iter().any(|it| it.read::<ToolCall>().is_some()),
        "nothing began"
    );
    assert_eq!(
        1,
        log.iter()
            .filter(|it| it.read::<Imported>().is_some())
            .count()
    );
    // One record of it all, by whom, and the trail is whole.
    let told = client.done::<AuditList>(AuditListParams::default()).records;
    let of_it: Vec<_> = told
        .iter()
        .filter(|it| it.conversation == Some(id))
        .collect();
    assert_eq!(
        vec![AuditKind::ConversationImported],
        of_it.iter().map(|it| it.kind).collect::<Vec<_>>()
    );
    assert!(of_it[0].by.is_some());
    let checked = client.done::<Verify>(VerifyParams { noted: None });
    assert!(checked.whole, "{checked:?}");
    // It goes on as any other, and the model is shown what was said.
    asked(&client, id, "and now?");
    let body = String::from_utf8(upstream.requests().pop().unwrap().body).unwrap();
    assert!(
        body.contains("question 1") && body.contains("written"),
        "{body}"
    );
    let search = SearchParams {
        query: "question 1".to_owned(),
        id: None,
        include_archived: false,
        limit: None,
        cursor: None,
    };
    assert_eq!(1, client.done::<Search>(search).hits.len());
    upstream.finish();
}

#[test]
fn bad_input_leaves_nothing_behind() {
    let (upstream, world) = world();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let good: String = (0..40).map(|it| example(it, 50_000)).collect();
    let bad = format!("{good}{{\"role\": \"user\"}}\n");
    let id = ConversationId(Ulid::new());
    let mut offset = 0;
    let mut rest = bad.as_str();
    let error = loop {
        let (now, more) = rest.split_at(rest.floor_char_boundary(500_000));
        // While it comes nobody sees it.
        assert!(all(&client).is_empty());
        assert_eq!(
            "notFound",
            client.refused::<StatusOf>(ConversationParams { id }).kind()
        );
        match client.call::<Import>(piece(id, offset, now, more.is_empty())) {
            Ok(result) => (offset, rest) = (result.taken, more),
            Err(error) => break error,
        }
    };
    let expected =
        "line 41, column 1: the lines before are examples with \"messages\", and this one is not";
    assert!(error.message.ends_with(expected), "{error}");
    assert!(all(&client).is_empty());
    // It is gone, and its id with it.
    let gone = until("it is taken out", PATIENCE, || {
        let error = client.refused::<Import>(piece(id, 0, "x", false));
        (error.kind() == "notFound").then_some(error)
    });
    assert!(gone.message.contains("deleted"), "{gone}");
    let lost = client.refused::<Import>(piece(ConversationId(Ulid::new()), 7, "x", true));
    assert_eq!("notFound", lost.kind());
    let huge = client.refused::<Import>(ConversationImportParams {
        new: None,
        ..piece(ConversationId(Ulid::new()), 0, "x", true)
    });
    assert_eq!(-32602, huge.code);
    upstream.finish();
}

#[test]
fn a_reply_that_was_lost_is_given_again() {
    let (upstream, world) = world();
    let daemon = world.daemon().spawn();
    let client = world.client();
    let text = example(1, 10);
    let done = imported(&client, &text, 40);
    let last = piece(done.conversation, text.len() as u64, "", true);
    let again = client.done::<Import>(last.clone()).done.unwrap();
    let done = ImportDone {
        duplicate: true,
        ..done
    };
    assert_eq!(done, again);
    assert_eq!(0, daemon.terminate());
    let _daemon = world.daemon().spawn();
    let client = world.client();
    assert_eq!(again, client.done::<Import>(last).done.unwrap());
    // Another text is no repetition.
    let other = piece(done.conversation, 3, "", true);
    assert_eq!("notFound", client.refused::<Import>(other).kind());
    let whole = piece(done.conversation, 0, &text, true);
    assert!(client.done::<Import>(whole).done.unwrap().duplicate);
    upstream.finish();
}

#[test]
fn a_client_that_leaves_leaves_nothing() {
    let (upstream, world) = world();
    let _daemon = world.daemon().spawn();
    let watcher = world.client();
    let client = world.client();
    let text: String = (0..40).map(|it| example(it, 50_000)).collect();
    let id = ConversationId(Ulid::new());
    let (first, rest) = text.split_at(900_000);
    let taken = client.done::<Import>(piece(id, 0, first, false)).taken;
    client.done::<Import>(piece(id, taken, &rest[..600_000], false));
    drop(client);
    until("it is taken out", PATIENCE, || {
        let error = watcher.refused::<Import>(piece(id, 0, "x", false));
        error.message.contains("deleted").then_some(())
    });
    assert_eq!(0, all(&watcher).len());
    upstream.finish();
}

/// kill -9 at each point of an import: it is there whole, or it is not there, and the next daemon has taken the half out.
#[test]
fn a_killed_import_is_whole_or_gone() {
    let kills = surroundings::kills();
    for (point, is_there) in [
        ("import.half=kill", false),
        ("import.half=kill@2", false),
        ("import.before_commit=kill", false),
        ("import.after_commit=kill", true),
    ] {
        for _ in 0..kills.div_ceil(5) {
            let (upstream, world) = world();
            let mut daemon = world.daemon().failpoint(point).spawn();
            let client = world.client();
            let text: String = (0..80).map(|it| example(it, 60_000)).collect();
            let id = ConversationId(Ulid::new());
            let mut offset = 0;
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let (now, more) = rest.split_at(rest.floor_char_boundary(500_000));
                let params = piece(id, offset, now, more.is_empty());
                let call = json!({"jsonrpc": "2.0", "id": offset, "method": "conversation/import", "params": params});
                // It may be gone already.
                let _gone = client.raw(format!("{call}\n").as_bytes());
                (offset, rest) = (offset + now.len() as u64, more);
            }
            daemon.wait_exit();
            let _daemon = world.daemon().spawn();
            let client = world.client();
            let there = all(&client);
            let whole = there.iter().filter(|it| it.turns == 80).count();
            assert_eq!(there.len(), whole, "{point}: half of it is there");
            assert_eq!(is_there, !there.is_empty(), "{point}");
            if there.is_empty() {
                until("the half is taken out", PATIENCE, || {
                    let error = client.refused::<Import>(piece(id, 0, "x", false));
                    error.message.contains("deleted").then_some(())
                });
            } else {
                assert_eq!(text, lines(&messages(&client, id, false)));
            }
            upstream.finish();
        }
    }
}

#[test]
fn a_full_disk_refuses_an_import_and_keeps_none_of_it() {
    let (upstream, world) = world();
    let Some(small) = disk::Small::mount(&world.path("state"), 40 << 20) else {
        return;
    };
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let text: String = (0..40).map(|it| example(it, 50_000)).collect();
    let id = ConversationId(Ulid::new());
    let (first, rest) = text.split_at(900_000);
    let taken = client.done::<Import>(piece(id, 0, first, false)).taken;
    small.fill();
    let refused = client.refused::<Import>(piece(id, taken, &rest[..900_000], false));
    assert_eq!("storage", refused.kind(), "{refused}");
    assert!(all(&client).is_empty());
    small.free();
    let done = until("there is room again", PATIENCE, || {
        client
            .call::<Import>(piece(ConversationId(Ulid::new()), 0, &example(1, 10), true))
            .ok()
    });
    assert_eq!(1, all(&client).len());
    assert_eq!(4, done.done.unwrap().messages);
    upstream.finish();
}

/// What a running turn has not finished is no part of it, and its calls have results that say so.
#[test]
fn a_running_turn_is_exported_as_far_as_it_is() {
    let (upstream, world) = world();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    upstream.answer_with(|request| {
        let asked_before = request.messages().iter().any(|it| it.0 == "tool");
        if asked_before {
            return Answer::text("done");
        }
        Answer::stream().then_call(0, "c1", "data-tool__delete-resource", "{\"name\":\"x\"}")
    });
    let turn = client.ask(conversation, "delete it");
    let mut follow = client.attach(conversation, aish_proto::attach::ReplayStart::Start);
    follow.until_kind("confirmRequested");
    let said = messages(&client, conversation, false);
    let roles: Vec<_> = said.iter().map(|it| it.message.role).collect();
    assert_eq!(
        vec![ChatRole::User, ChatRole::Assistant, ChatRole::Tool],
        roles
    );
    let none = ChatContent::Text("[aish] no result".to_owned());
    assert_eq!(Some(none), said[2].message.content);
    client.done::<aish_proto::turn::Cancel>(aish_proto::turn::TurnParams { turn });
    client.wait_turn(turn);
    let _violations = upstream.take_violations();
}
