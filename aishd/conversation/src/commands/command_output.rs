//! What commands print while they run, shared with everybody who follows the conversation. It is the newest part of it,
//! and in no log: the end of a command has what is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aish_proto::id::{Seq, TurnId};
use parking_lot::Mutex;

use crate::view::tail_buffer::{TailBuffer, TailPart};

/// Which command: turns name theirs alike.
pub(crate) type CommandKey = (Option<TurnId>, String);

/// The output of one command.
#[derive(Debug)]
pub struct CommandPrinting {
    pub call: String,
    pub turn: Option<TurnId>,
    /// A follower shows this only when it has sent the log up to here.
    pub after_seq: Seq,
    /// Where its end stands in the log, or 0. What a follower has not sent yet it sends before that.
    ended: AtomicU64,
    window: Mutex<TailBuffer>,
}

impl CommandPrinting {
    pub fn new(call: &str, turn: Option<TurnId>, after_seq: Seq) -> Arc<Self> {
        Arc::new(Self {
            call: call.to_owned(),
            turn,
            after_seq,
            ended: AtomicU64::new(0),
            window: Mutex::default(),
        })
    }

    pub(crate) fn which(&self) -> CommandKey {
        (self.turn, self.call.clone())
    }

    pub(crate) fn is_of(&self, (turn, call): &CommandKey) -> bool {
        self.turn == *turn && self.call == *call
    }

    pub fn push(&self, text: &str) {
        self.window.lock().push(text);
    }

    pub(crate) fn unseen(&self, position: &mut u64, max_bytes: usize) -> Option<TailPart> {
        self.window.lock().unseen(position, max_bytes)
    }

    pub(crate) fn end(&self, at: Seq) {
        self.ended.store(at.0, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed) > 0
    }

    /// Whether a follower at this position shows it.
    pub(crate) fn is_shown_at(&self, cursor: Seq) -> bool {
        let ended = self.ended.load(Ordering::Relaxed);
        self.after_seq <= cursor && (ended == 0 || cursor.0 < ended)
    }
}
