//! What is known of a model before it is asked, by whose server it is: a table that comes with the program, and one that
//! somebody handed over, if they did. It is a hint: what the preset says goes before it, and so does what was learned of
//! the server.

use std::sync::LazyLock;

pub use crate::catalog_table::{CatalogDay, CatalogFacts, CatalogTable};

/// Made by `catalog/make.py`, by a person at a release; nothing is ever fetched.
static BUILT_IN: LazyLock<Option<CatalogTable>> =
    LazyLock::new(|| CatalogTable::parse(include_str!("../catalog/models.tsv")).ok());

/// The tables that count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CatalogTables {
    handed: Option<CatalogTable>,
}

impl CatalogTables {
    pub fn new(handed: Option<CatalogTable>) -> Self {
        Self { handed }
    }

    /// The one that comes with the program.
    pub fn built_in() -> Option<&'static CatalogTable> {
        BUILT_IN.as_ref()
    }

    /// The one that was handed over.
    pub fn handed(&self) -> Option<&CatalogTable> {
        self.handed.as_ref()
    }

    /// What is known of this model at this place, which is a host, or a host with a port. Where both tables know
    /// something, the newer one counts.
    pub fn facts(&self, host: &str, port: Option<u16>, model: &str) -> CatalogFacts {
        let mut tables: Vec<&CatalogTable> = self.handed.iter().chain(Self::built_in()).collect();
        // The one that was handed over first, where both are of a day.
        tables.sort_by_key(|it| std::cmp::Reverse(it.day()));
        let with_port = port.map(|port| format!("{host}:{port}"));
        let known = tables.into_iter().filter_map(|table| {
            let here = with_port.as_ref().and_then(|it| table.facts(it, model));
            here.or_else(|| table.facts(host, model))
        });
        known.fold(CatalogFacts::default(), CatalogFacts::or)
    }
}

#[cfg(test)]
mod tests {
    use aishd_log::spending::NanoUsd;

    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let table = CatalogTables::built_in().unwrap();
        assert_eq!("models.dev", table.origin());
        let mut seen = std::collections::BTreeSet::new();
        for line in table.text().lines().skip(1) {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!(11, fields.len(), "{line}");
            assert!(seen.insert((fields[0], fields[1])), "twice: {line}");
            let facts = CatalogTables::default().facts(fields[0], None, fields[1]);
            assert!(facts.context_tokens.is_some(), "{line}");
            assert_eq!(fields[6].is_empty(), fields[7].is_empty(), "{line}");
        }
        assert!(seen.len() > 500, "{}", seen.len());
        assert_eq!(seen.len(), table.models());
    }

    #[test]
    fn a_model_is_known_at_its_own_host_only() {
        let facts = |host: &str, model: &str| CatalogTables::default().facts(host, None, model);
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

    #[test]
    fn the_newer_table_counts_and_the_other_one_still_knows_the_rest() {
        let table = |day: &str| {
            let facts = CatalogFacts {
                context_tokens: Some(7),
                ..CatalogFacts::default()
            };
            let key = |host: &str| (host.to_owned(), "claude-opus-4-7".to_owned());
            let models = [(key("api.anthropic.com"), facts), (key("h.test:81"), facts)];
            let day = CatalogDay::parse(day).unwrap();
            let models = models.iter().map(|(key, facts)| (key, facts));
            CatalogTables::new(Some(CatalogTable::of(day, "litellm", models)))
        };
        let at_home =
            |catalog: &CatalogTables| catalog.facts("api.anthropic.com", None, "claude-opus-4-7");
        let newer = table("2999-01-01");
        let known = at_home(&newer);
        assert_eq!(Some(7), known.context_tokens);
        assert_eq!("2999-01-01", known.day.unwrap().to_string());
        // It says nothing of that.
        assert_eq!(Some(false), known.temperature);
        assert!(known.price.is_some());
        assert_eq!(
            Some(1_000_000),
            at_home(&table("2001-01-01")).context_tokens
        );
        let of_port = |port| {
            newer
                .facts("h.test", port, "claude-opus-4-7")
                .context_tokens
        };
        assert_eq!(
            (Some(7), None, None),
            (of_port(Some(81)), of_port(Some(82)), of_port(None))
        );
        let other = newer.facts("api.anthropic.com", Some(8443), "claude-sonnet-4-5");
        assert_eq!(Some(200_000), other.context_tokens);
    }
}
