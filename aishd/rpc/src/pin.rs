//! Resources that a conversation has pinned: what they hold now is in each of its requests.

use aish_proto::error::ErrorKind;
use aish_proto::id::ConversationId;
use aish_proto::mcp::{self as wire, Pin, PinParams, Pinned, PinnedResult, Unpin};
use jsonrpsee::RpcModule;

use super::connection::Connection;
use super::refusal::Refusal;
use super::{Call, Server, mcp, register};
use aishd_conversation::handle::Change;
use aishd_log::pinned;

pub(super) fn register_all(module: &mut RpcModule<Server>) {
    register::<Pin, _, _>(module, pin);
    register::<Unpin, _, _>(module, unpin);
    register::<Pinned, _, _>(module, |call: Call<Pinned>| async move {
        list(&call.server, call.params.conversation).await
    });
}

async fn pin(call: Call<Pin>) -> Result<PinnedResult, Refusal> {
    let conversation = call.params.conversation;
    let pinned = named(&call.params)?;
    let known = state(&call.server, conversation).await?;
    if known.contains(&pinned) {
        return list(&call.server, conversation).await;
    }
    if known.len() >= pinned::MOST {
        let message = format!("{} resources are pinned here already", pinned::MOST);
        return Err(Refusal::new(ErrorKind::Overloaded, message).hint("aishctl mcp unpin"));
    }
    // What cannot be read now is not pinned: it would only be missing from every request.
    let over = call.connection.over.child_token();
    let hub = &call.server.hub;
    hub.current(&pinned.alias, &pinned.uri, &over).await?;
    change(
        &call.server,
        &call.connection,
        conversation,
        Change::Pinned(pinned),
    )
    .await
}

async fn unpin(call: Call<Unpin>) -> Result<PinnedResult, Refusal> {
    let conversation = call.params.conversation;
    let pinned = named(&call.params)?;
    if !state(&call.server, conversation).await?.contains(&pinned) {
        let message = format!("{} is not pinned here", pinned.name());
        return Err(Refusal::new(ErrorKind::NotFound, message).hint("aishctl mcp pinned"));
    }
    let result = change(
        &call.server,
        &call.connection,
        conversation,
        Change::Unpinned(pinned.clone()),
    )
    .await?;
    // Another conversation that has it asks for it again.
    call.server.hub.let_go(&pinned.alias, &pinned.uri).await;
    Ok(result)
}

fn named(params: &PinParams) -> Result<pinned::Pinned, Refusal> {
    if params.uri.is_empty() || params.uri.len() > pinned::MAX_URI_BYTES {
        let why = format!("uri has 1 to {} bytes", pinned::MAX_URI_BYTES);
        return Err(Refusal::params(&why));
    }
    Ok(pinned::Pinned {
        alias: mcp::alias(&params.alias)?,
        uri: params.uri.clone(),
    })
}

async fn state(
    server: &Server,
    conversation: ConversationId,
) -> Result<Vec<pinned::Pinned>, Refusal> {
    let handle = server.directory.open(conversation).await?;
    let pinned = handle.view().borrow().state.pinned.clone();
    Ok(pinned)
}

async fn list(server: &Server, conversation: ConversationId) -> Result<PinnedResult, Refusal> {
    let pinned = state(server, conversation).await?.into_iter();
    Ok(PinnedResult {
        pinned: pinned
            .map(|it| wire::PinnedResource {
                alias: it.alias.to_string(),
                uri: it.uri,
            })
            .collect(),
    })
}

async fn change(
    server: &Server,
    connection: &Connection,
    conversation: ConversationId,
    change: Change,
) -> Result<PinnedResult, Refusal> {
    let by = connection.person();
    let changed = server.directory.with(conversation, |handle| {
        let (change, by) = (change.clone(), by.clone());
        async move { handle.change(change, by).await }
    });
    changed.await?;
    list(server, conversation).await
}
