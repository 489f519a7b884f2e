//! What left the context: listed by the chain of evictions, without the log, and put back.

use std::collections::HashSet;
use std::sync::Arc;

use aish_proto::id::{ConversationId, Seq, TurnId};
use aishd_log::event::Event;
use aishd_log::eviction::{EvictedExchange, Eviction, LeftExchange};
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use aishd_store::{ReadError, Store};
use aishd_turn::exchange::Exchange;
use memchr::memmem;

use crate::handle::ConversationHandle;
use crate::request_error::RequestError;

/// The same for something that nearly always stands near.
pub(crate) const NEAR_BYTES: usize = 16 << 10;
/// Characters of a question that are told.
pub(crate) const TOLD_CHARS: usize = 200;
/// Of what left before, no more is read at once.
pub(crate) const LEFT_BYTES: u64 = 4 << 20;
/// Exchanges that can be back at a time; the state of a conversation has them all.
pub(crate) const MOST_RESTORED: usize = 64;

/// An exchange that left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedExchange {
    pub left: LeftExchange,
    /// Its question.
    pub question: Seq,
    pub asked_at: Timestamp,
    /// The beginning of that.
    pub text: String,
    /// Whether it is back.
    pub restored: bool,
}

/// A place in the list: an eviction, and how many of its exchanges have been told, the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchivePosition {
    pub eviction: Seq,
    pub told: usize,
}

/// Part of the list.
#[derive(Clone, Debug)]
pub struct ArchivePage {
    pub exchanges: Vec<ArchivedExchange>,
    pub next: Option<ArchivePosition>,
    pub summary: Option<String>,
}

impl ConversationHandle {
    /// At most `limit` exchanges that left, the newest first, from a place on.
    pub async fn archive(
        &self,
        state: Arc<ConversationState>,
        from: Option<ArchivePosition>,
        limit: usize,
    ) -> Result<ArchivePage, RequestError> {
        let (store, id) = (self.store.clone(), self.id);
        let listed = tokio::task::spawn_blocking(move || list(&store, id, &state, from, limit));
        let listed = listed.await;
        Ok(listed.map_err(|panic| RequestError::Storage(panic.to_string()))??)
    }
}

pub(crate) fn list(
    store: &Store,
    id: ConversationId,
    state: &ConversationState,
    from: Option<ArchivePosition>,
    limit: usize,
) -> Result<ArchivePage, ReadError> {
    let mut archive = ArchivePage {
        exchanges: vec![],
        next: None,
        summary: summary(store, id, state)?,
    };
    let mut place = from.unwrap_or(ArchivePosition {
        eviction: state.last_eviction,
        told: 0,
    });
    while let Some(eviction) = eviction_at(store, id, place.eviction)? {
        for left in eviction.exchanges.iter().rev().skip(place.told) {
            if archive.exchanges.len() >= limit {
                archive.next = Some(place);
                return Ok(archive);
            }
            place.told += 1;
            archive.exchanges.extend(archived(store, id, state, *left)?);
        }
        let Some(before) = before(&eviction, place.eviction) else {
            break;
        };
        place = ArchivePosition {
            eviction: before,
            told: 0,
        };
    }
    Ok(archive)
}

/// The eviction before one. The chain goes back in the log, or it is none.
pub(crate) fn before(eviction: &Eviction, at: Seq) -> Option<Seq> {
    (eviction.previous < at).then_some(eviction.previous)
}

pub(crate) fn archived(
    store: &Store,
    id: ConversationId,
    state: &ConversationState,
    left: LeftExchange,
) -> Result<Option<ArchivedExchange>, ReadError> {
    let Some(place) = store.find_turn(left.turn)? else {
        return Ok(None);
    };
    let question = store.record(id, place.message_seq)?;
    Ok(question.and_then(|record| {
        let Event::UserMessage { text, .. } = record.event else {
            return None;
        };
        Some(ArchivedExchange {
            left,
            question: record.seq,
            asked_at: record.at,
            text: text.chars().take(TOLD_CHARS).collect(),
            restored: state.restored.iter().any(|it| it.turn == left.turn),
        })
    }))
}

pub(crate) fn summary(
    store: &Store,
    id: ConversationId,
    state: &ConversationState,
) -> Result<Option<String>, ReadError> {
    if state.summary_seq == Seq(0) {
        return Ok(None);
    }
    let record = store.record(id, state.summary_seq)?;
    Ok(match record.map(|it| it.event) {
        Some(Event::SummaryUpdated(summary)) => Some(summary.text).filter(|it| !it.is_empty()),
        Some(_) | None => None,
    })
}

pub(crate) fn eviction_at(
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
pub(crate) fn turns(
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

/// The exchange that left with this, if one did. A turn may have gone on in the exchange of another, and an event stands in
/// one exchange only, whatever turn it is of.
pub(crate) fn find(
    store: &Store,
    conversation: ConversationId,
    state: &ConversationState,
    gone: EvictedExchange,
) -> Result<Option<LeftExchange>, ReadError> {
    let Some(at) = place_of(store, conversation, state, gone)? else {
        return Ok(None);
    };
    let mut place = state.last_eviction;
    while let Some(eviction) = eviction_at(store, conversation, place)? {
        let found = eviction.exchanges.iter().find(|it| it.holds(at));
        if let Some(found) = found {
            return Ok(Some(*found));
        }
        match before(&eviction, place) {
            Some(before) => place = before,
            None => break,
        }
    }
    Ok(None)
}

/// The record by which it came into the context.
pub(crate) fn place_of(
    store: &Store,
    conversation: ConversationId,
    state: &ConversationState,
    gone: EvictedExchange,
) -> Result<Option<Seq>, ReadError> {
    let turn = match gone {
        EvictedExchange::Turn(turn) => turn,
        EvictedExchange::Event(seq) => match store.record(conversation, seq)? {
            Some(record) if matches!(record.event, Event::UserMessage { .. }) => {
                match record.turn {
                    Some(turn) => turn,
                    None => return Ok(None),
                }
            }
            Some(_) | None => return Ok(Some(seq)),
        },
    };
    match store.find_turn(turn)? {
        Some(place) if place.conversation == conversation => {
            let through = state.evicted_through;
            joined_at(store, conversation, turn, place.message_seq, through)
        }
        Some(_) | None => Ok(None),
    }
}

/// Where a question came into the context that was asked at `asked`, if that was before the end of `through`: some wait
/// long for it, and some never come. Blocks.
pub(crate) fn joined_at(
    store: &Store,
    conversation: ConversationId,
    turn: TurnId,
    asked: Seq,
    through: Seq,
) -> Result<Option<Seq>, ReadError> {
    let turn_bytes = turn.to_string();
    let may_say = |stored: &[u8]| {
        let says = |it: &str| memmem::find(stored, it.as_bytes()).is_some();
        says(&turn_bytes) && (says("turn_started") || says("turn_finished"))
    };
    let mut cursor = Some(asked);
    while let Some(after) = cursor.filter(|it| *it < through) {
        let looked = store.records_where(conversation, after, NEAR_BYTES, may_say)?;
        for record in looked.records.iter().filter(|it| it.turn == Some(turn)) {
            if let Event::TurnStarted { .. } = record.event {
                return Ok(Some(record.seq).filter(|it| *it <= through));
            }
            if let Event::TurnFinished { merged_into, .. } = &record.event {
                let joined = merged_into.map(|_| record.seq);
                return Ok(joined.filter(|it| *it <= through));
            }
        }
        cursor = looked.through;
    }
    Ok(None)
}

/// Where the output of a command came into the context: with the first new question that was answered after it. `None`: not
/// before the end of `through`. Blocks.
pub(crate) fn taken_along_at(
    store: &Store,
    conversation: ConversationId,
    printed: Seq,
    through: Seq,
) -> Result<Option<Seq>, ReadError> {
    let begins = |stored: &[u8]| {
        let says = |it: &[u8]| memmem::find(stored, it).is_some();
        says(b"turn_started") || says(b"merged_into")
    };
    let mut cursor = Some(printed);
    while let Some(after) = cursor.filter(|it| *it < through) {
        let looked = store.records_where(conversation, after, NEAR_BYTES, begins)?;
        for record in looked.records.iter().take_while(|it| it.seq <= through) {
            if joins(&record.event)
                && let Some(turn) = record.turn
                && let Some(place) = store.find_turn(turn)?
                && let Some(question) = store.record(conversation, place.message_seq)?
                && question.event.is_new_question()
            {
                return Ok(Some(record.seq));
            }
        }
        cursor = looked.through;
    }
    Ok(None)
}

/// Whether the question of a turn comes into the context with this.
pub(crate) fn joins(event: &Event) -> bool {
    if let Event::TurnFinished { merged_into, .. } = event {
        return merged_into.is_some();
    }
    matches!(event, Event::TurnStarted { .. })
}

/// What left behind `after` and is not back, the newest of it, the oldest first. Blocks.
pub(crate) fn left_after(
    store: &Store,
    conversation: ConversationId,
    state: &ConversationState,
    after: Seq,
    most: usize,
) -> Result<Vec<Exchange>, ReadError> {
    let mut found = vec![];
    let mut bytes = 0;
    let mut place = state.last_eviction;
    'all: while let Some(eviction) = eviction_at(store, conversation, place)? {
        for left in eviction.exchanges.iter().rev() {
            if left.last <= after || found.len() >= most || bytes > LEFT_BYTES {
                break 'all;
            }
            if !state.restored.iter().any(|it| it.turn == left.turn) {
                bytes += left.bytes;
                found.extend(read(store, conversation, *left)?);
            }
        }
        match before(&eviction, place) {
            Some(before) => place = before,
            None => break,
        }
    }
    found.reverse();
    Ok(found)
}

/// An exchange that left, out of the log. Blocks.
pub(crate) fn read(
    store: &Store,
    conversation: ConversationId,
    left: LeftExchange,
) -> Result<Option<Exchange>, ReadError> {
    let before = Seq(left.begin.0.saturating_sub(1));
    let records = store
        .records(conversation, before)
        .take_while(|it| it.as_ref().map_or(true, |it| it.seq <= left.last))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Exchange::read(left, &records))
}
