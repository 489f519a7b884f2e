//! What a gateway offers besides the text of results: values that fit a promised schema, the shared context as resources,
//! prompts; and what it does when its conversation is deleted.

use aish_proto::conversation::{self, ConversationDeleteParams, Delete, ListState};
use aish_proto::id::ConversationId;
use aish_proto::resource;
use aish_testkit::{Client, Daemon, World};
use serde_json::{Value, json};

use crate::gateway_client::{Gateway, NOTES, PLAIN, STATED, allow_all, ready, text, world};

/// A tool whose capabilities are the arms of this script.
const SUMS: &str = "case $AISH_CAPABILITY in\n\
    right|plain) echo '{\"n\":1}';;\n\
    wrong) echo '{\"n\":\"x\"}';;\n\
    beside) echo '{\"content\":[{\"type\":\"text\",\"text\":\"n is 1\"}],\"structuredContent\":{\"n\":1}}';;\n\
    block) echo '{\"content\":[{\"type\":\"json\",\"json\":{\"n\":1}}]}';;\n\
    fails) echo '{\"n\":1}'; exit 3;;\n\
    esac\n";

fn sums() -> (World, Daemon) {
    let world = World::new();
    world.write_config("");
    let mut manifest = "name = \"sums\"\nversion = \"1\"\nruntime = \"process\"\ncommand = \"sh\"\nscript = \"sums.sh\"\n".to_owned();
    for name in ["beside", "block", "fails", "plain", "right", "wrong"] {
        manifest += &format!("[[capability]]\nname = \"{name}\"\nlevel = 1\n");
        if name != "plain" {
            manifest += "output = { n = \"integer\" }\n";
        }
    }
    world.write("config/aish/tools/sums.sh", SUMS);
    world.write("config/aish/tools/sums.toml", &manifest);
    let daemon = world.daemon().spawn();
    ready(&world, 0);
    (world, daemon)
}

#[test]
fn a_tool_that_promises_a_value_gives_one_or_is_told_of_as_failed() {
    let (world, _daemon) = sums();
    let client = world.client();
    let mut gateway = Gateway::session(&world, &[]);
    gateway.ask(1, "tools/list", &json!({}));
    let said = gateway.answer(&json!(1));
    for tool in said["result"]["tools"].as_array().unwrap() {
        let promises = tool["outputSchema"]["properties"]["n"]["type"] == "integer";
        assert_eq!(tool["name"] != "sums__plain", promises, "{tool}");
    }
    let mut call = |id: i64, capability: &str| {
        gateway.call(id, &format!("sums__{capability}"), &json!({}));
        if id == 2 {
            allow_all(&client);
        }
        let mut said = gateway.answer(&json!(id));
        said["result"].take()
    };
    let one = json!({"n": 1});
    for (id, capability, shown) in [
        (2, "right", "{\"n\":1}"),
        (3, "plain", "{\"n\":1}"),
        (4, "beside", "n is 1"),
        (5, "block", "{\"n\":1}"),
    ] {
        let result = call(id, capability);
        assert_eq!(
            (shown, &json!(false), &one),
            (
                result["content"][0]["text"].as_str().unwrap(),
                &result["isError"],
                &result["structuredContent"]
            ),
            "{capability}"
        );
    }
    let result = call(6, "wrong");
    let why =
        "[aish] the call ran, but its result has no value that fits the output schema of the tool";
    assert_eq!(
        json!({"isError": true, "content": [{"type": "text", "text": "{\"n\":\"x\"}"}, {"type": "text", "text": why}]}),
        result
    );
    let result = call(7, "fails");
    assert_eq!(
        json!({"isError": true, "content": [{"type": "text", "text": "{\"n\":1}"}]}),
        result
    );
    gateway.end();
    // Clients of before promises are given none, and the text.
    let mut old = Gateway::start(&world, &[]);
    let hello = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}});
    old.ask(1, "initialize", &hello);
    old.answer(&json!(1));
    old.ask(2, "tools/list", &json!({}));
    let listed = old.answer(&json!(2)).to_string();
    assert!(listed.contains("sums__right") && !listed.contains("outputSchema"));
    old.call(3, "sums__wrong", &json!({}));
    allow_all(&client);
    let said = old.answer(&json!(3));
    assert_eq!(
        json!({"isError": false, "content": [{"type": "text", "text": "{\"n\":\"x\"}"}]}),
        said["result"]
    );
    old.end();
}

fn all(client: &Client) -> Vec<(ConversationId, String)> {
    let params = conversation::ConversationListParams {
        state: ListState::All,
        ..conversation::ConversationListParams::default()
    };
    let list = client.done::<conversation::List>(params).conversations;
    list.into_iter().map(|it| (it.id, it.title)).collect()
}

#[test]
fn a_conversation_that_somebody_deletes_is_made_anew_unless_it_was_named() {
    let (world, _daemon) = world(&[PLAIN], "");
    let client = world.client();
    let delete = |(id, title): (ConversationId, String)| {
        client.done::<Delete>(ConversationDeleteParams {
            id,
            confirm_title: title,
        });
    };
    let mut gateway = Gateway::session(&world, &[]);
    let mut gone = vec![];
    for id in 1..4 {
        gateway.call(id, "plain__echo", &json!({"n": id}));
        // What was allowed went with the conversation.
        allow_all(&client);
        let said = gateway.answer(&json!(id));
        assert_eq!(format!("{{\"n\": {id}}}"), text(&said), "{said}");
        let now = all(&client).remove(0);
        assert!(now.1 == "mcp a client" && !gone.contains(&now.0));
        gone.push(now.0);
        delete(now);
    }
    gateway.end();
    assert!(all(&client).is_empty());
    let made = client.create();
    let name = made.to_string();
    let mut named = Gateway::session(&world, &["-C", &name]);
    // It knows what tools there are in it.
    assert!(!named.names(9, &json!({})).is_empty());
    delete(all(&client).remove(0));
    named.call(1, "plain__echo", &json!({}));
    let said = named.answer(&json!(1));
    assert_eq!(json!(true), said["result"]["isError"], "{said}");
    assert!(
        text(&said).starts_with("[aish] the call did not run: "),
        "{said}"
    );
    assert!(
        all(&client).is_empty(),
        "a named one is the person's to make"
    );
    named.end();
}

#[test]
fn the_shared_context_is_resources_and_changes_of_it_are_told() {
    let (world, _daemon) = world(&[PLAIN], "[tools]\nbuiltin = true\n");
    let client = world.client();
    let mut gateway = Gateway::session(&world, &[]);
    let list = |gateway: &mut Gateway, id: i64| -> Vec<Value> {
        gateway.ask(id, "resources/list", &json!({}));
        let mut said = gateway.answer(&json!(id));
        assert!(said["result"].get("nextCursor").is_none());
        serde_json::from_value(said["result"]["resources"].take()).unwrap()
    };
    assert!(list(&mut gateway, 1).is_empty());
    let data = json!({"name": "build-config", "data": {"target": "x86"}});
    gateway.call(2, "data-tool__create-resource", &data);
    allow_all(&client);
    gateway.answer(&json!(2));
    gateway.told("notifications/resources/list_changed");
    let listed = list(&mut gateway, 3);
    let conversation = all(&client).remove(0).0;
    let uri = format!("aish://context/{conversation}/build-config");
    assert_eq!(
        vec![json!({
            "uri": uri,
            "name": "build-config",
            "description": "revision 1 of the shared context, by data-tool",
            "mimeType": "application/json",
            "size": 16,
        })],
        listed
    );
    gateway.ask(4, "resources/read", &json!({ "uri": uri }));
    let read = gateway.answer(&json!(4));
    assert_eq!(
        json!([{"uri": uri, "mimeType": "application/json", "text": "{\"target\":\"x86\"}"}]),
        read["result"]["contents"]
    );
    // What somebody else does there is told too; a change of what is listed already is none of the list.
    client.done::<resource::Create>(resource::ResourceCreateParams {
        conversation,
        name: "a/b".to_owned(),
        data: Some(json!(7)),
        blob: None,
    });
    gateway.told("notifications/resources/list_changed");
    assert_eq!(2, list(&mut gateway, 5).len());
    client.done::<resource::Delete>(resource::ResourceDeleteParams {
        conversation,
        name: "build-config".to_owned(),
        expected_revision: None,
    });
    gateway.told("notifications/resources/list_changed");
    // Those of other conversations are not for this client.
    let other = client.create();
    client.done::<resource::Create>(resource::ResourceCreateParams {
        conversation: other,
        name: "secret".to_owned(),
        data: Some(json!(1)),
        blob: None,
    });
    let theirs = format!("aish://context/{other}/secret");
    for (id, uri, code) in [
        (6, theirs.as_str(), -32002),
        (7, uri.as_str(), -32002),
        (8, "file:///etc/passwd", -32002),
        (9, "aish://context/x/../y", -32002),
    ] {
        gateway.ask(id, "resources/read", &json!({ "uri": uri }));
        let said = gateway.answer(&json!(id));
        assert_eq!(
            (&json!(code), &json!(uri)),
            (&said["error"]["code"], &said["error"]["data"]["uri"])
        );
    }
    gateway.ask(10, "resources/templates/list", &json!({}));
    assert_eq!(
        json!([]),
        gateway.answer(&json!(10))["result"]["resourceTemplates"]
    );
    gateway.end();
}

/// In the era without sessions, and in a conversation that is there already.
#[test]
fn who_has_no_session_reads_and_is_told_of_the_shared_context_too() {
    let (world, _daemon) = world(&[PLAIN], "[tools]\nbuiltin = true\n");
    let client = world.client();
    let conversation = client.create();
    client.done::<resource::Create>(resource::ResourceCreateParams {
        conversation,
        name: "a/b".to_owned(),
        data: Some(json!(7)),
        blob: None,
    });
    let mut new = Gateway::start(&world, &["-C", &conversation.to_string()]);
    let stated = json!({STATED: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let heard = json!({"resourcesListChanged": true});
    new.ask(
        "listen",
        "subscriptions/listen",
        &json!({"_meta": stated, "notifications": heard}),
    );
    let acknowledged = new.told("notifications/subscriptions/acknowledged");
    assert_eq!(heard, acknowledged["params"]["notifications"]);
    let uri = format!("aish://context/{conversation}/a/b");
    new.ask(1, "resources/read", &json!({"_meta": stated, "uri": uri}));
    let read = new.answer(&json!(1));
    assert_eq!(
        (&json!("7"), &json!(0)),
        (
            &read["result"]["contents"][0]["text"],
            &read["result"]["ttlMs"]
        )
    );
    new.ask(
        2,
        "resources/read",
        &json!({"_meta": stated, "uri": "test://nothing"}),
    );
    assert_eq!(-32602, new.answer(&json!(2))["error"]["code"]);
    new.told("notifications/resources/list_changed");
    new.program.close_stdin();
    new.answer(&json!("listen"));
    new.end();
}

#[test]
fn prompts_of_servers_are_passed_on() {
    let (world, _daemon) = world(&[NOTES, PLAIN], "");
    let mut gateway = Gateway::session(&world, &[]);
    gateway.ask(1, "prompts/list", &json!({}));
    let said = gateway.answer(&json!(1));
    let prompts = said["result"]["prompts"].as_array().unwrap();
    let names: Vec<&str> = prompts
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    assert_eq!(vec!["notes__review"], names, "{said}");
    let one = json!({"name": "notes__review", "arguments": {"number": "1"}});
    gateway.ask(2, "prompts/get", &one);
    let said = gateway.answer(&json!(2));
    assert_eq!(
        "Look over note 1.",
        said["result"]["messages"][0]["content"]["text"]
    );
    for (id, name) in [(3, "notes"), (4, "nobody__review")] {
        gateway.ask(id, "prompts/get", &json!({ "name": name }));
        assert_eq!(
            -32602,
            gateway.answer(&json!(id))["error"]["code"],
            "{name}"
        );
    }
    gateway.end();
    let mut less = Gateway::session(&world, &["--tools", "plain__*"]);
    less.ask(1, "prompts/list", &json!({}));
    assert_eq!(json!([]), less.answer(&json!(1))["result"]["prompts"]);
    less.end();
    let told = crate::shell::shell(&world, "aishctl audit --json")
        .run()
        .ok();
    assert!(told.out().contains("promptAsked"), "{}", told.report());
}
