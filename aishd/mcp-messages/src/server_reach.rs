//! How far a server is: what stays near gets no proxy, and without TLS no roots.

// The values only: nothing here opens anything.
use ::core::net::{IpAddr, Ipv6Addr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerReach {
    /// This machine or its network: a proxy would be handed the prompt and the key for nothing. Without TLS no roots
    /// are loaded, which takes memory and fails where a container has none.
    NearPlain,
    NearTls,
    Far,
}

impl ServerReach {
    /// `host` as in a URL: an address of version 6 in brackets.
    pub fn of(scheme: &str, host: &str) -> Self {
        match (is_near(host), scheme) {
            (true, "http") => Self::NearPlain,
            (true, _) => Self::NearTls,
            (false, _) => Self::Far,
        }
    }
}

/// Whether a URL leads to this very machine.
pub fn is_this_machine(url: &str) -> bool {
    let after_scheme = url.split_once("://").map_or("", |(_, rest)| rest);
    let authority = after_scheme
        .split(['/', '?', '#'])
        .next()
        .unwrap_or_default();
    let host_and_port = authority.rsplit('@').next().unwrap_or_default();
    let host = match host_and_port.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host_and_port.split(':').next().unwrap_or_default(),
    };
    let is_loopback = |ip: IpAddr| ip.is_loopback();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback)
}

fn is_near(host: &str) -> bool {
    match host.trim_matches(['[', ']']).parse() {
        Ok(IpAddr::V4(ip)) => {
            let carrier_grade = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || carrier_grade
        }
        Ok(IpAddr::V6(ip)) => {
            ip.is_loopback()
                || ip.is_unique_local()
                || ip.is_unicast_link_local()
                || mapped_near(ip)
        }
        // A name without a dot is a neighbour's.
        Err(_name) => {
            !host.contains('.')
                || [".localhost", ".local", ".lan", ".internal", ".home.arpa"]
                    .iter()
                    .any(|ending| host.ends_with(ending))
        }
    }
}

fn mapped_near(ip: Ipv6Addr) -> bool {
    ip.to_ipv4_mapped()
        .is_some_and(|ip| ip.is_loopback() || ip.is_private())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: ServerReach) {
        let (scheme, rest) = url.split_once("://").unwrap();
        assert_eq!(expected, ServerReach::of(scheme, rest), "{url}");
    }

    #[test]
    fn this_machine_is_not_its_network() {
        for (url, here) in [
            ("http://127.0.0.1:8080/mcp", true),
            ("http://LOCALHOST/mcp", true),
            ("https://[::1]:8/", true),
            ("http://192.168.1.2/", false),
            ("http://127.0.0.1@evil.example/", false),
            ("http://localhost.evil.example/", false),
            ("", false),
        ] {
            assert_eq!(here, is_this_machine(url), "{url}");
        }
    }

    #[test]
    fn no_proxy_sees_what_stays_near() {
        for near in [
            "http://127.0.0.1",
            "http://localhost",
            "http://[::1]",
            "http://192.168.1.2",
            "http://10.0.0.1",
            "http://100.64.0.1",
            "http://boltzmann",
            "http://nas.local",
            "http://[fd00::1]",
            "http://[::ffff:127.0.0.1]",
        ] {
            check(near, ServerReach::NearPlain);
        }
        check("https://nas.local", ServerReach::NearTls);
        for far in [
            "https://api.openai.com",
            "http://8.8.8.8",
            "http://100.128.0.1",
            "http://[2001:db8::1]",
            "https://localhost.evil.example",
        ] {
            check(far, ServerReach::Far);
        }
    }
}
