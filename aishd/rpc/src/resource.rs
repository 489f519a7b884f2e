//! `resource/*`: the shared context of a conversation, for people and their programs.

use aish_proto::error::ErrorKind;
use aish_proto::event as wire_event;
use aish_proto::id::{BlobId, ConversationId};
use aish_proto::resource as wire;
use aish_proto::resource::{
    ChangedResult, Create, Delete, Get, GetResult, List, ListResult, Resource, ResourceAuthor,
    ResourceChangeKind, Update, Validate, ValidateResult,
};
use jsonrpsee::RpcModule;
use serde_json::Value;

use super::connection::Connection;
use super::refusal::Refusal;
use super::{Call, Server, blob, confirm, register};
use aishd_conversation::handle::{ReadError, RequestError};
use aishd_conversation::resource::{CheckError, misfits};
use aishd_log::resource::{
    Action, Author, BadData, BadName, Change, ChangeError, Data, Head, ResourceChange,
    ResourceChanged, ResourceName,
};
use aishd_platform::clock;

/// Resources in one page: most, and unless fewer are asked for.
const PAGE_MOST: u32 = 500;
const PAGE: u32 = 100;

pub(super) fn register_all(module: &mut RpcModule<Server>) {
    register::<Create, _, _>(module, create);
    register::<Get, _, _>(module, get);
    register::<Update, _, _>(module, update);
    register::<List, _, _>(module, list);
    register::<Delete, _, _>(module, delete);
    register::<Validate, _, _>(module, validate);
}

async fn create(call: Call<Create>) -> Result<ChangedResult, Refusal> {
    let params = call.params;
    let data = data(&call.connection, params.data, params.blob)?;
    let change = ResourceChange {
        name: named(&params.name)?,
        action: Action::Create(data),
    };
    let done = change_it(&call.server, &call.connection, params.conversation, change).await?;
    blob::use_up(&call.connection, params.blob.as_slice());
    Ok(done)
}

async fn update(call: Call<Update>) -> Result<ChangedResult, Refusal> {
    let params = call.params;
    let data = data(&call.connection, params.data, params.blob)?;
    let action = match (params.create, params.expected_revision) {
        (false, expected) => Action::Update(data, expected),
        (true, None) => Action::Put(data, None),
        (true, Some(_)) => {
            return Err(Refusal::params(
                "create and expectedRevision do not go together",
            ));
        }
    };
    let change = ResourceChange {
        name: named(&params.name)?,
        action,
    };
    let done = change_it(&call.server, &call.connection, params.conversation, change).await?;
    blob::use_up(&call.connection, params.blob.as_slice());
    Ok(done)
}

async fn delete(call: Call<Delete>) -> Result<ChangedResult, Refusal> {
    let params = call.params;
    let change = ResourceChange {
        name: named(&params.name)?,
        action: Action::Delete(params.expected_revision),
    };
    change_it(&call.server, &call.connection, params.conversation, change).await
}

async fn change_it(
    server: &Server,
    connection: &Connection,
    conversation: ConversationId,
    change: ResourceChange,
) -> Result<ChangedResult, Refusal> {
    let by = connection.person();
    let done = server.directory.with(conversation, |handle| {
        let (change, by) = (change.clone(), by.clone());
        async move { handle.change_resource(change, by).await }
    });
    let done = done.await?;
    let changed = done.changed;
    Ok(ChangedResult {
        change: kind(changed.change),
        revision: changed.revision,
        bytes: changed.bytes(),
        name: changed.name.into(),
        seq: done.seq,
    })
}

async fn get(call: Call<Get>) -> Result<GetResult, Refusal> {
    let name = named(&call.params.name)?;
    let (head, data) = found(&call.server, call.params.conversation, &name).await?;
    let data = serde_json::from_str(data.as_str())
        .map_err(|error| ReadError::Damaged(error.to_string()))?;
    let resource = resource(name, head);
    Ok(GetResult { resource, data })
}

async fn list(call: Call<List>) -> Result<ListResult, Refusal> {
    let params = call.params;
    let after = params.cursor.as_deref().map(named).transpose()?;
    let limit = params.limit.unwrap_or(PAGE).clamp(1, PAGE_MOST);
    let limit = usize::try_from(limit).unwrap_or(1);
    let handle = call.server.directory.open(params.conversation).await?;
    let total = handle.view().borrow().state.resources;
    // One more than is shown says whether there are more.
    let read = move || handle.resources(after.as_ref(), limit + 1);
    let mut page = blocking(read).await?;
    let more = page.len() > limit;
    page.truncate(limit);
    let last = page.last().map(|(name, _)| name.to_string());
    Ok(ListResult {
        resources: page
            .into_iter()
            .map(|(name, head)| resource(name, head))
            .collect(),
        total,
        next_cursor: last.filter(|_| more),
    })
}

async fn validate(call: Call<Validate>) -> Result<ValidateResult, Refusal> {
    let name = named(&call.params.name)?;
    let (head, data) = found(&call.server, call.params.conversation, &name).await?;
    let checked = misfits(Some(call.params.schema), &data).await;
    let errors = checked.map_err(|error| match error {
        CheckError::TooLong => Refusal::new(ErrorKind::TooLarge, error.to_string()),
        CheckError::TooSlow => Refusal::new(ErrorKind::Timeout, error.to_string()),
        CheckError::Unusable(_) => Refusal::params(&error.to_string()),
    })?;
    let errors = errors.into_iter().map(|it| wire::Mismatch {
        path: it.path,
        message: it.reason,
    });
    let errors: Vec<wire::Mismatch> = errors.collect();
    Ok(ValidateResult {
        valid: errors.is_empty(),
        revision: head.revision,
        errors,
    })
}

async fn found(
    server: &Server,
    conversation: ConversationId,
    name: &ResourceName,
) -> Result<(Head, Data), Refusal> {
    let handle = server.directory.open(conversation).await?;
    let wanted = name.clone();
    let found = blocking(move || handle.resource(&wanted)).await?;
    let missing = || RequestError::Resource(ChangeError::Missing(name.to_string()));
    Ok(found.ok_or_else(missing)?)
}

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
) -> Result<T, Refusal> {
    let read = tokio::task::spawn_blocking(read).await;
    Ok(read.map_err(|panic| Refusal::internal(&panic.to_string()))??)
}

fn named(name: &str) -> Result<ResourceName, Refusal> {
    name.parse()
        .map_err(|error: BadName| Refusal::params(&error.to_string()))
}

/// What a client gives, in one of the two ways; a blob stays until the change is made.
fn data(
    connection: &Connection,
    data: Option<Value>,
    blob: Option<BlobId>,
) -> Result<Data, Refusal> {
    let value = match (data, blob) {
        (Some(data), None) => data,
        (None, Some(blob)) => serde_json::from_str(&blob::read(connection, blob)?)
            .map_err(|error| Refusal::params(&format!("the blob is not JSON: {error}")))?,
        (Some(_), Some(_)) | (None, None) => {
            return Err(Refusal::params("a resource has either data or blob"));
        }
    };
    Data::of(&value).map_err(|error: BadData| Refusal::new(ErrorKind::TooLarge, error.to_string()))
}

fn resource(name: ResourceName, head: Head) -> Resource {
    Resource {
        name: name.into(),
        revision: head.revision,
        bytes: head.bytes,
        created_at: clock::rfc3339(head.created_at),
        created_by: author(head.created_by),
        updated_at: clock::rfc3339(head.updated_at),
        updated_by: author(head.updated_by),
    }
}

fn author(author: Author) -> ResourceAuthor {
    match author {
        Author::Provider(alias) => ResourceAuthor {
            provider: Some(alias.to_string()),
            person: None,
        },
        Author::Person(person) => ResourceAuthor {
            provider: None,
            person: Some(confirm::answerer(person)),
        },
    }
}

fn kind(change: Change) -> ResourceChangeKind {
    match change {
        Change::Created => ResourceChangeKind::Created,
        Change::Updated => ResourceChangeKind::Updated,
        Change::Deleted => ResourceChangeKind::Deleted,
    }
}

/// A change as followers see it, without the data.
pub(super) fn event(changed: ResourceChanged) -> wire_event::ResourceChanged {
    wire_event::ResourceChanged {
        change: kind(changed.change),
        revision: changed.revision,
        bytes: changed.bytes(),
        name: changed.name.into(),
        by: author(changed.by),
    }
}
