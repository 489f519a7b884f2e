//! `ask`: what goes in: words, stdin, files, too much of them, and what is no text.

use aish_testkit::{Daemon, Upstream, World, surroundings};

use crate::shell::{shell, shell_on_terminal};

fn world() -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    (upstream, world, daemon)
}

#[test]
fn stdin_is_the_question_or_goes_along_with_it() {
    let (upstream, world, _daemon) = world();
    let asked = |line: &str| {
        let before = upstream.requests().len();
        drop(shell(&world, line).run().ok());
        upstream.wait_requests(before + 1).question()
    };
    assert_eq!("why?", asked("aishctl ask 'why?'"));
    assert_eq!("why so", asked("aishctl ask why so"));
    assert_eq!("from stdin", asked("printf 'from stdin' | aishctl ask"));
    assert_eq!("from stdin", asked("printf 'from stdin' | aishctl ask -"));
    let both = asked("printf 'the diff' | aishctl ask review");
    assert!(
        both.starts_with("review\n") && both.contains("the diff") && both.contains("stdin"),
        "{both}"
    );
    let without = asked("printf 'the diff' | aishctl ask --no-stdin review");
    assert_eq!("review", without);
    world.write("work/a.txt", "first file");
    world.write("work/b.txt", "second file");
    let files = asked("printf 'third' | aishctl ask -f a.txt -f b.txt -f - compare");
    let at = |text: &str| {
        files
            .find(text)
            .unwrap_or_else(|| panic!("{text} not in {files}"))
    };
    assert!(at("a.txt") < at("first file") && at("b.txt") < at("second file") && at("third") > 0);
    assert_eq!("words", asked("printf '' | aishctl ask words"));
    upstream.finish();
}

#[test]
fn typed_lines_are_not_waited_for_with_a_question_and_are_one_with_a_dash() {
    let (upstream, world, _daemon) = world();
    let mut asking = shell_on_terminal(&world, "aishctl ask why");
    assert_eq!(0, asking.wait());
    let mut asking = shell_on_terminal(&world, "aishctl ask -");
    asking.key("typed question\n\u{4}");
    assert_eq!(0, asking.wait());
    assert_eq!("typed question\n", upstream.wait_requests(2).question());
    let mut asking = shell_on_terminal(&world, "aishctl ask");
    assert_eq!(2, asking.wait(), "{}", asking.seen());
}

/// The problem of `ssh -n`: without `--no-stdin` the first question eats the list.
#[test]
fn a_loop_over_lines_keeps_its_lines() {
    let (upstream, world, _daemon) = world();
    let list = "printf 'one\\ntwo\\nthree\\n' | while read line; do aishctl ask $flag \"about $line\" >/dev/null; done";
    drop(shell(&world, list).env("flag", "--no-stdin").run().ok());
    let questions: Vec<String> = upstream
        .requests()
        .iter()
        .map(aish_testkit::upstream::Request::question)
        .collect();
    assert_eq!(vec!["about one", "about two", "about three"], questions);
    drop(shell(&world, list).env("flag", "--").run().ok());
    assert_eq!(
        4,
        upstream.requests().len(),
        "which is why the flag is there"
    );
}

#[test]
fn too_much_keeps_both_ends_and_says_so() {
    let (upstream, world, _daemon) = world();
    let mut much = b"FIRST ".to_vec();
    much.extend(b"0123456789abcdef".repeat(3 << 16));
    much.extend(b" LAST");
    let finished = world.ctl(&["ask", "why"]).stdin(much.clone()).run().ok();
    let question = upstream.wait_requests(1).question();
    assert!(
        question.starts_with("why")
            && question.contains("FIRST 0123")
            && question.contains("cdef LAST")
    );
    assert!(
        question.contains("left out …]") && question.len() <= (1 << 20) + 4096,
        "{}",
        question.len()
    );
    assert!(
        finished
            .err()
            .starts_with("[aish] stdin is 3.0 MiB; its middle was left out (2.0"),
        "{}",
        finished.err()
    );
    let strict = world
        .ctl(&["ask", "--strict", "why"])
        .stdin(much)
        .run()
        .code(7);
    assert_eq!("", strict.out());
    assert!(
        strict.err().contains("the input is over")
            && strict.err().contains("hint: without --strict"),
        "{}",
        strict.err()
    );
    assert_eq!(1, upstream.requests().len());
    let quiet = world
        .ctl(&["ask", "-q", "why"])
        .stdin(vec![b'x'; 2 << 20])
        .run()
        .ok();
    assert_eq!("", quiet.err());
}

/// What fits is not cut, also when one line of the wire does not hold it.
#[test]
fn just_under_the_limit_arrives_whole() {
    let (upstream, world, _daemon) = world();
    // Each of these is six bytes in JSON, so that the line is over its limit.
    let text = "\u{1}".repeat(500 << 10);
    drop(
        world
            .ctl(&["ask", "--strict", "why"])
            .stdin(text.clone())
            .run()
            .ok(),
    );
    assert!(upstream.wait_requests(1).question().contains(&text));
    let question = "é".repeat(400 << 10);
    drop(
        world
            .ctl(&["ask", "--strict"])
            .stdin(question.clone())
            .run()
            .ok(),
    );
    assert!(upstream.wait_requests(2).question().contains(&question));
}

#[test]
fn bytes_that_are_no_text_are_replaced_and_told() {
    let (upstream, world, _daemon) = world();
    let finished = world
        .ctl(&["ask", "why"])
        .stdin(*b"ok \xff\xfe end \xc3")
        .run()
        .ok();
    assert_eq!(
        "[aish] stdin is not UTF-8; the bytes that are no text were replaced\n",
        finished.err()
    );
    let question = upstream.wait_requests(1).question();
    assert!(
        question.contains("ok \u{fffd}\u{fffd} end \u{fffd}"),
        "{question}"
    );
    let argument = shell(&world, "aishctl ask \"$(printf 'caf\\351')\"").run();
    assert_eq!(2, argument.code, "{}", argument.report());
    assert!(argument.err().contains("UTF-8"), "{}", argument.err());
}

/// Nobody pays for signs that stand for bytes which are no text.
#[test]
fn a_binary_file_is_refused_before_anything_is_sent() {
    let (upstream, world, _daemon) = world();
    let write = |name: &str, bytes: &[u8]| std::fs::write(world.work().join(name), bytes).unwrap();
    write("bin.dat", b"\x01\x02\xff\xfe\0\0data");
    write("old.gz", b"\x1f\x8b\x08\0\0\0\0\0");
    let refused = |line: &str| shell(&world, line).run().code(2).err().to_owned();
    let said = refused("aishctl ask -f bin.dat why");
    assert!(
        said.contains("bin.dat holds no text\nhint: strings bin.dat | aishctl ask ... sends what can be read of it"),
        "{said}"
    );
    let said = refused("aishctl ask why < old.gz");
    assert!(
        said.contains("stdin is gzip data, which is no text"),
        "{said}"
    );
    assert_eq!(0, upstream.requests().len());
    upstream.finish();
}

#[test]
fn what_cannot_be_asked_says_why() {
    let (upstream, world, _daemon) = world();
    for (line, said) in [
        (
            "aishctl ask </dev/null",
            "nothing to ask\nhint: aishctl ask \"why?\"",
        ),
        ("aishctl ask <&-", "nothing to ask"),
        ("aishctl ask ''", "nothing to ask"),
        ("aishctl ask -f none.txt why", "cannot read none.txt"),
        ("aishctl ask -f . why", "cannot read .: "),
        ("aishctl ask --no-stdin -", "`-` is stdin"),
        ("aishctl ask --nonsense", "unexpected argument '--nonsense'"),
        ("aishctl ask --json --jsonl x", "cannot be used with"),
        ("aishctl ask --timeout soon x", "soon"),
        ("aishctl ask why < .", "cannot read stdin"),
    ] {
        if line.ends_with("<&-") && surroundings::is_clock_moved() {
            // A file of the library that moves the clock stands in the place of a closed stdin.
            continue;
        }
        let finished = shell(&world, line).run();
        assert!(matches!(finished.code, 1 | 2), "{}", finished.report());
        assert!(finished.err().contains(said), "{line}: {}", finished.err());
        assert_eq!("", finished.out(), "{line}");
    }
    assert_eq!(0, upstream.requests().len());
}

#[test]
fn what_never_ends_is_an_error() {
    let world = World::new();
    for line in ["yes | aishctl ask", "yes | aishctl ask why"] {
        let refused = shell(&world, line).run().code(7);
        assert!(
            refused
                .err()
                .contains("stdin does not end: more than 256 MiB were read"),
            "{}",
            refused.report()
        );
    }
}
