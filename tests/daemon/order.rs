//! What one connection sends in one go: calls begin in the order of their lines, and a client that has gone
//! leaves nothing behind.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use aish_proto::conversation::{History, HistoryParams};
use aish_proto::event::Renamed;
use aish_proto::id::TurnId;
use aish_testkit::wait::until;
use aish_testkit::{Answer, Upstream, World};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(20);

fn call(id: usize, method: &str, params: &Value) -> String {
    let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    format!("{line}\n")
}

fn hello() -> Value {
    json!({
        "protocol": {"min": 2, "max": 2},
        "client": {"name": "printf", "version": "0", "kind": "script"},
        "role": "driver",
    })
}

#[test]
fn what_follows_hello_in_the_same_write_is_served() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    for _ in 0..50 {
        let client = world.stranger();
        let status = call(2, "daemon/status", &json!({}));
        let lines = call(1, "daemon/hello", &hello()) + &status;
        client.raw(lines.as_bytes()).unwrap();
        for _ in 0..2 {
            let reply = client.next_line(PATIENCE).expect("both are answered");
            assert!(!reply.contains("error"), "{reply}");
        }
    }
}

#[test]
fn changes_are_made_in_the_order_of_their_lines() {
    let world = World::new();
    let daemon = world.daemon().spawn();
    let id = world.client().create();
    // A new daemon has to read the conversation first.
    assert_eq!(0, daemon.terminate());
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let titles: Vec<String> = (0..20).map(|it| format!("title {it}")).collect();
    let mut lines = String::new();
    for (number, title) in titles.iter().enumerate() {
        let params = json!({"id": id, "title": title});
        let line = call(1000 + number, "conversation/rename", &params);
        let _infallible = lines.write_str(&line);
    }
    client.raw(lines.as_bytes()).unwrap();
    for _ in &titles {
        let reply = client.next_line(PATIENCE).expect("each is answered");
        assert!(!reply.contains("error"), "{reply}");
    }
    let history = client.done::<History>(HistoryParams {
        id,
        before_seq: None,
        limit: 1000,
    });
    let renamed = history
        .events
        .iter()
        .filter_map(aish_proto::envelope::Envelope::read::<Renamed>);
    assert_eq!(titles, renamed.map(|it| it.title).collect::<Vec<_>>());
}

/// A client that reads nothing has no say in when the daemon ends.
#[test]
fn answers_that_nobody_reads_do_not_delay_the_end() {
    let world = World::new();
    let daemon = world.daemon().spawn();
    let client = world.client();
    // More than its socket holds, and more calls than are taken at a time.
    for id in 0..200 {
        client.raw_line(call(id, "daemon/schema", &json!({})).trim_end());
    }
    client.next_line(PATIENCE).expect("they are being answered");
    let silent = client.stop_reading();
    // It ends while nobody reads: only then does the reader go away.
    assert_eq!(0, daemon.terminate());
    drop(silent);
}

fn waits_for(turn: TurnId) -> String {
    call(1, "daemon/hello", &hello()) + &call(2, "turn/wait", &json!({"turn": turn}))
}

/// Of a pipeline whose end is closed, and of clients that have gone.
#[test]
fn who_has_said_all_gets_the_answers_and_who_has_gone_gives_up_the_place() {
    let upstream = Upstream::start();
    let world = World::new();
    let limits = "\n[limits]\nmax_clients = 4\n";
    world.write_config(&format!("{}{limits}", upstream.config("test")));
    let _daemon = world.daemon().spawn();
    let driver = world.client();
    let conversation = driver.create();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let turn = driver.ask(conversation, "how long?");
    gate.wait_request();

    let half = UnixStream::connect(world.socket()).unwrap();
    half.set_read_timeout(Some(PATIENCE)).unwrap();
    (&half).write_all(waits_for(turn).as_bytes()).unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    let mut half = BufReader::new(half).lines();
    assert!(half.next().unwrap().unwrap().contains("clientId"));

    for _ in 0..20 {
        let gone = until("a place for one more", PATIENCE, || {
            let stream = UnixStream::connect(world.socket()).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let sent = (&stream).write_all(waits_for(turn).as_bytes());
            let mut reader = BufReader::new(&stream);
            let mut line = String::new();
            let read = reader.read_line(&mut line);
            let served = sent.is_ok() && read.is_ok() && line.contains("clientId");
            served.then_some(stream)
        });
        drop(gone);
    }
    gate.finish();
    let answer = half.next().unwrap().unwrap();
    assert!(answer.contains("finished"), "{answer}");
    assert!(
        half.next().is_none(),
        "the connection ends after the answers"
    );
}
