//! What `list` and `search` find: in the order of names, without what ignore files name, never outside of where they look.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, SystemTime};

use aishd_files::FailureKind;
use serde_json::{Value, json};

use crate::Test;
use crate::workspace::Workspace;

pub(crate) const TESTS: &[Test] = &[
    ("a_directory_is_listed_as_a_tree_or_by_a_pattern", listed),
    ("what_ignore_files_name_is_left_out_and_said", ignored),
    ("the_newest_comes_first_where_that_is_wanted", newest),
    ("lines_are_found_in_the_order_of_files", searched),
    ("what_is_found_has_as_much_around_it_as_is_wanted", around),
    ("what_is_found_can_be_read_on", paged),
    ("a_pattern_that_is_none_says_what_is_wrong", wrong_patterns),
    ("what_is_no_text_is_left_out_and_said", no_text),
    ("no_link_leads_out_of_where_one_looks", links),
];

fn project() -> Workspace {
    let workspace = Workspace::new();
    workspace.put("src/main.rs", "fn main() {\n    run();\n}\n");
    workspace.put("src/run/mod.rs", "pub fn run() {\n    // TODO: more\n}\n");
    workspace.put("README.md", "# Read me\nTODO\n");
    workspace.put(".github/ci.yml", "run: cargo test # TODO\n");
    workspace.put(".gitignore", "/target\n*.log\n!kept.log\n");
    workspace.put("target/debug/out", "TODO\n");
    workspace.put("a.log", "TODO\n");
    workspace.put("kept.log", "TODO\n");
    workspace.put(".git/config", "TODO\n");
    workspace
}

fn listed() {
    let workspace = project();
    let check = |arguments: Value, expected: &str| {
        assert_eq!(expected, workspace.text("list", &arguments), "{arguments}");
    };
    let left_out =
        "[2 entries are left out, because ignore files name them; `all` lists what is left out]\n";
    check(
        json!({}),
        &format!(
            ".git/\n.github/\n.gitignore  24 B\nREADME.md  15 B\nkept.log  5 B\nsrc/\n{left_out}"
        ),
    );
    check(
        json!({"path": "src", "depth": 3}),
        "main.rs  25 B\nrun/\n  mod.rs  35 B\n",
    );
    check(
        json!({"glob": "*.rs"}),
        &format!("src/main.rs  25 B\nsrc/run/mod.rs  35 B\n{left_out}"),
    );
    check(
        json!({"path": "src", "glob": "*.py"}),
        "[no file there fits the glob]\n",
    );
    check(
        json!({"path": "src", "limit": 1}),
        "main.rs  25 B\n[1 of 2: a `glob`, another `path` or a higher `limit` shows others]\n",
    );
    fs::create_dir(workspace.path("empty")).unwrap();
    check(json!({"path": "empty"}), "[the directory is empty]\n");
    workspace.link("nowhere", "empty/link");
    check(json!({"path": "empty"}), "link -> nowhere\n");
    assert_eq!(
        "README.md is no directory: `read` shows a file",
        workspace.refused(
            "list",
            &json!({"path": "README.md"}),
            FailureKind::WrongKind
        )
    );
    workspace.refused("list", &json!({"path": "nowhere"}), FailureKind::NotThere);
}

fn ignored() {
    let workspace = project();
    let text = workspace.text("list", &json!({"all": true, "glob": "*.log"}));
    assert_eq!("a.log  5 B\nkept.log  5 B\n", text);
    let text = workspace.text("list", &json!({"path": "target", "depth": 2}));
    assert_eq!("debug/\n  out  5 B\n", text, "it was named");
    workspace.put("src/.ignore", "!*.log\nrun/\n");
    workspace.put("src/b.log", "TODO\n");
    let text = workspace.text("list", &json!({"path": "src"}));
    assert!(
        text.starts_with(".ignore  12 B\nb.log  5 B\nmain.rs"),
        "{text}"
    );
    assert!(!text.contains("run/"), "{text}");
    // Rules hold below where they are written, also when one looks from below.
    let text = workspace.text(
        "search",
        &json!({"pattern": "nothing at all", "path": "src"}),
    );
    assert_eq!(
        "[nothing found in 3 files]\n[what ignore files name was not searched; `all` searches it]\n",
        text
    );
}

fn newest() {
    let workspace = project();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
    for (name, after) in [("src/main.rs", 10), ("src/run/mod.rs", 20)] {
        let file = fs::File::options().write(true).open(workspace.path(name));
        file.unwrap()
            .set_modified(now + Duration::from_secs(after))
            .unwrap();
    }
    let arguments = json!({"path": "src", "glob": "*", "sort": "newest"});
    assert_eq!(
        "run/mod.rs  35 B\nmain.rs  25 B\n",
        workspace.text("list", &arguments)
    );
}

#[track_caller]
fn check(workspace: &Workspace, arguments: &Value, expected: &str) {
    assert_eq!(expected, workspace.text("search", arguments), "{arguments}");
}

fn searched() {
    let workspace = project();
    check(
        &workspace,
        &json!({"pattern": "TODO"}),
        ".github/ci.yml\n1: run: cargo test # TODO\nREADME.md\n2: TODO\nkept.log\n1: TODO\nsrc/run/mod.rs\n2:     // TODO: more\n",
    );
    check(
        &workspace,
        &json!({"pattern": "todo", "ignore_case": true, "output_mode": "files_with_matches", "glob": "!*.log"}),
        ".github/ci.yml\nREADME.md\nsrc/run/mod.rs\n",
    );
    check(
        &workspace,
        &json!({"pattern": "run", "type": "rust", "output_mode": "count"}),
        "src/main.rs: 1\nsrc/run/mod.rs: 1\n[2 matching lines in 2 files]\n",
    );
    check(
        &workspace,
        &json!({"pattern": "run", "type": "rust", "output_mode": "count", "head_limit": 1}),
        "src/main.rs: 1\n[1 of the files are listed]\n[2 matching lines in 2 files]\n",
    );
    check(
        &workspace,
        &json!({"pattern": "run()", "literal": true, "path": "src"}),
        "src/main.rs\n2:     run();\nsrc/run/mod.rs\n1: pub fn run() {\n",
    );
    check(
        &workspace,
        &json!({"pattern": "^fn", "path": "src/main.rs"}),
        "src/main.rs\n1: fn main() {\n",
    );
    check(
        &workspace,
        &json!({"pattern": "TODO", "path": "a.log"}),
        "a.log\n1: TODO\n",
    );
    check(
        &workspace,
        &json!({"pattern": "nothing at all"}),
        "[nothing found in 6 files]\n[what ignore files name was not searched; `all` searches it]\n",
    );
}

fn around() {
    let workspace = Workspace::new();
    let lines: String = (1..=20).map(|it| format!("line {it}\n")).collect();
    workspace.put("a", lines);
    check(
        &workspace,
        &json!({"pattern": "line (5|7|15)$", "context": 1}),
        "a\n4- line 4\n5: line 5\n6- line 6\n7: line 7\n8- line 8\n--\n14- line 14\n15: line 15\n16- line 16\n",
    );
    check(
        &workspace,
        &json!({"pattern": "line 5", "before": 1}),
        "a\n4- line 4\n5: line 5\n",
    );
    check(
        &workspace,
        &json!({"pattern": "line 5", "after": 2}),
        "a\n5: line 5\n6- line 6\n7- line 7\n",
    );
    workspace.put("a", "one\r\ntwo\r\n");
    check(&workspace, &json!({"pattern": "^one$"}), "a\n1: one\n");
    workspace.put(
        "a",
        format!("{}needle{}\n", "x".repeat(1000), "y".repeat(1000)),
    );
    let text = workspace.text("search", &json!({"pattern": "needle"}));
    let expected = format!(
        "a\n1: …{}needle{}… [a line of 2006 bytes]\n[long lines are shown around the match]\n",
        "x".repeat(80),
        "y".repeat(314)
    );
    assert_eq!(expected, text);
}

fn paged() {
    let workspace = Workspace::new();
    for name in ["a", "b", "c"] {
        workspace.put(name, "x 1\nx 2\nx 3\n");
    }
    check(
        &workspace,
        &json!({"pattern": "x", "head_limit": 4}),
        "a\n1: x 1\n2: x 2\n3: x 3\nb\n1: x 1\n[there is more: `offset`: 4 reads on, or a narrower pattern, `path` or `glob`]\n",
    );
    check(
        &workspace,
        &json!({"pattern": "x", "head_limit": 4, "offset": 4}),
        "b\n2: x 2\n3: x 3\nc\n1: x 1\n2: x 2\n[there is more: `offset`: 8 reads on, or a narrower pattern, `path` or `glob`]\n",
    );
    check(
        &workspace,
        &json!({"pattern": "x", "offset": 8}),
        "c\n3: x 3\n",
    );
    check(
        &workspace,
        &json!({"pattern": "x", "output_mode": "files_with_matches", "head_limit": 1, "offset": 1}),
        "b\n[there is more: `offset`: 2 reads on, or a narrower pattern, `path` or `glob`]\n",
    );
    workspace.put("d", "z\n".repeat(100_000));
    let text = workspace.text("search", &json!({"pattern": "z", "head_limit": u64::MAX}));
    assert!(
        text.contains("[there is more: `offset`: 2000 reads on"),
        "{}",
        text.len()
    );
    workspace.put("e", format!("{}\n", "w".repeat(300)).repeat(1000));
    let text = workspace.text("search", &json!({"pattern": "w", "head_limit": 1000}));
    assert!(text.len() < 50_000 && text.contains("there is no room for more"));
}

fn wrong_patterns() {
    let workspace = project();
    let check = |arguments: Value, parts: &[&str]| {
        let why = workspace.refused("search", &arguments, FailureKind::BadRequest);
        for part in parts {
            assert!(why.contains(part), "{why}");
        }
    };
    check(
        json!({"pattern": "run("}),
        &["unclosed group", "set `literal`"],
    );
    check(
        json!({"pattern": "a\\nb"}),
        &["a pattern matches within one line"],
    );
    check(
        json!({"pattern": "(a{1000}){1000}"}),
        &["no regular expression"],
    );
    check(
        json!({"pattern": "a", "glob": "[a"}),
        &["the glob \"[a\" is not right: unclosed character class"],
    );
    check(
        json!({"pattern": "a", "type": "rus"}),
        &["no type of files is called \"rus\": there are rust"],
    );
}

fn no_text() {
    let workspace = Workspace::new();
    workspace.put("binary", b"needle\0needle\n");
    workspace.put("latin", b"needle caf\xe9\n");
    workspace.put("utf16", b"\xff\xfen\0e\0e\0d\0l\0e\0\n\0");
    fs::write(
        workspace.path("").join(OsStr::from_bytes(b"odd\xff\nname")),
        "needle\n",
    )
    .unwrap();
    check(
        &workspace,
        &json!({"pattern": "needle"}),
        "latin\n1: needle caf\\xe9\nodd\\xff\\x0aname\n1: needle\nutf16\n1: needle\n[1 file that is no text was left out]\n",
    );
    workspace.put("long", vec![b'x'; 17 << 20]);
    check(
        &workspace,
        &json!({"pattern": "x", "path": "long"}),
        "[nothing found in 1 file]\n[1 file could not be searched]\n",
    );
}

fn links() {
    let workspace = Workspace::new();
    workspace.put("outside/secret", "needle\n");
    workspace.put("inside/plain", "needle\n");
    workspace.link("../outside", "inside/directory");
    workspace.link("../outside/secret", "inside/file");
    workspace.link("..", "inside/above");
    workspace.link("loop", "inside/loop");
    check(
        &workspace,
        &json!({"pattern": "needle", "path": "inside", "all": true}),
        "inside/plain\n1: needle\n",
    );
    assert_eq!(
        "above -> ..\ndirectory -> ../outside\nfile -> ../outside/secret\nloop -> loop\nplain  7 B\n",
        workspace.text("list", &json!({"path": "inside", "depth": 50}))
    );
    // What is named itself is followed.
    check(
        &workspace,
        &json!({"pattern": "needle", "path": "inside/directory"}),
        "inside/directory/secret\n1: needle\n",
    );
    assert_eq!(
        "cannot reach inside/loop: its links lead in a circle",
        workspace.refused(
            "read",
            &json!({"file_path": "inside/loop"}),
            FailureKind::BadRequest
        )
    );
}
