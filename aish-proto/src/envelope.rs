//! What every event comes in.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{ClientId, ConversationId, Epoch, Seq, SubscriptionId, TurnId};

/// The `data` of one kind of event.
pub trait EventData: Serialize + DeserializeOwned + JsonSchema {
    const KIND: &'static str;
    const STORED: bool;
}

/// The notification method that carries every event.
pub const NOTIFICATION: &str = "event";

/// Params of the notification `event`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventParams {
    pub subscription: SubscriptionId,
    pub event: Envelope,
}

/// What every event has around its data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<D = Value> {
    /// [`crate::version::EVENT_SCHEMA`].
    pub v: u32,
    pub epoch: Epoch,
    /// Null: of no conversation.
    pub conversation: Option<ConversationId>,
    /// Null: ephemeral.
    pub seq: Option<Seq>,
    /// RFC 3339.
    pub ts: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The client that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    pub kind: String,
    pub data: D,
}

impl Envelope {
    /// The data as the type of its kind; `None` when the event is of another kind or not understood.
    pub fn read<E: EventData>(&self) -> Option<E> {
        (self.kind == E::KIND)
            .then(|| serde_json::from_value(self.data.clone()).ok())
            .flatten()
    }
}
