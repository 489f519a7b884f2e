//! What is searched for, and a quick look whether a stored record may hold it: most of a log is told apart by its bytes
//! and never understood. What may hold it is then read and asked properly.

use std::sync::LazyLock;

use memchr::memmem;

/// The kinds of records whose text is searched, as they are stored.
const KINDS: [&[u8]; 4] = [
    br#""user_message""#,
    br#""assistant_message""#,
    br#""tool_result""#,
    br#""shell_finished""#,
];
/// A record says its kind so far from its beginning.
const KIND_WITHIN: usize = 256;

/// Letters by how often they are met, the most frequent first; whatever is not here is rarer.
const FREQUENT: &str = " etaoinsrhldcumfpgwybv";
/// Behind the last letter that has another case.
const CASES_END: u32 = 0x1_F000;
/// Letters of a case that is not the one they are looked for in, each with what it is looked for as.
static OTHER_CASES: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
    let letters = (0x80..CASES_END).filter_map(char::from_u32);
    let others = letters.filter_map(|other| {
        let mut lower = other.to_lowercase();
        let (Some(only), None) = (lower.next(), lower.next()) else {
            return None;
        };
        let only = if only == 'ς' { 'σ' } else { only };
        (only != other).then_some((other, only))
    });
    others.collect()
});
/// Its lower case is two characters, so that no place in a text is one of it.
const DOTTED_I: &str = "\u{130}";

/// A text that is looked for, whatever its case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchFilter {
    /// As [`folded`].
    query: String,
    /// For each character of it, as it is stored, what may stand in its place.
    stored: Vec<Vec<String>>,
    /// The character that is looked for first.
    rarest: usize,
    may_be_dotted: bool,
}

/// A text without its cases; a sigma is one, wherever it stands.
pub fn folded(text: &str) -> String {
    text.to_lowercase().replace('ς', "σ")
}

impl SearchFilter {
    pub fn new(query: &str) -> Self {
        let query = folded(query);
        let spelled = serde_json::to_string(&query).unwrap_or_default();
        let spelled = spelled.get(1..spelled.len().saturating_sub(1));
        let spelled: Vec<char> = spelled.unwrap_or_default().chars().collect();
        let mut stored: Vec<Vec<String>> = spelled.iter().map(|it| as_ascii(*it)).collect();
        if !query.is_ascii() {
            for (other, only) in OTHER_CASES.iter() {
                let letters = spelled.iter().zip(&mut stored);
                let places = letters.filter(|(it, _)| *it == only);
                places.for_each(|(_, forms)| forms.push(other.to_string()));
            }
            for (it, forms) in spelled.iter().zip(&mut stored) {
                forms.push(it.to_string());
                forms.sort();
                forms.dedup();
            }
        }
        let rarity = |(_, it): &(usize, &char)| FREQUENT.find(**it).unwrap_or(usize::MAX);
        let rarest = spelled.iter().enumerate().max_by_key(rarity);
        Self {
            rarest: rarest.map_or(0, |(at, _)| at),
            may_be_dotted: query.contains(['i', '\u{307}']),
            stored,
            query,
        }
    }

    /// As [`folded`].
    pub fn query(&self) -> &str {
        &self.query
    }

    /// False: the record of these bytes does not hold it in what people said and were told.
    pub fn may_be_in(&self, record: &[u8]) -> bool {
        let head = &record[..record.len().min(KIND_WITHIN)];
        if !KINDS.iter().any(|it| memmem::find(head, it).is_some()) {
            return false;
        }
        let Some(rarest) = self.stored.get(self.rarest) else {
            return true;
        };
        let dotted = || memmem::find(record, DOTTED_I.as_bytes()).is_some();
        let there = rarest.iter().any(|form| {
            memmem::find_iter(record, form.as_bytes()).any(|at| self.is_around(record, at))
        });
        there || (self.may_be_dotted && dotted())
    }

    /// Whether it stands there with its rarest character at `at`.
    fn is_around(&self, record: &[u8], at: usize) -> bool {
        let (before, behind) = self.stored.split_at(self.rarest);
        let (mut left, mut right) = record.split_at(at);
        for forms in before.iter().rev() {
            let shorter = forms.iter().find_map(|it| left.strip_suffix(it.as_bytes()));
            let Some(shorter) = shorter else { return false };
            left = shorter;
        }
        for forms in behind {
            let shorter = forms
                .iter()
                .find_map(|it| right.strip_prefix(it.as_bytes()));
            let Some(shorter) = shorter else { return false };
            right = shorter;
        }
        true
    }
}

/// What may stand for a character that is ASCII in lower case.
fn as_ascii(it: char) -> Vec<String> {
    let mut forms = vec![it.to_string()];
    if it.is_ascii_lowercase() {
        forms.push(it.to_ascii_uppercase().to_string());
    }
    // The sign for Kelvin.
    if it == 'k' {
        forms.push('\u{212a}'.to_string());
    }
    forms
}

#[cfg(test)]
mod tests {
    use aish_proto::id::Seq;
    use aishd_log::event::{Event, ProviderLevel, Record};
    use aishd_log::time::Timestamp;
    use proptest::prelude::*;

    use super::*;

    fn record(event: Event) -> Vec<u8> {
        let record = Record {
            seq: Seq(u64::MAX),
            at: Timestamp(i64::MAX),
            turn: Some(aish_proto::id::TurnId::from_bytes([255; 16])),
            client: Some(aish_proto::id::ClientId::from_bytes([255; 16])),
            event,
        };
        serde_json::to_vec(&record).unwrap()
    }

    fn said(text: &str) -> Vec<u8> {
        record(Event::AssistantMessage {
            item: 0,
            text: text.into(),
            reasoning: String::new(),
            calls: vec![],
            commands: vec![],
            extra: serde_json::Map::new(),
            sealed: None,
            complete: true,
            served_by: None,
            usage: None,
            payee: None,
        })
    }

    proptest! {
        #[test]
        fn nothing_that_holds_it_is_passed_over(
            before in "\\PC{0,20}",
            query in "[a-zA-Z0-9 \"\\\\\n\u{1}éÉßẞǅ漢字İıK🙂σςΣПривет-]{1,12}",
            upper in any::<bool>(),
        ) {
            let shown = if upper { query.to_uppercase() } else { query.clone() };
            let text = format!("{before}{shown}");
            let needle = SearchFilter::new(&query);
            if folded(&text).contains(needle.query()) {
                prop_assert!(needle.may_be_in(&said(&text)), "{:?}", needle);
            }
        }
    }

    #[test]
    fn what_cannot_hold_it_is_not_read() {
        let status = record(Event::Status {
            level: ProviderLevel::Info,
            text: "pomelo".to_owned(),
        });
        let needle = SearchFilter::new("Pomelo");
        assert!(!needle.may_be_in(&status));
        assert!(!needle.may_be_in(&said("melon")));
        assert!(needle.may_be_in(&said("POMELO")));
        assert!(SearchFilter::new("漢").may_be_in(&said("漢字")));
        assert!(!SearchFilter::new("漢").may_be_in(&said("字")));
        // Nor by its letters' other cases.
        for (query, holds, others) in [
            ("link", "LINK", "lint"),
            ("\u{212a}ilo", "kilo", "milo"),
            ("é", "É", "x"),
            ("привет", "ПРИВЕТ", "пример"),
            ("ΟΔΟΣ", "οδος", "οδον"),
        ] {
            assert!(SearchFilter::new(query).may_be_in(&said(holds)), "{query}");
            assert!(
                !SearchFilter::new(query).may_be_in(&said(others)),
                "{query}"
            );
        }
    }
}
