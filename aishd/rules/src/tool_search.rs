//! Finding tools by words: BM25 over what they are called, what they say of themselves and what their arguments are called.
//! All of that is a provider's word, so it decides what is shown and nothing more.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use aishd_log::tool::Tool;
use aishd_log::tool_name::on_the_wire;
use serde_json::Value;

/// How soon more of one word counts for nothing.
const SATURATION: f64 = 1.2;
/// How much a long text is marked down.
const LENGTH: f64 = 0.75;
/// A word of the name counts as so many of the description.
const NAME_WEIGHT: f64 = 3.0;
/// A word that only begins like one that is looked for.
const BEGINS_WEIGHT: f64 = 0.5;
/// The shortest word that others may begin with.
const BEGINS_CHARS: usize = 3;
/// A name that is said whole is what is meant.
const NAMED: f64 = 1000.0;
/// What is read of a description, and of what is asked for.
const READ_BYTES: usize = 4096;
const QUERY_WORDS: usize = 32;

/// The tools that fit best, the best first; of those that fit alike, in their order. None that has no word of it.
pub(crate) fn find<'a>(tools: &'a [Arc<Tool>], query: &str, most: usize) -> Vec<&'a Arc<Tool>> {
    let mut wanted: Vec<String> = words(query).take(QUERY_WORDS).collect();
    wanted.sort();
    wanted.dedup();
    let texts: Vec<ToolText> = tools.iter().map(|it| ToolText::of(it)).collect();
    let average = texts.iter().map(|it| it.length).sum::<f64>() / count(texts.len().max(1));
    let weights: Vec<f64> = wanted
        .iter()
        .map(|word| {
            let having = texts.iter().filter(|it| it.frequency(word) > 0.0).count();
            let (all, having) = (count(texts.len()), count(having));
            (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
        })
        .collect();
    let said = named_words(query);
    let mut scored: Vec<(f64, &Arc<Tool>)> = tools
        .iter()
        .zip(&texts)
        .map(|(tool, text)| {
            let words = wanted.iter().zip(&weights);
            let score: f64 = words
                .map(|(it, weight)| weight * text.score(it, average))
                .sum();
            let name = tool.name.to_string();
            let is_named = [&*name, &*on_the_wire(&name), tool.name.tool()]
                .iter()
                .any(|it| said.contains(it));
            (if is_named { score + NAMED } else { score }, tool)
        })
        .filter(|(score, _)| *score > 0.0)
        .collect();
    scored.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    scored.into_iter().take(most).map(|(_, it)| it).collect()
}

/// What of a text may be the name of a tool.
pub(crate) fn named_words(text: &str) -> HashSet<&str> {
    let part = |it: char| !(it.is_alphanumeric() || ['_', '-', '.', '/'].contains(&it));
    let words = text.split(part);
    words
        .map(|it| it.trim_matches(['.', '-', '/']))
        .filter(|it| !it.is_empty())
        .collect()
}

/// The words of one tool, with how often it has each.
struct ToolText {
    words: HashMap<String, f64>,
    length: f64,
}

impl ToolText {
    fn of(tool: &Tool) -> Self {
        let mut text = Self {
            words: HashMap::new(),
            length: 0.0,
        };
        words(&tool.name.to_string()).for_each(|it| text.add(it, NAME_WEIGHT));
        let cut = tool.description.floor_char_boundary(READ_BYTES);
        words(&tool.description[..cut]).for_each(|it| text.add(it, 1.0));
        let arguments = tool.schema.get("properties").and_then(Value::as_object);
        for name in arguments.into_iter().flat_map(|it| it.keys()) {
            words(name).for_each(|it| text.add(it, 1.0));
        }
        text
    }

    fn add(&mut self, word: String, weight: f64) {
        *self.words.entry(word).or_default() += weight;
        self.length += weight;
    }

    fn frequency(&self, word: &str) -> f64 {
        if let Some(exactly) = self.words.get(word) {
            return *exactly;
        }
        if word.chars().count() < BEGINS_CHARS {
            return 0.0;
        }
        let begun = self.words.iter().filter(|(it, _)| it.starts_with(word));
        begun.map(|(_, it)| it * BEGINS_WEIGHT).fold(0.0, f64::max)
    }

    fn score(&self, word: &str, average: f64) -> f64 {
        let frequency = self.frequency(word);
        let long = 1.0 - LENGTH + LENGTH * self.length / average.max(1.0);
        frequency * (SATURATION + 1.0) / (frequency + SATURATION * long)
    }
}

/// Its words in lower case, those of a name like `createIssue` or `create_issue` apart, and without the s of more than one.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let runs = text.split(|it: char| !it.is_alphanumeric());
    runs.flat_map(parts)
        .map(|it| it.to_lowercase())
        .map(|it| match it.strip_suffix('s') {
            Some(one) if one.len() > 2 && !one.ends_with('s') => one.to_owned(),
            Some(_) | None => it,
        })
}

fn parts(run: &str) -> Vec<&str> {
    let mut parts = vec![];
    let mut from = 0;
    let mut was_small = false;
    for (at, it) in run.char_indices() {
        if it.is_uppercase() && was_small {
            parts.push(&run[from..at]);
            from = at;
        }
        was_small = it.is_lowercase() || it.is_numeric();
    }
    parts.push(&run[from..]);
    parts.retain(|it| !it.is_empty());
    parts
}

#[expect(clippy::cast_precision_loss, reason = "nobody has so many tools")]
fn count(it: usize) -> f64 {
    it as f64
}

#[cfg(test)]
mod tests {
    use aishd_log::access::Access;
    use serde_json::json;

    use super::*;
    use crate::log_samples::tool;

    fn tools() -> Vec<Arc<Tool>> {
        let all = [
            (
                "github__create_issue",
                "Opens an issue in a repository.",
                "title",
            ),
            ("github__listIssues", "Lists issues.", "state"),
            ("github__merge_pull", "Merges a pull request.", "number"),
            ("mail__send", "Sends a message to people.", "recipients"),
            (
                "mail__search",
                "Searches the mailbox for messages.",
                "query",
            ),
            ("calendar__create_event", "Makes an appointment.", "when"),
            ("files__x", "Reads a file of the workspace.", "path"),
        ];
        all.map(|(name, description, argument)| {
            Arc::new(Tool {
                description: description.to_owned(),
                schema: json!({"type": "object", "properties": {argument: {}}}),
                ..tool(name, Access::Read)
            })
        })
        .to_vec()
    }

    #[track_caller]
    fn check(query: &str, expected: &[&str]) {
        let tools = tools();
        let found = find(&tools, query, 3);
        let names: Vec<String> = found.iter().map(|it| it.name.to_string()).collect();
        assert_eq!(expected, names, "{query}");
    }

    #[test]
    fn tools_are_found_by_name_description_and_arguments() {
        check(
            "create an issue",
            &[
                "github__create_issue",
                "calendar__create_event",
                "github__listIssues",
            ],
        );
        check("appointment", &["calendar__create_event"]);
        check("recipients", &["mail__send"]);
        check("send mail", &["mail__send", "mail__search"]);
        check("MERGE pull requests", &["github__merge_pull"]);
        // Part of a word is enough, where it is its beginning.
        check("repo", &["github__create_issue"]);
        check("work", &["files__x"]);
        check("orkspace", &[]);
    }

    #[test]
    fn a_name_that_is_said_whole_is_the_first() {
        check(
            "mail__search or anything like it, an issue, an event",
            &[
                "mail__search",
                "calendar__create_event",
                "github__create_issue",
            ],
        );
        check(
            "listIssues",
            &["github__listIssues", "github__create_issue"],
        );
    }

    #[test]
    fn odd_queries_find_nothing_or_little() {
        for query in ["", " \n", "…", "zebra", "__"] {
            check(query, &[]);
        }
        let long = "issue ".repeat(100_000);
        check(&long, &["github__listIssues", "github__create_issue"]);
        assert!(find(&[], "issue", 3).is_empty());
    }
}
