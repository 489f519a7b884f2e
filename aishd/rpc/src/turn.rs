//! `turn/*` and `queue/*`.

use std::sync::Arc;
use std::time::Duration;

use aish_proto::error::ErrorKind;
use aish_proto::id::BlobId;
use aish_proto::limits::{INPUT_BYTES, KEY_BYTES};
use aish_proto::turn::{
    AgainParams, Attachment, Cancel, Continue, Get, OnConfirm, QueueList, QueueListResult,
    QueueMove, QueueRemove, QueueResume, QueuedTurn, Retry, Send, SendMode, SendParams, SendResult,
    TurnCancelResult, TurnRecord, UnattendedAction, Wait,
};
use aishd_conversation::handle::{ConversationHandle, ReadError};
use aishd_conversation::requests::{
    AcceptedAsk, AskAgain, AskMode, AskPlace, AskRequest, QueueChange, RepeatAsk,
};
use aishd_log::call_list::CallList;
use aishd_log::environment::ClientVariables;
use aishd_log::event::{Event, IdempotencyKey};
use aishd_log::pattern::Patterns;
use aishd_log::state::ConversationState;
use aishd_log::{confirm, event};
use jsonrpsee::RpcModule;
use sha2::{Digest as _, Sha256};

use super::connection::ClientConnection;
use super::method_error::{GOES_ON, MethodError};
use super::picture::PictureRoom;
use super::{MethodCall, RpcServer, blob, event_conversion, register};

/// Characters of a waiting question that are shown.
const SHOWN_CHARS: usize = 200;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Send, _, _>(module, send);
    register::<Cancel, _, _>(module, cancel);
    register::<Wait, _, _>(module, wait);
    register::<Get, _, _>(module, get);
    register::<Retry, _, _>(module, |call: MethodCall<Retry>| {
        repeat(call.server, call.connection, call.params, RepeatAsk::Retry)
    });
    register::<Continue, _, _>(module, |call: MethodCall<Continue>| {
        repeat(
            call.server,
            call.connection,
            call.params,
            RepeatAsk::Continue,
        )
    });
    register::<QueueList, _, _>(module, queue_list);
    register::<QueueRemove, _, _>(module, |call: MethodCall<QueueRemove>| async move {
        let change = QueueChange::Remove(call.params.turn);
        change_queue(
            &call.server,
            &call.connection,
            call.params.conversation,
            change,
        )
        .await
    });
    register::<QueueMove, _, _>(module, |call: MethodCall<QueueMove>| async move {
        let change = QueueChange::Move(call.params.turn, call.params.position);
        change_queue(
            &call.server,
            &call.connection,
            call.params.conversation,
            change,
        )
        .await
    });
    register::<QueueResume, _, _>(module, |call: MethodCall<QueueResume>| async move {
        change_queue(
            &call.server,
            &call.connection,
            call.params.conversation,
            QueueChange::Resume,
        )
        .await
    });
}

async fn send(call: MethodCall<Send>) -> Result<SendResult, MethodError> {
    let blobs: Vec<BlobId> = call
        .params
        .attachments
        .iter()
        .filter_map(|it| it.blob)
        .collect();
    let sent = take(&call.server, &call.connection, call.params, TurnBody::Said).await?;
    // A question that was not taken can be asked again with what was put for it.
    blob::use_up(&call.connection, &blobs);
    Ok(sent)
}

/// What two questions have to have in common to be one.
pub(super) enum TurnBody {
    /// All that they say.
    Said,
    /// What they were made from, which may say something else each time.
    From(String),
    /// These calls, which no model is asked about, and how they are spelled.
    Calls(CallList, String),
}

/// Asks, in a conversation that is there or in one that the question makes.
pub(super) async fn take(
    server: &Arc<RpcServer>,
    connection: &ClientConnection,
    mut params: SendParams,
    body: TurnBody,
) -> Result<SendResult, MethodError> {
    let conversation = params.conversation;
    let new = params.new.take().map(super::conversation::checked);
    let new = new.transpose()?;
    let place = if new.is_some() {
        AskPlace::New
    } else {
        AskPlace::Existing
    };
    let environment = connection.environment(server);
    let mut ask = ask(params, connection, place, environment)?;
    match body {
        TurnBody::Said => {}
        TurnBody::From(text) => ask.key.body = digest(&text, &[], ask.model.as_deref()),
        TurnBody::Calls(list, text) => {
            ask.key.body = digest(&text, &[], None);
            ask.calls = Some(list);
        }
    }
    let accepted = match new {
        Some(new) => {
            connection.notices.look(server, conversation, &new.cwd);
            server.directory.ask_first(conversation, new, &ask).await?
        }
        None => {
            let send = |handle: ConversationHandle| {
                let ask = ask.clone();
                async move { handle.send(ask).await }
            };
            server.directory.with(conversation, send).await?
        }
    };
    Ok(sent(accepted))
}

fn sent(accepted: AcceptedAsk) -> SendResult {
    SendResult {
        turn: accepted.turn,
        seq: accepted.seq,
        position: accepted.position,
        duplicate: accepted.duplicate,
    }
}

/// Checks form and size.
fn ask(
    params: SendParams,
    connection: &ClientConnection,
    place: AskPlace,
    environment: ClientVariables,
) -> Result<AskRequest, MethodError> {
    check_key(&params.idempotency_key)?;
    let allows = params
        .on_confirm
        .as_ref()
        .is_some_and(|it| !it.allow.is_empty());
    if params.mode == SendMode::Steer && connection.is_of_ours() {
        let message = "a process that the daemon started may not join a turn of somebody else";
        return Err(MethodError::new(ErrorKind::ForbiddenRole, message)
            .hint("with the mode queue it waits behind it"));
    }
    if allows && connection.is_of_ours() {
        let message = "a process that the daemon started may not say what runs unasked";
        return Err(MethodError::new(ErrorKind::ForbiddenRole, message)
            .hint("without onConfirm.allow a person is asked"));
    }
    let attachments = attachments(params.attachments, &params.text, connection)?;
    let key = IdempotencyKey {
        body: digest(&params.text, &attachments, params.model.as_deref()),
        key: params.idempotency_key,
    };
    Ok(AskRequest {
        text: params.text,
        attachments,
        key,
        mode: match params.mode {
            SendMode::Queue => AskMode::Queue,
            SendMode::Reject => AskMode::Reject,
            SendMode::Steer => AskMode::Steer,
        },
        expected: params.expected_turn,
        model: params.model,
        by: connection.person(),
        place,
        on_confirm: params.on_confirm.as_ref().map(on_confirm).transpose()?,
        max_tool_depth: params.max_tool_depth,
        calls: None,
        environment,
        accepts_cost: params.accept_cost,
    })
}

/// What goes along with a question of this text, with what was put ahead, if it is not too much.
pub(super) fn attachments(
    given: Vec<Attachment>,
    question: &str,
    connection: &ClientConnection,
) -> Result<Vec<event::Attachment>, MethodError> {
    let mut attachments = Vec::with_capacity(given.len());
    let mut bytes = question.len();
    let mut pictures = PictureRoom::default();
    for Attachment {
        name,
        text,
        blob,
        base64,
    } in given
    {
        let text = match (text, blob) {
            (Some(text), None) => text,
            (None, Some(blob)) => blob::read(connection, blob)?,
            (Some(_), Some(_)) | (None, None) => {
                return Err(MethodError::params("an attachment has either text or blob"));
            }
        };
        if base64 {
            let (text, picture) = (String::new(), Some(pictures.take(&name, text)?));
            bytes += name.len();
            attachments.push(event::Attachment {
                name,
                text,
                picture,
            });
            continue;
        }
        // At once, because one blob can be named many times.
        bytes += name.len() + text.len();
        if bytes > INPUT_BYTES {
            return Err(too_large(bytes));
        }
        attachments.push(event::Attachment {
            name,
            text,
            picture: None,
        });
    }
    if bytes > INPUT_BYTES {
        return Err(too_large(bytes));
    }
    if question.trim().is_empty() && attachments.is_empty() {
        return Err(MethodError::params("the question is empty"));
    }
    Ok(attachments)
}

/// What the asker wants done where a person would have to be asked.
pub(super) fn on_confirm(wanted: &OnConfirm) -> Result<confirm::OnConfirm, MethodError> {
    let mut allow = vec![];
    for rule in &wanted.allow {
        let rule = rule.parse().map_err(|error| {
            MethodError::params(&format!(
                "onConfirm.allow: {error}; a rule is a name like fs__read_file, or a whole provider like fs__*"
            ))
        })?;
        allow.push(rule);
    }
    let allow = Patterns::new(allow);
    super::shell::refuse_pattern(&allow)?;
    Ok(confirm::OnConfirm {
        then: match wanted.then {
            UnattendedAction::Ask => confirm::Then::Ask,
            UnattendedAction::AskAttended => confirm::Then::AskAttended,
            UnattendedAction::Deny => confirm::Then::Deny,
        },
        allow,
        timeout_ms: wanted.timeout_ms,
    })
}

fn too_large(bytes: usize) -> MethodError {
    let message =
        format!("text and attachments are {bytes} bytes or more; at most {INPUT_BYTES} are taken");
    MethodError::new(ErrorKind::TooLarge, message)
        .hint("aishctl ask -f FILE sends its beginning and its end")
}

pub(super) fn check_key(key: &str) -> Result<(), MethodError> {
    if key.is_empty() || key.len() > KEY_BYTES {
        return Err(MethodError::params(&format!(
            "idempotencyKey has 1 to {KEY_BYTES} bytes"
        )));
    }
    Ok(())
}

/// What makes two questions the same: text, attachments and model.
pub(super) fn digest(text: &str, attachments: &[event::Attachment], model: Option<&str>) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(text.as_bytes());
    part(model.unwrap_or_default().as_bytes());
    for attachment in attachments {
        part(attachment.name.as_bytes());
        part(attachment.text.as_bytes());
        if let Some(picture) = &attachment.picture {
            part(picture.data.as_bytes());
        }
    }
    hash.finalize()
        .iter()
        .map(|it| format!("{it:02x}"))
        .collect()
}

async fn repeat(
    server: Arc<RpcServer>,
    connection: Arc<ClientConnection>,
    params: AgainParams,
    kind: RepeatAsk,
) -> Result<SendResult, MethodError> {
    check_key(&params.idempotency_key)?;
    let words = match kind {
        RepeatAsk::Retry => "retry",
        RepeatAsk::Continue => "continue",
    };
    let target = params.turn.map(|it| it.to_string()).unwrap_or_default();
    let again = AskAgain {
        kind,
        turn: params.turn,
        key: IdempotencyKey {
            body: digest(&format!("{words} {target}"), &[], params.model.as_deref()),
            key: params.idempotency_key,
        },
        model: params.model,
        by: connection.person(),
        environment: connection.environment(&server),
        accepts_cost: params.accept_cost,
    };
    let accepted = server
        .directory
        .with(params.conversation, |handle| {
            let again = again.clone();
            async move { handle.repeat(again).await }
        })
        .await?;
    Ok(sent(accepted))
}

async fn cancel(call: MethodCall<Cancel>) -> Result<TurnCancelResult, MethodError> {
    let (turn, by) = (call.params.turn, call.connection.person());
    let cancelled = call
        .server
        .directory
        .with_turn(turn, |handle| {
            let by = by.clone();
            async move { handle.cancel(turn, by).await }
        })
        .await?;
    Ok(TurnCancelResult { cancelled })
}

async fn wait(call: MethodCall<Wait>) -> Result<TurnRecord, MethodError> {
    let turn = call.params.turn;
    let finished = call.server.directory.with_turn(turn, |handle| async move {
        let report = handle.wait(turn).await?;
        Ok(event_conversion::turn_record(handle.id(), report))
    });
    match call.params.timeout_ms {
        None => Ok(finished.await?),
        Some(limit) => match tokio::time::timeout(Duration::from_millis(limit), finished).await {
            Ok(record) => Ok(record?),
            Err(_elapsed) => Err(MethodError::new(
                ErrorKind::Timeout,
                format!("the turn was not finished within {limit} ms; it goes on"),
            )
            .hint(GOES_ON)),
        },
    }
}

async fn get(call: MethodCall<Get>) -> Result<TurnRecord, MethodError> {
    let turn = call.params.turn;
    let record = call.server.directory.with_turn(turn, |handle| async move {
        let report = handle.turn(turn)?;
        Ok(event_conversion::turn_record(handle.id(), report))
    });
    Ok(record.await?)
}

async fn queue_list(call: MethodCall<QueueList>) -> Result<QueueListResult, MethodError> {
    let handle = call.server.directory.open(call.params.conversation).await?;
    queue_of(&handle)
}

async fn change_queue(
    server: &RpcServer,
    connection: &ClientConnection,
    conversation: aish_proto::id::ConversationId,
    change: QueueChange,
) -> Result<QueueListResult, MethodError> {
    let by = connection.person();
    let handle = server
        .directory
        .with(conversation, |handle| {
            let by = by.clone();
            async move {
                handle.change_queue(change, by).await?;
                Ok(handle)
            }
        })
        .await?;
    queue_of(&handle)
}

fn queue_of(handle: &ConversationHandle) -> Result<QueueListResult, MethodError> {
    let state = handle.view().borrow().state.clone();
    Ok(QueueListResult {
        queue: queue(handle, &state)?,
        held: state.is_held(),
    })
}

/// The waiting turns, with the beginning of each question.
pub(super) fn queue(
    handle: &ConversationHandle,
    state: &ConversationState,
) -> Result<Vec<QueuedTurn>, ReadError> {
    let mut queue = Vec::with_capacity(state.queue.len());
    for (position, queued) in (1..).zip(&state.queue) {
        let record = handle.record(queued.message_seq)?;
        let text = match record.map(|it| it.event) {
            Some(Event::UserMessage { text, .. }) => text.chars().take(SHOWN_CHARS).collect(),
            Some(_) | None => String::new(),
        };
        queue.push(QueuedTurn {
            turn: queued.turn,
            position,
            text,
        });
    }
    Ok(queue)
}
