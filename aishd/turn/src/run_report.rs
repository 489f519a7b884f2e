//! What the model says of itself: that it is done, or that it gives up.

use aish_proto::proposed::outside_code;

/// What an answer comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerContent {
    GoesOn,
    Done(String),
    Halts(String),
}

/// Characters of a reason that are kept.
const REASON_CHARS: usize = 500;

/// Reads the lines at whose very beginning such a word stands, outside code fences. Giving up counts more than being done,
/// for it is the careful one of two that contradict each other.
pub fn answer_content(text: &str) -> AnswerContent {
    let mut done = None;
    for line in outside_code(text) {
        if let Some(why) = line.strip_prefix("HALT:") {
            return AnswerContent::Halts(reason(why));
        }
        if let Some(what) = line.strip_prefix("DONE:") {
            done.get_or_insert_with(|| reason(what));
        }
    }
    done.map_or(AnswerContent::GoesOn, AnswerContent::Done)
}

fn reason(text: &str) -> String {
    text.trim().chars().take(REASON_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &AnswerContent) {
        assert_eq!(*expected, answer_content(text), "{text:?}");
    }

    #[test]
    fn a_word_counts_at_the_beginning_of_a_line_and_outside_of_code() {
        let done = AnswerContent::Done("it works".to_owned());
        let halts = AnswerContent::Halts("no key".to_owned());
        check("DONE: it works", &done);
        check("I looked.\n\nDONE:it works  \nBye.", &done);
        check("HALT: no key", &halts);
        check("DONE: it works\nHALT: no key", &halts);
        check("DONE:", &AnswerContent::Done(String::new()));
        for text in [
            "",
            "I am DONE: nearly",
            " DONE: it works",
            "done: it works",
            "DONE it works",
            "ＤＯＮＥ: it works",
            "\u{feff}DONE: it works",
            "```\nDONE: it works\n```",
            "~~~ text\nHALT: no key\n~~~",
            "````\n```\nDONE: it works\n````",
            "```\nDONE: it works",
            "> DONE: it works",
        ] {
            check(text, &AnswerContent::GoesOn);
        }
        check("```\nls\n```\nDONE: it works", &done);
        check("```a`b\nDONE: it works", &done);
        check("~~~\n```\n~~~\nDONE: it works", &done);
    }

    proptest! {
        #[test]
        fn nothing_that_stands_in_a_fence_ends_a_run(lines in "([a-zDH:`\\n ]|DONE:|HALT:){0,60}") {
            let inside: String = lines.lines().map(|it| format!("{}\n", it.replace('`', "'"))).collect();
            prop_assert_eq!(AnswerContent::GoesOn, answer_content(&format!("```\n{inside}```\n")));
        }
    }
}
