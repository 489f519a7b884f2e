//! What a state keeps of the questions that wait for a person.

use aish_proto::id::{ConfirmId, Seq, TurnId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ConversationState;
use super::hosts::WantedHost;
use crate::confirm::{Confirm, ConfirmFate, ConfirmSubject, Resolution};
use crate::event::Record;
use crate::level_request::LevelStep;
use crate::time::Timestamp;
use crate::tool::DecisionSubject;

/// A question that waits; the whole of it is in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenConfirm {
    pub id: ConfirmId,
    pub seq: Seq,
    pub requested_at: Timestamp,
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<DecisionSubject>,
    /// The call that runs and waits for it; `None`: the call has not begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// What it is about, where no turn waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aside: Option<AsideSubject>,
    /// Where the newest trial of its command stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<Seq>,
}

/// What is asked while no turn waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AsideSubject {
    Level(LevelStep),
    Memory,
    /// What this run changed.
    Changes(TurnId),
    /// Whether this host may be reached.
    Host(WantedHost),
}

impl ConversationState {
    pub(super) fn asked_person(&mut self, record: &Record, confirm: &Confirm) {
        self.confirm_count = self.confirm_count.max(confirm.number);
        self.confirms.push(OpenConfirm::of(record, confirm));
        self.changes_asked(confirm);
        // Its server refused the call before it did anything: it has not begun.
        if let ConfirmSubject::SignIn(subject) = &confirm.subject {
            let open = self.running.iter_mut().flat_map(|it| &mut it.open_calls);
            open.filter(|it| it.id == subject.call.id)
                .for_each(|it| it.started = false);
        }
    }
}

impl OpenConfirm {
    /// The run whose command wants a host, or the turn whose call does: who follows that sees the question.
    pub fn turn_of_host(&self) -> Option<TurnId> {
        match &self.aside {
            Some(AsideSubject::Host(wanted)) => wanted.run.or(wanted.turn),
            Some(AsideSubject::Level(_) | AsideSubject::Memory | AsideSubject::Changes(_))
            | None => None,
        }
    }

    pub(super) fn of(record: &Record, confirm: &Confirm) -> Self {
        Self {
            id: confirm.id,
            seq: record.seq,
            requested_at: record.at,
            expires_at: confirm.expires_at,
            subject: confirm.decision_subject(),
            call: confirm.running_call().map(|it| it.id.clone()),
            aside: match &confirm.subject {
                ConfirmSubject::Level(subject) => Some(AsideSubject::Level(subject.step.clone())),
                ConfirmSubject::Memory(_) => Some(AsideSubject::Memory),
                ConfirmSubject::Changes(subject) => Some(AsideSubject::Changes(subject.turn)),
                ConfirmSubject::Host(subject) => Some(AsideSubject::Host(WantedHost {
                    host: subject.host.clone(),
                    run: subject.run,
                    turn: record.turn.filter(|_| subject.tool.is_some()),
                })),
                ConfirmSubject::Call(_)
                | ConfirmSubject::Command(_)
                | ConfirmSubject::Form(_)
                | ConfirmSubject::Model(_)
                | ConfirmSubject::SignIn(_) => None,
            },
            tried: None,
        }
    }

    /// The level that it is about.
    pub fn level(&self) -> Option<&LevelStep> {
        match &self.aside {
            Some(AsideSubject::Level(step)) => Some(step),
            Some(AsideSubject::Memory | AsideSubject::Changes(_) | AsideSubject::Host(_))
            | None => None,
        }
    }

    /// Whether it has an end of its own, and that has come.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|it| it <= now)
    }

    /// How it ends without an answer.
    pub fn unanswered(&self, fate: ConfirmFate, now: Timestamp) -> Resolution {
        Resolution::unanswered(self.id, fate, self.waited_ms(now))
    }

    /// Milliseconds since it was asked; `None`: the clock was set back.
    pub fn waited_ms(&self, now: Timestamp) -> Option<u64> {
        u64::try_from(now.0.saturating_sub(self.requested_at.0)).ok()
    }
}

/// A question about a level, as programs of protocol 1 stored it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct OlderLevel {
    id: ConfirmId,
    seq: Seq,
    requested_at: Timestamp,
    #[serde(default)]
    expires_at: Option<Timestamp>,
    upgrade: LevelStep,
}

/// A question about a proposed fact, as programs of protocol 1 stored it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct OlderMemory {
    id: ConfirmId,
    seq: Seq,
    requested_at: Timestamp,
}

impl From<OlderLevel> for OpenConfirm {
    fn from(older: OlderLevel) -> Self {
        Self {
            id: older.id,
            seq: older.seq,
            requested_at: older.requested_at,
            expires_at: older.expires_at,
            subject: None,
            call: None,
            aside: Some(AsideSubject::Level(older.upgrade)),
            tried: None,
        }
    }
}

impl From<OlderMemory> for OpenConfirm {
    fn from(older: OlderMemory) -> Self {
        Self {
            id: older.id,
            seq: older.seq,
            requested_at: older.requested_at,
            expires_at: None,
            subject: None,
            call: None,
            aside: Some(AsideSubject::Memory),
            tried: None,
        }
    }
}

impl Serialize for ConversationState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// The older lists are taken into the one that there is now.
impl<'de> Deserialize<'de> for ConversationState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut state = Self::deserialize(deserializer)?;
        let levels = std::mem::take(&mut state.older_levels);
        let memories = std::mem::take(&mut state.older_memories);
        if !levels.is_empty() || !memories.is_empty() {
            state
                .confirms
                .extend(levels.into_iter().map(OpenConfirm::from));
            state
                .confirms
                .extend(memories.into_iter().map(OpenConfirm::from));
            state.confirms.sort_by_key(|it| it.seq);
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_lists_of_the_older_layout_are_one_in_the_order_of_the_log() {
        let id = |n: u8| ConfirmId::from_bytes([n; 16]);
        let stored = json!({
            "last_seq": 9,
            "confirms": [{"id": id(1), "seq": 5, "requested_at": 50, "call": "call_1"}],
            "raises": [{"id": id(2), "seq": 3, "requested_at": 30, "expires_at": 40,
                "upgrade": {"provider": "t", "from": 1, "to": 2}}],
            "proposals": [{"id": id(3), "seq": 4, "requested_at": 40}],
        });
        let state: ConversationState = serde_json::from_value(stored).unwrap();
        let order: Vec<ConfirmId> = state.confirms.iter().map(|it| it.id).collect();
        assert_eq!(vec![id(2), id(3), id(1)], order);
        assert_eq!(
            vec![id(1)],
            state.turn_confirms().map(|it| it.id).collect::<Vec<_>>()
        );
        assert_eq!(Some(2), state.confirms[0].level().map(|it| it.to.number()));
        assert!(state.confirms[0].is_over(Timestamp(40)) && state.asks_aside());
        let again = serde_json::to_value(&state).unwrap();
        assert!(again.get("raises").is_none() && again.get("proposals").is_none());
        assert_eq!(state, serde_json::from_value(again).unwrap());
    }
}
