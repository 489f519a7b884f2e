//! The actors in memory, and the place of one among them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::ConversationId;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};

use crate::commands::job::JobBook;
use crate::handle::TurnStopper;
use crate::requests::ActorRequest;
use crate::view::viewers::Attendance;
use crate::view::{ConversationView, RecentRecords};

/// An actor that nobody needs ends after this, or sooner when there are many.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// What is to go waits this long for a client that comes back.
pub(crate) const IDLE_TEMPORARY: Duration = Duration::from_secs(2);

pub(crate) const IDLE_WHEN_CROWDED: Duration = Duration::from_millis(500);

pub(crate) type OpenActors = Arc<Mutex<HashMap<ConversationId, ActorEntry>>>;

/// An actor in memory. It holds no view, so that the actor knows when nobody looks.
#[derive(Debug)]
pub(crate) struct ActorEntry {
    pub(crate) mailbox: mpsc::Sender<ActorRequest>,
    pub(crate) views: watch::Sender<ConversationView>,
    pub(crate) recent: Arc<RecentRecords>,
    pub(crate) stopper: TurnStopper,
    pub(crate) attendance: Attendance,
    pub(crate) jobs: JobBook,
    /// Tells this actor from one that took its place.
    pub(crate) number: u64,
}

/// An actor's place in the directory, which it gives up when it ends.
#[derive(Debug)]
pub(crate) struct ActorRegistration {
    pub(crate) id: ConversationId,
    pub(crate) number: u64,
    pub(crate) open: OpenActors,
    pub(crate) crowded_at: usize,
    pub(crate) changed: Arc<Notify>,
    pub(crate) jobs: JobBook,
}

impl ActorRegistration {
    pub(crate) fn remove(&self) {
        let mut open = self.open.lock();
        if open
            .get(&self.id)
            .is_some_and(|it| it.number == self.number)
        {
            open.remove(&self.id);
            self.changed.notify_one();
        }
    }

    /// Gives the place up if `still` holds while nobody can be handed it.
    pub(crate) fn remove_if(&self, still: impl FnOnce() -> bool) -> bool {
        let mut open = self.open.lock();
        let agreed = still();
        if agreed {
            open.remove(&self.id);
            self.changed.notify_one();
        }
        agreed
    }

    pub(crate) fn idle_time(&self) -> Duration {
        if self.open.lock().len() > self.crowded_at {
            IDLE_WHEN_CROWDED
        } else {
            IDLE
        }
    }
}

/// Also when the actor panics: nobody must go on waiting for it.
impl Drop for ActorRegistration {
    fn drop(&mut self) {
        self.remove();
        self.jobs.clear();
    }
}
