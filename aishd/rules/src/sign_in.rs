//! The question to a person to sign in to a server, before a call that it refused runs.

use aish_proto::id::ConfirmId;
use aishd_log::confirm::{Confirm, ConfirmSubject, Decision, OnConfirm, SignInSubject};
use aishd_log::time::Timestamp;
use aishd_log::tool::ContentDigest;

/// A call that was let through and refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedSignIn {
    pub subject: SignInSubject,
    /// What was let through: a yes is to just that.
    pub digest: ContentDigest,
    /// How often somebody had signed in when it was sent.
    pub sign_ins: Option<u64>,
}

impl RefusedSignIn {
    /// With the number and the id of the next question.
    pub fn question(
        self,
        on_confirm: &OnConfirm,
        now: Timestamp,
        (id, number): (ConfirmId, u32),
    ) -> Confirm {
        let Self {
            subject, digest, ..
        } = self;
        let alias = subject.call.tool.alias();
        Confirm {
            id,
            number,
            title: format!("sign in to {alias}"),
            why: format!(
                "{} waits for it: {alias} {}",
                subject.call.tool, subject.why
            ),
            why_told: Some(format!("{alias} wants a person to sign in")),
            subject: ConfirmSubject::SignIn(subject),
            destructive: None,
            halt: false,
            digest,
            options: vec![Decision::AllowOnce, Decision::Deny, Decision::Abort],
            expires_at: on_confirm.expires_at(now),
        }
    }
}
