//! Exchanges that left the context come back.

use std::sync::Arc;

use aish_proto::id::Seq;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::event::Event;
use aishd_log::eviction::EvictedExchange;
use aishd_model::context_budget::ContextLimit;
use aishd_model::preset::Preset;
use aishd_store::ReadError;
use aishd_turn::exchange::Exchange;

use crate::actor::Conversation;
use crate::actor::model_choice::PresetChoice;
use crate::context::evicted_exchanges::{MOST_RESTORED, find, read};
use crate::pending_commit::UncommittedFact;
use crate::request_error::RequestError;
use crate::view::LiveChange;

impl Conversation {
    /// Puts an exchange back; nothing else leaves for it.
    pub(crate) async fn restore(
        &mut self,
        gone: EvictedExchange,
        by: AnsweringPerson,
    ) -> Result<Seq, RequestError> {
        let (store, id, state) = (self.services.store.clone(), self.id, self.state.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let Some(left) = find(&store, id, &state, gone)? else {
                return Ok(None);
            };
            Ok(read(&store, id, left)?.map(|it| (left, it)))
        });
        let found: Result<_, ReadError> = looked
            .await
            .map_err(|panic| RequestError::Storage(panic.to_string()))?;
        let (left, exchange) = found?.ok_or(RequestError::NotArchived(gone))?;
        if self.state.restored.iter().any(|it| it.turn == left.turn) {
            return Err(RequestError::InContext(gone));
        }
        self.load_transcript()
            .await
            .map_err(RequestError::Storage)?;
        self.check_room(&exchange)?;
        if let Some(transcript) = &mut self.transcript.held {
            transcript.shelve(exchange);
        }
        let fact = UncommittedFact {
            turn: None,
            by: Some(by),
            event: Event::Restored(left),
        };
        let stored = self.commit(&[fact], LiveChange::Keep).await;
        if let Some(transcript) = &mut self.transcript.held {
            transcript.clear_shelf();
        }
        Ok(stored?)
    }

    /// Whether the budget holds one more exchange.
    fn check_room(&self, exchange: &Exchange) -> Result<(), RequestError> {
        let Some(transcript) = &self.transcript.held else {
            return Ok(());
        };
        let full = |why: String| Err(RequestError::NoRoom(why));
        if self.state.restored.len() >= MOST_RESTORED {
            return full(format!(
                "{MOST_RESTORED} exchanges that had left are back already"
            ));
        }
        let running = self.turn.as_ref().and_then(|it| it.preset.clone());
        let named = self.state.model.as_deref();
        let preset = running.unwrap_or_else(|| match self.choose_named(named) {
            PresetChoice::Ready(preset, _) => preset,
            // Of one that is not known yet there is what is configured of all.
            PresetChoice::Look | PresetChoice::Gone(_) | PresetChoice::List(..) => {
                Arc::new(Preset::demo())
            }
        });
        let rules = self.rules();
        let turns = transcript.exchanges().len();
        // The next question needs a place too, or what is put back would leave for it.
        let coming = usize::from(self.turn.is_none());
        if turns + coming >= rules.max_turns {
            return full(format!(
                "the context holds {turns} exchanges, and context.max_turns is {}",
                rules.max_turns
            ));
        }
        let limit = ContextLimit::of(&rules, &preset);
        let offer = self.offer_to(&preset);
        let held = self.turn.as_ref().map_or(&[][..], |it| &it.held);
        let tokens = match self.fit(&preset, transcript, &offer, held) {
            Ok(fit) => fit.tokens,
            Err(error) => error.tokens,
        };
        let needs = self.services.tokens.ratio(&preset).tokens(exchange.bytes());
        match limit.tokens {
            Some(tokens_limit) if !limit.holds(tokens + needs) => full(format!(
                "it takes about {needs} tokens, and {} has about {} left",
                preset.name,
                tokens_limit.available().saturating_sub(tokens)
            )),
            Some(_) | None => Ok(()),
        }
    }
}
