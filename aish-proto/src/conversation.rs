//! `conversation/*`: what clients attach to. Attaching itself is in [`crate::attach`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::envelope::Envelope;
use crate::id::{ConversationId, Seq, TurnId};
use crate::method::methods;
use crate::norris::NorrisRun;
use crate::route::RoutedTurn;
use crate::shell::RunningCommand;
use crate::todo::TodosResult;
use crate::usage::{ConversationBudget, SetBudgetParams, Usage};

methods! {
    /// Makes a conversation; returns once it is durable.
    Create: "conversation/create", Driver, Conversation, ConversationCreateParams => CreateResult;
    /// The conversations, last used first.
    List: "conversation/list", Observer, Unordered, ConversationListParams => ConversationListResult;
    /// One conversation as it is now.
    StatusOf: "conversation/status", Observer, Unordered, ConversationParams => ConversationStatus;
    /// The tasks that a model has set itself there.
    Todos: "conversation/todos", Observer, Unordered, ConversationParams => TodosResult;
    Rename: "conversation/rename", Driver, Conversation, RenameParams => SeqResult;
    /// Copies the log up to a position into a new conversation.
    Fork: "conversation/fork", Driver, Conversation, ForkParams => CreateResult;
    /// Takes it out of the ordinary list; nothing is lost.
    Archive: "conversation/archive", Driver, Conversation, ConversationParams => SeqResult;
    Unarchive: "conversation/unarchive", Driver, Conversation, ConversationParams => SeqResult;
    /// Removes it, and returns once no file of the store has its texts.
    Delete: "conversation/delete", Driver, Conversation, ConversationDeleteParams => ErasureResult;
    /// Stored events, oldest first, ending before `beforeSeq`.
    History: "conversation/history", Observer, Unordered, HistoryParams => ConversationHistoryResult;
    /// Messages whose text contains the query, ignoring case, those that left the context too.
    Search: "conversation/search", Observer, Unordered, SearchParams => SearchResult;
    /// The preset that answers from the next turn on.
    SetModel: "conversation/setModel", Driver, Conversation, SetModelParams => SeqResult;
    /// What the conversation keeps itself from, from the next call on; what was said before is replaced.
    SetConstraints: "conversation/setConstraints", Driver, Conversation, SetConstraintsParams => SeqResult;
    /// What the conversation may take of models, from the next request on; what was said before is replaced.
    SetBudget: "conversation/setBudget", Driver, Conversation, SetBudgetParams => SeqResult;
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationCreateParams {
    /// Absent: taken from the first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A preset by name; absent: the default of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub cwd: String,
    /// Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraints: Option<ConversationLimits>,
    /// What it may take of models; absent: as much as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<ConversationBudget>,
    /// It is deleted, and leaves the files of the store, as soon as nothing runs or waits in it and no client has looked at
    /// it for some seconds; after a restart too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub temporary: bool,
}

/// What a conversation is to keep itself from. Policy may deny more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationLimits {
    /// Nothing that needs more than level 1.
    #[serde(default)]
    pub read_only: bool,
    /// Nothing that may reach beyond this machine.
    #[serde(default)]
    pub no_network: bool,
    /// Only paths in these directories, which are absolute; none: any path. At most 32.
    #[serde(default)]
    pub roots: Vec<String>,
}

/// What a conversation keeps itself from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Constraints {
    pub read_only: bool,
    pub no_network: bool,
    pub roots: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateResult {
    pub id: ConversationId,
    pub seq: Seq,
    /// What a person should know of the place: a configuration of the project that is not trusted, for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<ConversationNotice>,
}

/// Something that a person should know, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationNotice {
    pub text: String,
    /// What to type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationParams {
    pub id: ConversationId,
}

/// Which conversations to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ListState {
    /// All that are not archived.
    #[default]
    Open,
    Archived,
    All,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationListParams {
    #[serde(default)]
    pub state: ListState,
    /// Only those with this title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `nextCursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// At most 500; 100 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationListResult {
    pub conversations: Vec<ConversationStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// What a conversation is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Activity {
    Idle,
    /// A turn runs, or a person's own command.
    Running,
    /// A confirm waits for a person.
    RequiresAction,
    /// Turns wait and none runs: the one before them was interrupted (`turn/continue`, `queue/resume`).
    Queued,
}

/// Which preset a turn asks, and how it came to that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastTurn {
    pub turn: TurnId,
    /// The preset by name.
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routed: Option<RoutedTurn>,
    /// The preset that a request of it fell back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fell_back_to: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationStatus {
    pub id: ConversationId,
    pub title: String,
    pub state: Activity,
    /// Turns that wait.
    pub queued: u32,
    /// The turn that runs.
    pub turn: Option<TurnId>,
    /// The person's own command that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<RunningCommand>,
    /// The preset by name; null: the default of the configuration.
    pub model: Option<String>,
    pub cwd: String,
    pub archived: bool,
    /// Absent: it keeps itself from nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraints: Option<Constraints>,
    /// The conversation and position it was copied from; the original may be gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkOrigin>,
    pub last_seq: Seq,
    pub turns: u64,
    /// The last turn that asked a model; absent: none has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_turn: Option<LastTurn>,
    /// The autonomous run that goes on here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norris: Option<NorrisRun>,
    pub attached: u32,
    pub usage: Usage,
    /// What it may take of models; absent: as much as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<ConversationBudget>,
    pub created_at: String,
    pub updated_at: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RenameParams {
    pub id: ConversationId,
    pub title: String,
}

/// What became of the texts of something that was deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErasureResult {
    /// Why files of the store still have them; they go with the next compaction that succeeds. Absent: no file has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remains: Option<String>,
}

/// Where in the log the change stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeqResult {
    pub seq: Seq,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForkParams {
    pub id: ConversationId,
    /// The last event to take along, cut back to the end of a turn; absent: all finished turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_seq: Option<Seq>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationDeleteParams {
    pub id: ConversationId,
    /// Its title, so that a wrong id deletes nothing.
    pub confirm_title: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HistoryParams {
    pub id: ConversationId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_seq: Option<Seq>,
    /// At most 1000 events; fewer come when they are large.
    pub limit: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationHistoryResult {
    pub events: Vec<Envelope>,
    /// Whether older ones exist.
    pub more: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SearchParams {
    /// At most 1000 characters.
    pub query: String,
    /// Absent: all conversations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ConversationId>,
    #[serde(default)]
    pub include_archived: bool,
    /// `nextCursor` of a search for the same: what comes behind that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// At most 200; 50 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchHit {
    pub conversation: ConversationId,
    pub title: String,
    pub seq: Seq,
    pub turn: Option<TurnId>,
    /// The kind of event that holds the text.
    pub kind: String,
    /// The text around the first hit.
    pub excerpt: String,
    /// Whether it left the model's context; `context/restore` puts its exchange back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_context: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchResult {
    pub hits: Vec<SearchHit>,
    /// Whether the limit cut the list.
    pub more: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetModelParams {
    pub id: ConversationId,
    /// A preset by name; null: the default of the configuration.
    pub model: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetConstraintsParams {
    pub id: ConversationId,
    pub constraints: ConversationLimits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkOrigin {
    pub conversation: ConversationId,
    pub seq: Seq,
}
