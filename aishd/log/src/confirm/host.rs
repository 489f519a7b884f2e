//! Whether a command in layers, or a call that reads a page, may reach a host, while its connection waits: a question of the conversation, for which no turn
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
use crate::tool_name::ToolName;

/// What a person may answer.
pub const OPTIONS: [Decision; 3] = [
    Decision::AllowOnce,
    Decision::AllowConversation,
    Decision::Deny,
];
/// Whose calls read pages, and ask about hosts as commands in layers do.
pub const PAGE_PROVIDER: &str = "web";
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
    /// The tool whose call it is; it is the call in short then. `None`: it is a command of the shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// The run that it is of, for which a yes or a no holds. `None`: it is tried, or a call, and the answer holds for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<TurnId>,
}

impl HostSubject {
    pub fn new(
        host: String,
        plain: bool,
        (command, tool): (&str, Option<ToolName>),
        run: Option<TurnId>,
    ) -> Self {
        let shown = command.floor_char_boundary(SHOWN_BYTES);
        let mut begin = command[..shown].to_owned();
        // What is cut off of an address may be what leaves with it.
        if shown < command.len() {
            begin.push_str(&format!("… ({} bytes more)", command.len() - shown));
        }
        Self {
            host,
            plain,
            command: begin,
            tool,
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
            tool,
            run,
        } = self;
        let mut bound = json!({"host": host, "plain": plain, "command": command, "run": run});
        if let Some(tool) = tool {
            bound["tool"] = json!(tool);
        }
        ContentDigest::of_value(&bound)
    }
}
