//! `log/tail`: the log as a subscription. The lines wait in the ring, so a client that reads slowly delays nobody;
//! when they are gone before it reads them, it is told how many.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use aish_proto::event::LogLines;
use aish_proto::id::SubscriptionId;
use aish_proto::limits::PAGE_BYTES;
use aish_proto::log::{Tail, TailResult};
use aishd_logging::RingPage;
use aishd_platform::clock;
use jsonrpsee::RpcModule;
use tokio_util::sync::CancellationToken;

use super::connection::ClientConnection;
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register};
use crate::log_owner::LogOwner;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Tail, _, _>(module, tail);
}

async fn tail(call: MethodCall<Tail>) -> Result<TailResult, MethodError> {
    let MethodCall {
        server,
        connection,
        after_reply,
        params,
    } = call;
    let (subscription, detached) = connection.subscribe(None)?;
    let count = usize::try_from(params.lines).unwrap_or(usize::MAX);
    let reader = LogSubscription {
        position: server.log.tail(count),
        server,
        connection,
        subscription,
        detached,
    };
    after_reply.start(reader.run());
    Ok(TailResult { subscription })
}

/// A subscription while it lives.
struct LogSubscription {
    server: Arc<RpcServer>,
    connection: Arc<ClientConnection>,
    subscription: SubscriptionId,
    detached: CancellationToken,
    position: u64,
}

impl LogSubscription {
    async fn run(mut self) {
        let mut written = self.server.log.watch();
        let end = *written.borrow_and_update();
        let mut complete = false;
        loop {
            let page = self.server.log.after(self.position, PAGE_BYTES);
            let now_complete = page.next >= end;
            // Said once even when there are no lines, so that who wants no more knows that this was all.
            if !page.lines.is_empty() || !complete {
                self.position = page.next;
                complete |= now_complete;
                if !self.send_page(page, complete).await {
                    break;
                }
                continue;
            }
            tokio::select! {
                () = self.detached.cancelled() => break,
                changed = written.changed() => if changed.is_err() { break },
            }
        }
        self.connection
            .subscriptions
            .lock()
            .remove(&self.subscription);
    }

    /// False when nobody is there to be told.
    async fn send_page(&self, page: RingPage, complete: bool) -> bool {
        let data = LogLines {
            lines: page.lines.iter().map(|it| it.to_string()).collect(),
            missed: page.missed,
            complete,
        };
        let log = LogOwner {
            epoch: self.server.about.epoch,
            conversation: None,
        };
        let event = log.ephemeral(None, clock::now(), &data);
        self.server.counters.events.fetch_add(1, Ordering::Relaxed);
        let line = crate::notification::notification(self.subscription, &event);
        match self.connection.outbox.write(line.as_bytes()).await {
            Ok(()) => !self.detached.is_cancelled(),
            Err(cut) => {
                self.server.note_cut(&self.connection, cut);
                false
            }
        }
    }
}
