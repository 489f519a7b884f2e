//! Facts that a model proposes, in the actor: questions of a conversation that was put away, which hold up nothing.
//! The whole of each is in the log and what counts of it in the state, so that the next daemon finds them as they were. A
//! yes and the fact that it keeps are one commit, and so are a fact that a person says meanwhile and the end of its question.

use std::sync::Arc;

use aish_proto::id::ConfirmId;
use aishd_log::confirm::{AnsweringPerson, ConfirmFate, Resolution};
use aishd_log::event::Event;
use aishd_log::memory::MemoryDraft;
use aishd_log::memory::question::{MOST_OPEN, MemoryProposal, OPTIONS, OpenProposal};
use aishd_platform::clock;
use aishd_turn::memory_proposal::ProposedFact;

use super::Conversation;
use super::commit::{PendingCommit, UncommittedFact};
use super::directory::ConversationDirectory;
use super::handle::ConversationHandle;
use super::memory_book::BookError;
use super::pending_questions::{PendingQuestion, QuestionSubject};
use super::view::LiveChange;
use crate::request_error::RequestError;
use crate::requests::{ActorRequest, AnswerOutcome, ConfirmAnswer, KeptFact, PersonFact};

impl ConversationDirectory {
    /// Keeps what a person says; the questions whether to keep it end with that. Returns once it is durable.
    pub async fn remember(
        &self,
        draft: MemoryDraft,
        by: AnsweringPerson,
    ) -> Result<KeptFact, BookError> {
        let open = self.pending().watch().await.borrow().clone();
        let asks = |it: &&Arc<PendingQuestion>| match &it.asked {
            QuestionSubject::Memory(proposal) => draft.contains(&proposal.text),
            QuestionSubject::InTurn(_) | QuestionSubject::Raise(_) => false,
        };
        let mut kept = None;
        for question in open.values().filter(asks) {
            let said = PersonFact {
                draft: draft.clone(),
                asked: question.asked.id(),
                by: by.clone(),
            };
            let keeps = |handle: ConversationHandle| {
                let said = Box::new(said.clone());
                async move {
                    handle
                        .request(|reply| ActorRequest::Keep(said, reply))
                        .await
                }
            };
            let (memory, changed) = match self.with(question.conversation, keeps).await {
                Ok(done) => done?,
                // It was deleted meanwhile, and its question with it.
                Err(RequestError::Missing) => continue,
                Err(error) => return Err(error.into()),
            };
            let before = kept.is_some_and(|(_, changed)| changed);
            kept = Some((memory, changed || before));
        }
        match kept {
            Some(kept) => Ok(kept),
            None => self.book().add(draft, by).await,
        }
    }
}

impl Conversation {
    /// Keeps what a person says. Nobody needs to be asked about it after that: the question is taken back.
    pub(super) async fn keep_said(&mut self, said: PersonFact) -> Result<KeptFact, BookError> {
        let PersonFact { draft, asked, by } = said;
        let book = self.around.book.clone();
        let Some(open) = self.open_proposal(asked) else {
            return book.add(draft, by).await;
        };
        let (memory, page) = book.page(draft, by.clone()).await?;
        let changed = page.note().is_some();
        let end = UncommittedFact {
            turn: None,
            by: Some(by),
            event: Event::ConfirmResolved(Box::new(
                open.unanswered(ConfirmFate::Cancelled, clock::now()),
            )),
        };
        self.commit_with(&[end], Some(&page), LiveChange::Keep)
            .await
            .map_err(RequestError::from)?;
        page.counts();
        Ok((memory, changed))
    }

    /// The questions that proposals come to. What is kept already, and what is asked somewhere, is not asked again.
    pub(super) fn questions_of(
        &self,
        proposed: Vec<ProposedFact>,
        preset: &str,
    ) -> Vec<UncommittedFact> {
        let kept = self.around.book.read();
        let open = self.around.pending.snapshot();
        let is_asked = |text: &str| {
            open.values().any(|it| match &it.asked {
                QuestionSubject::Memory(proposal) => proposal.text == text,
                QuestionSubject::InTurn(_) | QuestionSubject::Raise(_) => false,
            })
        };
        let is_kept = |text: &str| kept.as_ref().is_ok_and(|it| it.contains(text));
        let mut new: Vec<ProposedFact> = vec![];
        for it in proposed {
            let known = is_kept(&it.text) || is_asked(&it.text);
            if !known && new.iter().all(|other| other.text != it.text) {
                new.push(it);
            }
        }
        let room = MOST_OPEN.saturating_sub(self.state.proposals.len());
        let numbers = self.state.confirm_count.saturating_add(1)..;
        new.truncate(room);
        // Those of one moment are told in the order of their ids.
        let mut ids: Vec<ConfirmId> = new.iter().map(|_| ConfirmId(clock::ulid())).collect();
        ids.sort_unstable();
        let named = ids.into_iter().zip(numbers);
        let asked = new.into_iter().zip(named).map(|(proposed, (id, number))| {
            let ProposedFact { kind, text } = proposed;
            Event::MemoryProposed(Box::new(MemoryProposal {
                id,
                number,
                kind,
                text,
                preset: preset.to_owned(),
            }))
        });
        let asked = asked.map(|event| UncommittedFact {
            turn: None,
            by: None,
            event,
        });
        asked.collect()
    }

    pub(super) fn open_proposal(&self, confirm: ConfirmId) -> Option<OpenProposal> {
        let mut open = self.state.proposals.iter();
        open.find(|it| it.id == confirm).copied()
    }

    pub(super) async fn answer_proposal(
        &mut self,
        open: OpenProposal,
        answering: ConfirmAnswer,
    ) -> Result<AnswerOutcome, RequestError> {
        let bad = |why: &str| Err(RequestError::BadAnswer(why.to_owned()));
        if self.around.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        let asked = self.around.store.record(self.id, open.seq)?;
        let Some(Event::MemoryProposed(proposal)) = asked.map(|it| it.event) else {
            return Ok(AnswerOutcome::Unknown);
        };
        if answering.digest != proposal.digest() {
            return Ok(AnswerOutcome::ArgumentsChanged);
        }
        if !OPTIONS.contains(&answering.decision) {
            return bad("a fact is kept or not; this confirm takes no other answer");
        }
        if answering.arguments.is_some() || answering.content.is_some() {
            return bad("a proposed fact is kept as it is; memory/add takes other words");
        }
        let allows = answering.decision.allows();
        let end = Resolution {
            decision: Some(answering.decision),
            by: Some(answering.by.clone()),
            reason: answering.reason.filter(|it| !it.is_empty()),
            ..open.unanswered(
                if allows {
                    ConfirmFate::Allowed
                } else {
                    ConfirmFate::Denied
                },
                clock::now(),
            )
        };
        let end = UncommittedFact {
            turn: None,
            by: Some(answering.by.clone()),
            event: Event::ConfirmResolved(Box::new(end)),
        };
        if !allows {
            self.commit(&[end], LiveChange::Keep).await?;
            return Ok(AnswerOutcome::Resolved);
        }
        let book = self.around.book.clone();
        let page = book.page(proposal.draft(self.id), answering.by).await;
        let (_memory, page) = page.map_err(|error| match error {
            BookError::Request(error) => error,
            error @ (BookError::Refused(_) | BookError::Unknown(_)) => {
                RequestError::BadAnswer(error.to_string())
            }
        })?;
        self.commit_with(&[end], Some(&page), LiveChange::Keep)
            .await?;
        page.counts();
        Ok(AnswerOutcome::Resolved)
    }

    /// It ends without an answer. If the store does not take that now, nothing else happens until it does.
    pub(super) async fn end_aside(&mut self, end: Resolution) {
        let fact = UncommittedFact {
            turn: None,
            by: None,
            event: Event::ConfirmResolved(Box::new(end)),
        };
        self.settle(PendingCommit::facts(vec![fact])).await;
    }
}
