//! What a server wants a model to be asked: which server asks, which model would answer, and every word that would be sent.

use aish_proto::confirm::ModelSubject;
use aish_proto::event::ConfirmRequested;

use super::{ArgumentExtent, Card, begin, running_row, yes_in_help};
use crate::safe;

/// More of a prompt or a message is shown on demand, and has to be seen before a yes counts.
const SHOWN_CHARS: usize = 600;
/// The newest messages are shown without being asked for.
const SHOWN_MESSAGES: usize = 4;

pub(super) struct ModelCard<'a> {
    pub(super) request: &'a ConfirmRequested,
    pub(super) subject: &'a ModelSubject,
}

impl Card for ModelCard<'_> {
    fn rows(&self, extent: ArgumentExtent) -> String {
        let asked = &self.subject.asked;
        let server = safe::visible(&asked.server);
        let mut text = format!(
            "? c{}  {server} asks for an answer of {} ({})\n",
            self.request.number,
            safe::visible(&asked.preset),
            safe::visible(&asked.model),
        );
        if let Some(system) = &asked.system_prompt {
            text.push_str(&card_text("system", system, extent));
        }
        let hidden = match extent {
            ArgumentExtent::Short => asked.messages.len().saturating_sub(SHOWN_MESSAGES),
            ArgumentExtent::Whole => 0,
        };
        if hidden > 0 {
            text.push_str(&format!(
                "  … {hidden} messages before: v shows all of it, and only then can it be allowed\n"
            ));
        }
        for message in asked.messages.iter().skip(hidden) {
            text.push_str(&card_text(&message.role.to_string(), &message.text, extent));
        }
        text.push_str(&format!(
            "  at most {} tokens, no tools, nothing of this conversation; {server} is told the answer\n",
            asked.max_tokens
        ));
        if extent == ArgumentExtent::Whole {
            for stop in &asked.stop_sequences {
                text.push_str(&format!("  it ends before {}\n", safe::visible(stop)));
            }
            if let Some(temperature) = asked.temperature {
                text.push_str(&format!("  temperature {temperature}\n"));
            }
        }
        text + &running_row(&self.subject.call, extent)
    }

    /// Whether something is left out that would be sent.
    fn is_long(&self) -> bool {
        let asked = &self.subject.asked;
        let long = |it: &str| it.chars().count() > SHOWN_CHARS;
        asked.messages.len() > SHOWN_MESSAGES
            || asked.system_prompt.as_deref().is_some_and(long)
            || asked.messages.iter().any(|it| long(&it.text))
    }

    fn yes(&self) -> &'static str {
        "[y]es, once"
    }

    fn help(&self) -> String {
        let asked = &self.subject.asked;
        let (server, preset) = (safe::visible(&asked.server), safe::visible(&asked.preset));
        let yes = yes_in_help(self.request);
        format!(
            "  {yes}      {preset} is asked this, once, and {server} is told the answer; it costs what {preset} costs\n  n, no       {server} is told that you do not want to; what follows is kept as the reason\n  v, view     all of it\n  abort       {server} is told nothing, and the turn ends\n"
        )
    }

    fn in_short(&self) -> (&str, String) {
        let newest = self.subject.asked.messages.last();
        let newest = newest.map_or(String::new(), |it| begin(&it.text));
        (&self.request.title, newest)
    }
}

/// What somebody is said to have said, a line under the other.
fn card_text(who: &str, words: &str, extent: ArgumentExtent) -> String {
    let mut text = format!("  {who} ({} bytes):\n", words.len());
    let shown: String = match extent {
        ArgumentExtent::Short => words.chars().take(SHOWN_CHARS).collect(),
        ArgumentExtent::Whole => words.to_owned(),
    };
    for line in shown.lines() {
        text.push_str(&format!("  > {}\n", safe::visible(line)));
    }
    let rest = words.chars().count() - shown.chars().count();
    if rest > 0 {
        text.push_str(&format!(
            "  … {rest} characters more: v shows all of it, and only then can it be allowed\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use aish_proto::confirm::{ConfirmSubject, Decision};
    use serde_json::json;

    use super::*;
    use crate::render::question::{self, ConsentWord};

    fn request(system: &str, messages: &[&str]) -> ConfirmRequested {
        let messages: Vec<_> = messages
            .iter()
            .map(|it| json!({"role": "user", "text": it}))
            .collect();
        let sampling = json!({
            "server": "notes", "preset": "home", "model": "qwen", "systemPrompt": system, "messages": messages,
            "maxTokens": 100, "stopSequences": ["END"], "temperature": 0.5,
        });
        let request = question::tests::request("notes__sum", r#"{"of":"it"}"#, 1);
        let subject = ConfirmSubject::Model(ModelSubject {
            call: request.subject.call().unwrap().clone(),
            asked: serde_json::from_value(sampling).unwrap(),
        });
        let options = [Decision::AllowOnce, Decision::Deny, Decision::Abort];
        question::tests::with_subject(request, subject, &options)
    }

    #[test]
    fn all_that_would_be_sent_is_shown() {
        let request = request("be brief", &["one\ntwo"]);
        assert!(!question::is_long(&request));
        assert_eq!(
            "? c7  notes asks for an answer of home (qwen)\n  system (8 bytes):\n  > be brief\n  user (7 bytes):\n  > one\n  > two\n  at most 100 tokens, no tools, nothing of this conversation; notes is told the answer\n  while notes__sum {\"of\":\"it\"} runs\n",
            question::question(&request, ArgumentExtent::Short)
        );
        let whole = question::question(&request, ArgumentExtent::Whole);
        assert!(
            whole.contains("it ends before END") && whole.contains("temperature 0.5"),
            "{whole}"
        );
    }

    #[test]
    fn what_is_cut_has_to_be_seen_before_a_yes() {
        let long = request("", &[&"x".repeat(5000)]);
        assert!(question::is_long(&long));
        let short = question::question(&long, ArgumentExtent::Short);
        assert!(short.contains("4400 characters more"), "{short}");
        let whole = question::question(&long, ArgumentExtent::Whole);
        assert!(whole.contains(&"x".repeat(5000)));
        let many = request("", &["a"; 9]);
        assert!(question::is_long(&many));
        let short = question::question(&many, ArgumentExtent::Short);
        assert!(short.contains("5 messages before"), "{short}");
    }

    #[test]
    fn a_servers_words_hide_nothing() {
        let hostile = request("\u{1b}[2K\u{202e}", &["a\r\u{200b}b\u{7}"]);
        let shown = question::question(&hostile, ArgumentExtent::Whole);
        assert!(
            shown.chars().all(|it| it == '\n' || !it.is_control()),
            "{shown:?}"
        );
        assert!(!shown.contains(['\u{202e}', '\u{200b}']));
    }

    #[test]
    fn a_yes_is_for_one_request() {
        let request = request("", &["hi"]);
        for (typed, expected) in [
            ("y", Some(Decision::AllowOnce)),
            ("", Some(Decision::Deny)),
            ("abort", Some(Decision::Abort)),
            ("a", None),
            ("A", None),
            ("r", None),
            ("e", None),
        ] {
            let decided = match question::word(typed, &request) {
                ConsentWord::Decide(decision, _) => Some(decision),
                _ => None,
            };
            assert_eq!(expected, decided, "{typed:?}");
        }
    }
}
