//! What somebody sends who wants it to go wrong.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::place::{Host, Place, connected, counts, head, rest, settings};
use crate::{EgressLimits, EgressSettings};

fn limited(allow: &str, limits: EgressLimits) -> Place {
    Place::with(EgressSettings {
        limits,
        ..settings(allow)
    })
}

#[test]
fn who_never_ends_its_request_is_sent_away() {
    let limits = EgressLimits {
        handshake: Duration::from_secs(1),
        ..EgressLimits::default()
    };
    let place = limited("", limits);
    let mut drop_by_drop = place.client();
    let begun = [
        (&b""[..], ""),
        (b"GET http://a.example/ HTTP/1.1\r\nX: ", "HTTP/1.1 408 "),
        (b"\x05", ""),
        (b"\x05\x02\x00", ""),
    ];
    let begun = begun.map(|(begin, expected)| {
        let mut client = place.client();
        client.write_all(begin).unwrap();
        (client, expected)
    });
    // Each byte alone comes soon after the one before.
    drop_by_drop
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let mut answer = [0; 13];
    loop {
        drop(drop_by_drop.write_all(b"G"));
        match drop_by_drop.read_exact(&mut answer) {
            Ok(()) => break,
            Err(error) => assert_eq!(std::io::ErrorKind::WouldBlock, error.kind()),
        }
    }
    assert_eq!(b"HTTP/1.1 408 ", &answer);
    for (mut client, expected) in begun {
        assert!(rest(&mut client).starts_with(expected));
    }
    assert_eq!(5, place.end().malformed);
}

#[test]
fn a_head_has_an_end() {
    let place = Place::allowing("");
    let long = "x".repeat(100_000);
    let many: String = (0..200).map(|it| format!("X-{it}: 1\r\n")).collect();
    for request in [
        format!("GET http://{long}/ HTTP/1.1\r\n\r\n"),
        format!("GET http://a.example/{long} HTTP/1.1\r\n\r\n"),
        format!("GET http://a.example/ HTTP/1.1\r\nX: {long}\r\n\r\n"),
        format!("GET http://a.example/ HTTP/1.1\r\n{many}\r\n"),
        format!("{}\r\n\r\n", "A".repeat(100_000)),
    ] {
        let said = place.say(request);
        assert!(said.starts_with("HTTP/1.1 431 "), "{said}");
    }
    assert_eq!(5, place.end().malformed);
}

#[test]
fn what_is_no_protocol_gets_no_answer() {
    let place = Place::allowing("*");
    for begin in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"\x04\x01\x00\x50",
        b"\r\n\r\n",
        b"get / HTTP/1.1\r\n\r\n",
        b"\0",
        b"\xff\xff",
    ] {
        assert_eq!("", place.say(begin));
    }
    assert_eq!(6, place.end().malformed);
}

#[test]
fn what_two_readers_could_understand_differently_is_refused() {
    let host = Host::hello();
    let port = host.port();
    let place = Place::allowing(&format!("origin.example:{port} 127.0.0.1:{port}"));
    let to = format!("http://origin.example:{port}");
    let line = format!("POST {to}/ HTTP/1.1\r\n");
    let smuggled = "GET /admin HTTP/1.1\r\nHost: other.example\r\n\r\n";
    for request in [
        format!("{line}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{line}Content-Length: 5\r\nContent-Length: 50\r\n\r\n{smuggled}"),
        format!("{line}Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
        format!("{line}Content-Length: 5, 5\r\n\r\nhello"),
        format!("{line}Content-Length: +5\r\n\r\nhello"),
        format!("{line}Content-Length: 0x5\r\n\r\nhello"),
        format!("{line}Content-Length:\r\n\r\nhello"),
        format!("{line}Content-Length: 99999999999999999999999\r\n\r\nhello"),
        format!("{line}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{line}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{line}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!(
            "{line}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"
        ),
        format!("{line}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{line} Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{line}X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{line}X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{line}X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{line}X: \0\r\n\r\n"),
        format!("POST {to}/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{line}Host: origin.example\r\nHost: other.example\r\n\r\n"),
        format!("GET {to}/ HTTP/1.1 \r\n\r\n"),
        format!("GET  {to}/ HTTP/1.1\r\n\r\n"),
        format!("GET\t{to}/ HTTP/1.1\r\n\r\n"),
        format!("GET {to}/ HTTP/2.0\r\n\r\n"),
        format!("GET {to}/\r\n\r\n"),
        format!("GET {to}/\n\n"),
        format!("GET {to}/#x HTTP/1.1\r\n\r\n"),
        format!("GET {to}/\u{e9} HTTP/1.1\r\n\r\n"),
        format!("GET http://user:pass@origin.example:{port}/ HTTP/1.1\r\n\r\n"),
        format!("GET http://other.example@origin.example:{port}/ HTTP/1.1\r\n\r\n"),
        format!("GET http://origin.example:{port}\\@other.example/ HTTP/1.1\r\n\r\n"),
        format!("GET http://origin.example%00:{port}/ HTTP/1.1\r\n\r\n"),
        format!("GET http://127.0.0.1:{port}:80/ HTTP/1.1\r\n\r\n"),
        format!("GET http://::1:{port}/ HTTP/1.1\r\n\r\n"),
        "GET http:///x HTTP/1.1\r\n\r\n".to_owned(),
        format!("GET https://origin.example:{port}/ HTTP/1.1\r\n\r\n"),
        format!("GET ftp://origin.example:{port}/ HTTP/1.1\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: origin.example:{port}\r\n\r\n"),
        format!("GET //origin.example:{port}/ HTTP/1.1\r\n\r\n"),
        "CONNECT origin.example HTTP/1.1\r\n\r\n".to_owned(),
        format!("CONNECT {to} HTTP/1.1\r\n\r\n"),
        format!("CONNECT a@origin.example:{port} HTTP/1.1\r\n\r\n"),
        format!("CONNECT origin.example:{port}/x HTTP/1.1\r\n\r\n"),
        format!("CONNECT origin.example:{port} HTTP/1.1\r\nContent-Length: 1\r\n\r\nx"),
        format!(
            "CONNECT origin.example:{port} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        ),
    ] {
        let said = place.say(&request);
        assert!(
            said.starts_with("HTTP/1.1 400 aish: "),
            "{request:?}\n{said}"
        );
    }
    assert!(host.has_seen_nothing());
    assert!(place.end().hosts.is_empty());
}

#[test]
fn what_comes_after_a_request_goes_nowhere() {
    let host = Host::hello();
    let port = host.port();
    let place = Place::allowing(&format!("127.0.0.1:{port}"));
    let second =
        format!("GET http://other.example:{port}/admin HTTP/1.1\r\nHost: other.example\r\n\r\n");
    let line = format!("POST http://127.0.0.1:{port}/ HTTP/1.1\r\n");
    for (request, end) in [
        (line.clone(), "Connection: close\r\n\r\n"),
        (
            format!("{line}Content-Length: 2\r\n"),
            "Connection: close\r\n\r\nab",
        ),
        (
            format!("{line}Transfer-Encoding: chunked\r\n"),
            "\r\n2\r\nab\r\n0\r\n\r\n",
        ),
        (
            format!("{line}Connection: Content-Length, Host, close\r\nContent-Length: 2\r\n"),
            "Connection: close\r\n\r\nab",
        ),
    ] {
        let body = match end.find("\r\n2\r\n") {
            Some(_) => "2\r\nab\r\n0\r\n\r\n",
            None => end.strip_prefix("Connection: close\r\n\r\n").unwrap(),
        };
        let said = place.say(format!("{request}\r\n{body}{second}"));
        assert!(said.ends_with("\r\n\r\nhello\n"), "{said}");
        let seen = host.seen();
        assert!(seen.ends_with(end) && !seen.contains("admin"), "{seen}");
    }
}

#[test]
fn a_broken_body_never_looks_whole_to_the_host() {
    let host = Host::hello();
    let port = host.port();
    let place = Place::allowing(&format!("127.0.0.1:{port}"));
    let line =
        format!("POST http://127.0.0.1:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    for body in [
        "2\r\nabc\r\n0\r\n\r\n",
        "x\r\n",
        "2\nab\r\n0\r\n\r\n",
        "-1\r\n",
        "1 1\r\na\r\n0\r\n\r\n",
        "2\r\nab\n0\r\n\r\n",
    ] {
        assert_eq!("", place.say(format!("{line}{body}")), "{body:?}");
        let seen = host.seen();
        assert!(seen.ends_with("<cut>"), "{body:?}: {seen}");
    }
    let size = format!("{line}1;{}", "x".repeat(100_000));
    assert_eq!("", place.say(size));
}

#[test]
fn a_host_that_speaks_no_http_is_said_to() {
    for answer in [
        "",
        "hello",
        "HTTP/1.1\r\n\r\n",
        "HTTP/1.1 OK\r\n\r\n",
        "HTTP/1.1 200 OK\nX: y\n\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        "220 mail.example ESMTP\r\n",
        "HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
    ] {
        let host = Host::answering(answer);
        let target = format!("127.0.0.1:{}", host.port());
        let place = Place::allowing(&target);
        let said = place.say(format!("GET http://{target}/ HTTP/1.1\r\n\r\n"));
        assert!(
            said.starts_with(&format!(
                "HTTP/1.1 502 aish: {target} did not answer in HTTP\r\n"
            )),
            "{answer:?}: {said}"
        );
        assert_eq!((1, 0, 1), counts(&place.end(), &target));
    }
}

#[test]
fn a_host_that_says_nothing_is_given_up() {
    let host = Host::new(|mut stream| rest(&mut stream));
    let limits = EgressLimits {
        idle: Duration::from_millis(50),
        ..EgressLimits::default()
    };
    let target = format!("127.0.0.1:{}", host.port());
    let place = limited(&target, limits);
    let said = place.say(format!("GET http://{target}/ HTTP/1.1\r\n\r\n"));
    assert!(said.starts_with("HTTP/1.1 504 "), "{said}");
    assert_eq!("", rest(&mut place.tunnel(&target).unwrap()));
}

#[test]
fn a_child_that_is_gone_does_not_hold_a_host_that_does_not_end() {
    let host = Host::new(|mut stream| {
        head(&mut stream);
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab")
            .unwrap();
        // Not the end that was asked for.
        rest(&mut stream)
    });
    let limits = EgressLimits {
        handshake: Duration::from_secs(1),
        ..EgressLimits::default()
    };
    let target = format!("127.0.0.1:{}", host.port());
    let place = limited(&target, limits);
    let mut client = place.client();
    write!(client, "GET http://{target}/ HTTP/1.1\r\n\r\n").unwrap();
    assert!(head(&mut client).ends_with("Content-Length: 2\r\nConnection: close\r\n\r\n"));
    client.read_exact(&mut [0; 2]).unwrap();
    drop(client);
    assert_eq!("", host.seen());
}

#[test]
fn more_connections_than_there_may_be_wait() {
    let host = Host::echo();
    let target = format!("127.0.0.1:{}", host.port());
    let limits = EgressLimits {
        connections: 2,
        ..EgressLimits::default()
    };
    let place = limited(&target, limits);
    let first = place.tunnel(&target).unwrap();
    let _second = place.tunnel(&target).unwrap();
    let mut third = place.client();
    write!(third, "CONNECT {target} HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!((2, 0, 0), counts(&place.proxy.report(), &target));
    drop(first);
    assert!(head(&mut third).starts_with("HTTP/1.1 200 "));
    assert_eq!((3, 0, 0), counts(&place.end(), &target));
}

#[test]
fn damaged_requests_end_and_reach_nobody_else() {
    let host = Host::hello();
    let port = host.port();
    let place = Place::allowing(&format!("origin.example:{port}"));
    let address = place.proxy.address();
    let whole = [
        format!("CONNECT origin.example:{port} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes(),
        format!("POST http://origin.example:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n").into_bytes(),
        [&[5, 1, 0, 5, 1, 0, 3, 14][..], b"origin.example", &port.to_be_bytes(), b"GET / HTTP/1.1\r\n\r\n"].concat(),
    ];
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 0..4);
    let mut runner = TestRunner::new(Config::default());
    let ran = runner.run(&(0..whole.len(), damage), |(which, damage)| {
        let mut bytes = whole[which].clone();
        for (at, byte, way) in damage {
            let at = at.index(bytes.len());
            match way {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        let mut client = connected(address);
        drop(client.write_all(&bytes));
        drop(client.shutdown(std::net::Shutdown::Write));
        rest(&mut client);
        Ok(())
    });
    ran.unwrap();
    assert!(place.tunnel(&format!("origin.example:{port}")).is_ok());
    for (host, traffic) in place.end().hosts {
        assert!(
            traffic.allowed == 0 || host.to_string() == format!("origin.example:{port}"),
            "{host}"
        );
    }
}
