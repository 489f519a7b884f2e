//! A form while somebody fills it in: one field after the other, each checked at once, and all of them shown before they
//! are sent.

use aish_proto::form::{FormContent, FormField};
use serde_json::{Map, Value};

use crate::render::question::form::{kind, option_line, options, title, typed};
use crate::safe;

/// What the signs mean that are no values; a value that begins like one stands behind a backslash.
const SIGNS: &str = "  Enter takes what is offered, - leaves it out, < goes back, ? says more, abort dismisses the form, \\ before a sign makes it a text\n";

#[derive(Clone, Debug, PartialEq)]
pub struct FormFilling {
    server: String,
    fields: Vec<FormField>,
    /// The field that is asked for; past the last one: whether to send them.
    at: usize,
    content: Map<String, Value>,
}

/// What a line led to.
#[derive(Clone, Debug, PartialEq)]
pub enum FillStep {
    /// To be shown; it goes on.
    Say(String),
    /// It is sent.
    Sent(FormContent),
    Denied(Option<String>),
    Aborted,
    /// Back to the question.
    Left,
}

impl FormFilling {
    pub fn new(server: &str, fields: &[FormField]) -> Self {
        Self {
            server: server.to_owned(),
            fields: fields.to_vec(),
            at: 0,
            content: Map::new(),
        }
    }

    /// What is shown first.
    pub fn begin(&self) -> String {
        format!("{SIGNS}{}", self.prompt())
    }

    /// What is asked for now.
    pub fn prompt(&self) -> String {
        match self.fields.get(self.at) {
            Some(field) => self.prompt_for(field),
            None => self.review(),
        }
    }

    fn prompt_for(&self, field: &FormField) -> String {
        let mut text = format!("  {}/{} {}", self.at + 1, self.fields.len(), title(field));
        if let Some(description) = &field.description {
            text.push_str(&format!(" — {}", safe::visible(description)));
        }
        text.push('\n');
        for (number, option) in (1..).zip(options(&field.kind)) {
            text.push_str(&format!("      {number} {}\n", option_line(option)));
        }
        let enter = match (self.default_value(field), field.required) {
            (Some(value), _) => format!("Enter: {}", typed::display(&field.kind, value)),
            (None, true) => "required".to_owned(),
            (None, false) => "Enter leaves it out".to_owned(),
        };
        text.push_str(&format!("      {}; {enter}: ", kind(&field.kind)));
        text
    }

    /// What Enter takes: what was typed before, or what the server would like.
    fn default_value<'a>(&'a self, field: &'a FormField) -> Option<&'a Value> {
        self.content.get(&field.name).or(field.default.as_ref())
    }

    /// All of it, as it would be sent.
    fn review(&self) -> String {
        let mut text = format!("  this goes to {}:\n", safe::visible(&self.server));
        for field in &self.fields {
            let value = self.content.get(&field.name);
            let shown = |it| typed::display(&field.kind, it);
            let value = value.map_or("(left out)".to_owned(), shown);
            text.push_str(&format!("    {}: {value}\n", title(field)));
        }
        text.push_str(
            "  send it? [y]es  [n]o, decline  < goes back  [e]dit from the first  abort ",
        );
        text
    }

    /// Takes a line in.
    pub fn line(&mut self, line: &str) -> FillStep {
        let line = line.trim_end_matches(['\n', '\r']);
        match self.fields.get(self.at).cloned() {
            Some(field) => self.answer(&field, line),
            None => self.decide(line.trim()),
        }
    }

    fn answer(&mut self, field: &FormField, line: &str) -> FillStep {
        let typed = line.trim();
        match typed {
            "<" if self.at == 0 => return FillStep::Left,
            "<" => self.at -= 1,
            // As at the question before and at the review behind: the word is never sent by mistake.
            "abort" => return FillStep::Aborted,
            "?" => return FillStep::Say(format!("{SIGNS}{}", self.prompt())),
            "-" if field.required => return self.ask_again("it has to be filled in"),
            "-" => {
                self.content.remove(&field.name);
                self.at += 1;
            }
            "" => match (self.default_value(field).cloned(), field.required) {
                (Some(value), _) => self.take(field, value),
                (None, true) => return self.ask_again("it has to be filled in"),
                (None, false) => self.at += 1,
            },
            _value => match typed::value(&field.kind, unescaped(typed)) {
                Ok(value) => self.take(field, value),
                Err(why) => return self.ask_again(&why),
            },
        }
        FillStep::Say(self.prompt())
    }

    fn take(&mut self, field: &FormField, value: Value) {
        self.content.insert(field.name.clone(), value);
        self.at += 1;
    }

    fn ask_again(&self, why: &str) -> FillStep {
        FillStep::Say(format!("  {}\n{}", safe::visible(why), self.prompt()))
    }

    /// Nothing but a whole word sends it; Enter, which takes what is offered in each field, does not.
    fn decide(&mut self, line: &str) -> FillStep {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let reason = Some(rest.trim()).filter(|it| !it.is_empty());
        match (word, reason) {
            ("y" | "yes", None) => FillStep::Sent(FormContent(self.content.clone())),
            ("n" | "no", _) => FillStep::Denied(reason.map(str::to_owned)),
            ("abort", None) => FillStep::Aborted,
            ("<", None) => {
                self.at = self.at.saturating_sub(1);
                FillStep::Say(self.prompt())
            }
            ("e" | "edit", None) => {
                self.at = 0;
                FillStep::Say(self.prompt())
            }
            (_, _) => self.ask_again("y sends it, n does not"),
        }
    }
}

/// A text may begin as a sign does.
fn unescaped(typed: &str) -> &str {
    match typed.strip_prefix('\\') {
        Some(rest) if rest.starts_with(['-', '<', '?', ':', '\\']) || rest == "abort" => rest,
        Some(_) | None => typed,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::render::question::form::fields;
    use crate::render::question::form::tests::{asked, person};

    fn filling() -> FormFilling {
        FormFilling::new("every", fields(&asked(person())))
    }

    /// What these lines lead to at last; before it, everything is shown and goes on.
    #[track_caller]
    fn check(lines: &[&str], expected: &FillStep) {
        let mut filling = filling();
        let (last, before) = lines.split_last().unwrap();
        for line in before {
            let said = filling.line(line);
            assert!(matches!(said, FillStep::Say(_)), "{line}: {said:?}");
        }
        assert_eq!(*expected, filling.line(last), "{lines:?}");
    }

    fn sent(content: Value) -> FillStep {
        FillStep::Sent(serde_json::from_value(content).unwrap())
    }

    #[test]
    fn a_form_is_filled_in_field_by_field() {
        check(
            &["Ann", "20", "y", "2", "dog,eel", "y"],
            &sent(
                json!({"name": "Ann", "age": 20, "agree": true, "colour": "g", "pets": ["dog", "eel"]}),
            ),
        );
        // Enter takes what is offered, and leaves out what has no default.
        check(
            &["Ann\n", "", "", "", "", "yes"],
            &sent(json!({"name": "Ann", "age": 42, "colour": "r"})),
        );
        check(
            &["Ann", "-", "-", "-", "-", "y"],
            &sent(json!({"name": "Ann"})),
        );
        // What does not fit is asked for again.
        check(
            &[
                "", "-", "x", "Ann", "17", "old", "18", "", "blue", "1", "", "y",
            ],
            &sent(json!({"name": "Ann", "age": 18, "colour": "r"})),
        );
        // Back, and what was typed before is what Enter takes.
        check(
            &[
                "Ann", "20", "<", "<", "Bob", "", "", "", "", "<", "cat", "y",
            ],
            &sent(json!({"name": "Bob", "age": 20, "colour": "r", "pets": ["cat"]})),
        );
        check(
            &["Ann", "", "", "", "", "e", "", "50", "", "", "", "y"],
            &sent(json!({"name": "Ann", "age": 50, "colour": "r"})),
        );
        for (typed, name) in [
            ("\\-x", "-x"),
            ("\\<a", "<a"),
            ("\\??", "??"),
            ("\\\\a", "\\a"),
            ("\\na", "\\na"),
        ] {
            check(
                &[typed, "-", "-", "-", "-", "y"],
                &sent(json!({"name": name})),
            );
        }
    }

    /// Enter alone sends nothing and declines nothing: it was pressed for the fields.
    #[test]
    fn what_is_typed_at_the_end_has_to_be_meant() {
        let all = ["Ann", "", "", "", ""];
        let then = |word| [&all[..], &[word]].concat();
        for word in ["", "ye", "Y", "yes!", "ok", "abort it"] {
            let said = then(word).into_iter().fold(None, {
                let mut filling = filling();
                move |_, line| Some(filling.line(line))
            });
            assert!(matches!(said, Some(FillStep::Say(_))), "{word}: {said:?}");
        }
        check(&then("n"), &FillStep::Denied(None));
        check(
            &then("no not you"),
            &FillStep::Denied(Some("not you".to_owned())),
        );
        check(&then("abort"), &FillStep::Aborted);
        check(&["<"], &FillStep::Left);
    }

    #[test]
    fn what_goes_is_shown_before_it_goes() {
        let mut filling = filling();
        for line in ["A\u{202e}n", "20", "", "g"] {
            filling.line(line);
        }
        assert_eq!(
            FillStep::Say(
                concat!(
                    "  this goes to every:\n",
                    "    Your name: A\\u{202e}n\n",
                    "    age: 20\n",
                    "    agree: (left out)\n",
                    "    colour: g\n",
                    "    pets: cat\n",
                    "  send it? [y]es  [n]o, decline  < goes back  [e]dit from the first  abort ",
                )
                .to_owned()
            ),
            filling.line("1")
        );
        let first = self::filling().begin();
        assert!(
            first.ends_with("  1/5 Your name\n      a text of at least 2 characters; required: "),
            "{first}"
        );
    }

    proptest! {
        /// Whatever people type, only a word at the end sends anything, and what is sent fits.
        #[test]
        fn nothing_is_sent_that_does_not_fit(lines in prop::collection::vec("|[-<?yn1-9]|yes|Ann|dog,cat|[a-z ]{0,5}", 0..25)) {
            let request = asked(person());
            let mut filling = filling();
            for line in &lines {
                match filling.line(line) {
                    FillStep::Say(text) => prop_assert!(!text.is_empty()),
                    FillStep::Sent(content) => {
                        prop_assert!(line.trim() == "y" || line.trim() == "yes");
                        prop_assert!(aish_proto::form::check(fields(&request), &content).is_ok());
                        break;
                    }
                    FillStep::Denied(_) | FillStep::Aborted | FillStep::Left => break,
                }
            }
        }
    }
}
