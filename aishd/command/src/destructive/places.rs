//! Where a command writes and what it reads, by the text of paths alone. Links are not followed: a link in the roots that
//! leads out of them is not seen.

use std::path::{Component, Path, PathBuf};

use super::call::{Call, CallWords, certain_part};
use super::table::TableRow;
use super::{Danger, Judge, Surroundings};
use crate::command::{Value, Word};

/// How many directories a command may be in at once, after `cd x || cd y`, before it could be anywhere.
const MAX_PLACES: usize = 16;
/// Where the names in a path or in its braces end.
const PARTS: [char; 4] = ['/', '{', ',', '}'];

/// Where a command may be, and where it may write.
#[derive(Clone, Debug)]
pub(super) struct Places<'a> {
    roots: &'a [PathBuf],
    home: Option<&'a str>,
    /// None: anywhere.
    at: Vec<Option<PathBuf>>,
}

impl<'a> Places<'a> {
    pub(super) fn new(roots: &'a [PathBuf], cwd: &Path, surroundings: Surroundings<'a>) -> Self {
        let at = vec![lexical(&PathBuf::from("/"), &cwd.to_string_lossy())];
        let home = surroundings.home;
        Self { roots, home, at }
    }

    /// Without any root: on another machine nothing may be written.
    pub(super) fn elsewhere() -> Self {
        Self {
            roots: &[],
            home: None,
            at: vec![None],
        }
    }

    /// Whether it is certainly within a root wherever this is taken from.
    fn holds(&self, path: &str) -> bool {
        self.at.iter().all(|at| {
            let place = from(at.as_deref(), path);
            place.is_some_and(|it| self.roots.iter().any(|root| it.starts_with(root)))
        })
    }

    /// The shell goes to another directory, or could not.
    pub(super) fn go(&mut self, to: Option<&str>) {
        for at in self.at.clone() {
            let there = to.and_then(|to| from(at.as_deref(), to));
            if !self.at.contains(&there) {
                self.at.push(there);
            }
        }
        if self.at.len() > MAX_PLACES {
            self.at = vec![None];
        }
    }

    /// What a path may mean where the command is: below a root without the root, elsewhere whole.
    fn resolved(&self, path: &str) -> impl Iterator<Item = String> {
        self.at.iter().flatten().filter_map(move |at| {
            let place = lexical(at, path)?;
            let below = self.roots.iter().find_map(|it| place.strip_prefix(it).ok());
            Some(below.unwrap_or(&place).to_string_lossy().into_owned())
        })
    }

    /// A path in the home directory, which is nowhere in the roots if it is not known.
    pub(super) fn in_home(&self, word: &Word) -> Option<String> {
        let written: String = word.written.chars().filter(|it| *it != '"').collect();
        let mut rest = ["$HOME", "${HOME}"]
            .iter()
            .find_map(|it| written.strip_prefix(it));
        if let Value::Pattern(text) = &word.value {
            rest = rest.or_else(|| text.strip_prefix('~'));
        }
        let rest = rest.filter(|it| it.is_empty() || it.starts_with('/'))?;
        let is_plain = !rest.contains(['$', '`', '*', '?', '[', '{', '\\', '\'']);
        is_plain.then(|| format!("{}{rest}", self.home.unwrap_or("/~")))
    }
}

/// Where a path leads from a directory that may be any.
fn from(at: Option<&Path>, path: &str) -> Option<PathBuf> {
    let at = at.or_else(|| path.starts_with('/').then(|| Path::new("/")));
    lexical(at?, path)
}

/// The path without `.` and `..`, from a directory. None if it leaves the top.
fn lexical(from: &Path, path: &str) -> Option<PathBuf> {
    let mut place = from.to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::RootDir => place = PathBuf::from("/"),
            Component::CurDir | Component::Prefix(_) => {}
            Component::ParentDir => {
                if !place.pop() {
                    return None;
                }
            }
            Component::Normal(name) => place.push(name),
        }
    }
    Some(place)
}

impl Judge<'_> {
    /// Judges what a row says that the call writes.
    pub(super) fn written_by(&mut self, call: Call<'_>, words: &CallWords<'_>, row: &TableRow) {
        let operand = |number: usize| call.operand(words, number).into_iter().collect();
        let all = || words.operands.iter().filter_map(|it| call.args.get(*it));
        let written: Vec<&Word> = match row.writes.0.first().map_or("", String::as_str) {
            "all" => all().collect(),
            "all-but-first" => all().skip(1).collect(),
            "first" => operand(0),
            "second" => operand(1),
            "third" => operand(2),
            "last" if words.operands.len() > 1 => {
                all().for_each(|it| self.keeps_its_name(it));
                all().next_back().into_iter().collect()
            }
            "last" => vec![],
            "here" => {
                self.writes_to(".");
                vec![]
            }
            "of=" => {
                let of = all().filter_map(|it| certain_part(it).strip_prefix("of="));
                of.for_each(|it| self.writes_to(it));
                vec![]
            }
            _ => {
                let named = |text| row.writes.0.iter().any(|it| words.is_option(it, text));
                let options = words.options.iter().filter(|it| named(it.text));
                options.filter_map(|it| it.value.as_ref()).collect()
            }
        };
        let downloads = super::is_downloader(call.name);
        for word in written {
            if word.fixed() == Some("-") {
                continue;
            }
            if downloads {
                self.downloaded.push(word.written.clone());
            }
            if row.anew && !word.fixed().is_some_and(|it| self.is_output(it)) {
                self.add(Danger::EmptiesFile);
            }
            self.writes(word);
        }
    }

    /// In a directory, what is copied has the name that it had.
    fn keeps_its_name(&mut self, word: &Word) {
        let path = word.fixed().unwrap_or_default().trim_end_matches('/');
        let name = path.rsplit('/').next().unwrap_or_default();
        if self.table.protected.matches(name) {
            self.add(Danger::ProtectedFile);
        }
    }

    /// Judges that something is written there.
    pub(super) fn writes(&mut self, word: &Word) {
        if let Some(path) = self.places.in_home(word) {
            return self.writes_to(&path);
        }
        match &word.value {
            Value::Fixed(path) => self.writes_to(path),
            Value::Pattern(pattern) if leads_anywhere(pattern) => self.add(Danger::OutsideRoots),
            Value::Pattern(pattern) => self.writes_to(pattern),
            Value::Open { .. } => self.add(Danger::KnownOnlyWhenRun),
        }
    }

    pub(super) fn writes_to(&mut self, path: &str) {
        if is_nowhere(path) || path.is_empty() {
            return;
        }
        if path.starts_with("/dev/") {
            return self.add(Danger::WritesDevice);
        }
        if !self.places.holds(path) {
            self.add(Danger::OutsideRoots);
        }
        let table = self.table;
        let heeded = |path: &str| {
            let mut names = path.split(PARTS);
            names.any(|it| table.protected.matches(&it.to_lowercase()))
        };
        if heeded(path) || self.places.resolved(path).any(|it| heeded(&it)) {
            self.add(Danger::ProtectedFile);
        }
    }

    /// Keys and passwords are no business of a command that nobody looked at.
    pub(super) fn reads(&mut self, word: &Word) {
        let home = self.places.in_home(word);
        let text = home.as_deref().unwrap_or_else(|| certain_part(word));
        let text = text.rsplit(['=', '@', ':']).next().unwrap_or(text);
        let is_key = |path: &str| {
            let path = path.trim_end_matches('/');
            self.table.keys.matches(path) && !self.table.public.matches(path)
        };
        if is_key(text) || self.places.resolved(text).any(|it| is_key(&it)) {
            self.add(Danger::ReadsSecrets);
        }
    }

    /// Whether a file is one that commands write anew, by its name.
    pub(super) fn is_output(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
        is_nowhere(path)
            || (self.table.outputs.matches(&name) && !self.table.by_hand.matches(&name))
    }
}

/// What takes everything and keeps nothing, and the streams that are open anyway.
pub(super) fn is_nowhere(path: &str) -> bool {
    matches!(
        path,
        "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/fd/1" | "/dev/fd/2" | "/dev/tty"
    )
}

/// Whether what a pattern makes may be anywhere: braces with a path, or a name of dots and wildcards, which may be the
/// directory above.
fn leads_anywhere(pattern: &str) -> bool {
    let braced = pattern.contains('{');
    let climbs = |it: &str| {
        let dotted = it.starts_with('.') && it.contains(['*', '?', '[']);
        dotted || (braced && it == "..")
    };
    let roots = ["{/", ",/", "{~", ",~"];
    pattern.starts_with('~')
        || roots.iter().any(|it| pattern.contains(it))
        || pattern.split(PARTS).any(climbs)
}
