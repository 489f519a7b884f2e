//! Questions: taking them in, and starting the next turn.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aish_proto::id::TurnId;
use aishd_broker::Discovery;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::confirm::OnConfirm;
use aishd_log::event::{Attachment, Event, IdempotencyKey, ProviderLevel, StopReason, TurnOrigin};
use aishd_log::pattern::Patterns;
use aishd_model::context_budget::ContextLimit;
use aishd_model::model_settings::ModelSettings;
use aishd_model::preset::Preset;
use aishd_platform::{clock, failpoint};
use aishd_rules::catalog::ToolOffer;
use aishd_turn::exchange::Exchange;
use aishd_turn::request::fit::FittedRequest;
use aishd_turn::transcript::Transcript;
use aishd_turn::turn::{Effect, Step, StreamId, Turn};
use futures_util::FutureExt as _;

use crate::actor::model_choice::{ChoiceReport, MOST_STEPS_BACK, PresetChoice, preset_gone};
use crate::actor::{Conversation, TaskOutcome};
use crate::context::extra_context::DirectoryLook;
use crate::pending_commit::{RETRY_LONGEST, UncommittedFact};
use crate::request_error::RequestError;
use crate::requests::{AcceptedAsk, AskAgain, AskMode, AskPlace, AskRequest, RepeatAsk};
use crate::turns::active_turn::with_run;
use crate::turns::run_clock::RunClock;
use crate::turns::turn_options::TurnOptions;
use crate::view::LiveChange;
use crate::view::live_item::LiveItem;

/// What a question says itself.
fn question_bytes(text: &str, attachments: &[Attachment]) -> u64 {
    text.len() as u64 + attachments.iter().map(Attachment::weight).sum::<u64>()
}

impl Conversation {
    pub(crate) async fn accept(&mut self, ask: AskRequest) -> Result<AcceptedAsk, RequestError> {
        if let Some(known) = self.known_ask(&ask.key)? {
            return Ok(known);
        }
        if ask.place == AskPlace::New && self.unborn.is_none() {
            return Err(RequestError::Exists);
        }
        if self.services.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        let running = self.state.running.as_ref().map(|it| it.turn);
        if ask.expected.is_some() && ask.expected != running {
            return Err(RequestError::StaleTurn { running });
        }
        if let Some(name) = &ask.model {
            self.check_model(name)?;
        }
        let bytes = question_bytes(&ask.text, &ask.attachments);
        let event = Event::UserMessage {
            text: ask.text,
            attachments: ask.attachments,
            key: Some(ask.key),
            model: ask.model,
            origin: TurnOrigin::Asked,
            on_confirm: ask.on_confirm,
            max_tool_depth: ask.max_tool_depth,
            calls: ask.calls,
            environment: self.said_anew(ask.environment),
        };
        self.check_pictures(&event)?;
        if !ask.accepts_cost {
            self.check_cost(&event, bytes).await?;
        }
        let turn = TurnId(clock::ulid());
        self.take_in(turn, ask.by, event, ask.mode).await
    }

    pub(crate) async fn accept_again(
        &mut self,
        again: AskAgain,
    ) -> Result<AcceptedAsk, RequestError> {
        if let Some(known) = self.known_ask(&again.key)? {
            return Ok(known);
        }
        if self.services.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        if self.state.running.is_some() || self.resolving.is_some() {
            return Err(RequestError::Busy);
        }
        if let Some(name) = &again.model {
            self.check_model(name)?;
        }
        let old = again
            .turn
            .or(self.state.last_turn)
            .ok_or(RequestError::NothingToRepeat)?;
        let (old, question) = self.to_repeat(again.kind, old)?;
        let Event::UserMessage {
            text,
            attachments,
            on_confirm,
            max_tool_depth,
            calls,
            ..
        } = question
        else {
            return Err(RequestError::UnknownTurn(old));
        };
        let origin = again.kind.origin(old);
        let (text, attachments) = match (again.kind, &calls) {
            (RepeatAsk::Retry, _) => (text, attachments),
            (RepeatAsk::Continue, Some(list)) => {
                self.check_rest(list, origin)?;
                (text, attachments)
            }
            // The model goes on with what it has said last, whichever turn was named.
            (RepeatAsk::Continue, None) if self.state.last_turn != Some(old) => {
                return Err(RequestError::NotLast(old));
            }
            (RepeatAsk::Continue, None) => ("continue".to_owned(), vec![]),
        };
        let bytes = question_bytes(&text, &attachments);
        let event = Event::UserMessage {
            text,
            attachments,
            key: Some(again.key),
            model: again.model,
            origin,
            // What a person wanted of the old turn's confirms, without what was allowed for it alone.
            on_confirm: on_confirm.map(|it| OnConfirm {
                allow: Patterns::default(),
                ..it
            }),
            max_tool_depth,
            calls,
            environment: self.said_anew(again.environment),
        };
        self.check_pictures(&event)?;
        if !again.accepts_cost {
            self.check_cost(&event, bytes).await?;
        }
        // It goes ahead of what waits: the queue was held for exactly this.
        let turn = TurnId(clock::ulid());
        self.start_with(turn, again.by, event).await
    }

    /// The turn that is meant and its question: where a continuation is to be asked again, those that it went on from.
    fn to_repeat(
        &self,
        kind: RepeatAsk,
        mut turn: TurnId,
    ) -> Result<(TurnId, Event), RequestError> {
        for _ in 0..MOST_STEPS_BACK {
            let place = self.services.store.find_turn(turn)?;
            let place = place.filter(|it| it.conversation == self.id);
            let place = place.ok_or(RequestError::UnknownTurn(turn))?;
            let question = self.question(place.message_seq)?;
            let question = question.ok_or(RequestError::UnknownTurn(turn))?;
            let goes_on_from = if let Event::UserMessage {
                origin: TurnOrigin::Continue(before),
                calls: None,
                ..
            } = &question
            {
                Some(*before)
            } else {
                None
            };
            match (kind, goes_on_from) {
                (RepeatAsk::Retry, Some(before)) => turn = before,
                (RepeatAsk::Retry, None) | (RepeatAsk::Continue, _) => return Ok((turn, question)),
            }
        }
        Err(RequestError::UnknownTurn(turn))
    }

    /// The record of a key that was used before.
    pub(crate) fn known_ask(
        &self,
        key: &IdempotencyKey,
    ) -> Result<Option<AcceptedAsk>, RequestError> {
        if self.unborn.is_some() {
            return Ok(None);
        }
        let Some(used) = self.services.store.find_key(self.id, &key.key)? else {
            return Ok(None);
        };
        if used.body != key.body {
            return Err(RequestError::KeyReused);
        }
        let waits = self.state.queue.iter().position(|it| it.turn == used.turn);
        Ok(Some(AcceptedAsk {
            turn: used.turn,
            seq: used.message_seq,
            position: match waits {
                Some(at) if self.resolving != Some(used.turn) => {
                    u32::try_from(at + 1).unwrap_or(u32::MAX)
                }
                Some(_) | None => 0,
            },
            duplicate: true,
        }))
    }

    /// What holds where this conversation is.
    pub(crate) fn models(&self) -> Arc<ModelSettings> {
        self.services
            .models
            .borrow()
            .within(&self.state.cwd)
            .clone()
    }

    pub(crate) fn check_model(&self, name: &str) -> Result<(), RequestError> {
        let known = self.models().by_name(name).map(|_| ());
        known.ok_or_else(|| RequestError::UnknownModel(name.to_owned()))
    }

    async fn take_in(
        &mut self,
        turn: TurnId,
        by: AnsweringPerson,
        event: Event,
        mode: AskMode,
    ) -> Result<AcceptedAsk, RequestError> {
        let runs = self.turn.is_some() || self.resolving.is_some();
        if !runs && self.state.queue.is_empty() {
            return self.start_with(turn, by, event).await;
        }
        if mode == AskMode::Reject {
            return Err(RequestError::Busy);
        }
        let queued = self.state.queue.len();
        if queued >= self.services.max_queue {
            return Err(RequestError::QueueFull { queued });
        }
        let position = u32::try_from(queued + 1).unwrap_or(u32::MAX);
        let steer = mode == AskMode::Steer && runs;
        let facts = vec![
            fact(turn, by.clone(), event),
            fact(turn, by, Event::TurnQueued { position, steer }),
        ];
        failpoint::pass("ask.before_store");
        let seq = self.state.last_seq.next();
        self.commit(&facts, LiveChange::Keep).await?;
        failpoint::pass("ask.after_store");
        Ok(AcceptedAsk {
            turn,
            seq,
            position,
            duplicate: false,
        })
    }

    /// Stores a question and starts its turn in one commit; the request is on its way meanwhile.
    async fn start_with(
        &mut self,
        turn: TurnId,
        by: AnsweringPerson,
        event: Event,
    ) -> Result<AcceptedAsk, RequestError> {
        let chosen = self.choose(&event);
        let seq = self.state.last_seq.next();
        let mut facts = vec![fact(turn, by.clone(), event)];
        failpoint::pass("ask.before_store");
        match chosen {
            PresetChoice::List(list, origin) => {
                Box::pin(self.begin_list(turn, &list, origin, facts)).await?;
            }
            PresetChoice::Ready(preset, routed) => {
                self.begin(turn, preset, routed, facts).await?;
            }
            PresetChoice::Look => {
                // It stands first in the queue until its preset is known.
                if !self.state.queue.is_empty() {
                    let (position, steer) = (1, false);
                    facts.push(fact(turn, by, Event::TurnQueued { position, steer }));
                }
                self.commit(&facts, LiveChange::Keep).await?;
                self.look_for_preset(turn);
            }
            PresetChoice::Gone(name) => {
                facts.push(preset_gone(turn, &name));
                self.commit(&facts, LiveChange::Keep).await?;
            }
        }
        failpoint::pass("ask.after_store");
        Ok(AcceptedAsk {
            turn,
            seq,
            position: 0,
            duplicate: false,
        })
    }

    /// Starts the next waiting turn, unless an interruption holds the queue.
    pub(crate) async fn start_next(&mut self) {
        if !self.state.is_held() {
            self.start_first().await;
        }
    }

    /// Starts the first waiting turn, held or not.
    pub(crate) async fn start_first(&mut self) {
        let idle = self.turn.is_none() && self.resolving.is_none() && self.stalled.is_none();
        if !idle || self.services.draining.is_cancelled() {
            return;
        }
        let Some(queued) = self.state.queue.first() else {
            return;
        };
        let turn = queued.turn;
        let chosen = match self.question(queued.message_seq) {
            Ok(Some(question)) => self.choose(&question),
            Ok(None) => self.choose_named(None),
            Err(error) => return self.start_later(turn, &error.into()),
        };
        match chosen {
            PresetChoice::List(list, origin) => {
                let begun = Box::pin(self.begin_list(turn, &list, origin, vec![])).await;
                if let Err(error) = begun {
                    self.start_later(turn, &error);
                }
            }
            PresetChoice::Ready(preset, routed) => {
                let begun = self.begin(turn, preset, routed, vec![]).await;
                self.unless_begun(turn, begun).await;
            }
            PresetChoice::Look => self.look_for_preset(turn),
            PresetChoice::Gone(name) => {
                match self
                    .commit(&[preset_gone(turn, &name)], LiveChange::Keep)
                    .await
                {
                    Ok(_) => Box::pin(self.start_next()).await,
                    Err(error) => self.start_later(turn, &error.into()),
                }
            }
        }
    }

    pub(crate) fn look_for_preset(&mut self, turn: TurnId) {
        self.resolving = Some(turn);
        let broker = self.services.broker.clone();
        let models = self.models();
        self.io.spawn(async move {
            let looked = AssertUnwindSafe(broker.discover(&models))
                .catch_unwind()
                .await;
            let discovery = looked.unwrap_or_else(|_panic| Discovery {
                preset: Arc::new(Preset::demo()),
                notices: vec![
                    "looking for a local model failed; the built-in demo answers".to_owned(),
                ],
            });
            TaskOutcome::Resolved(turn, Box::new(discovery))
        });
    }

    /// The store would not take the start of a waiting turn: try again in a while.
    fn start_later(&mut self, turn: TurnId, error: &RequestError) {
        tracing::error!(%turn, %error, "a waiting turn cannot start");
        self.resolving = Some(turn);
        self.io.spawn(async move {
            tokio::time::sleep(RETRY_LONGEST).await;
            TaskOutcome::StartAgain(turn)
        });
    }

    pub(crate) async fn resolved(&mut self, turn: TurnId, discovery: Discovery) {
        if self.state.queue.first().map(|it| it.turn) != Some(turn) {
            // Another one was put before it meanwhile.
            return Box::pin(self.start_first()).await;
        }
        if self.services.draining.is_cancelled() {
            return;
        }
        let notices = discovery.notices.into_iter().map(|text| UncommittedFact {
            turn: Some(turn),
            by: None,
            event: Event::Status {
                level: ProviderLevel::Info,
                text,
            },
        });
        let told = ChoiceReport::default();
        let begun = self
            .begin(turn, discovery.preset, told, notices.collect())
            .await;
        self.unless_begun(turn, begun).await;
    }

    /// A waiting turn that cannot start ends where that will not change by itself, and else is tried again.
    async fn unless_begun(&mut self, turn: TurnId, begun: Result<(), RequestError>) {
        match begun {
            Ok(()) => {}
            Err(RequestError::Budget(_, reached)) if self.end_unasked(turn, reached).await => {
                Box::pin(self.start_next()).await;
            }
            Err(error) => self.start_later(turn, &error),
        }
    }

    /// Starts a turn: `facts`, its start and what is told of its preset are one commit, and the model is asked while that
    /// is written.
    #[expect(
        clippy::too_many_lines,
        reason = "one commit, whose parts are made in the order in which they need each other"
    )]
    pub(crate) async fn begin(
        &mut self,
        turn: TurnId,
        preset: Arc<Preset>,
        routed: ChoiceReport,
        mut facts: Vec<UncommittedFact>,
    ) -> Result<(), RequestError> {
        let preset = self.services.broker.adapted(preset);
        let limit = ContextLimit::of(&self.rules(), &preset);
        let started = Event::TurnStarted {
            model: preset.name.clone(),
            model_id: preset.model.clone(),
            source: preset.source,
            context_tokens: limit.tokens.map(|it| it.whole),
        };
        let told = std::iter::once(started).chain(routed.events);
        facts.extend(told.map(|event| UncommittedFact {
            turn: Some(turn),
            by: None,
            event,
        }));
        facts.extend(self.steering(turn));
        let ticket = self.first_ticket(&preset).await?;
        let mut commit = self.number(&facts);
        let terms = self.terms(turn, &facts);
        let policy = self.services.policy.borrow().clone();
        let (mut machine, step) = Turn::start(terms.max_depth(&policy));
        machine.set_feed_back(policy.shell.feed_back);
        let machine = with_run(machine, &commit.state, turn);
        let model = (preset.name.clone(), preset.source);
        let clock = RunClock::start(&self.budget);
        let active = self.set_turn(turn, machine, model, terms.on_confirm, clock);
        active.preset = Some(preset.clone());
        let token = active.token.clone();
        self.find_way();
        let offers_shell = self.offers_shell();
        let mut transcript = self.transcript.held.take().unwrap_or_default();
        commit.records.iter().for_each(|it| transcript.apply(it));
        let offer = Arc::new(self.offer_of(Some(&preset), offers_shell, Some(&transcript)));
        if let Some(active) = &mut self.turn {
            active.offer = Some(offer.clone());
        }
        transcript.set_shell(self.shell_told(&transcript, Some(&commit)));
        let applied = commit.records.len();
        if let Some(active) = &mut self.turn {
            active.machine.goes_on_from(transcript.goes_on_from());
        }
        self.services.tools.freshen();
        let opened = opened_by(&step);
        // What is told beside the log has to be read before anybody can say what fits.
        let waits = opened.and_then(|it| Some((it, self.extra_context(DirectoryLook::Once)?)));
        let fitted = waits
            .is_none()
            .then(|| self.fit(&preset, &transcript, &offer, &[]));
        let fits = matches!(fitted, Some(Ok(_)));
        let leaving = match &fitted {
            Some(Ok(fit)) => self.leaving_for(&preset, &transcript, &offer, fit),
            Some(Err(_)) | None => vec![],
        };
        self.remark_on(&offer, &preset);
        let mut more = self.remark_facts(turn);
        more.extend(self.choice_fact(turn, &offer));
        more.extend(self.eviction_facts(turn, &transcript, leaving.len()));
        if !more.is_empty() {
            facts.extend(more);
            commit = self.number(&facts);
        }
        let live = Arc::new(LiveItem::new(turn, 0, commit.state.last_seq));
        let held_back = opened.filter(|_| self.holds_back(&transcript, &leaving));
        let asking = match (opened, fitted) {
            (Some(_), Some(Ok(_))) if held_back.is_some() => None,
            (Some(stream), Some(Ok(fit))) => {
                self.spawn_stream(stream, (preset.clone(), ticket), fit.body, live.clone())
            }
            (Some(stream), Some(Err(error))) => self.refuse_stream(stream, &error),
            (_, None) | (None, Some(_)) => None,
        };
        let later = commit.records.iter().skip(applied);
        later.for_each(|it| transcript.apply(it));
        if let Err(error) = self.services.store.commit(commit.clone()).await {
            // Not asked, then: the stream goes, and the transcript is read again when it is needed.
            token.cancel();
            self.unask(asking).await;
            return Err(error.into());
        }
        self.unknown_told.extend(routed.unknown);
        // Before what leaves now.
        self.catch_up(&transcript);
        self.publish(commit.records, commit.state, LiveChange::End);
        self.transcript.held = Some(transcript);
        self.sum_up(leaving);
        self.publisher.begin_live(live);
        if let Some((stream, beside)) = waits {
            self.read_beside(stream, beside);
        } else if let Some(stream) = held_back.filter(|_| fits) {
            self.wait_for_summary(stream);
        }
        self.rules_count().await;
        Ok(())
    }

    /// What leaves the conversation for a first request that nothing has to be read for.
    fn leaving_for(
        &self,
        preset: &Preset,
        transcript: &Transcript,
        offer: &ToolOffer,
        fit: &FittedRequest,
    ) -> Vec<Exchange> {
        let count = self.leave_for_good(preset, transcript, offer, &[], fit.leaving.len());
        fit.leaving.iter().take(count).cloned().collect()
    }

    /// Questions that wait to join the running turn, as facts that let them.
    pub(crate) fn steering(&self, running: TurnId) -> Vec<UncommittedFact> {
        let queue = self.state.queue.iter();
        let joins = queue.filter(|it| it.steer && it.turn != running);
        joins
            .map(|it| {
                let mut event = crate::actor::finished(StopReason::End);
                if let Event::TurnFinished { merged_into, .. } = &mut event {
                    *merged_into = Some(running);
                }
                UncommittedFact {
                    turn: Some(it.turn),
                    by: None,
                    event,
                }
            })
            .collect()
    }

    /// Of a turn that starts: its question is one of `facts`, or waits.
    pub(crate) fn terms(&self, turn: TurnId, facts: &[UncommittedFact]) -> TurnOptions {
        let own = |it: &&UncommittedFact| it.turn == Some(turn);
        let said = facts.iter().filter(own);
        if let Some(said) = said
            .filter_map(|it| TurnOptions::from_event(&it.event))
            .next()
        {
            return said;
        }
        let queued = self.state.queue.iter().find(|it| it.turn == turn);
        let question = queued.and_then(|it| {
            let record = self.services.store.record(self.id, it.message_seq);
            record.ok().flatten()
        });
        question
            .and_then(|it| TurnOptions::from_event(&it.event))
            .unwrap_or_default()
    }
}

pub(crate) fn fact(turn: TurnId, by: AnsweringPerson, event: Event) -> UncommittedFact {
    UncommittedFact {
        turn: Some(turn),
        by: Some(by),
        event,
    }
}

/// The stream that a turn begins with.
fn opened_by(step: &Step) -> Option<StreamId> {
    step.effects.iter().find_map(|it| match it {
        Effect::OpenStream(stream) => Some(*stream),
        _ => None,
    })
}
