//! The work of a turn outside its actor: streaming one answer, waiting. Plain straight-line
//! functions; each ends in one input for the turn machine.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::ConversationId;
use aishd_broker::Broker;
use aishd_model::preset::Preset;
use aishd_model::reply::{BrokenRequest, Delta, Reply, RequestFailure};
use aishd_platform::failpoint;
use aishd_store::{Partial, Store};
use aishd_turn::request::WeighedBody;
use aishd_turn::turn::{StreamId, TurnInput};
use futures_util::FutureExt as _;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::context::token_counts::TokenCounts;
use crate::spending::budget::RequestMeter;
use crate::view::LiveSender;
use crate::view::live_item::{LiveItem, TextChannel};

/// How often the text being written is put where kill -9 does not reach it.
pub(crate) const KEEP_EVERY: Duration = Duration::from_millis(250);

/// One model request.
#[derive(Debug)]
pub(crate) struct StreamRequest {
    pub(crate) conversation: ConversationId,
    pub(crate) stream: StreamId,
    pub(crate) preset: Arc<Preset>,
    pub(crate) body: WeighedBody,
    pub(crate) live: Arc<LiveItem>,
    pub(crate) sender: LiveSender,
    pub(crate) broker: Broker,
    pub(crate) store: Store,
    /// Learn from what the server counts.
    pub(crate) tokens: TokenCounts,
    /// Learns what goes out and comes in.
    pub(crate) meter: RequestMeter,
    pub(crate) token: CancellationToken,
}

/// Streams the answer into the live text and returns how it ended. A cancel drops the connection at once
/// and keeps what had arrived.
pub(crate) async fn streamed(request: StreamRequest) -> TurnInput {
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
        let WeighedBody {
            text,
            weight: bytes,
        } = body;
        meter.sends(bytes);
        let answer = broker.stream_into(&preset, text, reading, sink).await;
        if let Ok(reply) = &answer {
            tokens.learn(&preset, bytes, reply.usage.and_then(|it| it.input));
        }
        answer
    };
    let answer = AssertUnwindSafe(sender.while_running(answer)).catch_unwind();
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
pub(crate) async fn keep_partials(
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

/// Waits before a request is sent again, up to a quarter longer, so that those that failed together do not come back together; a
/// cancel ends the wait.
pub(crate) async fn wait(stream: StreamId, pause: Duration, token: CancellationToken) -> TurnInput {
    let by_chance = RandomState::new().build_hasher().finish() % 256;
    let longer = pause * u32::try_from(by_chance).unwrap_or_default() / 1024;
    let asleep = tokio::time::sleep(pause + longer);
    let _cancelled = token.run_until_cancelled(asleep).await;
    TurnInput::WaitElapsed(stream)
}
