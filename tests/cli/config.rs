//! `aishctl config` through the real programs: output, exit codes, what it leaves behind.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use aish_testkit::{Upstream, World};

const PRESET: &str = "[models.fast]  # mine\nendpoint = \"http://127.0.0.1:9\"\nmodel = \"m\"\n";

fn shown(world: &World, text: &str) -> String {
    text.replace(&world.path("").display().to_string(), "~/")
}

#[test]
fn check_shows_all_that_is_wrong_and_ends_with_78() {
    let world = World::new();
    let checked = world.ctl(&["config", "check"]).run().ok();
    assert_eq!("ok\n", checked.out());
    world.write_config("[limits]\nmax_client = 3\n[ui]\ncolor = 1\n");
    let checked = world.ctl(&["config", "check"]).run().code(78);
    let expected = "error: unknown key `max_client`\n \
        --> ~/config/aish/config.toml:2:1\n  |\n2 | max_client = 3\n  | ^^^^^^^^^^ did you mean `max_clients`?\n\n\
        error: `ui.color`: expected a text, found a number\n \
        --> ~/config/aish/config.toml:4:9\n  |\n4 | color = 1\n  |         ^\n\n2 errors\n";
    assert_eq!(expected, shown(&world, checked.out()));
    let report = world
        .ctl(&["config", "check", "--json"])
        .run()
        .code(78)
        .json();
    assert_eq!(
        (false, 2),
        (
            report["ok"].as_bool().unwrap(),
            report["problems"].as_array().unwrap().len()
        )
    );
    assert_eq!(4, report["problems"][1]["line"]);
    // A daemon does not begin with it either, and says the same.
    let asked = world.ctl(&["ask", "hello"]).run().code(78);
    assert!(
        asked
            .err()
            .contains("config.toml:2:1: unknown key `max_client`"),
        "{}",
        asked.report()
    );
}

#[test]
fn explain_path_and_schema_need_no_daemon() {
    let world = World::new();
    world.write_config("[ui]\ntheme = \"dark\"\n");
    let about = world.ctl(&["config", "explain", "ui.theme"]).run().ok();
    let expected = "ui.theme: a text\n\nThe colours of code and headings, by name; for clients that have several. `aish`\nhas one, the terminal's own.\n\ndefault  \"ansi\"\n\
        now      \"dark\"  # ~/config/aish/config.toml:2\n";
    assert_eq!(expected, shown(&world, about.out()));
    let unknown = world.ctl(&["config", "explain", "ui.theem"]).run().code(8);
    assert!(
        unknown
            .err()
            .contains("there is no key ui.theem\nhint: ui.theme"),
        "{}",
        unknown.report()
    );
    let schema = world.ctl(&["config", "schema"]).run().ok();
    let committed = aish_testkit::repository::top().join("config/aish.schema.json");
    assert_eq!(fs::read_to_string(committed).unwrap(), schema.out());
    let files = world.ctl(&["config", "path"]).run().ok();
    let expected =
        "~/machine/aish/config.toml  # machine, read\n~/config/aish/config.toml  # user, read\n";
    assert_eq!(expected, shown(&world, files.out()));
    let _usage = world.ctl(&["config", "nonsense"]).run().code(2);
    assert!(world.daemon_pids().is_empty());
}

#[test]
fn show_tells_what_is_in_force_whether_a_daemon_runs_or_not() {
    let world = World::new();
    world.write_config(&format!(
        "{PRESET}key_cmd = [\"pass\"]\nheaders = {{ X = \"sk-secret\" }}\n"
    ));
    let before = world.ctl(&["config", "show", "--origin"]).run().ok();
    assert!(
        before.err().contains("no daemon answers"),
        "{}",
        before.report()
    );
    let _daemon = world.daemon().arg("-c").arg("ui.theme=dark").spawn();
    let now = world.ctl(&["config", "show", "--origin"]).run().ok();
    assert_eq!("", now.err());
    let same = before.out().replace(
        "ui.theme = \"ansi\"  # default",
        "ui.theme = \"dark\"  # -c",
    );
    assert_eq!(same, now.out());
    assert!(
        now.out().contains("models.fast.headers.X = (set)  #") && !now.out().contains("sk-secret")
    );
    let json = world.ctl(&["config", "show", "--json"]).run().ok().json();
    assert!(
        json.as_array()
            .unwrap()
            .iter()
            .any(|it| it["key"] == "default_model" && it["value"] == "\"fast\"")
    );
    world.write_config("wrong = 1\n");
    let _reloaded = world.ctl(&["reload"]).run().code(78);
    let still = world.ctl(&["config", "show", "--origin"]).run().ok();
    assert_eq!(now.out(), still.out());
    assert!(
        still.err().contains("unknown key `wrong`"),
        "{}",
        still.report()
    );
}

#[test]
fn set_keeps_comments_and_writes_nothing_that_is_wrong() {
    let world = World::new();
    world.write_config(PRESET);
    let _daemon = world.daemon().spawn();
    let file = world.config_file();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let set = |key: &str, value: &str| world.ctl(&["config", "set", key, value]).run();
    let _written = set("models.fast.model", "other model").ok();
    let _written = set("ui.theme", "dark").ok();
    let _written = set("models.fast.timeouts.idle", "5s").ok();
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with(
            "[models.fast]  # mine\nendpoint = \"http://127.0.0.1:9\"\nmodel = \"other model\"\n"
        ),
        "{text}"
    );
    assert_eq!(0o600, fs::metadata(&file).unwrap().mode() & 0o777);
    let now = world.ctl(&["config", "show"]).run().ok();
    assert!(
        now.out().contains("ui.theme = \"dark\"\n"),
        "the daemon has it"
    );
    let refused = set("limits.max_clients", "0").code(78);
    assert!(
        refused.err().contains("expected a number from 1 to 10000"),
        "{}",
        refused.report()
    );
    let _unknown = set("limits.max_client", "3").code(78);
    let _table = set("limits", "3").code(78);
    let _is_table = set("models.fast", "3").code(2);
    let argument = set("models.fast.key", "sk-secret").code(2);
    assert!(argument.err().contains("seen by every process") && !argument.err().contains("sk-"));
    assert_eq!(text, fs::read_to_string(&file).unwrap());
    let by_stdin = world.ctl(&["config", "set", "models.fast.key", "-"]);
    let _written = by_stdin.stdin("sk-secret\n").run().ok();
    assert!(
        fs::read_to_string(&file)
            .unwrap()
            .contains("key = \"sk-secret\"\n")
    );
    let restart = set("limits.max_clients", "9").ok();
    assert!(
        restart
            .err()
            .contains("restart needed for limits.max_clients"),
        "{}",
        restart.report()
    );
    let names: Vec<_> = fs::read_dir(world.path("config/aish")).unwrap().collect();
    assert_eq!(1, names.len(), "nothing is left behind");
}

#[test]
fn unset_takes_out_one_key_or_a_table_and_nothing_that_is_needed() {
    let world = World::new();
    let more = "\n# the other one\n[models.slow]\nendpoint = \"http://127.0.0.1:9\"\nmodel = \"m\"\n\n[ui]  # mine\ntheme = \"dark\"\ncolor = \"never\"\n";
    world.write_config(&format!("default_model = \"fast\"\n{PRESET}{more}"));
    let _daemon = world.daemon().spawn();
    let unset = |key: &str| world.ctl(&["config", "unset", key]).run();
    let _done = unset("ui.theme").ok();
    let _done = unset("models.slow").ok();
    let begins = |expected: &str| {
        let text = fs::read_to_string(world.config_file()).unwrap();
        assert!(text.starts_with(expected), "{text}");
    };
    let ui = "\n[ui]  # mine\ncolor = \"never\"\n\n[discovery]";
    begins(&format!("default_model = \"fast\"\n{PRESET}{ui}"));
    let now = world.ctl(&["config", "show"]).run().ok();
    assert!(
        now.out().contains("ui.theme = \"ansi\"") && !now.out().contains("models.slow"),
        "the daemon knows: {}",
        now.report()
    );
    let gone = unset("models.slow").code(8);
    assert!(
        gone.err().contains("models.slow is not in the file"),
        "{}",
        gone.report()
    );
    let needed = world.ctl(&["model", "remove", "fast"]).run().code(78);
    assert!(
        needed
            .err()
            .contains("`default_model`: there is no [models.fast]"),
        "{}",
        needed.report()
    );
    let _done = unset("default_model").ok();
    let _done = world.ctl(&["model", "remove", "fast"]).run().ok();
    begins(ui);
}

#[test]
fn edit_starts_the_editor_and_leaves_nothing_unsaid() {
    let world = World::new();
    let editor = |script: &str| {
        world.write("editor", &format!("#!/bin/sh\n{script}\n"));
        let path = world.path("editor");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let text = format!("{} --wait", path.display());
        world
            .ctl(&["config", "edit"])
            .env("VISUAL", text)
            .env("EDITOR", "false")
    };
    let _daemon = world.daemon().spawn();
    let edited = editor("test \"$1\" = --wait && printf '[ui]\\ntheme = \"x\"\\n' > \"$2\"")
        .run()
        .ok();
    assert_eq!("ok\n", edited.out());
    assert!(
        world
            .ctl(&["config", "show"])
            .run()
            .ok()
            .out()
            .contains("ui.theme = \"x\"")
    );
    let wrong = editor("printf 'theme = 1\\n' > \"$2\"").run().code(78);
    assert!(
        wrong.out().contains("unknown key `theme`"),
        "{}",
        wrong.report()
    );
    assert!(
        wrong
            .err()
            .contains("goes on with the configuration before"),
        "{}",
        wrong.report()
    );
    let failed = editor("exit 3").run().code(1);
    assert!(
        failed.err().contains("ended with exit status: 3"),
        "{}",
        failed.report()
    );
    // A new file is for its owner alone, and an empty one is taken away again.
    fs::remove_file(world.config_file()).unwrap();
    let _nothing = editor("stat -c %a \"$2\" > \"$HOME/mode\"").run().ok();
    assert_eq!(
        "600\n",
        fs::read_to_string(world.path("home/mode")).unwrap()
    );
    assert!(!world.config_file().exists());
}

#[test]
fn a_project_is_trusted_by_hand_and_said_once() {
    let (user, project) = (Upstream::start(), Upstream::start());
    let answer = |upstream: &Upstream, text: &'static str| {
        upstream.answer_with(move |_| aish_testkit::Answer::text(text));
    };
    answer(&user, "the user's");
    answer(&project, "the project's");
    let world = World::with(&user);
    world.write("data/p/.aish/config.toml", &project.config("ours"));
    world.write("data/p/src/main.rs", "");
    let deep = world.path("data/p/src");
    let ctl = |args: &[&str]| world.ctl(args).cwd(&deep).run();
    let asked = ctl(&["ask", "who are you?"]).ok();
    assert_eq!("the user's\n", asked.out());
    assert_eq!(
        1,
        asked
            .err()
            .matches("is not trusted, and is ignored: aishctl config trust")
            .count(),
        "{}",
        asked.report()
    );
    let checked = ctl(&["config", "check"]).ok();
    assert!(
        checked.out().contains("note: ") && checked.out().ends_with("ok\n"),
        "{}",
        checked.report()
    );
    let trusted = ctl(&["config", "trust"]).ok();
    assert!(
        shown(&world, trusted.out()).starts_with("trusted ~/data/p/.aish/config.toml as it is now"),
        "{}",
        trusted.report()
    );
    let asked = ctl(&["ask", "who are you?"]).ok();
    assert_eq!(
        ("the project's\n", false),
        (asked.out(), asked.err().contains("trusted"))
    );
    let list = ctl(&["config", "trust", "--list"]).ok();
    assert_eq!(
        "~/data/p/.aish/config.toml  # trusted\n",
        shown(&world, list.out())
    );
    world.write("data/p/.aish/config.toml", "[ui]\neditor = \"rm\"\n");
    let refused = ctl(&["config", "trust", "."]).code(78);
    assert!(
        refused
            .err()
            .contains("`ui.editor` is not for a project to say"),
        "{}",
        refused.report()
    );
    let asked = ctl(&["ask", "who are you?"]).ok();
    assert!(
        asked.err().contains("has changed since you trusted it"),
        "{}",
        asked.report()
    );
    let _removed = ctl(&["config", "untrust"]).ok();
    let _nothing = ctl(&["config", "untrust"]).code(8);
    let _nothing = world.ctl(&["config", "trust", "/"]).run().code(8);
}

/// Two who change the file at the same moment do not lose each other's key.
#[test]
fn ten_at_once_lose_no_key() {
    let world = World::new();
    world.write_config(PRESET);
    std::thread::scope(|all| {
        for number in 0..10 {
            let (world, key) = (&world, format!("models.fast.headers.X{number}"));
            all.spawn(move || drop(world.ctl(&["config", "set", &key, "a"]).run().ok()));
        }
    });
    let text = fs::read_to_string(world.config_file()).unwrap();
    for number in 0..10 {
        assert!(text.contains(&format!("X{number} = \"a\"")), "{text}");
    }
}

/// A project that has become wrong is wrong there, and a warning elsewhere.
#[test]
fn a_broken_project_makes_nothing_else_invalid() {
    let world = World::new();
    world.write_config(PRESET);
    world.write(
        "data/p/.aish/config.toml",
        "[models.fast]\nendpoint = \"http://127.0.0.1:8\"\n",
    );
    let project = world.path("data/p");
    let there = |args: &[&str]| world.ctl(args).cwd(&project).run();
    drop(there(&["config", "trust"]).ok());
    world.write_config(&format!("{PRESET}key_cmd = [\"true\"]\n"));
    let wrong = there(&["config", "check"]).code(78);
    assert!(wrong.out().contains("1 error"), "{}", wrong.report());
    let elsewhere = world.ctl(&["config", "check"]).run().ok();
    assert!(
        elsewhere.out().ends_with("ok, with 1 warning\n"),
        "{}",
        elsewhere.report()
    );
}

#[test]
fn the_configured_editor_comes_before_those_of_the_shell() {
    let world = World::new();
    let touched = world.path("home/touched");
    world.write_config(&format!("[ui]\neditor = \"touch {}\"\n", touched.display()));
    let edit = || world.ctl(&["config", "edit"]).env("EDITOR", "false").run();
    drop(edit().ok());
    assert!(touched.exists());
    fs::remove_file(&touched).unwrap();
    let _daemon = world.daemon().spawn();
    drop(edit().ok());
    assert!(touched.exists(), "the daemon has said so");
}

/// Who may write in a directory may put another file in the place of any in it.
#[test]
fn a_directory_that_others_may_write_in_is_refused_like_a_file() {
    let world = World::new();
    world.write_config(PRESET);
    let folder = world.config_file().parent().unwrap().to_owned();
    let mode = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o777);
    let expected = "its directory ~/config/aish can be written by others (mode 0777): chmod go-w ~/config/aish";
    for command in [&["config", "check"][..], &["ask", "why"]] {
        let refused = world.ctl(command).run();
        assert_ne!(0, refused.code, "{}", refused.report());
        let said = shown(&world, &refused.report());
        assert!(said.contains(expected), "{said}");
    }
    // In a directory as /tmp nobody replaces what is another's.
    mode(0o1777);
    drop(world.ctl(&["config", "check"]).run().ok());
}

/// It would stand wherever addresses are shown.
#[test]
fn the_address_of_a_server_with_a_password_is_refused_with_what_to_do() {
    let world = World::new();
    world.write_config(&format!(
        "{PRESET}[mcp.servers.far]\nurl = \"https://me:s3sam3@mcp.example/mcp\"\n"
    ));
    let refused = world.ctl(&["config", "check"]).run().code(78);
    for part in [
        "`mcp.servers.far.url`: a name or a password has no place in an address",
        "help: auth_env names a token",
    ] {
        assert!(refused.out().contains(part), "{}", refused.report());
    }
    assert!(!refused.report().contains("s3sam3"), "{}", refused.report());
    world.write_config(PRESET);
    let _daemon = world.daemon().spawn();
    let connect = ["mcp", "connect", "https://me:s3sam3@mcp.example/mcp"];
    let refused = world.ctl(&connect).run();
    assert!(
        refused.code != 0
            && refused
                .err()
                .contains("a password has no place in an address"),
        "{}",
        refused.report()
    );
}
