//! Lists of calls: waves, results in arguments, and what happens to the rest when something fails.

use aishd_log::block::{BlockForm, BlockKind, KeptBlock};
use aishd_log::call_list::CallList;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::list_samples::list;

impl Scene {
    fn run(list: &CallList) -> Self {
        let (turn, first) = Turn::run(CallListProgress::new(list).unwrap());
        let mut scene = Self {
            turn,
            seen: vec![],
            events: vec![],
            confirms: 0,
            busy: false,
        };
        scene.take(first);
        scene
    }
}

#[track_caller]
fn check(words: &str, script: &[&str], expected: &[&str]) {
    let mut scene = Scene::run(&list(words).unwrap());
    for line in script {
        scene.play(line);
    }
    assert_eq!(expected, scene.seen, "\nlist: {words}\nscript: {script:#?}");
}

#[test]
fn a_call_gets_the_results_that_it_names() {
    check(
        "a b<a",
        &["tool a one", "tool b two"],
        &[
            "= says 0 \"\" +1",
            "= started a {}",
            "> call a",
            "= result a \"one\"",
            "= says 1 \"\" +1",
            "= started b {\"from_a\":\"one\"}",
            "> call b",
            "= result b \"two\"",
            "= ended End \"all 2 calls succeeded\"",
        ],
    );
}

/// Those that only read run side by side; the others of a wave one after the other, in the order of the list.
#[test]
fn a_wave_has_all_calls_that_wait_for_nothing() {
    check(
        "a:reads b:reads c d<a,b e>c",
        &["tool b 2", "tool a 1", "tool c 3", "tool d 4", "tool e 5"],
        &[
            "= says 0 \"\" +3",
            "= started a {}",
            "= started b {}",
            "> call a",
            "> call b",
            "= result b \"2\"",
            "= result a \"1\"",
            "= started c {}",
            "> call c",
            "= result c \"3\"",
            "= says 1 \"\" +2",
            "= started d {\"from_a\":\"1\",\"from_b\":\"2\"}",
            "> call d",
            "= result d \"4\"",
            "= started e {}",
            "> call e",
            "= result e \"5\"",
            "= ended End \"all 5 calls succeeded\"",
        ],
    );
}

#[test]
fn what_needs_a_call_that_failed_does_not_run() {
    check(
        "a b<a c>b d",
        &["fail a no", "tool d 4"],
        &[
            "= says 0 \"\" +2",
            "= started a {}",
            "> call a",
            "= result a \"no\"",
            "= started d {}",
            "> call d",
            "= result d \"4\"",
            "= says 1 \"\" +1",
            "= result b \"[aish] not run: it needs \\\"a\\\", which did not succeed\"",
            "= says 2 \"\" +1",
            "= result c \"[aish] not run: it needs \\\"b\\\", which did not succeed\"",
            "= ended End \"1 of 4 calls succeeded; not: a, b, c\"",
        ],
    );
    check(
        "a:denied b>a",
        &[],
        &[
            "= says 0 \"\" +1",
            "= result a \"policy\"",
            "= says 1 \"\" +1",
            "= result b \"[aish] not run: it needs \\\"a\\\", which did not succeed\"",
            "= ended End \"0 of 2 calls succeeded; not: a, b\"",
        ],
    );
}

/// The result of an edited call is the tool's, without the words that tell of the edit.
#[test]
fn people_are_asked_as_they_are_about_a_models_calls() {
    check(
        "a:asks b<a",
        &["answer edit {\"x\":1}", "tool a one", "tool b two"],
        &[
            "= says 0 \"\" +1",
            "= asks c1 about a",
            "= Allowed c1",
            "= started a {\"x\":1}",
            "> call a",
            "= result a \"[aish] the user changed the arguments to {\\\"x\\\":1}; this is the result of that call\\none\"",
            "= says 1 \"\" +1",
            "= started b {\"from_a\":\"one\"}",
            "> call b",
            "= result b \"two\"",
            "= ended End \"all 2 calls succeeded\"",
        ],
    );
    check(
        "a:asks b>a c",
        &["answer abort"],
        &[
            "= says 0 \"\" +2",
            "= asks c1 about a",
            "= Denied c1",
            "= result a \"[aish] denied by user\"",
            "= result c \"[aish] the user ended the turn\"",
            "= says 1 \"\" +1",
            "= result b \"[aish] the user ended the turn\"",
            "= ended Denied \"0 of 3 calls succeeded; not: a, b, c\"",
        ],
    );
}

#[test]
fn a_stop_answers_the_calls_that_never_began() {
    check(
        "a b<a c>b",
        &["shutdown", "tool a late"],
        &[
            "= says 0 \"\" +1",
            "= started a {}",
            "> call a",
            "= result a \"[aish] interrupted: the daemon ended while it ran; the effect of this call is unknown\"",
            "= says 1 \"\" +2",
            "= result b \"[aish] interrupted by a restart\"",
            "= result c \"[aish] interrupted by a restart\"",
            "= ended Interrupted \"0 of 3 calls succeeded; not: a, b, c\"",
            "> abandon",
        ],
    );
}

/// What is too long for the context is whole in an argument.
#[test]
fn a_kept_result_is_used_whole() {
    let mut scene = Scene::run(&list("a b<a").unwrap());
    let kept = aish_proto::id::ResultId::from_bytes([3; 16]);
    let step = scene.turn.handle(TurnInput::ToolReturned {
        call: "a".to_owned(),
        returned: Box::new(CallReturn {
            ok: true,
            content: "on … e".to_owned(),
            kept: Some((kept, vec!["on".to_owned(), "e".to_owned()])),
            ..CallReturn::default()
        }),
    });
    let said = |it: &Event| matches!(it, Event::AssistantMessage { calls, .. } if calls[0].arguments == "{\"from_a\":\"one\"}");
    assert!(step.events.iter().any(said), "{:?}", step.events);
}

/// What is no text is kept beside it, and is no part of what an argument gets; people are told before the result.
#[test]
fn a_block_of_a_result_stands_before_it_and_is_not_its_text() {
    let mut scene = Scene::run(&list("a b<a").unwrap());
    let result = aish_proto::id::ResultId::from_bytes([4; 16]);
    let block = KeptBlock {
        result,
        kind: BlockKind::Image,
        mime: "image/png".to_owned(),
        bytes: 6,
        form: BlockForm::Base64,
        uri: None,
    };
    let step = scene.turn.handle(TurnInput::ToolReturned {
        call: "a".to_owned(),
        returned: Box::new(CallReturn {
            ok: true,
            content: "seen".to_owned(),
            remark: Some("it is kept"),
            blocks: vec![(block.clone(), vec!["iVBO".to_owned(), "R//+".to_owned()])],
            ..CallReturn::default()
        }),
    });
    let part = |text: &str| Event::ResultKept {
        result,
        text: text.to_owned(),
    };
    let [
        first,
        second,
        Event::Status { text, .. },
        Event::ToolResult { blocks, .. },
        ..,
    ] = &step.events[..]
    else {
        panic!("{:?}", step.events);
    };
    assert_eq!((&part("iVBO"), &part("R//+")), (first, second));
    assert_eq!(("it is kept", &vec![block]), (&**text, blocks));
    let said = |it: &Event| matches!(it, Event::AssistantMessage { calls, .. } if calls[0].arguments == "{\"from_a\":\"seen\"}");
    assert!(step.events.iter().any(said), "{:?}", step.events);
}

/// A call that began is over, whatever is known of it; the others can run now.
#[test]
fn the_rest_of_a_list_is_what_never_began() {
    let list = list("a b c<a d>b").unwrap();
    let mut scene = Scene::run(&list);
    for line in ["tool a one", "shutdown"] {
        scene.play(line);
    }
    let mut course = fold(&list, &scene.events);
    course.begin_again();
    assert!(course.has_rest());
    let (turn, first) = Turn::run(course);
    let mut scene = Scene { turn, ..scene };
    scene.seen.clear();
    scene.take(first);
    scene.play("tool c three");
    assert_eq!(
        [
            "= says 0 \"\" +2",
            "= result d \"[aish] not run: it needs \\\"b\\\", which did not succeed\"",
            "= started c {\"from_a\":\"one\"}",
            "> call c",
            "= result c \"three\"",
            "= ended End \"2 of 4 calls succeeded; not: b, d\"",
        ],
        *scene.seen
    );
}

fn fold(list: &CallList, events: &[Event]) -> CallListProgress {
    let mut course = CallListProgress::new(list).unwrap();
    events.iter().for_each(|it| course.note(it));
    course
}

/// Lists without cycles: each call needs some of those before it, and stands anywhere.
fn lists() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(vec!["runs", "reads", "reads", "asks", "denied", "unheard"]);
    let call = (kind, any::<u16>(), any::<u16>(), any::<u16>());
    prop::collection::vec(call, 1..9).prop_map(|calls| {
        let mut words: Vec<(u16, String)> = vec![];
        for (at, (kind, uses, after, place)) in calls.iter().enumerate() {
            let some = |bits: &u16| -> String {
                let chosen = (0..at).filter(|it| bits >> it & 3 == 3);
                chosen.map(|it| format!("n{it},")).collect()
            };
            let word = format!("n{at}:{kind}<{}>{}", some(uses), some(after));
            words.push((*place, word));
        }
        words.sort();
        let words: Vec<String> = words.into_iter().map(|(_, it)| it).collect();
        words.join(" ")
    })
}

fn happening() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (0_u32..9).prop_map(|it| format!("tool n{it} r{it}")),
        1 => (0_u32..9).prop_map(|it| format!("fail n{it} no")),
        4 => prop::sample::select(vec!["yes", "no", "expired", "withdrawn", "edit {}", "other-digest"])
            .prop_map(|it| format!("answer {it}")),
    ]
}

proptest! {
    /// Every call is announced once and answered once, whatever happens; none begins before those it needs have
    /// succeeded, and it gets what they gave; no wave leaves out a call that could have been in it; and who reads the log
    /// knows as much as who was there.
    #[test]
    fn every_call_of_a_list_is_answered_once(
        words in lists(),
        script in prop::collection::vec(happening(), 0..60),
        end in prop::sample::select(vec!["answer abort", "cancel", "shutdown"]),
    ) {
        let list = list(&words).unwrap();
        let linked = list.linked().unwrap();
        let place = |id: &str| list.calls().iter().position(|it| it.id == id).unwrap();
        let mut scene = Scene::run(&list);
        for line in script.iter().map(String::as_str).chain([end, "cancel"]) {
            scene.play(line);
            if !scene.events.iter().any(|it| matches!(it, Event::TurnFinished { .. })) {
                prop_assert_eq!(Some(&fold(&list, &scene.events)), scene.turn.course.as_deref());
            }
        }
        let mut announced = vec![];
        let mut replies: Vec<(usize, bool, String)> = vec![];
        let mut edited = false;
        let stop = |it: &Event| {
            let Event::TurnFinished { stop, .. } = it else { return None };
            Some(*stop)
        };
        let ended = scene.events.iter().find_map(stop);
        for event in &scene.events {
            if let Event::AssistantMessage { calls, .. } = event {
                let wave: Vec<usize> = calls.iter().map(|it| place(&it.id)).collect();
                let settled = |at: &usize| replies.iter().any(|it| it.0 == *at);
                let open = |at: &usize| !announced.contains(at);
                let could = |at: &usize| linked[*at].needs.iter().all(settled);
                let most: Vec<usize> = (0..linked.len()).filter(open).filter(could).collect();
                let rest: Vec<usize> = (0..linked.len()).filter(open).collect();
                prop_assert!(wave == most || (ended != Some(StopReason::End) && wave == rest), "{:?}", scene.seen);
                prop_assert_eq!(announced.len(), replies.len(), "a wave before the replies to the last");
                announced.extend(wave);
            }
            if let Event::ConfirmResolved(it) = event {
                edited = it.edited.is_some();
            }
            if let Event::ToolStarted { call, arguments, .. } = event {
                let at = place(call);
                let gave = |need: &usize| replies.iter().find(|it| it.0 == *need).filter(|it| it.1);
                prop_assert!(linked[at].needs.iter().all(|it| gave(it).is_some()), "{:?}", scene.seen);
                let arguments: Value = serde_json::from_str(arguments).unwrap();
                for (reference, from) in &linked[at].uses {
                    let (_, _, said) = gave(from).unwrap();
                    let expected = said.rsplit('\n').next();
                    let got = arguments[format!("from_{}", reference.id)].as_str();
                    prop_assert!(got == expected || edited, "{:?}", scene.seen);
                }
            }
            if let Event::ToolResult { call, ok, content, .. } = event {
                let at = place(call);
                prop_assert!(announced.contains(&at) && replies.iter().all(|it| it.0 != at));
                replies.push((at, *ok, content.clone()));
            }
        }
        prop_assert_eq!((linked.len(), linked.len()), (announced.len(), replies.len()), "{:?}", scene.seen);
        prop_assert!(ended.is_some());
    }
}
