//! Where a command writes and what it reads, by the text of paths alone. Links are not followed: a link in the roots that
//! leads out of them is not seen.

use std::path::{Component, Path, PathBuf};

use super::{Danger, Judge};
use crate::command::{Value, Word};

/// How many directories a command may be in at once, after `cd x || cd y`, before it could be anywhere.
const MAX_PLACES: usize = 16;
/// What more braces make, nobody wants to know.
const MOST_TEXTS: usize = 64;

/// Where programs of a system are. One that is called by such a path is the one of that name.
const PROGRAMS: [&str; 5] = [
    "/bin/",
    "/usr/bin/",
    "/usr/local/bin/",
    "/sbin/",
    "/usr/sbin/",
];

/// Files and directories that programs heed, so that writing them is doing something else later.
const PROTECTED: &str = ".git .ssh .gnupg .aws .kube .docker .cargo .husky .vscode .idea .config .local .envrc .env .bashrc \
    .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .inputrc .gitconfig \
    .gitmodules .npmrc .yarnrc .yarnrc.yml .netrc .pypirc .pgpass .vimrc .exrc .gdbinit .pre-commit-config.yaml .direnv \
    .mise.toml .tool-versions .pythonstartup authorized_keys known_hosts crontab node_modules .venv site-packages";

/// What files are called that a command writes anew each time.
const OUTPUTS: &str = "txt text log out err json jsonl ndjson csv tsv html md diff patch tmp dat list lst svg dot xml bak \
    sorted result results report yml.new trace prof";

/// Files that people write, whatever they end in.
const WRITTEN_BY_HAND: &str = "package.json package-lock.json tsconfig.json jsconfig.json composer.json deno.json angular.json \
    nx.json turbo.json lerna.json manifest.json settings.json config.json requirements.txt constraints.txt cmakelists.txt \
    readme.md readme.txt readme changelog.md changelog license.txt license license.md contributing.md security.md todo.md \
    todo.txt notes.md index.html pom.xml robots.txt codeowners authors makefile dockerfile vagrantfile jenkinsfile gemfile \
    rakefile procfile justfile brewfile pipfile build.xml web.xml androidmanifest.xml architecture.md agents.md aish.md";

/// Where a command may be, and where it may write.
#[derive(Clone, Debug)]
pub(super) struct Places<'a> {
    roots: &'a [PathBuf],
    /// None: anywhere.
    at: Vec<Option<PathBuf>>,
}

impl<'a> Places<'a> {
    pub(super) fn new(roots: &'a [PathBuf], cwd: &Path) -> Self {
        let at = vec![lexical(&PathBuf::from("/"), &cwd.to_string_lossy())];
        Self { roots, at }
    }

    /// Without any root: on another machine nothing may be written.
    pub(super) fn elsewhere() -> Self {
        Self {
            roots: &[],
            at: vec![None],
        }
    }

    /// Whether it is certainly within a root wherever this is taken from.
    fn holds(&self, path: &str) -> bool {
        self.at.iter().all(|at| {
            let from = at
                .clone()
                .or_else(|| path.starts_with('/').then(PathBuf::new));
            let place = from.and_then(|it| lexical(&it, path));
            place.is_some_and(|it| self.roots.iter().any(|root| it.starts_with(root)))
        })
    }

    /// The shell goes to another directory, or could not.
    pub(super) fn go(&mut self, to: Option<&str>) {
        let from = self.at.clone();
        for at in from {
            let there = to.and_then(|to| {
                let from = at.or_else(|| to.starts_with('/').then(PathBuf::new))?;
                lexical(&from, to)
            });
            if !self.at.contains(&there) {
                self.at.push(there);
            }
        }
        if self.at.len() > MAX_PLACES {
            self.at = vec![None];
        }
    }

    /// Whether a path is certainly within a root.
    pub(super) fn inside(&self, path: &str) -> bool {
        self.holds(path)
    }

    /// What a path may mean where the command is: below a root without the root, elsewhere whole.
    pub(super) fn resolved(&self, path: &str) -> impl Iterator<Item = String> {
        self.at.iter().flatten().filter_map(move |at| {
            let place = lexical(at, path)?;
            let below = self.roots.iter().find_map(|it| place.strip_prefix(it).ok());
            Some(below.unwrap_or(&place).to_string_lossy().into_owned())
        })
    }

    /// Where the command may be; None is anywhere.
    pub(super) fn candidates(&self) -> impl Iterator<Item = Option<&Path>> {
        self.at.iter().map(Option::as_deref)
    }

    /// Whether it is certainly in a root.
    pub(super) fn at_home(&self) -> bool {
        self.holds(".")
    }
}

/// The path without `.` and `..`, from a directory. None if it leaves the top.
pub(super) fn lexical(from: &Path, path: &str) -> Option<PathBuf> {
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
    /// Judges that something is written there.
    pub(super) fn writes(&mut self, word: &Word) {
        match &word.value {
            Value::Fixed(path) => self.writes_to(path),
            Value::Pattern(pattern) => match expanded(pattern) {
                Some(paths) => paths.iter().for_each(|it| self.writes_to(it)),
                None => self.add(Danger::OutsideRoots),
            },
            Value::Open { .. } => self.add(Danger::KnownOnlyWhenRun),
        }
    }

    pub(super) fn writes_to(&mut self, path: &str) {
        if is_nowhere(path) || path.is_empty() {
            return;
        }
        if path.starts_with("/dev/") {
            self.add(Danger::WritesDevice);
        }
        if !self.places.holds(path) {
            self.add(Danger::OutsideRoots);
        }
        if is_protected(path) || self.places.resolved(path).any(|it| is_protected(&it)) {
            self.add(Danger::ProtectedFile);
        }
    }

    /// Judges that something is done in a directory without naming what is written.
    pub(super) fn works_in(&mut self, word: &Word) {
        match word.fixed() {
            Some(path) if self.places.holds(path) => {}
            Some(_) => self.add(Danger::OutsideRoots),
            None => self.add(Danger::KnownOnlyWhenRun),
        }
    }
}

/// Whether what is written there changes what programs do.
pub fn is_protected(path: &str) -> bool {
    let protected = |name: &str| {
        let name = name.to_lowercase();
        let env = name.starts_with(".env.");
        env || PROTECTED.split_whitespace().any(|it| it == name)
    };
    path.split('/').any(protected)
}

/// A program's name, where the path is one of a system's.
pub(super) fn program(name: &str) -> &str {
    let plain = |it: &&str| !it.contains('/');
    PROGRAMS
        .iter()
        .find_map(|it| name.strip_prefix(it).filter(plain))
        .unwrap_or(name)
}

/// What takes everything and keeps nothing, and the streams that are open anyway.
pub(super) fn is_nowhere(path: &str) -> bool {
    matches!(
        path,
        "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/fd/1" | "/dev/fd/2"
    )
}

/// Whether a file is one that commands write anew, by its name.
pub(super) fn is_output(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let lower = name.to_lowercase();
    if WRITTEN_BY_HAND.split_whitespace().any(|it| it == lower) || name.starts_with('.') {
        return false;
    }
    match lower.rsplit_once('.') {
        Some((_, ending)) => OUTPUTS.split_whitespace().any(|it| it == ending),
        None => OUTPUTS.split_whitespace().any(|it| it == lower) || lower == "output",
    }
}

/// Whether a path is one of a key or a password.
pub(super) fn is_secret(text: &str) -> bool {
    let text = text.rsplit(['=', '@']).next().unwrap_or(text);
    let name = text.rsplit('/').next().unwrap_or(text);
    let public = name.ends_with(".pub") || matches!(name, "known_hosts" | "config");
    let within = |part: &str| text.contains(part);
    let env = name == ".env"
        || name
            .strip_prefix(".env.")
            .is_some_and(|it| !matches!(it, "example" | "sample" | "template" | "dist" | "test"));
    let key = matches!(
        name,
        "id_rsa" | "id_ed25519" | "id_ecdsa" | "id_dsa" | ".netrc" | ".pgpass"
    ) || matches!(name, ".ssh" | ".gnupg" | ".aws" | ".password-store")
        || matches!(
            name,
            ".git-credentials" | ".npmrc" | ".pypirc" | "shadow" | "gshadow" | "sudoers"
        )
        || [".pem", ".p12", ".pfx", ".kdbx", ".keystore"]
            .iter()
            .any(|it| name.ends_with(it));
    let private = (within(".ssh/") && !public)
        || within(".aws/credentials")
        || within(".gnupg/")
        || within(".kube/config")
        || within(".docker/config.json")
        || within(".password-store")
        || within("/keyrings/")
        || (within("/proc/") && within("/environ"));
    env || key || private
}

/// The paths that a pattern may stand for, with wildcards taken as parts of names; None if it may lead anywhere.
pub(super) fn expanded(pattern: &str) -> Option<Vec<String>> {
    let parts = |inside| {
        let range = split_range(inside).map(|(from, to)| vec![from, to]);
        range.unwrap_or_else(|| inside.split(',').collect())
    };
    let paths = braced(pattern, parts)?;
    // A name of dots and wildcards may be the directory above.
    let climbs = |it: &str| it.starts_with('.') && it.contains(['*', '?', '[']);
    let leads_anywhere = |it: &String| it.starts_with('~') || it.split('/').any(climbs);
    (!paths.iter().any(leads_anywhere)).then_some(paths)
}

/// Both ends of `a..f`.
fn split_range(inside: &str) -> Option<(&str, &str)> {
    let is_end = |it: &str| it.chars().all(|it| it.is_ascii_alphanumeric());
    let range = inside.split_once("..");
    range.filter(|(from, to)| is_end(from) && is_end(to))
}

/// The texts that the braces of a pattern make, where `parts` are those of what stands in a pair; None if nobody wants to know.
pub(super) fn braced<'a>(
    pattern: &'a str,
    parts: impl Fn(&'a str) -> Vec<&'a str>,
) -> Option<Vec<String>> {
    let mut texts = vec![String::new()];
    let mut rest = pattern;
    while let Some((before, inside)) = rest.split_once('{') {
        let (inside, behind) = inside.split_once('}')?;
        let parts = parts(inside);
        if inside.contains('{') || texts.len() * parts.len() > MOST_TEXTS {
            return None;
        }
        let with = |text: &String| {
            let text = format!("{text}{before}");
            parts.iter().map(move |it| format!("{text}{it}"))
        };
        texts = texts.iter().flat_map(with).collect();
        rest = behind;
    }
    texts.iter_mut().for_each(|it| it.push_str(rest));
    Some(texts)
}
