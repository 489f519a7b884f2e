//! `export` and `import` as people and scripts use them: files, pipes, a pager, huge histories.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use aish_testkit::{Daemon, Upstream, World, disk};
use serde_json::{Value, json};

use crate::shell::{shell, shell_on_terminal};

fn world() -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    (upstream, world, daemon)
}

fn example(number: usize, text: &str) -> String {
    json!({"messages": [
        {"role": "user", "content": format!("question {number}")},
        {"role": "assistant", "content": text},
    ]})
    .to_string()
        + "\n"
}

#[track_caller]
fn runs(world: &World, line: &str) -> String {
    shell(world, line).run().ok().out().to_owned()
}

#[test]
fn what_is_exported_is_imported_and_exported_the_same() {
    let (upstream, world, _daemon) = world();
    runs(
        &world,
        "aishctl ask 'why does it fail?' && aishctl ask --last 'and now?'",
    );
    let first = runs(&world, "aishctl export --format jsonl");
    assert_eq!(2, first.lines().count(), "{first}");
    let id = runs(
        &world,
        "aishctl export --format jsonl | aishctl import - --title again",
    );
    let again = runs(&world, &format!("aishctl export --jsonl {id}"));
    assert_eq!(first, again);
    let named = runs(&world, "aishctl export again --format md");
    assert!(
        named.starts_with("# again\n") && named.contains("> "),
        "{named}"
    );
    let document: Value =
        serde_json::from_str(&runs(&world, "aishctl export again --json")).unwrap();
    assert_eq!(
        (json!(1), json!("again")),
        (
            document["v"].clone(),
            document["conversation"]["title"].clone()
        )
    );
    let cast = runs(&world, "aishctl export --format cast again");
    let header: Value = serde_json::from_str(cast.lines().next().unwrap()).unwrap();
    assert_eq!(json!(2), header["version"]);
    assert!(cast.lines().count() > 1, "{cast}");
    let told = shell(&world, "aishctl export again --jsonl | aishctl import -")
        .run()
        .ok();
    assert!(
        told.err().contains("imported 4 messages in 2 exchanges"),
        "{}",
        told.report()
    );
    upstream.finish();
}

#[test]
fn a_file_is_written_whole_and_belongs_to_nobody_else() {
    let (upstream, world, _daemon) = world();
    runs(&world, "aishctl ask hello");
    runs(&world, "umask 000; aishctl export -o out.md");
    let file = world.path("work/out.md");
    assert_eq!(0o600, file.metadata().unwrap().permissions().mode() & 0o777);
    let whole = fs::read_to_string(&file).unwrap();
    let refused = shell(&world, "aishctl export -o out.md").run().code(1);
    assert!(
        refused.err().contains("hint: --force"),
        "{}",
        refused.report()
    );
    runs(&world, "aishctl export -o out.md --force");
    assert_eq!(whole, fs::read_to_string(&file).unwrap());
    let nowhere = shell(&world, "aishctl export -o no/such/out.md")
        .run()
        .code(1);
    assert!(
        nowhere.err().contains("cannot write"),
        "{}",
        nowhere.report()
    );
    let nobody = shell(&world, "aishctl export nobody").run();
    assert!(nobody.code(8).err().contains("unknown conversation"));
    upstream.finish();
}

#[test]
fn bad_input_is_told_with_its_place_and_makes_nothing() {
    let (upstream, world, _daemon) = world();
    let good = example(1, "so");
    for (bytes, code, told) in [
        (
            b"nonsense".to_vec(),
            1,
            "bad.jsonl: line 1, column 1: a JSON object was expected here",
        ),
        (
            [good.as_bytes(), b"{\"role\":\"user\",\"content\":\"\xff\"}"].concat(),
            1,
            "bad.jsonl: line 2, column 27: this is not UTF-8",
        ),
        (
            vec![],
            1,
            "bad.jsonl: line 1, column 1: there is no message in it",
        ),
        (
            [
                good.as_bytes(),
                b"{\"messages\":[{\"role\":\"tool\",\"tool_call_id\":\"x\",\"content\":\"\"}]}",
            ]
            .concat(),
            1,
            "bad.jsonl: line 2, column 14: no call \"x\" waits for this result",
        ),
    ] {
        fs::write(world.path("work/bad.jsonl"), bytes).unwrap();
        let refused = shell(&world, "aishctl import bad.jsonl").run().code(code);
        assert!(refused.err().contains(told), "{}", refused.report());
        assert_eq!("", refused.out());
    }
    let missing = shell(&world, "aishctl import missing.jsonl").run().code(1);
    assert!(
        missing.err().contains("missing.jsonl"),
        "{}",
        missing.report()
    );
    assert_eq!(
        json!([]),
        shell(&world, "aishctl conv ls --all --json")
            .run()
            .ok()
            .json()["conversations"]
    );
    upstream.finish();
}

/// A gibibyte without a line feed: refused at 32 MiB, by both programs in little memory.
#[test]
fn an_endless_line_is_refused_in_bounded_memory() {
    let (upstream, world, daemon) = world();
    let line = "head -c 1073741824 /dev/zero | tr '\\0' x | (ulimit -v 4000000; aishctl import -)";
    let refused = shell(&world, line)
        .limit(Duration::from_secs(120))
        .run()
        .code(7);
    assert!(
        refused
            .err()
            .contains("-: line 1, column 1: a line has at most 33554432 bytes"),
        "{}",
        refused.report()
    );
    assert!(
        daemon.peak_rss_kib() < 160 << 10,
        "{} KiB",
        daemon.peak_rss_kib()
    );
    upstream.finish();
}

#[test]
fn a_reader_that_goes_away_ends_an_export_in_silence() {
    let (upstream, world, _daemon) = world();
    let text: String = (0..60).map(|it| example(it, &"x".repeat(50_000))).collect();
    fs::write(world.path("work/long.jsonl"), text).unwrap();
    runs(&world, "aishctl import long.jsonl --title long");
    for format in ["md", "jsonl", "json", "cast"] {
        let line =
            format!("(aishctl export long --format {format}; echo $? >&2) | head -c 10 >/dev/null");
        let ended = shell(&world, &line).run().ok();
        assert_eq!("141\n", ended.err(), "{format}");
        let counted = runs(
            &world,
            &format!("aishctl export long --format {format} | wc -c"),
        );
        assert!(
            counted.trim().parse::<u64>().unwrap() > 2_900_000,
            "{format}: {counted}"
        );
    }
    upstream.finish();
}

/// An export goes on with the next daemon, from where it was.
#[test]
fn a_daemon_that_ends_is_waited_for() {
    let (upstream, world, daemon) = world();
    let text: String = (0..200)
        .map(|it| example(it, &"x".repeat(50_000)))
        .collect();
    fs::write(world.path("work/long.jsonl"), &text).unwrap();
    runs(&world, "aishctl import long.jsonl --title long");
    let mut running = shell(
        &world,
        "aishctl export long --jsonl | (head -c 1; sleep 1; cat) > out.jsonl; echo done",
    )
    .spawn();
    aish_testkit::wait::until_true("it has begun", || {
        world
            .path("work/out.jsonl")
            .metadata()
            .is_ok_and(|it| it.len() > 0)
    });
    daemon.kill9();
    let _daemon = world.daemon().spawn();
    running.close_stdin();
    assert_eq!("done\n", running.wait().ok().out());
    let values = |text: &str| -> Vec<Value> {
        text.lines()
            .map(|it| serde_json::from_str(it).unwrap())
            .collect()
    };
    let exported = fs::read_to_string(world.path("work/out.jsonl")).unwrap();
    assert!(
        values(&text) == values(&exported),
        "{} bytes",
        exported.len()
    );
    upstream.finish();
}

#[test]
fn a_full_disk_leaves_no_file() {
    let (upstream, world, _daemon) = world();
    runs(&world, "aishctl ask hello");
    fs::create_dir(world.path("full")).unwrap();
    let Some(small) = disk::Small::mount(&world.path("full"), 1 << 20) else {
        return;
    };
    small.fill();
    let place = world.path("full/out.json");
    let line = format!("aishctl export --json -o {}", place.display());
    let refused = shell(&world, &line).run().code(1);
    assert!(
        refused.err().contains("cannot write"),
        "{}",
        refused.report()
    );
    let left: Vec<_> = fs::read_dir(world.path("full"))
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    assert!(
        !left.iter().any(|it| it.to_string_lossy().contains("out")
            || it.to_string_lossy().contains("aish-export")),
        "{left:?}"
    );
    upstream.finish();
}

/// Tool output and answers are hostile: on a screen there is text, whatever the form.
#[test]
fn no_escape_reaches_a_terminal_or_a_pipe() {
    let (upstream, world, _daemon) = world();
    let hostile = example(1, "a\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}visible");
    fs::write(world.path("work/hostile.jsonl"), hostile).unwrap();
    runs(&world, "aishctl import hostile.jsonl --title hostile");
    for format in ["md", "jsonl", "json", "cast"] {
        let piped = runs(&world, &format!("aishctl export hostile --format {format}"));
        let wild = |it: char| it.is_control() && !matches!(it, '\n' | '\t');
        assert!(
            !piped.contains(wild) && piped.contains("visible"),
            "{format}: {piped:?}"
        );
        let line = format!("aishctl export hostile --no-pager --format {format}; echo ended $?");
        let screen = shell_on_terminal(&world, &line);
        screen.wait_for("ended 0");
        let seen = screen.seen();
        assert!(
            seen.contains("visible") && !seen.contains("\u{1b}]0") && !seen.contains('\u{202e}'),
            "{format}: {seen:?}"
        );
    }
    let paged = shell_on_terminal(
        &world,
        "TERM=xterm AISH_PAGER='tr a-z A-Z' aishctl export hostile; echo ended $?",
    );
    paged.wait_for("ended 0");
    assert!(paged.seen().contains("# HOSTILE"), "{}", paged.seen());
    upstream.finish();
}
