//! What left the context: listed by the chain of evictions, without the log, and put back (CTX-3).

use std::collections::HashSet;

use aish_proto::id::{ConversationId, Seq, TurnId};

use super::Conversation;
use super::choose::Chosen;
use super::commit::Fact;
use super::handle::{Handle, RequestError};
use super::view::LiveChange;
use crate::core::budget::Limit;
use crate::core::confirm::Person;
use crate::core::event::{At, Event};
use crate::core::exchange::{Eviction, Exchange, Left};
use crate::core::state::State;
use crate::store::{ReadError, Store};

/// How much of the log is read in one go.
const PAGE_BYTES: usize = 1 << 20;
/// Exchanges that can be back at a time; the state of a conversation has them all.
const MOST_RESTORED: usize = 64;

/// An exchange that left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archived {
    pub left: Left,
    /// Its question.
    pub question: Seq,
    pub asked_at: At,
    pub text: String,
    /// Whether it is back.
    pub restored: bool,
}

/// A place in the list: an eviction, and how many of its exchanges have been told, the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub eviction: Seq,
    pub told: usize,
}

/// Part of the list.
#[derive(Clone, Debug)]
pub struct Archive {
    pub exchanges: Vec<Archived>,
    pub next: Option<Place>,
    pub summary: Option<String>,
}

impl Handle {
    /// At most `limit` exchanges that left, the newest first, from a place on.
    pub fn archive(
        &self,
        state: &State,
        from: Option<Place>,
        limit: usize,
    ) -> Result<Archive, ReadError> {
        let mut exchanges = vec![];
        let mut place = from.unwrap_or(Place {
            eviction: state.last_eviction,
            told: 0,
        });
        while let Some(eviction) = eviction_at(&self.store, self.id, place.eviction)? {
            for left in eviction.exchanges.iter().rev().skip(place.told) {
                if exchanges.len() >= limit {
                    let (next, summary) = (Some(place), self.summary(state)?);
                    return Ok(Archive {
                        exchanges,
                        next,
                        summary,
                    });
                }
                place.told += 1;
                exchanges.extend(self.archived(state, *left)?);
            }
            // The chain goes back in the log, or it is none.
            if eviction.previous >= place.eviction {
                break;
            }
            place = Place {
                eviction: eviction.previous,
                told: 0,
            };
        }
        Ok(Archive {
            exchanges,
            next: None,
            summary: self.summary(state)?,
        })
    }

    fn archived(&self, state: &State, left: Left) -> Result<Option<Archived>, ReadError> {
        let Some(place) = self.store.find_turn(left.turn)? else {
            return Ok(None);
        };
        let question = self.store.record(self.id, place.message_seq)?;
        Ok(question.and_then(|record| {
            let Event::UserMessage { text, .. } = record.event else {
                return None;
            };
            Some(Archived {
                left,
                question: record.seq,
                asked_at: record.at,
                text,
                restored: state.restored.iter().any(|it| it.turn == left.turn),
            })
        }))
    }

    fn summary(&self, state: &State) -> Result<Option<String>, ReadError> {
        if state.summary_seq == Seq(0) {
            return Ok(None);
        }
        let record = self.store.record(self.id, state.summary_seq)?;
        Ok(match record.map(|it| it.event) {
            Some(Event::SummaryUpdated(summary)) => Some(summary.text),
            Some(_) | None => None,
        })
    }
}

fn eviction_at(
    store: &Store,
    conversation: ConversationId,
    seq: Seq,
) -> Result<Option<Eviction>, ReadError> {
    if seq == Seq(0) {
        return Ok(None);
    }
    let record = store.record(conversation, seq)?;
    Ok(match record.map(|it| it.event) {
        Some(Event::Evicted(eviction)) => Some(*eviction),
        Some(_) | None => None,
    })
}

/// The turns of all exchanges that left with this eviction or one before it, those that are back too.
pub(super) fn turns(
    store: &Store,
    conversation: ConversationId,
    last_eviction: Seq,
) -> Result<HashSet<TurnId>, ReadError> {
    let mut turns = HashSet::new();
    let mut at = last_eviction;
    while let Some(eviction) = eviction_at(store, conversation, at)? {
        turns.extend(eviction.exchanges.iter().map(|it| it.turn));
        if eviction.previous >= at {
            break;
        }
        at = eviction.previous;
    }
    Ok(turns)
}

/// The exchange that left with the question of this turn, if one did.
fn find(
    store: &Store,
    conversation: ConversationId,
    last_eviction: Seq,
    turn: TurnId,
) -> Result<Option<Left>, ReadError> {
    let mut at = last_eviction;
    while let Some(eviction) = eviction_at(store, conversation, at)? {
        if let Some(found) = eviction.exchanges.iter().find(|it| it.turn == turn) {
            return Ok(Some(*found));
        }
        if eviction.previous >= at {
            break;
        }
        at = eviction.previous;
    }
    Ok(None)
}

/// An exchange that left, out of the log. Blocks.
pub(super) fn read(
    store: &Store,
    conversation: ConversationId,
    left: Left,
) -> Result<Option<Exchange>, ReadError> {
    let mut records = vec![];
    let mut cursor = Seq(left.begin.0.saturating_sub(1));
    while cursor < left.last {
        let page = store.records_after(conversation, cursor, PAGE_BYTES)?;
        let Some(last) = page.last() else { break };
        cursor = last.seq;
        records.extend(page.into_iter().filter(|it| it.seq <= left.last));
    }
    Ok(Exchange::read(left, &records))
}

impl Conversation {
    /// Puts an exchange back; nothing else leaves for it.
    pub(super) async fn restore(&mut self, turn: TurnId, by: Person) -> Result<Seq, RequestError> {
        if self.state.restored.iter().any(|it| it.turn == turn) {
            return Err(RequestError::InContext(turn));
        }
        let (store, id, last) = (self.around.store.clone(), self.id, self.state.last_eviction);
        let looked = tokio::task::spawn_blocking(move || {
            let Some(left) = find(&store, id, last, turn)? else {
                return Ok(None);
            };
            Ok(read(&store, id, left)?.map(|it| (left, it)))
        });
        let found: Result<_, ReadError> = looked
            .await
            .map_err(|panic| RequestError::Storage(panic.to_string()))?;
        let (left, exchange) = found?.ok_or(RequestError::NotArchived(turn))?;
        self.load_transcript()
            .await
            .map_err(RequestError::Storage)?;
        self.check_room(&exchange)?;
        if let Some(transcript) = &mut self.transcript {
            transcript.shelve(exchange);
        }
        let fact = Fact {
            turn: None,
            by: Some(by),
            event: Event::Restored(left),
        };
        let stored = self.commit(&[fact], LiveChange::Keep).await;
        if let Some(transcript) = &mut self.transcript {
            transcript.clear_shelf();
        }
        Ok(stored?)
    }

    /// Whether the budget holds one more exchange.
    fn check_room(&self, exchange: &Exchange) -> Result<(), RequestError> {
        let Some(transcript) = &self.transcript else {
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
        let preset = running.or_else(|| match self.choose_named(named) {
            Chosen::Ready(preset, _) => Some(preset),
            Chosen::Look | Chosen::Gone(_) | Chosen::List(..) => None,
        });
        let rules = &self.models().context;
        let turns = transcript.exchanges().len();
        if turns >= rules.max_turns {
            return full(format!(
                "the context holds {turns} exchanges, and context.max_turns is {}",
                rules.max_turns
            ));
        }
        let Some(preset) = preset else {
            return Ok(());
        };
        let limit = Limit::of(rules, &preset);
        let offer = self.offer_to(&preset);
        let tokens = match self.fit(&preset, transcript, &offer) {
            Ok(fit) => fit.tokens,
            Err(error) => error.tokens,
        };
        let needs = self.around.tokens.ratio(&preset).tokens(exchange.bytes());
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
