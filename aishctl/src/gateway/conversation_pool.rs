//! Where calls run. A conversation runs one turn at a time, and a call may wait for a person, so a gateway that had one
//! conversation only would let a question that nobody answers hold up everything else.
//!
//! So a call takes the first of the gateway's conversations that is free. If none is for a second, because the calls
//! there wait for people or are slow, it takes a further one, up to four; then it waits. Calls that follow each other
//! stay in the first one, and what a person allows there for good holds for them; that is why not every call that comes
//! beside another has a conversation of its own at once.

use std::time::Duration;

use aish_proto::id::ConversationId;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use ulid::Ulid;

const MOST: usize = 4;
const PATIENCE: Duration = Duration::from_secs(1);

/// The conversations of one gateway.
#[derive(Debug)]
pub(super) struct SeatPool {
    seats: Mutex<Vec<SeatState>>,
    freed: Notify,
    most: usize,
    /// Those that the daemon has.
    made: watch::Sender<Vec<ConversationId>>,
}

#[derive(Clone, Copy, Debug)]
struct SeatState {
    conversation: ConversationId,
    /// It is in the daemon's store.
    made: bool,
    taken: bool,
}

/// A conversation that is free for one call, until this is dropped.
#[derive(Debug)]
pub(super) struct GatewaySeat<'a> {
    seats: &'a SeatPool,
    at: usize,
    pub(super) conversation: ConversationId,
    /// Whether it has to be made with the call.
    pub(super) is_new: bool,
}

impl SeatPool {
    /// Those of a gateway, or the one conversation that was named.
    pub(super) fn new(named: Option<ConversationId>) -> Self {
        let named = named.map(|conversation| SeatState {
            conversation,
            made: true,
            taken: false,
        });
        let made = named.iter().map(|it| it.conversation).collect();
        Self {
            most: if named.is_some() { 1 } else { MOST },
            made: watch::channel(made).0,
            seats: Mutex::new(named.into_iter().collect()),
            freed: Notify::new(),
        }
    }

    /// Waits for one. Calls in the order in which they came, as far as that goes.
    pub(super) async fn take(&self) -> GatewaySeat<'_> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(seat) = self.free(Instant::now() >= give_up) {
                return seat;
            }
            let freed = self.freed.notified();
            if self.may_grow() {
                let _freed_or_not = tokio::time::timeout_at(give_up, freed).await;
            } else {
                freed.await;
            }
        }
    }

    /// Those that the daemon has, in the order in which they were made.
    pub(super) fn conversations(&self) -> Vec<ConversationId> {
        self.made.borrow().clone()
    }

    /// The same, as it changes.
    pub(super) fn watch(&self) -> watch::Receiver<Vec<ConversationId>> {
        self.made.subscribe()
    }

    /// A named one is the only one, and no other will do in its place.
    fn is_named(&self) -> bool {
        self.most == 1
    }

    fn free(&self, grows: bool) -> Option<GatewaySeat<'_>> {
        let mut seats = self.lock();
        let free = seats.iter().position(|it| !it.taken);
        let at = match free {
            Some(at) => at,
            None if seats.is_empty() || (grows && seats.len() < self.most) => {
                seats.push(SeatState {
                    conversation: ConversationId(Ulid::new()),
                    made: false,
                    taken: false,
                });
                seats.len() - 1
            }
            None => return None,
        };
        let state = seats.get_mut(at)?;
        state.taken = true;
        Some(GatewaySeat {
            seats: self,
            at,
            conversation: state.conversation,
            is_new: !state.made,
        })
    }

    fn may_grow(&self) -> bool {
        self.lock().len() < self.most
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SeatState>> {
        self.seats.lock()
    }
}

impl GatewaySeat<'_> {
    /// The daemon has it now.
    pub(super) fn made(&self) {
        if let Some(state) = self.seats.lock().get_mut(self.at) {
            state.made = true;
        }
        self.seats.made.send_if_modified(|made| {
            let news = !made.contains(&self.conversation);
            if news {
                made.push(self.conversation);
            }
            news
        });
    }

    /// Takes another conversation in the place of one that somebody has deleted. False: it was named, or is new itself.
    pub(super) fn renew(&mut self) -> bool {
        if self.is_new || self.seats.is_named() {
            return false;
        }
        let gone = self.conversation;
        self.seats.made.send_if_modified(|made| {
            made.retain(|it| *it != gone);
            true
        });
        self.conversation = ConversationId(Ulid::new());
        self.is_new = true;
        if let Some(state) = self.seats.lock().get_mut(self.at) {
            state.conversation = self.conversation;
            state.made = false;
        }
        true
    }

    /// What stands behind its title, so that people can tell them apart.
    pub(super) fn number(&self) -> usize {
        self.at + 1
    }
}

impl Drop for GatewaySeat<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.seats.lock().get_mut(self.at) {
            state.taken = false;
        }
        self.seats.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_that_follow_each_other_stay_together_and_a_stuck_one_holds_up_nobody() {
        let seats = SeatPool::new(None);
        let first = seats.take().await;
        let home = first.conversation;
        assert!(first.is_new);
        first.made();
        drop(first);
        let stuck = seats.take().await;
        assert_eq!((home, false), (stuck.conversation, stuck.is_new));
        let began = Instant::now();
        let second = seats.take().await;
        assert_eq!(PATIENCE, began.elapsed());
        assert_ne!(home, second.conversation);
        drop(stuck);
        assert_eq!(home, seats.take().await.conversation);
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_four_and_a_fifth_call_waits() {
        let seats = SeatPool::new(None);
        let mut taken = vec![];
        for _ in 0..MOST {
            taken.push(seats.take().await);
        }
        let long = Duration::from_secs(3600);
        assert!(tokio::time::timeout(long, seats.take()).await.is_err());
        taken.pop();
        assert_eq!(MOST, seats.take().await.number());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_gone_is_replaced_once_and_a_named_one_is_not() {
        let seats = SeatPool::new(None);
        let mut seat = seats.take().await;
        assert!(!seat.renew(), "it is new");
        seat.made();
        drop(seat);
        let mut seat = seats.take().await;
        let gone = seat.conversation;
        assert_eq!(vec![gone], seats.conversations());
        assert!(seat.renew() && seat.is_new && !seat.renew());
        assert!(seats.conversations().is_empty());
        seat.made();
        assert_eq!(vec![seat.conversation], seats.conversations());
        assert_ne!(gone, seat.conversation);
        let named = SeatPool::new(Some(gone));
        assert!(!named.take().await.renew());
        assert_eq!(vec![gone], named.conversations());
    }

    #[tokio::test(start_paused = true)]
    async fn a_conversation_that_was_named_is_the_only_one() {
        let seats = SeatPool::new(Some(ConversationId(Ulid::new())));
        let taken = seats.take().await;
        assert!(!taken.is_new);
        let long = Duration::from_secs(3600);
        assert!(tokio::time::timeout(long, seats.take()).await.is_err());
    }
}
