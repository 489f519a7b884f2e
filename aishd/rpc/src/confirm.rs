//! `confirm/*`: what waits for a person, and answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use aish_proto::answerer::Answerer;
use aish_proto::confirm::{
    self as wire, Answer, AnswerParams, AnswerResult, ConfirmListResult, ConfirmParams,
    ConfirmPreviewParams, ConfirmPreviewResult, ConfirmRecord, ConfirmState, ConfirmWatchResult,
    Get, List, Preview, Watch,
};
use aish_proto::error::ErrorKind;
use aish_proto::id::{ConfirmId, ConversationId, Seq, SubscriptionId};
use aish_proto::{
    event as events, memory as shown_fact, permission as shown_upgrade, sampling as shown,
};
use aishd_conversation::pending_questions::{PendingById, PendingQuestion, QuestionSubject};
use aishd_conversation::requests::{AnswerOutcome, ArgumentEdit, ConfirmAnswer};
use aishd_log::canonical::canonical;
use aishd_log::confirm::{
    AnsweringPerson, Confirm, ConfirmFate, ConfirmKind, Decision, Resolution,
};
use aishd_log::event::{Event, Record};
use aishd_log::level_request::{LevelRequest, LevelStep, OPTIONS};
use aishd_log::memory::question::{self, MemoryProposal};
use aishd_log::state::ConversationState;
use aishd_mcp_messages::form;
use aishd_platform::clock;
use aishd_rules::sampling_request::{SamplingRequest, SamplingRole, read_bounded};
use jsonrpsee::RpcModule;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

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
    let (question, resolved) = found.ok_or_else(|| {
        MethodError::new(ErrorKind::NotFound, "there is no such confirm").hint("aishctl confirm ls")
    })?;
    Ok(record(&question, resolved.as_ref()))
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
    let digest = params.digest.parse();
    let digest = digest.map_err(|error| MethodError::params(&format!("digest: {error}")))?;
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
        },
        digest,
        arguments,
        reason: params.reason.clone(),
        content: params.content.clone(),
        by: connection.person(),
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
    let in_turn = state.confirms.iter().map(|it| (it.seq, it.id));
    let raises = state.raises.iter().map(|it| (it.seq, it.id));
    let proposals = state.proposals.iter().map(|it| (it.seq, it.id));
    let asked: BTreeMap<Seq, ConfirmId> = in_turn.chain(raises).chain(proposals).collect();
    let found = asked.values().filter_map(|it| open.get(it));
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
        request: match question.asked.clone() {
            QuestionSubject::InTurn(confirm) => requested(*confirm),
            QuestionSubject::Raise(raise) => raise_requested(*raise),
            QuestionSubject::Memory(proposal) => fact_proposed(*proposal),
        },
        resolved_at: end.as_ref().map(|(at, _)| clock::rfc3339(*at)),
        resolution: end.map(|(_, it)| self::resolved(it)),
    }
}

pub(super) fn requested(confirm: Confirm) -> events::ConfirmRequested {
    let Confirm {
        id,
        number,
        kind,
        title,
        call,
        tool,
        arguments,
        cwd,
        server,
        digest,
        definition,
        definition_digest: _,
        provider_digest: _,
        approved_definition,
        needs,
        raise_to,
        why,
        why_told: _,
        elicitation,
        sampling,
        shell,
        options,
        expires_at,
    } = confirm;
    // It was read before it was asked.
    let elicitation = elicitation.and_then(|it| form::read(tool.alias().as_str(), &it).ok());
    let sampling = sampling.and_then(|it| read_bounded(tool.alias().as_str(), &it).ok());
    events::ConfirmRequested {
        confirm: id,
        number,
        kind: match kind {
            ConfirmKind::Tool => wire::ConfirmKind::Tool,
            ConfirmKind::Halt => wire::ConfirmKind::Halt,
            ConfirmKind::Shell => wire::ConfirmKind::Shell,
            ConfirmKind::Elicitation => wire::ConfirmKind::Elicitation,
            ConfirmKind::Sampling => wire::ConfirmKind::Sampling,
        },
        title,
        call,
        tool: tool.to_string(),
        arguments,
        cwd,
        server,
        digest: digest.to_string(),
        definition,
        approved_definition,
        level_required: needs.number(),
        raise_to: raise_to.map(aishd_log::access::Access::number),
        why,
        elicitation: elicitation.map(Box::new),
        sampling: sampling.map(|it| Box::new(for_model(it))),
        shell: shell.map(|it| Box::new(super::shell::wire_command(*it))),
        upgrade: None,
        memory: None,
        options: options.into_iter().map(decision).collect(),
        expires_at: expires_at.map(clock::rfc3339),
    }
}

/// A level is no call: what belongs to one is empty.
pub(super) fn raise_requested(raise: LevelRequest) -> events::ConfirmRequested {
    let (digest, why) = (raise.upgrade.digest(), raise.upgrade.why());
    let LevelRequest {
        id,
        number,
        upgrade: LevelStep { provider, from, to },
        wanted_for,
        by,
        expires_at,
    } = raise;
    events::ConfirmRequested {
        confirm: id,
        number,
        kind: wire::ConfirmKind::Permission,
        title: format!("{provider} to level {}", to.number()),
        call: String::new(),
        tool: provider.to_string(),
        arguments: "{}".to_owned(),
        cwd: String::new(),
        server: String::new(),
        digest: digest.to_string(),
        definition: Value::Null,
        approved_definition: None,
        level_required: to.number(),
        raise_to: Some(to.number()),
        why,
        elicitation: None,
        sampling: None,
        shell: None,
        upgrade: Some(Box::new(shown_upgrade::LevelUpgrade {
            provider: provider.to_string(),
            from: from.number(),
            to: to.number(),
            wanted_for: wanted_for.map(|it| it.to_string()),
            by: answerer(by),
        })),
        memory: None,
        options: OPTIONS.map(decision).to_vec(),
        expires_at: expires_at.map(clock::rfc3339),
    }
}

/// A fact is no call either: its arguments are what would be kept, for clients that know no such confirm.
pub(super) fn fact_proposed(proposal: MemoryProposal) -> events::ConfirmRequested {
    let (digest, why) = (proposal.digest(), proposal.why());
    let arguments = canonical(&proposal.fact());
    let MemoryProposal {
        id,
        number,
        kind,
        text,
        preset,
    } = proposal;
    events::ConfirmRequested {
        confirm: id,
        number,
        kind: wire::ConfirmKind::Memory,
        title: "a fact to remember".to_owned(),
        call: String::new(),
        tool: String::new(),
        arguments,
        cwd: String::new(),
        server: String::new(),
        digest: digest.to_string(),
        definition: Value::Null,
        approved_definition: None,
        level_required: 0,
        raise_to: None,
        why,
        elicitation: None,
        sampling: None,
        shell: None,
        upgrade: None,
        memory: Some(Box::new(shown_fact::ProposedMemory {
            kind: kind.as_str().to_owned(),
            text,
            model: preset,
        })),
        options: question::OPTIONS.map(decision).to_vec(),
        expires_at: None,
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
    }
}

pub(super) fn answerer(person: AnsweringPerson) -> Answerer {
    Answerer {
        client_id: person.client,
        name: person.name,
        tty: person.tty,
        pid: person.pid,
        uid: person.uid,
    }
}
