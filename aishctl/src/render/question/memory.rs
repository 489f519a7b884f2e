//! A fact that a model proposes to be kept: what would be kept, whose idea it is, and what a yes does.

use aish_proto::event::ConfirmRequested;
use aish_proto::memory::ProposedMemory;

use super::{ArgumentExtent, Card, begin, yes_in_help};
use crate::safe;

pub(super) struct MemoryCard<'a> {
    pub(super) request: &'a ConfirmRequested,
    pub(super) subject: &'a ProposedMemory,
}

impl Card for MemoryCard<'_> {
    /// A fact is one line of at most 1,000 characters, so that all of it is always shown.
    fn rows(&self, _extent: ArgumentExtent) -> String {
        let ProposedMemory { kind, text, model } = self.subject;
        format!(
            "? c{}  remember this for all conversations?\n  ({}) {}\n  {} proposes it; no model is told it unless you say yes\n",
            self.request.number,
            safe::visible(kind),
            safe::visible(text),
            safe::visible(model),
        )
    }

    fn yes(&self) -> &'static str {
        "[y]es, keep it"
    }

    fn help(&self) -> String {
        let yes = yes_in_help(self.request);
        format!(
            "  {yes}      models are told it from the next request on; aishctl memory lists it, aishctl forget takes it away\n  n, no       it is not kept; what follows is kept as the reason\n"
        )
    }

    fn in_short(&self) -> (&str, String) {
        let ProposedMemory { kind, text, .. } = self.subject;
        (&self.request.title, begin(&format!("({kind}) {text}")))
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::confirm::{ConfirmSubject, Decision};

    use super::*;
    use crate::render::question::tests::{request, with_subject};
    use crate::render::question::{self, ConsentWord};

    fn asked(text: &str) -> ConfirmRequested {
        let subject = ConfirmSubject::Memory(ProposedMemory {
            kind: "fact".to_owned(),
            text: text.to_owned(),
            model: "fast".to_owned(),
        });
        let options = [Decision::AllowOnce, Decision::Deny];
        with_subject(request("", "{}", 0), subject, &options)
    }

    #[test]
    fn a_fact_is_asked_about_as_it_would_be_kept() {
        let asked = asked("the server is boltzmann");
        assert_eq!(
            "? c7  remember this for all conversations?\n  (fact) the server is boltzmann\n  fast proposes it; no model is told it unless you say yes\n",
            question::question(&asked, ArgumentExtent::Short)
        );
        assert_eq!(
            "  [y]es, keep it  [n]o  [n TEXT] no, because  [?] ",
            question::choices(&asked)
        );
        assert!(!question::is_long(&asked));
        assert!(!question::wants_whole_word(&asked));
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
