//! SOCKS5 (RFC 1928): connections to names and addresses, without a password.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::AsyncWriteExt as _;

use crate::gate::{Gate, Passage};
use crate::host::{HostPort, NamedHost};
use crate::questions::HostScheme;
use crate::relay::relay;
use crate::stream::{BufferedStream, StreamReader, say_and_close};

pub(crate) const VERSION: u8 = 5;

const NO_PASSWORD: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

const SUCCEEDED: u8 = 0;
const FAILED: u8 = 1;
const UNKNOWN_COMMAND: u8 = 7;
const UNKNOWN_ADDRESS: u8 = 8;

/// What is said to a request that is none.
#[derive(Debug)]
enum SocksError {
    Lost,
    Say(Vec<u8>),
}

pub(crate) async fn serve(mut child: BufferedStream, gate: &Gate) {
    let asked = tokio::time::timeout(gate.limits.handshake, handshake(&mut child)).await;
    let target = match asked {
        Ok(Ok(target)) => target,
        Ok(Err(SocksError::Say(last))) => {
            gate.traffic.add_malformed();
            drop(tokio::time::timeout(gate.limits.handshake, say_and_close(child, &last)).await);
            return;
        }
        Ok(Err(SocksError::Lost)) | Err(_) => {
            gate.traffic.add_malformed();
            return;
        }
    };
    match gate
        .open(&target, HostScheme::Tunnel, &mut child.reader)
        .await
    {
        Passage::Open(dialed, bytes) => {
            if child.writer.write_all(&reply(SUCCEEDED)).await.is_ok() {
                let ended = relay(child, dialed.stream, &bytes, gate.limits.idle).await;
                tracing::debug!(%target, ?ended, "a connection of a child has ended");
            }
        }
        Passage::Refused(refusal) => {
            let last = reply(refusal.socks_reply());
            drop(tokio::time::timeout(gate.limits.handshake, say_and_close(child, &last)).await);
        }
        Passage::GivenUp => {}
    }
}

async fn handshake(child: &mut BufferedStream) -> Result<HostPort, SocksError> {
    let reader = &mut child.reader;
    let [_, methods] = take(reader).await?;
    fill(reader, usize::from(methods)).await?;
    let can_do = reader.unused()[..usize::from(methods)].contains(&NO_PASSWORD);
    reader.use_up(usize::from(methods));
    if !can_do {
        return Err(SocksError::Say(vec![VERSION, NO_METHOD]));
    }
    let chosen = child.writer.write_all(&[VERSION, NO_PASSWORD]).await;
    chosen.map_err(|_| SocksError::Lost)?;
    let [version, command, _, kind] = take(reader).await?;
    if version != VERSION {
        return Err(SocksError::Say(reply(FAILED)));
    }
    let host = match kind {
        IPV4 => NamedHost::address(IpAddr::V4(Ipv4Addr::from(take::<4>(reader).await?))),
        IPV6 => NamedHost::address(IpAddr::V6(Ipv6Addr::from(take::<16>(reader).await?))),
        NAME => {
            let [length] = take(reader).await?;
            fill(reader, usize::from(length)).await?;
            let name = reader.unused()[..usize::from(length)].to_vec();
            reader.use_up(usize::from(length));
            let name = String::from_utf8(name).ok();
            let host = name.and_then(|it| NamedHost::parse(&it).ok());
            host.ok_or_else(|| SocksError::Say(reply(FAILED)))?
        }
        _ => return Err(SocksError::Say(reply(UNKNOWN_ADDRESS))),
    };
    let port = u16::from_be_bytes(take(reader).await?);
    if command != CONNECT {
        return Err(SocksError::Say(reply(UNKNOWN_COMMAND)));
    }
    if port == 0 {
        return Err(SocksError::Say(reply(FAILED)));
    }
    Ok(HostPort { host, port })
}

/// A reply with an address of nobody: ours is of no use within.
fn reply(code: u8) -> Vec<u8> {
    vec![VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0]
}

async fn fill(reader: &mut StreamReader, bytes: usize) -> Result<(), SocksError> {
    let filled: io::Result<()> = reader.fill_to(bytes).await;
    filled.map_err(|_| SocksError::Lost)
}

async fn take<const COUNT: usize>(reader: &mut StreamReader) -> Result<[u8; COUNT], SocksError> {
    fill(reader, COUNT).await?;
    let taken = reader.unused().first_chunk().copied();
    reader.use_up(COUNT);
    taken.ok_or(SocksError::Lost)
}
