//! `perm`: what providers may do in a conversation (PRM-1 to PRM-4).

use aish_proto::permission::{
    Check, CheckParams, History, List, PermissionParams, PolicyVerdict, Revoke, RevokeParams, Set,
    SetParams,
};
use clap::Subcommand;

use crate::desk::{Desk, Printed};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{consent, resolve, safe, table};

#[derive(Clone, Debug, Subcommand)]
pub enum Perm {
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
}

pub async fn run(desk: &Desk, command: Option<&Perm>) -> Result<Printed, Failure> {
    let meant = resolve::meant(&desk.caller, &desk.around, desk.name(None)).await?;
    let conversation = meant.id;
    match command {
        None | Some(Perm::Ls) => {
            let result = desk
                .caller
                .call::<List>(PermissionParams { conversation })
                .await?;
            desk.print(&result, || {
                let rows: Vec<Vec<String>> = result
                    .permissions
                    .iter()
                    .map(|it| {
                        vec![
                            it.provider.clone(),
                            level(it.level),
                            it.max_level.to_string(),
                            it.always.join(" "),
                        ]
                    })
                    .collect();
                table::columns(&["provider", "level", "max", "unasked"], &rows)
            })
        }
        Some(Perm::Grant { provider, level }) => {
            let params = SetParams {
                conversation,
                provider: provider.clone(),
                level: *level,
            };
            let result = desk.caller.call::<Set>(params).await?;
            desk.print(&result, || {
                format!(
                    "{} is level {} in {} (was {}); calls are asked about as before\n",
                    safe::one_line(provider),
                    self::level(result.to),
                    safe::one_line(&meant.title),
                    result.from
                )
            })
        }
        Some(Perm::Revoke { provider }) => {
            let params = RevokeParams {
                conversation,
                provider: provider.clone(),
            };
            let result = desk.caller.call::<Revoke>(params).await?;
            desk.print(&result, || {
                format!(
                    "{} is level {} in {}, and all its tools are asked about\n",
                    safe::one_line(provider),
                    level(result.to),
                    safe::one_line(&meant.title)
                )
            })
        }
        Some(Perm::History) => {
            let result = desk
                .caller
                .call::<History>(PermissionParams { conversation })
                .await?;
            desk.print(&result, || {
                let rows: Vec<Vec<String>> = result
                    .changes
                    .iter()
                    .map(|it| {
                        let by = it.by.as_ref().map(consent::who).unwrap_or_default();
                        let how = if it.revoked { "revoked" } else { "" };
                        vec![
                            it.at.clone(),
                            it.provider.clone(),
                            format!("{} → {}", it.from, it.to),
                            by,
                            how.to_owned(),
                        ]
                    })
                    .collect();
                table::columns(&["at", "provider", "level", "by", ""], &rows)
            })
        }
        Some(Perm::Check { tool }) => {
            let params = CheckParams {
                conversation,
                tool: tool.clone(),
            };
            let result = desk.caller.call::<Check>(params).await?;
            let (word, exit) = match result.verdict {
                PolicyVerdict::Allow => ("runs unasked", Exit::DONE),
                PolicyVerdict::Ask => ("a person is asked", Exit::DONE),
                PolicyVerdict::Deny => ("denied", Exit::DENIED),
            };
            let mut printed = desk.print(&result, || {
                format!(
                    "{word}: {} (needs level {})\n",
                    result.because,
                    level(result.level_required)
                )
            })?;
            printed.exit = exit;
            Ok(printed)
        }
    }
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
