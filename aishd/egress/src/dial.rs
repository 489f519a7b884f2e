//! Makes the connection to a host that was admitted: looks its name up, judges each address, and connects to just those.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::address_class::{AddressClass, class_of};
use crate::host::{HostPort, NamedHost};
use crate::http_head::{AnswerHead, push_header};
use crate::names::NameLookup;
use crate::questions::HostScheme;
use crate::refusal::Refusal;
use crate::rules::{AddressReach, HostRules};
use crate::stream::BufferedStream;
use crate::upstream::{Upstream, UpstreamProxy};

/// How long an address has before the next is tried beside it.
const HEAD_START: Duration = Duration::from_millis(250);

/// Makes connections.
#[derive(Debug)]
pub(crate) struct Dialer {
    pub(crate) upstream: Upstream,
    pub(crate) names: NameLookup,
    pub(crate) head_bytes: usize,
}

/// A connection, and what stands at its other end.
#[derive(Debug)]
pub(crate) struct Dialed {
    pub(crate) stream: BufferedStream,
    pub(crate) far_side: FarSide,
}

#[derive(Debug)]
pub(crate) enum FarSide {
    /// The host, or a tunnel to it.
    Host,
    /// A proxy that takes a plain request as it was, with its own credentials.
    Proxy { authorization: Option<String> },
}

impl Dialer {
    pub(crate) async fn dial(
        &self,
        target: &HostPort,
        scheme: HostScheme,
        reach: AddressReach,
        rules: &HostRules,
    ) -> Result<Dialed, Refusal> {
        if let Some(proxy) = self.upstream.proxy_for(target) {
            check_unresolved(target, reach, rules)?;
            return self.through(proxy, target, scheme).await;
        }
        let addresses = match &target.host {
            NamedHost::Address(address) => vec![*address],
            NamedHost::Name(name) => {
                let found = self.names.addresses(name).await;
                found.map_err(|_| Refusal::NameNotFound)?
            }
        };
        let stream = connect(checked(addresses, target.port, reach, rules)?).await?;
        Ok(Dialed {
            stream: BufferedStream::new(stream, self.head_bytes),
            far_side: FarSide::Host,
        })
    }

    async fn through(
        &self,
        proxy: &UpstreamProxy,
        target: &HostPort,
        scheme: HostScheme,
    ) -> Result<Dialed, Refusal> {
        let at = proxy.at();
        let addresses = match &at.host {
            NamedHost::Address(address) => vec![*address],
            NamedHost::Name(name) => {
                let found = self.names.addresses(name).await;
                found.map_err(|_| Refusal::UpstreamRefused)?
            }
        };
        let addresses = addresses.into_iter().map(|it| SocketAddr::new(it, at.port));
        let connected = connect(addresses.collect()).await;
        let stream = connected.map_err(|_| Refusal::UpstreamRefused)?;
        let mut stream = BufferedStream::new(stream, self.head_bytes);
        let far_side = match scheme {
            HostScheme::PlainHttp => FarSide::Proxy {
                authorization: proxy.authorization().map(str::to_owned),
            },
            HostScheme::Tunnel => {
                let opened = open_tunnel(&mut stream, target, proxy.authorization()).await;
                opened.map_err(|_| Refusal::UpstreamRefused)?;
                FarSide::Host
            }
        };
        Ok(Dialed { stream, far_side })
    }
}

/// The addresses that may be connected to. Where a name has both kinds, only the public ones are left.
fn checked(
    addresses: Vec<IpAddr>,
    port: u16,
    reach: AddressReach,
    rules: &HostRules,
) -> Result<Vec<SocketAddr>, Refusal> {
    if addresses.is_empty() {
        return Err(Refusal::NameNotFound);
    }
    let (denied, left): (Vec<IpAddr>, Vec<IpAddr>) = addresses
        .into_iter()
        .partition(|it| rules.denies_address(*it, port));
    if left.is_empty() && !denied.is_empty() {
        return Err(Refusal::DeniedByRule);
    }
    let may = |it: &IpAddr| match reach {
        AddressReach::Any => true,
        AddressReach::Public => class_of(*it) == AddressClass::Public && !is_of_this_machine(*it),
    };
    let left = left.into_iter().filter(may);
    let left: Vec<SocketAddr> = left.map(|it| SocketAddr::new(it, port)).collect();
    match left.is_empty() {
        true => Err(Refusal::PrivateAddress),
        false => Ok(left),
    }
}

/// Where the upstream proxy looks names up: those that are local anywhere, and addresses, are judged here.
fn check_unresolved(
    target: &HostPort,
    reach: AddressReach,
    rules: &HostRules,
) -> Result<(), Refusal> {
    match &target.host {
        NamedHost::Address(address) => {
            checked(vec![*address], target.port, reach, rules).map(|_| ())
        }
        NamedHost::Name(name) if name.is_local() && reach == AddressReach::Public => {
            Err(Refusal::PrivateAddress)
        }
        NamedHost::Name(_) => Ok(()),
    }
}

/// A machine may have public addresses of its own, and services that listen on all of them. Connecting a datagram socket
/// sends nothing, and gives it the address from which packets would go there: to oneself, that is the same one.
fn is_of_this_machine(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    from.is_ok_and(|it| it.ip() == address)
}

/// Connects to the first of the addresses that answers; each has a head start before the next.
async fn connect(addresses: Vec<SocketAddr>) -> Result<TcpStream, Refusal> {
    let mut tries = JoinSet::new();
    let mut addresses = addresses.into_iter();
    let mut refusal = Refusal::NotReached;
    loop {
        let next = addresses.next();
        let is_last = next.is_none();
        if let Some(address) = next {
            tries.spawn(TcpStream::connect(address));
        }
        tokio::select! {
            ended = tries.join_next() => match ended {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => refusal = refusal_of(&error),
                Some(Err(_)) => {}
                None => return Err(refusal),
            },
            () = tokio::time::sleep(HEAD_START), if !is_last => {}
        }
    }
}

fn refusal_of(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Refusal::ConnectionRefused,
        io::ErrorKind::TimedOut => Refusal::TimedOut,
        _ => Refusal::NotReached,
    }
}

async fn open_tunnel(
    stream: &mut BufferedStream,
    target: &HostPort,
    authorization: Option<&str>,
) -> io::Result<()> {
    let mut head = format!("CONNECT {target} HTTP/1.1\r\n").into_bytes();
    push_header(&mut head, "Host", target.to_string().as_bytes());
    if let Some(authorization) = authorization {
        push_header(&mut head, "Proxy-Authorization", authorization.as_bytes());
    }
    head.extend(b"\r\n");
    stream.writer.write_all(&head).await?;
    loop {
        let answer = AnswerHead::read(&mut stream.reader)
            .await
            .map_err(io::Error::other)?;
        match answer.status {
            100..=199 => {}
            200..=299 => return Ok(()),
            _ => return Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(addresses: &str, reach: AddressReach, deny: &str, expected: Result<&str, Refusal>) {
        let addresses = addresses.split_whitespace().map(|it| it.parse().unwrap());
        let rules = HostRules {
            deny: deny
                .split_whitespace()
                .map(|it| it.parse().unwrap())
                .collect(),
            ..HostRules::default()
        };
        let left = checked(addresses.collect(), 443, reach, &rules);
        let left = left.map(|it| {
            it.iter()
                .map(|it| it.ip().to_string())
                .collect::<Vec<_>>()
                .join(" ")
        });
        assert_eq!(expected.map(str::to_owned), left);
    }

    #[test]
    fn only_judged_addresses_are_left() {
        use AddressReach::{Any, Public};
        check(
            "1.1.1.1 10.0.0.1 ::1 2606:4700::1",
            Public,
            "",
            Ok("1.1.1.1 2606:4700::1"),
        );
        check("1.1.1.1 10.0.0.1 ::1", Any, "", Ok("1.1.1.1 10.0.0.1 ::1"));
        check("10.0.0.1 ::1", Public, "", Err(Refusal::PrivateAddress));
        check("1.1.1.1 2.2.2.2", Any, "1.1.1.1", Ok("2.2.2.2"));
        check(
            "1.1.1.1 10.0.0.1",
            Public,
            "1.1.1.1",
            Err(Refusal::PrivateAddress),
        );
        check(
            "1.1.1.1 64:ff9b::101:101",
            Any,
            "1.1.1.1",
            Err(Refusal::DeniedByRule),
        );
        check("", Any, "", Err(Refusal::NameNotFound));
    }

    #[test]
    fn an_address_of_this_machine_is_known() {
        assert!(is_of_this_machine(Ipv4Addr::LOCALHOST.into()));
        // In the network of nobody.
        assert!(!is_of_this_machine(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
