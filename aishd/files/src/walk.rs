//! A walk over a directory in the order of names: no link is followed, nothing is opened but directories, and it ends after so
//! many entries or so much time, whatever it walks over.

use std::ffi::OsString;
use std::fs::{self, FileType};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::ignore_rules::IgnoreRules;
use crate::shown::counted;

/// Entries that one walk looks at.
const MOST_ENTRIES: usize = 300_000;
/// Levels of directories, whatever was asked for.
pub(crate) const MOST_DEPTH: usize = 100;
/// Where version control keeps its own; listed, not entered.
const NOT_ENTERED: [&str; 4] = [".git", ".hg", ".jj", ".svn"];

#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkOptions {
    pub(crate) depth: usize,
    /// Also what is left out by rules.
    pub(crate) all: bool,
    pub(crate) until: Instant,
}

/// What a walk comes upon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkEntry<'a> {
    /// From where the walk began.
    pub(crate) path: &'a Path,
    pub(crate) full: &'a Path,
    pub(crate) kind: FileType,
    pub(crate) depth: usize,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WalkEnd {
    /// Entries that rules have left out; what is in a directory among them was not counted.
    pub(crate) left_out: usize,
    unreadable: usize,
    too_deep: usize,
    bound: Option<WalkBound>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WalkBound {
    Entries,
    Time,
}

type Visit<'v> = dyn FnMut(WalkEntry<'_>) -> ControlFlow<()> + 'v;

/// Visits what is in `root`, a directory before what is in it.
pub(crate) fn walk(root: &Path, options: WalkOptions, visit: &mut Visit<'_>) -> WalkEnd {
    let mut walk = Walk {
        rules: IgnoreRules::above(root),
        options,
        room: MOST_ENTRIES,
        end: WalkEnd::default(),
    };
    let _stopped = walk.directory(root, Path::new(""), 1, visit);
    walk.end
}

impl WalkEnd {
    pub(crate) fn is_cut(&self) -> bool {
        self.bound.is_some()
    }

    pub(crate) fn out_of_time(&mut self) {
        self.bound = Some(WalkBound::Time);
    }

    /// What was not looked at, for the model.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = vec![];
        match self.bound {
            None => {}
            Some(WalkBound::Entries) => notes.push(format!(
                "only {MOST_ENTRIES} entries were looked at: name a smaller directory"
            )),
            Some(WalkBound::Time) => {
                notes.push("it took too long and was stopped: name a smaller directory".to_owned());
            }
        }
        if self.unreadable > 0 {
            notes.push(format!(
                "{} could not be read",
                counted(self.unreadable, "directory").replace("directorys", "directories")
            ));
        }
        if self.too_deep > 0 {
            notes.push(format!(
                "directories below level {MOST_DEPTH} were not entered"
            ));
        }
        notes
    }
}

struct Walk {
    rules: IgnoreRules,
    options: WalkOptions,
    room: usize,
    end: WalkEnd,
}

impl Walk {
    fn directory(
        &mut self,
        full: &Path,
        path: &Path,
        depth: usize,
        visit: &mut Visit<'_>,
    ) -> ControlFlow<()> {
        let Some(names) = self.names(full) else {
            self.end.unreadable += 1;
            return ControlFlow::Continue(());
        };
        self.rules.enter(full);
        let walked = names
            .iter()
            .try_for_each(|(name, kind)| self.entry((full, path), (name, *kind), depth, visit));
        self.rules.leave();
        walked?;
        match self.end.bound {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }

    fn entry(
        &mut self,
        (full, path): (&Path, &Path),
        (name, kind): (&OsString, FileType),
        depth: usize,
        visit: &mut Visit<'_>,
    ) -> ControlFlow<()> {
        if Instant::now() > self.options.until {
            self.end.out_of_time();
            return ControlFlow::Break(());
        }
        let (full, path): (PathBuf, PathBuf) = (full.join(name), path.join(name));
        if !self.options.all && self.rules.leave_out(&full, kind.is_dir()) {
            self.end.left_out += 1;
            return ControlFlow::Continue(());
        }
        visit(WalkEntry {
            path: &path,
            full: &full,
            kind,
            depth,
        })?;
        let is_entered = kind.is_dir() && !NOT_ENTERED.iter().any(|it| name == *it);
        if !is_entered {
            return ControlFlow::Continue(());
        }
        if depth >= MOST_DEPTH {
            self.end.too_deep += 1;
            return ControlFlow::Continue(());
        }
        if depth >= self.options.depth {
            return ControlFlow::Continue(());
        }
        self.directory(&full, &path, depth + 1, visit)
    }

    /// What is in a directory, sorted, as far as there is room.
    fn names(&mut self, full: &Path) -> Option<Vec<(OsString, FileType)>> {
        let mut names = vec![];
        for entry in fs::read_dir(full).ok()? {
            if self.room == 0 {
                self.end.bound = Some(WalkBound::Entries);
                break;
            }
            self.room -= 1;
            // What is gone by now, or was never whole.
            let Ok(entry) = entry else { continue };
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            names.push((entry.file_name(), kind));
        }
        names.sort_by(|(one, _), (other, _)| one.as_bytes().cmp(other.as_bytes()));
        Some(names)
    }
}
