//! `memory/*`: facts that people keep for all conversations.

use aish_proto::conversation::ErasureResult;
use aish_proto::error::ErrorKind;
use aish_proto::memory::{
    self as wire, Add, AddParams, AddResult, List, MemoryListResult, MemoryNameParams,
    MemoryPinParams, Pin, Remove,
};
use aish_proto::method::Empty;
use aishd_conversation::context::memory_book::BookError;
use aishd_log::memory::{
    MemoryDraft, MemoryId, MemoryKind, MemoryProposer, MemoryRefusal, StoredMemory,
};
use aishd_platform::clock::rfc3339;
use jsonrpsee::RpcModule;

use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register};

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Add, _, _>(module, add);
    register::<List, _, _>(module, list);
    register::<Remove, _, _>(module, remove);
    register::<Pin, _, _>(module, pin);
}

async fn add(call: MethodCall<Add>) -> Result<AddResult, MethodError> {
    let AddParams { text, kind, pinned } = call.params;
    let kind = kind.map_or_else(|| Ok(MemoryKind::default()), |it| it.parse());
    let draft = MemoryDraft {
        kind: kind.map_err(BookError::Refused)?,
        text,
        pinned,
        from: None,
    };
    let directory = &call.server.directory;
    let (memory, changed) = directory.remember(draft, call.connection.person()).await?;
    Ok(AddResult {
        memory: wire_memory(&memory),
        changed,
    })
}

async fn list(call: MethodCall<List>) -> Result<MemoryListResult, MethodError> {
    let Empty {} = call.params;
    let book = call.server.directory.book();
    let most = call.server.directory.models().memory.max_chars;
    let memories = book.read()?;
    let background = memories.background(most);
    Ok(MemoryListResult {
        memories: memories.iter().map(wire_memory).collect(),
        background: background.map(|it| it.trim_start().to_owned()),
    })
}

async fn remove(call: MethodCall<Remove>) -> Result<ErasureResult, MethodError> {
    let MemoryNameParams { id } = call.params;
    let book = call.server.directory.book();
    book.remove(parse_id(&id)?, call.connection.person())
        .await?;
    Ok(ErasureResult {
        remains: call.server.directory.erase().await.err(),
    })
}

async fn pin(call: MethodCall<Pin>) -> Result<wire::MemoryFact, MethodError> {
    let MemoryPinParams { id, pinned } = call.params;
    let book = call.server.directory.book();
    let memory = book.pin(parse_id(&id)?, pinned, call.connection.person());
    Ok(wire_memory(&memory.await?))
}

fn parse_id(id: &str) -> Result<MemoryId, MethodError> {
    Ok(id.parse().map_err(BookError::Refused)?)
}

fn wire_memory(memory: &StoredMemory) -> wire::MemoryFact {
    let StoredMemory {
        id,
        kind,
        text,
        pinned,
        at,
        from,
    } = memory;
    wire::MemoryFact {
        id: id.to_string(),
        kind: kind.as_str().to_owned(),
        text: text.clone(),
        pinned: *pinned,
        at: rfc3339(*at),
        from: from.as_ref().map(|it| {
            let MemoryProposer {
                conversation,
                preset,
            } = it;
            wire::MemoryOrigin {
                conversation: *conversation,
                model: preset.clone(),
            }
        }),
    }
}

impl From<BookError> for MethodError {
    fn from(error: BookError) -> Self {
        let message = error.to_string();
        match error {
            BookError::Refused(MemoryRefusal::Full) => {
                Self::new(ErrorKind::Overloaded, message).hint("aishctl memory rm ID")
            }
            BookError::Refused(
                MemoryRefusal::Empty
                | MemoryRefusal::Long(_)
                | MemoryRefusal::Kind
                | MemoryRefusal::Id,
            ) => Self::params(&message),
            BookError::Unknown(_) => {
                Self::new(ErrorKind::NotFound, message).hint("aishctl memory ls")
            }
            BookError::Request(error) => error.into(),
        }
    }
}
