//! `mcp/complete`: what an argument may become, for who is typing it. Nothing of it is kept.

use aish_proto::error::ErrorKind;
use aish_proto::mcp_complete::{Complete, CompleteParams, CompleteResult};
use aishd_mcp::{CompletionError, CompletionQuestion, CompletionSubject};
use jsonrpsee::RpcModule;
use serde_json::Value;

use super::method_error::MethodError;
use super::{MethodCall, RpcServer, mcp, register};

/// More is not typed by hand.
const MAX_TYPED_BYTES: usize = 8 << 10;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Complete, _, _>(module, complete);
}

async fn complete(call: MethodCall<Complete>) -> Result<CompleteResult, MethodError> {
    let alias = mcp::alias(&call.params.alias)?;
    let question = question(call.params)?;
    let over = call.connection.over.child_token();
    let found = call.server.hub.complete(&alias, question, &over).await;
    let found = found.map_err(|error| match error {
        CompletionError::Failed(error) => error.into(),
        CompletionError::Unannounced(_) => {
            MethodError::new(ErrorKind::McpFailed, error.to_string()).hint("aishctl mcp list")
        }
    })?;
    Ok(CompleteResult {
        values: found.values,
        total: found.total,
        more: found.more,
    })
}

fn question(params: CompleteParams) -> Result<CompletionQuestion, MethodError> {
    let CompleteParams {
        alias: _,
        prompt,
        template,
        argument,
        value,
        arguments,
    } = params;
    let subject = match (prompt, template) {
        (Some(prompt), None) => CompletionSubject::Prompt(prompt),
        (None, Some(template)) => CompletionSubject::Template(template),
        (Some(_), Some(_)) | (None, None) => {
            return Err(MethodError::params("prompt or template, one of them"));
        }
    };
    if value.len() > MAX_TYPED_BYTES {
        let why = format!("value has at most {MAX_TYPED_BYTES} bytes");
        return Err(MethodError::params(&why));
    }
    let others = arguments.into_iter();
    let others = others.map(|(name, value)| (name, Value::String(value)));
    Ok(CompletionQuestion {
        subject,
        argument,
        value,
        others: others.collect(),
    })
}
