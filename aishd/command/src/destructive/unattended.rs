//! What only a run is asked about, because nobody attends it and all that it reads goes to a model: reading that is
//! not certain to spare keys, and what prints the environment. What reaches others is in `outside_effects`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::key_locations::{self, KeyLocations, Place};
use super::{Call, Danger, Judge, harmless_programs, wrappers};
use crate::command::{Redirect, Segment, Shape, Value, Word};

/// Where a run's commands would run.
#[derive(Clone, Copy, Debug)]
pub struct RunSurroundings<'a> {
    /// Absolute, if it is known.
    pub home: Option<&'a str>,
    pub variables: &'a BTreeMap<String, String>,
}

/// Besides [`harmless_programs::TALKS`]: what its words name is not shown.
const SPARES: &str = "sleep seq wait exit return break continue shift expr factor numfmt nproc tr kill jobs set read unset local \
    pgrep pidof df free uptime findmnt mount lsblk tput tee rmdir mktemp chmod ps top printenv getent eval make gmake ninja cargo \
    cmake ctest";

/// Programs whose first word is no file, unless an option says it in its place.
const BY_PATTERN: &str = "grep egrep fgrep zgrep rg ag ack sed gsed awk gawk mawk nawk jq";

/// Programs that look where they are when nothing is named.
const HERE: &str = "rg ag ack tokei git";

/// Programs that read no directory: a slash is a sign to them.
const FLAT: &str = "cut sort paste join column awk gawk mawk nawk sed gsed comm nl fold";

/// Where the homes of others are.
const HOMES: &str = "home";

/// Variables in which there are no keys.
const PLAIN: &str = "HOME PWD OLDPWD PATH USER LOGNAME SHELL LANG LANGUAGE TERM TZ TMPDIR EDITOR VISUAL PAGER COLUMNS LINES HOSTNAME \
    SHLVL UID EUID COLORTERM XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME XDG_STATE_HOME VIRTUAL_ENV CARGO_HOME \
    RUSTUP_HOME GOPATH GOROOT JAVA_HOME NVM_DIR CI RUST_LOG RUST_BACKTRACE NODE_ENV";

/// What gives variables that stand in its words something else.
const SETS: &str = "read export local unset printf getopts mapfile readarray let declare typeset readonly eval source . set";

/// What a run's command must not come near without a question.
#[derive(Clone, Debug)]
pub(super) struct UnattendedLimits<'a> {
    keys: KeyLocations,
    variables: &'a BTreeMap<String, String>,
    /// What the variables of the loops around may be.
    listed: LoopPaths,
    /// Variables that are given something by anything but one loop.
    given: BTreeSet<String>,
}

/// The paths that a loop's variable may be, by its name.
pub(super) type LoopPaths = BTreeMap<String, Vec<NamedPath>>;

/// A path as a word names it.
#[derive(Clone, Debug)]
pub(super) struct NamedPath {
    path: String,
    wild: bool,
}

impl<'a> UnattendedLimits<'a> {
    pub(super) fn new(surroundings: RunSurroundings<'a>, roots: &[PathBuf]) -> Self {
        Self {
            keys: KeyLocations::new(surroundings.home, roots),
            variables: surroundings.variables,
            listed: LoopPaths::new(),
            given: BTreeSet::new(),
        }
    }
}

fn has(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|it| it == name)
}

impl Judge<'_> {
    /// What a call may show, bring or reach.
    pub(super) fn judge_call_of_run(&mut self, call: Call<'_>) {
        if self.unattended.is_none() {
            return;
        }
        self.prints_environment(call);
        self.reaches(call);
        let spares = has(harmless_programs::TALKS, call.name) || has(SPARES, call.name);
        let is_text = call.name.ends_with("sh") && call.fixed().any(|it| it.starts_with("-c"));
        if call.name == "xargs" {
            for file in call.values('a', &["--arg-file"]) {
                match file {
                    Some(file) => self.shows_text(file, false),
                    None => self.add(Danger::MayReadSecrets),
                }
            }
        }
        let from_file = |it: &Word| {
            it.written
                .trim_start_matches(['"', '\''])
                .starts_with("--fi")
        };
        if call.name == "du" && call.args.iter().any(from_file) {
            self.add(Danger::MayReadSecrets);
        }
        if spares || is_text || wrappers::wraps(call.name) {
            return;
        }
        let recursive = |it: &str| {
            let short = it.starts_with('-') && !it.starts_with("--") && it.contains(['r', 'R']);
            short || it.contains("recurs")
        };
        let greps = matches!(call.name, "grep" | "egrep" | "fgrep" | "zgrep");
        if has(HERE, call.name) || (greps && call.fixed().any(recursive)) {
            self.shows_text(".", false);
        }
        let is_pattern = |it: &str| {
            let short = it.starts_with('-') && !it.starts_with("--") && it.contains(['e', 'f']);
            short
                || it.starts_with("--regexp")
                || it.starts_with("--file")
                || it.starts_with("--expr")
        };
        let by_pattern = has(BY_PATTERN, call.name);
        let mut pattern = by_pattern && !call.fixed().any(is_pattern);
        let mut before = "";
        for word in call.args {
            let text = word.fixed().unwrap_or_default();
            let operand = !word.written.starts_with('-');
            let script =
                operand && by_pattern && (pattern || (is_pattern(before) && !before.contains('f')));
            pattern &= !operand;
            before = text;
            let only_sign = has(FLAT, call.name) && (text == "/" || text.starts_with('-'));
            if call.name == "git" {
                // What git is told by variables it takes for names of its own, or its options ask.
                if matches!(word.value, Value::Open { .. }) {
                    continue;
                }
                if let Some((_, path)) = text.split_once(':') {
                    self.shows_text(path, false);
                }
            }
            let no_file = only_sign || (script && word.fixed().is_some());
            if !no_file {
                self.reveals(word);
            }
        }
    }

    /// Judges that what a word names is shown.
    pub(super) fn reveals(&mut self, word: &Word) {
        let certain = self.is_found(word) || is_number(word) || is_pipe(word);
        if self.unattended.is_none() || certain {
            return;
        }
        match self.named_paths(word) {
            Some(paths) => {
                for named in paths {
                    self.shows_text(&named.path, named.wild);
                }
            }
            None => self.add_once(Danger::MayReadSecrets),
        }
    }

    /// Whether `find` put its names there, and they are of no place of keys.
    fn is_found(&self, word: &Word) -> bool {
        let made = matches!(word.value, Value::Open { .. })
            && word.written.trim_matches(['\'', '"']) == "{}";
        made && self.found_names
    }

    /// Judges a text that may be a path, alone or behind an option.
    fn shows_text(&mut self, text: &str, wild: bool) {
        if text.is_empty() {
            return;
        }
        let behind = text.split_once('=').map(|it| it.1);
        let attached = text.find(['/', '~']).filter(|_| text.starts_with('-'));
        let attached = attached.and_then(|it| text.get(it..));
        let whole = (!text.starts_with('-')).then_some(text);
        let met = [whole, behind, attached]
            .into_iter()
            .flatten()
            .filter(|it| !it.is_empty())
            .any(|it| self.meets_keys(it, wild));
        if met {
            self.add_once(Danger::MayReadSecrets);
        }
    }

    fn add_once(&mut self, danger: Danger) {
        if !self.found.contains(&Danger::ReadsSecrets) {
            self.add(danger);
        }
    }

    fn meets_keys(&self, path: &str, wild: bool) -> bool {
        let Some(unattended) = &self.unattended else {
            return false;
        };
        let Some(path) = from_home(path, unattended.keys.home()) else {
            return true;
        };
        self.places.candidates().any(|at| match at {
            None if !path.starts_with('/') => true,
            at => {
                let from = at.map_or_else(PathBuf::new, PathBuf::from);
                let path = key_locations::absolute(&from, &path);
                unattended.keys.met_by(Place { path: &path, wild })
            }
        })
    }

    /// Whether a search begins only where no keys are, and does not look for them by name.
    pub(super) fn looks_in_no_place_of_keys(&self, args: &[Word]) -> bool {
        let runs = |it: &&Word| {
            let text = it.fixed().unwrap_or_default();
            has("-exec -execdir -ok -okdir -x --exec -X --exec-batch", text)
        };
        let follows = |it: &Word| matches!(it.fixed(), Some("-L" | "-follow" | "--follow"));
        let spared = |it: &Word| {
            let named = self.named_paths(it);
            let any_keys = |it: &NamedPath| {
                self.meets_keys(&it.path, it.wild) || key_locations::may_be_named(&it.path)
            };
            it.written.starts_with('-') || named.is_some_and(|it| !it.iter().any(any_keys))
        };
        let own = args.iter().take_while(|it| !runs(it));
        !self.meets_keys(".", false) && own.into_iter().all(|it| spared(it) && !follows(it))
    }

    /// What a word names, as far as that is certain. None if it may be anything.
    fn named_paths(&self, word: &Word) -> Option<Vec<NamedPath>> {
        match &word.value {
            Value::Fixed(text) => Some(vec![NamedPath {
                path: text.clone(),
                wild: false,
            }]),
            Value::Pattern(text) => {
                let paths = key_locations::alternatives(text)?;
                let named = |path| NamedPath { path, wild: true };
                Some(paths.into_iter().map(named).collect())
            }
            Value::Open { one_word, .. } => self.by_variable(&word.written, *one_word),
        }
    }

    /// `$HOME/x`, `"$PWD"/x`, and `$f` where a loop around says what that may be.
    fn by_variable(&self, written: &str, one_word: bool) -> Option<Vec<NamedPath>> {
        let unattended = self.unattended.as_ref()?;
        if written.contains(['`', '\\', '\'', '(']) {
            return None;
        }
        let (before, rest) = written.split_once('$')?;
        let before = before.replace('"', "");
        if before.contains('{') {
            return None;
        }
        let (name, rest) = match rest.strip_prefix('{') {
            Some(inside) => inside.split_once('}')?,
            None => {
                let part = |it: char| !(it.is_ascii_alphanumeric() || it == '_');
                rest.split_at(rest.find(part).unwrap_or(rest.len()))
            }
        };
        let rest = rest.replace('"', "");
        if rest.contains(['$', '{', ',']) || unattended.given.contains(name) {
            return None;
        }
        let wild = |it: &str| it.contains(['*', '?', '[']);
        let open = wild(&rest) || wild(&before);
        let values = match name {
            "HOME" => vec![NamedPath {
                path: unattended.keys.home()?.to_owned(),
                wild: false,
            }],
            "PWD" if before.is_empty() => vec![NamedPath {
                path: ".".to_owned(),
                wild: false,
            }],
            name => unattended.listed.get(name)?.clone(),
        };
        let joined = values.into_iter().map(|it| {
            // A name with spaces in it would be many words.
            let dir = it.path.rsplit_once('/').map_or("", |it| it.0);
            let stays = one_word || !(it.path.contains(char::is_whitespace) || wild(dir));
            stays.then(|| NamedPath {
                path: format!("{before}{}{rest}", it.path),
                wild: it.wild || open,
            })
        });
        joined.collect()
    }

    /// Remembers what a loop's variable may be. Gives what was known before.
    pub(super) fn goes_over(&mut self, segment: &Segment) -> LoopPaths {
        let lists = segment.words.iter().map(|it| self.named_paths(it));
        let list: Option<Vec<Vec<NamedPath>>> = lists.collect();
        let Some(unattended) = &mut self.unattended else {
            return LoopPaths::new();
        };
        let before = unattended.listed.clone();
        let [set] = segment.sets.as_slice() else {
            return before;
        };
        unattended.listed.remove(&set.name);
        let home = unattended.keys.home();
        let list = list.into_iter().flatten().flatten().map(|it| {
            let path = from_home(&it.path, home)?;
            Some(NamedPath { path, ..it })
        });
        let list: Option<Vec<NamedPath>> = list.collect();
        if let Some(list) = list.filter(|it| !it.is_empty()) {
            unattended.listed.insert(set.name.clone(), list);
        }
        before
    }

    /// A text of its own knows no loops around it.
    pub(super) fn forget_lists(&mut self) -> LoopPaths {
        let listed = self.unattended.as_mut().map(|it| &mut it.listed);
        listed.map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn remember_lists(&mut self, lists: LoopPaths) {
        if let Some(unattended) = &mut self.unattended {
            unattended.listed = lists;
        }
    }

    /// Finds out which variables are given something besides the words of one loop.
    pub(super) fn look_around(&mut self, segments: &[Segment]) {
        let Some(unattended) = &mut self.unattended else {
            return;
        };
        let mut loops = BTreeSet::new();
        loop_variables(segments, &mut loops, &mut unattended.given);
    }

    /// Judges variables of the environment that stand in any word: what is made of them may be seen.
    pub(super) fn shows_variables(&mut self, segment: &Segment) {
        let Some(unattended) = &self.unattended else {
            return;
        };
        let variables = unattended.variables;
        let read = segment.redirects.iter().filter_map(|it| match it {
            Redirect::From(word) | Redirect::To(word, _) | Redirect::Here(word) => Some(word),
            Redirect::Descriptor => None,
        });
        let set = segment.sets.iter().filter_map(|it| it.value.as_ref());
        let mut words = segment.words.iter().chain(set).chain(read);
        let shown = words.any(|word| {
            let open = matches!(word.value, Value::Open { .. });
            open && names(&word.written)
                .any(|it| variables.contains_key(it) && !has(PLAIN, it) && !it.starts_with("LC_"))
        });
        if shown {
            self.shows_environment();
        }
    }

    pub(super) fn shows_environment(&mut self) {
        if self.unattended.is_some() {
            self.add(Danger::ShowsEnvironment);
        }
    }

    fn prints_environment(&mut self, call: Call<'_>) {
        let mut words = call.fixed();
        let names = |it: &str, name: &str| {
            let mut names = it.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
            names.any(|it| it == name)
        };
        let says = |name: &str| call.fixed().any(|it| names(it, name));
        let prints = match call.name {
            "printenv" => true,
            "set" => call.args.is_empty(),
            "export" | "declare" | "typeset" | "readonly" | "local" => call.args.iter().all(|it| {
                it.fixed()
                    .is_some_and(|it| matches!(it, "-p" | "-x" | "-px"))
            }),
            "ps" => shows_of_processes(words),
            "jq" | "yq" => ["env", "ENV", "strenv", "envsubst"]
                .iter()
                .any(|it| says(it)),
            "node" | "nodejs" => call.fixed().any(|it| {
                let plain = [".version", ".platform", ".arch"];
                let mut behind = it.split("process").skip(1);
                behind.any(|it| !plain.iter().any(|name| it.starts_with(name)))
            }),
            "systemctl" => words.any(|it| it.starts_with("show") || it == "cat"),
            "docker" | "podman" | "nerdctl" | "docker-compose" => {
                words.any(|it| matches!(it, "inspect" | "config"))
            }
            _ => false,
        };
        if prints {
            self.shows_environment();
        }
        let header = |it: &str| {
            let it = it.to_lowercase();
            let parts = ["header", "cred", "token", "insteadof", "password"];
            matches!(&*it, "-l" | "--list" | "list" | "--get-regexp")
                || parts.iter().any(|part| it.contains(part))
        };
        let of_git = call.name == "git" && says("config") && call.fixed().any(header);
        // `load_str` of yq reads any file, and so does a table of duckdb.
        if of_git
            || call.name == "duckdb"
            || (call.name == "yq" && call.fixed().any(|it| it.contains("load")))
        {
            self.add(Danger::MayReadSecrets);
        }
    }
}

/// The variables in a word, by name.
fn names(written: &str) -> impl Iterator<Item = &str> {
    let part = |it: char| !(it.is_ascii_alphanumeric() || it == '_');
    written.split('$').skip(1).filter_map(move |it| {
        let it = it.trim_start_matches(['{', '#', '!']);
        it.get(..it.find(part).unwrap_or(it.len()))
    })
}

/// A path with the home in place of its tilde. None if that is not known.
fn from_home(path: &str, home: Option<&str>) -> Option<String> {
    let Some(behind) = path.strip_prefix('~') else {
        return Some(path.to_owned());
    };
    let (who, rest) = behind.split_at(behind.find('/').unwrap_or(behind.len()));
    match who {
        "" => home.map(|home| format!("{home}{rest}")),
        "root" => Some(format!("/root{rest}")),
        who if who
            .chars()
            .all(|it| it.is_alphanumeric() || "_-.".contains(it))
            && !who.starts_with(['-', '.']) =>
        {
            Some(format!("/{HOMES}/{who}{rest}"))
        }
        _ => None,
    }
}

fn loop_variables(
    segments: &[Segment],
    loops: &mut BTreeSet<String>,
    found: &mut BTreeSet<String>,
) {
    for segment in segments {
        for set in &segment.sets {
            if segment.shape != Shape::Loop || !loops.insert(set.name.clone()) {
                found.insert(set.name.clone());
            }
        }
        let sets = |it: &Word| it.fixed().is_some_and(|it| has(SETS, it));
        if segment.shape == Shape::Runs && segment.words.iter().any(sets) {
            let words = segment.words.iter().flat_map(|it| {
                it.written
                    .split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'))
            });
            found.extend(words.map(str::to_owned));
        }
        loop_variables(&segment.substitutes, loops, found);
        loop_variables(&segment.inner, loops, found);
    }
}

/// Whether `ps` is told to show environments: `e` among letters without a dash, or what it takes for such.
fn shows_of_processes<'a>(words: impl Iterator<Item = &'a str>) -> bool {
    let mut is_value = false;
    for word in words {
        let value = std::mem::take(&mut is_value);
        if word.contains("env") {
            return true;
        }
        let shows = match word.strip_prefix('-') {
            Some(long) if long.starts_with('-') => false,
            Some(letters) => {
                is_value = letters.ends_with(['o', 'O', 'C', 'u', 'U', 'p', 't', 'g', 'G']);
                let old =
                    letters.contains('x') || (letters.starts_with('a') && letters.contains('u'));
                old && letters.contains('e')
            }
            None => !value && word.contains('e') && word.bytes().all(|it| it.is_ascii_alphabetic()),
        };
        if shows {
            return true;
        }
    }
    false
}

/// `<(…)`: what runs in it is judged, and behind a pipe there is no path.
fn is_pipe(word: &Word) -> bool {
    let pipe =
        matches!(&word.value, Value::Open { before, one_word: true } if before == "/dev/fd/");
    pipe && word.written.starts_with(['<', '>'])
}

/// Arithmetic makes a number.
fn is_number(word: &Word) -> bool {
    let text = word.written.trim_matches('"');
    text.matches('$').count() == 1 && text.starts_with("$((") && text.ends_with("))")
}

#[cfg(test)]
mod tests;
