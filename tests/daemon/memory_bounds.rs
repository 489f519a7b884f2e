//! What the daemon has in memory is bounded by what is shown, and not by what was said; and it is given back.
//!
//! `AISH_TEST_BULK=10` is what the bounds were made for: thirty answers, eight forks, 100 MiB of an import.

use std::thread;
use std::time::Duration;

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{Fork, ForkParams};
use aish_proto::id::ConversationId;
use aish_proto::transfer::{ExportFormat, Import};
use aish_testkit::surroundings::bulk;
use aish_testkit::wait::until;
use aish_testkit::{Answer, Client, Daemon, Upstream, World};
use ulid::Ulid;

use crate::transfer::{example, pages, piece};

/// The most that it ever has.
const MOST_KIB: u64 = 300 << 10;
/// What it may keep of it.
const KEPT_KIB: u64 = 30 << 10;
/// Between two events of an answer, on a machine that is busy.
const NEXT_WITHIN: Duration = Duration::from_secs(120);
/// When it has given the rest back.
const BACK_WITHIN: Duration = Duration::from_secs(20);

/// An answer of 4 MiB.
fn long_answer() -> Answer {
    let piece = "It is long. ".repeat(1 << 10);
    Answer::pieces(std::iter::repeat_n(piece.as_str(), (4 << 20) / piece.len()))
}

/// What a daemon has that has answered once.
fn awake(upstream: &Upstream, daemon: &Daemon, client: &Client) -> u64 {
    upstream.answer(Answer::text("awake"));
    let turn = client.ask(client.create(), "are you awake?");
    client.wait_turn(turn);
    daemon.rss_kib()
}

#[track_caller]
fn bounded(daemon: &Daemon, before: u64) {
    let (at_the_end, most) = (daemon.rss_kib(), daemon.peak_rss_kib());
    let back = until("its memory back", BACK_WITHIN, || {
        let now = daemon.rss_kib();
        (now <= before + KEPT_KIB).then_some(now)
    });
    println!(
        "{before} KiB before, {most} KiB at most, {at_the_end} KiB then, and back to {back} KiB"
    );
    assert!(most <= MOST_KIB, "{most} KiB at most");
}

#[test]
fn many_long_answers_at_once() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    let client = world.client();
    let before = awake(&upstream, &daemon, &client);
    let conversations: Vec<_> = (0..3 * bulk()).map(|_| client.create()).collect();
    let watchers: Vec<_> = conversations.iter().map(|_| world.client()).collect();
    for (conversation, watcher) in conversations.iter().zip(&watchers) {
        watcher.attach(*conversation, ReplayStart::Start);
    }
    upstream.answer_with(|_| long_answer());
    // All are read at once and from their questions on, for a client that reads nothing is cut off; and as text, for taking
    // so many long events apart is slower than the daemon's patience.
    thread::scope(|scope| {
        for (conversation, watcher) in conversations.iter().zip(&watchers) {
            client.ask(*conversation, "tell me everything");
            scope.spawn(move || {
                let is_end = |line: &str| line.contains(r#""kind":"turnFinished""#);
                while !is_end(&watcher.next_line(NEXT_WITHIN).expect("the end of a turn")) {}
            });
        }
    });
    bounded(&daemon, before);
}

#[test]
fn forks_of_a_long_conversation() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    let client = world.client();
    let before = awake(&upstream, &daemon, &client);
    upstream.answer_with(|request| {
        if request.question() == "go on" {
            return Answer::text("gone on");
        }
        long_answer()
    });
    let conversation = client.create();
    for _ in 0..4 {
        let turn = client.ask(conversation, "tell me everything");
        client.wait_turn(turn);
    }
    let mut forks: Vec<ConversationId> = vec![];
    for _ in 0..(8 * bulk()).div_ceil(10) {
        let params = ForkParams {
            id: conversation,
            at_seq: None,
        };
        forks.push(client.done::<Fork>(params).id);
    }
    // Each is read from its beginning and goes on.
    let mut watchers = vec![];
    for fork in &forks {
        let watcher = world.client();
        let mut follow = watcher.attach(*fork, ReplayStart::Start);
        follow.until_kind("replayComplete");
        let turn = client.ask(*fork, "go on");
        follow.until_finished(turn);
        watchers.push(watcher);
    }
    bounded(&daemon, before);
}

/// A tenth has 10 MiB, which go in, and out again.
#[test]
fn an_import_of_many_turns() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    let client = world.client();
    let before = awake(&upstream, &daemon, &client);
    let id = ConversationId(Ulid::new());
    let mut offset = 0;
    let pieces = 100 * bulk();
    for number in 0..pieces {
        let turns = number * 10..(number + 1) * 10;
        let lines: String = turns.map(|it| example(it, 10_000)).collect();
        let end = number == pieces - 1;
        let result = client.done::<Import>(piece(id, offset, &lines, end));
        offset = result.taken;
        if end {
            assert_eq!(10 * pieces as u64, result.done.unwrap().exchanges);
        }
    }
    assert!(offset > 100_000 * pieces as u64, "{offset}");
    bounded(&daemon, before);
    let (events, messages) = pages(&client, id, ExportFormat::Messages, /*archive*/ false);
    assert_eq!((0, 40 * pieces), (events.len(), messages.len()));
    bounded(&daemon, before);
}

#[test]
fn clients_that_never_read() {
    let upstream = Upstream::start();
    let world = World::new();
    let limits = "\n[limits]\nmax_clients = 65\n";
    world.write_config(&format!("{}{limits}", upstream.config("test")));
    let daemon = world.daemon().spawn();
    let client = world.client();
    let before = awake(&upstream, &daemon, &client);
    upstream.answer_with(|_| long_answer());
    let conversation = client.create();
    let turn = client.ask(conversation, "tell me everything");
    client.wait_turn(turn);
    let silent: Vec<_> = (0..64)
        .map(|_| {
            let watcher = world.client();
            let _never_read = watcher.attach(conversation, ReplayStart::Start);
            watcher.stop_reading()
        })
        .collect();
    let turn = client.ask(conversation, "and again");
    client.wait_turn(turn);
    bounded(&daemon, before);
    drop(silent);
}
