//! Calls, confirms and replies.

use proptest::prelude::*;

use super::*;

#[test]
fn a_call_that_is_asked_about_waits_for_its_answer() {
    check(
        &["done 0 - a?", "answer yes", "tool a ok"],
        &[
            "> open 0",
            "= says 0 \"\" +1",
            "= asks c1 about a",
            "= Allowed c1",
            "= started a",
            "> call a",
            "= result a \"ok\"",
            "> open 16",
        ],
    );
    check(
        &["done 0 - a?", "answer no"],
        &[
            "> open 0",
            "= says 0 \"\" +1",
            "= asks c1 about a",
            "= Denied c1",
            "= result a \"[aish] denied by user\"",
            "> open 16",
        ],
    );
    check(
        &["done 0 - a? b", "answer no not on a Friday"],
        &[
            "> open 0",
            "= says 0 \"\" +2",
            "= asks c1 about a",
            "= Denied c1",
            "= result a \"[aish] denied by user: not on a Friday\"",
            "= started b",
            "> call b",
        ],
    );
    check(
        &["done 0 - a?", "answer expired", "answer yes"],
        &[
            "> open 0",
            "= says 0 \"\" +1",
            "= asks c1 about a",
            "= Expired c1",
            "= result a \"[aish] denied: nobody answered in time\"",
            "> open 16",
        ],
    );
}

/// The model is told that somebody else chose the arguments.
#[test]
fn edited_arguments_run_and_the_model_is_told() {
    check(
        &["done 0 - a?", "answer edit {\"x\":1}", "tool a ok"],
        &[
            "> open 0",
            "= says 0 \"\" +1",
            "= asks c1 about a",
            "= Allowed c1",
            "= started a {\"x\":1}",
            "> call a",
            "= result a \"[aish] the user changed the arguments to {\\\"x\\\":1}; this is the result of that call\\nok\"",
            "> open 16",
        ],
    );
}

/// It runs what was approved, or it asks again.
#[test]
fn what_changed_under_an_approval_is_asked_about_again() {
    for answer in ["answer other-digest", "answer withdrawn"] {
        let fate = if answer.ends_with("withdrawn") {
            "= Cancelled c1"
        } else {
            "= Allowed c1"
        };
        check(
            &["done 0 - a?", answer],
            &[
                "> open 0",
                "= says 0 \"\" +1",
                "= asks c1 about a",
                fate,
                "= asks c2 about a",
            ],
        );
    }
}

#[test]
fn an_abort_ends_the_turn_and_answers_every_call() {
    check(
        &["done 0 so a? b", "answer abort"],
        &[
            "> open 0",
            "= says 0 \"so\" +2",
            "= asks c1 about a",
            "= Denied c1",
            "= result a \"[aish] denied by user\"",
            "= result b \"[aish] the user ended the turn\"",
            "= ended Denied \"so\"",
        ],
    );
}

#[test]
fn a_cancel_takes_an_open_confirm_with_it() {
    check(
        &["done 0 - a? b", "cancel", "answer yes"],
        &[
            "> open 0",
            "= says 0 \"\" +2",
            "= asks c1 about a",
            "= Cancelled c1",
            "= result a \"[aish] cancelled by the user\"",
            "= result b \"[aish] cancelled by the user\"",
            "= ended Cancelled \"\"",
            "> abandon",
        ],
    );
}

/// What began and was not heard of again is unknown, whoever ended it.
#[test]
fn the_effect_of_a_call_that_was_stopped_is_unknown() {
    check(
        &["done 0 - a b", "shutdown", "tool a late"],
        &[
            "> open 0",
            "= says 0 \"\" +2",
            "= started a",
            "> call a",
            "= result a \"[aish] interrupted: the daemon ended while it ran; the effect of this call is unknown\"",
            "= result b \"[aish] interrupted by a restart\"",
            "= ended Interrupted \"\"",
            "> abandon",
        ],
    );
}

#[test]
fn the_same_call_is_asked_about_three_times() {
    check(
        &[
            "done 0 - a1? a2? a3? a4? b?",
            "answer no",
            "answer no",
            "answer no",
        ],
        &[
            "> open 0",
            "= says 0 \"\" +5",
            "= asks c1 about a1",
            "= Denied c1",
            "= result a1 \"[aish] denied by user\"",
            "= asks c6 about a2",
            "= Denied c6",
            "= result a2 \"[aish] denied by user\"",
            "= asks c10 about a3",
            "= Denied c10",
            "= result a3 \"[aish] denied by user\"",
            "= result a4 \"[aish] denied by user, and not asked about again in this turn\"",
            "= asks c15 about b",
        ],
    );
}

/// What it would come to is known: a person is not asked for ever by a model that goes round in a circle.
#[test]
fn what_came_to_the_same_twice_is_not_asked_about_a_third_time() {
    let mut scene = Scene::with_depth(9);
    for line in [
        "done 0 - a$ls b$ls c$ls d$ls",
        "answer yes",
        "ran a 1 x",
        "answer yes",
        "ran b 1 x",
        "done 16 - f$ls",
    ] {
        scene.play(line);
    }
    let same = "it ran twice in this turn and came to the same, so nobody is asked a third time; nothing ran";
    let seen: Vec<&String> = scene.seen.iter().filter(|it| it.starts_with('=')).collect();
    assert_eq!(
        [
            "= says 0 \"\" +4 a=\"ls\" b=\"ls\" c=\"ls\" d=\"ls\"",
            "= asks c1 about a",
            "= Allowed c1",
            "= runs a \"ls\"",
            "= over a exit code 1: \"x\" AtOnce",
            "= asks c8 about b",
            "= Allowed c8",
            "= runs b \"ls\"",
            "= over b exit code 1: \"x\" AtOnce",
            &format!("= status {same}"),
            &format!("= over c not run: \"[aish] {same}\" AtOnce"),
            &format!("= status {same}"),
            &format!("= over d not run: \"[aish] {same}\" AtOnce"),
            "= says 1 \"\" +1 f=\"ls\"",
            &format!("= status {same}"),
            &format!("= over f not run: \"[aish] {same}\" AtOnce"),
            "= status the model goes round in a circle; the turn is over",
            "= ended ToolDepth \"\"",
        ],
        seen[..],
    );
}

#[test]
fn what_comes_to_something_else_each_time_is_asked_about_each_time() {
    let mut scene = Scene::with_depth(9);
    scene.play("done 0 - a$ls b$ls c$ls d$ls");
    for line in ["ran a 0 x", "ran b 0 y", "ran c 0 y"] {
        scene.play("answer yes");
        scene.play(line);
    }
    assert!(scene.turn.asking().is_none(), "it came to y twice");
    let mut scene = Scene::with_depth(9);
    scene.play("done 0 - a$ls b$ls c$ls d$ls");
    for line in ["ran a 0 x", "ran b 0 y", "ran c 0 x"] {
        scene.play("answer yes");
        scene.play(line);
    }
    assert!(scene.turn.asking().is_some());
}

/// As who edits and builds, edits and builds: the same error is no circle while something else is done about it.
#[test]
fn what_comes_to_the_same_is_asked_about_while_other_things_change() {
    let mut scene = Scene::with_depth(9);
    scene.play("done 0 - a$make b$edit1 c$make d$edit2 e$make f g$make h$make");
    for line in [
        "ran a 1 x",
        "ran b 0 one",
        "ran c 1 x",
        "ran d 0 two",
        "ran e 1 x",
    ] {
        scene.play("answer yes");
        scene.play(line);
    }
    scene.play("tool f ok");
    scene.play("answer yes");
    scene.play("ran g 1 x");
    assert!(
        scene.turn.asking().is_none(),
        "nothing changed before the last"
    );
}

#[test]
fn calls_that_only_read_run_side_by_side_up_to_the_next_other_one() {
    check(
        &[
            "done 0 - a~ b~ c d~",
            "tool b 2",
            "tool a 1",
            "tool c 3",
            "tool d 4",
        ],
        &[
            "> open 0",
            "= says 0 \"\" +4",
            "= started a",
            "= started b",
            "> call a",
            "> call b",
            "= result b \"2\"",
            "= result a \"1\"",
            "= started c",
            "> call c",
            "= result c \"3\"",
            "= started d",
            "> call d",
            "= result d \"4\"",
            "> open 16",
        ],
    );
    check(
        &["done 0 - a~ b? c~", "tool a 1", "answer no"],
        &[
            "> open 0",
            "= says 0 \"\" +3",
            "= started a",
            "> call a",
            "= result a \"1\"",
            "= asks c2 about b",
            "= Denied c2",
            "= result b \"[aish] denied by user\"",
            "= started c",
            "> call c",
        ],
    );
}

#[test]
fn what_policy_denies_is_answered_without_a_question() {
    check(
        &["done 0 - a- b!"],
        &[
            "> open 0",
            "= says 0 \"\" +2",
            "= result a \"policy\"",
            "= status broken",
            "= result b \"broken\"",
            "> open 16",
        ],
    );
}

/// Nobody is to take half of an answer for the whole.
#[test]
fn an_answer_that_its_server_ended_for_reasons_of_its_own_says_so() {
    let remark = |lines: &[&str]| {
        let mut scene = Scene::start();
        (scene.turn, _) = Turn::start(/*max_depth*/ 8);
        lines.iter().for_each(|it| scene.play(it));
        let said = scene.events.iter().find_map(|it| match it {
            Event::Status { text, .. } => Some(text.clone()),
            _ => None,
        });
        (
            said.unwrap_or_default(),
            scene.seen.last().cloned().unwrap_or_default(),
        )
    };
    let (said, end) = remark(&["says-ended 0 other half"]);
    assert!(said.contains("not known here"), "{said}");
    assert_eq!("= ended End \"half\"", end);
    let (said, end) = remark(&["says-ended 0 paused half"]);
    assert_eq!(("", true), (&*said, end.starts_with("> open")), "{end}");
    let pauses = ["0", "16", "32", "48"].map(|it| format!("says-ended {it} paused half"));
    let (said, end) = remark(&pauses.each_ref().map(String::as_str));
    assert!(
        said.contains("paused this answer again and again"),
        "{said}"
    );
    assert!(end.starts_with("= ended End"), "{end}");
    let (said, _) = remark(&["says-ended 0 stop whole"]);
    assert_eq!("", said);
}

/// What a new daemon finds waiting at this, and what comes of it.
#[track_caller]
fn check_paused(at: impl Fn(&[ToolCall]) -> PausedAt, lines: &[&str], expected: &[&str]) {
    let calls: Vec<ToolCall> = ["a?", "b"].map(call).to_vec();
    let paused = Paused {
        items: 2,
        depth: 1,
        usage: Usage::default(),
        text: "so".into(),
        at: at(&calls),
        owing: calls.into_iter().map(OwedReplies::Call).collect(),
        called: true,
        course: None,
    };
    let mut scene = Scene {
        turn: Turn::resume(paused, /*max_depth*/ 3),
        seen: vec![],
        events: vec![],
        confirms: 7,
        busy: false,
    };
    for line in lines {
        scene.play(line);
    }
    assert_eq!(expected, scene.seen);
}

/// A turn that a new daemon finds waiting goes on as if nothing had been.
#[test]
fn a_paused_turn_goes_on() {
    check_paused(
        |calls| PausedAt::Confirm(Box::new(confirm(7, &calls[0]))),
        &["answer yes", "tool a 1", "tool b 2", "done 32 end"],
        &[
            "= Allowed c7",
            "= started a",
            "> call a",
            "= result a \"1\"",
            "= started b",
            "> call b",
            "= result b \"2\"",
            "> open 32",
            "= says 2 \"end\" +0",
            "= ended End \"end\"",
        ],
    );
    // A server works on the first: it is not started again, and what stands behind it begins after it.
    check_paused(
        |calls| PausedAt::Calls(vec![calls[0].id.clone()]),
        &["tool a 1", "tool b 2", "done 32 end"],
        &[
            "= result a \"1\"",
            "= started b",
            "> call b",
            "= result b \"2\"",
            "> open 32",
            "= says 2 \"end\" +0",
            "= ended End \"end\"",
        ],
    );
}

/// Something that happens, whether or not the turn waits for it.
fn anything() -> impl Strategy<Value = String> {
    let ids = prop::sample::select(vec!["a", "b~", "c?", "d-", "e!", "f~", "g?", "h"]);
    let message = prop::collection::vec(ids, 0..5).prop_map(|mut ids| {
        ids.sort_unstable();
        ids.dedup();
        ids.join(" ")
    });
    let stream = prop::sample::select(vec![0, 1, 16, 17, 32]);
    prop_oneof![
        3 => (stream.clone(), message).prop_map(|(stream, calls)| format!("done {stream} - {calls}").trim_end().to_owned()),
        1 => stream.prop_map(|it| format!("cut {it} half")),
        4 => prop::sample::select(vec!["a", "b", "c", "f", "g", "h"]).prop_map(|it| format!("tool {it} ok")),
        3 => prop::sample::select(vec!["yes", "no", "abort", "expired", "withdrawn", "edit {}", "other-digest"])
            .prop_map(|it| format!("answer {it}")),
        1 => Just("cancel".to_owned()),
        1 => Just("shutdown".to_owned()),
        1 => Just("dropped 0 half".to_owned()),
    ]
}

proptest! {
    /// Whatever comes in whatever order, every call has at most one start and one reply, and once the
    /// turn is over exactly one; every confirm one end; and nothing that was asked about starts without a yes.
    #[test]
    fn every_call_has_exactly_one_reply(script in prop::collection::vec(anything(), 0..40)) {
        let mut scene = Scene::start();
        for line in &script {
            scene.play(line);
        }
        scene.play("cancel");
        scene.play("dropped 0 -");
        scene.play("dropped 16 -");
        scene.play("dropped 17 -");
        scene.play("dropped 32 -");
        let mut owed: Vec<String> = vec![];
        let mut started: Vec<String> = vec![];
        let mut open = None;
        let mut allowed = vec![];
        let mut ends = 0;
        for event in &scene.events {
            prop_assert_eq!(0, ends, "nothing comes after the end");
            match event {
                Event::AssistantMessage { calls, commands, .. } => {
                    prop_assert!(owed.is_empty(), "an answer before the replies to the last");
                    owed = calls.iter().map(|it| it.id.clone()).collect();
                    owed.extend(commands.iter().map(|it| it.call.clone()));
                    started.clear();
                    allowed.clear();
                }
                Event::ConfirmRequested(confirm) => {
                    prop_assert!(open.is_none());
                    open = confirm.call().map(|it| (confirm.id, it.id.clone()));
                }
                Event::ConfirmResolved(resolution) => {
                    let (id, call) = open.take().unwrap();
                    prop_assert_eq!(id, resolution.confirm);
                    if resolution.fate == ConfirmFate::Allowed {
                        allowed.push(call);
                    }
                }
                Event::ToolStarted { call, rule, .. } | Event::ShellStarted { call, rule, .. } => {
                    prop_assert!(open.is_none() && owed.contains(call) && !started.contains(call));
                    prop_assert!(rule == "rule" || allowed.contains(call), "{} ran without a yes", call);
                    started.push(call.clone());
                }
                Event::ToolResult { call, .. } | Event::ShellFinished { call, .. } => {
                    let at = owed.iter().position(|it| it == call);
                    prop_assert!(at.is_some(), "a second reply to {}", call);
                    owed.remove(at.unwrap());
                }
                Event::TurnFinished { .. } => ends += 1,
                _ => {}
            }
        }
        prop_assert_eq!((1, 0, true), (ends, owed.len(), open.is_none()), "{:?}", scene.seen);
    }
}
