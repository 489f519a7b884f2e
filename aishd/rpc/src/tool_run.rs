//! `tool/run`: a list of calls, as a turn that asks no model.

use std::time::Duration;

use aish_proto::error::ErrorKind;
use aish_proto::event::ToolsChanged;
use aish_proto::tool::{Run, ToolRunParams};
use aish_proto::turn::{SendMode, SendParams, SendResult};
use aishd_conversation::request_error::RequestError;
use aishd_log::call_list::{CallList, ListError, ListedCall, parse};
use aishd_log::tool_name::{Alias, ToolName};
use aishd_mcp_messages::server::ServerPhase;
use aishd_rules::catalog::Catalog;
use aishd_tools::Toolset;
use jsonrpsee::RpcModule;

use super::method_error::MethodError;
use super::turn::{TurnBody, take};
use super::{MethodCall, RpcServer, mcp, register};

/// A list waits so long for a server that is being connected to and never was before.
const KNOWN_WITHIN: Duration = Duration::from_secs(10);

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Run, _, _>(module, run);
}

async fn run(call: MethodCall<Run>) -> Result<SendResult, MethodError> {
    let params = call.params;
    let list = parse(&params.calls).map_err(|error| refused(&error))?;
    if params.mode == SendMode::Steer {
        return Err(MethodError::params("a list of calls cannot join a turn"));
    }
    if !was_run(&call.server, &params).await? {
        check_known(&call.server, &list).await?;
    }
    let body = format!(
        "tool/run {}",
        serde_json::to_string(&list).unwrap_or_default()
    );
    let send = SendParams {
        conversation: params.conversation,
        text: list.describe(),
        new: params.new,
        idempotency_key: params.idempotency_key,
        mode: params.mode,
        expected_turn: None,
        model: None,
        attachments: vec![],
        on_confirm: params.on_confirm,
        max_tool_depth: None,
        // No model is asked.
        accept_cost: true,
    };
    let body = TurnBody::Calls(list, body);
    take(&call.server, &call.connection, send, body).await
}

pub(super) fn refused(error: &ListError) -> MethodError {
    match error {
        ListError::TooMany(_) | ListError::TooLong(_) => {
            MethodError::new(ErrorKind::TooLarge, error.to_string())
        }
        _ => MethodError::params(&error.to_string()),
    }
}

/// A list that was taken before is found again, whatever tools there are by now.
async fn was_run(server: &RpcServer, params: &ToolRunParams) -> Result<bool, MethodError> {
    match server.directory.open(params.conversation).await {
        Ok(handle) => Ok(handle.knows_key(&params.idempotency_key)?),
        Err(RequestError::Missing) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Every tool is there, or nothing runs. A server that has never been connected to is waited for.
async fn check_known(server: &RpcServer, list: &CallList) -> Result<(), MethodError> {
    let mut servers = server.hub.servers();
    let deadline = tokio::time::Instant::now() + KNOWN_WITHIN;
    loop {
        let Some((number, unknown)) = unknown(server, list) else {
            return Ok(());
        };
        let alias = unknown.name.parse().map(|it: ToolName| it.alias().clone());
        let connects = |alias: &Alias| {
            let servers = servers.borrow();
            let found = servers.get(alias);
            found.is_some_and(|it| it.state == ServerPhase::Connecting)
        };
        if alias.is_ok_and(|it| connects(&it)) {
            let changed = tokio::time::timeout_at(deadline, servers.changed());
            if matches!(changed.await, Ok(Ok(()))) {
                continue;
            }
        }
        if let Some(error) = mcp::left_out(&servers.borrow(), &unknown.name) {
            let message = format!("call {number} ({:?}): {error}; nothing ran", unknown.id);
            return Err(MethodError::new(ErrorKind::NotFound, message).hint(mcp::CHANGE_TOOLS));
        }
        let message = format!(
            "call {number} ({:?}): unknown tool {}; nothing ran",
            unknown.id, unknown.name
        );
        return Err(MethodError::new(ErrorKind::NotFound, message).hint("aishctl mcp tools"));
    }
}

/// What became of the tools; `None` when nothing did.
pub(super) fn changed(before: &Toolset, now: &Toolset) -> Option<ToolsChanged> {
    let (old, new) = (&before.catalog, &now.catalog);
    let missing = |from: &Catalog, of: &Catalog| -> Vec<String> {
        let names = of.iter().map(|it| &it.name);
        let names = names.filter(|it| from.get(it).is_none());
        names.map(ToString::to_string).collect()
    };
    let updated = new
        .iter()
        .filter(|it| old.get(&it.name).is_some_and(|was| was != *it));
    let changed = ToolsChanged {
        added: missing(old, new),
        removed: missing(new, old),
        updated: updated.map(|it| it.name.to_string()).collect(),
        version: now.version,
        changes: now.registry.changes_from(&before.registry),
        broken: now.registry.faults_since(&before.registry),
    };
    let ToolsChanged {
        added,
        removed,
        updated,
        version: _,
        changes,
        broken,
    } = &changed;
    let all = [added, removed, updated, changes, broken];
    let nothing = all.iter().all(|it| it.is_empty());
    (!nothing).then_some(changed)
}

/// The first call of a tool that nobody has, with its number.
fn unknown<'a>(server: &RpcServer, list: &'a CallList) -> Option<(usize, &'a ListedCall)> {
    let catalog = server.directory.catalog();
    let has = |it: &ListedCall| {
        let name = it.name.parse::<ToolName>();
        name.is_ok_and(|it| catalog.get(&it).is_some())
    };
    (1..).zip(list.calls()).find(|(_, it)| !has(it))
}
