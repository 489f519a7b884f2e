//! The commands that an answer proposes.

use aish_proto::proposed::{self, Proposed};

use aishd_log::event::Stop;

/// The text of an answer whose stream ended properly. Commands are taken from nothing else: what was cut off, cancelled or
/// refused proposes none, and neither does what is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished<'a>(&'a str);

impl<'a> Finished<'a> {
    /// `stop` is how the reply ended: what would end the turn if nothing followed.
    pub fn of(answer: &'a str, stop: Stop) -> Option<Self> {
        match stop {
            Stop::End => Some(Self(answer)),
            Stop::ToolDepth
            | Stop::MaxTokens
            | Stop::Refusal
            | Stop::Cancelled
            | Stop::Upstream
            | Stop::Interrupted
            | Stop::Denied
            | Stop::Budget => None,
        }
    }
}

/// The commands of its `CMD:` lines, in order, within the limits of [`proposed`].
pub fn commands(answer: Finished<'_>) -> Proposed<'_> {
    proposed::commands(answer.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_ended_properly_proposes() {
        let text = "I look.\nCMD: ls";
        let answer = Finished::of(text, Stop::End).unwrap();
        assert_eq!(vec!["ls"], commands(answer).commands);
        for stop in [
            Stop::ToolDepth,
            Stop::MaxTokens,
            Stop::Refusal,
            Stop::Cancelled,
            Stop::Upstream,
            Stop::Interrupted,
            Stop::Budget,
            Stop::Denied,
        ] {
            assert_eq!(None, Finished::of(text, stop));
        }
    }
}
