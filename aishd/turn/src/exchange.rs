//! Exchanges: a question and all that followed on it, up to the next one. They leave the context and come back whole,
//! so that no result is ever without its call.

use std::ops::Range;

use aish_proto::id::{Seq, TurnId};
use aishd_log::event::Record;
use aishd_log::eviction::LeftExchange;
use aishd_log::picture::NamedPicture;

use crate::command_report::{CommandReport, moved};
use crate::transcript::{Transcript, TranscriptMessage};

/// What stands around the text of a message in a request.
const AROUND_MESSAGE_BYTES: u64 = 40;
/// What stands around a call.
const AROUND_CALL_BYTES: u64 = 80;

/// Where outputs of commands stand in the text of a question, in their order.
pub(super) type OutputPlaces = Vec<Range<usize>>;

/// A message in its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ExchangeEntry {
    /// The record that put it here; eviction goes by this position.
    pub(super) at: Seq,
    pub(super) turn: Option<TurnId>,
    pub(super) message: TranscriptMessage,
    /// There is more to read of a result or an output than it shows.
    pub(super) keeps_more: bool,
    pub(super) outputs: OutputPlaces,
}

/// What may be shown shortened: a result of a tool, or an output of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShortenablePiece {
    /// The message that it stands in, counted in the exchange.
    message: usize,
    within: Range<usize>,
    pub(super) is_output: bool,
    pub(super) text: String,
}

/// Messages that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exchange {
    turn: Option<TurnId>,
    begin: Seq,
    entries: Vec<ExchangeEntry>,
    /// About what its messages take in a request.
    bytes: u64,
    /// There is more to read of one of its results or outputs.
    keeps_more: bool,
    /// It had left.
    was_put_back: bool,
}

impl Exchange {
    pub(super) fn new(turn: Option<TurnId>, begin: Seq) -> Self {
        Self {
            turn,
            begin,
            ..Self::default()
        }
    }

    /// One that left, as the log has it: `records` are those from its beginning to its last message.
    pub fn read<'a>(
        left: LeftExchange,
        records: impl IntoIterator<Item = &'a Record>,
    ) -> Option<Self> {
        let mut transcript = Transcript::default();
        records.into_iter().for_each(|it| transcript.apply(it));
        transcript.take(left.turn)
    }

    /// The turn of its question; `None` for messages whose question is not here.
    pub fn turn(&self) -> Option<TurnId> {
        self.turn
    }

    /// The first record that has to be read for it.
    pub fn begin(&self) -> Seq {
        self.begin
    }

    /// It needs this record too.
    pub(super) fn reach_back(&mut self, to: Seq) {
        self.begin = self.begin.min(to);
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether there is more to read of one of its results.
    pub fn keeps_results(&self) -> bool {
        self.keeps_more
    }

    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &TranscriptMessage> {
        self.entries.iter().map(|it| &it.message)
    }

    /// Whether its last answer has a call of this id.
    pub(super) fn calls_last(&self, id: &str) -> bool {
        let mut messages = self.messages().rev();
        messages
            .find_map(|it| match it {
                TranscriptMessage::Assistant { calls, .. } => {
                    Some(calls.iter().any(|it| it.id == id))
                }
                TranscriptMessage::User { .. } | TranscriptMessage::Tool { .. } => None,
            })
            .unwrap_or_default()
    }

    pub(super) fn entries(&self) -> &[ExchangeEntry] {
        &self.entries
    }

    pub(super) fn push(&mut self, entry: ExchangeEntry) {
        self.insert(self.entries.len(), entry);
    }

    pub(super) fn insert(&mut self, place: usize, entry: ExchangeEntry) {
        self.bytes += weight(&entry.message);
        self.keeps_more |= entry.keeps_more;
        self.entries.insert(place, entry);
    }

    /// Adds to a question that stands last; false where an answer does.
    pub(super) fn go_on_with(&mut self, more: &CommandReport, keeps_more: bool) -> bool {
        let Some(ExchangeEntry {
            message: TranscriptMessage::User { text, .. },
            keeps_more: keeps,
            outputs,
            ..
        }) = self.entries.last_mut()
        else {
            return false;
        };
        text.push_str("\n\n");
        outputs.extend(more.output.clone().map(|it| moved(it, text.len())));
        text.push_str(&more.text);
        *keeps |= keeps_more;
        self.keeps_more |= keeps_more;
        self.bytes = self.messages().map(weight).sum();
        true
    }

    /// Puts pictures to the last answer, whose record they stand behind.
    pub(super) fn show_last(&mut self, made: Vec<NamedPicture>, at: Seq) {
        let answers = self.entries.iter_mut().rev();
        let mut answers = answers.filter_map(|it| match &mut it.message {
            TranscriptMessage::Assistant { pictures, .. } => Some((&mut it.at, pictures)),
            TranscriptMessage::User { .. } | TranscriptMessage::Tool { .. } => None,
        });
        let Some((place, pictures)) = answers.next() else {
            return;
        };
        pictures.extend(made);
        *place = at;
        self.bytes = self.messages().map(weight).sum();
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&ExchangeEntry) -> bool) {
        self.entries.retain(|it| keep(it));
        self.keeps_more = self.entries.iter().any(|it| it.keeps_more);
        self.bytes = self.messages().map(weight).sum();
    }

    pub(super) fn put_back(&mut self) {
        self.was_put_back = true;
    }

    pub(super) fn was_put_back(&self) -> bool {
        self.was_put_back
    }

    /// Whether it had left with what is up to there, and is back.
    pub fn is_back(&self, evicted_through: Seq) -> bool {
        self.last() <= evicted_through
    }

    /// The record that its first message comes from.
    pub fn first(&self) -> Seq {
        self.entries.iter().map(|it| it.at).min().unwrap_or(Seq(0))
    }

    /// The last record of it. Results stand in the order of their calls, which need not be that of the log.
    pub fn last(&self) -> Seq {
        self.entries.iter().map(|it| it.at).max().unwrap_or(Seq(0))
    }

    /// What is kept of it where it leaves.
    pub fn left_exchange(&self) -> Option<LeftExchange> {
        Some(LeftExchange {
            turn: self.turn?,
            begin: self.begin,
            first: self.first(),
            last: self.last(),
            bytes: self.bytes,
        })
    }

    /// What of it may be shown shortened, in its order.
    pub(super) fn pieces(&self) -> Vec<ShortenablePiece> {
        let mut pieces = vec![];
        for (message, entry) in self.entries.iter().enumerate() {
            let (text, places, is_output) = match &entry.message {
                TranscriptMessage::User { text, .. } => (text, entry.outputs.clone(), true),
                TranscriptMessage::Tool { content, .. } => {
                    let whole = 0..content.len();
                    (content, vec![whole], false)
                }
                TranscriptMessage::Assistant { .. } => continue,
            };
            pieces.extend(places.into_iter().filter_map(|within| {
                Some(ShortenablePiece {
                    message,
                    text: text.get(within.clone())?.to_owned(),
                    within,
                    is_output,
                })
            }));
        }
        pieces
    }

    /// Puts other texts in place of some of its [`Exchange::pieces`], which are given in their order.
    pub(super) fn replace(&mut self, pieces: &[(&ShortenablePiece, String)]) {
        // From the last one on, so that those before it stay where they are.
        for (piece, text) in pieces.iter().rev() {
            let Some(entry) = self.entries.get_mut(piece.message) else {
                continue;
            };
            let (TranscriptMessage::User { text: whole, .. }
            | TranscriptMessage::Tool { content: whole, .. }) = &mut entry.message
            else {
                continue;
            };
            whole.replace_range(piece.within.clone(), text);
            let end = piece.within.start + text.len();
            for place in &mut entry.outputs {
                if *place == piece.within {
                    place.end = end;
                } else if place.start >= piece.within.end {
                    *place =
                        place.start - piece.within.end + end..place.end - piece.within.end + end;
                }
            }
        }
        self.bytes = self.messages().map(weight).sum();
    }
}

/// About what a message takes in a request. Its text is counted as JSON spells it.
pub(super) fn weight(message: &TranscriptMessage) -> u64 {
    let bytes = match message {
        TranscriptMessage::User { text, pictures } => json_bytes(text) + pictures_weight(pictures),
        TranscriptMessage::Assistant {
            text,
            calls,
            extra,
            sealed,
            pictures,
            model_id: _,
        } => {
            let calls = calls.iter().map(|it| {
                let told = json_bytes(&it.arguments) + json_bytes(&it.id) + json_bytes(&it.name);
                told + AROUND_CALL_BYTES
            });
            let extra = extra
                .iter()
                .map(|(name, it)| json_bytes(name) + it.to_string().len() as u64);
            let seals = sealed.as_ref().map_or(0, |it| it.bytes());
            let calls = calls.sum::<u64>();
            json_bytes(text) + calls + extra.sum::<u64>() + seals + pictures_weight(pictures)
        }
        TranscriptMessage::Tool {
            call,
            content,
            pictures,
            ..
        } => json_bytes(content) + json_bytes(call) + pictures_weight(pictures),
    };
    bytes + AROUND_MESSAGE_BYTES
}

fn pictures_weight(pictures: &[NamedPicture]) -> u64 {
    pictures.iter().map(|it| it.picture.weight()).sum()
}

/// Bytes of a text as `serde_json` writes it, without its quotes.
pub(super) fn json_bytes(text: &str) -> u64 {
    let longer = text.bytes().map(|it| match it {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 1,
        0..0x20 => 5,
        0x20.. => 0,
    });
    text.len() as u64 + longer.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_are_those_of_the_encoder(text in "\\PC{0,40}[\u{0}-\u{1f}\"\\\\é漢🙂]{0,40}") {
            let spelled = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(spelled.len() as u64 - 2, json_bytes(&text));
        }
    }
}
