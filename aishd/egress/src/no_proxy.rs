//! The list of hosts that are reached without the upstream proxy, as `NO_PROXY` has it. Pure.

use std::net::IpAddr;

use crate::host::{HostName, HostPort, NamedHost, split_port};

/// Hosts that are reached directly. A name means what lies below it too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NoProxy {
    entries: Vec<NoProxyEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NoProxyEntry {
    Every,
    Name(HostName, Option<u16>),
    Address(IpAddr, Option<u16>),
    Network(IpAddr, u8),
}

impl NoProxy {
    /// Reads `example.org, .example.org, 10.0.0.0/8, [::1]:8080`. What cannot be read is left out, as all programs do.
    pub(crate) fn parse(text: &str) -> Self {
        let entries = text.split([',', ' ']).map(str::trim);
        Self {
            entries: entries.filter_map(entry).collect(),
        }
    }

    pub(crate) fn covers(&self, target: &HostPort) -> bool {
        let is_port = |port: &Option<u16>| port.is_none_or(|it| it == target.port);
        self.entries.iter().any(|it| match (it, &target.host) {
            (NoProxyEntry::Every, _) => true,
            (NoProxyEntry::Name(name, port), NamedHost::Name(host)) => {
                is_port(port) && (host == name || host.is_below(name))
            }
            (NoProxyEntry::Address(address, port), NamedHost::Address(host)) => {
                is_port(port) && address == host
            }
            (NoProxyEntry::Network(network, length), NamedHost::Address(host)) => {
                is_within(*host, *network, *length)
            }
            (NoProxyEntry::Name(..), NamedHost::Address(_))
            | (NoProxyEntry::Address(..) | NoProxyEntry::Network(..), NamedHost::Name(_)) => false,
        })
    }
}

fn entry(text: &str) -> Option<NoProxyEntry> {
    if text == "*" {
        return Some(NoProxyEntry::Every);
    }
    if let Some((network, length)) = text.split_once('/') {
        let network: IpAddr = network.parse().ok()?;
        let length = length.parse().ok()?;
        let most = if network.is_ipv4() { 32 } else { 128 };
        return (length <= most).then_some(NoProxyEntry::Network(network, length));
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(NoProxyEntry::Address(address.to_canonical(), None));
    }
    let (host, port) = split_port(text).ok()?;
    let host = host.strip_prefix("*.").or_else(|| host.strip_prefix('.'));
    let host = host.unwrap_or_else(|| split_port(text).map_or("", |(host, _)| host));
    match NamedHost::parse(host).ok()? {
        NamedHost::Name(name) => Some(NoProxyEntry::Name(name, port)),
        NamedHost::Address(address) => Some(NoProxyEntry::Address(address, port)),
    }
}

fn is_within(address: IpAddr, network: IpAddr, length: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let differ = address.to_bits() ^ network.to_bits();
            differ.leading_zeros() >= u32::from(length)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let differ = address.to_bits() ^ network.to_bits();
            differ.leading_zeros() >= u32::from(length)
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, yes: &str, no: &str) {
        let list = NoProxy::parse(list);
        let covers = |it: &str| list.covers(&HostPort::parse(it, Some(443)).unwrap());
        for host in yes.split_whitespace() {
            assert!(covers(host), "{host}");
        }
        for host in no.split_whitespace() {
            assert!(!covers(host), "{host}");
        }
    }

    #[test]
    fn what_goes_directly() {
        check("", "", "a.example 127.0.0.1");
        check("*", "a.example 127.0.0.1", "");
        check("a.example", "A.example b.a.example", "ba.example example");
        check(
            ".a.example,*.b.example",
            "x.a.example a.example x.b.example",
            "c.example",
        );
        check("a.example:8080", "a.example:8080", "a.example:443");
        check(
            "10.0.0.0/8, 192.168.1.7",
            "10.255.0.1 192.168.1.7",
            "11.0.0.1 192.168.1.8 a.example",
        );
        check("fd00::/8 ::1", "[fd12::1] [::1]", "[fe80::1] 10.0.0.1");
        check("0.0.0.0/0", "1.1.1.1", "[::1]");
        check("10.0.0.0/33,a b/c,http://x,,", "", "10.0.0.1 x");
    }
}
