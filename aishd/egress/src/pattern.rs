//! A line of a rule: which hosts, and which of their ports. Pure.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::host::{HostError, HostName, HostPort, NamedHost, split_port};

/// The ports of a pattern that allows and has none.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// `example.org`, `*.example.org`, `example.org:8443`, `192.0.2.7`, `[::1]:8080` or `*`.
///
/// A pattern with a star means public hosts only, and one with a name does not mean what lies below it. Where there is no
/// port, it allows 80 and 443, and denies all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPattern {
    hosts: PatternHosts,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum PatternHosts {
    Every,
    Below(HostName),
    Exactly(NamedHost),
}

/// A text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("read the host of a pattern")]
    Host(#[from] HostError),
    #[error(
        "read the star in {0:?}: it stands for every host, or before a dot and a name, as in *.example.org"
    )]
    Star(String),
    #[error("read {0:?}: a pattern is a host and a port, without a scheme or a path")]
    Address(String),
}

impl HostPattern {
    /// This host and port and no other.
    pub fn exactly(target: HostPort) -> Self {
        Self {
            hosts: PatternHosts::Exactly(target.host),
            port: Some(target.port),
        }
    }

    /// Whether it names one host, so that it may mean one at a private address too.
    pub fn is_exact(&self) -> bool {
        matches!(self.hosts, PatternHosts::Exactly(_))
    }

    /// Whether it is about this host and port, as a rule that allows.
    pub fn allows(&self, target: &HostPort) -> bool {
        let is_port = match self.port {
            Some(port) => port == target.port,
            None => USUAL_PORTS.contains(&target.port),
        };
        is_port && self.means(&target.host)
    }

    /// Whether it is about this host and port, as a rule that denies.
    pub fn denies(&self, target: &HostPort) -> bool {
        self.port.is_none_or(|it| it == target.port) && self.means(&target.host)
    }

    fn means(&self, host: &NamedHost) -> bool {
        match (&self.hosts, host) {
            (PatternHosts::Every, _) => true,
            (PatternHosts::Below(parent), NamedHost::Name(name)) => name.is_below(parent),
            (PatternHosts::Below(_), NamedHost::Address(_)) => false,
            (PatternHosts::Exactly(exactly), host) => exactly == host,
        }
    }
}

impl FromStr for HostPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let text = text.trim();
        if text.contains('/') {
            return Err(PatternError::Address(text.chars().take(80).collect()));
        }
        let (host, port) = match text.parse::<Ipv6Addr>() {
            Ok(_) => (text, None),
            Err(_) => split_port(text)?,
        };
        let star = || PatternError::Star(text.chars().take(80).collect());
        let hosts = if host == "*" {
            PatternHosts::Every
        } else if let Some(parent) = host.strip_prefix("*.") {
            match NamedHost::parse(parent) {
                Ok(NamedHost::Name(name)) => PatternHosts::Below(name),
                Ok(NamedHost::Address(_)) => return Err(star()),
                Err(_) if parent.contains('*') => return Err(star()),
                Err(error) => return Err(error.into()),
            }
        } else if host.contains('*') {
            return Err(star());
        } else {
            PatternHosts::Exactly(NamedHost::parse(host)?)
        };
        Ok(Self { hosts, port })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            PatternHosts::Every => f.write_str("*"),
            PatternHosts::Below(name) => write!(f, "*.{name}"),
            PatternHosts::Exactly(host) => host.fmt(f),
        }?;
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse().unwrap()
    }

    fn target(text: &str) -> HostPort {
        HostPort::parse(text, None).unwrap()
    }

    #[test]
    fn which_hosts_a_pattern_allows() {
        for (text, yes, no) in [
            (
                "example.org",
                "example.org:80 EXAMPLE.org.:443",
                "example.org:8080 a.example.org:80 example.org.evil:80 xample.org:80",
            ),
            (
                "example.org:8443",
                "example.org:8443",
                "example.org:443 a.example.org:8443",
            ),
            (
                "*.example.org",
                "a.example.org:443 a.b.example.org:80",
                "example.org:443 badexample.org:443 a.example.org:22",
            ),
            ("*.example.org:22", "a.example.org:22", "a.example.org:443"),
            (
                "*",
                "a.example:443 1.1.1.1:80 [2606:4700::1]:443",
                "a.example:22",
            ),
            ("*:22", "a.example:22", "a.example:443"),
            (
                "BÜCHER.example",
                "xn--bcher-kva.example:443",
                "bucher.example:443",
            ),
            (
                "10.0.0.1",
                "10.0.0.1:80 [::ffff:10.0.0.1]:80",
                "10.0.0.2:80",
            ),
            ("::1", "[::1]:80", "[::2]:80"),
            ("[::1]:8080", "[::1]:8080", "[::1]:80"),
            ("*.1", "", "127.0.0.1:80"),
        ] {
            let Ok(pattern) = text.parse::<HostPattern>() else {
                assert_eq!("*.1", text);
                continue;
            };
            for host in yes.split_whitespace() {
                assert!(pattern.allows(&target(host)), "{text} {host}");
                assert!(pattern.denies(&target(host)), "{text} {host}");
            }
            for host in no.split_whitespace() {
                assert!(!pattern.allows(&target(host)), "{text} {host}");
            }
        }
        assert!(pattern("example.org").denies(&target("example.org:22")));
        assert!(!pattern("example.org:443").denies(&target("example.org:22")));
    }

    #[test]
    fn what_is_no_pattern_says_why() {
        for (text, why) in [
            ("", "read the host of a pattern: name a host"),
            (
                "ex*.org",
                "read the star in \"ex*.org\": it stands for every host, or before a dot and a name, as in *.example.org",
            ),
            (
                "**",
                "read the star in \"**\": it stands for every host, or before a dot and a name, as in *.example.org",
            ),
            (
                "*.*.org",
                "read the star in \"*.*.org\": it stands for every host, or before a dot and a name, as in *.example.org",
            ),
            (
                "*.10.0.0.1",
                "read the star in \"*.10.0.0.1\": it stands for every host, or before a dot and a name, as in *.example.org",
            ),
            (
                "https://a.example",
                "read \"https://a.example\": a pattern is a host and a port, without a scheme or a path",
            ),
            (
                "10.0.0.0/8",
                "read \"10.0.0.0/8\": a pattern is a host and a port, without a scheme or a path",
            ),
            (
                "a.example:99999",
                "read the host of a pattern: read the port in \"a.example:99999\": it is a number from 1 to 65535",
            ),
            (
                "[::1",
                "read the host of a pattern: read the address in \"[::1\": an IPv6 address with a port is written [::1]:8080",
            ),
            (
                "a b",
                "read the host of a pattern: read the name of a host in \"a b\"",
            ),
        ] {
            let error = text.parse::<HostPattern>().unwrap_err();
            let mut told = error.to_string();
            if let Some(source) = std::error::Error::source(&error) {
                told = format!("{told}: {source}");
            }
            assert_eq!(why, told, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_reading_fail_hard(text in "\\PC{0,80}", bytes in "[*.:\\[\\]a-f0-9/%@-]{0,40}") {
            for text in [text, bytes] {
                if let Ok(pattern) = text.parse::<HostPattern>() {
                    let again = pattern.to_string().parse::<HostPattern>();
                    prop_assert_eq!(Ok(pattern), again);
                }
            }
        }

        #[test]
        fn a_name_means_itself_and_a_star_what_lies_below(
            name in "[a-z]([a-z0-9-]{0,8}[a-z])?(\\.[a-z]{2,8}){1,3}", below in "[a-z]{1,10}", port in 1u16..,
        ) {
            let at = |host: &str| target(&format!("{host}:{port}"));
            let lower = format!("{below}.{name}");
            let exact = pattern(&format!("{}.:{port}", name.to_uppercase()));
            prop_assert!(exact.allows(&at(&name)) && !exact.allows(&at(&lower)));
            let star = pattern(&format!("*.{name}:{port}"));
            prop_assert!(star.allows(&at(&lower)) && !star.allows(&at(&name)));
            let beside = format!("{below}{name}");
            prop_assert!(!star.allows(&at(&beside)));
        }
    }
}
