//! Several clients on one conversation: the same facts, the same texts, and nobody waits for the slowest.

use aish_proto::attach::{AttachParams, ReplayStart};
use aish_proto::envelope::Envelope;
use aish_proto::event::{Presence, Snapshot, TextDelta};
use aish_proto::limits::LINE_FROM_DAEMON_BYTES;
use aish_proto::method::ClientRole;
use aish_testkit::{Answer, Upstream, World};
use rustix::process::Signal;

/// Three from the beginning, a fourth in mid-stream.
#[test]
fn everybody_records_the_same_facts_and_texts() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let clients: Vec<_> = (0..3).map(|_| world.client()).collect();
    let conversation = clients[0].create();
    let mut follows: Vec<_> = clients
        .iter()
        .map(|it| it.attach(conversation, ReplayStart::Start))
        .collect();
    let turn = clients[0].ask(conversation, "tell me");
    gate.wait_request();
    for number in 0..50 {
        gate.text(&format!("piece {number} of é漢🙂 "));
    }
    follows[1].until(|it| {
        it.read::<TextDelta>()
            .is_some_and(|it| it.text.contains("piece 49"))
    });
    let late = world.client();
    let mut late_follow = late.attach(conversation, ReplayStart::Start);
    let snapshot: Snapshot = late_follow.until_kind("snapshot").read().unwrap();
    assert!(
        snapshot
            .running
            .is_some_and(|it| it.text.contains("piece 49")),
        "the snapshot shows what has been written"
    );
    late_follow.until_kind("replayComplete");
    for number in 50..100 {
        gate.text(&format!("piece {number} of é漢🙂 "));
    }
    gate.finish();
    for follow in follows.iter_mut().chain([&mut late_follow]) {
        follow.until_finished(turn);
        follow.recording().assert_sound();
    }
    for follow in &follows[1..] {
        follow.recording().assert_same(&follows[0].recording());
    }
    late_follow.recording().assert_same(&follows[0].recording());
    assert_eq!(
        follows[0].recording().live_texts(),
        follows[0].recording().final_texts(),
        "whoever was there from the start saw the whole text as it was written"
    );
}

/// As when a laptop was closed while an answer came. `first` has gone out by itself.
#[test]
fn pieces_that_are_there_at_once_go_out_as_few_events() {
    const PIECES: usize = 400;
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let client = world.client();
    let conversation = client.create();
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let turn = client.ask(conversation, "tell me in many small words");
    gate.text("first");
    follow.until_kind("textDelta");
    daemon.signal(Signal::STOP);
    for _ in 1..PIECES {
        gate.text(" word");
    }
    gate.text(" last");
    gate.wait_written();
    daemon.signal(Signal::CONT);
    let delta = |it: &Envelope| it.read::<TextDelta>();
    follow.until(|it| delta(it).is_some_and(|it| it.text.ends_with("last")));
    gate.finish();
    follow.until_finished(turn);
    follow.recording().assert_sound();
    let events = follow.events_so_far().iter().filter_map(delta).count();
    assert!(events < PIECES / 2, "{events} events for {PIECES} pieces");
}

/// One that never reads costs nobody else anything, and the daemon next to no memory.
#[test]
fn a_client_that_never_reads_changes_nothing_for_the_others() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    let reader = world.client();
    let long = "0123456789abcdef".repeat(1 << 10);
    let answered = |conversation| {
        let mut follow = reader.attach(conversation, ReplayStart::Start);
        upstream.answer(Answer::pieces(std::iter::repeat_n(long.as_str(), 32)));
        let turn = reader.ask(conversation, "how long is it?");
        follow.until_finished(turn);
        follow.recording().assert_sound();
        (follow, turn)
    };
    // A few times without it, so that what such a turn itself needs is in the figure already.
    for _ in 0..12 {
        answered(reader.create());
    }
    let before = daemon.rss_kib();
    let conversation = reader.create();
    // Half a megabyte is more than its socket holds.
    let silent = world.client();
    let _subscription = silent.attach(conversation, ReplayStart::Start);
    let silent = silent.stop_reading();
    let (follow, turn) = answered(conversation);
    let grown = daemon.rss_kib().saturating_sub(before);
    assert!(grown < 8 << 10, "the daemon grew by {grown} KiB");
    // It still gets everything once it reads.
    let silent = silent.read_again();
    let mut again = silent.attach(conversation, ReplayStart::Start);
    again.until_finished(turn);
    again.recording().assert_same(&follow.recording());
}

/// Limits: a client that reads nothing with data pending is cut, and told why when it is back.
#[test]
fn a_stalled_client_is_cut_and_told_why() {
    let upstream = Upstream::start();
    let world = World::new();
    let stall = "\n[limits]\nclient_stall = \"300ms\"\n";
    world.write_config(&format!("{}{stall}", upstream.config("test")));
    let _daemon = world.daemon().spawn();
    let silent = world.client();
    let conversation = silent.create();
    let _subscription = silent.attach(conversation, ReplayStart::Start);
    let silent = silent.stop_reading();
    let reader = world.client();
    let mut follow = reader.attach(conversation, ReplayStart::Start);
    let long = "x".repeat(64 << 10);
    upstream.answer(Answer::pieces(std::iter::repeat_n(long.as_str(), 40)));
    let turn = reader.ask(conversation, "more than a socket holds");
    follow.until_finished(turn);
    let clients = |it: &Envelope| it.read::<Presence>().map(|it| it.clients.len());
    // On a slow machine it is cut before the turn is over.
    let alone = |it: &Envelope| clients(it) == Some(1);
    if !follow.events_so_far().iter().any(alone) {
        follow.until(alone);
    }
    // The same process comes back on another connection.
    let _was_cut = silent;
    let back = world.client();
    let mut again = back.attach(conversation, ReplayStart::Now);
    let snapshot: Snapshot = again.until_kind("snapshot").read().unwrap();
    let notice = snapshot.notice.expect("it was cut and is told so");
    assert!(notice.contains("300 ms"), "{notice}");
}

/// A client that wants no deltas is still right: the finished item is the truth.
#[test]
fn without_deltas_the_finished_items_come_all_the_same() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let mut follow = client.attach_with(AttachParams {
        id: conversation,
        since: ReplayStart::Now,
        deltas: false,
    });
    upstream.answer(Answer::pieces(["a", "b", "c"]));
    let turn = client.ask(conversation, "spell");
    follow.until_finished(turn);
    let recording = follow.recording();
    assert!(!recording.kinds().contains(&"textDelta"));
    assert_eq!(
        vec!["abc"],
        recording.final_texts().values().collect::<Vec<_>>()
    );
}

/// The cursor goes on where it was, whatever happened between, also in another connection.
#[test]
fn a_cursor_goes_on_without_a_gap_or_a_double() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    let client = world.client();
    let epoch = client.hello().epoch;
    let conversation = client.create();
    let mut whole = client.attach(conversation, ReplayStart::Start);
    let first = client.ask(conversation, "one");
    let seq = whole.until_finished(first).seq.unwrap();
    let second = client.ask(conversation, "two");
    whole.until_finished(second);
    let cursor = aish_proto::attach::Cursor { epoch, seq };
    let check = |client: &aish_testkit::Client| {
        let mut rest = client.attach(conversation, ReplayStart::Cursor(cursor));
        rest.until_kind("replayComplete");
        let seqs: Vec<_> = rest
            .events_so_far()
            .iter()
            .filter_map(|it| it.seq)
            .collect();
        assert_eq!(Some(seq.next()), seqs.first().copied());
        rest.recording().assert_sound();
        assert_eq!(
            whole.recording().stored().last(),
            rest.recording().stored().last()
        );
    };
    check(&client);
    assert_eq!(0, daemon.terminate());
    let _daemon = world.daemon().spawn();
    check(&world.client());
    let foreign = aish_proto::attach::Cursor {
        epoch: aish_proto::id::Epoch::from_bytes([9; 16]),
        seq,
    };
    let client = world.client();
    let mut follow = client.attach(conversation, ReplayStart::Cursor(foreign));
    follow.until_kind("replayComplete");
    assert_eq!("resyncRequired", follow.events_so_far()[0].kind);
    follow.recording().assert_sound();
}

/// Presence is told to all, and an observer may only read.
#[test]
fn people_see_each_other_and_an_observer_only_watches() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let driver = world.client();
    let conversation = driver.create();
    let mut follow = driver.attach(conversation, ReplayStart::Now);
    follow.until_kind("replayComplete");
    let observer = world.stranger();
    observer.hello_as("watcher", ClientRole::Observer);
    let mut watching = observer.attach(conversation, ReplayStart::Now);
    let presence: Presence = follow.until_kind("presence").read().unwrap();
    let names: Vec<&str> = presence.clients.iter().map(|it| it.name.as_str()).collect();
    assert!(names.contains(&"watcher"), "{names:?}");
    let refused = observer
        .refused::<aish_proto::turn::Send>(aish_testkit::client::question(conversation, "hi"));
    assert_eq!("forbiddenRole", refused.kind());
    watching.until_kind("replayComplete");
    drop(watching);
    drop(observer);
    let presence: Presence = follow.until_kind("presence").read().unwrap();
    assert_eq!(1, presence.clients.len());
}

/// Whatever a model says, no line is longer than a client has to take; what is left out is marked.
#[test]
fn no_line_is_longer_than_a_line_may_be() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let escapes = "\u{1b}".repeat(64 << 10);
    upstream.answer(Answer::pieces(std::iter::repeat_n(escapes.as_str(), 64)));
    let turn = client.ask(conversation, "what is on the screen?");
    let call = |id: usize, method: &str, params: serde_json::Value| {
        let call =
            serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        client.raw_line(call.to_string());
    };
    call(901, "turn/wait", serde_json::json!({"turn": turn}));
    let history = serde_json::json!({"id": conversation, "limit": 1000});
    let attach = serde_json::json!({"id": conversation, "since": "start"});
    let (mut marks, mut ended) = (0, false);
    while !ended || marks < 4 {
        let line = client
            .next_line(aish_testkit::wait::PATIENCE)
            .expect("a line");
        assert!(line.len() < LINE_FROM_DAEMON_BYTES, "{} bytes", line.len());
        let head = &line[..line.len().min(300)];
        assert!(!line.contains("\"error\":{\"code\""), "{head}");
        marks += usize::from(line.contains("[… cut: "));
        if line.contains("\"id\":901") {
            call(902, "conversation/history", history.clone());
            call(903, "conversation/attach", attach.clone());
        }
        ended |= line.contains("replayComplete");
    }
}
