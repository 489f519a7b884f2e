//! Facts and states as the wire shows them. Wire types are not domain types: this is where one becomes the
//! other, by hand, and nothing else of ours knows both.

#![warn(clippy::wildcard_enum_match_arm)]

use aish_proto::conversation::{Activity, ConversationStatus, ForkOrigin, LastTurn};
use aish_proto::event as wire;
use aish_proto::id::{ConversationId, Seq, TurnId};
use aish_proto::model::ModelSource;
use aish_proto::turn::{TurnRecord, TurnStatus};
use aishd_conversation::view::live_item::{TextChannel, UnseenText};
use aishd_conversation::view::tool_progress::ProgressMessage;
use aishd_conversation::view::turn_record::{RecordProgress, TurnReport};
use aishd_log::call_list::{CallList, ListedCall};
use aishd_log::confirm::Denial;
use aishd_log::constraints::Constraints;
use aishd_log::event::{Event, PresetSource, ProviderLevel, Record, TurnOrigin};
use aishd_log::state::{BegunTurn, ConversationState};
use aishd_log::structured::StructuredResult;
use aishd_log::time::Timestamp;
use aishd_log::todo::{Todo, TodoStatus};
use aishd_log::tool_call::ToolCall;
use aishd_platform::clock::rfc3339;
use aishd_rules::gate::spelled;
use aishd_tools::Said;

use super::turn_end::{stop_reason, turn_error};
use super::usage::usage_of;
use super::{confirm as confirms, job, line_limit, picture, route, shell, usage};
use crate::log_owner::LogOwner;
use crate::provider_name::provider_or_all;

const RECORD_LOST: &str = "a record that stood here could not be read any more and is lost; nothing that was allowed in this \
                           conversation is allowed now, and it only reads: aishctl perm";

impl LogOwner {
    /// A piece of the text being written.
    pub(super) fn delta(
        self,
        turn: TurnId,
        item: u32,
        at: Timestamp,
        piece: &UnseenText,
    ) -> String {
        let (offset, text, gap) = (piece.offset, piece.text.clone(), piece.gap);
        match &piece.channel {
            TextChannel::Text => {
                let data = wire::TextDelta {
                    item,
                    offset,
                    text,
                    gap,
                };
                self.ephemeral(Some(turn), at, &data)
            }
            TextChannel::Reasoning => {
                let data = wire::ReasoningDelta {
                    item,
                    offset,
                    text,
                    gap,
                };
                self.ephemeral(Some(turn), at, &data)
            }
            TextChannel::Arguments { call, name } => {
                let data = wire::ToolArgumentsDelta {
                    item,
                    call: *call,
                    name: name.clone(),
                    offset,
                    text,
                    gap,
                };
                self.ephemeral(Some(turn), at, &data)
            }
        }
    }

    /// What a running call says.
    pub(super) fn progress_event(self, word: &ProgressMessage, at: Timestamp) -> String {
        let mut data = wire::ToolProgress {
            call: word.call.clone(),
            name: word.name.clone(),
            progress: None,
            total: None,
            message: None,
            level: None,
            logger: None,
        };
        match word.said.clone() {
            Said::Progress {
                progress,
                total,
                message,
            } => {
                data.progress = Some(progress);
                data.total = total;
                data.message = message;
            }
            Said::Status { message } => data.message = Some(message),
            Said::Log {
                level,
                logger,
                text,
            } => {
                data.level = Some(level);
                data.logger = logger;
                data.message = Some(text);
            }
        }
        self.ephemeral(Some(word.turn), at, &data)
    }

    /// A stored event, as JSON.
    #[expect(
        clippy::too_many_lines,
        reason = "one arm for each kind of event, and nothing else"
    )]
    pub(super) fn stored(self, record: &Record) -> String {
        macro_rules! out {
            ($data:expr) => {
                self.encode_record(record, &$data)
            };
        }
        match record.event.clone() {
            Event::Created {
                title,
                model,
                cwd,
                forked_from,
                constraints: _,
                importing: _,
                temporary: _,
                budget: _,
            } => out!(wire::Created {
                title: title.unwrap_or_default(),
                model,
                cwd,
                forked_from: forked_from.map(fork_origin),
            }),
            Event::UserMessage {
                text,
                attachments,
                origin,
                calls,
                key: _,
                model: _,
                on_confirm: _,
                max_tool_depth: _,
                environment: _,
            } => out!(wire::UserMessage {
                text,
                attachments: attachments.into_iter().map(picture::attached).collect(),
                retry_of: match origin {
                    TurnOrigin::Retry(turn) => Some(turn),
                    TurnOrigin::Asked | TurnOrigin::Continue(_) | TurnOrigin::Imported => None,
                },
                continues: match origin {
                    TurnOrigin::Continue(turn) => Some(turn),
                    TurnOrigin::Asked | TurnOrigin::Retry(_) | TurnOrigin::Imported => None,
                },
                calls: calls
                    .iter()
                    .flat_map(CallList::calls)
                    .map(wire_listed_call)
                    .collect(),
            }),
            Event::TurnQueued { position, .. } => out!(wire::TurnQueued { position }),
            Event::TurnStarted {
                model,
                model_id,
                source,
                context_tokens,
            } => out!(wire::TurnStarted {
                model,
                model_id,
                source: source_of(source),
                context_tokens,
            }),
            Event::RouteDecided(routed) => out!(route::decided(routed)),
            Event::FellBack {
                from,
                to,
                reason,
                cause,
                status,
                model_id,
            } => out!(wire::FallbackUsed {
                from,
                to,
                reason,
                cause,
                status,
                to_model_id: Some(model_id),
                before_first_delta: true,
            }),
            Event::AssistantMessage {
                item,
                text,
                reasoning,
                calls,
                commands,
                complete,
                served_by,
                usage,
                extra: _,
                sealed: _,
                payee: _,
            } => out!(wire::AssistantMessage {
                item,
                text: text.as_ref().to_owned(),
                reasoning,
                tool_calls: calls.into_iter().map(wire_call).collect(),
                commands: commands.into_iter().map(shell::proposed).collect(),
                complete,
                served_by,
                usage: usage.map(usage_of),
            }),
            Event::ModelUsed(paid) => out!(usage::model_used(*paid)),
            Event::BudgetChanged(changed) => out!(usage::budget_changed(*changed)),
            Event::BudgetReached(reached) => out!(usage::reached(reached, self.conversation)),
            Event::ConfirmRequested(asked) => out!(confirms::requested(*asked)),
            Event::CommandTried(tried) => out!(super::tried::tried(*tried)),
            Event::ChangesSettled(settled) => out!(super::tried::settled(*settled)),
            Event::ChangesPart(part) => out!(wire::ChangesPart {
                turn: part.turn,
                part: super::tried::part(*part),
            }),
            Event::ChangesUndo(undo) => out!(super::tried::undo(*undo)),
            Event::ConfirmResolved(resolution) => out!(confirms::resolved(*resolution)),
            Event::ToolStarted {
                call,
                name,
                arguments,
                digest,
                rule,
                confirm,
            } => out!(wire::ToolCall {
                call,
                name,
                arguments,
                digest: digest.to_string(),
                rule,
                confirm,
            }),
            Event::TaskBegan { task, .. } => out!(wire::Status {
                level: wire::StatusLevel::Info,
                text: format!("its server works on it as task {}", task.id),
            }),
            Event::AnswerPictures { item, blocks } => out!(wire::AnswerPictures {
                item,
                blocks: blocks
                    .into_iter()
                    .map(super::stored_result::block)
                    .collect(),
            }),
            Event::ResultKept { result, text } => out!(wire::ResultKept {
                result,
                bytes: text.len() as u64,
                text: None,
            }),
            Event::ToolResult {
                call,
                name,
                ok,
                content,
                denial,
                ms,
                kept,
                blocks,
                structured,
                refused: _,
            } => out!(wire::ToolResult {
                call,
                name,
                ok,
                content,
                denied: denial.map(denied),
                ms,
                kept: kept.map(super::stored_result::result),
                blocks: blocks
                    .into_iter()
                    .map(super::stored_result::block)
                    .collect(),
                structured: structured.map(|it| match it {
                    StructuredResult::Text => wire::Structured::Text,
                    StructuredResult::Value(value) => wire::Structured::Value(value),
                }),
            }),
            Event::ShellStarted {
                call,
                command,
                cwd,
                shell,
                digest,
                rule,
                confirm,
                given: _,
            } => out!(wire::ShellStarted {
                call,
                command,
                cwd,
                shell,
                digest: digest.to_string(),
                rule,
                confirm,
            }),
            Event::ShellFinished {
                call,
                command,
                cwd: _,
                ending,
                output,
                bytes,
                ms,
                kept,
                denial,
                refused: _,
                given,
                network,
            } => {
                let job = job::background(ending);
                let (ending, exit_code, signal) = shell::ending(ending);
                out!(wire::ShellFinished {
                    job,
                    call,
                    command,
                    ending,
                    exit_code,
                    signal,
                    output,
                    bytes,
                    denied: denial.map(denied),
                    ms,
                    kept: kept.map(super::stored_result::result),
                    into_context: shell::goes_to_model(given),
                    network: network.and_then(|it| super::tried::network(*it)),
                })
            }
            Event::JobStarted(started) => out!(job::started(*started)),
            Event::JobEnded(ended) => out!(job::ended(*ended, record.at)),
            Event::CwdChanged { cwd, from } => out!(wire::CwdChanged { cwd, from }),
            Event::ResourcePinned(pinned) => out!(wire::ResourcePinned {
                alias: pinned.alias.to_string(),
                uri: pinned.uri,
            }),
            Event::ResourceUnpinned(pinned) => out!(wire::ResourceUnpinned {
                alias: pinned.alias.to_string(),
                uri: pinned.uri,
            }),
            Event::ResourceChanged(changed) => out!(super::resource::event(*changed)),
            Event::TodosChanged { todos } => out!(wire::TodosChanged {
                todos: todos_of(todos),
            }),
            Event::ToolsChosen { added, dropped } => out!(wire::ToolsChosen {
                added: added.iter().map(ToString::to_string).collect(),
                dropped: dropped.iter().map(ToString::to_string).collect(),
            }),
            Event::PermissionChanged {
                provider,
                from,
                to,
                revoked,
                by,
                confirm,
            } => out!(wire::PermissionChanged {
                provider: provider_or_all(provider.as_ref()),
                from: from.number(),
                to: to.number(),
                revoked,
                by: by.map(super::answerer::answerer),
                confirm,
            }),
            Event::ConstraintsChanged { constraints, by } => out!(wire::PolicyChanged {
                constraints: constraints_of(&constraints),
                by: by.map(super::answerer::answerer),
            }),
            Event::Evicted(eviction) => out!(wire::Evicted {
                through: eviction.through,
                turns: eviction.count,
            }),
            Event::Restored(left) => out!(wire::Restored {
                exchange: left.turn,
                from: left.first,
                through: left.last,
            }),
            Event::SummaryUpdated(summary) => out!(wire::SummaryUpdated {
                text: summary.text,
                through: summary.through,
                by: summary.by,
                cut: summary.cut,
            }),
            Event::Norris(event) => self.norris(record, event),
            Event::ModelChanged { model } => out!(wire::ModelChanged { model }),
            Event::Renamed { title } => out!(wire::Renamed { title }),
            Event::Imported(it) => out!(wire::Imported {
                exchanges: it.exchanges,
                messages: it.messages,
                left_out: it.left_out,
                unanswered: it.unanswered,
            }),
            Event::ArchivedChanged { archived } => out!(wire::ArchivedChanged { archived }),
            Event::RecordLost {} => out!(wire::Status {
                level: wire::StatusLevel::Warning,
                text: RECORD_LOST.to_owned(),
            }),
            Event::Status { level, text } => out!(wire::Status {
                level: match level {
                    ProviderLevel::Debug => wire::StatusLevel::Debug,
                    ProviderLevel::Info => wire::StatusLevel::Info,
                    ProviderLevel::Warning => wire::StatusLevel::Warning,
                },
                text,
            }),
            Event::TurnFinished {
                stop,
                text,
                usage,
                error,
                merged_into,
            } => out!(wire::TurnFinished {
                stop_reason: stop_reason(stop),
                text: text.as_ref().to_owned(),
                usage: usage.map(usage_of),
                error: error.map(turn_error),
                merged_into,
            }),
        }
    }
}

pub(super) fn todos_of(todos: Vec<Todo>) -> Vec<aish_proto::todo::Todo> {
    let one = |it: Todo| aish_proto::todo::Todo {
        content: it.content,
        status: match it.status {
            TodoStatus::Pending => aish_proto::todo::TodoStatus::Pending,
            TodoStatus::InProgress => aish_proto::todo::TodoStatus::InProgress,
            TodoStatus::Completed => aish_proto::todo::TodoStatus::Completed,
        },
    };
    todos.into_iter().map(one).collect()
}

pub(super) fn denied(denial: Denial) -> aish_proto::confirm::Denial {
    match denial {
        Denial::Person => aish_proto::confirm::Denial::Person,
        Denial::Policy => aish_proto::confirm::Denial::Policy,
        Denial::Expired => aish_proto::confirm::Denial::Expired,
        Denial::NoApprover => aish_proto::confirm::Denial::NoApprover,
    }
}

fn wire_call(call: ToolCall) -> wire::CalledTool {
    wire::CalledTool {
        id: call.id,
        name: call.name,
        arguments: call.arguments,
    }
}

/// As it was written: results stand in it as references.
fn wire_listed_call(call: &ListedCall) -> wire::CalledTool {
    wire::CalledTool {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: spelled(&call.arguments),
    }
}

pub(super) fn source_of(source: PresetSource) -> ModelSource {
    match source {
        PresetSource::Configured => ModelSource::Configured,
        PresetSource::Discovered => ModelSource::Discovered,
        PresetSource::Demo => ModelSource::Demo,
        PresetSource::None => ModelSource::None,
        PresetSource::Imported => ModelSource::Imported,
    }
}

pub(super) fn activity(state: &ConversationState) -> Activity {
    if state.requires_action() {
        Activity::RequiresAction
    } else if state.running.is_some() || !state.shell.own.is_empty() {
        Activity::Running
    } else if state.queue.is_empty() {
        Activity::Idle
    } else {
        Activity::Queued
    }
}

pub(super) fn queued(state: &ConversationState) -> u32 {
    u32::try_from(state.queue.len()).unwrap_or(u32::MAX)
}

/// Nothing where there are none.
pub(super) fn constraints(
    state: &ConversationState,
) -> Option<aish_proto::conversation::Constraints> {
    let constraints = &state.constraints;
    (!constraints.is_empty()).then(|| constraints_of(constraints))
}

fn constraints_of(constraints: &Constraints) -> aish_proto::conversation::Constraints {
    aish_proto::conversation::Constraints {
        read_only: constraints.read_only,
        no_network: constraints.no_network,
        roots: constraints.roots.iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn status(
    id: ConversationId,
    state: &ConversationState,
    attached: u32,
) -> ConversationStatus {
    ConversationStatus {
        id,
        title: state.title().to_owned(),
        state: activity(state),
        queued: queued(state),
        turn: state.running.as_ref().map(|it| it.turn),
        command: shell::running(state),
        model: state.model.clone(),
        cwd: state.cwd.clone(),
        archived: state.archived,
        constraints: constraints(state),
        forked_from: state.forked_from.map(fork_origin),
        last_seq: state.last_seq,
        turns: state.turns,
        last_turn: state.began.clone().map(last_turn),
        norris: super::norris::run(state),
        attached,
        usage: usage_of(state.usage),
        budget: usage::budget(state.budget),
        created_at: rfc3339(state.created_at),
        updated_at: rfc3339(state.updated_at),
    }
}

fn fork_origin((conversation, seq): (ConversationId, Seq)) -> ForkOrigin {
    ForkOrigin { conversation, seq }
}

fn last_turn(began: BegunTurn) -> LastTurn {
    let BegunTurn {
        turn,
        model,
        routed,
        fell_back,
    } = began;
    LastTurn {
        turn,
        model,
        routed: routed.as_ref().map(route::routed),
        fell_back_to: fell_back,
    }
}

pub(super) fn turn_record(conversation: ConversationId, report: TurnReport) -> TurnRecord {
    line_limit::record(TurnRecord {
        turn: report.turn,
        conversation,
        status: match report.progress {
            RecordProgress::Queued => TurnStatus::Queued,
            RecordProgress::Running => TurnStatus::Running,
            RecordProgress::Finished => TurnStatus::Finished,
        },
        seq: report.message_seq,
        stop_reason: report.stop.map(stop_reason),
        text: report.text,
        model: report.model,
        routed: report.routed.as_ref().map(route::routed),
        fell_back_to: report.fell_back,
        usage: report.usage.map(usage_of),
        error: report.error.map(turn_error),
        merged_into: report.merged_into,
        finished_at: report.finished_at.map(rfc3339),
        denied: report.denied,
    })
}

#[cfg(test)]
mod tests {
    use aish_proto::id::Epoch;

    use super::*;

    #[test]
    fn what_goes_out_reads_as_the_envelope_of_the_protocol() {
        let log = LogOwner {
            epoch: Epoch::from_bytes([1; 16]),
            conversation: Some(ConversationId::from_bytes([2; 16])),
        };
        let record = Record {
            seq: Seq(9),
            at: Timestamp(0),
            turn: Some(TurnId::from_bytes([3; 16])),
            client: None,
            event: Event::Renamed {
                title: "a\nb".to_owned(),
            },
        };
        let text = log.stored(&record);
        assert!(!text.contains('\n'));
        let envelope: aish_proto::envelope::Envelope = serde_json::from_str(&text).unwrap();
        assert_eq!((Some(Seq(9)), record.turn), (envelope.seq, envelope.turn));
        assert_eq!("a\nb", envelope.read::<wire::Renamed>().unwrap().title);
        let piece = UnseenText {
            channel: TextChannel::Text,
            offset: 4,
            text: "é".to_owned(),
            gap: false,
        };
        let delta = log.delta(TurnId::from_bytes([3; 16]), 1, Timestamp(0), &piece);
        let envelope: aish_proto::envelope::Envelope = serde_json::from_str(&delta).unwrap();
        assert_eq!(
            (None, 4),
            (
                envelope.seq,
                envelope.read::<wire::TextDelta>().unwrap().offset
            )
        );
    }
}
