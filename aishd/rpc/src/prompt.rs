//! `mcp/getPrompt` and `mcp/callPrompt`: a prompt that a server keeps ready, shown, or asked as a question.

use std::collections::BTreeMap;

use aish_proto::error::ErrorKind;
use aish_proto::id::ConversationId;
use aish_proto::mcp::{CallPrompt, GetPrompt, GetPromptResult};
use aish_proto::turn::{Attachment, SendParams, SendResult};
use jsonrpsee::RpcModule;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::connection::Connection;
use super::refusal::Refusal;
use super::turn::{Body, take};
use super::{Call, Server, mcp, register};
use aishd_conversation::handle::RequestError;
use aishd_log::audit::{Draft, Outcome, Told};
use aishd_log::tool::Sha;
use aishd_log::tool_name::Alias;
use aishd_mcp::CallError;
use aishd_mcp_messages::prompt;
use aishd_platform::clock;

pub(super) fn register_all(module: &mut RpcModule<Server>) {
    register::<GetPrompt, _, _>(module, get);
    register::<CallPrompt, _, _>(module, call);
}

async fn call(call: Call<CallPrompt>) -> Result<SendResult, Refusal> {
    let params = &call.params;
    // The same prompt with the same arguments is the same question, whatever its server makes of it today.
    let body = json!([params.alias, params.name, params.arguments]).to_string();
    let asked = was_asked(&call.server, params.conversation, &params.idempotency_key);
    let rendered = if asked.await? {
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
        max_tool_depth: None,
    };
    take(&call.server, &call.connection, send, Body::From(body)).await
}

/// Whether the question is there already: then what it was made from is not needed again.
pub(super) async fn was_asked(
    server: &Server,
    conversation: ConversationId,
    key: &str,
) -> Result<bool, Refusal> {
    match server.directory.open(conversation).await {
        Ok(handle) => Ok(handle.knows_key(key)?),
        Err(RequestError::Missing) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn rendered(call: &Call<CallPrompt>) -> Result<prompt::Rendered, Refusal> {
    let params = &call.params;
    let wanted = Wanted {
        alias: mcp::alias(&params.alias)?,
        name: &params.name,
        arguments: &params.arguments,
        conversation: Some(params.conversation),
    };
    let (_, messages) = asked(&call.server, &call.connection, wanted).await?;
    let rendered = prompt::render(&messages);
    if rendered.text.trim().is_empty() {
        let message = format!(
            "the prompt {} of {} says nothing",
            params.name, params.alias
        );
        let hint = format!("aishctl mcp prompts {} says what it asks for", params.alias);
        return Err(Refusal::new(ErrorKind::McpFailed, message).hint(hint));
    }
    Ok(rendered)
}

async fn get(call: Call<GetPrompt>) -> Result<GetPromptResult, Refusal> {
    let params = &call.params;
    let wanted = Wanted {
        alias: mcp::alias(&params.alias)?,
        name: &params.name,
        arguments: &params.arguments,
        conversation: None,
    };
    let (description, messages) = asked(&call.server, &call.connection, wanted).await?;
    Ok(GetPromptResult {
        description,
        messages,
    })
}

/// A prompt, and what it is to be made with.
struct Wanted<'a> {
    alias: Alias,
    name: &'a str,
    arguments: &'a BTreeMap<String, String>,
    /// Where it becomes a question, if it does.
    conversation: Option<ConversationId>,
}

/// What a server says a prompt is. Nobody is given it before the audit trail has who asked for it.
async fn asked(
    server: &Server,
    connection: &Connection,
    wanted: Wanted<'_>,
) -> Result<(Option<String>, Vec<Value>), Refusal> {
    let Wanted {
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
    if let Err(CallError::UnknownServer(_)) = &got {
        return Ok(got?);
    }
    let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (prompt, outcome) = match &got {
        Ok((_, messages)) => {
            let bytes = messages.iter().map(|it| it.to_string().len() as u64).sum();
            let known = format!("{alias}__{name}").parse().ok();
            (known, Outcome::Ok { bytes, ms })
        }
        Err(_) => (None, Outcome::Failed { bytes: 0, ms }),
    };
    let told = Told::PromptAsked {
        provider: alias,
        prompt,
        digest: Sha::of(digest.as_bytes()),
        outcome,
    };
    let draft = Draft {
        conversation,
        by: Some(connection.person()),
        ..Draft::beside(clock::now(), told)
    };
    server.directory.tell(draft).await?;
    Ok(got?)
}
