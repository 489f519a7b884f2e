//! `mcp/*`: the sessions with MCP servers, for people and programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aish_proto::error::ErrorKind;
use aish_proto::mcp::{
    self as wire, Connect, ConnectParams, ConnectResult, Disconnect, Import, List, Logs,
    LogsResult, McpImportResult, McpListResult, Prompts, PromptsResult, ReadResource,
    ReadResourceResult, Refresh, RefreshResult, Resources, ResourcesResult, Restart, Tool,
    ToolResult, Tools, ToolsResult,
};
use aish_proto::method::Empty;
use aishd_config::address::has_userinfo;
use aishd_log::audit::{AuditDraft, AuditFact, ServerChange};
use aishd_log::profile::{ChosenProfile, Profile};
use aishd_log::tool::ContentDigest;
use aishd_log::tool_name::{Alias, NameError, ToolName};
use aishd_mcp::ToolCallError;
use aishd_mcp::hub::ServerChangeError;
use aishd_mcp::import::{ImportHold, ImportProgram, ImportSight, ImportText, McpImportError};
use aishd_mcp_messages::bounded_text::one_line;
use aishd_mcp_messages::oauth_settings::OAuthSettings;
use aishd_mcp_messages::revision::Revision;
use aishd_mcp_messages::server::{ServerEntry, ServerKind, ServerPhase, ServerSnapshot};
use aishd_mcp_messages::settings::{
    BearerSource, HttpServerSettings, ServerEndpoint, StdioServerSettings,
};
use aishd_platform::clock;
use aishd_profile::host_patterns;
use jsonrpsee::RpcModule;

use super::connection::ClientConnection;
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register};

/// A description in a list; `mcp/tool` has the whole of it.
const MAX_SUMMARY_CHARS: usize = 200;
/// Where the keys stand that leave tools out.
pub(super) const CHANGE_TOOLS: &str = "aishctl config edit";

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
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

fn now(server: &RpcServer) -> Arc<ServerSnapshot> {
    server.hub.servers().borrow().clone()
}

async fn list(call: MethodCall<List>) -> Result<McpListResult, MethodError> {
    let servers = now(&call.server);
    Ok(McpListResult {
        toolset: call.server.directory.tools().toolset().version,
        servers: servers
            .list
            .iter()
            .map(|it| with_network(&call.server, it))
            .collect(),
        import: call.server.config.mcp().borrow().import.clone(),
    })
}

/// With what its program reached.
fn with_network(server: &RpcServer, it: &ServerEntry) -> wire::McpServerStatus {
    let used = server.directory.tools().profiles().network_of(&it.alias);
    wire::McpServerStatus {
        network: super::tried::network(used),
        sign_in: super::mcp_login::standing(server, &it.alias),
        ..status(it)
    }
}

async fn tools(call: MethodCall<Tools>) -> Result<ToolsResult, MethodError> {
    let servers = now(&call.server);
    let of = match &call.params.alias {
        Some(text) => Some(known_server(&servers, text)?.alias.clone()),
        None => None,
    };
    let (policy, catalog) = (
        call.server.directory.policy(),
        call.server.directory.catalog(),
    );
    let listed = servers.list.iter();
    let listed = listed.filter(|it| of.as_ref().is_none_or(|of| *of == it.alias));
    let left_out = listed.flat_map(|server| {
        let each = server.left_out.iter();
        each.map(|it| wire::ToolLeftOut {
            name: format!("{}__{}", server.alias, it.called),
            key: it.key.to_string(),
        })
    });
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
                level: catalog.get(&name).map(|it| policy.needs(it).number()),
            })
            .collect(),
        left_out: left_out.collect(),
    })
}

async fn tool(call: MethodCall<Tool>) -> Result<ToolResult, MethodError> {
    let servers = now(&call.server);
    let text = &call.params.name;
    let name = text.parse::<ToolName>().ok();
    let tool = name.as_ref().and_then(|it| servers.tool(it));
    let tool = tool.ok_or_else(|| unknown_tool(&servers, text, "aishctl mcp tools"))?;
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

/// Why a tool is not there that its server has: the configuration leaves it out.
pub(super) fn left_out(servers: &ServerSnapshot, text: &str) -> Option<ToolCallError> {
    let name = text.parse::<ToolName>().ok()?;
    let key = servers.left_out(&name)?.key;
    Some(ToolCallError::LeftOut(name, key))
}

/// A tool that is not there.
pub(super) fn unknown_tool(servers: &ServerSnapshot, text: &str, list: &str) -> MethodError {
    match left_out(servers, text) {
        Some(error) => error.into(),
        None => MethodError::new(ErrorKind::NotFound, format!("unknown tool {text}")).hint(list),
    }
}

async fn connect(call: MethodCall<Connect>) -> Result<ConnectResult, MethodError> {
    let alias = call.params.alias.as_deref().map(alias).transpose()?;
    let revision = call.params.revision.as_deref().map(revision).transpose()?;
    let endpoint = endpoint(call.params)?;
    let place = ContentDigest::of(endpoint.display().as_bytes());
    let policy = call.server.directory.policy();
    let registry = call.server.directory.tools().registry();
    // Rules go by names, and so do the tools of manifests.
    let reserved = |it: &Alias| policy.lets_more(it) || registry.providers.contains_key(it);
    let hub = &call.server.hub;
    let connected = hub.connect(alias, (endpoint, revision), &reserved).await;
    let reached = match &connected {
        Ok(alias) | Err(ServerChangeError::Failed { alias, .. }) => Some(alias),
        Err(_) => None,
    };
    if let Some(alias) = reached {
        let told = AuditFact::ServerChanged {
            provider: alias.clone(),
            change: ServerChange::Connected,
            place: Some(place),
            sign_in: None,
        };
        audit(&call.server, &call.connection, told).await?;
    }
    let alias = connected?;
    let servers = now(&call.server);
    let server = known_server(&servers, alias.as_str())?;
    Ok(ConnectResult {
        server: status(server),
    })
}

fn revision(name: &str) -> Result<Revision, MethodError> {
    Revision::named(name).ok_or_else(|| {
        let all = Revision::all();
        MethodError::params(&format!(
            "there is no revision {name:?} of MCP; there are {all}"
        ))
    })
}

fn endpoint(params: ConnectParams) -> Result<ServerEndpoint, MethodError> {
    let contain = chosen(&params)?;
    let mut words = params.command.into_iter();
    match (params.url, words.next()) {
        (Some(url), None) if has_userinfo(&url) => Err(MethodError::params(
            "a name or a password has no place in an address; authEnv names a variable with a token",
        )),
        (Some(url), None) => Ok(ServerEndpoint::Http(HttpServerSettings {
            url,
            auth: params
                .auth_env
                .map_or(BearerSource::None, BearerSource::Env),
            headers: BTreeMap::new(),
            oauth: OAuthSettings::default(),
        })),
        (None, Some(command)) => Ok(ServerEndpoint::Stdio(StdioServerSettings {
            command,
            args: words.collect(),
            env: params.env,
            cwd: params.cwd.map(PathBuf::from),
            contain,
        })),
        (Some(_), Some(_)) | (None, None) => {
            Err(MethodError::params("url or command, one of them"))
        }
    }
}

fn chosen(params: &ConnectParams) -> Result<ChosenProfile, MethodError> {
    let profile = params.contain.map_or(Profile::Open, profile);
    let write: Vec<PathBuf> = params.write.iter().map(PathBuf::from).collect();
    let wrong = match profile {
        _ if params.url.is_some() && params.contain.is_some() => {
            Some("contain goes with a command: nothing of a server behind a URL runs here")
        }
        Profile::Read | Profile::Open if !write.is_empty() => {
            Some("write goes with contain: \"workspace\"")
        }
        Profile::Workspace if write.iter().any(|it| !it.is_absolute()) => {
            Some("write has absolute paths")
        }
        Profile::Read | Profile::Workspace | Profile::Open => None,
    };
    if let Some(why) = wrong {
        return Err(MethodError::params(why));
    }
    Ok(ChosenProfile {
        profile,
        write,
        hosts: hosts(&params.hosts, Some(profile))?,
    })
}

/// Hosts that a program may reach which is held to this.
fn hosts(named: &[String], profile: Option<Profile>) -> Result<Vec<String>, MethodError> {
    if !named.is_empty() && profile.is_none_or(|it| it == Profile::Open) {
        return Err(MethodError::params(
            "hosts goes with contain: \"read\" or \"workspace\"; what is open reaches every host",
        ));
    }
    if let Err(error) = host_patterns(named) {
        let why = std::error::Error::source(&error).map(ToString::to_string);
        let why = why.unwrap_or_else(|| error.to_string());
        return Err(MethodError::params(&format!("hosts: {why}")));
    }
    Ok(named.to_vec())
}

/// As the daemon has it.
fn profile(it: wire::Profile) -> Profile {
    match it {
        wire::Profile::Read => Profile::Read,
        wire::Profile::Workspace => Profile::Workspace,
        wire::Profile::Open => Profile::Open,
    }
}

/// As the wire has it, where there is anything to tell.
pub(super) fn held(it: Profile) -> Option<wire::Profile> {
    match it {
        Profile::Read => Some(wire::Profile::Read),
        Profile::Workspace => Some(wire::Profile::Workspace),
        Profile::Open => None,
    }
}

async fn disconnect(call: MethodCall<Disconnect>) -> Result<Empty, MethodError> {
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
    server: &RpcServer,
    connection: &ClientConnection,
    provider: Alias,
    change: ServerChange,
) -> Result<Empty, MethodError> {
    let told = AuditFact::ServerChanged {
        provider,
        change,
        place: None,
        sign_in: None,
    };
    audit(server, connection, told).await?;
    Ok(Empty {})
}

pub(super) async fn audit(
    server: &RpcServer,
    connection: &ClientConnection,
    told: AuditFact,
) -> Result<(), MethodError> {
    let draft = AuditDraft {
        by: Some(connection.person()),
        ..AuditDraft::outside_conversation(clock::now(), told)
    };
    Ok(server.directory.record(draft).await?)
}

async fn restart(call: MethodCall<Restart>) -> Result<Empty, MethodError> {
    let alias = alias(&call.params.alias)?;
    let restarted = call.server.hub.restart(&alias).await;
    let told = changed_by_hand(
        &call.server,
        &call.connection,
        alias,
        ServerChange::Restarted,
    );
    restarted.map_err(MethodError::from).and(told.await)
}

async fn refresh(call: MethodCall<Refresh>) -> Result<RefreshResult, MethodError> {
    let hub = &call.server.hub;
    let mut failed = BTreeMap::new();
    match &call.params.alias {
        Some(text) => hub.refresh(&alias(text)?).await?,
        None => {
            let servers = now(&call.server);
            let wanted = servers.list.iter();
            let wanted = wanted.filter(|it| !matches!(it.state, ServerPhase::Off(_)));
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

async fn logs(call: MethodCall<Logs>) -> Result<LogsResult, MethodError> {
    let alias = alias(&call.params.alias)?;
    let log = call.server.hub.log(&alias);
    let (text, lost) = log.ok_or(ServerChangeError::Unknown(alias))?;
    Ok(LogsResult { text, lost })
}

async fn import(call: MethodCall<Import>) -> Result<McpImportResult, MethodError> {
    let params = &call.params;
    let held = ImportHold {
        contain: params.contain.map(profile),
        hosts: hosts(&params.hosts, params.contain.map(profile))?,
        sight: if params.covered {
            ImportSight::Covered
        } else {
            ImportSight::Whole
        },
    };
    let source = ImportText {
        text: &params.text,
        path: Path::new(&params.path),
        program: params.program.map(import_program),
        beside: params.beside.as_deref(),
    };
    let found = aishd_mcp::import::read(source, &held).map_err(|error| {
        MethodError::new(ErrorKind::InvalidConfig, error.to_string()).hint(match error {
            McpImportError::Unreadable(_) => {
                "it is JSON, TOML where its name ends in .toml, YAML where it ends in .yaml"
            }
            McpImportError::NoServers => "aishctl mcp import lists the files that have servers",
        })
    })?;
    let each = found.servers.into_iter().map(|it| wire::ImportedServer {
        alias: it.alias.to_string(),
        name: it.name,
        endpoint: it.endpoint,
        off: it.off,
        toml: it.toml,
        remarks: it.remarks,
    });
    Ok(McpImportResult {
        servers: each.collect(),
        rules: found.rules,
        remarks: found.remarks,
    })
}

fn import_program(program: wire::ImportProgram) -> ImportProgram {
    match program {
        wire::ImportProgram::OpenCode => ImportProgram::OpenCode,
        wire::ImportProgram::Zed => ImportProgram::Zed,
        wire::ImportProgram::Crush => ImportProgram::Crush,
        wire::ImportProgram::Goose => ImportProgram::Goose,
        wire::ImportProgram::Continue => ImportProgram::Continue,
    }
}

async fn resources(call: MethodCall<Resources>) -> Result<ResourcesResult, MethodError> {
    let alias = alias(&call.params.alias)?;
    let over = call.connection.over.child_token();
    let found = call.server.hub.resources(&alias, &over).await?;
    let each = |it: aishd_mcp::OfferedResource| wire::McpResource {
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

async fn read_resource(call: MethodCall<ReadResource>) -> Result<ReadResourceResult, MethodError> {
    let alias = alias(&call.params.alias)?;
    let over = call.connection.over.child_token();
    let hub = &call.server.hub;
    let contents = hub.read_resource(&alias, &call.params.uri, &over).await?;
    let told = AuditFact::ResourceRead {
        provider: alias,
        resource: ContentDigest::of(call.params.uri.as_bytes()),
    };
    audit(&call.server, &call.connection, told).await?;
    Ok(ReadResourceResult { contents })
}

async fn prompts(call: MethodCall<Prompts>) -> Result<PromptsResult, MethodError> {
    let alias = alias(&call.params.alias)?;
    let over = call.connection.over.child_token();
    let found = call.server.hub.prompts(&alias, &over).await?;
    let argument = |it: aishd_mcp::OfferedArgument| wire::PromptArgument {
        name: it.name,
        description: it.description,
        required: it.required,
    };
    let each = |it: aishd_mcp::OfferedPrompt| wire::McpPrompt {
        name: it.name,
        description: it.description,
        arguments: it.arguments.into_iter().map(argument).collect(),
    };
    Ok(PromptsResult {
        prompts: found.into_iter().map(each).collect(),
    })
}

pub(super) fn alias(text: &str) -> Result<Alias, MethodError> {
    text.parse()
        .map_err(|error: NameError| MethodError::params(&error.to_string()))
}

fn known_server<'a>(
    servers: &'a ServerSnapshot,
    text: &str,
) -> Result<&'a ServerEntry, MethodError> {
    let alias = alias(text)?;
    match servers.get(&alias) {
        Some(server) => Ok(server),
        None => Err(ServerChangeError::Unknown(alias).into()),
    }
}

pub(super) fn status(server: &ServerEntry) -> wire::McpServerStatus {
    let (state, why, hint) = match &server.state {
        ServerPhase::Off(why) => (wire::ServerState::Off, Some(why.clone()), None),
        ServerPhase::Connecting => (wire::ServerState::Connecting, None, None),
        ServerPhase::Ready => (wire::ServerState::Ready, None, None),
        ServerPhase::NeedsSignIn { why, hint } => (
            wire::ServerState::NeedsSignIn,
            Some(why.clone()),
            Some(hint.clone()),
        ),
        ServerPhase::Failed { why, hint } => {
            (wire::ServerState::Failed, Some(why.clone()), hint.clone())
        }
    };
    wire::McpServerStatus {
        alias: server.alias.to_string(),
        transport: match server.kind {
            ServerKind::Http => wire::McpTransport::Http,
            ServerKind::Stdio => wire::McpTransport::Stdio,
        },
        endpoint: server.endpoint.clone(),
        contain: held(server.contain.profile),
        state,
        why,
        hint,
        since: clock::rfc3339(server.since),
        name: server.about.name.clone(),
        version: server.about.version.clone(),
        protocol: server.about.protocol.clone(),
        revision: server.revision.map(|it| it.name().to_owned()),
        tools: u32::try_from(server.tools.len()).unwrap_or(u32::MAX),
        left_out: u32::try_from(server.left_out.len()).unwrap_or(u32::MAX),
        resources: server.about.offers.resources,
        prompts: server.about.offers.prompts,
        completions: server.about.completes(),
        logging: server.about.offers.logging,
        tasks: server.about.offers.tasks,
        connect_ms: server.connect_ms,
        instructions: server.about.instructions.clone(),
        network: None,
        sign_in: None,
        remarks: server.remarks.to_vec(),
    }
}

/// The servers that do not do as they did.
pub(super) fn changed(before: &ServerSnapshot, now: &ServerSnapshot) -> Vec<wire::McpServerStatus> {
    let news = now.list.iter().filter(|it| {
        let was = before.get(&it.alias);
        was.is_none_or(|was| was.state != it.state)
    });
    news.map(|it| status(it)).collect()
}

impl From<ServerChangeError> for MethodError {
    fn from(error: ServerChangeError) -> Self {
        let message = error.to_string();
        match error {
            ServerChangeError::Taken(_) => Self::new(ErrorKind::Busy, message)
                .hint("another alias, or aishctl mcp disconnect first"),
            ServerChangeError::Reserved(_) => Self::new(ErrorKind::Denied, message)
                .hint("another alias, or [mcp.servers.ALIAS] in the configuration"),
            ServerChangeError::Unknown(_) => {
                Self::new(ErrorKind::NotFound, message).hint("aishctl mcp list")
            }
            ServerChangeError::Failed { alias, failure } => {
                let hint = failure
                    .hint(&alias)
                    .unwrap_or_else(|| hint_add_again(&alias));
                Self::new(ErrorKind::McpFailed, message).hint(hint)
            }
            ServerChangeError::Stopping => Self::draining(message),
        }
    }
}

/// Where a server may be well again.
fn hint_add_again(alias: &Alias) -> String {
    format!("aishctl mcp list says how it does, aishctl mcp restart {alias} connects anew")
}

impl From<ToolCallError> for MethodError {
    fn from(error: ToolCallError) -> Self {
        let message = error.to_string();
        match &error {
            ToolCallError::UnknownServer(_) | ToolCallError::AnotherServer(_) => {
                Self::new(ErrorKind::NotFound, message).hint("aishctl mcp list")
            }
            ToolCallError::LeftOut(..) => {
                Self::new(ErrorKind::NotFound, message).hint(CHANGE_TOOLS)
            }
            ToolCallError::Transport { alias, failure } => {
                let hint = failure.hint(alias).unwrap_or_else(|| hint_add_again(alias));
                Self::new(ErrorKind::McpFailed, message).hint(hint)
            }
            ToolCallError::TimedOut { alias, seconds: _ }
            | ToolCallError::Task {
                alias,
                task: _,
                why: _,
            } => Self::new(ErrorKind::McpFailed, message).hint(hint_add_again(alias)),
            ToolCallError::UnknownTool(_) | ToolCallError::Changed(_) | ToolCallError::Gone(_) => {
                Self::new(ErrorKind::McpFailed, message).hint("aishctl mcp tools")
            }
            // The server's own words, and nobody's fault.
            ToolCallError::Rpc(_) | ToolCallError::Cancelled => {
                Self::new(ErrorKind::McpFailed, message)
            }
        }
    }
}
