//! What people have switched of routing and fallback while the daemon runs, and what came of both so far. One for all
//! conversations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::handle::RequestError;
use crate::clock;
use crate::core::audit::{Draft, Told};
use crate::core::confirm::Person;
use crate::core::event::{Event, Record};
use crate::core::routing::{Switch, Switches, Which};
use crate::store::{Note, Store};

/// Where the switches are kept.
const KEY: &str = "routing.switches";

/// A handle; cheap to clone.
#[derive(Clone, Debug)]
pub struct Routes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    switches: Mutex<Switches>,
    /// Held by who throws one, until that is durable.
    throwing: tokio::sync::Mutex<()>,
    tally: Tally,
}

#[derive(Debug, Default)]
struct Tally {
    routed: AtomicU64,
    fallbacks: AtomicU64,
    fallbacks_failed: AtomicU64,
}

/// What came of it since the daemon began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Turns that another preset answered than would have without routing.
    pub routed: u64,
    /// Requests that went to another preset.
    pub fallbacks: u64,
    /// Those of them that failed there too.
    pub fallbacks_failed: u64,
}

impl Routes {
    /// With the switches as they were left.
    #[must_use]
    pub fn new(store: &Store) -> Self {
        let switches = match store.note(KEY) {
            Ok(text) => text
                .and_then(|it| serde_json::from_str(&it).ok())
                .unwrap_or_default(),
            Err(error) => {
                tracing::warn!(%error, "the switches of routing cannot be read; what is configured counts");
                Switches::default()
            }
        };
        Self(Arc::new(Inner {
            store: store.clone(),
            switches: Mutex::new(switches),
            throwing: tokio::sync::Mutex::default(),
            tally: Tally::default(),
        }))
    }

    #[must_use]
    pub fn switches(&self) -> Switches {
        self.lock().clone()
    }

    /// Throws one, or takes it back. Returns once that is durable and told of; whether anything is different now. What is
    /// switched off is off at once, whatever the store says.
    pub async fn throw(
        &self,
        which: Which,
        on: Option<bool>,
        by: Person,
    ) -> Result<bool, RequestError> {
        let _alone = self.0.throwing.lock().await;
        let before = self.switches();
        if before.get(which).map(|it| it.on) == on {
            return Ok(false);
        }
        let mut after = before;
        let at = clock::now();
        let switch = |on| Switch {
            on,
            by: by.clone(),
            at,
        };
        after.set(which, on.map(switch));
        if on == Some(false) {
            self.lock().clone_from(&after);
        }
        let text = serde_json::to_string(&after).unwrap_or_default();
        let note = Note {
            key: KEY.to_owned(),
            text,
        };
        if !self.0.store.keep_note(note) {
            return Err(RequestError::Storage("the store is busy".to_owned()));
        }
        // The writer takes things in their order: when this is durable, the note is.
        let draft = Draft {
            by: Some(by),
            ..Draft::beside(at, Told::RoutingSwitched { which, on })
        };
        self.0.store.tell(vec![draft]).await?;
        *self.lock() = after;
        Ok(true)
    }

    #[must_use]
    pub fn counted(&self) -> Counted {
        let read = |it: &AtomicU64| it.load(Ordering::Relaxed);
        let tally = &self.0.tally;
        Counted {
            routed: read(&tally.routed),
            fallbacks: read(&tally.fallbacks),
            fallbacks_failed: read(&tally.fallbacks_failed),
        }
    }

    /// Counts what has just been stored.
    pub(super) fn count(&self, records: &[Record]) {
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Switches> {
        self.0
            .switches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
