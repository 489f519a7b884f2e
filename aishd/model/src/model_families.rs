//! What is known of models by their names, whoever serves them: where no catalog has them, a family still tells what they
//! refuse.

/// `claude-opus-4-7`, `anthropic/claude-sonnet-4.6`, `claude-3-7-sonnet-20250219`: the two short numbers.
pub fn claude_version(model: &str) -> Option<(u64, u64)> {
    let (_, name) = model.split_once("claude")?;
    let words = name.split(['-', '.', ':', '@', '_']);
    let mut numbers = words
        .filter(|it| it.len() <= 2)
        .filter_map(|it| it.parse::<u64>().ok());
    Some((numbers.next()?, numbers.next().unwrap_or(0)))
}

/// Whether a request with a temperature is refused.
pub fn refuses_temperature(model: &str) -> bool {
    // The first of Anthropic's that do.
    let claude = claude_version(model).is_some_and(|it| it >= (4, 7));
    claude || thinks_always(model)
}

/// `OpenAI`'s models that think before each answer.
fn thinks_always(model: &str) -> bool {
    let name = last_part(model);
    let numbered = ["o1", "o3", "o4"].iter().any(|it| {
        let rest = name.strip_prefix(it);
        rest.is_some_and(|it| it.is_empty() || it.starts_with('-'))
    });
    numbered || (name.starts_with("gpt-5") && !name.contains("chat"))
}

/// Whether it is one of `OpenAI`'s that never think, and refuse to be asked for their thoughts.
pub fn never_thinks(model: &str) -> bool {
    let name = last_part(model);
    ["gpt-3.5", "gpt-4", "chatgpt-4", "gpt-5-chat"]
        .iter()
        .any(|it| name.starts_with(it))
}

/// Without whose it is.
fn last_part(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_family() {
        for (model, refuses, never) in [
            ("gpt-5", true, false),
            ("gpt-5.4-mini", true, false),
            ("openai/gpt-5-nano", true, false),
            ("gpt-5-chat-latest", false, true),
            ("gpt-4.1", false, true),
            ("gpt-4o-mini", false, true),
            ("o3-mini", true, false),
            ("o3", true, false),
            ("o3x", false, false),
            ("claude-opus-4-7", true, false),
            ("claude-opus-5", true, false),
            ("claude-opus-4-6", false, false),
            ("claude-sonnet-4-20250514", false, false),
            ("claude-3-7-sonnet-20250219", false, false),
            ("qwen3:4b", false, false),
            ("", false, false),
        ] {
            assert_eq!(refuses, refuses_temperature(model), "{model}");
            assert_eq!(never, never_thinks(model), "{model}");
        }
    }
}
