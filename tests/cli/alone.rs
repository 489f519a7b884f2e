//! `aishctl` is a small program for plain questions, and becomes `aish` beside it for everything else.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use aish_testkit::{Answer, Upstream, World, built};

/// By a process of its own: a child that another test starts meanwhile would hold our file open for writing, and
/// such a file cannot be started.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// A folder that has nothing but `aishctl`.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("aishctl");
    copy(&built("aishctl"), &alone);
    (folder, alone)
}

#[test]
fn a_question_to_a_pipe_needs_no_other_program_and_everything_else_says_which_is_missing() {
    let upstream = Upstream::start();
    upstream.answer_with(|_| Answer::text("fine"));
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let (folder, alone) = folder();

    let asked = world.program(&alone, &["ask", "how are you?"]).run().ok();
    assert_eq!("fine\n", asked.out());

    for args in [
        &["conv", "ls"][..],
        &["--help"],
        &["ask", "--markdown", "always", "x"],
    ] {
        let refused = world.program(&alone, args).run().code(1);
        let said = refused.err();
        assert!(said.contains("aish: No such file"), "{args:?}: {said}");
        assert!(said.contains("hint: "), "{args:?}: {said}");
    }

    copy(&built("aish"), &folder.path().join("aish"));
    let listed = world.program(&alone, &["conv", "ls"]).run().ok();
    assert!(listed.out().contains("how are you?"), "{}", listed.out());
    let help = world.program(&alone, &["--help"]).run().ok();
    assert!(help.out().contains("Usage: aishctl"), "{}", help.out());
}

#[test]
fn a_link_to_itself_is_told_and_not_followed_for_ever() {
    let world = World::new();
    let (folder, alone) = folder();
    symlink(&alone, folder.path().join("aish")).unwrap();
    let refused = world.program(&alone, &["conv", "ls"]).run().code(1);
    assert!(refused.err().contains("the same file"), "{}", refused.err());
}
