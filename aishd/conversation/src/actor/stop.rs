//! Ending what runs: because somebody cancelled it, because the daemon stops, or because the conversation is deleted.

use aish_proto::id::TurnId;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::event::StopReason;
use aishd_turn::turn::TurnInput;
use tokio::task::AbortHandle;

use crate::actor::Conversation;
use crate::commands::command_queue::CommandQueue;
use crate::context::summarize::SummaryTask;
use crate::request_error::RequestError;
use crate::turns::active_turn::ActiveTurn;

impl Conversation {
    pub(crate) async fn cancel(
        &mut self,
        turn: TurnId,
        by: AnsweringPerson,
    ) -> Result<bool, RequestError> {
        self.call_off(turn, &by);
        if let Some(active) = self.turn.as_mut().filter(|it| it.id == turn) {
            if active.machine.is_at_rest() || active.machine.stands_still() {
                self.stop_now(StopReason::Cancelled).await;
            }
            self.until_over(turn).await;
            if self.stalled.is_some() {
                let why = "the turn was stopped, and its end still waits for the store";
                return Err(RequestError::Storage(why.to_owned()));
            }
            return Ok(true);
        }
        if self.state.queue.iter().any(|it| it.turn == turn) {
            self.remove_queued(turn, by).await?;
            return Ok(true);
        }
        match self.services.store.find_turn(turn)? {
            Some(place) if place.conversation == self.id => Ok(false),
            Some(_) | None => Err(RequestError::UnknownTurn(turn)),
        }
    }

    /// Ends the work of a running turn; what it owes is still to be said.
    pub(crate) fn call_off(&mut self, turn: TurnId, by: &AnsweringPerson) {
        if let Some(active) = self.turn.as_mut().filter(|it| it.id == turn) {
            active.call_off(by);
        }
    }

    /// Why a turn ends whose work was dropped.
    pub(crate) fn stop_of_token(&self) -> StopReason {
        if self.services.stopping.is_cancelled() {
            StopReason::Interrupted
        } else {
            StopReason::Cancelled
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.turn.as_ref().is_some_and(|it| it.token.is_cancelled())
    }

    /// Ends a turn on which nothing works that could say so.
    pub(crate) async fn stop_now(&mut self, stop: StopReason) {
        let by = self.stopper.stopped_by();
        if let Some(active) = &mut self.turn {
            active.stopped_by = active.stopped_by.take().or(by);
            let mut step = active.hear(TurnInput::Stopped(stop));
            self.name_tasks(&mut step);
            Box::pin(self.take_step(step)).await;
        }
    }

    /// Lets the stopped turn say what it still owes; its work was dropped, so this takes no time.
    pub(crate) async fn until_over(&mut self, turn: TurnId) {
        self.work_while(|it| it.turn.as_ref().is_some_and(|it| it.id == turn))
            .await;
    }

    /// Takes in what tasks come to, for as long as that is waited for, there are tasks, and the store takes it.
    pub(crate) async fn work_while(&mut self, waits: impl Fn(&Self) -> bool) {
        while waits(self) && self.stalled.is_none() {
            match self.io.join_next().await {
                Some(Ok(done)) => Box::pin(self.apply_done(done)).await,
                Some(Err(_aborted)) => {}
                None => return,
            }
        }
    }

    /// The daemon stops: what runs ends as interrupted, with what it has said.
    pub(crate) async fn finish(&mut self) {
        self.retry_commit().await;
        // A turn that waits for a person waits for the next daemon too, and so does a run that was stopped.
        let waits = |it: &ActiveTurn| it.machine.asking().is_some() || it.machine.stands_still();
        let works = |it: &Self| it.turn.as_ref().is_some_and(|it| !waits(it));
        self.work_while(|it| works(it) && !it.is_left_to_servers())
            .await;
        self.until_own_over(None).await;
        self.until_jobs_over().await;
        self.io.shutdown().await;
    }

    /// Takes back a turn whose beginning could not be stored, with its request. What else is under way goes on.
    pub(crate) async fn unask(&mut self, asking: Option<AbortHandle>) {
        self.turn = None;
        self.stopper.set(None);
        let Some(asking) = asking else { return };
        asking.abort();
        // The next try may have the same names, so that nothing of this one may be left.
        let mut others = vec![];
        while let Some(ended) = self.io.join_next_with_id().await {
            match ended {
                Ok((task, _)) if task == asking.id() => break,
                Ok((_, done)) => others.push(done),
                Err(aborted) if aborted.id() == asking.id() => break,
                Err(_aborted) => {}
            }
        }
        for done in others {
            self.io.spawn(std::future::ready(done));
        }
    }

    /// Drops whatever runs, without a word in the log.
    pub(crate) async fn abandon(&mut self) {
        self.turn = None;
        self.stalled = None;
        self.resolving = None;
        self.summing = SummaryTask::default();
        self.commands = CommandQueue::default();
        self.jobs.clear();
        self.proposing = false;
        self.titling = false;
        self.services.caught_up.forget(self.id);
        self.stopper.set(None);
        self.io.shutdown().await;
    }
}
