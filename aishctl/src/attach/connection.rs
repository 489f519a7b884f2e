//! The connection of a window: attaching, what is replayed, and a daemon that comes back.

use std::time::Duration;

use aish_proto::attach::{
    Attach, AttachParams, AttachResult, Cursor, Detach, DetachParams, ReplayStart,
};
use aish_proto::event::{ClientEvent, Event};
use aish_proto::id::{Seq, SubscriptionId};

use super::names::NamesHurry;
use super::ui::UserInterface;
use super::{CompletedCall, OpenWindow};
use crate::client::connect::{Caller, RpcCallError};
use crate::client::daemon_link::{DaemonLink, DaemonStart, DaemonWait};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::notice;
use crate::render::rows::SafeRow;

/// Between two attempts that both took their time; a daemon that cannot start is not started in a circle.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayProgress {
    First,
    Back,
}

/// How far events have come, and through what.
#[derive(Debug)]
pub(super) struct WindowConnection {
    pub(super) link: DaemonLink,
    pub(super) cursor: Cursor,
    /// The first event that came.
    begins_at: Option<Seq>,
    /// Absent while we attach: nothing is read before the answer, which says whose events these are.
    subscription: Option<SubscriptionId>,
    /// The rows of a replay that is not complete, and what they are.
    replay: Option<(ReplayProgress, Vec<SafeRow>)>,
    lost: bool,
    /// The daemon has said that it goes. Somebody stopped it, and does not want a window to start it again.
    going: bool,
    /// What is to be said of the place with the greeting.
    pub(super) notices: Vec<String>,
    /// What has been said of a daemon that does not come back.
    told: Option<String>,
}

impl WindowConnection {
    pub(super) fn new(link: DaemonLink) -> Self {
        Self {
            cursor: Cursor {
                epoch: link.hello.epoch,
                seq: Seq(0),
            },
            begins_at: None,
            link,
            subscription: None,
            replay: None,
            lost: false,
            going: false,
            notices: Vec::new(),
            told: None,
        }
    }

    pub(super) fn caller(&self) -> Caller {
        self.link.caller.clone()
    }

    /// Whether there are events to be read.
    pub(super) fn delivers(&self) -> bool {
        self.subscription.is_some() && !self.lost
    }

    /// Also when that connection is lost.
    pub(super) fn is_attached(&self) -> bool {
        self.subscription.is_some()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// The first replay is over: what is on the screen is the conversation.
    pub(super) fn is_settled(&self) -> bool {
        self.replay.is_none()
    }

    /// Whether an event is ours and new; if so, that is how far we have come.
    pub(super) fn takes(&mut self, event: &ClientEvent, subscription: SubscriptionId) -> bool {
        if self.subscription != Some(subscription) {
            return false;
        }
        self.going |= matches!(event.data, Event::Shutdown(_));
        let Some(seq) = event.seq else {
            return true;
        };
        let is_first = self.cursor.seq == Seq(0);
        if !self.cursor.advance(event.epoch, seq) {
            return false;
        }
        self.begins_at = self.begins_at.filter(|_| !is_first).or(Some(seq));
        true
    }

    /// Whether something stands before the first event that came.
    pub(super) fn begins_later(&self) -> bool {
        self.begins_at.is_some_and(|it| it > Seq(1))
    }

    /// Which subscription there is, where the daemon can be asked to end it.
    pub(super) fn subscription(&self) -> Result<SubscriptionId, Failure> {
        self.subscription.filter(|_| !self.lost).ok_or_else(|| {
            Failure::new(Exit::NO_DAEMON, "there is no connection to aishd now")
                .hint("it is made again by itself; aishctl status says what is wrong")
        })
    }

    /// What is replayed next is another conversation.
    pub(super) fn begin_anew(&mut self) {
        self.replay = Some((ReplayProgress::First, Vec::new()));
    }

    /// Keeps rows of a replay; gives back those that are to be shown now.
    pub(super) fn hold(&mut self, rows: Vec<SafeRow>) -> Option<Vec<SafeRow>> {
        match &mut self.replay {
            Some((_, held)) => {
                held.extend(rows);
                None
            }
            None => Some(rows),
        }
    }

    /// The replay is complete; what was held of it.
    pub(super) fn replayed(&mut self, through: Seq) -> Option<(ReplayProgress, Vec<SafeRow>)> {
        self.cursor.seq = self.cursor.seq.max(through);
        self.replay.take()
    }
}

impl<U: UserInterface> OpenWindow<U> {
    pub(super) fn attach(&mut self, replay: ReplayProgress) {
        let connection = &mut self.connection;
        // Before the first replay is complete there is no place to go on from.
        let replay = match &connection.replay {
            Some((ReplayProgress::First, _)) => ReplayProgress::First,
            Some((ReplayProgress::Back, _)) | None => replay,
        };
        let since = match (replay, self.window.args.tail) {
            (ReplayProgress::Back, _) => ReplayStart::Cursor(connection.cursor),
            (ReplayProgress::First, 0) => ReplayStart::Now,
            (ReplayProgress::First, rows) => ReplayStart::Tail(rows),
        };
        // What was held of a replay that broke off is not sent again after its cursor.
        let held = match (replay, connection.replay.take()) {
            (ReplayProgress::Back, Some((ReplayProgress::Back, held))) => held,
            (ReplayProgress::Back | ReplayProgress::First, _) => Vec::new(),
        };
        connection.subscription = None;
        connection.replay = Some((replay, held));
        if replay == ReplayProgress::First {
            connection.cursor.seq = Seq(0);
            self.rows = self.new_rows();
        }
        let params = AttachParams {
            id: self.conversation,
            since,
            deltas: true,
        };
        let caller = self.connection.caller();
        self.calls
            .spawn(async move { CompletedCall::Attached(caller.call::<Attach>(params).await) });
    }

    pub(super) fn attached(
        &mut self,
        attached: Result<AttachResult, RpcCallError>,
    ) -> Result<(), Failure> {
        match attached {
            Ok(attached) => {
                self.connection.subscription = Some(attached.subscription);
                self.connection.notices = attached.notices.iter().map(notice::of).collect();
                if self.has_editor() {
                    self.look_up_names(None, NamesHurry::Soon);
                }
                Ok(())
            }
            // The closed connection is noticed where others are, and the next one tried.
            Err(error) if error.is_transient() => {
                self.connection.subscription = Some(SubscriptionId::from_bytes([0; 16]));
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The connection is gone.
    pub(super) async fn lost(&mut self) -> Result<(), Failure> {
        self.display
            .print_notice("lost the connection to aishd; trying again")
            .await?;
        self.connection.lost = true;
        self.open_again(Duration::ZERO);
        Ok(())
    }

    fn open_again(&mut self, pause: Duration) {
        let mut reach = self.window.reach.clone();
        if self.connection.going {
            reach.start = DaemonStart::Forbidden;
        }
        self.calls.spawn(async move {
            tokio::time::sleep(pause).await;
            CompletedCall::Opened(Box::new(reach.open(DaemonWait::UntilBack).await))
        });
    }

    pub(super) async fn opened(
        &mut self,
        opened: Result<DaemonLink, Failure>,
    ) -> Result<(), Failure> {
        match opened {
            Ok(link) => {
                self.rows.we_are(link.hello.client_id);
                let is_another = link.hello.server != self.connection.link.hello.server;
                self.connection.link = link;
                if is_another {
                    self.own.leave();
                }
                self.connection.lost = false;
                self.connection.going = false;
                self.connection.told = None;
                self.attach(ReplayProgress::Back);
                Ok(())
            }
            // A person sees that it is not there and decides when to leave; a half-typed line is not thrown away.
            Err(failure) if self.has_editor() => {
                if self.connection.told.as_ref() != Some(&failure.message) {
                    self.display.refuse(&failure).await?;
                    self.display
                        .print_notice("trying on; Ctrl-D leaves")
                        .await?;
                    self.connection.told = Some(failure.message);
                }
                self.open_again(PAUSE);
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }

    /// After the program was stopped: the daemon may have given us up, and what it sent is as old as the stop.
    pub(super) fn catch_up(&mut self) {
        let (Some(subscription), None) = (self.connection.subscription, &self.connection.replay)
        else {
            return;
        };
        if self.connection.lost {
            return;
        }
        // What still comes of the old subscription is not shown; the replay has it.
        self.connection.subscription = Some(SubscriptionId::from_bytes([0; 16]));
        self.connection.replay = Some((ReplayProgress::Back, Vec::new()));
        let caller = self.connection.caller();
        self.calls.spawn(async move {
            // Gone already, with the connection or with the subscription: it comes to the same.
            drop(caller.call::<Detach>(DetachParams { subscription }).await);
            CompletedCall::Detached
        });
    }
}
