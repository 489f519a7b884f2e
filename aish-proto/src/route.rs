//! `route/*` and `fallback/*`: which preset answers a question, and which one when a server is down.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answerer::Answerer;
use crate::id::ConversationId;
use crate::method::{Empty, methods};

methods! {
    /// Whether questions are routed by their look.
    Get: "route/get", Observer, Unordered, Empty => RouteState;
    /// Switches that on or off, for every conversation and over restarts, from the next question on. It lies over the whole
    /// configuration; null takes it back. All who are attached are told.
    Set: "route/set", Driver, Unordered, SwitchParams => RouteState;
    /// What a text would come to, whether or not questions are routed now.
    Check: "route/check", Observer, Unordered, RouteCheckParams => RouteCheckResult;
    /// The preset of each class.
    Classes: "route/classes", Observer, Unordered, ClassesParams => ClassesResult;
    /// Whether a request whose server looks down goes to another preset, once, before anything of an answer was shown.
    FallbackGet: "fallback/get", Observer, Unordered, Empty => FallbackState;
    /// Switches that on, from the next question on, or off, at once; else as `route/set`.
    FallbackSet: "fallback/set", Driver, Unordered, SwitchParams => FallbackState;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SwitchParams {
    /// Null: what is configured counts.
    pub on: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteState {
    pub on: bool,
    /// `routing.auto`.
    pub configured: bool,
    /// Null: nobody has switched it.
    pub switched: Option<RoutingSwitched>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FallbackState {
    pub on: bool,
    /// `routing.fallback`.
    pub configured: bool,
    /// Null: nobody has switched it.
    pub switched: Option<RoutingSwitched>,
    /// `routing.fallback_model`.
    pub model: String,
    /// Whether there is such a preset.
    pub known: bool,
}

/// A switch that was thrown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoutingSwitched {
    pub on: bool,
    pub by: Answerer,
    pub at: String,
}

/// What a question looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RouteClass {
    Code,
    Reasoning,
    Default,
}

/// How a turn came to its preset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoutedTurn {
    pub class: RouteClass,
    /// The name of what in the text made its class, such as `path`.
    pub rule: String,
    /// The same in words.
    pub why: String,
    /// Whether another preset would have answered without it.
    pub replaced: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteCheckParams {
    pub text: String,
    /// Where it would be asked; absent: in a new conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteCheckResult {
    pub class: RouteClass,
    pub rule: String,
    pub why: String,
    /// The preset of the class; null: it has none.
    pub model: Option<String>,
    /// Whether there is such a preset. A class without one, or with one that is not there, keeps the active preset.
    pub known: bool,
    /// The preset that answers without routing; null: one is looked for at the next question.
    pub active: Option<String>,
    /// It was named by hand, which beats the class.
    pub by_hand: bool,
    /// Whether questions are routed now.
    pub enabled: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClassesParams {
    /// Where it would be asked; absent: in a new conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassesResult {
    pub classes: Vec<ClassPreset>,
    /// Whether questions are routed now.
    pub enabled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassPreset {
    pub class: RouteClass,
    /// Null: the active preset stays.
    pub model: Option<String>,
    /// Whether there is such a preset.
    pub known: bool,
}
