//! A turn and conversations as a person at a terminal sees and handles them: calls in frames, the row that changes, a
//! question that is asked anew in a branch, a list to pick from, and the clipboard.

use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Daemon, Screen, Upstream, World, built};
use serde_json::json;

use crate::terminal::{open, wait_typed, world};

/// The prompt of this conversation stands, and nothing runs.
#[track_caller]
fn wait_prompt(screen: &Screen, conversation: &str) {
    let prompt = format!("{conversation} · test ○");
    screen.wait_rows(&format!("the prompt {prompt}"), |rows| {
        rows.last().is_some_and(|it| *it == prompt)
    });
}

fn calling() -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::new();
    world.write_config(&format!(
        "{}\n[tools]\nbuiltin = true\n[mcp.auto_approve]\n\"aish__time\" = true\n",
        upstream.config("test")
    ));
    let daemon = world.daemon().spawn();
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    (upstream, world, daemon)
}

#[test]
fn a_call_stands_in_a_frame_with_the_head_of_its_result() {
    let (upstream, world, _daemon) = calling();
    upstream.answer(Answer::stream().then_call(0, "call_1", "aish__time", "{\"zone\":\"utc\"}"));
    upstream.answer(Answer::text("Late."));
    let mut screen = open(&world, 80, 24);
    screen.key("what time is it?\r");
    screen.wait_for("Late.");
    wait_prompt(&screen, "proj");
    let rows = screen.rows();
    let begins = "  ┌ aish__time zone=utc · mcp.auto_approve aish__time";
    let at = rows.iter().position(|it| it == begins);
    let at = at.unwrap_or_else(|| panic!("{rows:#?}"));
    assert!(rows[at + 1].starts_with("  │ "), "{rows:#?}");
    assert!(
        rows.iter().any(|it| it.starts_with("  └ ok · ")),
        "{rows:#?}"
    );
    // The same afterwards, and what a script is shown of it.
    let log = world.ctl(&["log", "proj"]).run().ok();
    assert!(log.out().contains(begins), "{}", log.report());
    screen.key(":result last\r");
    wait_prompt(&screen, "proj");
}

#[test]
fn what_is_thought_is_one_row_while_it_lasts() {
    let (upstream, world, _daemon) = world();
    let mut screen = open(&world, 80, 24);
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    screen.key("why?\r");
    gate.delta(&json!({"reasoning_content": "I look at\nthe linker"}));
    screen.wait_for("thinking 0 s · I look at the linker");
    screen.key("typed meanwhile");
    screen.wait_line("proj · test ● typed meanwhile");
    screen.wait_for("thinking 1 s · I look at the linker");
    gate.delta(&json!({"reasoning_content": " first."}));
    screen.wait_for("I look at the linker first.");
    gate.text("It is the linker.\n");
    gate.finish();
    screen.wait_for("It is the linker.");
    wait_typed(&screen, "typed meanwhile");
    let rows = screen.rows().join("\n");
    assert!(!rows.contains("thinking"), "{rows}");
    // Ctrl-U takes the line away.
    screen.key("\u{15}:thinking\r");
    screen.wait_for("I look at");
    screen.wait_for("the linker first.");
    screen.key(":thinking on\r");
    screen.wait_for("what models think is shown as it comes");
    upstream.answer(Answer::stream().then_reasoning("a plan").then_text("done"));
    screen.key("and now?\r");
    screen.wait_for("  ~ a plan");
    wait_prompt(&screen, "proj");
}

#[test]
fn the_last_question_is_asked_anew_in_a_branch() {
    let (upstream, world, _daemon) = world();
    upstream.answer_with(|request| Answer::text(&format!("To {}.", request.question())));
    let mut screen = open(&world, 80, 24);
    screen.key(":edit\r");
    screen.wait_for("[aish] nothing has been asked here yet");
    for text in ["one", "two"] {
        screen.key(&format!("{text}\r"));
        screen.wait_for(&format!("To {text}."));
        wait_prompt(&screen, "proj");
    }
    screen.key(":edit\r");
    wait_typed(&screen, ":edit two");
    screen.key(" thirds\r");
    screen.wait_for(
        "[aish] asked anew in a branch; what was answered before stays in proj (:switch)",
    );
    screen.wait_for("[aish] attached to proj (fork) (");
    screen.wait_for("To two thirds.");
    let requests = upstream.requests();
    let last = requests.last().unwrap().messages();
    let asked: Vec<&str> = last
        .iter()
        .filter(|it| it.0 == "user")
        .map(|it| it.1.as_str())
        .collect();
    assert_eq!(vec!["one", "two thirds"], asked);
    let before = world.ctl(&["log", "proj"]).run().ok();
    assert!(before.out().contains("To two."), "{}", before.report());
    // Again from the branch, and in one line.
    wait_prompt(&screen, "proj (fork)");
    screen.key(":edit three\r");
    screen.wait_for("[aish] attached to proj (fork 2) (");
    screen.wait_for("To three.");
    let tree = world.ctl(&["conv", "ls", "--tree"]).run().ok();
    let titles: Vec<&str> = tree
        .out()
        .lines()
        .skip(1)
        .map(|it| {
            it.trim_start_matches("○  ")
                .split("  now")
                .next()
                .unwrap()
                .trim_end()
        })
        .collect();
    assert_eq!(
        vec!["proj", "└ proj (fork)", "  └ proj (fork 2)"],
        titles,
        "{}",
        tree.report()
    );
}

/// A question that is too long for the line is edited where there is room for it.
#[test]
fn a_long_question_is_edited_in_an_editor() {
    let (upstream, world, _daemon) = world();
    upstream.answer_with(|request| Answer::text(&format!("{} bytes.", request.question().len())));
    let editor = world.path("editor.sh");
    world.write("editor.sh", "sed -i s/word/WORDS/g \"$1\"\n");
    let line = format!("VISUAL='sh {}' exec aish proj", editor.display());
    let text = crate::shell::in_shell(&line);
    let mut screen = Screen::spawn(
        &world,
        std::path::Path::new("/bin/sh"),
        &["-c", &text],
        80,
        24,
    );
    wait_prompt(&screen, "proj");
    let question = "word ".repeat(200);
    screen.key(&format!("{}\r", question.trim()));
    screen.wait_for("999 bytes.");
    wait_prompt(&screen, "proj");
    screen.key(":edit\r");
    screen.wait_for("1199 bytes.");
    wait_prompt(&screen, "proj (fork)");
}

/// What went along with the question goes along again, and a question that is too long for a line of the wire is found.
#[test]
fn what_went_along_goes_along_with_the_edited_question() {
    let (upstream, world, _daemon) = world();
    upstream.answer_with(|_| Answer::text("Yes."));
    world.write("work/notes.txt", "first notes");
    let long = "long ".repeat(120_000);
    let asked = ["ask", "-C", "proj", "-f", "notes.txt", "is it here?"];
    drop(world.ctl(&asked).run().ok());
    let mut screen = open(&world, 80, 24);
    screen.key(":edit\r");
    wait_typed(&screen, ":edit is it here?");
    screen.key("\u{15}:edit and now?\r");
    screen.wait_for("[aish] attached notes.txt (11 bytes)");
    screen.wait_for("[aish] attached to proj (fork) (");
    let question = upstream.wait_requests(2).question();
    assert!(
        question.starts_with("and now?\n") && question.contains("first notes"),
        "{question}"
    );
    wait_prompt(&screen, "proj (fork)");
    screen.key("\u{4}");
    assert_eq!(0, screen.wait_end());
    drop(
        world
            .ctl(&["ask", "--accept-cost", "-C", "proj", "-"])
            .stdin(long.as_str())
            .run()
            .ok(),
    );
    let editor = world.path("editor.sh");
    world.write(
        "editor.sh",
        "wc -c <\"$1\" >\"$HOME/bytes\"\necho short >\"$1\"\n",
    );
    let line = format!("VISUAL='sh {}' exec aish proj", editor.display());
    let mut screen = on_screen(&world, &line);
    wait_prompt(&screen, "proj");
    screen.key(":edit\r");
    screen.wait_for("› short");
    let question = upstream.wait_requests(4).question();
    assert_eq!("short", question);
    let bytes = std::fs::read_to_string(world.path("home/bytes")).unwrap();
    let bytes: usize = bytes.trim().parse().unwrap();
    assert!(bytes + 1 >= long.len(), "{bytes} of {}", long.len());
}

/// A line of a shell on a screen.
fn on_screen(world: &World, line: &str) -> Screen {
    let text = crate::shell::in_shell(line);
    Screen::spawn(
        world,
        std::path::Path::new("/bin/sh"),
        &["-c", &text],
        80,
        24,
    )
}

/// A text that the daemon did not take is not lost.
#[test]
fn a_question_that_was_not_sent_is_brought_back() {
    let (upstream, world, _daemon) = world();
    upstream.answer_with(|request| Answer::text(&format!("To {}.", request.question())));
    let mut screen = open(&world, 80, 24);
    screen.key("one\r");
    screen.wait_for("To one.");
    wait_prompt(&screen, "proj");
    // A file that is named so has to be there.
    screen.key(":edit look at @./gone\r");
    screen.wait_for("[aish] the text is kept; :edit brings it back");
    wait_prompt(&screen, "proj");
    screen.key(":edit\r");
    wait_typed(&screen, ":edit look at @./gone");
    world.write("work/gone", "it is here");
    screen.key("\r");
    screen.wait_for("[aish] attached to proj (fork) (");
    let question = upstream.wait_requests(2).question();
    assert!(question.contains("it is here"), "{question}");
}

/// Whoever looks at a list has his own screen back, whatever ends the program.
#[test]
fn a_signal_in_the_list_gives_the_screen_back() {
    let (_upstream, world, _daemon) = world();
    let mut screen = open(&world, 60, 12);
    screen.key(":switch\r");
    screen.wait_for("1 of 1 · Enter opens, Esc leaves");
    screen.signal(rustix::process::Signal::TERM);
    assert_eq!(143, screen.wait_end());
    assert!(screen.is_as_before());
    let rows = screen.rows();
    let shows_window = rows
        .iter()
        .any(|it| it.contains("[aish] attached to proj ("));
    assert!(shows_window, "{rows:#?}");
    let mut screen = Screen::spawn(&world, &built("aish"), &["--pick"], 60, 12);
    screen.wait_for("1 of 1 · Enter opens, Esc leaves");
    screen.signal(rustix::process::Signal::TERM);
    assert_eq!(143, screen.wait_end());
    assert!(screen.is_as_before());
    // What the program wrote last may be read after its end.
    until_true("the screen is given back", || {
        String::from_utf8_lossy(&screen.bytes()).contains("\u{1b}[?1049l")
    });
}

/// A tmux that does not answer is not waited for.
#[test]
fn a_tmux_that_hangs_holds_no_copy() {
    let (upstream, world, _daemon) = world();
    upstream.answer(Answer::text("an answer"));
    world.write("bin/tmux", "#!/bin/sh\nexec sleep 1000\n");
    let tmux = world.path("bin/tmux");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&tmux, executable).unwrap();
    let folder = tmux.parent().unwrap().display().to_string();
    let line = format!("PATH={folder}:$PATH TMUX=/nowhere,1,0 exec aish proj");
    let mut screen = on_screen(&world, &line);
    wait_prompt(&screen, "proj");
    screen.key("how?\r");
    screen.wait_for("an answer");
    wait_prompt(&screen, "proj");
    screen.key(":copy\r");
    screen.wait_for("[aish] copied: 1 line, 9 bytes");
    let bytes = String::from_utf8_lossy(&screen.bytes()).into_owned();
    assert!(bytes.contains("\u{1b}]52;c;"), "{bytes:?}");
}

#[test]
fn a_conversation_is_picked_from_a_list() {
    let (_upstream, world, _daemon) = world();
    for title in ["holiday plan", "linker trouble"] {
        drop(world.ctl(&["conv", "new", title]).run().ok());
    }
    let mut screen = open(&world, 60, 12);
    screen.key(":switch\r");
    screen.wait_for("3 of 3 · Enter opens, Esc leaves");
    screen.key("hopl");
    screen.wait_for("1 of 3 · Enter opens, Esc leaves");
    let rows = screen.rows();
    assert_eq!("switch to: hopl", rows[0]);
    assert!(rows[1].starts_with("> ○  holiday plan"), "{rows:#?}");
    screen.key("\r");
    screen.wait_for("[aish] attached to holiday plan (");
    wait_prompt(&screen, "holiday plan");
    screen.key(":switch\r");
    screen.wait_for("3 of 3");
    screen.key("\u{1b}");
    wait_prompt(&screen, "holiday plan");
    screen.key("typed on");
    screen.wait_line("holiday plan · test ○ typed on");
    screen.key("\u{15}\u{4}");
    assert_eq!(0, screen.wait_end());
    assert!(screen.is_as_before());
}

#[test]
fn an_answer_and_its_code_go_into_the_clipboard() {
    let (upstream, world, _daemon) = world();
    upstream.answer(Answer::text(
        "So:\n```sh\nls -l\n```\nand\n```\nb\u{1b}c\n```\n",
    ));
    let mut screen = open(&world, 80, 24);
    screen.key(":copy\r");
    screen.wait_for("[aish] there is no answer here yet");
    screen.key("how?\r");
    wait_prompt(&screen, "proj");
    screen.wait_for("and");
    screen.key("/copy code\r");
    screen.wait_for("[aish] copied: 1 line, 3 bytes");
    let bytes = String::from_utf8_lossy(&screen.bytes()).into_owned();
    assert!(bytes.contains("\u{1b}]52;c;YmMK\u{7}"), "OSC 52 with `bc`");
    screen.key(":copy\r");
    screen.wait_for("[aish] copied: 8 lines, ");
}

#[test]
fn a_slash_is_a_colon_but_a_path_is_a_question() {
    let (upstream, world, _daemon) = world();
    upstream.answer_with(|request| Answer::text(&format!("To {}", request.question())));
    let mut screen = open(&world, 80, 24);
    screen.key("/conv ls\r");
    screen.wait_for("title");
    screen.key("/etc/passwd says what?\r");
    screen.wait_for("To /etc/passwd says what?");
    screen.key("/nonsense at all\r");
    screen.wait_for("as a question: :ask nonsense at all");
    screen.key("?\r");
    screen.wait_for("a plain line is a question");
    assert_eq!(1, upstream.requests().len());
}
