//! Whether what a run changed becomes real: a question of the conversation, for which no turn waits.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

use aish_proto::id::{ChangesId, ConfirmId, TurnId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Confirm, ConfirmSubject, Decision};
use crate::network::NetworkUse;
use crate::run_changes::of_run;
use crate::tool::ContentDigest;
use crate::tried::ChangeSummary;

/// What a person may answer.
pub const OPTIONS: [Decision; 2] = [Decision::Keep, Decision::Deny];

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesSubject {
    /// The run.
    pub turn: TurnId,
    pub goal: String,
    pub changed: ChangeSummary,
    /// The hosts that its commands reached, and that they were refused.
    #[serde(default, skip_serializing_if = "NetworkUse::is_empty")]
    pub network: NetworkUse,
}

impl ChangesSubject {
    /// The question, with its id and number.
    pub fn confirm(self, (id, number): (ConfirmId, u32)) -> Confirm {
        Confirm {
            id,
            number,
            title: "changes of a run".to_owned(),
            why: "the run worked in a copy of the files; nothing of it is real until you keep it"
                .to_owned(),
            why_told: None,
            destructive: None,
            halt: false,
            digest: self.digest(),
            options: OPTIONS.to_vec(),
            expires_at: None,
            subject: ConfirmSubject::Changes(self),
        }
    }

    pub fn changes(&self) -> ChangesId {
        of_run(self.turn)
    }

    /// What an answer is bound to. After the end of a run its layers do not change any more.
    fn digest(&self) -> ContentDigest {
        ContentDigest::of_value(&json!({"changes": self.changes()}))
    }
}
