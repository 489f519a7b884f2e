//! Commands that models propose by calls: the same questions as for lines of an answer, and each call has its reply.

use std::fs;

use aish_proto::confirm::{Answer, AnswerParams, ConfirmRecord, Decision};
use aish_proto::context::{ContextPreviewParams, Preview};
use aish_proto::event::{ShellFinished, ShellStarted, ToolCall, ToolResult};
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::turn::{OnConfirm, Send, UnattendedAction};
use aish_testkit::client::question;
use aish_testkit::upstream::Request;
use aish_testkit::wait::{PATIENCE, until};
use aish_testkit::{Answer as Said, Asked as _, Client, Daemon, Upstream, World};
use serde_json::json;

use crate::consent::{pending, with};
use crate::files::created;
use crate::shell::allow;
use crate::tools::events;

pub(crate) struct Scene {
    pub(crate) upstream: Upstream,
    pub(crate) world: World,
    daemon: Daemon,
    pub(crate) client: Client,
}

impl Scene {
    pub(crate) fn new(more: &str) -> Self {
        let upstream = Upstream::start();
        let world = World::new();
        world.write(
            "machine/aish/config.toml",
            "[tools]\nfiles = false\ntodo = false\nweb = false\n",
        );
        world.write_config(&format!("{}\n{more}", upstream.config("test")));
        let daemon = world.daemon().spawn();
        let client = world.person("pts/5");
        Self {
            upstream,
            world,
            daemon,
            client,
        }
    }

    pub(crate) fn restart(self) -> Self {
        let Self {
            upstream,
            world,
            daemon,
            client,
        } = self;
        drop(client);
        daemon.kill9();
        let daemon = world.daemon().spawn();
        let client = world.person("pts/5");
        Self {
            upstream,
            world,
            daemon,
            client,
        }
    }

    /// The model runs these commands, one answer each, and then says a word.
    pub(crate) fn runs(&self, commands: &[&str]) {
        let commands: Vec<String> = commands.iter().map(|it| (*it).to_owned()).collect();
        self.upstream
            .answer_with(move |request| match commands.get(replies(request).len()) {
                Some(command) => called(replies(request).len(), &[command]),
                None => Said::text("Done."),
            });
    }

    pub(crate) fn ask(&self) -> (ConversationId, TurnId) {
        let conversation = created(&self.world, &self.client);
        let turn = self.client.ask(conversation, "do it");
        (conversation, turn)
    }

    pub(crate) fn work(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.world.work().join(file)).ok()
    }

    pub(crate) fn last_request(&self) -> Request {
        self.upstream.requests().pop().unwrap()
    }
}

/// Calls, the first of which has this number in its conversation.
pub(crate) fn called(first: usize, commands: &[&str]) -> Said {
    let calls = (0..).zip(first..).zip(commands);
    calls.fold(Said::stream(), |answer, ((index, number), command)| {
        let arguments = json!({ "command": command }).to_string();
        answer.then_call(index, &format!("call-{number}"), "shell__run", &arguments)
    })
}

/// What the tools said, as the model was told.
pub(crate) fn replies(request: &Request) -> Vec<String> {
    let messages = request.messages().into_iter();
    let replies = messages.filter(|(role, _)| role == "tool");
    replies.map(|(_, text)| text).collect()
}

/// But for the one that reads on in results, which is beside all others.
pub(crate) fn offered(request: &Request) -> Vec<String> {
    let body = request.json();
    let tools = body["tools"].as_array().into_iter().flatten();
    let names = tools.map(|it| it["function"]["name"].as_str().unwrap().to_owned());
    names.filter(|it| it != "aish__read_result").collect()
}

pub(crate) fn command(confirm: &ConfirmRecord) -> String {
    confirm.request.command().asked.command.clone()
}

#[test]
fn a_called_command_is_asked_about_runs_and_the_model_goes_on_with_what_it_printed() {
    let scene = Scene::new("");
    scene.runs(&["echo one > made; cat made", "echo two >> made; cat made"]);
    let (conversation, turn) = scene.ask();
    for expected in ["echo one > made; cat made", "echo two >> made; cat made"] {
        let confirm = pending(&scene.client, conversation);
        assert_eq!(expected, command(&confirm));
        allow(&scene.client, &confirm);
    }
    scene.client.wait_turn(turn);
    let request = scene.last_request();
    assert_eq!(
        vec!["shell__output", "shell__stop", "shell__run"],
        offered(&request)
    );
    let told = replies(&request);
    assert!(
        told[0].contains("exit code 0") && told[0].contains("\none\n"),
        "{told:?}"
    );
    assert!(told[1].contains("\none\ntwo\n"), "{told:?}");
    assert_eq!(Some("one\ntwo\n"), scene.work("made").as_deref());
    // To people it is a command like any other.
    assert_eq!(2, events::<ShellStarted>(&scene.client, conversation).len());
    assert_eq!(0, events::<ToolCall>(&scene.client, conversation).len());
    assert_eq!(0, events::<ToolResult>(&scene.client, conversation).len());
}

/// Models are told of the tool where they have it, and of lines where they do not.
#[test]
fn a_model_is_told_of_the_tool_or_of_lines() {
    for (more, has_tool, has_lines) in [
        ("", true, false),
        ("[shell]\ntool = false\n", false, true),
        ("[permissions]\ndeny = [\"shell__run\"]\n", false, false),
    ] {
        let scene = Scene::new(more);
        scene.upstream.answer_with(|_| Said::text("I see."));
        let (_, turn) = scene.ask();
        scene.client.wait_turn(turn);
        let request = scene.last_request();
        let (_, system) = request.messages().remove(0);
        assert_eq!(
            has_tool,
            offered(&request).contains(&"shell__run".to_owned()),
            "{more}"
        );
        assert_eq!(
            has_tool,
            system.contains("call shell__run."),
            "{more}: {system}"
        );
        assert_eq!(has_lines, system.contains("CMD:"), "{more}: {system}");
    }
}

/// Once a server has refused a request for its tools, its model is told of lines.
#[test]
fn where_a_server_takes_no_tools_the_model_is_told_of_lines() {
    let scene = Scene::new("");
    scene.upstream.answer_with(|request| {
        if offered(request).is_empty() {
            return Said::text("I see.");
        }
        Said::status(
            400,
            r#"{"error":{"message":"registry/tiny does not support tools"}}"#,
        )
    });
    let (conversation, turn) = scene.ask();
    scene.client.wait_turn(turn);
    scene
        .client
        .wait_turn(scene.client.ask(conversation, "and now?"));
    let (_, system) = scene.last_request().messages().remove(0);
    assert!(
        system.contains("begins with `CMD:`") && !system.contains("shell__run"),
        "{system}"
    );
}

#[test]
fn a_no_is_the_reply_of_its_call_and_the_model_goes_on() {
    let scene = Scene::new("");
    scene
        .upstream
        .answer_with(|request| match replies(request).len() {
            0 => called(0, &["touch a", "touch b"]),
            _ => Said::text("Then not."),
        });
    let (conversation, turn) = scene.ask();
    let confirm = pending(&scene.client, conversation);
    scene.client.done::<Answer>(AnswerParams {
        reason: Some("ask me tomorrow".to_owned()),
        ..with(&confirm, Decision::Deny)
    });
    let confirm = pending(&scene.client, conversation);
    assert_eq!("touch b", command(&confirm));
    scene.client.done::<Answer>(AnswerParams {
        arguments: Some(r#"{"command":"touch c"}"#.to_owned()),
        ..with(&confirm, Decision::Edit)
    });
    scene.client.wait_turn(turn);
    let told = replies(&scene.last_request());
    assert!(
        told[0].contains("not run: denied by user: ask me tomorrow"),
        "{told:?}"
    );
    assert!(told[1].contains("the user changed the command"), "{told:?}");
    let made = ["a", "b", "c"].map(|it| scene.work(it).is_some());
    assert_eq!([false, false, true], made);
}

/// The question is stored with the call: another daemon asks the same, and the reply goes where the call is.
#[test]
fn a_question_about_a_call_survives_a_kill_and_runs_once() {
    let scene = Scene::new("");
    scene.runs(&["echo ran >> made"]);
    let (conversation, turn) = scene.ask();
    let asked = pending(&scene.client, conversation);
    let scene = scene.restart();
    let confirm = pending(&scene.client, conversation);
    assert_eq!(asked.request.digest, confirm.request.digest);
    allow(&scene.client, &confirm);
    scene.client.wait_turn(turn);
    assert_eq!(Some("ran\n"), scene.work("made").as_deref());
    let told = replies(&scene.last_request());
    assert!(
        told.len() == 1 && told[0].contains("exit code 0"),
        "{told:?}"
    );
}

/// What had begun is not run again, and its call has a reply all the same.
#[test]
fn a_called_command_that_a_kill_cut_has_an_unknown_end() {
    let scene = Scene::new("");
    scene.runs(&["echo ran >> made; exec sleep 600"]);
    let (conversation, _) = scene.ask();
    allow(&scene.client, &pending(&scene.client, conversation));
    until("the command", PATIENCE, || scene.work("made"));
    let scene = scene.restart();
    scene.upstream.answer_with(|_| Said::text("I see."));
    scene
        .client
        .wait_turn(scene.client.ask(conversation, "and?"));
    let told = replies(&scene.last_request());
    assert!(
        told.len() == 1 && told[0].contains("interrupted while it ran"),
        "{told:?}"
    );
    assert_eq!(Some("ran\n"), scene.work("made").as_deref());
    let ended = events::<ShellFinished>(&scene.client, conversation);
    assert_eq!(1, ended.len());
}

/// No answer to a question about it would be true.
#[test]
fn a_call_without_a_command_is_told_to_the_model_and_asks_nobody() {
    let scene = Scene::new("");
    scene
        .upstream
        .answer_with(|request| match replies(request).len() {
            0 => Said::stream().then_call(0, "call-0", "shell__run", r#"{"cmd":"ls"}"#),
            _ => Said::text("I see."),
        });
    let (_, turn) = scene.ask();
    scene.client.wait_turn(turn);
    let told = replies(&scene.last_request());
    assert!(
        told[0].contains("a command is run by {\"command\""),
        "{told:?}"
    );
}

/// A preview is what is sent, also where nobody could be asked about a command.
#[test]
fn a_preview_offers_the_tool_where_the_request_does() {
    let scene = Scene::new("");
    scene.upstream.answer_with(|_| Said::text("I see."));
    for (then, is_offered) in [
        (UnattendedAction::Ask, true),
        (UnattendedAction::Deny, false),
    ] {
        let conversation = created(&scene.world, &scene.client);
        let on_confirm = Some(OnConfirm {
            then,
            ..OnConfirm::default()
        });
        let preview = scene.client.done::<Preview>(ContextPreviewParams {
            conversation,
            text: Some("what is here?".to_owned()),
            attachments: vec![],
            model: None,
            on_confirm: on_confirm.clone(),
        });
        let mut asked = question(conversation, "what is here?");
        asked.on_confirm = on_confirm;
        scene
            .client
            .wait_turn(scene.client.done::<Send>(asked).turn);
        let sent = scene.last_request();
        assert_eq!(preview.body.as_bytes(), sent.body, "{then:?}");
        assert_eq!(is_offered, !offered(&sent).is_empty(), "{then:?}");
    }
}
