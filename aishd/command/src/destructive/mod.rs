//! What in a command is destructive: tables of what is known to be harmless, and the reason for everything else.
//! It never approves anything; what is not known is called destructive. Nothing is looked up in any file, so that
//! what a link, an alias or a program of the project's own does is not seen here; see docs/SECURITY.md.

mod always_destructive;
mod build;
mod code;
mod danger;
mod files;
mod find;
mod git;
mod harmless_programs;
mod key_locations;
mod lookalike_characters;
mod options;
mod outside_effects;
mod packages;
mod places;
mod reads;
mod remote;
mod scripts;
mod sql;
#[cfg(test)]
mod tests;
mod unattended;
mod variables;
mod wrappers;

use std::path::{Path, PathBuf};

pub use danger::Danger;
use places::Places;
pub use places::is_protected;
pub use reads::only_reads;
pub use unattended::RunSurroundings;
use unattended::UnattendedLimits;

use crate::command::{self, Dialect, Reading, Redirect, Segment, Shape, Value, Word, Writing};

/// How deep commands may stand in words of commands (`sudo env bash -c '…'`) before nobody wants to know.
const MAX_DEPTH: usize = 8;

/// What is dangerous about a text and its reading, each once; nothing, if it only does what is known to be harmless.
/// `roots` are the directories that it may write in and `cwd` the one that it runs in, absolute both. Pure, and linear in
/// what was read.
pub fn judge(reading: &Reading, text: &str, roots: &[PathBuf], cwd: &Path) -> Vec<Danger> {
    judged_by(
        Judge {
            places: Places::new(roots, cwd),
            found: vec![],
            depth: 0,
            unattended: None,
            found_names: false,
        },
        (reading, text),
    )
}

/// The same for a run, which nobody attends: there, what may show keys or the environment to a model, reaches the
/// network, or brings programs of others is a danger too.
pub fn judge_unattended(
    reading: &Reading,
    text: &str,
    roots: &[PathBuf],
    cwd: &Path,
    surroundings: RunSurroundings<'_>,
) -> Vec<Danger> {
    judged_by(
        Judge {
            places: Places::new(roots, cwd),
            found: vec![],
            depth: 0,
            unattended: Some(UnattendedLimits::new(surroundings, roots)),
            found_names: false,
        },
        (reading, text),
    )
}

fn judged_by(mut judge: Judge<'_>, (reading, text): (&Reading, &str)) -> Vec<Danger> {
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

/// A program with what it is told.
#[derive(Clone, Copy)]
struct Call<'a> {
    name: &'a str,
    args: &'a [Word],
    input: &'a Input,
}

impl<'a> Call<'a> {
    /// The words that are certain, in order.
    fn fixed(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.args.iter().filter_map(Word::fixed)
    }

    /// The first word, where it is certain.
    fn first(&self) -> Option<&'a str> {
        self.args.first().and_then(Word::fixed)
    }

    /// The values of options, whether they stand with their option or behind it. None for one that is not certain.
    /// `short` is one sign, and every option with that sign in it counts.
    fn values(&self, short: char, long: &[&str]) -> Vec<Option<&'a str>> {
        let mut found = vec![];
        for (at, word) in self.args.iter().enumerate() {
            let text = match &word.value {
                Value::Fixed(text) => text.as_str(),
                Value::Pattern(_) => continue,
                Value::Open { before, .. } => before,
            };
            let (name, attached) = match text.split_once('=') {
                Some((name, value)) if text.starts_with("--") => (name, Some(value)),
                Some(_) | None => (text, None),
            };
            let attached = if long.contains(&name) {
                attached
            } else if text.starts_with('-') && !text.starts_with("--") && text.contains(short) {
                text.split_once(short)
                    .map(|it| it.1)
                    .filter(|it| !it.is_empty())
            } else {
                continue;
            };
            found.push(match attached {
                Some(value) => word.fixed().map(|_| value),
                None => self.args.get(at + 1).and_then(Word::fixed),
            });
        }
        found
    }
}

struct Judge<'a> {
    places: Places<'a>,
    found: Vec<Danger>,
    depth: usize,
    /// What else is asked about where nobody attends.
    unattended: Option<UnattendedLimits<'a>>,
    /// Whether the words that `find` makes are certain to name no place of keys.
    found_names: bool,
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
        self.look_around(&reading.segments);
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
        let names = std::mem::take(&mut self.found_names);
        let listed = self.forget_lists();
        self.judge_text(&command::read(text, dialect), text);
        self.remember_lists(listed);
        self.found_names = names;
        self.places = before;
        self.depth -= 1;
    }

    fn segments(&mut self, segments: &[Segment], input: &Input) {
        for segment in segments {
            match segment.joined {
                command::Joined::Pipe => self.segment(segment, &Input::Stream),
                command::Joined::First
                | command::Joined::Then
                | command::Joined::And
                | command::Joined::Or
                | command::Joined::Beside => self.segment(segment, input),
            }
        }
    }

    fn segment(&mut self, segment: &Segment, input: &Input) {
        self.segments(&segment.substitutes, &Input::Inherited);
        self.shows_variables(segment);
        let mut input = input.clone();
        let mut anew = false;
        for redirect in &segment.redirects {
            match redirect {
                Redirect::From(word) => {
                    self.read_by(word);
                    self.reveals(word);
                    if word.written.contains("/dev/tcp/") || word.written.contains("/dev/udp/") {
                        self.add(Danger::SendsData);
                    }
                    input = Input::Stream;
                }
                Redirect::Here(word) => {
                    input = word
                        .fixed()
                        .map_or(Input::Stream, |it| Input::Text(it.to_owned()));
                }
                Redirect::To(word, how) => {
                    if *how == Writing::Both {
                        self.reveals(word);
                    }
                    anew |= self.redirected(word, *how);
                }
                Redirect::Descriptor => {}
            }
        }
        for set in &segment.sets {
            // `IFS= read` is for the reading alone.
            let for_reading = set.name == "IFS" && segment.program() == Some("read");
            if !for_reading && !variables::is_harmless(set) {
                self.add(Danger::ChangesEnvironment);
            }
        }
        match segment.shape {
            Shape::Runs => {
                if anew && says_nothing(&segment.words) {
                    self.add(Danger::EmptiesFile);
                }
                self.run(&segment.words, &input);
            }
            Shape::Loop => {
                let listed = self.goes_over(segment);
                self.segments(&segment.inner, &input);
                self.remember_lists(listed);
            }
            Shape::Group | Shape::Condition | Shape::Choice => {
                self.segments(&segment.inner, &input);
            }
            Shape::Subshell => {
                let before = self.places.clone();
                self.segments(&segment.inner, &input);
                self.places = before;
            }
            Shape::Function => {
                self.add(Danger::Redefines);
                self.segments(&segment.inner, &input);
            }
            Shape::Test | Shape::Arithmetic => {}
        }
    }

    /// Judges where a redirection writes. Says whether it begins a file anew.
    fn redirected(&mut self, word: &Word, how: Writing) -> bool {
        if word.fixed().is_some_and(places::is_nowhere) {
            return false;
        }
        self.writes(word);
        match how {
            Writing::Append => false,
            Writing::Clobber => {
                self.add(Danger::EmptiesFile);
                true
            }
            Writing::Anew | Writing::Both => {
                if !word.fixed().is_some_and(places::is_output) {
                    self.add(Danger::EmptiesFile);
                }
                true
            }
        }
    }

    /// Judges one command by its words.
    fn run(&mut self, words: &[Word], input: &Input) {
        let Some((first, args)) = words.split_first() else {
            return;
        };
        let Some(name) = self.certain(first.fixed()) else {
            return;
        };
        self.call(Call { name, args, input });
    }

    fn call(&mut self, call: Call<'_>) {
        if self.depth >= MAX_DEPTH {
            self.add(Danger::NotUnderstood);
            return;
        }
        self.depth += 1;
        let name = places::program(call.name);
        let call = Call { name, ..call };
        if !harmless_programs::TALKS
            .split_whitespace()
            .any(|it| it == name)
        {
            for word in call.args {
                self.read_by(word);
            }
        }
        if !is_about_itself(call) {
            self.program(call);
            self.judge_call_of_run(call);
        }
        self.depth -= 1;
    }

    fn program(&mut self, call: Call<'_>) {
        if let Some(danger) = always_destructive::danger(call.name) {
            self.add(danger);
        }
        let judged = self.wrapped(call)
            || self.in_shell(call)
            || self.with_code(call)
            || self.on_files(call)
            || self.by_git(call)
            || self.by_build(call)
            || self.elsewhere(call)
            || self.judge_listed(call)
            || always_destructive::danger(call.name).is_some();
        if !judged {
            self.add(Danger::UnknownProgram);
        }
    }

    /// Programs that only read, and such of which the harmless options are known.
    fn judge_listed(&mut self, call: Call<'_>) -> bool {
        if harmless_programs::READS
            .split_whitespace()
            .any(|it| it == call.name)
        {
            return true;
        }
        if harmless_programs::ASKS_NETWORK
            .split_whitespace()
            .any(|it| it == call.name)
        {
            if call.args.iter().any(|it| it.fixed().is_none()) {
                self.add(Danger::SendsData);
            }
            return true;
        }
        let Some((_, options, operands)) = harmless_programs::LISTED
            .iter()
            .find(|(names, ..)| names.split_whitespace().any(|it| it == call.name))
        else {
            return false;
        };
        let given = self.options(options, call.args);
        // `less +!…` runs, and `gcc @file` reads options from there.
        if given.iter().any(|it| it.written.starts_with(['+', '@'])) && !options.contains('+') {
            self.add(Danger::UnknownOption);
        }
        if matches!(call.name, "sort" | "shuf") {
            let anew = call.values('o', &["--output"]);
            if anew
                .iter()
                .any(|it| !it.is_some_and(|it| places::is_nowhere(it) || places::is_output(it)))
            {
                self.add(Danger::EmptiesFile);
            }
        }
        if call.name == "tee"
            && !call
                .fixed()
                .any(|it| it == "--append" || (it.starts_with('-') && it.contains('a')))
        {
            for word in &given {
                if !word
                    .fixed()
                    .is_some_and(|it| places::is_nowhere(it) || places::is_output(it))
                {
                    self.add(Danger::EmptiesFile);
                }
            }
        }
        match operands {
            harmless_programs::OperandKind::Read => {}
            harmless_programs::OperandKind::AtMost(count) => {
                let many = given.len() > *count || given.iter().any(|it| !is_one(it));
                if many {
                    self.add(Danger::UnknownOption);
                }
            }
            harmless_programs::OperandKind::Written => {
                for word in given {
                    self.writes(word);
                }
            }
        }
        true
    }

    /// Keys and passwords are no business of a command that nobody looked at.
    fn read_by(&mut self, word: &Word) {
        let text = match &word.value {
            Value::Fixed(text) | Value::Pattern(text) => text,
            Value::Open { before, .. } => before,
        };
        if places::is_secret(text) || self.places.resolved(text).any(|it| places::is_secret(&it)) {
            self.add(Danger::ReadsSecrets);
        }
    }
}

/// Whether a word stays one, whatever it is.
fn is_one(word: &Word) -> bool {
    match &word.value {
        Value::Fixed(_) => true,
        Value::Pattern(_) => false,
        Value::Open { one_word, .. } => *one_word,
    }
}

/// A command that writes nothing: sent to a file, it only empties it.
fn says_nothing(words: &[Word]) -> bool {
    let mut fixed = words.iter().map(Word::fixed);
    match fixed.next() {
        None => true,
        Some(Some(":" | "true" | "false")) => true,
        Some(Some("cat")) => fixed.any(|it| it.is_some_and(|it| it.starts_with("/dev/"))),
        Some(Some("echo" | "printf")) => {
            fixed.all(|it| it.is_some_and(|it| it.is_empty() || it.starts_with('-')))
        }
        Some(Some(_) | None) => false,
    }
}

/// A program that is asked what it is.
fn is_about_itself(call: Call<'_>) -> bool {
    let asks = match call.args {
        [only] => match only.fixed() {
            Some("--version" | "--help") => true,
            Some("-V") => ["python", "ssh", "curl", "wget", "cargo", "rustc"]
                .iter()
                .any(|it| call.name.starts_with(it)),
            // For others that is the name of a file.
            Some("version") => matches!(
                call.name,
                "go" | "docker" | "podman" | "kubectl" | "helm" | "terraform"
            ),
            Some(_) | None => false,
        },
        _ => false,
    };
    asks && harmless_programs::ASKED
        .split_whitespace()
        .any(|it| it == call.name)
}
