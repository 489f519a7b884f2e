//! What a request shows of the conversation: made to fit before it is sent, and looked at beforehand. Both come
//! from [`fit`], so that a preview is the bytes that would be sent.

use std::sync::Arc;

use aish_proto::id::{ConversationId, TurnId};
use aishd_log::event::{Event, ProviderLevel, TurnOrigin};
use aishd_log::eviction::Eviction;
use aishd_log::pinned_resource::PinnedContent;
use aishd_log::tool::ContentDigest;
use aishd_model::context_budget::{ContextLimit, ContextSettings, LoopMode};
use aishd_model::preset::Preset;
use aishd_model::reply::{Reply, RequestFailure};
use aishd_platform::clock;
use aishd_rules::catalog::ToolOffer;
use aishd_turn::exchange::Exchange;
use aishd_turn::request::fit::{FitInput, FittedRequest, TooLong, fit, next_to_leave};
use aishd_turn::request::{self, WeighedBody};
use aishd_turn::transcript::Transcript;
use aishd_turn::turn::{CallReturn, Effect, StreamId, TurnInput};
use tokio::task::AbortHandle;

use crate::actor::model_choice::PresetChoice;
use crate::actor::{Conversation, TaskOutcome, failed};
use crate::context::extra_context::{DirectoryLook, GatheredContext};
use crate::context::preview::{
    ContextPreview, NoRequest, PreviewQuestion, PreviewTarget, PreviewedRequest, old_turns,
};
use crate::context::stored_results::BLOCKS_ARE_KEPT;
use crate::pending_commit::{PendingCommit, UncommittedFact};
use crate::request_error::RequestError;
use crate::spending::budget::SpendingTicket;
use crate::turns::turn_tasks::{StreamRequest, streamed};
use crate::view::LiveChange;
use crate::view::live_item::LiveItem;

/// What servers may know a conversation by, which is not its id.
fn cache_key(id: ConversationId) -> Arc<str> {
    let digest = ContentDigest::of(id.to_string().as_bytes()).to_string();
    format!("aish-{}", digest.get(..32).unwrap_or(&digest)).into()
}

impl Conversation {
    /// What people keep for all conversations, what they have the system message begin with, and what it says of the shell,
    /// stands in the next turn's requests as it is now.
    pub(crate) fn tell_background(&mut self) {
        let most = self.models().memory.max_chars;
        let rules = self.rules();
        let Some(mut transcript) = self.transcript.held.take() else {
            return;
        };
        transcript.set_background(self.services.book.background(most));
        transcript.set_opening(rules.system_prompt);
        transcript.set_cache_key(Some(cache_key(self.id)));
        transcript.set_project(rules.project.and_then(|_| self.told.blocks()));
        transcript.set_shell(self.shell_told(&transcript, None));
        self.transcript.held = Some(transcript);
    }

    /// The rules of contexts: a running turn keeps to those that it began with.
    pub(crate) fn rules(&self) -> ContextSettings {
        match &self.turn {
            Some(active) => active.rules.clone(),
            None => self.models().context.clone(),
        }
    }

    /// Makes a request of this transcript fit.
    pub(crate) fn fit(
        &self,
        preset: &Preset,
        transcript: &Transcript,
        offer: &ToolOffer,
        held: &[PinnedContent],
    ) -> Result<FittedRequest, TooLong> {
        self.fitted(self.fit_input(preset, transcript, offer, held))
    }

    /// What is being summed up stays until its summary is there, where there is room for both.
    fn fitted(&self, wanted: FitInput<'_>) -> Result<FittedRequest, TooLong> {
        if self.summing.is_ahead() && wanted.mode == LoopMode::Talk {
            let limit = wanted.limit.relaxed();
            if let Ok(fit) = fit(FitInput { limit, ..wanted })
                && fit.leaving.is_empty()
            {
                return Ok(fit);
            }
        }
        fit(wanted)
    }

    pub(crate) fn fit_input<'a>(
        &self,
        preset: &'a Preset,
        transcript: &'a Transcript,
        offer: &'a ToolOffer,
        held: &'a [PinnedContent],
    ) -> FitInput<'a> {
        let rules = self.rules();
        FitInput {
            preset,
            transcript,
            offer,
            pinned: held,
            summary: rules.summarizer(transcript.mode()).is_some(),
            limit: ContextLimit::of(&rules, preset),
            ratio: self.services.tokens.ratio(preset),
            mode: transcript.mode(),
        }
    }

    /// How many of the exchanges that a request has no room for leave the conversation: one that another preset answers
    /// takes nothing out that its own has room for.
    pub(crate) fn leave_for_good(
        &self,
        preset: &Preset,
        transcript: &Transcript,
        offer: &ToolOffer,
        held: &[PinnedContent],
        leaving: usize,
    ) -> usize {
        let own = match self.choose_named(self.state.model.as_deref()) {
            PresetChoice::Ready(own, _) => own,
            PresetChoice::Look | PresetChoice::Gone(_) | PresetChoice::List(..) => return leaving,
        };
        if leaving == 0 || own.name == preset.name {
            return leaving;
        }
        match self.fit(&own, transcript, offer, held) {
            Ok(fit) => fit.leaving.len().min(leaving),
            Err(_too_long) => leaving,
        }
    }

    /// What is written down where exchanges leave; where a model is to sum them up, people are told when it has.
    pub(crate) fn eviction_facts(
        &self,
        turn: TurnId,
        transcript: &Transcript,
        count: usize,
    ) -> Vec<UncommittedFact> {
        let Some(eviction) = transcript.eviction(count, &self.state) else {
            return vec![];
        };
        let count = eviction.count;
        let mut events = vec![Event::Evicted(Box::new(eviction))];
        let mode = transcript.mode();
        match (mode, self.rules().summarizer(mode)) {
            (LoopMode::Talk, None) => events.push(Event::Status {
                level: ProviderLevel::Info,
                text: format!(
                    "{} left the context; originals archived — :context archive",
                    old_turns(count)
                ),
            }),
            (LoopMode::Talk, Some(_)) | (LoopMode::Norris, _) => {}
        }
        let fact = |event| UncommittedFact {
            turn: Some(turn),
            by: None,
            event,
        };
        events.into_iter().map(fact).collect()
    }

    /// What could leave where a server says that a request was too much.
    pub(crate) fn evictable(&self, failure: &RequestFailure) -> Option<Box<Eviction>> {
        if matches!(failure, RequestFailure::TooLong(_)) {
            // Its last exchange alone is too long.
            return None;
        }
        let transcript = self.transcript.held.as_ref()?;
        let older_half = transcript.exchanges().len() / 2;
        transcript.eviction(older_half, &self.state).map(Box::new)
    }

    /// Sends the transcript to the model.
    pub(crate) async fn open_stream(&mut self, stream: StreamId) {
        let offer = Arc::new(self.offer());
        self.services.tools.freshen();
        let Some(active) = &mut self.turn else {
            return;
        };
        active.offer = Some(offer);
        active.held = vec![];
        let preset = active.preset.clone();
        if let Some(beside) = self.extra_context(DirectoryLook::Once) {
            return self.read_beside(stream, beside);
        }
        if let Some(preset) = preset {
            self.ask_model(Effect::OpenStream(stream), stream, preset)
                .await;
        }
    }

    /// Sends the same to the preset that the turn falls back to.
    pub(crate) async fn open_fallback(&mut self, stream: StreamId) {
        let second = self.turn.as_ref().and_then(|it| it.second.clone());
        if let Some(preset) = second {
            // Its server may take fewer tools.
            let offer = self.offer_to(&self.services.broker.adapted(preset.clone()));
            if let Some(active) = &mut self.turn {
                active.offer = Some(Arc::new(offer));
            }
            self.ask_model(Effect::OpenFallback(stream), stream, preset)
                .await;
        }
    }

    /// What is told beside the log is known: the request can be made.
    pub(crate) async fn gathered(
        &mut self,
        turn: TurnId,
        stream: StreamId,
        gathered: GatheredContext,
    ) {
        let Some(active) = self.turn.as_mut().filter(|it| it.id == turn) else {
            return;
        };
        let GatheredContext { held, looked } = gathered;
        active.held = held;
        if active.token.is_cancelled() {
            return Box::pin(self.apply_done(abandoned(turn, stream))).await;
        }
        let preset = active.preset.clone();
        looked
            .into_iter()
            .for_each(|it| self.on_project_look(turn, it));
        if let Some(preset) = preset {
            self.ask_model(Effect::OpenStream(stream), stream, preset)
                .await;
        }
    }

    /// Once what has to leave for it is written down; the text shows after the log as it stands.
    async fn ask_model(&mut self, effect: Effect, stream: StreamId, preset: Arc<Preset>) {
        let (Some(active), Some(transcript)) = (&self.turn, &self.transcript.held) else {
            return;
        };
        let preset = self.services.broker.adapted(preset);
        let turn = active.id;
        let offer = active.offer.clone();
        let offer = offer.unwrap_or_else(|| Arc::new(self.offer()));
        let fit = match self.fit(&preset, transcript, &offer, &active.held) {
            Ok(fit) => fit,
            Err(error) => return drop(self.refuse_stream(stream, &error)),
        };
        let ticket = match self.admit(&preset, transcript) {
            Ok(ticket) => ticket,
            Err(reached) => return self.end_for_budget(stream, reached).await,
        };
        let leaving = fit.leaving.len();
        let leaving = self.leave_for_good(&preset, transcript, &offer, &active.held, leaving);
        let mut facts = self.eviction_facts(turn, transcript, leaving);
        self.remark_on(&offer, &preset);
        facts.extend(self.remark_facts(turn));
        if effect == Effect::OpenStream(stream) {
            facts.extend(self.choice_fact(turn, &offer));
        }
        if !facts.is_empty()
            && let Err(error) = self.commit(&facts, LiveChange::Keep).await
        {
            return self.wait_for_store(PendingCommit::before_stream(facts, effect), &error);
        }
        if effect == Effect::OpenStream(stream) && self.must_wait() {
            return self.wait_for_summary(stream);
        }
        let Some(active) = &self.turn else { return };
        let live = Arc::new(LiveItem::new(
            active.id,
            active.machine.item(),
            self.state.last_seq,
        ));
        self.spawn_stream(stream, (preset, ticket), fit.body, live.clone());
        self.publisher.begin_live(live);
    }

    /// A request that there is no room for: it ends as one that failed.
    pub(crate) fn refuse_stream(
        &mut self,
        stream: StreamId,
        error: &TooLong,
    ) -> Option<AbortHandle> {
        let turn = self.turn.as_ref()?.id;
        let failure = RequestFailure::TooLong(error.to_string());
        Some(self.spawn(turn, stream, async move { failed(stream, failure) }))
    }

    /// How the preset of such a question is found; without one, that of a question that is not routed.
    fn chosen_for(&self, model: Option<String>, asking: Option<&PreviewQuestion>) -> PresetChoice {
        match asking {
            Some(asking) => self.choose(&question(asking.clone(), model)),
            None => self.choose_named(model.or_else(|| self.state.model.clone()).as_deref()),
        }
    }

    /// The request that would be sent. Nothing is stored, and nothing leaves.
    pub(crate) async fn preview(
        &mut self,
        previewing: PreviewTarget,
    ) -> Result<PreviewedRequest, RequestError> {
        self.load_transcript()
            .await
            .map_err(RequestError::Storage)?;
        let PreviewTarget {
            question,
            model,
            on_confirm,
            gathered,
        } = previewing;
        if let Some(name) = &model {
            self.check_model(name)?;
        }
        let running = self.turn.as_ref().and_then(|it| it.preset.clone());
        let preset = match (running, &model, &question) {
            (Some(preset), None, None) => preset,
            (_, _, _) => match self.chosen_for(model, question.as_ref()) {
                PresetChoice::Ready(preset, _) => preset,
                PresetChoice::Gone(name) => return Err(RequestError::UnknownModel(name)),
                PresetChoice::Look | PresetChoice::List(..) => return Ok(PreviewedRequest::Nobody),
            },
        };
        let preset = self.services.broker.adapted(preset);
        // A turn that runs tells of its directory what it has told so far.
        let goes_on = self.turn.is_some() && question.is_none();
        let look = if goes_on {
            DirectoryLook::No
        } else {
            DirectoryLook::Anew
        };
        let beside = self.extra_context(look).filter(|_| gathered.is_none());
        if let Some(beside) = beside {
            return Ok(PreviewedRequest::Read(Box::new(beside)));
        }
        let GatheredContext { held, looked } = gathered.unwrap_or_default();
        let Some(transcript) = &self.transcript.held else {
            return Ok(PreviewedRequest::Nobody);
        };
        let mut offers_shell = self.offers_shell();
        let mut transcript = transcript.clone();
        let mut remarks = vec![];
        if let Some(looked) = looked {
            transcript.set_project(looked.blocks);
            remarks = looked.remarks;
        }
        if let Some(asking) = question {
            let shell = self.shell_offered(&transcript, None, &on_confirm);
            offers_shell = shell.is_some();
            transcript.set_shell(shell.map(Arc::new));
            let turn = TurnId(clock::ulid());
            for record in self.number(&preview_facts(turn, asking, &preset)).records {
                transcript.apply(&record);
            }
        }
        let offer = Arc::new(self.offer_of(Some(&preset), offers_shell, Some(&transcript)));
        Ok(self.previewed(preset, &transcript, &offer, &held, remarks))
    }

    /// What that transcript would be sent as.
    fn previewed(
        &self,
        preset: Arc<Preset>,
        transcript: &Transcript,
        offer: &Arc<ToolOffer>,
        held: &[PinnedContent],
        remarks: Vec<String>,
    ) -> PreviewedRequest {
        let wanted = self.fit_input(&preset, transcript, offer, held);
        let (limit, ratio) = (wanted.limit, wanted.ratio);
        let fitted = match self.fitted(wanted) {
            Ok(fitted) => fitted,
            Err(error) => {
                let turns = transcript.exchanges().len();
                return PreviewedRequest::TooLong(Box::new(NoRequest {
                    preset,
                    limit,
                    ratio,
                    turns,
                    error,
                }));
            }
        };
        let shown = fitted.shown.as_ref().unwrap_or(transcript);
        let then = FitInput {
            transcript: shown,
            ..wanted
        };
        let next = next_to_leave(then, fitted.tokens);
        let next = shown.exchanges().take(next).cloned().collect();
        let turns = shown.exchanges().len();
        let messages = shown.exchanges().map(Exchange::bytes).sum();
        let parts = request::parts(&preset, shown, offer, held, shown.mode());
        let system = request::system(&preset, shown, offer, shown.mode());
        let mut leaving = fitted.leaving;
        let for_good = self.leave_for_good(&preset, transcript, offer, held, leaving.len());
        leaving.truncate(for_good);
        PreviewedRequest::Fits(Box::new(ContextPreview {
            preset,
            limit,
            ratio,
            leaving,
            next,
            turns,
            shortened: fitted.shortened,
            parts,
            system,
            offer: offer.clone(),
            messages,
            body: fitted.body,
            remarks,
        }))
    }

    /// People are told of the first such block what becomes of it.
    pub(crate) fn remark_on_blocks(&self, returned: &mut CallReturn) {
        if !returned.blocks.is_empty() && !self.state.keeps_blocks {
            returned.remark = Some(BLOCKS_ARE_KEPT);
        }
    }

    /// Asks a model; the ticket says that it may be asked.
    pub(crate) fn spawn_stream(
        &mut self,
        stream: StreamId,
        (preset, ticket): (Arc<Preset>, SpendingTicket),
        body: WeighedBody,
        live: Arc<LiveItem>,
    ) -> Option<AbortHandle> {
        let active = self.turn.as_mut()?;
        let turn = active.id;
        let meter = ticket.meter();
        active.asking = Some((stream, ticket));
        let request = StreamRequest {
            conversation: self.id,
            stream,
            preset,
            body,
            live,
            sender: self.publisher.live_sender(),
            broker: self.services.broker.clone(),
            store: self.services.store.clone(),
            tokens: self.services.tokens.clone(),
            meter,
            token: active.token.clone(),
        };
        Some(self.spawn(turn, stream, Box::pin(streamed(request))))
    }
}

/// The end of a request that was called off before it was made.
pub(crate) fn abandoned(turn: TurnId, stream: StreamId) -> TaskOutcome {
    let input = TurnInput::ReplyAbandoned(stream, Reply::default());
    TaskOutcome::Turn(turn, Box::new(input))
}

/// A question as it would be asked.
pub(crate) fn question(asking: PreviewQuestion, model: Option<String>) -> Event {
    let PreviewQuestion { text, attachments } = asking;
    Event::UserMessage {
        text,
        attachments,
        key: None,
        model,
        origin: TurnOrigin::Asked,
        on_confirm: None,
        max_tool_depth: None,
        calls: None,
        environment: None,
    }
}

/// The facts of a question whose turn starts, as the log would have them.
pub(crate) fn preview_facts(
    turn: TurnId,
    asking: PreviewQuestion,
    preset: &Preset,
) -> [UncommittedFact; 2] {
    let question = question(asking, None);
    let started = Event::TurnStarted {
        model: preset.name.clone(),
        model_id: preset.model.clone(),
        source: preset.source,
        context_tokens: None,
    };
    [question, started].map(|event| UncommittedFact {
        turn: Some(turn),
        by: None,
        event,
    })
}
