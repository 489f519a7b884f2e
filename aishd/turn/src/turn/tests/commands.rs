//! Commands that answers propose.

use super::*;

/// Plays it with outputs that go back to the model at once.
#[track_caller]
fn check_fed_back(script: &[&str], expected: &[&str]) {
    let mut scene = Scene::start();
    scene.turn.set_feed_back(true);
    for line in script {
        scene.play(line);
    }
    assert_eq!(expected, scene.seen, "\nscript: {script:#?}");
}

#[test]
fn a_command_is_asked_about_marked_run_and_its_output_waits_for_the_next_question() {
    check(
        &["says 0 look:|CMD: ls", "answer yes", "ran cmd0-0 0 a"],
        &[
            "> open 0",
            "= says 0 \"look:\\nCMD: ls\" +0 cmd0-0=\"ls\"",
            "= asks c1 about cmd0-0",
            "= Allowed c1",
            "= runs cmd0-0 \"ls\"",
            "> run cmd0-0",
            "= over cmd0-0 exit code 0: \"a\" WithNextQuestion",
            "= ended End \"look:\\nCMD: ls\"",
        ],
    );
}

#[test]
fn a_called_command_is_asked_about_and_what_became_of_it_is_the_reply() {
    check(
        &[
            "done 0 look a$ls b",
            "answer yes",
            "ran a 0 x",
            "tool b ok",
            "done 16 fine",
        ],
        &[
            "> open 0",
            "= says 0 \"look\" +2 a=\"ls\"",
            "= asks c1 about a",
            "= Allowed c1",
            "= runs a \"ls\"",
            "> run a",
            "= over a exit code 0: \"x\" AtOnce",
            "= started b",
            "> call b",
            "= result b \"ok\"",
            "> open 16",
            "= says 1 \"fine\" +0",
            "= ended End \"fine\"",
        ],
    );
}

/// Calls and lines of one answer: no answer to a call waits for a question, whatever was said to it.
#[test]
fn a_call_is_replied_to_at_once_when_nothing_ran() {
    check(
        &["calls-and-says 0 a$ls CMD: pwd", "answer no", "answer no"],
        &[
            "> open 0",
            "= says 0 \"CMD: pwd\" +1 a=\"ls\" cmd0-0=\"pwd\"",
            "= asks c1 about a",
            "= Denied c1",
            "= over a not run: \"[aish] denied by user\" AtOnce",
            "= asks c3 about cmd0-0",
            "= Denied c3",
            "= over cmd0-0 not run: \"[aish] denied by user\" WithNextQuestion",
            "> open 16",
        ],
    );
}

#[test]
fn each_line_is_asked_about_by_itself_and_in_order() {
    check(
        &[
            "says 0 CMD: ls|CMD: rm x",
            "answer yes",
            "ran cmd0-0 0 a",
            "answer no not on a Friday",
        ],
        &[
            "> open 0",
            "= says 0 \"CMD: ls\\nCMD: rm x\" +0 cmd0-0=\"ls\" cmd0-1=\"rm x\"",
            "= asks c1 about cmd0-0",
            "= Allowed c1",
            "= runs cmd0-0 \"ls\"",
            "> run cmd0-0",
            "= over cmd0-0 exit code 0: \"a\" WithNextQuestion",
            "= asks c4 about cmd0-1",
            "= Denied c4",
            "= over cmd0-1 not run: \"[aish] denied by user: not on a Friday\" WithNextQuestion",
            "= ended End \"CMD: ls\\nCMD: rm x\"",
        ],
    );
}

#[test]
fn an_answer_that_did_not_end_by_itself_proposes_nothing() {
    for ending in ["length", "filter", "other", "refused"] {
        let mut scene = Scene::start();
        scene.play(&format!("says-ended 0 {ending} CMD: ls"));
        assert!(
            scene.confirms == 0 && scene.turn.asking().is_none(),
            "{ending}"
        );
        assert!(scene.seen[1].ends_with("+0"), "{:?}", scene.seen);
    }
    for script in [
        vec!["cut 0 CMD:ls"],
        vec!["cancel", "says 0 CMD: ls"],
        vec!["says 0 ```|CMD: ls|```"],
        vec!["says 0 as I said, CMD: ls"],
    ] {
        let mut scene = Scene::start();
        script.iter().for_each(|it| scene.play(it));
        assert_eq!(0, scene.confirms, "{script:?}");
    }
}

/// What a continued answer goes on from may have opened a fence, or begun the line.
#[test]
fn an_answer_that_goes_on_is_read_with_what_was_before_it() {
    for (before, says, expected) in [
        ("", "CMD: ls", true),
        ("I look.\n", "CMD: ls", true),
        ("I look.", "|CMD: ls", true),
        ("as in: ", "CMD: ls", false),
        ("CMD: rm -rf /tm", "p/x", false),
        ("```sh\n", "CMD: ls|```", false),
        ("```sh\nls\n", "```|CMD: ls", true),
        ("~~~", "~|CMD: ls|~~~~", false),
        ("CMD: ls\n", "That is all.", false),
    ] {
        let mut scene = Scene::start();
        scene.turn.goes_on_from(before.to_owned());
        scene.play(&format!("says 0 {says}"));
        assert_eq!(expected, scene.confirms == 1, "{before:?} {says:?}");
    }
}

#[test]
fn calls_come_first_and_outputs_outlast_the_sub_loop() {
    check(
        &[
            "calls-and-says 0 a CMD: ls",
            "tool a ok",
            "answer yes",
            "ran cmd0-0 0 x",
            "says 16 done",
        ],
        &[
            "> open 0",
            "= says 0 \"CMD: ls\" +1 cmd0-0=\"ls\"",
            "= started a",
            "> call a",
            "= result a \"ok\"",
            "= asks c2 about cmd0-0",
            "= Allowed c2",
            "= runs cmd0-0 \"ls\"",
            "> run cmd0-0",
            "= over cmd0-0 exit code 0: \"x\" WithNextQuestion",
            "> open 16",
            "= says 1 \"done\" +0",
            "= ended End \"done\"",
        ],
    );
}

#[test]
fn the_turn_goes_on_with_outputs_where_that_is_switched_on_and_not_for_ever() {
    check_fed_back(
        &[
            "says 0 CMD: always",
            "ran cmd0-0 0 a",
            "says 16 CMD: always",
            "ran cmd1-0 0 b",
            "says 32 CMD: denied",
        ],
        &[
            "> open 0",
            "= says 0 \"CMD: always\" +0 cmd0-0=\"always\"",
            "= runs cmd0-0 \"always\"",
            "> run cmd0-0",
            "= over cmd0-0 exit code 0: \"a\" AtOnce",
            "> open 16",
            "= says 1 \"CMD: always\" +0 cmd1-0=\"always\"",
            "= runs cmd1-0 \"always\"",
            "> run cmd1-0",
            "= over cmd1-0 exit code 0: \"b\" AtOnce",
            "> open 32",
            "= says 2 \"CMD: denied\" +0 cmd2-0=\"denied\"",
            "= over cmd2-0 not run: \"policy\" AtOnce",
            "= status tool-call depth limit reached (3)",
            "= ended ToolDepth \"CMD: denied\"",
        ],
    );
}

#[test]
fn the_turn_goes_on_with_a_reason_and_rests_where_a_person_only_said_no() {
    let asked = [
        "> open 0",
        "= says 0 \"CMD: ls\" +0 cmd0-0=\"ls\"",
        "= asks c1 about cmd0-0",
        "= Denied c1",
    ];
    let mut with_reason = asked.to_vec();
    with_reason.extend([
        "= over cmd0-0 not run: \"[aish] denied by user: use fd\" AtOnce",
        "> open 16",
    ]);
    check_fed_back(&["says 0 CMD: ls", "answer no use fd"], &with_reason);
    let mut without = asked.to_vec();
    without.extend([
        "= over cmd0-0 not run: \"[aish] denied by user\" WithNextQuestion",
        "= ended End \"CMD: ls\"",
    ]);
    check_fed_back(&["says 0 CMD: ls", "answer no"], &without);
}

#[test]
fn a_no_without_a_reason_goes_along_with_what_another_command_printed() {
    check_fed_back(
        &["says 0 CMD: always|CMD: ls", "ran cmd0-0 0 a", "answer no"],
        &[
            "> open 0",
            "= says 0 \"CMD: always\\nCMD: ls\" +0 cmd0-0=\"always\" cmd0-1=\"ls\"",
            "= runs cmd0-0 \"always\"",
            "> run cmd0-0",
            "= over cmd0-0 exit code 0: \"a\" AtOnce",
            "= asks c2 about cmd0-1",
            "= Denied c2",
            "= over cmd0-1 not run: \"[aish] denied by user\" AtOnce",
            "> open 16",
        ],
    );
}

#[test]
fn a_person_can_put_another_command_in_its_place() {
    check(
        &[
            "says 0 CMD: ls",
            "answer edit {\"command\":\"ls -l\"}",
            "ran cmd0-0 0 a",
        ],
        &[
            "> open 0",
            "= says 0 \"CMD: ls\" +0 cmd0-0=\"ls\"",
            "= asks c1 about cmd0-0",
            "= Allowed c1",
            "= runs cmd0-0 \"ls -l\"",
            "> run cmd0-0",
            "= over cmd0-0 exit code 0: \"a\" WithNextQuestion",
            "= ended End \"CMD: ls\"",
        ],
    );
}

#[test]
fn a_cancelled_turn_says_what_became_of_each_command() {
    check(
        &["says 0 CMD: always|CMD: ls", "cancel", "ran cmd0-0 0 late"],
        &[
            "> open 0",
            "= says 0 \"CMD: always\\nCMD: ls\" +0 cmd0-0=\"always\" cmd0-1=\"ls\"",
            "= runs cmd0-0 \"always\"",
            "> run cmd0-0",
            "= over cmd0-0 cancelled while it ran; its effect is unknown: \"\" WithNextQuestion",
            "= over cmd0-1 not run: \"[aish] cancelled by the user\" WithNextQuestion",
            "= ended Cancelled \"CMD: always\\nCMD: ls\"",
            "> abandon",
        ],
    );
}

#[test]
fn a_change_of_directory_is_told_before_its_command_is_over() {
    check(
        &["says 0 CMD: always", "ran cmd0-0 0 moves"],
        &[
            "> open 0",
            "= says 0 \"CMD: always\" +0 cmd0-0=\"always\"",
            "= runs cmd0-0 \"always\"",
            "> run cmd0-0",
            "= in /v",
            "= over cmd0-0 exit code 0: \"moves\" WithNextQuestion",
            "= ended End \"CMD: always\"",
        ],
    );
}

#[test]
fn more_lines_than_are_taken_are_told_of() {
    let lines = vec!["CMD: always"; 17].join("|");
    let mut scene = Scene::start();
    scene.play(&format!("says 0 {lines}"));
    let told =
        "= status 1 more lines propose commands; they are too many or too long, and are not run";
    assert!(scene.seen.iter().any(|it| it == told), "{:?}", scene.seen);
}

#[test]
fn a_command_waits_for_those_before_it_and_is_judged_again_then() {
    let asked = [
        "> open 0",
        "= says 0 \"CMD: ls\" +0 cmd0-0=\"ls\"",
        "= asks c1 about cmd0-0",
        "= Allowed c1",
    ];
    let mut ran = asked.to_vec();
    ran.extend([
        "= runs cmd0-0 \"ls\"",
        "> run cmd0-0",
        "= over cmd0-0 exit code 0: \"a\" WithNextQuestion",
        "= ended End \"CMD: ls\"",
    ]);
    check(
        &[
            "busy",
            "says 0 CMD: ls",
            "answer yes",
            "freed",
            "ran cmd0-0 0 a",
        ],
        &ran,
    );
    let mut stopped = asked.to_vec();
    stopped.extend([
        "= over cmd0-0 not run: \"[aish] cancelled by the user\" WithNextQuestion",
        "= ended Cancelled \"CMD: ls\"",
        "> abandon",
    ]);
    check(
        &["busy", "says 0 CMD: ls", "answer yes", "cancel", "freed"],
        &stopped,
    );
    let mut scene = Scene::start();
    for line in ["busy", "says 0 CMD: always", "cancel"] {
        let at_rest = scene.turn.is_at_rest();
        assert_eq!(line == "cancel", at_rest, "{line}");
        scene.play(line);
    }
    assert!(!scene.turn.is_at_rest());
}

#[test]
fn a_call_beside_a_command_that_waits_runs_at_once() {
    check(
        &[
            "busy",
            "calls-and-says 0 a CMD: always",
            "tool a ok",
            "freed",
            "ran cmd0-0 0 b",
        ],
        &[
            "> open 0",
            "= says 0 \"CMD: always\" +1 cmd0-0=\"always\"",
            "= started a",
            "> call a",
            "= result a \"ok\"",
            "= runs cmd0-0 \"always\"",
            "> run cmd0-0",
            "= over cmd0-0 exit code 0: \"b\" WithNextQuestion",
            "> open 16",
        ],
    );
}
