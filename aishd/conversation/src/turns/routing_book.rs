//! What people have switched of routing and fallback while the daemon runs, and what came of both so far. One for all
//! conversations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aishd_log::answering_person::AnsweringPerson;
use aishd_log::audit::{AuditDraft, AuditFact};
use aishd_log::event::{Event, Record};
use aishd_log::routed::RoutedSide;
use aishd_model::routing::{RoutingSwitch, RoutingSwitches};
use aishd_platform::clock;
use aishd_store::{Note, Store};
use parking_lot::Mutex;

use crate::request_error::RequestError;

/// Where the switches are kept.
const KEY: &str = "routing.switches";

/// A handle; cheap to clone.
#[derive(Clone, Debug)]
pub struct RoutingBook(Arc<RoutingBookInner>);

#[derive(Debug)]
struct RoutingBookInner {
    store: Store,
    switches: Mutex<RoutingSwitches>,
    /// Held by who throws one, until that is durable: whether the store has them as they are.
    stored: tokio::sync::Mutex<bool>,
    tally: RouteTally,
}

#[derive(Debug, Default)]
struct RouteTally {
    routed: AtomicU64,
    fallbacks: AtomicU64,
    fallbacks_failed: AtomicU64,
}

/// What came of it since the daemon began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteCounts {
    /// Turns that another preset answered than would have without routing.
    pub routed: u64,
    /// Requests that went to another preset.
    pub fallbacks: u64,
    /// Those of them that failed there too.
    pub fallbacks_failed: u64,
}

impl RoutingBook {
    /// With the switches as they were left.
    pub fn new(store: &Store) -> Self {
        let switches = match store.note(KEY) {
            Ok(text) => text
                .and_then(|it| serde_json::from_str(&it).ok())
                .unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "the switches of routing cannot be read; what is configured counts");
                RoutingSwitches::default()
            }
        };
        Self(Arc::new(RoutingBookInner {
            store: store.clone(),
            switches: Mutex::new(switches),
            stored: tokio::sync::Mutex::new(true),
            tally: RouteTally::default(),
        }))
    }

    pub fn switches(&self) -> RoutingSwitches {
        self.0.switches.lock().clone()
    }

    /// Throws one, or takes it back. Returns once that is durable and told of; whether anything is different now. What is
    /// switched off is off at once, whatever the store says.
    pub async fn throw(
        &self,
        which: RoutedSide,
        on: Option<bool>,
        by: AnsweringPerson,
    ) -> Result<bool, RequestError> {
        let mut stored = self.0.stored.lock().await;
        let before = self.switches();
        if *stored && before.get(which).map(|it| it.on) == on {
            return Ok(false);
        }
        let mut after = before;
        let at = clock::now();
        let switch = |on| RoutingSwitch {
            on,
            by: by.clone(),
            at,
        };
        after.set(which, on.map(switch));
        if on == Some(false) {
            self.0.switches.lock().clone_from(&after);
        }
        let text = serde_json::to_string(&after).unwrap_or_default();
        let note = Note {
            key: KEY.to_owned(),
            text,
            forgets: false,
        };
        let draft = AuditDraft {
            by: Some(by),
            ..AuditDraft::outside_conversation(at, AuditFact::RoutingSwitched { which, on })
        };
        *stored = false;
        self.0.store.keep(note, vec![draft]).await?;
        *stored = true;
        *self.0.switches.lock() = after;
        Ok(true)
    }

    pub fn counts(&self) -> RouteCounts {
        let read = |it: &AtomicU64| it.load(Ordering::Relaxed);
        let tally = &self.0.tally;
        RouteCounts {
            routed: read(&tally.routed),
            fallbacks: read(&tally.fallbacks),
            fallbacks_failed: read(&tally.fallbacks_failed),
        }
    }

    /// Counts what has just been stored.
    pub(crate) fn count(&self, records: &[Record]) {
        let tally = &self.0.tally;
        let add = |it: &AtomicU64, when: bool| {
            it.fetch_add(u64::from(when), Ordering::Relaxed);
        };
        for record in records {
            if let Event::RouteDecided(routed) = &record.event {
                add(&tally.routed, routed.replaced);
            }
            if let Event::FellBack { .. } = &record.event {
                add(&tally.fallbacks, true);
            }
            if let Event::TurnFinished {
                error: Some(error), ..
            } = &record.event
            {
                add(&tally.fallbacks_failed, error.cause.is_some());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::id::ClientId;

    use super::*;

    fn person() -> AnsweringPerson {
        AnsweringPerson {
            client: ClientId::from_bytes([1; 16]),
            name: "test".to_owned(),
            uid: None,
            pid: None,
            tty: None,
        }
    }

    /// What was not stored is not said to be: it counts for now, and whoever says it again is heard.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_switch_that_was_not_stored_is_no_switch_that_stands() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let routes = RoutingBook::new(&store);
        assert!(
            routes
                .throw(RoutedSide::Fallback, Some(true), person())
                .await
                .unwrap()
        );
        store.close();
        for _ in 0..2 {
            let refused = routes
                .throw(RoutedSide::Fallback, Some(false), person())
                .await;
            assert!(refused.is_err(), "{refused:?}");
            let now = routes.switches().get(RoutedSide::Fallback).map(|it| it.on);
            assert_eq!(Some(false), now);
        }
        let store = Store::open(dir.path()).unwrap();
        let routes = RoutingBook::new(&store);
        let on = |routes: &RoutingBook| routes.switches().get(RoutedSide::Fallback).map(|it| it.on);
        assert_eq!(Some(true), on(&routes));
        assert!(
            routes
                .throw(RoutedSide::Fallback, Some(false), person())
                .await
                .unwrap()
        );
        assert!(
            !routes
                .throw(RoutedSide::Fallback, Some(false), person())
                .await
                .unwrap()
        );
        store.close();
        assert_eq!(
            Some(false),
            on(&RoutingBook::new(&Store::open(dir.path()).unwrap()))
        );
    }
}
