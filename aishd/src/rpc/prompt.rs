//! `mcp/callPrompt`: a prompt that a server keeps ready, asked as a question (MCP-14).

use aish_proto::error::ErrorKind;
use aish_proto::mcp::{CallPrompt, CallPromptParams};
use aish_proto::turn::{Attachment, SendParams, SendResult};
use jsonrpsee::RpcModule;
use serde_json::{Value, json};

use super::refusal::Refusal;
use super::turn::{Body, take};
use super::{Call, Server, mcp, register};
use crate::conversation::handle::RequestError;
use crate::core::mcp::prompt;

pub(super) fn register_all(module: &mut RpcModule<Server>) {
    register::<CallPrompt, _, _>(module, call);
}

async fn call(call: Call<CallPrompt>) -> Result<SendResult, Refusal> {
    let params = &call.params;
    // The same prompt with the same arguments is the same question, whatever its server makes of it today.
    let body = json!([params.alias, params.name, params.arguments]).to_string();
    let rendered = if was_asked(&call.server, params).await? {
        prompt::Rendered {
            text: body.clone(),
            texts: vec![],
        }
    } else {
        rendered(&call).await?
    };
    let attachments = rendered.texts.into_iter().map(|(name, text)| Attachment {
        name,
        text: Some(text),
        blob: None,
    });
    let params = call.params;
    let send = SendParams {
        conversation: params.conversation,
        text: rendered.text,
        new: params.new,
        idempotency_key: params.idempotency_key,
        mode: params.mode,
        expected_turn: None,
        model: params.model,
        attachments: attachments.collect(),
        on_confirm: params.on_confirm,
    };
    take(&call.server, &call.connection, send, Body::From(body)).await
}

/// A question that is there already needs no server to be found again.
async fn was_asked(server: &Server, params: &CallPromptParams) -> Result<bool, Refusal> {
    match server.directory.open(params.conversation).await {
        Ok(handle) => Ok(handle.knows_key(&params.idempotency_key)?),
        Err(RequestError::Missing) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn rendered(call: &Call<CallPrompt>) -> Result<prompt::Rendered, Refusal> {
    let params = &call.params;
    let alias = mcp::alias(&params.alias)?;
    let arguments = params.arguments.iter();
    let arguments = arguments
        .map(|(name, value)| (name.clone(), Value::String(value.clone())))
        .collect();
    let over = call.connection.over.child_token();
    let hub = &call.server.hub;
    let got = hub.get_prompt(&alias, &params.name, &arguments, &over);
    let (_, messages) = got.await?;
    let rendered = prompt::render(&messages);
    if rendered.text.trim().is_empty() {
        let message = format!("the prompt {} of {alias} says nothing", params.name);
        return Err(Refusal::new(ErrorKind::McpFailed, message));
    }
    Ok(rendered)
}
