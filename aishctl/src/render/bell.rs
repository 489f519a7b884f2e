//! What a terminal is sent so that a person looks at it: a notice of the desktop, the bell, and a title with a count.
//! Never OSC 9;4, which is a progress bar.

use aish_proto::config::NotifyMethod;

use crate::environment::ClientEnvironment;
use crate::safe;

/// Longer says no more.
const CHARS: usize = 120;

/// What this terminal can be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BellSupport {
    /// Notices, titles and the bell.
    #[default]
    All,
    /// A console, or somebody who has it read aloud.
    Bell,
}

impl BellSupport {
    pub fn of(around: &ClientEnvironment, plain: bool) -> Self {
        let dull = ["linux", "dumb", "vt100", "vt220", "cons25"];
        let is_dull = around.variable("TERM").is_none_or(|it| dull.contains(&it));
        if is_dull || plain {
            Self::Bell
        } else {
            Self::All
        }
    }
}

/// The bytes of a notice.
pub fn notice(text: &str, method: NotifyMethod, rings: BellSupport) -> String {
    const BELL: &str = "\u{7}";
    // It begins with our name, and so never with a number that means something else.
    let notice = format!("\u{1b}]9;aish: {}\u{7}", short(text));
    match (method, rings) {
        (NotifyMethod::Auto, BellSupport::All) => notice + BELL,
        (NotifyMethod::Osc, BellSupport::All) => notice,
        (NotifyMethod::Auto | NotifyMethod::Bell | NotifyMethod::Osc, BellSupport::Bell)
        | (NotifyMethod::Bell, BellSupport::All) => BELL.to_owned(),
        (NotifyMethod::Desktop | NotifyMethod::Command, _) => String::new(),
    }
}

/// The bytes that give the window a title with what waits; without anything, the title that it had.
pub fn title(conversation: &str, before: usize, waiting: usize, rings: BellSupport) -> String {
    let title = |text: &str| format!("\u{1b}]2;{text}\u{7}");
    let name = short(conversation);
    match (before, waiting, rings) {
        (_, _, BellSupport::Bell) | (0, 0, BellSupport::All) => String::new(),
        // Not every terminal remembers titles.
        (_, 0, BellSupport::All) => title(&format!("aish {name}")) + "\u{1b}[23;2t",
        (0, count, BellSupport::All) => {
            format!("\u{1b}[22;2t{}", title(&format!("? {count} · aish {name}")))
        }
        (_, count, BellSupport::All) => title(&format!("? {count} · aish {name}")),
    }
}

fn short(text: &str) -> String {
    safe::one_line(text).chars().take(CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_text_gets_into_a_notice_or_a_title() {
        let hostile = "4;1;50\u{7}\u{1b}]52;c;ZXZpbA==\u{7}\u{9b}\u{202e}x";
        let shown = "4;1;50]52;c;ZXZpbA==x";
        assert_eq!(
            format!("\u{1b}]9;aish: {shown}\u{7}"),
            notice(hostile, NotifyMethod::Osc, BellSupport::All)
        );
        assert_eq!(
            format!("\u{1b}[22;2t\u{1b}]2;? 2 · aish {shown}\u{7}"),
            title(hostile, 0, 2, BellSupport::All)
        );
    }

    #[test]
    fn a_terminal_gets_what_it_understands_and_what_was_chosen() {
        #[track_caller]
        fn check(method: NotifyMethod, rings: BellSupport, expected: &str) {
            assert_eq!(
                expected,
                notice("c1", method, rings),
                "{method:?} {rings:?}"
            );
        }
        check(
            NotifyMethod::Auto,
            BellSupport::All,
            "\u{1b}]9;aish: c1\u{7}\u{7}",
        );
        check(NotifyMethod::Auto, BellSupport::Bell, "\u{7}");
        check(NotifyMethod::Bell, BellSupport::All, "\u{7}");
        check(NotifyMethod::Osc, BellSupport::Bell, "\u{7}");
        check(NotifyMethod::Command, BellSupport::All, "");
        check(NotifyMethod::Desktop, BellSupport::All, "");
        assert_eq!("", title("proj", 0, 0, BellSupport::All));
        assert_eq!("", title("proj", 0, 1, BellSupport::Bell));
        assert_eq!(
            "\u{1b}]2;aish proj\u{7}\u{1b}[23;2t",
            title("proj", 1, 0, BellSupport::All)
        );
    }
}
