//! A day in the life of a daemon that is told many keys, and that logs all it can. After it no file, no output and no process has
//! one of them, plain or in base64, but where docs/SECURITY.md says that they lie.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{SetModel, SetModelParams};
use aish_proto::event::ToolResult;
use aish_proto::id::ConversationId;
use aish_proto::mcp::{List, ServerState};
use aish_proto::mcp_login::{Logout, LogoutParams};
use aish_proto::method::Empty;
use aish_proto::turn::{OnConfirm, Send, UnattendedAction};
use aish_testkit::client::question;
use aish_testkit::upstream::Request;
use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Client, Daemon, Upstream, World, repository};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::json;

use crate::consent::call_id;
use crate::sign_in::{Guarded, sign_in, wait_for};
use crate::tools::events;
use crate::{mcp, shell};

const OF_VARIABLE: &str = "k3y-of-the-variable-n0body-sees";
const OF_FILE: &str = "k3y-of-the-file-n0body-sees";
const OF_PROGRAM: &str = "k3y-of-the-program-n0body-sees";
const LITERAL: &str = "k3y-in-the-configuration-n0body-sees";
const HEADER: &str = "h3ader-of-the-preset-n0body-sees";
const OF_SERVER: &str = "t0ken-of-the-server-n0body-sees";
const OF_CHILD: &str = "v4riable-of-the-child-n0body-sees";
const KEYS: [&str; 7] = [
    OF_VARIABLE,
    OF_FILE,
    OF_PROGRAM,
    LITERAL,
    HEADER,
    OF_SERVER,
    OF_CHILD,
];

/// Each preset has its key from another place.
fn config(world: &World, upstream: &Upstream, guarded: &Guarded, port: u16) -> String {
    let file = world.path("home/key");
    let program = world.path("home/print-key");
    let presets = [
        ("chat", "key_env = \"TEST_KEY\"".to_owned()),
        ("responses", format!("key_file = {file:?}")),
        ("messages", format!("key_cmd = [\"sh\", {program:?}]")),
    ];
    let presets =
        presets.map(|(api, key)| upstream.preset(api, &format!("api = \"{api}\"\n{key}")));
    let literal = upstream.preset(
        "literal",
        &format!("key = \"{LITERAL}\"\nheaders = {{ \"x-api-key\" = \"{HEADER}\" }}"),
    );
    let script = repository::top().join("tests/data/mcp/stdio_server.py");
    let near = format!(
        "command = \"python3\"\nargs = [{script:?}, \"plain\"]\nenv = {{ API_TOKEN = \"{OF_CHILD}\" }}\n"
    );
    format!(
        "default_model = \"chat\"\n{}{literal}[tools]\nbuiltin = true\n[mcp.auto_approve]\n\"near__*\" = true\n\"aish__*\" = true\n{}\
         [mcp.servers.near]\n{near}[mcp.servers.over]\nurl = \"http://127.0.0.1:{port}/mcp\"\nauth_env = \"TEST_TOKEN\"\n",
        presets.concat(),
        guarded.config().trim_start_matches("[mcp.auto_approve]\n"),
    )
}

/// To `call TOOL` it calls that, and to all else it says a word; to `repeat` it refuses, and says whatever it was told of keys.
fn answered(request: &Request) -> Answer {
    if request.messages().last().is_some_and(|it| it.0 == "tool") {
        return Answer::text("So it is.");
    }
    let asked = request.question();
    // Questions that nobody answered stand in front of it.
    let question = asked.lines().last().unwrap_or_default();
    if question == "repeat" {
        let told: Vec<&str> = request.headers.iter().map(|it| it.1.as_str()).collect();
        let said = format!("no entry with {}", told.join(", "));
        return Answer::status(401, &json!({"error": {"message": said}}).to_string());
    }
    match question.split_once("call ") {
        Some((_, tool)) => Answer::stream().then_reasoning("A tool.").then_call(
            0,
            &call_id(),
            tool.trim(),
            r#"{"text":"hello"}"#,
        ),
        None => Answer::text("Hello."),
    }
}

/// What processes of this machine show of secrets, as long as it looks; the keys are nobody else's.
struct Watch<'a> {
    daemon: &'a Mutex<u32>,
    seen: Mutex<BTreeSet<String>>,
    is_over: AtomicBool,
}

/// Ends the watch, also where the day fails.
struct Night<'a>(&'a AtomicBool);

impl Drop for Night<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Watch<'_> {
    fn look(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            for entry in fs::read_dir("/proc").unwrap().flatten() {
                let name = entry.file_name();
                let Some(pid) = name.to_str().and_then(|it| it.parse().ok()) else {
                    continue;
                };
                self.look_at(pid);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn look_at(&self, pid: u32) {
        // One that has just ended has nothing to show.
        let read = |pid: u32, it: &str| fs::read(format!("/proc/{pid}/{it}")).unwrap_or_default();
        let begun = read(pid, "cmdline");
        let environment = text(&read(pid, "environ"));
        let arguments = read(pid, "cmdline");
        // One that became another program in between is looked at the next time.
        if arguments.is_empty() || arguments != begun {
            return;
        }
        let arguments = text(&arguments);
        for key in KEYS {
            if arguments.contains(key) {
                self.tell(&arguments, "its arguments", key);
            }
            // Those that somebody declared for it.
            let is_declared = match key {
                OF_CHILD => arguments.contains("stdio_server.py"),
                OF_VARIABLE | OF_SERVER => {
                    // A child that has not become its program yet is still the daemon.
                    let daemon = *self.daemon.lock().unwrap();
                    daemon == pid || arguments == text(&read(daemon, "cmdline"))
                }
                _ => false,
            };
            if environment.contains(key) && !is_declared {
                self.tell(&arguments, "its environment", key);
            }
        }
    }

    fn tell(&self, arguments: &str, place: &str, key: &str) {
        let told = format!("{key} is in {place}: {arguments}");
        self.seen.lock().unwrap().insert(told);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', " ")
}

/// As it is, and what it is in base64 wherever it begins in what is encoded.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    for (before, ahead) in [("", 0), ("x", 2), ("xx", 3)] {
        let whole = format!("{before}{secret}");
        for engine in [STANDARD, URL_SAFE] {
            let encoded = engine.encode(&whole);
            // The ends depend on what stands there.
            let sure = whole.len() / 3 * 4;
            forms.push(encoded[ahead..sure].to_owned());
        }
    }
    forms
}

struct Day {
    upstream: Upstream,
    guarded: Guarded,
    world: World,
    /// What was printed, with what printed it.
    said: Vec<(String, String)>,
}

impl Day {
    fn asked(client: &Client, conversation: ConversationId, text: &str) {
        let mut params = question(conversation, text);
        // As a script asks: what would wait for a person is denied.
        params.on_confirm = Some(OnConfirm {
            then: UnattendedAction::Deny,
            ..OnConfirm::default()
        });
        client.wait_turn(client.done::<Send>(params).turn);
    }

    /// A daemon, and the pid of it for who watches.
    fn daemon(&self, pid: &Mutex<u32>) -> Daemon {
        let mut watched = pid.lock().unwrap();
        let daemon = self
            .world
            .daemon()
            .env("TEST_KEY", OF_VARIABLE)
            .env("TEST_TOKEN", OF_SERVER)
            .env("AISH_LOG", "trace")
            .spawn();
        *watched = daemon.pid();
        daemon
    }

    fn ctl(&mut self, words: &str) {
        let args: Vec<&str> = words.split(' ').collect();
        let done = self.world.ctl(&args).run();
        self.said
            .push((words.to_owned(), format!("{}{}", done.out(), done.err())));
    }

    /// Questions in each dialect, with calls and failures, a command, and a sign-in with all that may come of it.
    fn morning(&self, client: &Client) -> ConversationId {
        wait_for(client, ServerState::NeedsSignIn);
        until_true("the servers", || {
            let servers = client.done::<List>(Empty {}).servers;
            let state = |alias: &str| servers.iter().find(|it| it.alias == alias).unwrap().state;
            state("near") == ServerState::Ready && state("over") == ServerState::Failed
        });
        let conversation = client.create();
        for model in ["chat", "responses", "messages", "literal"] {
            let params = SetModelParams {
                id: conversation,
                model: Some(model.to_owned()),
            };
            client.done::<SetModel>(params);
            for text in [
                "hello",
                "call near__env",
                "call near__echo",
                "call aish__time",
                "repeat",
            ] {
                Self::asked(client, conversation, text);
            }
        }
        let results: Vec<ToolResult> = events(client, conversation);
        let told = results
            .iter()
            .filter(|it| it.content.contains("\"API_TOKEN\": \"[key]\""));
        assert_eq!(
            4,
            told.count(),
            "the server told its own token: {results:?}"
        );
        let mut follow = client.attach(conversation, ReplayStart::Start);
        let words = "env; tr '\\0' ' ' < /proc/$PPID/environ; tr '\\0' ' ' < /proc/$PPID/cmdline";
        shell::run(client, &mut follow, shell::own(conversation, words));
        for forget in [false, true] {
            sign_in(client, &self.guarded);
            Self::asked(client, conversation, "call guarded__look");
            self.guarded.turn(&json!({"expire": true}));
            Self::asked(client, conversation, "call guarded__look");
            client.done::<Logout>(LogoutParams {
                alias: "guarded".to_owned(),
                forget,
            });
            Self::asked(client, conversation, "call guarded__look");
        }
        sign_in(client, &self.guarded);
        conversation
    }

    /// Everything that can be asked of it, and every way out of it.
    fn evening(&mut self, conversation: ConversationId) {
        let id = conversation.to_string();
        let out = |name: &str| {
            self.world
                .path(format!("work/{name}"))
                .display()
                .to_string()
        };
        let (lines, backup) = (out("lines.jsonl"), out("backup"));
        let exports =
            ["md", "json", "cast"].map(|it| format!("export --format {it} -o {} {id}", out(it)));
        let mut all = exports.to_vec();
        all.push(format!("export --format jsonl -o {lines} {id}"));
        all.push(format!("import {lines}"));
        all.push(format!("backup {backup}"));
        all.push(format!("log {id}"));
        all.push("search n0body".to_owned());
        let more = [
            "audit",
            "audit --json",
            "audit verify",
            "doctor",
            "doctor --json",
            "status",
            "status --json",
            "config show",
            "config show --origin",
            "config check",
            "mcp list",
            "mcp list --json",
            "mcp tools --json",
            "mcp logs near",
            "mcp logs over",
            "model list",
            "model list --json",
            "usage",
            "metrics",
            "logs",
            "store check",
            "tools list",
            "conv list --json",
            "rpc mcp/list {}",
        ];
        all.extend(more.map(str::to_owned));
        for words in all {
            self.ctl(&words);
        }
        let failed: Vec<&(String, String)> = self
            .said
            .iter()
            .filter(|(_, it)| it.contains("unrecognized"))
            .collect();
        assert!(failed.is_empty(), "{failed:?}");
    }
}

/// Where they lie: the configuration and what it names, and the sign-ins.
fn is_known(path: &Path, world: &World) -> bool {
    let places = ["config/aish/config.toml", "home/key", "home/print-key"];
    places.iter().any(|it| world.path(it) == path) || path.starts_with(world.state().join("oauth"))
}

fn files(folder: &Path, each: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&path, each),
            Ok(kind) if kind.is_file() => each(&path),
            Ok(_) | Err(_) => {}
        }
    }
}

#[test]
fn after_a_day_no_key_is_anywhere_but_where_it_belongs() {
    let (upstream, guarded, world) = (Upstream::start(), Guarded::start(), World::new());
    let (_over, port) = mcp::over_http("repeats");
    upstream.answer_with(answered);
    KEYS.iter().for_each(|it| upstream.secret(it));
    world.write("home/key", &format!("{OF_FILE}\n"));
    world.write(
        "home/print-key",
        &format!("tr '\\0' ' ' < /proc/$$/environ >> \"$HOME/environments\"\necho {OF_PROGRAM}\n"),
    );
    world.write_config(&config(&world, &upstream, &guarded, port));
    let mut day = Day {
        upstream,
        guarded,
        world,
        said: vec![],
    };
    let pid = Mutex::new(0);
    let watch = Watch {
        daemon: &pid,
        seen: Mutex::default(),
        is_over: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        scope.spawn(|| watch.look());
        let _night = Night(&watch.is_over);
        let daemon = day.daemon(&pid);
        let client = day.world.client();
        let conversation = day.morning(&client);
        drop(client);
        daemon.kill9();
        let daemon = day.daemon(&pid);
        day.evening(conversation);
        let client = day.world.client();
        Day::asked(&client, conversation, "hello");
        assert_eq!(0, daemon.terminate());
    });
    assert_eq!(BTreeSet::new(), watch.seen.into_inner().unwrap());
    day.nothing_is_told();
    day.upstream.finish();
}

impl Day {
    fn nothing_is_told(&self) {
        let seen = self.guarded.seen();
        let given = seen["secrets"].as_array().unwrap().iter();
        let given = given.map(|it| it.as_str().unwrap().to_owned());
        let secrets: Vec<String> = KEYS.map(str::to_owned).into_iter().chain(given).collect();
        let forms: Vec<(String, Vec<String>)> = secrets
            .into_iter()
            .map(|it| (it.clone(), forms(&it)))
            .collect();
        let mut told = vec![];
        let mut known = BTreeSet::new();
        let mut bytes = 0;
        let mut count = 0;
        let mut look = |place: String, text: &str, is_known: bool| {
            (bytes, count) = (bytes + text.len(), count + 1);
            for (secret, forms) in &forms {
                if forms.iter().any(|it| text.contains(it.as_str())) {
                    if is_known {
                        known.insert(secret.clone());
                    } else {
                        told.push(format!("{secret} in {place}"));
                    }
                }
            }
        };
        for (words, text) in &self.said {
            look(format!("aishctl {words}"), text, false);
        }
        files(&self.world.path(""), &mut |path| {
            let text = text(&fs::read(path).unwrap_or_default());
            look(
                path.display().to_string(),
                &text,
                is_known(path, &self.world),
            );
        });
        println!(
            "{} secrets, {count} files and outputs, {bytes} bytes",
            forms.len()
        );
        assert!(told.is_empty(), "{told:#?}");
        // It finds those that are there: the four of files, and the sign-in of now.
        let there = [OF_FILE, OF_PROGRAM, LITERAL, HEADER, OF_CHILD];
        assert!(
            there.iter().all(|it| known.contains(*it)) && known.len() > there.len(),
            "{known:?}"
        );
        assert!(forms.len() > KEYS.len() + 6 && count > 40, "{count}");
    }
}
