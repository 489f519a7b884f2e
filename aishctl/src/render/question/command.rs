//! A command that a model proposes: the whole text, what the shell would make of it, and why it may be destructive.

use aish_proto::confirm::{CommandSubject, Decision};
use aish_proto::event::ConfirmRequested;
use aish_proto::shell::CommandAsked;

use super::{ArgumentExtent, Card, SHOWN_CHARS, begin, level_name, wants_whole_word, yes_in_help};
use crate::render::held_to;
use crate::safe;

const BACKGROUND: &str =
    "  in the background until it ends or is stopped (:jobs); nothing holds it\n";
const TRY: &str =
    "  t, try      in layers over the files: what it would change is shown before it is real\n";

pub(super) struct CommandCard<'a> {
    pub(super) request: &'a ConfirmRequested,
    pub(super) subject: &'a CommandSubject,
}

impl CommandCard<'_> {
    /// Nothing that may not be undone is allowed beforehand.
    fn is_always_possible(&self) -> bool {
        self.request.options.contains(&Decision::AllowConversation)
            && !wants_whole_word(self.request)
    }

    /// All that there is against the command. A run that halted says it in one.
    fn doubts(&self) -> String {
        let (request, asked) = (self.request, &self.subject.asked);
        if !wants_whole_word(request) {
            return if self.is_always_possible() {
                String::new()
            } else {
                format!("  {}\n", safe::visible(&request.why))
            };
        }
        let reasons: Vec<&String> = if request.halt {
            vec![&request.why]
        } else {
            asked.unread.iter().chain(&asked.dangers).collect()
        };
        let reasons = reasons
            .iter()
            .map(|it| format!("  ! {}\n", safe::visible(it)));
        let reasons: String = reasons.collect();
        let waits = if request.halt {
            "the run waits"
        } else {
            "this may not be undone"
        };
        format!("{reasons}  {waits}: only the whole word yes allows it, once\n")
    }
}

impl Card for CommandCard<'_> {
    fn rows(&self, extent: ArgumentExtent) -> String {
        let CommandSubject {
            call,
            level_required,
            asked,
        } = self.subject;
        let shown = lines(&asked.command);
        let mut text = format!("? c{}  CMD  ", self.request.number);
        let chars = shown.chars().count();
        if extent == ArgumentExtent::Short && chars > SHOWN_CHARS {
            let begin: String = shown.chars().take(SHOWN_CHARS).collect();
            let bytes = asked.command.len();
            let rest = chars - SHOWN_CHARS;
            text.push_str(&format!(
                "{begin}\n  … {rest} characters more, {bytes} bytes altogether: v shows all of it, and only then can it be allowed\n"
            ));
        } else {
            text.push_str(&shown);
            text.push('\n');
        }
        let of = asked.tty.as_deref().map(safe::visible);
        let of = of.map_or_else(String::new, |tty| {
            format!(" · with the environment of {tty}")
        });
        text.push_str(&format!(
            "  in {}{of} · {} · level {level_required} {}\n",
            safe::visible(&call.cwd),
            safe::visible(&asked.shell),
            level_name(*level_required),
        ));
        if asked.background {
            text.push_str(BACKGROUND);
        }
        text.push_str(&lasting(asked));
        text.push_str(&parts(asked, extent));
        text.push_str(&mentioned(asked));
        text.push_str(asked.beyond.map_or("", held_to::beyond));
        text.push_str(&self.doubts());
        if extent == ArgumentExtent::Whole && !asked.environment.is_empty() {
            let names = asked.environment.iter().map(|it| safe::visible(it));
            let names: Vec<String> = names.collect();
            text.push_str(&format!("  its environment has {}\n", names.join(", ")));
        }
        text
    }

    fn is_long(&self) -> bool {
        lines(&self.subject.asked.command).chars().count() > SHOWN_CHARS
    }

    fn yes(&self) -> &'static str {
        "[y]es once"
    }

    fn help(&self) -> String {
        let always = if self.is_always_possible() {
            "  a, always   exactly this command in this directory, in this conversation\n"
        } else {
            ""
        };
        let yes = yes_in_help(self.request);
        // A trial has an end, and this has none.
        let try_it = if self.subject.asked.background {
            ""
        } else {
            TRY
        };
        format!(
            "  {yes}      this command, once\n  n, no       it does not run; what follows is told to the model as the reason\n{always}{try_it}  \
             e, edit     another command, in your editor; it is shown before it runs\n  v, view     all of it\n  \
             abort       it does not run, and the turn ends\n"
        )
    }

    fn in_short(&self) -> (&str, String) {
        (&self.request.title, begin(&self.subject.asked.command))
    }
}

/// The text as it is written. Its further lines are marked, so that none is taken for a row of ours.
fn lines(command: &str) -> String {
    let lines: Vec<String> = command.split('\n').map(safe::visible).collect();
    lines.join("\n  │ ")
}

/// What it begins with because of earlier commands: what steers programs with its value, a row each, and the names of the rest.
fn lasting(asked: &CommandAsked) -> String {
    let mut text = String::new();
    let mut others = vec![];
    for it in &asked.lasting {
        let name = safe::visible(&it.name);
        match &it.value {
            Some(value) => {
                let value = begin(value);
                text.push_str(&format!(
                    "  with {name}={value} set by an earlier command\n"
                ));
            }
            None if it.removed => {
                text.push_str(&format!(
                    "  without {name}, which an earlier command removed\n"
                ));
            }
            None => others.push(name),
        }
    }
    if !others.is_empty() {
        let others = others.join(", ");
        text.push_str(&format!("  with {others} set by earlier commands\n"));
    }
    text
}

/// What is worth knowing, and nothing to be afraid of.
fn mentioned(asked: &CommandAsked) -> String {
    if asked.mentions.is_empty() {
        return String::new();
    }
    let mentions: Vec<String> = asked.mentions.iter().map(|it| safe::visible(it)).collect();
    format!("  it {}\n", mentions.join(", "))
}

/// What runs, where that says more than the text, and all that goes elsewhere.
fn parts(asked: &CommandAsked, extent: ArgumentExtent) -> String {
    let mut text = String::new();
    let several = asked.segments.len() > 1 || extent == ArgumentExtent::Whole;
    for segment in &asked.segments {
        if several && !segment.runs.is_empty() {
            text.push_str(&format!("  runs {}\n", safe::visible(&segment.runs)));
        }
        for redirect in &segment.redirects {
            text.push_str(&format!("  redirects {}\n", safe::visible(redirect)));
        }
        for substitute in &segment.substitutes {
            text.push_str(&format!(
                "  puts in what {} prints\n",
                safe::visible(substitute)
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_command_is_taken_for_a_row_of_ours() {
        assert_eq!(
            "ls\n  │   in /tmp · level 1 read\\u{1b}\n  │ ",
            lines("ls\n  in /tmp · level 1 read\u{1b}\n")
        );
    }
}
