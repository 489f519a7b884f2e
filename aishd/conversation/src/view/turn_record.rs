//! The record of one turn, gathered from the log.

use std::sync::Arc;

use aish_proto::id::{Seq, TurnId};
use aishd_log::event::{Event, Record, StopReason};
use aishd_log::routed::RoutingDecision;
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use aishd_log::turn_error::TurnError;
use aishd_log::usage::Usage;
use aishd_store::ReadError;

use crate::handle::ConversationHandle;

/// How much of the log is looked at in one go.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordProgress {
    Queued,
    Running,
    Finished,
}

/// What a client may want to know of a turn.
#[derive(Clone, Debug)]
pub struct TurnReport {
    pub turn: TurnId,
    pub progress: RecordProgress,
    pub message_seq: Seq,
    pub stop: Option<StopReason>,
    pub text: String,
    pub model: Option<String>,
    /// How it came to that, where questions are routed.
    pub routed: Option<RoutingDecision>,
    /// The preset that a request of it fell back to.
    pub fell_back: Option<String>,
    pub usage: Option<Usage>,
    pub error: Option<TurnError>,
    pub merged_into: Option<TurnId>,
    pub finished_at: Option<Timestamp>,
    /// Calls that did not run because somebody or something said no, or nobody could say yes.
    pub denied: u32,
}

/// Reads the turn's records from its question to its end, or to the head as of `state`.
pub(crate) fn report(
    handle: &ConversationHandle,
    turn: TurnId,
    message_seq: Seq,
    state: &ConversationState,
) -> Result<TurnReport, ReadError> {
    let mut report = TurnReport {
        turn,
        progress: progress(turn, state),
        message_seq,
        stop: None,
        text: String::new(),
        model: None,
        routed: None,
        fell_back: None,
        usage: None,
        error: None,
        merged_into: None,
        finished_at: None,
        denied: 0,
    };
    for record in handle.records(message_seq) {
        let record = record?;
        if record.turn != Some(turn) {
            continue;
        }
        match &record.event {
            Event::TurnStarted { model, source, .. } => {
                report.model = source.is_a_model().then(|| model.clone());
            }
            Event::RouteDecided(routed) => report.routed = Some(routed.clone()),
            Event::FellBack { to, .. } => report.fell_back = Some(to.clone()),
            Event::AssistantMessage { text, .. } => text.as_ref().clone_into(&mut report.text),
            Event::ToolResult { denial, .. } | Event::ShellFinished { denial, .. } => {
                report.denied += u32::from(denial.is_some());
            }
            Event::TurnFinished {
                stop,
                text,
                usage,
                error,
                merged_into,
            } => {
                report.stop = Some(*stop);
                text.as_ref().clone_into(&mut report.text);
                report.usage = *usage;
                report.error.clone_from(error);
                report.merged_into = *merged_into;
                report.finished_at = Some(record.at);
                return Ok(report);
            }
            _ => {}
        }
    }
    Ok(report)
}

fn progress(turn: TurnId, state: &ConversationState) -> RecordProgress {
    if state.running.as_ref().is_some_and(|it| it.turn == turn) {
        RecordProgress::Running
    } else if state.queue.iter().any(|it| it.turn == turn) {
        RecordProgress::Queued
    } else {
        RecordProgress::Finished
    }
}

/// The first reply of a call in a turn whose question stands at `message_seq`.
pub(crate) fn first_result(
    handle: &ConversationHandle,
    turn: TurnId,
    message_seq: Seq,
) -> Result<Option<Arc<Record>>, ReadError> {
    let is_first = |it: &Record| {
        it.turn == Some(turn)
            && matches!(
                it.event,
                Event::ToolResult { .. } | Event::TurnFinished { .. }
            )
    };
    handle
        .records(message_seq)
        .find(|it| it.as_ref().map_or(true, |it| is_first(it)))
        .transpose()
}
