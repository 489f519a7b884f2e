//! `aishctl result`: what is kept of tools' results, on stdout or in a file.

use std::fs;
use std::path::Path;

use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Daemon, Screen, Upstream, World, repository};
use serde_json::json;

use crate::shell::{SETSID, session_on_screen, shell, shell_on_terminal};

const LIST: &str = r#"[{"id": "all", "method": "tools/call", "params": {"name": "notes__list", "arguments": {}}}]"#;

/// A daemon with a conversation in which a tool has shown a note and a picture, and their ids.
fn shown() -> (World, Daemon, String, String) {
    let world = World::new();
    let script = repository::top().join("tests/data/mcp/stdio_server.py");
    world.write_config(&format!(
        "[mcp.servers.notes]\ncommand = \"python3\"\nargs = [{script:?}, \"example\"]\n"
    ));
    world.write("work/list.json", LIST);
    let daemon = world.daemon().spawn();
    until_true("notes is ready", || {
        let servers = shell(&world, "aishctl mcp ls").run();
        servers.out().contains("ready")
    });
    let ran = shell(
        &world,
        "aishctl tools run list.json --confirm=allow:notes__*",
    );
    let ran = ran.run().ok();
    let id_after = |line: &str| {
        let rest = ran.out().split_once(line).expect("the line").1;
        rest.split_whitespace().next().unwrap().to_owned()
    };
    let note = id_after("[resource note://1 text/plain 8 B] kept as ");
    let picture = id_after("[image image/gif 42 B] kept as ");
    assert!(
        ran.err().contains("it is kept: aishctl result"),
        "{}",
        ran.report()
    );
    (world, daemon, note, picture)
}

#[test]
fn what_a_tool_has_shown_is_listed_read_and_saved() {
    let (world, _daemon, note, picture) = shown();
    let listed = shell(&world, "aishctl result").run().ok();
    for row in [
        format!("{note}  resource  text/plain  8      notes__list  note://1\n"),
        format!("{picture}  image     image/gif   42     notes__list\n"),
    ] {
        assert!(listed.out().contains(&row), "{}", listed.report());
    }
    let read = shell(&world, &format!("aishctl result {note}")).run().ok();
    assert_eq!("buy milk\n", read.out());

    let refused = shell(&world, &format!("aishctl result {picture}")).run();
    let refused = refused.code(2);
    assert_eq!("", refused.out());
    let hint = format!("hint: aishctl result {picture} --output FILE");
    assert!(refused.err().contains(&hint), "{}", refused.report());

    let save = format!("aishctl result {picture} --output a.gif");
    let saved = shell(&world, &save).run().ok();
    assert_eq!("42 bytes written to a.gif\n", saved.out());
    let bytes = fs::read(world.path("work/a.gif")).unwrap();
    assert!(bytes.starts_with(b"GIF89a") && bytes.len() == 42);
    // What is there already stays, unless it may go.
    fs::write(world.path("work/a.gif"), "mine").unwrap();
    let refused = shell(&world, &save).run().code(1);
    assert!(
        refused.err().contains("hint: --force"),
        "{}",
        refused.report()
    );
    assert_eq!(
        "mine",
        fs::read_to_string(world.path("work/a.gif")).unwrap()
    );
    let saved = shell(&world, &format!("{save} --force")).run().ok();
    assert_eq!("42 bytes written to a.gif\n", saved.out());
    assert_eq!(bytes, fs::read(world.path("work/a.gif")).unwrap());

    let json = shell(&world, &format!("aishctl --json result {picture}"));
    let json = json.run().ok().json();
    assert_eq!(
        ("base64", "image/gif", 42),
        (
            json["encoding"].as_str().unwrap(),
            json["mimeType"].as_str().unwrap(),
            json["bytes"].as_u64().unwrap()
        )
    );
    let nobody = shell(&world, "aishctl result 01ARZ3NDEKTSV4RRFFQ69G5FAV").run();
    assert!(nobody.code(8).err().contains("hint: aishctl result"));
    let nothing = shell(&world, "aishctl result ../../x").run().code(8);
    assert_eq!("", nothing.out());
}

#[test]
fn a_picture_is_drawn_where_the_terminal_can() {
    let (world, _daemon, _, picture) = shown();
    let line = |terminal: &str| format!("{terminal} aishctl result {picture}; echo ended $?");
    let mut drawn = shell_on_terminal(&world, &line("TERM=xterm-256color TERM_PROGRAM=iTerm.app"));
    drawn.wait_for("ended 0");
    let begins = "\u{1b}]1337;File=inline=1;size=42;height=24;preserveAspectRatio=1:R0lGODlh";
    assert!(drawn.seen().contains(begins), "{:?}", drawn.seen());
    assert_eq!(0, drawn.wait());
    // Kitty takes no GIF: it gets the pixels.
    let mut drawn = shell_on_terminal(&world, &line("TERM=xterm-kitty"));
    drawn.wait_for("ended 0");
    let begins = "\u{1b}_Ga=T,f=100,q=2,C=1,c=1,r=1,m=0;iVBOR";
    assert!(drawn.seen().contains(begins), "{:?}", drawn.seen());
    assert_eq!(0, drawn.wait());
    // Nothing of what is written for another terminal gets through tmux.
    for terminal in [
        "TERM=xterm-256color TERM_PROGRAM=iTerm.app TMUX=x",
        "TERM=xterm-256color TERM_PROGRAM=iTerm.app AISH_PLAIN=1",
    ] {
        let named = shell_on_terminal(&world, &line(terminal));
        named.wait_for("ended 2");
        let seen = named.seen();
        assert!(
            seen.contains("is image/gif, 42 bytes") && !seen.contains("]1337"),
            "{seen}"
        );
    }
}

/// An answer may have nothing else.
#[test]
fn what_a_model_drew_is_named_listed_and_saved() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let url = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";
    let delta = json!({"images": [{"type": "image_url", "image_url": {"url": url}}]});
    upstream.answer(Answer::stream().then_delta(&delta));
    upstream.answer(Answer::stream().then_delta(&delta));
    let _daemon = world.daemon().spawn();
    let asked = shell(&world, "aishctl ask draw").run().ok();
    let row = "the model made a picture · image/gif · 42 bytes · aishctl result ";
    let told = asked.err();
    let id = told.split_once(row).expect(told).1;
    let id = id.split_whitespace().next().unwrap().to_owned();
    assert_eq!("", asked.out());
    let listed = shell(&world, "aishctl result").run().ok();
    let listed_row = format!("{id}  image  image/gif  42     the model\n");
    assert!(listed.out().contains(&listed_row), "{}", listed.report());
    let save = format!("aishctl result {id} --output a.gif");
    drop(shell(&world, &save).run().ok());
    assert!(
        fs::read(world.path("work/a.gif"))
            .unwrap()
            .starts_with(b"GIF89a")
    );
    let report = shell(&world, "aishctl ask --json draw").run().ok().json();
    assert_eq!("image/gif", report["pictures"][0]["mimeType"], "{report}");
}

#[test]
fn no_byte_of_a_picture_reaches_a_terminal() {
    let (world, _daemon, _, picture) = shown();
    let screen = shell_on_terminal(&world, &format!("aishctl result {picture}; echo ended $?"));
    screen.wait_for("ended 2");
    let seen = screen.seen();
    assert!(
        seen.contains("is image/gif, 42 bytes") && !seen.contains("GIF89a"),
        "{seen}"
    );
}

/// `aishctl result` of a chart in a session whose terminal answers like this.
#[track_caller]
fn chart_on(answers: &[(&str, &str)], config: &str, ends: &str) -> Screen {
    let world = World::new();
    let script = repository::top().join("tests/data/mcp/stdio_server.py");
    world.write_config(&format!(
        "[mcp.servers.notes]\ncommand = \"python3\"\nargs = [{script:?}, \"chart\"]\n{config}"
    ));
    world.write(
        "work/chart.json",
        &LIST.replace("notes__list", "notes__chart"),
    );
    let _daemon = world.daemon().spawn();
    until_true("notes is ready", || {
        shell(&world, "aishctl mcp ls")
            .run()
            .out()
            .contains("ready")
    });
    let run = "aishctl tools run chart.json --confirm=allow:notes__*";
    let ran = shell(&world, run).run().ok();
    let id = ran.out().split_once(" B] kept as ").expect("its id").1;
    let id = id.split_whitespace().next().unwrap();
    let line = format!("aishctl result {id}; echo ended $?");
    let screen = session_on_screen(&world, &line);
    screen.answers(answers);
    screen.wait_for(ends);
    screen
}

#[test]
fn a_terminal_that_says_so_gets_sixels() {
    if !Path::new(SETSID).exists() {
        println!("skipped: there is no {SETSID}");
        return;
    }
    let answers = [
        ("\u{1b}[c", "\u{1b}[?62;4;22c"),
        (
            "\u{1b}[?1;1;0S\u{1b}[16t\u{1b}[c",
            "\u{1b}[?1;0;16S\u{1b}[6;16;8t\u{1b}[?62;4;22c",
        ),
    ];
    let screen = chart_on(&answers, "", "ended 0");
    // Its two rows are free, and what comes next stands below.
    assert_eq!(vec!["", "", "ended 0"], screen.rows());
    let bytes = String::from_utf8(screen.bytes()).unwrap();
    let (_, sixels) = bytes
        .split_once("\u{1b}P0;1;0q\"1;1;64;32#")
        .expect("sixels");
    let (sixels, _) = sixels.split_once("\u{1b}\\").expect("their end");
    let colours = "0;2;100;0;0#1;2;0;100;0#2;2;0;0;100#0!32~$#1!32?!32~$-";
    assert!(sixels.starts_with(colours), "{sixels}");

    let screen = chart_on(&[("\u{1b}[c", "\u{1b}[?1;2c")], "", "ended 2");
    assert!(screen.rows()[0].contains(" is image/png, "));
    let off = chart_on(&answers, "[ui]\npictures = false\n", "ended 2");
    for asked in ["\u{1b}[c", "\u{1b}P"] {
        let bytes = String::from_utf8(off.bytes()).unwrap();
        assert!(!bytes.contains(asked), "{bytes:?}");
    }
}
