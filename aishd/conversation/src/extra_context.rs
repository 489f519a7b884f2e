//! What a request tells beside the log, and what has to be read for that: pinned resources before each request, and the
//! directory once for each turn, so that what a turn says of it stays the same to its end. It is read by a task: the
//! actor waits for no server and no disk.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aish_proto::id::TurnId;
use aishd_log::confirm::OnConfirm;
use aishd_log::event::{Event, ProviderLevel};
use aishd_log::pinned_resource::{PinnedContent, PinnedEntry};
use aishd_model::reply::RequestFailure;
use aishd_model::trusted_instructions::TrustedInstructions;
use aishd_project::{ProjectCache, ProjectLook};
use aishd_rules::catalog::ToolOffer;
use aishd_rules::command_instructions::{CommandInstructions, OutputVisibility};
use aishd_store::Commit;
use aishd_tools::{ToolRunner, machine};
use aishd_turn::project::ProjectBlocks;
use aishd_turn::transcript::Transcript;
use aishd_turn::turn::StreamId;
use futures_util::FutureExt as _;

use super::commit::UncommittedFact;
use super::request_context::abandoned;
use super::{Conversation, TaskOutcome, failed};

/// What is to be read.
#[derive(Debug)]
pub struct ExtraContext {
    pinned: Vec<PinnedEntry>,
    tools: ToolRunner,
    directory: Option<ToldDirectory>,
}

#[derive(Debug)]
struct ToldDirectory {
    folders: ProjectCache,
    path: String,
    trusted: TrustedInstructions,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct GatheredContext {
    pub held: Vec<PinnedContent>,
    /// `None`: what is known of the directory is enough.
    pub looked: Option<ProjectLook>,
}

/// What a conversation has told of its directory.
#[derive(Debug, Default)]
pub(super) struct DirectoryTold {
    /// The turn for which somebody has looked.
    turn: Option<TurnId>,
    blocks: Option<ProjectBlocks>,
    /// For people, at the next opportunity.
    remarks: Vec<String>,
    said: BTreeSet<String>,
    /// What the requests of a turn say of the shell: the same from its first to its last.
    shell: Option<(TurnId, Option<Arc<CommandInstructions>>)>,
}

/// Whether the directory is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectoryLook {
    /// Unless the turn that runs has.
    Once,
    Anew,
    No,
}

impl ExtraContext {
    /// Reads all of it, each for as long as it may take.
    pub async fn gather(&self) -> GatheredContext {
        let look = async {
            let directory = self.directory.as_ref()?;
            let looking = directory.folders.look(&directory.path, &directory.trusted);
            Some(looking.await)
        };
        let (held, looked) = tokio::join!(self.tools.pinned_contents(&self.pinned), look);
        GatheredContext { held, looked }
    }
}

impl DirectoryTold {
    /// What the next request is told, unless somebody looks before it.
    pub(super) fn blocks(&self) -> Option<ProjectBlocks> {
        self.blocks.clone()
    }

    /// Somebody has told people of this.
    pub(super) fn note(&mut self, told: &[String]) {
        self.said.extend(told.iter().cloned());
    }

    /// What people have not been told yet. Once is enough.
    fn take_remarks(&mut self) -> Vec<String> {
        let mut remarks = std::mem::take(&mut self.remarks);
        remarks.retain(|it| self.said.insert(it.clone()));
        remarks
    }
}

impl Conversation {
    /// What has to be read before anybody can say what a request holds, if anything has.
    pub(super) fn extra_context(&mut self, look: DirectoryLook) -> Option<ExtraContext> {
        let running = self.turn.as_ref().map(|it| it.id);
        let looks = match look {
            DirectoryLook::Once => running.is_none() || self.told.turn != running,
            DirectoryLook::Anew => true,
            DirectoryLook::No => false,
        };
        let trusted = self.rules().project.filter(|_| looks);
        if self.state.pinned.is_empty() && trusted.is_none() {
            return None;
        }
        Some(ExtraContext {
            pinned: self.state.pinned.clone(),
            tools: self.tools(),
            directory: trusted.map(|trusted| ToldDirectory {
                folders: self.services.folders.clone(),
                path: self.state.cwd.clone(),
                trusted,
            }),
        })
    }

    /// Has it read for a request of the turn that runs.
    pub(super) fn read_beside(&mut self, stream: StreamId, beside: ExtraContext) {
        let Some(active) = &self.turn else { return };
        let (turn, token) = (active.id, active.token.clone());
        self.io.spawn(async move {
            let read = AssertUnwindSafe(beside.gather()).catch_unwind();
            match token.run_until_cancelled(read).await {
                Some(Ok(gathered)) => TaskOutcome::Gathered(turn, stream, gathered),
                Some(Err(_panic)) => {
                    let failure = RequestFailure::Transport("internal error".to_owned());
                    TaskOutcome::Turn(turn, Box::new(failed(stream, failure)))
                }
                None => abandoned(turn, stream),
            }
        });
    }

    /// What the requests of the turn that runs say of the shell, or what those of one would say that is asked now. A turn that
    /// runs keeps to what its first request said. `begins` is what is about to be written down of one that starts.
    pub(super) fn shell_told(
        &mut self,
        transcript: &Transcript,
        begins: Option<&Commit>,
    ) -> Option<Arc<CommandInstructions>> {
        let running = self.turn.as_ref().map(|it| it.id);
        if let Some((turn, told)) = &self.told.shell
            && Some(*turn) == running
        {
            return told.clone();
        }
        let on_confirm = self.turn.as_ref().map(|it| it.on_confirm.clone());
        let told = self.shell_offered(transcript, begins, &on_confirm.unwrap_or_default());
        let told = told.map(Arc::new);
        if let Some(turn) = running {
            self.told.shell = Some((turn, told.clone()));
        }
        told
    }

    /// What requests of a turn that is asked so say of the shell. `None`: no command could run.
    pub(super) fn shell_offered(
        &self,
        transcript: &Transcript,
        begins: Option<&Commit>,
        on_confirm: &OnConfirm,
    ) -> Option<CommandInstructions> {
        let by_itself = transcript.run().is_some();
        let consent = self.with_command_gate_for(on_confirm, |gate| gate.offers(by_itself))?;
        let state = begins.map_or(&self.state, |it| &it.state);
        let seq = match &state.running {
            Some(running) => running.environment_seq,
            None => state.shell.environment_seq(),
        };
        let mut unwritten = begins.iter().flat_map(|it| &it.records);
        let given = match unwritten.find(|it| Some(it.seq) == seq) {
            Some(record) => record.event.environment().cloned(),
            None => self.given_at(seq),
        };
        let setting = self.setting(given.unwrap_or_default(), &state.cwd);
        let feeds_back = by_itself || self.services.policy.borrow().shell.feed_back;
        let seen = if feeds_back {
            OutputVisibility::AtOnce
        } else {
            OutputVisibility::Next
        };
        Some(CommandInstructions::new(
            &setting,
            machine::system(),
            consent,
            seen,
        ))
    }

    /// What was found of the directory is what this turn tells.
    pub(super) fn on_project_look(&mut self, turn: TurnId, looked: ProjectLook) {
        let ProjectLook { blocks, remarks } = looked;
        if let Some(transcript) = &mut self.transcript.held {
            transcript.set_project(blocks.clone());
        }
        self.told.turn = Some(turn);
        self.told.blocks = blocks;
        self.told.remarks = remarks;
    }

    /// People are told what this offer had no room for.
    pub(super) fn remark_on(&mut self, offer: &ToolOffer) {
        let left_out = offer.left_out().map(str::to_owned);
        self.told.remarks.extend(left_out);
    }

    /// What people should know of it, as facts.
    pub(super) fn remark_facts(&mut self, turn: TurnId) -> Vec<UncommittedFact> {
        let remarks = self.told.take_remarks().into_iter();
        let facts = remarks.map(|text| UncommittedFact {
            turn: Some(turn),
            by: None,
            event: Event::Status {
                level: ProviderLevel::Info,
                text,
            },
        });
        facts.collect()
    }
}
