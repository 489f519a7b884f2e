//! Events as they go over the wire, encoded once for all who follow a conversation.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use aish_proto::id::{Seq, TurnId};
use parking_lot::Mutex;

/// Encoded stored events that are kept; a follower further behind encodes for itself.
const KEPT_BYTES: usize = 256 << 10;
/// Long events that are known of.
const KNOWN_LONG: usize = 8;
/// Deltas that are kept: followers of the same pace ask for the same ones.
const KEPT_DELTAS: usize = 8;

/// One per conversation.
#[derive(Debug, Default)]
pub(super) struct EncodedEvents(Mutex<EncodedEntry>);

#[derive(Debug, Default)]
struct EncodedEntry {
    events: VecDeque<(Seq, Arc<String>)>,
    bytes: usize,
    deltas: VecDeque<(DeltaKey, Arc<String>)>,
    /// Longer than all that is kept: there while somebody is being sent them.
    long: VecDeque<(Seq, Weak<String>)>,
}

/// What makes two deltas the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeltaKey {
    pub(super) turn: TurnId,
    pub(super) item: u32,
    /// Which of the item's texts.
    pub(super) channel: u32,
    pub(super) offset: u64,
    pub(super) bytes: usize,
    pub(super) gap: bool,
}

impl EncodedEvents {
    pub(super) fn event(&self, seq: Seq, encode: impl FnOnce() -> String) -> Arc<String> {
        let mut kept = self.0.lock();
        if let Some(index) = kept.events.front().and_then(|it| seq.0.checked_sub(it.0.0))
            && let Some((_, text)) = usize::try_from(index)
                .ok()
                .and_then(|it| kept.events.get(it))
        {
            return text.clone();
        }
        let mut long = kept.long.iter().filter(|it| it.0 == seq);
        if let Some(text) = long.find_map(|it| it.1.upgrade()) {
            return text;
        }
        // What was written of it came before, and nobody who follows at any pace asks for that again.
        kept.deltas.clear();
        let text = Arc::new(encode());
        if text.len() > KEPT_BYTES {
            kept.long.retain(|it| it.1.strong_count() > 0);
            kept.long.truncate(KNOWN_LONG - 1);
            kept.long.push_front((seq, Arc::downgrade(&text)));
        }
        let follows = kept.events.back().is_none_or(|it| it.0.next() == seq);
        if follows {
            kept.bytes += text.len();
            kept.events.push_back((seq, text.clone()));
        } else if kept.events.back().is_some_and(|it| it.0 < seq) {
            // A gap, because nobody followed for a while: begin again here.
            kept.bytes = text.len();
            kept.events.clear();
            kept.events.push_back((seq, text.clone()));
        }
        while kept.bytes > KEPT_BYTES {
            let Some((_, oldest)) = kept.events.pop_front() else {
                break;
            };
            kept.bytes -= oldest.len();
        }
        text
    }

    pub(super) fn delta(&self, key: DeltaKey, encode: impl FnOnce() -> String) -> Arc<String> {
        let mut kept = self.0.lock();
        if let Some((_, text)) = kept.deltas.iter().find(|it| it.0 == key) {
            return text.clone();
        }
        let text = Arc::new(encode());
        if kept.deltas.len() >= KEPT_DELTAS {
            kept.deltas.pop_front();
        }
        kept.deltas.push_back((key, text.clone()));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_encoded_once_and_the_oldest_are_forgotten() {
        let encoded = EncodedEvents::default();
        let mut made = 0;
        for round in 0..2 {
            for seq in 1..=3 {
                let text = encoded.event(Seq(seq), || {
                    made += 1;
                    format!("{seq}")
                });
                assert_eq!(seq.to_string(), *text, "round {round}");
            }
        }
        assert_eq!(3, made);
        let big = "x".repeat(KEPT_BYTES);
        encoded.event(Seq(4), || big.clone());
        let longer = encoded.event(Seq(5), || big.clone() + "x");
        let again = encoded.event(Seq(5), || panic!("somebody has it"));
        assert!(Arc::ptr_eq(&longer, &again));
        drop((longer, again));
        assert_eq!("gone", &*encoded.event(Seq(5), || "gone".to_owned()));
        encoded.event(Seq(9), || "nine".to_owned());
        assert_eq!("again", &*encoded.event(Seq(3), || "again".to_owned()));
        assert_eq!("nine", &*encoded.event(Seq(9), || panic!("it is kept")));
    }
}
