//! `memory/*`: facts that people keep for all conversations.

use aish_proto::error::ErrorKind;
use aish_proto::memory::{
    self as wire, Add, AddParams, AddResult, List, ListResult, NameParams, Pin, PinParams, Remove,
};
use aish_proto::method::Empty;
use jsonrpsee::RpcModule;

use super::refusal::Refusal;
use super::{Call, Server, register};
use aishd_conversation::memories::BookError;
use aishd_log::memory::{Draft, Kind, Memory, MemoryId, Proposer, Refused};
use aishd_platform::clock::rfc3339;

pub(super) fn register_all(module: &mut RpcModule<Server>) {
    register::<Add, _, _>(module, add);
    register::<List, _, _>(module, list);
    register::<Remove, _, _>(module, remove);
    register::<Pin, _, _>(module, pin);
}

async fn add(call: Call<Add>) -> Result<AddResult, Refusal> {
    let AddParams { text, kind, pinned } = call.params;
    let kind = kind.map_or_else(|| Ok(Kind::default()), |it| it.parse());
    let draft = Draft {
        kind: kind.map_err(BookError::Refused)?,
        text,
        pinned,
        from: None,
    };
    let directory = &call.server.directory;
    let (memory, changed) = directory.remember(draft, call.connection.person()).await?;
    Ok(AddResult {
        memory: shown(&memory),
        changed,
    })
}

async fn list(call: Call<List>) -> Result<ListResult, Refusal> {
    let Empty {} = call.params;
    let book = call.server.directory.book();
    let most = call.server.directory.models().memory.max_chars;
    let memories = book.read()?;
    let background = memories.background(most);
    Ok(ListResult {
        memories: memories.iter().map(shown).collect(),
        background: background.map(|it| it.trim_start().to_owned()),
    })
}

async fn remove(call: Call<Remove>) -> Result<Empty, Refusal> {
    let NameParams { id } = call.params;
    let book = call.server.directory.book();
    book.remove(named(&id)?, call.connection.person()).await?;
    Ok(Empty {})
}

async fn pin(call: Call<Pin>) -> Result<wire::Memory, Refusal> {
    let PinParams { id, pinned } = call.params;
    let book = call.server.directory.book();
    let memory = book.pin(named(&id)?, pinned, call.connection.person());
    Ok(shown(&memory.await?))
}

fn named(id: &str) -> Result<MemoryId, Refusal> {
    Ok(id.parse().map_err(BookError::Refused)?)
}

fn shown(memory: &Memory) -> wire::Memory {
    let Memory {
        id,
        kind,
        text,
        pinned,
        at,
        from,
    } = memory;
    wire::Memory {
        id: id.to_string(),
        kind: kind.as_str().to_owned(),
        text: text.clone(),
        pinned: *pinned,
        at: rfc3339(*at),
        from: from.as_ref().map(|it| {
            let Proposer {
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

impl From<BookError> for Refusal {
    fn from(error: BookError) -> Self {
        let message = error.to_string();
        match error {
            BookError::Refused(Refused::Full) => {
                Self::new(ErrorKind::Overloaded, message).hint("aishctl memory rm ID")
            }
            BookError::Refused(Refused::Empty | Refused::Long(_) | Refused::Kind | Refused::Id) => {
                Self::params(&message)
            }
            BookError::Unknown(_) => {
                Self::new(ErrorKind::NotFound, message).hint("aishctl memory ls")
            }
            BookError::Request(error) => error.into(),
        }
    }
}
