//! Forms and addresses that servers want of a person while a call runs.

use aish_proto::id::{ConfirmId, TurnId};
use aishd_log::confirm::{Confirm, ConfirmFate, Decision, Resolution};
use aishd_log::event::{Event, ProviderLevel, StopReason};
use aishd_platform::clock;
use aishd_rules::elicitation::judge;
use aishd_rules::gate::AdmittedCall;
use aishd_rules::server_request::{ServerRequest, ServerRequestJudgement};
use aishd_tools::Filled;
use serde_json::Value;

use crate::actor::Conversation;
use crate::pending_commit::{PendingCommit, UncommittedFact};
use crate::questions::elicitation::{
    ElicitAsker, ElicitKind, ElicitMessage, ElicitNews, OpenForm, filled,
};
use crate::request_error::RequestError;
use crate::requests::{AnswerOutcome, ConfirmAnswer};
use crate::turns::active_turn::ActiveTurn;
use crate::view::LiveChange;

impl Conversation {
    pub(crate) async fn take_news(&mut self, news: ElicitNews) {
        match news {
            ElicitNews::Asked(asking) => self.on_server_question(*asking).await,
            ElicitNews::TakenBack(confirm) => self.end_form(confirm, ConfirmFate::Cancelled).await,
        }
    }

    /// Puts a question of a server before people, or answers in their place.
    async fn on_server_question(&mut self, asking: ElicitMessage) {
        let ElicitMessage {
            turn,
            call,
            go,
            what,
        } = asking;
        let running = self.state.running.as_ref().filter(|it| it.turn == turn);
        let runs = running.is_some_and(|it| {
            let mut open = it.open_calls.iter();
            open.any(|it| it.id == call && it.started)
        });
        // Dropped, it is dismissed: the call is over.
        let Some(active) = self.turn.as_ref().filter(|_| runs) else {
            return;
        };
        if active.token.is_cancelled() {
            return;
        }
        let form = match what {
            ElicitKind::Form(form) => form,
            ElicitKind::Model(wanted) => {
                return self.asked_for_model(turn, &call, &go, wanted).await;
            }
            ElicitKind::Task(begun) => return self.keep_task(turn, call, begun).await,
            ElicitKind::Told { level, text, kept } => {
                self.tell_model(turn, level, text).await;
                let _gone = kept.send(());
                return;
            }
        };
        let request = self.server_request(active, &call, &go, &form.params);
        match judge(request) {
            ServerRequestJudgement::Refuse(why) => {
                tracing::warn!(mcp = %form.alias, %why, "a form cannot be shown");
                let text = format!(
                    "mcp {} asked for input that cannot be shown: {why}",
                    form.alias
                );
                self.tell_model(turn, ProviderLevel::Warning, text).await;
                let _gone = form.answer.send(Filled::Refused(why.to_string()));
            }
            ServerRequestJudgement::Decline(text) => {
                self.tell_model(turn, ProviderLevel::Warning, text).await;
                let _gone = form.answer.send(Filled::Declined);
            }
            ServerRequestJudgement::Ask(confirm) => {
                self.show(turn, *confirm, ElicitAsker::Form(form.answer))
                    .await;
            }
        }
    }

    pub(crate) async fn show(&mut self, turn: TurnId, confirm: Confirm, asker: ElicitAsker) {
        let fact = UncommittedFact {
            turn: Some(turn),
            by: None,
            event: Event::ConfirmRequested(Box::new(confirm.clone())),
        };
        match self.commit(&[fact], LiveChange::Keep).await {
            Ok(_) => self.forms.open.push(OpenForm {
                turn,
                confirm,
                asker,
            }),
            // What is not in the log is not shown, and what is not shown is dismissed.
            Err(error) => {
                tracing::warn!(confirm = %confirm.id, %error, "a server's question is not shown");
            }
        }
    }

    /// What the server of a running call wants, as it is judged.
    pub(crate) fn server_request<'a>(
        &'a self,
        active: &'a ActiveTurn,
        call: &'a str,
        go: &'a AdmittedCall,
        params: &'a Value,
    ) -> ServerRequest<'a> {
        ServerRequest {
            call,
            go,
            params,
            open: self.forms.open.len(),
            on_confirm: &active.on_confirm,
            attended: self.expiry.presence(),
            cwd: &self.state.cwd,
            now: clock::now(),
            next: self.next_confirm(),
        }
    }

    pub(crate) async fn tell_model(&mut self, turn: TurnId, level: ProviderLevel, text: String) {
        let mut facts = self.pending_facts(Some(turn));
        facts.push(UncommittedFact {
            turn: Some(turn),
            by: None,
            event: Event::Status { level, text },
        });
        if let Err(error) = self.commit(&facts, LiveChange::Keep).await {
            tracing::warn!(conversation = %self.id, %error, "a word about a server's question is not kept");
        }
    }

    /// Answers a form, once: what comes first counts, and what does not fit leaves it open.
    pub(crate) async fn answer_form(
        &mut self,
        answering: ConfirmAnswer,
    ) -> Result<AnswerOutcome, RequestError> {
        let open = self.forms.open.iter();
        let Some(open) = open
            .into_iter()
            .find(|it| it.confirm.id == answering.confirm)
        else {
            return Ok(AnswerOutcome::Unknown);
        };
        let (id, confirm) = (open.confirm.id, &open.confirm);
        if self.services.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        if self.is_cancelled() {
            self.stop_now(StopReason::Cancelled).await;
            return Ok(AnswerOutcome::Cancelled);
        }
        if open.asker.is_closed() {
            self.end_form(id, ConfirmFate::Cancelled).await;
            return Ok(AnswerOutcome::Cancelled);
        }
        if confirm.expires_at.is_some_and(|it| it <= clock::now()) {
            self.end_form(id, ConfirmFate::Expired).await;
            return Ok(AnswerOutcome::Expired);
        }
        if answering.digest != confirm.digest {
            return Ok(AnswerOutcome::ArgumentsChanged);
        }
        let (filled, fate) = filled(confirm, &answering)?;
        let mut resolution = Resolution::unanswered(id, fate, self.waited_ms(id, clock::now()));
        resolution.decision = Some(answering.decision);
        resolution.by = Some(answering.by);
        resolution.reason = answering.reason.filter(|it| !it.is_empty());
        self.resolve_form(resolution, filled).await?;
        if answering.decision == Decision::Abort {
            self.stop_now(StopReason::Denied).await;
        }
        Ok(AnswerOutcome::Resolved)
    }

    /// It ends without an answer. If the store does not take that now, nothing else happens until it does.
    pub(crate) async fn end_form(&mut self, confirm: ConfirmId, fate: ConfirmFate) {
        let Some(open) = self.forms.take(confirm) else {
            return;
        };
        let waited_ms = self.waited_ms(confirm, clock::now());
        let end = Resolution::unanswered(confirm, fate, waited_ms);
        let fact = UncommittedFact {
            turn: Some(open.turn),
            by: None,
            event: Event::ConfirmResolved(Box::new(end)),
        };
        self.settle(PendingCommit::facts(vec![fact])).await;
        open.asker.answer(Filled::Dismissed);
    }

    /// First the log, then everybody, then the server. On an error it stays open.
    async fn resolve_form(
        &mut self,
        resolution: Resolution,
        filled: Filled,
    ) -> Result<(), RequestError> {
        let Some(open) = self.forms.take(resolution.confirm) else {
            return Ok(());
        };
        let fact = UncommittedFact {
            turn: Some(open.turn),
            by: resolution.by.clone(),
            event: Event::ConfirmResolved(Box::new(resolution)),
        };
        match self.commit(&[fact], LiveChange::Keep).await {
            Ok(_) => {
                open.asker.answer(filled);
                Ok(())
            }
            Err(error) => {
                self.forms.open.push(open);
                Err(error.into())
            }
        }
    }

    /// The events of a step, and before the reply of a call the end of each form that its server still had open: nobody
    /// waits for an answer any more.
    pub(crate) fn with_ends_of_forms(&mut self, events: Vec<Event>) -> Vec<Event> {
        if self.forms.open.is_empty() {
            return events;
        }
        let mut all = Vec::with_capacity(events.len() + 1);
        for event in events {
            for open in &self.forms.open {
                let mut is_over = matches!(event, Event::TurnFinished { .. });
                if let Event::ToolResult { call, .. } = &event {
                    is_over = open.confirm.call().is_some_and(|it| it.id == *call);
                }
                if is_over {
                    let waited_ms = self.waited_ms(open.confirm.id, clock::now());
                    let end =
                        Resolution::unanswered(open.confirm.id, ConfirmFate::Cancelled, waited_ms);
                    all.push(Event::ConfirmResolved(Box::new(end)));
                }
            }
            let ended = |it: &OpenForm| {
                all.iter().any(|event| {
                    matches!(event, Event::ConfirmResolved(end) if end.confirm == it.confirm.id)
                })
            };
            // Dropped, they are dismissed.
            self.forms.open.retain(|it| !ended(it));
            all.push(event);
        }
        all
    }
}
