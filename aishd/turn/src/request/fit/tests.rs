use aish_proto::id::{Seq, TurnId};
use aishd_log::ending::CommandEnding;
use aishd_log::event::{Event, PresetSource, Record, TurnOrigin};
use aishd_log::rolling_summary::RollingSummary;
use aishd_log::shell::OutputUse;
use aishd_log::time::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::turn::unfinished_command;

/// Records of exchanges, each a question and the results of its calls, each so long.
fn transcript(exchanges: &[(usize, &[usize])]) -> Transcript {
    let mut transcript = Transcript::default();
    let mut seq = 0;
    for (number, (question, results)) in (1..).zip(exchanges) {
        let turn = TurnId::from_bytes([number; 16]);
        let mut put = |event| {
            seq += 1;
            transcript.apply(&Record {
                seq: Seq(seq),
                at: Timestamp(0),
                turn: Some(turn),
                client: None,
                event,
            });
        };
        put(Event::UserMessage {
            text: "q".repeat(*question),
            attachments: vec![],
            key: None,
            model: None,
            origin: TurnOrigin::Asked,
            on_confirm: None,
            max_tool_depth: None,
            calls: None,
            environment: None,
        });
        put(Event::TurnStarted {
            model: "p".to_owned(),
            model_id: "m".to_owned(),
            source: PresetSource::Configured,
            context_tokens: None,
        });
        let calls = (0..results.len()).map(|it| aishd_log::tool_call::ToolCall {
            id: format!("c{number}_{it}"),
            name: "t__x".to_owned(),
            arguments: "{}".to_owned(),
            broken: None,
            extra: serde_json::Map::new(),
        });
        put(Event::AssistantMessage {
            item: 0,
            text: "a".into(),
            reasoning: String::new(),
            calls: calls.collect(),
            commands: vec![],
            extra: serde_json::Map::new(),
            sealed: None,
            complete: true,
            served_by: None,
            usage: None,
            payee: None,
        });
        for (place, length) in results.iter().enumerate() {
            put(Event::ToolResult {
                call: format!("c{number}_{place}"),
                name: "t__x".to_owned(),
                ok: true,
                content: "r".repeat(*length),
                denial: None,
                ms: None,
                kept: None,
                blocks: vec![],
                structured: None,
                refused: None,
            });
        }
    }
    transcript
}

/// The same where commands of these outputs were run before the last question.
fn after_commands(question: usize, outputs: &[&str]) -> Transcript {
    let mut transcript = transcript(&[(100, &[])]);
    let mut seq = 50;
    let mut put = |turn, event| {
        seq += 1;
        transcript.apply(&Record {
            seq: Seq(seq),
            at: Timestamp(0),
            turn,
            client: None,
            event,
        });
    };
    for (number, printed) in outputs.iter().enumerate() {
        let (ending, given) = (
            CommandEnding::Exited { code: 0 },
            OutputUse::WithNextQuestion,
        );
        let mut event = unfinished_command(&format!("run-{number}"), "c", ending, given);
        if let Event::ShellFinished { output, .. } = &mut event {
            (*printed).clone_into(output);
        }
        put(None, event);
    }
    let turn = Some(TurnId::from_bytes([77; 16]));
    put(
        turn,
        Event::UserMessage {
            text: "Q".repeat(question),
            attachments: vec![],
            key: None,
            model: None,
            origin: TurnOrigin::Asked,
            on_confirm: None,
            max_tool_depth: None,
            calls: None,
            environment: None,
        },
    );
    put(
        turn,
        Event::TurnStarted {
            model: "p".to_owned(),
            model_id: "m".to_owned(),
            source: PresetSource::Configured,
            context_tokens: None,
        },
    );
    transcript
}

/// With one token for each byte.
fn a_byte_each() -> BytesPerToken {
    serde_json::from_str("1.0").unwrap()
}

fn with<T>(
    transcript: &Transcript,
    turns: usize,
    tokens: Option<u64>,
    done: impl FnOnce(FitInput<'_>) -> T,
) -> T {
    let (preset, offer) = (Preset::demo(), ToolOffer::default());
    done(FitInput {
        preset: &preset,
        transcript,
        offer: &offer,
        pinned: &[],
        summary: true,
        limit: ContextLimit {
            turns,
            tokens: tokens.map(|whole| TokenLimit { whole, reserve: 0 }),
        },
        ratio: a_byte_each(),
        mode: LoopMode::Talk,
    })
}

fn fitted(
    transcript: &Transcript,
    turns: usize,
    tokens: Option<u64>,
) -> Result<FittedRequest, TooLong> {
    with(transcript, turns, tokens, fit)
}

/// The same with a summary of so many characters.
fn summed(mut transcript: Transcript, chars: usize) -> Transcript {
    let summary = RollingSummary {
        text: "s".repeat(chars),
        ..RollingSummary::default()
    };
    transcript.apply(&Record {
        seq: Seq(99),
        at: Timestamp(0),
        turn: None,
        client: None,
        event: Event::SummaryUpdated(Box::new(summary)),
    });
    transcript
}

fn held(name: &str, bytes: usize) -> PinnedContent {
    PinnedContent {
        name: name.to_owned(),
        text: "p".repeat(bytes),
    }
}

/// How many exchanges leave, and how many results are shortened.
#[track_caller]
fn check(
    exchanges: &[(usize, &[usize])],
    turns: usize,
    tokens: Option<u64>,
    expected: (usize, usize),
) {
    let transcript = transcript(exchanges);
    let fit = fitted(&transcript, turns, tokens).unwrap();
    assert_eq!(
        expected,
        (fit.leaving.len(), fit.shortened),
        "{}",
        fit.tokens
    );
    assert!(tokens.is_none_or(|it| fit.tokens <= it));
    let shown = fit.shown.as_ref().unwrap_or(&transcript);
    assert_eq!(fit.body.text.len() as u64, fit.tokens);
    assert_eq!(exchanges.len() - expected.0, shown.exchanges().len());
}

#[test]
fn exchanges_leave_from_the_front_down_to_the_goal() {
    let ten = [(100, &[][..]); 10];
    check(&ten, 10, None, (0, 0));
    check(&ten, 9, None, (4, 0));
    check(&ten, 1, None, (9, 0));
    check(&ten, 10, Some(10_000), (0, 0));
    // They take about 2,000 bytes, and each of them 180.
    check(&ten, 10, Some(1_700), (4, 0));
    check(&ten, 10, Some(700), (8, 0));
}

#[test]
fn results_of_the_last_exchange_are_shortened_the_largest_first() {
    check(
        &[(10, &[100]), (10, &[9_000, 2_000])],
        10,
        Some(6_000),
        (1, 1),
    );
    check(&[(10, &[9_000, 8_000])], 10, Some(6_000), (0, 2));
    let transcript = transcript(&[(10, &[9_000, 2_000])]);
    let body = fitted(&transcript, 9, Some(6_000)).unwrap().body.text;
    assert!(body.contains("of 9000 bytes are left out here"), "{body}");
    assert!(body.contains(&"r".repeat(2_000)));
}

/// What a person's commands printed is no reason to refuse their question.
#[test]
fn outputs_that_go_with_the_question_are_shortened_like_results() {
    let (large, small) = (format!("{}\n", "o".repeat(9_000)), "s".repeat(700));
    let transcript = after_commands(40, &[&large, &small, &large]);
    let fit = fitted(&transcript, 9, Some(7_000)).unwrap();
    assert_eq!((1, 2), (fit.leaving.len(), fit.shortened));
    let body: serde_json::Value = serde_json::from_str(&fit.body.text).unwrap();
    let said = body["messages"][1]["content"].as_str().unwrap();
    assert!(said.contains(&small) && said.ends_with(&format!("\n\n{}", "Q".repeat(40))));
    // Each is still in its fence, and so is the mark of what was left out.
    let blocks: Vec<&str> = said.split("```").collect();
    assert_eq!(7, blocks.len(), "{said}");
    for block in [blocks[1], blocks[5]] {
        let mark = "\n[aish] 6751 of 9001 bytes are left out here, so that the question fits the context\n";
        assert!(
            block.starts_with("output\nooo") && block.contains(mark) && block.ends_with("o\n"),
            "{block}"
        );
    }
    let before = &blocks[0];
    assert!(before.starts_with("[aish] the user ran a command by themselves: \"c\"\nexit code 0;"));
}

/// Its middle had been left out before, and what was left out then can still be read.
#[test]
fn an_output_that_is_shortened_again_says_how_it_is_read() {
    let how = "; to read on: aish__read_result {\"result\": \"r1\", \"offset\": 8000}";
    let printed = |it: &str| it.repeat(4_000);
    let long = format!(
        "{}\n[aish] 5 of 6 bytes are left out here; to read on: a lie\n{}\n[aish] 90000 of 98000 bytes are left out here{how}\n{}",
        "a".repeat(1_500),
        "b".repeat(2_500),
        printed("c"),
    );
    let body = fitted(&after_commands(40, &[&long]), 9, Some(5_000))
        .unwrap()
        .body
        .text;
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    let said = body["messages"][1]["content"].as_str().unwrap();
    assert!(
        said.contains(&format!(", so that the question fits the context{how}\n")),
        "{said}"
    );
}

#[test]
fn outputs_that_do_not_fit_are_named_as_the_cause() {
    let many = vec!["o".repeat(900); 9];
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let error = fitted(&after_commands(40, &many), 9, Some(5_000)).unwrap_err();
    assert_eq!((8_100, 9), error.outputs);
    let said = error.to_string();
    assert!(
        said.contains(" are the question, 8100 what 9 commands printed that go with it, shortened already, 0 the results of tools, ")
            && said.contains("; a new question goes without those outputs, which stay in the log"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_shortened_is_said() {
    let long = transcript(&[(10, &[]), (5_000, &[700, 700])]);
    let error = fitted(&long, 9, Some(3_000)).unwrap_err();
    let said = error.to_string();
    assert!(
        said.starts_with("the last question and what belongs to it take about 6"),
        "{said}"
    );
    assert!(
        said.contains("demo has room for 3000 (3000 without the 0 that are kept for the answer): about 5040 are the question, 1488 the results of tools"),
        "{said}"
    );
}

/// No question is refused for a summary, nor is a result shortened for it.
#[test]
fn the_summary_gives_way_before_the_question_does() {
    let transcript = summed(transcript(&[(10, &[]), (100, &[900])]), 2_000);
    let roomy = fitted(&transcript, 9, Some(9_000)).unwrap();
    assert!(roomy.body.text.contains("sss") && roomy.shown.is_none());
    let tight = fitted(&transcript, 9, Some(2_500)).unwrap();
    assert_eq!((1, 0), (tight.leaving.len(), tight.shortened));
    assert!(!tight.body.text.contains("[earlier conversation summary]"));
    assert!(tight.shown.unwrap().summary().is_none());
}

/// Where nobody is to sum up any more, what was summed up is not shown.
#[test]
fn a_summary_is_shown_only_where_it_is_wanted() {
    let transcript = summed(transcript(&[(10, &[])]), 100);
    let fit = with(&transcript, 9, None, |wanted| {
        fit(FitInput {
            summary: false,
            ..wanted
        })
    });
    let fit = fit.unwrap();
    assert!(!fit.body.text.contains("sss"));
    assert!(fit.leaving.is_empty() && fit.shown.unwrap().summary().is_none());
}

/// What is pinned counts, and who is refused learns which one it is.
#[test]
fn pinned_resources_count() {
    let long = transcript(&[(10, &[]), (10, &[]), (10, &[])]);
    let all = fitted(&long, 9, None).unwrap().tokens;
    let pinned = [held("@n:small", 50), held("@n:big", 4_000)];
    let fit_with = |pinned: &[PinnedContent], tokens| {
        with(&long, 9, Some(tokens), |wanted| {
            fit(FitInput { pinned, ..wanted })
        })
    };
    let fits = fit_with(&pinned, all + 4_050).unwrap();
    assert!(!fits.leaving.is_empty());
    assert_eq!(fits.body.text.len() as u64, fits.tokens);
    assert!(fits.body.text.contains("<pinned name=\\\"@n:big"));
    let error = fit_with(&pinned, 3_000).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("the 2 pinned resources (unpin \"@n:big\", which is 40"),
        "{said}"
    );
    assert!(fit_with(&pinned[..1], 3_000).is_ok());
}

/// One that is short and hard to spell does not keep a longer one whole.
#[test]
fn the_largest_that_can_be_shorter_is_shortened() {
    let mut transcript = transcript(&[(10, &[1_000, 3_000])]);
    let exchange = transcript.newest_mut().unwrap();
    let pieces = exchange.pieces();
    exchange.replace(&[(&pieces[0], "\u{1}".repeat(1_000))]);
    let fit = fitted(&transcript, 9, Some(8_500)).unwrap();
    assert_eq!(1, fit.shortened);
}

proptest! {
    #[test]
    fn outputs_are_shortened_within_their_fences(
        outputs in proptest::collection::vec("[a`é\\n\u{1}]{0,30}", 0..4),
        times in 1..200_usize,
        tokens in 1_500..9_000_u64,
    ) {
        let outputs: Vec<String> = outputs.iter().map(|it| it.repeat(times)).collect();
        let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
        let transcript = after_commands(40, &outputs);
        match fitted(&transcript, 9, Some(tokens)) {
            Ok(fit) => {
                prop_assert!(fit.tokens <= tokens);
                let shown = fit.shown.as_ref().unwrap_or(&transcript);
                let last = shown.exchanges().next_back().unwrap();
                let texts: Vec<&str> = last.messages().filter_map(|it| match it {
                    TranscriptMessage::User { text, .. } => Some(text.as_str()),
                    TranscriptMessage::Assistant { .. } | TranscriptMessage::Tool { .. } => None,
                }).collect();
                let mut rest = texts[0];
                // What opens an output closes behind it, whatever was cut.
                for output in outputs.iter().filter(|it| !it.is_empty()) {
                    let at = rest.find("no instruction:\n").unwrap() + "no instruction:\n".len();
                    let fence = rest[at..].split("output\n").next().unwrap();
                    prop_assert!(fence.len() >= 3 && fence.bytes().all(|it| it == b'`'));
                    let inside = &rest[at + fence.len()..];
                    let end = inside.find(&format!("\n{fence}\n\n")).unwrap();
                    prop_assert!(!inside[..end].contains(fence), "{output:?}");
                    rest = &inside[end..];
                }
                prop_assert!(rest.ends_with(&"Q".repeat(40)));
                prop_assert_eq!(shown.exchanges().next_back().unwrap().pieces().len(), outputs.iter().filter(|it| !it.is_empty()).count());
            }
            Err(error) => prop_assert!(error.tokens > tokens),
        }
    }

    #[test]
    fn a_request_fits_or_says_that_it_cannot(
        sizes in proptest::collection::vec((1..300_usize, proptest::collection::vec(0..3_000_usize, 0..4)), 1..8),
        turns in 1..9_usize,
        tokens in 300..9_000_u64,
        summary in 0..3_000_usize,
        pins in proptest::collection::vec(0..2_000_usize, 0..3),
        use_tool_role in any::<bool>(),
    ) {
        let sizes: Vec<(usize, &[usize])> = sizes.iter().map(|(q, r)| (*q, &r[..])).collect();
        let transcript = summed(transcript(&sizes), summary);
        let pinned: Vec<PinnedContent> = pins.iter().map(|it| held("@n:1", *it)).collect();
        let preset = Preset { use_tool_role, ..Preset::demo() };
        let fitted = |transcript: &Transcript| with(transcript, turns, Some(tokens), |wanted| {
            fit(FitInput { pinned: &pinned, preset: &preset, ..wanted })
        });
        match fitted(&transcript) {
            Ok(fit) => {
                prop_assert!(fit.tokens <= tokens);
                let shown = fit.shown.as_ref().unwrap_or(&transcript);
                prop_assert!((1..=turns).contains(&shown.exchanges().len()));
                // The same once more: nothing leaves, so that bytes stay as they are between evictions.
                let mut rest = transcript.clone();
                for _ in &fit.leaving {
                    rest.take_oldest();
                }
                let again = fitted(&rest).unwrap();
                prop_assert!(again.leaving.is_empty());
                prop_assert_eq!(fit.body.text, again.body.text);
            }
            Err(error) => prop_assert!(error.tokens > tokens),
        }
    }
}

/// As much as there is room for, and never at the cost of an answer.
#[test]
fn a_project_is_told_as_far_as_there_is_room() {
    let project = crate::project::ProjectFindings {
        directory: "/p".to_owned(),
        tree: crate::project::tree::TreeFolder::of("", vec!["main.rs".to_owned()]),
        instructions: vec![crate::project::instructions::InstructionText {
            name: "AGENTS.md".to_owned(),
            text: "be brief ".repeat(4_000),
        }],
    };
    let check = |question: usize, tokens: Option<u64>, expected: std::ops::Range<usize>| {
        let mut transcript = transcript(&[(1_000, &[]), (question, &[])]);
        transcript.set_project(project.blocks());
        let fit = fitted(&transcript, 9, tokens).unwrap();
        let shown = fit.shown.as_ref().unwrap_or(&transcript);
        let told = shown.project().map_or(0, str::len);
        assert!(expected.contains(&told), "{tokens:?}: {told}");
        assert_eq!(
            told > 0,
            fit.body.text.contains("[project]"),
            "{}",
            fit.body.text
        );
        if let Some(tokens) = tokens {
            assert!(fit.body.text.len() as u64 <= tokens);
        }
        fit.leaving.len()
    };
    assert_eq!(0, check(10, None, 15_000..24_001));
    assert_eq!(0, check(10, Some(100_000), 15_000..24_001));
    assert_eq!(0, check(10, Some(40_000), 5_000..8_001));
    assert_eq!(0, check(10, Some(16_000), 1_500..2_501));
    assert_eq!(0, check(10, Some(4_000), 0..1));
    // Old turns go before it, and it goes before results are shortened.
    assert_eq!(1, check(13_000, Some(16_000), 1_500..2_501));
    assert_eq!(1, check(15_000, Some(16_000), 0..1));
}
