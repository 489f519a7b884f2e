//! `conversation/export` and `conversation/import`.

use aish_proto::error::ErrorKind;
use aish_proto::event::Envelope;
use aish_proto::id::ConversationId;
use aish_proto::transfer::{
    ChatCall, ChatCallKind, ChatFunction, ChatMessage, ChatRole, Export, ExportFormat,
    ExportParams, ExportResult, ExportedMessage, Import, ImportDone, ImportParams, ImportResult,
    ImportedAs,
};
use jsonrpsee::RpcModule;
use serde_json::Value;

use super::conversation::checked;
use super::convert::Log;
use super::refusal::Refusal;
use super::{Call, Server, fit, register};
use aishd_conversation::export::Extent;
use aishd_conversation::handle::RequestError;
use aishd_conversation::import::{Done, ImportError};
use aishd_log::event::{Event, Record};
use aishd_log::tool_call::ToolCall;
use aishd_log::tool_name::on_the_wire;
use aishd_turn::export::{Part, Progress, Said, said};
use aishd_turn::import::Wrong;

pub(super) fn register_all(module: &mut RpcModule<Server>) {
    register::<Export, _, _>(module, export);
    register::<Import, _, _>(module, import);
}

async fn export(call: Call<Export>) -> Result<ExportResult, Refusal> {
    let ExportParams {
        id,
        format,
        archive,
        cursor,
    } = call.params;
    let directory = &call.server.directory;
    let progress = match cursor {
        Some(cursor) => Progress::parse(&cursor)
            .ok_or_else(|| Refusal::params("cursor is not one that conversation/export gave"))?,
        None => directory.begin_export(id).await?,
    };
    let extent = if archive {
        Extent::Archive
    } else {
        Extent::All
    };
    let mut result = ExportResult {
        through: progress.through,
        events: vec![],
        messages: vec![],
        next_cursor: None,
    };
    match format {
        ExportFormat::Events => {
            let page = directory.exported_events(id, progress, extent).await?;
            let log = Log {
                epoch: call.server.about.epoch,
                conversation: Some(id),
            };
            let (mut bytes, mut next) = (0, page.next);
            for record in &page.items {
                let (event, size) = event(log, record)?;
                bytes += size + 1;
                if bytes > fit::FITTING_BYTES && !result.events.is_empty() {
                    let read = result.events.last().and_then(|it: &Envelope| it.seq);
                    let read = read.unwrap_or(progress.read);
                    next = Some(Progress { read, ..progress });
                    break;
                }
                result.events.push(event);
            }
            result.next_cursor = next.map(|it| it.cursor());
        }
        ExportFormat::Messages => {
            let page = directory.exported_messages(id, progress, extent).await?;
            result.messages = page.items.iter().flat_map(messages).collect();
            result.next_cursor = page.next.map(|it| it.cursor());
            // A page of control characters is six times as long on the wire.
            result = fit::record(result);
        }
    }
    Ok(result)
}

/// As attach sends it, with the parts of results; and how long it is.
fn event(log: Log, record: &Record) -> Result<(Envelope, usize), Refusal> {
    let text = log.stored(record);
    let event = serde_json::from_str(&text);
    let mut event: Envelope = event.map_err(|error| Refusal::internal(&error.to_string()))?;
    let mut bytes = text.len();
    if let Event::ResultKept { text, .. } = &record.event {
        bytes += 6 * text.len();
        event.data["text"] = Value::from(text.as_str());
    }
    Ok((event, bytes))
}

fn messages(part: &Part) -> Vec<ExportedMessage> {
    let said = said(&part.exchange);
    let numbered = said.iter().enumerate();
    let of_page = numbered.filter(|(number, _)| part.messages.contains(number));
    let exported = of_page.map(|(number, said)| ExportedMessage {
        exchange: part.exchange.turn(),
        begins: number == 0,
        message: message(said),
    });
    exported.collect()
}

fn message(said: &Said<'_>) -> ChatMessage {
    let plain = |role, content: &str| ChatMessage {
        role,
        content: Some(content.to_owned()),
        tool_calls: vec![],
        tool_call_id: None,
    };
    match said {
        Said::User(text) => plain(ChatRole::User, text),
        Said::Assistant { text, calls } => ChatMessage {
            content: (!text.is_empty()).then(|| (*text).to_owned()),
            tool_calls: calls.iter().map(called).collect(),
            ..plain(ChatRole::Assistant, "")
        },
        Said::Tool { call, content } => ChatMessage {
            tool_call_id: Some((*call).to_owned()),
            ..plain(ChatRole::Tool, content)
        },
    }
}

fn called(call: &ToolCall) -> ChatCall {
    ChatCall {
        id: call.id.clone(),
        kind: ChatCallKind::Function,
        function: ChatFunction {
            name: on_the_wire(&call.name),
            arguments: call.arguments.clone(),
        },
    }
}

async fn import(call: Call<Import>) -> Result<ImportResult, Refusal> {
    let ImportParams {
        id,
        offset,
        text,
        end,
        new,
    } = call.params;
    let directory = &call.server.directory;
    // While it is worked on it is not there: whatever goes wrong drops it, and with it what was stored of it.
    let running = call.connection.import.lock().take();
    let running = running.filter(|it| it.id() == id && offset > 0);
    let bytes = offset + text.len() as u64;
    let mut importing = match (running, new) {
        (Some(running), None) => running,
        (Some(_), Some(_)) => return Err(Refusal::params("new goes with the first piece")),
        (None, Some(new)) if offset == 0 => {
            match directory.begin_import(id, made_with(new)?).await {
                Ok(begun) => begun,
                Err(error) if end => return again(&call.server, id, bytes, refused(error)).await,
                Err(error) => return Err(refused(error)),
            }
        }
        (None, None) if offset > 0 => {
            let unknown = Refusal::new(
                ErrorKind::NotFound,
                "no such import on this connection; nothing was imported",
            );
            return again(
                &call.server,
                id,
                bytes,
                unknown.hint("begin again with another id"),
            )
            .await;
        }
        (None, Some(_) | None) => {
            return Err(Refusal::params(
                "the first piece has offset 0 and new, and no other piece has",
            ));
        }
    };
    if importing.taken() != offset {
        let why = format!("offset is {offset} where {} was due", importing.taken());
        return Err(Refusal::params(&why));
    }
    importing.take(&text).await.map_err(refused)?;
    if !end {
        let taken = importing.taken();
        *call.connection.import.lock() = Some(importing);
        return Ok(ImportResult { taken, done: None });
    }
    let done = importing.finish(call.connection.person()).await;
    Ok(reported(id, done.map_err(refused)?, false))
}

/// The last piece once more, whose reply was lost; `otherwise`, it is refused.
async fn again(
    server: &Server,
    id: ConversationId,
    bytes: u64,
    otherwise: Refusal,
) -> Result<ImportResult, Refusal> {
    let done = server.directory.imported(id).await?;
    match done.filter(|it| it.imported.bytes == bytes) {
        Some(done) => Ok(reported(id, done, true)),
        None => Err(otherwise),
    }
}

fn made_with(new: ImportedAs) -> Result<aishd_conversation::directory::NewConversation, Refusal> {
    let ImportedAs { title, model, cwd } = new;
    checked(aish_proto::conversation::CreateParams {
        title,
        model,
        cwd,
        constraints: None,
        budget: None,
    })
}

fn reported(conversation: ConversationId, done: Done, duplicate: bool) -> ImportResult {
    let Done { imported, seq } = done;
    ImportResult {
        taken: imported.bytes,
        done: Some(ImportDone {
            conversation,
            seq,
            exchanges: imported.exchanges,
            messages: imported.messages,
            left_out: imported.left_out,
            unanswered: imported.unanswered,
            duplicate,
        }),
    }
}

fn refused(error: ImportError) -> Refusal {
    let message = error.to_string();
    match error {
        ImportError::Fault(fault) => match fault.what {
            Wrong::Malformed(_) => Refusal::params(&message),
            Wrong::TooLong { .. } => Refusal::new(ErrorKind::TooLarge, message),
        },
        ImportError::Crowded => {
            Refusal::new(ErrorKind::Overloaded, message).hint("wait for one of them to end")
        }
        ImportError::Request(RequestError::Exists) => {
            Refusal::params("there is a conversation of this id already; make another id")
        }
        ImportError::Request(error) => error.into(),
    }
}
