//! How everybody else reaches a conversation: requests to its actor, and reads that do not enter the mailbox.

use std::sync::Arc;

use aish_proto::id::{ConversationId, JobId, Seq, TurnId};
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::confirm::Confirm;
use aishd_log::event::{Record, StopReason};
use aishd_log::eviction::EvictedExchange;
use aishd_log::norris::status::RunStatus;
use aishd_log::resource::{ResourceChange, ResourceData, ResourceHead, ResourceName};
use aishd_log::run_changes::ChangesPart;
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use aishd_log::todo::Todo;
use aishd_log::tried::TriedCommand;
use aishd_rules::level_request::WantedLevel;
pub use aishd_store::ReadError;
use aishd_store::{PAGE_BYTES, Store, pages};
use aishd_tools::builtin::ReadResult;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::commands::job::{JobBook, LiveJob};
use crate::context::preview::{PreviewTarget, PreviewedRequest};
use crate::context::stored_results::{KeptPart, find_kept};
use crate::context::todos;
pub use crate::request_error::RequestError;
use crate::requests::{
    AcceptedAsk, ActorReply, ActorRequest, AnswerOutcome, ArgumentEdit, AskAgain, AskRequest,
    BegunUserCommand, ConfirmAnswer, ConversationChange, LevelRequestOutcome, NorrisLaunch,
    PartRequest, QueueChange, ResourceDone, RunControl, TrialRequest, UserCommandRequest,
};
use crate::view::follow::LogFollower;
use crate::view::turn_record::{RecordProgress, TurnReport, first_result, report};
use crate::view::viewers::{Attendance, AttendingViewer};
use crate::view::{ConversationView, LoadingStage, RecentRecords};

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct ConversationHandle {
    pub(crate) id: ConversationId,
    pub(crate) mailbox: mpsc::Sender<ActorRequest>,
    pub(crate) view: watch::Receiver<ConversationView>,
    pub(crate) recent: Arc<RecentRecords>,
    pub(crate) store: Store,
    pub(crate) stopper: TurnStopper,
    pub(crate) attendance: Attendance,
    pub(crate) jobs: JobBook,
}

/// Stops the running turn's work at once, ahead of the mailbox.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnStopper(Arc<Mutex<Option<StoppableWork>>>);

#[derive(Debug)]
struct StoppableWork {
    turn: TurnId,
    token: CancellationToken,
    stopped_by: Option<AnsweringPerson>,
}

impl TurnStopper {
    pub(crate) fn set(&self, running: Option<(TurnId, CancellationToken)>) {
        let running = running.map(|(turn, token)| StoppableWork {
            turn,
            token,
            stopped_by: None,
        });
        *self.0.lock() = running;
    }

    /// Who stopped the running turn first.
    pub(crate) fn stopped_by(&self) -> Option<AnsweringPerson> {
        let running = self.0.lock();
        running.as_ref().and_then(|it| it.stopped_by.clone())
    }

    /// False: another turn runs, or none.
    fn stop(&self, turn: TurnId, by: &AnsweringPerson) -> bool {
        let mut running = self.0.lock();
        let Some(running) = running.as_mut().filter(|it| it.turn == turn) else {
            return false;
        };
        running.stopped_by.get_or_insert_with(|| by.clone());
        running.token.cancel();
        true
    }
}

impl ConversationHandle {
    pub fn id(&self) -> ConversationId {
        self.id
    }

    pub fn view(&self) -> watch::Receiver<ConversationView> {
        self.view.clone()
    }

    /// Waits until the actor has read its state.
    pub(crate) async fn ready(&mut self) -> Result<(), RequestError> {
        let view = self
            .view
            .wait_for(|it| !matches!(it.loading, LoadingStage::Loading))
            .await
            .map_err(|_closed| RequestError::Closed)?;
        loaded(&view)
    }

    /// Returns once the question is durable.
    pub async fn send(&self, ask: AskRequest) -> Result<AcceptedAsk, RequestError> {
        self.request(|reply| ActorRequest::Send(Box::new(ask), reply))
            .await
    }

    /// Returns once the new turn is durable.
    pub async fn repeat(&self, again: AskAgain) -> Result<AcceptedAsk, RequestError> {
        self.request(|reply| ActorRequest::Again(Box::new(again), reply))
            .await
    }

    /// Launches a run; returns once that is durable.
    pub async fn launch(&self, launching: NorrisLaunch) -> Result<AcceptedAsk, RequestError> {
        self.request(|reply| ActorRequest::Launch(Box::new(launching), reply))
            .await
    }

    /// Pauses or resumes the run; returns once that is durable, with how it stands then.
    pub async fn lead(
        &self,
        lead: RunControl,
        by: AnsweringPerson,
    ) -> Result<RunStatus, RequestError> {
        self.request(|reply| ActorRequest::Lead(lead, by, reply))
            .await
    }

    /// Stops the turn now; returns once that is in the log. False: it was over already.
    pub async fn cancel(&self, turn: TurnId, by: AnsweringPerson) -> Result<bool, RequestError> {
        let ran = self.stopper.stop(turn, &by);
        let request = |reply| ActorRequest::Cancel { turn, by, reply };
        let stopped = self.request(request).await?;
        // The actor may have ended it on the stopper's word, before it read the request.
        Ok(stopped || (ran && self.turn(turn)?.stop == Some(StopReason::Cancelled)))
    }

    pub async fn change(
        &self,
        change: ConversationChange,
        by: AnsweringPerson,
    ) -> Result<Seq, RequestError> {
        self.request(|reply| ActorRequest::Change(change, by, reply))
            .await
    }

    /// Returns once the change of the shared context is durable.
    pub async fn change_resource(
        &self,
        change: ResourceChange,
        by: AnsweringPerson,
    ) -> Result<ResourceDone, RequestError> {
        self.request(|reply| ActorRequest::Resource(Box::new(change), by, reply))
            .await
    }

    /// A resource of the shared context, with its data.
    pub fn resource(
        &self,
        name: &ResourceName,
    ) -> Result<Option<(ResourceHead, ResourceData)>, ReadError> {
        self.store.resource_data(self.id, name)
    }

    /// At most `limit` resources behind `after`, in the order of their names.
    pub fn resources(
        &self,
        after: Option<&ResourceName>,
        limit: usize,
    ) -> Result<Vec<(ResourceName, ResourceHead)>, ReadError> {
        self.store.resources(self.id, after, limit)
    }

    /// Returns once an exchange that had left the context is back.
    pub async fn restore(
        &self,
        gone: EvictedExchange,
        by: AnsweringPerson,
    ) -> Result<Seq, RequestError> {
        self.request(|reply| ActorRequest::Restore(gone, by, reply))
            .await
    }

    /// Returns once the summary of what left is forgotten.
    pub async fn forget(&self, by: AnsweringPerson) -> Result<Seq, RequestError> {
        self.request(|reply| ActorRequest::Forget(by, reply)).await
    }

    /// The request that would be sent.
    pub async fn preview(
        &self,
        previewing: PreviewTarget,
    ) -> Result<PreviewedRequest, RequestError> {
        self.request(|reply| ActorRequest::Preview(Box::new(previewing), reply))
            .await
    }

    pub async fn change_queue(
        &self,
        change: QueueChange,
        by: AnsweringPerson,
    ) -> Result<(), RequestError> {
        self.request(|reply| ActorRequest::Queue(change, by, reply))
            .await
    }

    /// Returns once the answer is in the log, if it is the one that counts, and what it allows has begun.
    pub async fn answer(&self, answering: ConfirmAnswer) -> Result<AnswerOutcome, RequestError> {
        self.request(|reply| ActorRequest::Answer(Box::new(answering), reply))
            .await
    }

    /// Returns once the question is durable, where a person is asked. It waits for no answer.
    pub async fn want_level(
        &self,
        wanted: WantedLevel,
    ) -> Result<LevelRequestOutcome, RequestError> {
        self.request(|reply| ActorRequest::WantLevel(Box::new(wanted), reply))
            .await
    }

    /// A person looks, until the value is dropped.
    pub fn attend(&self) -> AttendingViewer {
        self.attendance.attend()
    }

    /// Whether a question of this key was taken here in the last day.
    pub fn knows_key(&self, key: &str) -> Result<bool, ReadError> {
        Ok(self.store.find_key(self.id, key)?.is_some())
    }

    /// What was asked with this key in the last day.
    pub fn asked_with(&self, key: &str) -> Result<Option<Record>, ReadError> {
        match self.store.find_key(self.id, key)? {
            Some(used) => self.store.record(self.id, used.message_seq),
            None => Ok(None),
        }
    }

    /// Some bytes of a result that the log keeps whole.
    pub fn read_result(&self, wanted: ReadResult) -> Result<Option<KeptPart>, ReadError> {
        let head = self.view.borrow().state.last_seq;
        find_kept(&self.store, self.id, head, wanted)
    }

    pub(crate) async fn delete(&self, by: AnsweringPerson) -> Result<(), RequestError> {
        self.request(|reply| ActorRequest::Delete(by, reply)).await
    }

    pub(crate) async fn delete_unused(&self, since: Timestamp) -> Result<bool, RequestError> {
        self.request(|reply| ActorRequest::DeleteUnused(since, reply))
            .await
    }

    /// Returns once every request before this one has been done, or the actor has gone.
    pub(crate) async fn drained(&self) {
        let _gone = self.request(ActorRequest::Drain).await;
    }

    pub(crate) async fn request<T>(
        &self,
        make: impl FnOnce(ActorReply<T>) -> ActorRequest,
    ) -> Result<T, RequestError> {
        let (reply, answer) = oneshot::channel();
        self.mailbox
            .send(make(reply))
            .await
            .map_err(|_gone| RequestError::Closed)?;
        answer.await.map_err(|_gone| RequestError::Closed)?
    }

    /// Follows from `cursor` on; with `wants_live`, text while it is being written too.
    pub fn follow(&self, cursor: Seq, wants_live: bool) -> LogFollower {
        LogFollower::new(self.clone(), cursor, wants_live)
    }

    /// Records after `cursor`, about `max_bytes` of them.
    pub fn records_after(
        &self,
        cursor: Seq,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Record>>, ReadError> {
        if let Some(recent) = self.recent.after(cursor, max_bytes) {
            return Ok(recent);
        }
        let records = self.store.records_after(self.id, cursor, max_bytes)?;
        Ok(records.into_iter().map(Arc::new).collect())
    }

    /// The records after `cursor`, oldest first, read as they are wanted. Blocks; ends with the first error.
    pub fn records(&self, mut cursor: Seq) -> impl Iterator<Item = Result<Arc<Record>, ReadError>> {
        pages(move || {
            let page = self.records_after(cursor, PAGE_BYTES)?;
            cursor = page.last().map_or(cursor, |it| it.seq);
            Ok(page)
        })
    }

    /// The last records before `before`, oldest first.
    pub fn records_before(
        &self,
        before: Seq,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<Record>, ReadError> {
        self.store.records_before(self.id, before, limit, max_bytes)
    }

    /// The tasks of its model, as of a state.
    pub fn todos(&self, state: &ConversationState) -> Result<Vec<Todo>, ReadError> {
        todos::find(&self.store, self.id, state.todos_seq)
    }

    pub fn record(&self, seq: Seq) -> Result<Option<Record>, ReadError> {
        self.store.record(self.id, seq)
    }

    /// What there is to say about a turn now.
    pub fn turn(&self, turn: TurnId) -> Result<TurnReport, RequestError> {
        loaded(&self.view.borrow())?;
        let place = self
            .store
            .find_turn(turn)?
            .filter(|it| it.conversation == self.id)
            .ok_or(RequestError::UnknownTurn(turn))?;
        let state = self.view.borrow().state.clone();
        let report = report(self, turn, place.message_seq, &state)?;
        // The view was older than the log, or the conversation is being removed: ask again.
        let torn = report.progress == RecordProgress::Finished && report.stop.is_none();
        if torn {
            Err(RequestError::Closed)
        } else {
            Ok(report)
        }
    }

    /// The first reply of a call in a turn; the turn's end, if it has none.
    pub fn first_result(
        &self,
        turn: TurnId,
        message_seq: Seq,
    ) -> Result<Option<Arc<Record>>, ReadError> {
        first_result(self, turn, message_seq)
    }

    /// Waits until the turn is over.
    pub async fn wait(&self, turn: TurnId) -> Result<TurnReport, RequestError> {
        let mut view = self.view();
        loop {
            let unsettled = {
                let state = view.borrow_and_update().state.clone();
                state.running.as_ref().is_some_and(|it| it.turn == turn)
                    || state.queue.iter().any(|it| it.turn == turn)
            };
            if !unsettled {
                return self.turn(turn);
            }
            view.changed().await.map_err(|_gone| RequestError::Closed)?;
        }
    }
}

fn loaded(view: &ConversationView) -> Result<(), RequestError> {
    match &view.loading {
        LoadingStage::Ready => Ok(()),
        LoadingStage::Missing => Err(RequestError::Missing),
        LoadingStage::Failed(why) => Err(RequestError::Storage(why.clone())),
        LoadingStage::Loading => Err(RequestError::Closed),
    }
}

impl ConversationHandle {
    /// Returns once its start is in the log, or it waits.
    pub async fn run_command(
        &self,
        wanted: UserCommandRequest,
    ) -> Result<BegunUserCommand, RequestError> {
        self.request(|reply| ActorRequest::RunCommand(Box::new(wanted), reply))
            .await
    }

    /// Returns once the trial has ended, and is in the log.
    pub async fn try_command(
        &self,
        wanted: TrialRequest,
    ) -> Result<Box<TriedCommand>, RequestError> {
        self.request(|reply| ActorRequest::Try(Box::new(wanted), reply))
            .await
    }

    /// Returns once what was wanted of the changes of a run is done, and is in the log.
    pub async fn take_part(&self, wanted: PartRequest) -> Result<Box<ChangesPart>, RequestError> {
        self.request(|reply| ActorRequest::Part(Box::new(wanted), reply))
            .await
    }

    /// Ends one that runs or waits; false: it was over. Returns once its end is in the log.
    pub async fn cancel_command(
        &self,
        call: String,
        by: AnsweringPerson,
    ) -> Result<bool, RequestError> {
        self.request(|reply| ActorRequest::CancelCommand(call, by, reply))
            .await
    }
}

impl ConversationHandle {
    /// One that this daemon has started here, also when it has ended.
    pub fn live_job(&self, job: JobId) -> Option<Arc<LiveJob>> {
        self.jobs.find(job)
    }

    /// Ends a command in the background; false: it was over. Returns once nothing of it is left and its end is in the log.
    pub async fn stop_job(&self, job: JobId, by: AnsweringPerson) -> Result<bool, RequestError> {
        let request = |reply| ActorRequest::StopJob(job, by, reply);
        match self.request(request).await? {
            Some(live) => {
                let ended = live.until_ended().await;
                ended.map(|_| true).ok_or(RequestError::Closed)
            }
            None => Ok(false),
        }
    }
}

impl ConversationHandle {
    /// How the question would read with these arguments. What may not run, or is nothing to run, is refused.
    pub async fn edited(&self, editing: ArgumentEdit) -> Result<Confirm, RequestError> {
        self.request(|reply| ActorRequest::Edited(Box::new(editing), reply))
            .await
    }
}
