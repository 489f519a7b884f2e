//! Outputs of commands: each goes with the next genuine question, once.

use aishd_log::state::ConversationState;

use super::*;

/// Plays a log; what questions took along stands before them, and what waits at the end.
#[track_caller]
fn check(log: &[&str], expected: &[&str]) {
    let transcript = play(log);
    let mut shown: Vec<String> = transcript.messages().map(short).collect();
    let waiting = transcript.outputs.texts.iter();
    shown.extend(waiting.map(|it| format!("waits {}", outputs_in(&it.text))));
    assert_eq!(expected, shown, "\nlog: {log:#?}");
    // Who reads the log from where the state says sees the same.
    let state = state_after(log);
    let records = log.iter().zip(1..).map(|(line, seq)| record(seq, line));
    let records: Vec<Record> = records.collect();
    let mut again = Transcript::default();
    let begin = state.context_begins();
    let rest = records.iter().filter(|it| it.seq > begin);
    rest.for_each(|it| again.apply(it));
    assert_eq!(
        transcript.messages().collect::<Vec<_>>(),
        again.messages().collect::<Vec<_>>(),
        "\nlog: {log:#?}"
    );
    assert_eq!(transcript.outputs.texts, again.outputs.texts, "{log:#?}");
}

fn state_after(log: &[&str]) -> ConversationState {
    let mut state = ConversationState::default();
    for (line, seq) in log.iter().zip(1..) {
        state.apply(&record(seq, line));
    }
    state
}

fn short(message: &TranscriptMessage) -> String {
    match message {
        TranscriptMessage::User { text, .. } => {
            let question = text.rsplit("\n\n").next().unwrap_or_default();
            match outputs_in(text) {
                none if none.is_empty() => format!("user {question}"),
                some if question.starts_with("[aish]") => format!("user {some}"),
                some => format!("user {some} {question}"),
            }
        }
        TranscriptMessage::Assistant { text, .. } => format!("assistant {text}"),
        TranscriptMessage::Tool { call, content, .. } => {
            format!("tool {call} {}", outputs_in(content))
                .trim_end()
                .to_owned()
        }
    }
}

fn outputs_in(text: &str) -> String {
    let outputs = text.split("```output\n").skip(1);
    let outputs: Vec<&str> = outputs.filter_map(|it| it.lines().next()).collect();
    outputs.join("+")
}

#[test]
fn an_output_goes_with_the_next_question_and_with_no_other() {
    check(
        &[
            "- printed o1",
            "- hidden o2",
            "a ask q1",
            "- printed o3",
            "a start",
            "a say r1",
            "a printed o4",
            "a end",
            "b ask q2",
            "b start",
        ],
        &["user o1+o3 q1", "assistant r1", "user o4 q2"],
    );
}

#[test]
fn an_output_of_a_called_command_is_the_reply_of_its_call() {
    check(
        &[
            "a ask q1",
            "a start",
            "a call x",
            "a fed o1 x",
            "a fed o2 cmd0-0",
            "a say r1",
            // An id that was used before is that of a line now.
            "a fed o3 x",
            "a say r2",
            "a end",
        ],
        &[
            "user q1",
            "assistant ",
            "tool x o1",
            "user o2",
            "assistant r1",
            "user o3",
            "assistant r2",
        ],
    );
}

#[test]
fn a_retry_asks_the_same_again_and_leaves_what_waits_to_the_next_question() {
    let log = [
        "- printed o1",
        "a ask q1",
        "a start",
        "a say r1",
        "a printed o2",
        "a end",
        "- printed o3",
        "b retry a q1",
        "b start",
        "b say r2",
        "b end",
    ];
    check(
        &log,
        &["user o1 q1", "assistant r2", "waits o2", "waits o3"],
    );
    let mut more = log.to_vec();
    more.extend([
        "c retry b q1",
        "c start",
        "c say r3",
        "c end",
        "d ask q2",
        "d start",
    ]);
    check(&more, &["user o1 q1", "assistant r3", "user o2+o3 q2"]);
}

#[test]
fn a_continuation_takes_nothing_along() {
    check(
        &[
            "a ask q1",
            "a start",
            "a say r1",
            "a end",
            "- printed o1",
            "b continue a",
            "b start",
            "b say r2",
            "b end",
            "c ask q2",
            "c start",
        ],
        &[
            "user q1",
            "assistant r1",
            "user [aish] Your last answer was interrupted. Continue exactly where it ended.",
            "assistant r2",
            "user o1 q2",
        ],
    );
}

#[test]
fn what_a_continuation_goes_on_from_is_all_that_was_written() {
    let mut log = vec!["a ask q1", "a start", "a say r1", "a end"];
    assert_eq!("", play(&log).goes_on_from());
    log.extend(["b continue a", "b start"]);
    assert_eq!("r1", play(&log).goes_on_from());
    log.extend(["b say r2", "b end", "c continue b", "c start"]);
    assert_eq!("r1r2", play(&log).goes_on_from());
    log.extend(["c say r3", "c end", "d ask q2", "d start"]);
    assert_eq!("", play(&log).goes_on_from());
}

#[test]
fn a_question_that_joins_a_running_turn_takes_them_along() {
    check(
        &[
            "a ask q1",
            "a start",
            "a say r1",
            "- printed o1",
            "b ask q2",
            "b merged a",
            "a say r2",
            "a end",
            "c ask q3",
            "c start",
        ],
        &[
            "user q1",
            "assistant r1",
            "user o1 q2",
            "assistant r2",
            "user q3",
        ],
    );
}

#[test]
fn a_question_that_was_taken_out_leaves_them_to_the_next() {
    check(
        &["- printed o1", "a ask q1", "a end", "b ask q2", "b start"],
        &["user o1 q2"],
    );
}

#[test]
fn what_is_fed_back_stands_where_it_came() {
    check(
        &[
            "a ask q1", "a start", "a say r1", "a fed o1", "a fed o2", "a say r2", "a end",
            "b ask q2", "b start",
        ],
        &[
            "user q1",
            "assistant r1",
            "user o1+o2",
            "assistant r2",
            "user q2",
        ],
    );
}

/// A retry that waits for its preset stands in the queue, so that others come in between.
#[test]
fn what_came_while_a_retry_waited_is_found_by_who_reads_from_behind_it() {
    let log = [
        "a ask q1",
        "a start",
        "a say r1",
        "a end",
        "b retry a q1",
        "c ask q2",
        "- printed o1",
        "b start",
        "b say r2",
        "b end",
        "c start",
        "c say r3",
        "c end",
    ];
    check(
        &log,
        &["user q1", "assistant r2", "user o1 q2", "assistant r3"],
    );
    let transcript = play(&log);
    let state = state_after(&log);
    let eviction = transcript.eviction(1, &state).unwrap();
    assert!(eviction.begin.unwrap() <= Seq(5), "{eviction:?}");
}

/// A retry takes no output along, and stands further on than where the reading began.
#[test]
fn an_output_that_waits_is_found_behind_an_eviction() {
    let log = [
        "a ask q1",
        "a start",
        "a say r1",
        "a end",
        "b retry a q1",
        "c retry a q1",
        "- printed o1",
        "b start",
        "b say r2",
        "b end",
        "c start",
    ];
    let transcript = play(&log);
    let state = state_after(&log);
    let eviction = transcript.eviction(1, &state).unwrap();
    assert!(eviction.begin.unwrap() <= Seq(5), "{eviction:?}");
}

/// A question that waited while another was preferred is in no queue any more when it is read.
#[test]
fn a_question_that_waits_is_found_behind_an_eviction() {
    let log = [
        "a ask q1", "b ask q2", "c ask q3", "c start", "c say r3", "c end", "b start", "b say r2",
        "b end", "a start",
    ];
    let state = state_after(&log);
    let before = play(&log[..9]);
    let eviction = before.eviction(1, &state).unwrap();
    assert!(eviction.begin.unwrap() <= Seq(1), "{eviction:?}");
}
