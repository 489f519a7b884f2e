//! What kind of address an address is, and which others it stands for. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Only `Public` is reached without a rule that names the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressClass {
    Public,
    Loopback,
    /// RFC 1918, unique-local and site-local, and the local prefix of NAT64.
    Private,
    LinkLocal,
    /// 100.64.0.0/10, between a provider and its customers; overlay networks use it too.
    Shared,
    /// 0.0.0.0/8 and `::`, of which the first means this machine to Linux.
    Unspecified,
    Multicast,
    Documentation,
    /// For tests, for protocols, for later, or unassigned.
    Reserved,
}

/// The class of an address, or of the IPv4 address that it carries within.
pub fn class_of(address: IpAddr) -> AddressClass {
    match address {
        IpAddr::V4(address) => class_of_ipv4(address),
        IpAddr::V6(address) => class_of_ipv6(address),
    }
}

fn class_of_ipv4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        [0, ..] => AddressClass::Unspecified,
        [127, ..] => AddressClass::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [169, 254, ..] => AddressClass::LinkLocal,
        [100, 64..=127, ..] => AddressClass::Shared,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressClass::Documentation,
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] | [240..=255, ..] => {
            AddressClass::Reserved
        }
        [224..=239, ..] => AddressClass::Multicast,
        _ => AddressClass::Public,
    }
}

fn class_of_ipv6(address: Ipv6Addr) -> AddressClass {
    if address.is_unspecified() {
        return AddressClass::Unspecified;
    }
    if address.is_loopback() {
        return AddressClass::Loopback;
    }
    let segments = address.segments();
    let own = match segments {
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] | [0x64, 0xff9b, 1, ..] => {
            AddressClass::Private
        }
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        [0xff00..=0xffff, ..] => AddressClass::Multicast,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => AddressClass::Documentation,
        // Teredo, ORCHID and others of the IETF; the old 6bone.
        [0x2001, 0..=0x1ff, ..] | [0x3ffe, ..] => AddressClass::Reserved,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        // Mapped, and NAT64: the address within says all.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => AddressClass::Public,
        _ => AddressClass::Reserved,
    };
    match embedded_ipv4(address).map(class_of_ipv4) {
        None | Some(AddressClass::Public) => own,
        Some(class) => class,
    }
}

/// The IPv4 address that packets to this one may end at: mapped, compatible, translated, NAT64, 6to4, ISATAP.
pub(crate) fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => Some(of(high, low)),
        [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_class_of_an_address() {
        for (class, addresses) in [
            (
                AddressClass::Public,
                "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 \
              169.253.255.255 172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255 \
              2606:4700::1111 2a00::1 64:ff9b::101:101 ::ffff:1.1.1.1 2002:101:101::1 2001:200::1",
            ),
            (
                AddressClass::Loopback,
                "127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1 ::127.0.0.1 64:ff9b::7f00:1 2002:7f00:1::",
            ),
            (
                AddressClass::Private,
                "10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255 fc00::1 \
              fdff::1 fec0::1 64:ff9b:1::1 ::ffff:10.1.2.3 64:ff9b::a00:1 2002:c0a8:101::1 ::10.0.0.1 ::ffff:0:10.0.0.1 \
              2606:4700::5efe:a00:1 2606:4700::200:5efe:10.0.0.1",
            ),
            (
                AddressClass::LinkLocal,
                "169.254.169.254 fe80::1 febf::1 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe",
            ),
            (
                AddressClass::Shared,
                "100.64.0.0 100.127.255.255 100.100.100.200 ::ffff:100.64.0.1",
            ),
            (
                AddressClass::Unspecified,
                "0.0.0.0 0.1.2.3 :: ::ffff:0.0.0.0",
            ),
            (AddressClass::Multicast, "224.0.0.1 239.255.255.255 ff02::1"),
            (
                AddressClass::Documentation,
                "192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1",
            ),
            (
                AddressClass::Reserved,
                "192.0.0.1 192.88.99.1 198.18.0.1 198.19.255.255 240.0.0.1 255.255.255.255 \
              2001::1 2001:10::1 100::1 5f00::1 4000::1 ::1.1.1.1",
            ),
        ] {
            for text in addresses.split_whitespace() {
                assert_eq!(class, class_of(text.parse().unwrap()), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_carries_an_address_is_never_more_public_than_it(bits: u32) {
            let inside = Ipv4Addr::from(bits);
            let [high, low] = [(bits >> 16) as u16, bits as u16];
            for outside in [
                inside.to_ipv6_mapped(),
                inside.to_ipv6_compatible(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0x2a00, 0, 0, 0, 0, 0x5efe, high, low),
            ] {
                let is_public = |it: IpAddr| class_of(it) == AddressClass::Public;
                prop_assert!(!is_public(outside.into()) || is_public(inside.into()), "{} {}", outside, inside);
            }
        }

        #[test]
        fn what_the_standard_library_calls_special_is_not_public(bits: u32, wide: u128) {
            let (four, six) = (Ipv4Addr::from(bits), Ipv6Addr::from(wide));
            let special = four.is_private() || four.is_loopback() || four.is_link_local() || four.is_multicast()
                || four.is_broadcast() || four.is_documentation() || four.is_unspecified();
            prop_assert!(!special || class_of(four.into()) != AddressClass::Public);
            let special = six.is_loopback() || six.is_multicast() || six.is_unique_local() || six.is_unicast_link_local()
                || six.is_unspecified();
            prop_assert!(!special || class_of(six.into()) != AddressClass::Public);
        }
    }
}
