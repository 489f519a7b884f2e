//! Going out through a proxy of the daemon.

use std::io::Write as _;

use super::place::{Host, Place, counts, echo, head, rest, settings};
use crate::{EgressSettings, Refusal, Upstream, UpstreamProxy};

fn through(proxy: &Host, credentials: &str, no_proxy: &str, allow: &str) -> Place {
    let address = format!("http://{credentials}{}", proxy.address);
    let upstream = UpstreamProxy::parse(&address, no_proxy).unwrap();
    Place::with(EgressSettings {
        upstream: Upstream::Proxy(upstream),
        ..settings(allow)
    })
}

#[test]
fn a_tunnel_goes_through_the_tunnel_of_the_proxy() {
    let proxy = Host::new(|mut stream| {
        let seen = head(&mut stream);
        stream
            .write_all(b"HTTP/1.1 200 Yes\r\nX: y\r\n\r\nat once ")
            .unwrap();
        seen + &echo(stream)
    });
    let place = through(&proxy, "user:pass@", "", "*");
    // The name has no address here, and needs none.
    let mut client = place.tunnel("nowhere.example:443").unwrap();
    client.write_all(b"hello").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!("at once hello and bye", rest(&mut client));
    assert_eq!(
        "CONNECT nowhere.example:443 HTTP/1.1\r\nHost: nowhere.example:443\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n\
         hello",
        proxy.seen()
    );
}

#[test]
fn a_plain_request_goes_to_the_proxy_as_it_was() {
    let proxy = Host::hello();
    let place = through(&proxy, "user:pass@", "", "*");
    let said = place.say(
        "GET http://some.example/a HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic bWluZQ==\r\n\r\n",
    );
    assert!(said.ends_with("hello\n"), "{said}");
    assert_eq!(
        "GET http://some.example/a HTTP/1.1\r\nHost: some.example\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n\
         Connection: close\r\n\r\n",
        proxy.seen()
    );
}

#[test]
fn what_is_local_is_refused_here_also_where_the_proxy_would_do_it() {
    let proxy = Host::hello();
    let place = through(&proxy, "", "", "* *.example other.internal");
    for host in [
        "127.0.0.1",
        "[::ffff:10.0.0.1]",
        "169.254.169.254",
        "localhost",
        "a.localhost",
        "intranet",
        "a.internal",
    ] {
        let said = place.say(format!("GET http://{host}/ HTTP/1.1\r\n\r\n"));
        assert!(said.starts_with("HTTP/1.1 403 "), "{host}: {said}");
    }
    assert!(proxy.has_seen_nothing());
    assert!(
        place
            .say("GET http://other.internal/ HTTP/1.1\r\n\r\n")
            .ends_with("hello\n")
    );
}

#[test]
fn what_the_daemon_reaches_directly_it_looks_up() {
    let proxy = Host::hello();
    let host = Host::echo();
    let port = host.port();
    let place = through(
        &proxy,
        "",
        "127.0.0.0/8,.origin.example",
        &format!("origin.example:{port} *:{port}"),
    );
    let mut client = place.tunnel(&format!("origin.example:{port}")).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(" and bye", rest(&mut client));
    assert!(
        place
            .tunnel(&format!("127.0.0.1:{port}"))
            .unwrap_err()
            .contains("private address")
    );
    assert!(proxy.has_seen_nothing());
}

#[test]
fn what_the_proxy_says_of_itself_is_not_for_the_child() {
    let proxy = Host::answering(
        "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"inner\"\r\nContent-Length: 0\r\n\r\n",
    );
    let place = through(&proxy, "", "", "*");
    for said in [
        place.tunnel("some.example:443").unwrap_err(),
        place.say("GET http://some.example/ HTTP/1.1\r\n\r\n"),
    ] {
        assert!(said.starts_with("HTTP/1.1 502 "), "{said}");
        assert!(
            said.contains("was refused by the proxy that aishd goes through")
                && !said.contains("inner"),
            "{said}"
        );
    }
    let report = place.end();
    assert_eq!((0, 0, 1), counts(&report, "some.example:443"));
    for (_, traffic) in report.hosts {
        assert_eq!(Some(&1), traffic.refusals.get(&Refusal::UpstreamRefused));
    }
}
