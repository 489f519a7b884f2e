//! Between a question and its receipt: whoever stops there must not leave behind a turn that nobody waits for.

use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

use aish_proto::id::ConversationId;
use aish_proto::turn::{Cancel, SendResult, TurnParams};
use tokio::time::Instant;

use crate::client::daemon_link::DaemonLink;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::signals::ClientSignals;

/// How long the receipt of a question is waited for that is to be cancelled.
const RECEIPT_WITHIN: Duration = Duration::from_secs(5);

/// A turn that was sent, on the connection that sent it.
pub type SentTurn = (DaemonLink, ConversationId, SendResult);

/// How the way to a turn ended.
#[derive(Debug)]
pub enum TurnBegin {
    Sent(Box<SentTurn>),
    Stopped(Exit),
}

/// How far a question has come.
#[derive(Debug, Default)]
pub struct AskProgress {
    sent: Cell<bool>,
    stopped: Cell<bool>,
}

impl AskProgress {
    /// From here on the daemon may have the question.
    pub fn sending(&self) {
        self.sent.set(true);
    }

    /// We are to stop: what was not received is not sent again.
    pub fn is_stopped(&self) -> bool {
        self.stopped.get()
    }
}

/// Goes on until the turn is sent, or a signal or `--timeout` comes. A question that is on its way then is
/// cancelled once its receipt says which turn it is; a second signal does not wait for that.
pub async fn or_stop(
    signals: &mut ClientSignals,
    give_up: Option<Instant>,
    progress: &AskProgress,
    sending: impl Future<Output = Result<SentTurn, Failure>>,
) -> Result<TurnBegin, Failure> {
    let mut sending = pin!(sending);
    let over = async {
        match give_up {
            Some(give_up) => tokio::time::sleep_until(give_up).await,
            None => std::future::pending().await,
        }
    };
    let exit = tokio::select! {
        sent = &mut sending => return sent.map(|it| TurnBegin::Sent(Box::new(it))),
        signal = signals.next() => signal.exit(),
        () = over => Exit::TIMEOUT,
    };
    progress.stopped.set(true);
    if progress.sent.get() {
        let cancelling = async {
            if let Ok((link, _, SendResult { turn, .. })) = sending.await {
                drop(link.caller.call::<Cancel>(TurnParams { turn }).await);
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(RECEIPT_WITHIN, cancelling) => {}
            _ = signals.next() => {}
        }
    }
    Ok(TurnBegin::Stopped(exit))
}
