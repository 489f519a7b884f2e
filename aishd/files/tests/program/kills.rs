//! kill -9 at each step of a change: the file is the old one or the new one, and the next call goes on from there.

use std::fs;

use aishd_files::FailureKind;
use serde_json::{Value, json};

use crate::Test;
use crate::workspace::Workspace;

pub(crate) const TESTS: &[Test] = &[
    ("a_killed_edit_leaves_the_old_or_the_new", edits),
    ("a_killed_write_leaves_the_old_or_the_new", writes),
    ("a_killed_new_file_is_whole_or_not_there", new_files),
];

/// Kills at each step until one comes to its end. Each begins anew.
#[track_caller]
fn killed(
    prepare: &dyn Fn(&Workspace),
    (tool, call): (&str, &Value),
    (before, after): (Option<&[u8]>, &[u8]),
) {
    let (mut old, mut new) = (0, 0);
    for nth in 1.. {
        let workspace = Workspace::new();
        prepare(&workspace);
        let reply = workspace.ask_killed(nth, tool, call);
        let now = fs::read(workspace.path("a")).ok();
        if let Some(reply) = reply {
            assert_eq!(None, reply.failure, "{}", reply.text);
            assert_eq!(Some(after), now.as_deref());
            break;
        }
        if now.as_deref() == Some(after) {
            new += 1;
        } else {
            assert!(
                now.as_deref() == before,
                "step {nth}: neither the old nor the new"
            );
            old += 1;
        }
        // What was made and has not come to its place yet is whole.
        for name in workspace.names().iter().filter(|it| *it != "a") {
            assert!(name.starts_with(".aish-"), "{name}");
            assert!(workspace.bytes(name) == after, "step {nth}");
        }
        let again = workspace.ask(tool, call);
        let is_new = now.as_deref() == Some(after);
        match again.failure {
            None => assert!(!is_new),
            Some(FailureKind::Stale | FailureKind::NotRead) => assert!(is_new, "{}", again.text),
            Some(other) => panic!("{other:?}: {}", again.text),
        }
        assert!(workspace.bytes("a") == after);
    }
    println!("{tool}: {old} times the old, {new} times the new");
    assert!(old >= 3 && new >= 1);
}

fn edits() {
    for bytes in [30, 10 << 20] {
        let line = "a line of it\r\n";
        let before = format!("\u{feff}first\r\n{}", line.repeat(bytes / line.len()));
        let after = before.replace("first\r\n", "one\r\ntwo\r\n");
        let prepare = |workspace: &Workspace| {
            workspace.put("a", &before);
            workspace.text("read", &json!({"file_path": "a"}));
        };
        let call = json!({"file_path": "a", "old_string": "first\n", "new_string": "one\ntwo\n"});
        killed(
            &prepare,
            ("edit", &call),
            (Some(before.as_bytes()), after.as_bytes()),
        );
    }
}

fn writes() {
    let prepare = |workspace: &Workspace| {
        workspace.put("a", "old\n");
        workspace.text("read", &json!({"file_path": "a"}));
    };
    let call = json!({"file_path": "a", "content": "new\n"});
    killed(&prepare, ("write", &call), (Some(b"old\n"), b"new\n"));
}

fn new_files() {
    let content = "new\n".repeat(1 << 20);
    let call = json!({"file_path": "a", "content": content});
    killed(&|_| {}, ("write", &call), (None, content.as_bytes()));
}
