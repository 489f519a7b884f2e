//! A question about the level of a provider. No turn waits for it; a yes raises the level and is consent to no call.

use aish_proto::id::ConfirmId;
use serde::{Deserialize, Serialize};

use super::{AnsweringPerson, Confirm, ConfirmSubject, Decision};
use crate::level_request::LevelStep;
use crate::time::Timestamp;
use crate::tool_name::ToolName;

/// What a person may answer.
pub const OPTIONS: [Decision; 2] = [Decision::RaiseOnly, Decision::Deny];

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelSubject {
    pub step: LevelStep,
    /// The tool that somebody wanted to call. `None`: the level itself was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_for: Option<ToolName>,
    /// Who asked.
    pub by: AnsweringPerson,
}

impl LevelSubject {
    /// The question, with its id and number.
    pub fn confirm(self, (id, number): (ConfirmId, u32), expires_at: Option<Timestamp>) -> Confirm {
        let LevelStep { provider, to, .. } = &self.step;
        Confirm {
            id,
            number,
            title: format!("{provider} to level {}", to.number()),
            why: self.step.why(),
            why_told: None,
            destructive: None,
            halt: false,
            digest: self.step.digest(),
            options: OPTIONS.to_vec(),
            expires_at,
            subject: ConfirmSubject::Level(self),
        }
    }
}
