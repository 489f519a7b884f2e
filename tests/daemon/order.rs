//! What one connection sends in one go: calls begin in the order of their lines, and a client that has gone
//! leaves nothing behind (spec 10, Transport).

use std::fmt::Write as _;
use std::time::Duration;

use aish_proto::conversation::{History, HistoryParams};
use aish_proto::event::Renamed;
use aish_testkit::World;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(20);

fn call(id: usize, method: &str, params: &Value) -> String {
    let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    format!("{line}\n")
}

fn hello() -> Value {
    json!({
        "protocol": {"min": 1, "max": 1},
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
        .filter_map(aish_proto::event::Envelope::read::<Renamed>);
    assert_eq!(titles, renamed.map(|it| it.title).collect::<Vec<_>>());
}
