//! What clap proposes in the place of a word that is no command: it goes by letters in common, so that `tree` becomes `rename`. Only a
//! slip of the keys is worth a tip.

use clap::error::{ContextKind, ContextValue, Error};

/// How alike two words are that are one, mistyped.
const NEAR: f64 = 0.6;

/// The error without the tips that nobody can have meant.
pub(crate) fn only_near(mut error: Error) -> Error {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let is_near = |it: &String| strsim::normalized_damerau_levenshtein(typed, it) >= NEAR;
    match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(tips)) => {
            let near: Vec<String> = tips.iter().filter(|it| is_near(it)).cloned().collect();
            error.remove(ContextKind::SuggestedSubcommand);
            if !near.is_empty() {
                let near = ContextValue::Strings(near);
                error.insert(ContextKind::SuggestedSubcommand, near);
            }
        }
        Some(ContextValue::String(tip)) if !is_near(tip) => {
            error.remove(ContextKind::SuggestedSubcommand);
        }
        _ => {}
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::CtlArgs;

    #[track_caller]
    fn check(line: &str, tip: Option<&str>) {
        let words = line.split(' ');
        let error = CtlArgs::command().try_get_matches_from(words).unwrap_err();
        let said = only_near(error).to_string();
        match tip {
            Some(tip) => assert!(said.contains(&format!("tip: {tip}")), "{said}"),
            None => assert!(!said.contains("tip:"), "{said}"),
        }
    }

    #[test]
    fn only_a_slip_of_the_keys_has_a_tip() {
        check("aishctl conv tree", None);
        check(
            "aishctl conv renmae",
            Some("a similar subcommand exists: 'rename'"),
        );
        check(
            "aishctl serach x",
            Some("a similar subcommand exists: 'search'"),
        );
        check("aishctl nonsense", None);
    }
}
