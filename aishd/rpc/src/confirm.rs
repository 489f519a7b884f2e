//! `confirm/*`: what waits for a person, and answers.

use std::sync::Arc;

use aish_proto::confirm::{
    self as wire, Answer, AnswerParams, AnswerResult, ConfirmListResult, ConfirmParams,
    ConfirmPreviewParams, ConfirmPreviewResult, ConfirmRecord, ConfirmState, ConfirmWatchResult,
    Get, List, Preview, Try, TryResult, Watch,
};
use aish_proto::error::ErrorKind;
use aish_proto::form::{ElicitationContent, ElicitationRequest};
use aish_proto::id::{ConversationId, Seq, SubscriptionId};
use aish_proto::{
    event as events, memory as shown_fact, permission as shown_upgrade, sampling as shown,
};
use aishd_conversation::questions::pending_questions::{PendingById, PendingQuestion};
use aishd_conversation::requests::{AnswerOutcome, ArgumentEdit, ConfirmAnswer, TrialRequest};
use aishd_conversation::view::viewers::AttendingViewer;
use aishd_log::access::Access;
use aishd_log::confirm::level::LevelSubject;
use aishd_log::confirm::{
    Confirm, ConfirmCall, ConfirmFate, ConfirmSubject, Decision, FormSubject, KeptHunks,
    ModelSubject, Resolution,
};
use aishd_log::event::{Event, Record};
use aishd_log::level_request::LevelStep;
use aishd_log::state::ConversationState;
use aishd_log::tool::ContentDigest;
use aishd_mcp_messages::form;
use aishd_platform::clock;
use aishd_rules::sampling_request::{SamplingRequest, SamplingRole, read_bounded};
use aishd_tools::builtin;
use jsonrpsee::RpcModule;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::answerer::answerer;
use super::connection::ClientConnection;
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, UnsentGuard, register};
use crate::log_owner::LogOwner;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<List, _, _>(module, list);
    register::<Get, _, _>(module, |call: MethodCall<Get>| async move {
        get(&call.server, call.params).await
    });
    register::<Watch, _, _>(module, watch);
    register::<Preview, _, _>(module, |call: MethodCall<Preview>| async move {
        preview(&call.server, call.params).await
    });
    register::<Try, _, _>(module, try_command);
    register::<Answer, _, _>(module, answer);
}

async fn list(call: MethodCall<List>) -> Result<ConfirmListResult, MethodError> {
    let open = call.server.directory.pending().watch().await;
    let open = open.borrow().clone();
    let wanted = |it: &&Arc<PendingQuestion>| {
        let conversation = call.params.conversation;
        conversation.is_none_or(|id| it.conversation == id)
    };
    let confirms = open.values().filter(wanted).map(|it| record(it, None));
    Ok(ConfirmListResult {
        confirms: confirms.collect(),
    })
}

async fn get(server: &RpcServer, params: ConfirmParams) -> Result<ConfirmRecord, MethodError> {
    let found = server.directory.confirm(params.confirm).await?;
    let (question, resolved) = found.ok_or_else(unknown)?;
    Ok(record(&question, resolved.as_ref()))
}

fn unknown() -> MethodError {
    MethodError::new(ErrorKind::NotFound, "there is no such confirm").hint("aishctl confirm ls")
}

fn digest(text: &str) -> Result<ContentDigest, MethodError> {
    text.parse()
        .map_err(|error| MethodError::params(&format!("digest: {error}")))
}

async fn preview(
    server: &RpcServer,
    params: ConfirmPreviewParams,
) -> Result<ConfirmPreviewResult, MethodError> {
    let ConfirmPreviewParams { confirm, arguments } = params;
    let arguments = written(&arguments)?;
    let record = get(server, ConfirmParams { confirm }).await?;
    let preview = server.directory.with(record.conversation, |handle| {
        let arguments = arguments.clone();
        async move { handle.edited(ArgumentEdit { confirm, arguments }).await }
    });
    Ok(ConfirmPreviewResult {
        request: requested(preview.await?),
    })
}

async fn try_command(call: MethodCall<Try>) -> Result<TryResult, MethodError> {
    let wanted = TrialRequest {
        confirm: call.params.confirm,
        digest: digest(&call.params.digest)?,
        by: call.connection.person(),
    };
    let found = call.server.directory.confirm(wanted.confirm).await?;
    let (question, _) = found.ok_or_else(unknown)?;
    let tried = call
        .server
        .directory
        .with(question.conversation, |handle| {
            let wanted = wanted.clone();
            async move { handle.try_command(wanted).await }
        })
        .await?;
    Ok(TryResult {
        tried: crate::tried::tried(*tried),
    })
}

async fn answer(call: MethodCall<Answer>) -> Result<AnswerResult, MethodError> {
    let only = |outcome| AnswerResult {
        outcome,
        by: None,
        decision: None,
        at: None,
    };
    let answering = answering(&call.connection, &call.params)?;
    let found = call.server.directory.confirm(call.params.confirm).await?;
    let Some((question, _)) = found else {
        return Ok(only(wire::AnswerOutcome::Unknown));
    };
    let outcome = call
        .server
        .directory
        .with(question.conversation, |handle| {
            let answering = answering.clone();
            async move { handle.answer(answering).await }
        })
        .await?;
    Ok(match outcome {
        AnswerOutcome::Resolved => only(wire::AnswerOutcome::Resolved),
        AnswerOutcome::Expired => only(wire::AnswerOutcome::Expired),
        AnswerOutcome::Cancelled => only(wire::AnswerOutcome::Cancelled),
        AnswerOutcome::ArgumentsChanged => only(wire::AnswerOutcome::ArgsChanged),
        AnswerOutcome::Unknown => only(wire::AnswerOutcome::Unknown),
        AnswerOutcome::AlreadyResolved(at, resolution) => AnswerResult {
            outcome: wire::AnswerOutcome::AlreadyResolved,
            by: resolution.by.map(answerer),
            decision: resolution.decision.map(decision),
            at: Some(clock::rfc3339(at)),
        },
    })
}

fn answering(
    connection: &ClientConnection,
    params: &AnswerParams,
) -> Result<ConfirmAnswer, MethodError> {
    let digest = digest(&params.digest)?;
    let arguments = params.arguments.as_deref().map(written).transpose()?;
    Ok(ConfirmAnswer {
        confirm: params.confirm,
        decision: match params.decision {
            wire::Decision::AllowOnce => Decision::AllowOnce,
            wire::Decision::AllowConversation => Decision::AllowConversation,
            wire::Decision::AllowProvider => Decision::AllowProvider,
            wire::Decision::RaiseOnly => Decision::RaiseOnly,
            wire::Decision::Deny => Decision::Deny,
            wire::Decision::Edit => Decision::Edit,
            wire::Decision::Abort => Decision::Abort,
            wire::Decision::Keep => Decision::Keep,
        },
        digest,
        arguments,
        reason: params.reason.clone(),
        content: params.content.clone(),
        changes: params.changes,
        only: params.only.clone(),
        hunks: params.hunks.as_ref().map(chosen_hunks).transpose()?,
        by: connection.person(),
    })
}

fn chosen_hunks(chosen: &wire::ChosenHunks) -> Result<KeptHunks, MethodError> {
    Ok(KeptHunks {
        numbers: chosen.numbers.clone(),
        of: 0,
        difference: digest(&chosen.difference)?,
    })
}

fn written(arguments: &str) -> Result<Map<String, Value>, MethodError> {
    serde_json::from_str(arguments).map_err(|error| {
        MethodError::params(&format!("arguments are not one JSON object: {error}"))
    })
}

async fn watch(call: MethodCall<Watch>) -> Result<ConfirmWatchResult, MethodError> {
    let MethodCall {
        server,
        connection,
        after_reply,
        ..
    } = call;
    let (subscription, detached) = connection.subscribe(None)?;
    let watcher = ConfirmWatcher {
        _attends: connection
            .may_answer()
            .then(|| server.directory.watchers().attend()),
        _told_before_the_end: server.untold(),
        server,
        connection,
        subscription,
        detached,
        known: PendingById::default(),
    };
    after_reply.start(watcher.run());
    Ok(ConfirmWatchResult { subscription })
}

/// One `confirm/watch`: it compares what is open with what it has told of.
struct ConfirmWatcher {
    /// Whoever may answer is there for all questions.
    _attends: Option<AttendingViewer>,
    _told_before_the_end: UnsentGuard,
    server: Arc<RpcServer>,
    connection: Arc<ClientConnection>,
    subscription: SubscriptionId,
    detached: CancellationToken,
    known: PendingById,
}

impl ConfirmWatcher {
    async fn run(mut self) {
        let detached = self.detached.clone();
        let watched = self.server.directory.pending().watch();
        let Some(mut open) = detached.run_until_cancelled(watched).await else {
            return;
        };
        let mut first = true;
        loop {
            let now = open.borrow_and_update().clone();
            if self.send_changes(now, first).await.is_none() {
                break;
            }
            first = false;
            tokio::select! {
                changed = open.changed() => if changed.is_err() { break },
                () = detached.cancelled() => break,
            }
        }
        self.connection
            .subscriptions
            .lock()
            .remove(&self.subscription);
    }

    /// `None`: the client has gone, or is too slow.
    async fn send_changes(&mut self, now: PendingById, first: bool) -> Option<()> {
        let before = std::mem::replace(&mut self.known, now.clone());
        let mut lines = String::new();
        for (id, question) in before.iter().filter(|(id, _)| !now.contains_key(id)) {
            let found = self.server.directory.confirm(*id).await;
            // A conversation that was deleted has taken it along.
            if let Ok(Some((_, Some(end)))) = found {
                self.line(&mut lines, question.conversation, &end);
            }
        }
        for (_, question) in now.iter().filter(|(id, _)| !before.contains_key(id)) {
            self.line(&mut lines, question.conversation, &question.record());
        }
        for (id, question) in now.iter() {
            let known = before.get(id).and_then(|it| it.tried.as_ref());
            let is_new = question.tried.as_ref() != known;
            if let Some(trial) = question.trial_record().filter(|_| is_new) {
                self.line(&mut lines, question.conversation, &trial);
            }
        }
        if first {
            let all = self.log(None);
            let through = Seq(0);
            let complete = events::ReplayComplete { through };
            let event = all.ephemeral(None, clock::now(), &complete);
            lines.push_str(&crate::notification::notification(
                self.subscription,
                &event,
            ));
        }
        if lines.is_empty() {
            return Some(());
        }
        let written = self.connection.outbox.write(lines.as_bytes()).await;
        written
            .map_err(|cut| self.server.note_cut(&self.connection, cut))
            .ok()
    }

    fn line(&self, lines: &mut String, conversation: ConversationId, record: &Record) {
        let event = self.log(Some(conversation)).stored(record);
        lines.push_str(&crate::notification::notification(
            self.subscription,
            &event,
        ));
    }

    fn log(&self, conversation: Option<ConversationId>) -> LogOwner {
        LogOwner {
            epoch: self.server.about.epoch,
            conversation,
        }
    }
}

/// The open confirms of a conversation, as a snapshot shows them.
pub(super) fn pending(
    server: &RpcServer,
    conversation: ConversationId,
    state: &ConversationState,
) -> Vec<ConfirmRecord> {
    let open = server.directory.pending().snapshot();
    let found = state.confirms.iter().filter_map(|it| open.get(&it.id));
    let own = found.filter(|it| it.conversation == conversation);
    own.map(|it| record(it, None)).collect()
}

fn record(question: &PendingQuestion, resolved: Option<&Record>) -> ConfirmRecord {
    let end = resolved.and_then(|it| {
        let Event::ConfirmResolved(resolution) = &it.event else {
            return None;
        };
        Some((it.at, Resolution::clone(resolution)))
    });
    ConfirmRecord {
        conversation: question.conversation,
        turn: question.turn,
        requested_at: clock::rfc3339(question.requested_at),
        state: end
            .as_ref()
            .map_or(ConfirmState::Pending, |(_, it)| state(it.fate)),
        request: request_now(question),
        tried: question
            .tried
            .as_deref()
            .map(|it| crate::tried::tried(it.clone())),
        resolved_at: end.as_ref().map(|(at, _)| clock::rfc3339(*at)),
        resolution: end.map(|(_, it)| self::resolved(it)),
    }
}

/// As it was asked; what was tried of it meanwhile can be kept, too.
fn request_now(question: &PendingQuestion) -> events::ConfirmRequested {
    let mut request = requested(Confirm::clone(&question.confirm));
    if question.tried.is_some() && !request.options.contains(&wire::Decision::Keep) {
        request.options.insert(0, wire::Decision::Keep);
    }
    request
}

pub(super) fn requested(confirm: Confirm) -> events::ConfirmRequested {
    events::ConfirmRequested {
        confirm: confirm.id,
        number: confirm.number,
        title: confirm.title,
        subject: Box::new(subject(confirm.subject)),
        why: confirm.why,
        destructive: confirm.destructive,
        halt: confirm.halt,
        digest: confirm.digest.to_string(),
        options: confirm.options.into_iter().map(decision).collect(),
        expires_at: confirm.expires_at.map(clock::rfc3339),
    }
}

fn changed_file(call: &ConfirmCall) -> Option<String> {
    let change = builtin::file_change(&call.tool, &call.arguments)?.ok()?;
    Some(change.path().to_owned())
}

fn subject(subject: ConfirmSubject) -> wire::ConfirmSubject {
    match subject {
        ConfirmSubject::Call(subject) => wire::ConfirmSubject::Call(wire::CallSubject {
            changes_file: changed_file(&subject.call),
            call: call(subject.call),
            definition: subject.definition,
            approved_definition: subject.approved_definition,
            level_required: subject.needs.number(),
            raise_to: subject.raise_to.map(Access::number),
        }),
        ConfirmSubject::Command(subject) => wire::ConfirmSubject::Command(wire::CommandSubject {
            call: call(subject.call),
            level_required: subject.needs.number(),
            asked: super::shell::wire_command(subject.asked),
        }),
        ConfirmSubject::Form(subject) => wire::ConfirmSubject::Form(wire::FormSubject {
            asked: form_shown(&subject),
            call: call(subject.call),
        }),
        ConfirmSubject::Model(subject) => wire::ConfirmSubject::Model(wire::ModelSubject {
            asked: for_model(sampling_shown(&subject)),
            call: call(subject.call),
        }),
        ConfirmSubject::SignIn(subject) => wire::ConfirmSubject::SignIn(wire::SignInSubject {
            server: subject.call.tool.alias().to_string(),
            call: call(subject.call),
            issuer: subject.issuer,
            why: subject.why,
            scopes: subject.scopes,
        }),
        ConfirmSubject::Level(LevelSubject {
            step: LevelStep { provider, from, to },
            wanted_for,
            by,
        }) => wire::ConfirmSubject::Level(shown_upgrade::LevelUpgrade {
            provider: provider.to_string(),
            from: from.number(),
            to: to.number(),
            wanted_for: wanted_for.map(|it| it.to_string()),
            by: answerer(by),
        }),
        ConfirmSubject::Memory(subject) => {
            wire::ConfirmSubject::Memory(shown_fact::ProposedMemory {
                kind: subject.kind.as_str().to_owned(),
                text: subject.text,
                model: subject.preset,
            })
        }
        ConfirmSubject::Changes(subject) => {
            wire::ConfirmSubject::Changes(crate::tried::run_changes(subject))
        }
        ConfirmSubject::Host(subject) => wire::ConfirmSubject::Host(crate::tried::host(subject)),
    }
}

/// As it was shown when it was asked. What an older program took and this one does not is shown as nothing to fill in.
fn form_shown(subject: &FormSubject) -> ElicitationRequest {
    let alias = subject.call.tool.alias().as_str();
    form::read(alias, &subject.params).unwrap_or_else(|error| ElicitationRequest {
        server: alias.to_owned(),
        message: format!("it cannot be shown: {error}"),
        wanted: ElicitationContent::Form { fields: vec![] },
    })
}

/// The same for a request for a model.
fn sampling_shown(subject: &ModelSubject) -> SamplingRequest {
    let alias = subject.call.tool.alias().as_str();
    read_bounded(alias, &subject.asked).unwrap_or_else(|error| SamplingRequest {
        server: alias.to_owned(),
        preset: subject.asked.preset.clone(),
        model: subject.asked.model.clone(),
        system_prompt: Some(format!("it cannot be shown: {error}")),
        messages: vec![],
        max_tokens: subject.asked.max_tokens,
        temperature: None,
        stop_sequences: vec![],
    })
}

fn call(call: ConfirmCall) -> wire::ConfirmCall {
    wire::ConfirmCall {
        id: call.id,
        tool: call.tool.to_string(),
        arguments: call.arguments,
        cwd: call.cwd,
        server: call.server,
    }
}

fn for_model(asked: SamplingRequest) -> shown::SamplingRequest {
    let messages = asked.messages.into_iter().map(|it| shown::SamplingMessage {
        role: match it.role {
            SamplingRole::User => shown::SamplingRole::User,
            SamplingRole::Assistant => shown::SamplingRole::Assistant,
        },
        text: it.text,
    });
    shown::SamplingRequest {
        server: asked.server,
        preset: asked.preset,
        model: asked.model,
        system_prompt: asked.system_prompt,
        messages: messages.collect(),
        max_tokens: asked.max_tokens,
        temperature: asked.temperature,
        stop_sequences: asked.stop_sequences,
    }
}

pub(super) fn resolved(resolution: Resolution) -> events::ConfirmResolved {
    events::ConfirmResolved {
        confirm: resolution.confirm,
        state: state(resolution.fate),
        decision: resolution.decision.map(decision),
        by: resolution.by.map(answerer),
        reason: resolution.reason,
        edited: resolution.edited,
        only: resolution.only,
        of_hunks: resolution.hunks.as_ref().map(|it| it.of),
        hunks: resolution.hunks.map_or(vec![], |it| it.numbers),
        waited_ms: resolution.waited_ms,
    }
}

fn state(fate: ConfirmFate) -> ConfirmState {
    match fate {
        ConfirmFate::Allowed => ConfirmState::Allowed,
        ConfirmFate::Denied => ConfirmState::Denied,
        ConfirmFate::Expired => ConfirmState::Expired,
        ConfirmFate::Cancelled => ConfirmState::Cancelled,
    }
}

pub(super) fn decision(decision: Decision) -> wire::Decision {
    match decision {
        Decision::AllowOnce => wire::Decision::AllowOnce,
        Decision::AllowConversation => wire::Decision::AllowConversation,
        Decision::AllowProvider => wire::Decision::AllowProvider,
        Decision::RaiseOnly => wire::Decision::RaiseOnly,
        Decision::Deny => wire::Decision::Deny,
        Decision::Edit => wire::Decision::Edit,
        Decision::Abort => wire::Decision::Abort,
        Decision::Keep => wire::Decision::Keep,
    }
}
