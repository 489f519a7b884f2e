//! What requests took, on its way into the log; and turns that end because nothing more may be taken.

use std::sync::Arc;

use aish_proto::id::TurnId;
use aishd_log::budget::BudgetReached;
use aishd_log::event::{Event, PresetSource, StopReason};
use aishd_log::spending::{EstimatedTokens, PaidRequest, Payee, SpendingPurpose};
use aishd_model::context_budget::{BytesPerToken, ContextLimit};
use aishd_model::costly_request::CostlyRequest;
use aishd_model::preset::Preset;
use aishd_model::reply::{Reply, RequestFailure};
use aishd_store::Partial;
use aishd_turn::request;
use aishd_turn::transcript::Transcript;
use aishd_turn::turn::{Step, StreamId, TurnInput};

use crate::actor::model_choice::PresetChoice;
use crate::actor::{Conversation, finished};
use crate::context::aside_model::AsideModel;
use crate::pending_commit::UncommittedFact;
use crate::request_error::RequestError;
use crate::spending::budget::{SpendingTicket, bytes_of};
use crate::view::LiveChange;

/// No model takes in as much: where that would not be dear, nothing is.
const MOST_TOKENS: u64 = 100_000_000;

impl Conversation {
    /// A model that is asked beside the conversation.
    pub(crate) fn aside_model(&self, preset: Arc<Preset>) -> AsideModel {
        AsideModel {
            broker: self.services.broker.clone(),
            tokens: self.services.tokens.clone(),
            budget: self.budget.clone(),
            preset: self.services.broker.adapted(preset),
        }
    }

    /// Reads the transcript, and lets the first request of a turn through.
    pub(crate) async fn first_ticket(
        &mut self,
        preset: &Preset,
    ) -> Result<SpendingTicket, RequestError> {
        let read = self.load_transcript().await;
        read.map_err(RequestError::Storage)?;
        let nothing = Transcript::default();
        let transcript = self.transcript.held.as_ref().unwrap_or(&nothing);
        let admitted = self.admit(preset, transcript);
        admitted.map_err(|it| RequestError::Budget(self.id, it))
    }

    /// Refuses a question that a person has to know the price of before it is sent. Which preset a local server gives is not known
    /// before it was looked for, and costs nothing.
    pub(crate) async fn check_cost(
        &mut self,
        question: &Event,
        bytes: u64,
    ) -> Result<(), RequestError> {
        let PresetChoice::Ready(preset, _) = self.choose(question) else {
            return Ok(());
        };
        if preset.is_demo() {
            return Ok(());
        }
        let ratio = self.services.tokens.ratio(&preset);
        let question_tokens = ratio.tokens(bytes);
        let limit = ContextLimit::of(&self.rules(), &preset);
        let context = limit.tokens.map(|it| it.whole);
        let above = self.models().ask_above_usd;
        let at_most = (question_tokens, MOST_TOKENS);
        if CostlyRequest::of(&preset, at_most, context, above).is_none() {
            return Ok(());
        }
        let read = self.load_transcript().await;
        read.map_err(RequestError::Storage)?;
        let nothing = Transcript::default();
        let transcript = self.transcript.held.as_ref().unwrap_or(&nothing);
        let mut history = transcript.bytes();
        if preset.price.is_some() {
            // What goes along with every question costs as much.
            let offer = self.offer_to(&preset);
            let parts = request::parts(&preset, transcript, &offer, &[], transcript.mode());
            let along = parts.system + parts.project + parts.summary + parts.tools;
            history += along as u64;
        }
        let tokens = (question_tokens, ratio.tokens(history));
        match CostlyRequest::of(&preset, tokens, context, above) {
            Some(costly) => Err(RequestError::Costly(costly)),
            None => Ok(()),
        }
    }

    /// A request of about what the transcript holds. What leaves to make it fit does not matter to an expectation.
    pub(crate) fn admit(
        &self,
        preset: &Preset,
        transcript: &Transcript,
    ) -> Result<SpendingTicket, BudgetReached> {
        let bytes = transcript.exchanges().map(|it| it.bytes()).sum();
        self.budget.admit(preset, bytes, SpendingPurpose::Answer)
    }

    /// Charges for the request that has ended with this input.
    pub(crate) fn charge(&mut self, input: &mut TurnInput) -> Option<PaidRequest> {
        let (stream, reply, failure): (StreamId, &mut Reply, Option<&RequestFailure>) =
            match input {
                TurnInput::ReplyFinished(stream, reply)
                | TurnInput::ReplyAbandoned(stream, reply) => (*stream, reply, None),
                TurnInput::ReplyFailed(stream, broken, _) => {
                    (*stream, &mut broken.partial, Some(&broken.failure))
                }
                _ => return None,
            };
        let active = self.turn.as_mut()?;
        let (_, ticket) = active.asking.take_if(|(asked, _)| *asked == stream)?;
        let paid = ticket.charge(reply, failure)?;
        reply.usage = Some(paid.usage);
        Some(paid)
    }

    /// Facts about requests that were made beside the log.
    pub(crate) fn pending_facts(&self, turn: Option<TurnId>) -> Vec<UncommittedFact> {
        let owed = self.budget.pending_events().into_iter();
        owed.map(|event| fact(turn, event)).collect()
    }

    /// The running turn ends before its next request.
    pub(crate) async fn end_for_budget(&mut self, stream: StreamId, reached: BudgetReached) {
        let Some(active) = &mut self.turn else { return };
        active.machine.note_budget(reached.to_string());
        let mut step = Step {
            events: vec![Event::BudgetReached(reached)],
            effects: vec![],
        };
        step.append(active.hear(TurnInput::Stopped(StopReason::Budget)));
        let nothing = TurnInput::ReplyAbandoned(stream, Reply::default());
        step.append(active.hear(nothing));
        Box::pin(self.take_step(step)).await;
    }

    /// A waiting turn ends before its first request. False: the store does not take that now.
    pub(crate) async fn end_unasked(&mut self, turn: TurnId, reached: BudgetReached) -> bool {
        let facts = [
            fact(Some(turn), Event::BudgetReached(reached)),
            fact(Some(turn), finished(StopReason::Budget)),
        ];
        self.commit(&facts, LiveChange::Keep).await.is_ok()
    }

    /// A request that was under way when the last daemon ended has been charged for, as far as anybody can know.
    pub(crate) async fn interrupted_request(
        &mut self,
        partial: Option<&Partial>,
    ) -> Option<PaidRequest> {
        let running = self.state.running.clone()?;
        let asks = running.open_calls.is_empty() && !self.state.requires_action();
        let began = self.state.began.clone();
        let began = began.filter(|it| asks && it.turn == running.turn)?;
        let started = self
            .services
            .store
            .record(self.id, running.started_seq)
            .ok()??;
        let Event::TurnStarted {
            model_id, source, ..
        } = started.event
        else {
            return None;
        };
        let name = began.fell_back.unwrap_or(began.model);
        let preset = match source {
            PresetSource::Demo | PresetSource::None | PresetSource::Imported => return None,
            PresetSource::Configured => self.models().presets.get(&name).cloned(),
            PresetSource::Discovered => None,
        };
        self.load_transcript().await.ok()?;
        let transcript = self.transcript.held.take()?;
        let sent: u64 = transcript.exchanges().map(|it| it.bytes()).sum();
        let arrived = Reply {
            text: partial.map(|it| it.text.clone()).unwrap_or_default(),
            ..Reply::default()
        };
        let (payee, ratio) = match &preset {
            Some(preset) => (
                Payee::new(&name, &preset.model, preset.price, SpendingPurpose::Answer),
                self.services.tokens.ratio(preset),
            ),
            None => (
                Payee::new(&name, &model_id, None, SpendingPurpose::Answer),
                BytesPerToken::default(),
            ),
        };
        let believed = EstimatedTokens {
            input: ratio.tokens(sent),
            output: ratio.tokens(bytes_of(&arrived)),
        };
        let usage = payee.charge(None, believed);
        self.budget.spend(&usage);
        Some(PaidRequest { payee, usage })
    }
}

/// Puts what a request took into what came of it: into its message, or before everything else.
pub(crate) fn note(paid: PaidRequest, events: &mut Vec<Event>) {
    let message = events.iter_mut().find_map(|it| {
        if let Event::AssistantMessage { usage, payee, .. } = it {
            Some((usage, payee))
        } else {
            None
        }
    });
    match message {
        Some((usage, payee)) => {
            *usage = Some(paid.usage);
            *payee = Some(Box::new(paid.payee));
        }
        None => events.insert(0, Event::ModelUsed(Box::new(paid))),
    }
}

fn fact(turn: Option<TurnId>, event: Event) -> UncommittedFact {
    UncommittedFact {
        turn,
        by: None,
        event,
    }
}
