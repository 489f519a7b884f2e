//! How many tools one request may have. Some servers refuse a request whole that has more: then the most useful are sent,
//! and people are told what was left out.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use aishd_log::api_dialect::ApiDialect;

use crate::preset::Preset;

/// What servers that are known to have a limit take.
const KNOWN: usize = 128;
/// Whose those are, where they are spoken to in `chat` or `responses`. A name that begins with a dot is of all below it.
const KNOWN_HOSTS: [&str; 9] = [
    "api.openai.com",
    ".openai.azure.com",
    ".services.ai.azure.com",
    "api.deepseek.com",
    "api.fireworks.ai",
    "api.groq.com",
    "api.mistral.ai",
    "api.x.ai",
    "openrouter.ai",
];

/// Whose tools are always sent: they are few.
const OWN: &str = "aish";

/// How servers say that a request has too many tools.
const TOO_MANY: [&str; 9] = [
    "array too long",
    "array_above_max_length",
    "too many tools",
    "too many functions",
    "number of tools",
    "number of functions",
    "should have at most",
    "at most",
    "maximum of",
];

/// How servers say that a model calls no tools, or that they do not let it.
const NO_TOOLS: [&str; 12] = [
    "not support tool",
    "not support function call",
    "not support the tool",
    "support tool use",
    "support tool calling",
    "tool calling is not supported",
    "tool use is not supported",
    "function calling is not",
    "tools are not supported",
    "tools is not supported",
    "tools param requires",
    "tool choice requires",
];

/// So many tools may be in a request of this preset: as somebody set, as was learned of its server, as is known of it.
pub fn limit(preset: &Preset) -> Option<usize> {
    let host = preset.host();
    let is_host = |it: &str| host == it || (it.starts_with('.') && host.ends_with(it));
    let speaks = matches!(preset.api(), ApiDialect::Chat | ApiDialect::Responses);
    let is_known = speaks && KNOWN_HOSTS.into_iter().any(is_host);
    let known = is_known.then_some(KNOWN);
    if preset.learned.takes_no_tools {
        return Some(0);
    }
    preset.max_tools.or(preset.learned.max_tools).or(known)
}

/// Whether a server refuses a request with such words for the number of its tools; `param` is the name that it gives
/// apart.
pub fn is_refused(message: &str, param: Option<&str>) -> bool {
    let text = message.to_lowercase();
    // What is wrong with one tool is another matter.
    let about_one = |it: &str| {
        ["tools[", "tools.", "functions["].iter().any(|begin| {
            let mut rest = it.match_indices(begin);
            rest.any(|(at, _)| it[at + begin.len()..].starts_with(|it: char| it.is_ascii_digit()))
        })
    };
    if about_one(&text) || param.is_some_and(about_one) {
        return false;
    }
    let named = match param.filter(|it| !it.is_empty()) {
        Some(param) => matches!(param, "tools" | "functions"),
        None => text.contains("tools") || text.contains("functions"),
    };
    named && TOO_MANY.iter().any(|it| text.contains(it))
}

/// Whether a server refuses a request with such words for having tools at all. What it wants otherwise of them, such as another
/// address, is another matter.
pub fn takes_none(message: &str) -> bool {
    let text = message.to_lowercase();
    let others = ["/responses", "tool_choice", "parallel"];
    !others.iter().any(|it| text.contains(it)) && NO_TOOLS.iter().any(|it| text.contains(it))
}

/// How many are taken, by the words of a server that was sent so many: the largest number in them that is less, and
/// half of what was sent where there is none.
pub fn limit_from_error(message: &str, sent: usize) -> usize {
    let numbers = message.split(|it: char| !it.is_ascii_digit());
    let numbers = numbers.filter_map(|it| it.parse::<usize>().ok());
    let fewer = numbers.filter(|it| (1..sent).contains(it)).max();
    fewer.unwrap_or(sent / 2)
}

/// Which of these names, in their order, are sent where so many may be: our own and what this conversation has called
/// before, and then as many of each provider as there is room for, so that a small one is not lost beside a large one.
pub fn chosen(names: &[&str], called: &HashSet<&str>, most: usize) -> BTreeSet<usize> {
    let all = 0..names.len();
    if names.len() <= most {
        return all.collect();
    }
    let is_first = |at: &usize| provider(names[*at]) == OWN || called.contains(names[*at]);
    let (first, rest): (Vec<usize>, Vec<usize>) = all.partition(is_first);
    let mut chosen: BTreeSet<usize> = first.into_iter().take(most).collect();
    let mut of_providers: BTreeMap<&str, VecDeque<usize>> = BTreeMap::new();
    for at in rest {
        of_providers
            .entry(provider(names[at]))
            .or_default()
            .push_back(at);
    }
    while chosen.len() < most && !of_providers.is_empty() {
        for tools in of_providers.values_mut() {
            if chosen.len() < most {
                chosen.extend(tools.pop_front());
            }
        }
        of_providers.retain(|_, tools| !tools.is_empty());
    }
    chosen
}

/// For people, where not all of these names are sent.
pub fn left_out_notice(model: &str, names: &[&str], chosen: &BTreeSet<usize>) -> Option<String> {
    let mut of_providers: BTreeMap<&str, usize> = BTreeMap::new();
    let left_out = names.iter().enumerate();
    let left_out = left_out.filter(|(at, _)| !chosen.contains(at));
    for (_, name) in left_out {
        *of_providers.entry(provider(name)).or_default() += 1;
    }
    let count: usize = of_providers.values().sum();
    let whose = of_providers
        .iter()
        .map(|(whose, count)| format!("{count} of {whose}"));
    let whose = whose.collect::<Vec<_>>().join(", ");
    if chosen.is_empty() {
        // That was said when it was found out.
        return None;
    }
    (count > 0).then(|| {
        format!(
            "{model} takes at most {} tools: {count} of {} are left out ({whose})",
            chosen.len(),
            names.len()
        )
    })
}

/// The alias in front of a tool's name.
fn provider(name: &str) -> &str {
    name.split_once("__").map_or(name, |(alias, _)| alias)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_takes_no_tools_is_told_from_one_that_takes_others() {
        for message in [
            "registry.ollama.ai/library/gemma:2b does not support tools",
            "tools param requires --jinja flag",
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
            "No endpoints found that support tool use. To learn more about provider routing, visit a page",
            "`tool calling` is not supported with this model: Tool calling is not supported",
            "This model does not support function calling",
        ] {
            assert!(takes_none(message), "{message}");
            assert!(!is_refused(message, None), "{message}");
        }
        for message in [
            "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. Please use /v1/responses instead.",
            "Invalid 'tools': array too long. Expected an array with maximum length 128",
            "tools.7.name: should have at most 64 characters",
            "this model does not support tool_choice required",
            "Parallel function calling is not supported",
            "invalid tool call id",
        ] {
            assert!(!takes_none(message), "{message}");
        }
    }

    /// The words of real servers, and what they take of 202.
    #[test]
    fn too_many_tools_are_told_from_one_that_is_wrong() {
        for (message, param, most) in [
            (
                "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 202 instead.",
                Some("tools"),
                Some(128),
            ),
            ("Too many tools: 202. The limit is 64.", None, Some(64)),
            (
                "[{'type': 'too_long', 'loc': ('body', 'tools'), 'msg': 'List should have at most 20 items after validation, not 202'}]",
                None,
                Some(20),
            ),
            ("the maximum number of tools is exceeded", None, Some(101)),
            (
                "Invalid 'tools[3].function.name': string too long. Expected a string with maximum length 64",
                Some("tools[3].function.name"),
                None,
            ),
            (
                "tools.7.name: should have at most 64 characters",
                None,
                None,
            ),
            ("this model does not support tools", None, None),
            ("max_tokens must be at most 4096", Some("max_tokens"), None),
            ("messages: array too long", Some("messages"), None),
        ] {
            let found = is_refused(message, param).then(|| limit_from_error(message, 202));
            assert_eq!(most, found, "{message}");
        }
    }

    #[test]
    fn a_small_provider_is_not_lost_beside_a_large_one_and_what_was_called_stays() {
        let large: Vec<String> = (0..9).map(|it| format!("large__t{it}")).collect();
        let mut names = vec!["aish__time"];
        names.extend(large.iter().map(String::as_str));
        names.extend(["small__a", "small__b"]);
        let called = HashSet::from(["large__t8"]);
        let sent = chosen(&names, &called, 6);
        let sent_names: Vec<&str> = sent.iter().map(|it| names[*it]).collect();
        assert_eq!(
            vec![
                "aish__time",
                "large__t0",
                "large__t1",
                "large__t8",
                "small__a",
                "small__b"
            ],
            sent_names
        );
        assert_eq!(
            Some("m takes at most 6 tools: 6 of 12 are left out (6 of large)".to_owned()),
            left_out_notice("m", &names, &sent)
        );
        let all = chosen(&names, &called, 12);
        assert_eq!((12, None), (all.len(), left_out_notice("m", &names, &all)));
        assert_eq!(0, chosen(&names, &called, 0).len());
        assert_eq!(1, chosen(&names, &called, 1).len());
    }
}
