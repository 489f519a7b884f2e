//! kill -9 in every step of a run: a mark in a file is an effect, none comes twice, nothing goes on by itself,
//! and a person resumes it.
//!
//! `AISH_TEST_KILLS` says how many kills there are at each point.

use std::panic::{AssertUnwindSafe, catch_unwind};

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::{Answer, AnswerOutcome, Decision};
use aish_proto::conversation::{Activity, ConversationParams, ConversationStatus, StatusOf};
use aish_proto::envelope::Envelope;
use aish_proto::event::{
    NorrisEnded, NorrisPaused, ShellFinished, ShellStarted, ToolCall, ToolResult,
};
use aish_proto::id::ConversationId;
use aish_proto::norris::{NorrisOutcome, NorrisPause, NorrisRunParams, Resume, Start, StartParams};
use aish_proto::shell::ShellEnding;
use aish_proto::turn::StopReason;
use aish_testkit::surroundings::kills;
use aish_testkit::wait::until_true;
use aish_testkit::{Answer as Said, Client, Daemon, Follow, World};

use crate::consent::{pending, with};
use crate::norris::{Scene, conversation, goal};
use crate::registry::{started, started_by};

const STEPS: usize = 4;
const CALLS: &[&str] = &[
    "job__put",
    "job__put",
    "job__put",
    "job__put",
    "DONE: all of it",
];
const COMMANDS: &[&str] = &[
    "CMD: echo put >> marks",
    "I go on.\nCMD: echo put >> marks",
    "CMD: echo put >> marks",
    "CMD: echo put >> marks",
    "DONE: all of it",
];

fn status(client: &Client, id: ConversationId) -> ConversationStatus {
    client.done::<StatusOf>(ConversationParams { id })
}

/// Launches a run in a daemon that dies at this point.
fn until_it_dies(world: &World, point: &str) -> StartParams {
    let mut daemon = started_by(world, world.daemon().failpoint(point));
    let client = world.person("pts/2");
    let params = goal(conversation(world, &client), 2);
    let asked = params.clone();
    // It may die before it has said that it launched anything.
    let _launched = catch_unwind(AssertUnwindSafe(|| client.call::<Start>(asked)));
    daemon.wait_exit();
    params
}

/// The daemon after it, and what it says of the run.
fn after(world: &World, params: &StartParams) -> (Daemon, Client, Follow) {
    let daemon = started(world);
    let client = world.person("pts/3");
    let again = client.done::<Start>(params.clone());
    assert!(again.duplicate, "the launch was stored");
    let follow = client.attach(params.conversation, ReplayStart::Start);
    (daemon, client, follow)
}

fn all<E: aish_proto::envelope::EventData>(follow: &Follow) -> Vec<E> {
    follow
        .events_so_far()
        .iter()
        .filter_map(Envelope::read)
        .collect()
}

/// Kills in one step after the other, for calls and for commands; `lost` is whether what the step does never has its effect.
#[track_caller]
fn check(name: &str, lost: bool) {
    for kill in 0..kills() {
        for script in [CALLS, COMMANDS] {
            check_once(name, lost, script, kill % STEPS + 1);
        }
    }
}

#[track_caller]
fn check_once(name: &str, lost: bool, script: &'static [&'static str], step: usize) {
    let scene = Scene::for_real();
    scene.model_says(script);
    let params = until_it_dies(&scene.world, &format!("{name}=kill@{step}"));
    let told = format!("{name} in step {step} of {:?}", script[0]);
    let marked = scene.marks();
    let (_daemon, client, mut follow) = after(&scene.world, &params);
    let state = status(&client, params.conversation);
    assert_eq!(Activity::Running, state.state, "{told}");
    let run = state.norris.unwrap();
    assert_eq!(Some(NorrisPause::Interrupted), run.paused, "{told}");
    assert_eq!(marked, scene.marks(), "{told}: nothing goes on by itself");
    let conversation = params.conversation;
    client.done::<Resume>(NorrisRunParams { conversation });
    let record = client.wait_turn(run.turn);
    assert_eq!(Some(StopReason::End), record.stop_reason, "{told}");
    follow.until_finished(run.turn);
    follow.recording().assert_sound();
    let expected = STEPS - usize::from(lost);
    let marks = scene.marks();
    assert_eq!(
        expected,
        marks.split_whitespace().count(),
        "{told}: {marks}"
    );
    let ended = all::<NorrisEnded>(&follow);
    assert_eq!(NorrisOutcome::Done, ended[0].outcome, "{told}");
    assert_eq!(1, all::<NorrisPaused>(&follow).len(), "{told}");
    let ends = all::<ToolResult>(&follow).len() + all::<ShellFinished>(&follow).len();
    assert_eq!(STEPS, ends, "{told}");
    let starts = all::<ToolCall>(&follow).len() + all::<ShellStarted>(&follow).len();
    assert!(starts <= STEPS, "{told}");
    scene.upstream.finish();
}

#[test]
fn killed_before_a_call_is_marked_as_begun() {
    check("tool.before_start_mark", true);
}

#[test]
fn killed_after_a_call_is_marked_as_begun() {
    check("tool.after_start_mark", true);
}

#[test]
fn killed_when_the_result_of_a_call_is_stored() {
    check("tool.after_result", false);
}

#[test]
fn killed_when_a_step_is_stored() {
    check("norris.after_store", false);
}

/// A question at the halt gate is there again with the same id and the same bytes, and its yes runs the call once.
#[test]
fn a_halt_survives_a_kill() {
    let scene = Scene::for_real();
    scene.model_says(&["job__put", "job__wipe", "DONE: both"]);
    let daemon = started(&scene.world);
    let client = scene.world.person("pts/2");
    let params = goal(conversation(&scene.world, &client), 2);
    let run = client.done::<Start>(params.clone());
    let asked = pending(&client, params.conversation);
    assert!(asked.request.halt);
    daemon.kill9();
    let (_daemon, client, mut follow) = after(&scene.world, &params);
    let again = pending(&client, params.conversation);
    assert_eq!(asked, again);
    let answered = client.done::<Answer>(with(&again, Decision::AllowOnce));
    assert_eq!(AnswerOutcome::Resolved, answered.outcome);
    follow.until_finished(run.turn);
    assert_eq!("put wipe", scene.marks());
    assert_eq!("both", all::<NorrisEnded>(&follow)[0].reason);
    assert!(all::<NorrisPaused>(&follow).is_empty());
}

/// Whether it is killed or told to stop, what ran is of unknown effect and is not run again.
#[test]
fn a_program_that_runs_when_the_daemon_ends_is_not_run_again() {
    for kill in [true, false] {
        let scene = Scene::for_real();
        scene.model_says(&["job__slow", "DONE: looked"]);
        let daemon = started(&scene.world);
        let client = scene.world.person("pts/2");
        let params = goal(client.create(), 2);
        let run = client.done::<Start>(params.clone());
        until_true("the program runs", || scene.marks() == "slow");
        if kill {
            daemon.kill9();
        } else {
            assert_eq!(0, daemon.terminate());
        }
        let (_daemon, client, mut follow) = after(&scene.world, &params);
        let conversation = params.conversation;
        client.done::<Resume>(NorrisRunParams { conversation });
        follow.until_finished(run.turn);
        assert_eq!("slow", scene.marks());
        let results = all::<ToolResult>(&follow);
        assert_eq!(1, results.len());
        assert!(
            results[0].content.contains("unknown"),
            "{}",
            results[0].content
        );
        assert_eq!("looked", all::<NorrisEnded>(&follow)[0].reason);
    }
}

/// The same of a command: what it had done by then stays, it is told to be of unknown effect, and nothing of it goes on.
#[test]
fn a_command_that_runs_when_the_daemon_ends_is_not_run_again() {
    for kill in [true, false] {
        let scene = Scene::for_real();
        scene.model_says(&[
            "CMD: echo slow >> marks; sleep 7041; echo late >> marks",
            "DONE: looked",
        ]);
        let daemon = started(&scene.world);
        let client = scene.world.person("pts/2");
        let params = goal(conversation(&scene.world, &client), 2);
        let run = client.done::<Start>(params.clone());
        until_true("the command runs", || scene.marks() == "slow");
        if kill {
            daemon.kill9();
        } else {
            assert_eq!(0, daemon.terminate());
        }
        let (_daemon, client, mut follow) = after(&scene.world, &params);
        until_true("the command is gone", || {
            scene.world.running("sleep").is_empty()
        });
        let conversation = params.conversation;
        client.done::<Resume>(NorrisRunParams { conversation });
        follow.until_finished(run.turn);
        assert_eq!("slow", scene.marks());
        let ends = all::<ShellFinished>(&follow);
        assert_eq!(1, ends.len());
        assert_eq!(ShellEnding::Unknown, ends[0].ending);
        let told = scene.upstream.requests().pop().unwrap().question();
        assert!(
            told.contains("its effect is unknown") && told.contains("The run was interrupted"),
            "{told}"
        );
        assert_eq!("looked", all::<NorrisEnded>(&follow)[0].reason);
    }
}

/// A pause holds over a restart, and limits go on where they were.
#[test]
fn a_paused_run_is_paused_in_the_next_daemon() {
    let scene = Scene::for_real();
    let (by_hand, gate) = Said::by_hand();
    scene.upstream.answer(by_hand);
    let daemon = started(&scene.world);
    let client = scene.world.person("pts/2");
    let mut params = goal(conversation(&scene.world, &client), 2);
    params.steps = Some(1);
    let conversation = params.conversation;
    let run = client.done::<Start>(params.clone());
    gate.wait_request();
    client.done::<aish_proto::norris::Pause>(NorrisRunParams { conversation });
    daemon.kill9();
    drop(gate);
    let (_daemon, client, mut follow) = after(&scene.world, &params);
    assert!(
        status(&client, conversation)
            .norris
            .unwrap()
            .paused
            .is_some()
    );
    client.done::<Resume>(NorrisRunParams { conversation });
    follow.until_finished(run.turn);
    let ended = all::<NorrisEnded>(&follow);
    assert_eq!(
        (NorrisOutcome::Limit, "1 steps"),
        (ended[0].outcome, ended[0].reason.as_str())
    );
}
