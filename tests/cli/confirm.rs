//! Answering what a model wants to do: at the terminal that asked, at another one, and where nobody is.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::{ConfirmListParams, ConfirmRecord, List};
use aish_proto::conversation::{ConversationCreateParams, Create};
use aish_testkit::pty::OnTerminal;
use aish_testkit::wait::{PATIENCE, until};
use aish_testkit::{Answer, Daemon, Upstream, World, built};

use crate::shell::{in_shell, shell, shell_on_terminal};

/// Runs a line that has to end like this.
#[track_caller]
fn runs(world: &World, line: &str, code: i32) {
    let finished = shell(world, line).run().code(code);
    drop(finished);
}

struct Scene {
    upstream: Upstream,
    world: World,
    _daemon: Daemon,
}

impl Scene {
    /// The model calls this tool with these arguments, and then says "Noted.".
    fn new(arguments: &str) -> Self {
        let upstream = Upstream::start();
        let world = World::new();
        let config = upstream.config("test");
        world.write_config(&format!("{config}\n[tools]\nbuiltin = true\n"));
        let arguments = arguments.to_owned();
        upstream.answer_with(move |request| {
            if request
                .messages()
                .last()
                .is_some_and(|(role, _)| role == "user")
            {
                Answer::stream().then_call(0, "call_1", "aish__time", &arguments)
            } else {
                Answer::text("Noted.")
            }
        });
        let _daemon = world.daemon().spawn();
        Self {
            upstream,
            world,
            _daemon,
        }
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

    /// What the model was told of its call.
    fn told(&self) -> String {
        let requests = self.upstream.requests();
        let (role, content) = requests.last().unwrap().messages().pop().unwrap();
        assert_eq!("tool", role);
        content
    }
}

/// Without a terminal and with nobody attached, nothing is allowed; and a script can tell.
#[test]
fn a_script_says_what_is_to_happen() {
    #[track_caller]
    fn check(flags: &str, code: i32, told_as: &str) {
        let scene = Scene::new("{}");
        let line = format!("aishctl ask -q {flags} 'what time is it?'");
        let finished = shell(&scene.world, &line).run().code(code);
        assert_eq!("Noted.\n", finished.out(), "{flags}");
        let told = scene.told();
        assert!(told.starts_with(told_as), "{flags}: {told}");
    }
    check("", 3, "[aish] denied: nobody is attached");
    check(
        "--confirm=deny",
        3,
        "[aish] denied by policy: --confirm=deny",
    );
    check(
        "--confirm=allow:fs__read",
        3,
        "[aish] denied: nobody is attached",
    );
    check(
        "--confirm=ask --confirm-timeout 200ms",
        3,
        "[aish] denied: nobody answered in time",
    );
    let days = ["Mon", "Tues", "Wednes", "Thurs", "Fri", "Satur", "Sun"];
    let today = |flags: &str| {
        let scene = Scene::new("{}");
        let line = format!("aishctl ask --json {flags} 'what time is it?'");
        let finished = shell(&scene.world, &line).run().ok();
        assert_eq!(0, finished.json()["denied"]);
        let told = scene.told();
        assert!(days.iter().any(|it| told.starts_with(it)), "{told}");
    };
    today("--confirm=allow:aish__time");
    today("--confirm=deny --confirm='allow:aish__*'");
    let scene = Scene::new("{}");
    runs(&scene.world, "aishctl ask '--confirm=allow:aish__t*' x", 1);
    assert!(scene.upstream.requests().is_empty());
}

/// A script's question reaches a person at another terminal, and the script says how to answer.
#[test]
fn a_script_reaches_a_person_at_another_terminal() {
    let scene = Scene::new("{}");
    let client = scene.world.person("pts/9");
    let conversation = client.create();
    let mut follow = client.attach(conversation, ReplayStart::Now);
    follow.until_kind("replayComplete");
    let mut asking = scene.world.ctl_spawn(&[
        "ask",
        "--no-stdin",
        "-C",
        &conversation.to_string(),
        "what time is it?",
    ]);
    let confirm = scene.pending();
    let finished = shell(&scene.world, "aishctl confirm allow c1")
        .run()
        .code(2);
    assert!(
        finished.err().contains("confirm show"),
        "{}",
        finished.err()
    );
    let show = shell(&scene.world, "aishctl confirm show c1").run().ok();
    let allow = show
        .out()
        .lines()
        .find(|it| it.contains("--digest"))
        .unwrap()
        .trim()
        .to_owned();
    let wrong = allow.replace("--digest ", "--digest 00000000");
    runs(&scene.world, &wrong, 9);
    let allowed = shell(&scene.world, &allow).run().ok();
    assert_eq!("c1 allowed once\n", allowed.out());
    assert_eq!(Some("Noted.".to_owned()), asking.line());
    let finished = asking.wait().ok();
    assert!(
        finished.err().contains(
            "c1 needs approval — answer in any attached terminal, or: aishctl confirm allow c1"
        ),
        "{}",
        finished.err()
    );
    let late = shell(&scene.world, &allow).run().code(9);
    assert!(
        late.out().starts_with("c1 was already allowed once by "),
        "{}",
        late.out()
    );
    // By the short number too, whoever says what.
    for line in ["deny c1", "allow c1", "edit c1", "deny c1 too late"] {
        let late = shell(&scene.world, &format!("aishctl confirm {line}"));
        let late = late.run().code(9);
        assert!(
            late.out().starts_with("c1 was already allowed once by "),
            "{}",
            late.report()
        );
    }
    let shown = shell(&scene.world, "aishctl confirm show c1").run().ok();
    assert!(
        shown.out().contains("c1 allowed once by "),
        "{}",
        shown.report()
    );
    runs(&scene.world, "aishctl confirm show c2", 8);
    runs(&scene.world, "aishctl confirm deny c2", 8);
    let id = confirm.request.confirm.to_string();
    let shown = shell(&scene.world, &format!("aishctl confirm show {id}"))
        .run()
        .ok();
    assert!(
        shown.out().contains("c1 allowed once by "),
        "{}",
        shown.out()
    );
    assert_eq!(
        "nothing waits\n",
        shell(&scene.world, "aishctl confirm").run().ok().out()
    );
}

/// Types at a question until it is heard: for a moment after it was shown, nothing is.
#[track_caller]
fn say(asking: &mut OnTerminal, typed: &str) {
    asking.wait_for("[?] ");
    let before = questions(asking);
    say_until(asking, typed, |it| it.has_ended() || questions(it) > before);
}

fn questions(asking: &OnTerminal) -> usize {
    asking.seen().matches("[?] ").count()
}

#[track_caller]
pub(crate) fn say_until(
    asking: &mut OnTerminal,
    typed: &str,
    mut heard: impl FnMut(&mut OnTerminal) -> bool,
) {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        asking.key(typed);
        let patience = Instant::now() + Duration::from_millis(400);
        while Instant::now() < patience {
            if heard(asking) {
                return;
            }
            thread::park_timeout(Duration::from_millis(10));
        }
    }
    panic!(
        "waited in vain for an answer that is heard: {}",
        asking.seen()
    );
}

/// At the terminal that asked: exact words, the whole text, and nothing that was typed before.
#[test]
fn the_terminal_that_asked_is_asked() {
    #[track_caller]
    fn check(typed: &[&str], code: i32, told_as: &str) {
        let scene = Scene::new("{}");
        let mut asking = shell_on_terminal(&scene.world, "exec aishctl ask 'what time is it?'");
        for typed in typed {
            say(&mut asking, typed);
        }
        assert_eq!(code, asking.wait(), "{typed:?}: {}", asking.seen());
        let told = scene.told();
        assert!(
            told.starts_with(told_as) || told_as.is_empty(),
            "{typed:?}: {told}"
        );
    }
    check(&["y\n"], 0, "");
    check(&["yes\n"], 0, "");
    check(&["n\n"], 3, "[aish] denied by user");
    check(&["\n"], 3, "[aish] denied by user");
    check(&["no later\n"], 3, "[aish] denied by user: later");
    check(
        &["yikes, no\n", "?\n", "v\n", "n\n"],
        3,
        "[aish] denied by user",
    );
}

/// The type-ahead guard.
#[test]
fn what_was_typed_before_the_question_answers_nothing() {
    let scene = Scene::new("{}");
    let mut asking = shell_on_terminal(&scene.world, "exec aishctl ask 'what time is it?'");
    asking.key("y\ny\n");
    say(&mut asking, "n\n");
    assert_eq!(3, asking.wait(), "{}", asking.seen());
    assert_eq!("[aish] denied by user", scene.told());
}

/// At the terminal that it was started from, whichever of its streams leads elsewhere.
#[test]
fn who_has_a_terminal_is_asked_past_a_pipe() {
    let setsid = Path::new("/usr/bin/setsid");
    if !setsid.exists() {
        println!("skipped: there is no {}", setsid.display());
        return;
    }
    for line in [
        "echo 'what time is it?' | aishctl ask -",
        "said=$(echo 'what time is it?' | aishctl ask -); echo \"$said\"",
        "said=$(aishctl ask 'what time is it?' 2>errors); echo \"$said\"",
    ] {
        let scene = Scene::new("{}");
        // A session whose terminal this is.
        let line = in_shell(line);
        let args = ["-c", "-w", "/bin/sh", "-c", &line];
        let mut asking = OnTerminal::spawn(&scene.world, setsid, &args);
        say(&mut asking, "y\n");
        asking.wait_for("Noted.");
        assert_eq!(0, asking.wait(), "{}", asking.seen());
        assert!(!scene.told().starts_with("[aish]"), "{line}");
    }
}

/// Nobody waits for an answer that nobody can give: a terminal that only shows is nobody's.
#[test]
fn who_cannot_be_asked_is_denied_at_once() {
    for line in [
        "exec aishctl ask --no-input 'what time is it?'",
        "echo 'what time is it?' | aishctl ask -",
    ] {
        let scene = Scene::new("{}");
        let mut asking = shell_on_terminal(&scene.world, line);
        assert_eq!(3, asking.wait(), "{line}: {}", asking.seen());
        assert!(
            scene
                .told()
                .starts_with("[aish] denied: nobody is attached")
        );
    }
}

/// The question goes away when it is answered elsewhere.
#[test]
fn an_answer_elsewhere_ends_the_question_here() {
    let scene = Scene::new("{}");
    let mut asking = shell_on_terminal(&scene.world, "exec aishctl ask 'what time is it?'");
    asking.wait_for("[?] ");
    runs(&scene.world, "aishctl confirm deny c1 not now", 0);
    assert_eq!(3, asking.wait());
    assert_eq!("[aish] denied by user: not now", scene.told());
    assert!(asking.seen().contains("c1 denied by "), "{}", asking.seen());
}

/// What could hide in arguments stands as an escape, on the asking terminal and in `confirm show`.
#[test]
fn nothing_in_the_arguments_reaches_the_terminal_as_it_is() {
    let scene = Scene::new("{\"a\":\"\u{202e}evil\u{200b}\\u001b[2J\u{9b}31m\u{7f}\"}");
    let mut asking = shell_on_terminal(&scene.world, "exec aishctl ask 'what time is it?'");
    asking.wait_for("[?] ");
    let shown = asking.seen();
    assert!(
        shown.contains("\\u{202e}evil\\u{200b}\\u001b[2J\\u{9b}31m\\u{7f}"),
        "{shown}"
    );
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'));
    let record = shell(&scene.world, "aishctl confirm show c1").run().ok();
    assert!(
        record.out().contains("\\u{202e}evil\\u{200b}"),
        "{}",
        record.out()
    );
    runs(&scene.world, "aishctl confirm deny c1", 0);
    asking.wait();
}

/// A process that the daemon started is no person, whatever it says.
#[test]
fn what_the_daemon_started_may_not_answer() {
    let scene = Scene::new("{}");
    let client = scene.world.client();
    client.ask(client.create(), "what time is it?");
    let confirm = scene.pending().request;
    let program = built("aishctl");
    let out = scene.world.path("work/said");
    let script = format!(
        "{program} --socket {socket} confirm deny {id} >{out} 2>&1; echo \"exit $?\" >>{out}; {program} --socket {socket} rpc turn/cancel '{{\"turn\":\"{id}\"}}' >>{out} 2>&1; echo key",
        program = program.display(),
        socket = scene.world.socket().display(),
        id = confirm.confirm,
        out = out.display()
    );
    scene.world.write("work/key.sh", &script);
    let config = scene.upstream.config("test");
    let sneaky = scene
        .upstream
        .preset("sneaky", "key_cmd = [\"/bin/sh\", \"key.sh\"]");
    let sneaky = sneaky.replace(
        "key.sh",
        &scene.world.path("work/key.sh").display().to_string(),
    );
    scene
        .world
        .write_config(&format!("{config}{sneaky}\n[tools]\nbuiltin = true\n"));
    runs(&scene.world, "aishctl reload", 0);
    runs(&scene.world, "aishctl ask -m sneaky --confirm=deny x", 3);
    let said = std::fs::read_to_string(&out).unwrap();
    let refusals = said.matches("is not for processes that the daemon started");
    assert_eq!(2, refusals.count(), "{said}");
    assert!(said.contains("exit 1"), "{said}");
    assert_eq!(confirm, scene.pending().request, "it waits as before");
}

/// What a window shows, and how it is answered there.
#[test]
fn a_window_shows_the_question_and_takes_the_answer() {
    let scene = Scene::new("{}");
    let client = scene.world.client();
    let cwd = "/".to_owned();
    let title = Some("here".to_owned());
    client.done::<Create>(ConversationCreateParams {
        title,
        model: None,
        cwd,
        constraints: None,
        budget: None,
        temporary: false,
    });
    let mut window = scene.world.ctl_spawn(&["attach", "here"]);
    window.line_with("attached");
    window.write("what time is it?\n");
    let line = window.line_with(":confirm allow c1 --digest ");
    let command = line.split("   or").next().unwrap().trim();
    window.write(&format!("{command}\n"));
    window.line_with("c1 allowed once");
    window.line_with("Noted.");
}

/// Levels by hand, and what would be decided.
#[test]
fn levels_are_shown_and_changed() {
    let scene = Scene::new("{}");
    runs(&scene.world, "aishctl conv new here", 0);
    let line = |line: &str, code: i32| {
        let finished = shell(&scene.world, &format!("aishctl -C here perm {line}"));
        let finished = finished.run().code(code);
        format!("{}{}", finished.out(), finished.err())
    };
    assert!(
        line("ls", 0).contains("aish          1 read"),
        "{}",
        line("ls", 0)
    );
    assert_eq!(
        "aish is level 2 write in here (was 1); calls are asked about as before\n",
        line("grant aish 2", 0)
    );
    assert_eq!(
        "aish is already at level 2 write in here\n",
        line("grant aish 2", 0)
    );
    // What lowers it is another command.
    let lower = line("grant aish 1", 1);
    assert!(
        lower.contains("aish is already at level 2; aishctl perm revoke aish"),
        "{lower}"
    );
    assert!(line("grant aish 7", 1).contains("there is no level 7"));
    assert!(line("grant nobody 2", 8).contains("no provider is called \"nobody\""));
    assert_eq!(
        "a person is asked: every call is asked about (needs level 1 read)\n",
        line("check aish__time", 0)
    );
    let revoked = "aish is level 1 read in here, and all its tools are asked about\n";
    assert_eq!(revoked, line("revoke aish", 0));
    assert_eq!("keeps itself from nothing\n", line("limit", 0));
    let limited = line("limit --read-only --root /srv/", 0);
    assert_eq!(
        ("only reads\nkeeps to /srv\n", &limited),
        (&*limited, &line("limit", 0))
    );
    assert_eq!("keeps itself from nothing\n", line("limit --none", 0));
    let rules = line("rules", 0);
    assert!(rules.contains("(others)  begins with 1 read"), "{rules}");
    let history = line("history", 0);
    assert!(
        history.contains("1 → 2") && history.contains("revoked"),
        "{history}"
    );
}

/// Every question of every conversation, as lines for people and as events; and at a terminal it is asked.
#[test]
fn all_questions_can_be_watched_and_answered_from_one_place() {
    let scene = Scene::new("{}");
    let mut people = scene.world.ctl_spawn(&["confirm", "watch"]);
    let mut script = scene.world.ctl_spawn(&["confirm", "watch", "--jsonl"]);
    let mut asking =
        scene
            .world
            .ctl_spawn(&["ask", "--no-stdin", "--confirm=ask", "what time is it?"]);
    people.line_with("? c1  aish__time");
    let allow = people.line_with("aishctl confirm allow ");
    let event: serde_json::Value =
        serde_json::from_str(&script.line_with("confirmRequested")).unwrap();
    let digest = event["data"]["digest"].as_str().unwrap();
    assert!(allow.contains(&digest[..12]), "{allow}");
    let mut watching = shell_on_terminal(&scene.world, "exec aishctl confirm watch");
    watching.wait_for("[?] ");
    say_until(&mut watching, "y\n", |it| {
        it.seen().contains("c1 allowed once by ")
    });
    people.line_with("c1 allowed once by ");
    script.line_with("confirmResolved");
    assert_eq!(Some("Noted.".to_owned()), asking.line());
    drop(asking.wait().ok());
    // The next one is asked about too, and its end elsewhere takes it away.
    let asking = scene
        .world
        .ctl_spawn(&["ask", "--no-stdin", "--confirm=ask", "and now?"]);
    until("the next question", PATIENCE, || {
        (watching.seen().matches("? c1  aish__time").count() == 2).then_some(())
    });
    runs(&scene.world, "aishctl confirm deny c1 not now", 0);
    people.line_with("c1 denied by ");
    drop(asking.wait().code(3));
    until("what became of it", PATIENCE, || {
        watching.seen().contains("c1 denied by ").then_some(())
    });
}

/// At the terminal that asked, too, arguments are edited before they are allowed.
#[test]
fn the_terminal_that_asked_can_edit() {
    let scene = Scene::new("{}");
    scene
        .world
        .write("work/editor.sh", "echo '{\"zone\": \"UTC\"}' > \"$1\"\n");
    let editor = scene.world.path("work/editor.sh");
    let line = format!(
        "VISUAL='sh {}' exec aishctl ask 'what time is it?'",
        editor.display()
    );
    let mut asking = shell_on_terminal(&scene.world, &line);
    say(&mut asking, "e\n");
    asking.wait_for("{\"zone\":\"UTC\"}");
    say(&mut asking, "y\n");
    assert_eq!(0, asking.wait(), "{}", asking.seen());
    let told = scene.told();
    assert!(
        told.starts_with("[aish] the user changed the arguments to {\"zone\":\"UTC\"}"),
        "{told}"
    );
}
