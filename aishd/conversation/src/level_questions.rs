//! Levels that somebody wants raised, in the actor: questions of the conversation, which hold up none of its turns. The
//! whole of each is in the log and what counts of it in the state, so that the next daemon finds them as they were.

use aish_proto::id::ConfirmId;
use aishd_log::confirm::{ConfirmFate, Resolution};
use aishd_log::event::Event;
use aishd_log::level_request::{GrantOnYes, OPTIONS, OpenRaise};
use aishd_platform::clock;
use aishd_rules::level_request::{LevelContext, LevelJudgement, WantedLevel, judge};

use super::Conversation;
use super::commit::UncommittedFact;
use super::view::LiveChange;
use crate::request_error::RequestError;
use crate::requests::{AnswerOutcome, ConfirmAnswer, LevelRequestOutcome};

impl Conversation {
    /// Puts the question before people, unless it stands already or there is nothing to ask.
    pub(super) async fn want_level(
        &mut self,
        wanted: WantedLevel,
    ) -> Result<LevelRequestOutcome, RequestError> {
        if self.around.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        let by = wanted.by.clone();
        let judged = judge(
            wanted,
            LevelContext {
                state: &self.state,
                policy: &self.around.policy.borrow(),
                attended: self.attended_by(),
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
            LevelJudgement::Ask(raise) => {
                let (confirm, upgrade) = (raise.id, raise.upgrade.clone());
                let fact = UncommittedFact {
                    turn: None,
                    by: Some(by),
                    event: Event::RaiseRequested(raise),
                };
                self.commit(&[fact], LiveChange::Keep).await?;
                LevelRequestOutcome::Asked(confirm, upgrade)
            }
        })
    }

    pub(super) fn open_raise(&self, confirm: ConfirmId) -> Option<OpenRaise> {
        let mut open = self.state.raises.iter();
        open.find(|it| it.id == confirm).cloned()
    }

    /// The answer and the level that it gives are one commit.
    pub(super) async fn answer_raise(
        &mut self,
        open: OpenRaise,
        answering: ConfirmAnswer,
    ) -> Result<AnswerOutcome, RequestError> {
        let bad = |why: &str| Err(RequestError::BadAnswer(why.to_owned()));
        if self.around.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        let now = clock::now();
        if open.is_over(now) {
            self.end_raise(&open, ConfirmFate::Expired).await;
            return Ok(AnswerOutcome::Expired);
        }
        if answering.digest != open.upgrade.digest() {
            return Ok(AnswerOutcome::ArgumentsChanged);
        }
        if !OPTIONS.contains(&answering.decision) {
            return bad("a level is raised or denied; this confirm takes no other answer");
        }
        if answering.arguments.is_some() || answering.content.is_some() {
            return bad("a level has nothing to edit or to fill in");
        }
        let policy = self.around.policy.borrow().clone();
        let provider = &open.upgrade.provider;
        let has = policy.level(provider, &self.state.grants);
        let granted = open.upgrade.granted(has, policy.max_level(provider));
        let allows = answering.decision.allows();
        let raised = match granted {
            GrantOnYes::AboveMaximum if allows => {
                self.end_raise(&open, ConfirmFate::Cancelled).await;
                return Ok(AnswerOutcome::Cancelled);
            }
            GrantOnYes::Raises { from } if allows => Some(Event::PermissionChanged {
                provider: Some(provider.clone()),
                from,
                to: open.upgrade.to,
                revoked: false,
                by: Some(answering.by.clone()),
                confirm: Some(open.id),
            }),
            GrantOnYes::AboveMaximum | GrantOnYes::Raises { .. } | GrantOnYes::AlreadyThere => None,
        };
        let resolution = Resolution {
            decision: Some(answering.decision),
            by: Some(answering.by.clone()),
            reason: answering.reason.filter(|it| !it.is_empty()),
            ..open.unanswered(
                if allows {
                    ConfirmFate::Allowed
                } else {
                    ConfirmFate::Denied
                },
                now,
            )
        };
        let events = [Event::ConfirmResolved(Box::new(resolution))];
        let facts = events
            .into_iter()
            .chain(raised)
            .map(|event| UncommittedFact {
                turn: None,
                by: Some(answering.by.clone()),
                event,
            });
        let facts: Vec<UncommittedFact> = facts.collect();
        self.commit(&facts, LiveChange::Keep).await?;
        Ok(AnswerOutcome::Resolved)
    }

    async fn end_raise(&mut self, open: &OpenRaise, fate: ConfirmFate) {
        self.end_aside(open.unanswered(fate, clock::now())).await;
    }
}
