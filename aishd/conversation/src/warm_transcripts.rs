//! Long transcripts while nothing happens: they stay at hand for the next question, a while and within a limit for all
//! conversations together. Somebody may look on for days, and what no request needs can be read again.

use std::sync::Arc;
use std::time::Duration;

use aishd_turn::transcript::Transcript;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Conversation;

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

/// What one of them takes of it.
#[derive(Debug)]
pub(super) struct WarmEntry {
    _room: OwnedSemaphorePermit,
    pub(super) until: Instant,
}

impl Conversation {
    pub(super) fn keep_transcript_warm(&mut self) {
        let bytes = self.transcript.as_ref().map_or(0, Transcript::bytes);
        if bytes <= LONG_BYTES || !self.is_idle() {
            self.kept = None;
            return;
        }
        let now = Instant::now();
        match &self.kept {
            Some(kept) if kept.until > now => return,
            Some(_over) => {}
            None => {
                let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
                let room = Arc::clone(&self.around.warm.0).try_acquire_many_owned(kib);
                self.kept = room.ok().map(|it| WarmEntry {
                    _room: it,
                    until: now + STAYS,
                });
                if self.kept.is_some() {
                    return;
                }
            }
        }
        self.transcript = None;
        self.kept = None;
    }
}
