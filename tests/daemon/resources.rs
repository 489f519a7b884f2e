//! The shared context of a conversation: people change it over the wire, tools through the gate, and both see
//! the same.

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::{Decision, Denial};
use aish_proto::conversation::{
    ConversationDeleteParams as Gone, Delete as DeleteConversation, Fork, ForkParams,
};
use aish_proto::daemon::{BlobPut, BlobPutParams};
use aish_proto::event::{ResourceChanged, ToolResult};
use aish_proto::id::{BlobId, ConversationId};
use aish_proto::method::ClientRole;
use aish_proto::permission::{Set, SetParams};
use aish_proto::resource::{
    ChangedResult, Create, Delete, Get, List, ResourceCreateParams, ResourceDeleteParams,
    ResourceGetParams, ResourceGetResult, ResourceListParams, ResourceListResult, Update,
    UpdateParams, Validate, ValidateParams,
};
use aish_proto::tool::{Run, ToolRunParams};
use aish_proto::turn::{OnConfirm, UnattendedAction};
use aish_testkit::{Answer as Said, Asked as _, Client, Upstream, World};
use serde_json::{Value, json};

use crate::audit::whole;
use crate::audit_who::told;
use crate::consent::{Scene, call_id, pending};
use crate::lists::{call, params, result, run};
use crate::tools::{answer, events};

pub(crate) fn creating(
    conversation: ConversationId,
    name: &str,
    data: Value,
) -> ResourceCreateParams {
    ResourceCreateParams {
        conversation,
        name: name.to_owned(),
        data: Some(data),
        blob: None,
    }
}

fn updating(conversation: ConversationId, name: &str, data: Value) -> UpdateParams {
    UpdateParams {
        conversation,
        name: name.to_owned(),
        data: Some(data),
        blob: None,
        expected_revision: None,
        create: false,
    }
}

fn deleting(conversation: ConversationId, name: &str) -> ResourceDeleteParams {
    ResourceDeleteParams {
        conversation,
        name: name.to_owned(),
        expected_revision: None,
    }
}

fn named(conversation: ConversationId, name: &str) -> ResourceGetParams {
    ResourceGetParams {
        conversation,
        name: name.to_owned(),
    }
}

pub(crate) fn get(client: &Client, conversation: ConversationId, name: &str) -> ResourceGetResult {
    client.done::<Get>(named(conversation, name))
}

fn list(
    client: &Client,
    conversation: ConversationId,
    limit: u32,
    cursor: Option<String>,
) -> ResourceListResult {
    client.done::<List>(ResourceListParams {
        conversation,
        cursor,
        limit: Some(limit),
    })
}

pub(crate) fn names(client: &Client, conversation: ConversationId) -> Vec<String> {
    let page = list(client, conversation, 500, None);
    page.resources.into_iter().map(|it| it.name).collect()
}

/// The same list of calls, for which nobody has to be asked about these.
pub(crate) fn allowed(conversation: ConversationId, calls: &[Value], allow: &str) -> ToolRunParams {
    ToolRunParams {
        on_confirm: Some(OnConfirm {
            then: UnattendedAction::Deny,
            allow: vec![allow.to_owned()],
            timeout_ms: None,
        }),
        ..params(conversation, calls)
    }
}

fn changes(client: &Client, conversation: ConversationId) -> Vec<String> {
    let changes = events::<ResourceChanged>(client, conversation).into_iter();
    let line = |it: ResourceChanged| {
        let change = serde_json::to_value(it.change).unwrap();
        let by = it.by.provider.unwrap_or_else(|| it.by.person.unwrap().name);
        let (name, change) = (it.name, change.as_str().unwrap().to_owned());
        format!("{name} {change} {} {} by {by}", it.revision, it.bytes)
    };
    changes.map(line).collect()
}

#[test]
fn people_create_read_update_list_and_delete() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let id = client.create();
    let data = json!({"target": "wasm", "n": [1, null]});
    let made: ChangedResult = client.done::<Create>(creating(id, "build-config", data.clone()));
    assert_eq!(("build-config", 1), (made.name.as_str(), made.revision));
    let got = get(&client, id, "build-config");
    assert_eq!((data, made.bytes), (got.data, got.resource.bytes));
    let by = got.resource.created_by.person.unwrap();
    assert_eq!(
        (Some("pts/5"), None),
        (by.tty.as_deref(), got.resource.created_by.provider)
    );

    let again = client.refused::<Create>(creating(id, "build-config", json!(1)));
    assert!(again.message.contains("already, at revision 1"), "{again}");
    let fresh = UpdateParams {
        expected_revision: Some(1),
        ..updating(id, "build-config", json!(null))
    };
    assert_eq!(2, client.done::<Update>(fresh.clone()).revision);
    let stale = client.refused::<Update>(fresh);
    assert!(stale.message.contains("is at revision 2, not 1"), "{stale}");
    let got = get(&client, id, "build-config");
    assert_eq!((Value::Null, 2), (got.data, got.resource.revision));
    assert!(got.resource.created_at <= got.resource.updated_at);
    let missing = client.refused::<Update>(updating(id, "other", json!(1)));
    assert_eq!("notFound", missing.kind());
    let put = UpdateParams {
        create: true,
        ..updating(id, "other", json!(1))
    };
    assert_eq!(1, client.done::<Update>(put.clone()).revision);
    assert_eq!(2, client.done::<Update>(put).revision);

    assert_eq!(
        3,
        client.done::<Delete>(deleting(id, "build-config")).revision
    );
    assert_eq!(
        "notFound",
        client.refused::<Get>(named(id, "build-config")).kind()
    );
    assert_eq!(
        "notFound",
        client
            .refused::<Delete>(deleting(id, "build-config"))
            .kind()
    );
    let new = client.done::<Create>(creating(id, "build-config", json!("new")));
    assert_eq!(4, new.revision, "a new one is not taken for the old one");
    assert_eq!(
        vec![
            "build-config created 1 30 by test",
            "build-config updated 2 4 by test",
            "other created 1 1 by test",
            "other updated 2 1 by test",
            "build-config deleted 3 0 by test",
            "build-config created 4 5 by test",
        ],
        changes(&client, id)
    );
    let mut follow = client.attach(id, ReplayStart::Start);
    follow.until_kind("replayComplete");
    follow.recording().assert_sound();
}

#[test]
fn lists_come_in_pages_and_who_only_looks_changes_nothing() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let id = client.create();
    for name in ["c", "a", "b/2", "b/1", "b-3"] {
        client.done::<Create>(creating(id, name, json!(name)));
    }
    let mut pages = vec![];
    let mut cursor = None;
    loop {
        let page = list(&client, id, 2, cursor);
        assert_eq!(5, page.total);
        pages.push(
            page.resources
                .into_iter()
                .map(|it| it.name)
                .collect::<Vec<_>>(),
        );
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(vec![vec!["a", "b-3"], vec!["b/1", "b/2"], vec!["c"]], pages);
    let observer = scene.world.stranger();
    observer.hello_as("looks", ClientRole::Observer);
    assert_eq!(json!("a"), get(&observer, id, "a").data);
    for kind in [
        observer
            .refused::<Create>(creating(id, "d", json!(1)))
            .kind()
            .to_owned(),
        observer
            .refused::<Update>(updating(id, "a", json!(1)))
            .kind()
            .to_owned(),
        observer
            .refused::<Delete>(deleting(id, "a"))
            .kind()
            .to_owned(),
    ] {
        assert_eq!("forbiddenRole", kind);
    }
    for name in ["", "-a", "a b", "\u{1b}[31m", &"x".repeat(129)] {
        let refused = client.refused::<Create>(creating(id, name, json!(1)));
        assert_eq!(-32602, refused.code, "{refused}");
    }
    assert_eq!(5, list(&client, id, 1, None).total);
}

/// A mebibyte is the most, put in pieces, since a line has no room for it.
#[test]
fn a_mebibyte_fits_and_a_byte_more_does_not() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let id = client.create();
    let blob = |text: &str| -> BlobId {
        let mut blob = None;
        for piece in text.as_bytes().chunks(700_000) {
            let text = String::from_utf8(piece.to_vec()).unwrap();
            blob = Some(client.done::<BlobPut>(BlobPutParams { blob, text }).blob);
        }
        blob.unwrap()
    };
    let of = |bytes: usize| ResourceCreateParams {
        data: None,
        blob: Some(blob(&format!(" \"{}\"", "x".repeat(bytes - 2)))),
        ..creating(id, "large", Value::Null)
    };
    let params = of((1 << 20) + 1);
    let refused = client.refused::<Create>(params);
    assert_eq!("tooLarge", refused.kind());
    assert!(refused.message.contains("1048577 bytes"), "{refused}");
    drop(client);
    let client = scene.world.client();
    let blob = |text: String, blob| client.done::<BlobPut>(BlobPutParams { blob, text }).blob;
    let first = blob(format!("\"{}", "x".repeat(500_000)), None);
    let whole = blob(
        format!("{}\"", "x".repeat((1 << 20) - 500_002)),
        Some(first),
    );
    let params = ResourceCreateParams {
        data: None,
        blob: Some(whole),
        ..creating(id, "large", Value::Null)
    };
    assert_eq!(1 << 20, client.done::<Create>(params.clone()).bytes);
    let used = client.refused::<Create>(params);
    assert_eq!("notFound", used.kind(), "the blob is used up");
    let got = get(&client, id, "large");
    assert_eq!((1 << 20) - 2, got.data.as_str().unwrap().len());
    let both = ResourceCreateParams {
        blob: Some(whole),
        ..creating(id, "both", json!(1))
    };
    assert_eq!(-32602, client.refused::<Create>(both).code);
}

#[test]
fn a_resource_is_checked_against_a_schema() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let id = client.create();
    client.done::<Create>(creating(id, "a", json!({"n": "seven"})));
    let params = |schema: Value| ValidateParams {
        conversation: id,
        name: "a".to_owned(),
        schema,
    };
    let fits = client.done::<Validate>(params(json!({"type": "object"})));
    assert_eq!((true, 1, 0), (fits.valid, fits.revision, fits.errors.len()));
    let integer = json!({"properties": {"n": {"type": "integer"}}});
    let differs = client.done::<Validate>(params(integer));
    assert_eq!(
        (false, "/n"),
        (differs.valid, differs.errors[0].path.as_str())
    );
    let reaches = params(json!({"$ref": "file:///etc/passwd"}));
    assert_eq!(-32602, client.refused::<Validate>(reaches).code);
}

/// One call that makes `build-config`, and five that look at it.
fn write_and_look(data: &Value) -> [Value; 6] {
    [
        call(
            "made",
            "data-tool__create-resource",
            json!({"name": "build-config", "data": data}),
        ),
        call(
            "echo",
            "example-tool__echo",
            json!({"resource": {"$result": "made", "pointer": "/name"}}),
        ),
        call("hello", "example-tool__greet", json!({})),
        call(
            "read",
            "data-tool__read-resource",
            json!({"name": {"$result": "made", "pointer": "/name"}}),
        ),
        call(
            "fits",
            "data-tool__validate-resource",
            json!({"name": {"$result": "made", "pointer": "/name"}, "schema": {"required": ["target", "x"]}}),
        ),
        call(
            "list",
            "data-tool__list-resources",
            json!({"limit": {"$result": "made", "pointer": "/revision"}}),
        ),
    ]
}

/// One provider writes, another reads, and the gate is between them and the first.
#[test]
fn what_one_tool_creates_another_reads() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let id = client.create();
    let data = json!({"target": "wasm", "level": 3});
    let turn = run(&client, id, &write_and_look(&data));
    let confirm = pending(&client, id);
    assert_eq!(
        ("data-tool__create-resource", 2, Some(2)),
        (
            confirm.request.call().tool.as_str(),
            confirm.request.tool_call().level_required,
            confirm.request.tool_call().raise_to
        )
    );
    assert!(names(&client, id).is_empty(), "nothing before the answer");
    answer(&client, &confirm, Decision::AllowOnce);
    assert_eq!("all 6 calls succeeded", client.wait_turn(turn).text);
    let said = |call: &str| result(&client, id, call).content;
    let json = |call: &str| serde_json::from_str::<Value>(&said(call)).unwrap();
    let bytes = data.to_string().len();
    assert_eq!(
        json!({"name": "build-config", "change": "created", "revision": 1, "bytes": bytes}),
        json("made")
    );
    assert_eq!(data, json("echo"));
    assert_eq!("Hello from example-tool.", said("hello"));
    let read = json("read");
    assert_eq!(
        (&data, &json!("data-tool")),
        (&read["data"], &read["createdBy"])
    );
    assert_eq!(
        (&json!(false), &json!("")),
        (&json("fits")["valid"], &json("fits")["errors"][0]["path"])
    );
    assert_eq!(
        (json!(1), json!("build-config")),
        (
            json("list")["total"].clone(),
            json("list")["resources"][0]["name"].clone()
        )
    );
    let got = get(&client, id, "build-config");
    assert_eq!(
        Some("data-tool"),
        got.resource.updated_by.provider.as_deref()
    );
    assert_eq!(told_of_writing(&client, id), {
        let arguments = r#"{"data":{"level":3,"target":"wasm"},"name":"build-config"}"#;
        let why = "(Permission upgrade required for data-tool: level 1 → 2)";
        [
            format!("confirmRequested data-tool__create-resource ask {why} {arguments}"),
            "confirmResolved data-tool__create-resource allow allowOnce by pts/5".to_owned(),
            format!(
                "callStarted data-tool__create-resource allow (approved by a person) {arguments}"
            ),
            "resourceChanged data-tool (created, revision 1) build-config".to_owned(),
            "callEnded data-tool__create-resource ok".to_owned(),
        ]
    });
    whole(&client);
}

/// In its order, and the change beside the call that made it.
fn told_of_writing(client: &Client, conversation: ConversationId) -> Vec<String> {
    let reads = ["read-", "list-", "validate-", "example-tool"];
    let mut told = told(client, conversation);
    told.retain(|it| !reads.iter().any(|read| it.contains(read)));
    told
}

/// Who has not the level and nobody to ask changes nothing, also where the configuration lets the call run.
#[test]
fn without_the_level_nothing_changes() {
    let rules = "[mcp.auto_approve]\n\"data-tool__update-resource\" = true\n[permissions.needs]\n\"data-tool__update-resource\" = 1\n";
    let scene = Scene::new(rules);
    let client = scene.world.client();
    let id = client.create();
    client.done::<Create>(creating(id, "a", json!("as it was")));
    let write = json!({"name": "a", "data": "changed"});
    let calls = [
        call(
            "new",
            "data-tool__create-resource",
            json!({"name": "b", "data": 1}),
        ),
        call("gone", "data-tool__delete-resource", json!({"name": "a"})),
        call("lowered", "data-tool__update-resource", write.clone()),
    ];
    let list = allowed(id, &calls, "example-tool__*");
    client.wait_turn(client.done::<Run>(list).turn);
    for denied in ["new", "gone"] {
        let reply = result(&client, id, denied);
        assert_eq!(Some(Denial::NoApprover), reply.denied);
        assert!(reply.content.contains("level 1 → 2"), "{}", reply.content);
    }
    let reply = result(&client, id, "lowered");
    assert_eq!(
        (
            false,
            "[aish] nothing was changed: writing to the shared context needs level 2 of data-tool"
        ),
        (reply.ok, reply.content.as_str())
    );
    assert_eq!(
        (vec!["a".to_owned()], json!("as it was")),
        (names(&client, id), get(&client, id, "a").data)
    );
    client.done::<Set>(SetParams {
        conversation: id,
        provider: "data-tool".to_owned(),
        level: 2,
    });
    client.wait_turn(run(
        &client,
        id,
        &[call("raised", "data-tool__update-resource", write)],
    ));
    assert_eq!(json!("changed"), get(&client, id, "a").data);
    assert_eq!(
        vec!["a created 1 11 by test", "a updated 2 9 by data-tool"],
        changes(&client, id)
    );
}

/// What a tool finds wrong is its reply, and nothing changed.
#[test]
fn a_change_that_cannot_be_made_is_the_calls_reply() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let id = client.create();
    client.done::<Create>(creating(id, "a", json!(1)));
    let calls = [
        call(
            "twice",
            "data-tool__create-resource",
            json!({"name": "a", "data": 2}),
        ),
        call(
            "stale",
            "data-tool__update-resource",
            json!({"name": "a", "data": 2, "expectedRevision": 7}),
        ),
        call("none", "data-tool__delete-resource", json!({"name": "b"})),
        call("unread", "data-tool__read-resource", json!({"name": "b"})),
    ];
    let list = allowed(id, &calls, "data-tool__*");
    let record = client.wait_turn(client.done::<Run>(list).turn);
    assert!(
        record.text.starts_with("0 of 4 calls succeeded"),
        "{}",
        record.text
    );
    for (call, why) in [
        (
            "twice",
            "[aish] nothing was changed: there is a resource \"a\" already, at revision 1",
        ),
        (
            "stale",
            "[aish] nothing was changed: resource \"a\" is at revision 1, not 7",
        ),
        (
            "none",
            "[aish] nothing was changed: there is no resource \"b\" in this conversation",
        ),
        ("unread", "there is no resource \"b\" in this conversation"),
    ] {
        assert_eq!(why, result(&client, id, call).content);
    }
    assert_eq!(json!(1), get(&client, id, "a").data);
}

/// A model is offered them where the configuration offers what is built in, and nowhere else.
#[test]
fn a_model_writes_and_reads_where_it_is_offered_that() {
    let scene = Scene::new("[mcp.auto_approve]\n\"data-tool__*\" = true\n");
    scene.upstream.answer_with(|request| {
        let messages = request.messages();
        if messages.last().is_none_or(|(role, _)| role != "user") {
            return Said::text("Kept.");
        }
        let arguments = r#"{"name":"notes","data":["a"]}"#;
        Said::stream().then_call(0, &call_id(), "data-tool__create-resource", arguments)
    });
    let client = scene.world.client();
    let id = client.create();
    assert_eq!("Kept.", client.wait_turn(client.ask(id, "keep a")).text);
    assert_eq!(json!(["a"]), get(&client, id, "notes").data);
    let offered = scene.upstream.requests().remove(0).json()["tools"].to_string();
    for tool in ["data-tool__list-resources", "example-tool__greet"] {
        assert!(offered.contains(tool), "{offered}");
    }
    let reply = events::<ToolResult>(&client, id).remove(0);
    assert!(reply.ok, "{}", reply.content);

    let (upstream, world) = (Upstream::start(), World::new());
    world.write_config(&upstream.config("test"));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    upstream.answer(Said::text("Hm."));
    client.wait_turn(client.ask(client.create(), "what is there?"));
    assert!(upstream.requests().remove(0).json()["tools"].is_null());
}

/// A copy has each resource as it was, by itself from then on; a restart changes nothing; who deletes the conversation deletes
/// them.
#[test]
fn resources_are_there_after_a_restart_and_in_a_copy() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let id = client.create();
    let calls = [call(
        "a",
        "data-tool__create-resource",
        json!({"name": "a", "data": "by a tool"}),
    )];
    let list = allowed(id, &calls, "data-tool__*");
    client.wait_turn(client.done::<Run>(list).turn);
    client.done::<Update>(updating(id, "a", json!("by a person")));
    client.done::<Create>(creating(id, "b", json!(1)));
    client.done::<Delete>(deleting(id, "b"));
    client.done::<Create>(creating(id, "c", json!(1)));
    let before = get(&client, id, "a");
    let Scene {
        upstream,
        world,
        daemon,
    } = scene;
    drop(client);
    assert_eq!(0, daemon.terminate());
    let daemon = world.daemon().spawn();
    let client = world.client();
    assert_eq!(before, get(&client, id, "a"));
    let copy = client.done::<Fork>(ForkParams { id, at_seq: None }).id;
    assert_eq!(vec!["a", "c"], names(&client, copy));
    let copied = get(&client, copy, "a");
    assert_eq!(
        (&before.data, 2, Some("data-tool")),
        (
            &copied.data,
            copied.resource.revision,
            copied.resource.created_by.provider.as_deref()
        )
    );
    assert_eq!(2, crate::resources::list(&client, copy, 1, None).total);
    client.done::<Update>(updating(copy, "a", json!("of the copy")));
    assert_eq!(before, get(&client, id, "a"));
    let title = client
        .done::<aish_proto::conversation::StatusOf>(aish_proto::conversation::ConversationParams {
            id,
        })
        .title;
    client.done::<DeleteConversation>(Gone {
        id,
        confirm_title: title,
    });
    assert_eq!("notFound", client.refused::<Get>(named(id, "a")).kind());
    assert_eq!(json!("of the copy"), get(&client, copy, "a").data);
    drop((upstream, daemon));
}
