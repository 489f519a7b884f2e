//! `resource/*`: the shared context of a conversation, for people and their programs.

use aish_proto::error::ErrorKind;
use aish_proto::event as wire_event;
use aish_proto::id::{BlobId, ConversationId};
use aish_proto::resource::{
    self as wire, ChangedResult, Create, Delete, Get, List, ResourceAuthor, ResourceChangeKind,
    ResourceGetResult, ResourceListResult, ResourceMetadata, Update, Validate, ValidateResult,
};
use aishd_conversation::context::resource::{CheckError, misfits};
use aishd_conversation::handle::ReadError;
use aishd_conversation::request_error::RequestError;
use aishd_log::resource::{
    BadData, BadName, ChangeAuthor, ResourceAction, ResourceChange, ResourceChangeError,
    ResourceChanged, ResourceData, ResourceHead, ResourceName, ResourceOutcome,
};
use aishd_platform::clock;
use jsonrpsee::RpcModule;
use serde_json::Value;

use super::connection::ClientConnection;
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, blob, register};

/// Resources in one page: most, and unless fewer are asked for.
const PAGE_MOST: u32 = 500;
const PAGE: u32 = 100;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Create, _, _>(module, create);
    register::<Get, _, _>(module, get);
    register::<Update, _, _>(module, update);
    register::<List, _, _>(module, list);
    register::<Delete, _, _>(module, delete);
    register::<Validate, _, _>(module, validate);
}

async fn create(call: MethodCall<Create>) -> Result<ChangedResult, MethodError> {
    let params = call.params;
    let data = data(&call.connection, params.data, params.blob)?;
    let change = ResourceChange {
        name: parse_name(&params.name)?,
        action: ResourceAction::Create(data),
    };
    let done = change_it(&call.server, &call.connection, params.conversation, change).await?;
    blob::use_up(&call.connection, params.blob.as_slice());
    Ok(done)
}

async fn update(call: MethodCall<Update>) -> Result<ChangedResult, MethodError> {
    let params = call.params;
    let data = data(&call.connection, params.data, params.blob)?;
    let action = match (params.create, params.expected_revision) {
        (false, expected) => ResourceAction::Update(data, expected),
        (true, None) => ResourceAction::Put(data, None),
        (true, Some(_)) => {
            return Err(MethodError::params(
                "create and expectedRevision do not go together",
            ));
        }
    };
    let change = ResourceChange {
        name: parse_name(&params.name)?,
        action,
    };
    let done = change_it(&call.server, &call.connection, params.conversation, change).await?;
    blob::use_up(&call.connection, params.blob.as_slice());
    Ok(done)
}

async fn delete(call: MethodCall<Delete>) -> Result<ChangedResult, MethodError> {
    let params = call.params;
    let change = ResourceChange {
        name: parse_name(&params.name)?,
        action: ResourceAction::Delete(params.expected_revision),
    };
    change_it(&call.server, &call.connection, params.conversation, change).await
}

async fn change_it(
    server: &RpcServer,
    connection: &ClientConnection,
    conversation: ConversationId,
    change: ResourceChange,
) -> Result<ChangedResult, MethodError> {
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

async fn get(call: MethodCall<Get>) -> Result<ResourceGetResult, MethodError> {
    let name = parse_name(&call.params.name)?;
    let (head, data) = found(&call.server, call.params.conversation, &name).await?;
    let data = serde_json::from_str(data.as_str())
        .map_err(|error| ReadError::Damaged(error.to_string()))?;
    let resource = resource(name, head);
    Ok(ResourceGetResult { resource, data })
}

async fn list(call: MethodCall<List>) -> Result<ResourceListResult, MethodError> {
    let params = call.params;
    let after = params.cursor.as_deref().map(parse_name).transpose()?;
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
    Ok(ResourceListResult {
        resources: page
            .into_iter()
            .map(|(name, head)| resource(name, head))
            .collect(),
        total,
        next_cursor: last.filter(|_| more),
    })
}

async fn validate(call: MethodCall<Validate>) -> Result<ValidateResult, MethodError> {
    let name = parse_name(&call.params.name)?;
    let (head, data) = found(&call.server, call.params.conversation, &name).await?;
    let checked = misfits(Some(call.params.schema), &data).await;
    let errors = checked.map_err(|error| match error {
        CheckError::TooLong => MethodError::new(ErrorKind::TooLarge, error.to_string()),
        CheckError::TooSlow => MethodError::new(ErrorKind::Timeout, error.to_string()),
        CheckError::Unusable(_) => MethodError::params(&error.to_string()),
    })?;
    let errors = errors.into_iter().map(|it| wire::SchemaMismatch {
        path: it.path,
        message: it.reason,
    });
    let errors: Vec<wire::SchemaMismatch> = errors.collect();
    Ok(ValidateResult {
        valid: errors.is_empty(),
        revision: head.revision,
        errors,
    })
}

async fn found(
    server: &RpcServer,
    conversation: ConversationId,
    name: &ResourceName,
) -> Result<(ResourceHead, ResourceData), MethodError> {
    let handle = server.directory.open(conversation).await?;
    let wanted = name.clone();
    let found = blocking(move || handle.resource(&wanted)).await?;
    let missing = || RequestError::Resource(ResourceChangeError::Missing(name.to_string()));
    Ok(found.ok_or_else(missing)?)
}

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
) -> Result<T, MethodError> {
    let read = tokio::task::spawn_blocking(read).await;
    Ok(read.map_err(|panic| MethodError::internal(&panic.to_string()))??)
}

fn parse_name(name: &str) -> Result<ResourceName, MethodError> {
    name.parse()
        .map_err(|error: BadName| MethodError::params(&error.to_string()))
}

/// What a client gives, in one of the two ways; a blob stays until the change is made.
fn data(
    connection: &ClientConnection,
    data: Option<Value>,
    blob: Option<BlobId>,
) -> Result<ResourceData, MethodError> {
    let value = match (data, blob) {
        (Some(data), None) => data,
        (None, Some(blob)) => serde_json::from_str(&blob::read(connection, blob)?)
            .map_err(|error| MethodError::params(&format!("the blob is not JSON: {error}")))?,
        (Some(_), Some(_)) | (None, None) => {
            return Err(MethodError::params("a resource has either data or blob"));
        }
    };
    ResourceData::of(&value)
        .map_err(|error: BadData| MethodError::new(ErrorKind::TooLarge, error.to_string()))
}

fn resource(name: ResourceName, head: ResourceHead) -> ResourceMetadata {
    ResourceMetadata {
        name: name.into(),
        revision: head.revision,
        bytes: head.bytes,
        created_at: clock::rfc3339(head.created_at),
        created_by: author(head.created_by),
        updated_at: clock::rfc3339(head.updated_at),
        updated_by: author(head.updated_by),
    }
}

fn author(author: ChangeAuthor) -> ResourceAuthor {
    match author {
        ChangeAuthor::Provider(alias) => ResourceAuthor {
            provider: Some(alias.to_string()),
            person: None,
        },
        ChangeAuthor::Person(person) => ResourceAuthor {
            provider: None,
            person: Some(crate::answerer::answerer(person)),
        },
    }
}

fn kind(change: ResourceOutcome) -> ResourceChangeKind {
    match change {
        ResourceOutcome::Created => ResourceChangeKind::Created,
        ResourceOutcome::Updated => ResourceChangeKind::Updated,
        ResourceOutcome::Deleted => ResourceChangeKind::Deleted,
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
