//! `intent/route`: which capability an action means. Each choice is told to the audit trail.

use std::collections::BTreeSet;

use aish_proto::id::ConversationId;
use aish_proto::intent::{self as wire, Route, RouteParams, RoutingOutcome};
use jsonrpsee::RpcModule;

use super::connection::Connection;
use super::refusal::Refusal;
use super::{Call, Server, register};
use aishd_log::audit::{Draft, Routed, RoutedAs, Told};
use aishd_log::tool::Sha;
use aishd_log::tool_name::ToolName;
use aishd_platform::clock;
use aishd_rules::alignment::Alignment;
use aishd_rules::intent;
use aishd_rules::intent::{Candidate, Confidence, Routing};

pub(super) fn register_all(module: &mut RpcModule<Server>) {
    register::<Route, _, _>(module, route);
}

async fn route(call: Call<Route>) -> Result<wire::Routing, Refusal> {
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
    let told = told(&action, &routing, None);
    tell(&call.server, &call.connection, conversation, told).await?;
    Ok(routed(&routing))
}

pub(super) async fn tell(
    server: &Server,
    connection: &Connection,
    conversation: Option<ConversationId>,
    told: Told,
) -> Result<(), Refusal> {
    let draft = Draft {
        conversation,
        by: Some(connection.person()),
        ..Draft::beside(clock::now(), told)
    };
    Ok(server.directory.tell(draft).await?)
}

/// For the audit trail: without a word of the action.
pub(super) fn told(action: &str, routing: &Routing, alignment: Option<&Alignment>) -> Told {
    let best = |it: &[Candidate]| it.first().map_or(0, |it| thousandths(it.confidence));
    let (outcome, tool, confidence) = match routing {
        Routing::Found {
            tool, confidence, ..
        } => (
            RoutedAs::Found,
            Some(tool.clone()),
            thousandths(*confidence),
        ),
        Routing::Ambiguous(candidates) => (RoutedAs::Ambiguous, None, best(candidates)),
        Routing::Unknown(_) => (RoutedAs::Unknown, None, 0),
    };
    let contradiction = alignment.and_then(|it| match it {
        Alignment::Contradiction { told, .. } => Some(told.clone()),
        Alignment::Aligned | Alignment::Unknown => None,
    });
    Told::Routed(Routed {
        action: Sha::of(action.as_bytes()),
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
fn thousandths(confidence: Confidence) -> u16 {
    (confidence.value().clamp(0.0, 1.0) * 1000.0).round() as u16
}

pub(super) fn routed(routing: &Routing) -> wire::Routing {
    let empty = |outcome| wire::Routing {
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
        Routing::Found {
            tool,
            confidence,
            reason,
            others,
        } => wire::Routing {
            provider: Some(tool.alias().to_string()),
            capability: Some(tool.tool().to_owned()),
            name: Some(tool.to_string()),
            confidence: confidence.value(),
            reason: Some(reason.to_string()),
            candidates: candidates(others),
            ..empty(RoutingOutcome::Found)
        },
        Routing::Ambiguous(all) => wire::Routing {
            confidence: all.first().map_or(0.0, |it| it.confidence.value()),
            candidates: candidates(all),
            ..empty(RoutingOutcome::Ambiguous)
        },
        Routing::Unknown(nearest) => wire::Routing {
            nearest: nearest.iter().map(ToolName::to_string).collect(),
            ..empty(RoutingOutcome::Unknown)
        },
    }
}

fn candidates(all: &[Candidate]) -> Vec<wire::Candidate> {
    let told = all.iter().map(|it| wire::Candidate {
        name: it.tool.to_string(),
        confidence: it.confidence.value(),
    });
    told.collect()
}
