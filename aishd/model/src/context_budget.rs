//! How much a conversation may say in one request, in exchanges and in tokens. Nobody here can count tokens: they
//! are estimated from bytes, by what the preset's server has counted so far.

use std::sync::Arc;

use aishd_log::pattern::Patterns;
use serde::{Deserialize, Serialize};

use crate::preset::Preset;
use crate::trusted_instructions::TrustedInstructions;

/// Eviction goes down to this part of the budget at once, so that a local server's prompt cache holds in between.
const GOAL_PERCENT: u64 = 70;
/// From this part of it on, what would leave next is summed up ahead.
const NEARLY_PERCENT: u64 = 85;
/// What is assumed of a server that has not counted yet: fewer than there are in most texts.
const USUAL: f64 = 3.0;
/// A server that counts beyond these counts something else, or not all of what it was sent.
const LEAST: f64 = 2.0;
const MOST: f64 = 6.0;
/// The part of a new measurement in what is believed.
const SHARE: f64 = 0.5;

/// What is configured about contexts (`context.*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextSettings {
    /// Exchanges that a request may hold.
    pub max_turns: usize,
    /// Tokens of a request and its answer; `None`: as many as the preset says that its model takes in.
    pub max_tokens: Option<u64>,
    /// Tokens that are kept free for the answer.
    pub reserve_tokens: u64,
    /// The preset that sums up what leaves; `None`: nobody does.
    pub summarizer: Option<String>,
    pub max_summary_chars: usize,
    /// What the system message begins with; `None`: what it usually does.
    pub system_prompt: Option<Arc<str>>,
    /// Whether the directory of a conversation is told of, and which instructions in it are trusted.
    pub project: Option<TrustedInstructions>,
    /// The part of what a model takes in that tools of servers may take, in percent.
    pub tools_percent: u64,
    /// Tools that are sent where not all are.
    pub pinned_tools: Patterns,
}

/// What the loop is that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopMode {
    /// People ask and a model answers.
    Talk,
    /// A plan runs by itself: what leaves does so in silence, and no summary is made or shown.
    Norris,
}

impl ContextSettings {
    /// Who sums up what leaves.
    pub fn summarizer(&self, mode: LoopMode) -> Option<&str> {
        match mode {
            LoopMode::Talk => self.summarizer.as_deref(),
            LoopMode::Norris => None,
        }
    }
}

impl Default for ContextSettings {
    /// As without a configuration.
    fn default() -> Self {
        Self {
            max_turns: 40,
            max_tokens: None,
            reserve_tokens: 2048,
            summarizer: None,
            max_summary_chars: 2000,
            system_prompt: None,
            project: None,
            tools_percent: 25,
            pinned_tools: Patterns::default(),
        }
    }
}

/// The budget of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextLimit {
    pub turns: usize,
    /// `None`: nobody said how much the model takes in.
    pub tokens: Option<TokenLimit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLimit {
    pub whole: u64,
    /// Kept free for the answer.
    pub reserve: u64,
}

impl ContextLimit {
    pub fn of(rules: &ContextSettings, preset: &Preset) -> Self {
        let whole = rules.max_tokens.or(preset.context_tokens);
        // No answer is longer than the preset lets it be; and half of it is for what is said.
        let reserve = preset.max_tokens.unwrap_or(rules.reserve_tokens);
        Self {
            turns: rules.max_turns.max(1),
            tokens: whole.map(|whole| TokenLimit {
                whole,
                reserve: reserve.min(whole / 2),
            }),
        }
    }

    /// Exchanges that stay where there are more than may be.
    pub fn goal_turns(&self) -> usize {
        (self.turns * 7 / 10).max(1)
    }

    pub fn holds(&self, tokens: u64) -> bool {
        self.tokens.is_none_or(|it| tokens <= it.available())
    }

    /// Whether what would leave next is to be summed up.
    pub fn is_nearly_full(&self, tokens: u64) -> bool {
        self.tokens
            .is_some_and(|it| tokens > it.available() * NEARLY_PERCENT / 100)
    }

    /// With room for what is being summed up.
    pub fn relaxed(self) -> Self {
        Self {
            turns: self.turns + self.turns / 2,
            ..self
        }
    }

    /// Whether it is little enough where it has been too much.
    pub fn is_reached(&self, tokens: u64) -> bool {
        self.tokens
            .is_none_or(|it| tokens <= it.available() * GOAL_PERCENT / 100)
    }
}

impl TokenLimit {
    /// Tokens that a request may have.
    pub fn available(self) -> u64 {
        self.whole - self.reserve
    }
}

/// What a server counted in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedTokens {
    pub bytes: u64,
    pub tokens: u64,
}

impl CountedTokens {
    /// False: more was sent than `before`, and no more was read. Such a server cuts off in silence what is too much for it,
    /// and nothing is to be learned from it.
    pub fn is_credible(self, before: Option<Self>) -> bool {
        let cut = |it: Self| self.bytes > it.bytes && self.tokens <= it.tokens;
        self.tokens > 0 && !before.is_some_and(cut)
    }
}

/// Bytes of a request for each token, by what a preset's server counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BytesPerToken(f64);

impl Default for BytesPerToken {
    fn default() -> Self {
        Self(USUAL)
    }
}

impl BytesPerToken {
    pub fn get(self) -> f64 {
        self.0
    }

    /// What is believed after a server has counted; `before`: what it has counted so far.
    pub fn learned(before: Option<Self>, counted: CountedTokens) -> Self {
        let measured = as_float(counted.bytes) / as_float(counted.tokens.max(1));
        let measured = measured.clamp(LEAST, MOST);
        Self(match before {
            Some(before) => before.checked().0 * (1.0 - SHARE) + measured * SHARE,
            None => measured,
        })
    }

    /// One that was stored.
    pub fn checked(self) -> Self {
        if self.0.is_finite() {
            Self(self.0.clamp(LEAST, MOST))
        } else {
            Self::default()
        }
    }

    pub fn tokens(self, bytes: u64) -> u64 {
        to_whole((as_float(bytes) / self.0).ceil())
    }

    pub fn bytes(self, tokens: u64) -> u64 {
        to_whole((as_float(tokens) * self.0).floor())
    }
}

fn as_float(whole: u64) -> f64 {
    whole as f64
}

fn to_whole(float: f64) -> u64 {
    float as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        context: Option<u64>,
        answer: Option<u64>,
        rules: &ContextSettings,
        expected: Option<u64>,
    ) {
        let preset = Preset {
            context_tokens: context,
            max_tokens: answer,
            ..Preset::demo()
        };
        let tokens = ContextLimit::of(rules, &preset).tokens;
        assert_eq!(expected, tokens.map(TokenLimit::available));
    }

    #[test]
    fn an_answer_needs_room_too() {
        let rules = ContextSettings::default();
        check(None, None, &rules, None);
        check(Some(32_768), None, &rules, Some(30_720));
        check(Some(32_768), Some(500), &rules, Some(32_268));
        // Of a small context half is for what is said.
        check(Some(2_048), None, &rules, Some(1_024));
        let configured = ContextSettings {
            max_tokens: Some(8_000),
            ..rules
        };
        check(None, None, &configured, Some(5_952));
        check(Some(32_768), None, &configured, Some(5_952));
    }

    #[test]
    fn a_server_that_counts_is_believed_within_reason() {
        let usual = BytesPerToken::default();
        assert_eq!((100, 300), (usual.tokens(300), usual.bytes(100)));
        let learn =
            |before, bytes, tokens| BytesPerToken::learned(before, CountedTokens { bytes, tokens });
        assert_eq!(BytesPerToken(4.5), learn(None, 900, 200));
        assert_eq!(
            BytesPerToken(4.0),
            learn(Some(BytesPerToken(3.5)), 900, 200)
        );
        assert_eq!(BytesPerToken(MOST), learn(None, 1_000_000, 0));
        assert_eq!(BytesPerToken(LEAST), learn(None, 10, u64::MAX));
        for stored in ["null", "-3.0", "0", "1e300"] {
            let read = serde_json::from_str::<BytesPerToken>(stored).unwrap_or_default();
            let ratio = read.checked().get();
            assert!((LEAST..=MOST).contains(&ratio), "{stored}: {ratio}");
        }
    }

    #[test]
    fn a_server_that_cuts_in_silence_is_not_believed() {
        let counted = |bytes, tokens| CountedTokens { bytes, tokens };
        let full = Some(counted(20_000, 4_096));
        assert!(!counted(40_000, 4_096).is_credible(full));
        assert!(!counted(40_000, 4_000).is_credible(full));
        assert!(counted(40_000, 8_192).is_credible(full));
        assert!(counted(20_000, 4_096).is_credible(full));
        assert!(counted(10_000, 4_096).is_credible(full));
        assert!(counted(10, 3).is_credible(None) && !counted(10, 0).is_credible(None));
    }

    #[test]
    fn norris_sums_nothing_up() {
        let rules = ContextSettings {
            summarizer: Some("fast".to_owned()),
            ..ContextSettings::default()
        };
        assert_eq!(Some("fast"), rules.summarizer(LoopMode::Talk));
        assert_eq!(None, rules.summarizer(LoopMode::Norris));
    }
}
