//! The item being written right now, shared with everybody who follows the conversation.
//!
//! Readers see the text as it is and take what they have not taken yet, so a slow one gets fewer, larger
//! pieces and the writer waits for nobody. Only the newest part is kept.

use aish_proto::id::{Seq, TurnId};
use aishd_model::reply::Delta;
use parking_lot::Mutex;

use crate::view::tail_buffer::TailBuffer;

/// One item in progress.
#[derive(Debug)]
pub struct LiveItem {
    pub turn: TurnId,
    pub item: u32,
    /// A follower shows this only when it has sent the log up to here.
    pub after_seq: Seq,
    streams: Mutex<Vec<TextTail>>,
}

/// Which text of the item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextChannel {
    Text,
    Reasoning,
    Arguments { call: u32, name: String },
}

/// The newest part of one text.
#[derive(Debug)]
struct TextTail {
    channel: TextChannel,
    window: TailBuffer,
}

/// A part of a text that a reader has not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnseenText {
    pub channel: TextChannel,
    pub offset: u64,
    pub text: String,
    /// What lies between the reader's position and `offset` is gone.
    pub gap: bool,
}

impl LiveItem {
    pub fn new(turn: TurnId, item: u32, after_seq: Seq) -> Self {
        Self {
            turn,
            item,
            after_seq,
            streams: Mutex::default(),
        }
    }

    pub fn push(&self, delta: Delta<'_>) {
        let mut streams = self.streams.lock();
        let (found, text) = match delta {
            Delta::Text(text) => (find(&streams, |it| matches!(it, TextChannel::Text)), text),
            Delta::Reasoning(text) => (
                find(&streams, |it| matches!(it, TextChannel::Reasoning)),
                text,
            ),
            Delta::Arguments { call, text, .. } => {
                let this = |it: &TextChannel| matches!(it, TextChannel::Arguments { call: known, .. } if *known == call);
                (find(&streams, this), text)
            }
        };
        match found {
            Some(index) => streams[index].window.push(text),
            None => streams.push(TextTail {
                channel: channel_of(delta),
                window: TailBuffer::of(text),
            }),
        }
    }

    /// What lies past the reader's positions, `max_bytes` at most; the positions move along. `positions`
    /// has an entry for each text, in the order in which the texts began.
    pub fn unseen(&self, positions: &mut Vec<u64>, max_bytes: usize) -> Vec<UnseenText> {
        let streams = self.streams.lock();
        positions.resize(streams.len(), 0);
        let mut left = max_bytes;
        let mut pieces = vec![];
        for (stream, position) in streams.iter().zip(positions) {
            let Some(part) = stream.window.unseen(position, left) else {
                continue;
            };
            left -= part.text.len();
            pieces.push(UnseenText {
                channel: stream.channel.clone(),
                offset: part.offset,
                text: part.text,
                gap: part.gap,
            });
        }
        pieces
    }

    /// The newest part of the answer's text, `max_bytes` at most, and where it begins.
    pub fn tail(&self, max_bytes: usize) -> (u64, String) {
        let streams = self.streams.lock();
        let Some(index) = find(&streams, |it| matches!(it, TextChannel::Text)) else {
            return (0, String::new());
        };
        let (offset, tail) = streams[index].window.tail(max_bytes);
        (offset, tail.to_owned())
    }

    /// Positions of a reader that has been given [`LiveItem::tail`] and nothing else.
    pub fn positions_after_tail(&self, offset: u64, tail: &str) -> Vec<u64> {
        let streams = self.streams.lock();
        let position = |it: &TextTail| match it.channel {
            TextChannel::Text => offset + tail.len() as u64,
            TextChannel::Reasoning | TextChannel::Arguments { .. } => 0,
        };
        streams.iter().map(position).collect()
    }
}

fn find(streams: &[TextTail], is: impl Fn(&TextChannel) -> bool) -> Option<usize> {
    streams.iter().position(|it| is(&it.channel))
}

fn channel_of(delta: Delta<'_>) -> TextChannel {
    match delta {
        Delta::Text(_) => TextChannel::Text,
        Delta::Reasoning(_) => TextChannel::Reasoning,
        Delta::Arguments { call, name, .. } => TextChannel::Arguments {
            call,
            name: name.to_owned(),
        },
    }
}

/// The last character boundary at or before `at`.
pub(crate) fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The first character boundary at or after `at`.
pub(crate) fn ceil_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use aish_proto::limits::LIVE_WINDOW_BYTES;

    use super::*;

    fn live() -> LiveItem {
        LiveItem::new(TurnId::from_bytes([1; 16]), 0, Seq(3))
    }

    #[test]
    fn readers_of_any_pace_read_the_same_text() {
        let live = live();
        let (mut fast, mut slow) = (vec![], vec![]);
        let (mut fast_text, mut slow_text) = (String::new(), String::new());
        for number in 0..1000 {
            live.push(Delta::Text(&format!("{number} é ")));
            for piece in live.unseen(&mut fast, 1 << 20) {
                assert_eq!(fast_text.len() as u64, piece.offset);
                fast_text += &piece.text;
            }
            if number % 97 == 0 {
                for piece in live.unseen(&mut slow, 7) {
                    assert!(piece.text.len() <= 7);
                    slow_text += &piece.text;
                }
            }
        }
        slow_text.extend(
            live.unseen(&mut slow, 1 << 20)
                .into_iter()
                .map(|it| it.text),
        );
        assert_eq!(fast_text, slow_text);
    }

    #[test]
    fn who_falls_behind_the_window_gets_the_newest_part_marked_as_a_gap() {
        let live = live();
        let mut positions = vec![];
        live.push(Delta::Text("begin "));
        live.unseen(&mut positions, 100);
        for _ in 0..3 * LIVE_WINDOW_BYTES / 8 {
            live.push(Delta::Text("01234567"));
        }
        let pieces = live.unseen(&mut positions, usize::MAX);
        assert_eq!(1, pieces.len());
        assert!(pieces[0].gap);
        assert!(
            pieces[0].text.len() >= LIVE_WINDOW_BYTES
                && pieces[0].text.len() <= 2 * LIVE_WINDOW_BYTES
        );
        assert_eq!(
            6 + 3 * LIVE_WINDOW_BYTES as u64,
            pieces[0].offset + pieces[0].text.len() as u64
        );
    }

    #[test]
    fn the_tail_and_what_follows_it_join() {
        let live = live();
        live.push(Delta::Reasoning("hm"));
        live.push(Delta::Text("aé"));
        let (offset, tail) = live.tail(2);
        assert_eq!((1, "é"), (offset, tail.as_str()));
        let mut positions = live.positions_after_tail(offset, &tail);
        live.push(Delta::Text("z"));
        let text: Vec<_> = live
            .unseen(&mut positions, 99)
            .into_iter()
            .map(|it| (it.channel, it.offset, it.text))
            .collect();
        assert_eq!(
            vec![
                (TextChannel::Reasoning, 0, "hm".to_owned()),
                (TextChannel::Text, 3, "z".to_owned())
            ],
            text
        );
    }
}
