//! The commands that an answer proposes.

use aish_proto::proposed::{self, TextProposal};
use aishd_log::event::StopReason;

/// The text of an answer whose stream ended properly. Commands are taken from nothing else: what was cut off, cancelled or
/// refused proposes none, and neither does what is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishedAnswer<'a>(&'a str);

impl<'a> FinishedAnswer<'a> {
    /// `stop` is how the reply ended: what would end the turn if nothing followed.
    pub fn of(answer: &'a str, stop: StopReason) -> Option<Self> {
        match stop {
            StopReason::End => Some(Self(answer)),
            _ => None,
        }
    }
}

/// The commands of its `CMD:` lines, in order, within the limits of [`proposed`].
pub fn commands(answer: FinishedAnswer<'_>) -> TextProposal<'_> {
    proposed::commands(answer.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_ended_properly_proposes() {
        let text = "I look.\nCMD: ls";
        let answer = FinishedAnswer::of(text, StopReason::End).unwrap();
        assert_eq!(vec!["ls"], commands(answer).commands);
        for stop in [
            StopReason::ToolDepth,
            StopReason::MaxTokens,
            StopReason::Refusal,
            StopReason::Cancelled,
            StopReason::Upstream,
            StopReason::Interrupted,
            StopReason::Budget,
            StopReason::Denied,
        ] {
            assert_eq!(None, FinishedAnswer::of(text, stop));
        }
    }
}
