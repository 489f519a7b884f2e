use std::fmt::Write as _;

use aish_proto::id::Seq;
use aishd_log::event::Record;
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;

use super::*;
use crate::turn::answer_with_calls;

/// Turns by number, so that facts can be compared.
fn numbers() -> impl FnMut() -> TurnId {
    let mut last = 0;
    move || {
        last += 1;
        TurnId::from_bytes([last; 16])
    }
}

pub(crate) fn imported(text: &str) -> Result<(Vec<ImportedFact>, ImportedFrom), ImportFault> {
    let mut new_turn = numbers();
    let mut import = TextImport::default();
    let mut facts = vec![];
    import.take(text, &mut new_turn, &mut facts)?;
    let imported = import.finish(&mut new_turn, &mut facts)?;
    Ok((facts, imported))
}

fn shown(facts: &[ImportedFact]) -> String {
    let mut shown = String::new();
    for (turn, event) in facts {
        let turn = turn.to_bytes()[0];
        let line = if let Event::UserMessage { text, .. } = event {
            format!("asked {text:?}")
        } else if let Event::AssistantMessage {
            item, text, calls, ..
        } = event
        {
            let calls: Vec<_> = calls
                .iter()
                .map(|it| format!(" {}({})", it.name, it.arguments))
                .collect();
            format!("answer {item} {text:?}{}", calls.concat())
        } else if let Event::ToolResult { call, content, .. } = event {
            format!("result {call} {content:?}")
        } else if let Event::TurnFinished { text, .. } = event {
            format!("end {text:?}")
        } else {
            "start".to_owned()
        };
        writeln!(shown, "{turn} {line}").unwrap();
    }
    shown
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let (facts, _) = imported(text).unwrap();
    assert_eq!(expected.trim_start(), shown(&facts), "{text}");
}

fn wrong(text: &str) -> String {
    imported(text).unwrap_err().to_string()
}

const CALL: &str = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"fs__read","arguments":"{\"p\":1}"}}]}"#;

#[test]
fn an_example_becomes_turns_that_are_over() {
    check(
        r#"{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"why?"},{"role":"assistant","content":"so","weight":1}],"tools":[]}
{"messages":[{"role":"user","content":[{"type":"text","text":"and "},{"type":"text","text":"now?"}]},{"role":"assistant","content":null,"refusal":"no"}]}
"#,
        r#"
1 asked "why?"
1 start
1 answer 0 "so"
1 end "so"
2 asked "and now?"
2 start
2 answer 0 "no"
2 end "no"
"#,
    );
}

#[test]
fn lines_of_one_message_each_are_one_conversation() {
    let text = format!(
        "\u{feff}{}\r\n\n{CALL}\n{}\n{}",
        r#"{"role":"user","content":"read"}"#,
        r#"{"role":"tool","tool_call_id":"a","content":"42"}"#,
        r#"{"role":"assistant","content":"it is 42"}"#
    );
    check(
        &text,
        r#"
1 asked "read"
1 start
1 answer 0 "" fs__read({"p":1})
1 result a "42"
1 answer 1 "it is 42"
1 end "it is 42"
"#,
    );
}

/// Examples that teach a model to call end with the call.
#[test]
fn a_call_at_the_end_of_an_example_gets_a_result_that_says_there_is_none() {
    let example = format!(r#"{{"messages":[{{"role":"user","content":"q"}},{CALL}]}}"#);
    let (facts, counted) = imported(&format!("{example}\n{example}\n")).unwrap();
    let result = shown(&facts);
    assert_eq!(
        2,
        result.matches("result a \"[aish] no result\"").count(),
        "{result}"
    );
    assert_eq!(
        (2, 4, 2, 0),
        (
            counted.exchanges,
            counted.messages,
            counted.unanswered,
            counted.left_out
        )
    );
}

#[test]
fn what_is_wrong_is_said_with_line_and_column() {
    let user = r#"{"role":"user","content":"q"}"#;
    let twice = r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"x","arguments":""}},{"id":"a","function":{"name":"x","arguments":""}}]}"#;
    let texts = [
        String::new(),
        "\n \n".to_owned(),
        "nonsense".to_owned(),
        "{}".to_owned(),
        " [1]".to_owned(),
        r#"{"messages":[["user","q"]]}"#.to_owned(),
        r#"{"messages":[],"role":"user"}"#.to_owned(),
        r#"{"messages":[}"#.to_owned(),
        format!("{user}\n{{\"messages\":[{user}]}}"),
        r#"{"messages":[{"role":"user","content":"é"},{"role":"wizard","content":""}]}"#.to_owned(),
        r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}"#
            .to_owned(),
        format!(
            "{user}\n{}",
            r#"{"role":"tool","tool_call_id":"z","content":"x"}"#
        ),
        format!("{user}\n{CALL}\n{user}"),
        r#"{"role":"assistant","content":"hello"}"#.to_owned(),
        format!("{user}\n{}", CALL.replace("{\\\"p\\\":1}", "[1]")),
        format!("{user}\n{twice}"),
        r#"{"role":"user","content":"q","function_call":{}}"#.to_owned(),
        r#"{"role":"user"}"#.to_owned(),
        r#"{"role":"user","content":7}"#.to_owned(),
        "{\"role\":\"user\",\"content\":\"\\ud800\"}".to_owned(),
    ];
    let told: Vec<String> = texts.iter().map(|it| wrong(it)).collect();
    expect_test::expect_file!["../../../../tests/data/import/wrong.txt"]
        .assert_eq(&(told.join("\n") + "\n"));
}

#[test]
fn the_same_result_twice_is_one_too_many() {
    let lines = [
        r#"{"role":"user","content":"q"}"#,
        CALL,
        r#"{"role":"tool","tool_call_id":"a","content":"x"}"#,
        r#"{"role":"tool","tool_call_id":"a","content":"x"}"#,
    ];
    assert_eq!(
        "line 4, column 1: no call \"a\" waits for this result",
        wrong(&lines.join("\n"))
    );
}

#[test]
fn what_is_too_long_is_refused_before_it_is_held() {
    let mut import = TextImport::default();
    let piece = "x".repeat(1 << 20);
    let mut taken = 0;
    let fault = loop {
        match import.take(&piece, &mut numbers(), &mut vec![]) {
            Ok(()) => taken += piece.len(),
            Err(fault) => break fault,
        }
    };
    assert_eq!(LINE_BYTES, taken);
    assert!(import.open.capacity() <= 2 * LINE_BYTES);
    assert_eq!(
        "line 1, column 1: a line has at most 33554432 bytes",
        fault.to_string()
    );
    let message = format!(
        r#"{{"role":"user","content":"{}"}}"#,
        "x".repeat(MESSAGE_BYTES)
    );
    assert_eq!(
        "line 1, column 1: a message has at most 7340032 bytes",
        wrong(&message)
    );
    let deep = format!("{{\"role\":\"user\",\"content\":{}", "[".repeat(100_000));
    assert!(imported(&deep).is_err());
}

/// It folds to a state from its events alone, in which nothing is owed, allowed or used.
#[test]
fn what_was_imported_leaves_nothing_open_and_grants_nothing() {
    let example = format!(r#"{{"messages":[{{"role":"user","content":"why?"}},{CALL}]}}"#);
    let (facts, counted) = imported(&example).unwrap();
    let mut state = ConversationState::default();
    let created = Event::Created {
        title: None,
        model: None,
        cwd: "/".to_owned(),
        forked_from: None,
        constraints: aishd_log::constraints::Constraints::default(),
        importing: true,
        temporary: false,
        budget: aishd_log::budget::BudgetLimits::default(),
    };
    let facts = facts.into_iter().map(|(turn, event)| (Some(turn), event));
    let all = std::iter::once((None, created)).chain(facts);
    for ((turn, event), seq) in all.zip(1..) {
        let record = Record {
            seq: Seq(seq),
            at: Timestamp(0),
            turn,
            client: None,
            event,
        };
        state.apply(&record);
        assert!(state.importing && state.is_unsettled());
        assert!(
            !aishd_log::audit::fact::is_audited(&record.event),
            "{record:?}"
        );
    }
    let end = Event::Imported(counted);
    state.apply(&Record {
        seq: Seq(7),
        at: Timestamp(0),
        turn: None,
        client: None,
        event: end,
    });
    assert!(!state.importing && !state.is_unsettled() && !state.held);
    assert_eq!((1, "why?"), (state.turns, state.title()));
    assert_eq!(
        (ConversationState::default().grants, None, Seq(7)),
        (state.grants, state.began, state.imported)
    );
    assert!(state.used.is_empty() && state.confirms.is_empty());
    // A call that was made here is told of as ever.
    assert!(!aishd_log::audit::fact::is_audited(&answer_with_calls(
        0,
        vec![]
    )));
}

proptest::proptest! {
    #[test]
    fn pieces_give_what_the_whole_gives(cuts in proptest::collection::vec(1..40_usize, 0..20)) {
        let text = format!(
            "{}\n{CALL}\n{}\n",
            r#"{"role":"user","content":"é漢🙂"}"#,
            r#"{"role":"tool","tool_call_id":"a","content":"42"}"#
        );
        let mut new_turn = numbers();
        let (mut import, mut facts) = (TextImport::default(), vec![]);
        let mut rest = text.as_str();
        for cut in cuts {
            let (piece, more) = rest.split_at(rest.floor_char_boundary(cut));
            import.take(piece, &mut new_turn, &mut facts).unwrap();
            rest = more;
        }
        import.take(rest, &mut new_turn, &mut facts).unwrap();
        let counted = import.finish(&mut new_turn, &mut facts).unwrap();
        proptest::prop_assert_eq!(imported(&text).unwrap(), (facts, counted));
    }

    #[test]
    fn no_text_breaks_it(text in "[\\[\\]{}:,\"a-z0-9\\\\ \n]{0,80}") {
        let _either = imported(&text);
    }
}
