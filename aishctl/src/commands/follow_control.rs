//! What goes on while a turn is followed, also while a write waits for a slow reader: signals, the time, calls on their way.

use std::io;
use std::time::Duration;

use aish_proto::id::TurnId;
use aish_proto::turn::{Cancel, Get, TurnParams, TurnRecord};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::connect::{Caller, RpcCallError, WireEvent};
use crate::exit::Exit;
use crate::signals::{ClientSignals, TerminalSignal};

/// How long a cancelled turn may take to end; what has been written is printed by then.
pub(super) const CANCELLED_WITHIN: Duration = Duration::from_secs(5);

/// Everything that may end the waiting.
pub(super) enum FollowWake {
    Event(Option<Box<WireEvent>>),
    Record(Box<Result<TurnRecord, RpcCallError>>),
    Signal(TerminalSignal),
    /// The person answered.
    Typed(String),
    /// `--timeout`, or the time that a cancelled turn gets.
    Over,
}

/// The part that works while a write waits for a slow reader.
pub(super) struct FollowControl<'a> {
    pub(super) signals: &'a mut ClientSignals,
    pub(super) caller: Caller,
    pub(super) turn: TurnId,
    pub(super) until: Option<Instant>,
    pub(super) stopped: Option<Exit>,
    /// A write was given up.
    pub(super) stuck: bool,
    /// A record that came while a write waited.
    pub(super) record: Option<Box<Result<TurnRecord, RpcCallError>>>,
    /// Calls on their way; none of them is waited for before the events are read.
    pub(super) calls: JoinSet<Option<Result<TurnRecord, RpcCallError>>>,
}

impl FollowControl<'_> {
    pub(super) async fn wake(&mut self) -> FollowWake {
        if let Some(record) = self.record.take() {
            return FollowWake::Record(record);
        }
        let until = self.until;
        let over = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        loop {
            tokio::select! {
                signal = self.signals.next() => return FollowWake::Signal(signal),
                Some(done) = self.calls.join_next() => {
                    if let Ok(Some(record)) = done {
                        return FollowWake::Record(Box::new(record));
                    }
                }
                () = &mut over => return FollowWake::Over,
            }
        }
    }

    /// Runs a write to its end, or until we are to leave: `None`.
    pub(super) async fn guard(
        &mut self,
        write: impl Future<Output = io::Result<()>>,
    ) -> Option<io::Result<()>> {
        tokio::pin!(write);
        let mut record = None;
        while !self.left() {
            tokio::select! {
                biased;
                written = &mut write => {
                    self.record = self.record.take().or(record);
                    return Some(written);
                }
                wake = self.wake() => match wake {
                    FollowWake::Signal(signal) => self.signal(signal),
                    FollowWake::Over => self.over(),
                    FollowWake::Record(came) => record = Some(came),
                    FollowWake::Event(_) | FollowWake::Typed(_) => {}
                },
            }
        }
        self.stuck = true;
        None
    }

    pub(super) fn signal(&mut self, signal: TerminalSignal) {
        if self.stopped == Some(Exit::INTERRUPTED) || self.stopped == Some(Exit::TERMINATED) {
            self.leave();
        } else {
            self.stop(signal.exit());
        }
    }

    pub(super) fn over(&mut self) {
        if self.stopped.is_some() {
            self.leave();
        } else {
            self.stop(Exit::TIMEOUT);
        }
    }

    pub(super) fn stop(&mut self, exit: Exit) {
        self.stopped = Some(exit);
        self.until = Some(Instant::now() + CANCELLED_WITHIN);
        self.cancel();
    }

    /// Nothing is waited for any more.
    pub(super) fn leave(&mut self) {
        self.until = None;
        self.calls.abort_all();
    }

    pub(super) fn left(&self) -> bool {
        self.stopped.is_some() && self.until.is_none()
    }

    pub(super) fn cancel(&mut self) {
        let (caller, turn) = (self.caller.clone(), self.turn);
        self.calls.spawn(async move {
            drop(caller.call::<Cancel>(TurnParams { turn }).await);
            None
        });
    }

    pub(super) fn ask_record(&mut self) {
        let (caller, turn) = (self.caller.clone(), self.turn);
        self.calls
            .spawn(async move { Some(caller.call::<Get>(TurnParams { turn }).await) });
    }

    /// Waits for the calls that are on their way.
    pub(super) async fn settle(&mut self) {
        while self.calls.join_next().await.is_some() {}
    }
}
