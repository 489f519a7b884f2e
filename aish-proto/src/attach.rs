//! `conversation/attach`: the one subscription. What follows the reply, always in this order:
//! `snapshot`, stored events past `since`, `replayComplete`, live events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conversation::ConversationNotice;
use crate::id::{ConversationId, Epoch, Seq, SubscriptionId};
use crate::method::{Empty, methods};

methods! {
    Attach: "conversation/attach", Observer, Unordered, AttachParams => AttachResult;
    /// Ends a subscription of this connection. It never cancels a turn.
    Detach: "conversation/detach", Observer, Unordered, DetachParams => Empty;
}

/// Where the replay begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayStart {
    /// At the first event.
    Start,
    /// With no stored event but those to come.
    Now,
    /// With the last `n` events.
    Tail(u32),
    /// After this position; of another epoch, it is answered by `resyncRequired` and the tail.
    Cursor(Cursor),
}

/// A place in a log that stays true over a restart of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cursor {
    pub epoch: Epoch,
    pub seq: Seq,
}

impl Cursor {
    /// Goes on to the place of an event. False where that is not further on: the event was taken before.
    pub fn advance(&mut self, epoch: Epoch, seq: Seq) -> bool {
        let is_new = epoch != self.epoch || seq > self.seq;
        if is_new {
            *self = Self { epoch, seq };
        }
        is_new
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttachParams {
    pub id: ConversationId,
    #[schemars(schema_with = "crate::schema::since")]
    #[serde(with = "since_form")]
    pub since: ReplayStart,
    /// Whether text is wanted while it is being written; the finished item comes anyway.
    #[serde(default = "yes")]
    pub deltas: bool,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttachResult {
    pub subscription: SubscriptionId,
    /// As in the result of `conversation/create`; and that models propose facts to be remembered of other conversations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<ConversationNotice>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DetachParams {
    pub subscription: SubscriptionId,
}

/// `"start"`, `"now"`, `{"tail": n}` or `{"epoch": …, "seq": …}`.
mod since_form {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize as _, Serializer};
    use serde_json::Value;

    use super::{Cursor, ReplayStart};

    pub(super) fn serialize<S: Serializer>(since: &ReplayStart, to: S) -> Result<S::Ok, S::Error> {
        match since {
            ReplayStart::Start => "start".serialize(to),
            ReplayStart::Now => "now".serialize(to),
            ReplayStart::Tail(n) => serde_json::json!({ "tail": n }).serialize(to),
            ReplayStart::Cursor(cursor) => cursor.serialize(to),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ReplayStart, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Tail {
            tail: u32,
        }
        let value = Value::deserialize(from)?;
        match &value {
            Value::String(word) if word == "start" => Ok(ReplayStart::Start),
            Value::String(word) if word == "now" => Ok(ReplayStart::Now),
            Value::Object(fields) if fields.contains_key("tail") => {
                let tail: Tail = serde_json::from_value(value).map_err(D::Error::custom)?;
                Ok(ReplayStart::Tail(tail.tail))
            }
            Value::Object(_) => {
                let cursor: Cursor = serde_json::from_value(value).map_err(D::Error::custom)?;
                Ok(ReplayStart::Cursor(cursor))
            }
            Value::String(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_) => Err(D::Error::custom(
                r#"since must be "start", "now", {"tail": n} or {"epoch", "seq"}"#,
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(since: &str, expected: Option<ReplayStart>) {
        let id = ConversationId::from_bytes([7; 16]);
        let line = format!(r#"{{"id":"{id}","since":{since}}}"#);
        let parsed = serde_json::from_str::<AttachParams>(&line).ok();
        assert_eq!(expected, parsed.map(|it| it.since), "{line}");
        if let Some(params) = parsed {
            let again = serde_json::to_value(params).unwrap();
            let original: serde_json::Value = serde_json::from_str(since).unwrap();
            assert_eq!(original, again["since"]);
        }
    }

    #[test]
    fn since_reads_as_the_spec_writes_it() {
        let epoch = Epoch::from_bytes([1; 16]);
        check(r#""start""#, Some(ReplayStart::Start));
        check(r#""now""#, Some(ReplayStart::Now));
        check(r#"{"tail":5}"#, Some(ReplayStart::Tail(5)));
        check(
            &format!(r#"{{"epoch":"{epoch}","seq":9}}"#),
            Some(ReplayStart::Cursor(Cursor { epoch, seq: Seq(9) })),
        );
        check(r#""then""#, None);
        check(r#"{"tail":5,"seq":1}"#, None);
        check("5", None);
    }

    #[test]
    fn a_cursor_goes_on_and_not_back() {
        let [old, new] = [1, 2].map(|it| Epoch::from_bytes([it; 16]));
        let mut cursor = Cursor {
            epoch: old,
            seq: Seq(4),
        };
        let places = [(old, 4), (old, 3), (old, 6), (old, 5), (new, 1), (new, 1)];
        let taken = places.map(|(epoch, seq)| cursor.advance(epoch, Seq(seq)));
        assert_eq!([false, false, true, false, true, false], taken);
        assert_eq!(
            Cursor {
                epoch: new,
                seq: Seq(1)
            },
            cursor
        );
    }
}
