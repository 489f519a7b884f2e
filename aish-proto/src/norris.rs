//! `norris/*`: runs that work on their own towards a goal.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{ConversationId, Seq, TurnId};
use crate::method::methods;
use crate::usage::Usd;

methods! {
    /// Launches a run, which is a turn of its own kind; it is refused while another turn runs or waits. What it may do unasked
    /// is granted by this call, for this run, and all who are attached are told.
    Start: "norris/start", Driver, Conversation, StartParams => StartResult;
    /// Nothing new begins until `norris/resume`: no request to the model and no call. What has begun comes to its end. To
    /// pause twice changes nothing.
    Pause: "norris/pause", Driver, Conversation, NorrisRunParams => NorrisRun;
    /// Goes on with a paused run, also with one whose daemon ended.
    Resume: "norris/resume", Driver, Conversation, NorrisRunParams => NorrisRun;
    /// Ends the run now, like `turn/cancel`; it returns when that is in the log.
    Halt: "norris/halt", Driver, Conversation, NorrisRunParams => HaltResult;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartParams {
    pub conversation: ConversationId,
    /// At most 4,096 bytes. It stands in every request of the run.
    pub goal: String,
    /// The same key again is the same run, also after a restart.
    pub idempotency_key: String,
    /// A preset by name, for the whole run; questions of a run are not routed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Absent: level 1 for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<NorrisLevels>,
    /// Requests to the model, from 1; absent: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Milliseconds of work, waiting for a person not counted; absent: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// In and out, those of second opinions among them; absent: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// What its requests may cost, second opinions too, as far as presets have a price; absent: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
}

/// Up to which level calls and commands run unasked that are not destructive; commands are of the provider `shell`. What needs
/// level 3 always asks, and the highest levels and deny rules of the configuration hold all the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NorrisLevels {
    /// 1 to 3, for every provider that is not named.
    pub all: u8,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartResult {
    pub turn: TurnId,
    /// Of the goal.
    pub seq: Seq,
    /// The key was used before, and nothing new was launched.
    pub duplicate: bool,
    /// Absent: it is over, or its start waits for a model to be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<NorrisRun>,
    /// What its launcher should know, in words.
    pub notices: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NorrisRunParams {
    pub conversation: ConversationId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HaltResult {
    pub turn: TurnId,
    /// False: it was over already.
    pub halted: bool,
}

/// A run, as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NorrisRun {
    pub turn: TurnId,
    pub goal: String,
    pub levels: NorrisLevels,
    pub limits: NorrisLimits,
    /// Whether another model is asked about each action.
    pub second_opinion: bool,
    /// The step that is under way, from 1.
    pub step: u32,
    /// Used up before this step.
    pub spent: NorrisSpent,
    pub activity: NorrisActivity,
    /// The tool that is called, or that a person is asked about; `shell__run` for a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Why it stands still; absent: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<NorrisPause>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NorrisLimits {
    pub steps: u32,
    /// Null: no such limit.
    pub time_ms: Option<u64>,
    /// Null: no such limit.
    pub tokens: Option<u64>,
    /// Null: no such limit.
    pub cost_usd: Option<Usd>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NorrisSpent {
    /// Milliseconds of work.
    pub time_ms: u64,
    pub tokens: u64,
    /// Of requests whose price is known.
    pub cost_usd: Usd,
}

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NorrisActivity {
    /// A model is asked what to do next.
    Planning,
    /// A tool or a command runs, or is about to.
    Acting,
    /// A person is asked.
    Asking,
    /// Nothing new begins.
    Paused,
}

/// What holds the commands of a run that no person has agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NorrisHold {
    /// They can write nothing: the run was launched to read.
    Read,
    /// They change the directories of the conversation for real, and nothing else.
    Workspace,
    /// They change layers over the files; a person keeps or drops that.
    Layers,
}

/// Why a run stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NorrisPause {
    Person,
    /// The daemon ended under it. What had begun is of unknown effect; nothing is done again by itself.
    Interrupted,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NorrisOutcome {
    /// The model says that the goal is reached.
    Done,
    /// The model gave up.
    Halted,
    /// A limit was met, or a budget is used up.
    Limit,
    /// A person stopped it.
    Stopped,
    /// The model's server failed, or the model refused.
    Failed,
}
