//! Hearing what a server says by itself: a stream beside the questions, or in 2026-07-28 a question that stays open.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aishd_mcp_messages::server::ServerOffers;
use serde_json::{Map, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::client_session::{PeerQuestion, PeerQuestionKind, ServerClient, UnansweredReason};
use super::error::{ExchangeError, WireFailure};
use super::http::ListenEnd;
use super::sse::ResumePoint;
use super::transport::ServerTransport;
use crate::call_clock::ReplyPatience;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Longer than any daemon lives; the question ends with its session.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The stream beside the questions, without which the usual servers' own requests never arrive. Tells when it is open,
/// or will not be.
pub(super) async fn listen_beside(link: Arc<ServerTransport>, open: oneshot::Sender<()>) {
    let ServerTransport::Http(http) = &*link else {
        return;
    };
    if !http.has_session() {
        return;
    }
    let mut place = ResumePoint::default();
    let mut pause = SHORTEST;
    let mut open = Some(open);
    loop {
        let told = || {
            if let Some(open) = open.take() {
                // A session that does not wait for it any more is of no matter.
                let _late = open.send(());
            }
        };
        pause = match http.listen(&mut place, told).await {
            // A token that is refused here alone is renewed for nothing.
            Ok(ListenEnd::Refused) | Err(WireFailure::SignIn(_)) => return,
            Ok(ListenEnd::Ended { fruitful: true }) => SHORTEST,
            Ok(ListenEnd::Ended { fruitful: false }) | Err(_) => (pause * 2).min(LONGEST),
        };
        // A server may ask for a shorter pause, but not for a tight loop.
        tokio::time::sleep(place.retry.unwrap_or(pause).max(pause / 4)).await;
    }
}

/// `subscriptions/listen`, again whenever it ends or something else is to be told of; a server that does not know it is
/// not asked twice.
pub(super) async fn subscribed(peer: ServerClient, offers: ServerOffers) {
    let mut wanted = peer.inbox.fresh().watch_wanted();
    let mut pause = SHORTEST;
    loop {
        let uris = wanted.borrow_and_update().clone();
        let mut notifications = Map::new();
        if offers.tools_changes {
            notifications.insert("toolsListChanged".to_owned(), json!(true));
        }
        if offers.resources_list_changes {
            notifications.insert("resourcesListChanged".to_owned(), json!(true));
        }
        if offers.prompts_list_changes {
            notifications.insert("promptsListChanged".to_owned(), json!(true));
        }
        if offers.resources_changes && !uris.is_empty() {
            notifications.insert("resourceSubscriptions".to_owned(), json!(uris));
        }
        if notifications.is_empty() {
            if !offers.resources_changes || wanted.changed().await.is_err() {
                return;
            }
            continue;
        }
        let mut params = Map::new();
        params.insert("notifications".to_owned(), notifications.into());
        let over = CancellationToken::new();
        let asked = peer.ask(PeerQuestion {
            method: "subscriptions/listen",
            params,
            about: None,
            mirrored: &[],
            patience: ReplyPatience::once(FOREVER),
            kind: PeerQuestionKind::Listen(&over),
        });
        let mut asked = pin!(asked);
        let ended = tokio::select! {
            ended = &mut asked => ended,
            Ok(()) = wanted.changed(), if offers.resources_changes => {
                over.cancel();
                asked.await
            }
        };
        // Nobody tells of anything until the next one is acknowledged.
        peer.inbox.fresh().forget();
        match ended {
            // It says goodbye, and may be back.
            Ok(_) => pause = SHORTEST,
            Err(UnansweredReason {
                broken: ExchangeError::Cancelled,
                abandoned,
            }) => {
                if let Some(abandoned) = abandoned {
                    peer.call_off(abandoned).await;
                }
                continue;
            }
            Err(UnansweredReason {
                broken: ExchangeError::Rpc(_),
                ..
            }) => return,
            Err(UnansweredReason {
                broken: ExchangeError::Failure(_) | ExchangeError::TimedOut,
                ..
            }) => pause = (pause * 2).min(LONGEST),
        }
        tokio::time::sleep(pause).await;
    }
}
