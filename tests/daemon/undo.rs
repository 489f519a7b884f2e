//! What was kept is taken back and done again: turn by turn, told to every terminal and to the model, over restarts.

use std::fs;

use aish_proto::changes::{ChangesParams, KeptChanges, List, Redo, Undo, UndoAct};
use aish_proto::confirm::Decision;
use aish_proto::conversation::{ConversationDeleteParams, Delete};
use aish_proto::event::ChangesUndo;
use aish_proto::id::ConversationId;
use aish_proto::method::Empty;
use aish_testkit::Answer as Said;
use aish_testkit::wait::{PATIENCE, until};
use serde_json::json;

use crate::consent::pending;
use crate::file_changes::{AFTER, BEFORE, Scene, edit, keep, read, shown};
use crate::tools::{answer, events};

/// A turn that changes one file and makes another one, and both are kept.
fn turn(scene: &Scene) -> ConversationId {
    let new = json!({"file_path": "notes/new.md", "content": "# New\n"});
    scene.calls(&[read(), edit(), ("write", new)]);
    let (conversation, turn) = scene.ask();
    for _ in 0..2 {
        keep(&scene.client, &shown(&scene.client, conversation));
    }
    scene.client.wait_turn(turn);
    assert_eq!((AFTER, true), (&*scene.main(), is_noted(scene)));
    conversation
}

fn is_noted(scene: &Scene) -> bool {
    scene.world.work().join("notes/new.md").exists()
}

fn kept(scene: &Scene) -> Vec<KeptChanges> {
    scene.client.done::<List>(Empty {}).kept
}

fn said(scene: &Scene, args: &[&str]) -> String {
    scene.world.ctl(args).run().ok().out().to_owned()
}

#[test]
fn a_turn_is_taken_back_as_a_whole_and_done_again() {
    let Some(scene) = Scene::new("") else { return };
    let conversation = turn(&scene);
    assert!(kept(&scene).iter().all(|it| it.turn.is_some()));
    let undone = said(&scene, &["undo"]);
    assert!(
        undone.contains("paths are as before: ") && undone.contains("/notes/new.md"),
        "{undone}"
    );
    assert_eq!((BEFORE, false), (&*scene.main(), is_noted(&scene)));
    assert!(!scene.world.work().join("notes").exists());
    let listed = said(&scene, &["changes"]);
    assert!(listed.contains("undone, was kept"), "{listed}");

    let scene = scene.restart();
    let redone = said(&scene, &["redo"]);
    assert!(redone.contains("changed again: "), "{redone}");
    assert_eq!((AFTER, true), (&*scene.main(), is_noted(&scene)));
    assert!(scene.client.done::<List>(Empty {}).undone.is_empty());
    drop(said(&scene, &["undo"]));
    assert_eq!((BEFORE, false), (&*scene.main(), is_noted(&scene)));

    let told = events::<ChangesUndo>(&scene.client, conversation);
    let acts: Vec<UndoAct> = told.iter().map(|it| it.act).collect();
    let (undo, redo) = ([UndoAct::Undo; 2], [UndoAct::Redo; 2]);
    assert_eq!([undo, redo, undo].concat(), acts);
    let audit = said(&scene, &["audit"]);
    assert!(audit.contains("paths done again"), "{audit}");
}

#[test]
fn a_model_is_told_with_the_next_question_what_a_person_took_back() {
    let Some(scene) = Scene::new("") else { return };
    let conversation = turn(&scene);
    drop(said(&scene, &["undo"]));
    let turn = scene.client.ask(conversation, "go on");
    scene.client.wait_turn(turn);
    let request = scene.upstream.requests().pop().unwrap();
    let messages = request.messages();
    let (_, last) = messages.last().unwrap();
    assert!(
        last.contains("A person took this back, and the files are as they were before: ")
            && last.contains("main.rs")
            && last.contains("go on"),
        "{messages:?}"
    );
}

#[test]
fn what_somebody_changed_since_is_neither_taken_back_nor_done_again() {
    let Some((scene, _, turn, confirm)) = Scene::proposed() else {
        return;
    };
    keep(&scene.client, &confirm);
    scene.client.wait_turn(turn);
    let main = scene.world.work().join("main.rs");
    let changes = confirm.tried.unwrap().changes;
    fs::write(&main, "theirs").unwrap();
    let refused = scene.world.ctl(&["undo"]).run();
    assert!(
        refused.err().contains("something else: /")
            && refused.err().contains("main.rs; nothing is undone"),
        "{}",
        refused.report()
    );
    fs::write(&main, AFTER).unwrap();
    scene.client.done::<Undo>(ChangesParams { changes });
    fs::write(&main, "theirs").unwrap();
    let refused = scene.world.ctl(&["redo"]).run();
    assert!(
        refused.err().contains("main.rs; nothing is done again"),
        "{}",
        refused.report()
    );
    assert_eq!("theirs", scene.main());
    fs::write(&main, BEFORE).unwrap();
    let redone = scene.client.done::<Redo>(ChangesParams { changes });
    assert_eq!(AFTER, scene.main());
    assert_eq!(1, redone.count);
    assert_ne!(changes, redone.changes);
}

/// What could not be taken back is named beside what was.
#[test]
fn of_a_turn_that_was_kept_in_parts_the_part_that_stays_is_named() {
    let Some(scene) = Scene::new("") else { return };
    let _conversation = turn(&scene);
    fs::write(scene.world.work().join("main.rs"), "theirs").unwrap();
    let half = scene.world.ctl(&["undo"]).run();
    let said = half.err();
    let (done, left) = said.split_once("; but then: ").unwrap();
    assert!(
        done.contains(" as before: ") && done.contains("/notes/new.md"),
        "{said}"
    );
    assert!(
        left.contains("(not taken back: ") && left.contains("/main.rs)"),
        "{said}"
    );
    assert_eq!(("theirs", false), (&*scene.main(), is_noted(&scene)));
}

/// Nobody has to know a conversation's number for `:undo` in its window.
#[test]
fn a_conversation_takes_back_its_own_turns() {
    let Some(scene) = Scene::new("") else { return };
    let first = turn(&scene);
    scene.calls(&[("write", json!({"file_path": "other", "content": "x\n"}))]);
    let (second, turn) = scene.ask();
    keep(&scene.client, &shown(&scene.client, second));
    scene.client.wait_turn(turn);
    drop(said(&scene, &["undo", "-C", &first.to_string()]));
    assert_eq!((BEFORE, false), (&*scene.main(), is_noted(&scene)));
    assert!(scene.world.work().join("other").exists());
    let nothing = scene.world.ctl(&["undo", "-C", &first.to_string()]).run();
    assert!(
        nothing
            .err()
            .contains("nothing was kept that could be undone"),
        "{}",
        nothing.report()
    );
}

/// The last turn is meant, and what a command did in the files themselves nobody can take back: an older one stays.
#[test]
fn an_older_turn_is_not_taken_back_for_one_that_ran_a_command() {
    let Some(scene) = Scene::new("") else { return };
    let conversation = turn(&scene);
    scene.upstream.answer_with(|request| {
        let messages = request.messages();
        let is_done = messages.last().is_some_and(|(role, _)| role == "tool");
        if is_done {
            return Said::text("Done.");
        }
        let arguments = json!({"command": "echo x > made"}).to_string();
        Said::stream().then_call(0, "call-9", "shell__run", &arguments)
    });
    let second = scene.client.ask(conversation, "make a file");
    let confirm = pending(&scene.client, conversation);
    answer(&scene.client, &confirm, Decision::AllowOnce);
    scene.client.wait_turn(second);
    assert!(scene.world.work().join("made").exists());
    let refused = scene.world.ctl(&["undo"]).run().code(2);
    let told = refused.err();
    assert!(told.contains("the last turn ran `echo x > made`"), "{told}");
    assert_eq!((AFTER, true), (&*scene.main(), is_noted(&scene)));
    assert!(told.contains("aishctl undo --earlier"), "{told}");
    drop(said(&scene, &["undo", "--earlier"]));
    assert_eq!((BEFORE, false), (&*scene.main(), is_noted(&scene)));
    assert!(scene.world.work().join("made").exists());
}

/// What was taken back are the words of a model: they go with their conversation.
#[test]
fn what_was_taken_back_goes_with_its_conversation() {
    let Some(scene) = Scene::new("") else { return };
    let conversation = turn(&scene);
    drop(said(&scene, &["undo"]));
    assert_eq!(2, scene.client.done::<List>(Empty {}).undone.len());
    scene.client.done::<Delete>(ConversationDeleteParams {
        id: conversation,
        confirm_title: "greet everybody".to_owned(),
    });
    assert!(scene.client.done::<List>(Empty {}).undone.is_empty());
    let kept = scene.world.path("state/aish/changes/undo");
    until("nothing of it on the disk", PATIENCE, || {
        let left = fs::read_dir(&kept).unwrap().count();
        (left == 0).then_some(())
    });
}
