//! A server's request for a model as a confirm (MCP-15). It belongs to the call during which it was asked, and nothing but
//! a person can allow it: no rule does, and a yes is for one request.

use aish_proto::id::ConfirmId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::access::Access;
use super::confirm::{Confirm, ConfirmKind, Decision, OnConfirm};
use super::elicitation::unasked;
use super::event::At;
use super::gate::{Attended, Go, spelled};
use super::mcp::sampling::{Sampling, SamplingError, limited, read};
use super::preset::Preset;
use super::tool::Sha;

/// Of one call. A server that wants more makes its user answer questions without end.
pub const MOST_OF_A_CALL: u32 = 4;

/// What is asked, and of whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForModel {
    /// As the server sent it.
    #[serde(rename = "params")]
    pub params: Value,
    #[serde(rename = "preset")]
    pub preset: String,
    #[serde(rename = "model")]
    pub model: String,
    /// The longest answer.
    #[serde(rename = "max_tokens")]
    pub max_tokens: u64,
}

impl ForModel {
    /// What a person is shown and the model is asked.
    pub fn read(&self, alias: &str) -> Result<Sampling, SamplingError> {
        let mut asked = read(alias, &self.params, (&self.preset, &self.model))?;
        asked.max_tokens = asked.max_tokens.min(self.max_tokens);
        Ok(asked)
    }
}

/// All that a judgement is made from.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The call that runs.
    pub call: &'a str,
    pub go: &'a Go,
    /// As the server sent it.
    pub params: &'a Value,
    /// The one that answers in this turn, if one does.
    pub preset: Option<&'a Preset>,
    /// Requests that this call has made before.
    pub before: u32,
    /// Questions of servers that wait already.
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
    /// It cannot be asked.
    Refuse(SamplingError),
}

/// Whether a person is asked.
#[must_use]
pub fn judge(asked: Asked<'_>) -> Judged {
    let tool = &asked.go.tool;
    let alias = tool.name.alias();
    let declined = |why: &str| {
        let text = format!(
            "mcp {alias} asked for a model during {}: declined, {why}",
            tool.name
        );
        Judged::Decline(text)
    };
    let Some(preset) = asked.preset else {
        return declined("no model answers in this turn");
    };
    let read = match read(alias.as_str(), asked.params, (&preset.name, &preset.model)) {
        Ok(read) => limited(read, preset),
        Err(error) => return Judged::Refuse(error),
    };
    if let Some(why) = unasked(asked.on_confirm, asked.attended, asked.open) {
        return declined(why);
    }
    if asked.before >= MOST_OF_A_CALL {
        return declined("one call gets no more of them");
    }
    let timeout = asked.on_confirm.timeout_ms;
    let (id, number) = asked.next;
    Judged::Ask(Box::new(Confirm {
        id,
        number,
        kind: ConfirmKind::Sampling,
        title: format!("{alias} asks for a model"),
        call: asked.call.to_owned(),
        tool: tool.name.clone(),
        arguments: spelled(&asked.go.arguments),
        cwd: asked.cwd.to_owned(),
        server: tool.place.to_string(),
        digest: Sha::of_value(&json!({
            "sampling": asked.params,
            "preset": preset.name,
            "model": preset.model,
            "max_tokens": read.max_tokens,
            "server": &*tool.server,
            "call": asked.call,
        })),
        definition: Value::Null,
        definition_digest: tool.definition_digest(),
        approved_definition: None,
        needs: Access::Read,
        raise_to: None,
        why: format!(
            "{alias} wants an answer of {} ({}) before {} can go on",
            preset.name, preset.model, tool.name
        ),
        why_told: None,
        elicitation: None,
        sampling: Some(ForModel {
            params: asked.params.clone(),
            preset: preset.name.clone(),
            model: preset.model.clone(),
            max_tokens: read.max_tokens,
        }),
        options: vec![Decision::AllowOnce, Decision::Deny, Decision::Abort],
        expires_at: timeout.map(|it| At(asked.now.0.saturating_add_unsigned(it))),
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::core::confirm::Then;
    use crate::core::elicitation::MOST;
    use crate::core::gate::Pace;
    use crate::core::tool::tests::tool;

    struct Case {
        then: Then,
        attended: Attended,
        open: usize,
        before: u32,
        preset: Option<Preset>,
        params: Value,
    }

    fn case() -> Case {
        let content = json!({"type": "text", "text": "hi"});
        Case {
            then: Then::Ask,
            attended: Attended::ByPerson,
            open: 0,
            before: 0,
            preset: Some(Preset::demo()),
            params: json!({"messages": [{"role": "user", "content": content}], "maxTokens": 100}),
        }
    }

    fn judged(case: &Case) -> Judged {
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
            params: &case.params,
            preset: case.preset.as_ref(),
            before: case.before,
            open: case.open,
            on_confirm: &OnConfirm {
                then: case.then,
                timeout_ms: Some(5),
                ..OnConfirm::default()
            },
            attended: case.attended,
            cwd: "/w",
            now: At(10),
            next: (ConfirmId::from_bytes([1; 16]), 7),
        })
    }

    #[track_caller]
    fn check(case: &Case, expected: &str) {
        let said = match judged(case) {
            Judged::Ask(confirm) => {
                let asked = confirm.sampling.as_ref().unwrap().read("t").unwrap();
                let limit = asked.max_tokens;
                format!("asks c{}: {}, at most {limit}", confirm.number, confirm.why)
            }
            Judged::Decline(why) => why,
            Judged::Refuse(why) => why.to_string(),
        };
        assert_eq!(expected, said);
    }

    /// AUT-7, R6: as for every confirm.
    #[test]
    fn a_person_is_asked_for_each_and_for_a_few() {
        let asks = "asks c7: t wants an answer of demo (demo) before t__x can go on, at most 100";
        check(&case(), asks);
        let last = Case {
            open: MOST - 1,
            before: MOST_OF_A_CALL - 1,
            then: Then::AskAttended,
            ..case()
        };
        check(&last, asks);
        let brief = Case {
            preset: Some(Preset {
                max_tokens: Some(9),
                ..Preset::demo()
            }),
            ..case()
        };
        check(&brief, &asks.replace("100", "9"));
        let declined = |why| format!("mcp t asked for a model during t__x: declined, {why}");
        let nobody = Case {
            then: Then::AskAttended,
            attended: Attended::ByNobody,
            ..case()
        };
        check(&nobody, &declined("nobody is attached who could answer"));
        let denied = Case {
            then: Then::Deny,
            ..case()
        };
        check(&denied, &declined("for --confirm=deny"));
        let full = Case {
            open: MOST,
            ..case()
        };
        check(&full, &declined("too much is asked at once"));
        let fifth = Case {
            before: MOST_OF_A_CALL,
            ..case()
        };
        check(&fifth, &declined("one call gets no more of them"));
        let list = Case {
            preset: None,
            ..case()
        };
        check(&list, &declined("no model answers in this turn"));
        let image = json!([{"role": "user", "content": {"type": "image"}}]);
        let image = Case {
            params: json!({"messages": image, "maxTokens": 1}),
            ..case()
        };
        check(
            &image,
            "messages[0]: content of the type \"image\" is not taken, only text",
        );
    }

    /// R3.
    #[test]
    fn the_digest_is_of_what_is_asked_and_of_whom() {
        let digest = |case: &Case| match judged(case) {
            Judged::Ask(confirm) => confirm.digest,
            other @ (Judged::Decline(_) | Judged::Refuse(_)) => panic!("{other:?}"),
        };
        assert_eq!(digest(&case()), digest(&case()));
        let mut other = case();
        other.params["maxTokens"] = json!(99);
        assert_ne!(digest(&case()), digest(&other));
        let other = Case {
            preset: Some(Preset {
                model: "other".to_owned(),
                ..Preset::demo()
            }),
            ..case()
        };
        assert_ne!(digest(&case()), digest(&other));
    }
}
