//! Facts that a model proposes, in the actor: questions of a conversation that was put away, which hold up nothing.
//! The whole of each is in the log and what counts of it in the state, so that the next daemon finds them as they were. A
//! yes and the fact that it keeps are one commit, and so are a fact that a person says meanwhile and the end of its question.

use aish_proto::id::ConfirmId;
use aishd_log::confirm::ConfirmFate;
use aishd_log::confirm::memory::{MOST_OPEN, MemorySubject};
use aishd_log::event::Event;
use aishd_log::state::confirms::{AsideSubject, OpenConfirm};
use aishd_platform::clock;
use aishd_turn::memory_proposal::ProposedFact;

use crate::actor::Conversation;
use crate::actor::aside_questions::answered;
use crate::context::memory_book::BookError;
use crate::pending_commit::UncommittedFact;
use crate::request_error::RequestError;
use crate::requests::{AnswerOutcome, ConfirmAnswer, KeptFact, PersonFact};
use crate::view::LiveChange;

impl Conversation {
    /// Keeps what a person says. Nobody needs to be asked about it after that: the question is taken back.
    pub(crate) async fn keep_said(&mut self, said: PersonFact) -> Result<KeptFact, BookError> {
        let PersonFact { draft, asked, by } = said;
        let book = self.services.book.clone();
        let Some(open) = self.state.open_confirm(asked).cloned() else {
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
    pub(crate) fn questions_of(
        &self,
        proposed: Vec<ProposedFact>,
        preset: &str,
    ) -> Vec<UncommittedFact> {
        let kept = self.services.book.read();
        let open = self.services.pending.snapshot();
        let is_asked = |text: &str| {
            let mut asked = open.values().filter_map(|it| it.memory());
            asked.any(|it| it.text == text)
        };
        let is_kept = |text: &str| kept.as_ref().is_ok_and(|it| it.contains(text));
        let mut new: Vec<ProposedFact> = vec![];
        for it in proposed {
            let known = is_kept(&it.text) || is_asked(&it.text);
            if !known && new.iter().all(|other| other.text != it.text) {
                new.push(it);
            }
        }
        let open = self.state.confirms.iter();
        let open = open.filter(|it| it.aside == Some(AsideSubject::Memory));
        let room = MOST_OPEN.saturating_sub(open.count());
        let numbers = self.state.confirm_count.saturating_add(1)..;
        new.truncate(room);
        // Those of one moment are told in the order of their ids.
        let mut ids: Vec<ConfirmId> = new.iter().map(|_| ConfirmId(clock::ulid())).collect();
        ids.sort_unstable();
        let named = ids.into_iter().zip(numbers);
        let asked = new.into_iter().zip(named).map(|(proposed, (id, number))| {
            let ProposedFact { kind, text } = proposed;
            let subject = MemorySubject {
                kind,
                text,
                preset: preset.to_owned(),
            };
            Event::ConfirmRequested(Box::new(subject.confirm((id, number))))
        });
        let asked = asked.map(|event| UncommittedFact {
            turn: None,
            by: None,
            event,
        });
        asked.collect()
    }

    /// The answer and the fact that it keeps are one commit.
    pub(crate) async fn answer_memory(
        &mut self,
        open: &OpenConfirm,
        subject: MemorySubject,
        answering: ConfirmAnswer,
    ) -> Result<AnswerOutcome, RequestError> {
        let (allows, by) = (answering.decision.allows(), answering.by.clone());
        let end = answered(open, answering);
        if !allows {
            self.commit(&[end], LiveChange::Keep).await?;
            return Ok(AnswerOutcome::Resolved);
        }
        let book = self.services.book.clone();
        let page = book.page(subject.draft(self.id), by).await;
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
}
