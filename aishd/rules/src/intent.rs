//! Which capability an action means: by name, by nothing that a provider says about itself, and never more sure
//! than it can be. What is sure runs; anything less is a proposal.

use std::collections::BTreeSet;
use std::fmt;

use aishd_log::tool_name::{Alias, ToolName};

use crate::catalog::Catalog;

mod words;

use self::words::IntentWords;

/// Candidates that are told of.
const MOST: usize = 5;
/// The best that a likeness of names can come to.
const LIKENESS: f64 = 0.7;
/// Less likeness than this is none.
const LEAST: f64 = 0.35;
/// Two that are so near to each other are equally good.
const TIE: f64 = 0.02;
/// Longer actions are cut before they are looked at.
const MAX_ACTION_CHARS: usize = 500;

/// How sure a choice is: from 0 to 1, and 1 only where there is nothing to choose.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct IntentConfidence(f64);

/// One capability that may be meant.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedCapability {
    pub tool: ToolName,
    pub confidence: IntentConfidence,
}

/// What an action means.
#[derive(Clone, Debug, PartialEq)]
pub enum IntentDecision {
    /// This capability; the others are less likely.
    Found {
        tool: ToolName,
        confidence: IntentConfidence,
        reason: ChoiceReason,
        others: Vec<RankedCapability>,
    },
    /// Any of these, and none more than another.
    Ambiguous(Vec<RankedCapability>),
    /// None. These have the nearest names.
    Unknown(Vec<ToolName>),
}

/// Why a capability was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChoiceReason {
    /// Whoever asks has named the provider or the tool.
    Explicit,
    /// The action is its name.
    OnlyMatch,
    /// The action is the name of so many, and this one is the likeliest.
    BestOf(usize),
    /// The action is like its name.
    Likeness,
}

impl IntentConfidence {
    pub const SURE: Self = Self(1.0);

    pub fn value(self) -> f64 {
        self.0
    }

    pub fn is_sure(self) -> bool {
        self.0 >= 1.0
    }
}

impl fmt::Display for ChoiceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Explicit => f.write_str("it was named"),
            Self::OnlyMatch => f.write_str("the only capability of this name"),
            Self::BestOf(count) => write!(f, "the likeliest of {count} of this name"),
            Self::Likeness => f.write_str("its name is like the action"),
        }
    }
}

impl IntentDecision {
    /// What runs: only what is sure.
    pub fn sure(&self) -> Option<&ToolName> {
        match self {
            Self::Found {
                tool, confidence, ..
            } if confidence.is_sure() => Some(tool),
            Self::Found { .. } | Self::Ambiguous(_) | Self::Unknown(_) => None,
        }
    }
}

/// The capability that `action` means. `explicit` is a provider or a whole name, if one was given; `used` are the
/// providers that the conversation has called before.
pub fn route(
    action: &str,
    explicit: Option<&str>,
    catalog: &Catalog,
    used: &BTreeSet<Alias>,
) -> IntentDecision {
    let end = action.char_indices().nth(MAX_ACTION_CHARS);
    let action = end.map_or(action, |(end, _)| &action[..end]).trim();
    let all: Vec<&ToolName> = catalog.iter().map(|it| &it.name).collect();
    let Some(explicit) = explicit else {
        let named = all.iter().find(|it| it.to_string() == action);
        if let Some(named) = named {
            return sure(named, ChoiceReason::Explicit);
        }
        return among(action, &all, used);
    };
    if let Some(named) = all.iter().find(|it| it.to_string() == explicit) {
        return sure(named, ChoiceReason::Explicit);
    }
    let own: Vec<&ToolName> = all
        .iter()
        .copied()
        .filter(|it| it.alias().as_str() == explicit)
        .collect();
    match among(action, &own, used) {
        IntentDecision::Found {
            tool, confidence, ..
        } if confidence.is_sure() => sure(&tool, ChoiceReason::Explicit),
        // A slip in the provider's name, too.
        IntentDecision::Unknown(near) if own.is_empty() => {
            let wanted = format!("{explicit}__{action}");
            IntentDecision::Unknown(if near.is_empty() {
                nearest(&wanted, &all)
            } else {
                near
            })
        }
        other @ (IntentDecision::Found { .. }
        | IntentDecision::Ambiguous(_)
        | IntentDecision::Unknown(_)) => other,
    }
}

fn sure(tool: &ToolName, reason: ChoiceReason) -> IntentDecision {
    IntentDecision::Found {
        tool: tool.clone(),
        confidence: IntentConfidence::SURE,
        reason,
        others: vec![],
    }
}

fn among(action: &str, all: &[&ToolName], used: &BTreeSet<Alias>) -> IntentDecision {
    let spelled: Vec<&ToolName> = all
        .iter()
        .copied()
        .filter(|it| it.tool() == action)
        .collect();
    let written = IntentWords::spelled(action);
    let same: Vec<&ToolName> = if spelled.is_empty() {
        let named = |it: &&ToolName| {
            let tool = IntentWords::spelled(it.tool());
            written == tool
                || written == IntentWords::spelled(it.alias().as_str()).followed_by(&tool)
        };
        all.iter().copied().filter(named).collect()
    } else {
        spelled
    };
    match same[..] {
        [] => like(action, all),
        [only] => sure(only, ChoiceReason::OnlyMatch),
        [..] => best_of(&same, used),
    }
}

/// Of several with the name that was asked for: those that the conversation knows already come first.
fn best_of(same: &[&ToolName], used: &BTreeSet<Alias>) -> IntentDecision {
    let score = |it: &ToolName| if used.contains(it.alias()) { 0.9 } else { 0.8 };
    let scored = same.iter().map(|it| (score(it), *it)).collect();
    choose(scored, ChoiceReason::BestOf(same.len()))
}

fn like(action: &str, all: &[&ToolName]) -> IntentDecision {
    let meant = IntentWords::of(action);
    let score = |it: &ToolName| {
        let (provider, tool) = (
            IntentWords::of(it.alias().as_str()),
            IntentWords::of(it.tool()),
        );
        LIKENESS * meant.likeness(&tool, &provider)
    };
    let scored = all.iter().map(|it| (score(it), *it));
    let scored: Vec<_> = scored.filter(|(score, _)| *score >= LEAST).collect();
    if scored.is_empty() {
        return IntentDecision::Unknown(nearest(action, all));
    }
    choose(scored, ChoiceReason::Likeness)
}

fn choose(mut scored: Vec<(f64, &ToolName)>, reason: ChoiceReason) -> IntentDecision {
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let best = scored.first().map_or(0.0, |it| it.0);
    let tied = scored.iter().take_while(|it| best - it.0 < TIE).count();
    let mut candidates = scored.into_iter().map(|(score, tool)| RankedCapability {
        tool: tool.clone(),
        confidence: IntentConfidence(score),
    });
    if tied > 1 {
        return IntentDecision::Ambiguous(candidates.take(tied).collect());
    }
    match candidates.next() {
        None => IntentDecision::Unknown(vec![]),
        Some(RankedCapability { tool, confidence }) => IntentDecision::Found {
            tool,
            confidence,
            reason,
            others: candidates.take(MOST - 1).collect(),
        },
    }
}

/// Names that are spelled like it, for whoever made a slip.
fn nearest(action: &str, all: &[&ToolName]) -> Vec<ToolName> {
    let near = |it: &ToolName| {
        let whole = strsim::jaro_winkler(action, &it.to_string());
        whole.max(strsim::jaro_winkler(action, it.tool()))
    };
    let mut near: Vec<(f64, &ToolName)> = all.iter().map(|it| (near(it), *it)).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let near = near.into_iter().filter(|it| it.0 > 0.7).take(3);
    near.map(|(_, tool)| tool.clone()).collect()
}

#[cfg(test)]
mod tests;
