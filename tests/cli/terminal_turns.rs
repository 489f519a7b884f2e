//! A turn and conversations as a person at a terminal sees and handles them: calls in frames, the row that changes, a
//! question that is asked anew in a branch, a list to pick from, and the clipboard.

use aish_testkit::{Answer, Daemon, Screen, Upstream, World};
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
