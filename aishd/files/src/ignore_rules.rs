//! What `.gitignore` and its kin leave out. Files of rules are read as others are here: bounded, and only if they are files; a pipe
//! of that name keeps nobody waiting.

use std::fs;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::open::{open, read_at_most};

/// What is read of one file of rules.
const RULE_BYTES: u64 = 256 * 1024;
const GIT: &str = ".gitignore";
const PLAIN: &str = ".ignore";

/// Rules that hold in the directory that a walk is in, the nearest last.
#[derive(Debug)]
pub(crate) struct IgnoreRules {
    levels: Vec<RuleLevel>,
    /// Of the repository and of the person, after all others.
    last: Vec<Gitignore>,
}

#[derive(Debug)]
struct RuleLevel {
    plain: Gitignore,
    git: Gitignore,
}

impl IgnoreRules {
    /// Those that hold at a directory from above: of its repository, up to where that begins.
    pub(crate) fn above(directory: &Path) -> Self {
        let mut rules = Self {
            levels: vec![],
            last: vec![],
        };
        let repository = directory.ancestors().find(|it| it.join(".git").exists());
        if let Some(top) = repository {
            let mut above: Vec<&Path> = directory
                .ancestors()
                .skip(1)
                .take_while(|it| it.starts_with(top))
                .collect();
            above.reverse();
            for level in above {
                rules.enter(level);
            }
            rules
                .last
                .push(read_rules(top, &top.join(".git/info/exclude")));
        }
        rules.last.push(Gitignore::global().0);
        rules
    }

    pub(crate) fn enter(&mut self, directory: &Path) {
        self.levels.push(RuleLevel {
            plain: read_rules(directory, &directory.join(PLAIN)),
            git: read_rules(directory, &directory.join(GIT)),
        });
    }

    pub(crate) fn leave(&mut self) {
        self.levels.pop();
    }

    /// Whether what is at this absolute path is left out. What is above it was asked about before.
    pub(crate) fn leave_out(&self, path: &Path, is_directory: bool) -> bool {
        let plain = self.levels.iter().rev().map(|it| &it.plain);
        let git = self.levels.iter().rev().map(|it| &it.git);
        let said = plain
            .chain(git)
            .chain(&self.last)
            .filter(|it| !it.is_empty())
            .map(|it| it.matched(path, is_directory))
            .find(|it| !it.is_none());
        matches!(said, Some(Match::Ignore(_)))
    }
}

/// The rules of one file; none where it is no file or cannot be read. A line that is no rule is passed over, as git does.
fn read_rules(directory: &Path, file: &PathBuf) -> Gitignore {
    if !fs::metadata(file).is_ok_and(|it| it.is_file()) {
        return Gitignore::empty();
    }
    let content = open(file).and_then(|it| read_at_most(&it, RULE_BYTES));
    let Ok(content) = content else {
        return Gitignore::empty();
    };
    let text = String::from_utf8_lossy(&content.bytes);
    let mut builder = GitignoreBuilder::new(directory);
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _no_rule = builder.add_line(None, line);
    }
    builder
        .build()
        .unwrap_or_else(|_too_large| Gitignore::empty())
}
