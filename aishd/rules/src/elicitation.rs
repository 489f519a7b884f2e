//! A server's question to a person: a form that nobody but a person fills in.

use aishd_log::confirm::{ConfirmSubject, FormSubject};
use aishd_mcp_messages::form::{self, FormError};
use serde_json::json;

use crate::server_request::{ServerRequest, ServerRequestJudgement, ServerWish};

/// Whether a person is asked.
pub fn judge(request: ServerRequest<'_>) -> ServerRequestJudgement<FormError> {
    const WHAT: &str = "input";
    let tool = &request.go.tool.name;
    let alias = tool.alias();
    if let Err(error) = form::read(alias.as_str(), request.params) {
        return ServerRequestJudgement::Refuse(error);
    }
    if let Some(why) = request.unasked() {
        return request.declined(WHAT, why);
    }
    let subject = ConfirmSubject::Form(FormSubject {
        call: request.running_call(),
        params: request.params.clone(),
    });
    let wish = ServerWish {
        what: WHAT,
        why: format!("{alias} wants to know this before {tool} can go on"),
        bound: json!({"elicitation": request.params}),
    };
    request.confirm(wish, subject)
}

#[cfg(test)]
mod tests {
    use aishd_log::confirm::Then;
    use serde_json::Value;

    use super::*;
    use crate::asking::Presence;
    use crate::server_request::{MOST, tests};

    fn judged(
        then: Then,
        attended: Presence,
        open: usize,
        params: &Value,
    ) -> ServerRequestJudgement<FormError> {
        tests::judged((then, attended, open), params, judge)
    }

    fn check(then: Then, attended: Presence, open: usize, expected: &str) {
        let params = json!({"message": "who?", "requestedSchema": {"properties": {}}});
        let said = match judged(then, attended, open, &params) {
            ServerRequestJudgement::Ask(confirm) => {
                format!("asks c{} until {:?}", confirm.number, confirm.expires_at)
            }
            ServerRequestJudgement::Decline(why) => why,
            ServerRequestJudgement::Refuse(why) => why.to_string(),
        };
        assert_eq!(expected, said);
    }

    /// As for every confirm.
    #[test]
    fn a_form_is_shown_where_somebody_can_fill_it_in() {
        use Presence::{Attended, Unattended};
        let asks = "asks c7 until Some(Timestamp(15))";
        check(Then::Ask, Unattended, 0, asks);
        check(Then::AskAttended, Attended, MOST - 1, asks);
        let declined = |why| format!("mcp t asked for input during t__x: declined, {why}");
        check(
            Then::AskAttended,
            Unattended,
            0,
            &declined("nobody is attached who could allow it"),
        );
        check(Then::Deny, Attended, 0, &declined("--confirm=deny"));
        check(
            Then::Ask,
            Attended,
            MOST,
            &declined("too much is asked at once"),
        );
    }

    #[test]
    fn the_digest_is_of_what_is_asked() {
        let digest = |params: Value| match judged(Then::Ask, Presence::Attended, 0, &params) {
            ServerRequestJudgement::Ask(confirm) => confirm.digest,
            other @ (ServerRequestJudgement::Decline(_) | ServerRequestJudgement::Refuse(_)) => {
                panic!("{other:?}")
            }
        };
        let asked = json!({"message": "who?"});
        assert_eq!(digest(asked.clone()), digest(asked.clone()));
        assert_ne!(digest(asked), digest(json!({"message": "who? "})));
    }
}
