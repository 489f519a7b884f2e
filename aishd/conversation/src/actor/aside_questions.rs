//! Answers to questions that no turn waits for: about a provider's level, about a fact that a model proposes, about what a
//! run changed, and about a host.

use aishd_log::confirm::{ConfirmFate, ConfirmSubject, Resolution};
use aishd_log::event::Event;
use aishd_log::state::confirms::OpenConfirm;
use aishd_platform::clock;

use crate::actor::Conversation;
use crate::pending_commit::{PendingCommit, UncommittedFact};
use crate::request_error::RequestError;
use crate::requests::{AnswerOutcome, ConfirmAnswer};

impl Conversation {
    pub(crate) async fn answer_aside(
        &mut self,
        open: OpenConfirm,
        answering: ConfirmAnswer,
    ) -> Result<AnswerOutcome, RequestError> {
        let bad = |why: &str| Err(RequestError::BadAnswer(why.to_owned()));
        if self.services.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        if open.is_over(clock::now()) {
            self.end_aside(&open, ConfirmFate::Expired).await;
            return Ok(AnswerOutcome::Expired);
        }
        let asked = self.services.store.record(self.id, open.seq)?;
        let Some(Event::ConfirmRequested(confirm)) = asked.map(|it| it.event) else {
            return Ok(AnswerOutcome::Unknown);
        };
        if answering.digest != confirm.digest {
            return Ok(AnswerOutcome::ArgumentsChanged);
        }
        let takes = confirm.options.contains(&answering.decision);
        let has_more = answering.arguments.is_some() || answering.content.is_some();
        match confirm.subject {
            ConfirmSubject::Level(_) if !takes => {
                bad("a level is raised or denied; this confirm takes no other answer")
            }
            ConfirmSubject::Level(_) if has_more => {
                bad("a level has nothing to edit or to fill in")
            }
            ConfirmSubject::Level(subject) => {
                self.answer_level(&open, &subject.step, answering).await
            }
            ConfirmSubject::Memory(_) if !takes => {
                bad("a fact is kept or not; this confirm takes no other answer")
            }
            ConfirmSubject::Memory(_) if has_more => {
                bad("a proposed fact is kept as it is; memory/add takes other words")
            }
            ConfirmSubject::Memory(subject) => self.answer_memory(&open, subject, answering).await,
            ConfirmSubject::Changes(_) if !takes => {
                bad("changes are kept or dropped; this confirm takes no other answer")
            }
            ConfirmSubject::Changes(_) if has_more => {
                bad("changes are kept as they are; `only` names a part of them")
            }
            ConfirmSubject::Changes(subject) => {
                self.answer_changes(&open, &subject, answering).await
            }
            ConfirmSubject::Host(_) if !takes => bad(
                "a host is allowed, here or for once, or denied; this confirm takes no other answer",
            ),
            ConfirmSubject::Host(_) if has_more => bad("a host has nothing to edit or to fill in"),
            ConfirmSubject::Host(_) => self.answer_host(&open, answering).await,
            ConfirmSubject::Call(_)
            | ConfirmSubject::Command(_)
            | ConfirmSubject::Form(_)
            | ConfirmSubject::Model(_)
            | ConfirmSubject::SignIn(_) => Ok(AnswerOutcome::Unknown),
        }
    }

    /// It ends without an answer. If the store does not take that now, nothing else happens until it does.
    pub(crate) async fn end_aside(&mut self, open: &OpenConfirm, fate: ConfirmFate) {
        let end = open.unanswered(fate, clock::now());
        let fact = UncommittedFact {
            turn: open.turn_of_host(),
            by: None,
            event: Event::ConfirmResolved(Box::new(end)),
        };
        self.settle(PendingCommit::facts(vec![fact])).await;
    }
}

/// The end of a question by an answer.
pub(crate) fn answered(open: &OpenConfirm, answering: ConfirmAnswer) -> UncommittedFact {
    let fate = if answering.decision.allows() {
        ConfirmFate::Allowed
    } else {
        ConfirmFate::Denied
    };
    let end = Resolution {
        decision: Some(answering.decision),
        by: Some(answering.by.clone()),
        reason: answering.reason.filter(|it| !it.is_empty()),
        only: answering.only,
        ..open.unanswered(fate, clock::now())
    };
    UncommittedFact {
        turn: None,
        by: Some(answering.by),
        event: Event::ConfirmResolved(Box::new(end)),
    }
}
