//! Calls on which a server goes on by itself: their tasks are kept, named when nobody asks for them any more, and asked for by the next
//! daemon.

use aish_proto::id::TurnId;
use aishd_log::confirm::{ConfirmFate, Resolution};
use aishd_log::event::{Event, StopReason};
use aishd_log::spending::PaidRequest;
use aishd_model::reply::Reply;
use aishd_platform::failpoint;
use aishd_tools::BegunTask;
use aishd_turn::turn::{CallReturn, Effect, Step, TurnInput, unknown_effect};

use crate::actor::Conversation;
use crate::actor::resume::LeftTask;
use crate::pending_commit::UncommittedFact;
use crate::turns::active_turn::ActiveTurn;
use crate::view::LiveChange;

impl Conversation {
    /// Puts a task into the log before its server is asked for it: from here on the next daemon can ask. One that cannot be stored is asked for
    /// by this daemon alone.
    pub(crate) async fn keep_task(&mut self, turn: TurnId, call: String, begun: BegunTask) {
        let fact = UncommittedFact {
            turn: Some(turn),
            by: None,
            event: Event::TaskBegan {
                call,
                task: begun.task,
            },
        };
        if let Err(error) = self.commit(&[fact], LiveChange::Keep).await {
            tracing::warn!(conversation = %self.id, %error, "a task is not kept");
        }
        failpoint::pass("tool.after_task");
        let _gone = begun.kept.send(());
    }

    /// The daemon stops, and all that the turn has begun is done by servers, which go on without it.
    pub(crate) fn is_left_to_servers(&self) -> bool {
        self.services.stopping.is_cancelled()
            && self.stopper.stopped_by().is_none()
            && self.state.waits_for_tasks()
    }

    /// What a turn that ends with the daemon says of calls that their servers work on has the names of their tasks, as after a
    /// daemon that was killed: nobody asks for them any more but a person.
    pub(crate) fn name_tasks(&self, step: &mut Step) {
        for event in &mut step.events {
            let Event::ToolResult { call, content, .. } = event else {
                continue;
            };
            if content.as_str() != unknown_effect(StopReason::Interrupted) {
                continue;
            }
            let mut open = self.state.running.iter().flat_map(|it| &it.open_calls);
            let known = open.find(|it| it.id == *call);
            if let Some(task) = known.and_then(|it| it.task.as_ref()) {
                *content = task.left();
            }
        }
    }

    /// The turn is left to servers. A result that came in time is taken in; where there is none, its server works on, and
    /// the next daemon asks what came of it.
    pub(crate) async fn came_before_leaving(
        &mut self,
        input: TurnInput,
        paid: Option<PaidRequest>,
    ) {
        let stop = self.stop_of_token();
        let mut step = Step::default();
        if let TurnInput::ToolReturned { call, returned } = input
            && *returned != CallReturn::default()
        {
            let open = self.state.running.iter().flat_map(|it| &it.open_calls);
            let others_run = open.filter(|it| it.started).any(|it| it.id != call);
            let input = TurnInput::ToolReturned { call, returned };
            if let Some(active) = &mut self.turn {
                step = if others_run {
                    active.hear(input)
                } else {
                    last_and_stopped(active, input, stop)
                };
            }
        }
        if let Some(paid) = paid {
            crate::actor::usage_records::note(paid, &mut step.events);
        }
        if step != Step::default() {
            self.take_step(step).await;
        }
    }

    /// Asks the server of a call what comes of it, which another daemon made.
    pub(crate) fn go_on_with(&mut self, left: LeftTask) {
        let Some(active) = &self.turn else { return };
        let (turn, token) = (active.id, active.token.clone());
        self.start_call(turn, left.call, (left.go, Some(left.task)), token);
    }

    /// Questions of servers that work on: who put them has gone, and they come again.
    pub(crate) fn questions_left(&self) -> Vec<UncommittedFact> {
        let turn = self.state.running.as_ref().map(|it| it.turn);
        let open = self.state.turn_confirms();
        let ends = open.map(|it| Resolution::unanswered(it.id, ConfirmFate::Cancelled, None));
        let fact = |end| UncommittedFact {
            turn,
            by: None,
            event: Event::ConfirmResolved(Box::new(end)),
        };
        ends.map(fact).collect()
    }
}

/// The last result that servers owed: the turn stops with it, and does nothing more.
fn last_and_stopped(active: &mut ActiveTurn, input: TurnInput, stop: StopReason) -> Step {
    let mut step = active.hear(input);
    let next = std::mem::take(&mut step.effects);
    step.append(active.hear(TurnInput::Stopped(stop)));
    for effect in next {
        if let Effect::OpenStream(stream) = effect {
            let nothing = TurnInput::ReplyAbandoned(stream, Reply::default());
            step.append(active.hear(nothing));
        }
    }
    step
}
