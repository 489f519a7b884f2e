//! `conversation/export` and `conversation/import`.

use aish_proto::envelope::Envelope;
use aish_proto::error::ErrorKind;
use aish_proto::id::ConversationId;
use aish_proto::transfer::{
    ChatCall, ChatCallKind, ChatContent, ChatFunction, ChatMessage, ChatRole,
    ConversationExportParams, ConversationExportResult, ConversationImportParams,
    ConversationImportResult, Export, ExportFormat, ExportedMessage, Import, ImportDone,
    ImportedAs,
};
use aishd_conversation::history::export::ExportExtent;
use aishd_conversation::history::import::{CompletedImport, ConversationImportError};
use aishd_conversation::request_error::RequestError;
use aishd_log::event::{Event, Record};
use aishd_log::tool_call::ToolCall;
use aishd_log::tool_name::on_the_wire;
use aishd_turn::export::{ExportLine, ExportPart, ExportProgress, exported_messages};
use aishd_turn::import::ImportError;
use aishd_turn::request::with_made;
use jsonrpsee::RpcModule;
use serde_json::Value;

use super::conversation::checked;
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, line_limit, picture, register};
use crate::log_owner::LogOwner;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Export, _, _>(module, export);
    register::<Import, _, _>(module, import);
}

async fn export(call: MethodCall<Export>) -> Result<ConversationExportResult, MethodError> {
    let ConversationExportParams {
        id,
        format,
        archive,
        cursor,
    } = call.params;
    let directory = &call.server.directory;
    let progress = match cursor {
        Some(cursor) => ExportProgress::parse(&cursor).ok_or_else(|| {
            MethodError::params("cursor is not one that conversation/export gave")
        })?,
        None => directory.begin_export(id).await?,
    };
    let extent = if archive {
        ExportExtent::Archive
    } else {
        ExportExtent::All
    };
    let mut result = ConversationExportResult {
        through: progress.through,
        events: vec![],
        messages: vec![],
        next_cursor: None,
    };
    match format {
        ExportFormat::Events => {
            let page = directory.exported_events(id, progress, extent).await?;
            let log = LogOwner {
                epoch: call.server.about.epoch,
                conversation: Some(id),
            };
            let (mut bytes, mut next) = (0, page.next);
            for record in &page.items {
                let (event, size) = event(log, record)?;
                bytes += size + 1;
                if bytes > line_limit::FITTING_BYTES && !result.events.is_empty() {
                    let read = result.events.last().and_then(|it: &Envelope| it.seq);
                    let read = read.unwrap_or(progress.read);
                    next = Some(ExportProgress { read, ..progress });
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
            result = line_limit::record(result);
        }
    }
    Ok(result)
}

/// As attach sends it, with the parts of results; and how long it is.
fn event(log: LogOwner, record: &Record) -> Result<(Envelope, usize), MethodError> {
    let text = log.stored(record);
    let event = serde_json::from_str(&text);
    let mut event: Envelope = event.map_err(|error| MethodError::internal(&error.to_string()))?;
    let mut bytes = text.len();
    if let Event::ResultKept { text, .. } = &record.event {
        bytes += 6 * text.len();
        event.data["text"] = Value::from(text.as_str());
    }
    if let Event::UserMessage { attachments, .. } = &record.event {
        for (at, attachment) in attachments.iter().enumerate() {
            if let Some(picture) = &attachment.picture {
                bytes += picture.data.len();
                event.data["attachments"][at]["picture"]["base64"] = Value::from(&*picture.data);
            }
        }
    }
    Ok((event, bytes))
}

fn messages(part: &ExportPart) -> Vec<ExportedMessage> {
    let said = exported_messages(&part.exchange);
    let numbered = said.iter().enumerate();
    let of_page = numbered.filter(|(number, _)| part.messages.contains(number));
    let exported = of_page.map(|(number, said)| ExportedMessage {
        exchange: part.exchange.turn(),
        begins: number == 0,
        message: message(said),
    });
    exported.collect()
}

fn message(said: &ExportLine<'_>) -> ChatMessage {
    let plain = |role, content: &str| ChatMessage {
        role,
        content: Some(ChatContent::Text(content.to_owned())),
        tool_calls: vec![],
        tool_call_id: None,
    };
    match said {
        ExportLine::User { text, pictures } => ChatMessage {
            content: Some(picture::chat_content(text, pictures)),
            ..plain(ChatRole::User, "")
        },
        ExportLine::Assistant {
            text,
            calls,
            pictures,
        } => ChatMessage {
            content: (!text.is_empty() || !pictures.is_empty())
                .then(|| ChatContent::Text(with_made((*text).into(), pictures).into_owned())),
            tool_calls: calls.iter().map(wire_call).collect(),
            ..plain(ChatRole::Assistant, "")
        },
        ExportLine::Tool { call, content } => ChatMessage {
            tool_call_id: Some((*call).to_owned()),
            ..plain(ChatRole::Tool, content)
        },
    }
}

fn wire_call(call: &ToolCall) -> ChatCall {
    ChatCall {
        id: call.id.clone(),
        kind: ChatCallKind::Function,
        function: ChatFunction {
            name: on_the_wire(&call.name),
            arguments: call.arguments.clone(),
        },
    }
}

async fn import(call: MethodCall<Import>) -> Result<ConversationImportResult, MethodError> {
    let ConversationImportParams {
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
        (Some(_), Some(_)) => return Err(MethodError::params("new goes with the first piece")),
        (None, Some(new)) if offset == 0 => {
            match directory.begin_import(id, made_with(new)?).await {
                Ok(begun) => begun,
                Err(error) if end => {
                    return import_again(&call.server, id, bytes, refused(error)).await;
                }
                Err(error) => return Err(refused(error)),
            }
        }
        (None, None) if offset > 0 => {
            let unknown = MethodError::new(
                ErrorKind::NotFound,
                "no such import on this connection; nothing was imported",
            );
            return import_again(
                &call.server,
                id,
                bytes,
                unknown.hint("begin again with another id"),
            )
            .await;
        }
        (None, Some(_) | None) => {
            return Err(MethodError::params(
                "the first piece has offset 0 and new, and no other piece has",
            ));
        }
    };
    if importing.taken() != offset {
        let why = format!("offset is {offset} where {} was due", importing.taken());
        return Err(MethodError::params(&why));
    }
    importing.take(&text).await.map_err(refused)?;
    if !end {
        let taken = importing.taken();
        *call.connection.import.lock() = Some(importing);
        return Ok(ConversationImportResult { taken, done: None });
    }
    let done = importing.finish(call.connection.person()).await;
    Ok(reported(id, done.map_err(refused)?, false))
}

/// The last piece once more, whose reply was lost; `otherwise`, it is refused.
async fn import_again(
    server: &RpcServer,
    id: ConversationId,
    bytes: u64,
    otherwise: MethodError,
) -> Result<ConversationImportResult, MethodError> {
    let done = server.directory.imported(id).await?;
    match done.filter(|it| it.imported.bytes == bytes) {
        Some(done) => Ok(reported(id, done, true)),
        None => Err(otherwise),
    }
}

fn made_with(
    new: ImportedAs,
) -> Result<aishd_conversation::new_conversation::NewConversation, MethodError> {
    let ImportedAs { title, model, cwd } = new;
    checked(aish_proto::conversation::ConversationCreateParams {
        title,
        model,
        cwd,
        constraints: None,
        budget: None,
        temporary: false,
    })
}

fn reported(
    conversation: ConversationId,
    done: CompletedImport,
    duplicate: bool,
) -> ConversationImportResult {
    let CompletedImport { imported, seq } = done;
    ConversationImportResult {
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

fn refused(error: ConversationImportError) -> MethodError {
    let message = error.to_string();
    match error {
        ConversationImportError::Fault(fault) => match fault.what {
            ImportError::Malformed(_) => MethodError::params(&message),
            ImportError::TooLong { .. } => MethodError::new(ErrorKind::TooLarge, message),
        },
        ConversationImportError::Crowded => {
            MethodError::new(ErrorKind::Overloaded, message).hint("wait for one of them to end")
        }
        ConversationImportError::Request(RequestError::Exists) => {
            MethodError::params("there is a conversation of this id already; make another id")
        }
        ConversationImportError::Request(error) => error.into(),
    }
}
