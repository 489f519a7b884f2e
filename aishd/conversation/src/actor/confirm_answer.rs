//! Confirms in the actor: taking answers, letting silence count as one.
//!
//! The actor is the one place where a confirm changes, so that of two answers one comes first: commit the
//! resolution, then the start mark, then start.

use aish_proto::id::ConfirmId;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::confirm::{Confirm, ConfirmFate, ConfirmSubject, Decision, Resolution};
use aishd_log::event::{Event, Record, StopReason};
use aishd_log::time::Timestamp;
use aishd_log::tool::ContentDigest;
use aishd_log::tool_call::ToolCall;
use aishd_log::tool_name::{Alias, ToolName};
use aishd_platform::clock;
use aishd_turn::turn::{ConfirmEnd, TurnInput};
use serde_json::Map;

use crate::actor::{Conversation, argument_edit};
use crate::questions::pending_questions::PendingQuestion;
use crate::request_error::RequestError;
use crate::requests::{AnswerOutcome, ConfirmAnswer, LevelChange};

impl Conversation {
    /// What the next confirm is called.
    pub(crate) fn next_confirm(&self) -> (ConfirmId, u32) {
        let number = self.state.confirm_count.saturating_add(1);
        (ConfirmId(clock::ulid()), number)
    }

    /// Answers the open confirm, if it is the one that is meant.
    pub(crate) async fn answer(
        &mut self,
        mut answering: ConfirmAnswer,
    ) -> Result<AnswerOutcome, RequestError> {
        if answering.hunks.is_some() && answering.decision != Decision::Keep {
            return Err(bad("hunks are of what is kept"));
        }
        if self.forms.is_open(answering.confirm) {
            return self.answer_form(answering).await;
        }
        let open = self.state.open_confirm(answering.confirm);
        if let Some(open) = open.filter(|it| it.aside.is_some()).cloned() {
            return self.answer_aside(open, answering).await;
        }
        let open = self.turn.as_ref().and_then(|it| it.machine.asking());
        let Some(confirm) = open.filter(|it| it.id == answering.confirm).cloned() else {
            return self.ended(answering.confirm);
        };
        if self.services.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        if self.is_cancelled() {
            self.stop_now(StopReason::Cancelled).await;
            return Ok(AnswerOutcome::Cancelled);
        }
        if confirm.expires_at.is_some_and(|it| it <= clock::now()) {
            self.expire(&confirm).await;
            return Ok(AnswerOutcome::Expired);
        }
        if !self.is_what_was_seen(&mut answering, &confirm).await? {
            return Ok(AnswerOutcome::ArgumentsChanged);
        }
        if answering.content.is_some() {
            return Err(bad("only a form has content"));
        }
        let Some(mut call) = call_of(&confirm) else {
            return self.ended(answering.confirm);
        };
        let edited = edited(&answering)?;
        let asked = call.clone();
        if let Some(edited) = &edited {
            call.arguments.clone_from(edited);
        }
        let meant = [&asked, &call];
        let digest = if confirm.command().is_some() {
            self.as_asked_command(&confirm, answering.decision, meant)?
        } else {
            self.as_asked(&confirm, answering.decision, meant)
        };
        let Some(digest) = digest else {
            self.withdraw(&confirm).await;
            return Ok(AnswerOutcome::ArgumentsChanged);
        };
        let at = clock::now();
        let resolution = Resolution {
            confirm: confirm.id,
            fate: if answering.decision.allows() {
                ConfirmFate::Allowed
            } else {
                ConfirmFate::Denied
            },
            decision: Some(answering.decision),
            by: Some(answering.by.clone()),
            reason: answering.reason.filter(|it| !it.is_empty()),
            edited,
            only: answering.only,
            hunks: answering.hunks.map(Box::new),
            waited_ms: self.waited_ms(confirm.id, at),
            approved: self.approved_by(answering.decision, &confirm),
        };
        let raised = self.raised_by(answering.decision, &confirm, &answering.by);
        self.resolve(ConfirmEnd {
            resolution,
            raised,
            digest,
        })
        .await;
        if self.state.open_confirm(confirm.id).is_some() {
            let why = "the answer still waits for the store";
            return Err(RequestError::Storage(why.to_owned()));
        }
        Ok(AnswerOutcome::Resolved)
    }

    /// Whether somebody has seen what the answer is to: the question as it is, and the trial that is to be kept.
    async fn is_what_was_seen(
        &self,
        answering: &mut ConfirmAnswer,
        confirm: &Confirm,
    ) -> Result<bool, RequestError> {
        if answering.digest != confirm.digest {
            return Ok(false);
        }
        if answering.decision != Decision::Keep {
            return match confirm.options.contains(&answering.decision) {
                true => Ok(true),
                false => Err(bad("this confirm does not take that answer")),
            };
        }
        let tried = self.services.pending.tried_of(confirm.id);
        let tried = tried.ok_or_else(|| bad("nothing of it was tried; `confirm/try` does"))?;
        if answering.changes != Some(tried.changes) {
            return Ok(false);
        }
        if let Some(chosen) = answering.hunks.take() {
            if !answering.only.is_empty() {
                return Err(bad(
                    "hunks and paths are two ways to choose; say one of them",
                ));
            }
            let found = self.check_hunks(tried.changes, chosen).await?;
            // All of them are all of it, with the times that no difference shows.
            answering.hunks = Some(found).filter(|it| !it.are_all());
        }
        if answering.hunks.is_some() {
            return Ok(true);
        }
        match self.cannot_be_kept(tried.changes, &answering.only).await {
            None => Ok(true),
            Some(why) => Err(bad(&format!(
                "it cannot be kept: {why}; try it again, or let it run for real"
            ))),
        }
    }

    /// What the call that is to run is bound to, if all that the answer allows is what was asked about. One look at the
    /// tools: nothing changes between what is compared and what is approved.
    fn as_asked(
        &self,
        confirm: &Confirm,
        decision: Decision,
        [asked, meant]: [&ToolCall; 2],
    ) -> Option<ContentDigest> {
        let others = match &confirm.subject {
            ConfirmSubject::Call(subject) if decision == Decision::AllowProvider => {
                Some(subject.call.tool.alias()).zip(subject.provider_digest)
            }
            _ => None,
        };
        let (now, digest, others_changed) = self.with_gate(|gate| {
            let changed =
                others.is_some_and(|(provider, it)| it != gate.catalog.provider_digest(provider));
            (gate.digest(asked), gate.digest(meant), changed)
        });
        let is_changed = now.is_some_and(|it| it != confirm.digest) || others_changed;
        (!decision.allows() || !is_changed).then_some(digest.unwrap_or(confirm.digest))
    }

    pub(crate) async fn resolve(&mut self, answer: ConfirmEnd) {
        if let Some(active) = &mut self.turn {
            let step = active.hear(TurnInput::Answered(Box::new(answer)));
            self.take_step(step).await;
        }
    }

    /// How a confirm ended that is not open.
    fn ended(&self, confirm: ConfirmId) -> Result<AnswerOutcome, RequestError> {
        let place = self.services.store.find_confirm(confirm)?;
        let Some(seq) = place
            .filter(|it| it.conversation == self.id)
            .and_then(|it| it.resolved)
        else {
            return Ok(AnswerOutcome::Unknown);
        };
        let record = self.services.store.record(self.id, seq)?;
        let Some(Record {
            at,
            event: Event::ConfirmResolved(resolution),
            ..
        }) = record
        else {
            return Ok(AnswerOutcome::Unknown);
        };
        Ok(match resolution.fate {
            ConfirmFate::Allowed | ConfirmFate::Denied => {
                AnswerOutcome::AlreadyResolved(at, resolution)
            }
            ConfirmFate::Expired => AnswerOutcome::Expired,
            ConfirmFate::Cancelled => AnswerOutcome::Cancelled,
        })
    }

    /// Silence was the answer.
    pub(crate) async fn expire(&mut self, confirm: &Confirm) {
        self.end_unanswered(confirm, ConfirmFate::Expired).await;
    }

    /// What would run is not what was asked about: the question goes, and the call is looked at anew.
    pub(crate) async fn withdraw(&mut self, confirm: &Confirm) {
        self.end_unanswered(confirm, ConfirmFate::Cancelled).await;
    }

    async fn end_unanswered(&mut self, confirm: &Confirm, fate: ConfirmFate) {
        let waited_ms = self.waited_ms(confirm.id, clock::now());
        let resolution = Resolution::unanswered(confirm.id, fate, waited_ms);
        self.resolve(ConfirmEnd {
            resolution,
            raised: None,
            digest: confirm.digest,
        })
        .await;
    }

    pub(crate) fn waited_ms(&self, confirm: ConfirmId, now: Timestamp) -> Option<u64> {
        self.state.open_confirm(confirm)?.waited_ms(now)
    }

    /// What "always" is said to: definitions as they are now, never a name.
    fn approved_by(&self, decision: Decision, confirm: &Confirm) -> Vec<(ToolName, ContentDigest)> {
        let subject = match &confirm.subject {
            ConfirmSubject::Call(subject) => subject,
            // A command is approved by what it runs with.
            ConfirmSubject::Command(subject) if decision == Decision::AllowConversation => {
                return vec![(subject.call.tool.clone(), confirm.digest)];
            }
            _ => return vec![],
        };
        let tool = &subject.call.tool;
        let this = (tool.clone(), subject.definition_digest);
        match decision {
            Decision::AllowConversation => vec![this],
            Decision::AllowProvider => {
                let catalog = self.services.tools.catalog();
                let all = catalog.of_provider(tool.alias());
                let others = all.filter(|it| it.name != *tool);
                let others = others.map(|it| (it.name.clone(), it.definition_digest()));
                // One that is not what was approved here is asked about by itself, with what has changed.
                let approved = &self.state.grants.approved;
                let others =
                    others.filter(|(name, now)| approved.get(name).is_none_or(|it| it == now));
                std::iter::once(this).chain(others).collect()
            }
            Decision::AllowOnce
            | Decision::RaiseOnly
            | Decision::Deny
            | Decision::Edit
            | Decision::Abort
            | Decision::Keep => vec![],
        }
    }

    fn raised_by(
        &self,
        decision: Decision,
        confirm: &Confirm,
        by: &AnsweringPerson,
    ) -> Option<Event> {
        let ConfirmSubject::Call(subject) = &confirm.subject else {
            return None;
        };
        let shown = subject.raise_to.filter(|_| decision.raises())?;
        let provider = subject.call.tool.alias();
        let policy = self.services.policy.borrow().clone();
        let from = policy.level(provider, &self.state.grants);
        // Meanwhile it may have been raised further, or bounded.
        let to = policy.max_level(provider).min(shown);
        (to > from).then(|| Event::PermissionChanged {
            provider: Some(provider.clone()),
            from,
            to,
            revoked: false,
            by: Some(by.clone()),
            confirm: Some(confirm.id),
        })
    }

    /// A level that a person changes by hand.
    pub(crate) fn level_changed(
        &self,
        provider: Alias,
        change: LevelChange,
        by: AnsweringPerson,
    ) -> Result<Event, RequestError> {
        let policy = self.services.policy.borrow().clone();
        let level = policy.level(&provider, &self.state.grants);
        let to = match change {
            LevelChange::Raise(to) if to <= level => {
                return Err(RequestError::AlreadyAtLevel { provider, level });
            }
            LevelChange::Raise(to) => to,
            LevelChange::Revoke => policy.first_level(&provider),
        };
        let max = policy.max_level(&provider);
        if to > max {
            return Err(RequestError::AboveMaximum { provider, max });
        }
        Ok(Event::PermissionChanged {
            provider: Some(provider),
            from: level,
            to,
            revoked: change == LevelChange::Revoke,
            by: Some(by),
            confirm: None,
        })
    }

    /// Tells everybody who watches what is asked and what is not any more.
    pub(crate) fn note_confirms(&mut self, records: &[Record]) {
        let mut noted = false;
        for record in records {
            if let Some(question) = PendingQuestion::of(self.id, record) {
                noted = true;
                if question.turn.is_some() {
                    self.keep_nothing();
                }
                self.services.pending.add(question);
            }
            if let Event::CommandTried(tried) = &record.event {
                self.note_tried(tried, (record.seq, record.at));
            }
            if let Event::ConfirmResolved(resolution) = &record.event {
                noted = true;
                self.end_trial(resolution);
                self.settle_host(resolution);
                self.services.pending.remove(resolution.confirm);
            }
        }
        if noted {
            self.plan_expiry();
        }
    }

    pub(crate) fn plan_expiry(&mut self) {
        let policy = self.services.policy.borrow();
        self.expiry
            .plan(&self.state.confirms, &policy, clock::now());
    }

    /// The time of an open confirm is over.
    pub(crate) async fn expire_open(&mut self) {
        let policy = self.services.policy.borrow().clone();
        let confirms = &self.state.confirms;
        for open in self.expiry.over(confirms, &policy, clock::now()) {
            // The store takes no more now; the others are looked at again when it does.
            if self.stalled.is_some() {
                break;
            }
            tracing::info!(conversation = %self.id, confirm = %open.id, "nobody answered in time");
            let asking = self.turn.as_ref().and_then(|it| it.machine.asking());
            if open.aside.is_some() {
                self.end_aside(&open, ConfirmFate::Expired).await;
            } else if let Some(confirm) = asking.filter(|it| it.id == open.id).cloned() {
                self.expire(&confirm).await;
            } else {
                self.end_form(open.id, ConfirmFate::Expired).await;
            }
        }
        self.plan_expiry();
    }
}

/// The call that waits, as it would run.
pub(crate) fn call_of(confirm: &Confirm) -> Option<ToolCall> {
    let call = confirm.call()?;
    Some(ToolCall {
        id: call.id.clone(),
        name: call.tool.to_string(),
        arguments: call.arguments.clone(),
        broken: None,
        extra: Map::new(),
    })
}

/// The arguments that are to run instead of those that were asked about.
fn edited(answering: &ConfirmAnswer) -> Result<Option<String>, RequestError> {
    match (answering.decision, &answering.arguments) {
        (Decision::Edit, Some(arguments)) => argument_edit::arguments(arguments).map(Some),
        (Decision::Edit, None) => Err(bad("an edit comes with the arguments that are to run")),
        (_, Some(_)) => Err(bad("only an edit has arguments")),
        (_, None) => Ok(None),
    }
}

fn bad(why: &str) -> RequestError {
    RequestError::BadAnswer(why.to_owned())
}
