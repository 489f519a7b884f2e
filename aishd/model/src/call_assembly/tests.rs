use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Each line of the script is one delta: fragments `INDEX ID NAME ARGUMENTS` divided by `|`, `-` for what is absent.
/// Expected: one line a call, then what the stream as a whole has to say.
#[track_caller]
fn check(script: &[&str], expected: &[&str]) {
    let mut assembler = Assembler::default();
    let mut pieces: Vec<String> = Vec::new();
    let mut excess = None;
    for line in script {
        let fragments = line.split(" | ").map(fragment).collect();
        let pushed = assembler.push(fragments, |call, _name, piece| {
            pieces.resize(pieces.len().max(call as usize + 1), String::new());
            pieces[call as usize].push_str(piece);
        });
        excess = excess.or(pushed.err());
    }
    let guessed = assembler.without_index();
    let mut made = 0;
    let calls = assembler.finish(StreamEnding::Complete, || {
        made += 1;
        format!("made{made}")
    });
    let mut said: Vec<String> = calls
        .iter()
        .map(|call| match &call.broken {
            None => format!("{} {} {}", call.id, call.name, call.arguments),
            Some(why) => format!("{} {} {} broken: {why}", call.id, call.name, call.arguments),
        })
        .collect();
    if guessed {
        said.push("no index".to_owned());
    }
    if let Some(excess) = excess {
        said.push(format!("{excess:?}"));
    }
    assert_eq!(expected, said);
    for (call, piece) in calls.iter().zip(&pieces) {
        if call.broken.is_none() && !piece.is_empty() {
            assert_eq!(&call.arguments, piece, "the pieces make up the arguments");
        }
    }
}

fn fragment(text: &str) -> CallFragment {
    let mut words = text.splitn(4, ' ');
    let mut word = || words.next().filter(|word| *word != "-");
    CallFragment {
        index: word().map(|index| index.parse().unwrap()),
        id: word().map(|id| id.trim_matches('_').to_owned()),
        name: word().map(|name| name.trim_matches('_').to_owned()),
        arguments: word().unwrap_or_default().to_owned(),
        extra: Map::new(),
    }
}

#[test]
fn a_slot_is_opened_by_its_index() {
    check(
        &["0 a f {\"p\": | 1 b g {\"q\":", "1 - - 2}", "0 - - 1}"],
        &["a f {\"p\":1}", "b g {\"q\":2}"],
    );
}

#[test]
fn another_id_on_the_same_index_opens_another_slot() {
    check(
        &["0 a f {}", "0 b g {\"q\":", "0 - - 2}", "0 a - -"],
        &["a f {}", "b g {\"q\":2}"],
    );
}

#[test]
fn a_late_id_joins_the_slot_that_had_none() {
    check(&["0 - f {\"p\":", "0 a - 1}"], &["a f {\"p\":1}"]);
    check(&["0 __ f {\"p\":", "0 a - 1}"], &["a f {\"p\":1}"]);
}

#[test]
fn without_index_the_id_decides_then_the_position_then_the_last_slot() {
    check(
        &["- a f {\"p\":", "- b g {\"q\":", "- a - 1}", "- b - 2}"],
        &["a f {\"p\":1}", "b g {\"q\":2}", "no index"],
    );
    check(
        &["- - f {\"p\": | - - g {\"q\":", "- - - 1} | - - - 2}"],
        &["made1 f {\"p\":1}", "made2 g {\"q\":2}", "no index"],
    );
    check(
        &["- a f {\"p\":", "- - - 1}"],
        &["a f {\"p\":1}", "no index"],
    );
}

#[test]
fn the_name_is_set_once() {
    check(
        &["0 a __ -", "0 a f {", "0 a f }", "0 a g -", "0 - __ -"],
        &["a f {}"],
    );
}

#[test]
fn a_missing_empty_or_repeated_id_is_made_up() {
    check(
        &["0 - f {}", "1 __ g {}", "2 x h {}", "3 x i {}"],
        &["made1 f {}", "made2 g {}", "x h {}", "made3 i {}"],
    );
}

#[test]
fn what_is_not_one_object_never_runs() {
    let glued = "the arguments are not one JSON object: trailing characters at line 1 column 8";
    check(
        &["0 a f {\"p\":1}", "0 - - {\"q\":2}"],
        &[&format!("a f {{}} broken: {glued}")],
    );
    check(
        &["0 a f [1]"],
        &["a f {} broken: the arguments are JSON, but no object"],
    );
    check(
        &["0 a f null"],
        &["a f {} broken: the arguments are JSON, but no object"],
    );
    check(
        &["0 a f {\"p\""],
        &[
            "a f {} broken: the arguments are not one JSON object: EOF while parsing an object at line 1 column 4",
        ],
    );
    check(&["0 a f -"], &["a f {}"]);
    check(
        &["0 a - {}"],
        &["a unnamed {} broken: the call has no name"],
    );
}

#[test]
fn a_stream_that_broke_off_runs_nothing() {
    let mut assembler = Assembler::default();
    assembler
        .push(vec![fragment("0 a rm {}")], |_, _, _| {})
        .unwrap();
    let calls = assembler.finish(StreamEnding::Broken, String::new);
    assert_eq!(Some("the answer broke off"), calls[0].broken.as_deref());
}

#[test]
fn caps_end_the_stream_and_keep_what_came() {
    check(&["0 a f {}", "64 b g {}"], &["a f {}", "Index"]);
    let many: Vec<String> = (0..65).map(|n| format!("- id{n} f {{}}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut expected: Vec<String> = (0..64).map(|n| format!("id{n} f {{}}")).collect();
    expected.extend(["no index".to_owned(), "Calls".to_owned()]);
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check(&many, &expected);

    let half = format!("\"{}\"", "x".repeat(MAX_ARGUMENTS_BYTES - 12));
    check(
        &[
            "0 a f {\"p\":",
            &format!("0 - - {half}"),
            "0 - - }",
            "0 - - xxxxx",
        ],
        &[&format!("a f {{\"p\":{half}}}"), "Arguments"],
    );
}

#[test]
fn unknown_fields_are_kept_and_bounded() {
    let mut kept = Map::new();
    let mut bytes = 0;
    for from in [
        json!({"s": "a", "l": [1], "o": {"x": 1}, "n": null}),
        json!({"s": "b", "l": [2], "o": {"x": 2}}),
    ] {
        merge(&mut kept, from.as_object().unwrap().clone(), &mut bytes);
    }
    assert_eq!(
        json!({"s": "ab", "l": [1, 2], "o": {"x": 2}}),
        Value::Object(kept.clone())
    );
    let large = json!({"z": "z".repeat(MAX_EXTRA_BYTES)});
    merge(&mut kept, large.as_object().unwrap().clone(), &mut bytes);
    assert!(!kept.contains_key("z"));
}

proptest! {
    /// However the arguments of calls are cut and interleaved by index, the same calls come out.
    #[test]
    fn any_cut_gives_the_same_calls(
        objects in prop::collection::vec("[a-zé😀]{0,12}", 1..5),
        picks in prop::collection::vec((0usize..5, 1usize..6), 0..200),
    ) {
        let whole: Vec<String> = objects.iter().map(|text| json!({ "p": text }).to_string()).collect();
        let mut rest: Vec<Vec<char>> = whole.iter().map(|text| text.chars().collect()).collect();
        let mut assembler = Assembler::default();
        let mut send = |call: usize, piece: String| {
            let fragment = CallFragment {
                index: Some(call as u64),
                id: Some(format!("id{call}")),
                name: Some("f".to_owned()),
                arguments: piece,
                extra: Map::new(),
            };
            assembler.push(vec![fragment], |_, _, _| {}).unwrap();
        };
        (0..whole.len()).for_each(|call| send(call, String::new()));
        for (call, length) in picks {
            let call = call % whole.len();
            let length = length.min(rest[call].len());
            send(call, rest[call].drain(..length).collect());
        }
        for (call, rest) in rest.into_iter().enumerate() {
            send(call, rest.into_iter().collect());
        }
        let calls = assembler.finish(StreamEnding::Complete, String::new);
        let arguments: Vec<String> = calls.into_iter().map(|call| call.arguments).collect();
        prop_assert_eq!(whole, arguments);
    }

    /// Whatever comes, what may run holds one JSON object, ids differ, and the caps hold.
    #[test]
    fn nothing_but_objects_may_run(
        deltas in prop::collection::vec(prop::collection::vec(
            (prop::option::of(0u64..80), prop::option::of("[ab]{0,2}"), prop::option::of("[fg]{0,2}"), "[{}\"p:1, ]{0,6}"),
            0..4,
        ), 0..60),
    ) {
        let mut assembler = Assembler::default();
        for delta in deltas {
            let fragments = delta.into_iter().map(|(index, id, name, arguments)| CallFragment {
                index, id, name, arguments, extra: Map::new(),
            }).collect();
            if assembler.push(fragments, |_, _, _| {}).is_err() {
                break;
            }
        }
        let mut made = 0;
        let calls = assembler.finish(StreamEnding::Complete, || { made += 1; format!("made{made}") });
        prop_assert!(calls.len() <= MAX_CALLS);
        for (at, call) in calls.iter().enumerate() {
            prop_assert!(!call.name.is_empty());
            prop_assert!(serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok());
            prop_assert!(calls[..at].iter().all(|other| other.id != call.id));
        }
    }
}
