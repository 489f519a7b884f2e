//! What running calls say of themselves, for whoever looks on; the newest of it, and never kept.

use std::collections::VecDeque;
use std::sync::Arc;

use aish_proto::id::TurnId;
use aishd_tools::Said;
use parking_lot::Mutex;

/// Words that wait for the slowest who looks; a slower one misses some.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub struct ToolProgress(Mutex<ProgressRing>);

#[derive(Debug, Default)]
struct ProgressRing {
    /// How many were ever said.
    said: u64,
    words: VecDeque<(u64, Arc<ProgressMessage>)>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressMessage {
    pub turn: TurnId,
    pub call: String,
    /// The tool.
    pub name: String,
    pub said: Said,
}

impl ToolProgress {
    pub(crate) fn push(&self, word: ProgressMessage) {
        let mut ring = self.0.lock();
        ring.said += 1;
        let number = ring.said;
        ring.words.push_back((number, Arc::new(word)));
        if ring.words.len() > MOST {
            ring.words.pop_front();
        }
    }

    /// The call is over: its result says more.
    pub(crate) fn forget(&self, call: &str) {
        self.0.lock().words.retain(|(_, it)| it.call != call);
    }

    /// What was said after a position, which moves to the end.
    pub(crate) fn after(&self, position: &mut u64) -> Vec<Arc<ProgressMessage>> {
        let ring = self.0.lock();
        let news = ring.words.iter().filter(|(number, _)| number > position);
        let news = news.map(|(_, it)| it.clone()).collect();
        *position = ring.said;
        news
    }

    /// Where those begin who come now.
    pub(crate) fn end(&self) -> u64 {
        self.0.lock().said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(call: &str, number: u32) -> ProgressMessage {
        ProgressMessage {
            turn: TurnId::from_bytes([1; 16]),
            call: call.to_owned(),
            name: "a__b".to_owned(),
            said: Said::Progress {
                progress: f64::from(number),
                total: None,
                message: None,
            },
        }
    }

    #[test]
    fn who_looks_gets_the_news_once_and_nothing_of_calls_that_are_over() {
        let doing = ToolProgress::default();
        doing.push(word("a", 0));
        let mut position = doing.end();
        assert_eq!(0, doing.after(&mut position).len());
        doing.push(word("a", 1));
        doing.push(word("b", 2));
        assert_eq!(2, doing.after(&mut position).len());
        doing.push(word("a", 3));
        doing.push(word("b", 4));
        doing.forget("a");
        assert_eq!(1, doing.after(&mut position).len());
        for number in 0..500 {
            doing.push(word("c", number));
        }
        assert_eq!(MOST, doing.after(&mut position).len());
        assert_eq!(0, doing.after(&mut position).len());
    }
}
