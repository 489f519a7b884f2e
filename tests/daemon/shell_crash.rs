//! kill -9 around a command: a question is there again with the same bytes, and what was started is never started
//! again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::Answer;
use aish_proto::envelope::Envelope;
use aish_proto::event::ShellFinished;
use aish_proto::shell::{Run, ShellEnding, ShellRunParams};
use aish_proto::turn::StopReason;
use aish_testkit::surroundings::kills;
use aish_testkit::wait::until_true;

use crate::consent::{pending, with};
use crate::shell::{Scene, allow};

fn restarted(scene: Scene) -> Scene {
    let Scene {
        upstream,
        world,
        daemon,
    } = scene;
    daemon.kill9();
    let daemon = world.daemon().spawn();
    Scene {
        upstream,
        world,
        daemon,
    }
}

fn counter(scene: &Scene) -> usize {
    let text = std::fs::read_to_string(scene.world.work().join("counter"));
    text.unwrap_or_default().lines().count()
}

#[test]
fn a_question_waits_over_a_kill_with_the_same_bytes() {
    for _ in 0..kills() {
        let scene = Scene::new("");
        let client = scene.world.person("pts/5");
        let (conversation, turn, before) = scene.asked(&client, "CMD: echo x >> counter");
        drop(client);
        let scene = restarted(scene);
        let client = scene.world.person("pts/5");
        let after = pending(&client, conversation);
        assert_eq!(before.request, after.request);
        assert_eq!(0, counter(&scene));
        allow(&client, &after);
        let record = client.wait_turn(turn);
        assert_eq!(
            (Some(StopReason::End), 1),
            (record.stop_reason, counter(&scene))
        );
    }
}

#[test]
fn what_was_started_is_unknown_and_not_run_again() {
    for point in [
        "tool.after_start_mark",
        "confirm.after_answer_store",
        "tool.before_start_mark",
    ] {
        for _ in 0..kills() {
            let scene = Scene::new("");
            let (upstream, world) = (scene.upstream, scene.world);
            assert_eq!(0, scene.daemon.terminate());
            let daemon = world.daemon().failpoint(&format!("{point}=kill")).spawn();
            let mut scene = Scene {
                upstream,
                world,
                daemon,
            };
            let client = scene.world.person("pts/5");
            let (conversation, turn, confirm) = scene.asked(&client, "CMD: echo x >> counter");
            let yes = with(&confirm, aish_proto::confirm::Decision::AllowOnce);
            let _died = catch_unwind(AssertUnwindSafe(|| client.call::<Answer>(yes)));
            scene.daemon.wait_exit();
            let daemon = scene.world.daemon().spawn();
            let scene = Scene { daemon, ..scene };
            let client = scene.world.person("pts/5");
            let record = client.wait_turn(turn);
            assert_eq!(Some(StopReason::Interrupted), record.stop_reason, "{point}");
            assert_eq!(
                0,
                counter(&scene),
                "{point}: it was killed before the start"
            );
            let mut follow = client.attach(conversation, ReplayStart::Start);
            follow.until_kind("replayComplete");
            let ends = follow
                .events_so_far()
                .iter()
                .filter_map(Envelope::read::<ShellFinished>);
            let endings: Vec<ShellEnding> = ends.map(|it| it.ending).collect();
            let expected = if point == "tool.after_start_mark" {
                ShellEnding::Unknown
            } else {
                ShellEnding::Refused
            };
            assert_eq!(vec![expected], endings, "{point}");
        }
    }
}

#[test]
fn a_kill_while_a_command_runs_leaves_nothing_of_it_and_runs_nothing_again() {
    for round in 0..kills() {
        let scene = Scene::new("");
        let client = scene.world.person("pts/5");
        let (conversation, turn, confirm) =
            scene.asked(&client, "CMD: echo x >> counter; sleep 7021");
        let mine = ShellRunParams {
            conversation,
            command: "echo x >> counter; sleep 7022".to_owned(),
            cwd: None,
            into_context: true,
        };
        // One runs and the other waits for it; each is the one that runs in every other round.
        let expected = if round % 2 == 0 {
            allow(&client, &confirm);
            until_true("it has begun", || counter(&scene) == 1);
            assert_eq!(None, client.done::<Run>(mine).seq);
            vec![ShellEnding::Unknown]
        } else {
            client.done::<Run>(mine);
            until_true("it has begun", || counter(&scene) == 1);
            allow(&client, &confirm);
            vec![ShellEnding::Unknown, ShellEnding::Refused]
        };
        drop(client);
        let scene = restarted(scene);
        let client = scene.world.person("pts/5");
        let record = client.wait_turn(turn);
        assert_eq!(Some(StopReason::Interrupted), record.stop_reason);
        until_true("nothing is left", || {
            scene.world.running("sleep").is_empty()
        });
        let mut follow = client.attach(conversation, ReplayStart::Start);
        follow.until_kind("replayComplete");
        let ends = follow
            .events_so_far()
            .iter()
            .filter_map(Envelope::read::<ShellFinished>);
        let endings: Vec<ShellEnding> = ends.map(|it| it.ending).collect();
        assert_eq!(expected, endings);
        assert_eq!(1, counter(&scene));
    }
}
