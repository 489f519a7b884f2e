//! One table of what is known of models, by whose server it is: lines of fields between tabs, as they are kept.

use std::fmt;
use std::sync::Arc;

use aishd_log::spending::{NanoUsd, TokenPrice};

use crate::thinking_effort::{EffortSet, ThinkingEffort};

/// What the first line says of the fields.
const COLUMNS: &str = "host, model, context, output, temperature, tools, dollars for a million tokens: input, output, cached input, cache write; what it takes; efforts";
/// The fields of a line; the last one, the efforts, may be absent.
const LEAST_FIELDS: usize = 11;

/// What a table says of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CatalogFacts {
    /// The day of the table that knows it.
    pub day: Option<CatalogDay>,
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
    /// How much it can be told to think.
    pub efforts: Option<EffortSet>,
}

/// The day of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CatalogDay {
    year: u16,
    month: u8,
    day: u8,
}

/// A table as it is kept.
#[derive(Clone, PartialEq)]
pub struct CatalogTable {
    day: CatalogDay,
    /// Whose form it had.
    origin: String,
    models: usize,
    text: Arc<str>,
}

impl fmt::Debug for CatalogTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogTable")
            .field("day", &self.day)
            .field("origin", &self.origin)
            .field("models", &self.models)
            .finish_non_exhaustive()
    }
}

impl CatalogFacts {
    /// With what another table knows beside.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            day: self.day.or(other.day),
            context_tokens: self.context_tokens.or(other.context_tokens),
            output_tokens: self.output_tokens.or(other.output_tokens),
            temperature: self.temperature.or(other.temperature),
            tools: self.tools.or(other.tools),
            pictures: self.pictures.or(other.pictures),
            pdfs: self.pdfs.or(other.pdfs),
            price: self.price.or(other.price),
            efforts: self.efforts.or(other.efforts),
        }
    }
}

impl CatalogDay {
    /// `2026-08-18`
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        let is_day = parts.next().is_none()
            && [(year, 4), (month, 2), (day, 2)]
                .iter()
                .all(|(it, long)| it.len() == *long && it.bytes().all(|it| it.is_ascii_digit()));
        let day = Self {
            year: year.parse().ok()?,
            month: month.parse().ok()?,
            day: day.parse().ok()?,
        };
        (is_day && (1..=12).contains(&day.month) && (1..=31).contains(&day.day)).then_some(day)
    }
}

impl fmt::Display for CatalogDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl CatalogTable {
    /// Of these models, which are each there once.
    pub fn of<'a>(
        day: CatalogDay,
        origin: &str,
        models: impl IntoIterator<Item = (&'a (String, String), &'a CatalogFacts)>,
    ) -> Self {
        let mut text = format!("# {day} {origin}: {COLUMNS}\n");
        let mut count = 0;
        for ((host, model), facts) in models {
            text.push_str(&line(host, model, facts));
            count += 1;
        }
        Self {
            day,
            origin: origin.to_owned(),
            models: count,
            text: text.into(),
        }
    }

    /// As it was kept, or what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let first = text.lines().next().unwrap_or_default();
        let mut words = first.strip_prefix("# ").unwrap_or_default().split(' ');
        let day = words.next().and_then(CatalogDay::parse);
        let day = day.ok_or("its first line says no day")?;
        let origin = words.next().unwrap_or_default().trim_end_matches(':');
        let mut models = 0;
        for (at, line) in text.lines().enumerate().skip(1) {
            let fields = line.split('\t').count();
            if !(LEAST_FIELDS..=LEAST_FIELDS + 1).contains(&fields) || line.starts_with('\t') {
                return Err(format!("line {} is no model of a catalog", at + 1));
            }
            models += 1;
        }
        Ok(Self {
            day,
            origin: origin.to_owned(),
            models,
            text: text.into(),
        })
    }

    pub fn day(&self) -> CatalogDay {
        self.day
    }

    /// Whose form it had: `models.dev`.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// How many models it knows.
    pub fn models(&self) -> usize {
        self.models
    }

    /// As it is kept.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is known of this model at this host.
    pub fn facts(&self, host: &str, model: &str) -> Option<CatalogFacts> {
        let lines = self.text.lines().filter(|it| !it.starts_with('#'));
        let mut found = lines.filter_map(|line| {
            let rest = line.strip_prefix(host)?.strip_prefix('\t')?;
            let rest = rest.strip_prefix(model)?.strip_prefix('\t')?;
            Some(CatalogFacts {
                day: Some(self.day),
                ..read(rest.split('\t'))
            })
        });
        found.next()
    }
}

fn line(host: &str, model: &str, facts: &CatalogFacts) -> String {
    let number = |it: Option<u64>| it.map_or(String::new(), |it| it.to_string());
    let flag = |it: Option<bool>| match it {
        None => "",
        Some(true) => "yes",
        Some(false) => "no",
    };
    let price = facts.price.as_ref();
    let dollars = |it: Option<NanoUsd>| {
        let text = it.map_or(String::new(), |it| it.to_string());
        text.trim_start_matches('$').to_owned()
    };
    let takes = match (facts.pictures, facts.pdfs) {
        (None, None) => String::new(),
        (pictures, pdfs) => {
            let mut takes = "text".to_owned();
            for (word, takes_it) in [("image", pictures), ("pdf", pdfs)] {
                match takes_it {
                    Some(true) => takes.push_str(&format!(",{word}")),
                    None => takes.push_str(&format!(",{word}?")),
                    Some(false) => {}
                }
            }
            takes
        }
    };
    let fields = [
        host.to_owned(),
        model.to_owned(),
        number(facts.context_tokens),
        number(facts.output_tokens),
        flag(facts.temperature).to_owned(),
        flag(facts.tools).to_owned(),
        dollars(price.map(|it| it.input)),
        dollars(price.map(|it| it.output)),
        dollars(price.and_then(|it| it.cached_input)),
        dollars(price.and_then(|it| it.cache_write)),
        takes,
        facts.efforts.map_or(String::new(), |it| it.words(",")),
    ];
    format!("{}\n", fields.join("\t"))
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
    let word = |word: &str| {
        let mut words = takes.split(',').filter(|it| !it.is_empty()).peekable();
        words.peek()?;
        match words.find(|it| it.strip_suffix('?').unwrap_or(it) == word) {
            Some(unsure) if unsure.ends_with('?') => None,
            found => Some(found.is_some()),
        }
    };
    let efforts: EffortSet = next()
        .split(',')
        .filter_map(ThinkingEffort::of_word)
        .collect();
    let price = input.zip(answer).map(|(input, output)| TokenPrice {
        input,
        output,
        cached_input,
        // Nothing is no price that a server takes for it.
        cache_write: cache_write.filter(|it| *it > NanoUsd(0)),
    });
    CatalogFacts {
        day: None,
        context_tokens: context,
        output_tokens: output,
        temperature,
        tools,
        pictures: word("image"),
        pdfs: word("pdf"),
        // A price of nothing is often one that nobody knew, and a budget would not count it.
        price: price.filter(|it| !it.is_nothing()),
        efforts: Some(efforts).filter(|it| !it.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let dollars = |amount| NanoUsd::from_usd(amount).unwrap();
        let full = CatalogFacts {
            context_tokens: Some(200_000),
            output_tokens: Some(8_000),
            temperature: Some(false),
            tools: Some(true),
            pictures: Some(true),
            pdfs: None,
            price: Some(TokenPrice {
                input: dollars(0.15),
                output: dollars(0.000_001),
                cached_input: Some(NanoUsd(0)),
                cache_write: None,
            }),
            efforts: Some(
                [ThinkingEffort::Low, ThinkingEffort::Max]
                    .into_iter()
                    .collect(),
            ),
            day: None,
        };
        let blind = CatalogFacts {
            pictures: Some(false),
            pdfs: Some(false),
            ..CatalogFacts::default()
        };
        let day = CatalogDay::parse("2031-02-03").unwrap();
        let key = |model: &str| ("h.test:8443".to_owned(), model.to_owned());
        let models = [(key("m"), full), (key("blind"), blind)];
        let table = CatalogTable::of(
            day,
            "models.dev",
            models.iter().map(|(key, facts)| (key, facts)),
        );
        let again = CatalogTable::parse(table.text()).unwrap();
        assert_eq!(table, again);
        assert_eq!((2, "models.dev"), (again.models(), again.origin()));
        for ((host, model), facts) in &models {
            let facts = CatalogFacts {
                day: Some(day),
                ..*facts
            };
            assert_eq!(Some(facts), again.facts(host, model), "{model}");
        }
        assert_eq!(None, again.facts("h.test", "m"));
        assert_eq!(None, again.facts("h.test:8443", ""));
    }

    #[test]
    fn what_is_no_table_is_said() {
        let check = |text: &str, expected: &str| {
            assert_eq!(expected, CatalogTable::parse(text).unwrap_err(), "{text}");
        };
        let no_day = "its first line says no day";
        check("", no_day);
        check("# yesterday models.dev", no_day);
        check("# 2026-13-01 models.dev", no_day);
        check("# 2026-1-01-01 models.dev", no_day);
        check(
            "# 2026-01-02 models.dev\nh\tm",
            "line 2 is no model of a catalog",
        );
        let tabs = "\t".repeat(10);
        check(
            &format!("# 2026-01-02 models.dev\nh{tabs}\n{tabs}\n"),
            "line 3 is no model of a catalog",
        );
    }
}
