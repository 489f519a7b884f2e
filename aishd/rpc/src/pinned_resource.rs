//! `mcp/pin`, `mcp/unpin`, `mcp/pinned`: resources of which each request of a conversation has what they hold at that moment.

use aish_proto::error::ErrorKind;
use aish_proto::id::ConversationId;
use aish_proto::mcp::{self as wire, Pin, Pinned, PinnedResult, ResourcePinParams, Unpin};
use aishd_conversation::requests::ConversationChange;
use aishd_log::pinned_resource;
use jsonrpsee::RpcModule;

use super::connection::ClientConnection;
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, mcp, register};

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Pin, _, _>(module, pin);
    register::<Unpin, _, _>(module, unpin);
    register::<Pinned, _, _>(module, |call: MethodCall<Pinned>| async move {
        list(&call.server, call.params.conversation).await
    });
}

async fn pin(call: MethodCall<Pin>) -> Result<PinnedResult, MethodError> {
    let conversation = call.params.conversation;
    let pinned = parse_pinned(&call.params)?;
    let known = state(&call.server, conversation).await?;
    if known.contains(&pinned) {
        return list(&call.server, conversation).await;
    }
    if known.len() >= pinned_resource::MOST {
        let message = format!(
            "{} resources are pinned here already",
            pinned_resource::MOST
        );
        return Err(MethodError::new(ErrorKind::Overloaded, message).hint("aishctl mcp unpin"));
    }
    // What cannot be read now is not pinned: it would only be missing from every request.
    let over = call.connection.over.child_token();
    let hub = &call.server.hub;
    hub.current(&pinned.alias, &pinned.uri, &over).await?;
    change(
        &call.server,
        &call.connection,
        conversation,
        ConversationChange::ResourcePinned(pinned),
    )
    .await
}

async fn unpin(call: MethodCall<Unpin>) -> Result<PinnedResult, MethodError> {
    let conversation = call.params.conversation;
    let pinned = parse_pinned(&call.params)?;
    if !state(&call.server, conversation).await?.contains(&pinned) {
        let message = format!("{} is not pinned here", pinned.name());
        return Err(MethodError::new(ErrorKind::NotFound, message).hint("aishctl mcp pinned"));
    }
    let result = change(
        &call.server,
        &call.connection,
        conversation,
        ConversationChange::ResourceUnpinned(pinned.clone()),
    )
    .await?;
    // Another conversation that has it asks for it again.
    call.server.hub.let_go(&pinned.alias, &pinned.uri).await;
    Ok(result)
}

fn parse_pinned(params: &ResourcePinParams) -> Result<pinned_resource::PinnedEntry, MethodError> {
    if params.uri.is_empty() || params.uri.len() > pinned_resource::MAX_URI_BYTES {
        let why = format!("uri has 1 to {} bytes", pinned_resource::MAX_URI_BYTES);
        return Err(MethodError::params(&why));
    }
    Ok(pinned_resource::PinnedEntry {
        alias: mcp::alias(&params.alias)?,
        uri: params.uri.clone(),
    })
}

async fn state(
    server: &RpcServer,
    conversation: ConversationId,
) -> Result<Vec<pinned_resource::PinnedEntry>, MethodError> {
    let handle = server.directory.open(conversation).await?;
    let pinned = handle.view().borrow().state.pinned_resources.clone();
    Ok(pinned)
}

async fn list(
    server: &RpcServer,
    conversation: ConversationId,
) -> Result<PinnedResult, MethodError> {
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
    server: &RpcServer,
    connection: &ClientConnection,
    conversation: ConversationId,
    change: ConversationChange,
) -> Result<PinnedResult, MethodError> {
    let by = connection.person();
    let changed = server.directory.with(conversation, |handle| {
        let (change, by) = (change.clone(), by.clone());
        async move { handle.change(change, by).await }
    });
    changed.await?;
    list(server, conversation).await
}
