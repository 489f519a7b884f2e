//! Whether a fact that a model proposes is kept: a question of the conversation that was put away, for which no turn waits.
//! The fact is in that conversation's log and nowhere else until a person has said yes.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

use aish_proto::id::{ConfirmId, ConversationId, Seq};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{MemoryDraft, MemoryKind, MemoryProposer};
use crate::confirm::{ConfirmFate, Decision, Resolution};
use crate::time::Timestamp;
use crate::tool::ContentDigest;

/// Facts that one conversation asks about at the same time.
pub const MOST_OPEN: usize = 16;

/// What a person may answer.
pub const OPTIONS: [Decision; 2] = [Decision::AllowOnce, Decision::Deny];

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryProposal {
    pub id: ConfirmId,
    /// One row of numbers with the conversation's other confirms.
    pub number: u32,
    pub kind: MemoryKind,
    /// One line of visible characters.
    pub text: String,
    /// Whose idea it is.
    pub preset: String,
}

impl MemoryProposal {
    /// What would be kept, as one JSON object in its canonical spelling.
    pub fn fact(&self) -> serde_json::Value {
        json!({"kind": self.kind.as_str(), "text": self.text})
    }

    /// What an answer is bound to: what is kept is what was shown.
    pub fn digest(&self) -> ContentDigest {
        ContentDigest::of_value(&json!({"memory": self.fact()}))
    }

    /// For people.
    pub fn why(&self) -> String {
        format!("{} proposes to keep it for all conversations", self.preset)
    }

    /// What a yes makes of it.
    pub fn draft(self, conversation: ConversationId) -> MemoryDraft {
        MemoryDraft {
            kind: self.kind,
            text: self.text,
            pinned: false,
            from: Some(MemoryProposer {
                conversation,
                preset: self.preset,
            }),
        }
    }
}

/// One that waits; the whole of it is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenProposal {
    pub id: ConfirmId,
    pub seq: Seq,
    pub requested_at: Timestamp,
}

impl OpenProposal {
    /// How it ends without an answer.
    pub fn unanswered(&self, fate: ConfirmFate, now: Timestamp) -> Resolution {
        Resolution::unanswered(self.id, fate, self.waited_ms(now))
    }

    /// Milliseconds since it was asked; `None`: the clock was set back.
    pub fn waited_ms(&self, now: Timestamp) -> Option<u64> {
        u64::try_from(now.0.saturating_sub(self.requested_at.0)).ok()
    }
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use super::*;
    use crate::event::{Event, Record};
    use crate::state::ConversationState;

    fn proposal(kind: &str, text: &str) -> MemoryProposal {
        MemoryProposal {
            id: ConfirmId(Ulid::from_parts(1, 1)),
            number: 1,
            kind: kind.parse().unwrap(),
            text: text.to_owned(),
            preset: "fast".to_owned(),
        }
    }

    #[test]
    fn an_answer_is_bound_to_every_character_of_the_fact() {
        let shown = proposal("fact", "the server is boltzmann");
        let other = |it: MemoryProposal| assert_ne!(shown.digest(), it.digest());
        other(proposal("fact", "the server is boltzmann "));
        other(proposal("project", "the server is boltzmann"));
        // Who thought of it, and where it stands in the row, is no part of what is kept.
        let again = MemoryProposal {
            number: 2,
            preset: "slow".to_owned(),
            ..shown.clone()
        };
        assert_eq!(shown.digest(), again.digest());
    }

    /// It waits until it has an end, and holds up no turn meanwhile.
    #[test]
    fn a_proposal_is_a_question_of_the_conversation_until_it_is_answered() {
        let mut state = ConversationState::default();
        let proposal = proposal("fact", "x");
        let id = proposal.id;
        let apply = |state: &mut ConversationState, event: Event| {
            state.apply(&Record {
                seq: state.last_seq.next(),
                at: Timestamp(7),
                turn: None,
                client: None,
                event,
            });
        };
        apply(&mut state, Event::MemoryProposed(Box::new(proposal)));
        let open = state.proposals[0];
        assert_eq!(
            (id, Seq(1), Timestamp(7)),
            (open.id, open.seq, open.requested_at)
        );
        assert!(state.is_unsettled() && state.asks_aside() && !state.requires_action());
        assert_eq!(1, state.confirm_count);
        let end = open.unanswered(ConfirmFate::Expired, Timestamp(9));
        assert_eq!(Some(2), end.waited_ms);
        apply(&mut state, Event::ConfirmResolved(Box::new(end)));
        assert!(!state.is_unsettled() && !state.asks_aside());
    }

    #[test]
    fn the_stored_form_is_spelled_out() {
        let event = Event::MemoryProposed(Box::new(proposal("fact", "x")));
        let id = Ulid::from_parts(1, 1);
        assert_eq!(
            format!(
                r#"{{"memory_proposed":{{"id":"{id}","number":1,"kind":"fact","text":"x","preset":"fast"}}}}"#
            ),
            serde_json::to_string(&event).unwrap()
        );
    }
}
