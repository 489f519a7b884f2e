//! A part of a file, and a part of a set of files: what is chosen and nothing else, checked against what `git apply` makes of the same
//! hunks.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use proptest::prelude::*;

use super::scene::{Scene, lacks_overlays, rel};
use crate::changes::ReadBounds;
use crate::hunks::FileHunks;
use crate::layer_set::LayerSet;
use crate::plan::KeepChoice;
use crate::step::ConflictReason;
use crate::{KeepConflicts, KeepError};

/// The hunks of one changed file.
fn hunks(set: &LayerSet, path: &str) -> FileHunks {
    let bounds = ReadBounds::default();
    let changes = set.changes(&bounds).unwrap();
    let change = changes.listed.iter().find(|it| it.path == rel(path));
    set.hunks(change.unwrap(), &bounds).unwrap().unwrap()
}

fn listed(whole: &[&str], alone: &[&str]) -> KeepChoice {
    let places = |paths: &[&str]| paths.iter().map(|it| (0, rel(it))).collect();
    KeepChoice::Listed {
        whole: places(whole),
        alone: places(alone),
    }
}

fn numbered(lines: usize) -> String {
    (1..=lines).map(|it| format!("line {it}\n")).collect()
}

#[test]
fn a_part_of_a_file_becomes_real_and_is_taken_back() {
    if lacks_overlays() {
        return;
    }
    let before = numbered(30);
    let scene = Scene::with(&[("a", &before), ("b", "1\n")]);
    let file = scene.real.join("a");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let set = scene.run(
        "set",
        "sed 's/line 3$/three/; s/line 28$/28/' a > new; chmod 444 new; mv -f new a; echo 2 > b",
    );
    let hunks = hunks(&set, "a");
    assert!(hunks.divisible && hunks.shown.len() == 2, "{hunks:?}");
    set.put_text(0, &rel("a"), &hunks.with(&BTreeSet::from([1])))
        .unwrap();
    scene
        .keep(&set, "kept", &listed(&[], &["a"]), KeepConflicts::Refuse)
        .unwrap();
    assert_eq!(before.replace("line 28\n", "28\n"), scene.read("a"));
    assert_eq!("1\n", scene.read("b"));
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(0o444, mode & 0o7777);
    scene.store.undo("kept").unwrap();
    assert_eq!(before, scene.read("a"));
}

/// A mode, an attribute and a second name are no lines; what is binary, new or removed has none that could be left.
#[test]
fn what_is_more_than_its_text_is_all_or_nothing() {
    if lacks_overlays() {
        return;
    }
    let text = numbered(30);
    let names = ["plain", "mode", "named", "latin"];
    let scene = Scene::new();
    for name in names {
        fs::write(scene.real.join(name), &text).unwrap();
    }
    let edit =
        "for it in plain mode named latin; do sed -i 's/line 3$/three/; s/line 28$/28/' $it; done";
    let set = scene.run(
        "set",
        &format!("{edit}; chmod 755 mode; ln named other; printf '\\377\\n' >> latin"),
    );
    let divisible = names.map(|it| hunks(&set, it).divisible);
    assert_eq!([true, false, false, false], divisible);
    assert!(set.put_text(0, &rel("named"), "x").is_err());
    assert!(set.put_text(0, &rel("gone"), "x").is_err());
}

/// A directory that is chosen for itself brings nothing along, and what is in a new one brings the directory.
#[test]
fn what_is_chosen_alone_brings_nothing_along() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("d/x", "1\n"), ("d/y", "1\n"), ("e/x", "1\n")]);
    let set = scene.run(
        "set",
        "chmod 700 d; echo 2 > d/x; echo 2 > d/y; mkdir new; echo 1 > new/f; echo 1 > new/g; rm -r e; mkdir e; echo 2 > e/y",
    );
    scene
        .keep(
            &set,
            "kept",
            &listed(&["e"], &["d", "d/y", "new/g"]),
            KeepConflicts::Refuse,
        )
        .unwrap();
    let now = ["d/x", "d/y", "new/f", "new/g", "e/x", "e/y"].map(|it| scene.read(it));
    let none = "<entity not found>";
    assert_eq!(["1\n", "2\n", none, "1\n", none, "2\n"], now);
    let mode = fs::metadata(scene.real.join("d")).unwrap().permissions();
    assert_eq!(0o700, mode.mode() & 0o777);
    scene.store.undo("kept").unwrap();
    assert_eq!(["1\n", "1\n"], ["d/y", "e/x"].map(|it| scene.read(it)));
}

#[test]
fn a_part_is_never_laid_over_what_somebody_changed() {
    if lacks_overlays() {
        return;
    }
    let scene = Scene::with(&[("a", &numbered(30))]);
    let set = scene.run("set", "sed -i 's/line 3$/three/; s/line 28$/28/' a");
    let hunks = hunks(&set, "a");
    fs::write(scene.real.join("a"), "theirs\n").unwrap();
    set.put_text(0, &rel("a"), &hunks.with(&BTreeSet::from([0])))
        .unwrap();
    let kept = scene.keep(&set, "kept", &listed(&[], &["a"]), KeepConflicts::Refuse);
    let Err(KeepError::Conflicts(conflicts)) = kept else {
        panic!("somebody else's work is lost");
    };
    assert_eq!(ConflictReason::ChangedSince, conflicts[0].why);
    assert_eq!("theirs\n", scene.read("a"));
}

/// It applies what it is then told. `None`: there is no git here.
fn git(dir: &Path) -> Option<Child> {
    let mut git = Command::new("git");
    git.args([
        "-c",
        "core.autocrlf=false",
        "apply",
        "--whitespace=nowarn",
        "-",
    ]);
    git.current_dir(dir).env("GIT_CEILING_DIRECTORIES", dir);
    git.stdin(Stdio::piped()).stderr(Stdio::piped());
    git.spawn().ok()
}

/// The file that git makes of it with these hunks.
fn applied(mut git: Child, dir: &Path, old: &str, hunks: &[&String]) -> String {
    fs::write(dir.join("f"), old).unwrap();
    let mut patch = "--- a/f\n+++ b/f\n".to_owned();
    let mut gained = 0;
    for hunk in hunks {
        let (header, lines) = hunk.split_once('\n').unwrap();
        let (old, new) = sides(header);
        // Where its lines begin depends on the hunks before it.
        let begin = (old.0 + gained).max(0) + i64::from(old.1 == 0) - i64::from(new.1 == 0);
        patch += &format!("@@ -{},{} +{begin},{} @@\n{lines}", old.0, old.1, new.1);
        gained += new.1 - old.1;
    }
    git.stdin
        .take()
        .unwrap()
        .write_all(patch.as_bytes())
        .unwrap();
    let output = git.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{patch}");
    fs::read_to_string(dir.join("f")).unwrap()
}

/// Begin and length on both sides: `@@ -1,2 +1 @@`.
fn sides(header: &str) -> ((i64, i64), (i64, i64)) {
    let mut words = header.split(' ').skip(1);
    let mut side = || {
        let word = &words.next().unwrap()[1..];
        let (begin, length) = word.split_once(',').unwrap_or((word, "1"));
        (begin.parse().unwrap(), length.parse().unwrap())
    };
    (side(), side())
}

/// Lines of which many are the same, some with another end, and perhaps none at the end.
fn text() -> impl Strategy<Value = Vec<String>> {
    let line = ("[ab]{0,2}|[a-z]{3}", any::<bool>());
    let line = line.prop_map(|(text, is_dos)| text + if is_dos { "\r\n" } else { "\n" });
    proptest::collection::vec(line, 12..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Any hunks of any two texts: what is made is what another program makes of the same lines.
    #[test]
    fn a_part_is_what_git_makes_of_these_hunks(
        mut old in text(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0..3u8, "[abx]{1,2}"), 1..7),
        ends in any::<[bool; 2]>(),
        mask in any::<u32>(),
    ) {
        let mut new = old.clone();
        for (at, what, text) in edits {
            let at = at.index(new.len());
            match what {
                0 if new.len() > 1 => drop(new.remove(at)),
                1 => new.insert(at, text + "\n"),
                _ => new[at] = text + "\n",
            }
        }
        for (lines, has_end) in [&mut old, &mut new].into_iter().zip(ends) {
            let last = lines.last_mut().filter(|it| !has_end && it.trim_end() != "");
            if let Some(last) = last {
                last.truncate(last.trim_end().len());
            }
        }
        let (old, new) = (old.concat(), new.concat());
        let hunks = FileHunks::of(&old, &new);
        let all: BTreeSet<usize> = (0..hunks.shown.len()).collect();
        prop_assert_eq!(&new, &hunks.with(&all));
        prop_assert_eq!(&old, &hunks.with(&BTreeSet::new()));
        let chosen: BTreeSet<usize> = all.into_iter().filter(|it| mask >> it & 1 == 1).collect();
        if chosen.is_empty() {
            return Ok(());
        }
        let those: Vec<&String> = chosen.iter().map(|it| &hunks.shown[*it]).collect();
        let dir = tempfile::tempdir().unwrap();
        match git(dir.path()) {
            Some(git) => prop_assert_eq!(applied(git, dir.path(), &old, &those), hunks.with(&chosen)),
            None => println!("skipped: no git here"),
        }
    }
}
