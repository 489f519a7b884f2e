//! A call of a tool: what runs, where, with which level, and what of the tool has changed since it was approved.

use aish_proto::confirm::{CallSubject, Decision};
use aish_proto::event::ConfirmRequested;
use similar::{ChangeTag, TextDiff};

use super::{
    ArgumentExtent, Card, SHOWN_CHARS, begin, file_diff, level_name, provider, wants_whole_word,
    whole_word_row, yes_in_help,
};
use crate::safe;

pub(super) struct CallCard<'a> {
    pub(super) request: &'a ConfirmRequested,
    pub(super) subject: &'a CallSubject,
}

impl Card for CallCard<'_> {
    fn rows(&self, extent: ArgumentExtent) -> String {
        let CallSubject {
            call,
            definition,
            approved_definition,
            level_required,
            changes_file,
            ..
        } = self.subject;
        if let (Some(file), ArgumentExtent::Short) = (changes_file, extent) {
            // What it would change stands below, and is what a yes is to.
            let (tool, file) = (safe::visible(&call.tool), safe::visible(file));
            let why = safe::visible(&self.request.why);
            let mut text = format!("? c{}  {tool}  {file} · {why}\n", self.request.number);
            text.push_str(&whole_word_row(self.request));
            if let Some(before) = approved_definition {
                text.push_str(&changed(before, definition));
            }
            return text;
        }
        let mut text = format!(
            "? c{}  {}\n",
            self.request.number,
            safe::visible(&call.tool)
        );
        let shown = safe::visible(&call.arguments);
        let bytes = call.arguments.len();
        let chars = shown.chars().count();
        if extent == ArgumentExtent::Short && chars > SHOWN_CHARS {
            let begin: String = shown.chars().take(SHOWN_CHARS).collect();
            let rest = chars - SHOWN_CHARS;
            text.push_str(&format!(
                "  arguments ({bytes} bytes): {begin}\n  … {rest} characters more: v shows all of it, and only then can it be allowed\n"
            ));
        } else {
            text.push_str(&format!("  arguments ({bytes} bytes): {shown}\n"));
        }
        text.push_str(&format!(
            "  runs in {}, directory {}, level {level_required} {}\n",
            safe::visible(&call.server),
            safe::visible(&call.cwd),
            level_name(*level_required),
        ));
        text.push_str(&format!("  {}\n", safe::visible(&self.request.why)));
        text.push_str(&whole_word_row(self.request));
        if let Some(before) = approved_definition {
            text.push_str(&changed(before, definition));
        }
        if extent == ArgumentExtent::Whole {
            let definition = serde_json::to_string_pretty(definition).unwrap_or_default();
            text.push_str("  the tool, as its server describes it:\n");
            for line in definition.lines() {
                text.push_str(&format!("    {}\n", safe::visible(line)));
            }
        }
        text
    }

    fn is_long(&self) -> bool {
        let shown = safe::visible(&self.subject.call.arguments);
        self.subject.changes_file.is_none() && shown.chars().count() > SHOWN_CHARS
    }

    fn yes(&self) -> &'static str {
        "[y]es once"
    }

    fn help(&self) -> String {
        let provider = safe::visible(provider(&self.subject.call.tool));
        let takes = |decision| self.request.options.contains(&decision);
        let (yes, whole_word) = (yes_in_help(self.request), wants_whole_word(self.request));
        let mut text = format!(
            "  {yes}      this call\n  n, no       it does not run; what follows is told to the model as the reason\n",
        );
        let lasts = takes(Decision::AllowConversation) && !whole_word;
        if lasts {
            text.push_str(&format!(
                "  a, always   this tool as it is now, in this conversation\n  A           all tools of {provider} as they are now, in this conversation\n"
            ));
        }
        if let Some(level) = self.subject.raise_to.filter(|_| takes(Decision::RaiseOnly)) {
            let raise = if whole_word { "raise   " } else { "r, raise" };
            text.push_str(&format!(
                "  {raise}    this call, and {provider} has level {level} from now on; later calls are asked about\n"
            ));
            if lasts {
                text.push_str("  a and A raise it too\n");
            }
        }
        if takes(Decision::Edit) {
            text.push_str(
                "  e, edit     other arguments, in your editor; they are shown before they run\n",
            );
        }
        if file_diff::is_possible(self.request) {
            text.push_str("  d, diff     the file as it is now, against the text of the call\n");
        }
        text.push_str(
            "  v, view     all of it\n  abort       it does not run, and the turn ends\n",
        );
        text
    }

    fn in_short(&self) -> (&str, String) {
        let call = &self.subject.call;
        if let Some(file) = &self.subject.changes_file {
            return (&call.tool, begin(file));
        }
        let bytes = call.arguments.len();
        (
            &call.tool,
            format!("{} ({bytes} bytes)", begin(&call.arguments)),
        )
    }
}

/// The lines in which two definitions differ.
fn changed(before: &serde_json::Value, now: &serde_json::Value) -> String {
    let lines = |it| serde_json::to_string_pretty(it).unwrap_or_default();
    let (before, now) = (lines(before), lines(now));
    let compared = TextDiff::from_lines(&before, &now);
    let mut text = String::from("  since it was approved:\n");
    for change in compared.iter_all_changes() {
        if change.tag() != ChangeTag::Equal {
            let line = safe::visible(change.value().trim());
            text.push_str(&format!("  {} {line}\n", change.tag()));
        }
    }
    text
}
