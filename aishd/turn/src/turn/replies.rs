//! The replies of what a message wanted done: that it never ran, never said how it ended, or what a command came to.

use aish_proto::id::ResultId;
use aishd_log::block::{KeptBlock, KeptParts};
use aishd_log::command_result::CommandResult;
use aishd_log::confirm::{Confirm, Denial};
use aishd_log::event::{Event, ProviderLevel, RefusedCall, StopReason};
use aishd_log::kept_result::KeptResult;
use aishd_log::shell::{CommandProposal, OutputUse};
use aishd_log::tool_call::ToolCall;

use super::call_list_progress::edited_note;
use super::input::CallReturn;
use super::{OwedReplies, Step};

pub(super) fn why_refused(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Cancelled => "cancelled by the user",
        StopReason::Interrupted => "interrupted by a restart",
        StopReason::Denied => "the user ended the turn",
        StopReason::End
        | StopReason::ToolDepth
        | StopReason::MaxTokens
        | StopReason::Refusal
        | StopReason::Upstream
        | StopReason::Budget => "the turn ended first",
    }
}

/// The reply of a call that began and never said how it ended.
pub fn unknown_effect(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Interrupted => {
            "[aish] interrupted: the daemon ended while it ran; the effect of this call is unknown"
        }
        StopReason::Cancelled
        | StopReason::Denied
        | StopReason::End
        | StopReason::ToolDepth
        | StopReason::MaxTokens
        | StopReason::Refusal
        | StopReason::Upstream
        | StopReason::Budget => {
            "[aish] cancelled by the user while it ran; the effect of this call is unknown"
        }
    }
}

/// Why a call never began, and what was asked about it, if anything was.
pub(super) fn refused(asked: Option<&Confirm>, because: &str) -> Box<RefusedCall> {
    Box::new(RefusedCall {
        subject: asked.and_then(Confirm::decision_subject),
        because: because.to_owned(),
        imported: false,
    })
}

/// The reply of a call that has no result.
pub(super) fn reply(
    call: &ToolCall,
    denial: Option<Denial>,
    content: String,
    refused: Option<Box<RefusedCall>>,
) -> Event {
    Event::ToolResult {
        call: call.id.clone(),
        name: call.name.clone(),
        ok: false,
        content,
        denial,
        ms: None,
        kept: None,
        blocks: vec![],
        structured: None,
        refused,
    }
}

/// Every call gets exactly one reply, also when nothing will run any more.
pub fn refuse_calls(calls: &[ToolCall], stop: StopReason, step: &mut Step) {
    let why = why_refused(stop);
    let result = |call| {
        let never_began = Some(refused(None, why));
        reply(call, None, format!("[aish] {why}"), never_began)
    };
    step.events.extend(calls.iter().map(result));
}

/// The end of a command that ran, with what it changed and all that it printed.
pub fn finish(proposed: &CommandProposal, ended: CommandResult, given: OutputUse, step: &mut Step) {
    let CommandResult {
        ending,
        output,
        bytes,
        ms,
        kept,
        within: _,
        ran_in,
        moved,
        network,
        left: _,
    } = ended;
    step.events
        .extend(moved.map(|(from, cwd)| Event::CwdChanged { cwd, from }));
    let kept = kept.map(|it| it.store(&mut step.events));
    step.events.push(Event::ShellFinished {
        call: proposed.call.clone(),
        command: proposed.command.clone(),
        cwd: Some(ran_in),
        ending,
        output,
        bytes,
        ms: Some(ms),
        kept,
        denial: None,
        refused: None,
        given,
        network,
    });
}

/// As `refuse_calls`, where commands are proposed too. The model hears of those with the next question.
pub(super) fn refuse_all(owing: &[OwedReplies], stop: StopReason, step: &mut Step) {
    let why = why_refused(stop);
    let reply = |it: &OwedReplies| {
        let never_began = Some(refused(None, why));
        let given = OutputUse::WithNextQuestion;
        it.refused(None, format!("[aish] {why}"), never_began, given)
    };
    step.events.extend(owing.iter().map(reply));
}

/// The result of a call, behind what else came with it; `edited` are the arguments that a person chose for it.
pub(super) fn answered(
    called: ToolCall,
    edited: Option<&str>,
    returned: CallReturn,
    step: &mut Step,
) {
    let mut content = returned.content;
    let mut structured = returned.structured;
    if let Some(edited) = edited {
        structured = structured.and_then(|it| it.apart_from(&content));
        content.insert_str(0, &edited_note(edited));
    }
    let changed = returned.changed.into_iter().map(Box::new);
    step.events.extend(changed.map(Event::ResourceChanged));
    let todos = returned.todos.into_iter();
    step.events
        .extend(todos.map(|todos| Event::TodosChanged { todos }));
    if !returned.found.is_empty() {
        step.events.push(Event::ToolsChosen {
            added: returned.found,
            dropped: vec![],
        });
    }
    let blocks = keep_blocks(returned.blocks, &mut step.events);
    // The last, for what follows in a list takes the parts that stand before the result (`CallListProgress::note`).
    let kept = returned.kept.map(|(result, parts)| {
        let bytes = parts.iter().map(|it| it.len() as u64).sum();
        keep(result, parts, &mut step.events);
        KeptResult { result, bytes }
    });
    step.events
        .extend(returned.remark.map(|text| Event::Status {
            level: ProviderLevel::Info,
            text: text.to_owned(),
        }));
    step.events.extend(returned.notice.as_deref().map(told));
    step.events.push(Event::ToolResult {
        call: called.id,
        name: called.name,
        ok: returned.ok,
        content,
        denial: None,
        ms: Some(returned.ms),
        kept,
        blocks,
        structured,
        refused: None,
    });
}

/// What a model drew for an answer, behind it.
pub(super) fn made_pictures(item: u32, made: Vec<KeptParts>) -> Vec<Event> {
    let mut events = vec![];
    let blocks = keep_blocks(made, &mut events);
    if !blocks.is_empty() {
        events.push(Event::AnswerPictures { item, blocks });
    }
    events
}

/// The parts of blocks, in front of the event that names them.
fn keep_blocks(blocks: Vec<KeptParts>, events: &mut Vec<Event>) -> Vec<KeptBlock> {
    let blocks = blocks.into_iter().map(|(block, parts)| {
        keep(block.result, parts, events);
        block
    });
    blocks.collect()
}

fn keep(result: ResultId, parts: Vec<String>, events: &mut Vec<Event>) {
    let part = |text| Event::ResultKept { result, text };
    events.extend(parts.into_iter().map(part));
}

/// A line for people, who see our mark before it anyway.
pub(super) fn told(content: &str) -> Event {
    let text = content.strip_prefix("[aish] ").unwrap_or(content);
    Event::Status {
        level: ProviderLevel::Warning,
        text: text.to_owned(),
    }
}
