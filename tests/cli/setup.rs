//! Set up without an editor: `model add`, `key set`, `mcp add`. The person's file keeps its comments, a key is in a file of
//! its own and nowhere else, and what goes wrong leaves everything as it was.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use aish_testkit::pty::OnTerminal;
use aish_testkit::{Answer, Upstream, World, built};

use crate::shell::{shell, shell_on_terminal};

const KEY: &str = "sk-never-shown-4711";
const STRACE: &str = "/usr/bin/strace";
const MINE: &str = "# my own words\n[ui]\ncolor = \"never\"   # because\n\n[models.old] # stays\nendpoint = \"http://127.0.0.1:9\"\nmodel = \"m\"\n";

fn file(world: &World) -> String {
    fs::read_to_string(world.config_file()).unwrap()
}

fn key_file(world: &World, name: &str) -> PathBuf {
    world.path(format!("config/aish/keys/{name}.key"))
}

/// What the person had said is there, in its order.
#[track_caller]
fn keeps_mine(world: &World) {
    let text = file(world);
    assert!(text.starts_with(MINE), "{text}");
}

#[test]
fn a_preset_is_added_by_options_its_key_on_stdin_and_tried() {
    let upstream = Upstream::start();
    let world = World::new();
    world.write_config(MINE);
    let _daemon = world.daemon().spawn();
    let add = format!(
        "model add deep --endpoint {} --id test-model --context-tokens 9000 --key-stdin",
        upstream.endpoint()
    );
    let added = shell(&world, &format!("printf '{KEY}\\n' | aishctl {add}")).run();
    let said = format!("{}{}", added.out(), added.err());
    assert!(
        said.contains("/v1 answers in ") && said.contains(" has test-model\n"),
        "{}",
        added.report()
    );
    assert!(!said.contains(KEY), "{said}");
    let always = "always: aishctl model default deep\n";
    assert!(said.contains(always), "{said}");
    keeps_mine(&world);
    let text = file(&world);
    assert!(text.contains("\n[models.deep]\nendpoint = "), "{text}");
    assert!(text.contains("context_tokens = 9000"), "{text}");
    let kept = key_file(&world, "deep");
    assert!(
        text.contains(&format!("key_file = \"{}\"", kept.display())),
        "{text}"
    );
    assert_eq!(format!("{KEY}\n"), fs::read_to_string(&kept).unwrap());
    assert_eq!(
        0o600,
        fs::metadata(&kept).unwrap().permissions().mode() & 0o777
    );
    assert_eq!(
        0o700,
        fs::metadata(kept.parent().unwrap())
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    );
    // The daemon has it, and sends the key.
    upstream.answer(Answer::text("fine"));
    assert_eq!(
        "fine\n",
        world.ctl(&["ask", "-m", "deep", "x"]).run().ok().out()
    );
    assert!(!world.log_text().contains(KEY));

    let before = (file(&world), fs::read(&kept).unwrap());
    let again = shell(&world, &format!("echo other | aishctl {add}"))
        .run()
        .code(2);
    assert!(
        again.err().contains("deep.key already\nhint: use it: "),
        "{}",
        again.err()
    );
    let plain = add.replace(" --key-stdin", "");
    let again = shell(&world, &format!("aishctl {plain}")).run().code(2);
    assert!(
        again.err().contains("models.deep is in the file already")
            && again.err().contains("hint: take another name"),
        "{}",
        again.err()
    );
    assert_eq!(before, (file(&world), fs::read(&kept).unwrap()));
}

#[test]
fn a_server_that_does_not_answer_is_told_in_one_line() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let tried = world
        .ctl(&[
            "model",
            "add",
            "off",
            "--endpoint",
            "http://127.0.0.1:9",
            "--id",
            "m",
        ])
        .run()
        .code(5);
    let line = tried.out().lines().last().unwrap();
    assert!(
        line.starts_with("off: http://127.0.0.1:9/v1: "),
        "{}",
        tried.report()
    );
    let unsaid = world
        .ctl(&["model", "add", "x", "--provider", "ollama"])
        .run()
        .code(2);
    assert!(
        unsaid
            .err()
            .contains("there is no --id of a model, and nobody here can be asked"),
        "{}",
        unsaid.err()
    );
    assert!(
        unsaid.err().contains("hint: aishctl model add NAME"),
        "{}",
        unsaid.err()
    );
}

#[test]
fn a_person_chooses_from_a_menu_and_types_a_key_that_is_not_shown() {
    let world = World::new();
    world.write_config(MINE);
    let mut adding = shell_on_terminal(&world, "exec aishctl model add --no-probe");
    adding.wait_for("Number, name or address: ");
    assert!(
        adding.seen().contains("https://api.openai.com/v1"),
        "{}",
        adding.seen()
    );
    adding.key("openai\n");
    adding.wait_for("Name of the preset here [openai]: ");
    adding.key("deep\n");
    adding.wait_for("Key [type]: ");
    adding.key("\n");
    adding.wait_for("it is not shown): ");
    adding.key(&format!("x\u{7f}{KEY}\n"));
    adding.wait_for("as the server calls it: ");
    adding.key("gpt-x\n");
    assert_eq!(0, adding.wait(), "{}", adding.seen());
    assert!(!adding.seen().contains(KEY), "{}", adding.seen());
    keeps_mine(&world);
    let text = file(&world);
    assert!(
        text.contains("endpoint = \"https://api.openai.com/v1\"\nmodel = \"gpt-x\"\n"),
        "{text}"
    );
    assert_eq!(
        format!("{KEY}\n"),
        fs::read_to_string(key_file(&world, "deep")).unwrap()
    );
    // The terminal shows again what is typed.
    let mut stopped = shell_on_terminal(&world, "aishctl key set other; stty -a");
    stopped.wait_for("it is not shown): ");
    stopped.key("\u{3}");
    stopped.wait_for(" echo ");
    let _interrupted = stopped.wait();
    assert!(!key_file(&world, "other").exists());
}

/// The server says which models it has, and what answers is asked about where nothing does yet. A name may look like a number.
#[test]
fn the_first_model_is_offered_as_the_one_that_answers() {
    let upstream = Upstream::start();
    upstream.models(&["org/large", "org/7"]);
    upstream.answer_with(|_| Answer::text("I see."));
    let world = World::new();
    let mut adding = shell_on_terminal(&world, "exec aishctl model add");
    for (question, typed) in [
        ("Number, name or address: ", "0"),
        ("Its address, for example ", &upstream.endpoint()),
        ("Name of the preset here [local]: ", "7"),
        ("Key [type]: ", ""),
        ("it is not shown): ", KEY),
        ("name or a part of it: ", "7"),
        ("names no other preset? [yes]: ", ""),
    ] {
        adding.wait_for(question);
        adding.key(&format!("{typed}\n"));
    }
    assert_eq!(0, adding.wait(), "{}", adding.seen());
    assert!(adding.seen().contains("   2  org/7"), "{}", adding.seen());
    let text = file(&world);
    assert!(text.contains("default_model = \"7\""), "{text}");
    assert!(text.contains("model = \"org/7\""), "{text}");
    assert_eq!("I see.\n", world.ctl(&["ask", "why?"]).run().ok().out());
}

/// Nobody has to know how a server is spoken to.
#[test]
fn a_server_that_speaks_as_anthropics_does_is_found_out() {
    let upstream = Upstream::start();
    upstream.models(&["large"]);
    upstream.models_want("x-api-key");
    let world = World::new();
    let mut adding = shell_on_terminal(&world, "exec aishctl model add");
    for (question, typed) in [
        ("Number, name or address: ", "0"),
        ("Its address, for example ", &*upstream.endpoint()),
        ("Name of the preset here [local]: ", ""),
        ("Key [type]: ", ""),
        ("it is not shown): ", KEY),
        ("name or a part of it [1]: ", ""),
        ("names no other preset? [yes]: ", ""),
    ] {
        adding.wait_for(question);
        adding.key(&format!("{typed}\n"));
    }
    assert_eq!(0, adding.wait(), "{}", adding.seen());
    let seen = adding.seen();
    assert!(seen.contains("It speaks messages"), "{seen}");
    assert!(
        !seen.contains("Go on all the same") && !seen.contains(KEY),
        "{seen}"
    );
    let text = file(&world);
    assert!(
        text.contains("model = \"large\"\napi = \"messages\"\n"),
        "{text}"
    );
}

/// A server that knows nothing but its models and `/v1/responses`.
fn responses_alone() -> String {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/v1", server.local_addr().unwrap());
    thread::spawn(move || {
        for peer in server.incoming() {
            let mut peer = BufReader::new(peer.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && peer.read_line(&mut head).unwrap_or(0) > 0 {}
            let (status, body) = match head.split(' ').nth(1) {
                Some("/v1/models") => ("200 OK", r#"{"data": [{"id": "large"}]}"#),
                Some("/v1/responses") => ("400 Bad Request", "{}"),
                Some(_) | None => ("404 Not Found", "{}"),
            };
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            let _gone = peer.get_mut().write_all(answer.as_bytes());
        }
    });
    endpoint
}

#[test]
fn what_a_server_speaks_alone_is_set() {
    let world = World::new();
    let line = format!(
        "aishctl model add new.one --endpoint {} --id large",
        responses_alone()
    );
    let added = shell(&world, &line).run().ok();
    let told = "new.one: it speaks responses and no chat completions: api = \"responses\" is set";
    assert!(added.out().contains(told), "{}", added.report());
    let text = file(&world);
    assert!(text.contains("api = \"responses\"\n"), "{text}");
}

/// Whoever typed a wrong key learns it before anything is kept.
#[test]
fn a_key_that_the_server_refuses_leaves_nothing_behind() {
    let (_upstream, world, mut adding) = refused_key();
    adding.key("\n");
    assert_eq!(5, adding.wait(), "{}", adding.seen());
    assert!(adding.seen().contains("HTTP 401"), "{}", adding.seen());
    assert!(!key_file(&world, "local").exists());
    let kept = fs::read_to_string(world.config_file()).unwrap_or_default();
    assert!(!kept.contains("[models"), "{kept}");
}

/// Nothing else has to be said a second time.
#[test]
fn another_key_is_typed_where_the_server_refuses_the_first() {
    let (upstream, world, mut adding) = refused_key();
    upstream.models_want("authorization");
    for (question, typed) in [
        (ANOTHER, "two words"),
        ("a key is one word", OTHER_KEY),
        ("Model, by number, name or a part of it", "1"),
        ("Make it the default", "no"),
    ] {
        adding.wait_for(question);
        adding.key(&format!("{typed}\n"));
    }
    assert_eq!(0, adding.wait(), "{}", adding.seen());
    let kept = fs::read_to_string(key_file(&world, "local")).unwrap();
    assert_eq!(format!("{OTHER_KEY}\n"), kept);
    assert!(!adding.seen().contains(OTHER_KEY), "{}", adding.seen());
}

const OTHER_KEY: &str = "sk-never-shown-4712";
const ANOTHER: &str = "or yes to go on all the same, or nothing to stop (it is not shown): ";

/// The dialogue up to what a server says that wants another key than the one that was typed.
fn refused_key() -> (Upstream, World, OnTerminal) {
    let upstream = Upstream::start();
    upstream.models_want("a-key-of-another-kind");
    let world = World::new();
    let mut adding = shell_on_terminal(&world, "exec aishctl model add");
    for (question, typed) in [
        ("Number, name or address: ", "elsewhere"),
        ("Its address, for example ", &*upstream.endpoint()),
        ("Name of the preset here [local]: ", ""),
        ("Key [type]: ", ""),
        ("Key (it is not shown): ", KEY),
    ] {
        adding.wait_for(question);
        adding.key(&format!("{typed}\n"));
    }
    adding.wait_for(ANOTHER);
    (upstream, world, adding)
}

#[test]
fn a_preset_that_was_removed_is_added_again_with_the_key_that_stayed() {
    let upstream = Upstream::start();
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let endpoint = upstream.endpoint();
    let add = format!("model add deep --endpoint {endpoint} --id test-model");
    let by_stdin = format!("printf '{KEY}\\n' | aishctl {add} --key-stdin");
    drop(shell(&world, &by_stdin).run().ok());
    let asked = world.ctl(&["ask", "who answers?"]).run().ok();
    let told = "no model answers by default; deep does where it is named";
    assert!(asked.err().contains(told), "{}", asked.report());
    let removed = world.ctl(&["model", "remove", "deep"]).run().ok();
    let told = "a key of that name stays: aishctl key remove deep\n";
    assert!(removed.err().contains(told), "{}", removed.report());
    let mut adding = shell_on_terminal(&world, &format!("exec aishctl {add}"));
    for (question, typed) in [
        ("Key [type]: ", "another-word"),
        ("a key is typed after t, where it is not shown", "t"),
        ("deep.key already. Use it? [yes]: ", "perhaps"),
        ("yes or no?", ""),
        ("names no other preset? [yes]: ", "no"),
    ] {
        adding.wait_for(question);
        adding.key(&format!("{typed}\n"));
    }
    assert_eq!(0, adding.wait(), "{}", adding.seen());
    let asked = world.ctl(&["ask", "-m", "deep", "who answers?"]).run().ok();
    assert_eq!("", asked.err());
    world.write("config/aish/keys/no name.key", "");
    assert_eq!("deep\n", world.ctl(&["key"]).run().ok().out());
    assert_eq!(
        "{\"keys\":[\"deep\"]}\n",
        world.ctl(&["key", "list", "--json"]).run().ok().out()
    );
    let gone = world.ctl(&["key", "remove", "deep"]).run().ok();
    assert!(
        gone.out().ends_with("deep.key is gone\n"),
        "{}",
        gone.report()
    );
    assert!(!key_file(&world, "deep").exists());
    let _twice = world.ctl(&["key", "remove", "deep"]).run().code(8);
    let none = world.ctl(&["key", "list"]).run().ok();
    assert_eq!(
        "no key is kept here; aishctl key set NAME keeps one\n",
        none.out()
    );
}

#[test]
fn a_key_is_set_again_and_has_to_be_one() {
    let world = World::new();
    for key in ["first", KEY] {
        let set = shell(&world, &format!("echo {key} | aishctl key set deep"))
            .run()
            .ok();
        assert_eq!(
            format!("{}\n", key_file(&world, "deep").display()),
            set.out()
        );
    }
    assert_eq!(
        format!("{KEY}\n"),
        fs::read_to_string(key_file(&world, "deep")).unwrap()
    );
    for (line, why) in [
        ("echo 'two words' | aishctl key set x", "a key is one word"),
        ("aishctl key set x </dev/null", "no key was given"),
        ("echo k | aishctl key set ../x", "the name of a key"),
    ] {
        let refused = shell(&world, line).run().code(2);
        assert!(refused.err().contains(why), "{}", refused.err());
        assert!(refused.err().contains("hint: "), "{}", refused.err());
    }
    assert_eq!(
        1,
        fs::read_dir(world.path("config/aish/keys"))
            .unwrap()
            .count()
    );
}

#[test]
fn a_server_is_kept_in_the_configuration_and_connected_to() {
    let world = World::new();
    world.write_config(MINE);
    let _daemon = world.daemon().spawn();
    let script = aish_testkit::repository::top().join("tests/data/mcp/stdio_server.py");
    let add = format!(
        "mcp add 'python3 {} example' notes --env 'A=b \"c\"'",
        script.display()
    );
    let added = shell(&world, &format!("aishctl {add}")).run().ok();
    assert!(
        added.out().contains("notes is connected: "),
        "{}",
        added.report()
    );
    keeps_mine(&world);
    let text = file(&world);
    assert!(
        text.contains("[mcp.servers.notes]\ncommand = \"python3\"\n"),
        "{text}"
    );
    assert!(text.contains("env = { A = \"b \\\"c\\\"\" }"), "{text}");
    let again = shell(&world, &format!("aishctl {add}")).run().code(2);
    assert!(
        again
            .err()
            .contains("mcp.servers.notes is in the file already"),
        "{}",
        again.err()
    );
    // As other programs have it.
    let other = format!("mcp add other -- python3 {} example", script.display());
    let added = shell(&world, &format!("aishctl {other}")).run().ok();
    assert!(
        added.out().contains("other is connected: "),
        "{}",
        added.report()
    );
    let unnamed = world
        .ctl(&["mcp", "add", "http://127.0.0.1:9/mcp"])
        .run()
        .code(2);
    assert!(
        unnamed
            .err()
            .contains("hint: aishctl mcp add http://127.0.0.1:9/mcp NAME"),
        "{}",
        unnamed.err()
    );
    let off = world
        .ctl(&["mcp", "add", "http://127.0.0.1:9/mcp", "off"])
        .run()
        .code(1);
    assert!(
        off.err()
            .contains("off is in the file, and not connected: "),
        "{}",
        off.err()
    );
    drop(world.ctl(&["mcp", "remove", "off"]).run().ok());
    assert!(!file(&world).contains("[mcp.servers.off]"));
    let listed = world.ctl(&["mcp", "list"]).run().ok();
    assert!(listed.out().contains("other") && !listed.out().contains("off "));
}

#[test]
fn what_the_kernel_is_to_hold_is_asked_for() {
    let world = World::new();
    let mut adding = shell_on_terminal(&world, "exec aishctl mcp add 'some-program -x' held");
    adding.wait_for("What may this program reach?");
    adding.key("r\n");
    assert_eq!(0, adding.wait(), "{}", adding.seen());
    let text = file(&world);
    assert!(
        text.contains("args = [\"-x\"]\n") && text.contains("contain = \"read\"\n"),
        "{text}"
    );
}

#[test]
fn a_file_with_a_fault_is_told_with_the_place_and_stays() {
    let world = World::new();
    world.write("config/aish/config.toml", "[ui]\ncolor = \n");
    for line in [
        "model add x --endpoint http://127.0.0.1:9 --id m",
        "mcp add http://127.0.0.1:9 x",
    ] {
        let refused = shell(&world, &format!("aishctl {line}")).run().code(78);
        assert!(
            refused.err().contains("config.toml:2:"),
            "{}",
            refused.err()
        );
        assert_eq!("[ui]\ncolor = \n", file(&world));
    }
}

#[test]
fn killed_between_writing_and_renaming_the_old_file_is_there() {
    if !Path::new(STRACE).exists() {
        println!("skipped: there is no {STRACE}");
        return;
    }
    let world = World::new();
    world.write_config(MINE);
    let before = file(&world);
    let daemon = built("aishd");
    let inject = "inject=rename,renameat,renameat2:error=EPERM:signal=SIGKILL";
    let killed = world
        .program(
            Path::new(STRACE),
            &[
                "-f",
                "-o",
                "/dev/null",
                "-e",
                inject,
                daemon.to_str().unwrap(),
                "config",
                "add",
            ],
        )
        .stdin("[models.x]\nendpoint = \"http://127.0.0.1:9\"\nmodel = \"m\"\n")
        .run();
    assert!(!killed.out().contains("config.toml"), "{}", killed.report());
    assert_eq!(before, file(&world));
    let add = "aishctl model add x --endpoint http://127.0.0.1:9 --id m --no-probe";
    drop(shell(&world, add).run().ok());
    assert!(file(&world).contains("[models.x]"));
}
