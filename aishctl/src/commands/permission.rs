//! `perm`: what providers may do in a conversation.

use std::path::{Path, PathBuf};

use aish_proto::conversation::{
    Constraints, ConversationLimits, ConversationParams, ConversationStatus, SetConstraints,
    SetConstraintsParams, StatusOf,
};
use aish_proto::id::ConversationId;
use aish_proto::method::Empty;
use aish_proto::permission::{
    AutoApproveParams, AutoApproveScope, AutoApproves, Check, History, List, PermissionChange,
    PermissionCheckParams, PermissionParams, PolicyRule, PolicyVerdict, ProviderLevels,
    ProviderPermission, Revoke, RevokeParams, RuleEffect, Rules, Set, SetAutoApprove, SetParams,
};
use clap::Subcommand;
use serde_json::json;

use crate::command_output::PrintResult;
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::render::auto_approve::{self, AutoArgs};
use crate::render::{question, table};
use crate::safe;

#[derive(Clone, Debug, Subcommand)]
pub enum PermissionCommand {
    /// The level of each provider
    #[command(alias = "list")]
    Ls,
    /// Raise a provider's level: 1 read, 2 write, 3 execute
    Grant { provider: String, level: u8 },
    /// Give a provider its first level back, and ask about all its tools again
    Revoke { provider: String },
    /// Every change
    History,
    /// What would be decided about a tool, and why
    Check { tool: String },
    /// What a conversation keeps itself from; without a word, what it is now
    Limit {
        /// Nothing that needs more than level 1
        #[arg(long, conflicts_with = "none")]
        read_only: bool,
        /// Nothing that may reach beyond this machine
        #[arg(long, conflicts_with = "none")]
        no_network: bool,
        /// Only paths in this directory; may be said several times
        #[arg(long = "root", value_name = "DIR", conflicts_with = "none")]
        roots: Vec<PathBuf>,
        /// Nothing any more
        #[arg(long)]
        none: bool,
    },
    /// In a window: let these run unasked for as long as the window is there
    Auto(AutoArgs),
    /// The rules of the configuration, and how many tools each speaks of
    Rules,
}

pub async fn run(context: &CommandContext, command: Option<&PermissionCommand>) -> PrintResult {
    if let Some(PermissionCommand::Rules) = command {
        return rules(context).await;
    }
    if let Some(PermissionCommand::Auto(_)) = command {
        return Err(auto_approve::only_in_a_window());
    }
    let meant = context.meant(context.name(None)).await?;
    match command {
        None
        | Some(PermissionCommand::Ls | PermissionCommand::Rules | PermissionCommand::Auto(_)) => {
            list(context, meant.id).await
        }
        Some(PermissionCommand::Limit {
            read_only: false,
            no_network: false,
            roots,
            none: false,
        }) if roots.is_empty() => {
            let now = meant.constraints.clone().unwrap_or_default();
            context.print(&now, || limits(&now))
        }
        Some(PermissionCommand::Limit {
            read_only,
            no_network,
            roots,
            none: _,
        }) => {
            let cwd = context.around.cwd_text();
            let absolute = |it: &PathBuf| Path::new(&cwd).join(it).to_string_lossy().into_owned();
            let limits = ConversationLimits {
                read_only: *read_only,
                no_network: *no_network,
                roots: roots.iter().map(absolute).collect(),
            };
            limit(context, &meant, limits).await
        }
        Some(PermissionCommand::Grant { provider, level }) => {
            grant(context, &meant, provider, *level).await
        }
        Some(PermissionCommand::Revoke { provider }) => revoke(context, &meant, provider).await,
        Some(PermissionCommand::History) => history(context, meant.id).await,
        Some(PermissionCommand::Check { tool }) => check(context, meant.id, tool).await,
    }
}

async fn list(context: &CommandContext, conversation: ConversationId) -> PrintResult {
    let params = PermissionParams { conversation };
    let result = context.call::<List>(params).await?;
    context.print(&result, || {
        let row = |it: &ProviderPermission| {
            let always = it.always.join(" ");
            vec![
                it.provider.clone(),
                level(it.level),
                it.max_level.to_string(),
                always,
            ]
        };
        let rows: Vec<Vec<String>> = result.permissions.iter().map(row).collect();
        let table = table::columns(&["provider", "level", "max", "unasked"], &rows);
        let hosts = match result.hosts.is_empty() {
            true => String::new(),
            false => format!(
                "hosts that commands in a copy of the files reach: {}; aishctl perm revoke shell takes them back\n",
                safe::one_line(&result.hosts.join(", "))
            ),
        };
        table + &auto_approve::lines(&result.auto_approves) + &hosts
    })
}

async fn grant(
    context: &CommandContext,
    meant: &ConversationStatus,
    provider: &str,
    wanted: u8,
) -> PrintResult {
    let params = PermissionParams {
        conversation: meant.id,
    };
    let all = context.call::<List>(params).await?.permissions;
    let held = all
        .iter()
        .any(|it| it.provider == provider && it.level == wanted);
    if held {
        let same = json!({"from": wanted, "to": wanted});
        return context.print(&same, || {
            let (provider, title) = (safe::one_line(provider), safe::one_line(&meant.title));
            format!(
                "{provider} is already at level {} in {title}\n",
                level(wanted)
            )
        });
    }
    let params = SetParams {
        conversation: meant.id,
        provider: provider.to_owned(),
        level: wanted,
    };
    let result = context.call::<Set>(params).await?;
    context.print(&result, || {
        format!(
            "{} is level {} in {} (was {}); calls are asked about as before\n",
            safe::one_line(provider),
            level(result.to),
            safe::one_line(&meant.title),
            result.from
        )
    })
}

async fn revoke(
    context: &CommandContext,
    meant: &ConversationStatus,
    provider: &str,
) -> PrintResult {
    let params = RevokeParams {
        conversation: meant.id,
        provider: provider.to_owned(),
    };
    let result = context.call::<Revoke>(params).await?;
    context.print(&result, || {
        format!(
            "{} is level {} in {}, and all its tools are asked about\n",
            safe::one_line(provider),
            level(result.to),
            safe::one_line(&meant.title)
        )
    })
}

async fn limit(
    context: &CommandContext,
    meant: &ConversationStatus,
    limits: ConversationLimits,
) -> PrintResult {
    let params = SetConstraintsParams {
        id: meant.id,
        constraints: limits,
    };
    context.call::<SetConstraints>(params).await?;
    let params = ConversationParams { id: meant.id };
    let now = context.call::<StatusOf>(params).await?.constraints;
    let now = now.unwrap_or_default();
    context.print(&now, || self::limits(&now))
}

/// One line for each.
fn limits(now: &Constraints) -> String {
    let mut lines = String::new();
    if now.read_only {
        lines.push_str("only reads\n");
    }
    if now.no_network {
        lines.push_str("uses no network\n");
    }
    for root in &now.roots {
        lines.push_str(&format!("keeps to {}\n", safe::one_line(root)));
    }
    if lines.is_empty() {
        lines.push_str("keeps itself from nothing\n");
    }
    lines
}

async fn history(context: &CommandContext, conversation: ConversationId) -> PrintResult {
    let params = PermissionParams { conversation };
    let result = context.call::<History>(params).await?;
    context.print(&result, || {
        let row = |it: &PermissionChange| {
            let by = it.by.as_ref().map(question::who).unwrap_or_default();
            let how = if it.revoked { "revoked" } else { "" };
            vec![
                it.at.clone(),
                it.provider.clone(),
                format!("{} → {}", it.from, it.to),
                by,
                how.to_owned(),
            ]
        };
        let rows: Vec<Vec<String>> = result.changes.iter().map(row).collect();
        table::columns(&["at", "provider", "level", "by", ""], &rows)
    })
}

async fn check(context: &CommandContext, conversation: ConversationId, tool: &str) -> PrintResult {
    let params = PermissionCheckParams {
        conversation,
        tool: tool.to_owned(),
        arguments: None,
    };
    let result = context.call::<Check>(params).await?;
    let (word, exit) = match result.verdict {
        PolicyVerdict::Allow => ("runs unasked", Exit::DONE),
        PolicyVerdict::Ask => ("a person is asked", Exit::DONE),
        PolicyVerdict::Deny => ("denied", Exit::DENIED),
    };
    let mut printed = context.print(&result, || {
        format!(
            "{word}: {} (needs level {})\n",
            result.because,
            level(result.level_required)
        )
    })?;
    printed.exit = exit;
    Ok(printed)
}

async fn rules(context: &CommandContext) -> PrintResult {
    let result = context.call::<Rules>(Empty {}).await?;
    context.print(&result, || {
        let rule = |it: &PolicyRule| {
            let effect = match it.effect {
                RuleEffect::Deny => "denied".to_owned(),
                RuleEffect::Needs => format!("needs {}", it.level.map(level).unwrap_or_default()),
                RuleEffect::Allow => "runs unasked".to_owned(),
                RuleEffect::Ask => "is asked about".to_owned(),
            };
            let tools = match it.tools {
                0 => "none that is known".to_owned(),
                count => count.to_string(),
            };
            vec![it.pattern.clone(), effect, tools]
        };
        let provider = |it: &ProviderLevels| {
            let levels = format!("begins with {}, at most {}", level(it.level), it.max_level);
            vec![it.provider.clone(), levels, String::new()]
        };
        let rows = result.rules.iter().map(rule);
        let mut rows: Vec<Vec<String>> = rows.collect();
        rows.extend(result.providers.iter().map(provider));
        let others = format!("begins with {}", level(result.default_level));
        rows.push(vec!["(others)".to_owned(), others, String::new()]);
        table::columns(&["rule", "", "tools"], &rows)
    })
}

fn level(number: u8) -> String {
    let name = match number {
        1 => " read",
        2 => " write",
        3 => " execute",
        0 | 4.. => "",
    };
    format!("{number}{name}")
}

/// Of the window whose connection this is.
pub async fn set(context: &CommandContext, args: &AutoArgs) -> PrintResult {
    let meant = context.meant(context.name(None)).await?;
    let ConversationStatus { id, title, .. } = meant;
    let params = AutoApproveParams {
        conversation: id,
        patterns: args.patterns.clone(),
        scope: if args.turn {
            AutoApproveScope::Turn
        } else {
            AutoApproveScope::Client
        },
        count: args.count,
    };
    let set = AutoApproves {
        patterns: params.patterns.clone(),
        scope: params.scope,
        left: params.count,
    };
    let result = context.call::<SetAutoApprove>(params).await?;
    context.print(&result, || {
        if args.off {
            return "every call is asked about again\n".to_owned();
        }
        let end = match set.scope {
            AutoApproveScope::Turn => "the turn ends",
            AutoApproveScope::Client => "this window leaves",
        };
        let mut text = format!(
            "runs unasked in {} until {end}: {}\n",
            safe::one_line(&title),
            auto_approve::what(&set)
        );
        for warning in &result.warnings {
            text.push_str(&format!("{}\n", safe::one_line(warning)));
        }
        text
    })
}
