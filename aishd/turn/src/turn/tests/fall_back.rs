//! When a request goes to another preset.

use aishd_model::fallback::FallbackWay;

use super::*;

const OPEN: &str = "> open 0";
const FELL: &str = "= fell back fast cloud None";
const SAID: &str = "= status local fast failed (connection refused); retrying via cloud";
const FIRST: &str = "transport: Connection refused";

fn scene(allowed: bool) -> Scene {
    let mut scene = Scene::start();
    scene.turn.set_way(Some(FallbackWay {
        from: "fast".to_owned(),
        to: "cloud".to_owned(),
        to_model_id: "m".to_owned(),
        allowed,
    }));
    scene
}

#[track_caller]
fn check(script: &[&str], expected: &[&str]) {
    let mut scene = scene(/*allowed*/ true);
    for line in script {
        scene.play(line);
    }
    assert_eq!(expected, scene.seen, "\nscript: {script:#?}");
}

#[test]
fn a_request_falls_back_once_and_only_before_anything_is_shown() {
    check(
        &["refused 0 -", "done 1 hi"],
        &[
            OPEN,
            FELL,
            SAID,
            "> fallback 1",
            "= says 0 \"hi\" +0",
            "= ended End \"hi\"",
        ],
    );
    check(
        &["refused 0 h"],
        &[
            OPEN,
            "= says 0 \"h\" +0 (cut)",
            &format!("= ended Upstream \"h\" {FIRST}"),
        ],
    );
    check(
        &["cut 0 -"],
        &[
            OPEN,
            "= ended Upstream \"\" transport: the stream was cut before its end",
        ],
    );
}

#[test]
fn the_second_failure_is_shown_with_the_first_as_its_cause() {
    check(
        &["refused 0 -", "http 1 503 -"],
        &[
            OPEN,
            FELL,
            SAID,
            "> fallback 1",
            &format!("= ended Upstream \"\" transport: HTTP 503: no <- {FIRST}"),
        ],
    );
    let cut = "transport: the stream was cut before its end";
    check(
        &["refused 0 -", "cut 1 half"],
        &[
            OPEN,
            FELL,
            SAID,
            "> fallback 1",
            "= says 0 \"half\" +0 (cut)",
            &format!("= ended Upstream \"half\" {cut} <- {FIRST}"),
        ],
    );
}

#[test]
fn the_second_try_is_the_last_whatever_its_server_asks_for() {
    for second in [
        "busy 1 - 2000",
        "http 1 503 2000",
        "overflow 1",
        "refused 1 -",
    ] {
        let mut scene = scene(/*allowed*/ true);
        scene.play("refused 0 -");
        scene.play(second);
        let last = scene.seen.last().unwrap();
        assert!(
            last.starts_with("= ended Upstream") && last.ends_with(&format!("<- {FIRST}")),
            "{last}"
        );
        let sent = scene.seen.iter().filter(|it| it.starts_with('>'));
        assert_eq!(2, sent.count(), "{second}: {:?}", scene.seen);
    }
}

#[test]
fn a_pause_that_the_first_server_asks_for_is_no_fallback_and_comes_before_one() {
    check(
        &[
            "http 0 503 2000",
            "waited 1",
            "http 1 503 2000",
            "done 2 hi",
        ],
        &[
            OPEN,
            "= status transport: HTTP 503: no; trying again in 2 s",
            "> wait 1 2s",
            "> open 1",
            "= fell back fast cloud Some(503)",
            "= status local fast failed (HTTP 503); retrying via cloud",
            "> fallback 2",
            "= says 0 \"hi\" +0",
            "= ended End \"hi\"",
        ],
    );
    check(
        &["busy 0 - 20001"],
        &[OPEN, "= ended Upstream \"\" transport: HTTP 429: no"],
    );
}

#[test]
fn each_request_of_a_turn_begins_with_its_own_preset() {
    check(
        &[
            "refused 0 -",
            "done 1 look a",
            "tool a ok",
            "refused 16 -",
            "done 17 hi",
        ],
        &[
            OPEN,
            FELL,
            SAID,
            "> fallback 1",
            "= says 0 \"look\" +1",
            "= started a",
            "> call a",
            "= result a \"ok\"",
            "> open 16",
            FELL,
            SAID,
            "> fallback 17",
            "= says 1 \"hi\" +0",
            "= ended End \"hi\"",
        ],
    );
}

#[test]
fn a_turn_that_is_stopped_falls_back_no_more() {
    check(
        &["cancel", "refused 0 -"],
        &[OPEN, "> abandon", "= ended Cancelled \"\""],
    );
    check(
        &["refused 0 -", "cancel", "dropped 1 ha"],
        &[
            OPEN,
            FELL,
            SAID,
            "> fallback 1",
            "> abandon",
            "= says 0 \"ha\" +0 (cut)",
            "= ended Cancelled \"ha\"",
        ],
    );
}

#[test]
fn who_has_it_off_is_told_what_it_would_have_done() {
    for barred in [false, true] {
        let mut scene = scene(/*allowed*/ barred);
        if barred {
            scene.turn.bar_way();
        }
        scene.play("refused 0 -");
        assert_eq!(3, scene.seen.len(), "{:?}", scene.seen);
        let offer = &scene.seen[1];
        assert!(
            offer.starts_with("= status routing.fallback is off: fast is not answering"),
            "{offer}"
        );
        assert_eq!(format!("= ended Upstream \"\" {FIRST}"), scene.seen[2]);
    }
    // Where it would not help, nothing is said of it.
    let mut scene = scene(/*allowed*/ false);
    scene.play("http 0 401 -");
    assert_eq!(2, scene.seen.len(), "{:?}", scene.seen);
}

/// Every script of four inputs: never a second hop within one request, never one after text, never two requests at once.
#[test]
fn no_order_of_things_makes_it_go_round_twice() {
    let inputs = [
        "refused -",
        "refused x",
        "http 503",
        "http 503 2000",
        "http 400",
        "waited",
        "done",
        "cancel",
        "cut",
    ];
    let count = inputs.len();
    for script in 0..count.pow(4) {
        let mut scene = scene(/*allowed*/ true);
        let mut rest = script;
        let (mut stream, mut fallbacks) = (0, 0);
        for _ in 0..4 {
            let input = inputs[rest % count];
            rest /= count;
            let line = match input.split(' ').collect::<Vec<_>>()[..] {
                ["refused", text] => format!("refused {stream} {text}"),
                ["http", status] => format!("http {stream} {status} -"),
                ["http", status, after] => format!("http {stream} {status} {after}"),
                ["done"] => format!("done {stream} hi"),
                ["cut"] => format!("cut {stream} -"),
                ["waited"] => format!("waited {stream}"),
                _ => input.to_owned(),
            };
            let before = scene.seen.len();
            scene.play(&line);
            for seen in &scene.seen[before..] {
                let opened = seen
                    .strip_prefix("> open ")
                    .or(seen.strip_prefix("> fallback "));
                let opened = opened.or(seen
                    .strip_prefix("> wait ")
                    .and_then(|it| it.split(' ').next()));
                if let Some(id) = opened {
                    stream = id.parse().unwrap();
                }
                if seen.starts_with("> fallback") {
                    fallbacks += 1;
                    let said = scene.seen.iter().any(|it| it.starts_with("= says"));
                    assert!(!said, "{:?}", scene.seen);
                }
            }
        }
        assert!(fallbacks <= 1, "{:?}", scene.seen);
        let ends = scene.seen.iter().filter(|it| it.starts_with("= ended"));
        assert!(ends.count() <= 1, "{:?}", scene.seen);
    }
}
