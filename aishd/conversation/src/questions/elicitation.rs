//! Forms that servers want filled in while their calls run: shown as confirms, answered once, and gone with the
//! call. The answer goes to the server and is kept nowhere: of it the log has only that there was one. Their requests for
//! a model are kept in the same place, and end in the same ways; what is their own is in [`crate::questions::sampling`].

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use aish_proto::form::{ElicitationContent, check};
use aish_proto::id::{ConfirmId, TurnId};
use aishd_log::confirm::{Confirm, ConfirmFate, ConfirmSubject, Decision};
use aishd_log::event::ProviderLevel;
use aishd_mcp_messages::form;
use aishd_model::preset::Preset;
use aishd_rules::gate::AdmittedCall;
use aishd_tools::{BegunTask, Filled, Form};
use tokio::sync::{mpsc, oneshot};

use crate::questions::question_quota::Quota;
use crate::questions::sampling::{ModelWanted, SamplingConsent};
use crate::request_error::RequestError;
use crate::requests::ConfirmAnswer;
use crate::turns::call::StartedCall;

/// What waits to be looked at by the actor; a call that asks more waits.
pub(crate) const MAILBOX: usize = 8;

/// What a running call has for the actor.
#[derive(Debug)]
pub(crate) struct ElicitMessage {
    pub(crate) turn: TurnId,
    pub(crate) call: String,
    pub(crate) go: AdmittedCall,
    pub(crate) what: ElicitKind,
}

#[derive(Debug)]
pub(crate) enum ElicitKind {
    Form(Form),
    /// Its server wants a model to be asked.
    Model(ModelWanted),
    /// Its server goes on with it by itself.
    Task(BegunTask),
    /// What became of such a request. The server hears it when people have been told.
    Told {
        level: ProviderLevel,
        text: String,
        kept: oneshot::Sender<()>,
    },
}

impl ElicitMessage {
    pub(crate) fn of(started: &StartedCall, what: ElicitKind) -> Self {
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
pub(crate) enum ElicitAsker {
    Form(oneshot::Sender<Filled>),
    /// With the preset that answers once it may.
    Model(oneshot::Sender<SamplingConsent>, Arc<Preset>),
}

impl ElicitAsker {
    pub(crate) fn is_closed(&self) -> bool {
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
    pub(crate) fn answer(self, filled: Filled) {
        match self {
            Self::Form(answer) => drop(answer.send(filled)),
            Self::Model(answer, preset) => drop(answer.send(SamplingConsent::of(filled, preset))),
        }
    }
}

/// What the actor hears of the questions of servers.
#[derive(Debug)]
pub(crate) enum ElicitNews {
    Asked(Box<ElicitMessage>),
    /// Its server does not want to know any more.
    TakenBack(ConfirmId),
}

/// All questions of servers in the conversation.
#[derive(Debug)]
pub(crate) struct ServerQuestions {
    pub(crate) sender: mpsc::Sender<ElicitMessage>,
    pub(crate) asked: mpsc::Receiver<ElicitMessage>,
    pub(crate) open: Vec<OpenForm>,
}

/// One that is in the log, and waits.
#[derive(Debug)]
pub(crate) struct OpenForm {
    pub(crate) turn: TurnId,
    pub(crate) confirm: Confirm,
    pub(crate) asker: ElicitAsker,
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
    pub(crate) fn sender(&self) -> mpsc::Sender<ElicitMessage> {
        self.sender.clone()
    }

    pub(crate) fn is_open(&self, confirm: ConfirmId) -> bool {
        self.open.iter().any(|it| it.confirm.id == confirm)
    }

    /// Waits for the next. Cancel-safe.
    pub(crate) async fn next(&mut self) -> ElicitNews {
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

    pub(crate) fn take(&mut self, confirm: ConfirmId) -> Option<OpenForm> {
        let at = self.open.iter().position(|it| it.confirm.id == confirm)?;
        Some(self.open.remove(at))
    }
}

/// Hands on what a call's server asks, for as long as it is polled.
pub(crate) async fn pass_on(
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

/// Tells the conversation of the task that a call's server makes of it, for as long as it is polled.
pub(crate) async fn pass_on_task(
    started: &StartedCall,
    mut begun: mpsc::Receiver<BegunTask>,
) -> Infallible {
    while let Some(task) = begun.recv().await {
        let keeping = ElicitMessage::of(started, ElicitKind::Task(task));
        // The actor has gone: the daemon ends.
        let _gone = started.forms.send(keeping).await;
    }
    std::future::pending().await
}

/// What the server is told, if it is an answer to this form.
pub(crate) fn filled(
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
            | Decision::Edit
            | Decision::Keep => (Filled::Declined, ConfirmFate::Denied),
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
