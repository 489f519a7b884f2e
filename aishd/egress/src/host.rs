//! A host and a port as a child or a rule names them, in the one form in which they are compared.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// What DNS allows for a whole name and for one label of it.
const MOST_NAME_BYTES: usize = 253;
const MOST_LABEL_BYTES: usize = 63;

/// A text names no host, or no port of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("name a host")]
    Empty,
    #[error("read the name of a host in {0:?}")]
    Name(String),
    #[error("read the address in {0:?}: an IPv6 address with a port is written [::1]:8080")]
    Address(String),
    #[error("read the port in {0:?}: it is a number from 1 to 65535")]
    Port(String),
}

/// The name of a host in lower case and ASCII (punycode), without a dot at its end. It is no address in any spelling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it lies below `parent`; a name does not lie below itself.
    pub fn is_below(&self, parent: &Self) -> bool {
        let rest = self.0.strip_suffix(&parent.0);
        rest.is_some_and(|it| it.ends_with('.'))
    }

    /// Whether no public DNS has such a name: it is one of this machine or of its network.
    pub(crate) fn is_local(&self) -> bool {
        let last = self.0.rsplit('.').next().unwrap_or_default();
        !self.0.contains('.')
            || ["localhost", "local", "internal", "lan"].contains(&last)
            || self.0.ends_with(".home.arpa")
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A host by name, or by an address that was written down. An IPv4 address within IPv6 (`::ffff:…`) is the IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NamedHost {
    Name(HostName),
    Address(IpAddr),
}

impl NamedHost {
    /// Reads a name or an address; one of IPv6 may stand in brackets. Spellings of IPv4 that the resolver of the
    /// system would understand (`127.1`, `0x7f000001`) are addresses here too.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Self::address(address.into()));
        }
        if text.starts_with('[') {
            let inside = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
            let address = inside.and_then(|it| it.parse::<Ipv6Addr>().ok());
            let address = address.ok_or_else(|| HostError::Address(shortened(text)))?;
            return Ok(Self::address(address.into()));
        }
        let wrong = || HostError::Name(shortened(text));
        // A name is written as it is: what percent signs stand for could be anything.
        if text.len() > 4 * MOST_NAME_BYTES || text.contains('%') {
            return Err(wrong());
        }
        match url::Host::parse(text).map_err(|_| wrong())? {
            url::Host::Ipv4(address) => Ok(Self::address(address.into())),
            url::Host::Ipv6(address) => Ok(Self::address(address.into())),
            url::Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(&name);
                let is_sound = name.len() <= MOST_NAME_BYTES && name.split('.').all(is_label);
                let name = is_sound.then(|| name.to_owned());
                Ok(Self::Name(HostName(name.ok_or_else(wrong)?)))
            }
        }
    }

    pub fn address(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl fmt::Display for NamedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Where a connection goes: `example.org:443`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    pub host: NamedHost,
    pub port: u16,
}

impl HostPort {
    /// Reads `example.org:443` or `[::1]:8080`, and without a port what has a default.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self, HostError> {
        let (host, port) = split_port(text)?;
        let port = port.or(default_port);
        let port = port.ok_or_else(|| HostError::Port(shortened(text)))?;
        let host = NamedHost::parse(host)?;
        Ok(Self { host, port })
    }

    /// As the `Host` of a request has it, where a port that the scheme implies is left out.
    pub(crate) fn without_port(&self, implied: u16) -> String {
        if self.port == implied {
            return self.host.to_string();
        }
        self.to_string()
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Divides a host from its port, if there is one. More than one colon without brackets is nothing that two readers
/// would understand alike.
pub(crate) fn split_port(text: &str) -> Result<(&str, Option<u16>), HostError> {
    let (host, port) = match text.rfind(']') {
        Some(end) => text.split_at(end + 1),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    if port.is_empty() {
        return Ok((host, None));
    }
    let digits = port.strip_prefix(':').unwrap_or_default();
    if digits.contains(':') {
        return Err(HostError::Address(shortened(text)));
    }
    let is_number = (1..=5).contains(&digits.len()) && digits.bytes().all(|it| it.is_ascii_digit());
    let number = digits.parse().ok().filter(|it| is_number && *it > 0);
    let number = number.ok_or_else(|| HostError::Port(shortened(text)))?;
    Ok((host, Some(number)))
}

fn is_label(text: &str) -> bool {
    let is_known = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"-_".contains(&it);
    (1..=MOST_LABEL_BYTES).contains(&text.len()) && text.bytes().all(is_known)
}

/// What was written, for a message.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_has_one_form() {
        for (text, form) in [
            ("Example.ORG", "example.org"),
            ("example.org.", "example.org"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example", "xn--bcher-kva.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("a_b.example", "a_b.example"),
            ("example\u{3002}org", "example.org"),
            ("10.0.0.1", "10.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("0x7f.0.0.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0177.0.0.01", "127.0.0.1"),
            ("\u{ff11}27.0.0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("::1", "[::1]"),
            ("[0:0:0:0:0:0:0:1]", "[::1]"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("[::ffff:7f00:1]", "127.0.0.1"),
        ] {
            assert_eq!(
                Ok(form),
                NamedHost::parse(text).map(|it| it.to_string()).as_deref(),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_host() {
        let long = format!("{}.example", "a".repeat(64));
        let longer = vec!["a".repeat(60); 5].join(".");
        for text in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a b",
            "a/b",
            "a@b",
            "a%2eb",
            "a\\b",
            "a\nb",
            "a\0b",
            "[::1",
            "[]",
            "[a]",
            "[fe80::1%eth0]",
            "fe80::1%eth0",
            "1.2.3.4.5",
            "256.1.1.1",
            "1.2.3.x.0x",
            "*.a",
            "a!b",
            &long,
            &longer,
        ] {
            assert!(NamedHost::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_port_is_a_number_behind_one_colon() {
        for (text, form) in [
            ("a.example:443", "a.example:443"),
            ("a.example", "a.example:80"),
            ("[::1]:8080", "[::1]:8080"),
            ("[::1]", "[::1]:80"),
            ("10.0.0.1:1", "10.0.0.1:1"),
        ] {
            assert_eq!(
                Ok(form),
                HostPort::parse(text, Some(80))
                    .map(|it| it.to_string())
                    .as_deref(),
                "{text}"
            );
        }
        for text in [
            "a:", "a:0", "a:65536", "a:+80", "a:80 ", "a: 80", "a:8a", "a:000080", "::1:80",
            "a:80:80", "[::1]80", ":80", "",
        ] {
            assert!(HostPort::parse(text, Some(80)).is_err(), "{text:?}");
        }
        assert!(HostPort::parse("a.example", None).is_err());
    }
}
