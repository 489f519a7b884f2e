//! A fact that a model proposes to be kept, on a screen: what would be kept, whose idea it is, and what a yes does.

use aish_proto::confirm::Decision;
use aish_proto::event::ConfirmRequested;
use aish_proto::memory::ProposedMemory;

use crate::render::question::ConsentWord;
use crate::safe;

/// The question as it stands on a screen. A fact is one line of at most 1,000 characters, so that all of it is always shown.
pub fn question(request: &ConfirmRequested, asked: &ProposedMemory) -> String {
    let ProposedMemory { kind, text, model } = asked;
    format!(
        "? c{}  remember this for all conversations?\n  ({}) {}\n  {} proposes it; no model is told it unless you say yes\n",
        request.number,
        safe::visible(kind),
        safe::visible(text),
        safe::visible(model),
    )
}

/// In a few words, for a list.
pub fn in_short(asked: &ProposedMemory) -> String {
    format!("({}) {}", asked.kind, asked.text)
}

/// The line that says what can be answered.
pub const CHOICES: &str = "  [y]es, keep it  [n]o  [n TEXT] no, because  [?] ";

/// What all of them mean.
pub const HELP: &str = "  y, yes      models are told it from the next request on; aishctl memory lists it, aishctl forget takes it away\n  n, no       it is not kept; what follows is kept as the reason\n";

/// What somebody typed at it. Nothing waits for the answer, so that people go on with other lines: an empty one and one that
/// begins with a no are none.
pub fn word(first: &str, reason: Option<&str>) -> Option<ConsentWord> {
    match (first, reason) {
        ("n", _) => Some(ConsentWord::Decide(
            Decision::Deny,
            reason.map(str::to_owned),
        )),
        ("no", None) => Some(ConsentWord::Decide(Decision::Deny, None)),
        ("y" | "yes", None) => Some(ConsentWord::Decide(Decision::AllowOnce, None)),
        ("v" | "view", None) => Some(ConsentWord::View),
        ("?" | "help", None) => Some(ConsentWord::Help),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::confirm::ConfirmKind;

    use super::*;
    use crate::render::question::tests::request;
    use crate::render::question::{self, ArgumentExtent};

    fn asked(text: &str) -> ConfirmRequested {
        let mut asked = request("", "{}", 0);
        asked.kind = ConfirmKind::Memory;
        asked.memory = Some(Box::new(ProposedMemory {
            kind: "fact".to_owned(),
            text: text.to_owned(),
            model: "fast".to_owned(),
        }));
        asked
    }

    #[test]
    fn a_fact_is_asked_about_as_it_would_be_kept() {
        let asked = asked("the server is boltzmann");
        assert_eq!(
            "? c7  remember this for all conversations?\n  (fact) the server is boltzmann\n  fast proposes it; no model is told it unless you say yes\n",
            question::question(&asked, ArgumentExtent::Short)
        );
        assert_eq!(CHOICES, question::choices(&asked));
        assert_eq!(HELP, question::help(&asked));
        assert!(!question::is_long(&asked));
        assert!(!question::is_destructive(&asked));
    }

    #[test]
    fn a_fact_is_kept_or_it_is_not() {
        let asked = asked("rm -rf / is fine");
        let check = |typed: &str, expected: Option<Decision>| {
            let decided = match question::word(typed, &asked) {
                ConsentWord::Decide(decision, _) => Some(decision),
                _ => None,
            };
            assert_eq!(expected, decided, "{typed:?}");
        };
        for typed in ["y", "yes"] {
            check(typed, Some(Decision::AllowOnce));
        }
        for typed in ["n", "no", "n it is a secret"] {
            check(typed, Some(Decision::Deny));
        }
        for typed in [
            "",
            "no idea why, look",
            "a",
            "always",
            "A",
            "r",
            "e",
            "abort",
            "Y",
        ] {
            check(typed, None);
        }
    }

    #[test]
    fn nothing_in_a_proposed_fact_hides_or_moves() {
        let shown = question::question(&asked("a\u{1b}[2K\nb\u{202e}"), ArgumentExtent::Whole);
        assert_eq!(3, shown.lines().count(), "{shown}");
        assert!(shown.chars().all(|it| it == '\n' || !it.is_control()));
        assert!(!shown.contains('\u{202e}'));
    }
}
