//! How everybody else reaches a conversation: requests to its actor, and reads that do not enter the mailbox.

use std::num::NonZeroU32;
use std::sync::Arc;

use aish_proto::form::FormContent;
use aish_proto::id::{ConfirmId, ConversationId, Seq, TurnId};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::argument_edit::ArgumentEdit;
use super::evicted_exchanges::EvictedExchange;
use super::follow::LogFollower;
use super::memory_book::BookError;
use super::memory_questions::{KeptFact, PersonFact};
use super::norris::{NorrisLaunch, RunControl};
use super::request_context::{PreviewTarget, PreviewedRequest};
pub use super::request_error::RequestError;
use super::stored_results::{KeptPart, find_kept};
use super::turn_record::{RecordProgress, TurnReport, first_result, report};
use super::user_command::{BegunUserCommand, UserCommandRequest};
use super::view::{ConversationView, LoadingStage, RecentRecords};
use super::viewers::{Attendance, AttendingViewer};
use aishd_log::access::Access;
use aishd_log::budget::BudgetLimits;
use aishd_log::call_list::CallList;
use aishd_log::confirm::{AnsweringPerson, Confirm, Decision, OnConfirm, Resolution};
use aishd_log::constraints::Constraints;
use aishd_log::environment::ClientVariables;
use aishd_log::event::{Attachment, IdempotencyKey, Record, StopReason, TurnOrigin};
use aishd_log::level_request::LevelStep;
use aishd_log::norris::status::RunStatus;
use aishd_log::pinned_resource::PinnedEntry;
use aishd_log::resource::{
    ResourceChange, ResourceChanged, ResourceData, ResourceHead, ResourceName,
};
use aishd_log::time::Timestamp;
use aishd_log::tool::ContentDigest;
use aishd_log::tool_name::Alias;
use aishd_rules::level_request::WantedLevel;
pub use aishd_store::ReadError;
use aishd_store::{PAGE_BYTES, Store, pages};
use aishd_tools::builtin::ReadResult;

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct ConversationHandle {
    pub(super) id: ConversationId,
    pub(super) mailbox: mpsc::Sender<ActorRequest>,
    pub(super) view: watch::Receiver<ConversationView>,
    pub(super) recent: Arc<RecentRecords>,
    pub(super) store: Store,
    pub(super) stopper: TurnStopper,
    pub(super) attendance: Attendance,
}

/// A question, checked for form and size.
#[derive(Clone, Debug)]
pub struct AskRequest {
    pub text: String,
    pub attachments: Vec<Attachment>,
    pub key: IdempotencyKey,
    pub mode: AskMode,
    /// The turn that must be the running one.
    pub expected: Option<TurnId>,
    /// A preset by name, for this turn only.
    pub model: Option<String>,
    pub by: AnsweringPerson,
    pub place: AskPlace,
    /// `None`: a person is asked, whoever that may be.
    pub on_confirm: Option<OnConfirm>,
    /// Rounds of calls; `None`: as many as the configuration allows.
    pub max_tool_depth: Option<NonZeroU32>,
    /// What is run, where no model is asked.
    pub calls: Option<CallList>,
    /// What its commands run with.
    pub environment: ClientVariables,
}

/// Where a question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskPlace {
    Existing,
    /// In a conversation that it makes.
    New,
}

/// An answer to a confirm, checked for form.
#[derive(Clone, Debug)]
pub struct ConfirmAnswer {
    pub confirm: ConfirmId,
    pub decision: Decision,
    /// Of what the person saw.
    pub digest: ContentDigest,
    /// What runs instead, for an edit.
    pub arguments: Option<Map<String, Value>>,
    pub reason: Option<String>,
    /// What a form is filled in with.
    pub content: Option<FormContent>,
    pub by: AnsweringPerson,
}

/// What became of an answer. All of these are results: a late one is no error.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerOutcome {
    /// It is the one that counts, and is in the log.
    Resolved,
    /// Somebody was first: when, who and how.
    AlreadyResolved(Timestamp, Box<Resolution>),
    Expired,
    Cancelled,
    /// What would run is not what the person saw; nothing ran.
    ArgumentsChanged,
    Unknown,
}

/// What became of a wish for a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LevelRequestOutcome {
    /// The provider has it; this is its level.
    Already(Access),
    /// Nobody is asked, and why.
    Unasked(LevelStep, &'static str),
    /// A person is asked. Whoever wants the same meanwhile gets the same question.
    Asked(ConfirmId, LevelStep),
}

/// What to do while another turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskMode {
    Queue,
    Reject,
    Steer,
}

/// A question that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedAsk {
    pub turn: TurnId,
    pub seq: Seq,
    /// 0: it runs; n: it waits as the nth.
    pub position: u32,
    pub duplicate: bool,
}

/// To ask the same again, or to go on.
#[derive(Clone, Debug)]
pub struct AskAgain {
    pub kind: RepeatAsk,
    /// `None`: the last one that finished.
    pub turn: Option<TurnId>,
    pub key: IdempotencyKey,
    pub model: Option<String>,
    pub by: AnsweringPerson,
    pub environment: ClientVariables,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatAsk {
    Retry,
    Continue,
}

impl RepeatAsk {
    pub(super) fn origin(self, turn: TurnId) -> TurnOrigin {
        match self {
            Self::Retry => TurnOrigin::Retry(turn),
            Self::Continue => TurnOrigin::Continue(turn),
        }
    }
}

/// A change that is no turn.
#[derive(Clone, Debug)]
pub enum ConversationChange {
    Title(String),
    Model(Option<String>),
    Archived(bool),
    Level(Alias, LevelChange),
    Pinned(PinnedEntry),
    Unpinned(PinnedEntry),
    Constraints(Constraints),
    Budget(BudgetLimits),
}

/// What a person does to a provider's level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelChange {
    Raise(Access),
    /// Back to the first level, and nothing of it runs unasked any more.
    Revoke,
}

/// A change of the shared context that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceDone {
    pub seq: Seq,
    pub changed: ResourceChanged,
}

/// A change of the queue.
#[derive(Clone, Copy, Debug)]
pub enum QueueChange {
    Remove(TurnId),
    Move(TurnId, u32),
    Resume,
}

type ActorReply<T> = oneshot::Sender<Result<T, RequestError>>;

/// What the actor is asked; each reply comes after the commit.
#[derive(Debug)]
pub(super) enum ActorRequest {
    Send(Box<AskRequest>, ActorReply<AcceptedAsk>),
    Again(Box<AskAgain>, ActorReply<AcceptedAsk>),
    Cancel {
        turn: TurnId,
        by: AnsweringPerson,
        reply: ActorReply<bool>,
    },
    Change(ConversationChange, AnsweringPerson, ActorReply<Seq>),
    Resource(
        Box<ResourceChange>,
        AnsweringPerson,
        ActorReply<ResourceDone>,
    ),
    Queue(QueueChange, AnsweringPerson, ActorReply<()>),
    /// Put an exchange that left back into the context.
    Restore(EvictedExchange, AnsweringPerson, ActorReply<Seq>),
    /// Have the summary of what left out of the context.
    Forget(AnsweringPerson, ActorReply<Seq>),
    Preview(Box<PreviewTarget>, ActorReply<PreviewedRequest>),
    WantLevel(Box<WantedLevel>, ActorReply<LevelRequestOutcome>),
    Launch(Box<NorrisLaunch>, ActorReply<AcceptedAsk>),
    Lead(RunControl, AnsweringPerson, ActorReply<RunStatus>),
    Answer(Box<ConfirmAnswer>, ActorReply<AnswerOutcome>),
    Keep(Box<PersonFact>, ActorReply<Result<KeptFact, BookError>>),
    Edited(Box<ArgumentEdit>, ActorReply<Confirm>),
    RunCommand(Box<UserCommandRequest>, ActorReply<BegunUserCommand>),
    CancelCommand(String, AnsweringPerson, ActorReply<bool>),
    Delete(AnsweringPerson, ActorReply<()>),
    /// Says that everything before it has been done.
    Drain(ActorReply<()>),
}

/// Stops the running turn's work at once, ahead of the mailbox.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnStopper(Arc<Mutex<Option<StoppableWork>>>);

#[derive(Debug)]
struct StoppableWork {
    turn: TurnId,
    token: CancellationToken,
    stopped_by: Option<AnsweringPerson>,
}

impl TurnStopper {
    pub(super) fn set(&self, running: Option<(TurnId, CancellationToken)>) {
        let running = running.map(|(turn, token)| StoppableWork {
            turn,
            token,
            stopped_by: None,
        });
        *self.0.lock() = running;
    }

    /// Who stopped the running turn first.
    pub(super) fn stopped_by(&self) -> Option<AnsweringPerson> {
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
    pub(super) async fn ready(&mut self) -> Result<(), RequestError> {
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

    pub(super) async fn delete(&self, by: AnsweringPerson) -> Result<(), RequestError> {
        self.request(|reply| ActorRequest::Delete(by, reply)).await
    }

    /// Returns once every request before this one has been done, or the actor has gone.
    pub(super) async fn drained(&self) {
        let _gone = self.request(ActorRequest::Drain).await;
    }

    pub(super) async fn request<T>(
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
