//! A question about a level outlives the daemon, and of two answers to it one counts.
//!
//! `AISH_TEST_KILLS` says how many kills there are at each point.

use std::sync::Barrier;
use std::thread;

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::{Answer, AnswerOutcome, AnswerResult, Decision};
use aish_proto::event::{PermissionChanged, Snapshot};
use aish_proto::intent::Negotiate;
use aish_proto::permission::{self, RevokeParams};
use aish_testkit::surroundings;

use crate::audit::whole;
use crate::consent::{Scene, pending, with};
use crate::permission::{get, history, level, open, upgrade, wanted};
use crate::tools::{answer, events};

/// The same id and the same bytes after every kind of end of the daemon.
#[test]
fn an_open_question_about_a_level_outlives_kill_nine() {
    let kills = surroundings::kills();
    let mut scene = Scene::new("");
    let client = scene.world.client();
    let conversation = client.create();
    let confirm = wanted(&client, conversation, "data-tool", 2);
    let before = get(&client, confirm);
    drop(client);
    for round in 0..kills {
        scene.daemon.kill9();
        scene.daemon = scene.world.daemon().spawn();
        let client = scene.world.client();
        assert_eq!(
            vec![before.clone()],
            open(&client, conversation),
            "round {round}"
        );
        assert_eq!(
            confirm,
            wanted(&client, conversation, "data-tool", 2),
            "it is the same wish"
        );
    }
    assert_eq!(0, scene.daemon.terminate());
    scene.daemon = scene.world.daemon().spawn();
    let client = scene.world.person("pts/1");
    let mut window = client.attach(conversation, ReplayStart::Now);
    let snapshot: Snapshot = window.until_kind("snapshot").read().unwrap();
    assert_eq!(vec![before.clone()], snapshot.pending_confirms);
    answer(&client, &before, Decision::RaiseOnly);
    assert_eq!(2, level(&client, conversation, "data-tool"));
    scene.daemon.kill9();
    scene.daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    assert!(open(&client, conversation).is_empty());
    assert_eq!(2, level(&client, conversation, "data-tool"));
    assert_eq!(1, history(&client, conversation).len());
    whole(&client);
}

/// The daemon dies while the question or its answer is on the way to the disk.
#[test]
fn a_question_about_a_level_is_there_whole_or_not_at_all() {
    let kills = surroundings::kills();
    for (point, is_asked, level_then) in [
        ("confirm.before_store", false, 1),
        ("confirm.after_store", true, 1),
        ("confirm.after_answer_store", false, 2),
    ] {
        for _ in 0..kills {
            let scene = Scene::new("");
            let conversation = scene.world.client().create();
            let Scene {
                upstream,
                world,
                daemon,
            } = scene;
            assert_eq!(0, daemon.terminate());
            let mut daemon = world.daemon().failpoint(&format!("{point}=kill")).spawn();
            let (asking, answering) = (world.client(), world.client());
            let _sent = asking.send::<Negotiate>(upgrade(conversation, "data-tool", 2));
            if point == "confirm.after_answer_store" {
                let record = pending(&answering, conversation);
                let _sent = answering.send::<Answer>(with(&record, Decision::RaiseOnly));
            }
            daemon.wait_exit();
            let daemon = world.daemon().spawn();
            let client = world.client();
            assert_eq!(
                usize::from(is_asked),
                open(&client, conversation).len(),
                "{point}"
            );
            assert_eq!(
                level_then,
                level(&client, conversation, "data-tool"),
                "{point}"
            );
            let changes = events::<PermissionChanged>(&client, conversation).len();
            assert_eq!(usize::from(level_then) - 1, changes, "{point}");
            whole(&client);
            drop((upstream, daemon));
        }
    }
}

/// Of two answers one counts, and what it said is what happened.
#[test]
fn of_two_answers_to_a_level_exactly_one_counts() {
    let scene = Scene::new("");
    let people = [scene.world.person("pts/0"), scene.world.person("pts/1")];
    let conversation = people[0].create();
    let mut raised = 0;
    for race in 0..100 {
        wanted(&people[0], conversation, "data-tool", 2);
        let record = pending(&people[0], conversation);
        let start = Barrier::new(2);
        let outcomes: Vec<AnswerResult> = thread::scope(|scope| {
            let answers = people.iter().zip([Decision::RaiseOnly, Decision::Deny]);
            let answers: Vec<_> = answers
                .map(|(person, decision)| {
                    let (record, start) = (&record, &start);
                    scope.spawn(move || {
                        start.wait();
                        person.done::<Answer>(with(record, decision))
                    })
                })
                .collect();
            answers.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let won: Vec<usize> = (0..2)
            .filter(|it| outcomes[*it].outcome == AnswerOutcome::Resolved)
            .collect();
        assert_eq!(1, won.len(), "race {race}: {outcomes:?}");
        let lost = &outcomes[1 - won[0]];
        assert_eq!(AnswerOutcome::AlreadyResolved, lost.outcome, "race {race}");
        let winner = lost.by.as_ref().and_then(|it| it.tty.clone());
        assert_eq!(Some(format!("pts/{}", won[0])), winner);
        let is_raised = won[0] == 0;
        assert_eq!(
            1 + u8::from(is_raised),
            level(&people[0], conversation, "data-tool")
        );
        if is_raised {
            raised += 1;
            let provider = "data-tool".to_owned();
            people[0].done::<permission::Revoke>(RevokeParams {
                conversation,
                provider,
            });
        }
    }
    let grants = history(&people[0], conversation);
    let grants = grants.iter().filter(|it| it.confirm.is_some()).count();
    assert_eq!(raised, grants, "each yes that won raised it once");
    println!("{raised} of 100 races were won by the yes");
    whole(&people[0]);
}
