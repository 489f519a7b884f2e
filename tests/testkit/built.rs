//! The programs of this workspace as the suites find them: beside the test, and never older than their sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::{repository, surroundings};

/// What was found fresh in this process.
static FOUND: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// A program of this workspace: it stands beside the test, or one folder up. Cargo builds the programs of a
/// suite's own package before the suite runs, and no others: one that is missing or older than its sources is
/// built here, with the profile and into the directory of this test.
#[track_caller]
pub fn built(name: &str) -> PathBuf {
    if name == "aishctl" {
        // It becomes that one for all but plain questions.
        let _beside_it = built("aish");
    }
    // Held while cargo runs, so that it runs once.
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = found.get(name) {
        return path.clone();
    }
    let test = std::env::current_exe().expect("a test knows its own file");
    let path = beside(&test, name)
        .filter(|it| is_fresh(it))
        .unwrap_or_else(|| build(&test, name));
    found.insert(name.to_owned(), path.clone());
    path
}

fn beside(test: &Path, name: &str) -> Option<PathBuf> {
    let folders = test.ancestors().skip(1).take(2);
    folders.map(|it| it.join(name)).find(|it| it.is_file())
}

/// Whether no source that cargo noted beside the program is newer than it.
fn is_fresh(program: &Path) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|it| it.modified()).ok();
    let (Some(made), Ok(noted)) = (
        changed(program),
        fs::read_to_string(program.with_extension("d")),
    ) else {
        return false;
    };
    sources(&noted).all(|it| changed(&it).is_some_and(|it: SystemTime| it <= made))
}

/// The files after the colon of a make rule; a space in a path has a backslash before it.
fn sources(rule: &str) -> impl Iterator<Item = PathBuf> {
    let rule = rule.replace("\\ ", "\0");
    let files = rule.split_once(": ").map_or("", |(_, it)| it).to_owned();
    let files: Vec<PathBuf> = files
        .split_whitespace()
        .map(|it| it.replace('\0', " ").into())
        .collect();
    files.into_iter()
}

#[track_caller]
fn build(test: &Path, name: &str) -> PathBuf {
    // TARGET/PROFILE/deps/TEST
    let mut folders = test.ancestors().skip(2);
    let profile = folders.next().and_then(Path::file_name);
    let (Some(profile), Some(target)) = (profile, folders.next()) else {
        panic!("{} is not where cargo puts tests", test.display());
    };
    let profile = match profile.to_str() {
        None | Some("debug") => "dev",
        Some(profile) => profile,
    };
    // Of no package: its dependencies then have the features of the whole workspace, as those of `cargo build` and
    // `cargo test` have, and nothing of them is built once more.
    let output = Command::new(surroundings::cargo())
        .args(["build", "--quiet", "--bin", name])
        .args(["--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(repository::top())
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("start cargo to build {name}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "cargo cannot build {name}:\n{said}"
    );
    beside(test, name).unwrap_or_else(|| panic!("cargo built {name}, but not beside this test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_cargo_is_read() {
        let files: Vec<PathBuf> =
            sources("/t/debug/aishd: /a/main.rs /with\\ space/b.rs\n").collect();
        assert_eq!(
            vec![PathBuf::from("/a/main.rs"), "/with space/b.rs".into()],
            files
        );
    }

    #[test]
    fn one_that_is_older_than_a_source_is_not_fresh() {
        let folder = tempfile::tempdir().unwrap();
        let at = |it: &str| folder.path().join(it);
        let (program, source) = (at("program"), at("source.rs"));
        fs::write(&source, "").unwrap();
        fs::write(&program, "").unwrap();
        assert!(!is_fresh(&program), "nothing is noted");
        fs::write(
            at("program.d"),
            format!("{}: {}\n", program.display(), source.display()),
        )
        .unwrap();
        assert!(is_fresh(&program));
        let later = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1 << 33);
        fs::File::options()
            .write(true)
            .open(&source)
            .unwrap()
            .set_modified(later)
            .unwrap();
        assert!(!is_fresh(&program));
        fs::remove_file(&source).unwrap();
        assert!(!is_fresh(&program), "a source is gone");
    }
}
