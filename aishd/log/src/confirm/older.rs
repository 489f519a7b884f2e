//! Questions as programs of protocol 1 stored them: in three forms, of which one had what is asked in fields of its own.

use aish_proto::id::ConfirmId;
use serde::Deserialize;
use serde_json::{Error, Value};

use super::level::LevelSubject;
use super::memory::MemorySubject;
use super::{
    AnsweringPerson, CallSubject, CommandSubject, Confirm, ConfirmCall, ConfirmSubject, Decision,
    ForModel, FormSubject, ModelSubject,
};
use crate::access::Access;
use crate::level_request::LevelStep;
use crate::memory::MemoryKind;
use crate::shell::CommandQuestion;
use crate::time::Timestamp;
use crate::tool::ContentDigest;
use crate::tool_name::ToolName;

#[derive(Deserialize)]
struct OlderConfirm {
    id: ConfirmId,
    number: u32,
    kind: OlderKind,
    title: String,
    call: String,
    tool: ToolName,
    arguments: String,
    cwd: String,
    server: String,
    digest: ContentDigest,
    definition: Value,
    definition_digest: ContentDigest,
    #[serde(default)]
    provider_digest: Option<ContentDigest>,
    #[serde(default)]
    approved_definition: Option<Value>,
    needs: Access,
    #[serde(default)]
    raise_to: Option<Access>,
    why: String,
    #[serde(default)]
    why_told: Option<String>,
    #[serde(default)]
    elicitation: Option<Value>,
    #[serde(default)]
    sampling: Option<ForModel>,
    #[serde(default)]
    shell: Option<CommandQuestion>,
    options: Vec<Decision>,
    #[serde(default)]
    expires_at: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OlderKind {
    Tool,
    /// Of a run, about a call or a command.
    Halt,
    Shell,
    Elicitation,
    Sampling,
}

#[derive(Deserialize)]
struct OlderLevelRequest {
    id: ConfirmId,
    number: u32,
    upgrade: LevelStep,
    #[serde(default)]
    wanted_for: Option<ToolName>,
    by: AnsweringPerson,
    #[serde(default)]
    expires_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct OlderMemoryProposal {
    id: ConfirmId,
    number: u32,
    kind: MemoryKind,
    text: String,
    preset: String,
}

/// The question that a stored value of the older layout is.
pub(super) fn read(stored: Value) -> Result<Confirm, Error> {
    if stored.get("call").is_some() {
        Ok(confirm(OlderConfirm::deserialize(stored)?))
    } else if stored.get("upgrade").is_some() {
        Ok(level(OlderLevelRequest::deserialize(stored)?))
    } else {
        Ok(memory(OlderMemoryProposal::deserialize(stored)?))
    }
}

fn confirm(older: OlderConfirm) -> Confirm {
    let call = ConfirmCall {
        id: older.call,
        tool: older.tool,
        arguments: older.arguments,
        cwd: older.cwd,
        server: older.server,
    };
    let mut options = older.options;
    let mut destructive = older.shell.as_ref().and_then(CommandQuestion::destructive);
    let is_call = older.shell.is_none() && older.elicitation.is_none() && older.sampling.is_none();
    // Its client looked for words itself; what it would have found is not known here.
    if is_call && older.needs == Access::Execute {
        destructive = Some("as far as an older program could tell".to_owned());
        options.retain(|it| !matches!(it, Decision::AllowConversation | Decision::AllowProvider));
    }
    let subject = match (older.shell, older.elicitation, older.sampling) {
        (Some(asked), _, _) => ConfirmSubject::Command(CommandSubject {
            call,
            needs: older.needs,
            asked,
        }),
        (None, Some(params), _) => ConfirmSubject::Form(FormSubject { call, params }),
        (None, None, Some(asked)) => ConfirmSubject::Model(ModelSubject { call, asked }),
        (None, None, None) => ConfirmSubject::Call(CallSubject {
            call,
            definition: older.definition,
            definition_digest: older.definition_digest,
            provider_digest: older.provider_digest,
            approved_definition: older.approved_definition,
            needs: older.needs,
            raise_to: older.raise_to,
        }),
    };
    Confirm {
        id: older.id,
        number: older.number,
        title: older.title,
        subject,
        why: older.why,
        why_told: older.why_told,
        destructive,
        halt: older.kind == OlderKind::Halt,
        digest: older.digest,
        options,
        expires_at: older.expires_at,
    }
}

fn level(older: OlderLevelRequest) -> Confirm {
    let subject = LevelSubject {
        step: older.upgrade,
        wanted_for: older.wanted_for,
        by: older.by,
    };
    subject.confirm((older.id, older.number), older.expires_at)
}

fn memory(older: OlderMemoryProposal) -> Confirm {
    let subject = MemorySubject {
        kind: older.kind,
        text: older.text,
        preset: older.preset,
    };
    subject.confirm((older.id, older.number))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn older(kind: &str, more: Value) -> Value {
        let mut stored = json!({
            "id": "01J00000000000000000000001", "number": 7, "kind": kind, "title": "t__x", "call": "call_1",
            "tool": "t__x", "arguments": "{}", "cwd": "/w", "server": "npx t", "digest": "ab".repeat(32),
            "definition": {"name": "t__x"}, "definition_digest": "cd".repeat(32), "needs": 2, "raise_to": 2,
            "why": "every call is asked about", "options": ["allow_once", "deny"],
        });
        let (Value::Object(all), Value::Object(more)) = (&mut stored, more) else {
            panic!("objects");
        };
        all.extend(more);
        stored
    }

    #[track_caller]
    fn read_as(stored: &Value) -> Confirm {
        serde_json::from_value(stored.clone()).unwrap()
    }

    /// What is asked is told by its own field, and of a run's halts by that of the command.
    #[test]
    fn each_kind_is_read_from_the_older_layout_and_written_in_ours() {
        let command =
            json!({"command": "rm -r x", "shell": "sh", "dangers": ["deletes recursively"]});
        let for_model = json!({"params": {}, "preset": "p", "model": "m", "max_tokens": 5});
        let by = json!({"client": "01J00000000000000000000002", "name": "aishctl"});
        let level = json!({
            "id": "01J00000000000000000000001", "number": 7, "by": by,
            "upgrade": {"provider": "t", "from": 1, "to": 2}, "expires_at": 9,
        });
        let memory = json!({
            "id": "01J00000000000000000000001", "number": 7, "kind": "fact", "text": "x", "preset": "fast",
        });
        for (stored, kind, halt, destructive) in [
            (older("tool", json!({})), "call", false, None),
            (older("halt", json!({})), "call", true, None),
            (
                older("shell", json!({"shell": command})),
                "command",
                false,
                Some("deletes recursively"),
            ),
            (
                older("halt", json!({"shell": command})),
                "command",
                true,
                Some("deletes recursively"),
            ),
            (
                older("elicitation", json!({"elicitation": {"message": "who?"}})),
                "form",
                false,
                None,
            ),
            (
                older("sampling", json!({"sampling": for_model})),
                "model",
                false,
                None,
            ),
            (level, "level", false, None),
            (memory, "memory", false, None),
        ] {
            let confirm = read_as(&stored);
            assert_eq!(
                (7, halt, destructive),
                (confirm.number, confirm.halt, confirm.destructive.as_deref())
            );
            let written = serde_json::to_value(&confirm).unwrap();
            assert!(written["subject"][kind].is_object(), "{written}");
            assert_eq!(confirm, read_as(&written));
        }
    }

    /// The client of protocol 1 took no single letter for what destroys, and looked for that itself.
    #[test]
    fn a_call_of_the_highest_level_is_no_easier_to_allow_than_it_was() {
        let more = json!({"needs": 3, "options": ["allow_once", "allow_conversation", "allow_provider", "deny"]});
        let confirm = read_as(&older("tool", more));
        assert!(confirm.destructive.is_some());
        assert_eq!(vec![Decision::AllowOnce, Decision::Deny], confirm.options);
    }

    #[test]
    fn what_is_no_question_is_refused() {
        for stored in [
            json!({}),
            json!(7),
            json!({"subject": {}}),
            older("other", json!({})),
        ] {
            assert!(serde_json::from_value::<Confirm>(stored).is_err());
        }
    }
}
