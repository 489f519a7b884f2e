//! Tools of a real MCP server, a child of the daemon, called by the model through the gate.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::{Answer, AnswerOutcome, ConfirmRecord, Decision, Denial};
use aish_proto::envelope::EventData;
use aish_proto::event::{PermissionChanged, ToolResult};
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::kept::{ReadResult, ReadResultParams};
use aish_proto::mcp::{List as ServerList, Restart, ServerParams, ServerState};
use aish_proto::method::Empty;
use aish_proto::permission::{
    self, Check, History, PermissionCheckParams, PermissionParams, PolicyVerdict, Revoke,
    RevokeParams, SetParams,
};
use aish_proto::turn::{Cancel, StopReason, TurnParams};
use aish_testkit::wait::{PATIENCE, until, until_true};
use aish_testkit::{
    Answer as Said, Asked as _, Client, Daemon, Upstream, World, repository, surroundings,
};

use crate::consent::{call_id, pending, with};

/// A daemon with one server.
pub(crate) struct Scene {
    pub(crate) upstream: Upstream,
    pub(crate) world: World,
    pub(crate) daemon: Daemon,
}

impl Scene {
    /// `None`, and said why: there is no Python here.
    pub(crate) fn new(more: &str) -> Option<Self> {
        let upstream = Upstream::start();
        let world = World::new();
        let config = upstream.config("test");
        let script = repository::top().join("tests/data/mcp/counter.py");
        let marks = world.path("work/marks");
        world.write_config(&format!(
            "{config}\n{more}\n[mcp.servers.c]\ncommand = \"python3\"\nargs = [{script:?}, {marks:?}]\n"
        ));
        let daemon = world.daemon().spawn();
        let scene = Self {
            upstream,
            world,
            daemon,
        };
        scene.connected().then_some(scene)
    }

    #[expect(clippy::print_stderr, reason = "a test that does not run says so")]
    fn connected(&self) -> bool {
        if !std::path::Path::new("/usr/bin/python3").exists() {
            eprintln!("skipped: there is no python3");
            return false;
        }
        let client = self.world.client();
        until_true("the server's tools", || {
            let servers = client.done::<ServerList>(Empty {}).servers;
            servers.iter().any(|it| it.tools > 0)
        });
        true
    }

    fn marks(&self) -> PathBuf {
        self.world.path("work/marks")
    }

    /// How often the tool ran.
    pub(crate) fn count(&self) -> usize {
        fs::read_to_string(self.marks()).map_or(0, |it| it.lines().count())
    }

    /// The model answers a question with calls of these, and their results with a text.
    pub(crate) fn model_calls(&self, tools: &[(&str, &str)]) {
        let tools: Vec<(String, String)> = tools
            .iter()
            .map(|(tool, arguments)| ((*tool).to_owned(), (*arguments).to_owned()))
            .collect();
        self.upstream.answer_with(move |request| {
            let messages = request.messages();
            if messages.last().is_none_or(|(role, _)| role != "user") {
                return Said::text("So be it.");
            }
            let mut answer = Said::stream();
            for (index, (tool, arguments)) in (0..).zip(&tools) {
                answer = answer.then_call(index, &call_id(), tool, arguments);
            }
            answer
        });
    }

    /// The model calls a tool whatever it is told.
    pub(crate) fn model_never_stops_calling(&self, tool: &str) {
        let tool = tool.to_owned();
        self.upstream.answer_with(move |_| {
            let answer = Said::stream().then_text("Once more.");
            answer.then_call(0, &call_id(), &tool, "{}")
        });
    }

    pub(crate) fn asked(
        &self,
        client: &Client,
        tool: &str,
    ) -> (ConversationId, TurnId, ConfirmRecord) {
        self.model_calls(&[(tool, "{}")]);
        let conversation = client.create();
        let turn = client.ask(conversation, "do it");
        (conversation, turn, pending(client, conversation))
    }
}

#[track_caller]
pub(crate) fn answer(client: &Client, confirm: &ConfirmRecord, decision: Decision) {
    let outcome = client.done::<Answer>(with(confirm, decision)).outcome;
    assert_eq!(AnswerOutcome::Resolved, outcome);
}

pub(crate) fn events<E: EventData>(client: &Client, conversation: ConversationId) -> Vec<E> {
    let mut follow = client.attach(conversation, ReplayStart::Start);
    follow.until_kind("replayComplete");
    let events = follow.events_so_far().iter();
    events.filter_map(|it| it.read()).collect()
}

/// Nothing said about a tool means the worst; a raise is for its provider in this conversation.
#[test]
fn a_level_is_raised_by_a_person_and_is_no_consent() {
    let Some(scene) = Scene::new("") else { return };
    let client = scene.world.person("pts/2");
    let (conversation, turn, confirm) = scene.asked(&client, "c__count");
    let request = &confirm.request;
    assert_eq!(
        (3, Some(3)),
        (
            request.tool_call().level_required,
            request.tool_call().raise_to
        )
    );
    assert_eq!(
        "Permission upgrade required for c: level 1 → 3",
        request.why
    );
    assert!(
        request.call().server.contains("counter.py"),
        "{}",
        request.call().server
    );
    assert_eq!(0, scene.count(), "nothing ran before the answer");
    answer(&client, &confirm, Decision::RaiseOnly);
    client.wait_turn(turn);
    assert_eq!(1, scene.count());
    let changed = events::<PermissionChanged>(&client, conversation);
    let told: Vec<_> = changed
        .iter()
        .map(|it| (it.provider.as_str(), it.from, it.to))
        .collect();
    assert_eq!(vec![("c", 1, 3)], told);
    assert_eq!(
        Some("pts/2"),
        changed[0].by.as_ref().unwrap().tty.as_deref()
    );
    let turn = client.ask(conversation, "again");
    let again = pending(&client, conversation);
    assert_eq!(
        (None, "every call is asked about"),
        (
            again.request.tool_call().raise_to,
            again.request.why.as_str()
        )
    );
    answer(&client, &again, Decision::Deny);
    client.wait_turn(turn);
    assert_eq!(1, scene.count());
    scene.upstream.finish();
}

/// A grant is no consent, a revoke takes everything back, and all of it is in the history.
#[test]
fn levels_are_changed_by_hand_and_remembered() {
    let Some(scene) = Scene::new("[permissions.tools]\nc = { max_level = 3 }\n") else {
        return;
    };
    let client = scene.world.person("pts/4");
    let conversation = client.create();
    let provider = "c".to_owned();
    let set = |level| {
        client.call::<permission::Set>(SetParams {
            conversation,
            provider: provider.clone(),
            level,
        })
    };
    assert_eq!((1, 3), set(3).map(|it| (it.from, it.to)).unwrap());
    for (level, why) in [
        (3, "already at level 3"),
        (1, "already at level 3"),
        (4, "there is no level 4"),
        (0, "there is no level 0"),
    ] {
        let refused = set(level).unwrap_err();
        assert!(refused.message.contains(why), "{refused}");
    }
    let nobody = SetParams {
        conversation,
        provider: "nobody".to_owned(),
        level: 2,
    };
    assert_eq!("notFound", client.refused::<permission::Set>(nobody).kind());
    let check = |tool: &str| {
        let tool = tool.to_owned();
        client.done::<Check>(PermissionCheckParams {
            conversation,
            tool,
            arguments: None,
        })
    };
    assert_eq!(PolicyVerdict::Ask, check("c__count").verdict);
    scene.model_calls(&[("c__count", "{}")]);
    let turn = client.ask(conversation, "do it");
    answer(
        &client,
        &pending(&client, conversation),
        Decision::AllowConversation,
    );
    client.wait_turn(turn);
    assert_eq!("always, in this conversation", check("c__count").because);
    let provider = provider.clone();
    let revoked = client.done::<Revoke>(RevokeParams {
        conversation,
        provider,
    });
    assert_eq!((3, 1), (revoked.from, revoked.to));
    assert_eq!(PolicyVerdict::Ask, check("c__count").verdict);
    let history = client
        .done::<History>(PermissionParams { conversation })
        .changes;
    let told: Vec<_> = history
        .iter()
        .map(|it| (it.from, it.to, it.revoked))
        .collect();
    assert_eq!(vec![(1, 3, false), (3, 1, true)], told);
    assert!(
        history
            .iter()
            .all(|it| it.by.as_ref().unwrap().tty.as_deref() == Some("pts/4"))
    );
}

/// A hint alone never makes a call run unasked; the configuration can, and can forbid.
#[test]
fn the_configuration_says_how_far_a_provider_may_go() {
    let Some(scene) = Scene::new(
        "[permissions.tools]\nc = { max_level = 2 }\n[permissions.needs]\nc__fail = 1\n\
         [mcp.auto_approve]\n\"c__fail\" = true\n\"c__echo\" = true\n",
    ) else {
        return;
    };
    let client = scene.world.client();
    scene.model_calls(&[("c__count", "{}"), ("c__fail", "{}")]);
    let conversation = client.create();
    client.wait_turn(client.ask(conversation, "x"));
    let results = events::<ToolResult>(&client, conversation);
    assert_eq!(Some(Denial::Policy), results[0].denied);
    assert_eq!(
        "[aish] denied by policy: max_level of c is 2 and the call needs 3",
        results[0].content
    );
    assert_eq!(
        (false, "it did not work"),
        (results[1].ok, results[1].content.as_str())
    );
    let (_, _, confirm) = scene.asked(&client, "c__look");
    assert_eq!(1, confirm.request.tool_call().level_required);
    let (_, _, confirm) = scene.asked(&client, "c__echo");
    assert!(
        confirm.request.why.starts_with("only its server says "),
        "{}",
        confirm.request.why
    );
    assert_eq!(0, scene.count());
}

/// "Always" is for the tool as it was; a server that changes it is asked about again, with what changed.
#[test]
fn a_tool_that_changed_is_asked_about_again() {
    let Some(scene) = Scene::new("") else { return };
    let client = scene.world.client();
    let (conversation, turn, confirm) = scene.asked(&client, "c__look");
    answer(&client, &confirm, Decision::AllowConversation);
    client.wait_turn(turn);
    client.wait_turn(client.ask(conversation, "it runs unasked now"));
    fs::write(scene.world.path("work/marks.new"), "").unwrap();
    let alias = "c".to_owned();
    client.done::<Restart>(ServerParams { alias });
    let turn = client.ask(conversation, "and again");
    let again = pending(&client, conversation);
    assert_eq!(
        "the tool's definition changed since it was allowed",
        again.request.why
    );
    assert_eq!(
        Some("Looks."),
        again
            .request
            .tool_call()
            .approved_definition
            .as_ref()
            .and_then(|it| it["description"].as_str())
    );
    assert_eq!(
        "Looks closer.",
        again.request.tool_call().definition["description"]
    );
    answer(&client, &again, Decision::Deny);
    client.wait_turn(turn);
}

/// What is asked about and changes meanwhile runs not even by a yes.
#[test]
fn a_tool_that_changes_under_the_question_does_not_run() {
    let Some(scene) = Scene::new("") else { return };
    let client = scene.world.client();
    let (conversation, turn, confirm) = scene.asked(&client, "c__look");
    fs::write(scene.world.path("work/marks.new"), "").unwrap();
    let alias = "c".to_owned();
    client.done::<Restart>(ServerParams { alias });
    let late = client.done::<Answer>(with(&confirm, Decision::AllowOnce));
    assert_eq!(AnswerOutcome::ArgsChanged, late.outcome);
    let again = pending(&client, conversation);
    assert_ne!(confirm.request.confirm, again.request.confirm);
    assert_ne!(confirm.request.digest, again.request.digest);
    answer(&client, &again, Decision::AllowOnce);
    assert_eq!(Some(StopReason::End), client.wait_turn(turn).stop_reason);
}

/// A call that waits for its server runs what was approved, and not what that offers when it is there.
#[test]
fn a_tool_that_changed_while_its_server_was_away_does_not_run() {
    let Some(scene) = Scene::new("") else { return };
    let client = scene.world.client();
    let (conversation, turn, confirm) = scene.asked(&client, "c__look");
    answer(&client, &confirm, Decision::AllowConversation);
    client.wait_turn(turn);
    let Scene {
        upstream,
        world,
        daemon,
    } = scene;
    daemon.kill9();
    drop(client);
    fs::write(world.path("work/marks.new"), "").unwrap();
    fs::write(world.path("work/marks.hold"), "").unwrap();
    let daemon = world.daemon().spawn();
    let scene = Scene {
        upstream,
        world,
        daemon,
    };
    assert!(scene.connected(), "its tools are remembered");
    let client = scene.world.client();
    let mut follow = client.attach(conversation, ReplayStart::Now);
    let turn = client.ask(conversation, "and again");
    follow.until_kind("toolCall");
    fs::remove_file(scene.world.path("work/marks.hold")).unwrap();
    client.wait_turn(turn);
    let results = events::<ToolResult>(&client, conversation);
    assert_eq!(
        "[aish] tool dispatch failed: c__look changed after the call was let through; nothing ran",
        results.last().unwrap().content
    );
}

/// The model is shown both ends, and it and people can read the rest.
#[test]
fn a_long_result_is_cut_and_can_be_read_whole() {
    let Some(scene) = Scene::new("[mcp.auto_approve]\n\"c__*\" = true\n") else {
        return;
    };
    let client = scene.world.client();
    scene.model_calls(&[("c__long", "{}")]);
    let conversation = client.create();
    client.wait_turn(client.ask(conversation, "much"));
    let result = events::<ToolResult>(&client, conversation).remove(0);
    let kept = result.kept.expect("it is kept whole");
    assert!(result.content.len() < 17_000 && result.content.starts_with("line 0\n"));
    assert!(
        result.content.ends_with("line 19999\n") && result.content.contains("aish__read_result")
    );
    let whole: String = (0..20_000).map(|it| format!("line {it}\n")).collect();
    assert_eq!(whole.len() as u64, kept.bytes);
    let read = client.done::<ReadResult>(ReadResultParams {
        conversation,
        result: kept.result,
        offset: 0,
        bytes: None,
    });
    assert_eq!((whole.as_str(), 0), (read.text.as_str(), read.offset));
    let arguments = format!(
        "{{\"result\":\"{}\",\"offset\":8000,\"bytes\":100}}",
        kept.result
    );
    scene.model_calls(&[("aish__read_result", &arguments)]);
    client.wait_turn(client.ask(conversation, "go on"));
    let told = events::<ToolResult>(&client, conversation).pop().unwrap();
    assert!(
        told.ok && told.content.starts_with(&whole[8000..8100]),
        "{}",
        told.content
    );
    scene.upstream.finish();
}

/// A cancel ends the wait at once; what the tool did, nobody knows.
#[test]
fn a_cancel_does_not_wait_for_the_tool() {
    let Some(scene) = Scene::new("[mcp.auto_approve]\n\"c__*\" = true\n") else {
        return;
    };
    let client = scene.world.client();
    scene.model_calls(&[("c__slow", "{}"), ("c__count", "{}")]);
    let conversation = client.create();
    let turn = client.ask(conversation, "slowly");
    until_true("the tool runs", || scene.count() == 1);
    assert!(client.done::<Cancel>(TurnParams { turn }).cancelled);
    let results = events::<ToolResult>(&client, conversation);
    assert!(
        results[0]
            .content
            .contains("the effect of this call is unknown")
    );
    assert_eq!("[aish] cancelled by the user", results[1].content);
    assert_eq!(1, scene.count());
}

/// Killed around a call, a tool never runs twice for it. `AISH_TEST_KILLS` times at each point.
#[test]
fn a_call_runs_at_most_once_over_a_crash() {
    let kills = surroundings::kills();
    for point in [
        "tool.before_start_mark",
        "tool.after_start_mark",
        "tool.after_result",
        "running",
    ] {
        for _ in 0..kills {
            let Some(scene) = Scene::new("[mcp.auto_approve]\n\"c__*\" = true\n") else {
                return;
            };
            let Scene {
                upstream,
                world,
                daemon,
            } = scene;
            assert_eq!(0, daemon.terminate());
            let armed = format!("{point}=kill");
            let daemon = world.daemon().failpoint(&armed).spawn();
            let mut scene = Scene {
                upstream,
                world,
                daemon,
            };
            assert!(scene.connected());
            let tool = if point == "running" {
                "c__slow"
            } else {
                "c__count"
            };
            scene.model_calls(&[(tool, "{}")]);
            let client = scene.world.client();
            let conversation = client.create();
            let mut params = aish_testkit::client::question(conversation, "once");
            params.idempotency_key = "once".to_owned();
            let sent = client.send::<aish_proto::turn::Send>(params);
            if point == "running" {
                until_true("the tool runs", || scene.count() == 1);
                rustix::process::kill_process(
                    rustix::process::Pid::from_raw(scene.daemon.pid().try_into().unwrap()).unwrap(),
                    rustix::process::Signal::KILL,
                )
                .unwrap();
            }
            scene.daemon.wait_exit();
            let _unanswered = sent;
            scene.daemon = scene.world.daemon().spawn();
            assert!(scene.connected());
            let client = scene.world.client();
            let results = until("the reply of the call", PATIENCE, || {
                let results = events::<ToolResult>(&client, conversation);
                (!results.is_empty()).then_some(results)
            });
            assert_eq!(1, results.len(), "{point}: {results:?}");
            let ran = usize::from(point == "tool.after_result" || point == "running");
            assert_eq!(ran, scene.count(), "{point}");
            scene.upstream.answer(Said::text("after the crash"));
            let after = client.wait_turn(client.ask(conversation, "and after?"));
            assert_eq!(Some(StopReason::End), after.stop_reason);
            assert_eq!(ran, scene.count(), "{point}: it was not started again");
            scene.upstream.finish();
        }
    }
}

/// One tool that is not as tools should be costs itself, or goes by another name, and its server says so.
#[test]
fn odd_tools_cost_themselves_and_not_their_server() {
    let Some(scene) = Scene::new("[mcp.auto_approve]\n\"c__*\" = true\n") else {
        return;
    };
    let client = scene.world.person("pts/2");
    fs::write(scene.world.path("work/marks.odd"), "").unwrap();
    let alias = "c".to_owned();
    client.done::<Restart>(ServerParams { alias });
    let servers = client.done::<ServerList>(Empty {}).servers;
    let server = servers.iter().find(|it| it.alias == "c").unwrap();
    // Those that it always has, `read.file` and `hides`.
    assert_eq!((ServerState::Ready, 9), (server.state, server.tools));
    let remarks = server.remarks.join("\n");
    for part in [
        "the tool \"read.file\" is called read_file-",
        "the tool \"*\" is left out: ",
        "the tool \"../x\" is left out: ",
        "the tool \"a\\u{200b}b\" is left out: ",
        "the tool \"deep\" is left out: its schema is deeper than 32",
        "3 characters that nobody sees were taken out of what the tool \"hides\" says of itself",
        "the tool \"hidden\" is left out: nobody sees all of its argument ",
    ] {
        assert!(remarks.contains(part), "{part} in {remarks}");
    }
    // The model calls it by the name that it was offered, and the server hears its own.
    let offered = Arc::new(Mutex::new(String::new()));
    let seen = offered.clone();
    scene.upstream.answer_with(move |request| {
        let text = request.json()["tools"].to_string();
        let tools = request.json()["tools"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let names = tools
            .iter()
            .filter_map(|it| it["function"]["name"].as_str());
        let name = names.into_iter().find(|it| it.starts_with("c__read_file-"));
        let name = name.unwrap_or_default().to_owned();
        *seen.lock().unwrap() = text;
        if request
            .messages()
            .last()
            .is_none_or(|(role, _)| role != "user")
        {
            return Said::text("So be it.");
        }
        Said::stream().then_call(0, &call_id(), &name, "{}")
    });
    let conversation = client.create();
    client.wait_turn(client.ask(conversation, "read it"));
    let results = events::<ToolResult>(&client, conversation);
    assert_eq!("read.file done", results[0].content);
    let offered = offered.lock().unwrap();
    assert!(
        offered.contains("its server calls it \\\"read.file\\\""),
        "{offered}"
    );
    assert!(offered.contains("Tells all[8m."), "{offered}");
}
