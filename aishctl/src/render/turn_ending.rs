//! What people are told at the end of a turn that is no answer, and what to do about it.

use aish_proto::event::TurnFinished;
use aish_proto::turn::{FailureClass, StopReason};

use crate::failure;

/// The lines, of which an ordinary end has none. `by` is who cancelled it, `preset` who was asked.
pub(crate) fn told(finished: &TurnFinished, by: Option<&str>, preset: Option<&str>) -> Vec<String> {
    let hint = finished.error.as_ref().and_then(|it| it.hint.as_ref());
    let server = preset.map_or_else(
        || "the model's server".to_owned(),
        |it| format!("the server of models.{it}"),
    );
    let why = match finished.stop_reason {
        _ if finished.merged_into.is_some() => return vec![],
        // Which budget it is was said before.
        StopReason::End | StopReason::Budget => return vec![],
        StopReason::Cancelled => match by {
            Some(by) => format!("cancelled by {by}"),
            None => "cancelled".to_owned(),
        },
        StopReason::Interrupted => "interrupted: aishd ended while this was being written; :continue goes on, :retry asks again".to_owned(),
        StopReason::MaxTokens => "cut at the model's limit of tokens; :continue goes on".to_owned(),
        StopReason::ToolDepth => "tool-call depth limit reached".to_owned(),
        StopReason::Refusal => "the model refused".to_owned(),
        StopReason::Denied => "an action was not permitted".to_owned(),
        StopReason::NoApprover => "an action needed approval and nobody was there".to_owned(),
        StopReason::Upstream => match hint {
            Some(_) => format!("{server} failed"),
            None => format!("{server} failed; :retry asks again"),
        },
    };
    let detail = finished.error.as_ref().map(failure::of_turn);
    let (why, detail) = match (&finished.error, detail) {
        // There was no request: a server's own words begin otherwise.
        (Some(error), Some(detail)) if error.class == FailureClass::ContextOverflow => {
            match detail.strip_prefix("broker: ") {
                Some(room) => ("the model was not asked".to_owned(), Some(room.to_owned())),
                None => (why, Some(detail)),
            }
        }
        (_, detail) => (why, detail),
    };
    let detail = detail.map_or_else(String::new, |it| format!(": {it}"));
    let class = finished.error.as_ref().map(|it| it.class);
    let hint = match (hint, class, preset) {
        (Some(hint), _, _) => Some(format!("hint: {hint}")),
        (None, Some(FailureClass::Unreachable), Some(preset)) if !answers(finished) => {
            Some(format!(
                "hint: start the server of models.{preset}, or ask another preset with :model NAME; aishctl doctor looks at all of them"
            ))
        }
        (None, _, _) => None,
    };
    std::iter::once(why + &detail).chain(hint).collect()
}

/// There is a server, and it has an error of its own.
fn answers(finished: &TurnFinished) -> bool {
    let error = finished.error.as_ref();
    error.is_some_and(failure::is_of_server)
}
