//! `autoApprove/set`: what this client lets run unasked while it is attached.

use aish_proto::error::ErrorKind;
use aish_proto::event::PresentClient;
use aish_proto::limits::AUTO_APPROVE_PATTERNS;
use aish_proto::permission::{
    AutoApproveParams, AutoApproveResult, AutoApproveScope, AutoApproves, ClientAutoApproves,
    SetAutoApprove,
};
use aishd_conversation::questions::allowances::WantedAllowance;
use aishd_log::audit::{AuditDraft, AuditFact};
use aishd_log::grants::GrantScope;
use aishd_log::pattern::{Pattern, Patterns};
use aishd_platform::clock;
use aishd_rules::allowances::{Allowance, AllowanceList};
use jsonrpsee::RpcModule;

use super::answerer::answerer;
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register};

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<SetAutoApprove, _, _>(module, set);
}

async fn set(call: MethodCall<SetAutoApprove>) -> Result<AutoApproveResult, MethodError> {
    let MethodCall {
        server,
        connection,
        params,
        ..
    } = call;
    let AutoApproveParams {
        conversation,
        patterns,
        scope,
        count,
    } = params;
    let patterns = read(&patterns)?;
    super::shell::refuse_pattern(&patterns)?;
    let allowances = server.directory.allowances();
    // Nobody would see what somebody allows who is not there.
    let not_here = || {
        let message = "this client is not attached to that conversation";
        MethodError::new(ErrorKind::NotFound, message).hint("conversation/attach comes first")
    };
    if !allowances.is_here(conversation, connection.client) {
        return Err(not_here());
    }
    let scope = match scope {
        AutoApproveScope::Turn => GrantScope::Turn,
        AutoApproveScope::Client => GrantScope::Client,
    };
    let told = |patterns: &Patterns| AuditDraft {
        conversation: Some(conversation),
        by: Some(connection.person()),
        ..AuditDraft::outside_conversation(
            clock::now(),
            AuditFact::AutoApproveSet {
                patterns: patterns.clone(),
                scope,
                count,
            },
        )
    };
    if patterns.is_empty() {
        // It holds at once, whatever the store says.
        if allowances.take_back(conversation, connection.client) {
            server.directory.record(told(&patterns)).await?;
        }
        return Ok(AutoApproveResult { warnings: vec![] });
    }
    server.directory.record(told(&patterns)).await?;
    let catalog = server.directory.catalog();
    let unknown = patterns.iter().filter(|it| catalog.covered(it) == 0);
    let warnings = unknown
        .map(|it| format!("{it} is no tool that is known now"))
        .collect();
    let wanted = WantedAllowance {
        by: connection.person(),
        patterns: patterns.clone(),
        scope,
        count,
    };
    let set = allowances.set(conversation, wanted);
    set.map_err(|_gone| not_here())?;
    let covered = catalog
        .iter()
        .filter(|it| patterns.covering(&it.name).is_some());
    server.directory.definitions().count_for(covered).await;
    Ok(AutoApproveResult { warnings })
}

fn read(patterns: &[String]) -> Result<Patterns, MethodError> {
    if patterns.len() > AUTO_APPROVE_PATTERNS {
        return Err(MethodError::params(&format!(
            "patterns: {} are too many; at most {AUTO_APPROVE_PATTERNS} are taken",
            patterns.len()
        )));
    }
    let read = patterns.iter().map(|it| {
        it.parse::<Pattern>().map_err(|error| {
            MethodError::params(&format!(
                "patterns: {error}; a rule is a name like fs__read_file, or a whole provider like fs__*"
            ))
        })
    });
    Ok(Patterns::new(read.collect::<Result<Vec<_>, _>>()?))
}

/// Who is there, with what each lets run unasked.
pub(super) fn presence(
    clients: &[PresentClient],
    allowances: &AllowanceList,
) -> Vec<PresentClient> {
    let with = |it: &PresentClient| PresentClient {
        auto_approves: allowances.of(it.client_id).map(wire_allowance),
        ..it.clone()
    };
    clients.iter().map(with).collect()
}

/// The same, for who does not follow.
pub(super) fn of_clients(allowances: &AllowanceList) -> Vec<ClientAutoApproves> {
    let of = |it: &Allowance| ClientAutoApproves {
        by: answerer(it.by.clone()),
        auto_approves: wire_allowance(it),
    };
    allowances.iter().map(of).collect()
}

fn wire_allowance(allowance: &Allowance) -> AutoApproves {
    let Allowance {
        number: _,
        by: _,
        patterns,
        scope,
        left,
    } = allowance;
    AutoApproves {
        patterns: patterns.iter().map(ToString::to_string).collect(),
        scope: match scope {
            GrantScope::Turn => AutoApproveScope::Turn,
            GrantScope::Client => AutoApproveScope::Client,
        },
        left: *left,
    }
}
