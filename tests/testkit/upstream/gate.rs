//! A stream that a test writes by hand: it knows when the request is there, lets each piece out when it
//! wants to, and sees when the other side hangs up.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::answer::choice;
use crate::wait::{PATIENCE, left};

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<Piece>,
    arrived: bool,
    hung_up: bool,
    written: usize,
}

/// What the test lets out.
#[derive(Debug)]
pub(super) enum Piece {
    Frame(Value),
    Bytes(Vec<u8>),
    /// The rest of the answer follows: finish reason, usage, `[DONE]`.
    Finish,
    Cut,
    Reset,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `take` gives something; `None` when `limit` is over.
    fn wait<T>(&self, limit: Duration, take: impl Fn(&mut State) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + limit;
        let mut state = self.lock();
        loop {
            if let Some(taken) = take(&mut state) {
                return Some(taken);
            }
            let waited = self.changed.wait_timeout(state, left(deadline)?);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The test's side.
#[derive(Debug)]
pub struct Gate {
    shared: Arc<Shared>,
}

/// The server's side.
#[derive(Debug)]
pub(super) struct Hand {
    shared: Arc<Shared>,
}

pub(super) fn pair() -> (Gate, Hand) {
    let shared = Arc::new(Shared::default());
    let hand = Hand {
        shared: Arc::clone(&shared),
    };
    (Gate { shared }, hand)
}

impl Gate {
    /// Waits until the request is there.
    #[track_caller]
    pub fn wait_request(&self) {
        self.wait("the request", |it| it.arrived);
    }

    /// Lets text out.
    pub fn text(&self, text: &str) {
        self.delta(&json!({ "content": text }));
    }

    /// Lets a chunk with this `delta` out.
    pub fn delta(&self, delta: &Value) {
        self.push(Piece::Frame(choice(delta, None)));
    }

    /// Lets a whole frame out.
    pub fn frame(&self, frame: Value) {
        self.push(Piece::Frame(frame));
    }

    /// Lets bytes out as they are.
    pub fn bytes(&self, bytes: impl Into<Vec<u8>>) {
        self.push(Piece::Bytes(bytes.into()));
    }

    /// Ends the stream as it should end.
    pub fn finish(&self) {
        self.push(Piece::Finish);
    }

    /// Ends the connection in the middle.
    pub fn cut(&self) {
        self.push(Piece::Cut);
    }

    pub fn reset(&self) {
        self.push(Piece::Reset);
    }

    /// Waits until all that was let out is in the socket.
    #[track_caller]
    pub fn wait_written(&self) {
        self.wait("the pieces to be written", |it| it.pieces.is_empty());
    }

    /// Waits until the other side hangs up.
    #[track_caller]
    pub fn wait_hang_up(&self) {
        self.wait("the other side to hang up", |it| it.hung_up);
    }

    pub fn hung_up(&self) -> bool {
        self.shared.lock().hung_up
    }

    /// Pieces that are in the socket.
    pub fn written(&self) -> usize {
        self.shared.lock().written
    }

    fn push(&self, piece: Piece) {
        self.shared.lock().pieces.push_back(piece);
        self.shared.changed.notify_all();
    }

    #[track_caller]
    fn wait(&self, what: &str, holds: impl Fn(&State) -> bool) {
        let came = self.shared.wait(PATIENCE, |it| holds(it).then_some(()));
        assert!(came.is_some(), "the gate waited in vain for {what}");
    }
}

/// Why the server stops writing by hand.
pub(super) enum Next {
    Piece(Piece),
    HungUp,
}

impl Hand {
    pub(super) fn arrived(&self) {
        self.shared.lock().arrived = true;
        self.shared.changed.notify_all();
    }

    pub(super) fn hung_up(&self) {
        self.shared.lock().hung_up = true;
        self.shared.changed.notify_all();
    }

    /// The next piece; it stays in the queue until [`Hand::wrote`]. `None`: look again whether to go on.
    pub(super) fn next(&self, limit: Duration) -> Option<Next> {
        self.shared.wait(limit, |state| {
            if state.hung_up {
                return Some(Next::HungUp);
            }
            state
                .pieces
                .front_mut()
                .map(|it| Next::Piece(std::mem::replace(it, Piece::Finish)))
        })
    }

    pub(super) fn wrote(&self) {
        let mut state = self.shared.lock();
        state.pieces.pop_front();
        state.written += 1;
        drop(state);
        self.shared.changed.notify_all();
    }
}
