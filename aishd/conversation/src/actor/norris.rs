//! Runs: launching one, leading it, asking another model, and taking one up that a daemon left.

use std::panic::AssertUnwindSafe;

use aish_proto::id::TurnId;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::ending::BoundaryFailure;
use aishd_log::event::{Event, TurnOrigin};
use aishd_log::norris::NorrisEvent;
use aishd_log::norris::status::RunStatus;
use aishd_log::tool::{ContentDigest, ToolReach};
use aishd_model::norris_settings::second;
use aishd_model::second_opinion::Opinion;
use aishd_platform::clock;
use aishd_rules::autonomy::{Autonomy, SecondOpinion};
use aishd_rules::gate::CallJudgement;
use aishd_turn::run::RunState;
use aishd_turn::turn::{Effect, OwedReplies, Step, Turn, TurnInput};
use futures_util::FutureExt as _;

use crate::actor::ask::fact;
use crate::actor::model_choice::PresetChoice;
use crate::actor::{Conversation, TaskOutcome};
use crate::pending_commit::{PendingCommit, UncommittedFact};
use crate::request_error::RequestError;
use crate::requests::{AcceptedAsk, AskRequest, NorrisLaunch, RunControl};
use crate::turns::run_clock::RunClock;
use crate::turns::second_opinion::{JudgedAction, OpinionRequest, ReceivedOpinion};
use crate::view::LiveChange;

impl Conversation {
    /// Takes a goal in and starts the run, in one commit. It waits for nothing: a run that begins some time later is not
    /// what somebody agreed to.
    pub(crate) async fn launch(
        &mut self,
        launching: NorrisLaunch,
    ) -> Result<AcceptedAsk, RequestError> {
        let NorrisLaunch { ask, launch } = launching;
        if let Some(known) = self.known_ask(&ask.key)? {
            return Ok(known);
        }
        if self.services.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        self.know_layers().await;
        let runs = self.turn.is_some() || self.resolving.is_some();
        if runs || !self.state.queue.is_empty() {
            return Err(RequestError::Busy);
        }
        let by_hand = ask.model.clone().or_else(|| self.state.model.clone());
        let chosen = self.choose_named(by_hand.as_deref());
        let AskRequest {
            text,
            attachments,
            key,
            model,
            by,
            on_confirm,
            max_tool_depth,
            calls,
            environment,
            mode: _,
            expected: _,
            place: _,
            accepts_cost: _,
        } = ask;
        let question = Event::UserMessage {
            text,
            attachments,
            key: Some(key),
            model,
            origin: TurnOrigin::Asked,
            on_confirm,
            max_tool_depth,
            calls,
            environment: self.said_anew(environment),
        };
        let turn = TurnId(clock::ulid());
        let launched = Event::Norris(NorrisEvent::Launched(Box::new(launch)));
        let facts = vec![fact(turn, by.clone(), question), fact(turn, by, launched)];
        let seq = self.state.last_seq.next();
        match chosen {
            PresetChoice::Ready(preset, told) => self.begin(turn, preset, told, facts).await?,
            PresetChoice::Look => {
                self.commit(&facts, LiveChange::Keep).await?;
                self.look_for_preset(turn);
            }
            PresetChoice::Gone(name) => return Err(RequestError::UnknownModel(name)),
            // Nothing that is named is a list.
            PresetChoice::List(..) => return Err(RequestError::Busy),
        }
        Ok(AcceptedAsk {
            turn,
            seq,
            position: 0,
            duplicate: false,
        })
    }

    /// Pauses or resumes the run. To do so twice changes nothing.
    pub(crate) async fn lead(
        &mut self,
        lead: RunControl,
        by: AnsweringPerson,
    ) -> Result<RunStatus, RequestError> {
        if lead == RunControl::Resume && self.services.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        if lead == RunControl::Resume {
            self.know_layers().await;
        }
        let active = self.turn.as_mut().filter(|it| it.machine.is_run());
        let active = active.ok_or(RequestError::NoRun)?;
        let turn = active.id;
        let step = active.hear(match lead {
            RunControl::Pause => TurnInput::Paused,
            RunControl::Resume => TurnInput::Resumed,
        });
        let before = self.state.norris.clone();
        self.take_led(turn, step, &by).await;
        if self.stalled.is_some() {
            let why = "that still waits for the store";
            return Err(RequestError::Storage(why.to_owned()));
        }
        // One that met a limit as it was resumed is over.
        let standing = self.state.norris.clone().or(before);
        standing.map(|it| *it).ok_or(RequestError::NoRun)
    }

    /// Finds out whether this machine holds layers, before a run counts on them.
    async fn know_layers(&self) {
        let missing = self.services.tools.misses_for_trials(&self.services.trials);
        if let Some(why) = missing.await {
            tracing::info!(conversation = %self.id, why, "the run asks about every command");
        }
    }

    async fn take_led(&mut self, turn: TurnId, step: Step, by: &AnsweringPerson) {
        let ends = step.ends_turn();
        let opens = |it: &Effect| matches!(it, Effect::OpenStream(_));
        let opens = step.effects.iter().any(opens);
        let mut facts: Vec<UncommittedFact> = step
            .events
            .into_iter()
            .map(|event| fact(turn, by.clone(), event))
            .collect();
        if opens {
            facts.extend(self.steering(turn));
        }
        self.settle(PendingCommit::led(facts, step.effects, ends))
            .await;
    }

    /// What the running turn may do unasked.
    pub(crate) fn autonomy(&self) -> Option<Autonomy<'_>> {
        let active = self.turn.as_ref()?;
        let standing = self.standing_of(active.id)?;
        Some(Autonomy {
            levels: &standing.launch.levels,
            heard: active.heard.as_ref(),
        })
    }

    fn standing_of(&self, turn: TurnId) -> Option<&RunStatus> {
        let standing = self.state.norris.as_deref();
        standing.filter(|it| it.turn == turn)
    }

    /// Asks another model about what would begin next. True: all is judged again when it has answered.
    pub(crate) fn ask_for_opinion(
        &mut self,
        owing: &[OwedReplies],
        approved: Option<ContentDigest>,
        judged: &[CallJudgement],
    ) -> bool {
        let Some(active) = &self.turn else {
            return false;
        };
        let (turn, token) = (active.id, active.token.clone());
        let Some(standing) = self.standing_of(turn) else {
            return false;
        };
        // A person's word is worth more.
        if !standing.launch.second_opinion || approved.is_some() {
            return false;
        }
        let refused = |it: &&CallJudgement| matches!(it, CallJudgement::Refuse { .. });
        let next = judged.iter().zip(owing).find(|(it, _)| !refused(it));
        let (action, call, digest) = match next {
            Some((CallJudgement::Run(go), owed)) if go.tool.reach != ToolReach::Conversation => {
                (JudgedAction::of_call(go), owed.id(), go.digest)
            }
            Some((CallJudgement::Execute(run), owed)) => {
                (JudgedAction::of_command(run), owed.id(), run.digest)
            }
            Some((
                CallJudgement::Run(_)
                | CallJudgement::Ask(_)
                | CallJudgement::Refuse { .. }
                | CallJudgement::Later,
                _,
            ))
            | None => {
                return false;
            }
        };
        let is_known = |it: &SecondOpinion| it.call == call && it.digest == digest;
        if active.heard.as_ref().is_some_and(is_known) {
            return false;
        }
        let models = self.models();
        let asking = OpinionRequest {
            broker: self.services.broker.clone(),
            preset: second(&models, &active.model.0),
            budget: self.budget.clone(),
            goal: standing.launch.goal.clone(),
            action,
            within: models.norris.second_opinion_within,
        };
        let call = call.to_owned();
        let name = asking.preset.as_ref().map(|it| it.name.clone());
        let owing = owing.to_vec();
        self.io.spawn(async move {
            let asked = AssertUnwindSafe(asking.ask()).catch_unwind();
            let opinion = match token.run_until_cancelled(asked).await {
                Some(Ok(opinion)) => opinion,
                Some(Err(_panic)) => Opinion::Missing("internal error".to_owned()),
                None => Opinion::Missing("the run was stopped".to_owned()),
            };
            let heard = SecondOpinion {
                call,
                digest,
                preset: name.unwrap_or_default(),
                opinion,
            };
            TaskOutcome::Opinion(turn, Box::new(ReceivedOpinion { heard, owing }))
        });
        true
    }

    /// Another model has answered: all is judged with that, by the rules as they are now.
    pub(crate) async fn opined(&mut self, turn: TurnId, opined: ReceivedOpinion) {
        let stop = self.stop_of_token();
        let Some(active) = self.turn.as_mut().filter(|it| it.id == turn) else {
            return;
        };
        if active.token.is_cancelled() {
            return self.stop_now(stop).await;
        }
        let ReceivedOpinion { heard, owing } = opined;
        active.heard = Some(heard);
        let judge = Effect::Judge {
            owing,
            approved: None,
        };
        if !active.machine.keep_for_later(judge.clone()) {
            self.perform(judge).await;
        }
    }

    pub(crate) fn note_end_inside(&mut self, turn: TurnId, within: BoundaryFailure) {
        if let Some(active) = self.turn.as_mut().filter(|it| it.id == turn) {
            active.failures.ended(within);
        }
    }

    pub(crate) async fn time_is_over(&mut self) {
        if let Some(active) = &mut self.turn {
            let step = active.hear(TurnInput::TimeIsOver);
            self.take_step(step).await;
        }
    }

    /// Takes up a run that another daemon left, and returns what is to be told of that. It stands still; `None`: there is
    /// none that could go on.
    pub(crate) fn take_up_run(&mut self) -> Option<Vec<Event>> {
        let running = self.state.running.clone()?;
        let standing = self.standing_of(running.turn)?.clone();
        let event = |seq| {
            let record = self.services.store.record(self.id, seq);
            record.ok().flatten().map(|it| it.event)
        };
        let (
            Some(Event::TurnStarted { model, source, .. }),
            Some(Event::UserMessage { on_confirm, .. }),
        ) = (event(running.started_seq), event(running.message_seq))
        else {
            tracing::warn!(conversation = %self.id, "a run cannot be read");
            return None;
        };
        let clock = RunClock::of(&self.state, &self.budget);
        let mut run = RunState::of(&standing);
        run.note_spent(clock.spent());
        let (machine, paused) = Turn::take_up(run, running.items, running.usage);
        let on_confirm = on_confirm.unwrap_or_default();
        self.set_turn(running.turn, machine, (model, source), on_confirm, clock);
        tracing::info!(conversation = %self.id, turn = %running.turn, "a run waits to be resumed");
        Some(paused.map(Event::Norris).into_iter().collect())
    }
}
