//! Whether a fact that a model proposes is kept: a question of the conversation that was put away, for which no turn waits.
//! The fact is in that conversation's log and nowhere else until a person has said yes.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

use aish_proto::id::{ConfirmId, ConversationId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Confirm, ConfirmSubject, Decision};
use crate::memory::{MemoryDraft, MemoryKind, MemoryProposer};
use crate::tool::ContentDigest;

/// Facts that one conversation asks about at the same time.
pub const MOST_OPEN: usize = 16;

/// What a person may answer.
pub const OPTIONS: [Decision; 2] = [Decision::AllowOnce, Decision::Deny];

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySubject {
    pub kind: MemoryKind,
    /// One line of visible characters.
    pub text: String,
    /// Whose idea it is.
    pub preset: String,
}

impl MemorySubject {
    /// The question, with its id and number.
    pub fn confirm(self, (id, number): (ConfirmId, u32)) -> Confirm {
        Confirm {
            id,
            number,
            title: "a fact to remember".to_owned(),
            why: format!("{} proposes to keep it for all conversations", self.preset),
            why_told: None,
            destructive: None,
            halt: false,
            digest: self.digest(),
            options: OPTIONS.to_vec(),
            expires_at: None,
            subject: ConfirmSubject::Memory(self),
        }
    }

    /// What would be kept, as one JSON object in its canonical spelling.
    pub fn fact(&self) -> serde_json::Value {
        json!({"kind": self.kind.as_str(), "text": self.text})
    }

    /// What an answer is bound to: what is kept is what was shown.
    pub fn digest(&self) -> ContentDigest {
        ContentDigest::of_value(&json!({"memory": self.fact()}))
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

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use aish_proto::id::Seq;

    use super::*;
    use crate::confirm::ConfirmFate;
    use crate::event::{Event, Record};
    use crate::state::ConversationState;
    use crate::time::Timestamp;

    fn proposal(kind: &str, text: &str) -> MemorySubject {
        MemorySubject {
            kind: kind.parse().unwrap(),
            text: text.to_owned(),
            preset: "fast".to_owned(),
        }
    }

    #[test]
    fn an_answer_is_bound_to_every_character_of_the_fact() {
        let shown = proposal("fact", "the server is boltzmann");
        let other = |it: MemorySubject| assert_ne!(shown.digest(), it.digest());
        other(proposal("fact", "the server is boltzmann "));
        other(proposal("project", "the server is boltzmann"));
        // Who thought of it is no part of what is kept.
        let again = MemorySubject {
            preset: "slow".to_owned(),
            ..shown.clone()
        };
        assert_eq!(shown.digest(), again.digest());
    }

    /// It waits until it has an end, and holds up no turn meanwhile.
    #[test]
    fn a_proposal_is_a_question_of_the_conversation_until_it_is_answered() {
        let mut state = ConversationState::default();
        let id = ConfirmId(Ulid::from_parts(1, 1));
        let apply = |state: &mut ConversationState, event: Event| {
            state.apply(&Record {
                seq: state.last_seq.next(),
                at: Timestamp(7),
                turn: None,
                client: None,
                event,
            });
        };
        let asked = proposal("fact", "x").confirm((id, 1));
        apply(&mut state, Event::ConfirmRequested(Box::new(asked)));
        let open = state.confirms[0].clone();
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
}
