//! `intent/route`: which capability an action means. Each choice is told to the audit trail.

use std::collections::BTreeSet;

use aish_proto::id::ConversationId;
use aish_proto::intent::{self as wire, Route, RouteParams, RoutingOutcome};
use aishd_log::audit::{AuditDraft, AuditFact, RoutedAs, RoutedAudit};
use aishd_log::tool::ContentDigest;
use aishd_log::tool_name::ToolName;
use aishd_platform::clock;
use aishd_rules::alignment::ActionVerdict;
use aishd_rules::intent::{self, IntentConfidence, IntentDecision, RankedCapability};
use jsonrpsee::RpcModule;

use super::connection::ClientConnection;
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register};

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Route, _, _>(module, route);
}

async fn route(call: MethodCall<Route>) -> Result<wire::IntentRouting, MethodError> {
    let RouteParams {
        conversation,
        action,
        tool,
    } = call.params;
    let used = match conversation {
        // What is told of a conversation is told of one that there is.
        Some(id) => {
            let handle = call.server.directory.open(id).await?;
            handle.view().borrow().state.used.clone()
        }
        None => BTreeSet::new(),
    };
    let catalog = call.server.directory.catalog();
    let routing = intent::route(&action, tool.as_deref(), &catalog, &used);
    let told = routing_fact(&action, &routing, None);
    audit_routing(&call.server, &call.connection, conversation, told).await?;
    Ok(routed(&routing))
}

pub(super) async fn audit_routing(
    server: &RpcServer,
    connection: &ClientConnection,
    conversation: Option<ConversationId>,
    told: AuditFact,
) -> Result<(), MethodError> {
    let draft = AuditDraft {
        conversation,
        by: Some(connection.person()),
        ..AuditDraft::outside_conversation(clock::now(), told)
    };
    Ok(server.directory.record(draft).await?)
}

/// For the audit trail: without a word of the action.
pub(super) fn routing_fact(
    action: &str,
    routing: &IntentDecision,
    alignment: Option<&ActionVerdict>,
) -> AuditFact {
    let best = |it: &[RankedCapability]| it.first().map_or(0, |it| thousandths(it.confidence));
    let (outcome, tool, confidence) = match routing {
        IntentDecision::Found {
            tool, confidence, ..
        } => (
            RoutedAs::Found,
            Some(tool.clone()),
            thousandths(*confidence),
        ),
        IntentDecision::Ambiguous(candidates) => (RoutedAs::Ambiguous, None, best(candidates)),
        IntentDecision::Unknown(_) => (RoutedAs::Unknown, None, 0),
    };
    let contradiction = alignment.and_then(|it| match it {
        ActionVerdict::Contradiction { told, .. } => Some(told.clone()),
        ActionVerdict::Aligned | ActionVerdict::Unknown => None,
    });
    AuditFact::Routed(RoutedAudit {
        action: ContentDigest::of(action.as_bytes()),
        outcome,
        tool,
        confidence,
        contradiction,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is from 0 to 1000"
)]
fn thousandths(confidence: IntentConfidence) -> u16 {
    (confidence.value().clamp(0.0, 1.0) * 1000.0).round() as u16
}

pub(super) fn routed(routing: &IntentDecision) -> wire::IntentRouting {
    let empty = |outcome| wire::IntentRouting {
        outcome,
        provider: None,
        capability: None,
        name: None,
        confidence: 0.0,
        reason: None,
        candidates: vec![],
        nearest: vec![],
    };
    match routing {
        IntentDecision::Found {
            tool,
            confidence,
            reason,
            others,
        } => wire::IntentRouting {
            provider: Some(tool.alias().to_string()),
            capability: Some(tool.tool().to_owned()),
            name: Some(tool.to_string()),
            confidence: confidence.value(),
            reason: Some(reason.to_string()),
            candidates: candidates(others),
            ..empty(RoutingOutcome::Found)
        },
        IntentDecision::Ambiguous(all) => wire::IntentRouting {
            confidence: all.first().map_or(0.0, |it| it.confidence.value()),
            candidates: candidates(all),
            ..empty(RoutingOutcome::Ambiguous)
        },
        IntentDecision::Unknown(nearest) => wire::IntentRouting {
            nearest: nearest.iter().map(ToolName::to_string).collect(),
            ..empty(RoutingOutcome::Unknown)
        },
    }
}

fn candidates(all: &[RankedCapability]) -> Vec<wire::IntentCandidate> {
    let told = all.iter().map(|it| wire::IntentCandidate {
        name: it.tool.to_string(),
        confidence: it.confidence.value(),
    });
    told.collect()
}
