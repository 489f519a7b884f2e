//! How far a list of calls has come: which calls can run now, with which arguments, and what the others wait for.
//!
//! It is a fold of the turn's events, live and after a restart, so what a result put into an argument is the same in
//! both. Calls go in waves: each takes all calls whose needs are settled.

use std::collections::HashMap;

use aish_proto::id::{ConfirmId, ResultId};
use aishd_log::call_list::{CallList, ListError, ListedCall, ResultReference, fitting};
use aishd_log::event::Event;
use aishd_log::tool_call::ToolCall;
use aishd_rules::gate::spelled;
use serde_json::{Map, Value};

#[derive(Debug, PartialEq)]
pub struct CallListProgress {
    calls: Vec<ProgressCall>,
    /// Parts of the kept result that comes next.
    parts: Option<(ResultId, String)>,
    /// The call that a person is asked about.
    asked: Option<(ConfirmId, String)>,
    /// What people made of arguments, by call.
    edited: HashMap<String, String>,
}

#[derive(Debug, PartialEq)]
struct ProgressCall {
    call: ListedCall,
    needs: Vec<usize>,
    uses: Vec<ResultUse>,
    standing: CallStatus,
    /// It was started once, and is never started again.
    began: bool,
}

/// A result among the arguments.
#[derive(Debug, PartialEq)]
struct ResultUse {
    reference: ResultReference,
    from: usize,
    /// What stands for it, or why nothing can, once its call has been answered.
    value: Option<Result<Value, String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallStatus {
    Waits,
    /// The log has it among the calls of a message; its reply is owed.
    Announced,
    Succeeded,
    /// It gave no result to go on with.
    Failed,
}

/// A call of a wave.
#[derive(Debug, PartialEq)]
pub(super) enum ReadyCall {
    Runs(ToolCall),
    /// It cannot run: this is its reply.
    Barred(ToolCall, String),
}

impl ReadyCall {
    pub(super) fn call(&self) -> &ToolCall {
        match self {
            Self::Runs(call) | Self::Barred(call, _) => call,
        }
    }
}

impl CallListProgress {
    pub fn new(list: &CallList) -> Result<Self, ListError> {
        let linked = list.linked()?;
        let listed = list.calls().iter().zip(linked).map(|(call, linked)| {
            let uses = linked.uses.into_iter();
            ProgressCall {
                call: call.clone(),
                needs: linked.needs,
                uses: uses
                    .map(|(reference, from)| ResultUse {
                        reference,
                        from,
                        value: None,
                    })
                    .collect(),
                standing: CallStatus::Waits,
                began: false,
            }
        });
        Ok(Self {
            calls: listed.collect(),
            parts: None,
            asked: None,
            edited: HashMap::new(),
        })
    }

    /// Takes the next event of the turn in.
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::AssistantMessage { calls, .. } => {
                for call in calls {
                    self.stand(&call.id, CallStatus::Announced);
                }
            }
            Event::ConfirmRequested(confirm) => {
                self.asked = confirm.call().map(|it| (confirm.id, it.id.clone()));
            }
            Event::ConfirmResolved(resolution) => {
                let asked = self.asked.take();
                let asked = asked.filter(|(confirm, _)| *confirm == resolution.confirm);
                if let (Some((_, call)), Some(edited)) = (asked, &resolution.edited) {
                    self.edited.insert(call, edited.clone());
                }
            }
            Event::ToolStarted { call, .. } => {
                if let Some(listed) = self.calls.iter_mut().find(|it| it.call.id == *call) {
                    listed.began = true;
                }
            }
            Event::ResultKept { result, text } => match &mut self.parts {
                Some((kept, parts)) if kept == result => parts.push_str(text),
                Some(_) | None => self.parts = Some((*result, text.clone())),
            },
            Event::ToolResult {
                call,
                ok,
                content,
                kept,
                ..
            } => {
                let parts = self.parts.take();
                let whole = kept.and_then(|kept| parts.filter(|(it, _)| *it == kept.result));
                let note = self.edited.get(call).map(|it| edited_note(it));
                let said = note.and_then(|it| content.strip_prefix(&it));
                let text = whole.map(|(_, text)| text);
                let text = text.as_deref().or(said).unwrap_or(content);
                self.on_result(call, text, *ok);
            }
            _ => {}
        }
    }

    fn stand(&mut self, id: &str, standing: CallStatus) -> Option<usize> {
        let at = self.calls.iter().position(|it| it.call.id == id)?;
        self.calls[at].standing = standing;
        Some(at)
    }

    /// Only what is used of a result is kept.
    fn on_result(&mut self, id: &str, text: &str, ok: bool) {
        let standing = if ok {
            CallStatus::Succeeded
        } else {
            CallStatus::Failed
        };
        let Some(from) = self.stand(id, standing) else {
            return;
        };
        if !ok {
            return;
        }
        let uses = self.calls.iter_mut().flat_map(|it| &mut it.uses);
        for it in uses.filter(|it| it.from == from) {
            it.value = Some(it.reference.value(text));
        }
    }

    /// What an earlier turn of this list left is over: calls that never began can run now.
    pub fn begin_again(&mut self) {
        for at in 0..self.calls.len() {
            let listed = &mut self.calls[at];
            match (listed.began, listed.standing) {
                (true, CallStatus::Announced) => listed.standing = CallStatus::Failed,
                (true, CallStatus::Succeeded | CallStatus::Failed | CallStatus::Waits) => {}
                (false, _) => listed.standing = CallStatus::Waits,
            }
        }
    }

    /// Whether there is a call that could begin, now or later.
    pub fn has_rest(&self) -> bool {
        self.calls.iter().any(|it| it.standing == CallStatus::Waits)
    }

    /// Every call whose needs are settled and that was not announced, in the order of the list.
    pub(super) fn next_wave(&self) -> Vec<ReadyCall> {
        let settled = |at: &usize| {
            let standing = self.calls[*at].standing;
            matches!(standing, CallStatus::Succeeded | CallStatus::Failed)
        };
        let waits = self
            .calls
            .iter()
            .filter(|it| it.standing == CallStatus::Waits);
        waits
            .filter(|it| it.needs.iter().all(settled))
            .map(|it| match self.arguments(it) {
                Ok(arguments) => ReadyCall::Runs(tool_call(&it.call, &arguments)),
                Err(why) => {
                    let call = tool_call(&it.call, &it.call.arguments);
                    ReadyCall::Barred(call, format!("[aish] not run: {why}"))
                }
            })
            .collect()
    }

    /// The arguments with the results in them.
    fn arguments(&self, listed: &ProgressCall) -> Result<Map<String, Value>, String> {
        let failed = |at: &&usize| self.calls[**at].standing == CallStatus::Failed;
        if let Some(at) = listed.needs.iter().find(failed) {
            let id = &self.calls[*at].call.id;
            return Err(format!("it needs {id:?}, which did not succeed"));
        }
        let mut arguments = listed.call.arguments.clone();
        for it in &listed.uses {
            match &it.value {
                Some(Ok(value)) => it.reference.put(value.clone(), &mut arguments),
                Some(Err(why)) => return Err(why.clone()),
                None => return Err(format!("the result of {:?} is gone", it.reference.id)),
            }
        }
        let bytes = spelled(&arguments).len();
        fitting(bytes).map(|()| arguments)
    }

    /// Calls that no message has yet, as they were written.
    pub fn rest(&self) -> Vec<ToolCall> {
        let waits = self
            .calls
            .iter()
            .filter(|it| it.standing == CallStatus::Waits);
        waits
            .map(|it| tool_call(&it.call, &it.call.arguments))
            .collect()
    }

    /// How the list ended, in a line.
    pub fn summary(&self) -> String {
        let count = self.calls.len();
        let others = self.calls.iter();
        let others = others.filter(|it| it.standing != CallStatus::Succeeded);
        let others: Vec<&str> = others.map(|it| it.call.id.as_str()).collect();
        if others.is_empty() {
            return match count {
                1 => "the call succeeded".to_owned(),
                count => format!("all {count} calls succeeded"),
            };
        }
        format!(
            "{} of {count} calls succeeded; not: {}",
            count - others.len(),
            others.join(", ")
        )
    }
}

fn tool_call(listed: &ListedCall, arguments: &Map<String, Value>) -> ToolCall {
    ToolCall {
        id: listed.id.clone(),
        name: listed.name.clone(),
        arguments: spelled(arguments),
        broken: None,
        extra: Map::new(),
    }
}

/// Stands before the result of a call whose arguments a person chose.
pub(super) fn edited_note(edited: &str) -> String {
    format!("[aish] the user changed the arguments to {edited}; this is the result of that call\n")
}
