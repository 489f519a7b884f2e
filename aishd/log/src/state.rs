//! The state of a conversation: the fold of its events, the same function live and on load.
//!
//! It is small and stays small, because it is stored beside every commit: texts are in the log, and the
//! queue names them by position.

#![warn(clippy::wildcard_enum_match_arm)]

mod changes;
pub mod confirms;
pub mod hosts;
pub mod shell;
mod title;
pub mod turns;
mod unsettled;

use std::collections::BTreeSet;

use aish_proto::id::{ConfirmId, ConversationId, Seq, TurnId};
use serde::{Deserialize, Serialize};

use self::confirms::{OlderLevel, OlderMemory, OpenConfirm};
use self::hosts::RunHosts;
use self::shell::ShellState;
use self::turns::{QueuedTurn, RunningTurn};
use crate::access::Access;
use crate::block::KeptBlock;
use crate::budget::BudgetLimits;
use crate::confirm::Resolution;
use crate::confirm::host::PAGE_PROVIDER;
use crate::constraints::Constraints;
use crate::event::{Event, Record, StopReason, TurnOrigin};
use crate::eviction::{Eviction, LeftExchange};
use crate::grants::GrantList;
use crate::norris::status::{self, RunStatus};
use crate::pinned_resource::PinnedEntry;
use crate::resource::{ResourceChanged, ResourceOutcome};
use crate::routed::RoutingDecision;
use crate::run_changes::{RunChanges, RunChangesStage};
use crate::shell::{CommandProposal, PROVIDER, TOOL};
use crate::time::Timestamp;
use crate::tool::{ContentDigest, DecisionSubject};
use crate::tool_call::ToolCall;
use crate::tool_name::{Alias, ToolName};
use crate::usage::Usage;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct ConversationState {
    pub last_seq: Seq,
    #[serde(default)]
    pub title: Option<String>,
    /// It is the first words of the first question, for want of another.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub title_is_makeshift: bool,
    /// The conversation and position that it was copied from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<(ConversationId, Seq)>,
    /// A preset by name; `None`: the default.
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub cwd: String,
    #[serde(default)]
    pub archived: bool,
    #[serde(default)]
    pub created_at: Timestamp,
    #[serde(default)]
    pub updated_at: Timestamp,
    /// Turns that were asked for.
    #[serde(default)]
    pub turns: u64,
    #[serde(default)]
    pub usage: Usage,
    /// What it may take.
    #[serde(default, skip_serializing_if = "BudgetLimits::is_none")]
    pub budget: BudgetLimits,
    #[serde(default)]
    pub running: Option<RunningTurn>,
    #[serde(default)]
    pub queue: Vec<QueuedTurn>,
    /// The last turn was interrupted, and nothing has been started since: the queue waits.
    #[serde(default)]
    pub held: bool,
    /// The last turn that ended after it had started.
    #[serde(default)]
    pub last_turn: Option<TurnId>,
    /// Events up to here left the context, those of `restored` excepted.
    #[serde(default)]
    pub evicted_through: Seq,
    /// Reading what the context holds begins with this record. `None`: behind `evicted_through`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_from: Option<Seq>,
    /// The last eviction that lists what left; 0: there was none.
    #[serde(default, skip_serializing_if = "is_first")]
    pub last_eviction: Seq,
    /// Exchanges that left and are not back.
    #[serde(default, skip_serializing_if = "is_none")]
    pub left: u64,
    /// Exchanges that left and are back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<LeftExchange>,
    /// Where the summary of what left stands; 0: there is none.
    #[serde(default, skip_serializing_if = "is_first")]
    pub summary_seq: Seq,
    /// Where the tasks of its model stand; 0: it has written none.
    #[serde(default, skip_serializing_if = "is_first")]
    pub todos_seq: Seq,
    /// Tools that are sent where not all are, in the order in which they were chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chosen_tools: Vec<ToolName>,
    /// What people granted here.
    #[serde(default)]
    pub grants: GrantList,
    /// The level of all providers together, in the older layout, until it is handed out. No call goes by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_level: Option<Access>,
    /// Providers whose calls began here, for the choice among equal names.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub used: BTreeSet<Alias>,
    /// What it keeps itself from.
    #[serde(default)]
    pub constraints: Constraints,
    /// Questions that wait for a person, oldest first.
    #[serde(default)]
    pub confirms: Vec<OpenConfirm>,
    /// Those about levels, in the older layout; they are among `confirms`.
    #[serde(default, skip_serializing, rename = "raises")]
    older_levels: Vec<OlderLevel>,
    /// Those about proposed facts, in the older layout; they are among `confirms`.
    #[serde(default, skip_serializing, rename = "proposals")]
    older_memories: Vec<OlderMemory>,
    /// Confirms so far.
    #[serde(default)]
    pub confirm_count: u32,
    /// Resources that are in each request, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "pinned")]
    pub pinned_resources: Vec<PinnedEntry>,
    /// A result had blocks that are no text, and people were told what becomes of those.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_blocks: bool,
    /// How the last turn that asked a model came to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<BegunTurn>,
    /// Resources of the shared context; what they are is looked up in the store.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resources: u32,
    /// The run that works by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norris: Option<Box<RunStatus>>,
    /// Layers of runs that are there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_changes: Vec<RunChanges>,
    /// Hosts that those runs reached, or may reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_hosts: Vec<RunHosts>,
    /// What there is of commands.
    #[serde(default, skip_serializing_if = "ShellState::is_empty")]
    pub shell: ShellState,
    /// It is half an import: nobody sees it, and the next daemon takes it out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub importing: bool,
    /// It goes when nothing is under way in it and nobody looks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub temporary: bool,
    /// Where its import ended; 0: it was not imported.
    #[serde(default, skip_serializing_if = "is_first")]
    pub imported: Seq,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

fn is_first(seq: &Seq) -> bool {
    *seq == Seq(0)
}

/// Which model a turn asks, and why that one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BegunTurn {
    pub turn: TurnId,
    /// The preset by name.
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routed: Option<RoutingDecision>,
    /// The preset that a request of it fell back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fell_back: Option<String>,
}

impl BegunTurn {
    fn with(turn: TurnId, model: &str) -> Self {
        Self {
            turn,
            model: model.to_owned(),
            routed: None,
            fell_back: None,
        }
    }
}

impl ConversationState {
    /// The title for people, also when none was given.
    pub fn title(&self) -> &str {
        self.title.as_deref().unwrap_or("untitled")
    }

    /// Turns wait for `turn/continue` or `queue/resume`, because the one before them was interrupted.
    pub fn is_held(&self) -> bool {
        self.held && self.running.is_none() && !self.queue.is_empty()
    }

    /// The running turn goes on when a person has answered.
    pub fn requires_action(&self) -> bool {
        self.turn_confirms().next().is_some()
    }

    /// Questions that the running turn waits for, oldest first.
    pub fn turn_confirms(&self) -> impl Iterator<Item = &OpenConfirm> {
        self.confirms.iter().filter(|it| it.aside.is_none())
    }

    pub fn open_confirm(&self, id: ConfirmId) -> Option<&OpenConfirm> {
        self.confirms.iter().find(|it| it.id == id)
    }

    /// Reading what the context holds begins behind this record: questions that wait may stand before what left.
    pub fn context_begins(&self) -> Seq {
        let questions = self.queue.iter().map(|it| it.message_seq);
        let running = self.running.iter().map(|it| it.message_seq);
        let outputs = self.shell.pending_from;
        let first = questions.chain(running).chain(outputs);
        let first = first.map(|it| Seq(it.0 - 1)).min();
        let begin = self.context_from.map(|it| Seq(it.0.saturating_sub(1)));
        let begin = begin.unwrap_or(self.evicted_through);
        first.map_or(begin, |it| it.min(begin))
    }

    /// Whether a message that came into the context with this record has left it and is not back.
    pub fn has_left(&self, at: Seq) -> bool {
        at <= self.evicted_through && !self.restored.iter().any(|it| it.holds(at))
    }

    /// Takes the next event in. Records come in the order of their `seq`, each once.
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of event")]
    pub fn apply(&mut self, record: &Record) {
        self.last_seq = record.seq;
        self.updated_at = record.at;
        self.shell.apply(record);
        match &record.event {
            Event::Created {
                title,
                model,
                cwd,
                constraints,
                importing,
                temporary,
                budget,
                forked_from,
            } => {
                self.forked_from = *forked_from;
                self.importing = *importing;
                self.temporary = *temporary;
                self.created_at = record.at;
                self.budget = *budget;
                self.title.clone_from(title);
                self.model.clone_from(model);
                self.cwd.clone_from(cwd);
                self.constraints.clone_from(constraints);
            }
            Event::UserMessage { text, origin, .. } => self.on_question(record, text, *origin),
            Event::TurnQueued { position, steer } => self.move_to(record.turn, *position, *steer),
            Event::TurnStarted { .. } | Event::RouteDecided(_) | Event::FellBack { .. } => {
                self.model_asked(record);
            }
            Event::AssistantMessage {
                usage,
                calls,
                commands,
                ..
            } => {
                self.on_answer(record.seq, calls, commands);
                self.used(record.turn, usage.unwrap_or_default());
            }
            Event::ModelUsed(paid) => self.used(record.turn, paid.usage),
            Event::BudgetChanged(changed) => self.budget = changed.budget,
            Event::ConfirmRequested(confirm) => self.asked_person(record, confirm),
            Event::CommandTried(tried) => self.on_tried(record.seq, tried.confirm),
            Event::ConfirmResolved(resolution) => self.on_resolved(resolution),
            Event::ToolStarted {
                call, name, digest, ..
            } => self.call_started(call, name, *digest),
            Event::TaskBegan { call, task } => self.task_began(call, task),
            Event::ShellStarted { call, digest, .. } => {
                if record.turn.is_some() {
                    self.call_started(call, TOOL, *digest);
                }
            }
            Event::ShellFinished { call, network, .. } => {
                if let Some(used) = network {
                    self.network_used(record.turn, used);
                }
                if record.turn.is_some() {
                    self.replied(call, &[]);
                }
            }
            Event::CwdChanged { cwd, .. } => self.cwd.clone_from(cwd),
            Event::PermissionChanged {
                provider,
                to,
                revoked,
                ..
            } => self.level_changed(provider.as_ref(), *to, *revoked),
            Event::ConstraintsChanged { constraints, .. } => {
                self.constraints.clone_from(constraints);
            }
            Event::ToolResult { call, blocks, .. } => self.replied(call, blocks),
            Event::ResourcePinned(pinned) => {
                if !self.pinned_resources.contains(pinned) {
                    self.pinned_resources.push(pinned.clone());
                }
            }
            Event::ResourceUnpinned(pinned) => self.pinned_resources.retain(|it| it != pinned),
            Event::ResourceChanged(changed) => self.resource_changed(changed),
            Event::Evicted(eviction) => self.evicted(record.seq, eviction),
            Event::Restored(left) => {
                self.left = self.left.saturating_sub(1);
                self.restored.push(*left);
            }
            Event::SummaryUpdated(_) => self.summary_seq = record.seq,
            Event::TodosChanged { .. } => self.todos_seq = record.seq,
            Event::ToolsChosen { added, dropped } => {
                self.chosen_tools.retain(|it| !dropped.contains(it));
                for name in added {
                    if !self.chosen_tools.contains(name) {
                        self.chosen_tools.push(name.clone());
                    }
                }
            }
            Event::ModelChanged { model } => self.model.clone_from(model),
            Event::Renamed { title } => {
                (self.title, self.title_is_makeshift) = (Some(title.clone()), false);
            }
            Event::Imported(_) => (self.importing, self.imported) = (false, record.seq),
            Event::ArchivedChanged { archived } => self.archived = *archived,
            Event::Norris(event) => {
                status::apply(&mut self.norris, record.turn, event);
                self.run_changed(record.turn, event);
            }
            Event::ChangesSettled(settled) => {
                self.run_changes.retain(|it| it.turn != settled.turn);
                self.run_hosts.retain(|it| it.turn != settled.turn);
            }
            Event::ChangesPart(part) => self.changes_in_part(part),
            Event::RecordLost {} => self.record_lost(),
            Event::Status { .. }
            | Event::AnswerPictures { .. }
            | Event::ResultKept { .. }
            | Event::JobStarted(_)
            | Event::JobEnded(_)
            | Event::BudgetReached(_)
            | Event::ChangesUndo(_) => {}
            Event::TurnFinished {
                stop, merged_into, ..
            } => {
                if merged_into.is_some() {
                    self.flush(record.turn);
                }
                self.finished(record.turn, *stop);
            }
        }
    }

    /// What was lost may have been an answer, an end, or what took something back: nothing of before goes on by itself, runs a
    /// second time or is granted any more, and a person says anew what it may do.
    fn record_lost(&mut self) {
        self.grants = GrantList::default();
        self.constraints.read_only = true;
        self.constraints.no_network = true;
        self.confirms.clear();
        self.run_hosts.iter_mut().for_each(|it| it.allowed.clear());
        // What runs changed is asked about anew.
        let ended = RunChangesStage::Ended;
        self.run_changes
            .iter_mut()
            .for_each(|it| it.stage = ended.clone());
        self.queue.clear();
        self.norris = None;
        self.running = None;
        self.one_level = None;
    }

    /// A question stands in the queue from the moment it is asked; starting takes it out.
    fn on_question(&mut self, record: &Record, text: &str, origin: TurnOrigin) {
        let Some(turn) = record.turn else { return };
        self.turns += 1;
        if self.title.is_none() && matches!(origin, TurnOrigin::Asked | TurnOrigin::Imported) {
            self.title = title::from_question(text);
            self.title_is_makeshift = self.title.is_some() && origin == TurnOrigin::Asked;
        }
        self.queue.push(QueuedTurn {
            turn,
            message_seq: record.seq,
            steer: false,
            is_new: record.event.is_new_question(),
            environment_seq: self.shell.environment_seq(),
            retry: match origin {
                TurnOrigin::Retry(old) => Some(old),
                TurnOrigin::Asked | TurnOrigin::Continue(_) | TurnOrigin::Imported => None,
            },
        });
    }

    /// Outputs that wait go with a question that begins to be answered.
    fn flush(&mut self, turn: Option<TurnId>) {
        let mut waiting = self.queue.iter();
        if waiting.any(|it| Some(it.turn) == turn && it.is_new) {
            self.shell.flushed();
        }
    }

    fn move_to(&mut self, turn: Option<TurnId>, position: u32, steer: bool) {
        let Some(from) = self.queue.iter().position(|it| Some(it.turn) == turn) else {
            return;
        };
        let mut queued = self.queue.remove(from);
        queued.steer = steer;
        let to = usize::try_from(position.saturating_sub(1)).unwrap_or(usize::MAX);
        self.queue.insert(to.min(self.queue.len()), queued);
    }

    /// A turn that asks a model, and what becomes of that.
    fn model_asked(&mut self, record: &Record) {
        if let Event::TurnStarted { model, source, .. } = &record.event {
            if let (Some(turn), true) = (record.turn, source.is_a_model()) {
                self.began = Some(BegunTurn::with(turn, model));
            }
            self.started(record);
        }
        let Some(began) = &mut self.began else { return };
        if let Event::RouteDecided(routed) = &record.event {
            began.routed = Some(routed.clone());
        }
        if let Event::FellBack { to, .. } = &record.event {
            began.fell_back = Some(to.clone());
        }
    }

    fn on_tried(&mut self, at: Seq, confirm: ConfirmId) {
        let mut open = self.confirms.iter_mut();
        if let Some(open) = open.find(|it| it.id == confirm) {
            open.tried = Some(at);
        }
    }

    fn replied(&mut self, call: &str, blocks: &[KeptBlock]) {
        self.keeps_blocks |= !blocks.is_empty();
        if let Some(running) = &mut self.running {
            running.open_calls.retain(|it| it.id != call);
        }
    }

    fn started(&mut self, record: &Record) {
        let Some(at) = self
            .queue
            .iter()
            .position(|it| Some(it.turn) == record.turn)
        else {
            return;
        };
        self.flush(record.turn);
        let queued = self.queue.remove(at);
        let back = self.restored.len();
        self.restored.retain(|it| Some(it.turn) != queued.retry);
        self.left += (back - self.restored.len()) as u64;
        self.held = false;
        self.running = Some(RunningTurn {
            turn: queued.turn,
            message_seq: queued.message_seq,
            started_seq: record.seq,
            items: 0,
            open_calls: vec![],
            answer_seq: Seq(0),
            rounds: 0,
            usage: Usage::default(),
            environment_seq: queued.environment_seq,
        });
    }

    /// The model has finished an answer.
    fn on_answer(&mut self, at: Seq, calls: &[ToolCall], commands: &[CommandProposal]) {
        if let Some(running) = &mut self.running {
            running.answered(at, calls, commands);
        }
    }

    /// A request was answered, or charged for without that.
    fn used(&mut self, turn: Option<TurnId>, usage: Usage) {
        self.usage = self.usage.plus(usage);
        let running = self.running.iter_mut();
        for running in running.filter(|it| Some(it.turn) == turn) {
            running.usage = running.usage.plus(usage);
        }
    }

    fn evicted(&mut self, at: Seq, eviction: &Eviction) {
        let Eviction {
            through,
            before: _,
            begin,
            count: _,
            exchanges,
            previous: _,
        } = eviction;
        self.context_from = *begin;
        let back = self.restored.len();
        self.restored.retain(|it| it.last > *through);
        let again = back - self.restored.len();
        self.left += (exchanges.len() + again) as u64;
        self.evicted_through = self.evicted_through.max(*through);
        if !exchanges.is_empty() {
            self.last_eviction = at;
        }
    }

    fn call_started(&mut self, call: &str, name: &str, digest: ContentDigest) {
        let open = self.running.iter_mut().flat_map(|it| &mut it.open_calls);
        open.filter(|it| it.id == call).for_each(|it| {
            it.started = true;
            it.subject = DecisionSubject::named(name, digest);
        });
        let tool: Option<ToolName> = name.parse().ok();
        self.used.extend(tool.map(|it| it.alias().clone()));
    }

    fn level_changed(&mut self, provider: Option<&Alias>, to: Access, revoked: bool) {
        let Some(provider) = provider else {
            self.one_level = (to > Access::Read).then_some(to);
            return;
        };
        self.grants.levels.insert(provider.clone(), to);
        if revoked {
            self.grants.approved.retain(|it, _| it.alias() != provider);
            if provider.as_str() == PROVIDER {
                self.grants.commands.clear();
            }
            if [PROVIDER, PAGE_PROVIDER].contains(&provider.as_str()) {
                self.grants.hosts.clear();
            }
        }
    }

    fn resource_changed(&mut self, changed: &ResourceChanged) {
        match changed.change {
            ResourceOutcome::Created => self.resources += 1,
            ResourceOutcome::Updated => {}
            ResourceOutcome::Deleted => self.resources = self.resources.saturating_sub(1),
        }
    }

    fn on_resolved(&mut self, resolution: &Resolution) {
        self.changes_answered(resolution);
        self.host_answered(resolution);
        self.confirms.retain(|it| it.id != resolution.confirm);
        for (tool, approved) in resolution.approved.iter().cloned() {
            if tool == crate::shell::tool().name {
                self.grants.commands.insert(approved);
            } else {
                self.grants.approved.insert(tool, approved);
            }
        }
    }

    fn finished(&mut self, turn: Option<TurnId>, stop: StopReason) {
        self.queue.retain(|it| Some(it.turn) != turn);
        if self.norris.as_ref().map(|it| it.turn) == turn {
            self.norris = None;
        }
        self.run_is_over(turn);
        if self.running.as_ref().map(|it| it.turn) == turn {
            self.running = None;
            self.last_turn = turn;
            self.held = stop == StopReason::Interrupted;
            // There is nothing left to join: they wait like all others.
            for queued in &mut self.queue {
                queued.steer = false;
            }
        }
    }
}

#[cfg(test)]
mod tests;
