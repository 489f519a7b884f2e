//! What people answer questions with.

use aish_proto::confirm::Decision;
use aish_proto::event::ConfirmRequested;

use super::{
    can_be_tried, changes_of, decision_for, file_diff, holds_up, is_file_change, wants_whole_word,
};

/// Words that answer some question, or lead on at it.
const ANSWERS: [&str; 23] = [
    "y", "yes", "n", "no", "a", "always", "r", "raise", "e", "edit", "d", "diff", "v", "view",
    "abort", "allow", "deny", "t", "try", "keep", "run", "s", "some",
];

/// What somebody typed at a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsentWord {
    Decide(Decision, Option<String>),
    View,
    /// What the call would change in a file.
    Diff,
    /// Its difference, hunk by hunk.
    Choose,
    Help,
    /// With other arguments.
    Edit,
    /// It is to run in layers over the files first.
    Try,
    /// It means nothing here; nothing happens.
    Unclear(String),
}

/// Exact words only: what merely begins with y approves nothing, and nothing means what the daemon would not take.
pub fn word(typed: &str, request: &ConfirmRequested) -> ConsentWord {
    let typed = typed.trim();
    let (first, rest) = typed.split_once(' ').unwrap_or((typed, ""));
    let reason = Some(rest.trim()).filter(|it| !it.is_empty());
    let takes = |decision| request.options.contains(&decision);
    let (whole_word, waits) = (wants_whole_word(request), holds_up(request));
    let decision = match (first, reason) {
        // Where nothing waits for the answer people go on with other lines: these are none.
        ("", _) | ("no", Some(_)) if !waits => None,
        ("" | "n" | "no", _) => {
            return ConsentWord::Decide(Decision::Deny, reason.map(str::to_owned));
        }
        ("yes", None) => Some(yes(request)),
        ("y", None) if !whole_word => Some(yes(request)),
        ("a" | "always", None) if !whole_word => Some(Decision::AllowConversation),
        ("A", None) if !whole_word => Some(Decision::AllowProvider),
        ("r", None) if !whole_word => Some(Decision::RaiseOnly),
        ("raise", None) => Some(Decision::RaiseOnly),
        ("abort", None) => Some(Decision::Abort),
        ("e" | "edit", None) if takes(Decision::Edit) => return ConsentWord::Edit,
        ("v" | "view", None) => return ConsentWord::View,
        ("keep" | "k", _) if changes_of(request).is_some() => {
            return ConsentWord::Decide(Decision::Keep, reason.map(str::to_owned));
        }
        ("d" | "diff", None) if changes_of(request).is_some() => return ConsentWord::Diff,
        ("d" | "diff", None) if file_diff::is_possible(request) => return ConsentWord::Diff,
        ("t" | "try", None) if can_be_tried(request) => return ConsentWord::Try,
        ("?" | "help", None) => return ConsentWord::Help,
        _ => None,
    };
    match decision {
        Some(decision) if takes(decision) || decision == Decision::AllowOnce => {
            ConsentWord::Decide(decision, None)
        }
        Some(_) | None => ConsentWord::Unclear(typed.to_owned()),
    }
}

/// The same at a command that was tried: a yes keeps what it changed.
pub fn word_of_tried(typed: &str, request: &ConfirmRequested) -> ConsentWord {
    let whole_word = wants_whole_word(request);
    if let Some(named) = typed.trim().strip_prefix("keep ") {
        return ConsentWord::Decide(Decision::Keep, Some(named.trim().to_owned()));
    }
    match typed.trim() {
        "yes" | "keep" => ConsentWord::Decide(Decision::Keep, None),
        "y" | "k" if !whole_word => ConsentWord::Decide(Decision::Keep, None),
        // It is made, and real, with a yes alone.
        "run" | "r" if is_file_change(request) => ConsentWord::Unclear(typed.to_owned()),
        "run" => ConsentWord::Decide(Decision::AllowOnce, None),
        "r" if !whole_word => ConsentWord::Decide(Decision::AllowOnce, None),
        "d" | "diff" => ConsentWord::Diff,
        "s" | "some" => ConsentWord::Choose,
        "a" | "always" | "e" | "edit" => ConsentWord::Unclear(typed.to_owned()),
        _ => word(typed, request),
    }
}

/// What a yes is: once, or of a level that it is raised. Arguments that somebody changed are allowed once, too.
fn yes(request: &ConfirmRequested) -> Decision {
    decision_for(Decision::AllowOnce, request)
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
