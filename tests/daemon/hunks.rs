//! A yes to some hunks of a change: exactly these become real, everybody sees which, the model is told, and an undo takes them back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use aish_proto::attach::ReplayStart;
use aish_proto::changes::{ChangesDiffResult, ChangesParams, Diff, Undo};
use aish_proto::confirm::{
    Answer, AnswerOutcome, AnswerParams, ChosenHunks, ConfirmRecord, Decision,
};
use aish_proto::event::{CommandTried, ConfirmResolved, ToolResult};
use aish_proto::id::{ConversationId, TurnId};
use aish_testkit::{Client, Upstream, World};
use serde_json::{Value, json};

use crate::file_changes::{Scene, shown};
use crate::shell::Scene as CommandScene;
use crate::tools::events;
use crate::trial::{end, keep, try_it};

fn before() -> String {
    (1..=30).map(|it| format!("line {it}\n")).collect()
}

/// The first and the third of three hunks.
fn kept() -> String {
    before()
        .replace("line 3\n", "three\n")
        .replace("line 28\n", "twenty-eight\n")
}

/// Three hunks.
fn edit() -> (&'static str, Value) {
    let edit = |old: &str, new: &str| json!({"old_string": old, "new_string": new});
    let edits = json!({
        "file_path": "list",
        "edits": [
            edit("line 3\n", "three\n"),
            edit("line 15\n", ""),
            edit("line 28\n", "twenty-eight\n"),
        ],
    });
    ("edit", edits)
}

fn proposed() -> Option<(Scene, ConversationId, TurnId, ConfirmRecord)> {
    let scene = Scene::new("")?;
    scene.world.write("work/list", &before());
    let again = (
        "edit",
        json!({"file_path": "list", "old_string": "line 9\n", "new_string": ""}),
    );
    scene.calls(&[("read", json!({"file_path": "list"})), edit(), again]);
    let (conversation, turn) = scene.ask();
    let confirm = shown(&scene.client, conversation);
    Some((scene, conversation, turn, confirm))
}

fn difference(client: &Client, tried: &CommandTried) -> ChangesDiffResult {
    client.done::<Diff>(ChangesParams {
        changes: tried.changes,
    })
}

fn some(
    client: &Client,
    confirm: &ConfirmRecord,
    tried: &CommandTried,
    numbers: &[u32],
) -> AnswerParams {
    AnswerParams {
        hunks: Some(ChosenHunks {
            numbers: numbers.to_vec(),
            difference: difference(client, tried).digest,
        }),
        ..keep(confirm, tried)
    }
}

fn of_change(scene: &Scene, confirm: &ConfirmRecord, numbers: &[u32]) -> AnswerParams {
    some(
        &scene.client,
        confirm,
        confirm.tried.as_ref().unwrap(),
        numbers,
    )
}

fn list(scene: &Scene) -> String {
    fs::read_to_string(scene.world.work().join("list")).unwrap()
}

#[test]
fn only_the_chosen_hunks_become_real_and_the_model_is_told() {
    let Some((scene, conversation, turn, confirm)) = proposed() else {
        return;
    };
    let answer = AnswerParams {
        reason: Some("hunk 2: that line is read elsewhere".to_owned()),
        ..of_change(&scene, &confirm, &[3, 1, 3])
    };
    let answered = scene.client.done::<Answer>(answer);
    assert_eq!(AnswerOutcome::Resolved, answered.outcome);
    scene.client.wait_turn(turn);
    assert_eq!(kept(), list(&scene));
    let resolved = events::<ConfirmResolved>(&scene.client, conversation);
    assert_eq!(
        (vec![1, 3], Some(3)),
        (resolved[0].hunks.clone(), resolved[0].of_hunks)
    );
    let results = events::<ToolResult>(&scene.client, conversation);
    let told = &results[1].content;
    for part in [
        "kept only a part of it",
        "the hunks @@ -1,6 +1,6 @@, @@ -25,6 +24,6 @@, but not @@ -12,7 +12,6 @@",
        "Read a file again before you change it",
        "They say: hunk 2: that line is read elsewhere",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // What the file is now, the model has not seen.
    assert!(!results[2].ok, "{}", results[2].content);
    let changes = confirm.tried.unwrap().changes;
    scene.client.done::<Undo>(ChangesParams { changes });
    assert_eq!(before(), list(&scene));
}

/// Then it is an ordinary yes, and the model may go on without reading.
#[test]
fn all_hunks_are_all_of_it() {
    let Some((scene, conversation, _turn, confirm)) = proposed() else {
        return;
    };
    scene
        .client
        .done::<Answer>(of_change(&scene, &confirm, &[1, 2, 3]));
    let next = shown(&scene.client, conversation);
    assert_ne!(confirm.request.confirm, next.request.confirm);
    assert_eq!(kept().replace("line 15\n", ""), list(&scene));
    let resolved = events::<ConfirmResolved>(&scene.client, conversation);
    assert_eq!(
        (vec![], None),
        (resolved[0].hunks.clone(), resolved[0].of_hunks)
    );
}

#[test]
fn what_was_not_shown_is_not_kept_and_the_question_stays() {
    let Some((scene, conversation, _turn, confirm)) = proposed() else {
        return;
    };
    let good = of_change(&scene, &confirm, &[1]);
    let other = ChosenHunks {
        difference: confirm.request.digest.clone(),
        numbers: vec![1],
    };
    for (wrong, why) in [
        (
            of_change(&scene, &confirm, &[4]),
            "there is no hunk 4: they are 1 to 3",
        ),
        (of_change(&scene, &confirm, &[0]), "there is no hunk 0"),
        (of_change(&scene, &confirm, &[]), "no hunk is chosen"),
        (
            AnswerParams {
                hunks: Some(other),
                ..good.clone()
            },
            "the difference is not the one that was shown",
        ),
        (
            AnswerParams {
                only: vec!["list".to_owned()],
                ..good.clone()
            },
            "say one of them",
        ),
        (
            AnswerParams {
                decision: Decision::AllowOnce,
                ..good.clone()
            },
            "hunks are of what is kept",
        ),
    ] {
        let refused = scene.client.call::<Answer>(wrong).unwrap_err();
        assert!(refused.message.contains(why), "{why}: {}", refused.message);
    }
    assert_eq!(before(), list(&scene));
    // Somebody changes the file: nothing is laid over that.
    let mine = before().replace("line 20\n", "mine\n");
    scene.world.write("work/list", &mine);
    let refused = scene.client.call::<Answer>(good).unwrap_err();
    assert!(
        refused.message.contains("look at it again"),
        "{}",
        refused.message
    );
    let refused = scene
        .client
        .call::<Answer>(of_change(&scene, &confirm, &[1]));
    let refused = refused.unwrap_err().message;
    assert!(
        refused.contains("changed since by something else: /"),
        "{refused}"
    );
    assert_eq!(mine, list(&scene));
    let waiting = shown(&scene.client, conversation).request.confirm;
    assert_eq!(confirm.request.confirm, waiting);
}

#[test]
fn of_two_terminals_one_decides_and_both_see_what() {
    let Some((scene, conversation, turn, confirm)) = proposed() else {
        return;
    };
    let other = scene.world.client();
    let mut follow = other.attach(conversation, ReplayStart::Start);
    let answers = [(&scene.client, [1, 3]), (&other, [2, 3])]
        .map(|(client, numbers)| (client, of_change(&scene, &confirm, &numbers)));
    let outcomes = answers.map(|(client, answer)| client.done::<Answer>(answer).outcome);
    assert_eq!(
        [AnswerOutcome::Resolved, AnswerOutcome::AlreadyResolved],
        outcomes
    );
    let seen = follow.until(|it| it.read::<ConfirmResolved>().is_some());
    assert_eq!(vec![1, 3], seen.read::<ConfirmResolved>().unwrap().hunks);
    scene.client.wait_turn(turn);
    assert_eq!(kept(), list(&scene));
}

/// The name of a difference is that of what it says, and no secret of one daemon.
#[test]
fn hunks_that_were_looked_at_before_a_kill_are_kept_after_it() {
    let Some((scene, _, turn, confirm)) = proposed() else {
        return;
    };
    let answer = of_change(&scene, &confirm, &[1, 3]);
    let scene = scene.restart();
    let answered = scene.client.done::<Answer>(answer);
    assert_eq!(AnswerOutcome::Resolved, answered.outcome);
    scene.client.wait_turn(turn);
    assert_eq!(kept(), list(&scene));
}

/// New, removed, a mode, a link, no text, a directory in the place of another, and texts with other ends.
const MANY: &str = "sed -i 's/^line 3\\r$/three\\r/; s/line 28\\r$/28/' dos; printf 'a\\nb\\nc' > bare; printf 'x\\000' > raw; \
    chmod 755 tool; sed -i 's/line 2$/two/; s/line 29$/29/' both; chmod 755 both; rm gone; ln -sf bare link; \
    mkdir new; echo 1 > new/f; echo 1 > new/g; rm -r dir; mkdir dir; echo 2 > dir/x; echo 2 > dir/y";

fn many(scene: &CommandScene) {
    let world = &scene.world;
    world.write("work/dos", &before().replace('\n', "\r\n"));
    world.write("work/both", &before());
    for (path, text) in [
        ("bare", "a\nb"),
        ("raw", "x"),
        ("tool", "x"),
        ("gone", "x"),
        ("dir/x", "1\n"),
    ] {
        world.write(format!("work/{path}"), text);
    }
}

/// What each file is: its text, and whether others may read it.
fn picture(scene: &CommandScene) -> Vec<(&'static str, String)> {
    let names = [
        "bare", "both", "dir/x", "dir/y", "dos", "gone", "link", "new/f", "new/g", "raw", "tool",
    ];
    let picture = names.map(|name| {
        let path = scene.world.work().join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|_| "none".to_owned());
        let is_shut = fs::metadata(&path).is_ok_and(|it| it.permissions().mode() & 0o77 == 0);
        let link = fs::read_link(&path).map_or("", |_| "link ");
        (
            name,
            format!("{link}{}{text}", if is_shut { "shut " } else { "" }),
        )
    });
    picture.to_vec()
}

#[test]
fn what_is_no_text_that_changed_is_all_or_nothing() {
    let scene = CommandScene::new("");
    many(&scene);
    let client = scene.world.client();
    let (conversation, turn, confirm) = scene.asked(&client, &format!("CMD: {MANY}"));
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let Some(tried) = try_it(&client, &confirm) else {
        return;
    };
    let was = picture(&scene);
    let there = difference(&client, &tried);
    let lines: Vec<&str> = there.diff.lines().collect();
    let begins = there.hunks.iter().map(|it| {
        let line = lines[it.line as usize];
        let name = line.rsplit_once("work/").map_or(line, |it| it.1);
        name.to_owned()
    });
    let expected = [
        "bare (changed)",
        "both (changed)",
        "dir (replaced)",
        "dos (changed)",
        "@@ -25,6 +25,6 @@",
        "gone (removed)",
        "link (new)",
        "new (new)",
        "new/f (new)",
        "new/g (new)",
        "raw (changed)",
        "tool (mode or owner changed)",
    ];
    assert_eq!(
        expected.to_vec(),
        begins.collect::<Vec<_>>(),
        "{}",
        there.diff
    );
    assert!(
        there.diff.contains("(mode 600, then 755)"),
        "{}",
        there.diff
    );
    // The second hunk of `dos`, the link, a file in a new directory, the other directory, and a mode.
    let answer = some(&client, &confirm, &tried, &[3, 5, 7, 10, 12]);
    let ended = end(&client, &mut follow, &confirm, answer);
    for part in [
        "dir is as proposed",
        "gone is as it was before",
        "but not @@ -1,6 +1,6 @@",
    ] {
        assert!(ended.output.contains(part), "{part}: {}", ended.output);
    }
    let mut now = was.clone();
    let mut set = |name: &str, text: &str| {
        let file = now.iter_mut().find(|it| it.0 == name);
        text.clone_into(&mut file.unwrap().1);
    };
    let dos = before().replace('\n', "\r\n");
    set(
        "dos",
        &format!("shut {}", dos.replace("line 28\r\n", "28\n")),
    );
    set("link", "link shut a\nb");
    set("new/g", "1\n");
    set("dir/x", "2\n");
    set("dir/y", "2\n");
    set("tool", "x");
    assert_eq!(now, picture(&scene));
    client.wait_turn(turn);
    client.done::<Undo>(ChangesParams {
        changes: tried.changes,
    });
    assert_eq!(was, picture(&scene));
}

/// kill -9 at places of a keep: both files are as they were chosen, or both as before.
#[test]
fn hunks_whose_keep_was_killed_are_kept_as_a_whole_or_not_at_all() {
    let mut came_to = [0, 0];
    for place in [1, 2, 4, 5, 7, 9] {
        let upstream = Upstream::start();
        let world = World::new();
        world.write_config(&upstream.config("test"));
        for name in ["a", "b"] {
            world.write(format!("work/{name}"), &before());
        }
        let point = format!("layers.step=kill@{place}");
        let daemon = world.daemon().failpoint(&point).spawn();
        let mut scene = CommandScene {
            upstream,
            world,
            daemon,
        };
        let client = scene.world.client();
        let edit = "CMD: sed -i 's/line 3$/three/; s/line 28$/twenty-eight/; /line 15$/d' a b";
        let (_, _, confirm) = scene.asked(&client, edit);
        let Some(tried) = try_it(&client, &confirm) else {
            return;
        };
        let answer = some(&client, &confirm, &tried, &[1, 3, 4, 6]);
        let _lost = catch_unwind(AssertUnwindSafe(|| client.call::<Answer>(answer)));
        scene.daemon.wait_exit();
        let _daemon = scene.world.daemon().spawn();
        let changes = tried.changes;
        // Whoever wants to look waits until what was begun is settled.
        let gone = scene.world.client().call::<Diff>(ChangesParams { changes });
        assert!(gone.is_err(), "place {place}: {gone:?}");
        let files = ["a", "b"].map(|it| fs::read_to_string(scene.world.work().join(it)).unwrap());
        if files == [kept(), kept()] {
            came_to[1] += 1;
        } else {
            assert_eq!([before(), before()], files, "place {place}");
            came_to[0] += 1;
        }
    }
    assert!(came_to.iter().all(|it| *it > 0), "{came_to:?}");
}
