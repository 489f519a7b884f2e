//! What a server wants while a call of its own runs, as a confirm. It belongs to that call, and nothing but a
//! person can agree to it: no rule does.

use aish_proto::id::ConfirmId;
use aishd_log::confirm::{Confirm, ConfirmCall, ConfirmSubject, Decision, OnConfirm};
use aishd_log::time::Timestamp;
use aishd_log::tool::ContentDigest;
use serde_json::{Value, json};

use crate::asking::{Presence, may_ask};
use crate::gate::{AdmittedCall, spelled};

/// Requests of servers in one conversation that wait for people at the same time.
pub const MOST: usize = 8;

/// The reply of a call that was waiting for a person when the daemon ended: the server's request has died with it.
pub const UNKNOWN_WHILE_ASKING: &str = "[aish] interrupted: the daemon ended while the server waited for a person's answer; the effect of this call is unknown";

/// All that is known of a request but what it wants.
#[derive(Clone, Copy, Debug)]
pub struct ServerRequest<'a> {
    /// The call that runs.
    pub call: &'a str,
    pub go: &'a AdmittedCall,
    /// As the server sent it.
    pub params: &'a Value,
    /// Requests that wait already.
    pub open: usize,
    pub on_confirm: &'a OnConfirm,
    pub attended: Presence,
    pub cwd: &'a str,
    pub now: Timestamp,
    /// Names the next confirm.
    pub next: (ConfirmId, u32),
}

/// What becomes of it; `E` says why it cannot be shown.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerRequestJudgement<E> {
    Ask(Box<Confirm>),
    /// Nobody is asked; people are told so.
    Decline(String),
    Refuse(E),
}

/// What it wants.
#[derive(Clone, Debug)]
pub(super) struct ServerWish {
    /// In a few words: `input`.
    pub(super) what: &'static str,
    pub(super) why: String,
    /// What an answer is bound to, besides the server and the call.
    pub(super) bound: Value,
}

impl ServerRequest<'_> {
    /// Why no person is asked, if none is.
    pub(super) fn unasked(&self) -> Option<&'static str> {
        match may_ask(self.on_confirm, self.attended) {
            Err(unasked) => Some(unasked.describe()),
            Ok(()) => (self.open >= MOST).then_some("too much is asked at once"),
        }
    }

    /// Nobody is asked for `what`, and this is what people are told.
    pub(super) fn declined<E>(&self, what: &str, why: &str) -> ServerRequestJudgement<E> {
        let tool = &self.go.tool.name;
        let alias = tool.alias();
        ServerRequestJudgement::Decline(format!(
            "mcp {alias} asked for {what} during {tool}: declined, {why}"
        ))
    }

    /// The call that runs meanwhile.
    pub(super) fn running_call(&self) -> ConfirmCall {
        let tool = &self.go.tool;
        ConfirmCall {
            id: self.call.to_owned(),
            tool: tool.name.clone(),
            arguments: spelled(&self.go.arguments),
            cwd: self.cwd.to_owned(),
            server: tool.place.to_string(),
        }
    }

    pub(super) fn confirm<E>(
        &self,
        wanted: ServerWish,
        subject: ConfirmSubject,
    ) -> ServerRequestJudgement<E> {
        let tool = &self.go.tool;
        let (id, number) = self.next;
        ServerRequestJudgement::Ask(Box::new(Confirm {
            id,
            number,
            title: format!("{} asks for {}", tool.name.alias(), wanted.what),
            subject,
            why: wanted.why,
            why_told: None,
            destructive: None,
            halt: false,
            digest: ContentDigest::of_value(&json!({
                "wanted": wanted.bound,
                "server": &*tool.server,
                "call": self.call,
            })),
            options: vec![Decision::AllowOnce, Decision::Deny, Decision::Abort],
            expires_at: self.on_confirm.expires_at(self.now),
        }))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use aishd_log::access::Access;
    use aishd_log::confirm::Then;

    use super::*;
    use crate::gate::CallPace;
    use crate::log_samples::tool;

    /// During a call of `t__x`, wanted by somebody who has said that much about confirms.
    pub(crate) fn judged<E>(
        (then, attended, open): (Then, Presence, usize),
        params: &Value,
        judge: impl FnOnce(ServerRequest<'_>) -> ServerRequestJudgement<E>,
    ) -> ServerRequestJudgement<E> {
        let go = AdmittedCall {
            tool: Arc::new(tool("t__x", Access::Write)),
            arguments: serde_json::Map::new(),
            digest: ContentDigest([0; 32]),
            rule: String::new(),
            allowance: None,
            binds: None,
            pace: CallPace::Alone,
        };
        judge(ServerRequest {
            call: "call_1",
            go: &go,
            params,
            open,
            on_confirm: &OnConfirm {
                then,
                timeout_ms: Some(5),
                ..OnConfirm::default()
            },
            attended,
            cwd: "/w",
            now: Timestamp(10),
            next: (ConfirmId::from_bytes([1; 16]), 7),
        })
    }
}
