//! `aishctl prompt`: texts that people keep and ask again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use aish_testkit::{Answer, Upstream, World};

use crate::shell::shell;

#[test]
fn a_prompt_is_kept_listed_asked_and_removed() {
    let (upstream, world) = (Upstream::start(), World::new());
    world.write_config(&upstream.config("test"));
    let _daemon = world.daemon().spawn();
    let run = |line: &str| shell(&world, line).run();
    let save = "printf 'Review this {{language}}:\\n{{diff}}\\n' | aishctl prompt save review -";
    let saved = run(save).ok();
    let file = saved.out().trim_end().to_owned();
    assert!(file.ends_with("prompts/review.md"), "{file}");
    assert_eq!(
        "Review this {{language}}:\n{{diff}}\n",
        fs::read_to_string(&file).unwrap()
    );
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(0o600, mode & 0o777);
    let again = run(save).code(1);
    assert!(
        again.err().contains("there is a prompt review already"),
        "{}",
        again.report()
    );

    let listed = run("aishctl prompt").ok();
    let row = listed.out().lines().nth(1).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        [
            "review",
            "language",
            "diff",
            "Review",
            "this",
            "{{language}}:"
        ]
        .to_vec(),
        words
    );

    // A value is text, whatever it looks like.
    upstream.answer_with(|request| {
        let asked = request.messages().pop().unwrap_or_default();
        Answer::text(&format!("asked: {}", asked.1))
    });
    let ask = "aishctl prompt ask review language=Rust 'diff=+ {{language}}'";
    assert_eq!(
        "asked: Review this Rust:\n+ {{language}}\n",
        run(ask).ok().out()
    );
    let missing = run("aishctl prompt ask review language=Rust").code(1);
    assert!(
        missing
            .err()
            .contains("review: diff of the prompt has no value"),
        "{}",
        missing.report()
    );
    let unknown = run("aishctl prompt ask review language=Rust diff=x color=red").code(1);
    assert!(
        unknown.err().contains("review: the prompt has no color"),
        "{}",
        unknown.report()
    );

    let _removed = run("aishctl prompt rm review").ok();
    let gone = run("aishctl prompt show review");
    assert!(
        gone.err().contains("there is no prompt review"),
        "{}",
        gone.report()
    );
    let outside = run("aishctl prompt show ../config");
    assert!(
        outside.err().contains("a prompt's name is"),
        "{}",
        outside.report()
    );
}

/// What others could have written is not asked.
#[test]
fn a_prompt_that_others_may_write_is_not_read() {
    let world = World::new();
    world.write_config("");
    let _daemon = world.daemon().spawn();
    let run = |line: &str| shell(&world, line).run();
    let file = run("echo mine | aishctl prompt save mine -").ok();
    let file = file.out().trim_end().to_owned();
    let _saved = run("echo theirs | aishctl prompt save theirs -").ok();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let shown = run("aishctl prompt show mine");
    assert!(
        shown.err().contains("it can be written by others"),
        "{}",
        shown.report()
    );
    let listed = run("aishctl prompt ls").ok();
    assert!(listed.out().contains("theirs"), "{}", listed.report());
    assert!(
        listed.out().contains("it can be written by others"),
        "{}",
        listed.report()
    );
}
