//! `@path` in a question takes a file along, in `ask` and in a window.

use std::fs;

use aish_testkit::Screen;

use crate::shell::shell;
use crate::terminal::{open, wait_typed, world};

#[test]
fn a_file_that_a_question_names_goes_along() {
    let (upstream, world, _daemon) = world();
    world.write("work/src/main.rs", "fn main() {}\n");
    world.write("work/two words.md", "# words");
    world.write("home/notes.md", "a note");
    let asked = |line: &str| {
        let before = upstream.requests().len();
        let ended = shell(&world, line).run().ok();
        let question = upstream.wait_requests(before + 1).question();
        (question, ended.err().to_owned())
    };
    let (question, said) = asked("aishctl ask 'what does @src/main.rs do?'");
    assert_eq!(
        "what does @src/main.rs do?\n\n<attachment name=\"src/main.rs\">\nfn main() {}\n</attachment>",
        question
    );
    assert!(
        said.contains("[aish] attached src/main.rs (13 bytes)"),
        "{said}"
    );
    let (question, said) = asked("aishctl ask compare '@\"two words.md\"' and @~/notes.md");
    assert!(
        question.contains("# words") && question.contains("a note"),
        "{question}"
    );
    assert!(said.contains("attached ~/notes.md (6 bytes)"), "{said}");
    // A shell that expands ~ by itself gives the same.
    let (question, _) = asked("aishctl ask about @$HOME/notes.md");
    assert!(question.contains("a note"), "{question}");
    for line in [
        "mail me@src/main.rs and @alice about @types/node",
        "@nothing.rs",
    ] {
        let (question, said) = asked(&format!("aishctl ask '{line}'"));
        assert_eq!(line, question);
        assert!(!said.contains("attached"), "{said}");
    }
    // Somebody else may have written what comes over a pipe.
    let (question, _) = asked("echo 'tell me of @src/main.rs' | aishctl ask");
    assert_eq!("tell me of @src/main.rs\n", question);
    upstream.finish();
}

#[test]
fn what_cannot_go_along_is_said_and_nothing_is_asked() {
    let (upstream, world, _daemon) = world();
    fs::write(world.work().join("image.png"), b"\x89PNG\r\n\0\0").unwrap();
    fs::write(world.work().join("huge.log"), vec![b'x'; 3 << 20]).unwrap();
    fs::write(world.work().join("bin.dat"), b"\x01\x02\xff\xfe\0\0data").unwrap();
    fs::write(world.work().join("old.log.gz"), b"\x1f\x8b\x08\0\0\0").unwrap();
    for (line, why) in [
        ("@./nothing.rs", "aishctl: there is no file ./nothing.rs\n"),
        ("@image.png", "aishctl: image.png holds no text\n"),
        (
            "@bin.dat",
            "aishctl: bin.dat holds no text\nhint: strings bin.dat",
        ),
        (
            "@old.log.gz",
            "aishctl: old.log.gz is gzip data, which is no text\nhint: zcat old.log.gz | aishctl ask",
        ),
        (
            "@huge.log",
            "aishctl: huge.log has 3072 KiB, and a question takes 1024 KiB\n",
        ),
    ] {
        let ended = shell(&world, &format!("aishctl ask '{line}'"))
            .run()
            .code(2);
        assert!(ended.err().contains(why), "{line}: {}", ended.err());
    }
    assert_eq!(0, upstream.requests().len());
    upstream.finish();
}

/// As the project's summary does: no file is opened, and what `.gitignore` names is nobody's business.
#[test]
fn a_directory_that_a_question_names_is_listed() {
    let (upstream, world, _daemon) = world();
    world.write("work/.git/HEAD", "ref: refs/heads/main\n");
    world.write("work/.gitignore", "target/\n*.o\n");
    world.write("work/src/main.rs", "fn main() {}\n");
    world.write("work/src/core/gate.rs", "secret");
    world.write("work/src/core/gate.o", "");
    world.write("work/target/big", "");
    let listed = "<attachment name=\"src/\">\ncore/\ncore/gate.rs\nmain.rs\n</attachment>";
    let ended = shell(&world, "aishctl ask 'what is in @src/?'").run().ok();
    let question = upstream.wait_requests(1).question();
    assert_eq!(format!("what is in @src/?\n\n{listed}"), question);
    assert!(
        ended
            .err()
            .contains("[aish] attached src/ (names in it: 3)"),
        "{}",
        ended.err()
    );
    let previewed = shell(&world, "aishctl context preview --body 'what is in @src/?'");
    let body = previewed.run().ok().out().to_owned();
    let listed = listed.replace('"', "\\\"").replace('\n', "\\n");
    assert!(body.contains(&listed), "{body}");
    // A word without a slash is a word still, and a directory that is meant is there.
    drop(shell(&world, "aishctl ask 'about @src'").run().ok());
    assert_eq!("about @src", upstream.wait_requests(2).question());
    let failed = shell(&world, "aishctl ask 'about @./none/'").run().code(2);
    assert!(failed.err().contains("there is no file ./none/"));
    let failed = shell(&world, "aishctl ask -f src why").run().code(2);
    assert!(
        failed.err().contains("hint: @src/ in the question"),
        "{}",
        failed.err()
    );
    for number in 0..2_000 {
        world.write(format!("work/many/file-{number:06}"), "");
    }
    let ended = shell(&world, "aishctl ask @many/").run().ok();
    assert!(
        ended.err().contains("(names in it: 1365; there are more)"),
        "{}",
        ended.err()
    );
    let question = upstream.wait_requests(3).question();
    assert!(
        question.contains("\n[aish] cut: these are the first 1365 names"),
        "{question}"
    );
    upstream.finish();
}

/// Types it as it stands, and waits for it.
fn type_in(screen: &mut Screen, text: &str) {
    screen.key(text);
    wait_typed(screen, text);
}

#[test]
fn a_window_shows_what_goes_along_and_tab_finds_it() {
    let (upstream, world, _daemon) = world();
    world.write("work/src/main.rs", "fn main() {}\n");
    let mut screen = open(&world, 80, 24);
    type_in(&mut screen, "see @sr");
    screen.key("\t");
    wait_typed(&screen, "see @src/");
    screen.key("\t");
    wait_typed(&screen, "see @src/main.rs");
    screen.key("\r");
    let question = upstream.wait_requests(1).question();
    assert!(
        question.starts_with("see @src/main.rs\n\n<attachment name=\"src/main.rs\">"),
        "{question}"
    );
    screen.wait_for("attached src/main.rs (13 bytes)");
    type_in(&mut screen, "see @src/");
    screen.key("\r");
    screen.wait_for("attached src/ (names in it: 1)");
    let question = upstream.wait_requests(2).question();
    assert!(
        question.contains("<attachment name=\"src/\">\nmain.rs\n"),
        "{question}"
    );
    type_in(&mut screen, "and @./nothing.rs?");
    screen.key("\r");
    screen.wait_for("there is no file ./nothing.rs?");
    type_in(&mut screen, "still here");
    screen.key("\r");
    assert_eq!("still here", upstream.wait_requests(3).question());
}
