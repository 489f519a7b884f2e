//! The transcript of a conversation, and long ones while nothing happens: they stay at hand for the next question, a while and
//! within a limit for all conversations together. Somebody may look on for days, and what no request needs can be read again.

use std::sync::Arc;
use std::time::Duration;

use aishd_turn::transcript::Transcript;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// A transcript of so much stays as long as its actor. Only models with the longest contexts take more in.
const LONG_BYTES: u64 = 512 << 10;
/// All the longer ones that stay.
const ROOM_KIB: usize = 16 << 10;
const STAYS: Duration = Duration::from_secs(10);

/// The room for long transcripts of which nothing is wanted at the moment.
#[derive(Clone, Debug)]
pub struct WarmTranscripts(Arc<Semaphore>);

impl Default for WarmTranscripts {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(ROOM_KIB)))
    }
}

/// What a conversation holds of its context.
#[derive(Debug, Default)]
pub(crate) struct HeldTranscript {
    /// Read from the log when the first turn needs it.
    pub(crate) held: Option<Transcript>,
    warm: Option<WarmEntry>,
}

/// The room that a long one takes while nothing happens.
#[derive(Debug)]
struct WarmEntry {
    _room: OwnedSemaphorePermit,
    until: Instant,
}

impl HeldTranscript {
    /// When a long one has waited long enough for a question.
    pub(crate) fn cools_at(&self) -> Option<Instant> {
        self.warm.as_ref().map(|it| it.until)
    }

    /// To be called after whatever happened: a long one of which nothing is wanted stays for a while, if there is room.
    pub(crate) fn keep_warm(&mut self, is_idle: bool, room: &WarmTranscripts) {
        let bytes = self.held.as_ref().map_or(0, Transcript::held_bytes);
        if bytes <= LONG_BYTES || !is_idle {
            self.warm = None;
            return;
        }
        let now = Instant::now();
        if self.warm.is_none() {
            let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
            let room = Arc::clone(&room.0).try_acquire_many_owned(kib);
            self.warm = room.ok().map(|it| WarmEntry {
                _room: it,
                until: now + STAYS,
            });
        }
        if self.warm.as_ref().is_none_or(|it| it.until <= now) {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::id::{Seq, TurnId};
    use aishd_log::event::{Event, Record};
    use aishd_log::time::Timestamp;

    use super::*;

    /// One with an answer of so many bytes.
    fn holding(bytes: usize) -> HeldTranscript {
        let mut transcript = Transcript::default();
        transcript.apply(&Record {
            seq: Seq(1),
            at: Timestamp(0),
            turn: Some(TurnId::from_bytes([1; 16])),
            client: None,
            event: Event::AssistantMessage {
                item: 0,
                text: "x".repeat(bytes).into(),
                reasoning: String::new(),
                calls: vec![],
                commands: vec![],
                extra: serde_json::Map::new(),
                sealed: None,
                complete: true,
                served_by: None,
                usage: None,
                payee: None,
            },
        });
        HeldTranscript {
            held: Some(transcript),
            warm: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_one_stays_for_a_while_after_the_last_thing_that_happened() {
        let room = WarmTranscripts::default();
        let mut long = holding(1 << 20);
        long.keep_warm(false, &room);
        assert_eq!((true, None), (long.held.is_some(), long.cools_at()));
        long.keep_warm(true, &room);
        let cools_at = long.cools_at().unwrap();
        assert_eq!(Instant::now() + STAYS, cools_at);
        tokio::time::advance(STAYS / 2).await;
        long.keep_warm(true, &room);
        assert_eq!(
            (true, Some(cools_at)),
            (long.held.is_some(), long.cools_at())
        );
        tokio::time::advance(STAYS / 2).await;
        long.keep_warm(true, &room);
        assert_eq!((false, None), (long.held.is_some(), long.cools_at()));
    }

    #[tokio::test(start_paused = true)]
    async fn short_ones_stay_and_long_ones_share_a_room() {
        let room = WarmTranscripts::default();
        let mut short = holding(1 << 10);
        short.keep_warm(true, &room);
        tokio::time::advance(2 * STAYS).await;
        short.keep_warm(true, &room);
        assert!(short.held.is_some());
        let mut first = holding(12 << 20);
        first.keep_warm(true, &room);
        let mut second = holding(12 << 20);
        second.keep_warm(true, &room);
        assert_eq!((true, false), (first.held.is_some(), second.held.is_some()));
        drop(first);
        let mut third = holding(12 << 20);
        third.keep_warm(true, &room);
        assert!(third.held.is_some(), "what went has left its room");
    }
}
