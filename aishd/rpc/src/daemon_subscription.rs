//! A subscription to something of the daemon's that belongs to no conversation: its events are not stored and have no number.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use aish_proto::envelope::EventData;
use aish_proto::id::SubscriptionId;
use aishd_platform::clock;
use tokio_util::sync::CancellationToken;

use super::RpcServer;
use super::connection::ClientConnection;
use super::log_owner::LogOwner;
use super::method_error::MethodError;
use super::notification::notification;

/// It ends when it is dropped.
pub(super) struct DaemonSubscription {
    pub(super) server: Arc<RpcServer>,
    pub(super) connection: Arc<ClientConnection>,
    pub(super) id: SubscriptionId,
    /// Nobody wants it any more.
    pub(super) detached: CancellationToken,
}

impl DaemonSubscription {
    /// # Errors
    /// The connection has as many as it may have.
    pub(super) fn open(
        server: Arc<RpcServer>,
        connection: Arc<ClientConnection>,
    ) -> Result<Self, MethodError> {
        let (id, detached) = connection.subscribe(None)?;
        Ok(Self {
            server,
            connection,
            id,
            detached,
        })
    }

    /// False when nobody is there to be told.
    pub(super) async fn send<D: EventData>(&self, data: &D) -> bool {
        let log = LogOwner {
            epoch: self.server.about.epoch,
            conversation: None,
        };
        let event = log.ephemeral(None, clock::now(), data);
        self.server.counters.events.fetch_add(1, Ordering::Relaxed);
        let line = notification(self.id, &event);
        match self.connection.outbox.write(line.as_bytes()).await {
            Ok(()) => !self.detached.is_cancelled(),
            Err(cut) => {
                self.server.note_cut(&self.connection, cut);
                false
            }
        }
    }
}

impl Drop for DaemonSubscription {
    fn drop(&mut self) {
        self.connection.subscriptions.lock().remove(&self.id);
    }
}
