//! What a request shows of the conversation: made to fit before it is sent (CTX-1), and looked at beforehand. Both come
//! from [`fit`], so that a preview is the bytes that would be sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aish_proto::id::TurnId;

use super::choose::Chosen;
use super::commit::{Fact, Pending};
use super::handle::RequestError;
use super::live::Live;
use super::perform::{Body, Unread};
use super::view::LiveChange;
use super::{Conversation, failed};
use crate::clock;
use crate::core::budget::{BytesPerToken, Limit, Mode};
use crate::core::catalog::Offer;
use crate::core::event::{Event, Level, Origin};
use crate::core::exchange::{Eviction, Exchange};
use crate::core::preset::Preset;
use crate::core::reply::Failure;
use crate::core::request::fit::{Fit, TooLong, Wanted, fit, next_to_leave};
use crate::core::request::{self, Parts};
use crate::core::transcript::Transcript;
use crate::core::turn::{Effect, StreamId};
use crate::tools::Tools;

/// What is to be looked at.
#[derive(Clone, Debug)]
pub struct Previewing {
    /// A question as if it were asked now.
    pub text: Option<String>,
    /// A preset by name.
    pub model: Option<String>,
    /// One that was found on this machine, for a conversation that has none.
    pub found: Option<Arc<Preset>>,
}

/// A request that is not sent.
#[derive(Debug)]
pub enum Previewed {
    /// No preset is configured, so one has to be looked for first.
    Look,
    Fits(Box<Preview>),
    TooLong(Arc<Preset>, TooLong),
}

#[derive(Debug)]
pub struct Preview {
    pub preset: Arc<Preset>,
    pub limit: Limit,
    pub ratio: BytesPerToken,
    pub leaving: Vec<Exchange>,
    /// What would leave next.
    pub next: Vec<Exchange>,
    pub turns: usize,
    pub shortened: usize,
    pub parts: Parts,
    /// Of questions, answers and results.
    pub messages: u64,
    /// Of the body without pinned resources.
    pub bytes: usize,
    body: Body,
}

impl Preview {
    /// The body as it would go out, with what pinned resources hold now.
    pub async fn body(self) -> String {
        self.body.text().await
    }
}

impl Conversation {
    /// What people keep for all conversations stands in the next request as it is now.
    fn tell_background(&mut self) {
        let most = self.models().memory.max_chars;
        if let Some(transcript) = &mut self.transcript {
            transcript.set_background(self.around.book.background(most));
        }
    }

    /// Makes a request of this transcript fit.
    pub(super) fn fit(
        &self,
        preset: &Preset,
        transcript: &Transcript,
        offer: &Offer,
    ) -> Result<Fit, TooLong> {
        fit(self.wanted(preset, transcript, offer))
    }

    fn wanted<'a>(
        &self,
        preset: &'a Preset,
        transcript: &'a Transcript,
        offer: &'a Offer,
    ) -> Wanted<'a> {
        let pinned_bytes = if self.state.pinned.is_empty() {
            0
        } else {
            self.pinned_bytes.load(Ordering::Relaxed)
        };
        Wanted {
            preset,
            transcript,
            offer,
            pinned_bytes,
            limit: Limit::of(&self.models().context, preset),
            ratio: self.around.tokens.ratio(preset),
            mode: transcript.mode(),
        }
    }

    /// What is written down where exchanges leave; where a model is to sum them up, people are told when it has.
    pub(super) fn eviction_facts(
        &self,
        turn: TurnId,
        transcript: &Transcript,
        count: usize,
    ) -> Vec<Fact> {
        let Some(eviction) = transcript.eviction(count, &self.state) else {
            return vec![];
        };
        let count = eviction.count;
        let mut events = vec![Event::Evicted(Box::new(eviction))];
        let mode = transcript.mode();
        match (mode, self.models().context.summarizer(mode)) {
            (Mode::Talk, None) => events.push(Event::Status {
                level: Level::Info,
                text: format!(
                    "{} left the context; originals archived — :context archive",
                    old_turns(count)
                ),
            }),
            (Mode::Talk, Some(_)) | (Mode::Norris, _) => {}
        }
        let fact = |event| Fact {
            turn: Some(turn),
            by: None,
            event,
        };
        events.into_iter().map(fact).collect()
    }

    /// What could leave where a server says that a request was too much.
    pub(super) fn evictable(&self, failure: &Failure) -> Option<Box<Eviction>> {
        if matches!(failure, Failure::TooLong(_)) {
            // Its last exchange alone is too long.
            return None;
        }
        let transcript = self.transcript.as_ref()?;
        let older_half = transcript.exchanges().len() / 2;
        transcript.eviction(older_half, &self.state).map(Box::new)
    }

    /// Sends the transcript to the model.
    pub(super) async fn open_stream(&mut self, stream: StreamId) {
        let offer = Arc::new(self.offer());
        self.around.tools.freshen();
        let Some(active) = &mut self.turn else {
            return;
        };
        active.offer = Some(offer.clone());
        if let Some(preset) = active.preset.clone() {
            self.ask_model(Effect::OpenStream(stream), stream, preset, &offer)
                .await;
        }
    }

    /// Sends the same to the preset that the turn falls back to.
    pub(super) async fn open_fallback(&mut self, stream: StreamId) {
        let active = self.turn.as_ref();
        let offer = active.and_then(|it| it.offer.clone());
        let offer = offer.unwrap_or_else(|| Arc::new(self.offer()));
        if let Some(preset) = active.and_then(|it| it.second.clone()) {
            self.ask_model(Effect::OpenFallback(stream), stream, preset, &offer)
                .await;
        }
    }

    /// Once what has to leave for it is written down; the text shows after the log as it stands.
    async fn ask_model(
        &mut self,
        effect: Effect,
        stream: StreamId,
        preset: Arc<Preset>,
        offer: &Arc<Offer>,
    ) {
        let tools = self.tools();
        self.tell_background();
        let (Some(active), Some(transcript)) = (&self.turn, &self.transcript) else {
            return;
        };
        let turn = active.id;
        let fit = match self.fit(&preset, transcript, offer) {
            Ok(fit) => fit,
            Err(error) => return self.refuse_stream(stream, &error),
        };
        let facts = self.eviction_facts(turn, transcript, fit.leaving.len());
        if !facts.is_empty()
            && let Err(error) = self.commit(&facts, LiveChange::Keep).await
        {
            return self.wait_for_store(Pending::before_stream(facts, effect), &error);
        }
        let (Some(active), Some(transcript)) = (&self.turn, &self.transcript) else {
            return;
        };
        let live = Arc::new(Live::new(
            active.id,
            active.machine.item(),
            self.state.last_seq,
        ));
        let body = self.body_of(fit, &preset, transcript, offer, tools);
        self.spawn_stream(stream, preset, body, live.clone());
        self.publisher.begin_live(live);
    }

    /// A request that there is no room for: it ends as one that failed.
    pub(super) fn refuse_stream(&mut self, stream: StreamId, error: &TooLong) {
        let Some(active) = &self.turn else { return };
        let failure = Failure::TooLong(error.to_string());
        self.spawn(active.id, stream, async move { failed(stream, failure) });
    }

    /// What a request says, once it is known what pinned resources hold.
    pub(super) fn body_of(
        &self,
        fit: Fit,
        preset: &Arc<Preset>,
        transcript: &Transcript,
        offer: &Arc<Offer>,
        tools: Tools,
    ) -> Body {
        if self.state.pinned.is_empty() {
            return Body::Ready(fit.body);
        }
        Body::Pinned(Box::new(Unread {
            preset: preset.clone(),
            transcript: fit.shown.unwrap_or_else(|| transcript.clone()),
            offer: offer.clone(),
            pinned: self.state.pinned.clone(),
            tools,
            bytes: self.pinned_bytes.clone(),
            mode: transcript.mode(),
        }))
    }

    /// How the preset of such a question is found; without one, that of a question that is not routed.
    fn chosen_for(&mut self, model: Option<String>, text: Option<&str>) -> Chosen {
        match text {
            Some(text) => self.choose(&question(text.to_owned(), model)),
            None => self.choose_named(model.or_else(|| self.state.model.clone()).as_deref()),
        }
    }

    /// The request that would be sent. Nothing is stored, and nothing leaves.
    pub(super) async fn preview(
        &mut self,
        previewing: Previewing,
    ) -> Result<Previewed, RequestError> {
        self.load_transcript()
            .await
            .map_err(RequestError::Storage)?;
        let Previewing { text, model, found } = previewing;
        if let Some(name) = &model {
            self.check_model(name)?;
        }
        let running = self.turn.as_ref().and_then(|it| it.preset.clone());
        let preset = match (running, &model, &text, found) {
            (Some(preset), None, None, _) => preset,
            (_, _, _, Some(found)) => found,
            (_, _, _, None) => match self.chosen_for(model, text.as_deref()) {
                Chosen::Ready(preset, _) => preset,
                Chosen::Gone(name) => return Err(RequestError::UnknownModel(name)),
                Chosen::Look | Chosen::List(..) => return Ok(Previewed::Look),
            },
        };
        let offer = Arc::new(self.offer_to(&preset));
        let tools = self.tools();
        self.tell_background();
        let Some(transcript) = &self.transcript else {
            return Ok(Previewed::Look);
        };
        let mut transcript = transcript.clone();
        if let Some(text) = text {
            let turn = TurnId(clock::ulid());
            for record in self.number(&asked(turn, text, &preset)).records {
                transcript.apply(&record);
            }
        }
        let wanted = self.wanted(&preset, &transcript, &offer);
        let fitted = match fit(wanted) {
            Ok(fitted) => fitted,
            Err(error) => return Ok(Previewed::TooLong(preset, error)),
        };
        let shown = fitted.shown.as_ref().unwrap_or(&transcript);
        let then = Wanted {
            transcript: shown,
            ..wanted
        };
        let next = next_to_leave(then, fitted.tokens);
        let next = shown.exchanges().take(next).cloned().collect();
        let turns = shown.exchanges().len();
        let messages = shown.exchanges().map(Exchange::bytes).sum();
        let parts = request::parts(&preset, shown, &offer, shown.mode());
        let (limit, ratio) = (wanted.limit, wanted.ratio);
        let (bytes, shortened) = (fitted.body.len(), fitted.shortened);
        let leaving = fitted.leaving.clone();
        let body = self.body_of(fitted, &preset, &transcript, &offer, tools);
        Ok(Previewed::Fits(Box::new(Preview {
            preset,
            limit,
            ratio,
            leaving,
            next,
            turns,
            shortened,
            parts,
            messages,
            bytes,
            body,
        })))
    }
}

/// A question as it would be asked.
fn question(text: String, model: Option<String>) -> Event {
    Event::UserMessage {
        text,
        attachments: vec![],
        key: None,
        model,
        origin: Origin::Asked,
        on_confirm: None,
        max_tool_depth: None,
        calls: None,
    }
}

/// The facts of a question whose turn starts, as the log would have them.
fn asked(turn: TurnId, text: String, preset: &Preset) -> [Fact; 2] {
    let question = question(text, None);
    let started = Event::TurnStarted {
        model: preset.name.clone(),
        model_id: preset.model.clone(),
        source: preset.source,
    };
    [question, started].map(|event| Fact {
        turn: Some(turn),
        by: None,
        event,
    })
}

/// So many exchanges, for people.
pub(super) fn old_turns(count: u64) -> String {
    match count {
        1 => "1 old turn".to_owned(),
        more => format!("{more} old turns"),
    }
}

/// What pinned resources took in the last request, in bytes.
pub(super) type PinnedBytes = Arc<AtomicU64>;
