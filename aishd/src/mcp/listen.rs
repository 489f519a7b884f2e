//! Hearing what a server says by itself: a stream beside the questions, or in 2026-07-28 a question that stays open.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::error::Broken;
use super::http::Listened;
use super::link::Link;
use super::peer::{Kind, Patience, Peer, Question};
use super::sse::Place;
use crate::core::mcp::server::Offers;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Longer than any daemon lives; the question ends with its session.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The stream beside the questions, without which the usual servers' own requests never arrive.
pub(super) async fn beside(link: Arc<Link>) {
    let Link::Http(http) = &*link else { return };
    if !http.has_session() {
        return;
    }
    let mut place = Place::default();
    let mut pause = SHORTEST;
    loop {
        pause = match http.listen(&mut place).await {
            Ok(Listened::Refused) => return,
            Ok(Listened::Ended { fruitful: true }) => SHORTEST,
            Ok(Listened::Ended { fruitful: false }) | Err(_) => (pause * 2).min(LONGEST),
        };
        // A server may ask for a shorter pause, but not for a tight loop.
        tokio::time::sleep(place.retry.unwrap_or(pause).max(pause / 4)).await;
    }
}

/// `subscriptions/listen`, again whenever it ends; a server that does not know it is not asked twice.
pub(super) async fn subscribed(peer: Peer, offers: Offers) {
    let mut wanted = Map::new();
    for (offered, name) in [
        (offers.tools_changes, "toolsListChanged"),
        (offers.resources_changes, "resourcesListChanged"),
        (offers.prompts_changes, "promptsListChanged"),
    ] {
        if offered {
            wanted.insert(name.to_owned(), Value::Bool(true));
        }
    }
    if wanted.is_empty() {
        return;
    }
    let mut pause = SHORTEST;
    loop {
        let mut params = Map::new();
        params.insert("notifications".to_owned(), json!(wanted));
        let asked = peer.ask(Question {
            method: "subscriptions/listen",
            params,
            about: None,
            mirrored: &[],
            patience: Patience::once(FOREVER),
            kind: Kind::Listen,
        });
        match asked.await.map_err(|it| it.broken) {
            // It says goodbye, and may be back.
            Ok(_) => pause = SHORTEST,
            Err(Broken::Rpc(_)) => return,
            Err(Broken::Failure(_) | Broken::TimedOut | Broken::Cancelled) => {
                pause = (pause * 2).min(LONGEST);
            }
        }
        tokio::time::sleep(pause).await;
    }
}
