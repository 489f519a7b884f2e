//! `mcp/getPrompt` and `mcp/callPrompt`: a prompt that a server keeps ready, shown, or asked as a question.

use std::collections::BTreeMap;

use aish_proto::error::ErrorKind;
use aish_proto::id::ConversationId;
use aish_proto::mcp::{CallPrompt, GetPrompt, GetPromptResult};
use aish_proto::turn::{Attachment, SendParams, SendResult};
use aishd_conversation::request_error::RequestError;
use aishd_log::audit::{AuditDraft, AuditFact, CallOutcome};
use aishd_log::tool::ContentDigest;
use aishd_log::tool_name::Alias;
use aishd_mcp::ToolCallError;
use aishd_mcp_messages::prompt;
use aishd_platform::clock;
use jsonrpsee::RpcModule;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::connection::ClientConnection;
use super::method_error::MethodError;
use super::turn::{TurnBody, take};
use super::{MethodCall, RpcServer, mcp, register};

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<GetPrompt, _, _>(module, get);
    register::<CallPrompt, _, _>(module, call);
}

async fn call(call: MethodCall<CallPrompt>) -> Result<SendResult, MethodError> {
    let params = &call.params;
    // The same prompt with the same arguments is the same question, whatever its server makes of it today.
    let body = json!([params.alias, params.name, params.arguments]).to_string();
    let asked = was_asked(&call.server, params.conversation, &params.idempotency_key);
    let rendered = if asked.await? {
        prompt::RenderedPrompt {
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
        base64: false,
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
        max_tool_depth: None,
        accept_cost: params.accept_cost,
    };
    take(&call.server, &call.connection, send, TurnBody::From(body)).await
}

/// Whether the question is there already: then what it was made from is not needed again.
pub(super) async fn was_asked(
    server: &RpcServer,
    conversation: ConversationId,
    key: &str,
) -> Result<bool, MethodError> {
    match server.directory.open(conversation).await {
        Ok(handle) => Ok(handle.knows_key(key)?),
        Err(RequestError::Missing) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn rendered(call: &MethodCall<CallPrompt>) -> Result<prompt::RenderedPrompt, MethodError> {
    let params = &call.params;
    let wanted = WantedPrompt {
        alias: mcp::alias(&params.alias)?,
        name: &params.name,
        arguments: &params.arguments,
        conversation: Some(params.conversation),
    };
    let (_, messages) = render_prompt(&call.server, &call.connection, wanted).await?;
    let rendered = prompt::render(&messages);
    if rendered.text.trim().is_empty() {
        let message = format!(
            "the prompt {} of {} says nothing",
            params.name, params.alias
        );
        let hint = format!("aishctl mcp prompts {} says what it asks for", params.alias);
        return Err(MethodError::new(ErrorKind::McpFailed, message).hint(hint));
    }
    Ok(rendered)
}

async fn get(call: MethodCall<GetPrompt>) -> Result<GetPromptResult, MethodError> {
    let params = &call.params;
    let wanted = WantedPrompt {
        alias: mcp::alias(&params.alias)?,
        name: &params.name,
        arguments: &params.arguments,
        conversation: None,
    };
    let (description, messages) = render_prompt(&call.server, &call.connection, wanted).await?;
    Ok(GetPromptResult {
        description,
        messages,
    })
}

/// A prompt, and what it is to be made with.
struct WantedPrompt<'a> {
    alias: Alias,
    name: &'a str,
    arguments: &'a BTreeMap<String, String>,
    /// Where it becomes a question, if it does.
    conversation: Option<ConversationId>,
}

/// What a server says a prompt is. Nobody is given it before the audit trail has who asked for it.
async fn render_prompt(
    server: &RpcServer,
    connection: &ClientConnection,
    wanted: WantedPrompt<'_>,
) -> Result<(Option<String>, Vec<Value>), MethodError> {
    let WantedPrompt {
        alias,
        name,
        arguments,
        conversation,
    } = wanted;
    let digest = json!([alias.as_str(), name, arguments]).to_string();
    let sent = arguments.iter();
    let sent = sent
        .map(|(name, value)| (name.clone(), Value::String(value.clone())))
        .collect();
    let over = connection.over.child_token();
    let began = Instant::now();
    let got = server.hub.get_prompt(&alias, name, &sent, &over).await;
    if let Err(ToolCallError::UnknownServer(_)) = &got {
        return Ok(got?);
    }
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (prompt, outcome) = match &got {
        Ok((_, messages)) => {
            let bytes = messages.iter().map(|it| it.to_string().len() as u64).sum();
            let known = format!("{alias}__{name}").parse().ok();
            (known, CallOutcome::Ok { bytes, ms })
        }
        Err(_) => (None, CallOutcome::Failed { bytes: 0, ms }),
    };
    let told = AuditFact::PromptAsked {
        provider: alias,
        prompt,
        digest: ContentDigest::of(digest.as_bytes()),
        outcome,
    };
    let draft = AuditDraft {
        conversation,
        by: Some(connection.person()),
        ..AuditDraft::outside_conversation(clock::now(), told)
    };
    server.directory.record(draft).await?;
    Ok(got?)
}
