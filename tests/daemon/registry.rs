//! Tools of manifests in a daemon: through the gate, followed as their files change, and put there at run time.

use std::fs;
use std::path::Path;

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::Decision;
use aish_proto::event::ToolsChanged;
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::method::Empty;
use aish_proto::tool::{
    Register, RegisterParams, Reload, Run, ToolRunParams, Unregister, UnregisterParams,
};
use aish_proto::turn::{OnConfirm, SendMode};
use aish_testkit::daemon::DaemonBuilder;
use aish_testkit::process::wait_gone;
use aish_testkit::wait::{PATIENCE, until, until_true};
use aish_testkit::{
    Answer as Said, Asked as _, Client, Daemon, Follow, Upstream, World, built, repository,
};
use serde_json::{Value, json};

use crate::consent::{call_id, pending};
use crate::tools::answer;

/// A tool whose script is beside it, with these capabilities.
pub(crate) fn manifest(version: &str, capabilities: &[&str]) -> String {
    let capabilities: String = capabilities
        .iter()
        .map(|it| {
            format!(
                "[[capability]]\nname = \"{it}\"\nlevel = 1\ninput = {{ text = \"string?\" }}\n"
            )
        })
        .collect();
    format!(
        "name = \"note-tool\"\nversion = \"{version}\"\nruntime = \"process\"\ncommand = \"sh\"\nscript = \"data.sh\"\n{capabilities}"
    )
}

pub(crate) const FILE: &str = "config/aish/tools/data.toml";
pub(crate) const SCRIPT: &str = "config/aish/tools/data.sh";

pub(crate) fn world(script: &str) -> (World, Upstream) {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    world.write(SCRIPT, script);
    world.write(FILE, &manifest("1.0.0", &["read"]));
    (world, upstream)
}

/// The same, and nothing holds it: it tells by files that it is there.
fn open_world(script: &str) -> (World, Upstream) {
    let (world, upstream) = world(script);
    let held = manifest("1.0.0", &["read"]);
    world.write(FILE, &format!("contain = \"open\"\n{held}"));
    (world, upstream)
}

pub(crate) fn started(world: &World) -> Daemon {
    started_by(world, world.daemon())
}

pub(crate) fn started_by(world: &World, builder: DaemonBuilder<'_>) -> Daemon {
    let daemon = builder.spawn();
    let client = world.client();
    until_true("the manifests", || client.done::<Reload>(Empty {}).read > 0);
    daemon
}

pub(crate) fn attached(client: &Client) -> Follow {
    let mut follow = client.attach(client.create(), ReplayStart::Now);
    follow.until_kind("replayComplete");
    follow
}

pub(crate) fn changed(follow: &mut Follow) -> ToolsChanged {
    follow.until_kind("toolsChanged").read().unwrap()
}

/// The text that one call gave, without a model.
pub(crate) fn called(client: &Client, tool: &str, arguments: &Value) -> String {
    called_in(client, client.create(), tool, arguments)
}

pub(crate) fn called_in(
    client: &Client,
    conversation: ConversationId,
    tool: &str,
    arguments: &Value,
) -> String {
    let (mut follow, turn) = sent(client, conversation, tool, arguments);
    follow.until_finished(turn);
    results(&follow, turn)
}

/// The same of a tool that is not what it was when it was allowed: the name that is allowed runs nothing until a person
/// says yes.
#[track_caller]
pub(crate) fn called_once_allowed(client: &Client, tool: &str) -> String {
    let conversation = client.create();
    let (mut follow, turn) = sent(client, conversation, tool, &json!({}));
    let confirm = pending(client, conversation);
    assert_eq!(
        "the tool's definition changed since it was allowed",
        confirm.request.why
    );
    answer(client, &confirm, Decision::AllowOnce);
    follow.until_finished(turn);
    results(&follow, turn)
}

fn sent(
    client: &Client,
    conversation: ConversationId,
    tool: &str,
    arguments: &Value,
) -> (Follow, TurnId) {
    let follow = client.attach(conversation, ReplayStart::Start);
    let call =
        json!({"id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
    let sent = client.done::<Run>(ToolRunParams {
        conversation,
        calls: vec![call],
        new: None,
        idempotency_key: call_id(),
        mode: SendMode::Queue,
        on_confirm: Some(OnConfirm {
            allow: vec![tool.to_owned()],
            ..OnConfirm::default()
        }),
    });
    (follow, sent.turn)
}

fn results(follow: &Follow, turn: TurnId) -> String {
    let results = follow.events_so_far().iter();
    let results: Vec<String> = results
        .filter(|it| it.turn == Some(turn))
        .filter_map(|it| it.read::<aish_proto::event::ToolResult>())
        .map(|it| it.content)
        .collect();
    results.concat()
}

#[test]
fn a_model_calls_a_program_through_the_gate() {
    let (world, upstream) = world("cat\n");
    let _daemon = started(&world);
    upstream.answer_with(|request| {
        let messages = request.messages();
        if messages.last().is_none_or(|(role, _)| role != "user") {
            return Said::text("So be it.");
        }
        Said::stream().then_call(0, &call_id(), "note-tool__read", "{\"text\":\"hi\"}")
    });
    let client = world.person("pts/2");
    let conversation = client.create();
    let turn = client.ask(conversation, "read it");
    let confirm = pending(&client, conversation);
    let request = &confirm.request;
    assert_eq!("note-tool__read", request.title);
    assert!(
        request
            .call()
            .server
            .ends_with("data.sh, held to reading, without a network"),
        "{}",
        request.call().server
    );
    assert_eq!(1, request.tool_call().level_required);
    answer(&client, &confirm, Decision::AllowConversation);
    client.wait_turn(turn);
    let told = || {
        let requests = upstream.requests();
        let messages = requests.last().unwrap().messages();
        messages
            .into_iter()
            .rfind(|(role, _)| role == "tool")
            .unwrap()
            .1
    };
    assert_eq!(r#"{"arguments":{"text":"hi"}}"#, told());
    // "Always" was said to this script, and to no other.
    let mut follow = attached(&client);
    world.write(SCRIPT, "echo 2\n");
    assert_eq!(vec!["note-tool__read"], changed(&mut follow).updated);
    let turn = client.ask(conversation, "again");
    let confirm = pending(&client, conversation);
    answer(&client, &confirm, Decision::AllowOnce);
    client.wait_turn(turn);
    assert_eq!("2", told());
    upstream.finish();
}

#[test]
fn arguments_that_do_not_fit_are_told_before_anybody_is_asked() {
    let (world, _upstream) = world("touch ran; cat\n");
    let _daemon = started(&world);
    let client = world.client();
    assert_eq!(
        "[aish] tool arguments do not fit: /text: 7 is not of type \"string\"; /: Additional properties are not allowed \
         ('more' was unexpected)",
        called(&client, "note-tool__read", &json!({"text": 7, "more": 1}))
    );
}

/// The seventh act.
#[test]
fn a_file_that_changes_is_followed_and_a_broken_one_is_not() {
    let (world, _upstream) = world("echo \"\\\"$AISH_CAPABILITY\\\"\"\n");
    let _daemon = started(&world);
    let client = world.client();
    let mut follow = attached(&client);
    world.write(FILE, &manifest("1.1.0", &["read", "delete"]));
    let first = changed(&mut follow);
    assert_eq!(
        (vec!["note-tool__delete".to_owned()], vec![]),
        (first.added, first.removed)
    );
    assert_eq!(
        "\"delete\"",
        called(&client, "note-tool__delete", &json!({}))
    );
    let line = "[aish] note-tool 1.0.0 → 1.1.0 (+ delete)";
    until_true("the line of the log", || world.log_text().contains(line));
    world.write(FILE, "name = \"note-tool\"\nruntme = \"process\"\n");
    let fault = "data.toml:2:1: unknown key `runtme`; did you mean `runtime`?";
    let broken = changed(&mut follow);
    assert!(
        broken.broken[0].contains(fault) && broken.removed.is_empty(),
        "{broken:?}"
    );
    until_true("the fault", || world.log_text().contains(fault));
    assert_eq!(
        "\"delete\"",
        called(&client, "note-tool__delete", &json!({}))
    );
    let other = manifest("1", &["one"]).replace("note-tool", "other");
    world.write("config/aish/tools/other.toml", &other);
    assert_eq!(vec!["other__one"], changed(&mut follow).added);
    fs::remove_file(world.path(FILE)).unwrap();
    let last = changed(&mut follow);
    assert_eq!(vec!["note-tool__delete", "note-tool__read"], last.removed);
    assert!(last.version > first.version);
    let taken = other.replace("\"1\"", "\"2\"");
    world.write("config/aish/tools/z.toml", &taken);
    until_true("the fault", || {
        world
            .log_text()
            .contains("z.toml:1: other is the name of another provider")
    });
}

#[test]
fn a_running_call_goes_on_as_it_began() {
    let (world, _upstream) = open_world(
        "echo $$ > \"$HOME/pid\"; while [ ! -e \"$HOME/go\" ]; do sleep 0.05; done; echo '\"old\"'\n",
    );
    let _daemon = started(&world);
    let client = world.person("pts/2");
    let (calling, socket) = (world.client(), world.path("home"));
    let running = std::thread::spawn(move || called(&calling, "note-tool__read", &json!({})));
    until_true("the call", || socket.join("pid").exists());
    let mut follow = attached(&client);
    world.write(SCRIPT, "echo '\"new\"'\n");
    changed(&mut follow);
    assert_eq!("\"new\"", called_once_allowed(&client, "note-tool__read"));
    world.write("home/go", "");
    assert_eq!("\"old\"", running.join().unwrap());
}

#[test]
fn nothing_is_left_of_a_call_when_the_daemon_is_killed() {
    let (world, _upstream) =
        open_world("trap '' TERM; echo $$ > \"$HOME/pid\"; while :; do sleep 0.2; done\n");
    let daemon = started(&world);
    let calling = world.client();
    let conversation = calling.create();
    let call = json!({"id": 1, "method": "tools/call", "params": {"name": "note-tool__read", "arguments": {}}});
    calling.done::<Run>(ToolRunParams {
        conversation,
        calls: vec![call],
        new: None,
        idempotency_key: "one".to_owned(),
        mode: SendMode::Queue,
        on_confirm: Some(OnConfirm {
            allow: vec!["note-tool__read".to_owned()],
            ..OnConfirm::default()
        }),
    });
    let pid = until("the call", PATIENCE, || {
        let text = fs::read_to_string(world.path("home/pid")).ok()?;
        text.trim().parse::<u32>().ok()
    });
    daemon.kill9();
    wait_gone(pid);
    let _again = started(&world);
    let left = || fs::read_dir(world.path("state/aish/tools/calls")).map_or(0, Iterator::count);
    until_true("the end of its directory", || left() == 0);
}

/// What is put there at run time is a file, and so there after a restart.
#[test]
fn tools_are_added_and_removed_at_run_time() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    let client = world.client();
    world.write("work/mine/data.sh", "echo '\"mine\"'\n");
    let mut follow = attached(&client);
    let params = |manifest: &str| RegisterParams {
        manifest: manifest.to_owned(),
        base: Some(world.path("work/mine").display().to_string()),
    };
    let added = client.done::<Register>(params(&manifest("1.0.0", &["read"])));
    assert_eq!(vec!["note-tool 1.0.0 (+ read)"], added.changes);
    assert_eq!(vec!["note-tool__read"], changed(&mut follow).added);
    assert!(Path::new(&added.file).starts_with(world.path("config/aish/tools")));
    let refused = client.refused::<Register>(params("name = \"x\"\n"));
    assert!(refused.message.contains("it has no `runtime`"), "{refused}");
    let taken = manifest("1", &["read"]).replace("note-tool", "aish");
    assert_eq!("busy", client.refused::<Register>(params(&taken)).kind());
    drop(follow);
    assert_eq!(0, daemon.terminate());
    let _again = started(&world);
    let client = world.client();
    assert_eq!("\"mine\"", called(&client, "note-tool__read", &json!({})));
    let remove = || UnregisterParams {
        name: "note-tool".to_owned(),
    };
    let removed = client.done::<Unregister>(remove());
    assert_eq!(
        (
            added.file.clone(),
            vec!["note-tool 1.0.0 is gone".to_owned()]
        ),
        (removed.file, removed.changes)
    );
    assert!(!Path::new(&added.file).exists());
    assert_eq!("notFound", client.refused::<Unregister>(remove()).kind());
    upstream.finish();
}

/// The examples work as they are shipped; those of uv where it is installed.
#[test]
fn the_examples_work() {
    let world = World::new();
    for entry in fs::read_dir(repository::top().join("config/tools")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        world.write(
            format!("config/aish/tools/{name}"),
            &fs::read_to_string(&path).unwrap(),
        );
    }
    let uv = built("aishd")
        .ancestors()
        .nth(2)
        .unwrap()
        .join("mcp/venv/bin");
    let path = format!("/usr/local/bin:/usr/bin:/bin:{}", uv.display());
    let _daemon = started_by(&world, world.daemon().env("PATH", path));
    let client = world.client();
    let text = json!({"text": "one two three"});
    assert_eq!(
        r#"{"words": 3, "characters": 13}"#,
        called(&client, "words__count", &text)
    );
    assert_eq!("three two one", called(&client, "words__reverse", &text));
    assert_eq!(
        r#"{"arguments":{"text":"one two three"}}"#,
        called(&client, "echo__say", &text)
    );
}

#[test]
fn two_hundred_manifests_are_read_at_once() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    world.write(SCRIPT, "cat\n");
    for at in 0..200 {
        let text = manifest("1", &["a", "b", "c"]).replace("note-tool", &format!("t{at}"));
        world.write(format!("config/aish/tools/t{at}.toml"), &text);
    }
    let _daemon = started(&world);
    let client = world.client();
    let begun = std::time::Instant::now();
    assert_eq!(200, client.done::<Reload>(Empty {}).read);
    println!("200 manifests: {} ms", begun.elapsed().as_millis());
    upstream.finish();
}
