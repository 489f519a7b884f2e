//! The repository that the tests belong to: where it is, and which files are in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The top directory.
pub fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ is in the repository")
        .to_owned()
}

/// Every file that belongs to the repository, below [`top`] and sorted. New files count before they are added;
/// what `.gitignore` names does not. Where git cannot tell, the tree is walked.
pub fn files() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .arg("-C")
        .arg(top())
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()
        .ok()
        .filter(|it| it.status.success() && !it.stdout.is_empty());
    let mut files = match listed {
        Some(output) => String::from_utf8_lossy(&output.stdout)
            .split_terminator('\0')
            .map(PathBuf::from)
            .filter(|it| top().join(it).is_file())
            .collect(),
        None => walk(Path::new("")),
    };
    files.sort();
    files.dedup();
    files
}

/// The files below a folder of the repository whose names end in `.rs`; none when the folder is not there.
pub fn rust_files(folder: &str) -> Vec<PathBuf> {
    let mut files = files();
    files.retain(|it| it.starts_with(folder) && it.extension().is_some_and(|it| it == "rs"));
    files
}

/// The text of a file of the repository; `None` when it is not text.
pub fn text(file: &Path) -> Option<String> {
    let bytes = fs::read(top().join(file))
        .unwrap_or_else(|error| panic!("read {}: {error}", file.display()));
    String::from_utf8(bytes).ok()
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(top().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        if path == Path::new("target") || path == Path::new(".git") {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            found.extend(walk(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_and_the_walk_both_find_this_file() {
        let this = Path::new("tests/testkit/repository.rs");
        assert!(files().iter().any(|it| it == this));
        assert!(walk(Path::new("tests")).iter().any(|it| it == this));
        assert!(rust_files("tests/testkit").iter().any(|it| it == this));
        assert!(!rust_files("aishd").iter().any(|it| it == this));
    }
}
