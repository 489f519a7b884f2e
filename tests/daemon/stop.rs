//! The ordered stop: whatever the daemon is doing, SIGTERM lets it say goodbye, keep what it knows, end
//! with 0 within six seconds, and leave no socket behind.

use std::any::Any;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{Activity, ConversationParams, StatusOf};
use aish_proto::daemon::Reload;
use aish_proto::event::Shutdown;
use aish_proto::id::ConversationId;
use aish_proto::mcp::{List, ServerState};
use aish_proto::method::Empty;
use aish_proto::shell::Run;
use aish_testkit::wait::{PATIENCE, until_true};
use aish_testkit::{Answer, Daemon, Upstream, World, built, repository};
use rustix::process::Signal;

use crate::shell::own;

const TIMES: usize = 5;
/// Its own limit is six seconds, and a machine that does much else takes more; what waits for something takes longer
/// still.
const WITHIN: Duration = Duration::from_secs(20);

/// What a phase holds until the daemon is gone.
type Held = Box<dyn Any>;

/// Brings a daemon into a phase, stops it there, and looks at what is left; five times at once.
#[track_caller]
fn check(phase: impl Fn(&World, &Upstream, &Daemon) -> (Held, Option<ConversationId>) + Sync) {
    let slowest = thread::scope(|scope| {
        let rounds = [(); TIMES].map(|()| scope.spawn(|| round(&phase)));
        let took = rounds.map(|it| it.join().unwrap());
        took.into_iter().max().unwrap()
    });
    println!("{TIMES} stops, the slowest in {slowest:?}");
}

fn round(phase: impl Fn(&World, &Upstream, &Daemon) -> (Held, Option<ConversationId>)) -> Duration {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let mut daemon = world.daemon().spawn();
    let (held, conversation) = phase(&world, &upstream, &daemon);
    let began = Instant::now();
    daemon.signal(Signal::TERM);
    assert_eq!(0, daemon.wait_exit(), "the exit code");
    let took = began.elapsed();
    assert!(took < WITHIN, "it took {took:?}");
    assert!(!world.socket().exists(), "the socket is left");
    assert_eq!(Vec::<u32>::new(), world.daemon_pids());
    assert!(world.log_text().contains("stopped"), "{}", world.log_text());
    drop(held);
    // What was there is there, and nothing of it runs again by itself but what waited.
    if let Some(id) = conversation {
        let daemon = world.daemon().spawn();
        let status = world.client().done::<StatusOf>(ConversationParams { id });
        assert!(status.last_seq.0 >= 1);
        assert_ne!(Activity::RequiresAction, status.state);
        drop(daemon);
    }
    took
}

fn nothing() -> Held {
    Box::new(())
}

#[test]
fn idle() {
    check(|world, _, _| {
        let conversation = world.client().create();
        (nothing(), Some(conversation))
    });
}

#[test]
fn with_clients_that_have_just_connected() {
    check(|world, _, _| {
        let silent = [(); 5].map(|()| UnixStream::connect(world.socket()).unwrap());
        (Box::new(silent), None)
    });
}

#[test]
fn in_the_middle_of_a_stream() {
    check(|world, upstream, _| {
        let client = world.client();
        let conversation = client.create();
        let (answer, gate) = Answer::by_hand();
        upstream.answer(answer);
        let mut follow = client.attach(conversation, ReplayStart::Start);
        client.ask(conversation, "how long?");
        gate.text("it takes");
        follow.until_kind("textDelta");
        (Box::new((client, follow, gate)), Some(conversation))
    });
}

#[test]
fn with_turns_that_wait() {
    check(|world, upstream, _| {
        let client = world.client();
        let conversation = client.create();
        let (answer, gate) = Answer::by_hand();
        upstream.answer(answer);
        for question in ["one", "two", "three"] {
            client.ask(conversation, question);
        }
        gate.wait_request();
        (Box::new((client, gate)), Some(conversation))
    });
}

#[test]
fn while_a_server_has_not_answered_at_all() {
    check(|world, upstream, _| {
        let client = world.client();
        let conversation = client.create();
        upstream.answer(Answer::silence());
        client.ask(conversation, "anybody?");
        upstream.wait_requests(1);
        (Box::new(client), Some(conversation))
    });
}

#[test]
fn with_clients_that_are_attached_and_are_told() {
    check(|world, _, daemon| {
        let client = world.client();
        let conversation = client.create();
        let mut follows = [(); 3].map(|()| client.attach(conversation, ReplayStart::Start));
        for follow in &mut follows {
            follow.until_kind("replayComplete");
        }
        daemon.signal(Signal::TERM);
        for follow in &mut follows {
            let told = follow.until_kind("shutdown");
            assert_eq!("SIGTERM", told.read::<Shutdown>().unwrap().reason);
        }
        (Box::new(client), Some(conversation))
    });
}

#[test]
fn with_a_client_that_never_reads() {
    check(|world, upstream, _| {
        let client = world.client();
        let conversation = client.create();
        let watcher = world.client();
        watcher.attach(conversation, ReplayStart::Start);
        let silent = watcher.stop_reading();
        let text = "word ".repeat(100_000);
        upstream.answer(Answer::text(&text));
        let turn = client.ask(conversation, "go on");
        client.wait_turn(turn);
        (Box::new((client, silent)), Some(conversation))
    });
}

#[test]
fn while_the_configuration_is_read_again() {
    check(|world, upstream, daemon| {
        world.write_config(&upstream.config("other"));
        daemon.signal(Signal::HUP);
        (nothing(), None)
    });
}

/// A command that ignores SIGTERM, one below it that left its session, and an answer that comes on and on.
#[test]
fn with_children_that_ignore_the_word_to_end() {
    check(|world, upstream, _| {
        let client = world.client();
        let answering = client.create();
        let (answer, gate) = Answer::by_hand();
        upstream.answer(answer);
        let mut follow = client.attach(answering, ReplayStart::Start);
        client.ask(answering, "how long?");
        gate.text("it takes");
        follow.until_kind("textDelta");
        let running = client.create();
        let mut follow = client.attach(running, ReplayStart::Start);
        let command =
            "trap '' TERM; setsid sh -c \"trap '' TERM; echo begun; sleep 7790\"; sleep 7791";
        client.done::<Run>(own(running, command));
        follow.until_kind("shellOutput");
        (Box::new((client, gate)), Some(answering))
    });
}

/// An MCP server that heeds neither the end of its input nor SIGTERM.
#[test]
fn with_an_mcp_server_that_does_not_end() {
    check(|world, upstream, _| {
        let server = repository::top().join("tests/data/mcp/stdio_server.py");
        let deaf = format!(
            "trap '' TERM; python3 {} usual; sleep 7792",
            server.display()
        );
        world.write_config(&format!(
            "{}\n[mcp.servers.deaf]\ncommand = \"sh\"\nargs = [\"-c\", {deaf:?}]\n",
            upstream.config("test")
        ));
        let client = world.client();
        client.done::<Reload>(Empty {});
        until_true("the server is ready", || {
            let servers = client.done::<List>(Empty {}).servers;
            servers.iter().any(|it| it.state == ServerState::Ready)
        });
        (Box::new(client), None)
    });
}

/// Opening the store hangs; the one who waits for the end does not.
#[test]
fn while_the_journal_is_read() {
    thread::scope(|scope| {
        for _ in 0..TIMES {
            scope.spawn(|| {
                let world = World::new();
                let start = world
                    .program(&built("aishd"), &["--foreground"])
                    .env("AISH_FAILPOINT", "recover.mid=hang")
                    .spawn();
                // The socket is made before the store is opened.
                until_true("the socket", || world.socket().exists());
                until_true("the index to be opened", || {
                    world.state().join("store/db").exists()
                });
                let began = Instant::now();
                start.signal(Signal::TERM);
                drop(start.wait_within(PATIENCE).ok());
                assert!(began.elapsed() < WITHIN, "it took {:?}", began.elapsed());
                assert!(!world.socket().exists());
            });
        }
    });
}

/// Fifty times, also right after a kill, and it changes nothing.
#[test]
fn a_second_daemon_ends_with_75_at_once() {
    let world = World::new();
    let mut daemon = world.daemon().spawn();
    for round in 0..50 {
        if round % 5 == 4 {
            daemon.kill9();
            daemon = world.daemon().spawn();
        }
        let began = Instant::now();
        let second = world.daemon().spawn_or_exit();
        assert_eq!(Err(75), second.map(|it| it.pid()), "round {round}");
        assert!(
            began.elapsed() < Duration::from_secs(8),
            "{:?}",
            began.elapsed()
        );
        assert!(daemon.is_running());
        assert!(world.socket().exists());
    }
    world.client().create();
    assert_eq!(0, daemon.terminate());
}

/// Whoever kills a daemon and starts another one at once gets it, though the first one is not gone yet and was starting
/// programs.
#[test]
fn a_start_at_once_after_a_kill_is_a_start() {
    let world = World::new();
    let mut daemon = world.daemon().spawn();
    for round in 0..40 {
        let client = world.client();
        let conversation = client.create();
        // Some of it is always just being started.
        let command = "for i in 1 2 3 4 5 6 7 8; do sh -c true & done; wait; sleep 7793";
        client.done::<Run>(own(conversation, command));
        drop(client);
        daemon.signal(Signal::KILL);
        let next = world.daemon().spawn_or_exit();
        let next = next.unwrap_or_else(|code| panic!("round {round}: it ended with {code}"));
        assert_eq!(137, daemon.wait_exit());
        daemon = next;
    }
    assert_eq!(0, daemon.terminate());
}
