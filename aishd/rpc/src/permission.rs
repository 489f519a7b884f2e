//! `permission/*`, `policy/check` and `policy/list`.

use std::collections::BTreeSet;

use aish_proto::error::ErrorKind;
use aish_proto::permission::{
    ChangeResult, Check, History, List, PermissionChange, PermissionCheckResult,
    PermissionHistoryResult, PermissionListResult, PolicyRule, PolicyVerdict, ProviderLevels,
    ProviderPermission, Revoke, RuleEffect, Rules, RulesResult, Set,
};
use aishd_conversation::requests::{ConversationChange as Changed, LevelChange};
use aishd_log::access::Access;
use aishd_log::event::Event;
use aishd_log::grants::GrantList;
use aishd_log::pattern::{Pattern, Patterns};
use aishd_log::tool_name::{Alias, ToolName};
use aishd_platform::clock;
use aishd_rules::policy::{PolicyDecision, PolicyQuestion, decide};
use aishd_rules::read_extent::{reads_beyond, reason_text};
use jsonrpsee::RpcModule;

use super::answerer::answerer;
use super::connection::ClientConnection;
use super::method_error::MethodError;
use super::provider_name::provider_or_all;
use super::{MethodCall, RpcServer, auto_approve, mcp, register};

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<List, _, _>(module, list);
    register::<Set, _, _>(module, |call: MethodCall<Set>| async move {
        let params = call.params;
        let to = Access::from_number(params.level).ok_or_else(|| {
            MethodError::params(&format!(
                "there is no level {}; levels are 1 read, 2 write, 3 execute",
                params.level
            ))
        })?;
        let change = LevelChange::Raise(to);
        change_level(
            &call.server,
            &call.connection,
            params.conversation,
            &params.provider,
            change,
        )
        .await
    });
    register::<Revoke, _, _>(module, |call: MethodCall<Revoke>| async move {
        let params = call.params;
        let change = LevelChange::Revoke;
        change_level(
            &call.server,
            &call.connection,
            params.conversation,
            &params.provider,
            change,
        )
        .await
    });
    register::<History, _, _>(module, history);
    register::<Check, _, _>(module, check);
    register::<Rules, _, _>(module, |call: MethodCall<Rules>| async move {
        Ok(rules(&call.server))
    });
}

async fn list(call: MethodCall<List>) -> Result<PermissionListResult, MethodError> {
    let handle = call.server.directory.open(call.params.conversation).await?;
    let state = handle.view().borrow().state.clone();
    let allowances = call.server.directory.allowances();
    let allowances = allowances.of(call.params.conversation);
    Ok(PermissionListResult {
        permissions: levels(&call.server, &state.grants),
        auto_approves: auto_approve::of_clients(&allowances),
        hosts: state.grants.hosts.iter().cloned().collect(),
    })
}

/// What each provider may do, where this was granted.
pub(super) fn levels(server: &RpcServer, grants: &GrantList) -> Vec<ProviderPermission> {
    let policy = server.directory.policy();
    let catalog = server.directory.catalog();
    let mut providers: BTreeSet<Alias> = catalog.iter().map(|it| it.name.alias().clone()).collect();
    providers.extend(grants.levels.keys().cloned());
    let permissions = providers.into_iter().map(|provider| {
        let always = grants.approved.keys();
        let always = always.filter(|it| *it.alias() == provider);
        let rule = policy.providers.get(&provider);
        ProviderPermission {
            level: policy.level(&provider, grants).number(),
            max_level: rule.map_or(Access::Execute, |it| it.max_level).number(),
            always: always.map(ToString::to_string).collect(),
            provider: provider.to_string(),
        }
    });
    permissions.collect()
}

/// Of a provider or of one of its tools: the level is the provider's.
pub(super) fn provider(server: &RpcServer, name: &str) -> Result<Alias, MethodError> {
    let alias = match name.split_once("__") {
        Some((alias, _)) => alias,
        None => name,
    };
    let unknown = || {
        MethodError::new(
            ErrorKind::NotFound,
            format!("no provider is called {alias:?}"),
        )
        .hint("aishctl perm ls")
    };
    let alias: Alias = alias.parse().map_err(|_| unknown())?;
    let known = server
        .directory
        .catalog()
        .of_provider(&alias)
        .next()
        .is_some();
    known.then_some(alias).ok_or_else(unknown)
}

async fn change_level(
    server: &RpcServer,
    connection: &ClientConnection,
    conversation: aish_proto::id::ConversationId,
    name: &str,
    change: LevelChange,
) -> Result<ChangeResult, MethodError> {
    let change = Changed::Level(provider(server, name)?, change);
    let by = connection.person();
    let record = server
        .directory
        .with(conversation, |handle| {
            let (change, by) = (change.clone(), by.clone());
            async move {
                let seq = handle.change(change, by).await?;
                Ok(handle.record(seq)?)
            }
        })
        .await?;
    let changed = record.and_then(|it| {
        let Event::PermissionChanged { from, to, .. } = it.event else {
            return None;
        };
        Some((it.seq, from, to))
    });
    let (seq, from, to) =
        changed.ok_or_else(|| MethodError::internal("the change is not in the log"))?;
    Ok(ChangeResult {
        from: from.number(),
        to: to.number(),
        seq,
    })
}

async fn history(call: MethodCall<History>) -> Result<PermissionHistoryResult, MethodError> {
    let handle = call.server.directory.open(call.params.conversation).await?;
    let read = tokio::task::spawn_blocking(move || {
        let mut changes = vec![];
        for record in handle.records(aish_proto::id::Seq(0)) {
            let record = record?;
            if let Event::PermissionChanged {
                provider,
                from,
                to,
                revoked,
                by,
                confirm,
            } = &record.event
            {
                changes.push(PermissionChange {
                    seq: record.seq,
                    at: clock::rfc3339(record.at),
                    provider: provider_or_all(provider.as_ref()),
                    from: from.number(),
                    to: to.number(),
                    revoked: *revoked,
                    by: by.clone().map(answerer),
                    confirm: *confirm,
                });
            }
        }
        Ok::<_, aishd_conversation::handle::ReadError>(changes)
    });
    let changes = read
        .await
        .map_err(|panic| MethodError::internal(&panic.to_string()))??;
    Ok(PermissionHistoryResult { changes })
}

async fn check(call: MethodCall<Check>) -> Result<PermissionCheckResult, MethodError> {
    let handle = call.server.directory.open(call.params.conversation).await?;
    let state = handle.view().borrow().state.clone();
    let policy = call.server.directory.policy();
    let catalog = call.server.directory.catalog();
    let name = call.params.tool.parse::<ToolName>().ok();
    let tool = name
        .and_then(|it| catalog.get(&it).cloned())
        .ok_or_else(|| {
            let servers = call.server.hub.servers();
            if let Some(error) = mcp::left_out(&servers.borrow(), &call.params.tool) {
                return error.into();
            }
            MethodError::new(
                ErrorKind::NotFound,
                format!("no tool is called {:?}", call.params.tool),
            )
            .hint("aishctl tools list")
        })?;
    let arguments = call.params.arguments.unwrap_or_default();
    let question = PolicyQuestion {
        tool: &tool,
        reads_beyond: reads_beyond(&tool, &arguments, &state.constraints, &state.cwd),
        arguments: &arguments,
        constraints: &state.constraints,
        grants: &state.grants,
        turn: &Patterns::default(),
        clients: &call
            .server
            .directory
            .allowances()
            .of(call.params.conversation),
        bound: call.server.directory.definitions(),
    };
    let (verdict, because) = match decide(question, &policy) {
        PolicyDecision::Allow(rule) => (PolicyVerdict::Allow, rule.to_string()),
        PolicyDecision::Ask(why) => (
            PolicyVerdict::Ask,
            reason_text(&why, &tool, &arguments, &state.constraints, &state.cwd),
        ),
        PolicyDecision::Deny(rule) => (PolicyVerdict::Deny, rule.to_string()),
    };
    Ok(PermissionCheckResult {
        verdict,
        because,
        level_required: policy.needs(&tool).number(),
    })
}

fn rules(server: &RpcServer) -> RulesResult {
    let policy = server.directory.policy();
    let catalog = server.directory.catalog();
    let rule = |pattern: &Pattern, effect, level: Option<Access>| PolicyRule {
        pattern: pattern.to_string(),
        effect,
        level: level.map(Access::number),
        tools: u32::try_from(catalog.covered(pattern)).unwrap_or(u32::MAX),
    };
    let denied = policy.deny.iter();
    let denied = denied.map(|it| rule(it, RuleEffect::Deny, None));
    let mut needs: Vec<_> = policy.needs.iter().collect();
    needs.sort();
    let needs = needs.into_iter().map(|(name, level)| {
        let pattern = Pattern::Tool(name.clone());
        rule(&pattern, RuleEffect::Needs, Some(*level))
    });
    // An exact name stands before its provider, as it counts.
    let mut approved: Vec<_> = policy.auto_approve.iter().collect();
    approved.sort();
    let approved = approved.into_iter().map(|(pattern, approves)| {
        let effect = if *approves {
            RuleEffect::Allow
        } else {
            RuleEffect::Ask
        };
        rule(pattern, effect, None)
    });
    let mut providers: Vec<ProviderLevels> = policy
        .providers
        .iter()
        .map(|(provider, rule)| ProviderLevels {
            provider: provider.to_string(),
            level: rule.level.number(),
            max_level: rule.max_level.number(),
        })
        .collect();
    providers.sort_by(|a, b| a.provider.cmp(&b.provider));
    RulesResult {
        rules: denied.chain(needs).chain(approved).collect(),
        providers,
        default_level: policy.default_level.number(),
        max_depth: policy.max_depth,
    }
}
