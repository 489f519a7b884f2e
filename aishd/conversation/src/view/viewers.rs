//! Whether a person looks at a conversation: somebody at a terminal who may answer.

use std::sync::Arc;

use aishd_log::time::Timestamp;
use aishd_platform::clock;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Cheap to clone; all clones count together.
#[derive(Clone, Debug)]
pub struct Attendance {
    people: watch::Sender<usize>,
    left_at: Arc<Mutex<Timestamp>>,
}

/// A person who is there until this is dropped.
#[derive(Debug)]
pub struct AttendingViewer(Attendance);

impl Attendance {
    pub(crate) fn new() -> Self {
        Self {
            people: watch::Sender::new(0),
            left_at: Arc::default(),
        }
    }

    pub(crate) fn attend(&self) -> AttendingViewer {
        self.people.send_modify(|it| *it += 1);
        AttendingViewer(self.clone())
    }

    pub(crate) fn is_attended(&self) -> bool {
        *self.people.borrow() > 0
    }

    /// When the last person left.
    pub(crate) fn left_at(&self) -> Timestamp {
        *self.left_at.lock()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<usize> {
        self.people.subscribe()
    }
}

impl Drop for AttendingViewer {
    fn drop(&mut self) {
        *self.0.left_at.lock() = clock::now();
        self.0.people.send_modify(|it| *it -= 1);
    }
}
