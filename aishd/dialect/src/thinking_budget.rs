//! How much a model of the messages dialect is to think: newer ones are told an effort, older ones a number of tokens, and
//! the longest answer has to hold what is thought.

use aishd_model::model_families::claude_version;
use aishd_model::optional_fields::{OptionalField, OutputLimit};
use aishd_model::preset::{Preset, ThinkingEffort};

use crate::prompt::{Prompt, PromptPurpose};

/// No server takes a smaller budget.
const LEAST_BUDGET: u64 = 1024;
/// The longest answer, which has to be said, where nobody set it and nobody knows the model.
const USUAL_LIMIT: u64 = 8_192;
/// … and where the catalog knows it: more than anybody reads.
const MOST_LIMIT: u64 = 32_000;
/// The first version that decides itself how much it thinks.
const ADAPTIVE: (u64, u64) = (4, 6);
/// The first that knows the effort below the highest.
const XHIGH: (u64, u64) = (4, 7);

/// What a request says of thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingWish {
    /// Nothing.
    Unsaid,
    Adaptive {
        effort: &'static str,
    },
    Budget {
        tokens: u64,
    },
}

/// What a request says of thinking, and of its longest answer.
pub(crate) fn wish(preset: &Preset, prompt: &Prompt<'_>) -> (ThinkingWish, u64) {
    let said = prompt.options.limit.map(|it| match it {
        OutputLimit::Set(tokens) | OutputLimit::Said(tokens) => tokens,
    });
    let most = preset.learned.most_output.or(preset.facts.output_tokens);
    let known = most.map(|it| it.min(MOST_LIMIT));
    let limit = said.or(known).unwrap_or(USUAL_LIMIT).max(1);
    let wish = match prompt.purpose {
        // A few words need no thought, and would have no room for it.
        PromptPurpose::Aside => ThinkingWish::Unsaid,
        PromptPurpose::Conversation { .. } => of_effort(preset),
    };
    match wish {
        ThinkingWish::Budget { tokens } if said.is_none() => {
            let room = most.unwrap_or(u64::MAX);
            let limit = limit.max((tokens + USUAL_LIMIT).min(room));
            (within(tokens, limit), limit)
        }
        ThinkingWish::Budget { tokens } => (within(tokens, limit), limit),
        ThinkingWish::Unsaid | ThinkingWish::Adaptive { .. } => (wish, limit),
    }
}

/// A budget that leaves room for an answer.
fn within(tokens: u64, limit: u64) -> ThinkingWish {
    let tokens = if tokens < limit { tokens } else { limit / 2 };
    if tokens >= LEAST_BUDGET {
        ThinkingWish::Budget { tokens }
    } else {
        ThinkingWish::Unsaid
    }
}

fn of_effort(preset: &Preset) -> ThinkingWish {
    let Some(effort) = preset
        .effort
        .filter(|_| !preset.learned.without.contains(&OptionalField::Effort))
    else {
        return ThinkingWish::Unsaid;
    };
    if effort == ThinkingEffort::None {
        return ThinkingWish::Unsaid;
    }
    match claude_version(&preset.model) {
        Some(version) if version >= ADAPTIVE => {
            let known = match effort {
                ThinkingEffort::None | ThinkingEffort::Minimal => ThinkingEffort::Low,
                ThinkingEffort::XHigh if version < XHIGH => ThinkingEffort::High,
                ThinkingEffort::Low
                | ThinkingEffort::Medium
                | ThinkingEffort::High
                | ThinkingEffort::XHigh
                | ThinkingEffort::Max => effort,
            };
            let taken = preset.nearest_effort(known);
            taken.map_or(ThinkingWish::Unsaid, |it| ThinkingWish::Adaptive {
                effort: it.as_str(),
            })
        }
        Some(_) | None => ThinkingWish::Budget {
            tokens: match effort {
                ThinkingEffort::None | ThinkingEffort::Minimal | ThinkingEffort::Low => {
                    LEAST_BUDGET
                }
                ThinkingEffort::Medium => 8_000,
                ThinkingEffort::High | ThinkingEffort::XHigh | ThinkingEffort::Max => 24_000,
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use aishd_model::catalog::CatalogFacts;
    use aishd_model::optional_fields::RequestOptions;

    use super::*;

    #[track_caller]
    fn check(
        (model, effort): (&str, ThinkingEffort),
        (limit, known): (Option<u64>, Option<u64>),
        expected: (ThinkingWish, u64),
    ) {
        let preset = Preset {
            model: model.to_owned(),
            effort: Some(effort),
            facts: CatalogFacts {
                output_tokens: known,
                ..CatalogFacts::default()
            },
            ..Preset::demo()
        };
        let prompt = Prompt {
            purpose: PromptPurpose::Conversation { key: None },
            options: RequestOptions {
                limit: limit.map(OutputLimit::Set),
                ..RequestOptions::default()
            },
            ..Prompt::default()
        };
        assert_eq!(expected, wish(&preset, &prompt), "{model} {effort:?}");
        let aside = Prompt {
            options: prompt.options,
            ..Prompt::default()
        };
        assert_eq!(ThinkingWish::Unsaid, wish(&preset, &aside).0);
    }

    #[test]
    fn newer_models_are_told_an_effort_and_older_ones_a_budget_with_room_for_an_answer() {
        let adaptive = |effort| ThinkingWish::Adaptive { effort };
        let budget = |tokens| ThinkingWish::Budget { tokens };
        let none = (None, None);
        check(
            ("claude-opus-4-7", ThinkingEffort::XHigh),
            none,
            (adaptive("xhigh"), 8_192),
        );
        check(
            ("claude-opus-4-6", ThinkingEffort::XHigh),
            none,
            (adaptive("high"), 8_192),
        );
        check(
            ("anthropic/claude-sonnet-4.6:beta", ThinkingEffort::Minimal),
            (None, Some(64_000)),
            (adaptive("low"), 32_000),
        );
        check(
            ("claude-opus-4-7", ThinkingEffort::None),
            none,
            (ThinkingWish::Unsaid, 8_192),
        );
        check(
            ("claude-opus-4-20250514", ThinkingEffort::Medium),
            none,
            (budget(8_000), 16_192),
        );
        check(
            ("claude-3-7-sonnet-20250219", ThinkingEffort::Low),
            none,
            (budget(1024), 9_216),
        );
        check(
            ("claude-sonnet-4-5-20250929", ThinkingEffort::High),
            (None, Some(64_000)),
            (budget(24_000), 32_192),
        );
        // What somebody set stays, and holds both.
        check(
            ("glm-5", ThinkingEffort::High),
            (Some(4_096), None),
            (budget(2_048), 4_096),
        );
        check(
            ("glm-5", ThinkingEffort::High),
            (Some(100), None),
            (ThinkingWish::Unsaid, 100),
        );
        check(
            ("claude-3-opus-20240229", ThinkingEffort::High),
            (None, Some(4_096)),
            (budget(2_048), 4_096),
        );
    }
}
