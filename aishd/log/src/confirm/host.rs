//! Whether a command in layers may reach a host, while its connection waits: a question of the conversation, for which no turn
//! waits.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

use aish_proto::id::{ConfirmId, TurnId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Confirm, ConfirmSubject, Decision};
use crate::network::short;
use crate::time::Timestamp;
use crate::tool::ContentDigest;

/// What a person may answer.
pub const OPTIONS: [Decision; 3] = [
    Decision::AllowOnce,
    Decision::AllowConversation,
    Decision::Deny,
];
/// So much of a command is shown.
const SHOWN_BYTES: usize = 256;

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSubject {
    /// With its port, in the one form that it has.
    pub host: String,
    /// Everybody on the way can read what is sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain: bool,
    /// Which wants it; its beginning.
    pub command: String,
    /// The run that it is of, for which a yes or a no holds. `None`: it is tried, and the answer holds for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<TurnId>,
}

impl HostSubject {
    pub fn new(host: String, plain: bool, command: &str, run: Option<TurnId>) -> Self {
        let shown = command.floor_char_boundary(SHOWN_BYTES);
        Self {
            host,
            plain,
            command: command[..shown].to_owned(),
            run,
        }
    }

    /// The question, with its id and number, and when silence will have been a no.
    pub fn confirm(self, (id, number): (ConfirmId, u32), expires_at: Timestamp) -> Confirm {
        let why = format!(
            "no rule names {}; contain.hosts = [{:?}] would allow it always",
            self.host,
            self.named()
        );
        Confirm {
            id,
            number,
            title: "host".to_owned(),
            why,
            why_told: None,
            destructive: None,
            halt: false,
            digest: self.digest(),
            options: OPTIONS.to_vec(),
            expires_at: Some(expires_at),
            subject: ConfirmSubject::Host(self),
        }
    }

    /// As a rule would name it.
    pub fn named(&self) -> &str {
        short(&self.host)
    }

    /// What an answer is bound to.
    fn digest(&self) -> ContentDigest {
        let Self {
            host,
            plain,
            command,
            run,
        } = self;
        ContentDigest::of_value(
            &json!({"host": host, "plain": plain, "command": command, "run": run}),
        )
    }
}
