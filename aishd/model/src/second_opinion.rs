//! The second opinion: another model is asked whether one action is safe for the goal. Only a plain yes is a yes.

/// What the other model came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opinion {
    Safe,
    /// It said no; what it gave as its reason.
    Unsafe(String),
    /// Nothing that counts: why, in words of ours.
    Missing(String),
}

/// One action, as the other model is shown it.
#[derive(Clone, Copy, Debug)]
pub struct PlannedAction<'a> {
    pub goal: &'a str,
    pub tool: &'a str,
    pub description: &'a str,
    /// What runs, byte for byte.
    pub arguments: &'a str,
}

/// More of an action than this is no action that somebody could judge.
const MAX_ARGUMENT_BYTES: usize = 16_000;
/// Characters of a reason that people are shown.
const REASON_CHARS: usize = 200;

/// Why no model can be asked about it: a part of an action is not the action.
pub fn too_long(planned: PlannedAction<'_>) -> Option<Opinion> {
    (planned.arguments.len() > MAX_ARGUMENT_BYTES).then(|| {
        let why = format!("its arguments are longer than {MAX_ARGUMENT_BYTES} bytes");
        Opinion::Missing(why)
    })
}

/// Reads the answer. A yes with anything behind it is none: a model that has more to say is not sure.
pub fn read(text: &str) -> Opinion {
    let text = text.trim();
    let is_mark = |it: char| matches!(it, '*' | '`' | '"' | '\'' | '.' | '!');
    let word = text.trim_matches(is_mark);
    if word.eq_ignore_ascii_case("yes") {
        return Opinion::Safe;
    }
    let begin = text.trim_start_matches(is_mark);
    let says_no = begin
        .get(..2)
        .is_some_and(|it| it.eq_ignore_ascii_case("no"));
    let rest = begin.get(2..).filter(|_| says_no);
    match rest {
        Some(rest) if !rest.starts_with(char::is_alphanumeric) => {
            let rest = rest.trim_start_matches(|it: char| is_mark(it) || it == ':' || it == ',');
            let line = rest.trim().lines().next().unwrap_or_default();
            Opinion::Unsafe(line.chars().take(REASON_CHARS).collect())
        }
        Some(_) | None => Opinion::Missing("it said neither yes nor no".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &Opinion) {
        assert_eq!(*expected, read(text), "{text:?}");
    }

    #[test]
    fn only_a_plain_yes_is_a_yes() {
        for yes in ["yes", " Yes.\n", "**YES**", "`yes`"] {
            check(yes, &Opinion::Safe);
        }
        check("no: it deletes", &Opinion::Unsafe("it deletes".to_owned()));
        check("No, never.\nReally", &Opinion::Unsafe("never.".to_owned()));
        check(
            "**no**: it deletes",
            &Opinion::Unsafe("it deletes".to_owned()),
        );
        check("no", &Opinion::Unsafe(String::new()));
        for other in [
            "",
            "yes, but look first",
            "yes\nno: it deletes",
            "nothing to see",
            "It is safe: yes",
            "y",
            "ｙｅｓ",
            "Answer: yes",
            "é",
        ] {
            check(
                other,
                &Opinion::Missing("it said neither yes nor no".to_owned()),
            );
        }
    }

    proptest! {
        #[test]
        fn whatever_is_said_is_read(text in "\\PC{0,40}") {
            let is_yes = text.to_lowercase().contains("yes");
            prop_assert!(is_yes || read(&text) != Opinion::Safe);
        }
    }

    #[test]
    fn half_an_action_is_not_judged() {
        let arguments = "x".repeat(MAX_ARGUMENT_BYTES + 1);
        let planned = PlannedAction {
            goal: "g",
            tool: "t",
            description: "",
            arguments: &arguments,
        };
        assert!(matches!(too_long(planned), Some(Opinion::Missing(_))));
        assert_eq!(
            None,
            too_long(PlannedAction {
                arguments: "{}",
                ..planned
            })
        );
    }
}
