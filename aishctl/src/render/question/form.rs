//! What a server wants a person to tell it, on a screen: which server asks, its words made safe, each field,
//! and where a page leads. Filling it in is [`filling`].

pub mod filling;
pub mod typed;

use aish_proto::confirm::{ConfirmSubject, FormSubject};
use aish_proto::event::ConfirmRequested;
use aish_proto::form::{ElicitationContent, FieldChoice, FieldKind, FormContent, FormField, check};
use clap::Args;

use super::{ArgumentExtent, Card, begin, running_row, yes_in_help};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::safe;

/// A form that is filled in by a command.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct FormAnswers {
    /// What a server's form is filled in with: one JSON object, or - to read it from standard input
    #[arg(long, value_name = "JSON")]
    pub content: Option<String>,
    /// One field of it; as often as there are fields
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
}

impl FormAnswers {
    pub fn is_empty(&self) -> bool {
        self.content.is_none() && self.set.is_empty()
    }

    /// What is sent for these fields, if it fits.
    pub fn content(&self, fields: &[FormField]) -> Result<FormContent, Failure> {
        let wrong = |why: String| Failure::new(Exit::USAGE, why);
        let mut content = match &self.content {
            None => FormContent::default(),
            Some(json) => serde_json::from_str(json)
                .map_err(|error| wrong(format!("the content is not one JSON object: {error}")))?,
        };
        for set in &self.set {
            let Some((name, text)) = set.split_once('=') else {
                return Err(wrong("--set takes NAME=VALUE".to_owned()));
            };
            let field = fields.iter().find(|it| it.name == name).ok_or_else(|| {
                let name = safe::visible(name);
                wrong(format!("{name}: the form has no such field"))
            })?;
            let value = typed::value(&field.kind, text)
                .map_err(|misfit| wrong(format!("{}: {misfit}", safe::visible(name))))?;
            content.0.insert(name.to_owned(), value);
        }
        check(fields, &content).map_err(|misfit| wrong(safe::visible(&misfit.to_string())))?;
        Ok(content)
    }
}

/// The fields of a form; none for a page, and for what is no form at all.
pub fn fields(request: &ConfirmRequested) -> &[FormField] {
    match &*request.subject {
        ConfirmSubject::Form(FormSubject { asked, .. }) => match &asked.wanted {
            ElicitationContent::Form { fields } => fields,
            ElicitationContent::Url { .. } => &[],
        },
        _ => &[],
    }
}

/// The alias of the server that asks for a form.
pub fn server(request: &ConfirmRequested) -> &str {
    match &*request.subject {
        ConfirmSubject::Form(FormSubject { asked, .. }) => &asked.server,
        _ => "",
    }
}

pub(super) struct FormCard<'a> {
    pub(super) request: &'a ConfirmRequested,
    pub(super) subject: &'a FormSubject,
}

impl Card for FormCard<'_> {
    fn rows(&self, extent: ArgumentExtent) -> String {
        let FormSubject { call, asked } = self.subject;
        let server = safe::visible(&asked.server);
        let wants = match &asked.wanted {
            ElicitationContent::Form { fields } if fields.is_empty() => "asks you",
            ElicitationContent::Form { .. } => "asks you to fill in a form",
            ElicitationContent::Url { .. } => "asks you to look at a page",
        };
        let mut text = format!("? c{}  {server} {wants}\n", self.request.number);
        for line in asked.message.lines() {
            text.push_str(&format!("  > {}\n", safe::visible(line)));
        }
        text.push_str(&running_row(call, extent));
        match &asked.wanted {
            ElicitationContent::Form { fields } if extent == ArgumentExtent::Whole => {
                for field in fields {
                    text.push_str(&described(field));
                }
            }
            ElicitationContent::Form { fields } => text.push_str(&names(fields)),
            ElicitationContent::Url { url, host } => text.push_str(&page(url, host)),
        }
        text
    }

    fn yes(&self) -> &'static str {
        match &self.subject.asked.wanted {
            ElicitationContent::Form { fields } if fields.is_empty() => "[y]es",
            ElicitationContent::Form { .. } => "[y]es, fill it in",
            ElicitationContent::Url { .. } => "[y]es, I look at it",
        }
    }

    fn help(&self) -> String {
        let asked = &self.subject.asked;
        let server = safe::visible(&asked.server);
        let yes = yes_in_help(self.request);
        let told = match &asked.wanted {
            ElicitationContent::Form { fields } if fields.is_empty() => "it is told yes",
            ElicitationContent::Form { .. } => {
                "you are asked for one field after the other, and then whether to send them"
            }
            ElicitationContent::Url { .. } => {
                "it is told that you look at the page; nothing opens it for you"
            }
        };
        format!(
            "  {yes}      {told}\n  n, no       {server} is told that you do not want to; what follows is kept as the reason\n  v, view     all of it\n  abort       {server} is told nothing, and the turn ends\n  What you type goes to {server} and is kept nowhere here. Do not give it passwords or keys.\n"
        )
    }

    fn in_short(&self) -> (&str, String) {
        (&self.request.title, begin(&self.subject.asked.message))
    }

    fn allow_flags(&self) -> String {
        let set = fields(self.request).iter().filter(|it| it.required);
        let set = set.map(|it| format!(" --set {}=VALUE", safe::visible(&it.name)));
        set.collect()
    }
}

/// What is wanted, in a line.
fn names(fields: &[FormField]) -> String {
    if fields.is_empty() {
        return String::new();
    }
    let names = fields.iter().map(|it| {
        let required = if it.required { " (required)" } else { "" };
        format!("{}{required}", title(it))
    });
    let names: Vec<String> = names.collect();
    format!("  it wants to know: {}\n", names.join(", "))
}

/// Where it leads, before anything else; nothing here opens it.
fn page(url: &str, host: &str) -> String {
    let mut text = format!(
        "  host: {}\n  page: {}\n",
        safe::visible(host),
        safe::visible(url)
    );
    if !url.to_ascii_lowercase().starts_with("https://") {
        text.push_str("  what you enter there is not encrypted on its way\n");
    }
    if host.split('.').any(|it| it.starts_with("xn--")) {
        text.push_str("  a browser shows this host in other letters, which may look like those of another one\n");
    }
    text.push_str("  it is not opened for you; yes tells the server that you do\n");
    text
}

/// A field with everything that is known of it.
fn described(field: &FormField) -> String {
    let required = if field.required { ", required" } else { "" };
    let mut text = format!(
        "  {}: {}{required}",
        safe::visible(&field.name),
        kind(&field.kind)
    );
    if let Some(default) = &field.default {
        let default = typed::display(&field.kind, default);
        text.push_str(&format!(", usually {default}"));
    }
    text.push('\n');
    for more in field.title.iter().chain(&field.description) {
        text.push_str(&format!("      {}\n", safe::visible(more)));
    }
    for option in options(&field.kind) {
        text.push_str(&format!("      {}\n", option_line(option)));
    }
    text
}

/// What people call a field.
fn title(field: &FormField) -> String {
    safe::visible(field.title.as_ref().unwrap_or(&field.name))
}

fn options(kind: &FieldKind) -> &[FieldChoice] {
    match kind {
        FieldKind::Choice { options } | FieldKind::Choices { options, .. } => options,
        FieldKind::Text { .. }
        | FieldKind::Number { .. }
        | FieldKind::Integer { .. }
        | FieldKind::Boolean => &[],
    }
}

fn option_line(option: &FieldChoice) -> String {
    let value = safe::visible(&option.value);
    match &option.title {
        Some(title) => format!("{value} ({})", safe::visible(title)),
        None => value,
    }
}

/// What a value has to be, in words.
fn kind(kind: &FieldKind) -> String {
    match kind {
        FieldKind::Text {
            min_length,
            max_length,
            format,
            pattern,
        } => {
            let what = match format.as_deref() {
                Some("email") => "an e-mail address".to_owned(),
                Some("uri") => "an address like https://example.org".to_owned(),
                Some("date") => "a day like 2026-03-31".to_owned(),
                Some("date-time") => "a moment like 2026-03-31T18:30:00Z".to_owned(),
                Some(other) => format!("a text ({})", safe::visible(other)),
                None => "a text".to_owned(),
            };
            let long = between(min_length.as_ref(), max_length.as_ref());
            let long = long.map_or(String::new(), |it| format!(" of {it} characters"));
            let pattern = pattern.as_ref();
            let pattern = pattern.map_or(String::new(), |it| {
                format!(" like the pattern {}", safe::visible(it))
            });
            format!("{what}{long}{pattern}")
        }
        FieldKind::Number { minimum, maximum } => {
            let range = between(minimum.as_ref(), maximum.as_ref());
            format!(
                "a number{}",
                range.map_or(String::new(), |it| format!(", {it}"))
            )
        }
        FieldKind::Integer { minimum, maximum } => {
            let range = between(minimum.as_ref(), maximum.as_ref());
            format!(
                "a whole number{}",
                range.map_or(String::new(), |it| format!(", {it}"))
            )
        }
        FieldKind::Boolean => "yes or no".to_owned(),
        FieldKind::Choice { .. } => "one of these".to_owned(),
        FieldKind::Choices {
            min_items,
            max_items,
            ..
        } => {
            let count = between(min_items.as_ref(), max_items.as_ref());
            format!(
                "some of these{}",
                count.map_or(String::new(), |it| format!(", {it}"))
            )
        }
    }
}

fn between<T: std::fmt::Display>(least: Option<&T>, most: Option<&T>) -> Option<String> {
    match (least, most) {
        (Some(least), Some(most)) => Some(format!("{least} to {most}")),
        (Some(least), None) => Some(format!("at least {least}")),
        (None, Some(most)) => Some(format!("at most {most}")),
        (None, None) => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use aish_proto::confirm::Decision;
    use serde_json::json;

    use super::*;
    use crate::render::question::question;
    use crate::render::question::tests::request;

    #[expect(
        clippy::needless_pass_by_value,
        reason = "the script is easier to read without references"
    )]
    pub(crate) fn asked(wanted: serde_json::Value) -> ConfirmRequested {
        let elicitation =
            json!({"server": "every", "message": "Who are\nyou?\u{1b}[2J", "wanted": wanted});
        let mut request = request("every__ask", r#"{"a":"\u202e"}"#, 1);
        request.subject = Box::new(ConfirmSubject::Form(FormSubject {
            call: request.subject.call().unwrap().clone(),
            asked: serde_json::from_value(elicitation).unwrap(),
        }));
        request.options = vec![Decision::AllowOnce, Decision::Deny, Decision::Abort];
        request
    }

    pub(crate) fn person() -> serde_json::Value {
        json!({"mode": "form", "fields": [
            {"name": "name", "title": "Your name", "required": true, "kind": {"type": "text", "minLength": 2}},
            {"name": "age", "required": false, "default": 42, "kind": {"type": "integer", "minimum": 18.0, "maximum": 120.0}},
            {"name": "agree", "required": false, "kind": {"type": "boolean"}},
            {"name": "colour", "required": false, "default": "r", "kind": {"type": "choice", "options": [{"value": "r", "title": "Red\u{202e}"}, {"value": "g"}]}},
            {"name": "pets", "required": false, "kind": {"type": "choices", "maxItems": 2, "options": [{"value": "cat"}, {"value": "dog"}, {"value": "eel"}]}},
        ]})
    }

    /// The words of a server hide nothing and draw nothing.
    #[test]
    fn a_form_is_shown_with_who_asks_and_all_that_it_wants() {
        let request = asked(person());
        let whole = question(&request, ArgumentExtent::Whole);
        assert_eq!(
            concat!(
                "? c7  every asks you to fill in a form\n",
                "  > Who are\n",
                "  > you?\\u{1b}[2J\n",
                "  while every__ask {\"a\":\"\\u202e\"} runs in npx fs\n",
                "  name: a text of at least 2 characters, required\n",
                "      Your name\n",
                "  age: a whole number, 18 to 120, usually 42\n",
                "  agree: yes or no\n",
                "  colour: one of these, usually r (Red\\u{202e})\n",
                "      r (Red\\u{202e})\n",
                "      g\n",
                "  pets: some of these, at most 2\n",
                "      cat\n",
                "      dog\n",
                "      eel\n",
            ),
            whole
        );
        let short = question(&request, ArgumentExtent::Short);
        assert!(
            short.ends_with("  it wants to know: Your name (required), age, agree, colour, pets\n"),
            "{short}"
        );
    }

    #[test]
    fn a_page_is_shown_with_its_host_and_what_is_odd_about_it() {
        #[track_caller]
        fn check(url: &str, host: &str, expected: &[&str]) {
            let request = asked(json!({"mode": "url", "url": url, "host": host}));
            let text = question(&request, ArgumentExtent::Short);
            let odd = ["not encrypted", "other letters"];
            let odd = odd.into_iter().filter(|it| text.contains(it));
            assert_eq!(expected, odd.collect::<Vec<_>>());
            assert!(
                text.contains(&format!("  host: {host}\n  page: {url}\n"))
                    && text.contains("not opened for you"),
                "{text}"
            );
        }
        check("https://bank.org/x", "bank.org", &[]);
        check("HTTP://bank.org/x", "bank.org", &["not encrypted"]);
        check(
            "https://xn--bnk-7cd.org",
            "xn--bnk-7cd.org",
            &["other letters"],
        );
    }

    #[track_caller]
    fn check_given(content: Option<&str>, set: &[&str], expected: Result<serde_json::Value, &str>) {
        let request = asked(person());
        let given = FormAnswers {
            content: content.map(str::to_owned),
            set: set.iter().map(|it| (*it).to_owned()).collect(),
        };
        let said = given.content(fields(&request));
        match expected {
            Ok(expected) => assert_eq!(expected, json!(said.unwrap())),
            Err(expected) => assert_eq!(expected, said.unwrap_err().message),
        }
    }

    #[test]
    fn a_command_fills_in_what_fits() {
        check_given(
            None,
            &["name=Ann=Bo", "age=20", "pets=dog, 1"],
            Ok(json!({"name": "Ann=Bo", "age": 20, "pets": ["dog", "cat"]})),
        );
        check_given(
            Some(r#"{"name":"Ann"}"#),
            &["agree=n"],
            Ok(json!({"name": "Ann", "agree": false})),
        );
        check_given(None, &[], Err("name: it has to be filled in"));
        check_given(None, &["age=x"], Err("age: it is a whole number"));
        check_given(
            None,
            &["a\u{202e}=1"],
            Err("a\\u{202e}: the form has no such field"),
        );
        check_given(None, &["name"], Err("--set takes NAME=VALUE"));
        check_given(Some(r#"{"name":7}"#), &[], Err("name: it is a text"));
    }
}
