//! Which hosts are reached, and what is said where they are not.

use super::place::{Host, Place, counts, head, patterns, rest, settings};
use crate::{EgressSettings, HostRules, Refusal};

#[test]
fn what_is_not_allowed_says_so() {
    let place = Place::allowing("crates.example");
    let text = "aish: example.org:443 is not allowed for this command";
    let length = text.len() + 1;
    let expected = format!(
        "HTTP/1.1 403 {text}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{text}\n"
    );
    assert_eq!(expected, place.tunnel("Example.org.:443").unwrap_err());
    let plain = place.say("GET http://example.org/ HTTP/1.1\r\n\r\n");
    assert!(
        plain.ends_with("\r\n\r\naish: example.org:80 is not allowed for this command\n"),
        "{plain}"
    );
    let name = [&[3, 11], &b"example.org"[..]].concat();
    assert_eq!(2, place.socks(&name, 443).0);
    assert!(place.tunnel("crates.example:22").is_err());
    let report = place.end();
    assert_eq!((0, 2, 0), counts(&report, "example.org:443"));
    assert_eq!((0, 1, 0), counts(&report, "crates.example:22"));
}

#[test]
fn the_answer_also_reaches_who_has_much_more_to_say() {
    let place = Place::allowing("");
    let mut client = place.client();
    let body = vec![b'x'; 300_000];
    let head = format!(
        "POST http://example.org/ HTTP/1.1\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    std::io::Write::write_all(&mut client, &[head.as_bytes(), &body].concat()).unwrap();
    assert!(rest(&mut client).contains("not allowed for this command"));
}

#[test]
fn no_spelling_of_a_private_address_is_reached_by_a_star() {
    let host = Host::hello();
    let port = host.port();
    let place = Place::allowing(&format!("*:{port} *.example:{port}"));
    for spelled in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "0.0.0.0",
        "0",
        "localhost",
        "LOCALHOST.",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "169.254.169.254",
        "10.0.0.1",
        "[fe80::1]",
        "[fd00::1]",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "origin.example",
        "inside.example",
    ] {
        let tunnel = place.tunnel(&format!("{spelled}:{port}")).unwrap_err();
        assert!(
            tunnel.contains("is at a private address, which only a rule with its name allows"),
            "{spelled}: {tunnel}"
        );
        let plain = place.say(format!("GET http://{spelled}:{port}/ HTTP/1.1\r\n\r\n"));
        assert!(plain.starts_with("HTTP/1.1 403 "), "{spelled}: {plain}");
        let bare = spelled.trim_matches(['[', ']']);
        let address = [&[3, u8::try_from(bare.len()).unwrap()], bare.as_bytes()].concat();
        assert_eq!(2, place.socks(&address, port).0, "{spelled}");
    }
    assert!(host.has_seen_nothing());
    let report = place.end();
    assert_eq!(0, report.hosts.values().map(|it| it.allowed).sum::<u64>());
}

#[test]
fn a_name_that_leads_to_a_private_address_needs_a_rule_of_its_own() {
    let host = Host::hello();
    let port = host.port();
    let ask = format!("GET http://origin.example:{port}/ HTTP/1.1\r\n\r\n");
    for (rules, expected) in [
        (format!("origin.example:{port}"), "200"),
        (format!("*.example:{port}"), "403"),
        (format!("*.example:{port} origin.example:{port}"), "200"),
        // A rule for the address is none for the name, which could lead elsewhere next time.
        (format!("*.example:{port} 127.0.0.1:{port}"), "403"),
        ("origin.example".to_owned(), "403"),
    ] {
        let said = Place::allowing(&rules).say(&ask);
        assert!(
            said.starts_with(&format!("HTTP/1.1 {expected} ")),
            "{rules}: {said}"
        );
    }
    let place = Place::with(EgressSettings {
        rules: HostRules {
            allow_public: patterns(&format!("origin.example:{port}")),
            ..HostRules::default()
        },
        ..settings("")
    });
    assert!(place.say(&ask).starts_with("HTTP/1.1 403 "));
}

#[test]
fn the_names_of_the_system_are_found() {
    let host = Host::hello();
    let port = host.port();
    let said = Place::allowing(&format!("localhost:{port}"))
        .say(format!("GET http://LocalHost:{port}/ HTTP/1.1\r\n\r\n"));
    assert!(said.ends_with("hello\n"), "{said}");
    assert!(
        host.seen()
            .contains(&format!("\r\nHost: localhost:{port}\r\n"))
    );
}

#[test]
fn a_denied_address_is_not_reached_by_any_name() {
    let host = Host::hello();
    let port = host.port();
    let allow = format!("origin.example:{port} 127.0.0.1:{port} [::ffff:127.0.0.1]:{port}");
    let place = Place::allowing(&allow);
    let target = format!("origin.example:{port}");
    assert!(place.tunnel(&target).is_ok());
    place
        .proxy
        .change_rules(|it| it.deny = patterns("127.0.0.1"));
    for host in ["origin.example", "127.0.0.1", "[::ffff:127.0.0.1]", "127.1"] {
        let said = place.tunnel(&format!("{host}:{port}")).unwrap_err();
        assert!(
            said.contains("is not allowed for this command"),
            "{host}: {said}"
        );
    }
}

#[test]
fn rules_change_while_connections_are_open() {
    let host = Host::echo();
    let target = format!("origin.example:{}", host.port());
    let place = Place::allowing("");
    assert!(place.tunnel(&target).is_err());
    place.proxy.change_rules(|it| it.allow = patterns(&target));
    let mut open = place.tunnel(&target).unwrap();
    place.proxy.change_rules(|it| it.deny = patterns("*"));
    assert!(place.tunnel(&target).is_err());
    std::io::Write::write_all(&mut open, b"still\r\n\r\n").unwrap();
    assert_eq!("still\r\n\r\n", head(&mut open));
}

#[test]
fn what_cannot_be_reached_says_why() {
    // Nobody listens there.
    let closed = 1;
    let place = Place::allowing(&format!("127.0.0.1:{closed} nowhere.example"));
    let said = place.tunnel(&format!("127.0.0.1:{closed}")).unwrap_err();
    assert!(
        said.starts_with(&format!(
            "HTTP/1.1 502 aish: 127.0.0.1:{closed} refused the connection\r\n"
        )),
        "{said}"
    );
    let said = place.tunnel("nowhere.example:443").unwrap_err();
    assert!(
        said.starts_with("HTTP/1.1 502 aish: nowhere.example:443 has no address\r\n"),
        "{said}"
    );
    let report = place.end();
    assert_eq!((0, 0, 1), counts(&report, "nowhere.example:443"));
    // In the order of their names.
    let refusals = report
        .hosts
        .values()
        .flat_map(|it| it.refusals.keys().copied());
    assert_eq!(
        [Refusal::NameNotFound, Refusal::ConnectionRefused][..],
        refusals.collect::<Vec<_>>()
    );
}
