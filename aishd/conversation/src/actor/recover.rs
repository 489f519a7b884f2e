//! Coming back: reading a conversation from the store, and ending what the last daemon left open.

use std::sync::Arc;

use aish_proto::id::{Seq, TurnId};
use aishd_log::confirm::{ConfirmFate, Resolution};
use aishd_log::ending::CommandEnding;
use aishd_log::event::{Event, RefusedCall, StopReason};
use aishd_log::server_task::ServerTask;
use aishd_log::shell::OutputUse;
use aishd_log::spending::PaidRequest;
use aishd_log::state::ConversationState;
use aishd_log::state::confirms::OpenConfirm;
use aishd_log::state::turns::OpenCall;
use aishd_log::tool_call::ToolCall;
use aishd_platform::failpoint;
use aishd_rules::server_request::UNKNOWN_WHILE_ASKING;
use aishd_store::{Loaded, Partial};
use aishd_turn::transcript::Transcript;
use aishd_turn::turn::{
    Step, answer_with_calls, not_begun, refuse_calls, unfinished_command, unknown_effect,
};

use crate::actor::usage_records::note;
use crate::actor::{Conversation, finished};
use crate::context::evicted_exchanges;
use crate::new_conversation::{NewConversation, place};
use crate::pending_commit::{PendingCommit, UncommittedFact};
use crate::view::{LiveChange, LoadingStage};

impl Conversation {
    /// Reads the state; false when there is nothing to be an actor for.
    pub(crate) async fn load(&mut self) -> bool {
        let (store, id) = (self.services.store.clone(), self.id);
        let loaded = tokio::task::spawn_blocking(move || store.load(id)).await;
        let Loaded { state, partial } = match loaded {
            Ok(Ok(Some(loaded))) => loaded,
            Ok(Ok(None)) => return self.cannot(LoadingStage::Missing),
            Ok(Err(error)) => return self.cannot(LoadingStage::Failed(error.to_string())),
            Err(panic) => return self.cannot(LoadingStage::Failed(panic.to_string())),
        };
        if state.importing {
            return self.cannot(LoadingStage::Missing);
        }
        self.state = state;
        self.load_environment().await;
        self.budget.begin(&self.state);
        let waits = self.resume();
        let mut facts = self.own_left();
        facts.extend(self.jobs_left());
        facts.extend(self.hosts_left());
        let tasks = if waits { None } else { self.resume_tasks() };
        if tasks.is_some() {
            facts.extend(self.questions_left());
        } else if !waits {
            let paid = self.interrupted_request(partial.as_ref()).await;
            // A run stands still until a person says that it goes on; everything else ends.
            let end = match self.take_up_run() {
                Some(paused) => paused,
                None => vec![finished(StopReason::Interrupted)],
            };
            let left = leftovers(&self.state, partial, &self.unannounced(), paid, end);
            facts.extend(left);
        }
        let ends = self.turn.is_none();
        self.make_known(waits);
        if !facts.is_empty() {
            failpoint::pass("recover.before_commit");
            match self.commit(&facts, LiveChange::End).await {
                Ok(_) => tracing::info!("what was interrupted was ended"),
                // Reading works all the same, and the end is stored when there is room.
                Err(error) => {
                    let pending = PendingCommit::led(facts, vec![], ends);
                    self.wait_for_store(pending, &error);
                }
            }
        }
        self.publisher.loaded(LoadingStage::Ready, &self.state);
        for left in tasks.unwrap_or_default() {
            self.go_on_with(left);
        }
        true
    }

    /// As [`Conversation::load`], where one that is not stored is new. Nobody sees it before its first commit.
    pub(crate) async fn load_or_new(&mut self, new: NewConversation) -> bool {
        match self.services.store.load(self.id) {
            Ok(None) => {
                let created = place(&mut self.state, None, new.created());
                self.unborn = Some(created);
                self.budget.begin(&self.state);
                self.transcript.held = Some(Transcript::default());
                true
            }
            Ok(Some(_)) => self.load().await,
            Err(error) => self.cannot(LoadingStage::Failed(error.to_string())),
        }
    }

    /// Open confirms are offered again, with the same id and bytes; those of a turn only if it waits.
    fn make_known(&mut self, waits: bool) {
        let mut records = vec![];
        let confirms = self.state.confirms.iter();
        for open in confirms.filter(|it| waits || it.aside.is_some()) {
            for seq in [Some(open.seq), open.tried].into_iter().flatten() {
                match self.services.store.record(self.id, seq) {
                    Ok(record) => records.extend(record),
                    Err(error) => {
                        tracing::warn!(conversation = %self.id, confirm = %open.id, %error, "an open confirm cannot be read");
                    }
                }
            }
        }
        self.note_confirms(&records);
    }

    fn cannot(&self, loading: LoadingStage) -> bool {
        self.publisher
            .loaded(loading, &ConversationState::default());
        false
    }

    /// Reads what the model is to be shown, if that has not been read yet, and what people keep beside it.
    pub(crate) async fn load_transcript(&mut self) -> Result<(), String> {
        if self.transcript.held.is_none() {
            self.transcript.held = Some(self.read_transcript().await?);
        }
        self.tell_background();
        Ok(())
    }

    async fn read_transcript(&self) -> Result<Transcript, String> {
        let (store, id, state) = (self.services.store.clone(), self.id, self.state.clone());
        let read = tokio::task::spawn_blocking(move || {
            let mut transcript = Transcript::default();
            for left in &state.restored {
                if let Some(exchange) = evicted_exchanges::read(&store, id, *left)? {
                    transcript.shelve(exchange);
                }
            }
            let cursor = state.context_begins();
            if state.summary_seq > Seq(0) && state.summary_seq <= cursor {
                let record = store.record(id, state.summary_seq)?;
                record.iter().for_each(|it| transcript.apply(it));
            }
            for record in store.records(id, cursor) {
                let record = record?;
                if record.seq > state.last_seq {
                    break;
                }
                transcript.apply(&record);
            }
            transcript.clear_shelf();
            Ok(transcript)
        });
        let read: Result<Transcript, aishd_store::ReadError> =
            read.await.map_err(|panic| panic.to_string())?;
        read.map_err(|error| error.to_string())
    }
}

fn is_run(state: &ConversationState, turn: TurnId) -> bool {
    state.norris.as_ref().is_some_and(|it| it.turn == turn)
}

/// A command of a turn that nobody waits for any more: one that began is never run again.
fn command_left(open: &OpenCall, command: &str, given: OutputUse) -> Event {
    if open.started {
        return unfinished_command(&open.id, command, CommandEnding::Unknown, given);
    }
    let why = "interrupted by a restart";
    not_begun(&open.id, command, why, given)
}

/// What has to be said of a turn that was running when the daemon ended: the text that is left of it, a
/// reply for each call that has none, those of a list among them that no message has yet, and its end. Nothing is sent
/// or run again by itself.
#[expect(
    clippy::too_many_lines,
    reason = "one kind of thing that is left after another, in the order of the log"
)]
fn leftovers(
    state: &ConversationState,
    partial: Option<Partial>,
    unannounced: &[ToolCall],
    paid: Option<PaidRequest>,
    end: Vec<Event>,
) -> Vec<UncommittedFact> {
    let Some(running) = &state.running else {
        return vec![];
    };
    // A run goes on with it.
    let given = if is_run(state, running.turn) {
        OutputUse::AtOnce
    } else {
        OutputUse::default()
    };
    let mut events = vec![];
    let partial = partial
        .filter(|it| it.turn == running.turn && it.item == running.items && !it.text.is_empty());
    let text: Arc<str> = partial.map(|it| it.text).unwrap_or_default().into();
    if !text.is_empty() {
        events.push(Event::AssistantMessage {
            item: running.items,
            text: text.clone(),
            reasoning: String::new(),
            calls: vec![],
            commands: vec![],
            extra: serde_json::Map::new(),
            sealed: None,
            complete: false,
            served_by: None,
            usage: None,
            payee: None,
        });
    }
    if let Some(paid) = paid {
        note(paid, &mut events);
    }
    for confirm in state.turn_confirms() {
        let end = Resolution::unanswered(confirm.id, ConfirmFate::Cancelled, None);
        events.push(Event::ConfirmResolved(Box::new(end)));
    }
    for call in &running.open_calls {
        if let Some(command) = &call.command {
            events.push(command_left(call, command, given));
            continue;
        }
        let refused = (!call.started).then(|| {
            Box::new(RefusedCall {
                subject: None,
                because: "interrupted by a restart".to_owned(),
                imported: false,
            })
        });
        let asked = |it: &OpenConfirm| it.call.as_ref() == Some(&call.id);
        let known = call.task.as_ref().map(ServerTask::left);
        let content = if let Some(left) = known.as_deref() {
            left
        } else if call.started && state.confirms.iter().any(asked) {
            UNKNOWN_WHILE_ASKING
        } else if call.started {
            unknown_effect(StopReason::Interrupted)
        } else {
            "[aish] interrupted by a restart"
        };
        events.push(Event::ToolResult {
            call: call.id.clone(),
            name: call.name.clone(),
            ok: false,
            content: content.to_owned(),
            denial: None,
            ms: None,
            kept: None,
            blocks: vec![],
            structured: None,
            refused,
        });
    }
    if !unannounced.is_empty() {
        events.push(answer_with_calls(running.items, unannounced.to_vec()));
        let mut step = Step::default();
        refuse_calls(unannounced, StopReason::Interrupted, &mut step);
        events.extend(step.events);
    }
    events.extend(end);
    if let Some(Event::TurnFinished { text: said, .. }) = events.last_mut() {
        *said = text;
    }
    let fact = |event| UncommittedFact {
        turn: Some(running.turn),
        by: None,
        event,
    };
    events.into_iter().map(fact).collect()
}
