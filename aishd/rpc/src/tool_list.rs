//! `tool/list`, `tool/describe` and `tool/watch`: the tools there are, and how each stands to a conversation.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use aish_proto::error::ErrorKind;
use aish_proto::id::ConversationId;
use aish_proto::tool::{self as wire, Describe, List, ToolListResult, ToolWatchResult, Watch};
use aishd_config::live::ConfigStatus;
use aishd_conversation::request_error::RequestError;
use aishd_log::constraints::Constraints;
use aishd_log::grants::GrantList;
use aishd_log::pattern::Patterns;
use aishd_log::shell;
use aishd_log::tool::Tool;
use aishd_log::tool_name::{ToolName, on_the_wire};
use aishd_mcp_messages::server::ServerSnapshot;
use aishd_rules::allowances::AllowanceList;
use aishd_rules::policy::{Policy, PolicyDecision, PolicyQuestion, decide};
use aishd_rules::registry::ManifestRegistry;
use aishd_rules::tool_binding::NoBindings;
use aishd_tools::Toolset;
use aishd_tools::builtin_kind::BuiltinKind;
use jsonrpsee::RpcModule;
use serde_json::Map;
use tokio::sync::watch;

use super::daemon_subscription::DaemonSubscription;
use super::mcp::{held, unknown_tool};
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, attach, register, tool_run};

/// Of definitions on one page; one more may stand on it, which is far from the limit of a line.
const PAGE_BYTES: usize = 1 << 20;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<List, _, _>(module, list);
    register::<Describe, _, _>(module, describe);
    register::<Watch, _, _>(module, watch);
}

/// What a conversation's standing to tools is made of.
struct ToolStandpoint {
    policy: Arc<Policy>,
    grants: GrantList,
    constraints: Constraints,
    servers: Arc<ServerSnapshot>,
    registry: Arc<ManifestRegistry>,
    /// Programs of ours that read and write can be held to what they may.
    may_hold: bool,
}

impl ToolStandpoint {
    /// Of a conversation, or of one that nobody has changed anything about.
    async fn of(
        server: &RpcServer,
        conversation: Option<ConversationId>,
    ) -> Result<Self, RequestError> {
        let (grants, constraints) = match conversation {
            None => (GrantList::default(), Constraints::default()),
            Some(id) => {
                let state = server
                    .directory
                    .open(id)
                    .await?
                    .view()
                    .borrow()
                    .state
                    .clone();
                (state.grants.clone(), state.constraints.clone())
            }
        };
        Ok(Self {
            policy: server.directory.policy(),
            grants,
            constraints,
            servers: server.hub.servers().borrow().clone(),
            registry: server.directory.tools().registry(),
            may_hold: server.directory.tools().profiles().may_hold(),
        })
    }

    fn wire_tool(&self, tool: &Tool) -> wire::ToolDescription {
        let needs = self.policy.needs(tool);
        let name = tool.name.to_string();
        let short = on_the_wire(&name);
        let listed = self.servers.tool(&tool.name);
        let written = self.registry.find(tool);
        let decision = self.decision(tool);
        let denied = match &decision {
            PolicyDecision::Deny(rule) => Some(rule.to_string()),
            PolicyDecision::Allow(_) | PolicyDecision::Ask(_) => None,
        };
        wire::ToolDescription {
            short_name: (short != name).then_some(short),
            provider: tool.name.alias().to_string(),
            title: listed.and_then(|it| it.title.clone()),
            description: tool.description.clone(),
            input_schema: tool.schema.clone(),
            output_schema: match written {
                Some((_, capability)) => capability.output.clone(),
                None => listed.and_then(|it| it.output_schema.clone()),
            },
            annotations: tool.annotations.clone(),
            digest: tool.definition_digest().to_string(),
            level_required: needs.number(),
            level: self.policy.level(tool.name.alias(), &self.grants).number(),
            contain: match written {
                Some((manifest, capability)) => held(manifest.profile(capability)),
                None => {
                    let server = self.servers.get(tool.name.alias());
                    server.and_then(|it| held(it.contain.profile))
                }
            },
            offered: denied.is_none()
                && BuiltinKind::of(&tool.name)
                    .is_none_or(|it| it.is_offered_by(&self.policy, self.may_hold)),
            served: denied.is_none() && self.serves(tool),
            asks: matches!(decision, PolicyDecision::Ask(_)),
            denied,
            name,
        }
    }

    /// What is decided of a call without arguments. What is denied then is denied whatever it is called with.
    fn decision(&self, tool: &Tool) -> PolicyDecision {
        let question = PolicyQuestion {
            tool,
            arguments: &Map::new(),
            reads_beyond: false,
            constraints: &self.constraints,
            grants: &self.grants,
            turn: &Patterns::default(),
            clients: &AllowanceList::default(),
            bound: &NoBindings,
        };
        decide(question, &self.policy)
    }

    fn serves(&self, tool: &Tool) -> bool {
        BuiltinKind::of(&tool.name).is_none_or(|kind| {
            let is_internal = matches!(
                kind,
                BuiltinKind::Resources | BuiltinKind::Finder | BuiltinKind::Jobs
            );
            self.policy.builtin_tools && !is_internal
        })
    }
}

async fn list(call: MethodCall<List>) -> Result<ToolListResult, MethodError> {
    let after = call.params.cursor.as_deref().map(str::parse::<ToolName>);
    let after = after.transpose().map_err(|_| {
        MethodError::params("the cursor is of no page; it is `nextCursor` of the page before")
    })?;
    let standpoint = ToolStandpoint::of(&call.server, call.params.conversation).await?;
    let toolset = call.server.directory.tools().toolset();
    let mut tools = vec![];
    let mut bytes = 0;
    let mut next_cursor = None;
    let all = toolset.catalog.iter();
    for tool in all.filter(|it| after.as_ref().is_none_or(|after| it.name > *after)) {
        if bytes > PAGE_BYTES {
            next_cursor = tools
                .last()
                .map(|it: &wire::ToolDescription| it.name.clone());
            break;
        }
        let told = standpoint.wire_tool(tool);
        bytes += serde_json::to_string(&told).map_or(0, |it| it.len());
        tools.push(told);
    }
    Ok(ToolListResult {
        toolset: toolset.version,
        tools,
        next_cursor,
    })
}

async fn describe(call: MethodCall<Describe>) -> Result<wire::ToolDescription, MethodError> {
    let name = &call.params.name;
    if *name == shell::TOOL {
        let message =
            format!("{name} is how models propose commands, and has no description of its own");
        return Err(MethodError::new(ErrorKind::NotFound, message).hint("aishctl context preview"));
    }
    let standpoint = ToolStandpoint::of(&call.server, call.params.conversation).await?;
    let catalog = call.server.directory.catalog();
    let by_name = name.parse().ok().and_then(|it| catalog.get(&it));
    let by_short_name = || {
        let mut all = catalog.iter();
        all.find(|it| on_the_wire(&it.name.to_string()) == *name)
    };
    let tool = by_name
        .or_else(by_short_name)
        .ok_or_else(|| unknown_tool(&standpoint.servers, name, "aishctl tools list"))?;
    Ok(standpoint.wire_tool(tool))
}

async fn watch(call: MethodCall<Watch>) -> Result<ToolWatchResult, MethodError> {
    let to = DaemonSubscription::open(call.server.clone(), call.connection)?;
    let subscription = to.id;
    let known = call.server.directory.tools().toolset();
    let toolset = known.version;
    let standing = to.server.config.watch_status();
    let watcher = ToolWatcher {
        to,
        standing,
        known,
    };
    call.after_reply.start(watcher.run());
    Ok(ToolWatchResult {
        subscription,
        toolset,
    })
}

/// One `tool/watch`: it compares what there is with what it has told of.
struct ToolWatcher {
    to: DaemonSubscription,
    standing: watch::Receiver<Arc<ConfigStatus>>,
    known: Toolset,
}

impl ToolWatcher {
    async fn run(mut self) {
        let detached = self.to.detached.clone();
        let mut tools = self.to.server.directory.tools().clone();
        loop {
            let now = tools.toolset();
            if let Some(changed) = tool_run::changed(&self.known, &now)
                && !self.to.send(&changed).await
            {
                break;
            }
            self.known = now;
            tokio::select! {
                () = detached.cancelled() => break,
                changed = tools.changed() => if changed.is_err() { break },
                Ok(()) = self.standing.changed() => {
                    let now = self.standing.borrow_and_update().clone();
                    let told = &self.to.connection.told_of_config;
                    let news = told.fetch_max(now.number, Ordering::Relaxed) < now.number;
                    if news && !self.to.send(&attach::reloaded(&now)).await {
                        break;
                    }
                }
            }
        }
    }
}
