//! A turn that another daemon left waiting for a person goes on here.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aishd_broker::Discovery;
use aishd_log::confirm::{Confirm, ConfirmSubject};
use aishd_log::event::{Event, PresetSource};
use aishd_model::preset::Preset;
use aishd_model::reply::RequestFailure;
use aishd_store::ReadError;
use aishd_turn::turn::{CallListProgress, OwedReplies, Paused, StreamId, Turn};
use futures_util::FutureExt as _;

use crate::actor::request_context::abandoned;
use crate::actor::{Conversation, TaskOutcome, failed};
use crate::turns::active_turn::with_run;
use crate::turns::run_clock::RunClock;
use crate::turns::turn_options::TurnOptions;

/// What the log says of such a turn.
struct WaitingTurn {
    model: (String, PresetSource),
    terms: TurnOptions,
    text: Arc<str>,
    owing: Vec<OwedReplies>,
    called: bool,
    confirm: Confirm,
    course: Option<CallListProgress>,
}

impl Conversation {
    /// Takes up a turn whose only open work is a confirm. False: there is none that could go on.
    pub(crate) fn resume(&mut self) -> bool {
        let Some(running) = self.state.running.clone() else {
            return false;
        };
        let began = running.open_calls.iter().any(|it| it.started);
        if began || !self.state.requires_action() {
            return false;
        }
        let waiting = match self.read_waiting() {
            Ok(Some(waiting)) => waiting,
            Ok(None) => return false,
            Err(error) => {
                tracing::warn!(conversation = %self.id, %error, "a waiting turn cannot be read");
                return false;
            }
        };
        let asked = waiting.confirm.clone();
        let paused = Paused {
            items: running.items,
            depth: running.rounds.saturating_sub(1),
            usage: running.usage,
            text: waiting.text,
            owing: waiting.owing,
            called: waiting.called,
            confirm: waiting.confirm,
            course: waiting.course.map(Box::new),
        };
        let policy = self.services.policy.borrow().clone();
        let mut machine = Turn::resume(paused, waiting.terms.max_depth(&policy));
        machine.set_feed_back(policy.shell.feed_back);
        let machine = with_run(machine, &self.state, running.turn);
        let clock = RunClock::of(&self.state, &self.budget);
        let on_confirm = waiting.terms.on_confirm;
        self.set_turn(running.turn, machine, waiting.model, on_confirm, clock);
        self.wait_for_sign_in(&asked, None);
        tracing::info!(conversation = %self.id, turn = %running.turn, "a turn goes on waiting for a person");
        true
    }

    fn read_waiting(&self) -> Result<Option<WaitingTurn>, ReadError> {
        let Some(running) = &self.state.running else {
            return Ok(None);
        };
        let Some(open) = self.state.turn_confirms().next() else {
            return Ok(None);
        };
        let event = |seq| {
            let record = self.services.store.record(self.id, seq);
            record.map(|it| it.map(|it| it.event))
        };
        let (
            Some(Event::UserMessage {
                on_confirm,
                max_tool_depth,
                calls: list,
                origin,
                ..
            }),
            Some(Event::TurnStarted { model, source, .. }),
            Some(Event::AssistantMessage {
                text,
                calls,
                commands,
                ..
            }),
            Some(Event::ConfirmRequested(confirm)),
        ) = (
            event(running.message_seq)?,
            event(running.started_seq)?,
            event(running.answer_seq)?,
            event(open.seq)?,
        )
        else {
            return Ok(None);
        };
        let course = match &list {
            Some(list) => self.course(list, origin, Some(running))?,
            None => None,
        };
        let called = !calls.is_empty();
        let owed = |it: &OwedReplies| running.open_calls.iter().any(|open| open.id == it.id());
        let mut owing = OwedReplies::of_answer(calls, commands);
        owing.retain(owed);
        // The one that is asked about comes first, or the log is not what this program writes.
        let is_asked = |it: &OwedReplies| confirm.call().is_some_and(|call| call.id == it.id());
        // Others that only read were sent beside a call that waits for a sign-in.
        if let ConfirmSubject::SignIn(_) = &confirm.subject {
            owing.sort_by_key(|it| !is_asked(it));
        }
        let fits = owing.first().is_some_and(is_asked);
        Ok(fits.then_some(WaitingTurn {
            model: (model, source),
            terms: TurnOptions {
                on_confirm: on_confirm.unwrap_or_default(),
                max_tool_depth,
            },
            text,
            owing,
            called,
            confirm: *confirm,
            course,
        }))
    }

    /// Opens a stream, with the preset that the turn began with.
    pub(crate) async fn open_stream_of(&mut self, stream: StreamId) {
        let models = self.models();
        let Some(active) = &mut self.turn else { return };
        if active.preset.is_some() {
            return self.open_stream(stream).await;
        }
        let (turn, (name, source)) = (active.id, active.model.clone());
        let preset = match source {
            PresetSource::Configured => models.presets.get(&name).cloned(),
            PresetSource::Demo => Some(Arc::new(Preset::demo())),
            // A list of calls opens no stream, and nothing is imported into a turn.
            PresetSource::None | PresetSource::Imported => None,
            PresetSource::Discovered => {
                let broker = self.services.broker.clone();
                let token = active.token.clone();
                self.io.spawn(async move {
                    let looking = AssertUnwindSafe(broker.discover(&models)).catch_unwind();
                    let Some(looked) = token.run_until_cancelled(looking).await else {
                        return abandoned(turn, stream);
                    };
                    let discovery = looked.unwrap_or_else(|_panic| Discovery {
                        preset: Arc::new(Preset::demo()),
                        notices: vec![],
                    });
                    TaskOutcome::Found(turn, stream, Box::new(discovery))
                });
                return;
            }
        };
        match preset {
            Some(preset) => {
                active.preset = Some(preset);
                self.find_way();
                self.open_stream(stream).await;
            }
            None => {
                let gone = format!("no model preset is called {name:?} any more");
                self.spawn(turn, stream, async move {
                    failed(stream, RequestFailure::Config(gone))
                });
            }
        }
    }

    /// A local server was found to go on with.
    pub(crate) async fn found(
        &mut self,
        turn: aish_proto::id::TurnId,
        stream: StreamId,
        discovery: Discovery,
    ) {
        let Some(active) = self.turn.as_mut().filter(|it| it.id == turn) else {
            return;
        };
        if active.token.is_cancelled() {
            return Box::pin(self.apply_done(abandoned(turn, stream))).await;
        }
        if discovery.preset.is_demo() {
            let gone = "the local server that answered before is not there any more".to_owned();
            self.spawn(turn, stream, async move {
                failed(stream, RequestFailure::Config(gone))
            });
            return;
        }
        active.preset = Some(discovery.preset);
        self.find_way();
        self.open_stream(stream).await;
    }
}
