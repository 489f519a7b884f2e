//! A host that a command in layers wants to reach: which one, for what, and for how long a yes holds. The command is a model's
//! text, and made safe.

use aish_proto::event::ConfirmRequested;
use aish_proto::hosts::WantedHost;

use super::{ArgumentExtent, Card, begin};
use crate::safe;

/// So much of the command is shown, unless all of it is wanted.
const COMMAND_CHARS: usize = 120;

pub(super) struct HostCard<'a> {
    pub(super) request: &'a ConfirmRequested,
    pub(super) subject: &'a WantedHost,
}

impl HostCard<'_> {
    fn whose(&self) -> &'static str {
        match (&self.subject.tool, self.subject.run) {
            (Some(_), _) => "this call",
            (None, Some(_)) => "this run",
            (None, None) => "this trial",
        }
    }
}

impl Card for HostCard<'_> {
    fn rows(&self, extent: ArgumentExtent) -> String {
        let WantedHost {
            host,
            rule,
            plain,
            command,
            tool: _,
            run: _,
        } = self.subject;
        let most = match extent {
            ArgumentExtent::Short => COMMAND_CHARS,
            ArgumentExtent::Whole => usize::MAX,
        };
        let whole = safe::visible(command);
        let shown: String = whole.chars().take(most).collect();
        let cut = if shown.len() < whole.len() { "…" } else { "" };
        let plain = if *plain {
            ", readable by everybody on the way"
        } else {
            ""
        };
        format!(
            "? c{}  may {} reach {}?\n  {shown}{cut}\n  its connection waits{plain}; anything can be sent there\n  always: contain.hosts = [\"{}\"] in the configuration\n",
            self.request.number,
            self.whose(),
            safe::visible(host),
            safe::visible(rule),
        )
    }

    fn yes(&self) -> &'static str {
        match (&self.subject.tool, self.subject.run) {
            (Some(_), _) => "[y]es, for this call",
            (None, Some(_)) => "[y]es, for this run",
            (None, None) => "[y]es, for this trial",
        }
    }

    fn help(&self) -> String {
        let whose = self.whose();
        // The next call of the same turn would ask the same.
        let no_for = match &self.subject.tool {
            Some(_) => "this turn",
            None => whose,
        };
        format!(
            "  y, yes      it may be reached for as long as {whose} lasts, at public addresses\n  a, always   and by all that works in a copy of the files, or reads pages, in this conversation\n  n, no       the connection is refused, and nobody is asked again while {no_for} lasts\n"
        )
    }

    fn in_short(&self) -> (&str, String) {
        let WantedHost { host, command, .. } = self.subject;
        (&self.request.title, begin(&format!("{host} · {command}")))
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::confirm::{ConfirmSubject, Decision};
    use aish_proto::id::TurnId;

    use super::*;
    use crate::render::question::tests::{request, with_subject};
    use crate::render::question::{self, ConsentWord};

    fn asked(run: Option<TurnId>, command: &str) -> ConfirmRequested {
        let subject = ConfirmSubject::Host(WantedHost {
            host: "registry.example:443".to_owned(),
            rule: "registry.example".to_owned(),
            plain: false,
            tool: None,
            command: command.to_owned(),
            run,
        });
        let options = [
            Decision::AllowOnce,
            Decision::AllowConversation,
            Decision::Deny,
        ];
        with_subject(request("", "{}", 0), subject, &options)
    }

    #[test]
    fn a_host_is_asked_about_with_the_command_that_wants_it() {
        let run = Some(TurnId::from_bytes([1; 16]));
        let asked = asked(run, "npm install left-pad");
        assert_eq!(
            "? c7  may this run reach registry.example:443?\n  npm install left-pad\n  its connection waits; anything can be sent there\n  always: contain.hosts = [\"registry.example\"] in the configuration\n",
            question::question(&asked, ArgumentExtent::Short)
        );
        assert_eq!(
            "  [y]es, for this run  [n]o  [n TEXT] no, because  [a]lways here  [?] ",
            question::choices(&asked)
        );
        assert!(!question::wants_whole_word(&asked));
    }

    #[test]
    fn it_is_allowed_for_a_while_or_here_or_not() {
        let asked = asked(None, "x");
        let check = |typed: &str, expected: Option<Decision>| {
            let decided = match question::word(typed, &asked) {
                ConsentWord::Decide(decision, _) => Some(decision),
                _ => None,
            };
            assert_eq!(expected, decided, "{typed:?}");
        };
        check("y", Some(Decision::AllowOnce));
        check("a", Some(Decision::AllowConversation));
        check("n", Some(Decision::Deny));
        for typed in ["", "A", "r", "e", "abort", "t", "keep", "Y"] {
            check(typed, None);
        }
    }

    #[test]
    fn nothing_in_its_command_hides_or_moves() {
        let hostile = "a\u{1b}[2K\nb\u{202e}";
        let shown = question::question(&asked(None, hostile), ArgumentExtent::Whole);
        assert_eq!(4, shown.lines().count(), "{shown}");
        assert!(shown.chars().all(|it| it == '\n' || !it.is_control()));
        assert!(!shown.contains('\u{202e}'));
    }
}
