//! What goes through, and how it looks at the other side.

use std::io::Write as _;
use std::net::{IpAddr, Ipv6Addr, Shutdown};

use super::place::{Host, Place, connected, counts, echo, head, rest};

#[test]
fn a_tunnel_carries_both_ways_and_each_end_by_itself() {
    let host = Host::echo();
    let place = Place::allowing(&format!("127.0.0.1:{}", host.port()));
    let target = format!("127.0.0.1:{}", host.port());
    let mut client = place.tunnel(&target).unwrap();
    client.write_all(b"one way").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!("one way and bye", rest(&mut client));
    assert_eq!("one way", host.seen());
    let report = place.end();
    assert_eq!((1, 0, 0), counts(&report, &target));
    let traffic = report.hosts.values().next().unwrap();
    assert_eq!((7, 15), (traffic.bytes_out, traffic.bytes_in));
}

#[test]
fn what_is_sent_with_the_request_is_not_lost() {
    let host = Host::echo();
    let place = Place::allowing(&format!("127.0.0.1:{}", host.port()));
    let mut client = place.client();
    write!(
        client,
        "CONNECT 127.0.0.1:{} HTTP/1.1\r\n\r\nearly",
        host.port()
    )
    .unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(
        "HTTP/1.1 200 Connection established\r\n\r\nearly and bye",
        rest(&mut client)
    );
}

#[test]
fn much_goes_through_a_tunnel_unchanged() {
    let host = Host::echo();
    let place = Place::allowing(&format!("127.0.0.1:{}", host.port()));
    let mut client = place.tunnel(&format!("127.0.0.1:{}", host.port())).unwrap();
    let sent: String = (0..400_000).map(|it| format!("{it} ")).collect();
    let mut writer = client.try_clone().unwrap();
    let all = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(all.as_bytes()).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let echoed = rest(&mut client);
    writing.join().unwrap();
    assert_eq!(sent.len() + 8, echoed.len());
    assert!(echoed.starts_with(&sent));
}

#[test]
fn socks_connects_to_names_and_addresses() {
    let host = Host::echo();
    let port = host.port();
    let place = Place::allowing(&format!(
        "127.0.0.1:{port} origin.example:{port} [::1]:{port}"
    ));
    let of_name = [&[3, 14], &b"origin.example"[..]].concat();
    let written = [&[3, 9], &b"127.0.0.1"[..]].concat();
    let mapped = [
        &[4],
        &"::ffff:127.0.0.1".parse::<Ipv6Addr>().unwrap().octets()[..],
    ]
    .concat();
    for address in [vec![1, 127, 0, 0, 1], of_name, written, mapped] {
        let (code, mut client) = place.socks(&address, port);
        assert_eq!(0, code, "{address:?}");
        client.write_all(b"x").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!("x and bye", rest(&mut client));
    }
    let report = place.end();
    assert_eq!((3, 0, 0), counts(&report, &format!("127.0.0.1:{port}")));
    assert_eq!(
        (1, 0, 0),
        counts(&report, &format!("origin.example:{port}"))
    );
    let Ok(host) = Host::at(IpAddr::V6(Ipv6Addr::LOCALHOST), echo) else {
        println!("SKIPPED: there is no IPv6 here");
        return;
    };
    let place = Place::allowing(&format!("[::1]:{}", host.port()));
    let address = [&[4], &Ipv6Addr::LOCALHOST.octets()[..]].concat();
    assert_eq!(0, place.socks(&address, host.port()).0);
    assert!(place.tunnel(&format!("[::1]:{}", host.port())).is_ok());
}

#[test]
fn what_socks_cannot_do_is_said_by_its_codes() {
    let place = Place::allowing("127.0.0.1:1");
    assert_eq!("\u{5}\u{fffd}", place.say([5, 1, 2]));
    for (code, request) in [
        (7, vec![5, 2, 0, 1, 127, 0, 0, 1, 0, 80]),
        (7, vec![5, 3, 0, 1, 127, 0, 0, 1, 0, 80]),
        (8, vec![5, 1, 0, 2, 127, 0, 0, 1, 0, 80]),
        (1, vec![5, 1, 0, 1, 127, 0, 0, 1, 0, 0]),
        (1, vec![5, 1, 0, 3, 0, 0, 80]),
        (1, vec![5, 1, 0, 3, 1, 0xff, 0, 80]),
        (1, vec![4, 1, 0, 1, 127, 0, 0, 1, 0, 80]),
        (2, vec![5, 1, 0, 1, 127, 0, 0, 1, 0, 80]),
        (2, vec![5, 1, 0, 3, 1, b'a', 0, 80]),
        (5, vec![5, 1, 0, 1, 127, 0, 0, 1, 0, 1]),
    ] {
        let said = place.say([&[5, 1, 0], &request[..]].concat());
        let expected = format!("\u{5}\0\u{5}{}\0\u{1}\0\0\0\0\0\0", char::from(code));
        assert_eq!(expected, said, "{request:?}");
    }
}

#[test]
fn a_plain_request_is_written_anew() {
    let host = Host::answering(
        "HTTP/1.1 200 Fine\r\nContent-Length: 5\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: 5\r\nX-Hop: 1\r\n\
         Proxy-Authenticate: Basic\r\nX-Kept: 2\r\n\r\nhello",
    );
    let port = host.port();
    let place = Place::allowing(&format!("origin.example:{port}"));
    let said = place.say(format!(
        "GET HTTP://ORIGIN.example.:{port}?q=1 HTTP/1.1\r\nHOST: other.example\r\nUser-Agent: x\r\n\
         Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\nConnection: X-Mine, close\r\nX-Mine: 1\r\n\
         Upgrade: websocket\r\nTE: trailers\r\nAccept: */*\r\n\r\n"
    ));
    assert_eq!(
        "HTTP/1.1 200 Fine\r\nx-kept: 2\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        said
    );
    let expected = format!(
        "GET /?q=1 HTTP/1.1\r\nHost: origin.example:{port}\r\nuser-agent: x\r\naccept: */*\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(expected, host.seen());
}

#[test]
fn a_body_goes_along_with_its_length_or_in_chunks() {
    let host = Host::hello();
    let port = host.port();
    let place = Place::allowing(&format!("127.0.0.1:{port}"));
    let head = format!("POST http://127.0.0.1:{port}/a HTTP/1.1\r\nHost: x\r\n");
    let written = format!("POST /a HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n");
    let body = "GET /b HTTP/1.1\r\n\r\n";
    for (sent, seen) in [
        (
            format!("Content-Length: 19\r\n\r\n{body}"),
            format!("Content-Length: 19\r\nConnection: close\r\n\r\n{body}"),
        ),
        (
            format!(
                "Transfer-Encoding: Chunked\r\n\r\n13;a=b\r\n{body}\r\n00a\r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\n"
            ),
            format!(
                "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n13\r\n{body}\r\na\r\n0123456789\r\n0\r\n\r\n"
            ),
        ),
    ] {
        let said = place.say(format!("{head}{sent}"));
        assert!(said.ends_with("\r\n\r\nhello\n"), "{said}");
        assert_eq!(format!("{written}{seen}"), host.seen());
    }
}

#[test]
fn whoever_waits_to_be_told_to_go_on_is_told() {
    let host = Host::new(|mut stream| {
        let mut seen = head(&mut stream);
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        let mut body = [0; 4];
        std::io::Read::read_exact(&mut stream, &mut body).unwrap();
        seen.push_str(&String::from_utf8_lossy(&body));
        stream
            .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
            .unwrap();
        seen
    });
    let place = Place::allowing(&format!("127.0.0.1:{}", host.port()));
    let mut client = place.client();
    write!(
        client,
        "PUT http://127.0.0.1:{}/ HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
        host.port()
    )
    .unwrap();
    assert_eq!("HTTP/1.1 100 Continue\r\n\r\n", head(&mut client));
    client.write_all(b"body").unwrap();
    assert_eq!(
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        rest(&mut client)
    );
    assert!(host.seen().ends_with("\r\n\r\nbody"));
}

#[test]
fn who_has_said_all_may_close_its_half_and_still_gets_the_answer() {
    let host = Host::hello();
    let place = Place::allowing(&format!("127.0.0.1:{}", host.port()));
    let mut client = place.client();
    write!(
        client,
        "GET http://127.0.0.1:{}/ HTTP/1.0\r\n\r\n",
        host.port()
    )
    .unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert!(rest(&mut client).ends_with("hello\n"));
    assert!(host.seen().starts_with("GET / HTTP/1.0\r\n"));
}

#[test]
fn the_end_of_the_proxy_is_the_end_of_its_connections() {
    let host = Host::echo();
    let target = format!("127.0.0.1:{}", host.port());
    let place = Place::allowing(&target);
    let mut tunnel = place.tunnel(&target).unwrap();
    let mut half_asked = place.client();
    half_asked.write_all(b"CONNECT ").unwrap();
    let address = place.proxy.address();
    let report = place.end();
    assert_eq!("", rest(&mut tunnel));
    assert_eq!("", rest(&mut half_asked));
    assert_eq!("", host.seen());
    assert!(std::net::TcpStream::connect(address).is_err());
    assert_eq!((1, 0, 0), counts(&report, &target));

    let Place { runtime, proxy } = Place::allowing(&target);
    let mut client = connected(proxy.address());
    write!(client, "CONNECT {target} HTTP/1.1\r\n\r\n").unwrap();
    assert!(head(&mut client).starts_with("HTTP/1.1 200 "));
    drop(proxy);
    assert_eq!("", rest(&mut client));
    drop(runtime);
}
