//! Whether a person is asked before a question is paid for: a whole log that was pasted by mistake is seen before it is sent.

use std::fmt;

use aishd_log::spending::NanoUsd;
use aishd_log::usage::Usage;

use crate::preset::{Backend, Preset};

/// A question that is larger than this part of what its model takes in is asked about.
const PART_OF_CONTEXT: u64 = 2;

/// What the first request of a question is about to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostlyRequest {
    pub preset: String,
    /// Of the whole request.
    pub tokens: u64,
    /// What its model takes in, where that is known.
    pub context_tokens: Option<u64>,
    /// What goes in alone costs so much; nobody knows how long the answer is.
    pub cost: Option<NanoUsd>,
}

impl CostlyRequest {
    /// `None`: nobody is asked. `question` and `history` are tokens, `context` is what the model takes in, and `above` the price
    /// from which on people are asked.
    pub fn of(
        preset: &Preset,
        (question, history): (u64, u64),
        context: Option<u64>,
        above: Option<NanoUsd>,
    ) -> Option<Self> {
        let is_local = preset.price.is_none() && runs_here(&preset.backend);
        if preset.is_free() || is_local {
            return None;
        }
        // What does not fit leaves.
        let whole = question.saturating_add(history);
        let tokens = context.map_or(whole, |it| whole.min(it));
        let input = Usage {
            input: Some(tokens),
            ..Usage::default()
        };
        let cost = preset.price.map(|it| it.of(&input));
        let is_dear = above.is_some_and(|above| cost.is_some_and(|it| it > above));
        // One that has no room at all is refused, and need not be asked about.
        let is_large = context.is_some_and(|it| question > it / PART_OF_CONTEXT && question < it);
        (is_dear || is_large).then(|| Self {
            preset: preset.name.clone(),
            tokens,
            context_tokens: context,
            cost,
        })
    }
}

/// Whether the server is on this machine or in its network, where what has no price is taken to cost nothing.
fn runs_here(backend: &Backend) -> bool {
    match backend {
        Backend::Demo => true,
        Backend::Http(endpoint) => {
            let host = endpoint.host();
            let is_number = host.bytes().all(|it| it.is_ascii_digit() || it == b'.');
            let is_near = ["127.", "10.", "192.168."]
                .iter()
                .any(|it| host.starts_with(it));
            host == "localhost" || host == "::1" || (is_number && is_near)
        }
    }
}

/// For people.
impl fmt::Display for CostlyRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            preset,
            tokens,
            context_tokens,
            cost,
        } = self;
        write!(
            f,
            "this would send about {} tokens to {preset}",
            shown(*tokens)
        )?;
        if let Some(context) = context_tokens.filter(|it| *it > 0) {
            let percent = tokens.saturating_mul(100) / context;
            write!(f, ", {percent} % of what it takes in")?;
        }
        if let Some(cost) = cost {
            // Cents are enough to decide by.
            let cents = cost.0.div_ceil(10_000_000);
            write!(
                f,
                ", for ${}.{:02} and the answer",
                cents / 100,
                cents % 100
            )?;
        }
        Ok(())
    }
}

fn shown(tokens: u64) -> String {
    match tokens {
        0..1_000 => tokens.to_string(),
        1_000..1_000_000 => format!("{}k", tokens / 1_000),
        _ => format!("{}.{}M", tokens / 1_000_000, tokens / 100_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use aishd_log::api_dialect::ApiDialect;
    use aishd_log::event::PresetSource;
    use aishd_log::spending::TokenPrice;

    use super::*;
    use crate::preset::{KeyHeader, KeySource, ModelEndpoint, Timeouts};

    fn at(url: &str) -> Backend {
        Backend::Http(ModelEndpoint {
            url: url.to_owned(),
            api: ApiDialect::Chat,
            auth: KeyHeader::Bearer,
            key: KeySource::None,
            headers: BTreeMap::new(),
            timeouts: Timeouts::REMOTE,
        })
    }

    /// Five dollars for a million tokens that go in; a dollar is asked about.
    #[track_caller]
    fn check(question: u64, history: u64, context: Option<u64>, expected: &str) {
        let usd = |it| NanoUsd::from_usd(it).unwrap();
        let mut preset = Preset::demo();
        preset.name = "deep".to_owned();
        preset.source = PresetSource::Configured;
        preset.backend = at("https://api.example.org/v1");
        preset.price = Some(TokenPrice {
            input: usd(5.0),
            output: usd(25.0),
            cached_input: None,
            cache_write: None,
        });
        let costly = CostlyRequest::of(&preset, (question, history), context, Some(usd(1.0)));
        let said = costly.map(|it| it.to_string()).unwrap_or_default();
        assert_eq!(expected, said);
    }

    #[test]
    fn what_is_dear_or_fills_half_of_the_context_is_asked_about() {
        check(100, 1_000, Some(200_000), "");
        check(100_000, 0, Some(200_000), "");
        check(
            100_001,
            0,
            Some(200_000),
            "this would send about 100k tokens to deep, 50 % of what it takes in, for $0.51 and the answer",
        );
        // A short question pays for what was said before it.
        check(
            100,
            780_000,
            Some(1_000_000),
            "this would send about 780k tokens to deep, 78 % of what it takes in, for $3.91 and the answer",
        );
        check(
            2_345_678,
            0,
            None,
            "this would send about 2.3M tokens to deep, for $11.73 and the answer",
        );
        // It has no room, and is refused.
        check(200_000, 0, Some(200_000), "");
    }

    #[test]
    fn what_has_no_price_on_this_machine_costs_nothing() {
        for (url, runs) in [
            ("http://localhost:11434/v1", true),
            ("http://127.0.0.1:8080", true),
            ("http://[::1]:1234/v1", true),
            ("http://localhost.example.org", false),
            ("http://127.example.org", false),
            ("http://192.168.0.7:8080", true),
            ("http://193.168.0.7:8080", false),
        ] {
            assert_eq!(runs, runs_here(&at(url)), "{url}");
        }
    }
}
