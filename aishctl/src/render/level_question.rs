//! A level that somebody wants a provider to have, on a screen: who asks, what for, and what a yes changes.

use aish_proto::confirm::Decision;
use aish_proto::event::ConfirmRequested;
use aish_proto::permission::LevelUpgrade;

use crate::render::question::{self, ConsentWord};
use crate::safe;

/// The question as it stands on a screen. It is short, so that all of it is always shown.
pub fn question(request: &ConfirmRequested, asked: &LevelUpgrade) -> String {
    let LevelUpgrade {
        provider,
        from,
        to,
        wanted_for,
        by,
    } = asked;
    let provider = safe::visible(provider);
    let mut text = format!(
        "? c{}  may {provider} {} in this conversation?\n",
        request.number,
        doing(*to)
    );
    text.push_str(&format!(
        "  level {} → {}, until it is revoked; nothing runs now, and each call is still asked about\n",
        level(*from),
        level(*to)
    ));
    let wanted_for = wanted_for.as_deref().map(safe::visible);
    let wanted_for = wanted_for.map_or(String::new(), |it| format!(", to call {it}"));
    text.push_str(&format!(
        "  asked for by {}{wanted_for}\n",
        question::who(by)
    ));
    text
}

/// In a few words, for a list.
pub fn in_short(asked: &LevelUpgrade) -> String {
    let wanted_for = asked.wanted_for.as_deref().map(safe::visible);
    let wanted_for = wanted_for.map_or(String::new(), |it| format!(", for {it}"));
    format!(
        "level {} → {}{wanted_for}",
        level(asked.from),
        level(asked.to)
    )
}

/// The line that says what can be answered.
pub const CHOICES: &str = "  [y]es, raise it  [n]o  [n TEXT] no, because  [?] ";

/// What all of them mean.
pub fn help(asked: &LevelUpgrade) -> String {
    let provider = safe::visible(&asked.provider);
    format!(
        "  y, yes      {provider} has level {} in this conversation from now on; aishctl perm revoke {provider} takes it back\n  n, no       nothing changes; what follows is kept as the reason\n",
        level(asked.to)
    )
}

/// What somebody typed at it. There is nothing to edit and no call to end. Nothing waits for the answer, so that people go
/// on with other lines: an empty one and one that begins with a no are none.
pub fn word(first: &str, reason: Option<&str>) -> Option<ConsentWord> {
    match (first, reason) {
        ("n", _) => Some(ConsentWord::Decide(
            Decision::Deny,
            reason.map(str::to_owned),
        )),
        ("no", None) => Some(ConsentWord::Decide(Decision::Deny, None)),
        ("y" | "yes" | "r" | "raise", None) => Some(ConsentWord::Decide(Decision::RaiseOnly, None)),
        ("v" | "view", None) => Some(ConsentWord::View),
        ("?" | "help", None) => Some(ConsentWord::Help),
        _ => None,
    }
}

fn level(number: u8) -> String {
    format!("{number} {}", question::level_name(number))
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
    use aish_proto::confirm::ConfirmKind;
    use aish_proto::id::ClientId;

    use super::*;
    use crate::render::question::ArgumentExtent;
    use crate::render::question::tests::request;

    fn asked(wanted_for: Option<&str>) -> ConfirmRequested {
        let mut asked = request("data-tool", "{}", 2);
        asked.kind = ConfirmKind::Permission;
        asked.upgrade = Some(Box::new(LevelUpgrade {
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
        }));
        asked
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
        assert_eq!(CHOICES, question::choices(&asked(None)));
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
        if let Some(upgrade) = &mut asked.upgrade {
            upgrade.provider = "x\ny".to_owned();
            upgrade.by.name = "\u{7}".to_owned();
        }
        let shown = question::question(&asked, ArgumentExtent::Whole);
        assert_eq!(3, shown.lines().count(), "{shown}");
        assert!(shown.chars().all(|it| it == '\n' || !it.is_control()));
        assert!(!shown.contains('\u{202e}'));
    }
}
