//! From facts to everybody's view: number them, make them durable, let them be seen, then do what they lead
//! to. What the store will not take waits here, and nothing else changes until it does.

use aish_proto::id::Seq;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::audit::AuditDraft;
use aishd_log::event::{Event, Record};
use aishd_log::state::ConversationState;
use aishd_log::usage::Usage;
use aishd_platform::{clock, failpoint};
use aishd_rules::level_request::ended_by;
use aishd_store::{Commit, CommitError, DiskClaim};
use aishd_turn::turn::{Effect, Step};
use tokio::time::Instant;

use crate::actor::Conversation;
use crate::context::memory_book::MemoryBookPage;
use crate::pending_commit::{
    PendingCommit, RETRY_FIRST, RETRY_LONGEST, StalledCommit, UncommittedFact,
};
use crate::view::LiveChange;

impl Conversation {
    /// Stores what a step of the running turn says, lets everybody see it, then does what it asks for.
    pub(crate) async fn take_step(&mut self, step: Step) {
        let Some(active) = &self.turn else { return };
        let (turn, ends) = (active.id, step.ends_turn());
        let answered = |it: &Event| {
            let Event::ConfirmResolved(resolution) = it else {
                return None;
            };
            resolution.by.clone()
        };
        let answered_by = step.events.iter().find_map(answered);
        let caused_by = answered_by.or_else(|| active.stopped_by.clone());
        let opens = |it: &Effect| matches!(it, Effect::OpenStream(_));
        let asks_again = step.effects.iter().any(opens);
        let events = self.with_ends_of_forms(step.events);
        let mut facts: Vec<UncommittedFact> = events
            .into_iter()
            .map(|event| UncommittedFact {
                turn: Some(turn),
                by: by_of(&event, caused_by.as_ref()),
                event,
            })
            .collect();
        if asks_again {
            facts.extend(self.steering(turn));
        }
        let owed = self.pending_facts(Some(turn));
        facts.splice(0..0, owed);
        let effects = step.effects;
        self.settle(PendingCommit {
            facts,
            effects,
            ends,
        })
        .await;
    }

    /// Makes it durable and does what follows; what the store will not take is tried again later.
    pub(crate) async fn settle(&mut self, pending: PendingCommit) {
        if !pending.facts.is_empty() {
            if pending.ends {
                failpoint::pass("turn.before_commit");
            }
            if let Err(error) = self.commit(&pending.facts, pending.live()).await {
                self.wait_for_store(pending, &error);
                return;
            }
            if pending.ends {
                failpoint::pass("turn.after_commit");
            }
        }
        self.stalled = None;
        for effect in pending.effects {
            Box::pin(self.perform(effect)).await;
        }
        if pending.ends {
            let ended = self.turn.take();
            self.keep_nothing();
            self.changes.clear();
            self.stopper.set(None);
            self.look_ahead(ended.as_ref());
            self.make_title();
            Box::pin(self.start_next()).await;
        }
        Box::pin(self.next_command()).await;
    }

    pub(crate) fn wait_for_store(&mut self, pending: PendingCommit, error: &CommitError) {
        let pause = match self.stalled.take() {
            Some(before) => (before.pause * 2).min(RETRY_LONGEST),
            None => RETRY_FIRST,
        };
        tracing::error!(%error, "what happened waits for the store");
        self.publisher.say_waits_for_store(error.to_string());
        self.stalled = Some(StalledCommit {
            pending,
            pause,
            retry_at: Instant::now() + pause,
        });
    }

    /// Tries what the store would not take once more.
    pub(crate) async fn retry_commit(&mut self) {
        if let Some(stalled) = &mut self.stalled {
            let pending = std::mem::take(&mut stalled.pending);
            self.settle(pending).await;
        }
    }

    /// Makes facts durable, then visible. On an error nothing has changed.
    pub(crate) async fn commit(
        &mut self,
        facts: &[UncommittedFact],
        live: LiveChange,
    ) -> Result<Seq, CommitError> {
        self.commit_with(facts, None, live).await
    }

    /// The same together with a page of the book of facts: both or neither.
    pub(crate) async fn commit_with(
        &mut self,
        facts: &[UncommittedFact],
        page: Option<&MemoryBookPage<'_>>,
        live: LiveChange,
    ) -> Result<Seq, CommitError> {
        let mut commit = self.number(facts);
        commit
            .audit
            .extend(page.and_then(MemoryBookPage::audit_draft));
        let note = page.and_then(MemoryBookPage::note);
        pass_before(facts);
        self.services
            .store
            .commit_with(commit.clone(), note)
            .await?;
        pass_after(facts);
        self.publish(commit.records, commit.state, live);
        Ok(self.state.last_seq)
    }

    /// Gives facts their places after the last one stored, and says what is told of them.
    pub(crate) fn number(&self, facts: &[UncommittedFact]) -> Commit {
        let at = clock::now();
        let mut state = self.state.clone();
        let mut records: Vec<Record> = self.unborn.iter().cloned().collect();
        // Whoever asks the first question makes the conversation.
        let maker = facts.first().and_then(|it| it.by.clone());
        let born = self.unborn.iter();
        let born = born.filter_map(|it| AuditDraft::of(self.id, &ConversationState::default(), it));
        let mut audit: Vec<AuditDraft> = born.map(|it| it.by(maker.clone())).collect();
        let mut place = |state: &mut ConversationState, mut fact: UncommittedFact| {
            let running = state
                .running
                .as_ref()
                .filter(|it| Some(it.turn) == fact.turn);
            if let (Event::TurnFinished { usage, .. }, Some(running)) = (&mut fact.event, running)
                && running.usage != Usage::default()
            {
                // Of all its requests, those that no answer came of among them.
                *usage = Some(running.usage);
            }
            let record = Record {
                seq: state.last_seq.next(),
                at,
                turn: fact.turn,
                client: fact.by.as_ref().map(|it| it.client),
                event: fact.event,
            };
            let told = AuditDraft::of(self.id, state, &record);
            audit.extend(told.map(|it| it.by(fact.by)));
            state.apply(&record);
            records.push(record);
        };
        for fact in facts {
            place(&mut state, fact.clone());
            for end in ended_by(&fact.event, &state, at) {
                let event = Event::ConfirmResolved(Box::new(end));
                let (turn, by) = (None, None);
                place(&mut state, UncommittedFact { turn, by, event });
            }
        }
        let commit = Commit::new(self.id, records, state, audit);
        if self.is_cancelled() || self.services.stopping.is_cancelled() {
            // What waited for room may take the reserve then, and the end that follows it.
            return commit.claiming(DiskClaim::End);
        }
        commit
    }

    pub(crate) fn publish(
        &mut self,
        records: Vec<Record>,
        state: ConversationState,
        live: LiveChange,
    ) {
        let leaving = self.leaving(&records);
        if let Some(transcript) = &mut self.transcript.held {
            for record in &records {
                transcript.apply(record);
            }
        }
        self.sum_up(leaving);
        self.unborn = None;
        self.services.routes.count(&records);
        let ended = ends_running(&self.state, &records);
        self.state = state;
        self.budget.set_budget(self.state.budget);
        self.note_confirms(&records);
        self.note_jobs(&records);
        if ended {
            self.services.allowances.end_turn(self.id);
        }
        self.publisher.advance(records, &self.state, live);
    }
}

/// Whether a turn that ran is over; one that only waited takes nothing along.
fn ends_running(before: &ConversationState, records: &[Record]) -> bool {
    let mut running = before.running.as_ref().map(|it| it.turn);
    let mut ended = false;
    for record in records {
        if let Event::TurnStarted { .. } = record.event {
            running = record.turn;
        }
        if let Event::TurnFinished { .. } = record.event {
            ended |= running.is_some() && record.turn == running;
        }
    }
    ended
}

/// The places where a crash has to leave things whole.
fn pass_before(facts: &[UncommittedFact]) {
    for fact in facts {
        if asks(&fact.event) {
            failpoint::pass("confirm.before_store");
        }
        if let Event::FellBack { .. } = fact.event {
            failpoint::pass("fallback.before_store");
        }
        if let Event::ToolStarted { .. } | Event::ShellStarted { .. } = fact.event {
            failpoint::pass("tool.before_start_mark");
        }
        if let Event::Norris(_) = fact.event {
            failpoint::pass("norris.before_store");
        }
        if let Event::ResourceChanged(_) = fact.event {
            failpoint::pass("resource.before_store");
        }
        if let Event::SummaryUpdated(_) = fact.event {
            failpoint::pass("summary.before_store");
        }
    }
}

fn asks(event: &Event) -> bool {
    matches!(event, Event::ConfirmRequested(_))
}

fn pass_after(facts: &[UncommittedFact]) {
    for fact in facts {
        if asks(&fact.event) {
            failpoint::pass("confirm.after_store");
        }
        if let Event::ConfirmResolved(_) = fact.event {
            failpoint::pass("confirm.after_answer_store");
        }
        if let Event::FellBack { .. } = fact.event {
            failpoint::pass("fallback.after_store");
        }
        if let Event::ToolStarted { .. } | Event::ShellStarted { .. } = fact.event {
            failpoint::pass("tool.after_start_mark");
        }
        if let Event::ResourceChanged(_) = fact.event {
            failpoint::pass("resource.after_store");
        }
        if let Event::ToolResult { .. } | Event::ShellFinished { .. } = fact.event {
            failpoint::pass("tool.after_result");
        }
        if let Event::Norris(_) = fact.event {
            failpoint::pass("norris.after_store");
        }
    }
}

/// Whom a fact of a turn is put down to, where somebody answered or stopped it.
fn by_of(event: &Event, caused_by: Option<&AnsweringPerson>) -> Option<AnsweringPerson> {
    match event {
        Event::PermissionChanged { by, .. } => by.clone(),
        // One that ran to its end did so by itself.
        Event::ToolResult { ms: Some(_), .. } | Event::ShellFinished { ms: Some(_), .. } => None,
        Event::ConfirmResolved(_)
        | Event::ToolResult { .. }
        | Event::ShellFinished { .. }
        | Event::TurnFinished { .. } => caused_by.cloned(),
        _ => None,
    }
}
