//! All conversations: opening them on demand, and what concerns more than one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aish_proto::id::{ConfirmId, ConversationId, Seq, TurnId};
use aishd_broker::Broker;
pub use aishd_broker::Probe as Probed;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::audit::AuditDraft;
use aishd_log::event::Record;
use aishd_log::lasting_environment::LastingEnvironment;
use aishd_log::spending::{Day, SpentSum};
use aishd_log::state::ConversationState;
use aishd_model::model_settings::ModelSettings;
use aishd_platform::clock;
use aishd_rules::boundary::BoundaryGround;
use aishd_rules::catalog::Catalog;
use aishd_rules::policy::Policy;
use aishd_store::{Commit, DiskClaim, Health, ListPage, ReadError, Store};
pub use aishd_store::{ListFilter, ListPosition, ListQuery};
use aishd_tools::ToolRunner;
use aishd_tools::trial::TrialRoom;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::actor::{ActorStart, Conversation};
use crate::commands::command_queue::CommandQueue;
use crate::commands::job::JobBook;
use crate::context::extra_context::DirectoryTold;
use crate::context::memory_book::MemoryBook;
use crate::context::summarize::SummaryTask;
use crate::context::warm_transcripts::HeldTranscript;
use crate::handle::{ConversationHandle, TurnStopper};
use crate::history::import;
use crate::new_conversation::{NewConversation, place};
use crate::open_actors::{ActorEntry, ActorRegistration, OpenActors};
use crate::questions::allowances::ClientAllowances;
use crate::questions::elicitation::ServerQuestions;
use crate::questions::expiry::ConfirmExpiry;
use crate::questions::hosts::HostQuestions;
use crate::questions::pending_questions::{PendingQuestion, PendingQuestions};
use crate::request_error::RequestError;
use crate::requests::{AcceptedAsk, AskRequest};
use crate::services::ActorServices;
use crate::spending::budget::{BudgetMeter, Ledger};
use crate::turns::routing_book::RoutingBook;
use crate::turns::seen_files::SeenFiles;
use crate::turns::tool_definitions::ToolDefinitions;
use crate::view::viewers::{Attendance, QuestionWatchers};
use crate::view::{LoadingStage, ViewPublisher};

/// Requests that may wait in one conversation's mailbox; a sender waits beyond that.
const MAILBOX: usize = 32;
/// Imports at a time; each may hold a line.
const IMPORTS: usize = 4;

/// The way to every conversation; cheap to clone.
#[derive(Clone, Debug)]
pub struct ConversationDirectory {
    pub(crate) services: ActorServices,
    open: OpenActors,
    actors: Arc<Mutex<JoinSet<()>>>,
    started: Arc<AtomicU64>,
    crowded_at: usize,
    /// An actor began, ended, or has another state.
    changed: Arc<Notify>,
    pub(crate) imports: Arc<Semaphore>,
    watchers: QuestionWatchers,
}

impl ConversationDirectory {
    /// `crowded_at`: with more actors than this in memory, idle ones end early.
    pub fn new(services: ActorServices, crowded_at: usize) -> Self {
        Self {
            services,
            open: OpenActors::default(),
            actors: Arc::default(),
            started: Arc::default(),
            crowded_at,
            changed: Arc::default(),
            imports: Arc::new(Semaphore::new(IMPORTS)),
            watchers: QuestionWatchers::default(),
        }
    }

    /// Conversations in memory, and how many of them have a turn that runs.
    pub fn load(&self) -> (usize, usize) {
        let open = self.open.lock();
        let running = open
            .values()
            .filter(|it| it.views.borrow().state.running.is_some());
        (open.len(), running.count())
    }

    /// Waits until [`ConversationDirectory::load`] may be different. For one waiter.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    pub fn health(&self) -> Health {
        self.services.store.health()
    }

    pub fn models(&self) -> Arc<ModelSettings> {
        self.services.models.borrow().clone()
    }

    pub fn store(&self) -> &Store {
        &self.services.store
    }

    /// Who watches the questions of all conversations.
    pub fn watchers(&self) -> &QuestionWatchers {
        &self.watchers
    }

    /// Where commands are tried and runs work.
    pub fn trials(&self) -> &TrialRoom {
        &self.services.trials
    }

    /// What commands of runs are kept within.
    pub fn ground(&self) -> &BoundaryGround {
        &self.services.ground
    }

    /// What is spent on a day, by everybody.
    pub fn ledger(&self) -> &Ledger {
        &self.services.ledger
    }

    /// What was taken of models from this day on, oldest first.
    pub async fn spent_since(&self, day: Day) -> Result<Vec<SpentSum>, RequestError> {
        Ok(self.blocking(move |store| store.spent_since(day)).await??)
    }

    /// What is switched of routing and fallback.
    pub fn routes(&self) -> &RoutingBook {
        &self.services.routes
    }

    /// What people keep for all conversations.
    pub fn book(&self) -> &MemoryBook {
        &self.services.book
    }

    pub fn broker(&self) -> &Broker {
        &self.services.broker
    }

    pub async fn probe_models(&self, only: Option<&str>) -> Vec<Probed> {
        self.services.broker.probe(&self.models(), only).await
    }

    /// Opens every conversation that has work left from the last daemon, so that it is ended or goes on.
    pub fn resume(&self) -> Result<usize, ReadError> {
        let unsettled = self.services.store.unsettled();
        let unsettled = unsettled.and_then(|it| self.half_imported(&it));
        let (halves, whole) = unsettled.inspect_err(|_| {
            // Nobody is to wait for what cannot be read.
            self.services.pending.complete();
        })?;
        for half in halves {
            import::discard(&self.services.store, half);
        }
        let handles: Vec<ConversationHandle> = whole.iter().map(|it| self.handle(*it)).collect();
        let pending = self.services.pending.clone();
        self.actors.lock().spawn(async move {
            for mut handle in handles {
                // What cannot be read says so to whoever opens it.
                let _unreadable = handle.ready().await;
            }
            pending.complete();
        });
        Ok(whole.len())
    }

    /// The conversation, once it has been read.
    pub async fn open(&self, id: ConversationId) -> Result<ConversationHandle, RequestError> {
        if self.services.stopping.is_cancelled() {
            return Err(RequestError::Draining);
        }
        let mut handle = self.handle(id);
        handle.ready().await?;
        Ok(handle)
    }

    /// Runs `call` on the conversation; when its actor was just closing, on the one that replaces it.
    pub async fn with<T, F>(
        &self,
        id: ConversationId,
        call: impl Fn(ConversationHandle) -> F,
    ) -> Result<T, RequestError>
    where
        F: Future<Output = Result<T, RequestError>>,
    {
        let mut last = RequestError::Closed;
        for _ in 0..3 {
            match self.open(id).await {
                Ok(handle) => match call(handle).await {
                    Err(RequestError::Closed) => {}
                    done => return done,
                },
                Err(error) => last = error,
            }
            if !matches!(last, RequestError::Closed) {
                break;
            }
        }
        Err(last)
    }

    /// What is configured about calls.
    pub fn policy(&self) -> Arc<Policy> {
        self.services.policy.borrow().clone()
    }

    /// All tools that there are, and what can be asked of them.
    pub fn tools(&self) -> &ToolRunner {
        &self.services.tools
    }

    /// All tools that there are.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.services.tools.catalog()
    }

    /// Whether a person looks at this conversation now.
    pub fn is_attended(&self, id: ConversationId) -> bool {
        let open = self.open.lock();
        open.get(&id).is_some_and(|it| it.attendance.is_attended())
    }

    /// What attached clients let run unasked.
    pub fn allowances(&self) -> &ClientAllowances {
        &self.services.allowances
    }

    pub fn definitions(&self) -> &ToolDefinitions {
        &self.services.definitions
    }

    /// Every confirm that waits for a person.
    pub fn pending(&self) -> &PendingQuestions {
        &self.services.pending
    }

    /// A confirm's question, and its end if it has one.
    pub async fn confirm(
        &self,
        confirm: ConfirmId,
    ) -> Result<Option<(PendingQuestion, Option<Record>)>, RequestError> {
        let store = self.services.store.clone();
        self.blocking(move |_| {
            let Some(place) = store.find_confirm(confirm)? else {
                return Ok(None);
            };
            let requested = store.record(place.conversation, place.requested)?;
            let resolved = match place.resolved {
                Some(seq) => store.record(place.conversation, seq)?,
                None => None,
            };
            let question = requested.and_then(|it| PendingQuestion::of(place.conversation, &it));
            let question = match question {
                Some(question) if place.resolved.is_none() => Some(question.with_trial(&store)?),
                other => other,
            };
            Ok(question.map(|it| (it, resolved)))
        })
        .await?
        .map_err(|error: ReadError| error.into())
    }

    /// The conversation that a turn belongs to.
    pub async fn with_turn<T, F>(
        &self,
        turn: TurnId,
        call: impl Fn(ConversationHandle) -> F,
    ) -> Result<T, RequestError>
    where
        F: Future<Output = Result<T, RequestError>>,
    {
        let place = self.services.store.find_turn(turn)?;
        let place = place.ok_or(RequestError::UnknownTurn(turn))?;
        self.with(place.conversation, call).await
    }

    fn handle(&self, id: ConversationId) -> ConversationHandle {
        self.find_or_start(id, ActorStart::Stored)
    }

    /// Under one lock, so that two callers never start two.
    fn find_or_start(&self, id: ConversationId, start: ActorStart) -> ConversationHandle {
        let mut open = self.open.lock();
        if let Some(entry) = open.get(&id).filter(|it| !it.mailbox.is_closed()) {
            return self.handle_to(id, entry);
        }
        let (mailbox, requests) = mpsc::channel(MAILBOX);
        let (publisher, views, recent) = ViewPublisher::new(self.changed.clone());
        let stopper = TurnStopper::default();
        let attendance = Attendance::beside(&self.watchers);
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let jobs = JobBook::default();
        let entry = ActorEntry {
            jobs: jobs.clone(),
            mailbox,
            views,
            recent,
            stopper: stopper.clone(),
            attendance: attendance.clone(),
            number,
        };
        let handle = self.handle_to(id, &entry);
        let actor = Conversation {
            id,
            services: self.services.clone(),
            state: ConversationState::default(),
            transcript: HeldTranscript::default(),
            turn: None,
            resolving: None,
            unborn: None,
            stalled: None,
            mailbox: requests,
            io: JoinSet::new(),
            publisher,
            stopper,
            expiry: ConfirmExpiry::new(attendance),
            forms: ServerQuestions::default(),
            hosts: HostQuestions::default(),
            own: None,
            summing: SummaryTask::default(),
            commands: CommandQueue::default(),
            jobs: jobs.clone(),
            lasting: LastingEnvironment::default(),
            left_by_trial: None,
            trial: None,
            settling: None,
            part: None,
            tried_unasked: None,
            changes: vec![],
            seen_files: SeenFiles::default(),
            keeping: None,
            proposing: false,
            titling: false,
            told: DirectoryTold::default(),
            unknown_told: BTreeSet::new(),
            budget: BudgetMeter::new(
                self.services.ledger.clone(),
                self.services.models.clone(),
                self.services.tokens.clone(),
            ),
            registration: ActorRegistration {
                id,
                number,
                open: self.open.clone(),
                crowded_at: self.crowded_at,
                changed: self.changed.clone(),
                jobs,
            },
        };
        open.insert(id, entry);
        drop(open);
        let mut actors = self.actors.lock();
        while actors.try_join_next().is_some() {}
        let span = tracing::info_span!("conversation", conversation = %id);
        actors.spawn(actor.run(start).instrument(span));
        handle
    }

    fn handle_to(&self, id: ConversationId, entry: &ActorEntry) -> ConversationHandle {
        ConversationHandle {
            id,
            mailbox: entry.mailbox.clone(),
            view: entry.views.subscribe(),
            recent: entry.recent.clone(),
            store: self.services.store.clone(),
            stopper: entry.stopper.clone(),
            attendance: entry.attendance.clone(),
            jobs: entry.jobs.clone(),
        }
    }

    /// Makes a conversation; returns once it is durable.
    pub async fn create(
        &self,
        new: NewConversation,
        by: AnsweringPerson,
    ) -> Result<(ConversationId, Seq), RequestError> {
        if self.services.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        self.check_model(&new)?;
        let id = ConversationId(clock::ulid());
        let mut state = ConversationState::default();
        let records = vec![place(&mut state, None, new.created())];
        let seq = state.last_seq;
        self.commit(id, records, state, by).await?;
        Ok((id, seq))
    }

    /// Asks in a conversation of this id that becomes durable together with the question.
    pub async fn ask_first(
        &self,
        id: ConversationId,
        new: NewConversation,
        ask: &AskRequest,
    ) -> Result<AcceptedAsk, RequestError> {
        if self.services.stopping.is_cancelled() {
            return Err(RequestError::Draining);
        }
        self.check_model(&new)?;
        for _ in 0..3 {
            // As long as the store remembers it: the same call again must not bring it back.
            if self.services.store.is_deleted(id)? {
                return Err(RequestError::Deleted);
            }
            let handle = self.find_or_start(id, ActorStart::OrNew(new.clone()));
            match handle.send(ask.clone()).await {
                Err(RequestError::Closed) => {
                    if let LoadingStage::Failed(why) = &handle.view().borrow().loading {
                        return Err(RequestError::Storage(why.clone()));
                    }
                }
                done => return done,
            }
        }
        Err(RequestError::Closed)
    }

    pub(crate) fn check_model(&self, new: &NewConversation) -> Result<(), RequestError> {
        let Some(name) = new.model.as_ref().filter(|it| *it != "demo") else {
            return Ok(());
        };
        if self.models().within(&new.cwd).presets.contains_key(name) {
            return Ok(());
        }
        Err(RequestError::UnknownModel(name.clone()))
    }

    /// Stores a conversation that somebody made.
    pub(crate) async fn commit(
        &self,
        conversation: ConversationId,
        records: Vec<Record>,
        state: ConversationState,
        by: AnsweringPerson,
    ) -> Result<(), RequestError> {
        // Of the first only: what is copied was told of where it happened.
        let made = records.first();
        let told =
            made.and_then(|it| AuditDraft::of(conversation, &ConversationState::default(), it));
        let audit = told.map(|it| it.by(Some(by))).into_iter().collect();
        let commit = Commit::new(conversation, records, state, audit).claiming(DiskClaim::Begin);
        Ok(self.services.store.commit(commit).await?)
    }

    /// Removes a conversation and whatever runs in it.
    pub async fn delete(
        &self,
        id: ConversationId,
        by: AnsweringPerson,
    ) -> Result<(), RequestError> {
        self.with(id, |handle| {
            let by = by.clone();
            async move { handle.delete(by).await }
        })
        .await
    }

    /// A page of the list, last used first.
    pub async fn list(&self, query: ListQuery) -> Result<ListPage, RequestError> {
        Ok(self.blocking(move |store| store.list(&query)).await??)
    }

    /// How many conversations there are.
    pub async fn count(&self) -> Result<u64, RequestError> {
        Ok(self.blocking(Store::count).await??)
    }

    /// Of these, those that there are, with their states.
    pub async fn states_of(
        &self,
        ids: Vec<ConversationId>,
    ) -> Result<HashMap<ConversationId, ConversationState>, RequestError> {
        Ok(self.blocking(|store| seen_states(store, ids)).await??)
    }

    /// The states of those that have work, or ask a person something beside it.
    pub async fn unsettled(&self) -> Result<Vec<ConversationState>, RequestError> {
        let states = self.blocking(|store| seen_states(store, store.unsettled()?));
        Ok(states.await??.into_values().collect())
    }

    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Store) -> T + Send + 'static,
    ) -> Result<T, RequestError> {
        let store = self.services.store.clone();
        tokio::task::spawn_blocking(move || read(&store))
            .await
            .map_err(|panic| RequestError::Storage(panic.to_string()))
    }

    /// Waits until no turn runs. New ones must not start meanwhile.
    pub async fn settled(&self) {
        let handles: Vec<ConversationHandle> = self
            .open
            .lock()
            .iter()
            .map(|(id, entry)| self.handle_to(*id, entry))
            .collect();
        for mut handle in handles {
            // A question that was let in a moment ago is on its way to the disk, and no view shows it yet.
            handle.drained().await;
            let _closed = handle
                .view
                .wait_for(|it| {
                    // One that waits for a person, or for servers, goes on waiting with the next daemon.
                    let waits = it.state.waits_for_person() || it.state.waits_for_tasks();
                    (it.state.running.is_none() || waits) && it.waits_for_store.is_none()
                })
                .await;
        }
    }

    /// Waits until every actor has ended; they do once the stopping token says so.
    pub async fn closed(&self) {
        let mut actors = std::mem::take(&mut *self.actors.lock());
        while actors.join_next().await.is_some() {}
    }
}

/// Nobody sees half an import.
fn seen_states(
    store: &Store,
    ids: Vec<ConversationId>,
) -> Result<HashMap<ConversationId, ConversationState>, ReadError> {
    let mut states = HashMap::new();
    for id in ids {
        let state = store.state(id)?.filter(|it| !it.importing);
        states.extend(state.map(|it| (id, it)));
    }
    Ok(states)
}
