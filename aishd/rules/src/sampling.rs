//! A server's request for an answer of a model. A person's yes is for one request, of this model.

use aishd_log::confirm::{ConfirmSubject, ForModel, ModelSubject};
use aishd_model::preset::Preset;
use serde_json::json;

use crate::sampling_request::{SamplingError, limited, read};
use crate::server_request::{ServerRequest, ServerRequestJudgement, ServerWish};

/// Whether a person is asked. `preset` is the one that answers in this turn, if one does.
pub fn judge(
    request: ServerRequest<'_>,
    preset: Option<&Preset>,
) -> ServerRequestJudgement<SamplingError> {
    const WHAT: &str = "a model";
    let tool = &request.go.tool.name;
    let alias = tool.alias();
    let Some(preset) = preset else {
        return request.declined(WHAT, "no model answers in this turn");
    };
    let names = (preset.name.as_str(), preset.model.as_str());
    let asked = match read(alias.as_str(), request.params, names) {
        Ok(asked) => limited(asked, preset),
        Err(error) => return ServerRequestJudgement::Refuse(error),
    };
    if let Some(why) = request.unasked() {
        return request.declined(WHAT, why);
    }
    let subject = ConfirmSubject::Model(ModelSubject {
        call: request.running_call(),
        asked: ForModel {
            params: request.params.clone(),
            preset: preset.name.clone(),
            model: preset.model.clone(),
            max_tokens: asked.max_tokens,
        },
    });
    let wish = ServerWish {
        what: WHAT,
        why: format!(
            "{alias} wants an answer of {} ({}) before {tool} can go on",
            preset.name, preset.model
        ),
        bound: json!({
            "sampling": request.params,
            "preset": preset.name,
            "model": preset.model,
            "max_tokens": asked.max_tokens,
        }),
    };
    request.confirm(wish, subject)
}

#[cfg(test)]
mod tests {
    use aishd_log::confirm::Then;
    use serde_json::Value;

    use super::*;
    use crate::asking::Presence;
    use crate::sampling_request::read_bounded;
    use crate::server_request::{MOST, tests};

    struct Case {
        then: Then,
        attended: Presence,
        open: usize,
        preset: Option<Preset>,
        params: Value,
    }

    fn case() -> Case {
        let content = json!({"type": "text", "text": "hi"});
        Case {
            then: Then::Ask,
            attended: Presence::Attended,
            open: 0,
            preset: Some(Preset::demo()),
            params: json!({"messages": [{"role": "user", "content": content}], "maxTokens": 100}),
        }
    }

    fn judged(case: &Case) -> ServerRequestJudgement<SamplingError> {
        let asker = (case.then, case.attended, case.open);
        tests::judged(asker, &case.params, |request| {
            judge(request, case.preset.as_ref())
        })
    }

    #[track_caller]
    fn check(case: &Case, expected: &str) {
        let said = match judged(case) {
            ServerRequestJudgement::Ask(confirm) => {
                let ConfirmSubject::Model(subject) = &confirm.subject else {
                    panic!("{confirm:?}");
                };
                let asked = read_bounded("t", &subject.asked).unwrap();
                let limit = asked.max_tokens;
                format!("asks c{}: {}, at most {limit}", confirm.number, confirm.why)
            }
            ServerRequestJudgement::Decline(why) => why,
            ServerRequestJudgement::Refuse(why) => why.to_string(),
        };
        assert_eq!(expected, said);
    }

    /// As for every confirm.
    #[test]
    fn a_person_is_asked_for_each_and_for_a_few() {
        let asks = "asks c7: t wants an answer of demo (demo) before t__x can go on, at most 100";
        check(&case(), asks);
        let last = Case {
            open: MOST - 1,
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
            attended: Presence::Unattended,
            ..case()
        };
        check(&nobody, &declined("nobody is attached who could allow it"));
        let denied = Case {
            then: Then::Deny,
            ..case()
        };
        check(&denied, &declined("--confirm=deny"));
        let full = Case {
            open: MOST,
            ..case()
        };
        check(&full, &declined("too much is asked at once"));
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

    #[test]
    fn the_digest_is_of_what_is_asked_and_of_whom() {
        let digest = |case: &Case| match judged(case) {
            ServerRequestJudgement::Ask(confirm) => confirm.digest,
            other @ (ServerRequestJudgement::Decline(_) | ServerRequestJudgement::Refuse(_)) => {
                panic!("{other:?}")
            }
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
