//! People lead a run from other terminals: pause, resume, halt, and who may launch one.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use aish_proto::attach::ReplayStart;
use aish_proto::event::{NorrisPaused, NorrisResumed, ShellFinished, ToolResult};
use aish_proto::method::ClientRole;
use aish_proto::norris::{
    Halt, NorrisActivity, NorrisLevels, NorrisOutcome, NorrisPause, Pause, Resume, Start,
    StartParams,
};
use aish_proto::shell::ShellEnding;
use aish_proto::turn::StopReason;
use aish_proto::usage::Usd;
use aish_testkit::wait::until_true;
use aish_testkit::{Answer as Said, Client, Gate};

use crate::consent::{call_id, pending};
use crate::norris::{Launched, Scene, goal, launch, outcome};
use crate::registry::started;

/// One launches, the other leads.
#[test]
fn anybody_attached_can_pause_and_resume_it() {
    let scene = Scene::alone();
    let _daemon = started(&scene.world);
    let (by_hand, gate) = Said::by_hand();
    scene.upstream.answer(by_hand);
    scene.upstream.answer(Said::text("DONE: both"));
    let mut run = launch(&scene.world, |_| {});
    gate.wait_request();
    let elsewhere = scene.world.person("pts/5");
    let mut other = elsewhere.attach(run.conversation, ReplayStart::Start);
    let paused = elsewhere.done::<Pause>(run.params());
    assert_eq!(Some(NorrisPause::Person), paused.paused);
    let again = elsewhere.done::<Pause>(run.params());
    assert_eq!(Some(NorrisPause::Person), again.paused);
    call_by_hand(&gate, "job__put");
    other.until_kind("assistantMessage");
    let state = run.state().unwrap();
    assert_eq!(NorrisActivity::Paused, state.activity);
    assert_eq!("", scene.marks());
    let resumed = elsewhere.done::<Resume>(run.params());
    assert_eq!(None, resumed.paused);
    let expected = (
        NorrisOutcome::Done,
        "both".to_owned(),
        Some(StopReason::End),
    );
    assert_eq!(expected, outcome(&mut run));
    assert_eq!("put", scene.marks());
    assert_eq!(
        (1, 1),
        (
            run.all::<NorrisPaused>().len(),
            run.all::<NorrisResumed>().len()
        )
    );
    other.until_finished(run.turn);
    let refused = elsewhere.refused::<Resume>(run.params());
    assert_eq!("notFound", refused.kind());
}

fn call_by_hand(gate: &Gate, tool: &str) {
    gate.delta(&serde_json::json!({"tool_calls": [
        {"index": 0, "id": call_id(), "type": "function", "function": {"name": tool, "arguments": "{}"}}
    ]}));
    gate.finish();
}

/// From another terminal, while a model writes, while a program or a command runs, while a person
/// is asked, and while it is paused.
#[test]
fn a_halt_from_another_terminal_stops_it_at_once() {
    let scene = Scene::for_real();
    let _daemon = started(&scene.world);
    let elsewhere = scene.world.person("pts/5");
    let mut times = vec![];
    let mut halt = |run: &mut Launched| {
        let begun = Instant::now();
        let halted = elsewhere.done::<Halt>(run.params());
        let took = begun.elapsed();
        assert_eq!((run.turn, true), (halted.turn, halted.halted));
        // A machine that does much else besides is slow now and then, and not each time.
        assert!(took < Duration::from_secs(20), "{took:?}");
        times.push(took);
        let (how, _, stop) = outcome(run);
        assert_eq!(
            (NorrisOutcome::Stopped, Some(StopReason::Cancelled)),
            (how, stop)
        );
    };
    let (by_hand, gate) = Said::by_hand();
    scene.upstream.answer(by_hand);
    let mut run = launch(&scene.world, |_| {});
    gate.wait_request();
    halt(&mut run);
    gate.wait_hang_up();
    scene.model_says(&["job__slow"]);
    let mut run = launch(&scene.world, |_| {});
    until_true("the program runs", || scene.marks() == "slow");
    halt(&mut run);
    assert!(
        run.all::<ToolResult>()[0]
            .content
            .contains("effect of this call is unknown")
    );
    until_true("the program ends", || {
        scene.world.running("sleep").is_empty()
    });
    fs::remove_file(scene.world.path("work/marks")).unwrap();
    scene.model_says(&["CMD: echo slow >> marks; sleep 7042"]);
    let mut run = launch(&scene.world, |_| {});
    until_true("the command runs", || scene.marks() == "slow");
    halt(&mut run);
    assert_eq!(ShellEnding::Cancelled, run.all::<ShellFinished>()[0].ending);
    until_true("the command ends", || {
        scene.world.running("sleep").is_empty()
    });
    scene.model_says(&["job__wipe"]);
    let mut run = launch(&scene.world, |_| {});
    pending(&run.client, run.conversation);
    halt(&mut run);
    scene.model_says(&["job__put"]);
    let (by_hand, gate) = Said::by_hand();
    scene.upstream.answer(by_hand);
    let mut run = launch(&scene.world, |_| {});
    gate.wait_request();
    elsewhere.done::<Pause>(run.params());
    call_by_hand(&gate, "job__put");
    run.follow.until_kind("assistantMessage");
    halt(&mut run);
    println!("halted after {times:?}");
    let fastest = times.into_iter().min().unwrap();
    assert!(fastest < Duration::from_millis(500), "{fastest:?}");
    assert_eq!("slow", scene.marks());
}

/// A run is launched by a driver, one at a time, with numbers that mean something.
#[test]
fn who_and_what_may_launch_one() {
    let scene = Scene::alone();
    let _daemon = started(&scene.world);
    let (by_hand, gate) = Said::by_hand();
    scene.upstream.answer(by_hand);
    let mut run = launch(&scene.world, |_| {});
    gate.wait_request();
    let kind = |client: &Client, params| client.refused::<Start>(params).kind().to_owned();
    assert_eq!("busy", kind(&run.client, goal(run.conversation, 1)));
    let looker = scene.world.stranger();
    looker.hello_as("looker", ClientRole::Observer);
    assert_eq!("forbiddenRole", kind(&looker, goal(run.conversation, 1)));
    let refused = looker.refused::<Halt>(run.params());
    assert_eq!("forbiddenRole", refused.kind());
    run.client.done::<Halt>(run.params());
    run.ended();
    let changes: [fn(&mut StartParams); 8] = [
        |it| it.cost_usd = Usd::of(0.0),
        |it| it.goal = " \n".to_owned(),
        |it| it.goal = "x".repeat(4097),
        |it| it.steps = Some(0),
        |it| {
            it.levels = Some(NorrisLevels {
                all: 0,
                providers: BTreeMap::new(),
            });
        },
        |it| {
            it.levels = Some(NorrisLevels {
                all: 4,
                providers: BTreeMap::new(),
            });
        },
        |it| {
            it.levels = Some(NorrisLevels {
                all: 1,
                providers: BTreeMap::from([("a b".to_owned(), 1)]),
            });
        },
        |it| it.model = Some("none".to_owned()),
    ];
    for change in changes {
        let mut params = goal(run.conversation, 1);
        change(&mut params);
        run.client.refused::<Start>(params);
    }
    drop(gate);
    scene.model_says(&["DONE: once"]);
    let params = goal(run.conversation, 1);
    let first = run.client.done::<Start>(params.clone());
    run.client.wait_turn(first.turn);
    let again = run.client.done::<Start>(params);
    assert_eq!((first.turn, true), (again.turn, again.duplicate));
}
