//! The witness protocol: ten acts that show what tools may do together and what they may not, as a person at a
//! terminal sees it. Everything in it is real: the daemon and its store, the programs that people use, a window that is
//! attached, an MCP client, a server, a tool that is a file. Only the model is scripted.
//!
//! `cargo test -p aishctl --test cli witness -- --nocapture` prints each command with what it said.

use aish_testkit::{Answer, Daemon, Running, Upstream, World};
use serde_json::{Value, json};

use crate::gateway_client::{Gateway, data, text};
use crate::shell::shell;

/// A tool that somebody wrote down: a program that says the name of the capability that was called.
const SCRIPT: &str = r#"echo "{\"content\":[{\"type\":\"text\",\"text\":\"$AISH_CAPABILITY done\"}],\"isError\":false}""#;

/// An MCP server, as a file that can be made to hang.
const SERVER: &str = "work/server.sh";

const BUILD_CONFIG: &str = r#"{"name": "build-config", "data": {"target": "wasm"}}"#;

#[test]
fn witness() {
    let Some(mut stage) = Stage::set() else {
        return;
    };
    act_1_one_tool_alone_works_as_before(&stage);
    act_2_the_registry_lists_the_tools_with_their_capabilities(&stage);
    act_3_an_action_goes_to_the_tool_that_it_means(&stage);
    act_4_a_tool_is_raised_by_a_confirm_writes_and_is_lowered_again(&stage);
    act_5_one_tool_is_raised_while_the_other_stays(&mut stage);
    act_6_a_write_without_the_level_is_refused_and_changes_nothing(&stage);
    act_7_a_tool_is_edited_and_answers_without_a_restart(&stage);
    act_8_everything_is_there_after_the_daemon_was_killed(&mut stage);
    act_9_the_trail_has_every_step_in_order(&stage);
    act_10_a_contradiction_is_denied_for_every_provider_alike(&stage);
    stage.upstream.finish();
}

fn act_1_one_tool_alone_works_as_before(stage: &Stage) {
    stage.act(1, "one tool alone works as before");
    // The model calls example-tool__greet and then says what it was told.
    assert_eq!("Hello from example-tool.\n", stage.says("ask 'greet me'"));
}

fn act_2_the_registry_lists_the_tools_with_their_capabilities(stage: &Stage) {
    stage.act(
        2,
        "the registry lists example-tool and data-tool with capabilities",
    );
    let list = stage.says("tools list");
    for (tool, level) in [
        ("data-tool__create-resource", "2 write"),
        ("data-tool__read-resource", "1 read"),
        ("data-tool__update-resource", "2 write"),
        ("data-tool__delete-resource", "2 write"),
        ("data-tool__list-resources", "1 read"),
        ("data-tool__validate-resource", "1 read"),
        ("example-tool__greet", "1 read"),
        ("example-tool__echo", "1 read"),
        ("note-tool__echo", "1 read"),
    ] {
        let row = list
            .lines()
            .find(|it| it.split_whitespace().next() == Some(tool));
        assert!(row.is_some_and(|it| it.contains(level)), "{tool} in {list}");
    }
}

fn act_3_an_action_goes_to_the_tool_that_it_means(stage: &Stage) {
    stage.act(3, "an action goes to the tool that it means, or nowhere");
    let greet = stage.says("tools route greet");
    assert!(greet.starts_with("example-tool__greet 1.00, "), "{greet}");
    let create = stage.says("tools route create-resource");
    assert!(
        create.starts_with("data-tool__create-resource 1.00, "),
        "{create}"
    );
    let unknown = stage.ends("tools negotiate xyzzy", 8);
    assert!(
        unknown.starts_with("nothing ran: unknown action"),
        "{unknown}"
    );
    // Three have an echo. That of the tool which was called here comes first, and is not taken for granted.
    let ambiguous = stage.ends("tools negotiate echo", 8);
    assert_eq!(
        "nothing ran; this may be meant: example-tool__echo, far__echo, note-tool__echo\n",
        ambiguous
    );
}

fn act_4_a_tool_is_raised_by_a_confirm_writes_and_is_lowered_again(stage: &Stage) {
    stage.act(
        4,
        "data-tool is refused, is raised, writes; example-tool reads; the raise is revoked",
    );
    let mut window = stage.window();
    let create = format!("tools negotiate create-resource '{BUILD_CONFIG}'");
    let refused = stage.ends(&create, 3);
    assert!(
        refused.starts_with(
            "Permission upgrade required for data-tool: level 1 → 2\nTo upgrade: aishctl confirm allow "
        ),
        "{refused}"
    );
    assert_eq!(
        "",
        stage
            .says("resource ls")
            .lines()
            .skip(1)
            .collect::<String>()
    );
    // Whoever is attached is asked, in words.
    window.line_with("? c1  may data-tool write in this conversation?");
    window.line_with("level 1 read → 2 write, until it is revoked; nothing runs now");
    window.line_with(", to call data-tool__create-resource");
    allow(&mut window);
    window.line_with("[aish] c1 allowed, and the level raised by ");
    assert_eq!("2 write", stage.level("data-tool"));
    // The level is no consent: the call itself is asked about.
    let asked = stage.ends(&create, 3);
    assert!(
        asked.starts_with("every call is asked about\nTo go on: "),
        "{asked}"
    );
    window.line_with("? c2  data-tool__create-resource");
    allow(&mut window);
    window.line_with("  └ ok");
    assert_eq!(
        "{\n  \"target\": \"wasm\"\n}\n",
        stage.says("resource get build-config")
    );
    // Another tool reads what this one wrote.
    let echo = r#"tools negotiate echo '{"resource": "build-config"}' --tool example-tool"#;
    assert_eq!("{\"target\":\"wasm\"}\n", stage.says(echo));
    assert_eq!(
        "data-tool is level 1 read in here, and all its tools are asked about\n",
        stage.says("perm revoke data-tool")
    );
    let history = stage.says("perm history");
    let steps: Vec<&str> = history.lines().skip(1).collect();
    assert_eq!(2, steps.len(), "{history}");
    assert!(
        steps[0].contains("data-tool") && steps[0].contains("1 → 2"),
        "{history}"
    );
    assert!(
        steps[1].contains("2 → 1") && steps[1].ends_with("revoked"),
        "{history}"
    );
}

fn act_5_one_tool_is_raised_while_the_other_stays(stage: &mut Stage) {
    stage.act(
        5,
        "example-tool is raised to level 2 while data-tool stays at 1",
    );
    let asked = stage.ends("tools negotiate upgrade:example-tool:level-2", 3);
    assert!(asked.contains("level 1 → 2"), "{asked}");
    let shown = stage.says("confirm show c3");
    assert!(
        shown.starts_with("? c3  may example-tool write in this conversation?\n"),
        "{shown}"
    );
    assert_eq!(
        "c3 allowed, and the level raised\n",
        stage.says(&command(&shown))
    );
    let levels = |stage: &Stage| (stage.level("example-tool"), stage.level("data-tool"));
    let expected = ("2 write".to_owned(), "1 read".to_owned());
    assert_eq!(expected, levels(stage));
    let same = stage.says("tools negotiate upgrade:example-tool:level-2");
    assert_eq!("example-tool is already at level 2\n", same);
    stage.restart(Ending::Ordered);
    assert_eq!(
        expected,
        levels(stage),
        "an ordered restart changes no level"
    );
}

fn act_6_a_write_without_the_level_is_refused_and_changes_nothing(stage: &Stage) {
    stage.act(
        6,
        "a write without the level is refused and changes nothing",
    );
    let before = stage.says("resource get build-config --json");
    let write = r#"tools negotiate update-resource '{"name": "build-config", "data": 0}'"#;
    let denied = stage.ends(&format!("{write} --confirm=deny"), 3);
    assert!(
        denied.starts_with("[aish] denied by policy: --confirm=deny"),
        "{denied}"
    );
    // Without that a person is asked, and nobody answers for now.
    let refused = stage.ends(write, 3);
    assert!(
        refused.starts_with("Permission upgrade required for data-tool"),
        "{refused}"
    );
    assert_eq!(before, stage.says("resource get build-config --json"));
    assert!(before.contains("\"revision\":1"), "{before}");
    assert_eq!("1 read", stage.level("data-tool"));
}

fn act_7_a_tool_is_edited_and_answers_without_a_restart(stage: &Stage) {
    stage.act(
        7,
        "a tool's file is edited and its new capability answers without a restart",
    );
    let mut window = stage.window();
    let mut gateway = Gateway::session(&stage.world, &[]);
    assert!(
        !gateway
            .names(1, &json!({}))
            .contains(&"note-tool__shout".to_owned())
    );
    stage.write_tool("1.1.0", &["echo", "whisper", "shout"]);
    window.line_with("[aish] note-tool 1.0.0 → 1.1.0 (+ shout)");
    window.write(":tools negotiate shout '{\"text\": \"hey\"}'\n");
    window.line_with("shout done");
    gateway.told("notifications/tools/list_changed");
    assert!(
        gateway
            .names(2, &json!({}))
            .contains(&"note-tool__shout".to_owned())
    );
    gateway.call(3, "note-tool__shout", &json!({"text": "hey"}));
    assert_eq!("shout done", text(&gateway.answer(&json!(3))));
    gateway.end();
}

fn act_8_everything_is_there_after_the_daemon_was_killed(stage: &mut Stage) {
    stage.act(
        8,
        "the daemon is killed with SIGKILL, and everything is there",
    );
    // A call that waits for a person, beside the level that waits since act 6.
    let asked = stage.ends("tools negotiate whisper", 3);
    assert!(asked.starts_with("every call is asked about\n"), "{asked}");
    let look = |stage: &Stage| {
        [
            "perm ls",
            "perm history",
            "resource get build-config --json",
            "log",
            "mcp tools",
            "confirm ls",
        ]
        .map(|it| stage.says(it))
    };
    let before = look(stage);
    assert_eq!(2, before[5].lines().skip(1).count(), "{}", before[5]);
    stage.world.write(SERVER, "exec sleep 600\n");
    stage.restart(Ending::Killed);
    let after = look(stage);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
    // The server does not answer this daemon: its tools are those that the last one knew.
    assert!(after[4].contains("far__echo"), "{}", after[4]);
    assert!(stage.says("mcp ls").contains("connecting"));
    let mut window = stage.window();
    // What was asked before the kill is answered after it, each once.
    let level = stage.says("confirm show c4");
    assert!(
        level.contains("may data-tool write in this conversation?"),
        "{level}"
    );
    let allow = command(&level);
    assert_eq!("c4 allowed, and the level raised\n", stage.says(&allow));
    let late = stage.ends(&allow, 9);
    assert!(
        late.starts_with("c4 was already allowed, and the level raised by "),
        "{late}"
    );
    assert_eq!("2 write", stage.level("data-tool"));
    let call = command(&stage.says("confirm show c5"));
    stage.says(&call);
    window.line_with("  └ ok");
    assert_eq!("nothing waits\n", stage.says("confirm ls"));
    stage.world.write(SERVER, &server());
    stage.says("mcp restart far");
    stage.wait_for("mcp ls", " ready ");
}

fn act_9_the_trail_has_every_step_in_order(stage: &Stage) {
    stage.act(
        9,
        "the audit trail shows every cross-tool interaction in order",
    );
    stage.says("audit --since 1h");
    // The same for programs.
    let trail = stage.reads("audit --since 1h --jsonl");
    let trail = trail.lines().map(|it| serde_json::from_str(it).unwrap());
    let trail: Vec<Value> = trail.collect();
    let mut steps = trail.iter().map(step);
    for expected in [
        "callStarted example-tool__greet",
        "callEnded example-tool__greet",
        // Act 4: asked for, given, used, read by the other, taken back.
        "confirmRequested data-tool 1 → 2",
        "confirmResolved data-tool 1 → 2 raiseOnly",
        "permissionChanged data-tool 1 → 2",
        "confirmRequested data-tool__create-resource",
        "confirmResolved data-tool__create-resource allowOnce",
        "callStarted data-tool__create-resource",
        "resourceChanged data-tool",
        "callEnded data-tool__create-resource",
        "callStarted example-tool__echo",
        "callEnded example-tool__echo",
        "permissionChanged data-tool 2 → 1",
        // Act 5.
        "confirmRequested example-tool 1 → 2",
        "permissionChanged example-tool 1 → 2",
        // Act 6.
        "callRefused data-tool__update-resource",
        "confirmRequested data-tool 1 → 2",
        // Acts 7 and 8.
        "callEnded note-tool__shout",
        "confirmRequested note-tool__whisper",
        "permissionChanged data-tool 1 → 2",
        "callEnded note-tool__whisper",
    ] {
        assert!(
            steps.any(|it| it == expected),
            "{expected} is missing, or out of its order, in\n{}",
            trail.iter().map(step).collect::<Vec<_>>().join("\n")
        );
    }
    assert!(
        stage
            .says("audit verify")
            .contains("all as they were written")
    );
}

fn act_10_a_contradiction_is_denied_for_every_provider_alike(stage: &Stage) {
    stage.act(10, "a contradiction is denied for every provider alike");
    let tools = [
        "example-tool__greet",
        "data-tool__create-resource",
        "note-tool__shout",
        "far__echo",
    ];
    stage.configure(&format!("[permissions]\ndeny = {tools:?}\n"));
    stage.says("reload");
    for tool in tools {
        let denied = stage.ends(&format!("tools negotiate {tool}"), 3);
        assert_eq!(
            format!("denied by policy: permissions.deny {tool}\n"),
            denied
        );
    }
    assert_eq!("nothing waits\n", stage.says("confirm ls"));
}

/// The world of the play, with a conversation called `here`.
struct Stage {
    upstream: Upstream,
    world: World,
    daemon: Option<Daemon>,
}

/// How a daemon ends.
#[derive(Clone, Copy)]
enum Ending {
    Ordered,
    Killed,
}

impl Stage {
    /// `None`, and said why: there is no Python here.
    fn set() -> Option<Self> {
        if !std::path::Path::new("/usr/bin/python3").exists() {
            println!("skipped: there is no python3");
            return None;
        }
        let stage = Self {
            upstream: Upstream::start(),
            world: World::new(),
            daemon: None,
        };
        stage
            .upstream
            .answer_with(|request| match request.messages().last() {
                Some((role, said)) if role == "tool" => Answer::text(said),
                Some(_) | None => {
                    Answer::stream().then_call(0, "call_1", "example-tool__greet", "{}")
                }
            });
        stage.configure("");
        stage.world.write(SERVER, &server());
        stage.world.write("config/aish/tools/note.sh", SCRIPT);
        stage.write_tool("1.0.0", &["echo", "whisper"]);
        let stage = Self {
            daemon: Some(stage.world.daemon().spawn()),
            ..stage
        };
        stage.says("conv new here");
        stage.wait_for("tools list", "note-tool__echo");
        stage.wait_for("mcp ls", " ready ");
        Some(stage)
    }

    fn configure(&self, more: &str) {
        let config = self.upstream.config("test");
        let server = self.world.path(SERVER);
        self.world.write_config(&format!(
            "{config}\n[tools]\nbuiltin = true\n\
             [mcp.auto_approve]\n\"note-tool__*\" = true\n\"note-tool__whisper\" = false\n\
             [mcp.servers.far]\ncommand = \"sh\"\nargs = [{server:?}]\n{more}"
        ));
    }

    fn write_tool(&self, version: &str, capabilities: &[&str]) {
        let capabilities = capabilities.iter().map(|it| {
            format!(
                "[[capability]]\nname = \"{it}\"\nlevel = 1\ninput = {{ text = \"string?\" }}\n"
            )
        });
        let capabilities: String = capabilities.collect();
        self.world.write(
            "config/aish/tools/note.toml",
            &format!(
                "name = \"note-tool\"\nversion = \"{version}\"\nruntime = \"process\"\ncommand = \"sh\"\nscript = \"note.sh\"\n{capabilities}"
            ),
        );
    }

    fn act(&self, number: u32, title: &str) {
        println!("\n── act {number}: {title}");
    }

    /// What a command in `here` prints, which ends well.
    #[track_caller]
    fn says(&self, line: &str) -> String {
        self.ends(line, 0)
    }

    /// What a command in `here` prints, which ends with this code.
    #[track_caller]
    fn ends(&self, line: &str, code: i32) -> String {
        let line = format!("aishctl -C here {line}");
        let finished = shell(&self.world, &line).run().code(code);
        println!("$ {line}\n{}{}", finished.out(), finished.err());
        finished.out().to_owned()
    }

    /// The same as [`Stage::says`], for what people would not read.
    #[track_caller]
    fn reads(&self, line: &str) -> String {
        let line = format!("aishctl -C here {line}");
        shell(&self.world, &line).run().ok().out().to_owned()
    }

    #[track_caller]
    fn wait_for(&self, line: &str, text: &str) {
        aish_testkit::wait::until_true(text, || {
            let line = format!("aishctl -C here {line}");
            shell(&self.world, &line).run().out().contains(text)
        });
    }

    /// The level of a provider as `perm ls` shows it: `1 read`.
    #[track_caller]
    fn level(&self, provider: &str) -> String {
        let list = self.says("perm ls");
        let row = list
            .lines()
            .find(|it| it.starts_with(&format!("{provider} ")));
        let row = row.unwrap_or_else(|| panic!("{provider} in {list}"));
        let words: Vec<&str> = row.split_whitespace().skip(1).take(2).collect();
        words.join(" ")
    }

    /// A window on `here`, without a terminal: lines in, whole rows out.
    fn window(&self) -> Running {
        let mut window = self.world.ctl_spawn(&["attach", "here"]);
        window.line_with("[aish] attached to here (");
        window
    }

    fn restart(&mut self, ending: Ending) {
        let daemon = self.daemon.take().unwrap();
        match ending {
            Ending::Ordered => assert_eq!(0, daemon.terminate()),
            Ending::Killed => daemon.kill9(),
        }
        self.daemon = Some(self.world.daemon().spawn());
    }
}

fn server() -> String {
    format!("exec python3 {:?} plain\n", data("stdio_server.py"))
}

/// Allows in a window what it asks about there, as it says how.
fn allow(window: &mut Running) {
    let line = window.line_with(":confirm allow c");
    let command = line.split("   or").next().unwrap().trim();
    window.write(&format!("{command}\n"));
}

/// The command that `confirm show` gives for a yes.
fn command(shown: &str) -> String {
    let line = shown
        .lines()
        .find(|it| it.contains("aishctl confirm allow "));
    let line = line.unwrap_or_else(|| panic!("no command in {shown}"));
    line.trim().trim_start_matches("aishctl ").to_owned()
}

/// A record of the trail in a few words.
fn step(record: &Value) -> String {
    let word = |name: &str| record[name].as_str();
    let mut text = word("kind").unwrap().to_owned();
    if let Some(about) = word("tool").or(word("provider")) {
        text.push_str(&format!(" {about}"));
    }
    if let (Some(from), Some(to)) = (record["from"].as_u64(), record["to"].as_u64()) {
        text.push_str(&format!(" {from} → {to}"));
    }
    if let Some(answer) = word("answer") {
        text.push_str(&format!(" {answer}"));
    }
    text
}
