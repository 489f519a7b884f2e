//! Reading the shared context, and judging it by schemas, outside the actor: what calls of the tools around it get, and
//! what a call of a manifest is given. Where it changes is `actor/resource_change`.

use std::time::Duration;

use aish_proto::id::ConversationId;
use aishd_log::resource::{
    ResourceChangeError, ResourceChanged, ResourceData, ResourceHead, ResourceName,
};
use aishd_mcp_messages::schema::{Schema, SchemaMisfit};
use aishd_store::{ReadError, Store};
use aishd_tools::ToolOutput;
use aishd_tools::builtin::{data, example};
use aishd_tools::registry::{CallContext, GivenResource};
use serde_json::{Value, json};
use tokio::time::timeout;

/// So much is told of what does not fit a schema.
pub(crate) const MOST_MISFITS: usize = 20;
/// Of a schema that a call or a client brings.
pub(crate) const MAX_SCHEMA_BYTES: usize = 64 << 10;
pub(crate) const CHECK_WITHIN: Duration = Duration::from_secs(5);

/// What a call that says nothing else says of its changes.
pub(crate) fn change_text(changed: &[ResourceChanged]) -> String {
    let one = |it: &ResourceChanged| {
        json!({
            "name": it.name.as_str(),
            "change": it.change.as_str(),
            "revision": it.revision,
            "bytes": it.bytes(),
        })
    };
    match changed {
        [only] => one(only).to_string(),
        several => Value::Array(several.iter().map(one).collect()).to_string(),
    }
}

/// What a call of a manifest's tool is given, without what is not there; or the reply of a call that cannot be.
pub(crate) async fn context(
    store: Store,
    conversation: ConversationId,
    names: Vec<ResourceName>,
) -> Result<CallContext, ToolOutput> {
    if names.is_empty() {
        return Ok(CallContext::new());
    }
    let found = move || {
        let mut context = CallContext::new();
        for name in names {
            if let Some((head, data)) = store.resource_data(conversation, &name)? {
                let revision = head.revision;
                context.insert(name, GivenResource { revision, data });
            }
        }
        Ok(context)
    };
    read(found).await
}

/// Runs a call of `data-tool`. Every failure becomes text.
pub(crate) async fn data(
    store: Store,
    conversation: ConversationId,
    call: data::DataCall,
) -> ToolOutput {
    match call {
        data::DataCall::Change(change) => ToolOutput::changing(change),
        data::DataCall::Read(name) => match found(store, conversation, &name).await {
            Ok((head, data)) => ToolOutput::from_text(data::resource_text(&name, &head, &data)),
            Err(output) => output,
        },
        data::DataCall::List { after, limit } => list(store, conversation, after, limit).await,
        data::DataCall::Validate { name, schema } => {
            let (head, data) = match found(store, conversation, &name).await {
                Ok(found) => found,
                Err(output) => return output,
            };
            match misfits(schema, &data).await {
                Ok(mismatches) => ToolOutput::from_text(data::validated(&name, &head, &mismatches)),
                Err(error) => ToolOutput::refused(error.to_string()),
            }
        }
    }
}

/// Runs a call of `example-tool`.
pub(crate) async fn example(
    store: Store,
    conversation: ConversationId,
    call: example::ExampleCall,
) -> ToolOutput {
    match call {
        example::ExampleCall::Greet => ToolOutput::from_text(example::greeting()),
        example::ExampleCall::Echo(text) => ToolOutput::from_text(text),
        example::ExampleCall::EchoResource(name) => match found(store, conversation, &name).await {
            Ok((_, data)) => ToolOutput::from_text(data.as_str().to_owned()),
            Err(output) => output,
        },
    }
}

/// Why nothing was checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    #[error("the schema cannot be used: {0}")]
    Unusable(String),
    #[error("the resource is too large to be checked against this schema")]
    TooLong,
    #[error("the check was not over within {} s", CHECK_WITHIN.as_secs())]
    TooSlow,
}

/// Where the data of a resource is not as a schema says; without a schema, nowhere.
pub async fn misfits(
    schema: Option<Value>,
    data: &ResourceData,
) -> Result<Vec<SchemaMisfit>, CheckError> {
    let Some(schema) = schema else {
        return Ok(vec![]);
    };
    if schema.to_string().len() > MAX_SCHEMA_BYTES {
        let why = format!("it has more than {MAX_SCHEMA_BYTES} bytes");
        return Err(CheckError::Unusable(why));
    }
    // What the store has is what was checked when it came.
    let value = serde_json::from_str(data.as_str()).unwrap_or(Value::Null);
    let check = move || {
        let schema = Schema::new(&schema).map_err(CheckError::Unusable)?;
        schema
            .misfits(&value, MOST_MISFITS)
            .ok_or(CheckError::TooLong)
    };
    // What a schema may cost is bounded; this is for a machine that is busy.
    let checked = timeout(CHECK_WITHIN, tokio::task::spawn_blocking(check)).await;
    match checked {
        Ok(checked) => checked.unwrap_or_else(|panic| Err(CheckError::Unusable(panic.to_string()))),
        Err(_elapsed) => Err(CheckError::TooSlow),
    }
}

pub(crate) async fn found(
    store: Store,
    conversation: ConversationId,
    name: &ResourceName,
) -> Result<(ResourceHead, ResourceData), ToolOutput> {
    let wanted = name.clone();
    let read = read(move || store.resource_data(conversation, &wanted)).await?;
    read.ok_or_else(|| {
        ToolOutput::refused(ResourceChangeError::Missing(name.to_string()).to_string())
    })
}

pub(crate) async fn list(
    store: Store,
    conversation: ConversationId,
    after: Option<ResourceName>,
    limit: usize,
) -> ToolOutput {
    let page = read(move || {
        let total = store.load(conversation)?;
        let total = total.map_or(0, |it| it.state.resources);
        // One more than is shown says whether there are more.
        let page = store.resources(conversation, after.as_ref(), limit + 1)?;
        Ok((total, page))
    });
    match page.await {
        Ok((total, page)) => {
            let shown = &page[..limit.min(page.len())];
            ToolOutput::from_text(data::list_text(shown, total, page.len() > limit))
        }
        Err(output) => output,
    }
}

pub(crate) async fn read<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
) -> Result<T, ToolOutput> {
    let failed = |why: String| ToolOutput::failed(format!("[aish] tool dispatch failed: {why}"));
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(panic) => Err(failed(panic.to_string())),
    }
}
