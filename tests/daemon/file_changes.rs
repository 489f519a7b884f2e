//! Changes of files that a model proposes: the question is the difference, a yes makes exactly that real, and it can be taken
//! back.

use std::fs;

use aish_proto::changes::{ChangesParams, Undo};
use aish_proto::confirm::{Answer, AnswerOutcome, AnswerParams, ConfirmRecord, Decision};
use aish_proto::conversation::{ConversationDeleteParams, Delete};
use aish_proto::event::ToolResult;
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::turn::{Cancel, TurnParams};
use aish_testkit::wait::{PATIENCE, until};
use aish_testkit::{Answer as Said, Client, Daemon, Upstream, World};
use serde_json::{Value, json};

use crate::consent::{pending, with};
use crate::files::{created, world};
use crate::profiles::is_held;
use crate::tools::events;

pub(crate) const BEFORE: &str = "fn main() {\n    greet(\"you\");\n}\n";
pub(crate) const AFTER: &str = "fn main() {\n    greet(\"all\");\n}\n";

pub(crate) struct Scene {
    pub(crate) upstream: Upstream,
    pub(crate) world: World,
    daemon: Daemon,
    pub(crate) client: Client,
}

impl Scene {
    /// `None`, and said why: nothing is held here.
    pub(crate) fn new(more: &str) -> Option<Self> {
        let upstream = Upstream::start();
        let world = world(&upstream, more);
        world.write("work/main.rs", BEFORE);
        let daemon = world.daemon().spawn();
        let client = world.client();
        is_held(&client).then_some(Self {
            upstream,
            world,
            daemon,
            client,
        })
    }

    /// The daemon is killed, and another one finds what it left.
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
        let client = world.client();
        Self {
            upstream,
            world,
            daemon,
            client,
        }
    }

    /// The model makes these calls one after the other, and then says a word.
    pub(crate) fn calls(&self, calls: &[(&str, Value)]) {
        let calls: Vec<(String, String)> = calls
            .iter()
            .map(|(tool, arguments)| (format!("files__{tool}"), arguments.to_string()))
            .collect();
        self.upstream.answer_with(move |request| {
            let messages = request.messages();
            let replies = messages.iter().filter(|(role, _)| role == "tool");
            let replies = replies.count();
            match calls.get(replies) {
                Some((tool, arguments)) => {
                    Said::stream().then_call(0, &format!("call-{replies}"), tool, arguments)
                }
                None => Said::text("Done."),
            }
        });
    }

    /// One in which an edit of a file that was read is asked about.
    pub(crate) fn proposed() -> Option<(Self, ConversationId, TurnId, ConfirmRecord)> {
        let scene = Self::new("")?;
        scene.calls(&[read(), edit()]);
        let (conversation, turn) = scene.ask();
        let confirm = shown(&scene.client, conversation);
        Some((scene, conversation, turn, confirm))
    }

    pub(crate) fn ask(&self) -> (ConversationId, TurnId) {
        let conversation = created(&self.world, &self.client);
        let turn = self.client.ask(conversation, "greet everybody");
        (conversation, turn)
    }

    pub(crate) fn main(&self) -> String {
        fs::read_to_string(self.world.work().join("main.rs")).unwrap()
    }
}

pub(crate) fn read() -> (&'static str, Value) {
    ("read", json!({"file_path": "main.rs"}))
}

pub(crate) fn edit() -> (&'static str, Value) {
    let edit = json!({"file_path": "main.rs", "old_string": "\"you\"", "new_string": "\"all\""});
    ("edit", edit)
}

/// The question, once it shows what would change.
pub(crate) fn shown(client: &Client, conversation: ConversationId) -> ConfirmRecord {
    until("a question with a difference", PATIENCE, || {
        let confirm = pending(client, conversation);
        confirm.tried.is_some().then_some(confirm)
    })
}

fn difference(confirm: &ConfirmRecord) -> String {
    confirm.tried.as_ref().unwrap().difference.clone().unwrap()
}

pub(crate) fn keep(client: &Client, confirm: &ConfirmRecord) {
    let answered = client.done::<Answer>(AnswerParams {
        changes: confirm.tried.as_ref().map(|it| it.changes),
        ..with(confirm, Decision::Keep)
    });
    assert_eq!(AnswerOutcome::Resolved, answered.outcome);
}

fn last_result(client: &Client, conversation: ConversationId) -> String {
    let results = events::<ToolResult>(client, conversation);
    results.last().unwrap().content.clone()
}

#[test]
fn a_change_is_shown_first_becomes_real_as_it_was_shown_and_can_be_undone() {
    let Some((scene, conversation, turn, confirm)) = Scene::proposed() else {
        return;
    };
    assert_eq!("it changes files", confirm.request.why);
    let difference = difference(&confirm);
    assert!(
        difference.contains("-    greet(\"you\");\n+    greet(\"all\");\n"),
        "{difference}"
    );
    assert_eq!(BEFORE, scene.main());
    keep(&scene.client, &confirm);
    scene.client.wait_turn(turn);
    assert_eq!(AFTER, scene.main());
    let told = last_result(&scene.client, conversation);
    assert!(
        told.starts_with("main.rs: 1 place replaced")
            && told.contains("a person looked at the difference and kept it"),
        "{told}"
    );
    let changes = confirm.tried.unwrap().changes;
    scene.client.done::<Undo>(ChangesParams { changes });
    assert_eq!(BEFORE, scene.main());
}

/// The second edit is of what the first one made of the file: it need not be read again.
#[test]
fn edits_follow_one_another_and_a_new_file_is_written() {
    let Some(scene) = Scene::new("") else { return };
    let again = json!({"file_path": "main.rs", "old_string": "\"all\"", "new_string": "\"us\""});
    let new = json!({"file_path": "notes/new.md", "content": "# New\n"});
    scene.calls(&[read(), edit(), ("edit", again), ("write", new)]);
    let (conversation, turn) = scene.ask();
    for _ in 0..3 {
        let confirm = shown(&scene.client, conversation);
        keep(&scene.client, &confirm);
    }
    scene.client.wait_turn(turn);
    assert_eq!(AFTER.replace("all", "us"), scene.main());
    let new = fs::read_to_string(scene.world.work().join("notes/new.md"));
    assert_eq!("# New\n", new.unwrap());
}

#[test]
fn a_no_changes_nothing_and_leaves_nothing() {
    let Some((scene, conversation, turn, confirm)) = Scene::proposed() else {
        return;
    };
    scene.client.done::<Answer>(AnswerParams {
        reason: Some("say hello instead".to_owned()),
        ..with(&confirm, Decision::Deny)
    });
    scene.client.wait_turn(turn);
    assert_eq!(BEFORE, scene.main());
    let told = last_result(&scene.client, conversation);
    assert!(told.contains("say hello instead"), "{told}");
    let layers = scene.world.path("state/aish/changes/layers");
    until("no layers", PATIENCE, || {
        let left = fs::read_dir(&layers).unwrap().count();
        (left == 0).then_some(())
    });
}

/// What comes to nothing is told to the model, which can do better; no person is asked about it.
#[test]
fn a_change_that_comes_to_nothing_asks_nobody() {
    let Some(scene) = Scene::new("") else { return };
    let nowhere = json!({"file_path": "main.rs", "old_string": "\"thee\"", "new_string": "x"});
    scene.calls(&[edit(), read(), ("edit", nowhere)]);
    let (conversation, turn) = scene.ask();
    scene.client.wait_turn(turn);
    let results = events::<ToolResult>(&scene.client, conversation);
    let [unread, _read, nowhere] = &results[..] else {
        panic!("{results:?}");
    };
    assert!(
        unread.content.contains("has not been read"),
        "{}",
        unread.content
    );
    assert!(
        nowhere.content.contains("`old_string` is not in"),
        "{}",
        nowhere.content
    );
    assert_eq!(BEFORE, scene.main());
}

/// Somebody changed the file while the question waited: that is not overwritten.
#[test]
fn what_somebody_changed_meanwhile_is_not_overwritten() {
    let Some((scene, _, _, confirm)) = Scene::proposed() else {
        return;
    };
    scene.world.write("work/main.rs", "mine\n");
    let refused = scene
        .client
        .call::<Answer>(AnswerParams {
            changes: confirm.tried.as_ref().map(|it| it.changes),
            ..with(&confirm, Decision::Keep)
        })
        .unwrap_err();
    assert!(
        refused
            .message
            .contains("changed since by something else: /"),
        "{refused:?}"
    );
    assert_eq!("mine\n", scene.main());
}

#[test]
fn a_question_about_a_change_outlives_its_daemon() {
    let Some((scene, conversation, turn, before)) = Scene::proposed() else {
        return;
    };
    let scene = scene.restart();
    let confirm = shown(&scene.client, conversation);
    assert_eq!(difference(&before), difference(&confirm));
    keep(&scene.client, &confirm);
    scene.client.wait_turn(turn);
    assert_eq!(AFTER, scene.main());
}

/// Where nobody has to be asked, it is real at once, and in the list of what can be taken back.
#[test]
fn a_change_that_is_allowed_beforehand_can_be_undone_too() {
    let Some(scene) = Scene::new("[mcp.auto_approve]\n\"files__*\" = true\n") else {
        return;
    };
    scene.calls(&[read(), edit()]);
    let (conversation, turn) = scene.ask();
    scene.client.wait_turn(turn);
    assert_eq!(AFTER, scene.main());
    let told = last_result(&scene.client, conversation);
    assert!(told.starts_with("main.rs: 1 place replaced"), "{told}");
    let kept = scene
        .client
        .done::<aish_proto::changes::List>(aish_proto::method::Empty {})
        .kept;
    let [kept] = &kept[..] else {
        panic!("{kept:?}");
    };
    assert_eq!(Some(turn), kept.turn);
    scene.client.done::<Undo>(ChangesParams {
        changes: kept.changes,
    });
    assert_eq!(BEFORE, scene.main());
}

/// Both are made in layers before anybody could be asked, and neither is a question.
#[test]
fn of_two_changes_in_one_message_none_is_asked_about_that_comes_to_nothing() {
    let Some(scene) = Scene::new("") else { return };
    let (_, edit) = edit();
    let other = json!({"file_path": "none.rs", "old_string": "a", "new_string": "b"});
    scene.upstream.answer_with(move |request| {
        let messages = request.messages();
        if messages.last().is_some_and(|(role, _)| role == "tool") {
            return Said::text("Done.");
        }
        let both = [&edit, &other].into_iter().zip(0..);
        both.fold(Said::stream(), |answer, (arguments, at)| {
            let (id, arguments) = (format!("call-{at}"), arguments.to_string());
            answer.then_call(at, &id, "files__edit", &arguments)
        })
    });
    let (conversation, turn) = scene.ask();
    scene.client.wait_turn(turn);
    let results = events::<ToolResult>(&scene.client, conversation);
    let [unread, missing] = &results[..] else {
        panic!("{results:?}");
    };
    assert!(unread.content.contains("has not been read"), "{unread:?}");
    assert!(missing.content.contains("is not there"), "{missing:?}");
}

/// Neither where a link leads nor where nothing is real.
#[test]
fn nothing_is_written_elsewhere_whatever_is_allowed() {
    let Some(scene) = Scene::new("[mcp.auto_approve]\n\"files__*\" = true\n") else {
        return;
    };
    let elsewhere = scene.world.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, scene.world.work().join("out")).unwrap();
    let through = json!({"file_path": "out/new/file", "content": "x"});
    let unreal = json!({"file_path": "/dev/shm/aish-unreal", "content": "x"});
    scene.calls(&[("write", through), ("write", unreal)]);
    let (conversation, turn) = scene.ask();
    scene.client.wait_turn(turn);
    let results = events::<ToolResult>(&scene.client, conversation);
    let [through, unreal] = &results[..] else {
        panic!("{results:?}");
    };
    assert!(
        through.content.contains("outside of the conversation"),
        "{through:?}"
    );
    assert!(unreal.content.contains("is not real"), "{unreal:?}");
    assert_eq!(0, fs::read_dir(&elsewhere).unwrap().count());
    assert!(!std::path::Path::new("/dev/shm/aish-unreal").exists());
}

/// Whoever cancels the turn leaves no layers behind, and neither does a conversation that is deleted.
#[test]
fn what_is_proposed_goes_with_its_turn_and_with_its_conversation() {
    let Some(scene) = Scene::new("") else { return };
    scene.calls(&[read(), edit()]);
    let layers = scene.world.path("state/aish/changes/layers");
    let gone = || {
        until("no layers", PATIENCE, || {
            let left = fs::read_dir(&layers).unwrap().count();
            (left == 0).then_some(())
        });
    };
    let (conversation, turn) = scene.ask();
    shown(&scene.client, conversation);
    scene.client.done::<Cancel>(TurnParams { turn });
    gone();
    let (conversation, _) = scene.ask();
    shown(&scene.client, conversation);
    scene.client.done::<Delete>(ConversationDeleteParams {
        id: conversation,
        confirm_title: "greet everybody".to_owned(),
    });
    gone();
    assert_eq!(BEFORE, scene.main());
}
