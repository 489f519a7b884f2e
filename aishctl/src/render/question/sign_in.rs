//! A server that wants a person to sign in before a call runs: which one, where, and how. What it says is made safe.

use aish_proto::confirm::SignInSubject;
use aish_proto::event::ConfirmRequested;

use super::{ArgumentExtent, Card, begin};
use crate::safe;

pub(super) struct SignInCard<'a> {
    pub(super) request: &'a ConfirmRequested,
    pub(super) subject: &'a SignInSubject,
}

impl Card for SignInCard<'_> {
    fn rows(&self, _: ArgumentExtent) -> String {
        let SignInSubject {
            call,
            server,
            issuer,
            why,
            scopes,
        } = self.subject;
        let server = safe::visible(server);
        let mut text = format!(
            "? c{}  sign in to {server}?\n  it {}\n",
            self.request.number,
            safe::visible(why)
        );
        if let Some(issuer) = issuer {
            text.push_str(&format!("  at {}\n", safe::visible(issuer)));
        }
        if !scopes.is_empty() {
            text.push_str(&format!("  for {}\n", safe::visible(&scopes.join(" "))));
        }
        text.push_str(&format!(
            "  {} waits for it; from anywhere: aishctl mcp login {server}\n",
            safe::visible(&call.tool)
        ));
        text
    }

    fn yes(&self) -> &'static str {
        "[y]es, in a browser"
    }

    fn help(&self) -> String {
        "  y, yes      a page is opened where you sign in; then the call runs\n  n, no       it does not run, and the model is told so\n  abort       no, and the turn ends\n  whoever signs in elsewhere answers it too\n".to_owned()
    }

    fn in_short(&self) -> (&str, String) {
        let SignInSubject { call, .. } = self.subject;
        (&self.request.title, begin(&format!("for {}", call.tool)))
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::confirm::{ConfirmSubject, Decision};

    use super::*;
    use crate::render::question::tests::{request, with_subject};
    use crate::render::question::{self, ConsentWord};

    fn asked(why: &str) -> ConfirmRequested {
        let plain = request("linear__list", "{}", 0);
        let call = plain.subject.call().unwrap().clone();
        let subject = ConfirmSubject::SignIn(SignInSubject {
            call,
            server: "linear".to_owned(),
            issuer: Some("https://as.example".to_owned()),
            why: why.to_owned(),
            scopes: vec!["read".to_owned()],
        });
        let options = [Decision::AllowOnce, Decision::Deny, Decision::Abort];
        with_subject(plain, subject, &options)
    }

    #[test]
    fn it_says_which_server_where_and_how() {
        let asked = asked("needs a person to sign in");
        assert_eq!(
            "? c7  sign in to linear?\n  it needs a person to sign in\n  at https://as.example\n  for read\n  linear__list waits for it; from anywhere: aishctl mcp login linear\n",
            question::question(&asked, ArgumentExtent::Short)
        );
        for (typed, expected) in [
            ("y", Some(Decision::AllowOnce)),
            ("n", Some(Decision::Deny)),
            ("abort", Some(Decision::Abort)),
            ("a", None),
            ("", Some(Decision::Deny)),
        ] {
            let decided = match question::word(typed, &asked) {
                ConsentWord::Decide(decision, _) => Some(decision),
                _ => None,
            };
            assert_eq!(expected, decided, "{typed:?}");
        }
    }

    #[test]
    fn nothing_that_a_server_says_hides_or_moves() {
        let shown = question::question(&asked("a\u{1b}[2K\nb\u{202e}"), ArgumentExtent::Whole);
        assert_eq!(5, shown.lines().count(), "{shown}");
        assert!(shown.chars().all(|it| it == '\n' || !it.is_control()));
    }
}
