//! A server that refuses how much a model is to think often says which words it takes in place of that one.

use crate::thinking_effort::{EffortSet, ThinkingEffort};

/// What stands before such a list in the words of servers.
const LISTS: [&str; 9] = [
    "supported values",
    "supported efforts",
    "valid values",
    "allowed values",
    "accepted values",
    "must be one of",
    "should be one of",
    "expected one of",
    "input should be",
];
/// Words between that and the list.
const MOST_BETWEEN: usize = 6;
/// Words that say what the list is of.
const OF_THINKING: [&str; 3] = ["effort", "reasoning", "thinking"];
/// Other fields take the same words.
const OF_OTHERS: [&str; 2] = ["verbosity", "detail"];

/// Whether a server refuses an effort and says which ones it takes; `param` is the name that it gives apart.
pub(crate) fn is_refused(message: &str, param: Option<&str>) -> bool {
    let text = message.to_lowercase();
    let named = param.filter(|it| !it.is_empty()).map(str::to_lowercase);
    let place = named.as_deref().unwrap_or(&text);
    if OF_OTHERS.iter().any(|it| place.contains(it)) {
        return false;
    }
    let is_of_thinking = OF_THINKING.iter().any(|it| place.contains(it));
    let is_told = named.is_none() && refuses_an_effort(&text);
    (is_of_thinking || is_told) && listed(message).is_some()
}

/// The efforts that a refusal lists.
pub(crate) fn listed(message: &str) -> Option<EffortSet> {
    let text = message.to_lowercase();
    let mut lists = LISTS.iter().filter_map(|it| {
        let (_, rest) = text.split_once(it)?;
        Some(efforts_at(rest)).filter(|it| !it.is_empty())
    });
    lists.next()
}

/// `'minimal' is not supported`: the word alone says what it is about.
fn refuses_an_effort(text: &str) -> bool {
    let before = ["not supported", "does not support", "unsupported value"];
    before.iter().any(|it| text.contains(it))
        && text
            .split(['\'', '"', '`'])
            .skip(1)
            .step_by(2)
            .any(|it| ThinkingEffort::of_word(it).is_some())
}

/// The efforts that a text begins with, up to the first other word.
fn efforts_at(text: &str) -> EffortSet {
    let words = text.split(|it: char| !it.is_ascii_alphanumeric());
    let mut found = EffortSet::default();
    let mut between = 0;
    for word in words.filter(|it| !it.is_empty()) {
        match ThinkingEffort::of_word(word) {
            Some(effort) => found.insert(effort),
            None if matches!(word, "and" | "or") => {}
            None if !found.is_empty() => break,
            None => between += 1,
        }
        if between > MOST_BETWEEN {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, param: Option<&str>, expected: &str) {
        let found = listed(message).filter(|_| is_refused(message, param));
        let found = found.unwrap_or_default();
        assert_eq!(expected, found.words(" "), "{message}");
    }

    #[test]
    fn what_a_server_takes_is_read_out_of_its_refusal() {
        let openai = "Unsupported value: 'minimal' is not supported with the 'large-1' model. Supported values are: 'low', 'medium', and 'high'.";
        check(openai, Some("reasoning_effort"), "low medium high");
        check(openai, Some("reasoning.effort"), "low medium high");
        check(openai, None, "low medium high");
        // The same words of another field.
        check(openai, Some("text.verbosity"), "");
        check(
            "Unsupported value: 'low' is not supported for verbosity. Supported values are: 'medium'.",
            None,
            "",
        );
        check("detail must be one of low, high, auto", None, "");
        check(
            r#"[{"type":"literal_error","loc":["body","reasoning_effort"],"msg":"Input should be 'low', 'medium' or 'high'","input":"minimal"}]"#,
            None,
            "low medium high",
        );
        check(
            "output_config.effort: Input should be 'low', 'medium', 'high' or 'max'",
            None,
            "low medium high max",
        );
        check(
            "`reasoning_effort` must be one of `none` or `default`",
            None,
            "none",
        );
        check(
            "invalid reasoning effort; supported values for this model are high and xhigh. See low cost options",
            None,
            "high xhigh",
        );
        check(
            "reasoning_effort is not supported",
            Some("reasoning_effort"),
            "",
        );
        check(
            "temperature must be one of low numbers",
            Some("temperature"),
            "",
        );
        check(
            "supported values of effort are many and not said here, low or high",
            None,
            "",
        );
    }
}
