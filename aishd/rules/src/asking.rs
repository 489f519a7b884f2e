//! Whether a person may be asked: the one place that decides it, for calls, commands, levels and what servers want.

use std::fmt;

use aishd_log::confirm::{OnConfirm, Then};

/// Whether a person is attached who could answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Attended,
    Unattended,
}

/// Why no person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unasked {
    NobodyAttached,
    /// The asker of the turn wants it so.
    ConfirmDeny,
}

/// Asks, if what the asker of the turn said allows it.
pub fn may_ask(on_confirm: &OnConfirm, attended: Presence) -> Result<(), Unasked> {
    match (on_confirm.then, attended) {
        (Then::Ask, _) | (Then::AskAttended, Presence::Attended) => Ok(()),
        (Then::AskAttended, Presence::Unattended) => Err(Unasked::NobodyAttached),
        (Then::Deny, _) => Err(Unasked::ConfirmDeny),
    }
}

impl Unasked {
    pub fn describe(self) -> &'static str {
        match self {
            Self::NobodyAttached => "nobody is attached who could allow it",
            Self::ConfirmDeny => "--confirm=deny",
        }
    }

    /// What the model reads in the place of a result.
    pub fn reply(self) -> String {
        let denied = match self {
            Self::NobodyAttached => "denied",
            Self::ConfirmDeny => "denied by policy",
        };
        format!("[aish] {denied}: {}", self.describe())
    }
}

impl fmt::Display for Unasked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe())
    }
}
