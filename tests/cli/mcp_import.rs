//! Servers out of the files of programs with a form of their own, as these write them: what they become, which of their
//! rules become ours, and what is said of the rest.

use aish_testkit::wait::until_true;
use aish_testkit::{Daemon, World, repository};

use crate::shell::shell;

fn world() -> (World, Daemon) {
    let world = World::new();
    world.write_config("");
    let daemon = world.daemon().spawn();
    (world, daemon)
}

/// Puts a file of such a program there.
fn given(world: &World, file: &str, place: &str) {
    let path = repository::top().join("tests/data/mcp_files").join(file);
    world.write(place, &std::fs::read_to_string(path).unwrap());
}

#[track_caller]
fn said(world: &World, line: &str) -> String {
    let finished = shell(world, &format!("aishctl {line}")).run().ok();
    assert_eq!("", finished.err(), "{}", finished.report());
    assert!(!finished.out().contains("s3cret"), "{}", finished.report());
    finished.out().to_owned()
}

/// What is printed, without the line that says where it is from and the one that offers to hold a program.
#[track_caller]
fn tables(world: &World, line: &str) -> String {
    let printed = said(world, &format!("mcp import {line}"));
    let kept = printed
        .lines()
        .filter(|it| !it.starts_with("# from ") && !it.starts_with("# contain = "));
    kept.map(|it| format!("{it}\n")).collect()
}

#[track_caller]
fn check(file: &str, place: &str, expected: &str) {
    let (world, _daemon) = world();
    given(&world, file, &format!("work/{place}"));
    assert_eq!(expected, tables(&world, place), "{file}");
}

#[test]
fn what_opencode_has() {
    check(
        "opencode.jsonc",
        "opencode.jsonc",
        "\
# off: API_KEY: {file:~/.secrets/git} is what a file holds, and no file is read here: put it into a variable of the daemon
# \"git tools\" is called git-tools here
# timeout is left out
# secrets are covered here; --write takes them into your file as they are
[mcp.servers.git-tools]
command = \"npx\"
args = [\"-y\", \"git-mcp\", \"--token\", \"[key]\"]
enabled = false

[mcp.servers.git-tools.env]
GIT_DIR = \"${HOME}/src\"

# off: it is switched off in the file
# oauth is left out
[mcp.servers.jira]
url = \"https://jira.example/mcp\"
auth_env = \"JIRA_TOKEN\"
without_tools = [\"delete\"]
enabled = false

# \"jira_get_*\": allow is not taken over: a rule here is about one tool or a whole server
[mcp.auto_approve]
\"git-tools__*\" = true
git-tools__push = false
jira__read = true
",
    );
}

#[test]
fn what_zed_has() {
    check(
        "zed.json",
        ".zed/settings.json",
        "\
# a token stands in the file; auth_env keeps it out
# secrets are covered here; --write takes them into your file as they are
[mcp.servers.docs]
url = \"https://docs.example/mcp\"

[mcp.servers.docs.headers]
Authorization = \"[key]\"

# secrets are covered here; --write takes them into your file as they are
[mcp.servers.github]
command = \"docker\"
args = [\"run\", \"-i\", \"ghcr.io/github/github-mcp-server\"]

[mcp.servers.github.env]
GITHUB_PERSONAL_ACCESS_TOKEN = \"[key]\"

# off: it is an extension of Zed, which alone knows how it starts

[mcp.servers.older]
command = \"node\"
args = [\"server.js\"]
without_tools = [\"wipe\"]

[mcp.auto_approve]
github__get_issue = true

[permissions]
deny = [\"github__delete_repo\"]
",
    );
}

#[test]
fn what_crush_has() {
    check(
        "crush.json",
        ".crush.json",
        "\
# off: API_KEY: it is what a command prints, and no command is run here: put it into a variable of the daemon
# timeout is left out
[mcp.servers.filesystem]
command = \"node\"
args = [\"/srv/mcp.js\", \"${HOME}/notes\"]
without_tools = [\"write_file\"]
enabled = false

[mcp.servers.filesystem.env]
NODE_ENV = \"production\"

# off: it is switched off in the file
[mcp.servers.github]
url = \"https://api.example/mcp/\"
auth_env = \"GH_PAT\"
enabled = false

[mcp.servers.stream]
url = \"https://stream.example/sse\"

[mcp.servers.stream.headers]
API-Key = \"${STREAM_KEY}\"

# filesystem__write_file is asked about here: its server does not have it there
[mcp.auto_approve]
filesystem__read_file = true
",
    );
}

/// What a person has said of tools stands in a file beside it.
#[test]
fn what_goose_has() {
    let (world, _daemon) = world();
    given(&world, "goose/config.yaml", "config/goose/config.yaml");
    given(
        &world,
        "goose/permission.yaml",
        "config/goose/permission.yaml",
    );
    let looked = said(&world, "mcp import --from goose");
    assert!(
        looked.contains(
            "goose/config.yaml\n  googledrive  npx -y @example/gdrive\n  remote  https://remote.example/mcp\n  and rules about their tools\n  aishctl mcp import --write /"
        ),
        "{looked}"
    );
    assert_eq!(
        "\
# GDRIVE_TOKEN is among that program's secrets; the daemon needs it as a variable
# timeout is left out
[mcp.servers.googledrive]
command = \"npx\"
args = [\"-y\", \"@example/gdrive\"]
tools = [\"search\", \"read\"]

[mcp.servers.googledrive.env]
DRIVE_ROOT = \"/srv/drive\"
GDRIVE_TOKEN = \"${GDRIVE_TOKEN}\"

# off: it is switched off in the file
# REMOTE_KEY is among that program's secrets; the daemon needs it as a variable
# timeout is left out
[mcp.servers.remote]
url = \"https://remote.example/mcp\"
auth_env = \"REMOTE_KEY\"
enabled = false

# parts of Goose, which are no servers: developer, todo
[mcp.auto_approve]
googledrive__search = true

[permissions]
deny = [\"googledrive__delete\"]
",
        tables(&world, "\"$XDG_CONFIG_HOME/goose/config.yaml\"")
    );
}

#[test]
fn what_continue_has() {
    check(
        "continue/config.yaml",
        "config.yaml",
        "\
# \"SQLite MCP\" is called SQLite-MCP here
# connectionTimeout is left out
[mcp.servers.SQLite-MCP]
command = \"npx\"
args = [\"-y\", \"mcp-sqlite\", \"/srv/data.db\"]

# SUPABASE_TOKEN is among that program's secrets; the daemon needs it as a variable
[mcp.servers.Supabase]
command = \"npx\"
args = [\"-y\", \"@example/supabase\", \"--access-token\", \"${SUPABASE_TOKEN}\"]

[mcp.servers.Supabase.env]
SUPABASE_TOKEN = \"${SUPABASE_TOKEN}\"

# DOCS_TOKEN is among that program's secrets; the daemon needs it as a variable
# timeout is left out
[mcp.servers.Docs]
url = \"https://docs.example/mcp\"
auth_env = \"DOCS_TOKEN\"

# off: it stands at Continue's hub, and nothing is fetched from there
",
    );
    // As it was before.
    check(
        "continue/config.json",
        "config.json",
        "\
# secrets are covered here; --write takes them into your file as they are
[mcp.servers.server-1]
command = \"uvx\"
args = [\"mcp-server-sqlite\", \"--db-path\", \"/srv/test.db\"]

[mcp.servers.server-1.env]
KEY = \"[key]\"

[mcp.servers.server-2]
url = \"https://events.example/sse\"
",
    );
}

/// Where those programs keep their files is known, in the project and in the home.
#[test]
fn their_usual_files_are_found() {
    let (world, _daemon) = world();
    for (file, place) in [
        ("opencode.jsonc", "work/.opencode/opencode.jsonc"),
        ("zed.json", "config/zed/settings.json"),
        ("crush.json", "config/crush/crush.json"),
        (
            "continue/config.yaml",
            "work/.continue/mcpServers/mine.yaml",
        ),
        ("continue/config.json", "home/.continue/config.json"),
    ] {
        given(&world, file, place);
    }
    let looked = said(&world, "mcp import");
    for server in ["git-tools", "older", "filesystem", "Supabase", "server-1"] {
        assert!(looked.contains(&format!("\n  {server}  ")), "{looked}");
    }
    let one = said(&world, "mcp import --from crush");
    assert!(one.starts_with('/') && !one.contains("Supabase"), "{one}");
    let none = said(&world, "mcp import --from goose");
    assert!(none.starts_with("no file of another program"), "{none}");
}

/// Secrets go from file to file; rules go beside those that are there, and one that says something else is refused.
#[test]
fn what_is_taken_over_is_configured_with_its_rules() {
    let (world, _daemon) = world();
    let configured = world.path("config/aish/config.toml");
    world.write_config(
        "[mcp.auto_approve]\n\"github__get_issue\" = true\n[permissions]\ndeny = [\"web__*\"]\ndefault_level = 1\n",
    );
    given(&world, "zed.json", "work/.zed/settings.json");
    let written = said(&world, "mcp import --write .zed/settings.json");
    assert!(
        written.ends_with(
            "its rules are yours now:\n[mcp.auto_approve]\ngithub__get_issue = true\n\n\
             [permissions]\ndeny = [\"github__delete_repo\"]\n"
        ),
        "{written}"
    );
    let file = std::fs::read_to_string(&configured).unwrap();
    assert!(file.contains("\"ghp_s3cret\""), "{file}");
    assert!(
        file.contains("deny = [\"web__*\", \"github__delete_repo\"]"),
        "{file}"
    );
    until_true("it is configured", || {
        said(&world, "mcp list").contains("older")
    });
    let shown = said(&world, "config show");
    assert!(shown.contains("github__delete_repo"), "{shown}");
    assert!(shown.contains("wipe"), "{shown}");

    given(&world, "crush.json", "work/crush.json");
    world.write_config("[mcp.auto_approve]\nfilesystem__read_file = false\n");
    let before = std::fs::read_to_string(&configured).unwrap();
    let refused = shell(&world, "aishctl mcp import --write crush.json").run();
    assert!(
        refused
            .err()
            .contains("mcp.auto_approve.filesystem__read_file is in the file already"),
        "{}",
        refused.report()
    );
    assert_eq!(before, std::fs::read_to_string(&configured).unwrap());
}

/// A file of a stranger: nothing in it runs, is repeated or takes long.
#[test]
fn a_hostile_file_is_only_text() {
    let (world, _daemon) = world();
    world.write(
        "work/crush.json",
        "{\"mcp\": {\"x\": {\"type\": \"stdio\", \"command\": \"$(touch ran)\", \"args\": [\"`touch ran`\"]}}}",
    );
    let printed = tables(&world, "crush.json");
    assert!(printed.contains("# off: command: it is what a command prints"));
    assert!(!world.path("work/ran").exists());
    world.write("work/.continue/config.yaml", "a: &a [s3cret]\nb: [*a]\n");
    let refused = shell(&world, "aishctl mcp import .continue/config.yaml").run();
    assert!(
        refused
            .err()
            .contains("it repeats something by a reference (*name) in line 2"),
        "{}",
        refused.report()
    );
    assert!(!refused.err().contains("s3cret"), "{}", refused.report());
}
