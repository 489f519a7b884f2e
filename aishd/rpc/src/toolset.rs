//! `tool/list`, `tool/describe` and `tool/watch`: the tools there are, and how each stands to a conversation.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use aish_proto::error::ErrorKind;
use aish_proto::event::EventData;
use aish_proto::id::{ConversationId, SubscriptionId};
use aish_proto::tool::{self as wire, Describe, List, ListResult, Watch, WatchResult};
use jsonrpsee::RpcModule;
use serde_json::Map;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::convert::Log;
use super::refusal::Refusal;
use super::{Call, Server, attach, register, tool};
use aishd_conversation::handle::RequestError;
use aishd_log::constraints::Constraints;
use aishd_log::grants::Grants;
use aishd_log::pattern::Patterns;
use aishd_log::tool::Tool;
use aishd_log::tool_name::{ToolName, on_the_wire};
use aishd_mcp_messages::server::Servers;
use aishd_platform::clock;
use aishd_rules::allowances::Allowances;
use aishd_rules::binding::Unbound;
use aishd_rules::policy::{Policy, Question, Verdict, decide};
use aishd_rules::registry::Registry;
use aishd_tools::{Toolset, builtin};

/// Of definitions on one page; one more may stand on it, which is far from the limit of a line.
const PAGE_BYTES: usize = 1 << 20;

pub(super) fn register_all(module: &mut RpcModule<Server>) {
    register::<List, _, _>(module, list);
    register::<Describe, _, _>(module, describe);
    register::<Watch, _, _>(module, watch);
}

/// What a conversation's standing to tools is made of.
struct Standpoint {
    policy: Arc<Policy>,
    grants: Grants,
    constraints: Constraints,
    servers: Arc<Servers>,
    registry: Arc<Registry>,
}

impl Standpoint {
    /// Of a conversation, or of one that nobody has changed anything about.
    async fn of(
        server: &Server,
        conversation: Option<ConversationId>,
    ) -> Result<Self, RequestError> {
        let (grants, constraints) = match conversation {
            None => (Grants::default(), Constraints::default()),
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
        })
    }

    fn told(&self, tool: &Tool) -> wire::Tool {
        let needs = self.policy.needs(tool);
        let name = tool.name.to_string();
        let short = on_the_wire(&name);
        let listed = self.servers.tool(&tool.name);
        let written = self.registry.find(tool);
        wire::Tool {
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
            offered: self.offers(tool),
            denied: self.denied(tool),
            name,
        }
    }

    /// The rule that denies it whatever it is called with.
    fn denied(&self, tool: &Tool) -> Option<String> {
        let question = Question {
            tool,
            arguments: &Map::new(),
            constraints: &self.constraints,
            grants: &self.grants,
            turn: &Patterns::default(),
            clients: &Allowances::default(),
            bound: &Unbound,
        };
        match decide(question, &self.policy) {
            Verdict::Deny(rule) => Some(rule.to_string()),
            Verdict::Allow(_) | Verdict::Ask(_) => None,
        }
    }

    fn offers(&self, tool: &Tool) -> bool {
        let own = builtin::is_builtin(&tool.name);
        let serves = !own || (self.policy.builtin_tools && !builtin::reads_resources(&tool.name));
        serves && self.denied(tool).is_none()
    }
}

async fn list(call: Call<List>) -> Result<ListResult, Refusal> {
    let after = call.params.cursor.as_deref().map(str::parse::<ToolName>);
    let after = after.transpose().map_err(|_| {
        Refusal::params("the cursor is of no page; it is `nextCursor` of the page before")
    })?;
    let standpoint = Standpoint::of(&call.server, call.params.conversation).await?;
    let toolset = call.server.directory.tools().toolset();
    let mut tools = vec![];
    let mut bytes = 0;
    let mut next_cursor = None;
    let all = toolset.catalog.iter();
    for tool in all.filter(|it| after.as_ref().is_none_or(|after| it.name > *after)) {
        if bytes > PAGE_BYTES {
            next_cursor = tools.last().map(|it: &wire::Tool| it.name.clone());
            break;
        }
        let told = standpoint.told(tool);
        bytes += serde_json::to_string(&told).map_or(0, |it| it.len());
        tools.push(told);
    }
    Ok(ListResult {
        toolset: toolset.version,
        tools,
        next_cursor,
    })
}

async fn describe(call: Call<Describe>) -> Result<wire::Tool, Refusal> {
    let name = &call.params.name;
    let standpoint = Standpoint::of(&call.server, call.params.conversation).await?;
    let catalog = call.server.directory.catalog();
    let by_name = name.parse().ok().and_then(|it| catalog.get(&it));
    let by_short_name = || {
        let mut all = catalog.iter();
        all.find(|it| on_the_wire(&it.name.to_string()) == *name)
    };
    let tool = by_name.or_else(by_short_name).ok_or_else(|| {
        Refusal::new(ErrorKind::NotFound, format!("unknown tool {name}")).hint("aishctl tools list")
    })?;
    Ok(standpoint.told(tool))
}

async fn watch(call: Call<Watch>) -> Result<WatchResult, Refusal> {
    let (subscription, detached) = call.connection.subscribe(None)?;
    let known = call.server.directory.tools().toolset();
    let toolset = known.version;
    let watcher = Watcher {
        known,
        server: call.server,
        connection: call.connection,
        subscription,
        detached,
    };
    call.after_reply.start(watcher.run());
    Ok(WatchResult {
        subscription,
        toolset,
    })
}

/// One `tool/watch`: it compares what there is with what it has told of.
struct Watcher {
    server: Arc<Server>,
    connection: Arc<Connection>,
    subscription: SubscriptionId,
    detached: CancellationToken,
    known: Toolset,
}

impl Watcher {
    async fn run(mut self) {
        let detached = self.detached.clone();
        let mut standing = self.server.config.standing();
        let mut tools = self.server.directory.tools().clone();
        loop {
            let now = tools.toolset();
            if let Some(changed) = tool::changed(&self.known, &now)
                && !self.say(&changed).await
            {
                break;
            }
            self.known = now;
            tokio::select! {
                () = detached.cancelled() => break,
                changed = tools.changed() => if changed.is_err() { break },
                Ok(()) = standing.changed() => {
                    let now = standing.borrow_and_update().clone();
                    let told = &self.connection.told_of_config;
                    let news = told.fetch_max(now.number, Ordering::Relaxed) < now.number;
                    if news && !self.say(&attach::reloaded(&now)).await {
                        break;
                    }
                }
            }
        }
        self.connection
            .subscriptions
            .lock()
            .remove(&self.subscription);
    }

    /// False when nobody is there to be told.
    async fn say<D: EventData>(&self, data: &D) -> bool {
        let log = Log {
            epoch: self.server.about.epoch,
            conversation: None,
        };
        let event = log.ephemeral(None, clock::now(), data);
        self.server.counters.events.fetch_add(1, Ordering::Relaxed);
        let line = attach::notification(self.subscription, &event);
        match self.connection.outbox.write(line.as_bytes()).await {
            Ok(()) => !self.detached.is_cancelled(),
            Err(cut) => {
                self.server.note_cut(&self.connection, cut);
                false
            }
        }
    }
}
