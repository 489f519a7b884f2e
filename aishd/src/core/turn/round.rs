//! The calls of one message of the model, from the first judgement to the last reply. They run one after
//! another, in the model's order; only those that need no consent and only read run side by side (MCP-13).
//!
//! Every call gets exactly one reply, whatever happens (R15).

use std::collections::{HashMap, VecDeque};

use aish_proto::id::ConfirmId;

use super::input::{Answer, Returned};
use super::{Effect, Step};
use crate::core::confirm::{Confirm, Decision, Denial, Fate, Resolution};
use crate::core::event::{Event, KeptResult, Level, Refused, Stop};
use crate::core::gate::{Go, Judged, Pace, spelled};
use crate::core::reply::ToolCall;
use crate::core::tool::Sha;

/// So often a person is asked about the same call in one turn (R9).
const MAX_DENIALS: u32 = 3;

/// How often a person said no to the same call in this turn.
#[derive(Debug, Default)]
pub(super) struct Denials(HashMap<Sha, u32>);

#[derive(Debug, PartialEq)]
pub(super) struct Round {
    /// Not begun yet.
    rest: VecDeque<Owed>,
    running: Vec<Owed>,
    asking: Option<Box<Confirm>>,
    /// What a person said yes to, until the call has begun.
    approval: Option<(ConfirmId, Sha)>,
}

/// A call without a reply.
#[derive(Debug, PartialEq)]
struct Owed {
    call: ToolCall,
    /// What a person made of its arguments.
    edited: Option<String>,
}

/// What a round came to with an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Waits,
    /// Every call has its reply.
    Done,
    /// A person ended the turn.
    Aborted,
}

impl Round {
    /// Begins with a judgement of all calls.
    pub(super) fn start(calls: Vec<ToolCall>, step: &mut Step) -> Self {
        let round = Self::of(calls);
        round.judge(step);
        round
    }

    /// Goes on where a person is asked about the first call.
    pub(super) fn resume(calls: Vec<ToolCall>, confirm: Confirm) -> Self {
        let mut round = Self::of(calls);
        round.asking = Some(Box::new(confirm));
        round
    }

    fn of(calls: Vec<ToolCall>) -> Self {
        let owed = |call| Owed { call, edited: None };
        Self {
            rest: calls.into_iter().map(owed).collect(),
            running: vec![],
            asking: None,
            approval: None,
        }
    }

    /// The confirm that waits for a person.
    pub(super) fn asking(&self) -> Option<&Confirm> {
        self.asking.as_deref()
    }

    /// Whether so many judgements are what it waits for.
    pub(super) fn awaits(&self, judgements: usize) -> bool {
        self.running.is_empty() && self.asking.is_none() && self.rest.len() == judgements
    }

    pub(super) fn runs(&self, call: &str) -> bool {
        self.running.iter().any(|it| it.call.id == call)
    }

    pub(super) fn asks(&self, confirm: ConfirmId) -> bool {
        self.asking.as_ref().is_some_and(|it| it.id == confirm)
    }

    fn judge(&self, step: &mut Step) {
        step.effects.push(Effect::Judge {
            calls: self.rest.iter().map(|it| it.call.clone()).collect(),
            approved: self.approval.map(|(_, digest)| digest),
        });
    }

    pub(super) fn judged(
        &mut self,
        judged: Vec<Judged>,
        denials: &Denials,
        step: &mut Step,
    ) -> Progress {
        for judgement in judged {
            let Some(owed) = self.rest.pop_front() else {
                break;
            };
            let approval = self.approval.take();
            match judgement {
                Judged::Refuse {
                    denial,
                    content,
                    refused,
                } => {
                    // What nobody refused was no call of a tool: that is told, too.
                    if denial.is_none() {
                        step.events.push(told(&content));
                    }
                    let never_began = Some(Box::new(refused));
                    step.events
                        .push(reply(&owed.call, denial, content, never_began));
                }
                Judged::Run(go) => {
                    let alone = approval.is_some() || go.pace == Pace::Alone;
                    if alone && !self.running.is_empty() {
                        self.rest.push_front(owed);
                        break;
                    }
                    self.begin(owed, go, approval.map(|(confirm, _)| confirm), step);
                    if alone {
                        break;
                    }
                }
                Judged::Ask(confirm) => {
                    if !self.running.is_empty() {
                        self.rest.push_front(owed);
                        break;
                    }
                    if denials.are_enough(confirm.digest) {
                        let content =
                            "[aish] denied by user, and not asked about again in this turn";
                        let denial = Some(Denial::Person);
                        let refused =
                            refused(Some(&confirm), "denied before by a person in this turn");
                        step.events.push(reply(
                            &owed.call,
                            denial,
                            content.to_owned(),
                            Some(refused),
                        ));
                        continue;
                    }
                    self.rest.push_front(owed);
                    step.events.push(Event::ConfirmRequested(confirm.clone()));
                    self.asking = Some(confirm);
                    break;
                }
            }
        }
        self.progress()
    }

    fn begin(&mut self, owed: Owed, go: Go, confirm: Option<ConfirmId>, step: &mut Step) {
        step.events.push(Event::ToolStarted {
            call: owed.call.id.clone(),
            name: go.tool.name.to_string(),
            arguments: spelled(&go.arguments),
            digest: go.digest,
            rule: go.rule.clone(),
            confirm,
        });
        step.effects.push(Effect::CallTool {
            call: owed.call.id.clone(),
            go: Box::new(go),
        });
        self.running.push(owed);
    }

    /// Takes the end of the open confirm.
    pub(super) fn answered(
        &mut self,
        answer: Answer,
        denials: &mut Denials,
        step: &mut Step,
    ) -> Progress {
        let Answer {
            resolution,
            raised,
            digest,
        } = answer;
        let asked = self.asking.take();
        let fate = resolution.fate;
        let decision = resolution.decision;
        let reason = resolution.reason.clone();
        let edited = resolution.edited.clone();
        let confirm = resolution.confirm;
        step.events
            .push(Event::ConfirmResolved(Box::new(resolution)));
        step.events.extend(raised);
        match fate {
            Fate::Allowed => {
                if let (Some(edited), Some(owed)) = (edited, self.rest.front_mut()) {
                    owed.call.arguments.clone_from(&edited);
                    owed.edited = Some(edited);
                }
                self.approval = Some((confirm, digest));
                self.judge(step);
                return Progress::Waits;
            }
            // The tool is not what was asked about any more: the call is looked at anew.
            Fate::Cancelled => {
                self.judge(step);
                return Progress::Waits;
            }
            Fate::Denied => {
                if let Some(asked) = &asked {
                    denials.add(asked.digest);
                }
                let refused = refused(asked.as_deref(), "denied by a person");
                let mut content = "[aish] denied by user".to_owned();
                if let Some(reason) = reason {
                    content.push_str(": ");
                    content.push_str(&reason);
                }
                self.refuse_first(Denial::Person, content, refused, step);
            }
            Fate::Expired => {
                let content = "[aish] denied: nobody answered in time".to_owned();
                let refused = refused(asked.as_deref(), "nobody answered in time");
                self.refuse_first(Denial::Expired, content, refused, step);
            }
        }
        if decision == Some(Decision::Abort) {
            self.refuse_rest(Stop::Denied, step);
            return Progress::Aborted;
        }
        self.go_on(step)
    }

    fn refuse_first(
        &mut self,
        denial: Denial,
        content: String,
        refused: Box<Refused>,
        step: &mut Step,
    ) {
        if let Some(owed) = self.rest.pop_front() {
            step.events
                .push(reply(&owed.call, Some(denial), content, Some(refused)));
        }
    }

    pub(super) fn returned(&mut self, call: &str, returned: Returned, step: &mut Step) -> Progress {
        let Some(at) = self.running.iter().position(|it| it.call.id == call) else {
            return Progress::Waits;
        };
        let owed = self.running.remove(at);
        let mut content = returned.content;
        let mut structured = returned.structured;
        if let Some(edited) = &owed.edited {
            structured = structured.and_then(|it| it.apart_from(&content));
            content.insert_str(0, &edited_note(edited));
        }
        let changed = returned.changed.into_iter().map(Box::new);
        step.events.extend(changed.map(Event::ResourceChanged));
        let mut keep = |result, parts: Vec<String>| {
            let part = |text| Event::ResultKept { result, text };
            step.events.extend(parts.into_iter().map(part));
        };
        let blocks = returned.blocks.into_iter();
        let blocks = blocks
            .map(|(block, parts)| {
                keep(block.result, parts);
                block
            })
            .collect();
        // The last, for what follows in a list takes the parts that stand before the result (`Course::note`).
        let kept = returned.kept.map(|(result, parts)| {
            let bytes = parts.iter().map(|it| it.len() as u64).sum();
            keep(result, parts);
            KeptResult { result, bytes }
        });
        step.events
            .extend(returned.remark.map(|text| Event::Status {
                level: Level::Info,
                text: text.to_owned(),
            }));
        step.events.extend(returned.notice.as_deref().map(told));
        step.events.push(Event::ToolResult {
            call: owed.call.id,
            name: owed.call.name,
            ok: returned.ok,
            content,
            denial: None,
            ms: Some(returned.ms),
            kept,
            blocks,
            structured,
            refused: None,
        });
        if !self.running.is_empty() {
            return Progress::Waits;
        }
        self.go_on(step)
    }

    /// Has the rest judged again: what a person or a server changed meanwhile counts.
    fn go_on(&self, step: &mut Step) -> Progress {
        if !self.rest.is_empty() {
            self.judge(step);
        }
        self.progress()
    }

    fn progress(&self) -> Progress {
        if self.rest.is_empty() && self.running.is_empty() {
            Progress::Done
        } else {
            Progress::Waits
        }
    }

    /// The turn ends: what runs has an effect that nobody knows, and the rest never began.
    pub(super) fn stop(mut self, stop: Stop, step: &mut Step) {
        if let Some(asked) = self.asking.take() {
            step.events
                .push(Event::ConfirmResolved(Box::new(Resolution {
                    confirm: asked.id,
                    fate: Fate::Cancelled,
                    decision: None,
                    by: None,
                    reason: None,
                    edited: None,
                    waited_ms: None,
                    approved: vec![],
                })));
        }
        for owed in std::mem::take(&mut self.running) {
            let content = unknown_effect(stop).to_owned();
            step.events.push(reply(&owed.call, None, content, None));
        }
        self.refuse_rest(stop, step);
    }

    fn refuse_rest(&mut self, stop: Stop, step: &mut Step) {
        let calls: Vec<ToolCall> = self.rest.drain(..).map(|it| it.call).collect();
        refuse_calls(&calls, stop, step);
    }
}

impl Denials {
    fn add(&mut self, digest: Sha) {
        *self.0.entry(digest).or_default() += 1;
    }

    fn are_enough(&self, digest: Sha) -> bool {
        self.0.get(&digest).is_some_and(|it| *it >= MAX_DENIALS)
    }
}

/// Stands before the result of a call whose arguments a person chose.
pub(super) fn edited_note(edited: &str) -> String {
    format!("[aish] the user changed the arguments to {edited}; this is the result of that call\n")
}

/// Every call gets exactly one reply, also when nothing will run any more.
pub(crate) fn refuse_calls(calls: &[ToolCall], stop: Stop, step: &mut Step) {
    let why = match stop {
        Stop::Cancelled => "cancelled by the user",
        Stop::Interrupted => "interrupted by a restart",
        Stop::Denied => "the user ended the turn",
        Stop::End
        | Stop::ToolDepth
        | Stop::MaxTokens
        | Stop::Refusal
        | Stop::Upstream
        | Stop::Budget => "the turn ended first",
    };
    let result = |call| {
        let never_began = Some(refused(None, why));
        reply(call, None, format!("[aish] {why}"), never_began)
    };
    step.events.extend(calls.iter().map(result));
}

/// The reply of a call that began and never said how it ended (G7).
pub(crate) fn unknown_effect(stop: Stop) -> &'static str {
    match stop {
        Stop::Interrupted => {
            "[aish] interrupted: the daemon ended while it ran; the effect of this call is unknown"
        }
        Stop::Cancelled
        | Stop::Denied
        | Stop::End
        | Stop::ToolDepth
        | Stop::MaxTokens
        | Stop::Refusal
        | Stop::Upstream
        | Stop::Budget => {
            "[aish] cancelled by the user while it ran; the effect of this call is unknown"
        }
    }
}

/// A line for people, who see our mark before it anyway.
fn told(content: &str) -> Event {
    let text = content.strip_prefix("[aish] ").unwrap_or(content);
    Event::Status {
        level: Level::Warning,
        text: text.to_owned(),
    }
}

/// Why a call never began, and what was asked about it, if anything was.
pub(super) fn refused(asked: Option<&Confirm>, because: &str) -> Box<Refused> {
    Box::new(Refused {
        subject: asked.map(Confirm::subject),
        because: because.to_owned(),
    })
}

/// The reply of a call that has no result.
pub(super) fn reply(
    call: &ToolCall,
    denial: Option<Denial>,
    content: String,
    refused: Option<Box<Refused>>,
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
