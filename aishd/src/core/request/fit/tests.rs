use aish_proto::id::{Seq, TurnId};
use proptest::prelude::*;

use super::*;
use crate::core::event::{At, Event, Origin, Record, Source};
use crate::core::summary::Summary;

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
                at: At(0),
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
            origin: Origin::Asked,
            on_confirm: None,
            max_tool_depth: None,
            calls: None,
            environment: None,
        });
        put(Event::TurnStarted {
            model: "p".to_owned(),
            model_id: "m".to_owned(),
            source: Source::Configured,
        });
        let calls = (0..results.len()).map(|it| crate::core::reply::ToolCall {
            id: format!("c{number}_{it}"),
            name: "t__x".to_owned(),
            arguments: "{}".to_owned(),
            broken: None,
            extra: serde_json::Map::new(),
        });
        put(Event::AssistantMessage {
            item: 0,
            text: "a".to_owned(),
            reasoning: String::new(),
            calls: calls.collect(),
            commands: vec![],
            extra: serde_json::Map::new(),
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

/// With one token for each byte.
fn a_byte_each() -> BytesPerToken {
    serde_json::from_str("1.0").unwrap()
}

fn with<T>(
    transcript: &Transcript,
    turns: usize,
    tokens: Option<u64>,
    done: impl FnOnce(Wanted<'_>) -> T,
) -> T {
    let (preset, offer) = (Preset::demo(), Offer::default());
    done(Wanted {
        preset: &preset,
        transcript,
        offer: &offer,
        pinned: &[],
        summary: true,
        limit: Limit {
            turns,
            tokens: tokens.map(|whole| TokenLimit { whole, reserve: 0 }),
        },
        ratio: a_byte_each(),
        mode: Mode::Talk,
    })
}

fn fitted(transcript: &Transcript, turns: usize, tokens: Option<u64>) -> Result<Fit, TooLong> {
    with(transcript, turns, tokens, fit)
}

/// The same with a summary of so many characters.
fn summed(mut transcript: Transcript, chars: usize) -> Transcript {
    let summary = Summary {
        text: "s".repeat(chars),
        ..Summary::default()
    };
    transcript.apply(&Record {
        seq: Seq(99),
        at: At(0),
        turn: None,
        client: None,
        event: Event::SummaryUpdated(Box::new(summary)),
    });
    transcript
}

fn held(name: &str, bytes: usize) -> Held {
    Held {
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
    assert_eq!(fit.body.len() as u64, fit.tokens);
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
    let body = fitted(&transcript, 9, Some(6_000)).unwrap().body;
    assert!(body.contains("of 9000 bytes are left out here"), "{body}");
    assert!(body.contains(&"r".repeat(2_000)));
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
        said.contains("demo has room for 3000 (3000 without the 0 that are kept for the answer): about 5000 are the question, 1400 the results of tools"),
        "{said}"
    );
}

/// CTX-6: no question is refused for a summary, nor is a result shortened for it.
#[test]
fn the_summary_gives_way_before_the_question_does() {
    let transcript = summed(transcript(&[(10, &[]), (100, &[900])]), 2_000);
    let roomy = fitted(&transcript, 9, Some(9_000)).unwrap();
    assert!(roomy.body.contains("sss") && roomy.shown.is_none());
    let tight = fitted(&transcript, 9, Some(2_500)).unwrap();
    assert_eq!((1, 0), (tight.leaving.len(), tight.shortened));
    assert!(!tight.body.contains("[earlier conversation summary]"));
    assert!(tight.shown.unwrap().summary().is_none());
}

/// Where nobody is to sum up any more, what was summed up is not shown.
#[test]
fn a_summary_is_shown_only_where_it_is_wanted() {
    let transcript = summed(transcript(&[(10, &[])]), 100);
    let fit = with(&transcript, 9, None, |wanted| {
        fit(Wanted {
            summary: false,
            ..wanted
        })
    });
    let fit = fit.unwrap();
    assert!(!fit.body.contains("sss"));
    assert!(fit.leaving.is_empty() && fit.shown.unwrap().summary().is_none());
}

/// CTX-1 counts what is pinned, and who is refused learns which one it is.
#[test]
fn pinned_resources_count() {
    let long = transcript(&[(10, &[]), (10, &[]), (10, &[])]);
    let all = fitted(&long, 9, None).unwrap().tokens;
    let pinned = [held("@n:small", 50), held("@n:big", 4_000)];
    let fit_with = |pinned: &[Held], tokens| {
        with(&long, 9, Some(tokens), |wanted| {
            fit(Wanted { pinned, ..wanted })
        })
    };
    let fits = fit_with(&pinned, all + 4_050).unwrap();
    assert!(!fits.leaving.is_empty());
    assert_eq!(fits.body.len() as u64, fits.tokens);
    assert!(fits.body.contains("<pinned name=\\\"@n:big"));
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
    let place = exchange
        .messages()
        .position(|it| matches!(it, Message::Tool { .. }))
        .unwrap();
    exchange.replace_result(place, "\u{1}".repeat(1_000));
    let fit = fitted(&transcript, 9, Some(8_500)).unwrap();
    assert_eq!(1, fit.shortened);
}

proptest! {
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
        let pinned: Vec<Held> = pins.iter().map(|it| held("@n:1", *it)).collect();
        let preset = Preset { use_tool_role, ..Preset::demo() };
        let fitted = |transcript: &Transcript| with(transcript, turns, Some(tokens), |wanted| {
            fit(Wanted { pinned: &pinned, preset: &preset, ..wanted })
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
                prop_assert_eq!(fit.body, again.body);
            }
            Err(error) => prop_assert!(error.tokens > tokens),
        }
    }
}
