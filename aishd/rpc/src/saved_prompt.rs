//! `prompt/*`: prompts that people keep, and asking what they say.

use aish_proto::error::ErrorKind;
use aish_proto::method::Empty;
use aish_proto::prompt::{
    self, CallParams, FileResult, Get, GetResult, List, ListResult, NameParams, Remove, Save,
    SaveParams, SavedPrompt,
};
use aish_proto::turn::{SendParams, SendResult};
use jsonrpsee::RpcModule;
use serde_json::json;

use super::refusal::{HOME, Refusal};
use super::turn::{Body, take};
use super::{Call, Server, prompt as of_servers, register};
use aishd_config::prompts::{Prompts, PromptsError};
use aishd_turn::saved_prompt;
use aishd_turn::saved_prompt::PromptName;

/// Characters of a prompt's first line that are shown.
const BEGINS_CHARS: usize = 200;

pub(super) fn register_all(module: &mut RpcModule<Server>) {
    register::<Save, _, _>(module, save);
    register::<List, _, _>(module, list);
    register::<Get, _, _>(module, get);
    register::<Remove, _, _>(module, remove);
    register::<prompt::Call, _, _>(module, call);
}

async fn save(call: Call<Save>) -> Result<FileResult, Refusal> {
    let SaveParams {
        name,
        text,
        replace,
    } = call.params;
    let name = named(&name)?;
    let file = kept(&call.server, move |it| it.save(&name, &text, replace)).await?;
    Ok(FileResult {
        file: file.display().to_string(),
    })
}

async fn remove(call: Call<Remove>) -> Result<FileResult, Refusal> {
    let NameParams { name } = call.params;
    let name = named(&name)?;
    let file = kept(&call.server, move |it| it.remove(&name)).await?;
    Ok(FileResult {
        file: file.display().to_string(),
    })
}

async fn get(call: Call<Get>) -> Result<GetResult, Refusal> {
    let NameParams { name } = call.params;
    let name = named(&name)?;
    let text = kept(&call.server, move |it| it.read(&name)).await?;
    Ok(GetResult {
        arguments: arguments(&text),
        text,
    })
}

async fn list(call: Call<List>) -> Result<ListResult, Refusal> {
    let Empty {} = call.params;
    kept(&call.server, |prompts| {
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
        Ok(ListResult {
            prompts: found,
            errors,
        })
    })
    .await
}

async fn call(call: Call<prompt::Call>) -> Result<SendResult, Refusal> {
    let CallParams {
        conversation,
        name,
        arguments,
        new,
        idempotency_key,
        mode,
        model,
        on_confirm,
    } = call.params;
    // The same prompt with the same arguments is the same question, whatever its text is by now.
    let body = json!(["saved", name, arguments]).to_string();
    let name = named(&name)?;
    let text = if of_servers::was_asked(&call.server, conversation, &idempotency_key).await? {
        body.clone()
    } else {
        let shown = name.clone();
        let text = kept(&call.server, move |it| it.read(&name)).await?;
        saved_prompt::fill(&text, &arguments)
            .map_err(|error| Refusal::params(&format!("{shown}: {error}")))?
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
    };
    take(&call.server, &call.connection, send, Body::From(body)).await
}

fn named(name: &str) -> Result<PromptName, Refusal> {
    let name = name.parse();
    name.map_err(|error: saved_prompt::NotAName| Refusal::params(&error.to_string()))
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
async fn kept<T: Send + 'static>(
    server: &Server,
    ask: impl FnOnce(&Prompts) -> Result<T, PromptsError> + Send + 'static,
) -> Result<T, Refusal> {
    let live = server.config.clone();
    let asked = tokio::task::spawn_blocking(move || ask(&Prompts::of(&live)?)).await;
    let asked = asked.map_err(|panic| Refusal::internal(&panic.to_string()))?;
    Ok(asked?)
}

impl From<PromptsError> for Refusal {
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
