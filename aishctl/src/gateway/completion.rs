//! What an argument of a prompt, or a variable of a template, may become: the daemon asks the server that has it.

use std::collections::BTreeMap;

use aish_proto::mcp_complete::{Complete, CompleteParams, CompleteResult};
use serde_json::{Map, Value, json};

use super::Gateway;
use super::message::{INVALID_PARAMS, MessageParams, RpcProblem};
use super::server_resources::ServerResource;

impl Gateway {
    pub(super) async fn completion(
        &self,
        params: &MessageParams,
    ) -> Result<Map<String, Value>, RpcProblem> {
        let asked = self.asked(params)?;
        let link = self.link().await?;
        let found = match link.caller.call::<Complete>(asked).await {
            Ok(found) => found,
            Err(error) if error.is_not_found() => {
                return Err(RpcProblem::new(INVALID_PARAMS, error.message));
            }
            // A server that has none, or is slow: who types is not told of it with each key.
            Err(_) => CompleteResult {
                values: vec![],
                total: None,
                more: false,
            },
        };
        let mut completion = json!({"values": found.values, "hasMore": found.more});
        if let Some(total) = found.total {
            completion["total"] = json!(total);
        }
        Ok(Map::from_iter([("completion".to_owned(), completion)]))
    }

    fn asked(&self, params: &MessageParams) -> Result<CompleteParams, RpcProblem> {
        let invalid = |why: &str| RpcProblem::new(INVALID_PARAMS, why);
        let text = |at: &str| {
            let text = params.get("argument").and_then(|it| it.get(at)?.as_str());
            text.map(str::to_owned)
                .ok_or_else(|| invalid("\"argument\" has a \"name\" and a \"value\""))
        };
        let of = params.get("ref").unwrap_or(&Value::Null);
        let named = |name: &str| of.get(name).and_then(Value::as_str).unwrap_or_default();
        let (alias, prompt, template) = match named("type") {
            "ref/prompt" => {
                let whole = named("name");
                let found = whole.split_once("__");
                let found = found.filter(|(alias, name)| self.wants(alias, name));
                let (alias, name) =
                    found.ok_or_else(|| invalid(&format!("Unknown prompt: {whole}")))?;
                (alias.to_owned(), Some(name.to_owned()), None)
            }
            "ref/resource" => {
                let found = ServerResource::parse(named("uri"));
                let found = found.filter(|it| self.wants_all_of(&it.alias));
                let ServerResource { alias, uri } =
                    found.ok_or_else(|| invalid("Unknown resource template"))?;
                (alias, None, Some(uri))
            }
            _ => return Err(invalid("\"ref\" is a ref/prompt or a ref/resource")),
        };
        let others = params.get("context").and_then(|it| it.get("arguments"));
        let others = others.and_then(Value::as_object).into_iter().flatten();
        let others = others.filter_map(|(name, it)| Some((name.clone(), it.as_str()?.to_owned())));
        Ok(CompleteParams {
            alias,
            prompt,
            template,
            argument: text("name")?,
            value: text("value")?,
            arguments: others.collect::<BTreeMap<_, _>>(),
        })
    }
}
