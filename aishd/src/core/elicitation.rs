//! A server's question to a person as a confirm (MCP-15). It belongs to the call during which it was asked, and nothing
//! but a person can answer it: no rule fills in a form.

use aish_proto::id::ConfirmId;
use serde_json::{Value, json};

use super::access::Access;
use super::confirm::{Confirm, ConfirmKind, Decision, OnConfirm, Then};
use super::event::At;
use super::gate::{Attended, Go, spelled};
use super::mcp::form::{self, FormError};
use super::tool::Sha;

/// Questions of servers in one conversation that wait at the same time.
pub const MOST: usize = 8;

/// The reply of a call that was waiting for a person when the daemon ended: the server's question has died with it.
pub(crate) const UNKNOWN_WHILE_ASKING: &str = "[aish] interrupted: the daemon ended while the server waited for a person's answer; the effect of this call is unknown";

/// All that a judgement is made from.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The call that runs.
    pub call: &'a str,
    pub go: &'a Go,
    /// As the server sent it.
    pub params: &'a Value,
    /// Forms that wait already.
    pub open: usize,
    pub on_confirm: &'a OnConfirm,
    pub attended: Attended,
    pub cwd: &'a str,
    pub now: At,
    /// Names the next confirm.
    pub next: (ConfirmId, u32),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Judged {
    Ask(Box<Confirm>),
    /// Nobody is asked; people are told so.
    Decline(String),
    /// It cannot be shown.
    Refuse(FormError),
}

/// Whether a person is asked.
#[must_use]
pub fn judge(asked: Asked<'_>) -> Judged {
    let tool = &asked.go.tool;
    let alias = tool.name.alias();
    if let Err(error) = form::read(alias.as_str(), asked.params) {
        return Judged::Refuse(error);
    }
    let declined = |why: &str| {
        let text = format!(
            "mcp {alias} asked for input during {}: declined, {why}",
            tool.name
        );
        Judged::Decline(text)
    };
    if let Some(why) = unasked(asked.on_confirm, asked.attended, asked.open) {
        return declined(why);
    }
    let timeout = asked.on_confirm.timeout_ms;
    let (id, number) = asked.next;
    Judged::Ask(Box::new(Confirm {
        id,
        number,
        kind: ConfirmKind::Elicitation,
        title: format!("{alias} asks for input"),
        call: asked.call.to_owned(),
        tool: tool.name.clone(),
        arguments: spelled(&asked.go.arguments),
        cwd: asked.cwd.to_owned(),
        server: tool.place.to_string(),
        digest: Sha::of_value(&json!({
            "elicitation": asked.params,
            "server": &*tool.server,
            "call": asked.call,
        })),
        definition: Value::Null,
        definition_digest: tool.definition_digest(),
        approved_definition: None,
        needs: Access::Read,
        raise_to: None,
        why: format!("{alias} wants to know this before {} can go on", tool.name),
        why_told: None,
        elicitation: Some(asked.params.clone()),
        sampling: None,
        options: vec![Decision::AllowOnce, Decision::Deny, Decision::Abort],
        expires_at: timeout.map(|it| At(asked.now.0.saturating_add_unsigned(it))),
    }))
}

/// Why nobody is asked what a server wants while its call runs, if nobody is; `open` of its kind wait already.
pub(crate) fn unasked(
    on_confirm: &OnConfirm,
    attended: Attended,
    open: usize,
) -> Option<&'static str> {
    match (on_confirm.then, attended) {
        (Then::Ask, _) | (Then::AskAttended, Attended::ByPerson) => {}
        (Then::AskAttended, Attended::ByNobody) => {
            return Some("nobody is attached who could answer");
        }
        (Then::Deny, _) => return Some("for --confirm=deny"),
    }
    (open >= MOST).then_some("too much is asked at once")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::core::gate::Pace;
    use crate::core::tool::tests::tool;

    fn judged(then: Then, attended: Attended, open: usize, params: &Value) -> Judged {
        let go = Go {
            tool: Arc::new(tool("t__x", Access::Write)),
            arguments: serde_json::Map::new(),
            digest: Sha([0; 32]),
            rule: String::new(),
            pace: Pace::Alone,
        };
        judge(Asked {
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
            now: At(10),
            next: (ConfirmId::from_bytes([1; 16]), 7),
        })
    }

    fn check(then: Then, attended: Attended, open: usize, expected: &str) {
        let params = json!({"message": "who?", "requestedSchema": {"properties": {}}});
        let said = match judged(then, attended, open, &params) {
            Judged::Ask(confirm) => {
                format!("asks c{} until {:?}", confirm.number, confirm.expires_at)
            }
            Judged::Decline(why) => why,
            Judged::Refuse(why) => why.to_string(),
        };
        assert_eq!(expected, said);
    }

    /// AUT-7, R6: as for every confirm.
    #[test]
    fn a_form_is_shown_where_somebody_can_fill_it_in() {
        use Attended::{ByNobody, ByPerson};
        let asks = "asks c7 until Some(At(15))";
        check(Then::Ask, ByNobody, 0, asks);
        check(Then::AskAttended, ByPerson, MOST - 1, asks);
        let declined = |why| format!("mcp t asked for input during t__x: declined, {why}");
        check(
            Then::AskAttended,
            ByNobody,
            0,
            &declined("nobody is attached who could answer"),
        );
        check(Then::Deny, ByPerson, 0, &declined("for --confirm=deny"));
        check(
            Then::Ask,
            ByPerson,
            MOST,
            &declined("too much is asked at once"),
        );
    }

    /// R3.
    #[test]
    fn the_digest_is_of_what_is_asked() {
        let digest = |params: Value| match judged(Then::Ask, Attended::ByPerson, 0, &params) {
            Judged::Ask(confirm) => confirm.digest,
            other @ (Judged::Decline(_) | Judged::Refuse(_)) => panic!("{other:?}"),
        };
        let asked = json!({"message": "who?"});
        assert_eq!(digest(asked.clone()), digest(asked.clone()));
        assert_ne!(digest(asked), digest(json!({"message": "who? "})));
    }
}
