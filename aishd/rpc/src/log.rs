//! `log/tail`: the log as a subscription. The lines wait in the ring, so a client that reads slowly delays nobody;
//! when they are gone before it reads them, it is told how many.

use aish_proto::event::LogLines;
use aish_proto::limits::PAGE_BYTES;
use aish_proto::log::{Tail, TailResult};
use aishd_logging::RingPage;
use jsonrpsee::RpcModule;

use super::daemon_subscription::DaemonSubscription;
use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register};

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
    let to = DaemonSubscription::open(server, connection)?;
    let subscription = to.id;
    let count = usize::try_from(params.lines).unwrap_or(usize::MAX);
    let reader = LogSubscription {
        position: to.server.log.tail(count),
        to,
    };
    after_reply.start(reader.run());
    Ok(TailResult { subscription })
}

/// A subscription while it lives.
struct LogSubscription {
    to: DaemonSubscription,
    position: u64,
}

impl LogSubscription {
    async fn run(mut self) {
        let mut written = self.to.server.log.watch();
        let end = *written.borrow_and_update();
        let mut complete = false;
        loop {
            let page = self.to.server.log.after(self.position, PAGE_BYTES);
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
                () = self.to.detached.cancelled() => break,
                changed = written.changed() => if changed.is_err() { break },
            }
        }
    }

    /// False when nobody is there to be told.
    async fn send_page(&self, page: RingPage, complete: bool) -> bool {
        let data = LogLines {
            lines: page.lines.iter().map(|it| it.to_string()).collect(),
            missed: page.missed,
            complete,
        };
        self.to.send(&data).await
    }
}
