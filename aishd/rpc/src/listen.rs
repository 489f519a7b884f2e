//! The socket: taking connections until the daemon closes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aish_proto::error::ErrorKind;
use interprocess::local_socket::tokio::{Listener, Stream};
use interprocess::local_socket::traits::StreamCommon as _;
use interprocess::local_socket::traits::tokio::Listener as _;
use jsonrpsee::types::Id;
use jsonrpsee::{MethodResponse, Methods};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::RpcServer;
use super::connection::serve;
use super::method_error::MethodError;
use super::socket_peer::{PeerOrigin, ProviderAmong, SocketPeer};

/// Pauses after an accept error: they are weather, most often too many open files.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_LONGEST: Duration = Duration::from_secs(1);
/// Programs that the daemon started, beside `limits.max_clients`: they can do little, and take no person's place.
const PLACES_OF_OURS: usize = 8;
/// So many are told at the same time why they find no place; the rest of a flood is closed at once.
const TURNED_AWAY: usize = 16;
/// How long a client that is turned away may take to read why.
const REFUSAL_TIME: Duration = Duration::from_millis(500);

/// Serves until the server's `closing` token; returns when every connection has ended.
pub async fn listen(server: Arc<RpcServer>, listener: Listener) {
    let methods: Methods = super::methods(server.clone()).into();
    let places = Arc::new(Semaphore::new(server.limits.clients));
    let of_ours = Arc::new(Semaphore::new(PLACES_OF_OURS));
    let told = Arc::new(Semaphore::new(TURNED_AWAY));
    let mut connections = JoinSet::new();
    let mut pause = PAUSE_FIRST;
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = server.closing.cancelled() => break,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "accept a connection");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_LONGEST);
                continue;
            }
        };
        pause = PAUSE_FIRST;
        server.counters.connections.fetch_add(1, Ordering::Relaxed);
        let Some(peer) = admit(&stream, &server.provider_among) else {
            let why = MethodError::new(ErrorKind::Denied, "this daemon serves another user")
                .hint("without --socket and AISH_SOCKET, aishctl ask starts one of your own");
            connections.spawn(turn_away(stream, why));
            continue;
        };
        // What the daemon started takes nobody's place.
        let (places, most) = if peer.is_of_ours() {
            (&of_ours, PLACES_OF_OURS)
        } else {
            (&places, server.limits.clients)
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            if let Ok(told) = told.clone().try_acquire_owned() {
                let why = full(most, peer.is_of_ours());
                connections.spawn(async move {
                    turn_away(stream, why).await;
                    drop(told);
                });
            }
            continue;
        };
        let (server, methods) = (server.clone(), methods.clone());
        connections.spawn(async move {
            serve(server, methods, stream, peer).await;
            drop(place);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

fn full(most: usize, is_of_ours: bool) -> MethodError {
    if is_of_ours {
        let why = format!("{most} programs that the daemon started are connected already");
        MethodError::new(ErrorKind::Overloaded, why)
    } else {
        let why = format!("{most} clients are connected already");
        MethodError::new(ErrorKind::Overloaded, why).hint("raise limits.max_clients, or close some")
    }
}

/// The peer, if it is of our own user; nobody else is served, whatever the socket's mode.
fn admit(stream: &Stream, provider_among: &ProviderAmong) -> Option<SocketPeer> {
    let credentials = match stream.peer_creds() {
        Ok(credentials) => credentials,
        Err(error) => {
            tracing::warn!(%error, "read a peer's credentials");
            return None;
        }
    };
    let ours = rustix::process::geteuid().as_raw();
    if credentials.euid() != Some(ours) {
        tracing::warn!(
            uid = credentials.euid(),
            "a peer of another user was turned away"
        );
        return None;
    }
    let pid = credentials.pid().and_then(|it| u32::try_from(it).ok());
    Some(SocketPeer {
        pid,
        uid: credentials.euid(),
        // Now, while whoever connected is most likely still there: later its number may be somebody else's.
        origin: PeerOrigin::of(pid, provider_among),
    })
}

/// Says why in one line, waits until that was read, and closes: who still writes would find nobody, and might not read it.
async fn turn_away(mut stream: Stream, why: MethodError) {
    let response = MethodResponse::error(Id::Null, why.into_error());
    let line = format!("{}\n", response.into_json().get());
    let told = async {
        stream.write_all(line.as_bytes()).await?;
        let mut nothing_is_heard = [0; 1024];
        while stream.read(&mut nothing_is_heard).await? > 0 {}
        std::io::Result::Ok(())
    };
    let _too_slow = tokio::time::timeout(REFUSAL_TIME, told).await;
}
