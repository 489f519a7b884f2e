//! Events: one envelope, and a type for the `data` of each kind.
//!
//! A stored event has a `seq`; an ephemeral one has none. A client that ignores every delta is still
//! right, because the finished item repeats the whole text. Unknown kinds are to be skipped.

mod definition;
mod part;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::definition::events;
pub use self::part::{
    AttachedPicture, AttachedText, CalledTool, PresentClient, RunningTurn, StatusLevel, Structured,
};
use crate::answerer::Answerer;
use crate::changes::{ChangeSummary, ChangesEnd, PartOfChanges, UndoAct};
use crate::confirm::{ConfirmRecord, ConfirmState, ConfirmSubject, Decision, Denial};
use crate::conversation::{Activity, Constraints, ForkOrigin};
use crate::envelope::{Envelope, EventData};
use crate::hosts::NetworkUse;
use crate::id::{ChangesId, ConfirmId, JobId, ResultId, Seq, TurnId};
use crate::job::JobEnd;
use crate::kept::{KeptBlock, KeptResult};
use crate::mcp::McpServerStatus;
use crate::model::ModelSource;
use crate::norris::{
    NorrisHold, NorrisLevels, NorrisLimits, NorrisOutcome, NorrisPause, NorrisRun, NorrisSpent,
};
use crate::resource::{ResourceAuthor, ResourceChangeKind};
use crate::route::RouteClass;
use crate::shell::{ProposedCommand, RunningCommand, ShellEnding};
use crate::todo::Todo;
use crate::turn::{QueuedTurn, StopReason, TurnError};
use crate::usage::{BudgetAmounts, BudgetKind, ConversationBudget, RequestPurpose, Usage};

events! {
    /// The first event of every conversation.
    Created: "created", true, {
        title: String,
        model: Option<String>,
        cwd: String,
        /// The conversation and position it was copied from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forked_from: Option<ForkOrigin>,
    }
    /// A question. It joins the context when its turn starts.
    UserMessage: "userMessage", true, {
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<AttachedText>,
        /// The turn whose question is asked again; its answer left the context.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_of: Option<TurnId>,
        /// The turn whose answer is continued.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continues: Option<TurnId>,
        /// What the turn runs instead of asking a model (`tool/run`); results stand in the arguments as references.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<CalledTool>,
    }
    /// The turn waits, at this position; said again when it is moved.
    TurnQueued: "turnQueued", true, { position: u32 }
    TurnStarted: "turnStarted", true, {
        /// The preset by name.
        model: String,
        /// What the server is asked for.
        model_id: String,
        source: ModelSource,
        /// Tokens that a request and its answer may take; absent: nobody has said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_tokens: Option<u64>,
    }
    /// The look of the question was asked which preset answers it; said only while questions are routed.
    RouteDecided: "routeDecided", true, {
        class: RouteClass,
        /// The name of what in the text made its class, such as `path`.
        rule: String,
        /// The same in words.
        why: String,
        /// The preset that answers.
        model: String,
        /// Whether another one would have answered without it.
        replaced: bool,
    }
    /// A request failed whose server looks down, and goes to another preset, once; the turn's next one does not.
    FallbackUsed: "fallbackUsed", true, {
        from: String,
        to: String,
        /// Why `from` looks down.
        reason: String,
        /// The failure, as it would have ended the turn.
        cause: String,
        /// The HTTP status, where there was one.
        status: Option<u16>,
        /// What the server of `to` is asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to_model_id: Option<String>,
        /// Always true: after a delta there is no fallback, since its text would come twice.
        before_first_delta: bool,
    }
    /// One finished answer of the model; the truth about its item.
    AssistantMessage: "assistantMessage", true, {
        item: u32,
        text: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reasoning: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<CalledTool>,
        /// Lines of it that propose commands, in their order; they come after the calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        commands: Vec<ProposedCommand>,
        /// False: the stream was cut, cancelled or interrupted, and the text ends where it ended.
        complete: bool,
        /// The model that the server named, when it was not the one asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        served_by: Option<String>,
        usage: Option<Usage>,
    }
    /// Pictures that the model made for the answer before; `result/read` has their bytes.
    AnswerPictures: "answerPictures", true, { item: u32, blocks: Vec<KeptBlock> }
    /// A model was asked, and no message came of it. What an answer took is in its `assistantMessage`.
    ModelUsed: "modelUsed", true, {
        /// The preset by name.
        model: String,
        /// What its server was asked for.
        model_id: String,
        purpose: RequestPurpose,
        usage: Usage,
    }
    /// The conversation may take another amount than before; null: as much as it likes.
    BudgetChanged: "budgetChanged", true, { budget: Option<ConversationBudget>, by: Option<Answerer> }
    /// A request was not sent, because a budget is used up.
    BudgetReached: "budgetReached", true, {
        budget: BudgetKind,
        #[serde(flatten)]
        amounts: BudgetAmounts,
        /// The same in words.
        text: String,
        /// What to do for more, in words.
        hint: String,
    }
    /// A person is asked. The turn waits, over a restart of the daemon too; for a level, a memory and changes no turn waits.
    ConfirmRequested: "confirmRequested", true, {
        confirm: ConfirmId,
        /// Counts the confirms of a conversation from 1; people say `c7`.
        number: u32,
        title: String,
        subject: Box<ConfirmSubject>,
        why: String,
        /// Why what is asked about may not be undone. A client takes no single key for a yes then, and nothing among the
        /// options lets later calls through.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        destructive: Option<String>,
        /// An autonomous run has halted for it: `why` says what it halted for, and no single key is a yes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        halt: bool,
        /// SHA-256 over all that a yes would be to. For a call: the tool's definition, its server, the arguments and the
        /// directory; for a form and a model: the server, the call and what is asked; for a command: it, the shell, the
        /// directory and the environment; for a level: the provider and both levels; for a memory: the fact; for changes: the run.
        digest: String,
        /// What it takes for an answer.
        options: Vec<Decision>,
        /// Silence is a no from then on. Null: while nobody is attached, a day of it is.
        expires_at: Option<String>,
    }
    /// The command, or the change of a file, of an open confirm was tried: it was done in layers over the files, and nothing of it
    /// is real until somebody answers `keep`. A command is tried by `confirm/try`, a change by itself. The newest trial counts.
    CommandTried: "commandTried", true, {
        confirm: ConfirmId,
        /// Names the trial.
        changes: ChangesId,
        command: String,
        ending: ShellEnding,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        /// As in `shellFinished`.
        output: String,
        bytes: u64,
        ms: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<KeptResult>,
        changed: ChangeSummary,
        /// The beginning of the difference, where a change of files is what is asked about; `changes/diff` has all of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        difference: Option<String>,
        /// Lines of all of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        difference_lines: Option<u64>,
        /// The hosts that it reached, and that it was refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        network: Option<NetworkUse>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Answerer>,
    }
    /// What a run changed in layers is real, or gone: each run that worked in layers has one, behind its end.
    ChangesSettled: "changesSettled", true, {
        turn: TurnId,
        #[serde(flatten)]
        end: ChangesEnd,
    }
    /// A person keeps or drops what a run has changed so far, while it goes on: the order, and then what came of it.
    ChangesPart: "changesPart", true, {
        turn: TurnId,
        #[serde(flatten)]
        part: PartOfChanges,
    }
    /// A person took back what was kept of changes, or did it again.
    ChangesUndo: "changesUndo", true, {
        act: UndoAct,
        /// What was taken back. A redo: what can be undone from now on.
        changes: ChangesId,
        /// The files, the first ones of many.
        paths: Vec<String>,
        /// Paths that changed.
        count: u64,
        /// Whether the opposite can be done.
        reversible: bool,
    }
    /// The end of a confirm; each has one.
    ConfirmResolved: "confirmResolved", true, {
        confirm: ConfirmId,
        state: ConfirmState,
        decision: Option<Decision>,
        by: Option<Answerer>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The arguments that run instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edited: Option<String>,
        /// The paths that are kept, where that is not all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        only: Vec<String>,
        /// The hunks of the difference that are kept, where that is not all.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hunks: Vec<u32>,
        /// Of so many.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of_hunks: Option<u32>,
        waited_ms: Option<u64>,
    }
    /// A call was started. From here on it is never started again by itself.
    ToolCall: "toolCall", true, {
        call: String,
        name: String,
        /// One JSON object in its canonical spelling, as text: the bytes that run.
        arguments: String,
        digest: String,
        /// What let it through.
        rule: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirm: Option<ConfirmId>,
    }
    /// A part of a result that is too long for the model's context, or of a block of it that is no text; `result/read`
    /// has it. The bytes are those of the log.
    ResultKept: "resultKept", true, {
        result: ResultId,
        bytes: u64,
        /// The part itself; only in an export.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    }
    ToolResult: "toolResult", true, {
        call: String,
        name: String,
        ok: bool,
        content: String,
        /// Why it did not run though it could have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denied: Option<Denial>,
        /// How long it ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ms: Option<u64>,
        /// The whole of it, where `content` is less.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<KeptResult>,
        /// Blocks of it that are no text; `result/read` has their bytes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        blocks: Vec<KeptBlock>,
        /// Its value, where it has one that fits the output schema of its tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Structured>,
    }
    /// A command was started. From here on it is never started again by itself.
    ShellStarted: "shellStarted", true, {
        call: String,
        /// The bytes that the shell gets.
        command: String,
        cwd: String,
        shell: String,
        digest: String,
        /// What let it through.
        rule: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirm: Option<ConfirmId>,
    }
    /// The end of a command, whether it began or not; each has one.
    ShellFinished: "shellFinished", true, {
        call: String,
        command: String,
        ending: ShellEnding,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        /// What it printed, on both of its outputs in the order in which it came; of a longer text the middle is left out.
        /// Where nothing was printed and nothing could be, it says why.
        output: String,
        /// Bytes that it printed, as far as they were read.
        bytes: u64,
        /// Why it did not run though it could have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denied: Option<Denial>,
        /// How long it ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ms: Option<u64>,
        /// The whole of it, where `output` is less.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<KeptResult>,
        /// Whether the model is shown it: with the next question, or at once (`shell.feed_back`).
        into_context: bool,
        /// What it is called from here on, where the ending is `background`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<JobId>,
        /// The hosts that it reached, and that it was refused. Absent: there were none, or nothing held it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        network: Option<NetworkUse>,
    }
    /// A command goes on in the background: `shellStarted` with the same call stands before it, and its `shellFinished` has the
    /// ending `background`, unless it ended within a second.
    JobStarted: "jobStarted", true, { job: JobId, call: String, command: String, cwd: String }
    /// It has ended, and nothing that it started is left. `replied`: so soon that the `shellFinished` of its call says how.
    JobEnded: "jobEnded", true, {
        job: JobId, command: String, end: JobEnd,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        replied: bool,
    }
    /// The conversation has another directory.
    CwdChanged: "cwdChanged", true, { cwd: String, from: String }
    /// A provider has another level in this conversation.
    PermissionChanged: "permissionChanged", true, {
        /// `*`: all of them, in what an older program wrote and where that was handed out.
        provider: String,
        from: u8,
        to: u8,
        /// What was always allowed of it was taken back too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        revoked: bool,
        by: Option<Answerer>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirm: Option<ConfirmId>,
    }
    /// A resource of an MCP server is in the context from now on, as it is at each request.
    ResourcePinned: "resourcePinned", true, { alias: String, uri: String }
    ResourceUnpinned: "resourceUnpinned", true, { alias: String, uri: String }
    /// The shared context changed; `resource/get` has the data.
    ResourceChanged: "resourceChanged", true, {
        name: String,
        change: ResourceChangeKind,
        /// It counts the changes of what has this name, deletions among them.
        revision: u64,
        by: ResourceAuthor,
        /// Of its data as JSON without blanks; 0 when it is gone.
        bytes: u64,
    }
    /// A model has written its list of tasks anew: all of it, in its order.
    TodosChanged: "todosChanged", true, { todos: Vec<Todo> }
    /// Where not all tools are sent, those `added` are from now on, and those `dropped` no longer.
    ToolsChosen: "toolsChosen", true, { added: Vec<String>, dropped: Vec<String> }
    /// The conversation keeps itself from other things than before.
    PolicyChanged: "policyChanged", true, {
        constraints: Constraints,
        by: Option<Answerer>,
    }
    /// Everything up to and including `through` left the context; it stays in the log, and `context/archive` lists it.
    Evicted: "evicted", true, {
        through: Seq,
        /// Exchanges that left with this.
        turns: u64,
    }
    /// An exchange that had left is in the context again.
    Restored: "restored", true, {
        /// The turn of its question.
        exchange: TurnId,
        /// Where its first and its last message stand.
        from: Seq,
        through: Seq,
    }
    /// A model has summed up what left the context; it is in the system message of each request from now on.
    SummaryUpdated: "summaryUpdated", true, {
        text: String,
        /// It is about everything up to here.
        through: Seq,
        /// The preset whose model wrote it.
        by: String,
        /// It was too long, and its end is gone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cut: bool,
    }
    /// An autonomous run was launched by this client. It is the turn; the first step begins with that.
    NorrisLaunched: "norrisLaunched", true, {
        goal: String,
        levels: NorrisLevels,
        limits: NorrisLimits,
        second_opinion: bool,
        /// What holds its commands. Where this machine cannot, a person is asked about each.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<NorrisHold>,
    }
    /// The model is asked for the next step of a run.
    NorrisStep: "norrisStep", true, {
        /// From 1.
        step: u32,
        spent: NorrisSpent,
    }
    /// The model neither acted nor ended the run, and is told so.
    NorrisNudged: "norrisNudged", true, { text: String }
    NorrisPaused: "norrisPaused", true, { pause: NorrisPause, spent: NorrisSpent }
    NorrisResumed: "norrisResumed", true, {}
    /// The end of a run; that of its turn follows.
    NorrisEnded: "norrisEnded", true, {
        outcome: NorrisOutcome,
        /// What the model said, or which limit it was.
        reason: String,
        step: u32,
        spent: NorrisSpent,
    }
    ModelChanged: "modelChanged", true, { model: Option<String> }
    Renamed: "renamed", true, { title: String }
    ArchivedChanged: "archivedChanged", true, { archived: bool }
    /// Everything before it was imported; nothing of that was asked, called or allowed here.
    Imported: "imported", true, {
        exchanges: u64,
        messages: u64,
        /// System messages, which were left out.
        left_out: u64,
        /// Calls without a result.
        unanswered: u64,
    }
    /// A line for people, shown with the prefix `[aish]`.
    Status: "status", true, { level: StatusLevel, text: String }
    TurnFinished: "turnFinished", true, {
        stop_reason: StopReason,
        /// The last answer's text.
        text: String,
        usage: Option<Usage>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<TurnError>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        merged_into: Option<TurnId>,
    }
    /// The conversation as of `lastSeq`; the first event of a subscription.
    Snapshot: "snapshot", false, {
        title: String,
        state: Activity,
        model: Option<String>,
        cwd: String,
        /// Absent: it keeps itself from nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        constraints: Option<Constraints>,
        last_seq: Seq,
        running: Option<RunningTurn>,
        /// The person's own command that runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<RunningCommand>,
        /// The autonomous run that goes on here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        norris: Option<NorrisRun>,
        queue: Vec<QueuedTurn>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        todos: Vec<Todo>,
        held: bool,
        /// Confirms that wait for a person, in full.
        pending_confirms: Vec<ConfirmRecord>,
        presence: Vec<PresentClient>,
        /// What happened here waits for the store, and why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waits: Option<String>,
        /// Why this client's last subscription was cut, if it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notice: Option<String>,
    }
    /// The stored events that `since` asked for have been sent.
    ReplayComplete: "replayComplete", false, { through: Seq }
    /// Text of the item being written, from this offset in UTF-8 bytes on.
    TextDelta: "textDelta", false, {
        item: u32,
        offset: u64,
        text: String,
        /// The bytes between what was sent before and `offset` are gone from memory; the finished item has them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        gap: bool,
    }
    ReasoningDelta: "reasoningDelta", false, {
        item: u32,
        offset: u64,
        text: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        gap: bool,
    }
    ToolArgumentsDelta: "toolArgumentsDelta", false, {
        item: u32,
        /// Position among the calls of this item.
        call: u32,
        name: String,
        offset: u64,
        text: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        gap: bool,
    }
    /// What a running call says of itself: how far it is, or a line of its log. Some of it may be left out.
    ToolProgress: "toolProgress", false, {
        call: String,
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress: Option<f64>,
        /// What `progress` goes up to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Of a line of the log: debug, info, notice, warning, error and worse.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        logger: Option<String>,
    }
    /// Output of a command that runs, from this offset in UTF-8 bytes on.
    ShellOutput: "shellOutput", false, {
        call: String,
        offset: u64,
        text: String,
        /// The bytes between what was sent before and `offset` are gone from memory.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        gap: bool,
    }
    /// Who is attached now.
    Presence: "presence", false, { clients: Vec<PresentClient> }
    /// What the conversation is doing now.
    State: "state", false, {
        state: Activity,
        queued: u32,
        turn: Option<TurnId>,
        /// The person's own command that runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<RunningCommand>,
        /// What happened here waits for the store, and why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waits: Option<String>,
    }
    /// An MCP server connects, is ready, failed, or was switched off.
    McpStatus: "mcpStatus", false, { server: McpServerStatus }
    /// A server told that something of it is another now (`mcp/watch`).
    McpChanged: "mcpChanged", false, { alias: String, change: crate::mcp_watch::McpChange, uri: Option<String> }
    /// Tools came, went or changed; the names are `<alias>__<tool>`, and `version` is the `toolset` of `mcp/tools`.
    ToolsChanged: "toolsChanged", false, {
        added: Vec<String>,
        removed: Vec<String>,
        updated: Vec<String>,
        version: u64,
        /// For people: a line for each tool that is written down and came, went or changed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<String>,
        /// For people: what is newly wrong with manifests, with file and line; one that was right counts as it was.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        broken: Vec<String>,
    }
    /// The cursor means nothing here any more; the tail follows.
    ResyncRequired: "resyncRequired", false, { reason: String }
    /// The configuration was read again, told once to each connection.
    ConfigReloaded: "configReloaded", false, {
        /// Dotted names of what is different now.
        changed: Vec<String>,
        /// What those are set to now, as TOML, where that is short and no secret.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        values: BTreeMap<String, String>,
        /// Who threw a switch (`route/set`, `fallback/set`); absent: a file was read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Answerer>,
        /// Why the old configuration stays, if it does.
        errors: Vec<String>,
        /// Keys whose new value waits for a restart.
        restart_needed: Vec<String>,
    }
    /// The daemon is about to go; a cursor goes on after it is back.
    Shutdown: "shutdown", false, { reason: String, deadline_at: String }
    /// Lines of the daemon's log (`log/tail`).
    LogLines: "logLines", false, {
        lines: Vec<String>,
        /// Lines before these that were gone before they could be sent.
        missed: u64,
        /// All that was kept when the subscription began has been sent.
        complete: bool,
    }
}
