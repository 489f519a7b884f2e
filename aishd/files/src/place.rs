//! A path that a model named, on this machine; and what else it may have meant where nothing is.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use similar::get_close_matches;

use crate::failure::{FailureKind, FileFailure};
use crate::request::FileRequest;
use crate::shown::path_text;

/// Names of a directory among which a similar one is looked for.
const MOST_NAMES: usize = 5000;
const MOST_SUGGESTIONS: usize = 3;

/// A path, as it was named and as it is used.
#[derive(Clone, Debug)]
pub(crate) struct NamedPlace {
    /// For the model.
    pub(crate) shown: String,
    pub(crate) path: PathBuf,
    /// Where it must really be; none: anywhere.
    pub(crate) roots: Vec<PathBuf>,
}

impl NamedPlace {
    pub(crate) fn of(request: &FileRequest, named: &str) -> Result<Self, FileFailure> {
        let path = match (named.strip_prefix('~'), &request.home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                home.join(rest.trim_start_matches('/'))
            }
            _ => request.directory.join(named),
        };
        if !path.is_absolute() {
            return Err(FileFailure::new(
                FailureKind::BadRequest,
                format!("{named} cannot be found: say the absolute path"),
            ));
        }
        let named_in = straight(&path);
        let mut roots = request.roots.iter();
        let is_within = roots.any(|it| named_in.starts_with(straight(it)));
        let roots = if is_within {
            let roots = request.roots.iter();
            roots.filter_map(|it| fs::canonicalize(it).ok()).collect()
        } else {
            vec![]
        };
        let place = Self {
            shown: named.to_owned(),
            path,
            roots,
        };
        place.check_way()?;
        Ok(place)
    }

    /// As far as there is a way to it, that leads where it was named: nothing is told of what is elsewhere, and nothing made.
    fn check_way(&self) -> Result<(), FileFailure> {
        let mut way = self.path.ancestors();
        match way.find_map(|it| fs::canonicalize(it).ok()) {
            Some(real) => self.check_stays(&real),
            None => Ok(()),
        }
    }

    /// # Errors
    /// It was named as something in the conversation's directories, and a link leads out of them: nobody was asked about that.
    pub(crate) fn check_stays(&self, real: &Path) -> Result<(), FileFailure> {
        if self.roots.is_empty() || self.roots.iter().any(|it| real.starts_with(it)) {
            return Ok(());
        }
        let (shown, real) = (&self.shown, path_text(real));
        let why = format!(
            "{shown} leads to {real}, outside of the conversation's directories: name that path, and a person is asked"
        );
        Err(FileFailure::new(FailureKind::LeadsOut, why))
    }

    /// Why nothing can be read there, with what may have been meant.
    pub(crate) fn not_there(&self) -> FileFailure {
        let shown = &self.shown;
        let why = if let Ok(target) = fs::read_link(&self.path) {
            format!(
                "{shown} is a link to {}, which is not there",
                path_text(&target)
            )
        } else if let Some(missing) = self.missing_directory() {
            format!("{shown} is not there: there is no directory {missing}")
        } else {
            format!("{shown} is not there{}", self.suggestions())
        };
        FileFailure::new(FailureKind::NotThere, why)
    }

    /// The first directory on the way that is not there.
    fn missing_directory(&self) -> Option<String> {
        let mut parents: Vec<&Path> = self.path.ancestors().skip(1).collect();
        parents.reverse();
        let missing = parents.into_iter().find(|it| !it.is_dir())?;
        Some(path_text(missing))
    }

    fn suggestions(&self) -> String {
        let similar = self.similar_names();
        if similar.is_empty() {
            return "; `list` shows what is there".to_owned();
        }
        format!("; did you mean {}?", similar.join(" or "))
    }

    fn similar_names(&self) -> Vec<String> {
        let (Some(directory), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return vec![];
        };
        let Ok(entries) = fs::read_dir(directory) else {
            return vec![];
        };
        let name = name.to_string_lossy().to_lowercase();
        let mut names: Vec<String> = entries
            .take(MOST_NAMES)
            .filter_map(|it| it.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        let lower: Vec<String> = names.iter().map(|it| it.to_lowercase()).collect();
        let possible: Vec<&str> = lower.iter().map(String::as_str).collect();
        let close = get_close_matches(&*name, &possible, MOST_SUGGESTIONS, 0.8);
        let parent = Path::new(&self.shown).parent().unwrap_or(Path::new(""));
        let found = close.into_iter().filter_map(|it| {
            let at = lower.iter().position(|lower| lower == it)?;
            Some(path_text(&parent.join(&names[at])))
        });
        found.collect()
    }

    /// Where it really is, links followed, or why it is nowhere.
    pub(crate) fn real(&self) -> Result<PathBuf, FileFailure> {
        let real = fs::canonicalize(&self.path).map_err(|error| self.unreachable(&error))?;
        self.check_stays(&real)?;
        Ok(real)
    }

    /// What it means that a path leads nowhere.
    pub(crate) fn unreachable(&self, error: &io::Error) -> FileFailure {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => self.not_there(),
            _ => FileFailure::system(&format!("reach {}", self.shown), error),
        }
    }
}

/// What a call names outside of the conversation's directories, if it does.
pub fn elsewhere(request: &FileRequest) -> Option<PathBuf> {
    let place = NamedPlace::of(request, request.call.path()).ok()?;
    place.roots.is_empty().then_some(place.path)
}

/// Without `.` and `..`, by its words alone.
fn straight(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()),
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => parts.push(part),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use crate::call::{FileCall, ReadCall};

    use super::*;

    fn request(directory: &Path) -> FileRequest {
        FileRequest {
            call: FileCall::Read(ReadCall::default()),
            directory: directory.to_owned(),
            home: Some("/home/u".into()),
            roots: vec![],
            keys: vec![],
            seen: vec![],
        }
    }

    #[test]
    fn a_path_begins_where_it_says() {
        let check = |named: &str, expected: &str| {
            let place = NamedPlace::of(&request(Path::new("/w")), named).unwrap();
            assert_eq!(Path::new(expected), place.path);
        };
        check("a/b", "/w/a/b");
        check("/a", "/a");
        check("~", "/home/u/");
        check("~/a", "/home/u/a");
        check("~a", "/w/~a");
        check(".", "/w/.");
        let nowhere = NamedPlace::of(&request(Path::new("w")), "a").unwrap_err();
        assert_eq!(FailureKind::BadRequest, nowhere.kind);
    }

    #[test]
    fn a_link_leads_no_further_than_where_it_was_named() {
        let directory = tempfile::tempdir().unwrap();
        let at = |it: &str| directory.path().join(it);
        for it in ["work/src", "outside"] {
            fs::create_dir_all(at(it)).unwrap();
        }
        fs::write(at("outside/file"), "").unwrap();
        std::os::unix::fs::symlink(at("outside"), at("work/out")).unwrap();
        std::os::unix::fs::symlink(at("work/src"), at("work/in")).unwrap();
        let check = |named: &str, expected: Option<FailureKind>| {
            let request = FileRequest {
                roots: vec![at("work")],
                ..request(&at("work"))
            };
            let refused = NamedPlace::of(&request, named).err();
            assert_eq!(expected, refused.map(|it| it.kind), "{named}");
        };
        check("src", None);
        check("in", None);
        check("out", Some(FailureKind::LeadsOut));
        check("out/file", Some(FailureKind::LeadsOut));
        check("src/../out/file", Some(FailureKind::LeadsOut));
        // Neither is a new file made there, nor is told what is.
        check("out/new/file", Some(FailureKind::LeadsOut));
        check("out/flie", Some(FailureKind::LeadsOut));
        // That was asked about.
        check("../outside/file", None);
        check(at("outside/file").to_str().unwrap(), None);
    }

    #[test]
    fn what_is_not_there_comes_with_what_was_meant() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("src")).unwrap();
        for name in ["src/Main.rs", "src/matching.rs", "README.md"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("nowhere", directory.path().join("link")).unwrap();
        let check = |named: &str, expected: &str| {
            let place = NamedPlace::of(&request(directory.path()), named).unwrap();
            let failure = place.real().unwrap_err();
            assert_eq!(FailureKind::NotThere, failure.kind);
            let text = failure.text.replace(&path_text(directory.path()), "W");
            assert_eq!(expected, text);
        };
        check(
            "src/main.rs",
            "src/main.rs is not there; did you mean src/Main.rs?",
        );
        check(
            "readme.md",
            "readme.md is not there; did you mean README.md?",
        );
        check("zebra", "zebra is not there; `list` shows what is there");
        check(
            "lib/main.rs",
            "lib/main.rs is not there: there is no directory W/lib",
        );
        check(
            "README.md/x",
            "README.md/x is not there: there is no directory W/README.md",
        );
        check("link", "link is a link to nowhere, which is not there");
    }
}
