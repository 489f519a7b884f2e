//! What leaves the context is summed up beside the conversation, ahead, so that no request is without both; and whatever the
//! summarizer does, no question waits long for it or fails with it.

use std::time::{Duration, Instant};

use aish_proto::attach::ReplayStart;
use aish_proto::context::{Archive, ArchiveParams, Forget, ForgetParams};
use aish_proto::event::{Status, SummaryUpdated};
use aish_proto::id::ConversationId;
use aish_proto::turn::{Cancel, StopReason, TurnParams};
use aish_testkit::upstream::Request;
use aish_testkit::{Answer, Client, Daemon, Follow, Upstream, World};

use crate::context::{asked, log, preview, statuses};

struct Scene {
    /// Who is talked to, and who sums up.
    talker: Upstream,
    summarizer: Upstream,
    world: World,
    daemon: Option<Daemon>,
}

impl Scene {
    fn new(more: &str) -> Self {
        let (talker, summarizer, world) = (Upstream::start(), Upstream::start(), World::new());
        world.write_config(&format!(
            "default_model = \"talk\"\n{}\n{}\n[context]\nmax_turns = 3\nsummarize_on_evict = true\n{more}\n",
            talker.preset("talk", ""),
            summarizer.preset("fast", ""),
        ));
        let daemon = Some(world.daemon().spawn());
        Self {
            talker,
            summarizer,
            world,
            daemon,
        }
    }

    /// A conversation whose first two exchanges have just left.
    fn left(&self, client: &Client) -> ConversationId {
        let conversation = client.create();
        for text in ["one apple", "two apples", "three apples", "four apples"] {
            asked(client, conversation, text);
        }
        conversation
    }

    /// The system message of the last request.
    fn system(&self) -> String {
        self.talker.requests().pop().unwrap().messages()[0]
            .1
            .clone()
    }
}

fn told(follow: &mut Follow, what: &str) -> String {
    let event = follow.until(|it| it.read::<Status>().is_some_and(|it| it.text.contains(what)));
    event.read::<Status>().unwrap().text
}

/// What the summarizer was asked.
fn task(request: &Request) -> String {
    let body = request.json();
    assert_eq!(300, body["max_tokens"], "{body}");
    assert!(body.get("tools").is_none());
    request.question()
}

const HEAD: &str = "\n\n[earlier conversation summary]\n";

#[test]
fn what_left_is_summed_up_and_told_to_the_model() {
    let scene = Scene::new("");
    let client = scene.world.client();
    scene
        .summarizer
        .answer(Answer::text("They counted \u{1b}[1mapples."));
    scene
        .summarizer
        .answer(Answer::text("They counted apples and pears."));
    let conversation = scene.left(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    assert_eq!(
        "2 old turns summarised by fast (23 chars); originals archived — :context archive",
        told(&mut follow, "summarised")
    );
    let first = task(&scene.summarizer.requests()[0]);
    assert!(
        first.contains("user: one apple\nassistant: Hello from the model.\nuser: two apples"),
        "{first}"
    );
    assert!(!first.contains("three apples"));
    asked(&client, conversation, "five pears");
    let system = scene.system();
    assert!(system.ends_with("\n> They counted [1mapples."), "{system}");
    assert!(system.contains(HEAD));
    // The bytes of the system message do not change until something leaves again.
    asked(&client, conversation, "six pears");
    told(&mut follow, "summarised by fast (30 chars)");
    let second = task(&scene.summarizer.requests()[1]);
    assert!(
        second.contains("<summary>\nThey counted [1mapples.\n</summary>")
            && second.contains("user: three apples"),
        "{second}"
    );
    let before = preview(&client, conversation, Some("seven"));
    assert!(before.body.contains("> They counted apples and pears."));
    assert!(before.tokens.summary > 10);
    // It is in the log, so another daemon says the same.
    let mut scene = scene;
    scene.daemon.take().unwrap().kill9();
    scene.daemon = Some(scene.world.daemon().spawn());
    let client = scene.world.client();
    assert_eq!(
        before.body,
        preview(&client, conversation, Some("seven")).body
    );
    scene.talker.finish();
    scene.summarizer.finish();
}

/// An empty answer, a page for people, an error, a cut stream, a reset, calls of tools that nobody offered.
#[test]
fn a_summarizer_that_fails_or_talks_nonsense_hurts_nobody() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let nonsense = [
        Answer::text(" \n\u{7}…"),
        Answer::html(),
        Answer::status(500, "{\"error\":{\"message\":\"out of memory\"}}"),
        Answer::text("half a sum").then_cut(),
        Answer::reset(),
        Answer::garbage(),
        Answer::stream().then_call(0, "c1", "fs__delete", "{}"),
    ];
    for answer in nonsense {
        scene.summarizer.answer(answer);
        let conversation = scene.left(&client);
        let mut follow = client.attach(conversation, ReplayStart::Start);
        let text = told(&mut follow, "without a summary");
        assert!(
            text.starts_with("2 old turns left the context without a summary (fast: "),
            "{text}"
        );
        assert!(
            text.ends_with("originals archived — :context archive"),
            "{text}"
        );
        let shown = preview(&client, conversation, Some("five"));
        assert!(!shown.body.contains("earlier conversation"));
        let log = log(&client, conversation);
        assert_eq!(1, statuses(&log).len(), "{:?}", statuses(&log));
        assert!(!log.iter().any(|it| it.kind == "summaryUpdated"));
    }
    scene.talker.finish();
}

#[test]
fn nobody_waits_long_for_a_summarizer_that_hangs() {
    let scene = Scene::new("");
    let client = scene.world.client();
    scene
        .summarizer
        .answer_with(|_| Answer::text("They").then_stall());
    let begun = Instant::now();
    let conversation = scene.left(&client);
    scene.summarizer.wait_requests(1);
    for number in 5..12 {
        asked(&client, conversation, &format!("question {number}"));
    }
    assert!(
        begun.elapsed() < Duration::from_secs(25),
        "{:?}",
        begun.elapsed()
    );
    // The others wait for it; they do not pile up at the server.
    assert_eq!(1, scene.summarizer.requests().len());
    assert!(
        log(&client, conversation)
            .iter()
            .filter(|it| it.kind == "evicted")
            .count()
            > 2
    );
    let mut scene = scene;
    assert_eq!(0, scene.daemon.take().unwrap().terminate());
    scene.talker.finish();
}

/// Compressed once, then cut at a sentence, which it says.
#[test]
fn a_summary_that_is_too_long_is_compressed_and_then_cut() {
    let scene = Scene::new("max_summary_chars = 200");
    let client = scene.world.client();
    let long = "A sentence about apples. ".repeat(40);
    scene.summarizer.answer(Answer::text(&long));
    scene.summarizer.answer(Answer::text("Short again."));
    let conversation = scene.left(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    told(&mut follow, "summarised by fast (12 chars)");
    let compress = task(&scene.summarizer.requests()[1]);
    assert!(compress.contains("at most 200 characters"), "{compress}");
    scene.summarizer.answer(Answer::text(&long));
    scene.summarizer.answer(Answer::status(500, "{}"));
    asked(&client, conversation, "five");
    asked(&client, conversation, "six");
    let event = follow.until(|it| it.read::<SummaryUpdated>().is_some_and(|it| it.cut));
    let summary = event.read::<SummaryUpdated>().unwrap();
    assert!(summary.text.chars().count() <= 200, "{}", summary.text);
    assert!(
        summary
            .text
            .ends_with("apples. [aish] the rest of this summary was cut"),
        "{}",
        summary.text
    );
    scene.talker.finish();
}

/// A crash in the middle leaves what was there: the old summary, or the new one.
#[test]
fn a_crash_while_a_summary_is_stored_leaves_the_old_one() {
    let mut scene = Scene::new("");
    scene.daemon.take().unwrap().kill9();
    let daemon = scene.world.daemon();
    let mut daemon = daemon.failpoint("summary.before_store=kill@2").spawn();
    let client = scene.world.client();
    scene.summarizer.answer(Answer::text("The old one."));
    let conversation = scene.left(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    told(&mut follow, "summarised");
    scene.summarizer.answer(Answer::text("The new one."));
    let _turn =
        client.call::<aish_proto::turn::Send>(aish_testkit::client::question(conversation, "five"));
    assert_eq!(137, daemon.wait_exit());
    scene.daemon = Some(scene.world.daemon().spawn());
    let client = scene.world.client();
    let after = preview(&client, conversation, None);
    assert!(after.body.contains("> The old one."), "{}", after.body);
    // What it is about is still there.
    assert!(after.body.contains("three apples") && !after.body.contains("The new one."));
    asked(&client, conversation, "seven");
    scene.talker.finish();
}

#[test]
fn a_preset_that_is_not_there_is_said() {
    let scene = Scene::new("summarizer_model = \"nobody\"");
    let client = scene.world.client();
    let conversation = scene.left(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let text = told(&mut follow, "without a summary");
    assert!(text.contains("(nobody: there is no such preset)"), "{text}");
    assert_eq!(0, scene.summarizer.requests().len());
    scene.talker.finish();
}

/// What left when a daemon ended is seen to by the next one, once.
#[test]
fn what_nobody_summed_up_is_summed_up_by_the_next_daemon() {
    let mut scene = Scene::new("");
    let client = scene.world.client();
    scene.summarizer.answer(Answer::text("They").then_stall());
    let conversation = scene.left(&client);
    scene.summarizer.wait_requests(1);
    for end in ["killed", "stopped"] {
        let daemon = scene.daemon.take().unwrap();
        if end == "killed" {
            daemon.kill9();
        } else {
            assert_eq!(0, daemon.terminate());
        }
        scene.daemon = Some(scene.world.daemon().spawn());
        let client = scene.world.client();
        // To look is no reason to ask a model.
        let before = scene.summarizer.requests().len();
        preview(&client, conversation, None);
        let answer = if end == "killed" {
            Answer::text("They").then_stall()
        } else {
            let counted = || Answer::text("They counted apples.");
            scene.summarizer.answer(counted());
            counted()
        };
        scene.summarizer.answer(answer);
        assert_eq!(before, scene.summarizer.requests().len());
        let turn = client.ask(conversation, end);
        client.wait_turn(turn);
        let asked = task(&scene.summarizer.wait_requests(before + 1));
        assert!(
            asked.contains("user: one apple\n") && asked.contains("user: two apples\n"),
            "{asked}"
        );
    }
    let client = scene.world.client();
    let mut follow = client.attach(conversation, ReplayStart::Start);
    told(&mut follow, "summarised by fast (20 chars)");
    asked(&client, conversation, "more");
    assert!(
        scene.system().ends_with("\n> They counted apples."),
        "{}",
        scene.system()
    );
    scene.daemon.take().unwrap().kill9();
    scene.talker.finish();
}

/// A refusal, what a filter took and half a sentence do not replace a good summary as if they were one.
#[test]
fn a_refusal_does_not_replace_the_summary() {
    let scene = Scene::new("");
    let client = scene.world.client();
    scene
        .summarizer
        .answer(Answer::text("<think>Short.</think>They counted apples."));
    let conversation = scene.left(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    told(&mut follow, "summarised");
    let filtered = Answer::text("They").finish(Some("content_filter"));
    scene.summarizer.answer(filtered);
    asked(&client, conversation, "five");
    told(&mut follow, "its filter held the answer back");
    let half = Answer::text("They counted pears. Then they went").finish(Some("length"));
    scene.summarizer.answer(half);
    asked(&client, conversation, "six");
    asked(&client, conversation, "seven");
    assert!(
        scene.system().ends_with("\n> They counted apples."),
        "{}",
        scene.system()
    );
    let event = follow.until(|it| it.read::<SummaryUpdated>().is_some_and(|it| it.cut));
    let text = event.read::<SummaryUpdated>().unwrap().text;
    assert_eq!(
        "They counted pears. [aish] the rest of this summary was cut",
        text
    );
    scene.talker.finish();
}

/// People can take a summary out, and one that nobody keeps up any more is not shown.
#[test]
fn a_summary_can_be_forgotten() {
    let mut scene = Scene::new("");
    let client = scene.world.client();
    let empty = client.create();
    let forget = |conversation| ForgetParams { conversation };
    assert_eq!("notFound", client.refused::<Forget>(forget(empty)).kind());
    scene
        .summarizer
        .answer(Answer::text("They counted apples."));
    let conversation = scene.left(&client);
    let mut follow = client.attach(conversation, ReplayStart::Start);
    told(&mut follow, "summarised");
    assert!(
        preview(&client, conversation, None)
            .body
            .contains("> They counted apples.")
    );
    client.done::<Forget>(forget(conversation));
    assert!(
        !preview(&client, conversation, None)
            .body
            .contains("earlier conversation")
    );
    let archive = client.done::<Archive>(ArchiveParams {
        conversation,
        cursor: None,
        limit: None,
    });
    assert_eq!((None, 2), (archive.summary, archive.total));
    // Also for another daemon, and what left is not summed up again.
    scene.daemon.take().unwrap().kill9();
    scene.daemon = Some(scene.world.daemon().spawn());
    let client = scene.world.client();
    scene.summarizer.answer(Answer::text("They counted pears."));
    asked(&client, conversation, "five");
    assert!(!scene.system().contains(HEAD));
    asked(&client, conversation, "six");
    let mut follow = client.attach(conversation, ReplayStart::Start);
    told(&mut follow, "summarised by fast (19 chars)");
    let second = task(&scene.summarizer.requests()[1]);
    assert!(
        !second.contains("<summary>") && !second.contains("one apple"),
        "{second}"
    );
    // And where summaries are off, the one that there is is not shown.
    asked(&client, conversation, "seven");
    assert!(scene.system().contains(HEAD));
    scene.world.write_config(&format!(
        "default_model = \"talk\"\n{}\n[context]\nmax_turns = 3\n",
        scene.talker.preset("talk", ""),
    ));
    client.done::<aish_proto::daemon::Reload>(aish_proto::method::Empty {});
    asked(&client, conversation, "eight");
    assert!(!scene.system().contains(HEAD));
    scene.talker.finish();
}

/// What a summarizer would write that leaves nothing out: the words of all questions that it is shown, and is told of.
fn all_of(request: &Request) -> String {
    let task = request.question();
    let words = task.split(|it: char| !it.is_ascii_alphanumeric());
    let mut asked: Vec<&str> = words.filter(|it| it.starts_with("word")).collect();
    asked.dedup();
    asked.join(" ")
}

/// Asks questions with a word of each, and sees that each request has the words of all before it: in messages, or in the
/// summary of what has left.
#[track_caller]
fn nothing_is_missing(scene: &Scene, filling: &str) {
    let client = scene.world.client();
    let conversation = client.create();
    for number in 0..14 {
        asked(&client, conversation, &format!("word{number} {filling}"));
    }
    for request in scene.talker.requests() {
        let newest = request.question();
        let newest = newest.split(' ').next().unwrap_or_default();
        let newest: u32 = newest.trim_start_matches("word").parse().unwrap();
        let body = String::from_utf8_lossy(&request.body);
        for number in 0..newest {
            let has = |end: &str| body.contains(&format!("word{number}{end}"));
            assert!(
                has(" ") || has("\\") || has("\""),
                "word{number} is not in the request of word{newest}:\n{body}"
            );
        }
    }
    let left = log(&client, conversation);
    assert!(left.iter().filter(|it| it.kind == "evicted").count() > 2);
}

#[test]
fn no_request_is_without_what_left_and_its_summary() {
    let scene = Scene::new("");
    scene
        .summarizer
        .answer_with(|request| Answer::text(&all_of(request)));
    nothing_is_missing(&scene, "and so on");
    scene.summarizer.finish();
}

/// Questions come faster than summaries.
#[test]
fn what_leaves_stays_until_its_summary_is_there() {
    let scene = Scene::new("");
    scene.summarizer.answer_with(|request| {
        let answer = Answer::stream().then_pause(Duration::from_millis(300));
        answer.then_text(&all_of(request))
    });
    nothing_is_missing(&scene, "and so on");
    scene.summarizer.finish();
}

/// Nobody can see ahead how long the next question is.
#[test]
fn what_leaves_for_a_long_question_is_summed_up_before_it_is_asked() {
    let scene = Scene::new("max_tokens = 3000\nreserve_tokens = 500");
    scene.summarizer.answer_with(|request| {
        let answer = Answer::stream().then_pause(Duration::from_millis(100));
        answer.then_text(&all_of(request))
    });
    // Without counts of its own a token is three bytes: two questions fit, and the third does not.
    scene
        .talker
        .answer_with(|_| Answer::text("fine").usage(None));
    nothing_is_missing(&scene, &"and so on ".repeat(270));
    scene.summarizer.finish();
}

/// A server that takes less than is known says so when it is asked.
#[test]
fn what_leaves_because_a_server_says_so_is_summed_up_before_it_is_asked_again() {
    let scene = Scene::new("");
    scene
        .summarizer
        .answer_with(|request| Answer::text(&all_of(request)));
    let mut asked = 0;
    scene.talker.answer_with(move |_request| {
        asked += 1;
        if asked % 4 == 3 {
            let error =
                "{\"error\":{\"message\":\"too long\",\"code\":\"context_length_exceeded\"}}";
            Answer::status(400, error)
        } else {
            Answer::text("fine")
        }
    });
    nothing_is_missing(&scene, "and so on");
    scene.summarizer.finish();
}

#[test]
fn a_question_that_waits_for_a_summary_can_be_cancelled() {
    let scene = Scene::new("max_tokens = 3000\nreserve_tokens = 500");
    scene
        .summarizer
        .answer_with(|_| Answer::text("They").then_stall());
    scene
        .talker
        .answer_with(|_| Answer::text("fine").usage(None));
    let client = scene.world.client();
    let conversation = client.create();
    let long = "and so on ".repeat(270);
    asked(&client, conversation, &long);
    asked(&client, conversation, &long);
    let turn = client.ask(conversation, &long);
    scene.summarizer.wait_requests(1);
    client.done::<Cancel>(TurnParams { turn });
    let record = client.wait_turn(turn);
    assert_eq!(Some(StopReason::Cancelled), record.stop_reason);
    assert_eq!(2, scene.talker.requests().len());
    scene.talker.finish();
}
