//! What a person makes of the arguments of a question, before it runs: judged as what it is, and not as what stood there
//! before.

use aishd_log::confirm::{Confirm, Decision};
use aishd_log::shell::{BACKGROUND, CommandProposal};
use aishd_log::tool_call::ToolCall;
use aishd_rules::gate::{CallJudgement, spelled};
use aishd_turn::turn::command_of;
use serde_json::{Map, Value};

use crate::actor::Conversation;
use crate::actor::confirm_answer::call_of;
use crate::commands::proposed_command::check;
use crate::request_error::RequestError;
use crate::requests::ArgumentEdit;

/// Longer arguments are no call.
const MAX_EDITED_BYTES: usize = 256 << 10;

impl Conversation {
    pub(crate) fn edited(&self, editing: &ArgumentEdit) -> Result<Confirm, RequestError> {
        let asking = self.turn.as_ref().and_then(|it| it.machine.asking());
        let Some(open) = asking.filter(|it| it.id == editing.confirm) else {
            return Err(bad("no call or command waits for that answer"));
        };
        if !open.options.contains(&Decision::Edit) {
            return Err(bad("this confirm does not take that answer"));
        }
        let arguments = arguments(&editing.arguments)?;
        let judged = match (open.command(), call_of(open)) {
            (Some(asked), _) => {
                let background = asked.asked.background;
                check_background(&arguments, background)?;
                let proposed = CommandProposal {
                    call: asked.call.id.clone(),
                    command: command(&arguments)?,
                    background,
                };
                self.with_command_gate(|gate| gate.edited(&proposed))
            }
            (None, Some(call)) => {
                let call = ToolCall { arguments, ..call };
                self.with_gate(|gate| gate.edited(&call))
            }
            (None, None) => return Err(bad("this confirm has no arguments")),
        };
        match self.with_approved_definition(judged) {
            CallJudgement::Ask(confirm) => Ok(Confirm {
                id: open.id,
                number: open.number,
                options: vec![Decision::Edit, Decision::Deny, Decision::Abort],
                expires_at: open.expires_at,
                ..*confirm
            }),
            CallJudgement::Refuse { content, .. } => {
                let why = content.strip_prefix("[aish] ").unwrap_or(&content);
                Err(bad(&format!("it would not run: {why}")))
            }
            CallJudgement::Run(_) | CallJudgement::Execute(_) | CallJudgement::Later => {
                Err(bad("it cannot be asked about now"))
            }
        }
    }
}

/// The bytes of arguments that somebody wrote.
pub(crate) fn arguments(written: &Map<String, Value>) -> Result<String, RequestError> {
    let text = spelled(written);
    if text.len() > MAX_EDITED_BYTES {
        return Err(bad("arguments are at most 256 KiB"));
    }
    Ok(text)
}

/// The command that somebody wrote.
pub(crate) fn command(arguments: &str) -> Result<String, RequestError> {
    let command =
        command_of(arguments).ok_or_else(|| bad("a command is edited as {\"command\": \"…\"}"))?;
    check(&command).map_err(bad)?;
    Ok(command)
}

/// Whether a command goes on in the background is no part of what is edited. Who leaves it out says that it does not.
pub(crate) fn check_background(arguments: &str, asked: bool) -> Result<(), RequestError> {
    let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
    let wanted = arguments.get(BACKGROUND).unwrap_or(&Value::Bool(false));
    if *wanted != Value::Bool(asked) {
        let why = "`background` cannot be edited: say no, and tell the model what you want";
        return Err(bad(why));
    }
    Ok(())
}

fn bad(why: &str) -> RequestError {
    RequestError::BadAnswer(why.to_owned())
}
