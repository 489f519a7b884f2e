//! How much a model is to think before it answers: the words for it, in their order, and which of them a model takes.

use serde::{Deserialize, Serialize};

/// How much a model is to think before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    XHigh,
    Max,
}

/// Efforts that a model takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<ThinkingEffort>", into = "Vec<ThinkingEffort>")]
pub struct EffortSet(u8);

impl ThinkingEffort {
    const ALL: [Self; 7] = [
        Self::None,
        Self::Minimal,
        Self::Low,
        Self::Medium,
        Self::High,
        Self::XHigh,
        Self::Max,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }

    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == word)
    }

    fn rank(self) -> usize {
        Self::ALL.iter().position(|it| *it == self).unwrap_or(0)
    }
}

impl EffortSet {
    pub fn has(self, effort: ThinkingEffort) -> bool {
        self.0 & 1 << effort.rank() != 0
    }

    pub fn insert(&mut self, effort: ThinkingEffort) {
        self.0 |= 1 << effort.rank();
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The one that comes nearest to what is wished, the smaller one of two. Who wishes thought is not given none at all:
    /// then there is nothing to say.
    pub fn nearest(self, wished: ThinkingEffort) -> Option<ThinkingEffort> {
        let thinks = wished != ThinkingEffort::None;
        let taken = self.efforts();
        let taken = taken.filter(|it| !(thinks && *it == ThinkingEffort::None));
        taken.min_by_key(|it| (it.rank().abs_diff(wished.rank()), it.rank()))
    }

    pub fn efforts(self) -> impl Iterator<Item = ThinkingEffort> {
        ThinkingEffort::ALL
            .into_iter()
            .filter(move |it| self.has(*it))
    }

    /// For people: `low, medium, high`.
    pub fn words(self, between: &str) -> String {
        let words: Vec<&str> = self.efforts().map(ThinkingEffort::as_str).collect();
        words.join(between)
    }
}

impl FromIterator<ThinkingEffort> for EffortSet {
    fn from_iter<I: IntoIterator<Item = ThinkingEffort>>(efforts: I) -> Self {
        let mut set = Self::default();
        for effort in efforts {
            set.insert(effort);
        }
        set
    }
}

impl From<Vec<ThinkingEffort>> for EffortSet {
    fn from(efforts: Vec<ThinkingEffort>) -> Self {
        efforts.into_iter().collect()
    }
}

impl From<EffortSet> for Vec<ThinkingEffort> {
    fn from(set: EffortSet) -> Self {
        set.efforts().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(taken: &str, wished: &str, expected: Option<&str>) {
        let taken: EffortSet = taken
            .split(' ')
            .filter_map(ThinkingEffort::of_word)
            .collect();
        let wished = ThinkingEffort::of_word(wished).unwrap();
        let found = taken.nearest(wished).map(ThinkingEffort::as_str);
        assert_eq!(expected, found, "{taken:?} {wished:?}");
    }

    #[test]
    fn the_nearest_effort_is_taken() {
        check("low medium high", "minimal", Some("low"));
        check("low medium high", "max", Some("high"));
        check("low medium high", "none", Some("low"));
        check("none minimal high", "medium", Some("high"));
        check("low high", "medium", Some("low"));
        check("high", "low", Some("high"));
        check("none low", "none", Some("none"));
        check("none", "high", None);
        check("", "high", None);
    }

    #[test]
    fn a_set_is_kept_as_words() {
        let set: EffortSet = [ThinkingEffort::XHigh, ThinkingEffort::Low]
            .into_iter()
            .collect();
        let text = serde_json::to_string(&set).unwrap();
        assert_eq!(r#"["low","xhigh"]"#, text);
        assert_eq!(set, serde_json::from_str(&text).unwrap());
        assert_eq!("low, xhigh", set.words(", "));
    }
}
