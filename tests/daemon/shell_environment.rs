//! Variables that commands of a model export: the next ones begin with them, the question says so, and they are kept where nobody
//! else reads them.

use std::fs;
use std::path::{Path, PathBuf};

use aish_proto::confirm::{Answer, AnswerParams, ConfirmRecord, Decision};
use aish_proto::conversation::{ConversationDeleteParams, ConversationParams, Delete, StatusOf};
use aish_testkit::Asked as _;
use aish_testkit::wait::{PATIENCE, until, until_true};

use crate::consent::{pending, with};
use crate::file_changes::{keep, shown};
use crate::shell::allow;
use crate::shell_tool::{Scene, replies};
use crate::trial::try_it;

/// Files below that hold these bytes.
fn files_with(folder: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_with(&path, bytes));
        } else if fs::read(&path).is_ok_and(|it| it.windows(bytes.len()).any(|it| it == bytes)) {
            found.push(path);
        }
    }
    found
}

/// What commands of the model see of each other, as the model is told; each is allowed when it is asked about.
fn outputs(scene: &Scene, commands: &[&str]) -> (Vec<ConfirmRecord>, Vec<String>) {
    scene.runs(commands);
    let (conversation, turn) = scene.ask();
    let mut asked = vec![];
    for _ in commands {
        let confirm = pending(&scene.client, conversation);
        allow(&scene.client, &confirm);
        asked.push(confirm);
    }
    scene.client.wait_turn(turn);
    (asked, replies(&scene.last_request()))
}

#[test]
fn what_a_command_exports_is_there_in_the_next_one_and_in_its_question() {
    let scene = Scene::new("");
    let (asked, told) = outputs(
        &scene,
        &[
            "mkdir venv; printf 'export PATH=\"%s/venv:$PATH\" GONE=1 API_TOKEN=$(printf s3%%s cret)\\nplain=1\\n' \"$PWD\" > activate",
            ". ./activate; false",
            "unset GONE; echo \"first $plain $GONE ${#API_TOKEN}\"; (export INNER=1)",
            "export LOST=1; exec true",
            "echo \"then ${GONE-gone} ${INNER-gone} ${LOST-gone} $PATH\"",
        ],
    );
    assert!(told[1].contains("exit code 1"), "{told:?}");
    assert!(told[2].contains("first   6"), "{told:?}");
    let venv = scene.world.work().join("venv").display().to_string();
    assert!(
        told[4].contains(&format!("then gone gone gone {venv}:")),
        "{told:?}"
    );
    let lasting = |at: usize| -> Vec<(String, Option<String>)> {
        let lasting = &asked[at].request.command().asked.lasting;
        lasting
            .iter()
            .map(|it| (it.name.clone(), it.value.clone()))
            .collect()
    };
    assert_eq!(0, lasting(1).len(), "nothing was exported yet");
    let names: Vec<String> = lasting(2).into_iter().map(|it| it.0).collect();
    assert_eq!(vec!["API_TOKEN", "GONE", "PATH"], names);
    assert_eq!(None, lasting(2)[0].1, "a secret is not shown");
    let path = lasting(4).pop().unwrap().1.unwrap();
    assert!(path.starts_with(&format!("{venv}:")), "{path}");
    assert_eq!(2, lasting(4).len());
    // What variables hold is in a file of their own, and nowhere else.
    let found = files_with(&scene.world.state(), b"s3cret");
    assert!(
        found.len() == 1 && found[0].parent().unwrap().ends_with("environments"),
        "{found:?}"
    );
}

/// It is part of what was approved.
#[test]
fn the_same_command_with_other_variables_is_another_one() {
    let scene = Scene::new("");
    let (asked, _) = outputs(
        &scene,
        &["echo $X", "export X=1", "echo $X", "export X=2", "echo $X"],
    );
    let digests = [0, 2, 4].map(|it| asked[it].request.digest.clone());
    assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[0] != digests[2]);
}

#[test]
fn exported_variables_survive_a_kill_and_go_with_their_conversation() {
    let scene = Scene::new("");
    scene.runs(&["export X=kept", "echo \"it is $X\""]);
    let (conversation, turn) = scene.ask();
    allow(&scene.client, &pending(&scene.client, conversation));
    let asked = pending(&scene.client, conversation);
    let scene = scene.restart();
    let confirm = pending(&scene.client, conversation);
    assert_eq!(asked.request.digest, confirm.request.digest);
    allow(&scene.client, &confirm);
    scene.client.wait_turn(turn);
    let told = replies(&scene.last_request());
    assert!(told[1].contains("it is kept"), "{told:?}");
    let folder = scene.world.state().join("environments");
    assert_eq!(1, fs::read_dir(&folder).unwrap().count());
    scene.client.done::<Delete>(ConversationDeleteParams {
        id: conversation,
        confirm_title: scene
            .client
            .done::<StatusOf>(ConversationParams { id: conversation })
            .title,
    });
    until_true("its variables are gone", || {
        fs::read_dir(&folder).unwrap().count() == 0
    });
}

/// Of what was only tried nothing lasts, and of what is kept all does.
#[test]
fn of_a_trial_only_what_is_kept_exports_anything() {
    let scene = Scene::new("");
    for (keeps, expected) in [(true, "it is tried"), (false, "it is none")] {
        scene.runs(&["export X=tried; touch made", "echo \"it is ${X-none}\""]);
        let (conversation, turn) = scene.ask();
        let confirm = pending(&scene.client, conversation);
        if try_it(&scene.client, &confirm).is_none() {
            return;
        }
        let tried = shown(&scene.client, conversation);
        match keeps {
            true => keep(&scene.client, &tried),
            false => {
                scene.client.done::<Answer>(AnswerParams {
                    reason: Some("go on".to_owned()),
                    ..with(&tried, Decision::Deny)
                });
            }
        }
        let next = until("the next question", PATIENCE, || {
            let next = pending(&scene.client, conversation);
            (next.request.confirm != tried.request.confirm).then_some(next)
        });
        allow(&scene.client, &next);
        scene.client.wait_turn(turn);
        let told = replies(&scene.last_request());
        assert!(told[1].contains(expected), "{keeps}: {told:?}");
    }
}
