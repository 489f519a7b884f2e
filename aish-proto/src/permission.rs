//! `permission/*` and `policy/*`: what providers may do in a conversation, and what is decided about a call.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answerer::Answerer;
use crate::id::{ConfirmId, ConversationId, Seq};
use crate::method::{Empty, methods};

methods! {
    /// The level of each provider in a conversation, and the tools that run unasked there.
    List: "permission/list", Observer, Unordered, PermissionParams => PermissionListResult;
    /// Raises a provider's level in a conversation. It is no consent: calls are asked about as before.
    Set: "permission/set", Driver, Conversation, SetParams => ChangeResult;
    /// Gives a provider its first level back, and takes back what was always allowed of it in this conversation.
    Revoke: "permission/revoke", Driver, Conversation, RevokeParams => ChangeResult;
    /// Every change, oldest first. Each holds in this conversation: there is no other scope.
    History: "permission/history", Observer, Unordered, PermissionParams => PermissionHistoryResult;
    /// Lets tools run unasked for as long as this client is attached to the conversation, in the place of what it let
    /// before. It is shown to all who are attached, is kept nowhere, and counts for calls that are judged from now on. A
    /// denial, a constraint, a maximal level and a changed definition stand above it.
    SetAutoApprove: "autoApprove/set", Driver, Conversation, AutoApproveParams => AutoApproveResult;
    /// What would be decided about a call of this tool, and by which rule. Nothing is asked and nothing runs.
    Check: "policy/check", Observer, Unordered, PermissionCheckParams => PermissionCheckResult;
    /// The rules of the configuration, in the order in which they count.
    Rules: "policy/list", Observer, Unordered, Empty => RulesResult;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionParams {
    pub conversation: ConversationId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionListResult {
    pub permissions: Vec<ProviderPermission>,
    /// What attached clients let run unasked at the moment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auto_approves: Vec<ClientAutoApproves>,
    /// Hosts that what works in layers reaches here without a question, as people have answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientAutoApproves {
    pub by: Answerer,
    pub auto_approves: AutoApproves,
}

/// What one client lets run unasked while it is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoApproves {
    pub patterns: Vec<String>,
    pub scope: AutoApproveScope,
    /// So many calls more; absent: as many as there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<NonZeroU32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AutoApproveParams {
    /// One that this client is attached to.
    pub conversation: ConversationId,
    /// Exact names or whole providers (`fs__*`), at most 64. None at all takes back what this client let run unasked.
    pub patterns: Vec<String>,
    #[serde(default)]
    pub scope: AutoApproveScope,
    /// So many calls are let through; absent: as many as there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<NonZeroU32>,
}

/// When it ends, if its client stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AutoApproveScope {
    /// With the running turn; where none runs, with the next one.
    Turn,
    /// Not before its client goes.
    #[default]
    Client,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoApproveResult {
    /// Rules that speak of no tool that is known now, in words for people. They count all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What one provider may do. Levels are 1 read, 2 write, 3 execute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderPermission {
    pub provider: String,
    pub level: u8,
    /// No call may need more.
    pub max_level: u8,
    /// Tools that run unasked as they were when somebody said so.
    pub always: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetParams {
    pub conversation: ConversationId,
    pub provider: String,
    /// 1, 2 or 3; higher than the one that it has.
    pub level: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevokeParams {
    pub conversation: ConversationId,
    pub provider: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeResult {
    pub from: u8,
    pub to: u8,
    /// Where in the log the change stands.
    pub seq: Seq,
}

/// A level that somebody wants a provider to have, as a person is asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LevelUpgrade {
    pub provider: String,
    /// The level when it was asked for.
    pub from: u8,
    pub to: u8,
    /// The tool that somebody wanted to call; absent: the level itself was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_for: Option<String>,
    /// Who asked.
    pub by: Answerer,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionHistoryResult {
    pub changes: Vec<PermissionChange>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionChange {
    pub seq: Seq,
    pub at: String,
    /// `*`: all of them, in what an older program wrote and where that was handed out.
    pub provider: String,
    pub from: u8,
    pub to: u8,
    /// What was always allowed of it was taken back too.
    pub revoked: bool,
    pub by: Option<Answerer>,
    /// The confirm that showed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<ConfirmId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionCheckParams {
    pub conversation: ConversationId,
    /// Its whole name, e.g. `fs__read_file`.
    pub tool: String,
    /// What it would be called with; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<serde_json::Map<String, serde_json::Value>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionCheckResult {
    pub verdict: PolicyVerdict,
    /// The rule that allows or denies, or why a person is asked.
    pub because: String,
    pub level_required: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PolicyVerdict {
    Allow,
    Ask,
    Deny,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RulesResult {
    pub rules: Vec<PolicyRule>,
    pub providers: Vec<ProviderLevels>,
    /// What a provider begins with that `providers` does not name.
    pub default_level: u8,
    /// Rounds of calls in one turn.
    pub max_depth: u32,
}

/// One rule about tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRule {
    /// A tool's exact name, or a whole provider: `fs__*`.
    pub pattern: String,
    pub effect: RuleEffect,
    /// For `needs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u8>,
    /// How many tools that are known now it speaks of.
    pub tools: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RuleEffect {
    /// It never runs, and is not offered to models.
    Deny,
    /// Calls need this level, whatever the provider says.
    Needs,
    /// It runs unasked.
    Allow,
    /// It is asked about, though its provider runs unasked.
    Ask,
}

/// Levels that the configuration gives to one provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderLevels {
    pub provider: String,
    pub level: u8,
    pub max_level: u8,
}
