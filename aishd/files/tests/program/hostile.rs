//! Requests and trees that want to break, hang or fill something: each gets a reply.

use std::fs;

use aish_testkit::surroundings;
use aishd_files::FailureKind;
use serde_json::json;

use crate::Test;
use crate::workspace::Workspace;

pub(crate) const TESTS: &[Test] = &[
    ("what_is_no_request_gets_a_reply", no_requests),
    ("a_call_is_checked_again_by_the_program", unchecked),
    ("numbers_as_large_as_they_come_are_bounded", numbers),
    ("a_tree_of_any_depth_is_walked_to_a_bound", deep),
    ("rules_that_are_pipes_or_nonsense_stop_nothing", rules),
    ("many_entries_are_bounded", many),
    (
        "a_text_that_is_nowhere_is_looked_for_in_bounded_time",
        nearest,
    ),
];

fn no_requests() {
    let workspace = Workspace::new();
    for request in [
        &b""[..],
        b"{",
        b"null",
        b"\xff\xfe",
        b"{\"call\": {\"remove\": {}}, \"directory\": \"/\"}",
        b"{\"call\": {\"read\": {\"file_path\": \"a\"}}}",
        "[".repeat(100_000).as_bytes(),
    ] {
        let reply = workspace.ask_plainly(request);
        assert_eq!(Some(FailureKind::BadRequest), reply.failure);
        assert!(
            reply.text.starts_with("the request is none: "),
            "{}",
            reply.text
        );
    }
}

fn unchecked() {
    let workspace = Workspace::new();
    let check = |call: serde_json::Value, why: &str| {
        let request = json!({"call": call, "directory": workspace.path("")});
        let reply = workspace.ask_plainly(request.to_string().as_bytes());
        assert_eq!(Some(FailureKind::BadRequest), reply.failure);
        assert!(reply.text.contains(why), "{}", reply.text);
    };
    check(json!({"read": {"file_path": "a\0b"}}), "a NUL");
    check(
        json!({"read": {"file_path": "a".repeat(1 << 20)}}),
        "1048576 bytes",
    );
    check(
        json!({"edit": {"file_path": "a", "edits": []}}),
        "`edits` is empty",
    );
    check(
        json!({"search": {"pattern": "a".repeat(5000)}}),
        "`pattern` has 5000 bytes",
    );
    let request = json!({"call": {"read": {"file_path": "a"}}, "directory": "relative"});
    let reply = workspace.ask_plainly(request.to_string().as_bytes());
    assert!(
        reply.text.contains("say the absolute path"),
        "{}",
        reply.text
    );
}

fn numbers() {
    let workspace = Workspace::new();
    workspace.put("a", "a\n".repeat(3000));
    let most = u64::MAX;
    let text = workspace.text("read", &json!({"file_path": "a", "limit": most}));
    assert!(text.contains("lines 1 to 2000 of 3000"));
    let text = workspace.text(
        "search",
        &json!({"pattern": "a", "before": most, "after": most, "context": most, "head_limit": most}),
    );
    assert_eq!(
        2002,
        text.lines().count(),
        "the name, the lines, and that there is more"
    );
    let text = workspace.text("search", &json!({"pattern": "a", "offset": most}));
    assert_eq!("[nothing found in 1 file]\n", text);
    let text = workspace.text("list", &json!({"depth": most, "limit": most}));
    assert_eq!("a  6.0 KB\n", text);
}

fn deep() {
    let workspace = Workspace::new();
    let deep = "d/".repeat(150);
    fs::create_dir_all(workspace.path(&deep)).unwrap();
    workspace.put(&format!("{deep}file"), "needle\n");
    workspace.put("d/file", "needle\n");
    let text = workspace.text("search", &json!({"pattern": "needle"}));
    assert_eq!(
        "d/file\n1: needle\n[directories below level 100 were not entered]\n",
        text
    );
    let text = workspace.text("list", &json!({"depth": 1000}));
    assert!(
        text.ends_with("[directories below level 100 were not entered]\n"),
        "{text}"
    );
    // What is named is read wherever it is.
    let text = workspace.text("read", &json!({"file_path": format!("{deep}file")}));
    assert_eq!("     1\tneedle\n", text);
}

fn rules() {
    let workspace = Workspace::new();
    let pipe = workspace.path(".gitignore");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let nonsense = b"[\n**********/***\n!\n\\\n{a,b\n\0\xff\n";
    workspace.put("a/.gitignore", nonsense.repeat(10_000));
    workspace.put("a/file", "needle\n");
    let text = workspace.text("search", &json!({"pattern": "needle"}));
    assert_eq!(
        "a/file\n1: needle\n[1 file that is no text was left out]\n",
        text
    );
}

/// `AISH_FILE_ENTRIES=1000000` makes as many.
fn many() {
    let workspace = Workspace::new();
    let entries = surroundings::count("AISH_FILE_ENTRIES").unwrap_or(3_000);
    for number in 0..entries {
        let path = workspace.path(&format!("{number:07}"));
        fs::File::create(path).unwrap();
    }
    let is_bounded = entries > 300_000;
    let text = workspace.text("list", &json!({}));
    assert_eq!(
        is_bounded,
        text.contains("only 300000 entries were looked at"),
        "{text}"
    );
    let of = if is_bounded {
        "300 of at least"
    } else {
        "300 of 3000"
    };
    assert!(text.contains(of) && text.len() < 50_000, "{text}");
    let text = workspace.text("list", &json!({"sort": "newest", "limit": 5}));
    assert!(text.contains("5 of "), "{text}");
    let text = workspace.text("search", &json!({"pattern": "needle"}));
    assert!(text.starts_with("[nothing found in "), "{text}");
}

fn nearest() {
    let workspace = Workspace::new();
    let line = "almost the same as what is looked for, again and again and again ";
    let lines: String = (0..100_000).map(|it| format!("{line}{it}\n")).collect();
    workspace.put("a", lines);
    workspace.text("read", &json!({"file_path": "a"}));
    let same = "the same line\n".repeat(100_000);
    workspace.put("same", &same);
    workspace.text("read", &json!({"file_path": "same"}));
    let almost = format!("{}another line\n", &same[..140_000]);
    let call = json!({"file_path": "same", "old_string": almost, "new_string": "x"});
    let why = workspace.refused("edit", &call, FailureKind::NoMatch);
    assert!(why.contains("the nearest is at line 1"), "{}", why.len());
    let old = format!("{line}x\n").repeat(1000);
    let call = json!({"file_path": "a", "old_string": old, "new_string": "x"});
    let why = workspace.refused("edit", &call, FailureKind::NoMatch);
    assert!(
        why.contains("the nearest is at line ") && why.len() < 6_000,
        "{why}"
    );
}
