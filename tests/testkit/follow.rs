//! The events of one subscription, as a client takes them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aish_proto::envelope::Envelope;
use aish_proto::id::{SubscriptionId, TurnId};

use crate::recording::Recording;
use crate::wait::{PATIENCE, left};
use crate::wire::Wire;

/// The events of one subscription, in the order they came.
#[derive(Debug)]
pub struct Follow {
    pub(crate) wire: Arc<Mutex<Wire>>,
    pub(crate) subscription: SubscriptionId,
    pub(crate) seen: Vec<Envelope>,
}

impl Follow {
    pub fn subscription(&self) -> SubscriptionId {
        self.subscription
    }

    /// All that was taken so far.
    pub fn events_so_far(&self) -> &[Envelope] {
        &self.seen
    }

    /// The next event; `None` when the connection is closed or `limit` is over.
    pub fn next_within(&mut self, limit: Duration) -> Option<Envelope> {
        let mut wire = self.wire.lock().expect("no call of this client panicked");
        let event = wire.next_event(self.subscription, Instant::now() + limit)?;
        self.seen.push(event.clone());
        Some(event)
    }

    /// Takes events up to the first that is wanted, and returns that one.
    #[track_caller]
    pub fn until(&mut self, wanted: impl Fn(&Envelope) -> bool) -> Envelope {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let limit = left(deadline).unwrap_or(Duration::from_millis(1));
            match self.next_within(limit) {
                Some(event) if wanted(&event) => return event,
                Some(_) => {}
                None => {
                    let kinds: Vec<&str> = self.seen.iter().map(|it| it.kind.as_str()).collect();
                    panic!("the event did not come; what came: {kinds:?}");
                }
            }
        }
    }

    /// Takes events up to the first of this kind.
    #[track_caller]
    pub fn until_kind(&mut self, kind: &str) -> Envelope {
        self.until(|it| it.kind == kind)
    }

    /// Takes events up to the end of this turn.
    #[track_caller]
    pub fn until_finished(&mut self, turn: TurnId) -> Envelope {
        self.until(|it| it.kind == "turnFinished" && it.turn == Some(turn))
    }

    /// What was taken so far, to be looked at or compared.
    pub fn recording(&self) -> Recording {
        Recording::of(self.seen.clone())
    }
}

impl Iterator for Follow {
    type Item = Envelope;

    fn next(&mut self) -> Option<Envelope> {
        self.next_within(PATIENCE)
    }
}
