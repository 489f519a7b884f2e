//! What stands before a question: where it is asked, and what is done where a person would have to be asked.

use std::time::Duration;

use aish_proto::conversation::CreateParams;
use aish_proto::id::ConversationId;
use aish_proto::turn::{OnConfirm, Then};
use ulid::Ulid;

use crate::args::{AskArgs, Global};
use crate::connect::Caller;
use crate::failure::Failure;
use crate::hello::Reach;
use crate::resolve;
use crate::surroundings::Surroundings;

/// How long a confirm of this question waits, unless it is said.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Where a question belongs.
pub(crate) struct Place {
    pub(crate) id: ConversationId,
    /// It is made with the question.
    pub(crate) new: Option<CreateParams>,
}

/// The conversation that was named, or a new one.
pub(crate) async fn place(
    reach: &Reach,
    global: &Global,
    caller: &Caller,
    args: &AskArgs,
) -> Result<Place, Failure> {
    let known = |id| Place { id, new: None };
    if args.last {
        return Ok(known(resolve::last(caller).await?.id));
    }
    match named(reach, global) {
        Some(name) => Ok(known(resolve::named(caller, name).await?.id)),
        None => Ok(new(reach)),
    }
}

/// A new conversation, where none is named: the daemon need not be asked first.
pub(crate) fn place_unasked(reach: &Reach, global: &Global, args: &AskArgs) -> Option<Place> {
    let is_new = !args.last && named(reach, global).is_none();
    is_new.then(|| new(reach))
}

fn named<'a>(reach: &'a Reach, global: &'a Global) -> Option<&'a str> {
    let named = global.conversation.as_deref();
    named.or_else(|| reach.around.variable("AISH_CONVERSATION"))
}

fn new(reach: &Reach) -> Place {
    let new = CreateParams {
        title: None,
        model: None,
        cwd: reach.around.cwd_text(),
        constraints: None,
        budget: None,
    };
    Place {
        id: ConversationId(Ulid::new()),
        new: Some(new),
    }
}

/// A person at this terminal can be asked: at our streams, or where one of them is something else, past them.
pub(crate) fn may_prompt(around: &Surroundings, global: &Global) -> bool {
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
            () if said("deny") => Then::Deny,
            () if said("ask") || may_prompt => Then::Ask,
            () => Then::AskAttended,
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
            let around = Surroundings {
                stdin_terminal: stdin,
                stderr_terminal: stderr,
                own_terminal: own,
                ..Surroundings::default()
            };
            let global = Global {
                no_input,
                ..Global::default()
            };
            assert_eq!(
                expected,
                may_prompt(&around, &global),
                "{stdin} {stderr} {own} {no_input}"
            );
        }
    }
}
