//! What people answer questions with.

use aish_proto::confirm::Decision;
use aish_proto::event::ConfirmRequested;

use crate::render::question::is_destructive;
use crate::render::{command_question, level_question, memory_question, preview};

/// Words that answer some question, or lead on at it.
const ANSWERS: [&str; 17] = [
    "y", "yes", "n", "no", "a", "always", "r", "raise", "e", "edit", "d", "diff", "v", "view",
    "abort", "allow", "deny",
];

/// What somebody typed at a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsentWord {
    Decide(Decision, Option<String>),
    View,
    /// What the call would change in a file.
    Diff,
    Help,
    /// With other arguments.
    Edit,
    /// It means nothing here; nothing happens.
    Unclear(String),
}

/// Exact words only: what merely begins with y approves nothing.
pub fn word(typed: &str, request: &ConfirmRequested) -> ConsentWord {
    let typed = typed.trim();
    let (first, rest) = typed.split_once(' ').unwrap_or((typed, ""));
    let reason = Some(rest.trim()).filter(|it| !it.is_empty());
    if request.upgrade.is_some() {
        return level_question::word(first, reason)
            .unwrap_or_else(|| ConsentWord::Unclear(typed.to_owned()));
    }
    if request.memory.is_some() {
        return memory_question::word(first, reason)
            .unwrap_or_else(|| ConsentWord::Unclear(typed.to_owned()));
    }
    // Nothing is said about later calls by answering a server, and there is nothing to edit.
    let is_servers = request.elicitation.is_some() || request.sampling.is_some();
    let once = request.shell.is_some() && !command_question::is_always_possible(request);
    match (first, reason) {
        ("a" | "always", _) if once => ConsentWord::Unclear(typed.to_owned()),
        ("A", _) if request.shell.is_some() => ConsentWord::Unclear(typed.to_owned()),
        ("a" | "always" | "A" | "r" | "raise" | "e" | "edit" | "d" | "diff", _) if is_servers => {
            ConsentWord::Unclear(typed.to_owned())
        }
        ("" | "n" | "no", _) => ConsentWord::Decide(Decision::Deny, reason.map(str::to_owned)),
        ("yes", None) => ConsentWord::Decide(Decision::AllowOnce, None),
        ("y", None) if !is_destructive(request) => ConsentWord::Decide(Decision::AllowOnce, None),
        ("a" | "always", None) if !is_destructive(request) => {
            ConsentWord::Decide(Decision::AllowConversation, None)
        }
        ("A", None) if !is_destructive(request) => {
            ConsentWord::Decide(Decision::AllowProvider, None)
        }
        ("r" | "raise", None) if request.raise_to.is_some() => {
            ConsentWord::Decide(Decision::RaiseOnly, None)
        }
        ("abort", None) => ConsentWord::Decide(Decision::Abort, None),
        ("e" | "edit", None) => ConsentWord::Edit,
        ("v" | "view", None) => ConsentWord::View,
        ("d" | "diff", None) if preview::is_possible(request) => ConsentWord::Diff,
        ("?" | "help", None) => ConsentWord::Help,
        _ => ConsentWord::Unclear(typed.to_owned()),
    }
}

/// Whether a line is one word that somebody would answer a question with, though it is no answer to the one that stands:
/// too short, in capitals, with a full stop. It is hardly meant for a model.
pub fn resembles_an_answer(typed: &str) -> bool {
    let bare = typed.trim().trim_end_matches(['.', '!', ',', ';']);
    ANSWERS.contains(&bare.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_word_that_would_answer_is_told_from_a_question() {
        for typed in [
            "y", "Y", " a ", "A", "YES", "yes.", "Yes!", "no.", "N", "Abort",
        ] {
            assert!(resembles_an_answer(typed), "{typed}");
        }
        for typed in [
            "",
            "?",
            "ok",
            "yes please",
            "why",
            "yikes",
            "y c9 then",
            "a b",
            ".",
        ] {
            assert!(!resembles_an_answer(typed), "{typed}");
        }
    }
}
