//! Whether a person looks at a conversation: somebody at a terminal who may answer, or who watches the questions of all.

use std::sync::Arc;

use aishd_log::time::Timestamp;
use aishd_platform::clock;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Cheap to clone; all clones count together.
#[derive(Clone, Debug)]
pub struct Attendance {
    here: Viewers,
    /// Of all conversations.
    watchers: QuestionWatchers,
}

/// Who watches the questions of all conversations: a person, or a program that answers. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct QuestionWatchers(Viewers);

#[derive(Clone, Debug)]
struct Viewers {
    people: watch::Sender<usize>,
    left_at: Arc<Mutex<Timestamp>>,
}

/// Somebody who is there until this is dropped.
#[derive(Debug)]
pub struct AttendingViewer(Viewers);

/// Hears of who comes and leaves.
#[derive(Debug)]
pub(crate) struct AttendanceChanges {
    here: watch::Receiver<usize>,
    watchers: watch::Receiver<usize>,
}

impl Attendance {
    pub(crate) fn beside(watchers: &QuestionWatchers) -> Self {
        Self {
            here: Viewers::default(),
            watchers: watchers.clone(),
        }
    }

    pub(crate) fn attend(&self) -> AttendingViewer {
        self.here.attend()
    }

    pub(crate) fn is_attended(&self) -> bool {
        self.here.is_anybody() || self.watchers.0.is_anybody()
    }

    /// When the last person left.
    pub(crate) fn left_at(&self) -> Timestamp {
        let (here, watchers) = (*self.here.left_at.lock(), *self.watchers.0.left_at.lock());
        here.max(watchers)
    }

    pub(crate) fn changes(&self) -> AttendanceChanges {
        AttendanceChanges {
            here: self.here.people.subscribe(),
            watchers: self.watchers.0.people.subscribe(),
        }
    }
}

impl QuestionWatchers {
    pub fn attend(&self) -> AttendingViewer {
        self.0.attend()
    }
}

impl AttendanceChanges {
    /// Waits until somebody comes, or leaves. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        let changed = tokio::select! {
            changed = self.here.changed() => changed,
            changed = self.watchers.changed() => changed,
        };
        if changed.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Default for Viewers {
    fn default() -> Self {
        Self {
            people: watch::Sender::new(0),
            left_at: Arc::default(),
        }
    }
}

impl Viewers {
    fn attend(&self) -> AttendingViewer {
        self.people.send_modify(|it| *it += 1);
        AttendingViewer(self.clone())
    }

    fn is_anybody(&self) -> bool {
        *self.people.borrow() > 0
    }
}

impl Drop for AttendingViewer {
    fn drop(&mut self) {
        *self.0.left_at.lock() = clock::now();
        self.0.people.send_modify(|it| *it -= 1);
    }
}
