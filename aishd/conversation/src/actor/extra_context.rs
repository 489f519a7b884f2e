//! What a request tells beside the log: directories, shells, pinned resources.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aish_proto::id::TurnId;
use aishd_log::confirm::OnConfirm;
use aishd_log::event::{Event, ProviderLevel};
use aishd_model::reply::RequestFailure;
use aishd_platform::clock;
use aishd_project::ProjectLook;
use aishd_rules::command_instructions::{CommandConsent, CommandInstructions, OutputVisibility};
use aishd_rules::gate::command_consent;
use aishd_rules::policy::Policy;
use aishd_store::Commit;
use aishd_tools::machine;
use aishd_turn::transcript::Transcript;
use aishd_turn::turn::StreamId;
use futures_util::FutureExt as _;

use crate::actor::request_context::abandoned;
use crate::actor::{Conversation, TaskOutcome, failed};
use crate::context::extra_context::{DirectoryLook, ExtraContext, ToldDirectory};
use crate::pending_commit::UncommittedFact;

impl Conversation {
    /// What has to be read before anybody can say what a request holds, if anything has.
    pub(crate) fn extra_context(&mut self, look: DirectoryLook) -> Option<ExtraContext> {
        let running = self.turn.as_ref().map(|it| it.id);
        let looks = match look {
            DirectoryLook::Once => running.is_none() || self.told.turn != running,
            DirectoryLook::Anew => true,
            DirectoryLook::No => false,
        };
        let trusted = self.rules().project.filter(|_| looks);
        if self.state.pinned_resources.is_empty() && trusted.is_none() {
            return None;
        }
        Some(ExtraContext {
            pinned: self.state.pinned_resources.clone(),
            tools: self.tools(),
            directory: trusted.map(|trusted| ToldDirectory {
                folders: self.services.folders.clone(),
                path: self.state.cwd.clone(),
                trusted,
            }),
        })
    }

    /// Has it read for a request of the turn that runs.
    pub(crate) fn read_beside(&mut self, stream: StreamId, beside: ExtraContext) {
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
    pub(crate) fn shell_told(
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
    pub(crate) fn shell_offered(
        &self,
        transcript: &Transcript,
        begins: Option<&Commit>,
        on_confirm: &OnConfirm,
    ) -> Option<CommandInstructions> {
        let by_itself = transcript.run().is_some();
        let policy = self.services.policy.borrow().clone();
        let consent = self.command_consent(&policy, on_confirm, by_itself)?;
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
        let feeds_back = by_itself || policy.shell.feed_back;
        let seen = if feeds_back {
            OutputVisibility::AtOnce
        } else {
            OutputVisibility::Next
        };
        Some(CommandInstructions::new(
            &setting,
            (machine::system(), &clock::local_day(clock::now())),
            consent,
            seen,
        ))
    }

    fn command_consent(
        &self,
        policy: &Policy,
        on_confirm: &OnConfirm,
        by_itself: bool,
    ) -> Option<CommandConsent> {
        let constraints = &self.state.constraints;
        let attended = self.expiry.presence();
        command_consent(policy, constraints, on_confirm, attended, by_itself)
    }

    /// Whether requests may offer the tool that proposes commands: those of one turn all do, or none.
    pub(crate) fn offers_shell(&self) -> bool {
        let running = self.turn.as_ref().map(|it| it.id);
        if let Some((turn, told)) = &self.told.shell
            && Some(*turn) == running
        {
            return told.is_some();
        }
        let asks = OnConfirm::default();
        let on_confirm = self.turn.as_ref().map_or(&asks, |it| &it.on_confirm);
        let policy = self.services.policy.borrow().clone();
        self.command_consent(&policy, on_confirm, /*by_itself*/ false)
            .is_some()
    }

    /// What was found of the directory is what this turn tells.
    pub(crate) fn on_project_look(&mut self, turn: TurnId, looked: ProjectLook) {
        let ProjectLook { blocks, remarks } = looked;
        if let Some(transcript) = &mut self.transcript.held {
            transcript.set_project(blocks.clone());
        }
        self.told.turn = Some(turn);
        self.told.blocks = blocks;
        self.told.remarks = remarks;
    }

    /// What people should know of it, as facts.
    pub(crate) fn remark_facts(&mut self, turn: TurnId) -> Vec<UncommittedFact> {
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
