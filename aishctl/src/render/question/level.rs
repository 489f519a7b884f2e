//! A level that somebody wants a provider to have: who asks, what for, and what a yes changes.

use aish_proto::event::ConfirmRequested;
use aish_proto::permission::LevelUpgrade;

use super::{ArgumentExtent, Card, level_name, who, yes_in_help};
use crate::safe;

pub(super) struct LevelCard<'a> {
    pub(super) request: &'a ConfirmRequested,
    pub(super) subject: &'a LevelUpgrade,
}

impl Card for LevelCard<'_> {
    /// It is short, so that all of it is always shown.
    fn rows(&self, _extent: ArgumentExtent) -> String {
        let LevelUpgrade {
            provider,
            from,
            to,
            wanted_for,
            by,
        } = self.subject;
        let provider = safe::visible(provider);
        let wanted_for = wanted_for.as_deref().map(safe::visible);
        let wanted_for = wanted_for.map_or(String::new(), |it| format!(", to call {it}"));
        format!(
            "? c{}  may {provider} {} in this conversation?\n  level {} → {}, until it is revoked; nothing runs now, and each call is still asked about\n  asked for by {}{wanted_for}\n",
            self.request.number,
            doing(*to),
            level(*from),
            level(*to),
            who(by)
        )
    }

    fn yes(&self) -> &'static str {
        "[y]es, raise it"
    }

    fn help(&self) -> String {
        let provider = safe::visible(&self.subject.provider);
        let yes = yes_in_help(self.request);
        format!(
            "  {yes}      {provider} has level {} in this conversation from now on; aishctl perm revoke {provider} takes it back\n  n, no       nothing changes; what follows is kept as the reason\n",
            level(self.subject.to)
        )
    }

    fn in_short(&self) -> (&str, String) {
        let LevelUpgrade {
            provider,
            from,
            to,
            wanted_for,
            ..
        } = self.subject;
        let wanted_for = wanted_for.as_deref().map(safe::visible);
        let wanted_for = wanted_for.map_or(String::new(), |it| format!(", for {it}"));
        let more = format!("level {} → {}{wanted_for}", level(*from), level(*to));
        (provider, more)
    }
}

fn level(number: u8) -> String {
    format!("{number} {}", level_name(number))
}

fn doing(level: u8) -> &'static str {
    match level {
        1 => "read",
        2 => "write",
        3 => "execute",
        0 | 4.. => "do more",
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::answerer::Answerer;
    use aish_proto::confirm::{ConfirmSubject, Decision};
    use aish_proto::id::ClientId;

    use super::*;
    use crate::render::question::tests::{request, with_subject};
    use crate::render::question::{self, ConsentWord};

    fn asked(wanted_for: Option<&str>) -> ConfirmRequested {
        let subject = ConfirmSubject::Level(LevelUpgrade {
            provider: "data-tool".to_owned(),
            from: 1,
            to: 2,
            wanted_for: wanted_for.map(str::to_owned),
            by: Answerer {
                client_id: ClientId::from_bytes([2; 16]),
                name: "aishctl".to_owned(),
                tty: None,
                pid: Some(7),
                uid: None,
            },
        });
        let options = [Decision::RaiseOnly, Decision::Deny];
        with_subject(request("data-tool", "{}", 2), subject, &options)
    }

    #[test]
    fn a_level_is_asked_for_in_words_that_say_what_a_yes_changes() {
        let shown = question::question(
            &asked(Some("data-tool__create-resource")),
            ArgumentExtent::Short,
        );
        assert_eq!(
            "? c7  may data-tool write in this conversation?\n  level 1 read → 2 write, until it is revoked; nothing runs now, and each call is still asked about\n  asked for by aishctl pid 7, to call data-tool__create-resource\n",
            shown
        );
        let shown = question::question(&asked(None), ArgumentExtent::Whole);
        assert!(shown.ends_with("  asked for by aishctl pid 7\n"), "{shown}");
        assert_eq!(
            "  [y]es, raise it  [n]o  [n TEXT] no, because  [?] ",
            question::choices(&asked(None))
        );
        assert!(!question::is_long(&asked(None)));
    }

    #[test]
    fn a_level_is_raised_or_it_is_not() {
        let asked = asked(None);
        let check = |typed: &str, expected: Option<Decision>| {
            let decided = match question::word(typed, &asked) {
                ConsentWord::Decide(decision, _) => Some(decision),
                _ => None,
            };
            assert_eq!(expected, decided, "{typed:?}");
        };
        for typed in ["y", "yes", "raise", "r"] {
            check(typed, Some(Decision::RaiseOnly));
        }
        for typed in ["n", "no", "n not for this"] {
            check(typed, Some(Decision::Deny));
        }
        for typed in [
            "",
            "no idea why, look",
            "a",
            "always",
            "A",
            "e",
            "edit",
            "d",
            "abort",
            "yes please",
            "Y",
        ] {
            check(typed, None);
        }
        let reason = ConsentWord::Decide(Decision::Deny, Some("not today".to_owned()));
        assert_eq!(reason, question::word("n not today", &asked));
    }

    #[test]
    fn nothing_in_a_question_about_a_level_hides_or_moves() {
        let mut asked = asked(Some("a\u{1b}[2K__b\u{202e}"));
        if let ConfirmSubject::Level(upgrade) = &mut *asked.subject {
            upgrade.provider = "x\ny".to_owned();
            upgrade.by.name = "\u{7}".to_owned();
        }
        let shown = question::question(&asked, ArgumentExtent::Whole);
        assert_eq!(3, shown.lines().count(), "{shown}");
        assert!(shown.chars().all(|it| it == '\n' || !it.is_control()));
        assert!(!shown.contains('\u{202e}'));
    }
}
