//! Trying the command, or the change of files, of an open question: it runs in layers while the question waits, and what it came to is a fact beside
//! it. Keeping takes the place of running it; any other end of the question drops the layers.

use aish_proto::id::{ChangesId, ConfirmId, Seq, TurnId};
use aishd_command::change_directory;
use aishd_command::change_directory::StartingDirectory;
use aishd_files::FileCall;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::command_result::CommandResult;
use aishd_log::confirm::{Confirm, Decision, KeptHunks, Resolution};
use aishd_log::ending::CommandEnding;
use aishd_log::event::Event;
use aishd_log::run_changes::of_run;
use aishd_log::time::Timestamp;
use aishd_log::tool::ContentDigest;
use aishd_log::tried::TriedCommand;
use aishd_tools::shell::CommandLimits;
use aishd_tools::trial::ChangeFailure;
use aishd_turn::turn::TurnInput;

use crate::actor::lasting_environment::LeftByTrial;
use crate::actor::{Conversation, TaskOutcome};
use crate::commands::trial::{KeepOrder, RunningTrial, TrialEnd};
use crate::pending_commit::UncommittedFact;
use crate::request_error::RequestError;
use crate::requests::{ActorReply, TrialRequest};
use crate::view::LiveChange;

impl Conversation {
    /// Begins a trial; the reply comes when it has ended. Who wants the same meanwhile hears of the same one.
    pub(crate) fn try_command(
        &mut self,
        wanted: &TrialRequest,
        reply: ActorReply<Box<TriedCommand>>,
    ) {
        if let Some(running) = &mut self.trial
            && (running.confirm, running.digest) == (wanted.confirm, wanted.digest)
        {
            running.replies.push(reply);
            return;
        }
        if let Err(error) = self.begin_trial(wanted.confirm, wanted.digest, Some(&wanted.by)) {
            let _client_left = reply.send(Err(error));
        } else if let Some(running) = &mut self.trial {
            running.replies.push(reply);
        }
    }

    /// Tries the command of a new question before anybody looks at it, where that is configured. What cannot be tried is only
    /// asked about.
    pub(crate) fn try_unasked(&mut self) {
        if self.trial.is_some() {
            return;
        }
        let tries_commands = self.services.policy.borrow().shell.tries;
        let turn = self.turn.as_ref().filter(|it| !it.machine.is_run());
        let asked = turn.and_then(|it| it.machine.asking());
        // A change is always shown first, that of another daemon's question too.
        let is_tried = |it: &&Confirm| match it.command() {
            Some(command) => tries_commands && !command.asked.background,
            None => Self::change_of(it).is_some(),
        };
        let Some(confirm) = asked.filter(is_tried) else {
            return;
        };
        let (id, digest) = (confirm.id, confirm.digest);
        let is_open = self
            .state
            .open_confirm(id)
            .is_some_and(|it| it.tried.is_none());
        if !is_open || self.tried_unasked.replace(id) == Some(id) {
            return;
        }
        if let Err(why) = self.begin_trial(id, digest, None) {
            tracing::debug!(conversation = %self.id, %why, "it is only asked about");
        }
    }

    fn begin_trial(
        &mut self,
        wanted: ConfirmId,
        digest: ContentDigest,
        by: Option<&AnsweringPerson>,
    ) -> Result<(), RequestError> {
        if self.services.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        let refused = |why: &str| Err(RequestError::Untried(why.to_owned()));
        if self.trial.is_some() {
            return refused("another trial ends first");
        }
        let open = self.turn.as_ref().and_then(|it| it.machine.asking());
        let Some(confirm) = open.filter(|it| it.id == wanted) else {
            return refused("it is no question of a command that waits");
        };
        if let Some(change) = Self::change_of(confirm) {
            if digest != confirm.digest {
                return refused("it is not what was asked about; look at the question again");
            }
            let confirm = Confirm::clone(confirm);
            self.begin_change(&confirm, change, by);
            return Ok(());
        }
        let Some(subject) = confirm.command() else {
            return refused("only commands and changes of files can be tried");
        };
        if subject.asked.background {
            return refused(
                "it is to go on in the background, and a trial has an end: let it run, or not",
            );
        }
        let command = subject.asked.command.clone();
        let setting = self.setting_of_turn();
        if digest != confirm.digest || setting.digest(&command) != confirm.digest {
            return refused("it is not what was asked about any more; look at the question again");
        }
        let from = StartingDirectory {
            cwd: &setting.cwd,
            previous: self.state.shell.previous_cwd.as_deref(),
            home: setting.home(),
        };
        if change_directory::target(&command, from).is_some() {
            return refused("it changes the directory and no files");
        }
        let confirm = Confirm::clone(confirm);
        let limits = CommandLimits::of(&self.services.policy.borrow());
        let reach = self.network_for(&command, None);
        let token = self.services.stopping.child_token();
        self.trial = Some(RunningTrial::new(&confirm, token.clone(), by));
        let (tools, room) = (self.services.tools.clone(), self.services.trials.clone());
        self.io.spawn(async move {
            let made = match tools.misses_for_trials(&room).await {
                Some(why) => Err(why),
                None => {
                    let making = setting.clone();
                    let made = tokio::task::spawn_blocking(move || room.begin(&making, &[])).await;
                    made.unwrap_or_else(|panic| Err(panic.to_string()))
                }
            };
            let ended = match made {
                Ok(trial) => {
                    let within = (trial, reach);
                    let tried = tools.try_command(&command, &setting, limits, &token, within);
                    tried.await.map(|(ended, changed, trial)| TrialEnd {
                        trial,
                        command,
                        digest: confirm.digest,
                        ended,
                        changed,
                        difference: String::new(),
                        difference_lines: 0,
                        tool: None,
                    })
                }
                Err(why) => Err(why),
            };
            TaskOutcome::Tried(confirm.id, Box::new(ended))
        });
        Ok(())
    }

    fn begin_change(
        &mut self,
        confirm: &Confirm,
        change: Result<FileCall, String>,
        by: Option<&AnsweringPerson>,
    ) {
        let (id, token) = (confirm.id, self.services.stopping.child_token());
        self.trial = Some(RunningTrial::new(confirm, token.clone(), by));
        let work = self.change_work(change, confirm, token);
        self.io
            .spawn(async move { TaskOutcome::Tried(id, Box::new(work.await)) });
    }

    /// A trial is over: everybody sees what it came to, if somebody is still asked.
    pub(crate) async fn tried(&mut self, confirm: ConfirmId, ended: Result<TrialEnd, String>) {
        let Some(running) = self.trial.take_if(|it| it.confirm == confirm) else {
            return;
        };
        let result = match ended {
            Ok(ended) => self.note_trial(&running, ended).await,
            Err(why) => {
                // One that was cancelled, as by a daemon that stops, says nothing of its question.
                if !running.token.is_cancelled() {
                    self.withdraw_change(confirm).await;
                }
                Err(RequestError::Untried(why))
            }
        };
        for reply in running.replies {
            let _client_left = reply.send(result.clone());
        }
    }

    pub(crate) async fn note_trial(
        &mut self,
        running: &RunningTrial,
        mut end: TrialEnd,
    ) -> Result<Box<TriedCommand>, RequestError> {
        let turn = self.turn.as_ref();
        let asks = turn.and_then(|it| it.machine.asking());
        let is_asked = asks.is_some_and(|it| it.id == running.confirm && it.digest == end.digest);
        let turn = turn.map(|it| it.id);
        if !is_asked || self.stalled.is_some() {
            let why = "the question was answered meanwhile, and nothing of it is kept";
            return Err(RequestError::Untried(why.to_owned()));
        }
        let left = end.ended.left.take();
        let (tried, mut events, trial) = end.told(running.confirm, running.by.clone());
        let tried = Box::new(tried);
        events.push(Event::CommandTried(tried.clone()));
        let facts: Vec<UncommittedFact> = events
            .into_iter()
            .map(|event| UncommittedFact {
                turn,
                by: running.by.clone(),
                event,
            })
            .collect();
        self.commit(&facts, LiveChange::Keep).await?;
        trial.hold();
        self.left_by_trial = left.map(|left| LeftByTrial {
            changes: tried.changes,
            left,
        });
        Ok(tried)
    }

    /// Why what was changed cannot be kept as it is, if it cannot: somebody else changed the same files, or it is too much.
    pub(crate) async fn cannot_be_kept(
        &self,
        changes: ChangesId,
        only: &[String],
    ) -> Option<String> {
        let (room, only) = (self.services.trials.clone(), only.to_vec());
        let checked = tokio::task::spawn_blocking(move || room.check(changes, &only)).await;
        let failure = checked.unwrap_or_else(|panic| Err(ChangeFailure::Other(panic.to_string())));
        failure.err().map(|it| it.to_string())
    }

    /// These hunks as they are there, if they can be kept.
    pub(crate) async fn check_hunks(
        &self,
        changes: ChangesId,
        chosen: KeptHunks,
    ) -> Result<KeptHunks, RequestError> {
        let room = self.services.trials.clone();
        let checked = tokio::task::spawn_blocking(move || room.check_hunks(changes, &chosen)).await;
        let found = checked.unwrap_or_else(|panic| Err(ChangeFailure::Other(panic.to_string())));
        found.map_err(|why| {
            RequestError::BadAnswer(format!(
                "these hunks cannot be kept: {why}; `changes/diff` shows what is there"
            ))
        })
    }

    /// Another trial than the one before counts.
    pub(crate) fn note_tried(&self, tried: &TriedCommand, at: (Seq, Timestamp)) {
        if let Some(before) = self.services.pending.tried(tried, at) {
            self.drop_layers_of(before.changes);
        }
    }

    /// A question is over, and so is what was tried of it; what is kept waits for the command's turn.
    pub(crate) fn end_trial(&mut self, resolution: &Resolution) {
        if let Some(running) = &self.trial
            && running.confirm == resolution.confirm
        {
            running.token.cancel();
        }
        let open = self.services.pending.snapshot();
        let Some(question) = open.get(&resolution.confirm) else {
            return;
        };
        let Some(tried) = question.tried.clone() else {
            return;
        };
        if resolution.decision == Some(Decision::Keep) {
            let number = question.confirm.number;
            self.services.trials.hold(tried.changes);
            let left = self.left_by_trial.take();
            let left = left.filter(|it| it.changes == tried.changes);
            self.keeping = Some(KeepOrder {
                left: left.map(|it| it.left),
                tried,
                turn: question.turn,
                number,
                only: resolution.only.clone(),
                hunks: resolution.hunks.clone(),
                reason: resolution.reason.clone(),
            });
        } else {
            self.drop_layers_of(tried.changes);
        }
    }

    /// What was to be kept is not any more: its turn is over, or the command is asked about anew.
    pub(crate) fn keep_nothing(&mut self) {
        if let Some(kept) = self.keeping.take() {
            self.drop_layers_of(kept.tried.changes);
        }
    }

    /// Makes what was tried at this confirm real, and is the command's end. It never runs: what cannot be kept comes to
    /// nothing.
    pub(crate) fn start_keeping(&mut self, turn: TurnId, call: String, confirm: ConfirmId) {
        self.commands.begin_of_turn(turn, call.clone());
        let order = self.keeping.take_if(|it| it.tried.confirm == confirm);
        let (room, conversation, cwd) = (
            self.services.trials.clone(),
            self.id,
            self.state.cwd.clone(),
        );
        self.io.spawn(async move {
            let kept = match order {
                Some(order) => {
                    let kept = tokio::task::spawn_blocking(move || {
                        order.keep_command(&room, conversation)
                    });
                    kept.await.unwrap_or_else(|panic| CommandResult {
                        ending: CommandEnding::Unknown,
                        ..CommandResult::failed(panic.to_string(), &cwd)
                    })
                }
                None => CommandResult {
                    ending: CommandEnding::Refused,
                    ..CommandResult::failed(
                        "[aish] nothing was kept: what was tried is gone\n".to_owned(),
                        &cwd,
                    )
                },
            };
            let ended = Box::new(kept);
            TaskOutcome::Turn(turn, Box::new(TurnInput::CommandEnded { call, ended }))
        });
    }

    /// The conversation is deleted, and so is what was tried in it. What was kept stays real and can be undone; nothing says
    /// any more whose it was.
    pub(crate) fn forget_trials(&mut self) {
        if let Some(running) = self.trial.take() {
            running.token.cancel();
        }
        self.keep_nothing();
        self.changes.clear();
        let open = self.services.pending.snapshot();
        for it in &self.state.run_changes {
            self.drop_layers_of(of_run(it.turn));
        }
        let own = open.values().filter(|it| it.conversation == self.id);
        for tried in own.filter_map(|it| it.tried.as_ref()) {
            self.drop_layers_of(tried.changes);
        }
        let (room, conversation) = (self.services.trials.clone(), self.id);
        let _goes_on = tokio::task::spawn_blocking(move || room.forget(conversation));
    }

    pub(crate) fn drop_layers_of(&self, changes: ChangesId) {
        let room = self.services.trials.clone();
        // At the next start it would be done too.
        let _goes_on = tokio::task::spawn_blocking(move || room.drop_layers(changes));
    }
}
