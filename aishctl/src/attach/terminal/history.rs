//! The lines typed before, of all terminals of this person: one JSON string a line, appended under a lock, in a
//! file that nobody else may read. Lines that begin with a space are not kept.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::private_file;

/// Lines that are offered.
pub(super) const LINES: usize = 1000;
/// A file larger than this is cut to its newest lines.
const FILE_BYTES: u64 = 1 << 20;
/// A longer line is not worth keeping.
const LINE_BYTES: usize = 4 << 10;

#[derive(Debug)]
pub(super) struct LineHistory {
    path: PathBuf,
}

impl LineHistory {
    /// In this state directory, which is made if it is missing.
    pub(super) fn at(directory: &Path) -> Self {
        Self {
            path: directory.join("history"),
        }
    }

    /// The newest lines, oldest first. A file that cannot be read is an empty one: it is no reason not to start.
    pub(super) fn load(&self) -> Vec<String> {
        private_file::open(&self.path)
            .and_then(|mut file| newest(&mut file))
            .unwrap_or_default()
    }

    /// Adds a line where it may be kept.
    pub(super) fn add(&self, line: &str) -> io::Result<()> {
        if !is_kept(line) {
            return Ok(());
        }
        let mut file = private_file::open(&self.path)?;
        file.lock()?;
        let size = private_file::append(&mut file, &serde_json::to_string(line)?)?;
        if size > FILE_BYTES {
            let kept = newest(&mut file)?;
            let mut text = String::new();
            for line in &kept[kept.len().saturating_sub(LINES / 2)..] {
                text.push_str(&serde_json::to_string(line)?);
                text.push('\n');
            }
            file.set_len(0)?;
            file.write_all(text.as_bytes())?;
        }
        Ok(())
    }
}

/// Whether a line is for the history at all.
pub(super) fn is_kept(line: &str) -> bool {
    !line.starts_with(char::is_whitespace) && !line.is_empty() && line.len() <= LINE_BYTES
}

/// The newest lines of the file's end. What is no record is passed over.
fn newest(file: &mut File) -> io::Result<Vec<String>> {
    let text = private_file::tail(file, FILE_BYTES)?;
    let mut lines: Vec<String> = Vec::new();
    for line in text
        .lines()
        .filter_map(|it| serde_json::from_str::<String>(it).ok())
    {
        // What stands in the file is shown by a key: it may be no more than was typed.
        let line: String = line
            .chars()
            .filter(|it| matches!(it, '\n' | '\t') || !it.is_control())
            .collect();
        if is_kept(&line) && lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    lines.drain(..lines.len().saturating_sub(LINES));
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn several_terminals_add_to_one_file_and_nobody_else_reads_it() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state/aish");
        let (one, two) = (LineHistory::at(&state), LineHistory::at(&state));
        std::thread::scope(|scope| {
            for (name, history) in [("one", &one), ("two", &two)] {
                scope.spawn(move || {
                    for n in 0..50 {
                        history.add(&format!("{name}\n{n}")).unwrap();
                    }
                });
            }
        });
        let lines = LineHistory::at(&state).load();
        assert_eq!(100, lines.len());
        for name in ["one", "two"] {
            let ours: Vec<&String> = lines.iter().filter(|it| it.starts_with(name)).collect();
            let expected: Vec<String> = (0..50).map(|it| format!("{name}\n{it}")).collect();
            assert_eq!(expected.iter().collect::<Vec<_>>(), ours);
        }
        assert_eq!((0o700, 0o600), (mode(&state), mode(&state.join("history"))));
    }

    #[test]
    fn a_secret_behind_a_space_is_not_kept_and_neither_is_what_is_broken() {
        let state = tempfile::tempdir().unwrap();
        let history = LineHistory::at(state.path());
        std::fs::write(
            state.path().join("history"),
            b"\"a\\u001b[2J\"\nnot json\n\xff\n\"cut",
        )
        .unwrap();
        for line in [" secret", "", "b", "b", &"x".repeat(LINE_BYTES + 1)] {
            history.add(line).unwrap();
        }
        assert_eq!(vec!["a[2J", "b"], history.load());
        assert_eq!(0o600, mode(&state.path().join("history")));
        let text = std::fs::read_to_string(state.path().join("history"));
        assert!(!text.unwrap_or_default().contains("secret"));
    }

    #[test]
    fn it_stays_small() {
        let state = tempfile::tempdir().unwrap();
        let history = LineHistory::at(state.path());
        for n in 0..600 {
            history.add(&format!("{n} {}", "x".repeat(3000))).unwrap();
        }
        let size = std::fs::metadata(state.path().join("history"))
            .unwrap()
            .len();
        assert!(size < 2 * FILE_BYTES, "{size}");
        assert!(history.load().last().unwrap().starts_with("599 "));
    }

    #[test]
    fn a_link_is_not_followed() {
        let state = tempfile::tempdir().unwrap();
        let target = state.path().join("target");
        std::fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, state.path().join("history")).unwrap();
        let history = LineHistory::at(state.path());
        history.add("a line").unwrap_err();
        assert!(history.load().is_empty());
        assert_eq!("kept", std::fs::read_to_string(target).unwrap());
    }
}
