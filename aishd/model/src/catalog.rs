//! What is known of a model before it is asked, by whose server it is: a table that comes with the program. It is a hint:
//! what the preset says goes before it, and so does what was learned of the server.

use aishd_log::spending::{NanoUsd, TokenPrice};

/// Made by `catalog/make.py`, by a person at a release; nothing is ever fetched.
const TABLE: &str = include_str!("../catalog/models.tsv");

/// What the table says of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CatalogFacts {
    /// What it takes in, in tokens.
    pub context_tokens: Option<u64>,
    /// Its longest answer.
    pub output_tokens: Option<u64>,
    /// Whether it takes a temperature.
    pub temperature: Option<bool>,
    pub tools: Option<bool>,
    pub pictures: Option<bool>,
    pub pdfs: Option<bool>,
    pub price: Option<TokenPrice>,
}

/// The day of the table.
pub fn day() -> &'static str {
    let first = TABLE.lines().next().unwrap_or_default();
    first.split_whitespace().nth(1).unwrap_or_default()
}

/// What is known of this model at this host.
pub fn facts(host: &str, model: &str) -> CatalogFacts {
    let lines = TABLE.lines().filter(|it| !it.starts_with('#'));
    let mut found = lines.filter_map(|line| {
        let mut fields = line.split('\t');
        let is_it = fields.next() == Some(host) && fields.next() == Some(model);
        is_it.then(|| read(fields))
    });
    found.next().unwrap_or_default()
}

fn read<'a>(mut fields: impl Iterator<Item = &'a str>) -> CatalogFacts {
    let mut next = || fields.next().unwrap_or_default();
    let tokens = |text: &str| text.parse().ok().filter(|it| *it > 0);
    let flag = |text: &str| match text {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    };
    let dollars = |text: &str| text.parse().ok().and_then(NanoUsd::from_usd);
    let (context, output) = (tokens(next()), tokens(next()));
    let (temperature, tools) = (flag(next()), flag(next()));
    let (input, answer) = (dollars(next()), dollars(next()));
    let (cached_input, cache_write) = (dollars(next()), dollars(next()));
    let takes = next();
    let word = |word| (!takes.is_empty()).then(|| takes.split(',').any(|it| it == word));
    let price = input.zip(answer).map(|(input, output)| TokenPrice {
        input,
        output,
        cached_input,
        // Nothing is no price that a server takes for it.
        cache_write: cache_write.filter(|it| *it > NanoUsd(0)),
    });
    CatalogFacts {
        context_tokens: context,
        output_tokens: output,
        temperature,
        tools,
        pictures: word("image"),
        pdfs: word("pdf"),
        // A price of nothing is often one that nobody knew, and a budget would not count it.
        price: price.filter(|it| !it.is_nothing()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        assert_eq!(10, day().len(), "{}", day());
        let mut seen = std::collections::BTreeSet::new();
        for line in TABLE.lines().skip(1) {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!(11, fields.len(), "{line}");
            assert!(seen.insert((fields[0], fields[1])), "twice: {line}");
            let facts = facts(fields[0], fields[1]);
            assert!(facts.context_tokens.is_some(), "{line}");
            assert_eq!(fields[6].is_empty(), fields[7].is_empty(), "{line}");
        }
        assert!(seen.len() > 500, "{}", seen.len());
    }

    #[test]
    fn a_model_is_known_at_its_own_host_only() {
        let known = facts("api.anthropic.com", "claude-opus-4-7");
        assert_eq!(Some(1_000_000), known.context_tokens);
        assert_eq!(Some(false), known.temperature);
        assert_eq!((Some(true), Some(true)), (known.pictures, known.pdfs));
        let price = known.price.unwrap();
        let dollars = |amount| NanoUsd::from_usd(amount).unwrap();
        assert_eq!(
            (dollars(5.0), Some(dollars(6.25))),
            (price.input, price.cache_write)
        );
        // Two sources disagree about it.
        let disputed = facts("api.anthropic.com", "claude-sonnet-4-5");
        assert_eq!(Some(200_000), disputed.context_tokens);
        for (host, model) in [
            ("127.0.0.1", "claude-opus-4-7"),
            ("api.anthropic.com", "claude-opus"),
            ("api.anthropic.com", ""),
            ("", ""),
            ("#", "2026"),
        ] {
            assert_eq!(
                CatalogFacts::default(),
                facts(host, model),
                "{host} {model}"
            );
        }
    }
}
