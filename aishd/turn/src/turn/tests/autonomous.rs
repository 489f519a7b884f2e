//! Runs: a turn that goes on by itself until it is done, a limit is met, or a person stops it.

use std::collections::HashMap;

use aishd_log::norris::launch::{RunLaunch, RunLimits, UnaskedLevels};
use aishd_log::norris::status::RunStatus;
use aishd_log::norris::{NorrisEvent, RunPause, RunSpending};
use aishd_log::spending::NanoUsd;
use proptest::prelude::*;

use super::*;

fn standing(limits: RunLimits) -> RunStatus {
    RunStatus {
        turn: aish_proto::id::TurnId::from_bytes([1; 16]),
        launch: RunLaunch {
            goal: "tidy up".to_owned(),
            levels: UnaskedLevels::default(),
            limits,
            second_opinion: false,
            contain: aishd_log::norris::launch::RunContain::Workspace,
        },
        step: 1,
        spent: RunSpending::default(),
        paused: None,
    }
}

fn limits(steps: u32) -> RunLimits {
    RunLimits {
        steps,
        ms: Some(1000),
        tokens: Some(100),
        cost: Some(NanoUsd(50)),
    }
}

fn scene(limits: RunLimits) -> Scene {
    let mut scene = Scene::start();
    let (turn, _opens) = Turn::start(/*max_depth*/ 3);
    scene.turn = turn.with_run(RunState::of(&standing(limits)));
    scene
}

/// As [`super::check`], of a run; `clock MS` lets time pass.
#[track_caller]
fn check(steps: u32, script: &[&str], expected: &[&str]) {
    let mut scene = scene(limits(steps));
    for line in script {
        play(&mut scene, line);
    }
    assert_eq!(expected, scene.seen, "\nscript: {script:#?}");
}

fn play(scene: &mut Scene, line: &str) {
    let input = match line.split(' ').collect::<Vec<_>>()[..] {
        ["spent", what, amount] => {
            let amount = amount.parse().unwrap();
            let mut spent = RunSpending::default();
            match what {
                "ms" => spent.ms = amount,
                "tokens" => spent.tokens = amount,
                _ => spent.cost = NanoUsd(amount),
            }
            return scene.turn.note_spent(spent);
        }
        ["budget"] => {
            scene.turn.note_budget("all of it is used up".to_owned());
            TurnInput::Stopped(StopReason::Budget)
        }
        ["pause"] => TurnInput::Paused,
        ["resume"] => TurnInput::Resumed,
        ["time"] => TurnInput::TimeIsOver,
        _ => return scene.play(line),
    };
    let step = scene.turn.handle(input);
    scene.take(step);
}

#[test]
fn it_acts_and_looks_until_it_is_done() {
    check(
        9,
        &[
            "done 0 - a",
            "tool a ok",
            "done 16 - b",
            "tool b ok",
            "done 32 DONE:tidy",
        ],
        &[
            "> open 0",
            "= says 0 \"\" +1",
            "= started a",
            "> call a",
            "= result a \"ok\"",
            "= norris step 2",
            "> open 16",
            "= says 1 \"\" +1",
            "= started b",
            "> call b",
            "= result b \"ok\"",
            "= norris step 3",
            "> open 32",
            "= says 2 \"DONE:tidy\" +0",
            "= norris Done \"tidy\" after 3",
            "= ended End \"DONE:tidy\"",
        ],
    );
}

/// It is not bound by the limit of rounds of an ordinary turn, which is 3 here.
#[test]
fn its_only_limit_of_rounds_is_its_own() {
    let mut scene = scene(limits(9));
    for step in 0..8 {
        scene.play(&format!("done {} - a", step * 16));
        scene.play("tool a ok");
    }
    assert_eq!(Some("> open 128"), scene.seen.last().map(String::as_str));
}

#[test]
fn what_stands_beside_a_last_word_never_begins() {
    check(
        9,
        &["done 0 DONE:so a"],
        &[
            "> open 0",
            "= says 0 \"DONE:so\" +1",
            "= result a \"[aish] the turn ended first\"",
            "= norris Done \"so\" after 1",
            "= ended End \"DONE:so\"",
        ],
    );
    check(
        9,
        &["done 0 HALT:no a"],
        &[
            "> open 0",
            "= says 0 \"HALT:no\" +1",
            "= result a \"[aish] the turn ended first\"",
            "= norris Halted \"no\" after 1",
            "= ended End \"HALT:no\"",
        ],
    );
}

#[test]
fn a_limit_is_met_before_the_next_step() {
    check(
        1,
        &["done 0 - a", "tool a ok"],
        &[
            "> open 0",
            "= says 0 \"\" +1",
            "= started a",
            "> call a",
            "= result a \"ok\"",
            "= status the run met its limit of 1 steps",
            "= norris Limit \"1 steps\" after 1",
            "= ended Budget \"\"",
        ],
    );
    check(
        9,
        &["spent tokens 100", "done 0 - a", "tool a ok"],
        &[
            "> open 0",
            "= says 0 \"\" +1",
            "= started a",
            "> call a",
            "= result a \"ok\"",
            "= status the run met its limit of 100 tokens",
            "= norris Limit \"100 tokens\" after 1",
            "= ended Budget \"\"",
        ],
    );
    check(
        9,
        &["done 0 - a", "spent ms 1000", "time", "tool a ok"],
        &[
            "> open 0",
            "= says 0 \"\" +1",
            "= started a",
            "> call a",
            "= result a \"ok\"",
            "= status the run met its limit of 1 s",
            "= norris Limit \"1 s\" after 1",
            "= ended Budget \"\"",
        ],
    );
}

#[test]
fn money_is_a_limit_too_and_a_budget_says_whose_it_is() {
    check(
        9,
        &["spent cost 50", "done 0 - a", "tool a ok"],
        &[
            "> open 0",
            "= says 0 \"\" +1",
            "= started a",
            "> call a",
            "= result a \"ok\"",
            "= status the run met its limit of $0.00000005",
            "= norris Limit \"$0.00000005\" after 1",
            "= ended Budget \"\"",
        ],
    );
    check(
        9,
        &["done 0 - a", "tool a ok", "budget", "dropped 16 -"],
        &[
            "> open 0",
            "= says 0 \"\" +1",
            "= started a",
            "> call a",
            "= result a \"ok\"",
            "= norris step 2",
            "> open 16",
            "> abandon",
            "= norris Limit \"all of it is used up\" after 2",
            "= ended Budget \"\"",
        ],
    );
}

/// In a run what commands print goes to the model with the next step, whatever is configured.
#[test]
fn a_line_that_proposes_a_command_is_an_act() {
    check(
        9,
        &[
            "says 0 CMD: always",
            "ran cmd0-0 0 a",
            "calls-and-says 16 b CMD: always",
            "tool b ok",
            "ran cmd1-0 1 c",
            "says 32 CMD: always|DONE: tidy",
        ],
        &[
            "> open 0",
            "= says 0 \"CMD: always\" +0 cmd0-0=\"always\"",
            "= runs cmd0-0 \"always\"",
            "> run cmd0-0",
            "= over cmd0-0 exit code 0: \"a\" AtOnce",
            "= norris step 2",
            "> open 16",
            "= says 1 \"CMD: always\" +1 cmd1-0=\"always\"",
            "= started b",
            "> call b",
            "= result b \"ok\"",
            "= runs cmd1-0 \"always\"",
            "> run cmd1-0",
            "= over cmd1-0 exit code 1: \"c\" AtOnce",
            "= norris step 3",
            "> open 32",
            "= says 2 \"CMD: always\\nDONE: tidy\" +0 cmd2-0=\"always\"",
            "= over cmd2-0 not run: \"[aish] the turn ended first\" WithNextQuestion",
            "= norris Done \"tidy\" after 3",
            "= ended End \"CMD: always\\nDONE: tidy\"",
        ],
    );
}

#[test]
fn a_command_that_runs_when_the_daemon_ends_is_unknown_and_not_run_again() {
    check(
        9,
        &[
            "says 0 CMD: always|CMD: always",
            "shutdown",
            "ran cmd0-0 0 late",
            "resume",
        ],
        &[
            "> open 0",
            "= says 0 \"CMD: always\\nCMD: always\" +0 cmd0-0=\"always\" cmd0-1=\"always\"",
            "= runs cmd0-0 \"always\"",
            "> run cmd0-0",
            "= over cmd0-0 interrupted while it ran; its effect is unknown and it is not run again: \"\" AtOnce",
            "= over cmd0-1 not run: \"[aish] interrupted by a restart\" AtOnce",
            "= norris paused Interrupted",
            "> abandon",
            "= norris resumed",
            "= norris step 2",
            "> open 32",
        ],
    );
}

#[test]
fn a_model_that_writes_is_cut_when_the_time_is_over() {
    check(
        9,
        &[
            "spent ms 999",
            "time",
            "spent ms 1000",
            "time",
            "dropped 0 half",
        ],
        &[
            "> open 0",
            "> abandon",
            "= says 0 \"half\" +0 (cut)",
            "= status the run met its limit of 1 s",
            "= norris Limit \"1 s\" after 1",
            "= ended Budget \"half\"",
        ],
    );
}

/// What is waited for is taken from this whenever the actor looks, so that nothing waits for a run that is over.
#[test]
fn its_time_is_waited_for_only_while_a_model_is_asked() {
    for (script, expected) in [
        (&[][..], Some(1000)),
        (&["spent ms 400"], Some(600)),
        (&["busy 0 - 200"], Some(1000)),
        (&["pause"], Some(1000)),
        (&["pause", "done 0 - a"], None),
        (&["done 0 - a"], None),
        (&["done 0 - a?"], None),
        (&["done 0 - a", "tool a ok"], Some(1000)),
        (&["spent ms 1000", "time"], None),
        (&["cancel"], None),
        (&["shutdown", "dropped 0 half"], None),
        (&["done 0 DONE:all of it"], None),
    ] {
        let mut scene = scene(limits(9));
        for line in script {
            play(&mut scene, line);
        }
        assert_eq!(expected, scene.turn.time_left(), "{script:?}");
    }
}

#[test]
fn who_does_nothing_is_told_so_and_then_given_up() {
    check(
        9,
        &["done 0 hm", "done 16 hm", "done 32 hm"],
        &[
            "> open 0",
            "= says 0 \"hm\" +0",
            "= norris nudged",
            "= norris step 2",
            "> open 16",
            "= says 1 \"hm\" +0",
            "= norris nudged",
            "= norris step 3",
            "> open 32",
            "= says 2 \"hm\" +0",
            "= norris Halted \"it does nothing and says nothing\" after 3",
            "= ended End \"hm\"",
        ],
    );
}

#[test]
fn nothing_new_begins_while_it_is_paused() {
    check(
        9,
        &[
            "pause",
            "pause",
            "done 0 - a b",
            "resume",
            "pause",
            "tool a ok",
            "resume",
            "tool b ok",
        ],
        &[
            "> open 0",
            "= norris paused Person",
            "= says 0 \"\" +2",
            "= norris resumed",
            "= started a",
            "> call a",
            "= norris paused Person",
            "= result a \"ok\"",
            "= norris resumed",
            "= started b",
            "> call b",
            "= result b \"ok\"",
            "= norris step 2",
            "> open 16",
        ],
    );
}

#[test]
fn a_yes_while_it_is_paused_waits_for_its_end() {
    check(
        9,
        &["done 0 - a?", "pause", "answer yes", "resume"],
        &[
            "> open 0",
            "= says 0 \"\" +1",
            "= asks c1 about a",
            "= norris paused Person",
            "= Allowed c1",
            "= norris resumed",
            "= started a",
            "> call a",
        ],
    );
}

#[test]
fn a_person_stops_it_wherever_it_is() {
    for script in [
        &["cancel", "dropped 0 -"][..],
        &["pause", "done 0 - a", "cancel"],
        &["done 0 - a", "pause", "tool a ok", "cancel"],
        &["done 0 - a", "cancel"],
        &["done 0 - a?", "cancel"],
        &["done 0 - a?", "answer abort"],
    ] {
        let mut scene = scene(limits(9));
        script.iter().for_each(|it| play(&mut scene, it));
        let seen = scene.seen.iter().filter(|it| it.contains("Stopped"));
        assert_eq!(1, seen.count(), "{script:?}: {:#?}", scene.seen);
        assert!(
            scene.seen.iter().any(|it| it.starts_with("= ended ")),
            "{script:?}"
        );
    }
}

/// The daemon ends, and nothing goes on by itself.
#[test]
fn it_stands_still_when_its_daemon_ends() {
    check(
        9,
        &["done 0 - a b", "shutdown", "tool a late", "resume"],
        &[
            "> open 0",
            "= says 0 \"\" +2",
            "= started a",
            "> call a",
            "= result a \"[aish] interrupted: the daemon ended while it ran; the effect of this call is unknown\"",
            "= result b \"[aish] interrupted by a restart\"",
            "= norris paused Interrupted",
            "> abandon",
            "= norris resumed",
            "= norris step 2",
            "> open 32",
        ],
    );
}

#[test]
fn one_that_is_taken_up_waits_for_a_person_and_then_takes_a_new_step() {
    let mut before = standing(limits(3));
    before.step = 2;
    let used = Usage {
        input: Some(40),
        ..Usage::default()
    };
    let spent = RunSpending {
        tokens: 40,
        ..RunSpending::default()
    };
    let mut run = RunState::of(&before);
    run.note_spent(spent);
    let (turn, told) = Turn::take_up(run, 2, used);
    let pause = RunPause::Interrupted;
    assert_eq!(Some(NorrisEvent::Paused { pause, spent }), told);
    let mut scene = Scene::start();
    (scene.turn, scene.seen) = (turn, vec![]);
    assert!(scene.turn.stands_still());
    for line in ["resume", "done 16 - a", "tool a ok"] {
        play(&mut scene, line);
    }
    let expected = [
        "= norris resumed",
        "= norris step 3",
        "> open 16",
        "= says 2 \"\" +1",
        "= started a",
        "> call a",
        "= result a \"ok\"",
        "= status the run met its limit of 3 steps",
        "= norris Limit \"3 steps\" after 3",
        "= ended Budget \"\"",
    ];
    assert_eq!(expected.as_slice(), scene.seen);
    before.paused = Some(RunPause::Interrupted);
    assert_eq!(None, Turn::take_up(RunState::of(&before), 2, used).1);
}

/// What may happen next, at random.
fn act(scene: &mut Scene, what: u8) {
    let stream = scene
        .seen
        .iter()
        .rev()
        .find_map(|it| it.strip_prefix("> open "));
    let stream: String = stream.unwrap_or("0").to_owned();
    let count = scene.seen.len();
    let line = match what {
        0 => format!("done {stream} hm"),
        1 => format!("done {stream} - a{count}"),
        2 => format!("done {stream} - a{count} b{count}? c{count}"),
        3 => format!("done {stream} - a{count}- b{count}!"),
        4 => format!("done {stream} DONE:x a{count}"),
        5 => format!("cut {stream} part"),
        6 => "answer yes".to_owned(),
        7 => "answer no".to_owned(),
        8 => "pause".to_owned(),
        9 => "resume".to_owned(),
        10 => "cancel".to_owned(),
        11 => "shutdown".to_owned(),
        12 => format!("dropped {stream} half"),
        13 => "time".to_owned(),
        14 => format!("says {stream} CMD: always"),
        15 => format!("calls-and-says {stream} d{count} CMD: ask|CMD: always"),
        16 => {
            let running = scene
                .seen
                .iter()
                .rev()
                .find_map(|it| it.strip_prefix("> run "));
            format!("ran {} 0 out", running.unwrap_or("none"))
        }
        _ => {
            let running = scene
                .seen
                .iter()
                .rev()
                .find_map(|it| it.strip_prefix("> call "));
            format!("tool {} ok", running.unwrap_or("none"))
        }
    };
    play(scene, &line);
}

proptest! {
    /// Whatever happens in whatever order: every call has at most one reply and never two starts, nothing begins while it is
    /// paused, it takes no more steps than it may, and it ends once, with every call answered.
    #[test]
    fn whatever_happens_a_run_keeps_its_bounds(script in proptest::collection::vec(0u8..20, 0..60)) {
        let mut scene = scene(limits(4));
        for what in script {
            let (paused, before) = (scene.turn.is_paused(), scene.seen.len());
            act(&mut scene, what);
            let now = &scene.seen[before..];
            if paused && what != 9 {
                let begins = |it: &&String| ["> open", "> call", "> run"].iter().any(|sign| it.starts_with(sign));
                prop_assert_eq!(0, now.iter().filter(begins).count(), "{:#?}", scene.seen);
            }
        }
        let mut replies: HashMap<&str, u32> = HashMap::new();
        let (mut called, mut ended, mut opened) = (vec![], 0, 0);
        for event in &scene.events {
            if let Event::AssistantMessage { calls, commands, complete: true, .. } = event {
                called.extend(calls.iter().map(|it| it.id.as_str()));
                called.extend(commands.iter().map(|it| it.call.as_str()));
            }
            if let Event::ToolResult { call, .. } | Event::ShellFinished { call, .. } = event {
                *replies.entry(call).or_default() += 1;
            }
            ended += i32::from(matches!(event, Event::TurnFinished { .. }));
            opened += i32::from(matches!(event, Event::Norris(NorrisEvent::StepBegun { .. })));
        }
        prop_assert!(replies.values().all(|it| *it == 1), "{:#?}", scene.seen);
        prop_assert!(ended <= 1 && opened <= 3, "{:#?}", scene.seen);
        if ended == 1 {
            prop_assert!(called.iter().all(|it| replies.contains_key(it)), "{:#?}", scene.seen);
            let is_end = matches!(scene.events.last(), Some(Event::TurnFinished { .. }));
            prop_assert!(is_end, "nothing comes behind the end");
        }
        let starts: Vec<_> = scene.seen.iter().filter(|it| it.starts_with("= started") || it.starts_with("= runs")).collect();
        let different: std::collections::HashSet<_> = starts.iter().collect();
        prop_assert_eq!(starts.len(), different.len());
    }
}
