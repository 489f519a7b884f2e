//! Resources and prompts: what a person or a conversation asks a server for besides its tools.

use std::time::Duration;

use aishd_log::invisible_characters::without_hidden;
use aishd_log::tool_name::Alias;
use aishd_mcp_messages::bounded_text::{cut, one_line};
use aishd_mcp_messages::content;
use aishd_mcp_messages::server::ServerPhase;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::era::STATELESS;
use super::error::ToolCallError;
use super::hub::{Hub, SessionQuestion};
use super::pagination::{FetchedList, ListPages};

const MAX_LABEL_CHARS: usize = 300;
const MAX_DESCRIPTION_CHARS: usize = 4000;
const MAX_ARGUMENTS: usize = 64;
/// Parts of a resource, behind which those that are no text are only counted.
const MAX_PARTS: usize = 64;

/// Something that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedResource {
    /// For a template, with names in braces.
    pub uri: String,
    pub name: String,
    pub description: String,
    pub mime: Option<String>,
    pub bytes: Option<u64>,
}

/// A prompt that a server keeps ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedPrompt {
    pub name: String,
    pub description: String,
    pub arguments: Vec<OfferedArgument>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedArgument {
    pub name: String,
    pub description: String,
    pub required: bool,
}

/// What a server can be asked to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadableResources {
    pub resources: Vec<OfferedResource>,
    pub templates: Vec<OfferedResource>,
    pub remarks: Vec<String>,
}

impl Hub {
    pub async fn resources(
        &self,
        alias: &Alias,
        cancel: &CancellationToken,
    ) -> Result<ReadableResources, ToolCallError> {
        let list = self
            .list(alias, "resources/list", "resources", cancel)
            .await?;
        let templates = self.list(
            alias,
            "resources/templates/list",
            "resourceTemplates",
            cancel,
        );
        // Many servers have resources and do not know what a template is.
        let templates = match templates.await {
            Err(ToolCallError::Rpc(_)) => FetchedList::default(),
            other => other?,
        };
        let read =
            |entries: &[Value], key| entries.iter().filter_map(|it| resource(it, key)).collect();
        Ok(ReadableResources {
            resources: read(&list.entries, "uri"),
            templates: read(&templates.entries, "uriTemplate"),
            remarks: [list.remarks.lines(), templates.remarks.lines()].concat(),
        })
    }

    /// The contents as the server sent them: each with `uri`, `mimeType`, and `text` or `blob` in base64.
    pub async fn read_resource(
        &self,
        alias: &Alias,
        uri: &str,
        cancel: &CancellationToken,
    ) -> Result<Vec<Value>, ToolCallError> {
        let asked = SessionQuestion::new("resources/read", json!({"uri": uri}), uri);
        let mut result = self.ask(alias, asked, cancel).await?;
        Ok(match result.get_mut("contents").map(Value::take) {
            Some(Value::Array(contents)) => contents,
            _none => vec![],
        })
    }

    /// What a resource holds now, as text, from its server.
    pub async fn resource_text(
        &self,
        alias: &Alias,
        uri: &str,
        cancel: &CancellationToken,
    ) -> Result<String, ToolCallError> {
        let asked = SessionQuestion::new("resources/read", json!({"uri": uri}), uri);
        Ok(resource_text(&self.ask(alias, asked, cancel).await?))
    }

    /// What a resource holds now, as text. It is read once for as long as its server says that it holds, or would tell
    /// if it did not.
    pub async fn current(
        &self,
        alias: &Alias,
        uri: &str,
        cancel: &CancellationToken,
    ) -> Result<String, ToolCallError> {
        let fresh = self.fresh(alias);
        let fresh = fresh.ok_or_else(|| ToolCallError::UnknownServer(alias.clone()))?;
        if let Some(text) = fresh.get(uri) {
            return Ok(text);
        }
        fresh.want(uri);
        if self.is_to_be_told(alias) {
            match self.have_it_told(alias, &fresh, uri, cancel).await {
                // It announced what it does not do; then the resource is read each time.
                Ok(()) | Err(ToolCallError::Rpc(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let age = fresh.age();
        let asked = SessionQuestion::new("resources/read", json!({"uri": uri}), uri);
        let result = self.ask(alias, asked, cancel).await?;
        let text = resource_text(&result);
        let ttl = result.get("ttlMs").and_then(Value::as_u64);
        let ttl = ttl.filter(|it| *it > 0).map(Duration::from_millis);
        fresh.keep(uri, &text, ttl, age);
        Ok(text)
    }

    /// Nobody wants to have it any more.
    pub async fn let_go(&self, alias: &Alias, uri: &str) {
        if let Some(fresh) = self.fresh(alias) {
            fresh.let_go(uri);
            self.settle(alias, &fresh, uri).await;
        }
    }

    /// Whether there is a session that tells of each resource that it was asked to. In 2026-07-28 they are named on the
    /// question that stays open.
    pub(super) fn is_to_be_told(&self, alias: &Alias) -> bool {
        let servers = self.servers().borrow().clone();
        servers.get(alias).is_some_and(|it| {
            it.state == ServerPhase::Ready
                && it.about.offers.resources_changes
                && it.about.protocol != STATELESS
        })
    }

    pub async fn prompts(
        &self,
        alias: &Alias,
        cancel: &CancellationToken,
    ) -> Result<Vec<OfferedPrompt>, ToolCallError> {
        let list = self.list(alias, "prompts/list", "prompts", cancel).await?;
        Ok(list.entries.iter().filter_map(prompt).collect())
    }

    /// The messages of a prompt as the server sent them, and what it says of them.
    pub async fn get_prompt(
        &self,
        alias: &Alias,
        name: &str,
        arguments: &Map<String, Value>,
        cancel: &CancellationToken,
    ) -> Result<(Option<String>, Vec<Value>), ToolCallError> {
        let mut params = json!({ "name": name });
        if !arguments.is_empty() {
            params["arguments"] = json!(arguments);
        }
        let asked = SessionQuestion::new("prompts/get", params, name);
        let mut result = self.ask(alias, asked, cancel).await?;
        let description = result.get("description").and_then(Value::as_str);
        let description = description.map(|it| cut(it, MAX_DESCRIPTION_CHARS));
        let messages = match result.get_mut("messages").map(Value::take) {
            Some(Value::Array(messages)) => messages,
            _none => vec![],
        };
        Ok((description, messages))
    }

    async fn list(
        &self,
        alias: &Alias,
        method: &'static str,
        field: &'static str,
        cancel: &CancellationToken,
    ) -> Result<FetchedList, ToolCallError> {
        let mut pages = ListPages::new(method, field);
        while let Some(params) = pages.next() {
            let asked = SessionQuestion {
                about: None,
                ..SessionQuestion::new(method, Value::Object(params), "")
            };
            pages.take(self.ask(alias, asked, cancel).await?);
        }
        Ok(pages.list())
    }
}

/// The texts of a result of `resources/read`; for what is none, what it is.
fn resource_text(result: &Value) -> String {
    let contents = result.get("contents").and_then(Value::as_array);
    let mut left_out = 0_usize;
    let mut parts = vec![];
    for it in contents.into_iter().flatten() {
        match it.get("text").and_then(Value::as_str) {
            Some(text) => parts.push(text.to_owned()),
            None if parts.len() < MAX_PARTS => {
                let block = json!({"type": "resource", "resource": it});
                parts.push(content::flatten(&json!({"content": [block]})).text);
            }
            None => left_out += 1,
        }
    }
    if left_out > 0 {
        parts.push(format!("[{left_out} more parts are no text]"));
    }
    parts.join("\n")
}

fn label(entry: &Value, name: &str) -> String {
    let text = entry.get(name).and_then(Value::as_str);
    let (text, _hidden) = without_hidden(text.unwrap_or_default());
    one_line(&text, MAX_LABEL_CHARS)
}

fn description(entry: &Value) -> String {
    let text = entry.get("description").and_then(Value::as_str);
    let (text, _hidden) = without_hidden(text.unwrap_or_default());
    cut(&text, MAX_DESCRIPTION_CHARS)
}

fn resource(entry: &Value, key: &str) -> Option<OfferedResource> {
    Some(OfferedResource {
        // Whole, because it is what the server is asked for.
        uri: entry.get(key)?.as_str()?.to_owned(),
        name: label(entry, "name"),
        description: description(entry),
        mime: entry
            .get("mimeType")
            .and_then(Value::as_str)
            .map(|it| one_line(it, MAX_LABEL_CHARS)),
        bytes: entry.get("size").and_then(Value::as_u64),
    })
}

fn prompt(entry: &Value) -> Option<OfferedPrompt> {
    let arguments = entry.get("arguments").and_then(Value::as_array);
    let arguments = arguments.into_iter().flatten().take(MAX_ARGUMENTS);
    Some(OfferedPrompt {
        name: entry.get("name")?.as_str()?.to_owned(),
        description: description(entry),
        arguments: arguments
            .filter_map(|it| {
                Some(OfferedArgument {
                    name: it.get("name")?.as_str()?.to_owned(),
                    description: description(it),
                    required: it.get("required") == Some(&Value::Bool(true)),
                })
            })
            .collect(),
    })
}
