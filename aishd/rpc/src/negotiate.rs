//! `intent/negotiate`: does what an action means. What runs, runs as a list of one call, so that gate, confirm, audit
//! and shared context are those of every other call.

use std::sync::Arc;
use std::time::Duration;

use aish_proto::confirm::Denial;
use aish_proto::error::ErrorKind;
use aish_proto::id::{ConfirmId, ConversationId, TurnId};
use aish_proto::intent::{
    self as wire, AlignmentClass, Negotiate, NegotiateParams, NegotiateResult,
};
use aish_proto::turn::{SendMode, SendParams};
use aishd_conversation::handle::ConversationHandle;
use aishd_conversation::request_error::RequestError;
use aishd_conversation::requests::LevelRequestOutcome;
use aishd_log::call_list::{CallList, parse};
use aishd_log::confirm::Confirm;
use aishd_log::event::Event;
use aishd_log::level_request::LevelStep;
use aishd_log::tool_name::ToolName;
use aishd_platform::clock;
use aishd_rules::alignment::{ActionVerdict, AlignmentContext};
use aishd_rules::intent::{ChoiceReason, IntentConfidence, IntentDecision, route};
use aishd_rules::level_request::{WantedLevel, missing};
use aishd_rules::lifecycle::Lifecycle;
use aishd_rules::policy::PolicyQuestion;
use aishd_rules::read_extent::reads_beyond;
use jsonrpsee::RpcModule;
use serde_json::json;

use super::connection::ClientConnection;
use super::method_error::{GOES_ON, MethodError};
use super::turn::{TurnBody, check_key, on_confirm, take};
use super::{MethodCall, RpcServer, event_conversion, intent, lifecycle, register, tool_run};

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Negotiate, _, _>(module, negotiate);
}

async fn negotiate(call: MethodCall<Negotiate>) -> Result<NegotiateResult, MethodError> {
    let MethodCall {
        server,
        connection,
        after_reply: _,
        params,
    } = call;
    let own = if params.tool.is_some() {
        None
    } else {
        Lifecycle::read(&params.action).map_err(|error| MethodError::params(&error.to_string()))?
    };
    if let Some(own) = own {
        return lifecycle::answer(&server, &connection, &params, own).await;
    }
    check_key(&params.idempotency_key)?;
    let begun = {
        let _alone = connection.change.lock().await;
        let chosen = match chosen_before(&server, &params).await? {
            Some(chosen) => chosen,
            None => match choose(&server, &connection, &params).await? {
                Ok(chosen) => chosen,
                Err(stopped) => return Ok(*stopped),
            },
        };
        let body = json!([params.action, params.tool, params.arguments]);
        let send = SendParams {
            conversation: params.conversation,
            text: chosen.list.describe(),
            new: None,
            idempotency_key: params.idempotency_key,
            mode: SendMode::Queue,
            expected_turn: None,
            model: None,
            attachments: vec![],
            on_confirm: params.on_confirm,
            max_tool_depth: None,
            // No model is asked.
            accept_cost: true,
        };
        let body = TurnBody::Calls(chosen.list, format!("intent/negotiate {body}"));
        let sent = take(&server, &connection, send, body).await?;
        (sent.turn, chosen.routing)
    };
    outcome(&server, begun, params.wait_ms).await
}

/// What is run, and why that.
struct NegotiatedChoice {
    list: CallList,
    routing: wire::IntentRouting,
}

/// What this key was used for: it is found again, whatever tools there are by now.
async fn chosen_before(
    server: &RpcServer,
    params: &NegotiateParams,
) -> Result<Option<NegotiatedChoice>, MethodError> {
    let handle = server.directory.open(params.conversation).await?;
    let Some(record) = handle.asked_with(&params.idempotency_key)? else {
        return Ok(None);
    };
    let Event::UserMessage {
        calls: Some(list), ..
    } = record.event
    else {
        return Err(RequestError::KeyReused.into());
    };
    let name = list.calls().first().and_then(|it| it.name.parse().ok());
    let name = name.ok_or_else(|| MethodError::internal("a stored call has no name"))?;
    let routing = intent::routed(&IntentDecision::Found {
        tool: name,
        confidence: IntentConfidence::SURE,
        reason: ChoiceReason::Explicit,
        others: vec![],
    });
    Ok(Some(NegotiatedChoice { list, routing }))
}

/// Routes, and asks the rules; what does not run is the answer at once.
async fn choose(
    server: &RpcServer,
    connection: &ClientConnection,
    params: &NegotiateParams,
) -> Result<Result<NegotiatedChoice, Box<NegotiateResult>>, MethodError> {
    let handle = server.directory.open(params.conversation).await?;
    let state = handle.view().borrow().state.clone();
    let catalog = server.directory.catalog();
    let named = params.tool.as_deref();
    let routing = route(&params.action, named, &catalog, &state.used);
    let policy = server.directory.policy();
    let standing = AlignmentContext {
        policy: &policy,
        grants: &state.grants,
        constraints: &state.constraints,
    };
    let alignment = ActionVerdict::of(&routing, &params.arguments, &catalog, standing);
    let told = intent::routing_fact(&params.action, &routing, Some(&alignment));
    intent::audit_routing(server, connection, Some(params.conversation), told).await?;
    let routed = intent::routed(&routing);
    let output = match (&alignment, routing.sure()) {
        (ActionVerdict::Aligned, Some(name)) => {
            let asked = ask_for_level(server, connection, params, name).await?;
            if let Some(asked) = asked {
                return Ok(Err(Box::new(NegotiateResult {
                    routing: Some(routed),
                    ..asked
                })));
            }
            let call = json!({
                "jsonrpc": "2.0",
                "id": clock::ulid().to_string(),
                "method": "tools/call",
                "params": { "name": name.to_string(), "arguments": params.arguments },
                "literal": true,
            });
            let list = parse(&[call]).map_err(|error| tool_run::refused(&error))?;
            return Ok(Ok(NegotiatedChoice {
                list,
                routing: routed,
            }));
        }
        (ActionVerdict::Contradiction { reason, .. }, _) => format!("denied by policy: {reason}"),
        (ActionVerdict::Aligned | ActionVerdict::Unknown, _) => unsure(&routing),
    };
    Ok(Err(Box::new(NegotiateResult {
        routing: Some(routed),
        ..stopped(output, &alignment)
    })))
}

/// A person is asked for the level that a call lacks, where a person would be asked at all. `None`: the call takes its
/// way through the gate, which lets it run, asks about it or refuses it.
async fn ask_for_level(
    server: &RpcServer,
    connection: &ClientConnection,
    params: &NegotiateParams,
    name: &ToolName,
) -> Result<Option<NegotiateResult>, MethodError> {
    let handle = server.directory.open(params.conversation).await?;
    let state = handle.view().borrow().state.clone();
    let on_confirm = params.on_confirm.as_ref().map(on_confirm).transpose()?;
    let on_confirm = on_confirm.unwrap_or_default();
    let policy = server.directory.policy();
    let catalog = server.directory.catalog();
    let Some(tool) = catalog.get(name) else {
        return Ok(None);
    };
    let question = PolicyQuestion {
        tool,
        arguments: &params.arguments,
        reads_beyond: reads_beyond(tool, &params.arguments, &state.constraints, &state.cwd),
        constraints: &state.constraints,
        grants: &state.grants,
        turn: &on_confirm.allow,
        clients: &server.directory.allowances().of(params.conversation),
        bound: server.directory.definitions(),
    };
    let Some(to) = missing(question, &policy) else {
        return Ok(None);
    };
    let wanted = WantedLevel {
        provider: name.alias().clone(),
        to,
        wanted_for: Some(name.clone()),
        on_confirm,
        by: connection.person(),
    };
    Ok(
        match want_level(server, params.conversation, wanted).await? {
            LevelRequestOutcome::Asked(confirm, upgrade) => {
                Some(asked_for(params.conversation, confirm, &upgrade))
            }
            LevelRequestOutcome::Already(_) | LevelRequestOutcome::Unasked(..) => None,
        },
    )
}

pub(super) async fn want_level(
    server: &RpcServer,
    conversation: ConversationId,
    wanted: WantedLevel,
) -> Result<LevelRequestOutcome, MethodError> {
    let want = |handle: ConversationHandle| {
        let wanted = wanted.clone();
        async move { handle.want_level(wanted).await }
    };
    Ok(server.directory.with(conversation, want).await?)
}

/// A person is asked for a level, and nothing ran.
pub(super) fn asked_for(
    conversation: ConversationId,
    confirm: ConfirmId,
    upgrade: &LevelStep,
) -> NegotiateResult {
    let LevelStep { provider, to, .. } = upgrade;
    let output = format!(
        "To upgrade: aishctl confirm allow {confirm} or aishctl perm grant {provider} {} -C {conversation}",
        to.number()
    );
    NegotiateResult {
        requires_approval: true,
        approval_reason: Some(upgrade.why()),
        confirm: Some(confirm),
        ..stopped(output, &ActionVerdict::Aligned)
    }
}

/// What is told of an action that is not run because it is not sure what it means.
fn unsure(routing: &IntentDecision) -> String {
    let named = |names: Vec<String>| names.join(", ");
    match routing {
        IntentDecision::Found { tool, others, .. } => {
            let others = others.iter().map(|it| it.tool.to_string());
            let names = std::iter::once(tool.to_string()).chain(others).collect();
            format!("nothing ran; this may be meant: {}", named(names))
        }
        IntentDecision::Ambiguous(all) => {
            let names = all.iter().map(|it| it.tool.to_string()).collect();
            format!("nothing ran; any of these may be meant: {}", named(names))
        }
        IntentDecision::Unknown(nearest) if nearest.is_empty() => {
            "nothing ran: unknown action".to_owned()
        }
        IntentDecision::Unknown(nearest) => {
            let names = nearest.iter().map(ToString::to_string).collect();
            format!(
                "nothing ran: unknown action; names that are like it: {}",
                named(names)
            )
        }
    }
}

/// Where a turn has come to, when it goes no further by itself.
enum TurnPause {
    Asks(Box<Confirm>),
    Ended {
        success: bool,
        output: String,
        denied: Option<Denial>,
    },
}

async fn outcome(
    server: &Arc<RpcServer>,
    (turn, routing): (TurnId, wire::IntentRouting),
    wait_ms: Option<u64>,
) -> Result<NegotiateResult, MethodError> {
    let paused = server
        .directory
        .with_turn(turn, |handle| async move { pause(&handle, turn).await });
    let paused = match wait_ms {
        None => paused.await?,
        Some(limit) => {
            let limited = tokio::time::timeout(Duration::from_millis(limit), paused).await;
            limited.map_err(|_elapsed| {
                let message = format!("turn {turn} was not finished within {limit} ms; it goes on");
                MethodError::new(ErrorKind::Timeout, message).hint(GOES_ON)
            })??
        }
    };
    let told = NegotiateResult {
        turn: Some(turn),
        routing: Some(routing),
        ..stopped(String::new(), &ActionVerdict::Aligned)
    };
    Ok(match paused {
        TurnPause::Asks(confirm) => NegotiateResult {
            output: format!(
                "To go on: aishctl confirm allow {id}, or aishctl confirm deny {id}",
                id = confirm.id
            ),
            requires_approval: true,
            approval_reason: Some(confirm.why),
            confirm: Some(confirm.id),
            ..told
        },
        TurnPause::Ended {
            success,
            output,
            denied,
        } => NegotiateResult {
            success,
            output,
            is_error: !success,
            denied,
            ..told
        },
    })
}

async fn pause(handle: &ConversationHandle, turn: TurnId) -> Result<TurnPause, RequestError> {
    let mut view = handle.view();
    loop {
        let state = view.borrow_and_update().state.clone();
        let runs = state.running.as_ref().is_some_and(|it| it.turn == turn);
        if runs && let Some(open) = state.turn_confirms().next() {
            let record = handle.record(open.seq)?;
            if let Some(Event::ConfirmRequested(confirm)) = record.map(|it| it.event) {
                return Ok(TurnPause::Asks(confirm));
            }
        }
        if !runs && !state.queue.iter().any(|it| it.turn == turn) {
            return ended(handle, turn);
        }
        view.changed().await.map_err(|_gone| RequestError::Closed)?;
    }
}

fn ended(handle: &ConversationHandle, turn: TurnId) -> Result<TurnPause, RequestError> {
    let report = handle.turn(turn)?;
    let result = handle.first_result(turn, report.message_seq)?;
    let Some(Event::ToolResult {
        ok,
        content,
        denial,
        ..
    }) = result.map(|it| it.event.clone())
    else {
        return Ok(TurnPause::Ended {
            success: false,
            output: report.text,
            denied: None,
        });
    };
    Ok(TurnPause::Ended {
        success: ok,
        output: content,
        denied: denial.map(event_conversion::denied),
    })
}

/// An answer to what did not run.
pub(super) fn stopped(output: String, alignment: &ActionVerdict) -> NegotiateResult {
    let (class, reason) = match alignment {
        ActionVerdict::Aligned => (AlignmentClass::Aligned, None),
        ActionVerdict::Contradiction { reason, .. } => {
            (AlignmentClass::Contradiction, Some(reason.clone()))
        }
        ActionVerdict::Unknown => (AlignmentClass::Unknown, None),
    };
    NegotiateResult {
        success: false,
        output,
        requires_approval: false,
        approval_reason: None,
        confirm: None,
        turn: None,
        routing: None,
        alignment: wire::ActionAlignment { class, reason },
        is_error: false,
        denied: None,
        status: None,
        conversations: vec![],
    }
}
