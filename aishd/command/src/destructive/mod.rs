//! What a command is about to do, in words for people, and how loudly to ask. The words stand in `words.toml`; what is not
//! there is not known, and no danger: what a command can do is held by the kernel (docs/design/trials.md). Nothing is looked
//! up in any file, so that what a link, an alias or a program of the project's own does is not seen here.

mod call;
mod danger;
mod lookalike_characters;
mod looked_through;
mod places;
mod table;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use call::{Call, CallWords, certain_part, is_one};
pub use danger::Danger;
use places::Places;
use table::{Given, WordTable};

use crate::command::{
    self, Dialect, Joined, Reading, Redirect, Segment, Shape, Value, Word, Writing,
};

/// How deep commands may stand in words of commands (`sudo env bash -c '…'`) before nobody wants to know.
const MAX_DEPTH: usize = 8;

/// Where a command would run, besides its directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// Absolute, if it is known.
    pub home: Option<&'a str>,
}

/// What is known of a text and its reading, each word once. `roots` are the directories that it may write in and `cwd` the
/// one that it runs in, absolute both. Pure, and linear in what was read.
pub fn judge(
    reading: &Reading,
    text: &str,
    roots: &[PathBuf],
    cwd: &Path,
    surroundings: Surroundings<'_>,
) -> Vec<Danger> {
    let mut judge = Judge {
        table: WordTable::of_product(),
        places: Places::new(roots, cwd, surroundings),
        found: vec![],
        depth: 0,
        downloaded: vec![],
    };
    judge.judge_text(reading, text);
    judge.found
}

/// What a command reads from its standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Input {
    /// Whatever the shell itself has.
    Inherited,
    /// What another program writes, or a file.
    Stream,
    /// This text.
    Text(String),
}

struct Judge<'a> {
    table: &'static WordTable,
    places: Places<'a>,
    found: Vec<Danger>,
    depth: usize,
    /// Files that were fetched from somewhere, as they are written.
    downloaded: Vec<String>,
}

impl Judge<'_> {
    fn add(&mut self, danger: Danger) {
        if !self.found.contains(&danger) {
            self.found.push(danger);
        }
    }

    /// Something is certain, or else it is a danger.
    fn certain<T>(&mut self, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.add(Danger::KnownOnlyWhenRun);
        }
        value
    }

    fn judge_text(&mut self, reading: &Reading, text: &str) {
        if lookalike_characters::hidden(text) {
            self.add(Danger::HiddenCharacters);
        }
        if lookalike_characters::alike(text) {
            self.add(Danger::LookAlike);
        }
        if !reading.understood {
            self.add(Danger::NotUnderstood);
        }
        self.segments(&reading.segments, &Input::Inherited);
    }

    /// A text that a shell is given by a command.
    fn text(&mut self, text: &str, dialect: Dialect) {
        if self.depth >= MAX_DEPTH {
            self.add(Danger::NotUnderstood);
            return;
        }
        self.depth += 1;
        let before = self.places.clone();
        self.judge_text(&command::read(text, dialect), text);
        self.places = before;
        self.depth -= 1;
    }

    fn segments(&mut self, segments: &[Segment], input: &Input) {
        for segment in segments {
            let piped = segment.joined == Joined::Pipe;
            self.segment(segment, if piped { &Input::Stream } else { input });
        }
    }

    fn segment(&mut self, segment: &Segment, input: &Input) {
        self.segments(&segment.substitutes, &Input::Inherited);
        let mut input = input.clone();
        let mut anew = false;
        for redirect in &segment.redirects {
            match redirect {
                Redirect::From(word) => {
                    self.reads(word);
                    self.connects(word);
                    input = Input::Stream;
                }
                Redirect::Here(word) => {
                    let text = word.fixed().map(str::to_owned);
                    input = text.map_or(Input::Stream, Input::Text);
                }
                Redirect::To(word, how) => {
                    self.connects(word);
                    anew |= self.redirected(word, *how);
                }
                Redirect::Descriptor => {}
            }
        }
        for set in &segment.sets {
            // `IFS= read` is for the reading alone.
            if !(set.name == "IFS" && segment.program() == Some("read")) {
                self.sets(&set.name, set.value.as_ref().and_then(Word::fixed));
            }
        }
        match segment.shape {
            Shape::Runs => {
                if anew && says_nothing(&segment.words) {
                    self.add(Danger::EmptiesFile);
                }
                if self.fetches(&segment.substitutes) && self.runs_code(segment) {
                    self.add(Danger::RunsDownload);
                }
                self.run(&segment.words, &input);
            }
            Shape::Group | Shape::Loop | Shape::Condition | Shape::Choice => {
                segment.words.iter().for_each(|it| self.reads(it));
                self.segments(&segment.inner, &input);
            }
            Shape::Subshell => {
                let before = self.places.clone();
                self.segments(&segment.inner, &input);
                self.places = before;
            }
            Shape::Function => {
                self.defines(segment);
                self.segments(&segment.inner, &input);
            }
            Shape::Test | Shape::Arithmetic => {}
        }
    }

    /// A function that takes the place of a program that is known, or that goes on beside itself without an end.
    fn defines(&mut self, function: &Segment) {
        let name = function.words.first().map_or("", certain_part);
        let known = self.table.rows_of(name).next().is_some() || self.table.spares.has(name);
        if known || calls(&function.inner, name) {
            self.add(Danger::Redefines);
        }
    }

    /// Judges where a redirection writes. Says whether it begins a file anew.
    fn redirected(&mut self, word: &Word, how: Writing) -> bool {
        if word.fixed().is_some_and(places::is_nowhere) {
            return false;
        }
        self.writes(word);
        let is_output = word.fixed().is_some_and(|it| self.is_output(it));
        match how {
            Writing::Append => false,
            Writing::Anew | Writing::Both if is_output => true,
            Writing::Anew | Writing::Both | Writing::Clobber => {
                self.add(Danger::EmptiesFile);
                true
            }
        }
    }

    fn connects(&mut self, word: &Word) {
        if word.written.contains("/dev/tcp/") || word.written.contains("/dev/udp/") {
            self.add(Danger::SendsData);
        }
    }

    fn sets(&mut self, name: &str, value: Option<&str>) {
        let plain_pager = name.ends_with("PAGER") && matches!(value, Some("cat" | ""));
        let table = self.table;
        let heeded = table.variables.matches(name) && !table.plain_variables.matches(name);
        if heeded && !plain_pager {
            self.add(Danger::ChangesEnvironment);
        }
    }

    /// A word like `NAME=value`, or only the name.
    fn sets_by_word(&mut self, word: &Word) {
        match certain_part(word).split_once('=') {
            Some((name, value)) => self.sets(name, Some(value)),
            None => self.sets(certain_part(word), None),
        }
    }

    /// Judges one command by its words.
    fn run(&mut self, words: &[Word], input: &Input) {
        let Some((first, args)) = words.split_first() else {
            return;
        };
        if self.downloaded.contains(&first.written) {
            self.add(Danger::RunsDownload);
        }
        // A program below a directory that is known only then has its name all the same.
        let home = self.places.in_home(first);
        let Some(name) = self.certain(home.as_deref().or_else(|| first.fixed())) else {
            return;
        };
        if self.downloaded.iter().any(|it| is_same(it, name)) {
            self.add(Danger::RunsDownload);
        }
        if !name.is_ascii() {
            self.add(Danger::LookAlike);
        }
        let name = name.rsplit('/').next().unwrap_or(name);
        let name = self.table.name(name);
        self.call(Call { name, args, input });
    }

    fn call(&mut self, call: Call<'_>) {
        if self.depth >= MAX_DEPTH {
            self.add(Danger::NotUnderstood);
            return;
        }
        // A program that is asked what it is.
        let asked =
            matches!(call.args, [only] if matches!(only.fixed(), Some("--version" | "--help")));
        if asked {
            return;
        }
        self.depth += 1;
        if !self.table.spares.has(call.name) {
            for word in call.args {
                self.reads(word);
            }
        }
        if matches!(call.name, "cd" | "pushd" | "chdir") {
            self.changes_directory(call);
        } else {
            self.by_rows(call);
        }
        self.depth -= 1;
    }

    fn by_rows(&mut self, call: Call<'_>) {
        let table = self.table;
        let words = call.words(table);
        let mut has_subs = false;
        let mut wants_options = false;
        for row in table.rows_of(call.name) {
            has_subs |= !row.sub.is_empty();
            if row.given == Some(Given::Code) && call.is_told_none(row, &words) {
                self.runs_file(call, &words);
            }
            if !call.is_about(row, &words) {
                continue;
            }
            if !call.is_told_any(row, &words) {
                wants_options = true;
                continue;
            }
            if let Some(danger) = row.word {
                self.add(danger);
            }
            if row.sets {
                call.args.iter().for_each(|it| self.sets_by_word(it));
            }
            if !row.writes.is_empty() {
                self.written_by(call, &words, row);
            }
            self.looked_through(call, &words, row);
        }
        let unsure_sub = has_subs
            && call
                .operand(&words, 0)
                .is_some_and(|it| it.fixed().is_none());
        let unsure_option = |it: &Word| matches!(it.value, Value::Open { .. }) && !is_one(it);
        if unsure_sub || (wants_options && call.args.iter().any(unsure_option)) {
            self.add(Danger::KnownOnlyWhenRun);
        }
    }

    /// What was fetched may be what runs, and so may anything.
    fn runs_file(&mut self, call: Call<'_>, words: &CallWords<'_>) {
        let Some(file) = call.operand(words, 0) else {
            return;
        };
        if self.downloaded.iter().any(|it| is_same(it, &file.written)) {
            self.add(Danger::RunsDownload);
        }
        self.certain(file.fixed());
    }

    /// Whether one of these asks another machine for something.
    fn fetches(&self, segments: &[Segment]) -> bool {
        segments.iter().any(|it| {
            let name = it.program().unwrap_or_default();
            is_downloader(name) || self.fetches(&it.inner) || self.fetches(&it.substitutes)
        })
    }

    /// Whether what it is told is run, whatever that is.
    fn runs_code(&self, segment: &Segment) -> bool {
        let words = segment.words.iter().map(certain_part);
        let mut names = words.take(3).map(|it| it.rsplit('/').next().unwrap_or(it));
        names.any(|it| {
            let mut rows = self.table.rows_of(self.table.name(it));
            let runs = |it: &table::TableRow| it.given == Some(Given::Code);
            rows.any(runs) || matches!(it, "eval" | "source" | ".")
        })
    }

    fn changes_directory(&mut self, call: Call<'_>) {
        let words = call.words(self.table);
        let to = call.operand(&words, 0);
        let home = to.and_then(|it| self.places.in_home(it));
        let to = home.as_deref().or_else(|| to.and_then(Word::fixed));
        self.places.go(to.filter(|it| *it != "-"));
    }
}

fn is_downloader(name: &str) -> bool {
    matches!(name.rsplit('/').next(), Some("curl" | "wget" | "aria2c"))
}

/// Whether two words name one file.
fn is_same(one: &str, other: &str) -> bool {
    one.trim_start_matches("./") == other.trim_start_matches("./")
}

/// Whether a function calls itself beside or into something else.
fn calls(segments: &[Segment], name: &str) -> bool {
    segments.iter().any(|it| {
        let itself =
            it.program() == Some(name) && matches!(it.joined, Joined::Pipe | Joined::Beside);
        itself || calls(&it.inner, name)
    })
}

/// A command that writes nothing: sent to a file, it only empties it.
fn says_nothing(words: &[Word]) -> bool {
    let mut words = words.iter().map(|it| it.fixed().unwrap_or("$"));
    match words.next() {
        None | Some(":" | "true" | "false") => true,
        Some("cat") => words.any(|it| it.starts_with("/dev/")),
        Some("echo" | "printf") => words.all(|it| it.is_empty() || it.starts_with('-')),
        Some(_) => false,
    }
}
