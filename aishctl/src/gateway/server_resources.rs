//! Resources of the daemon's MCP servers, passed on as `aish://mcp/<alias>/<uri>`: listed, and read by a call that passes the
//! gate like every other.

use aish_proto::mcp::{
    List, McpResource, McpServerStatus, ReadResource, ReadResourceParams, Resources, ServerParams,
    ServerState,
};
use aish_proto::method::Empty;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::Gateway;
use super::call_progress::GatewayCallEnd;
use super::message::{INTERNAL, MessageParams, RpcProblem};
use super::offered::AISH;
use super::requests::RequestTerms;
use crate::client::connect::Caller;

/// In front of `<alias>/<uri>`.
const SCHEME: &str = "aish://mcp/";
/// What reads them here, and what policy speaks of.
const READER: &str = "aish__read_resource";
/// Of resources on one page; those of one more server may stand on it.
const PAGE_BYTES: usize = 512 << 10;

/// A resource of a server, or a template of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServerResource {
    pub(super) alias: String,
    pub(super) uri: String,
}

impl ServerResource {
    /// `None`: it is no server's.
    pub(super) fn parse(uri: &str) -> Option<Self> {
        let (alias, uri) = uri.strip_prefix(SCHEME)?.split_once('/')?;
        let named = !alias.is_empty() && !uri.is_empty();
        named.then(|| Self {
            alias: alias.to_owned(),
            uri: uri.to_owned(),
        })
    }

    pub(super) fn gateway_uri(alias: &str, uri: &str) -> String {
        format!("{SCHEME}{alias}/{uri}")
    }
}

impl Gateway {
    /// Whether all of a provider may be passed on, and not only tools by name.
    pub(super) fn wants_all_of(&self, alias: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|it| it.covers(alias, ""))
    }

    /// The servers that have something to read for this client.
    async fn readable(
        &self,
        caller: &Caller,
        client: &str,
    ) -> Result<Vec<McpServerStatus>, RpcProblem> {
        let servers = caller.call::<List>(Empty {}).await;
        let servers = servers.map_err(|error| RpcProblem::new(INTERNAL, error.message))?;
        let denied = self.offered().await?;
        let denied = denied
            .find(READER, client)
            .is_some_and(|it| it.denied.is_some());
        let is_offered = |it: &McpServerStatus| {
            let hides = client == AISH && it.name == AISH;
            !denied && it.resources && !hides && self.wants_all_of(&it.alias)
        };
        Ok(servers.servers.into_iter().filter(is_offered).collect())
    }

    /// Whether this client may know of a server's resources.
    pub(super) async fn offers_of(&self, alias: &str, client: &str) -> Result<bool, RpcProblem> {
        let link = self.link().await?;
        let all = self.readable(&link.caller, client).await?;
        Ok(all.iter().any(|it| it.alias == alias))
    }

    /// Those of all servers from one on, and the one with which the next page begins. A server that does not say what it
    /// has costs its own only.
    pub(super) async fn server_resources(
        &self,
        caller: &Caller,
        client: &str,
        from: &str,
    ) -> Result<(Vec<Value>, Option<String>), RpcProblem> {
        let mut all = vec![];
        let mut bytes = 0;
        for server in self.readable(caller, client).await? {
            if *server.alias < *from || server.state != ServerState::Ready {
                continue;
            }
            if bytes > PAGE_BYTES {
                return Ok((all, Some(server.alias)));
            }
            let alias = server.alias.clone();
            let listed = caller.call::<Resources>(ServerParams { alias }).await;
            for it in listed.map(|it| it.resources).unwrap_or_default() {
                let told = resource_json(&server.alias, &it, "uri");
                bytes += told.to_string().len();
                all.push(told);
            }
        }
        Ok((all, None))
    }

    /// The templates of all servers.
    pub(super) async fn templates(&self, client: &str) -> Result<Map<String, Value>, RpcProblem> {
        let link = self.link().await?;
        let mut all = vec![];
        for server in self.readable(&link.caller, client).await? {
            let alias = server.alias.clone();
            let listed = link.caller.call::<Resources>(ServerParams { alias }).await;
            let templates = listed.map(|it| it.templates).unwrap_or_default();
            let told = templates.iter();
            all.extend(told.map(|it| resource_json(&server.alias, it, "uriTemplate")));
        }
        Ok(Map::from_iter([(
            "resourceTemplates".to_owned(),
            all.into(),
        )]))
    }

    /// Reads one: a call that a person may have to allow. What it holds is fetched as its server has it once that call ran.
    pub(super) async fn server_resource(
        &self,
        terms: &RequestTerms,
        params: &MessageParams,
        wanted: ServerResource,
        stop: watch::Receiver<bool>,
    ) -> GatewayCallEnd {
        let ServerResource { alias, uri } = wanted;
        match self.offers_of(&alias, &terms.client).await {
            Ok(true) => {}
            Ok(false) => {
                let unknown = RpcProblem {
                    data: Some(json!({"uri": ServerResource::gateway_uri(&alias, &uri)})),
                    ..RpcProblem::new(terms.revision.resource_not_found(), "Resource not found")
                };
                return Some(Err(unknown));
            }
            Err(problem) => return Some(Err(problem)),
        }
        let arguments = Map::from_iter([
            ("server".to_owned(), json!(alias)),
            ("uri".to_owned(), json!(uri)),
        ]);
        let read = self
            .run_call(terms, params, READER, arguments, stop)
            .await?;
        let failed = |why: String| Some(Err(RpcProblem::new(INTERNAL, why)));
        let read = match read {
            Ok(read) => read,
            Err(problem) => return Some(Err(problem)),
        };
        if read.get("isError") == Some(&Value::Bool(true)) {
            let why = read
                .get("content")
                .and_then(|it| it.get(0)?.get("text")?.as_str());
            return failed(why.unwrap_or("it was not read").to_owned());
        }
        let link = match self.link().await {
            Ok(link) => link,
            Err(problem) => return Some(Err(problem)),
        };
        let asked = ReadResourceParams {
            alias: alias.clone(),
            uri,
        };
        let mut contents = match link.caller.call::<ReadResource>(asked).await {
            Ok(found) => found.contents,
            Err(error) => return failed(error.message),
        };
        for part in &mut contents {
            if let Some(uri) = part.get("uri").and_then(Value::as_str) {
                part["uri"] = json!(ServerResource::gateway_uri(&alias, uri));
            }
        }
        Some(Ok(Map::from_iter([(
            "contents".to_owned(),
            contents.into(),
        )])))
    }
}

fn resource_json(alias: &str, resource: &McpResource, named: &str) -> Value {
    let mut told = json!({
        named: ServerResource::gateway_uri(alias, &resource.uri),
        // Names are of a server's own; clients are to tell servers apart.
        "name": format!("{alias}__{}", resource.name),
    });
    if !resource.description.is_empty() {
        told["description"] = json!(resource.description);
    }
    if let Some(kind) = &resource.mime_type {
        told["mimeType"] = json!(kind);
    }
    if let Some(bytes) = resource.bytes {
        told["size"] = json!(bytes);
    }
    told
}
