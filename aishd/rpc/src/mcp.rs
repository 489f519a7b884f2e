//! `mcp/*`: the sessions with MCP servers, for people and programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aish_proto::error::ErrorKind;
use aish_proto::mcp::{
    self as wire, Connect, ConnectParams, ConnectResult, Disconnect, Import, ImportResult, List,
    ListResult, Logs, LogsResult, Prompts, PromptsResult, ReadResource, ReadResourceResult,
    Refresh, RefreshResult, Resources, ResourcesResult, Restart, Tool, ToolResult, Tools,
    ToolsResult,
};
use aish_proto::method::Empty;
use jsonrpsee::RpcModule;

use super::connection::Connection;
use super::refusal::Refusal;
use super::{Call, Server, register};
use aishd_config::address::has_userinfo;
use aishd_log::audit::{Draft, ServerChange, Told};
use aishd_log::tool::Sha;
use aishd_log::tool_name::{Alias, NameError, ToolName};
use aishd_mcp::CallError;
use aishd_mcp::hub::ChangeError;
use aishd_mcp::import::ImportError;
use aishd_mcp_messages::server::{Kind, ServerStatus, Servers, State};
use aishd_mcp_messages::settings::{Auth, Endpoint, Http, Stdio};
use aishd_mcp_messages::text::one_line;
use aishd_platform::clock;

/// A description in a list; `mcp/tool` has the whole of it.
const MAX_SUMMARY_CHARS: usize = 200;

pub(super) fn register_all(module: &mut RpcModule<Server>) {
    register::<List, _, _>(module, list);
    register::<Tools, _, _>(module, tools);
    register::<Tool, _, _>(module, tool);
    register::<Connect, _, _>(module, connect);
    register::<Disconnect, _, _>(module, disconnect);
    register::<Restart, _, _>(module, restart);
    register::<Refresh, _, _>(module, refresh);
    register::<Logs, _, _>(module, logs);
    register::<Import, _, _>(module, import);
    register::<Resources, _, _>(module, resources);
    register::<ReadResource, _, _>(module, read_resource);
    register::<Prompts, _, _>(module, prompts);
}

fn now(server: &Server) -> Arc<Servers> {
    server.hub.servers().borrow().clone()
}

async fn list(call: Call<List>) -> Result<ListResult, Refusal> {
    let servers = now(&call.server);
    Ok(ListResult {
        toolset: call.server.directory.tools().toolset().version,
        servers: servers.list.iter().map(|it| status(it)).collect(),
        import: call.server.config.mcp().borrow().import.clone(),
    })
}

async fn tools(call: Call<Tools>) -> Result<ToolsResult, Refusal> {
    let servers = now(&call.server);
    let of = match &call.params.alias {
        Some(text) => Some(known(&servers, text)?.alias.clone()),
        None => None,
    };
    let wanted = servers
        .tools()
        .filter(|(name, _)| of.as_ref().is_none_or(|it| it == name.alias()));
    Ok(ToolsResult {
        toolset: call.server.directory.tools().toolset().version,
        tools: wanted
            .map(|(name, tool)| wire::ToolSummary {
                name: name.to_string(),
                description: one_line(&tool.description, MAX_SUMMARY_CHARS),
                read_only: tool.hints().read_only,
                destructive: tool.hints().destructive,
            })
            .collect(),
    })
}

async fn tool(call: Call<Tool>) -> Result<ToolResult, Refusal> {
    let servers = now(&call.server);
    let text = &call.params.name;
    let name = text.parse::<ToolName>().ok();
    let tool = name.as_ref().and_then(|it| servers.tool(it));
    let tool = tool.ok_or_else(|| {
        Refusal::new(ErrorKind::NotFound, format!("unknown tool {text}")).hint("aishctl mcp tools")
    })?;
    Ok(ToolResult {
        name: text.clone(),
        title: tool.title.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
        output_schema: tool.output_schema.clone(),
        annotations: tool.annotations.clone(),
        digest: tool.digest.to_string(),
    })
}

async fn connect(call: Call<Connect>) -> Result<ConnectResult, Refusal> {
    let alias = call.params.alias.as_deref().map(alias).transpose()?;
    let endpoint = endpoint(call.params)?;
    let place = Sha::of(endpoint.shown().as_bytes());
    let policy = call.server.directory.policy();
    let registry = call.server.directory.tools().registry();
    // Rules go by names, and so do the tools of manifests.
    let reserved = |it: &Alias| policy.lets_more(it) || registry.providers.contains_key(it);
    let connected = call.server.hub.connect(alias, endpoint, &reserved).await;
    let reached = match &connected {
        Ok(alias) | Err(ChangeError::Failed { alias, .. }) => Some(alias),
        Err(_) => None,
    };
    if let Some(alias) = reached {
        let told = Told::ServerChanged {
            provider: alias.clone(),
            change: ServerChange::Connected,
            place: Some(place),
        };
        tell(&call.server, &call.connection, told).await?;
    }
    let alias = connected?;
    let servers = now(&call.server);
    let server = known(&servers, alias.as_str())?;
    Ok(ConnectResult {
        server: status(server),
    })
}

fn endpoint(params: ConnectParams) -> Result<Endpoint, Refusal> {
    let mut words = params.command.into_iter();
    match (params.url, words.next()) {
        (Some(url), None) if has_userinfo(&url) => Err(Refusal::params(
            "a name or a password has no place in an address; authEnv names a variable with a token",
        )),
        (Some(url), None) => Ok(Endpoint::Http(Http {
            url,
            auth: params.auth_env.map_or(Auth::None, Auth::Env),
            headers: BTreeMap::new(),
        })),
        (None, Some(command)) => Ok(Endpoint::Stdio(Stdio {
            command,
            args: words.collect(),
            env: params.env,
            cwd: params.cwd.map(PathBuf::from),
        })),
        (Some(_), Some(_)) | (None, None) => Err(Refusal::params("url or command, one of them")),
    }
}

async fn disconnect(call: Call<Disconnect>) -> Result<Empty, Refusal> {
    let alias = alias(&call.params.alias)?;
    call.server.hub.disconnect(&alias).await?;
    changed_by_hand(
        &call.server,
        &call.connection,
        alias,
        ServerChange::Disconnected,
    )
    .await
}

async fn changed_by_hand(
    server: &Server,
    connection: &Connection,
    provider: Alias,
    change: ServerChange,
) -> Result<Empty, Refusal> {
    let told = Told::ServerChanged {
        provider,
        change,
        place: None,
    };
    tell(server, connection, told).await?;
    Ok(Empty {})
}

async fn tell(server: &Server, connection: &Connection, told: Told) -> Result<(), Refusal> {
    let draft = Draft {
        by: Some(connection.person()),
        ..Draft::beside(clock::now(), told)
    };
    Ok(server.directory.tell(draft).await?)
}

async fn restart(call: Call<Restart>) -> Result<Empty, Refusal> {
    let alias = alias(&call.params.alias)?;
    let restarted = call.server.hub.restart(&alias).await;
    let told = changed_by_hand(
        &call.server,
        &call.connection,
        alias,
        ServerChange::Restarted,
    );
    restarted.map_err(Refusal::from).and(told.await)
}

async fn refresh(call: Call<Refresh>) -> Result<RefreshResult, Refusal> {
    let hub = &call.server.hub;
    let mut failed = BTreeMap::new();
    match &call.params.alias {
        Some(text) => hub.refresh(&alias(text)?).await?,
        None => {
            let servers = now(&call.server);
            let wanted = servers.list.iter();
            let wanted = wanted.filter(|it| !matches!(it.state, State::Off(_)));
            let all = wanted.map(|it| async { (it.alias.clone(), hub.refresh(&it.alias).await) });
            for (alias, result) in futures_util::future::join_all(all).await {
                if let Err(error) = result {
                    failed.insert(alias.to_string(), error.to_string());
                }
            }
        }
    }
    Ok(RefreshResult {
        toolset: call.server.directory.tools().toolset().version,
        failed,
    })
}

async fn logs(call: Call<Logs>) -> Result<LogsResult, Refusal> {
    let alias = alias(&call.params.alias)?;
    let log = call.server.hub.log(&alias);
    let (text, lost) = log.ok_or(ChangeError::Unknown(alias))?;
    Ok(LogsResult { text, lost })
}

async fn import(call: Call<Import>) -> Result<ImportResult, Refusal> {
    let path = Path::new(&call.params.path);
    let found = aishd_mcp::import::read(&call.params.text, path).map_err(|error| {
        Refusal::new(ErrorKind::InvalidConfig, error.to_string()).hint(match error {
            ImportError::Unreadable(_) => "it is JSON, or TOML where its name ends in .toml",
            ImportError::NoServers => "aishctl mcp import lists the files that have servers",
        })
    })?;
    let each = found.into_iter().map(|it| wire::ImportedServer {
        alias: it.alias.to_string(),
        name: it.name,
        endpoint: it.endpoint,
        off: it.off,
        toml: it.toml,
        remarks: it.remarks,
    });
    Ok(ImportResult {
        servers: each.collect(),
    })
}

async fn resources(call: Call<Resources>) -> Result<ResourcesResult, Refusal> {
    let alias = alias(&call.params.alias)?;
    let over = call.connection.over.child_token();
    let found = call.server.hub.resources(&alias, &over).await?;
    let each = |it: aishd_mcp::Resource| wire::Resource {
        uri: it.uri,
        name: it.name,
        description: it.description,
        mime_type: it.mime,
        bytes: it.bytes,
    };
    Ok(ResourcesResult {
        resources: found.resources.into_iter().map(each).collect(),
        templates: found.templates.into_iter().map(each).collect(),
        remarks: found.remarks,
    })
}

async fn read_resource(call: Call<ReadResource>) -> Result<ReadResourceResult, Refusal> {
    let alias = alias(&call.params.alias)?;
    let over = call.connection.over.child_token();
    let hub = &call.server.hub;
    let contents = hub.read_resource(&alias, &call.params.uri, &over).await?;
    let told = Told::ResourceRead {
        provider: alias,
        resource: Sha::of(call.params.uri.as_bytes()),
    };
    tell(&call.server, &call.connection, told).await?;
    Ok(ReadResourceResult { contents })
}

async fn prompts(call: Call<Prompts>) -> Result<PromptsResult, Refusal> {
    let alias = alias(&call.params.alias)?;
    let over = call.connection.over.child_token();
    let found = call.server.hub.prompts(&alias, &over).await?;
    let argument = |it: aishd_mcp::Argument| wire::PromptArgument {
        name: it.name,
        description: it.description,
        required: it.required,
    };
    let each = |it: aishd_mcp::Prompt| wire::Prompt {
        name: it.name,
        description: it.description,
        arguments: it.arguments.into_iter().map(argument).collect(),
    };
    Ok(PromptsResult {
        prompts: found.into_iter().map(each).collect(),
    })
}

pub(super) fn alias(text: &str) -> Result<Alias, Refusal> {
    text.parse()
        .map_err(|error: NameError| Refusal::params(&error.to_string()))
}

fn known<'a>(servers: &'a Servers, text: &str) -> Result<&'a ServerStatus, Refusal> {
    let alias = alias(text)?;
    match servers.get(&alias) {
        Some(server) => Ok(server),
        None => Err(ChangeError::Unknown(alias).into()),
    }
}

pub(super) fn status(server: &ServerStatus) -> wire::ServerStatus {
    let (state, why, hint) = match &server.state {
        State::Off(why) => (wire::ServerState::Off, Some(why.clone()), None),
        State::Connecting => (wire::ServerState::Connecting, None, None),
        State::Ready => (wire::ServerState::Ready, None, None),
        State::Failed { why, hint } => (wire::ServerState::Failed, Some(why.clone()), hint.clone()),
    };
    wire::ServerStatus {
        alias: server.alias.to_string(),
        transport: match server.kind {
            Kind::Http => wire::Transport::Http,
            Kind::Stdio => wire::Transport::Stdio,
        },
        endpoint: server.endpoint.clone(),
        state,
        why,
        hint,
        since: clock::rfc3339(server.since),
        name: server.about.name.clone(),
        version: server.about.version.clone(),
        protocol: server.about.protocol.clone(),
        tools: u32::try_from(server.tools.len()).unwrap_or(u32::MAX),
        resources: server.about.offers.resources,
        prompts: server.about.offers.prompts,
        connect_ms: server.connect_ms,
        instructions: server.about.instructions.clone(),
        remarks: server.remarks.to_vec(),
    }
}

/// The servers that do not do as they did.
pub(super) fn changed(before: &Servers, now: &Servers) -> Vec<wire::ServerStatus> {
    let news = now.list.iter().filter(|it| {
        let was = before.get(&it.alias);
        was.is_none_or(|was| was.state != it.state)
    });
    news.map(|it| status(it)).collect()
}

impl From<ChangeError> for Refusal {
    fn from(error: ChangeError) -> Self {
        let message = error.to_string();
        match error {
            ChangeError::Taken(_) => Self::new(ErrorKind::Busy, message)
                .hint("another alias, or aishctl mcp disconnect first"),
            ChangeError::Reserved(_) => Self::new(ErrorKind::Denied, message)
                .hint("another alias, or [mcp.servers.ALIAS] in the configuration"),
            ChangeError::Unknown(_) => {
                Self::new(ErrorKind::NotFound, message).hint("aishctl mcp list")
            }
            ChangeError::Failed { alias, failure } => {
                let hint = failure.hint(&alias).unwrap_or_else(|| anew(&alias));
                Self::new(ErrorKind::McpFailed, message).hint(hint)
            }
            ChangeError::Stopping => Self::draining(message),
        }
    }
}

/// Where a server may be well again.
fn anew(alias: &Alias) -> String {
    format!("aishctl mcp list says how it does, aishctl mcp restart {alias} connects anew")
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        let message = error.to_string();
        match &error {
            CallError::UnknownServer(_) => {
                Self::new(ErrorKind::NotFound, message).hint("aishctl mcp list")
            }
            CallError::Transport { alias, failure } => {
                let hint = failure.hint(alias).unwrap_or_else(|| anew(alias));
                Self::new(ErrorKind::McpFailed, message).hint(hint)
            }
            CallError::TimedOut { alias, seconds: _ } => {
                Self::new(ErrorKind::McpFailed, message).hint(anew(alias))
            }
            CallError::UnknownTool(_) | CallError::Changed(_) | CallError::Gone(_) => {
                Self::new(ErrorKind::McpFailed, message).hint("aishctl mcp tools")
            }
            // The server's own words, and nobody's fault.
            CallError::Rpc(_) | CallError::Cancelled => Self::new(ErrorKind::McpFailed, message),
        }
    }
}
