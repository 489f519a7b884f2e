//! Ten sessions as a person sees them, on a narrow, an ordinary and a wide terminal. What is to be seen stands in `tests/data/screens`
//! (`UPDATE_EXPECT=1` writes it): the rows, and below them what is painted. A terminal may be light or dark and never says which, so each colour
//! has to be one of the person's theme, or one that can be read on both.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use aish_testkit::wait::{PATIENCE, until, until_true};
use aish_testkit::{Answer, Daemon, Screen, Upstream, World};
use expect_test::expect_file;
use serde_json::json;

use crate::shell::in_shell;

/// What stands where the directory of the commands was: it is as long.
const PLACE: &str = "/where/it/was/done";

/// What is typed sooner after a question was drawn is no answer.
const GUARD: Duration = Duration::from_millis(400);
/// The least that text may stand out from what is behind it (WCAG, large text).
const LEAST_CONTRAST: f64 = 3.0;

const LONG: &str = "## What it does\n\nIt reads **every** file once, and `keeps` what is *new*:\n\n| step | what happens in it | cost |\n|---|---|---|\n| read | all files of the directory are read | low |\n| keep | 変更された行だけを残します | 12 % |\n\n```rust\n// Each line once.\nfn keep(lines: &[&str]) -> usize {\n    lines.iter().filter(|it| !it.is_empty()).count() + 40\n}\n```\n\n1. first it looks at https://example.com/a/long/way/to/it\n2. then it goes on with what is left over from the first step\n\n> Nothing is written before you have said yes.\n";

/// A daemon with a scripted model, and windows of so many columns.
struct Sessions {
    upstream: Upstream,
    world: World,
    _daemon: Daemon,
    columns: u16,
    called: Cell<u32>,
}

impl Sessions {
    fn new(columns: u16) -> Self {
        let upstream = Upstream::start();
        let world = World::new();
        world.write("machine/aish/config.toml", "");
        world.write_config(&format!(
            "{}\n[models.down]\nendpoint = \"http://127.0.0.1:1/v1\"\nmodel = \"gone\"\n",
            upstream.config("test")
        ));
        let daemon = world.daemon().spawn();
        Self {
            upstream,
            world,
            _daemon: daemon,
            columns,
            called: Cell::new(0),
        }
    }

    /// A window on a new conversation, in all colours.
    fn open(&self, title: &str) -> Screen {
        drop(self.world.ctl(&["conv", "new", title]).run().ok());
        self.window(&format!("-m test {title}"))
    }

    fn window(&self, words: &str) -> Screen {
        let line = in_shell(&format!("COLORTERM=truecolor exec aish {words}"));
        let shell = Path::new("/bin/sh");
        let screen = Screen::spawn(&self.world, shell, &["-c", &line], self.columns, 40);
        screen.wait_for("[aish] attached to");
        ends_with(&screen, "○");
        screen
    }

    fn calls(&self, tool: &str, arguments: &serde_json::Value) {
        self.calls_after(Answer::stream(), tool, arguments);
    }

    /// The same after this. Each call has an id of its own.
    fn calls_after(&self, said: Answer, tool: &str, arguments: &serde_json::Value) {
        let number = self.called.get() + 1;
        self.called.set(number);
        let id = format!("call_{number}");
        let call = said.then_call(0, &id, tool, &arguments.to_string());
        self.upstream.answer(call);
    }

    fn says(&self, text: &str) {
        self.upstream.answer(Answer::text(text));
    }

    /// Whether changes can be held in layers on this machine.
    fn has_layers(&self) -> bool {
        let doctor = self.world.ctl(&["doctor"]).run().stdout;
        String::from_utf8_lossy(&doctor).contains("a command can be tried in layers")
    }

    #[track_caller]
    fn check(&self, name: &str, title: &str, screen: &Screen) {
        let prompt = format!("{title} · test");
        let rows = screen.rows();
        // The greeting has the name of the terminal in it.
        let rows = rows.iter().skip_while(|it| !it.starts_with(&prompt));
        let rows: Vec<String> = rows.map(|it| self.timeless(it)).collect();
        self.compare(name, &anywhere(rows), screen);
    }

    #[track_caller]
    fn compare(&self, name: &str, rows: &[String], screen: &Screen) {
        let mut seen = rows.join("\n");
        seen.push_str("\n\n--- painted\n");
        let mut painted: Vec<String> = vec![];
        for it in screen.painted() {
            check_colours(&it.look);
            let is_of_place = ["pts/", "attached to", "environment", "level 3"];
            if is_of_place.iter().any(|place| it.text.contains(place)) {
                continue;
            }
            let line = format!("{}: {}", it.look, self.timeless(it.text.trim()));
            if !painted.contains(&line) {
                painted.push(line);
            }
        }
        painted.sort();
        seen.push_str(&(painted.join("\n") + "\n"));
        let columns = self.columns;
        let file = format!(
            "{}/../tests/data/screens/{name}-{columns}.txt",
            env!("CARGO_MANIFEST_DIR")
        );
        expect_file![file].assert_eq(&seen);
    }

    /// A row without what another run has otherwise.
    fn timeless(&self, row: &str) -> String {
        let directory = self.world.work().display().to_string();
        let row = row.replace(&directory, PLACE);
        let words: Vec<&str> = row.split(' ').collect();
        let shown = words.iter().enumerate().map(|(at, word)| {
            let is_time = matches!(words.get(at + 1), Some(&("ms" | "s")));
            let is_number = word.parse::<f64>().is_ok();
            let is_instant = word.starts_with("20") && word.ends_with('Z') && word.len() == 24;
            let is_id = word.len() == 26 && word.starts_with("01");
            let capitals = |it: char| it.is_ascii_uppercase() || it.is_ascii_digit();
            let is_short_id = word.len() == 6 && word.chars().all(capitals);
            match word.split_once("pts/") {
                Some((before, _)) => format!("{before}pts/N"),
                None if is_instant => "2026-01-01T00:00:00.000Z".to_owned(),
                None if is_id => "01AAAAAAAAAAAAAAAAAAAAAAAA".to_owned(),
                None if is_short_id => "AAAAAA".to_owned(),
                None if is_time && is_number => "N".to_owned(),
                None => (*word).to_owned(),
            }
        });
        shown.collect::<Vec<_>>().join(" ")
    }
}

/// The rows without those that say in which terminal's environment a command would run: its name is longer some day, and another
/// word is the last of a row.
fn anywhere(rows: Vec<String>) -> Vec<String> {
    const BELOW: &str = "          ";
    let mut is_place = false;
    let mut kept = vec![];
    for row in rows {
        let begins = row.starts_with(&format!("  in {PLACE}"));
        is_place = begins || (is_place && row.starts_with(BELOW));
        if begins {
            kept.push("  in THE DIRECTORY".to_owned());
        } else if !is_place {
            kept.push(row);
        }
    }
    kept
}

/// The sixteen are the person's own. Black, white and what is behind the text are not: they are right on one of the two only.
#[track_caller]
fn check_colours(look: &str) {
    for word in look.split(' ') {
        let Some(exact) = word.strip_prefix('#') else {
            let is_wrong = ["black", "white", "on", "bright-black", "bright-white"].contains(&word);
            assert!(!is_wrong && !word.starts_with("colour-"), "{look}");
            continue;
        };
        let part = |at: usize| u8::from_str_radix(&exact[at..at + 2], 16).unwrap();
        let light = luminance([part(0), part(2), part(4)]);
        for behind in [0.0, 1.0] {
            let (more, less) = (light.max(behind), light.min(behind));
            let contrast = (more + 0.05) / (less + 0.05);
            assert!(contrast >= LEAST_CONTRAST, "{look}: {contrast}");
        }
    }
}

/// Relative luminance, as WCAG has it.
fn luminance(colour: [u8; 3]) -> f64 {
    let linear = |part: u8| {
        let part = f64::from(part) / 255.0;
        if part <= 0.040_45 {
            part / 12.92
        } else {
            ((part + 0.055) / 1.055).powf(2.4)
        }
    };
    let [red, green, blue] = colour.map(linear);
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn ends_with(screen: &Screen, end: &str) {
    screen.wait_rows(&format!("the prompt {end}"), |rows| {
        rows.last().is_some_and(|it| it.ends_with(end))
    });
}

fn idle(screen: &Screen) {
    ends_with(screen, "test ○");
}

/// Types a line, waits for this, and for the prompt.
fn say(screen: &mut Screen, line: &str, then: &str) {
    screen.key(&format!("{line}\r"));
    screen.wait_for(then);
    idle(screen);
}

/// Types a line upon which something is asked, and waits until it can be answered.
fn say_asked(screen: &mut Screen, line: &str) {
    screen.key(&format!("{line}\r"));
    asked(screen);
}

fn asked(screen: &Screen) {
    ends_with(screen, "test ?");
    let seen = Instant::now();
    until("the end of the guard", PATIENCE, || {
        (seen.elapsed() >= GUARD).then_some(())
    });
}

fn first_question(all: &Sessions) {
    all.says("A monad is a way to put steps one after the other where each of them may fail, print or wait, without saying so at each step.");
    let mut screen = all.open("first");
    say(&mut screen, "what is a monad, in one sentence?", "step.");
    all.check("first-question", "first", &screen);
}

fn a_command_is_asked_about_and_run(all: &Sessions) {
    all.calls(
        "shell__run",
        &json!({"command": "printf 'one\\ntwo\\n' && echo a row that is longer than forty columns are wide"}),
    );
    all.says("Both are there.");
    let mut screen = all.open("runs");
    say_asked(&mut screen, "show me one and two");
    say(&mut screen, "y", "there.");
    all.check("command-run", "runs", &screen);
}

fn a_command_is_refused(all: &Sessions) {
    all.calls("shell__run", &json!({"command": "rm -rf build"}));
    all.says("Then by make clean.");
    let mut screen = all.open("refuses");
    say_asked(&mut screen, "clean up");
    say(
        &mut screen,
        "n use make clean instead",
        "Then by make clean.",
    );
    all.check("command-refused", "refuses", &screen);
}

/// And what was changed is looked at, taken back and done again.
fn a_file_is_edited_and_the_edit_undone(all: &Sessions) {
    if !all.has_layers() {
        println!("skipped: nothing can be held in layers here");
        return;
    }
    all.world.write(
        "work/notes.md",
        "# Notes\n\nwe greet nobody here\nand that is that\n",
    );
    all.calls("files__read", &json!({"file_path": "notes.md"}));
    all.calls(
        "files__edit",
        &json!({"file_path": "notes.md", "old_string": "nobody here", "new_string": "everybody here"}),
    );
    all.says("It is friendlier now.");
    let mut screen = all.open("edits");
    say_asked(&mut screen, "make it friendlier");
    say(&mut screen, "y", "friendlier now.");
    all.check("file-edit", "edits", &screen);
    let mut screen = all.window("-m test edits");
    // On a narrow one its instants are cut, and are others each time.
    if all.columns >= 80 {
        screen.key(":changes\r");
        screen.wait_rows("the list", |rows| {
            rows.iter().any(|it| it.starts_with("id "))
        });
        idle(&screen);
    }
    say(&mut screen, ":undo", "taken back");
    all.check("undo", "edits", &screen);
}

fn thinking_and_tools(all: &Sessions) {
    all.world.write("work/src/main.rs", "fn main() {}\n");
    let thinks =
        Answer::stream().then_reasoning("I look at what is there before I say anything of it.");
    all.calls_after(thinks, "files__list", &json!({"path": "src"}));
    all.calls("files__read", &json!({"file_path": "src/none.rs"}));
    all.says("There is one file, src/main.rs, and it does nothing yet.");
    let mut screen = all.open("looks");
    say(&mut screen, "what is in src?", "yet.");
    say(&mut screen, ":thinking", "I look at");
    all.check("thinking-and-tools", "looks", &screen);
}

fn a_long_answer(all: &Sessions) {
    all.says(LONG);
    let mut screen = all.open("long");
    say(&mut screen, "what does it do?", "said yes.");
    all.check("long-answer", "long", &screen);
}

fn a_server_fails(all: &Sessions) {
    drop(all.world.ctl(&["conv", "new", "fails"]).run().ok());
    let mut screen = all.window("fails");
    idle(&screen);
    screen.key(":model down\r");
    ends_with(&screen, "down ○");
    screen.key("are you there?\r");
    ends_with(&screen, "down !");
    all.check("server-fails", "fails", &screen);
}

fn two_terminals(all: &Sessions) {
    all.calls("shell__run", &json!({"command": "echo hello"}));
    all.says("It said hello.");
    let mut here = all.open("both");
    let mut there = all.window("-m test both");
    here.wait_for("(2 here)");
    idle(&here);
    say_asked(&mut here, "say hello");
    asked(&there);
    say(&mut there, "y", "It said hello.");
    here.wait_for("It said hello.");
    idle(&here);
    all.check("two-terminals-asks", "both", &here);
    let rows = there.rows();
    let rows = rows.iter().skip_while(|it| !it.contains("› say hello"));
    let rows: Vec<String> = rows.map(|it| all.timeless(it)).collect();
    all.compare("two-terminals-answers", &anywhere(rows), &there);
}

fn conversations(all: &Sessions) {
    let mut screen = all.open("list");
    say(&mut screen, ":conv ls", "first");
    all.check("conversations", "list", &screen);
    screen.key(":switch\r");
    screen.wait_for("Esc leaves");
    // Fewer letters may be those of an id.
    screen.key("first");
    screen.wait_for("switch to: first");
    until_true("what does not fit is gone", || {
        let rows = screen.rows();
        !rows
            .iter()
            .any(|it| it.contains("refuses") || it.contains("fails"))
    });
    let rows: Vec<String> = screen.rows().iter().map(|it| all.timeless(it)).collect();
    let shown = rows.iter().skip_while(|it| !it.starts_with("switch to: "));
    let shown: Vec<String> = shown.cloned().collect();
    all.compare_rows("picker", &shown);
}

impl Sessions {
    /// Of another screen, where what was painted before is not to be seen.
    #[track_caller]
    fn compare_rows(&self, name: &str, rows: &[String]) {
        let columns = self.columns;
        let file = format!(
            "{}/../tests/data/screens/{name}-{columns}.txt",
            env!("CARGO_MANIFEST_DIR")
        );
        expect_file![file].assert_eq(&(rows.join("\n") + "\n"));
    }
}

fn check(columns: u16) {
    let all = Sessions::new(columns);
    first_question(&all);
    a_command_is_asked_about_and_run(&all);
    a_command_is_refused(&all);
    a_file_is_edited_and_the_edit_undone(&all);
    thinking_and_tools(&all);
    a_long_answer(&all);
    a_server_fails(&all);
    two_terminals(&all);
    conversations(&all);
}

#[test]
fn ten_sessions_on_a_narrow_terminal() {
    check(40);
}

#[test]
fn ten_sessions_on_an_ordinary_terminal() {
    check(80);
}

#[test]
fn ten_sessions_on_a_wide_terminal() {
    check(140);
}
