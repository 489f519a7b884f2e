//! Questions that a daemon of protocol 1 left open when it was killed, each kind in a form of its own in its store, are open
//! still and can be answered.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use aish_proto::confirm::{
    Answer, AnswerOutcome, ConfirmListParams, ConfirmRecord, Decision, List,
};
use aish_proto::conversation::{ConversationParams, StatusOf};
use aish_proto::method::Empty;
use aish_proto::permission::{self, PermissionParams};
use aish_proto::{attach::ReplayStart, event::ToolResult, memory};
use aish_testkit::{Answer as Said, Asked as _, Client, Upstream, World, repository};

use crate::audit::whole;
use crate::consent::with;

/// Five conversations: `call`, `command`, `level`, `memory` and `run` ask what they are called, `run` for a command.
const KEPT: &str = "tests/data/store/open-questions/journal/00000000000000000001.jsonl";

fn world(upstream: &Upstream) -> World {
    let world = World::new();
    let text = fs::read_to_string(repository::top().join(KEPT)).unwrap();
    world.write("state/aish/store/journal/00000000000000000001.jsonl", &text);
    let private = fs::Permissions::from_mode(0o700);
    fs::set_permissions(world.state(), private).unwrap();
    let rest = "[tools]\nbuiltin = true\n[permissions]\non_timeout = \"wait\"\n";
    world.write_config(&format!("{}{rest}", upstream.config("talk")));
    world
}

/// What waits, by the title of its conversation.
fn open(client: &Client) -> BTreeMap<String, ConfirmRecord> {
    let open = client.done::<List>(ConfirmListParams::default()).confirms;
    let named = open.into_iter().map(|it| {
        let id = it.conversation;
        (client.done::<StatusOf>(ConversationParams { id }).title, it)
    });
    named.collect()
}

#[track_caller]
fn answer(client: &Client, asked: &ConfirmRecord, decision: Decision) {
    let result = client.done::<Answer>(with(asked, decision));
    assert_eq!(AnswerOutcome::Resolved, result.outcome);
}

#[test]
fn each_reads_as_it_was_asked() {
    let upstream = Upstream::start();
    let world = world(&upstream);
    let _daemon = world.daemon().spawn();
    let open = open(&world.client());
    let titles: Vec<&str> = open.keys().map(String::as_str).collect();
    assert_eq!(["call", "command", "level", "memory", "run"], *titles);
    let [call, command, level, fact, run] = open.values().collect::<Vec<_>>()[..] else {
        panic!("{open:?}");
    };
    assert_eq!("aish__time", call.request.call().tool);
    assert_eq!(1, call.request.tool_call().level_required);
    assert_eq!(None, call.request.destructive);
    for (asked, halt) in [(command, false), (run, true)] {
        assert_eq!("rm -rf old", asked.request.command().asked.command);
        let why = "deletes directories and all that is in them";
        assert_eq!(Some(why), asked.request.destructive.as_deref());
        assert_eq!(halt, asked.request.halt);
    }
    let wanted = level.request.level();
    assert_eq!(
        ("data-tool", 1, 2),
        (&*wanted.provider, wanted.from, wanted.to)
    );
    assert_eq!("the server is boltzmann", fact.request.memory().text);
    let waiting = [call, command, run].map(|it| it.turn.is_some());
    assert_eq!(([true; 3], None, None), (waiting, level.turn, fact.turn));
}

#[test]
fn each_can_be_answered_and_is_settled_after_a_restart() {
    let upstream = Upstream::start();
    let world = world(&upstream);
    let daemon = world.daemon().spawn();
    let client = world.person("pts/1");
    let open = open(&client);

    upstream.answer(Said::text("It is late."));
    let mut follow = client.attach(open["call"].conversation, ReplayStart::Now);
    answer(&client, &open["call"], Decision::AllowOnce);
    let result: ToolResult = follow.until_kind("toolResult").read().unwrap();
    assert!(result.ok, "{result:?}");
    client.wait_turn(open["call"].turn.unwrap());

    upstream.answer(Said::text("I leave it."));
    answer(&client, &open["command"], Decision::Deny);
    client.wait_turn(open["command"].turn.unwrap());
    upstream.answer(Said::text("DONE: nothing is to be done"));
    answer(&client, &open["run"], Decision::Deny);
    client.wait_turn(open["run"].turn.unwrap());

    answer(&client, &open["level"], Decision::RaiseOnly);
    let conversation = open["level"].conversation;
    let levels = client.done::<permission::List>(PermissionParams { conversation });
    let raised = levels.permissions.iter().filter(|it| it.level == 2);
    assert_eq!(
        ["data-tool"],
        *raised.map(|it| &*it.provider).collect::<Vec<_>>()
    );

    answer(&client, &open["memory"], Decision::AllowOnce);
    let kept = client.done::<memory::List>(Empty {}).memories;
    assert_eq!("the server is boltzmann", kept[0].text);

    assert_eq!(0, daemon.terminate());
    let _daemon = world.daemon().spawn();
    let client = world.client();
    assert!(self::open(&client).is_empty());
    whole(&client);
}
