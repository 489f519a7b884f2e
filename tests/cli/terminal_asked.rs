//! `aish` on a terminal when a model wants to do something: the question among the rows, the words and keys that answer
//! it, and what does not.

use std::time::{Duration, Instant};

use aish_testkit::wait::{PATIENCE, until};
use aish_testkit::{Answer, Daemon, Screen, Upstream, World, built};

use crate::terminal::open;

/// What is typed sooner after a question was drawn is no answer.
const GUARD: Duration = Duration::from_millis(300);

/// The model wants to know the time for each question, and then says "Noted.".
fn world() -> (Upstream, World, Daemon) {
    world_with("")
}

fn world_with(more: &str) -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::new();
    let config = upstream.config("test");
    world.write_config(&format!("{config}\n[tools]\nbuiltin = true\n{more}"));
    upstream.answer_with(|request| match request.messages().last() {
        Some((role, _)) if role == "user" => {
            Answer::stream().then_call(0, "call_1", "aish__time", "{}")
        }
        Some(_) | None => Answer::text("Noted."),
    });
    let daemon = world.daemon().spawn();
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    (upstream, world, daemon)
}

/// Waits for a question and for the moment in which nothing answers it.
#[track_caller]
pub(crate) fn wait_asked(screen: &Screen, name: &str, tool: &str) {
    screen.wait_for(&format!("? {name}  {tool}"));
    screen.wait_for("Alt-y or Alt-n any time");
    let seen = Instant::now();
    until("the end of the guard", PATIENCE, || {
        (seen.elapsed() >= GUARD).then_some(())
    });
}

/// What the model was told of its call.
fn told(upstream: &Upstream) -> String {
    let requests = upstream.requests();
    let (role, content) = requests.last().unwrap().messages().pop().unwrap();
    assert_eq!("tool", role);
    content
}

/// What is typed at the question, what the window says, and how the result of the call begins.
#[track_caller]
fn check(typed: &[&str], said: &str, denied_as: Option<&str>) {
    let (upstream, world, _daemon) = world();
    let mut screen = open(&world, 100, 30);
    screen.key("what time is it?\r");
    wait_asked(&screen, "c1", "aish__time");
    screen.wait_rows("the prompt waits", |rows| {
        rows.last().is_some_and(|it| it.ends_with('?'))
    });
    for typed in typed {
        screen.key(typed);
    }
    screen.wait_for(said);
    screen.wait_for("Noted.");
    let told = told(&upstream);
    match denied_as {
        Some(denied) => assert_eq!(denied, told, "{typed:?}"),
        None => assert!(!told.starts_with("[aish]"), "{typed:?}: {told}"),
    }
}

#[test]
fn a_word_or_a_key_answers() {
    check(&["y\r"], "c1 allowed once by ", None);
    check(&["\u{1b}y"], "c1 allowed once by ", None);
    check(&["yes c1\r"], "c1 allowed once by ", None);
    check(&["a\r"], "c1 allowed in this conversation by ", None);
    check(&[":confirm allow c1\r"], "c1 allowed once by ", None);
    check(&["A\r", "A\r"], "c1 allowed with all tools", None);
    check(&["\u{1b}n"], "c1 denied by ", Some("[aish] denied by user"));
    check(&["\r"], "c1 denied by ", Some("[aish] denied by user"));
    check(
        &["n not now\r"],
        "c1 denied by ",
        Some("[aish] denied by user: not now"),
    );
    check(
        &["?\r", "v\r", "no\r"],
        "the tool, as its server describes it",
        Some("[aish] denied by user"),
    );
}

/// A line that was begun before the question stood there is sent as a line; the keys answer.
#[test]
fn what_was_typed_ahead_is_a_line_and_no_answer() {
    let (upstream, world, _daemon) = world();
    let mut asking = open(&world, 100, 30);
    let mut other = open(&world, 100, 30);
    other.key("yikes");
    other.wait_rows("the line", |rows| {
        rows.last().is_some_and(|it| it.ends_with("○ yikes"))
    });
    asking.key("what time is it?\r");
    for screen in [&asking, &other] {
        wait_asked(screen, "c1", "aish__time");
    }
    other.key("\r");
    other.wait_for("[aish] c1 waits (y, n, n WHY, ?): this is asked after it");
    other.wait_for("[aish] queued #1 from you");
    assert_eq!(1, upstream.requests().len(), "nothing was allowed");
    other.key("half a line\u{1b}n");
    for screen in [&asking, &other] {
        screen.wait_for("c1 denied by ");
        // The line that waited is asked now.
        screen.wait_for("? c2  aish__time");
    }
    other.wait_rows("the line stays", |rows| {
        rows.last().is_some_and(|it| it.ends_with("half a line"))
    });
}

/// What would answer, but was begun before the question stood there, is no answer; and nobody meant it for a model.
#[test]
fn an_answer_that_was_typed_ahead_is_said_to_be_none_and_asks_nobody() {
    for word in ["no", "y", "n not now"] {
        let (upstream, world, _daemon) = world();
        let mut asking = open(&world, 100, 30);
        let mut other = open(&world, 100, 30);
        other.key(word);
        other.wait_rows("the line", |rows| {
            rows.last()
                .is_some_and(|it| it.ends_with(&format!("○ {word}")))
        });
        asking.key("what time is it?\r");
        wait_asked(&other, "c1", "aish__time");
        other.key("\r");
        other.wait_for(&format!("\"{word}\" was begun before c1 stood there"));
        other.key("n\r");
        other.wait_for("c1 denied by ");
        other.wait_for("Noted.");
        let asked = upstream.requests();
        let users = asked.last().unwrap().messages();
        let users = users.iter().filter(|(role, _)| role == "user").count();
        assert_eq!((2, 1), (asked.len(), users), "{word}");
    }
}

/// A question waits for whoever comes; somebody who may only look is told how others answer.
#[test]
fn a_question_that_waits_stands_on_a_screen_that_comes_later() {
    let (_upstream, world, _daemon) = world();
    let mut asking = open(&world, 100, 30);
    asking.key("what time is it?\r");
    wait_asked(&asking, "c1", "aish__time");
    let mut later = Screen::spawn(&world, &built("aish"), &["proj"], 100, 30);
    let looking = Screen::spawn(&world, &built("aish"), &["proj", "--read-only"], 100, 40);
    looking.wait_for(":confirm allow c1 --digest ");
    wait_asked(&later, "c1", "aish__time");
    later.key("y\r");
    for screen in [&asking, &later, &looking] {
        screen.wait_for("c1 allowed once by ");
        screen.wait_for("Noted.");
    }
}

/// `$EDITOR`, as a script that looks whether it sits at the terminal, and then writes this.
fn editor(world: &World, writes: &str) -> String {
    let script = world.path("work/editor.sh");
    world.write(
        "work/editor.sh",
        &format!(
            "test -t 0 && test -t 1 || exit 3\nprintf 'say go: '\nread answer\necho \"heard $answer\"\necho '{writes}' > \"$1\"\n"
        ),
    );
    format!("[ui]\neditor = \"sh {}\"\n", script.display())
}

/// 3.4: `e` lends the terminal to the editor; what has become of the arguments is shown and asked about, and
/// that is what runs.
#[test]
fn arguments_are_edited_in_the_editor_and_asked_about_again() {
    let (upstream, world, daemon) = world();
    assert_eq!(0, daemon.terminate());
    let config = upstream.config("test");
    let editor = editor(&world, "{\"zone\": \"UTC\"}");
    world.write_config(&format!("{config}\n[tools]\nbuiltin = true\n{editor}"));
    let _daemon = world.daemon().spawn();
    let mut screen = open(&world, 100, 40);
    screen.key("what time is it?\r");
    wait_asked(&screen, "c1", "aish__time");
    screen.key("e\r");
    screen.wait_for("say go:");
    // These keys are the editor's, and none of them answers anything.
    screen.key("y\r");
    screen.wait_for("heard y");
    screen.wait_for("arguments (14 bytes): {\"zone\":\"UTC\"}");
    screen.wait_for("with your arguments: [y]es, once");
    assert_eq!(1, upstream.requests().len(), "nothing ran");
    let drawn = Instant::now();
    until("the end of the guard", PATIENCE, || {
        (drawn.elapsed() >= GUARD).then_some(())
    });
    screen.key("y\r");
    screen.wait_for("c1 allowed with other arguments by ");
    screen.wait_for("Noted.");
    let told = told(&upstream);
    assert!(
        told.starts_with("[aish] the user changed the arguments to {\"zone\":\"UTC\"}"),
        "{told}"
    );
    screen.key("\u{4}");
    assert_eq!(0, screen.wait_end());
    assert!(screen.is_as_before());
}

/// An editor that fails, or leaves no JSON, changes nothing, and a half-typed line is still there.
#[test]
fn an_editor_that_fails_changes_nothing() {
    let (_upstream, world, daemon) = world_with("[ui]\neditor = \"false\"\n");
    let mut screen = open(&world, 100, 40);
    screen.key("what time is it?\r");
    wait_asked(&screen, "c1", "aish__time");
    screen.key("e\r");
    screen.wait_rows("the question, again below what is said", |rows| {
        let said = rows
            .iter()
            .position(|it| it == "[aish] false ended with exit status: 1");
        said.is_some_and(|at| {
            rows[at..]
                .iter()
                .any(|it| it.contains("Alt-y or Alt-n any time"))
        })
    });
    wait_asked(&screen, "c1", "aish__time");
    screen.key("half a line\u{1b}n");
    screen.wait_for("c1 denied by ");
    screen.wait_rows("the line stays", |rows| {
        rows.last().is_some_and(|it| it.ends_with("half a line"))
    });
    drop(daemon);
}

/// Escape is no beginning of an answer that comes later.
#[test]
fn escape_and_then_a_letter_is_not_the_key_of_both() {
    let (upstream, world, _daemon) = world();
    let mut screen = open(&world, 100, 30);
    screen.key("what time is it?\r");
    wait_asked(&screen, "c1", "aish__time");
    screen.key("\u{1b}");
    let pressed = Instant::now();
    until("a moment", PATIENCE, || {
        (pressed.elapsed() >= GUARD).then_some(())
    });
    screen.key("yes is not what I mean");
    screen.wait_line("proj · test ? yes is not what I mean");
    assert_eq!(1, upstream.requests().len(), "nothing ran");
    screen.key("\u{3}\u{1b}y");
    screen.wait_for("c1 allowed once by ");
}

/// The title is put back also where a question still waits.
#[test]
fn who_leaves_leaves_the_title_as_it_was() {
    let (_upstream, world, _daemon) = world();
    let mut screen = open(&world, 100, 30);
    screen.key("what time is it?\r");
    wait_asked(&screen, "c1", "aish__time");
    screen.key("\u{4}");
    assert_eq!(0, screen.wait_end());
    assert!(screen.is_as_before());
    until("the title of before", PATIENCE, || {
        sent(&screen, "\u{1b}[23;2t").then_some(())
    });
}

fn sent(screen: &Screen, bytes: &str) -> bool {
    let all = screen.bytes();
    all.windows(bytes.len()).any(|it| it == bytes.as_bytes())
}

/// Who looks away from the terminal hears of a question once, and the title says how many wait.
#[test]
fn who_looks_away_is_told_once() {
    let (_upstream, world, _daemon) = world_with("[notify]\nafter = \"200ms\"\n");
    let mut asking = open(&world, 100, 30);
    let mut away = open(&world, 100, 30);
    // What a terminal says when its window is not the one that is typed at.
    away.key("\u{1b}[O");
    asking.key("what time is it?\r");
    let notice = "\u{1b}]9;aish: c1 aish__time in proj\u{7}\u{7}";
    until("the notice", PATIENCE, || sent(&away, notice).then_some(()));
    assert!(
        sent(&away, "\u{1b}]2;? 1 · aish proj\u{7}"),
        "the title counts"
    );
    wait_asked(&asking, "c1", "aish__time");
    assert!(!sent(&asking, "\u{1b}]9;"), "who has just typed looks");
    asking.key("y\r");
    away.wait_for("c1 allowed once by ");
    until("the title of before", PATIENCE, || {
        sent(&away, "\u{1b}]2;aish proj\u{7}\u{1b}[23;2t").then_some(())
    });
    let all = String::from_utf8_lossy(&away.bytes()).into_owned();
    assert_eq!(1, all.matches("\u{1b}]9;").count());
    assert!(!all.contains("]9;4"));
    away.key("\u{4}");
    assert_eq!(0, away.wait_end());
    until("the terminal as it was", PATIENCE, || {
        sent(&away, "\u{1b}[?1004l").then_some(())
    });
}

/// And nobody hears of anything who does not want to.
#[test]
fn nothing_rings_where_nothing_shall() {
    let (_upstream, world, _daemon) = world_with("[notify]\nwhen = \"never\"\nafter = \"1ms\"\n");
    let mut screen = open(&world, 100, 30);
    screen.key("what time is it?\r\u{1b}[O");
    wait_asked(&screen, "c1", "aish__time");
    screen.key("y\r");
    screen.wait_for("Noted.");
    let bytes = String::from_utf8_lossy(&screen.bytes()).into_owned();
    assert!(!bytes.contains("\u{1b}]9;") && !bytes.contains("\u{7}\u{7}"));
}

/// A level is asked for in words, at every window; nothing waits for the answer, and what a turn waits for comes first.
#[test]
fn a_level_is_asked_for_while_the_conversation_goes_on() {
    let (upstream, world, _daemon) = world();
    let mut screen = open(&world, 100, 40);
    let other = open(&world, 100, 40);
    let wanted = [
        "-C",
        "proj",
        "tools",
        "negotiate",
        "upgrade:data-tool:level-2",
    ];
    let asked = world.ctl(&wanted).run().code(3);
    assert!(asked.out().contains("To upgrade: "), "{}", asked.report());
    // Who comes later is asked too, and is told of nothing that waits.
    let late = Screen::spawn(&world, &built("aish"), &["proj"], 100, 40);
    for screen in [&screen, &other, &late] {
        screen.wait_for("? c1  may data-tool write in this conversation?");
        screen.wait_for("level 1 read → 2 write, until it is revoked; nothing runs now");
        screen.wait_for("asked for by aishctl pid ");
        screen.wait_for("Alt-y or Alt-n any time");
        screen.wait_rows("the prompt says that a question is open", |rows| {
            rows.last().is_some_and(|it| it.ends_with('?'))
        });
    }
    // A line is a question to the model, also one that begins with a no; an empty one is nothing.
    wait_asked(&screen, "c1", "may data-tool write");
    screen.key("\r");
    screen.key("no idea, what time is it?\r");
    wait_asked(&screen, "c2", "aish__time");
    assert_eq!(1, upstream.requests().len());
    screen.key("y\r");
    screen.wait_for("c2 allowed once by ");
    screen.wait_for("Noted.");
    // The level is asked for again, and a key answers.
    screen.wait_rows("the question stands again", |rows| {
        let asked = rows.iter().filter(|it| it.contains("? c1  may data-tool"));
        asked.count() == 2 && rows.last().is_some_and(|it| it.ends_with('?'))
    });
    wait_asked(&screen, "c1", "may data-tool write");
    screen.key("\u{1b}y");
    for screen in [&screen, &other] {
        screen.wait_for("c1 allowed, and the level raised by ");
    }
    let levels = world.ctl(&["-C", "proj", "perm", "ls"]).run().ok();
    assert!(
        levels.out().contains("data-tool     2 write"),
        "{}",
        levels.out()
    );
    println!("{}", screen.rows().join("\n"));
}
