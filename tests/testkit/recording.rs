//! What one client saw, and whether it is what another saw: identical stored events and identical final texts;
//! the pieces in which a text came may differ.

use std::collections::BTreeMap;

use aish_proto::envelope::Envelope;
use aish_proto::event::{AssistantMessage, Snapshot, TextDelta};
use aish_proto::id::{Seq, TurnId};
use serde_json::Value;

/// One answer of the model: its turn, and its place in it.
pub type Item = (TurnId, u32);

/// The events of one subscription.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    events: Vec<Envelope>,
}

impl Recording {
    pub fn of(events: Vec<Envelope>) -> Self {
        Self { events }
    }

    pub fn events(&self) -> &[Envelope] {
        &self.events
    }

    pub fn kinds(&self) -> Vec<&str> {
        self.events.iter().map(|it| it.kind.as_str()).collect()
    }

    /// The facts: position, kind and data of each stored event.
    pub fn stored(&self) -> Vec<(Seq, &str, &Value)> {
        self.events
            .iter()
            .filter_map(|it| Some((it.seq?, it.kind.as_str(), &it.data)))
            .collect()
    }

    /// The finished text of each answer.
    pub fn final_texts(&self) -> BTreeMap<Item, String> {
        self.events
            .iter()
            .filter_map(|it| {
                let message: AssistantMessage = it.read()?;
                Some(((it.turn?, message.item), message.text))
            })
            .collect()
    }

    /// The text of each answer as its deltas built it; answers with a gap are left out.
    #[track_caller]
    pub fn live_texts(&self) -> BTreeMap<Item, String> {
        let mut texts = BTreeMap::<Item, Option<String>>::new();
        for event in &self.events {
            if let Some(running) = event.read::<Snapshot>().and_then(|it| it.running) {
                // What was written before this client came; without its beginning it cannot be compared.
                let known = (running.offset == 0).then_some(running.text);
                texts.insert((running.turn, running.item), known);
            }
            let Some((delta, turn)) = event.read::<TextDelta>().zip(event.turn) else {
                continue;
            };
            let text = texts
                .entry((turn, delta.item))
                .or_insert_with(|| Some(String::new()));
            let Some(written) = text else { continue };
            if delta.gap {
                *text = None;
                continue;
            }
            assert_eq!(
                written.len() as u64,
                delta.offset,
                "a delta does not begin where the text before it ended: {event:?}"
            );
            written.push_str(&delta.text);
        }
        texts
            .into_iter()
            .filter_map(|(item, text)| Some((item, text?)))
            .collect()
    }

    /// One client's view is right in itself: the snapshot first, stored events one by one without a gap or a
    /// double, one `replayComplete`, and every live text a beginning of the finished one.
    #[track_caller]
    pub fn assert_sound(&self) {
        let kinds = self.kinds();
        let resync = usize::from(kinds.first() == Some(&"resyncRequired"));
        assert_eq!(Some(&"snapshot"), kinds.get(resync), "in {kinds:?}");
        assert_eq!(
            1,
            kinds.iter().filter(|it| **it == "replayComplete").count(),
            "in {kinds:?}"
        );
        let seqs: Vec<Seq> = self.events.iter().filter_map(|it| it.seq).collect();
        for pair in seqs.windows(2) {
            assert_eq!(pair[0].next(), pair[1], "a gap or a double in {seqs:?}");
        }
        let finished = self.final_texts();
        for (item, live) in self.live_texts() {
            if let Some(text) = finished.get(&item) {
                assert!(
                    text.starts_with(&live),
                    "{item:?} was shown as {live:?} and finished as {text:?}"
                );
            }
        }
    }

    /// Both saw the same history.
    #[track_caller]
    pub fn assert_same(&self, other: &Self) {
        let (ours, theirs) = (self.stored(), other.stored());
        for (one, two) in ours.iter().zip(&theirs) {
            assert_eq!(one, two, "two clients saw different facts");
        }
        assert_eq!(ours.len(), theirs.len(), "one client saw more than another");
        assert_eq!(self.final_texts(), other.final_texts());
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::id::{ConversationId, Epoch};
    use serde_json::json;

    use super::*;

    fn event(seq: Option<u64>, kind: &str, data: Value) -> Envelope {
        Envelope {
            v: 1,
            epoch: Epoch::from_bytes([1; 16]),
            conversation: Some(ConversationId::from_bytes([2; 16])),
            seq: seq.map(Seq),
            ts: "2026-11-21T10:00:00.250Z".to_owned(),
            turn: Some(TurnId::from_bytes([3; 16])),
            client: None,
            kind: kind.to_owned(),
            data,
        }
    }

    fn delta(offset: u64, text: &str) -> Envelope {
        let data = json!({ "item": 0, "offset": offset, "text": text });
        event(None, "textDelta", data)
    }

    fn answer(seq: u64, text: &str) -> Envelope {
        let data = json!({ "item": 0, "text": text, "complete": true, "usage": null });
        event(Some(seq), "assistantMessage", data)
    }

    fn view(rest: Vec<Envelope>) -> Recording {
        let mut events = vec![
            event(None, "snapshot", json!({})),
            event(None, "replayComplete", json!({ "through": 0 })),
        ];
        events.extend(rest);
        Recording::of(events)
    }

    #[test]
    fn the_cut_of_deltas_makes_no_difference() {
        let one = view(vec![delta(0, "a"), delta(1, "bc"), answer(1, "abc")]);
        let two = view(vec![delta(0, "abc"), answer(1, "abc")]);
        one.assert_sound();
        two.assert_sound();
        one.assert_same(&two);
    }

    #[test]
    #[should_panic(expected = "different facts")]
    fn another_text_is_another_history() {
        view(vec![answer(1, "abc")]).assert_same(&view(vec![answer(1, "abd")]));
    }

    #[test]
    #[should_panic(expected = "saw more")]
    fn a_missing_event_is_another_history() {
        view(vec![answer(1, "abc")]).assert_same(&view(vec![]));
    }

    #[test]
    #[should_panic(expected = "a gap or a double")]
    fn a_doubled_event_is_unsound() {
        view(vec![answer(1, "abc"), answer(1, "abc")]).assert_sound();
    }

    #[test]
    #[should_panic(expected = "was shown as")]
    fn text_that_was_shown_must_be_in_the_answer() {
        view(vec![delta(0, "x"), answer(1, "abc")]).assert_sound();
    }

    #[test]
    #[should_panic(expected = "does not begin where")]
    fn a_delta_that_leaves_something_out_is_unsound() {
        view(vec![delta(0, "a"), delta(2, "c"), answer(1, "abc")]).assert_sound();
    }
}
