//! What left the context is summed up: when, and what waits for it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aish_proto::id::Seq;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::event::{Event, Record};
use aishd_log::rolling_summary::RollingSummary;
use aishd_model::context_budget::LoopMode;
use aishd_model::preset::Preset;
use aishd_turn::exchange::Exchange;
use aishd_turn::request::fit::leaves_soon;
use aishd_turn::transcript::Transcript;
use aishd_turn::turn::StreamId;
use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument as _;

use crate::actor::model_choice::PresetChoice;
use crate::actor::request_context::abandoned;
use crate::actor::{Conversation, TaskOutcome};
use crate::context::evicted_exchanges;
use crate::context::extra_context::GatheredContext;
use crate::context::summarize::{
    DEMO, MOST_WAITING, SummaryAhead, SummaryJob, SummaryOutcome, UnsummarizedExchanges, facts,
    summarize,
};
use crate::pending_commit::{RETRY_LONGEST, UncommittedFact};
use crate::request_error::RequestError;
use crate::turns::active_turn::ActiveTurn;
use crate::view::LiveChange;

impl Conversation {
    /// Who leads the conversation now.
    fn mode(&self) -> LoopMode {
        let transcript = self.transcript.held.as_ref();
        transcript.map_or(LoopMode::Talk, Transcript::mode)
    }

    /// What leaves with these records, where somebody is to sum it up. Asked before they are applied.
    pub(crate) fn leaving(&self, records: &[Record]) -> Vec<Exchange> {
        if self.rules().summarizer(self.mode()).is_none() {
            return vec![];
        }
        let through = records.iter().filter_map(|it| {
            if let Event::Evicted(eviction) = &it.event {
                Some(eviction.through)
            } else {
                None
            }
        });
        let (Some(through), Some(transcript)) = (through.max(), &self.transcript.held) else {
            return vec![];
        };
        let left = transcript.exchanges().filter(|it| it.last() <= through);
        left.cloned().collect()
    }

    /// Has what left summed up, after what is being summed up now.
    pub(crate) fn sum_up(&mut self, mut leaving: Vec<Exchange>) {
        if let Some(running) = &mut self.summing.running
            && let Some(through) = running.ahead
        {
            let before = leaving.len();
            leaving.retain(|it| it.last() > through);
            running.left |= leaving.len() < before;
        }
        // What leaves in a run does so in silence.
        if leaving.is_empty() || self.rules().summarizer(self.mode()).is_none() {
            return;
        }
        self.summing.untold += leaving.len() as u64;
        self.summing.waiting.extend(leaving);
        let too_many = self.summing.waiting.len().saturating_sub(MOST_WAITING);
        self.summing.waiting.drain(..too_many);
        if self.summing.is_idle() {
            self.begin_summary();
        }
    }

    /// Sums up what the next question will have no room for, so that it leaves together with its summary.
    pub(crate) fn look_ahead(&mut self, ended: Option<&ActiveTurn>) {
        let Some(transcript) = &self.transcript.held else {
            return;
        };
        let ends = self.services.draining.is_cancelled() || self.stalled.is_some();
        let nobody = self.rules().summarizer(transcript.mode()).is_none();
        if ends || nobody || !self.summing.is_idle() {
            return;
        }
        let preset = match self.choose_named(self.state.model.as_deref()) {
            PresetChoice::Ready(own, _) => Some(own),
            PresetChoice::Look | PresetChoice::Gone(_) | PresetChoice::List(..) => {
                ended.and_then(|it| it.preset.clone())
            }
        };
        let Some(preset) = preset else { return };
        let preset = self.services.broker.adapted(preset);
        let offer = self.offer_to(&preset);
        let held = ended.map_or(&[][..], |it| &it.held);
        let wanted = self.fit_input(&preset, transcript, &offer, held);
        let (count, certain) = leaves_soon(wanted);
        let leaving: Vec<Exchange> = transcript.exchanges().take(count).cloned().collect();
        if let Some(through) = leaving.iter().map(Exchange::last).max() {
            let ahead = SummaryAhead { through, certain };
            self.make_summary(leaving, count as u64, Some(ahead));
        }
    }

    /// Whether the first request of a turn has to wait, once this has left.
    pub(crate) fn holds_back(&self, transcript: &Transcript, leaving: &[Exchange]) -> bool {
        let somebody = self.rules().summarizer(transcript.mode()).is_some();
        let owes = self.summing.owes() || !leaving.is_empty() || self.owes_from_before(transcript);
        somebody && owes && !self.summing.gave_up
    }

    /// Whether a request has to wait for the summary of what has left.
    pub(crate) fn must_wait(&mut self) -> bool {
        let nobody = self.rules().summarizer(self.mode()).is_none();
        if nobody || self.summing.gave_up || !self.summing.owes() {
            return false;
        }
        let late = self
            .summing
            .deadline()
            .is_none_or(|it| it <= Instant::now());
        self.summing.gave_up = late;
        !late
    }

    /// Has a request of the turn that runs made when there is a summary, or it takes too long.
    pub(crate) fn wait_for_summary(&mut self, stream: StreamId) {
        let Some(active) = &self.turn else { return };
        let (turn, token, held) = (active.id, active.token.clone(), active.held.clone());
        let over = self.summing.over.clone();
        let deadline = self.summing.deadline().unwrap_or_else(Instant::now);
        self.io.spawn(async move {
            let waited = async {
                tokio::select! {
                    () = over.cancelled() => {}
                    () = sleep_until(deadline) => {}
                }
            };
            match token.run_until_cancelled(waited).await {
                Some(()) => {
                    let looked = None;
                    TaskOutcome::Gathered(turn, stream, GatheredContext { held, looked })
                }
                None => abandoned(turn, stream),
            }
        });
    }

    /// Whether something left while another daemon ran, and was never summed up.
    fn owes_from_before(&self, transcript: &Transcript) -> bool {
        self.state.evicted_through > transcript.summed_through()
            && self.services.caught_up.is_unseen(self.id)
    }

    /// Sees to what left and was never summed up, once in the life of a daemon: when a summary is lost, so is who would
    /// have told of it. What leaves from now on waits for it.
    pub(crate) fn catch_up(&mut self, transcript: &Transcript) {
        let nobody = self.rules().summarizer(transcript.mode()).is_none();
        if nobody || !self.summing.is_idle() || !self.services.caught_up.is_first(self.id) {
            return;
        }
        let after = transcript.summed_through();
        if self.state.evicted_through <= after {
            return;
        }
        self.summing.begin(None);
        let (store, id, state) = (self.services.store.clone(), self.id, self.state.clone());
        let number = self.summing.number;
        self.io.spawn(async move {
            let read =
                move || evicted_exchanges::left_after(&store, id, &state, after, MOST_WAITING);
            let exchanges = match tokio::task::spawn_blocking(read).await {
                Ok(Ok(exchanges)) => exchanges,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "what left before cannot be read, nor summed up");
                    vec![]
                }
                Err(_panic) => vec![],
            };
            TaskOutcome::Left(Box::new(UnsummarizedExchanges { number, exchanges }))
        });
    }

    /// Sums up what had left, and then what has left meanwhile.
    pub(crate) fn begin_with(&mut self, left: UnsummarizedExchanges) {
        let UnsummarizedExchanges { number, exchanges } = left;
        self.summing.end();
        if number == self.summing.number {
            self.summing.untold += exchanges.len() as u64;
            self.summing.waiting.splice(0..0, exchanges);
            let too_many = self.summing.waiting.len().saturating_sub(MOST_WAITING);
            self.summing.waiting.drain(..too_many);
        }
        if !self.summing.waiting.is_empty() {
            self.begin_summary();
        }
    }

    /// Takes the summary out of the context, and what would have come into it.
    pub(crate) async fn forget(&mut self, by: AnsweringPerson) -> Result<Seq, RequestError> {
        self.load_transcript()
            .await
            .map_err(RequestError::Storage)?;
        let known = self
            .transcript
            .held
            .as_ref()
            .is_some_and(|it| it.summary().is_some());
        if !known && self.summing.is_idle() {
            return Err(RequestError::NoSummary);
        }
        let nothing = RollingSummary {
            through: self.state.evicted_through,
            ..RollingSummary::default()
        };
        let fact = UncommittedFact {
            turn: None,
            by: Some(by),
            event: Event::SummaryUpdated(Box::new(nothing)),
        };
        let seq = self.commit(&[fact], LiveChange::Keep).await?;
        self.summing.number += 1;
        self.summing.untold = 0;
        self.summing.waiting.clear();
        Ok(seq)
    }

    fn begin_summary(&mut self) {
        let evicted = std::mem::take(&mut self.summing.waiting);
        let count = std::mem::take(&mut self.summing.untold);
        self.make_summary(evicted, count, None);
    }

    fn make_summary(&mut self, evicted: Vec<Exchange>, count: u64, ahead: Option<SummaryAhead>) {
        let through = evicted.iter().map(Exchange::last).max();
        let models = self.models();
        // What waits had left while people talked, whatever goes on now.
        let name = models.context.summarizer(LoopMode::Talk);
        let (Some(through), Some(name)) = (through, name) else {
            return;
        };
        let (number, by) = (self.summing.number, name.to_owned());
        let preset = models.presets.get(name).cloned();
        let preset = preset.or_else(|| (name == DEMO).then(|| Arc::new(Preset::demo())));
        let prior = self.transcript.held.as_ref().and_then(|it| it.summary());
        let job = preset.map(|preset| SummaryJob {
            model: self.aside_model(preset),
            prior: prior.map(|it| it.text.clone()),
            evicted,
            through,
            max_chars: models.context.max_summary_chars,
        });
        self.summing.begin(ahead.map(|it| it.through));
        let work = async move {
            let outcome = match job {
                None => Err("there is no such preset".to_owned()),
                Some(job) => {
                    let made = AssertUnwindSafe(summarize(job)).catch_unwind().await;
                    made.unwrap_or_else(|_panic| Err("internal error".to_owned()))
                }
            };
            TaskOutcome::Summed(Box::new(SummaryOutcome {
                number,
                count,
                by,
                outcome,
                owed: vec![],
                ahead,
            }))
        };
        self.io
            .spawn(Box::pin(work.instrument(tracing::info_span!("summary"))));
    }

    /// Writes a summary down, or says that there is none; what left meanwhile is next.
    pub(crate) async fn summed(&mut self, mut summed: SummaryOutcome) {
        if summed.number == self.summing.number {
            // What was paid for it meanwhile is kept with it until the store takes both.
            summed.owed.extend(self.pending_facts(None));
            let mut told = summed.owed.clone();
            told.extend(self.facts_of(&summed));
            if let Err(error) = self.commit(&told, LiveChange::Keep).await {
                tracing::warn!(%error, "a summary waits for the store; the one before it stays");
                self.io.spawn(async move {
                    tokio::time::sleep(RETRY_LONGEST).await;
                    TaskOutcome::Summed(Box::new(summed))
                });
                return;
            }
        }
        self.summing.gave_up = summed.outcome.is_err();
        self.summing.end();
        if !self.summing.waiting.is_empty() {
            self.begin_summary();
        } else if self.turn.is_none() && summed.ahead.is_none() && summed.outcome.is_ok() {
            self.look_ahead(None);
        }
    }

    /// What is written down of a summary, with the leaving of what has not left yet.
    fn facts_of(&self, summed: &SummaryOutcome) -> Vec<UncommittedFact> {
        let Some(ahead) = summed.ahead else {
            return facts(summed);
        };
        let left = self.summing.running.is_some_and(|it| it.left);
        // A run goes on with all that it has, and what is likely to leave may stay where nobody can sum it up.
        let (Some(transcript), LoopMode::Talk) = (&self.transcript.held, self.mode()) else {
            return if left { facts(summed) } else { vec![] };
        };
        if let Err(error) = &summed.outcome
            && !left
            && !ahead.certain
        {
            tracing::warn!(
                error,
                by = summed.by,
                "what leaves next is not summed up yet"
            );
            return vec![];
        }
        let leave = transcript.exchanges();
        let leave = leave.take_while(|it| it.last() <= ahead.through).count();
        let eviction = transcript.eviction(leave, &self.state);
        if eviction.is_none() && !left {
            return vec![];
        }
        let evicted = eviction.map(|it| UncommittedFact {
            turn: self.turn.as_ref().map(|it| it.id),
            by: None,
            event: Event::Evicted(Box::new(it)),
        });
        evicted.into_iter().chain(facts(summed)).collect()
    }
}
