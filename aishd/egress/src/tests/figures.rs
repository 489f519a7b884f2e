//! What a connection costs more through the proxy. Nothing is asserted of it:
//! `cargo test --release -p aishd-egress figures -- --nocapture`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::place::{Host, Place, connected, head};

#[test]
fn figures() {
    let rounds = if cfg!(debug_assertions) { 50 } else { 5_000 };
    let host = Host::echo();
    let target = format!("origin.example:{}", host.port());
    let place = Place::allowing(&target);
    let proxy = place.proxy.address();
    let direct = measured(rounds, || connected(host.address));
    let tunnel = measured(rounds, || {
        let mut stream = connected(proxy);
        stream.set_nodelay(true).unwrap();
        write!(stream, "CONNECT {target} HTTP/1.1\r\n\r\n").unwrap();
        assert!(head(&mut stream).starts_with("HTTP/1.1 200 "));
        stream
    });
    let name = [&[3, 14], &b"origin.example"[..]].concat();
    let socks = measured(rounds, || place.socks(&name, host.port()).1);
    for (what, mut times) in [("direct", direct), ("CONNECT", tunnel), ("SOCKS5", socks)] {
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
        println!(
            "{what:8} until the first byte is back: p50 {:?}, p99 {:?}",
            at(50),
            at(99)
        );
    }
}

/// How long it takes to have a connection and one byte there and back.
fn measured(rounds: usize, mut connect: impl FnMut() -> TcpStream) -> Vec<Duration> {
    let once = |_| {
        let begun = Instant::now();
        let mut stream = connect();
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        begun.elapsed()
    };
    (0..rounds).map(once).collect()
}
