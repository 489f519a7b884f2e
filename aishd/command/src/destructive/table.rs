//! The words for people as they stand in `words.toml`, which says how its rows are read.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;

use super::Danger;

const SOURCE: &str = include_str!("words.toml");

/// Texts with spaces between them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "String")]
pub(super) struct NameList(pub(super) Vec<String>);

impl From<String> for NameList {
    fn from(text: String) -> Self {
        Self(text.split_whitespace().map(str::to_owned).collect())
    }
}

impl NameList {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|it| it == name)
    }

    /// Whether one of them, as a pattern, is this.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.0.iter().any(|it| is_like(it, text))
    }
}

/// How much a program is told, or given to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Given {
    Nothing,
    Something,
    Terminal,
    Code,
    Fed,
    Unknown,
}

/// How the command that stands in a program's words is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RunsHow {
    Words,
    Joined,
    Text,
    Input,
}

/// One row. `words.toml` says what each part means.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TableRow {
    pub(super) program: NameList,
    pub(super) sub: NameList,
    pub(super) any: NameList,
    pub(super) none: NameList,
    pub(super) says: NameList,
    pub(super) given: Option<Given>,
    pub(super) word: Option<Danger>,
    pub(super) writes: NameList,
    pub(super) anew: bool,
    pub(super) runs: Option<RunsHow>,
    pub(super) skip: usize,
    pub(super) after: NameList,
    pub(super) text: NameList,
    pub(super) sets: bool,
}

/// The whole table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WordTable {
    pub(super) spares: NameList,
    pub(super) keys: NameList,
    pub(super) public: NameList,
    pub(super) protected: NameList,
    pub(super) variables: NameList,
    pub(super) plain_variables: NameList,
    pub(super) outputs: NameList,
    pub(super) by_hand: NameList,
    pub(super) rows: Vec<TableRow>,
    /// By the programs that take them.
    pub(super) values: BTreeMap<String, NameList>,
    /// Which rows a program has.
    #[serde(skip)]
    by_program: HashMap<String, Vec<usize>>,
}

impl WordTable {
    /// A table that is not valid has no rows; a test reads it first.
    pub(super) fn of_product() -> &'static Self {
        static TABLE: LazyLock<WordTable> =
            LazyLock::new(|| WordTable::parse(SOURCE).unwrap_or_default());
        &TABLE
    }

    pub(super) fn parse(source: &str) -> Result<Self, toml::de::Error> {
        let mut table: Self = toml::from_str(source)?;
        for paths in [&mut table.keys.0, &mut table.public.0] {
            let deeper: Vec<String> = paths.iter().map(|it| format!("*/{it}")).collect();
            paths.extend(deeper);
        }
        for (at, row) in table.rows.iter().enumerate() {
            for name in &row.program.0 {
                let rows = table.by_program.entry(name.clone()).or_default();
                rows.push(at);
            }
        }
        Ok(table)
    }

    /// The name by which a program is in the table: without its version, and without what stands behind a dot.
    pub(super) fn name<'a>(&self, name: &'a str) -> &'a str {
        let versionless = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
        let family = name.split_once('.').map_or(name, |it| it.0);
        let known = |it: &&&str| self.by_program.contains_key(**it);
        let names = [name, versionless, family];
        names.iter().find(known).copied().unwrap_or(name)
    }

    pub(super) fn rows_of(&self, name: &str) -> impl Iterator<Item = &TableRow> {
        let rows = self.by_program.get(name).map_or(&[][..], Vec::as_slice);
        rows.iter().filter_map(|it| self.rows.get(*it))
    }

    pub(super) fn takes_value(&self, name: &str) -> Option<&NameList> {
        let mut values = self.values.iter();
        values.find_map(|(names, options)| {
            let named = names.split_whitespace().any(|it| it == name);
            named.then_some(options)
        })
    }
}

/// Whether a text is this, where `*` stands for anything and `#` for a digit. As long as both together, star by star.
pub(super) fn is_like(pattern: &str, text: &str) -> bool {
    if !pattern.split(['*', '#']).all(|it| text.contains(it)) {
        return false;
    }
    let signs: Vec<char> = text.chars().collect();
    let mut reached = vec![false; signs.len() + 1];
    reached[0] = true;
    for wanted in pattern.chars() {
        if wanted == '*' {
            let first = reached.iter().position(|it| *it);
            let first = first.unwrap_or(reached.len());
            reached.iter_mut().skip(first).for_each(|it| *it = true);
            continue;
        }
        let mut next = vec![false; reached.len()];
        for (at, sign) in signs.iter().enumerate() {
            let same = *sign == wanted || (wanted == '#' && sign.is_ascii_digit());
            next[at + 1] = reached[at] && same;
        }
        reached = next;
    }
    reached.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_valid_and_every_word_is_said_by_one_or_by_the_judge() {
        let table = WordTable::parse(SOURCE).unwrap();
        let rows = SOURCE.lines().filter(|it| it.contains("program = "));
        assert!(rows.count() <= 400);
        for row in &table.rows {
            let effects = [
                row.word.is_some(),
                !row.writes.is_empty(),
                row.runs.is_some(),
                !row.after.is_empty(),
                !row.text.is_empty(),
                row.sets,
            ];
            assert_eq!(1, effects.iter().filter(|it| **it).count(), "{row:?}");
            assert!(!row.program.is_empty(), "{row:?}");
            for name in &row.program.0 {
                assert_eq!(name, table.name(name), "it has another name: {row:?}");
            }
        }
        // What needs more than a name and options is said by the judge itself.
        let by_judge = [
            Danger::NotUnderstood,
            Danger::HiddenCharacters,
            Danger::LookAlike,
            Danger::ProtectedFile,
        ];
        for danger in Danger::ALL {
            let said = table.rows.iter().any(|it| it.word == Some(*danger));
            assert!(
                said || by_judge.contains(danger),
                "{danger:?} is never said"
            );
        }
    }

    #[test]
    fn a_star_is_anything_and_a_hash_a_digit() {
        for (pattern, text, expected) in [
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("*", "", true),
            ("v#*", "v1.2", true),
            ("v#*", "vim", false),
            ("a*b*c", "axxbxxc", true),
        ] {
            assert_eq!(expected, is_like(pattern, text), "{pattern} {text}");
        }
    }
}
