//! `intent/*`: which capability an action means, and doing what it means.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::confirm::Denial;
use crate::conversation::ConversationStatus;
use crate::id::{ConfirmId, ConversationId, TurnId};
use crate::method::methods;
use crate::permission::ProviderPermission;
use crate::turn::OnConfirm;

methods! {
    /// Which capability an action means. Nothing runs; the choice is on the audit trail.
    Route: "intent/route", Observer, Unordered, RouteParams => IntentRouting;
    /// Does what an action means, if that is sure: as a turn of one call, which passes the gate like any other. Returns once
    /// the turn has ended, or a person has to be asked; then the turn goes on when that is answered. The turn takes its
    /// place among the changes of its conversation; what comes after it does not wait for its end.
    ///
    /// Where the provider's level is too low, nothing runs: a person is asked for the level by a confirm about a
    /// `level`, for which no turn waits, and the answer names it at once. Who asks for the same level meanwhile gets the
    /// same confirm. When it was allowed, the action is to be said again; the same key will do.
    Negotiate: "intent/negotiate", Driver, Unordered, NegotiateParams => NegotiateResult;
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteParams {
    /// For the audit trail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    /// A name, or words for it; the first 500 characters count.
    pub action: String,
    /// A provider, or a whole name `<alias>__<tool>`: then that is what is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

/// What an action means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IntentRouting {
    pub outcome: RoutingOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The tool's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
    /// `<alias>__<tool>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// From 0 to 1. Only at 1 is it run by `intent/negotiate`.
    pub confidence: f64,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What may be meant, likeliest first; with `found`, the others.
    pub candidates: Vec<IntentCandidate>,
    /// With `unknown`: the tools with the nearest names.
    pub nearest: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RoutingOutcome {
    /// One is likelier than all others; how likely, `confidence` says.
    Found,
    /// Several, and none more than another.
    Ambiguous,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IntentCandidate {
    /// `<alias>__<tool>`.
    pub name: String,
    pub confidence: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NegotiateParams {
    pub conversation: ConversationId,
    /// As in `intent/route`; or `conversation:status`, `conversation:list`, `conversation:switch ID`,
    /// `upgrade:PROVIDER:level-N`, which the daemon answers itself. An upgrade asks a person and changes no level.
    pub action: String,
    /// Of the call; taken as they are.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// As in `intent/route`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The same key with the same action, arguments and tool is the same turn, for 24 hours.
    pub idempotency_key: String,
    /// What is done where a person would have to be asked; absent: a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_confirm: Option<OnConfirm>,
    /// Absent: as long as it takes. Then the answer is `timeout`, and the turn goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// What became of an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NegotiateResult {
    /// It was done, and ended well.
    pub success: bool,
    /// What the tool answered, as a model would read it; else what to do next, for people.
    pub output: String,
    /// It waits for a person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_approval: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_reason: Option<String>,
    /// What the person is asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<ConfirmId>,
    /// Absent: nothing ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// Absent: the daemon answered it itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<IntentRouting>,
    pub alignment: ActionAlignment,
    /// The call did not end well, or did not run though the turn did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Why the call did not run though it could have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<Denial>,
    /// Of `conversation:status` and `conversation:switch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Box<LifecycleStatus>>,
    /// Of `conversation:list`: the open ones, last used first, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conversations: Vec<ConversationStatus>,
}

/// How an action stands to what the conversation keeps itself from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionAlignment {
    pub class: AlignmentClass,
    /// Of a contradiction: the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AlignmentClass {
    /// No rule is against it. That is no consent.
    Aligned,
    /// A deny rule, a constraint or a highest level is against it.
    Contradiction,
    /// It means nothing for certain.
    Unknown,
}

/// A conversation, and what it has to work with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LifecycleStatus {
    pub conversation: ConversationStatus,
    /// The preset that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    pub providers: Vec<ProviderPermission>,
    /// In the shared context.
    pub resources: u32,
}
