//! Questions to the person at this window (spec 80, 3.3, 3.4): one at a time stands on the screen, the oldest first, and
//! what is said to it is an answer. They are rows like all others; whoever looks away finds them above.

use std::collections::VecDeque;

use aish_proto::confirm::{Answer, AnswerOutcome, AnswerParams, AnswerResult, Decision};
use aish_proto::event::{ConfirmRequested, ConfirmResolved, Envelope, Snapshot};
use aish_proto::id::ConfirmId;

use super::ui::{Ui, Yes};
use super::{Done, Open};
use crate::args::Command;
use crate::confirm::{self, Confirm};
use crate::connect::CallError;
use crate::consent::{self, Word};
use crate::failure::Failure;
use crate::prompt::{Question, Reaction};
use crate::rows::Row;

/// What waits for a person in this conversation.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// The oldest first.
    open: VecDeque<Question>,
    /// The one that stands on the screen.
    shown: Option<ConfirmId>,
}

impl Asked {
    pub(super) fn take(&mut self, event: &Envelope) {
        if let Some(snapshot) = event.read::<Snapshot>() {
            let waiting = snapshot.pending_confirms.into_iter();
            self.open = waiting.map(|it| Question::new(it.request)).collect();
            self.shown = None;
        } else if let Some(request) = event.read::<ConfirmRequested>() {
            // One that waited before we came is in the snapshot and in the log.
            if self.find(request.confirm).is_none() {
                self.open.push_back(Question::new(request));
            }
        } else if let Some(resolved) = event.read::<ConfirmResolved>() {
            self.open
                .retain(|it| it.request.confirm != resolved.confirm);
        }
    }

    fn find(&mut self, confirm: ConfirmId) -> Option<&mut Question> {
        let mut open = self.open.iter_mut();
        open.find(|it| it.request.confirm == confirm)
    }

    /// By what people call it: `c7`.
    fn called(&mut self, name: &str) -> Option<&mut Question> {
        let mut open = self.open.iter_mut();
        open.find(|it| format!("c{}", it.request.number) == name)
    }

    /// Whether the one that stands is not the one that should.
    fn is_due(&self) -> bool {
        self.shown != self.open.front().map(|it| it.request.confirm)
    }
}

impl<U: Ui> Open<U> {
    /// Puts the oldest question on the screen, if another one stands there, or none.
    pub(super) async fn ask(&mut self) -> Result<(), Failure> {
        if !self.connection.is_settled() || !self.asked.is_due() {
            return Ok(());
        }
        let can_answer = self.has_editor() && !self.window.args.read_only;
        let Some(question) = self.asked.open.front_mut() else {
            self.asked.shown = None;
            self.display.ui.asks(None);
            return Ok(());
        };
        let confirm = question.request.confirm;
        let text = if can_answer {
            question.show() + "\n  Alt-y or Alt-n any time"
        } else {
            elsewhere(&question.request)
        };
        self.asked.shown = Some(confirm);
        self.display.ui.asks(can_answer.then_some(confirm));
        self.say(&text).await
    }

    async fn say(&mut self, text: &str) -> Result<(), Failure> {
        let rows = text.lines().map(|it| Row::Text(it.trim_end().to_owned()));
        self.display.show(rows.collect()).await
    }

    /// Whether a line was an answer to this question, or to the one that it names: `y`, `n TEXT`, `y c9`. What is no
    /// answer is a line like any other.
    pub(super) async fn answered(
        &mut self,
        line: &str,
        question: Option<ConfirmId>,
    ) -> Result<bool, Failure> {
        let Some(question) = question else {
            return Ok(false);
        };
        let line = line.trim();
        let (words, named) = match line.rsplit_once(' ') {
            Some((words, name)) if self.asked.called(name).is_some() => (words, Some(name)),
            Some(_) | None => (line, None),
        };
        let meant = match named {
            Some(name) => self.asked.called(name),
            None => self.asked.find(question),
        };
        let Some(meant) = meant else {
            return Ok(false);
        };
        let word = match consent::word(words, &meant.request) {
            Word::Unclear(_) => return Ok(false),
            word @ (Word::Decide(..) | Word::View | Word::Help) => word,
        };
        let reaction = meant.take(word);
        self.react(reaction).await?;
        Ok(true)
    }

    pub(super) async fn answered_by_key(
        &mut self,
        question: ConfirmId,
        yes: Yes,
    ) -> Result<(), Failure> {
        let Some(question) = self.asked.find(question) else {
            return Ok(());
        };
        let word = match yes {
            Yes::No => Word::Decide(Decision::Deny, None),
            // One key is not enough for what cannot be undone.
            Yes::Yes => consent::word("y", &question.request),
        };
        let reaction = question.take(word);
        self.react(reaction).await
    }

    /// Whether this command allows what a person has seen here; then it needs no digest.
    pub(super) async fn allowed(&mut self, command: &Command) -> Result<bool, Failure> {
        let Command::Confirm {
            command:
                Some(Confirm::Allow {
                    id,
                    always,
                    provider,
                    raise,
                    digest: None,
                }),
        } = command
        else {
            return Ok(false);
        };
        if !self.has_editor() || self.window.args.read_only {
            return Ok(false);
        }
        let decision = confirm::allowing(*always, *provider, *raise);
        let Some(question) = self.asked.called(id) else {
            return Ok(false);
        };
        let reaction = question.take(Word::Decide(decision, None));
        self.react(reaction).await?;
        Ok(true)
    }

    async fn react(&mut self, reaction: Reaction) -> Result<(), Failure> {
        let (request, decision, reason) = match reaction {
            Reaction::Say(text) => return self.say(&text).await,
            Reaction::Answer(request, decision, reason) => (request, decision, reason),
        };
        let caller = self.connection.caller();
        self.calls.spawn(async move {
            let params = AnswerParams {
                confirm: request.confirm,
                decision,
                digest: request.digest,
                arguments: None,
                reason,
            };
            let result = caller.call::<Answer>(params).await;
            Done::Answered(request.number, decision, result)
        });
        Ok(())
    }

    /// What came of an answer. That it counts is told to everybody.
    pub(super) async fn told(
        &mut self,
        number: u32,
        decision: Decision,
        result: Result<AnswerResult, CallError>,
    ) -> Result<(), Failure> {
        match result {
            Ok(result) if result.outcome == AnswerOutcome::Resolved => Ok(()),
            Ok(result) => {
                let (text, _) = confirm::told(number, decision, &result);
                self.display.tell(&text).await
            }
            Err(error) => self.display.refuse(&error.into()).await,
        }
    }
}

/// The question where no key answers it.
fn elsewhere(request: &ConfirmRequested) -> String {
    let number = request.number;
    let digest: String = request.digest.chars().take(8).collect();
    format!(
        "{}  :confirm allow c{number} --digest {digest}   or   :confirm deny c{number} [REASON]",
        consent::question(request, consent::Extent::Whole)
    )
}
