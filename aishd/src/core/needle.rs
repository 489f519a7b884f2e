//! What is searched for, and a quick look whether a stored record may hold it: most of a log is told apart by its bytes
//! and never understood. What may hold it is then read and asked properly.

use memchr::{memchr2_iter, memmem};

/// The kinds of records whose text is searched, as they are stored.
const KINDS: [&[u8]; 3] = [
    br#""user_message""#,
    br#""assistant_message""#,
    br#""tool_result""#,
];
/// A record says its kind so far from its beginning.
const KIND_WITHIN: usize = 256;

/// A text that is looked for, whatever its case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needle {
    /// In lower case.
    query: String,
    /// A part of it as it is stored, which is alike in each case but for ASCII letters; empty: it has none.
    stored: Vec<u8>,
}

impl Needle {
    #[must_use]
    pub fn new(query: &str) -> Self {
        let query = query.to_lowercase();
        let spelled = serde_json::to_string(&query).unwrap_or_default();
        let spelled = spelled.get(1..spelled.len().saturating_sub(1));
        let runs = spelled.unwrap_or_default().split(has_cases);
        let stored = runs.max_by_key(|it| it.len()).unwrap_or_default();
        Self {
            stored: stored.as_bytes().to_vec(),
            query,
        }
    }

    /// In lower case.
    #[must_use]
    pub fn query(&self) -> &str {
        &self.query
    }

    /// False: the record of these bytes does not hold it in what people said and were told.
    #[must_use]
    pub fn may_be_in(&self, record: &[u8]) -> bool {
        let head = &record[..record.len().min(KIND_WITHIN)];
        if !KINDS.iter().any(|it| memmem::find(head, it).is_some()) {
            return false;
        }
        let Some(first) = self.stored.first() else {
            return true;
        };
        let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
        memchr2_iter(lower, upper, record).any(|at| {
            let there = record.get(at..at + self.stored.len());
            there.is_some_and(|it| it.eq_ignore_ascii_case(&self.stored))
        })
    }
}

/// Letters that are other bytes in another case, or that ASCII letters may stand for.
fn has_cases(it: char) -> bool {
    if it.is_ascii() {
        // The lower case of the signs for Kelvin and of the dotted I.
        return matches!(it, 'k' | 'i');
    }
    // The dot that the lower case of the dotted I has.
    it == '\u{307}' || it.is_uppercase() || it.is_lowercase() || it.to_uppercase().ne([it])
}

#[cfg(test)]
mod tests {
    use aish_proto::id::Seq;
    use proptest::prelude::*;

    use super::*;
    use crate::core::event::{At, Event, Level, Record};

    fn record(event: Event) -> Vec<u8> {
        let record = Record {
            seq: Seq(u64::MAX),
            at: At(i64::MAX),
            turn: Some(aish_proto::id::TurnId::from_bytes([255; 16])),
            client: Some(aish_proto::id::ClientId::from_bytes([255; 16])),
            event,
        };
        serde_json::to_vec(&record).unwrap()
    }

    fn said(text: &str) -> Vec<u8> {
        record(Event::AssistantMessage {
            item: 0,
            text: text.to_owned(),
            reasoning: String::new(),
            calls: vec![],
            commands: vec![],
            extra: serde_json::Map::new(),
            complete: true,
            served_by: None,
            usage: None,
        })
    }

    proptest! {
        #[test]
        fn nothing_that_holds_it_is_passed_over(
            before in "\\PC{0,20}",
            query in "[a-zA-Z0-9 \"\\\\\n\u{1}éÉßǅ漢字İK🙂-]{1,12}",
            upper in any::<bool>(),
        ) {
            let shown = if upper { query.to_uppercase() } else { query.clone() };
            let text = format!("{before}{shown}");
            let needle = Needle::new(&query);
            if text.to_lowercase().contains(needle.query()) {
                prop_assert!(needle.may_be_in(&said(&text)), "{:?}", needle);
            }
        }
    }

    #[test]
    fn what_cannot_hold_it_is_not_read() {
        let status = record(Event::Status {
            level: Level::Info,
            text: "pomelo".to_owned(),
        });
        let needle = Needle::new("Pomelo");
        assert!(!needle.may_be_in(&status));
        assert!(!needle.may_be_in(&said("melon")));
        assert!(needle.may_be_in(&said("POMELO")));
        assert!(Needle::new("漢").may_be_in(&said("漢字")));
        assert!(!Needle::new("漢").may_be_in(&said("字")));
        // Nothing of it is alike in each case: each message is read.
        assert!(Needle::new("é").may_be_in(&said("x")));
    }
}
