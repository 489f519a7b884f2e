//! What stands before a question: where it is asked, and what is done where a person would have to be asked.

use std::time::Duration;

use aish_proto::conversation::ConversationCreateParams;
use aish_proto::id::ConversationId;
use aish_proto::turn::{OnConfirm, UnattendedAction};
use ulid::Ulid;

use crate::ask_args::AskArgs;
use crate::client::connect::Caller;
use crate::client::conversation_choice;
use crate::client::daemon_link::DaemonReach;
use crate::environment::ClientEnvironment;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;

/// How long a confirm of this question waits, unless it is said.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Where a question belongs.
pub(crate) struct AskTarget {
    pub(crate) id: ConversationId,
    /// It is made with the question.
    pub(crate) new: Option<ConversationCreateParams>,
}

/// The conversation that was named, or a new one.
pub(crate) async fn place(
    reach: &DaemonReach,
    global: &GlobalArgs,
    caller: &Caller,
    args: &AskArgs,
) -> Result<AskTarget, Failure> {
    let known = |id| AskTarget { id, new: None };
    if args.last {
        return Ok(known(conversation_choice::last(caller).await?.id));
    }
    match named_conversation(reach, global).filter(|_| !args.temp) {
        Some(name) => Ok(known(conversation_choice::by_name(caller, name).await?.id)),
        None => Ok(new(reach, args)),
    }
}

/// A new conversation, where none is named: the daemon need not be asked first.
pub(crate) fn place_unasked(
    reach: &DaemonReach,
    global: &GlobalArgs,
    args: &AskArgs,
) -> Option<AskTarget> {
    let is_new = !args.last && (args.temp || named_conversation(reach, global).is_none());
    is_new.then(|| new(reach, args))
}

fn named_conversation<'a>(reach: &'a DaemonReach, global: &'a GlobalArgs) -> Option<&'a str> {
    let named = global.conversation.as_deref();
    named.or_else(|| reach.around.variable("AISH_CONVERSATION"))
}

fn new(reach: &DaemonReach, args: &AskArgs) -> AskTarget {
    let new = ConversationCreateParams {
        title: None,
        model: None,
        cwd: reach.around.cwd_text(),
        constraints: None,
        budget: None,
        temporary: args.temp,
    };
    AskTarget {
        id: ConversationId(Ulid::new()),
        new: Some(new),
    }
}

/// A person at this terminal can be asked: at our streams, or where one of them is something else, past them.
pub(crate) fn may_prompt(around: &ClientEnvironment, global: &GlobalArgs) -> bool {
    let streams = around.stdin_terminal && around.stderr_terminal;
    (streams || around.own_terminal) && !global.no_input
}

/// What is done where a person would have to be asked: without a word of the asker's, a terminal of our own
/// can answer, or one that is attached; else nobody can.
pub(crate) fn on_confirm(args: &AskArgs, may_prompt: bool) -> OnConfirm {
    let said = |word: &str| args.confirm.iter().any(|it| it == word);
    let allow = args
        .confirm
        .iter()
        .filter_map(|it| it.strip_prefix("allow:"));
    OnConfirm {
        then: match () {
            () if said("deny") => UnattendedAction::Deny,
            // Who would read commands would have none of them run.
            () if args.cmd && args.confirm.is_empty() => UnattendedAction::Deny,
            () if said("ask") || may_prompt => UnattendedAction::Ask,
            () => UnattendedAction::AskAttended,
        },
        allow: allow.map(str::to_owned).collect(),
        timeout_ms: Some(millis(args.confirm_timeout.unwrap_or(CONFIRM_TIMEOUT))),
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Consent
    #[test]
    fn who_has_a_terminal_is_asked_wherever_its_streams_lead() {
        for (stdin, stderr, own, no_input, expected) in [
            (true, true, false, false, true),
            (false, true, true, false, true),
            (true, false, true, false, true),
            (false, true, false, false, false),
            (false, false, false, false, false),
            (true, true, true, true, false),
        ] {
            let around = ClientEnvironment {
                stdin_terminal: stdin,
                stderr_terminal: stderr,
                own_terminal: own,
                ..ClientEnvironment::default()
            };
            let global = GlobalArgs {
                no_input,
                ..GlobalArgs::default()
            };
            assert_eq!(
                expected,
                may_prompt(&around, &global),
                "{stdin} {stderr} {own} {no_input}"
            );
        }
    }
}
