//! What a window knows of turns: which one runs, which of ours have not ended, and how the last one went.

use std::collections::BTreeMap;

use aish_proto::conversation::Activity;
use aish_proto::event::{ClientEvent, Event, TurnFinished};
use aish_proto::id::TurnId;
use aish_proto::shell::RunningCommand;
use aish_proto::turn::{SendResult, StopReason};

use super::ui::PromptState;
use crate::exit::{self, Exit};

/// Finished turns that are remembered, for a send whose reply comes after its answer.
const FINISHED_TURNS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct TurnTracker {
    pub(super) running: Option<TurnId>,
    /// The command of a person that runs, whoever that is.
    pub(super) command: Option<RunningCommand>,
    /// Our turns that have not ended.
    awaited: Vec<TurnId>,
    finished: BTreeMap<TurnId, Exit>,
    /// The running turn waits for an answer, or the queue is held.
    waits: bool,
    /// The model's server failed the last turn.
    failed: bool,
    /// The last turn was interrupted: turns that wait now wait for a person.
    interrupted: bool,
}

impl TurnTracker {
    /// Takes an event in; how one of our turns ended badly, if this is its end.
    pub(super) fn take(&mut self, event: &ClientEvent) -> Option<Exit> {
        match &event.data {
            Event::Snapshot(snapshot) => {
                self.running = snapshot.running.as_ref().map(|it| it.turn);
                self.command.clone_from(&snapshot.command);
                self.waits = false;
                self.interrupted = snapshot.held;
                self.activity(snapshot.state);
            }
            Event::State(state) => {
                self.running = state.turn;
                self.command.clone_from(&state.command);
                self.waits = false;
                self.activity(state.state);
            }
            Event::TurnStarted(_) => {
                self.running = event.turn;
                self.failed = false;
                self.interrupted = false;
            }
            Event::TurnFinished(finished) => return self.finish(event.turn?, finished),
            _ => {}
        }
        None
    }

    fn activity(&mut self, activity: Activity) {
        self.waits |= match activity {
            Activity::Idle | Activity::Running => false,
            Activity::RequiresAction => true,
            // Between two turns it is so for a moment, and then nobody needs to do anything.
            Activity::Queued => self.interrupted,
        };
    }

    fn finish(&mut self, turn: TurnId, finished: &TurnFinished) -> Option<Exit> {
        if self.running == Some(turn) {
            self.running = None;
        }
        self.failed = finished.stop_reason == StopReason::Upstream;
        self.interrupted = finished.stop_reason == StopReason::Interrupted;
        let exit = exit::of_turn(finished.stop_reason, finished.error.as_ref());
        if self.finished.len() >= FINISHED_TURNS {
            self.finished.pop_first();
        }
        self.finished.insert(turn, exit);
        let ours = self.awaited.contains(&turn);
        self.awaited.retain(|it| *it != turn);
        match finished.merged_into {
            Some(other) if ours => {
                self.awaited.push(other);
                None
            }
            Some(_) | None => (ours && exit != Exit::DONE).then_some(exit),
        }
    }

    /// A question of ours was taken; how it ended badly, if it has ended already.
    pub(super) fn sent(&mut self, sent: &SendResult) -> Option<Exit> {
        match self.finished.get(&sent.turn) {
            Some(exit) => (*exit != Exit::DONE).then_some(*exit),
            None => {
                self.awaited.push(sent.turn);
                None
            }
        }
    }

    pub(super) fn all_ended(&self) -> bool {
        self.awaited.is_empty()
    }

    /// A turn runs, or a command of a person.
    pub(super) fn is_at_work(&self) -> bool {
        self.running.is_some() || self.command.is_some()
    }

    pub(super) fn state(&self) -> PromptState {
        if self.waits {
            PromptState::Waiting
        } else if self.is_at_work() {
            PromptState::Running
        } else if self.failed {
            PromptState::Problem
        } else {
            PromptState::Idle
        }
    }
}
