//! What requests to models take: tokens, and money by the price that was configured at that moment. Sums are whole
//! numbers, and money that nobody can know is never made up.

use std::fmt;

use aish_proto::id::ConversationId;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;
use crate::usage::Usage;

/// A server that counts more in one request counts something else.
const MOST_TOKENS: u64 = 100_000_000;
/// Names are kept with every request.
const NAME_CHARS: usize = 200;
const NANOS: f64 = 1e9;
const MILLION: u128 = 1_000_000;
const DAY_MS: i64 = 86_400_000;

/// Billionths of a US dollar.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct NanoUsd(pub u64);

impl NanoUsd {
    /// `None`: it is no amount of money that can be held.
    pub fn from_usd(usd: f64) -> Option<Self> {
        let nanos = (usd * NANOS).round();
        // Beyond this a float has no room for single nanos.
        let fits = nanos.is_finite() && (0.0..=9e15).contains(&nanos);
        fits.then_some(Self(nanos as u64))
    }

    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// `$1.50`, `$0.000045`: at least cents, and no zeros behind them.
impl fmt::Display for NanoUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let digits = format!("{rest:09}");
        let kept = digits.trim_end_matches('0').len().max(2);
        write!(f, "${whole}.{}", digits.get(..kept).unwrap_or("00"))
    }
}

/// What a preset's server takes for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenPrice {
    pub input: NanoUsd,
    pub output: NanoUsd,
    /// `None`: as other input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<NanoUsd>,
    /// Of what the server keeps from now on; `None`: as other input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<NanoUsd>,
}

impl TokenPrice {
    pub fn is_nothing(&self) -> bool {
        let cached = self.cached_input.unwrap_or_default();
        let written = self.cache_write.unwrap_or_default();
        [self.input, self.output, cached, written] == [NanoUsd(0); 4]
    }

    /// What so many tokens cost, to the nearest nano: one division for a whole request.
    pub fn of(&self, usage: &Usage) -> NanoUsd {
        let input = usage.input.unwrap_or(0);
        let cached = usage.cached_input.unwrap_or(0).min(input);
        let written = usage.cache_written.unwrap_or(0).min(input - cached);
        let times = |tokens: u64, price: NanoUsd| u128::from(tokens) * u128::from(price.0);
        let sum = times(input - cached - written, self.input)
            .saturating_add(times(written, self.cache_write.unwrap_or(self.input)))
            .saturating_add(times(cached, self.cached_input.unwrap_or(self.input)))
            .saturating_add(times(usage.output.unwrap_or(0), self.output));
        NanoUsd(u64::try_from((sum.saturating_add(MILLION / 2)) / MILLION).unwrap_or(u64::MAX))
    }
}

/// What a request was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpendingPurpose {
    /// An answer of a turn.
    #[default]
    Answer,
    /// Summing up what left the context.
    Summary,
    /// Proposing what is worth remembering of a conversation.
    Memory,
    /// An MCP server wanted it.
    Sampling,
    /// Whether an action of a run is safe.
    Opinion,
    /// What a conversation is to be called.
    Title,
}

/// Who was asked, and for how much: as it was then, whatever the configuration says later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payee {
    /// The preset by name.
    pub preset: String,
    /// What its server was asked for.
    pub model_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<TokenPrice>,
    #[serde(default)]
    pub purpose: SpendingPurpose,
}

impl Payee {
    pub fn new(
        preset: &str,
        model_id: &str,
        price: Option<TokenPrice>,
        purpose: SpendingPurpose,
    ) -> Self {
        let short = |it: &str| it.chars().take(NAME_CHARS).collect();
        Self {
            preset: short(preset),
            model_id: short(model_id),
            price,
            purpose,
        }
    }

    /// The usage of one request: what its server counted, else what is believed, and what it comes to.
    pub fn charge(&self, counted: Option<Usage>, believed: EstimatedTokens) -> Usage {
        let counted = counted.unwrap_or_default();
        let sane = |it: Option<u64>| it.filter(|it| *it <= MOST_TOKENS);
        let (input, output) = (sane(counted.input), sane(counted.output));
        let mut usage = Usage {
            input: input.or(Some(believed.input)),
            output: output.or(Some(believed.output)),
            cached_input: sane(counted.cached_input),
            cache_written: sane(counted.cache_written),
            reasoning: sane(counted.reasoning),
            estimated: input.is_none() || output.is_none(),
            cost: None,
            requests: 1,
            unpriced: 0,
        };
        usage.cost = self.price.map(|it| it.of(&usage));
        usage.unpriced = u64::from(usage.cost.is_none());
        usage
    }
}

/// Tokens by the bytes of a request and its answer, where nobody counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EstimatedTokens {
    pub input: u64,
    pub output: u64,
}

/// One request: what it took, and of whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaidRequest {
    pub payee: Payee,
    pub usage: Usage,
}

/// A day in UTC, counted from 1970.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Day(pub u32);

impl Day {
    pub fn of(at: Timestamp) -> Self {
        Self(u32::try_from(at.0.div_euclid(DAY_MS)).unwrap_or(0))
    }

    /// Its first moment.
    pub fn begin(self) -> Timestamp {
        Timestamp(i64::from(self.0) * DAY_MS)
    }
}

/// What was taken on a day, for a conversation, of a preset and its model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpentSum {
    pub day: Day,
    /// `None`: of conversations that were deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    pub preset: String,
    pub model_id: String,
    pub usage: Usage,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::Event;

    fn usd(amount: f64) -> NanoUsd {
        NanoUsd::from_usd(amount).unwrap()
    }

    fn price(input: f64, output: f64, cached_input: Option<f64>) -> TokenPrice {
        TokenPrice {
            input: usd(input),
            output: usd(output),
            cached_input: cached_input.map(usd),
            cache_write: None,
        }
    }

    fn tokens(input: u64, cached_input: Option<u64>, output: u64) -> Usage {
        Usage {
            input: Some(input),
            output: Some(output),
            cached_input,
            ..Usage::default()
        }
    }

    #[test]
    fn money_is_read_and_shown_to_the_nano() {
        for (amount, shown) in [
            (0.0, "$0.00"),
            (3.0, "$3.00"),
            (0.3, "$0.30"),
            (12.345_678_9, "$12.3456789"),
            (0.000_000_001, "$0.000000001"),
        ] {
            assert_eq!(shown, usd(amount).to_string());
        }
        for wrong in [-0.01, f64::NAN, f64::INFINITY, 1e12] {
            assert_eq!(None, NanoUsd::from_usd(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_request_costs_its_tokens_at_the_price_of_a_million() {
        let paid = price(3.0, 15.0, Some(0.3));
        let check = |price: TokenPrice, usage, expected| assert_eq!(expected, price.of(&usage).0);
        check(paid, tokens(1000, None, 100), 4_500_000);
        check(
            paid,
            tokens(1000, Some(900), 100),
            300_000 + 270_000 + 1_500_000,
        );
        check(
            price(3.0, 15.0, None),
            tokens(1000, Some(900), 0),
            3_000_000,
        );
        // What is kept from now on costs more, and is no part of what was kept.
        let writes = Usage {
            cache_written: Some(80),
            ..tokens(1000, Some(900), 0)
        };
        let dear = TokenPrice {
            cache_write: Some(usd(3.75)),
            ..paid
        };
        check(dear, writes, 20 * 3_000 + 80 * 3_750 + 270_000);
        check(paid, writes, 300_000 + 270_000);
        // More of it cached than there is: no more than there is.
        check(paid, tokens(10, Some(u64::MAX), 0), 3_000);
        // 37.5 nanos a token: halves are rounded once.
        check(price(0.0375, 0.0, None), tokens(1, None, 0), 38);
        check(price(0.0375, 0.0, None), tokens(2, None, 0), 75);
        check(paid, tokens(u64::MAX, None, u64::MAX), u64::MAX);
    }

    #[test]
    fn what_nobody_counted_is_believed_and_says_so_and_what_has_no_price_has_no_cost() {
        let believed = EstimatedTokens {
            input: 30,
            output: 4,
        };
        let check = |price: Option<TokenPrice>, counted, expected: &str| {
            let payee = Payee::new("fast", "m", price, SpendingPurpose::Answer);
            let it = payee.charge(counted, believed);
            let said = format!(
                "{:?} {:?} {} {:?} {}",
                it.input, it.output, it.estimated, it.cost, it.unpriced
            );
            assert_eq!(expected, said);
        };
        let paid = Some(price(1.0, 1.0, None));
        check(
            paid,
            Some(tokens(7, None, 5)),
            "Some(7) Some(5) false Some(NanoUsd(12000)) 0",
        );
        check(paid, None, "Some(30) Some(4) true Some(NanoUsd(34000)) 0");
        let half = Usage {
            input: Some(7),
            ..Usage::default()
        };
        check(
            paid,
            Some(half),
            "Some(7) Some(4) true Some(NanoUsd(11000)) 0",
        );
        check(
            None,
            Some(tokens(7, None, 5)),
            "Some(7) Some(5) false None 1",
        );
        // A server that counts nonsense has not counted.
        check(
            paid,
            Some(tokens(u64::MAX, None, 5)),
            "Some(30) Some(5) true Some(NanoUsd(35000)) 0",
        );
        let free = Some(price(0.0, 0.0, None));
        check(free, None, "Some(30) Some(4) true Some(NanoUsd(0)) 0");
    }

    /// With a field of a later program among them.
    #[test]
    fn what_is_stored_is_read_as_it_was_written() {
        let read = |text: &str| serde_json::from_str::<Event>(text).unwrap();
        let used = read(
            r#"{"model_used":{"payee":{"preset":"p","model_id":"m","price":{"input":2000000000,"output":10000000000},
            "purpose":"summary","later":1},"usage":{"input":7,"output":5,"estimated":true,"cost":64000,"requests":1}}}"#,
        );
        let (payee, usage) = used.paid().unwrap();
        assert_eq!(SpendingPurpose::Summary, payee.purpose);
        assert_eq!(
            (64_000, 12),
            (payee.price.unwrap().of(usage).0, usage.tokens())
        );
        let message = r#"{"assistant_message":{"item":0,"text":"hi","complete":true,"usage":{"input":7,"output":5}}}"#;
        assert_eq!(None, read(message).paid(), "nobody counted then");
        let reached = r#"{"budget_reached":{"which":"day_usd","limit":5,"spent":7}}"#;
        assert!(matches!(read(reached), Event::BudgetReached(it) if it.under_way == 0));
        let changed = r#"{"budget_changed":{"budget":{"tokens":5,"usd":7}}}"#;
        assert!(
            matches!(read(changed), Event::BudgetChanged(it) if it.budget.usd == Some(NanoUsd(7)))
        );
    }

    #[test]
    fn a_day_is_one_of_utc() {
        let day = |at: i64| Day::of(Timestamp(at)).0;
        assert_eq!((0, 0, 1), (day(0), day(DAY_MS - 1), day(DAY_MS)));
        assert_eq!(Timestamp(2 * DAY_MS), Day(2).begin());
    }

    proptest! {
        #[test]
        fn sums_do_not_depend_on_their_order(parts in prop::collection::vec(
            (0..1_000_000_u64, 0..1_000_000_u64, prop::option::of(0..1_000_000_u64), any::<bool>()), 0..20,
        ), price in prop::option::of((0..100_000_000_000_u64, 0..100_000_000_000_u64))) {
            let price = price.map(|(input, output)| TokenPrice {
                input: NanoUsd(input), output: NanoUsd(output), cached_input: Some(NanoUsd(input / 10)),
                cache_write: None,
            });
            let payee = |priced| Payee::new("p", "m", price.filter(|_| priced), SpendingPurpose::Answer);
            let of = |(input, output, cached, priced): &(u64, u64, Option<u64>, bool)| {
                payee(*priced).charge(Some(tokens(*input, *cached, *output)), EstimatedTokens::default())
            };
            let forth = parts.iter().map(of).fold(Usage::default(), Usage::plus);
            let back = parts.iter().rev().map(of).fold(Usage::default(), Usage::plus);
            prop_assert_eq!(forth, back);
            prop_assert_eq!(parts.len() as u64, forth.requests);
            let unpriced = parts.iter().filter(|it| !it.3 || price.is_none()).count();
            prop_assert_eq!(unpriced as u64, forth.unpriced);
            prop_assert_eq!(unpriced == parts.len(), forth.cost.is_none());
        }
    }
}
