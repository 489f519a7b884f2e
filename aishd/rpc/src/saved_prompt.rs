//! `prompt/*`: prompts that people keep, and asking what they say.

use aish_proto::error::ErrorKind;
use aish_proto::method::Empty;
use aish_proto::prompt::{
    self, CallParams, FileResult, Get, List, PromptGetResult, PromptListResult, PromptNameParams,
    Remove, Save, SaveParams, SavedPrompt,
};
use aish_proto::turn::{SendParams, SendResult};
use aishd_config::prompts::{PromptFiles, PromptsError};
use aishd_turn::saved_prompt::{self, PromptName};
use jsonrpsee::RpcModule;
use serde_json::json;

use super::method_error::{HOME, MethodError};
use super::turn::{TurnBody, take};
use super::{MethodCall, RpcServer, mcp_prompt, register};

/// Characters of a prompt's first line that are shown.
const BEGINS_CHARS: usize = 200;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Save, _, _>(module, save);
    register::<List, _, _>(module, list);
    register::<Get, _, _>(module, get);
    register::<Remove, _, _>(module, remove);
    register::<prompt::Call, _, _>(module, call);
}

async fn save(call: MethodCall<Save>) -> Result<FileResult, MethodError> {
    let SaveParams {
        name,
        text,
        replace,
    } = call.params;
    let name = parse_name(&name)?;
    let file = on_files(&call.server, move |it| it.save(&name, &text, replace)).await?;
    Ok(FileResult {
        file: file.display().to_string(),
    })
}

async fn remove(call: MethodCall<Remove>) -> Result<FileResult, MethodError> {
    let PromptNameParams { name } = call.params;
    let name = parse_name(&name)?;
    let file = on_files(&call.server, move |it| it.remove(&name)).await?;
    Ok(FileResult {
        file: file.display().to_string(),
    })
}

async fn get(call: MethodCall<Get>) -> Result<PromptGetResult, MethodError> {
    let PromptNameParams { name } = call.params;
    let name = parse_name(&name)?;
    let text = on_files(&call.server, move |it| it.read(&name)).await?;
    Ok(PromptGetResult {
        arguments: arguments(&text),
        text,
    })
}

async fn list(call: MethodCall<List>) -> Result<PromptListResult, MethodError> {
    let Empty {} = call.params;
    on_files(&call.server, |prompts| {
        let (mut found, mut errors) = (vec![], vec![]);
        for name in prompts.names()? {
            match prompts.read(&name) {
                Ok(text) => found.push(SavedPrompt {
                    name: name.to_string(),
                    arguments: arguments(&text),
                    begins: begins(&text),
                }),
                Err(error) => errors.push(format!("{name}: {error}")),
            }
        }
        Ok(PromptListResult {
            prompts: found,
            errors,
        })
    })
    .await
}

async fn call(call: MethodCall<prompt::Call>) -> Result<SendResult, MethodError> {
    let CallParams {
        conversation,
        name,
        arguments,
        new,
        idempotency_key,
        mode,
        model,
        on_confirm,
        accept_cost,
    } = call.params;
    // The same prompt with the same arguments is the same question, whatever its text is by now.
    let body = json!(["saved", name, arguments]).to_string();
    let name = parse_name(&name)?;
    let text = if mcp_prompt::was_asked(&call.server, conversation, &idempotency_key).await? {
        body.clone()
    } else {
        let shown = name.clone();
        let text = on_files(&call.server, move |it| it.read(&name)).await?;
        saved_prompt::fill(&text, &arguments)
            .map_err(|error| MethodError::params(&format!("{shown}: {error}")))?
    };
    let send = SendParams {
        conversation,
        text,
        new,
        idempotency_key,
        mode,
        expected_turn: None,
        model,
        attachments: vec![],
        on_confirm,
        max_tool_depth: None,
        accept_cost,
    };
    take(&call.server, &call.connection, send, TurnBody::From(body)).await
}

fn parse_name(name: &str) -> Result<PromptName, MethodError> {
    let name = name.parse();
    name.map_err(|error: saved_prompt::NotAName| MethodError::params(&error.to_string()))
}

fn arguments(text: &str) -> Vec<String> {
    let names = saved_prompt::arguments(text).into_iter();
    names.map(ToOwned::to_owned).collect()
}

fn begins(text: &str) -> String {
    let line = text.lines().find(|it| !it.trim().is_empty());
    line.unwrap_or_default()
        .chars()
        .take(BEGINS_CHARS)
        .collect()
}

/// On a thread that may wait for files.
async fn on_files<T: Send + 'static>(
    server: &RpcServer,
    ask: impl FnOnce(&PromptFiles) -> Result<T, PromptsError> + Send + 'static,
) -> Result<T, MethodError> {
    let live = server.config.clone();
    let asked = tokio::task::spawn_blocking(move || ask(&PromptFiles::of(&live)?)).await;
    let asked = asked.map_err(|panic| MethodError::internal(&panic.to_string()))?;
    Ok(asked?)
}

impl From<PromptsError> for MethodError {
    fn from(error: PromptsError) -> Self {
        let message = error.to_string();
        match error {
            PromptsError::Homeless => Self::new(ErrorKind::InvalidConfig, message).hint(HOME),
            PromptsError::Refused(_) => Self::new(ErrorKind::InvalidConfig, message)
                .hint("aishctl prompt save --replace NAME FILE, or aishctl prompt rm NAME"),
            PromptsError::Unknown(_) => {
                Self::new(ErrorKind::NotFound, message).hint("aishctl prompt ls")
            }
            PromptsError::Taken(_) => {
                Self::new(ErrorKind::Busy, message).hint("aishctl prompt save --replace NAME FILE")
            }
            PromptsError::Length(_) => Self::new(ErrorKind::TooLarge, message),
            PromptsError::Io { .. } => Self::new(ErrorKind::Storage, message),
        }
    }
}
