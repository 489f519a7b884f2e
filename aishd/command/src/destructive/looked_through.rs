//! Commands that stand in the words of commands: whatever runs them, they are judged as what they are.

use super::call::{Call, CallWords, certain_part};
use super::places::Places;
use super::table::{RunsHow, TableRow};
use super::{Danger, Input, Judge};
use crate::command::{Dialect, Value, Word};

impl Judge<'_> {
    /// Judges the commands that a row says are in a call.
    pub(super) fn looked_through(&mut self, call: Call<'_>, words: &CallWords<'_>, row: &TableRow) {
        let dialect = Dialect::of(call.name);
        let mut judged = 0;
        for option in &words.options {
            if row.text.0.iter().any(|it| words.is_option(it, option.text)) {
                self.joined(option.value.as_slice(), dialect);
            }
            if row.after.has(option.text) && option.at >= judged {
                let behind = call.args.get(option.at + 1..).unwrap_or_default();
                judged = option.at + 1 + self.on_each(call, behind);
            }
        }
        let Some(how) = row.runs else {
            return;
        };
        let begin = words.operands.get(row.skip).copied();
        let behind = begin.and_then(|it| call.args.get(it..)).unwrap_or_default();
        match how {
            RunsHow::Words => self.further(call, behind),
            RunsHow::Joined if call.name == "ssh" => self.on_other_machine(call, behind),
            RunsHow::Joined => self.joined(behind, Dialect::Bash),
            RunsHow::Text => self.joined(behind.get(..1).unwrap_or_default(), dialect),
            RunsHow::Input => {
                if let (Input::Text(text), None) = (call.input, words.operands.first()) {
                    self.text(text, dialect);
                }
            }
        }
    }

    /// A shell gets these words with spaces between them.
    fn joined(&mut self, words: &[Word], dialect: Dialect) {
        let fixed: Option<Vec<&str>> = words.iter().map(Word::fixed).collect();
        if let Some(fixed) = self.certain(fixed) {
            self.text(&fixed.join(" "), dialect);
        }
    }

    /// The command in the words that are left, behind what it sets.
    fn further(&mut self, call: Call<'_>, words: &[Word]) {
        let is_setting = |it: &&Word| {
            let name = certain_part(it).split_once('=').map_or("", |it| it.0);
            !name.is_empty()
                && name
                    .chars()
                    .all(|it| it.is_ascii_alphanumeric() || it == '_')
        };
        let settings: Vec<&Word> = words.iter().take_while(is_setting).collect();
        settings.iter().for_each(|it| self.sets_by_word(it));
        let words = words.get(settings.len()..).unwrap_or_default();
        match call.name {
            "xargs" | "gxargs" | "parallel" => self.on_all(call, words),
            _ => self.run(words, call.input),
        }
    }

    /// What it is given by its input stands behind the words that are written, or where a mark is.
    fn on_all(&mut self, call: Call<'_>, words: &[Word]) {
        let parsed = call.words(self.table);
        let mark = parsed.options.iter().find(|it| it.text.starts_with("-I"));
        let mark = mark.and_then(|it| it.value.as_ref()?.fixed());
        let mut words = words.to_vec();
        let unknown = |one_word| Value::Open {
            before: String::new(),
            one_word,
        };
        for word in &mut words {
            if mark.is_some_and(|it| word.written.contains(it)) {
                word.value = unknown(true);
            }
        }
        if !words.is_empty() && mark.is_none() {
            let value = unknown(false);
            let written = "…".to_owned();
            words.push(Word { written, value });
        }
        self.run(&words, &Input::Inherited);
    }

    /// The command that runs for what is found, whatever that is called: up to its end. Says how many words that was.
    fn on_each(&mut self, call: Call<'_>, words: &[Word]) -> usize {
        let ends = |it: &Word| matches!(it.fixed(), Some(";" | "+"));
        let end = words.iter().position(ends).unwrap_or(words.len());
        let mut words = words.get(..end).unwrap_or_default().to_vec();
        for word in &mut words {
            if let Some((before, _)) = word.written.split_once("{}") {
                // What is found begins with where it was looked for, and that was no option.
                let before = if before.is_empty() { "./" } else { before };
                word.value = Value::Open {
                    before: before.trim_matches(['"', '\'']).to_owned(),
                    one_word: true,
                };
            }
        }
        for named in call.args {
            self.reads(named);
        }
        self.run(&words, call.input);
        end
    }

    /// A command there is read as one here, and there is no place that it may write.
    fn on_other_machine(&mut self, call: Call<'_>, words: &[Word]) {
        let here = std::mem::replace(&mut self.places, Places::elsewhere());
        match call.input {
            _ if !words.is_empty() => self.joined(words, Dialect::Bash),
            Input::Text(text) => self.text(text, Dialect::Bash),
            Input::Stream => self.add(Danger::RunsDownload),
            Input::Inherited => self.add(Danger::Interactive),
        }
        self.places = here;
    }
}
