//! A server's form at a terminal, field by field: where `ask` runs, in the line client, in `confirm allow` and `confirm
//! watch`; and by options, where nobody sits.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use aish_proto::confirm::{ConfirmListParams, ConfirmRecord, List};
use aish_proto::mcp::List as ServerList;
use aish_proto::method::Empty;
use aish_testkit::pty::OnTerminal;
use aish_testkit::wait::{PATIENCE, until, until_true};
use aish_testkit::{Answer, Daemon, Running, Screen, Upstream, World, repository};
use serde_json::{Value, json};

use crate::shell::{shell, shell_on_terminal};
use crate::terminal::open;

/// What is typed sooner after a question was drawn is no answer.
const GUARD: Duration = Duration::from_millis(300);

struct Scene {
    upstream: Upstream,
    world: World,
    _daemon: Daemon,
}

impl Scene {
    /// The model calls a tool whose server asks this, and then says "Noted.". `None`, and said why: there is no Python.
    #[expect(clippy::print_stderr, reason = "a test that does not run says so")]
    fn new(asks: &Value) -> Option<Self> {
        if !Path::new("/usr/bin/python3").exists() {
            eprintln!("skipped: there is no python3");
            return None;
        }
        let upstream = Upstream::start();
        let world = World::new();
        let config = upstream.config("test");
        let script = repository::top().join("tests/data/mcp/forms.py");
        world.write_config(&format!(
            "{config}\n[mcp.auto_approve]\n\"f__*\" = true\n[mcp.servers.f]\ncommand = \"python3\"\nargs = [{script:?}]\n"
        ));
        let arguments = json!({ "asks": asks }).to_string();
        upstream.answer_with(move |request| match request.messages().last() {
            Some((role, _)) if role == "user" => {
                Answer::stream().then_call(0, "call_1", "f__ask", &arguments)
            }
            Some(_) | None => Answer::text("Noted."),
        });
        let _daemon = world.daemon().spawn();
        drop(world.ctl(&["conv", "new", "proj"]).run().ok());
        let client = world.client();
        until_true("the server's tools", || {
            let servers = client.done::<ServerList>(Empty {}).servers;
            servers.iter().any(|it| it.tools > 0)
        });
        Some(Self {
            upstream,
            world,
            _daemon,
        })
    }

    fn pending(&self) -> ConfirmRecord {
        let client = self.world.client();
        until("a confirm", PATIENCE, || {
            client
                .done::<List>(ConfirmListParams::default())
                .confirms
                .pop()
        })
    }

    /// Somebody asks where nobody can answer.
    fn asking(&self) -> Running {
        let line = ["ask", "--no-stdin", "-q", "--confirm=ask", "hello"];
        self.world.ctl_spawn(&line)
    }

    /// What the server was told.
    fn told(&self) -> Value {
        let told = until("the result of the call", PATIENCE, || {
            let requests = self.upstream.requests();
            let (role, content) = requests.last()?.messages().pop()?;
            (role == "tool").then_some(content)
        });
        serde_json::from_str(&told).unwrap_or_else(|_| Value::from(told))
    }
}

fn person() -> Value {
    json!([{
        "message": "Who are you?\u{1b}[2J",
        "requestedSchema": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "title": "Your name", "minLength": 2},
            "age": {"type": "integer", "minimum": 18, "default": 42},
            "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
            "agree": {"type": "boolean"},
        }},
    }])
}

fn accepted(content: &Value) -> Value {
    json!([{"action": "accept", "content": content}])
}

/// Types a line once this stands there and what is typed counts.
#[track_caller]
fn say(asking: &mut OnTerminal, after: &str, line: &str) {
    asking.wait_for(after);
    let seen = Instant::now();
    until("the end of the guard", PATIENCE, || {
        (seen.elapsed() >= GUARD * 2).then_some(())
    });
    asking.key(&format!("{line}\n"));
}

/// The dialog after the first yes. Nothing waits between the fields: what is typed ahead is for them.
const DIALOG: &str = "A\nAnn Sesame\nold\n\nmaybe\ny\n2\n";

#[test]
fn a_form_is_filled_in_where_the_question_was_asked() {
    let Some(scene) = Scene::new(&person()) else {
        return;
    };
    let mut asking = shell_on_terminal(&scene.world, "exec aishctl ask hello");
    say(&mut asking, "[y]es, fill it in  [N]o", "y");
    asking.wait_for("1/4 Your name");
    asking.key(DIALOG);
    say(&mut asking, "send it? [y]es", "");
    say(&mut asking, "y sends it, n does not", "y");
    assert_eq!(0, asking.wait(), "{}", asking.seen());
    let content = json!({"name": "Ann Sesame", "agree": true, "age": 42, "colour": "g"});
    assert_eq!(accepted(&content), scene.told());
    let seen = asking.seen();
    for part in [
        "? c1  f asks you to fill in a form",
        "  > Who are you?\\u{1b}[2J",
        "it wants to know: Your name (required), age, agree, colour",
        "at least 2 characters",
        "y or n",
        "      a whole number, at least 18; Enter: 42: ",
        "      2 g (Green)",
        "  this goes to f:",
        "    Your name: Ann Sesame",
    ] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    assert!(!seen.contains("\u{1b}[2J"), "{seen}");
}

/// What is typed at the question, and how it goes on.
#[track_caller]
fn check(typed: &[(&str, &str)], code: i32, expected: &Value) {
    let Some(scene) = Scene::new(&person()) else {
        return;
    };
    let mut asking = shell_on_terminal(&scene.world, "exec aishctl ask hello");
    for (after, line) in typed {
        say(&mut asking, after, line);
    }
    assert_eq!(code, asking.wait(), "{}", asking.seen());
    if !expected.is_null() {
        assert_eq!(*expected, scene.told());
    }
}

#[test]
fn a_form_is_declined_at_any_step() {
    let declined = json!([{"action": "decline"}]);
    let choices = "[y]es, fill it in  [N]o";
    check(&[(choices, "")], 0, &declined);
    check(&[(choices, "n none of yours")], 0, &declined);
    check(
        &[(choices, "always"), ("that is no answer", "n")],
        0,
        &declined,
    );
    check(
        &[(choices, "y"), ("1/4", "<"), ("1/4 Your name", "n")],
        0,
        &declined,
    );
    check(&[(choices, "abort")], 3, &Value::Null);
    // Not a name: the word means the same in a field.
    check(&[(choices, "y"), ("1/4", "abort")], 3, &Value::Null);
}

/// A page is told with its host, and not opened.
#[test]
fn a_page_is_shown_and_agreed_to() {
    let page = json!([{"mode": "url", "elicitationId": "1", "url": "http://Sign.example.org/in?x", "message": "Sign in"}]);
    let Some(scene) = Scene::new(&page) else {
        return;
    };
    let mut asking = shell_on_terminal(&scene.world, "exec aishctl ask hello");
    say(&mut asking, "[y]es, I look at it", "y");
    assert_eq!(0, asking.wait(), "{}", asking.seen());
    assert_eq!(json!([{"action": "accept"}]), scene.told());
    let seen = asking.seen();
    for part in [
        "host: sign.example.org",
        "page: http://Sign.example.org/in?x",
        "not encrypted",
        "not opened for you",
    ] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
}

/// Without a terminal, and with nobody attached, a form is declined; a script fills it in by options.
#[test]
fn a_script_fills_in_a_form_by_options() {
    let Some(scene) = Scene::new(&person()) else {
        return;
    };
    let alone = shell(&scene.world, "aishctl ask -q hello").run().ok();
    assert_eq!("Noted.\n", alone.out());
    assert_eq!(json!([{"action": "decline"}]), scene.told());
    let mut asking = scene.asking();
    let confirm = scene.pending();
    let digest = &confirm.request.digest[..12];
    let listed = shell(&scene.world, "aishctl confirm ls").run().ok();
    assert!(
        listed.out().contains("f asks for input"),
        "{}",
        listed.out()
    );
    let shown = shell(&scene.world, "aishctl confirm show c1").run().ok();
    for part in [
        "name: a text of at least 2 characters, required",
        "age: a whole number, at least 18, usually 42",
        "r (Red)",
        "--set name=VALUE --digest ",
    ] {
        assert!(shown.out().contains(part), "{part}: {}", shown.out());
    }
    for (options, code, why) in [
        (String::new(), 2, "the form has to be filled in"),
        (
            format!("--digest {digest}"),
            2,
            "the form has to be filled in",
        ),
        ("--set name=Ann".to_owned(), 2, "nobody here can see"),
        (
            format!("--set age=20 --digest {digest}"),
            2,
            "name: it has to be filled in",
        ),
        (
            format!("--set name=Ann --set age=7 --digest {digest}"),
            2,
            "age: at least 18",
        ),
        (
            format!("--content '[]' --digest {digest}"),
            2,
            "not one JSON object",
        ),
        (
            format!("--always --set name=Ann --digest {digest}"),
            2,
            "filled in once",
        ),
        (
            "--set name=Ann --digest 0123456789".to_owned(),
            9,
            "the digest is not that",
        ),
    ] {
        let line = format!("aishctl confirm allow c1 {options}");
        let refused = shell(&scene.world, &line).run().code(code);
        assert!(refused.err().contains(why), "{options}: {}", refused.err());
    }
    let line = format!(
        "echo '{{\"name\":\"Ann\"}}' | aishctl confirm allow c1 --content - --set colour=Green --set agree=y --digest {digest}"
    );
    drop(shell(&scene.world, &line).run().ok());
    assert_eq!(Some("Noted.".to_owned()), asking.line());
    let content = json!({"name": "Ann", "colour": "g", "agree": true});
    assert_eq!(accepted(&content), scene.told());
    let late = format!(
        "aishctl confirm allow {} --set name=Bo --digest {digest}",
        confirm.request.confirm
    );
    let late = shell(&scene.world, &late).run().code(9);
    assert!(
        late.out().contains("c1 was already allowed once"),
        "{}",
        late.out()
    );
}

/// From another terminal: the command asks for the fields itself, and so does whoever watches.
#[test]
fn a_form_is_filled_in_at_another_terminal() {
    let Some(scene) = Scene::new(&person()) else {
        return;
    };
    for (command, starts) in [
        ("exec aishctl confirm allow c1", false),
        ("exec aishctl confirm watch", true),
    ] {
        let mut asking = scene.asking();
        scene.pending();
        let mut other = shell_on_terminal(&scene.world, command);
        if starts {
            say(&mut other, "[y]es, fill it in", "y");
        }
        say(&mut other, "1/4 Your name", "Ann");
        other.key("-\n-\n-\n");
        say(&mut other, "send it? [y]es", "y");
        assert_eq!(Some("Noted.".to_owned()), asking.line(), "{}", other.seen());
        assert_eq!(accepted(&json!({"name": "Ann"})), scene.told());
    }
}

/// Types into the line client, and waits until that stands there.
#[track_caller]
fn field(screen: &mut Screen, typed: &str, then: &str) {
    screen.key(&format!("{typed}\r"));
    screen.wait_for(then);
}

#[track_caller]
fn wait_asked(screen: &Screen) {
    screen.wait_for("Alt-y or Alt-n any time");
    let seen = Instant::now();
    until("the end of the guard", PATIENCE, || {
        (seen.elapsed() >= GUARD).then_some(())
    });
}

/// In the line client the lines are for the form while it is filled in; none of them is remembered.
#[test]
fn the_line_client_fills_in_a_form() {
    let Some(scene) = Scene::new(&person()) else {
        return;
    };
    let mut screen = open(&scene.world, 100, 40);
    screen.key("hello there\r");
    wait_asked(&screen);
    field(&mut screen, "y", "1/4 Your name");
    field(&mut screen, "Ann Sesame", "2/4 age");
    // Enter alone, and a command in between.
    field(&mut screen, "", "3/4 agree");
    field(&mut screen, ":confirm ls", "f asks for input");
    field(&mut screen, "y", "4/4 colour");
    field(&mut screen, "Green", "send it? [y]es");
    field(&mut screen, "y", "c1 allowed once by ");
    screen.wait_for("Noted.");
    let content = json!({"name": "Ann Sesame", "age": 42, "agree": true, "colour": "g"});
    assert_eq!(accepted(&content), scene.told());
    let remembered = until("the history", PATIENCE, || {
        fs::read_to_string(scene.world.state().join("history")).ok()
    });
    assert!(
        remembered.contains("hello there") && !remembered.contains("Sesame"),
        "{remembered}"
    );
    // The next line is a question again.
    screen.key("hello again\r");
    wait_asked(&screen);
}

/// Of two windows one is faster: what is being typed in the other is for nobody, and is not sent to the model.
#[test]
fn a_form_that_is_answered_elsewhere_takes_no_line_with_it() {
    let Some(scene) = Scene::new(&person()) else {
        return;
    };
    let mut slow = open(&scene.world, 100, 40);
    let mut fast = open(&scene.world, 100, 40);
    slow.key("hello\r");
    for screen in [&slow, &fast] {
        wait_asked(screen);
    }
    field(&mut slow, "y", "1/4 Your name");
    slow.key("Ann Ses");
    field(
        &mut fast,
        ":confirm allow c1 --set age=x",
        "age: it is a whole number",
    );
    field(
        &mut fast,
        ":confirm allow c1 --set name=Bob",
        "c1 allowed once by ",
    );
    slow.wait_for("c1 allowed once by ");
    slow.wait_for("Noted.");
    field(&mut slow, "ame", "the form was answered elsewhere");
    assert_eq!(accepted(&json!({"name": "Bob"})), scene.told());
    slow.key("and now?\r");
    slow.wait_for("Alt-y or Alt-n any time");
    until("two questions", PATIENCE, || {
        let questions = scene.upstream.requests();
        let asked: Vec<String> = questions
            .iter()
            .map(aish_testkit::upstream::Request::question)
            .collect();
        assert!(asked.iter().all(|it| !it.contains("Ses")), "{asked:?}");
        asked.contains(&"and now?".to_owned()).then_some(())
    });
}
