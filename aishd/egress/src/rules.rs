//! What a child may reach, as a value. Pure.

use std::net::IpAddr;

use crate::address_class::embedded_ipv4;
use crate::host::{HostPort, NamedHost};
use crate::pattern::HostPattern;

/// Which hosts are allowed and which are not. What no rule is about is asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRules {
    /// What a person wrote down. A pattern that names one host allows it at a private address too.
    pub allow: Vec<HostPattern>,
    /// What was allowed by an answer. Whoever answers sees a name and no address, so these mean public addresses only.
    pub allow_public: Vec<HostPattern>,
    /// Goes before all that is allowed.
    pub deny: Vec<HostPattern>,
}

/// What the rules say of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostStanding {
    Allowed(AddressReach),
    Denied,
    Unlisted,
}

/// At which addresses a host may be that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressReach {
    Public,
    Any,
}

impl HostRules {
    pub fn standing(&self, target: &HostPort) -> HostStanding {
        if self.deny.iter().any(|it| it.denies(target)) {
            return HostStanding::Denied;
        }
        let named = self.allow.iter().filter(|it| it.allows(target));
        let reach = named.map(|it| match it.is_exact() {
            true => AddressReach::Any,
            false => AddressReach::Public,
        });
        let answered = self.allow_public.iter().filter(|it| it.allows(target));
        let mut all: Vec<AddressReach> = reach.collect();
        all.extend(answered.map(|_| AddressReach::Public));
        if all.contains(&AddressReach::Any) {
            return HostStanding::Allowed(AddressReach::Any);
        }
        match all.first() {
            Some(reach) => HostStanding::Allowed(*reach),
            None => HostStanding::Unlisted,
        }
    }

    /// Whether an address is denied as such, whatever name led to it.
    pub fn denies_address(&self, address: IpAddr, port: u16) -> bool {
        let inside = match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => embedded_ipv4(address).map(IpAddr::V4),
        };
        [Some(address), inside].into_iter().flatten().any(|it| {
            let host = NamedHost::address(it);
            let target = HostPort { host, port };
            self.deny.iter().any(|it| it.denies(&target))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(text: &str) -> Vec<HostPattern> {
        text.split_whitespace()
            .map(|it| it.parse().unwrap())
            .collect()
    }

    fn check(allow: &str, public: &str, deny: &str, host: &str, expected: HostStanding) {
        let rules = HostRules {
            allow: patterns(allow),
            allow_public: patterns(public),
            deny: patterns(deny),
        };
        let target = HostPort::parse(host, Some(443)).unwrap();
        assert_eq!(
            expected,
            rules.standing(&target),
            "{allow} | {public} | {deny} | {host}"
        );
    }

    #[test]
    fn a_denial_goes_first_and_only_a_name_reaches_private_addresses() {
        let any = HostStanding::Allowed(AddressReach::Any);
        let public = HostStanding::Allowed(AddressReach::Public);
        check("", "", "", "a.example", HostStanding::Unlisted);
        check("a.example", "", "", "a.example", any);
        check("* a.example", "", "", "a.example", any);
        check("*", "", "", "a.example", public);
        check("*.example", "", "", "a.example", public);
        check("", "a.example", "", "a.example", public);
        check("a.example", "a.example", "", "a.example", any);
        check(
            "a.example",
            "",
            "*.example",
            "a.example",
            HostStanding::Denied,
        );
        check(
            "a.example:22",
            "",
            "a.example",
            "a.example:22",
            HostStanding::Denied,
        );
        check("a.example", "", "a.example:22", "a.example", any);
    }

    #[test]
    fn a_denied_address_is_denied_in_every_dress() {
        let rules = HostRules {
            deny: patterns("1.2.3.4"),
            ..HostRules::default()
        };
        for address in [
            "1.2.3.4",
            "::ffff:1.2.3.4",
            "64:ff9b::102:304",
            "2002:102:304::1",
        ] {
            assert!(
                rules.denies_address(address.parse().unwrap(), 443),
                "{address}"
            );
        }
        assert!(!rules.denies_address("1.2.3.5".parse().unwrap(), 443));
    }
}
