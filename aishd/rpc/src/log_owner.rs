//! The envelope of an event, and whose log it belongs to.

use aish_proto::envelope::EventData;
use aish_proto::id::{ClientId, ConversationId, Epoch, Seq, TurnId};
use aish_proto::version::EVENT_SCHEMA;
use aishd_log::event::Record;
use aishd_log::time::Timestamp;
use aishd_platform::clock::rfc3339;
use serde::Serialize;

use super::line_limit;

/// [`aish_proto::envelope::Envelope`] on its way out, its data not yet a value.
#[derive(Serialize)]
struct OutgoingEnvelope<'a, D> {
    v: u32,
    epoch: Epoch,
    conversation: Option<ConversationId>,
    seq: Option<Seq>,
    ts: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<TurnId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<ClientId>,
    kind: &'a str,
    data: D,
}

/// Whose log an event belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogOwner {
    pub(super) epoch: Epoch,
    /// `None`: an event of the daemon as a whole.
    pub(super) conversation: Option<ConversationId>,
}

impl LogOwner {
    /// An ephemeral event.
    pub(super) fn ephemeral<D: EventData>(
        self,
        turn: Option<TurnId>,
        at: Timestamp,
        data: &D,
    ) -> String {
        debug_assert!(!D::STORED, "{} has a place in the log", D::KIND);
        self.encode(None, at, turn, None, data)
    }

    pub(super) fn encode_record<D: EventData>(self, record: &Record, data: &D) -> String {
        self.encode(
            Some(record.seq),
            record.at,
            record.turn,
            record.client,
            data,
        )
    }

    pub(super) fn encode<D: EventData>(
        self,
        seq: Option<Seq>,
        at: Timestamp,
        turn: Option<TurnId>,
        client: Option<ClientId>,
        data: &D,
    ) -> String {
        let out = OutgoingEnvelope {
            v: EVENT_SCHEMA,
            epoch: self.epoch,
            conversation: self.conversation,
            seq,
            ts: rfc3339(at),
            turn,
            client,
            kind: D::KIND,
            data,
        };
        line_limit::encoded(&out)
    }
}
