//! Facts on their way into the log, and those that the store would not take.

use std::time::Duration;

use aish_proto::id::TurnId;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::event::Event;
use aishd_turn::turn::Effect;
use tokio::time::Instant;

use crate::view::LiveChange;

/// How long a commit that the store refused waits before it is tried again: first, and at most.
pub(crate) const RETRY_FIRST: Duration = Duration::from_millis(200);

pub(crate) const RETRY_LONGEST: Duration = Duration::from_secs(2);

/// A fact before it has its place in the log.
#[derive(Clone, Debug)]
pub(crate) struct UncommittedFact {
    pub(crate) turn: Option<TurnId>,
    /// Whoever caused it.
    pub(crate) by: Option<AnsweringPerson>,
    pub(crate) event: Event,
}

/// Facts, and what is to be done once they are durable.
#[derive(Debug, Default)]
pub(crate) struct PendingCommit {
    pub(crate) facts: Vec<UncommittedFact>,
    pub(crate) effects: Vec<Effect>,
    /// The running turn is over with them.
    pub(crate) ends: bool,
}

/// What the store would not take.
#[derive(Debug)]
pub(crate) struct StalledCommit {
    pub(crate) pending: PendingCommit,
    pub(crate) pause: Duration,
    pub(crate) retry_at: Instant,
}

impl PendingCommit {
    pub(crate) fn facts(facts: Vec<UncommittedFact>) -> Self {
        Self {
            facts,
            effects: vec![],
            ends: false,
        }
    }

    /// What happened to a turn beside its own steps.
    pub(crate) fn led(facts: Vec<UncommittedFact>, effects: Vec<Effect>, ends: bool) -> Self {
        Self {
            facts,
            effects,
            ends,
        }
    }

    /// What has to be written down before a stream may be opened.
    pub(crate) fn before_stream(facts: Vec<UncommittedFact>, opens: Effect) -> Self {
        Self {
            facts,
            effects: vec![opens],
            ends: false,
        }
    }

    pub(crate) fn live(&self) -> LiveChange {
        let says = |it: &UncommittedFact| matches!(it.event, Event::AssistantMessage { .. });
        if self.ends || self.facts.iter().any(says) {
            LiveChange::End
        } else {
            LiveChange::Keep
        }
    }
}
