//! What a run has changed so far, looked at, kept and dropped from another terminal while it goes on; and what is told of changes
//! that wait.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use aish_proto::attach::ReplayStart;
use aish_proto::changes::{
    ChangesDropParams, ChangesKeepParams, ChangesOutcome, ChangesParams, ChangesShowParams,
    ChangesShowResult, ChangesSize, Drop, Keep, List, OpenChangesStage, PartAct, PartStage, Show,
    Undo,
};
use aish_proto::confirm::{Answer, AnswerParams, Decision};
use aish_proto::doctor::{CheckOutcome, Doctor};
use aish_proto::event::{ChangesPart, ChangesSettled, ShellFinished};
use aish_proto::id::ChangesId;
use aish_proto::method::Empty;
use aish_proto::norris::{Halt, NorrisOutcome, Start};
use aish_testkit::Client;
use aish_testkit::wait::until_true;

use crate::consent::{pending, with};
use crate::norris::{Launched, Scene, goal, launch, outcome};
use crate::registry::{started, started_by};

const CHANGES: &str = "CMD: echo more >> kept; rm gone; mkdir made; echo x > made/f";

fn scene() -> Scene {
    let scene = Scene::alone();
    fs::write(scene.world.work().join("kept"), "one\n").unwrap();
    fs::write(scene.world.work().join("gone"), "old\n").unwrap();
    scene
}

fn read(scene: &Scene, name: &str) -> Option<String> {
    fs::read_to_string(scene.world.work().join(name)).ok()
}

fn path(scene: &Scene, name: &str) -> String {
    let work = scene.world.work().canonicalize().unwrap();
    work.join(name).display().to_string()
}

/// A run that has changed something and waits for a person about a call. `None`, and said why: this machine holds no layers.
fn waiting(scene: &Scene) -> Option<Launched> {
    let run = launch(&scene.world, |_| {});
    let why = pending(&run.client, run.conversation).request.why;
    if why.contains("nothing on this machine") {
        println!("skipped: {why}");
        return None;
    }
    assert_eq!("HALT: it needs level 3 (execute)", why);
    Some(run)
}

fn changes_of(run: &Launched) -> ChangesId {
    run.turn.to_string().parse().unwrap()
}

fn show(client: &Client, changes: ChangesId, only: &[String]) -> ChangesShowResult {
    client.done::<Show>(ChangesShowParams {
        changes,
        only: only.to_vec(),
        diff: true,
    })
}

fn settled(run: &mut Launched) -> ChangesSettled {
    let event = run.follow.until(|it| it.read::<ChangesSettled>().is_some());
    event.read().unwrap()
}

/// The run's question, once it is over, answered with all of it.
fn keep_the_rest(run: &mut Launched) {
    let changes = changes_of(run);
    let confirm = pending(&run.client, run.conversation);
    run.client.done::<Answer>(AnswerParams {
        changes: Some(changes),
        ..with(&confirm, Decision::Keep)
    });
    assert_eq!(ChangesOutcome::Kept, settled(run).end.outcome);
}

#[test]
fn a_part_is_kept_while_the_run_goes_on_and_is_no_conflict_at_its_end() {
    let scene = scene();
    let _daemon = started(&scene.world);
    scene.model_says(&[
        CHANGES,
        "job__wipe",
        "CMD: cat kept made/f; echo 3 >> kept",
        "DONE: it is in order",
    ]);
    let Some(mut run) = waiting(&scene) else {
        return;
    };
    let elsewhere = scene.world.person("pts/5");
    let open = elsewhere.done::<List>(Empty {}).open;
    let size = ChangesSize {
        count: 4,
        added: 2,
        removed: 1,
    };
    let expected = (OpenChangesStage::Run, Some(size), run.conversation);
    assert_eq!(
        vec![expected],
        open.iter()
            .map(|it| (it.stage, it.size, it.conversation))
            .collect::<Vec<_>>()
    );
    let changes = changes_of(&run);
    let only = [path(&scene, "kept")];
    let shown = show(&elsewhere, changes, &only);
    assert_eq!(1, shown.changed.count);
    let diff = shown.diff.unwrap();
    assert!(diff.contains("+more") && !diff.contains("old"), "{diff}");
    let params = |seen: &str| ChangesKeepParams {
        changes,
        only: only.to_vec(),
        seen: seen.to_owned(),
    };
    let unseen = elsewhere.call::<Keep>(params("0")).unwrap_err();
    assert!(
        unseen
            .message
            .contains("has changed that since it was looked at"),
        "{}",
        unseen.message
    );
    let kept = elsewhere.done::<Keep>(params(&shown.seen)).part;
    assert_eq!(
        (PartAct::Keep, PartStage::Done, 1, only.to_vec()),
        (kept.act, kept.stage, kept.count, kept.paths)
    );
    let now = ["kept", "gone", "made/f"].map(|it| read(&scene, it));
    let more = Some("one\nmore\n".to_owned());
    assert_eq!([more.clone(), Some("old\n".to_owned()), None], now);
    run.answer(Decision::Deny);
    assert_eq!(NorrisOutcome::Done, outcome(&mut run).0);
    let printed = run.all::<ShellFinished>().pop().unwrap().output;
    assert_eq!("one\nmore\nx\n", printed);
    let told = scene.upstream.requests().pop().unwrap().question();
    assert!(told.contains("Meanwhile a person kept this"), "{told}");
    let stages: Vec<PartStage> = run
        .all::<ChangesPart>()
        .iter()
        .map(|it| it.part.stage)
        .collect();
    assert_eq!(vec![PartStage::Ordered, PartStage::Done], stages);
    keep_the_rest(&mut run);
    assert_eq!(Some("one\nmore\n3\n".to_owned()), read(&scene, "kept"));
    assert_eq!(None, read(&scene, "gone"));
    run.client.done::<Undo>(ChangesParams { changes });
    assert_eq!(more, read(&scene, "kept"));
    let changes = kept.part;
    run.client.done::<Undo>(ChangesParams { changes });
    assert_eq!(Some("one\n".to_owned()), read(&scene, "kept"));
    scene.upstream.finish();
}

#[test]
fn what_is_dropped_the_run_loses_and_nothing_real_is_touched() {
    let scene = scene();
    let _daemon = started(&scene.world);
    scene.model_says(&[CHANGES, "job__wipe", "CMD: ls", "DONE: it is in order"]);
    let Some(mut run) = waiting(&scene) else {
        return;
    };
    let changes = changes_of(&run);
    let drop_part = |only: &[String]| {
        run.client.call::<Drop>(ChangesDropParams {
            changes,
            only: only.to_vec(),
        })
    };
    let nowhere = drop_part(&[path(&scene, "nowhere")]).unwrap_err();
    assert!(
        nowhere.message.contains("nothing was changed at"),
        "{}",
        nowhere.message
    );
    let dropped = drop_part(&["made", "gone"].map(|it| path(&scene, it))).unwrap();
    assert_eq!((PartAct::Drop, 3), (dropped.part.act, dropped.part.count));
    run.answer(Decision::Deny);
    assert_eq!(NorrisOutcome::Done, outcome(&mut run).0);
    let printed = run.all::<ShellFinished>().pop().unwrap().output;
    assert_eq!("gone\nkept\n", printed);
    let told = scene.upstream.requests().pop().unwrap().question();
    assert!(told.contains("Meanwhile a person dropped this"), "{told}");
    let asked = pending(&run.client, run.conversation);
    let open = run.client.done::<List>(Empty {}).open;
    assert_eq!(
        (OpenChangesStage::RunAsked, Some(asked.request.number)),
        (open[0].stage, open[0].number)
    );
    assert_eq!(Some(1), open[0].size.map(|it| it.count));
    // Its question is the one way now.
    let params = ChangesDropParams {
        changes,
        only: vec![],
    };
    let refused = run.client.call::<Drop>(params).unwrap_err();
    assert!(
        refused.message.contains("asks about its changes"),
        "{}",
        refused.message
    );
    keep_the_rest(&mut run);
    assert_eq!(Some("one\nmore\n".to_owned()), read(&scene, "kept"));
    scene.upstream.finish();
}

/// kill -9 while a part is being kept, at several places: the next daemon goes on with it, and says so.
#[test]
fn a_part_whose_keep_was_killed_is_kept_by_the_next_daemon_which_says_so() {
    for place in [1, 3, 5, 8] {
        let scene = scene();
        let world = &scene.world;
        let point = format!("layers.step=kill@{place}");
        let mut daemon = started_by(world, world.daemon().failpoint(&point));
        scene.model_says(&[
            CHANGES,
            "job__wipe",
            "CMD: cat kept; echo 3 >> kept",
            "DONE: it is in order",
        ]);
        let Some(mut run) = waiting(&scene) else {
            return;
        };
        let changes = changes_of(&run);
        let seen = show(&run.client, changes, &[]).seen;
        let wanted = ChangesKeepParams {
            changes,
            only: vec![],
            seen,
        };
        let _lost = catch_unwind(AssertUnwindSafe(|| run.client.call::<Keep>(wanted)));
        daemon.wait_exit();
        let _daemon = started(world);
        run.client = world.person("pts/3");
        run.follow = run.client.attach(run.conversation, ReplayStart::Start);
        let ended = |it: &ChangesPart| it.part.stage != PartStage::Ordered;
        let event = run
            .follow
            .until(|it| it.read::<ChangesPart>().is_some_and(|it| ended(&it)));
        let part = event.read::<ChangesPart>().unwrap().part;
        assert_eq!(PartStage::Done, part.stage, "{place}: {:?}", part.remark);
        let now = ["kept", "gone", "made/f"].map(|it| read(&scene, it));
        let more = Some("one\nmore\n".to_owned());
        assert_eq!([more, None, Some("x\n".to_owned())], now, "{place}");
        run.answer(Decision::Deny);
        until_true("the run is over", || run.state().is_none());
        keep_the_rest(&mut run);
        assert_eq!(Some("one\nmore\n3\n".to_owned()), read(&scene, "kept"));
        let changes = part.part;
        let refused = run.client.call::<Undo>(ChangesParams { changes });
        let message = refused.unwrap_err().message;
        assert!(
            message.contains("changed since by something else: /"),
            "{message}"
        );
    }
}

#[test]
fn what_somebody_else_changed_meanwhile_is_not_kept_and_the_run_goes_on() {
    let scene = scene();
    let _daemon = started(&scene.world);
    scene.model_says(&[CHANGES, "job__wipe", "DONE: it is in order"]);
    let Some(mut run) = waiting(&scene) else {
        return;
    };
    let changes = changes_of(&run);
    let seen = show(&run.client, changes, &[]).seen;
    fs::write(scene.world.work().join("kept"), "mine\n").unwrap();
    let params = ChangesKeepParams {
        changes,
        only: vec![],
        seen,
    };
    let refused = run.client.call::<Keep>(params).unwrap_err().message;
    assert!(
        refused.contains("changed since by something else: /"),
        "{refused}"
    );
    assert_eq!(Some("mine\n".to_owned()), read(&scene, "kept"));
    assert_eq!(Some("old\n".to_owned()), read(&scene, "gone"));
    let gone = [path(&scene, "gone")];
    let seen = show(&run.client, changes, &gone).seen;
    let params = ChangesKeepParams {
        changes,
        only: gone.to_vec(),
        seen,
    };
    run.client.done::<Keep>(params);
    assert_eq!(None, read(&scene, "gone"));
    run.answer(Decision::Deny);
    assert_eq!(NorrisOutcome::Done, outcome(&mut run).0);
    scene.upstream.finish();
}

/// Nobody looks into layers while a command writes there; what to do is said.
#[test]
fn while_a_command_writes_there_nobody_looks() {
    let scene = scene();
    let _daemon = started(&scene.world);
    scene.model_says(&["CMD: echo more >> kept; exec sleep 7055", "DONE:"]);
    let mut run = launch(&scene.world, |_| {});
    let changes = changes_of(&run);
    let client = scene.world.person("pts/5");
    until_true("it writes, or is asked about", || {
        !scene.world.running("sleep").is_empty()
            || !client
                .done::<aish_proto::confirm::List>(aish_proto::confirm::ConfirmListParams::default())
                .confirms
                .is_empty()
    });
    if scene.world.running("sleep").is_empty() {
        println!("skipped: no layers here");
        return;
    }
    assert_eq!(None, client.done::<List>(Empty {}).open[0].size);
    let params = ChangesShowParams {
        changes,
        only: vec![],
        diff: false,
    };
    let refused = client.call::<Show>(params).unwrap_err();
    assert!(
        refused
            .message
            .contains("a command of the run writes there now"),
        "{}",
        refused.message
    );
    client.done::<Halt>(run.params());
    assert_eq!(NorrisOutcome::Stopped, outcome(&mut run).0);
    let shown = show(&client, changes, &[]);
    assert_eq!(1, shown.changed.count);
}

#[test]
fn who_comes_and_who_launches_is_told_that_changes_wait() {
    let scene = scene();
    let _daemon = started(&scene.world);
    scene.model_says(&[CHANGES, "job__wipe", "DONE: it is in order"]);
    let Some(mut run) = waiting(&scene) else {
        return;
    };
    let changes = changes_of(&run);
    let hint = format!("aishctl changes show {changes}");
    let notices = |client: &Client| {
        let params = aish_proto::attach::AttachParams {
            id: run.conversation,
            since: ReplayStart::Now,
            deltas: false,
        };
        let notices = client.done::<aish_proto::attach::Attach>(params).notices;
        let own = notices
            .into_iter()
            .filter(|it| it.hint.as_ref() == Some(&hint));
        own.map(|it| it.text).collect::<Vec<_>>()
    };
    assert_eq!(
        vec!["what the run has changed so far waits to be kept or dropped"],
        notices(&scene.world.person("pts/5"))
    );
    run.answer(Decision::Deny);
    let number = pending(&run.client, run.conversation).request.number;
    assert_eq!(
        vec![format!(
            "what a run changed waits for an answer (c{number})"
        )],
        notices(&scene.world.person("pts/6"))
    );
    assert_eq!(NorrisOutcome::Done, outcome(&mut run).0);
    let again = run.client.done::<Start>(goal(run.conversation, 2));
    let told = again.notices.iter().find(|it| it.contains(&hint));
    assert!(
        told.is_some_and(|it| it.starts_with("what an earlier run changed waits")),
        "{:?}",
        again.notices
    );
}

/// Without layers a run never goes on with less: each command is asked about, and that is said at once.
#[test]
fn where_layers_cannot_be_had_each_command_is_asked_about_and_the_launch_says_why() {
    let scene = scene();
    let world = &scene.world;
    let daemon = world.daemon().failpoint("trial=miss");
    let _daemon = started_by(world, daemon);
    scene.model_says(&["CMD: ls", "DONE: looked"]);
    let client = world.person("pts/2");
    let conversation = crate::norris::conversation(world, &client);
    let launched = client.done::<Start>(goal(conversation, 2));
    let said = launched.notices.join("\n");
    assert!(
        said.contains(
            "nothing on this machine holds the commands of the run (it is switched off), so a person is asked about each: aishctl doctor"
        ),
        "{said}"
    );
    let confirm = pending(&client, conversation);
    let why = "HALT: nothing on this machine would hold it: it is switched off";
    assert_eq!(why, confirm.request.why);
    let checks = client.done::<Doctor>(Empty {}).checks;
    let runs = checks.iter().find(|it| it.check == "runs").unwrap();
    assert_eq!(CheckOutcome::Warn, runs.outcome);
    assert!(
        runs.detail
            .starts_with("nothing holds their commands, so each is asked about"),
        "{}",
        runs.detail
    );
    client.done::<Answer>(with(&confirm, Decision::AllowOnce));
    client.wait_turn(launched.turn);
}
