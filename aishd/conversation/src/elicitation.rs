//! Forms that servers want filled in while their calls run: shown as confirms, answered once, and gone with the
//! call. The answer goes to the server and is kept nowhere: of it the log has only that there was one. Their requests for
//! a model are kept in the same place, and end in the same ways; what is their own is in [`super::sample`].

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use aish_proto::form::{ElicitationContent, check};
use aish_proto::id::{ConfirmId, TurnId};
use aishd_log::confirm::{Confirm, ConfirmFate, ConfirmSubject, Decision, Resolution};
use aishd_log::event::{Event, ProviderLevel, StopReason};
use aishd_mcp_messages::form;
use aishd_model::preset::Preset;
use aishd_platform::clock;
use aishd_rules::elicitation::judge;
use aishd_rules::gate::ApprovedCall;
use aishd_rules::server_request::{ServerRequest, ServerRequestJudgement};
use aishd_tools::{Filled, Form};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::call::StartedCall;
use super::commit::{PendingCommit, UncommittedFact};
use super::question_quota::Quota;
use super::sampling::{ModelWanted, SamplingConsent};
use super::view::LiveChange;
use super::{ActiveTurn, Conversation};
use crate::request_error::RequestError;
use crate::requests::{AnswerOutcome, ConfirmAnswer};

/// What waits to be looked at by the actor; a call that asks more waits.
const MAILBOX: usize = 8;

/// What a running call has for the actor.
#[derive(Debug)]
pub(super) struct ElicitMessage {
    turn: TurnId,
    call: String,
    go: ApprovedCall,
    what: ElicitKind,
}

#[derive(Debug)]
pub(super) enum ElicitKind {
    Form(Form),
    /// Its server wants a model to be asked.
    Model(ModelWanted),
    /// What became of such a request. The server hears it when people have been told.
    Told {
        level: ProviderLevel,
        text: String,
        kept: oneshot::Sender<()>,
    },
}

impl ElicitMessage {
    pub(super) fn of(started: &StartedCall, what: ElicitKind) -> Self {
        Self {
            turn: started.turn,
            call: started.call.clone(),
            go: started.go.clone(),
            what,
        }
    }
}

/// Who waits for an answer.
#[derive(Debug)]
pub(super) enum ElicitAsker {
    Form(oneshot::Sender<Filled>),
    /// With the preset that answers once it may.
    Model(oneshot::Sender<SamplingConsent>, Arc<Preset>),
}

impl ElicitAsker {
    fn is_closed(&self) -> bool {
        match self {
            Self::Form(answer) => answer.is_closed(),
            Self::Model(answer, _) => answer.is_closed(),
        }
    }

    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Form(answer) => answer.poll_closed(context),
            Self::Model(answer, _) => answer.poll_closed(context),
        }
    }

    /// It may have been taken back at this moment.
    fn answer(self, filled: Filled) {
        match self {
            Self::Form(answer) => drop(answer.send(filled)),
            Self::Model(answer, preset) => drop(answer.send(SamplingConsent::of(filled, preset))),
        }
    }
}

/// What the actor hears of the questions of servers.
#[derive(Debug)]
pub(super) enum ElicitNews {
    Asked(Box<ElicitMessage>),
    /// Its server does not want to know any more.
    TakenBack(ConfirmId),
}

/// All questions of servers in the conversation.
#[derive(Debug)]
pub(super) struct ServerQuestions {
    sender: mpsc::Sender<ElicitMessage>,
    asked: mpsc::Receiver<ElicitMessage>,
    open: Vec<OpenForm>,
}

/// One that is in the log, and waits.
#[derive(Debug)]
struct OpenForm {
    turn: TurnId,
    confirm: Confirm,
    asker: ElicitAsker,
}

impl Default for ServerQuestions {
    fn default() -> Self {
        let (sender, asked) = mpsc::channel(MAILBOX);
        Self {
            sender,
            asked,
            open: vec![],
        }
    }
}

impl ServerQuestions {
    pub(super) fn sender(&self) -> mpsc::Sender<ElicitMessage> {
        self.sender.clone()
    }

    pub(super) fn is_open(&self, confirm: ConfirmId) -> bool {
        self.open.iter().any(|it| it.confirm.id == confirm)
    }

    /// Waits for the next. Cancel-safe.
    pub(super) async fn next(&mut self) -> ElicitNews {
        poll_fn(|context| {
            for form in &mut self.open {
                if form.asker.poll_closed(context).is_ready() {
                    return Poll::Ready(ElicitNews::TakenBack(form.confirm.id));
                }
            }
            match self.asked.poll_recv(context) {
                Poll::Ready(Some(asking)) => Poll::Ready(ElicitNews::Asked(Box::new(asking))),
                // One sender is ours, so it never ends.
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    fn take(&mut self, confirm: ConfirmId) -> Option<OpenForm> {
        let at = self.open.iter().position(|it| it.confirm.id == confirm)?;
        Some(self.open.remove(at))
    }
}

/// Hands on what a call's server asks, for as long as it is polled.
pub(super) async fn pass_on(
    started: &StartedCall,
    mut asked: mpsc::Receiver<Form>,
    quota: &Quota,
) -> Infallible {
    while let Some(form) = asked.recv().await {
        if !quota.take() {
            let _gone = form.answer.send(Filled::Declined);
            continue;
        }
        let asking = ElicitMessage::of(started, ElicitKind::Form(form));
        // The actor has gone: nobody is asked any more.
        let _gone = started.forms.send(asking).await;
    }
    std::future::pending().await
}

impl Conversation {
    pub(super) async fn take_news(&mut self, news: ElicitNews) {
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

    pub(super) async fn show(&mut self, turn: TurnId, confirm: Confirm, asker: ElicitAsker) {
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
    pub(super) fn server_request<'a>(
        &'a self,
        active: &'a ActiveTurn,
        call: &'a str,
        go: &'a ApprovedCall,
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

    pub(super) async fn tell_model(&mut self, turn: TurnId, level: ProviderLevel, text: String) {
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
    pub(super) async fn answer_form(
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
    pub(super) async fn end_form(&mut self, confirm: ConfirmId, fate: ConfirmFate) {
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
    pub(super) fn with_ends_of_forms(&mut self, events: Vec<Event>) -> Vec<Event> {
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

/// What the server is told, if it is an answer to this form.
fn filled(
    confirm: &Confirm,
    answering: &ConfirmAnswer,
) -> Result<(Filled, ConfirmFate), RequestError> {
    let bad = |why: String| Err(RequestError::BadAnswer(why));
    if !confirm.options.contains(&answering.decision) {
        return bad("a server's question does not take that answer".to_owned());
    }
    if answering.arguments.is_some() {
        return bad("a server's question has no arguments".to_owned());
    }
    if !answering.decision.allows() {
        if answering.content.is_some() {
            return bad("what is not sent has no content".to_owned());
        }
        return Ok(match answering.decision {
            Decision::Abort => (Filled::Dismissed, ConfirmFate::Denied),
            Decision::Deny
            | Decision::AllowOnce
            | Decision::AllowConversation
            | Decision::AllowProvider
            | Decision::RaiseOnly
            | Decision::Edit => (Filled::Declined, ConfirmFate::Denied),
        });
    }
    let ConfirmSubject::Form(subject) = &confirm.subject else {
        if answering.content.is_some() {
            return bad("a request for a model has nothing to fill in".to_owned());
        }
        return Ok((Filled::Agreed, ConfirmFate::Allowed));
    };
    let alias = subject.call.tool.alias();
    let asked = match form::read(alias.as_str(), &subject.params) {
        Ok(asked) => asked,
        Err(error) => return bad(error.to_string()),
    };
    match asked.wanted {
        ElicitationContent::Form { fields } => {
            let content = answering.content.clone().unwrap_or_default();
            match check(&fields, &content) {
                Ok(()) => Ok((Filled::Accepted(content.0), ConfirmFate::Allowed)),
                Err(misfit) => bad(misfit.to_string()),
            }
        }
        ElicitationContent::Url { .. } if answering.content.is_some() => {
            bad("a page has nothing to fill in here".to_owned())
        }
        ElicitationContent::Url { .. } => Ok((Filled::Agreed, ConfirmFate::Allowed)),
    }
}
