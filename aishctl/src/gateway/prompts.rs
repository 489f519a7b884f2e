//! Prompts of the daemon's MCP servers, passed on. The daemon asks the server, and tells the audit trail.

use std::collections::BTreeMap;

use aish_proto::mcp::{
    GetPrompt, GetPromptParams, List, McpPrompt, Prompts, ServerParams, ServerState,
};
use aish_proto::method::Empty;
use serde_json::{Map, Value, json};

use super::Gateway;
use super::message::{INTERNAL, INVALID_PARAMS, MessageParams, RpcProblem};
use super::offered::AISH;

impl Gateway {
    /// All there are, named `<alias>__<prompt>`. A server that does not say what it has costs its own only.
    pub(super) async fn prompts(&self, client: &str) -> Result<Map<String, Value>, RpcProblem> {
        let link = self.link().await?;
        let servers = link.caller.call::<List>(Empty {}).await;
        let servers = servers.map_err(|error| RpcProblem::new(INTERNAL, error.message))?;
        let mut all = vec![];
        for server in servers.servers {
            let hides = client == AISH && server.name == AISH;
            if hides || !server.prompts || server.state != ServerState::Ready {
                continue;
            }
            let params = ServerParams {
                alias: server.alias.clone(),
            };
            let listed = link.caller.call::<Prompts>(params).await;
            let prompts = listed.map(|it| it.prompts).unwrap_or_default();
            let prompts = prompts.iter();
            let prompts = prompts.filter(|it| self.wants(&server.alias, &it.name));
            all.extend(prompts.map(|it| prompt_json(&server.alias, it)));
        }
        Ok(Map::from_iter([("prompts".to_owned(), all.into())]))
    }

    pub(super) async fn prompt(
        &self,
        params: &MessageParams,
    ) -> Result<Map<String, Value>, RpcProblem> {
        let invalid = |why: &str| RpcProblem::new(INVALID_PARAMS, why);
        let Some(Value::String(whole)) = params.get("name") else {
            return Err(invalid("\"name\" is a text"));
        };
        let unknown = || invalid(&format!("Unknown prompt: {whole}"));
        let (alias, name) = whole.split_once("__").ok_or_else(unknown)?;
        if !self.wants(alias, name) {
            return Err(unknown());
        }
        let arguments = match params.get("arguments") {
            None | Some(Value::Null) => BTreeMap::new(),
            Some(Value::Object(arguments)) => arguments
                .iter()
                .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect::<Option<_>>()
                .ok_or_else(|| invalid("an argument of a prompt is a text"))?,
            Some(_) => return Err(invalid("\"arguments\" is an object")),
        };
        let link = self.link().await?;
        let asked = link.caller.call::<GetPrompt>(GetPromptParams {
            alias: alias.to_owned(),
            name: name.to_owned(),
            arguments,
        });
        let got = asked.await.map_err(|error| {
            if error.is_not_found() {
                unknown()
            } else {
                RpcProblem::new(INTERNAL, error.message)
            }
        })?;
        let mut result = Map::from_iter([("messages".to_owned(), got.messages.into())]);
        if let Some(description) = got.description {
            result.insert("description".to_owned(), description.into());
        }
        Ok(result)
    }

    pub(super) fn wants(&self, alias: &str, prompt: &str) -> bool {
        let name = format!("{alias}__{prompt}");
        self.wanted.is_empty() || self.wanted.iter().any(|it| it.covers(alias, &name))
    }
}

fn prompt_json(alias: &str, prompt: &McpPrompt) -> Value {
    let arguments = prompt
        .arguments
        .iter()
        .map(|it| json!({"name": it.name, "description": it.description, "required": it.required}));
    json!({
        "name": format!("{alias}__{}", prompt.name),
        "description": prompt.description,
        "arguments": arguments.collect::<Value>(),
    })
}
