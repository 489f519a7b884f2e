//! The log: what never gets into it, who can read it, and that levels change while the daemon runs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

use aish_proto::attach::{Detach, DetachParams};
use aish_proto::conversation::{Search, SearchParams};
use aish_proto::daemon::Reload;
use aish_proto::envelope::EventParams;
use aish_proto::event::LogLines;
use aish_proto::id::TurnId;
use aish_proto::log::{Tail, TailParams};
use aish_proto::method::Empty;
use aish_proto::turn::{Cancel, TurnParams};
use aish_testkit::wait::{PATIENCE, until, until_true};
use aish_testkit::{Answer, Client, Upstream, World};

const KEY: &str = "k3y-that-n0body-may-see";
const OTHER: &str = "h3ader-that-n0body-may-see";
const QUESTION: &str = "a-question-for-the-model-alone";
const ANSWER: &str = "an-answer-for-the-asker-alone";

/// The next lines of a log subscription.
fn lines(client: &Client) -> LogLines {
    until("lines of the log", PATIENCE, || {
        let line = client.next_line(PATIENCE)?;
        let value: serde_json::Value = serde_json::from_str(&line).ok()?;
        let params: EventParams = serde_json::from_value(value["params"].clone()).ok()?;
        params.event.read::<LogLines>()
    })
}

/// What the configuration changes stands in the log once.
fn log_a_line(world: &World, client: &Client, theme: &str) {
    world.write_config(&format!("[ui]\ntheme = \"{theme}\"\n"));
    client.done::<Reload>(Empty {});
}

/// A server that says the key back in every way that it can, to a daemon that logs all it has to log.
#[test]
fn keys_prompts_and_answers_are_not_in_the_log() {
    let upstream = Upstream::start();
    let world = World::new();
    let more = format!("key_env = \"TEST_KEY\"\nheaders = {{ \"x-api-key\" = \"{OTHER}\" }}");
    let preset = upstream.preset("test", &more);
    world.write_config(&format!("default_model = \"test\"\n{preset}"));
    upstream.secret(KEY);
    let daemon = world
        .daemon()
        .env("TEST_KEY", KEY)
        .env("AISH_LOG", "trace")
        .spawn();
    let client = world.client();
    let conversation = client.create();
    for said in [
        format!("{{\"error\":{{\"message\":\"bad key {KEY} and {OTHER}\"}}}}"),
        format!("authorization: Bearer {KEY}\nx-api-key: {OTHER}"),
        format!("a\n<3>forged line with {KEY}"),
    ] {
        upstream.answer(Answer::status(401, &said));
        let turn = client.ask(conversation, QUESTION);
        client.wait_turn(turn);
    }
    upstream.answer(Answer::text(ANSWER));
    let turn = client.ask(conversation, QUESTION);
    client.wait_turn(turn);
    client.done::<Tail>(TailParams { lines: 100_000 });
    let mut seen = vec![];
    while seen.last().is_none_or(|it: &LogLines| !it.complete) {
        seen.push(lines(&client));
    }
    let tail: Vec<String> = seen.into_iter().flat_map(|it| it.lines).collect();
    assert_eq!(0, daemon.terminate());
    let log = world.log_text();
    assert_eq!(3, log.matches("no whole answer").count());
    for log in [log, tail.join("\n")] {
        for secret in [KEY, OTHER, QUESTION, ANSWER] {
            let found = log.lines().find(|it| it.contains(secret));
            assert_eq!(None, found, "{secret}");
        }
        let forged = log.lines().find(|it| it.starts_with("<3>"));
        assert_eq!(None, forged, "a line of somebody else");
    }
    upstream.finish();
}

/// Libraries print what passes through them at their lowest levels: the database what is stored, the others what is sent. No
/// filter brings that into the log, neither a level nor a crate's own name, also when it came while the daemon ran.
#[test]
fn no_level_lets_libraries_say_what_was_said() {
    let upstream = Upstream::start();
    let world = World::new();
    let preset = upstream.preset("test", "key_env = \"TEST_KEY\"");
    world.write_config(&format!("default_model = \"test\"\n{preset}"));
    upstream.secret(KEY);
    for filter in [
        "trace",
        "sled=trace,hyper=trace,h2=debug,reqwest=trace,rustls=trace,mio=trace,trace",
    ] {
        let daemon = world
            .daemon()
            .env("TEST_KEY", KEY)
            .env("AISH_LOG", filter)
            .spawn();
        let client = world.client();
        let conversation = client.create();
        // More than the database keeps in memory, so that pages are written and read again.
        for _ in 0..20 {
            upstream.answer(Answer::text(&format!("{ANSWER} ").repeat(2_000)));
            client.wait_turn(client.ask(conversation, QUESTION));
        }
        let params = SearchParams {
            query: ANSWER.to_owned(),
            id: None,
            include_archived: false,
            limit: None,
            cursor: None,
        };
        client.done::<Search>(params);
        client.refused::<Cancel>(TurnParams {
            turn: TurnId::from_bytes([7; 16]),
        });
        assert_eq!(0, daemon.terminate());
    }
    let log = world.log_text();
    let refusals = log.lines().filter(|it| it.contains("DEBUG ")).count();
    assert_eq!(2, refusals, "our own lines are there: {log}");
    // As they are, and as a library prints bytes.
    let bytes = |text: &str| format!("{:?}", &text.as_bytes()[..8]).replace(['[', ']'], "");
    for secret in [KEY, QUESTION, ANSWER] {
        for form in [secret.to_owned(), bytes(secret)] {
            let found = log.lines().find(|it| it.contains(&form));
            assert_eq!(None, found.map(|it| &it[..it.len().min(300)]), "{secret}");
        }
    }
    let low = |it: &&str| it.contains("TRACE ") || it.contains("DEBUG ");
    let theirs = log
        .lines()
        .filter(low)
        .find(|it| !["aishd:", "aishd_"].iter().any(|ours| it.contains(ours)));
    assert_eq!(None, theirs, "a library's own line");
    upstream.finish();
}

/// Each line says which call, conversation and turn it is about.
#[test]
fn lines_say_what_they_are_about() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().env("AISH_LOG", "aishd=debug").spawn();
    let client = world.client();
    let conversation = client.create();
    upstream.answer(Answer::status(500, "no"));
    let turn = client.ask(conversation, "why?");
    client.wait_turn(turn);
    let expected = format!("conversation{{conversation={conversation}}}:turn{{turn={turn}}}");
    client.refused::<Cancel>(TurnParams {
        turn: TurnId::from_bytes([7; 16]),
    });
    // Lines are written behind the answer, and all of them before the end.
    assert_eq!(0, daemon.terminate());
    let log = world.log_text();
    let line = log.lines().find(|it| it.contains("no whole answer"));
    assert!(line.unwrap().contains(&expected), "{log}");
    let line = log.lines().find(|it| it.contains("refused"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(
        line.contains("call{client=") && line.contains("method=\"turn/cancel\""),
        "{line}"
    );
}

#[test]
fn levels_change_while_it_runs_and_the_environment_beats_the_file() {
    let world = World::new();
    let level = |level: &str| world.write_config(&format!("[logging]\nlevel = \"{level}\"\n"));
    for said in [None, Some("warn")] {
        level("warn");
        let before = world.log_text();
        let builder = world.daemon();
        let daemon = match said {
            Some(said) => builder.env("AISH_LOG", said).spawn(),
            None => builder.spawn(),
        };
        let client = world.client();
        level("info");
        client.done::<Reload>(Empty {});
        log_a_line(&world, &client, "dark");
        // Lines are written behind the answer, and all of them before the end.
        assert_eq!(0, daemon.terminate());
        let new = world.log_text().split_off(before.len());
        assert_eq!(said.is_none(), new.contains("ui.theme"), "{said:?}: {new}");
    }
}

/// Where stderr is the journal, the level is its prefix and the time its own.
#[test]
fn the_journal_gets_levels_and_no_times() {
    let world = World::new();
    world.write("aishd.log", "");
    let about = fs::metadata(world.path("aishd.log")).unwrap();
    let stream = format!("{}:{}", about.dev(), about.ino());
    let daemon = world.daemon().env("JOURNAL_STREAM", &stream).spawn();
    assert_eq!(0, daemon.terminate());
    let log = world.log_text();
    assert!(
        log.lines()
            .any(|it| it.starts_with("<6>aishd::daemon: stopped")),
        "{log}"
    );
    drop(world.daemon().env("JOURNAL_STREAM", "1:1").spawn());
    let log = world.log_text();
    let line = log.lines().last().unwrap();
    assert!(line.starts_with("20") || line == "ready", "{line}");
}

#[test]
fn the_log_is_a_subscription() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let reader = world.client();
    let tailed = reader.done::<Tail>(TailParams { lines: 1 });
    let first = lines(&reader);
    assert!(first.complete && first.missed == 0);
    assert_eq!(1, first.lines.len());
    assert!(first.lines[0].contains("ready"), "{first:?}");
    let driver = world.client();
    log_a_line(&world, &driver, "dark");
    let next = lines(&reader);
    assert!(
        next.lines[0].contains("configuration read again"),
        "{next:?}"
    );
    let subscription = tailed.subscription;
    reader.done::<Detach>(DetachParams { subscription });
    log_a_line(&world, &driver, "light");
    assert_eq!(None, reader.next_line(Duration::from_millis(200)));
    // None is a number of lines, too.
    reader.done::<Tail>(TailParams { lines: 0 });
    let none = lines(&reader);
    assert!(none.complete && none.lines.is_empty());
}

/// The log does not wait for its readers: who comes late is told what is gone.
#[test]
fn a_reader_that_is_too_slow_is_told_what_it_missed() {
    let world = World::new();
    // The lines may take a while on a machine that does much else.
    world.write_config("[limits]\nclient_stall = \"10m\"\n");
    let _daemon = world.daemon().env("AISH_LOG", "aishd_rpc=debug").spawn();
    let slow = world.client();
    slow.done::<Tail>(TailParams { lines: 0 });
    assert!(lines(&slow).complete);
    let silent = slow.stop_reading();
    let driver = world.client();
    let turn = TurnId::from_bytes([0; 16]);
    // Twice what the ring and a socket hold.
    let log_a_line = || drop(driver.refused::<Cancel>(TurnParams { turn }));
    for _ in 0..6_000 {
        log_a_line();
    }
    let slow = silent.read_again();
    let mut missed = 0;
    let mut read = 0;
    while missed == 0 {
        let page = lines(&slow);
        missed += page.missed;
        read += page.lines.len();
    }
    println!("{read} lines were read and {missed} missed");
    assert!(missed > 1000, "{missed}");
}

/// A stderr that takes nothing more, with the end that nobody reads yet.
fn stuffed() -> (UnixStream, UnixStream) {
    let (reader, mut stderr) = UnixStream::pair().unwrap();
    stderr.set_nonblocking(true).unwrap();
    while stderr.write(&[b'.'; 64]).is_ok() {}
    stderr.set_nonblocking(false).unwrap();
    (reader, stderr)
}

/// Whoever started us may not read what we say; the daemon serves and stops as ever.
#[test]
fn a_stderr_that_nobody_reads_stops_nothing() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let (reader, stderr) = stuffed();
    let daemon = world
        .daemon()
        .env("AISH_LOG", "trace")
        .log_into(stderr)
        .spawn();
    let client = world.client();
    let conversation = client.create();
    let turn = client.ask(conversation, "why?");
    client.wait_turn(turn);
    let unknown = TurnId::from_bytes([0; 16]);
    let before = daemon.rss_kib();
    for _ in 0..20_000 {
        client.refused::<Cancel>(TurnParams { turn: unknown });
    }
    let grown = daemon.rss_kib().saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} KiB more");
    // Who begins to read is told what is gone, and goes on from there.
    let mut said = BufReader::new(reader).lines().map(Result::unwrap);
    let gap = said.find(|it| it.contains(" dropped: nobody read"));
    println!("{}", gap.unwrap());
    let rest = thread::spawn(move || said.any(|it| it.ends_with(" stopped")));
    assert_eq!(0, daemon.terminate());
    assert!(rest.join().unwrap());
    let (_reader, stderr) = stuffed();
    let daemon = world.daemon().log_into(stderr).spawn();
    assert_eq!(0, daemon.terminate());
}

/// A jump of the wall clock changes printed times and nothing else: Debian's package faketime moves it.
#[test]
fn a_jump_of_the_clock_changes_printed_times_alone() {
    let library = ["x86_64-linux-gnu", "aarch64-linux-gnu"]
        .map(|it| format!("/usr/lib/{it}/faketime/libfaketimeMT.so.1"));
    let Some(library) = library.iter().find(|it| Path::new(it).exists()) else {
        println!("skipped: there is no libfaketime here (the package is faketime)");
        return;
    };
    let upstream = Upstream::start();
    upstream.answer_with(|request| Answer::text(&request.question()));
    let world = World::with(&upstream);
    world.write("clock", "+0");
    let clock = world.path("clock");
    let daemon = || {
        let builder = world.daemon().env("LD_PRELOAD", library);
        builder
            .env("FAKETIME_TIMESTAMP_FILE", &clock)
            .env("FAKETIME_NO_CACHE", "1")
            .env("DONT_FAKE_MONOTONIC", "1")
            .spawn()
    };
    let running = daemon();
    let client = world.client();
    let conversation = client.create();
    let mut days = vec![];
    for offset in ["+0", "-1d", "+2d", "-30d", "+0"] {
        world.write("clock", offset);
        let turn = client.ask(conversation, offset);
        let record = client.wait_turn(turn);
        assert_eq!(offset, record.text);
        days.push(offset);
    }
    world.write("clock", "-400d");
    assert_eq!(0, running.terminate());
    let _running = daemon();
    let client = world.client();
    let history =
        client.done::<aish_proto::conversation::History>(aish_proto::conversation::HistoryParams {
            id: conversation,
            before_seq: None,
            limit: 1000,
        });
    let seqs: Vec<u64> = history
        .events
        .iter()
        .filter_map(|it| Some(it.seq?.0))
        .collect();
    assert!(seqs.windows(2).all(|it| it[1] == it[0] + 1), "{seqs:?}");
    let asked = history.events.iter();
    let asked =
        asked.filter_map(aish_proto::envelope::Envelope::read::<aish_proto::event::UserMessage>);
    assert_eq!(days, asked.map(|it| it.text).collect::<Vec<_>>());
    until_true("the list", || {
        client
            .done::<aish_proto::conversation::List>(
                aish_proto::conversation::ConversationListParams::default(),
            )
            .conversations
            .len()
            == 1
    });
    upstream.finish();
}
