//! Levels that somebody wants raised, in the actor: questions of the conversation, which hold up none of its turns. The
//! whole of each is in the log and what counts of it in the state, so that the next daemon finds them as they were.

use aishd_log::confirm::ConfirmFate;
use aishd_log::event::Event;
use aishd_log::level_request::{GrantOnYes, LevelStep};
use aishd_log::state::confirms::OpenConfirm;
use aishd_platform::clock;
use aishd_rules::level_request::{LevelContext, LevelJudgement, WantedLevel, judge};

use crate::actor::Conversation;
use crate::actor::aside_questions::answered;
use crate::pending_commit::UncommittedFact;
use crate::request_error::RequestError;
use crate::requests::{AnswerOutcome, ConfirmAnswer, LevelRequestOutcome};
use crate::view::LiveChange;

impl Conversation {
    /// Puts the question before people, unless it stands already or there is nothing to ask.
    pub(crate) async fn want_level(
        &mut self,
        wanted: WantedLevel,
    ) -> Result<LevelRequestOutcome, RequestError> {
        if self.services.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        let by = wanted.by.clone();
        let judged = judge(
            wanted,
            LevelContext {
                state: &self.state,
                policy: &self.services.policy.borrow(),
                attended: self.expiry.presence(),
                now: clock::now(),
                next: self.next_confirm(),
            },
        );
        Ok(match judged {
            LevelJudgement::Already(level) => LevelRequestOutcome::Already(level),
            LevelJudgement::AboveMaximum { provider, max } => {
                return Err(RequestError::AboveMaximum { provider, max });
            }
            LevelJudgement::Unasked(upgrade, why) => LevelRequestOutcome::Unasked(upgrade, why),
            LevelJudgement::Open(confirm, upgrade) => LevelRequestOutcome::Asked(confirm, upgrade),
            LevelJudgement::TooMany => return Err(RequestError::TooManyRaises),
            LevelJudgement::Ask(asked, upgrade) => {
                let confirm = asked.id;
                let fact = UncommittedFact {
                    turn: None,
                    by: Some(by),
                    event: Event::ConfirmRequested(asked),
                };
                self.commit(&[fact], LiveChange::Keep).await?;
                LevelRequestOutcome::Asked(confirm, upgrade)
            }
        })
    }

    /// The answer and the level that it gives are one commit. Where the level may not be had any more, nothing is raised.
    pub(crate) async fn answer_level(
        &mut self,
        open: &OpenConfirm,
        step: &LevelStep,
        answering: ConfirmAnswer,
    ) -> Result<AnswerOutcome, RequestError> {
        let policy = self.services.policy.borrow().clone();
        let has = policy.level(&step.provider, &self.state.grants);
        let granted = step.granted(has, policy.max_level(&step.provider));
        let raised = match granted {
            _ if !answering.decision.allows() => None,
            GrantOnYes::AboveMaximum => {
                self.end_aside(open, ConfirmFate::Cancelled).await;
                return Ok(AnswerOutcome::Cancelled);
            }
            GrantOnYes::AlreadyThere => None,
            GrantOnYes::Raises { from } => Some(Event::PermissionChanged {
                provider: Some(step.provider.clone()),
                from,
                to: step.to,
                revoked: false,
                by: Some(answering.by.clone()),
                confirm: Some(open.id),
            }),
        };
        let raised = raised.map(|event| UncommittedFact {
            turn: None,
            by: Some(answering.by.clone()),
            event,
        });
        let mut facts = vec![answered(open, answering)];
        facts.extend(raised);
        self.commit(&facts, LiveChange::Keep).await?;
        Ok(AnswerOutcome::Resolved)
    }
}
