//! The work of a turn outside its actor: streaming one answer, waiting. Plain straight-line
//! functions; each ends in one input for the turn machine.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::ConversationId;
use aishd_broker::Broker;
use aishd_model::preset::Preset;
use aishd_model::reply::{BrokenRequest, Delta, Reply, RequestFailure};
use aishd_platform::failpoint;
use aishd_store::{Partial, Store};
use aishd_turn::turn::{StreamId, TurnInput};
use futures_util::FutureExt as _;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::Conversation;
use super::budget::{RequestMeter, SpendingTicket};
use super::live_item::{LiveItem, TextChannel};
use super::token_counts::TokenCounts;
use super::view::LiveSender;

/// How often the text being written is put where kill -9 does not reach it.
const KEEP_EVERY: Duration = Duration::from_millis(250);

/// One model request.
#[derive(Debug)]
struct StreamRequest {
    conversation: ConversationId,
    stream: StreamId,
    preset: Arc<Preset>,
    body: String,
    live: Arc<LiveItem>,
    sender: LiveSender,
    broker: Broker,
    store: Store,
    /// Learn from what the server counts.
    tokens: TokenCounts,
    /// Learns what goes out and comes in.
    meter: RequestMeter,
    token: CancellationToken,
}

impl Conversation {
    /// Asks a model; the ticket says that it may be asked.
    pub(super) fn spawn_stream(
        &mut self,
        stream: StreamId,
        (preset, ticket): (Arc<Preset>, SpendingTicket),
        body: String,
        live: Arc<LiveItem>,
    ) -> Option<AbortHandle> {
        let active = self.turn.as_mut()?;
        let turn = active.id;
        let meter = ticket.meter();
        active.asking = Some((stream, ticket));
        let request = StreamRequest {
            conversation: self.id,
            stream,
            preset,
            body,
            live,
            sender: self.publisher.live_sender(),
            broker: self.services.broker.clone(),
            store: self.services.store.clone(),
            tokens: self.services.tokens.clone(),
            meter,
            token: active.token.clone(),
        };
        Some(self.spawn(turn, stream, Box::pin(streamed(request))))
    }
}

/// Streams the answer into the live text and returns how it ended. A cancel drops the connection at once
/// and keeps what had arrived.
async fn streamed(request: StreamRequest) -> TurnInput {
    let StreamRequest {
        conversation,
        stream,
        preset,
        body,
        live,
        sender,
        broker,
        store,
        tokens,
        meter,
        token,
    } = request;
    let mut arrived = Reply::default();
    let incoming = meter.clone();
    let sink = |delta: Delta<'_>| {
        incoming.receives(delta.text().len());
        sender.push(&live, delta);
        failpoint::pass("stream.mid");
    };
    let reading = &mut arrived;
    let answer = async {
        let bytes = body.len();
        meter.sends(bytes);
        let answer = broker.stream_into(&preset, body, reading, sink).await;
        if let Ok(reply) = &answer {
            tokens.learn(&preset, bytes, reply.usage.and_then(|it| it.input));
        }
        answer
    };
    let answer = AssertUnwindSafe(answer).catch_unwind();
    let ended = tokio::select! {
        biased;
        () = token.cancelled() => None,
        ended = answer => Some(ended),
        never = keep_partials(conversation, &live, &store) => match never {},
    };
    // Of what was given up only the words count.
    let arrived = Reply {
        text: arrived.text,
        reasoning: arrived.reasoning,
        ..Reply::default()
    };
    match ended {
        Some(Ok(Ok(reply))) => TurnInput::ReplyFinished(stream, reply),
        Some(Ok(Err(broken))) => TurnInput::ReplyFailed(stream, broken, None),
        Some(Err(_panic)) => {
            let failure =
                RequestFailure::Transport("internal error while reading the stream".to_owned());
            let partial = arrived;
            TurnInput::ReplyFailed(
                stream,
                Box::new(BrokenRequest {
                    failure,
                    partial,
                    hint: None,
                }),
                None,
            )
        }
        None => TurnInput::ReplyAbandoned(stream, arrived),
    }
}

/// Hands the growing text to the store, a piece at a time, for as long as it is polled.
async fn keep_partials(
    conversation: ConversationId,
    live: &LiveItem,
    store: &Store,
) -> std::convert::Infallible {
    let mut tick = interval(KEEP_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut positions = vec![];
    let mut whole = true;
    loop {
        tick.tick().await;
        if !whole {
            continue;
        }
        let before = positions.clone();
        for piece in live.unseen(&mut positions, usize::MAX) {
            if piece.channel != TextChannel::Text {
                continue;
            }
            // A text that grew faster than it could be kept: what is kept stays a true beginning.
            whole = !piece.gap;
            let partial = Partial {
                conversation,
                turn: live.turn,
                item: live.item,
                offset: piece.offset,
                text: piece.text,
            };
            if whole && !store.keep_partial(partial) {
                positions.clone_from(&before);
            }
        }
    }
}

/// Waits as a server asked; a cancel ends the wait.
pub(super) async fn wait(stream: StreamId, pause: Duration, token: CancellationToken) -> TurnInput {
    let _cancelled = token.run_until_cancelled(tokio::time::sleep(pause)).await;
    TurnInput::WaitElapsed(stream)
}
