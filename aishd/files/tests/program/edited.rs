//! What `edit` and `write` do to files, and what they refuse.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use aishd_files::FailureKind;
use rustix::fs::{CWD, XattrFlags, getxattr, setxattr};
use serde_json::{Value, json};

use crate::Test;
use crate::workspace::{Workspace, is_below};

pub(crate) const TESTS: &[Test] = &[
    ("a_place_is_replaced_and_shown", one_place),
    ("several_places_are_replaced_or_none", several_places),
    ("a_text_that_is_not_there_once_says_where_it_is", not_once),
    ("what_was_not_read_or_has_changed_is_not_touched", stale),
    ("how_a_file_is_written_stays", encodings),
    ("what_a_file_is_stays", attributes),
    ("what_cannot_stay_the_same_file_is_refused", refused),
    ("a_link_stays_and_what_it_leads_to_changes", links),
    ("a_new_file_gets_its_directories", new_file),
    ("a_file_that_was_read_is_replaced_as_a_whole", whole_file),
];

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"file_path": path, "old_string": old, "new_string": new})
}

fn read(workspace: &Workspace, path: &str) {
    workspace.text("read", &json!({"file_path": path}));
}

fn one_place() {
    let workspace = Workspace::new();
    let lines: String = (1..=9).map(|it| format!("line {it}\n")).collect();
    workspace.put("a", lines);
    read(&workspace, "a");
    assert_eq!(
        "a: 1 place replaced\n     2\tline 2\n     3\tline 3\n     4\tline 4\n     5\tfive\n     6\tand a half\n     7\tline 6\n     8\tline 7\n     9\tline 8\n",
        workspace.text("edit", &edit("a", "line 5\n", "five\nand a half\n"))
    );
    // What it has left is known: it need not be read again.
    let all =
        json!({"file_path": "a", "old_string": "line", "new_string": "row", "replace_all": true});
    let text = workspace.text("edit", &all);
    assert!(
        text.starts_with("a: 8 places replaced\n     1\trow 1\n"),
        "{text}"
    );
    assert_eq!(
        "a: 1 place replaced\n     1\trow 2\n     2\trow 3\n     3\trow 4\n     4\tfive\n",
        workspace.text("edit", &edit("a", "row 1\n", ""))
    );
    assert_eq!(
        b"row 2\nrow 3\nrow 4\nfive\nand a half\nrow 6\nrow 7\nrow 8\nrow 9\n",
        &workspace.bytes("a")[..]
    );
    assert_eq!(["a"], workspace.names()[..]);
}

fn several_places() {
    let workspace = Workspace::new();
    workspace.put("a", "one\ntwo\nthree\n");
    read(&workspace, "a");
    let edits = |edits: &[(&str, &str)]| {
        let edits = edits
            .iter()
            .map(|(old, new)| json!({"old_string": old, "new_string": new}));
        json!({"file_path": "a", "edits": edits.collect::<Vec<_>>()})
    };
    let why = workspace.refused(
        "edit",
        &edits(&[("one", "1"), ("four", "4")]),
        FailureKind::NoMatch,
    );
    assert_eq!(
        "edit 2 of 2: `old_string` is not in a: nothing in the file is like it: read the file again Nothing was changed.",
        why
    );
    assert_eq!(b"one\ntwo\nthree\n", &workspace.bytes("a")[..]);
    let text = workspace.text(
        "edit",
        &edits(&[("one", "1"), ("1\ntwo", "1\n2"), ("three", "3")]),
    );
    assert_eq!(
        "a: 3 places replaced\n     1\t1\n     2\t2\n     3\t3\n",
        text
    );
    let why = workspace.refused(
        "edit",
        &edits(&[("1", "one"), ("one", "1")]),
        FailureKind::NoChange,
    );
    assert_eq!("a would be the same as before: nothing was changed", why);
}

fn not_once() {
    let workspace = Workspace::new();
    workspace.put("a", "let a = 1;\nlet b = 2;\n\tlet a = 1;\naaa\n");
    read(&workspace, "a");
    let check = |old: &str, kind: FailureKind, expected: &str| {
        assert_eq!(
            expected,
            workspace.refused("edit", &edit("a", old, "x"), kind)
        );
    };
    check(
        "let a = 1;",
        FailureKind::ManyMatches,
        "`old_string` is more than once in a: 2 times, at lines 1, 3. Add lines around it until it is there once, or set `replace_all`.",
    );
    check(
        "aa",
        FailureKind::ManyMatches,
        "`old_string` is more than once in a: it overlaps itself at line 4. Add lines around it until it is there once, or set `replace_all`.",
    );
    check(
        "let  b = 2;",
        FailureKind::NoMatch,
        "`old_string` is not in a: line 2 differs in white space only; copy it exactly:\n     2\tlet b = 2;\n",
    );
    check(
        "     2\tlet b = 2;",
        FailureKind::NoMatch,
        "`old_string` is not in a: it has the line numbers of `read` in it: leave them out",
    );
    check(
        "let b = 3;",
        FailureKind::NoMatch,
        "`old_string` is not in a: the nearest is at line 2; copy it exactly, or read the file again:\n     2\tlet b = 2;\n",
    );
    assert_eq!(
        b"let a = 1;\nlet b = 2;\n\tlet a = 1;\naaa\n",
        &workspace.bytes("a")[..]
    );
}

fn stale() {
    let workspace = Workspace::new();
    workspace.put("a", "one\n");
    let change = edit("a", "one", "1");
    let over = json!({"file_path": "a", "content": "all"});
    for (tool, call) in [("edit", &change), ("write", &over)] {
        let why = workspace.refused(tool, call, FailureKind::NotRead);
        assert_eq!(
            "a has not been read in this conversation: read it first",
            why
        );
    }
    read(&workspace, "a");
    workspace.put("a", "one \n");
    for (tool, call) in [("edit", &change), ("write", &over)] {
        let why = workspace.refused(tool, call, FailureKind::Stale);
        assert!(
            why.starts_with("a has changed since it was read: read it again"),
            "{why}"
        );
    }
    // The same content is the same file, whoever has written it when.
    fs::remove_file(workspace.path("a")).unwrap();
    workspace.put("a", "one\n");
    workspace.text("edit", &change);
    assert_eq!(b"1\n", &workspace.bytes("a")[..]);
}

fn encodings() {
    let workspace = Workspace::new();
    let check = |before: &[u8], old: &str, new: &str, after: &[u8]| {
        workspace.put("a", before);
        read(&workspace, "a");
        workspace.text("edit", &edit("a", old, new));
        assert_eq!(after, workspace.bytes("a"), "{before:?}");
    };
    check(b"a\r\nb\r\n", "a\nb", "c\nd\ne", b"c\r\nd\r\ne\r\n");
    check(b"a\r\nb\nc\r\n", "b", "b\nx", b"a\r\nb\nx\nc\r\n");
    check(b"a\nb\n", "a\r\nb", "c\r\nd", b"c\nd\n");
    check(b"a\n", "a", "a\r\nb", b"a\r\nb\n");
    check(b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n");
    check(b"a\nb", "b", "c", b"a\nc");
    check(b"\ta\t\n", "\ta\t", "\tb", b"\tb\n");
    check(
        "größe 🦀\n".as_bytes(),
        "größe",
        "Größe",
        "Größe 🦀\n".as_bytes(),
    );
    for (content, why) in [
        (&b"caf\xe9 au lait\n"[..], "a is not UTF-8"),
        (b"\xff\xfea\0\n\0", "a is UTF-16"),
    ] {
        workspace.put("a", content);
        read(&workspace, "a");
        for (tool, call) in [
            ("edit", edit("a", "a", "b")),
            ("write", json!({"file_path": "a", "content": "b"})),
        ] {
            let said = workspace.refused(tool, &call, FailureKind::NotText);
            assert!(said.starts_with(why), "{said}");
        }
        assert_eq!(content, workspace.bytes("a"));
    }
}

fn attributes() {
    let workspace = Workspace::new();
    workspace.put("a", "one\n");
    workspace.set_mode("a", 0o4751);
    let path = workspace.path("a");
    let has_xattrs = setxattr(&path, "user.aish", b"kept", XattrFlags::empty()).is_ok();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(&path, Some(65534), Some(65533)).unwrap();
        workspace.set_mode("a", 0o4751);
    }
    read(&workspace, "a");
    workspace.text("edit", &edit("a", "one", "two"));
    let meta = fs::metadata(&path).unwrap();
    assert_eq!(0o4751, meta.mode() & 0o7777);
    if is_root {
        assert_eq!((65534, 65533), (meta.uid(), meta.gid()));
    }
    if has_xattrs {
        let mut value = Vec::with_capacity(64);
        getxattr(
            &path,
            "user.aish",
            rustix::buffer::spare_capacity(&mut value),
        )
        .unwrap();
        assert_eq!(b"kept", &value[..]);
    }
}

fn refused() {
    let workspace = Workspace::new();
    workspace.put("a", "one\n");
    read(&workspace, "a");
    workspace.set_mode("a", 0o444);
    let why = workspace.refused("edit", &edit("a", "one", "1"), FailureKind::NotAllowed);
    assert!(
        why.starts_with("a is read-only (mode 0444)") && why.contains("chmod u+w"),
        "{why}"
    );
    workspace.set_mode("a", 0o644);
    rustix::fs::linkat(
        CWD,
        workspace.path("a"),
        CWD,
        workspace.path("b"),
        rustix::fs::AtFlags::empty(),
    )
    .unwrap();
    let why = workspace.refused("edit", &edit("a", "one", "1"), FailureKind::CannotKeep);
    assert!(why.starts_with("a has 2 names (hard links)"), "{why}");
    assert_eq!(b"one\n", &workspace.bytes("b")[..]);
    workspace.put("large", vec![b'x'; 33 << 20]);
    read(&workspace, "large");
    let why = workspace.refused("edit", &edit("large", "x", "y"), FailureKind::TooLarge);
    assert!(why.contains("33.5 MB are the most"), "{why}");
    workspace.refused("edit", &edit("none", "x", "y"), FailureKind::NotThere);
}

fn links() {
    let workspace = Workspace::new();
    workspace.put("real/a", "one\n");
    workspace.link("real/a", "link");
    workspace.link("real", "directory");
    read(&workspace, "link");
    workspace.text("edit", &edit("directory/a", "one", "two"));
    workspace.text("edit", &edit("link", "two", "three"));
    assert_eq!(b"three\n", &workspace.bytes("real/a")[..]);
    assert_eq!(
        "real/a",
        fs::read_link(workspace.path("link"))
            .unwrap()
            .to_str()
            .unwrap()
    );
    workspace.link("nowhere", "dangling");
    for (tool, call) in [
        ("edit", edit("dangling", "a", "b")),
        ("write", json!({"file_path": "dangling", "content": "b"})),
    ] {
        let why = workspace.refused(tool, &call, FailureKind::NotThere);
        assert_eq!("dangling is a link to nowhere, which is not there", why);
    }
    assert!(!workspace.path("nowhere").exists());
}

fn new_file() {
    let workspace = Workspace::new();
    let write = |path: &str| json!({"file_path": path, "content": "a\nb\n"});
    assert_eq!(
        "a: made, 2 lines, 4 B\n",
        workspace.text("write", &write("a"))
    );
    assert_eq!(
        "b/c/d: made, 2 lines, 4 B; 2 directories were made for it\n",
        workspace.text("write", &write("b/c/d"))
    );
    let reply = workspace.ask("write", &write("b/c/e"));
    let seen = reply.seen.unwrap();
    assert!(
        is_below(&seen.path, &workspace.path("b/c")),
        "{}",
        seen.path
    );
    assert_eq!(b"a\nb\n", &workspace.bytes("b/c/d")[..]);
    // What was just made is known.
    workspace.text("edit", &edit("b/c/d", "b", "c"));
    for (path, kind, why) in [
        ("b/", FailureKind::WrongKind, "is a directory"),
        ("new/", FailureKind::BadRequest, "names no file"),
        ("a/b", FailureKind::NotThere, "there is no directory W/a"),
        (
            "new/../x",
            FailureKind::BadRequest,
            "needs directories that are not made",
        ),
        (&"d/".repeat(40), FailureKind::BadRequest, "names no file"),
        (
            "d/".repeat(40).trim_end_matches('/'),
            FailureKind::BadRequest,
            "needs directories",
        ),
        (
            &"n".repeat(300),
            FailureKind::BadRequest,
            "a name in it is too long",
        ),
    ] {
        let said = workspace.refused("write", &write(path), kind);
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(["a", "b"], workspace.names()[..]);
}

fn whole_file() {
    let workspace = Workspace::new();
    workspace.put("a", "\u{feff}one\r\ntwo\r\n");
    read(&workspace, "a");
    let write = |content: &str| json!({"file_path": "a", "content": content});
    assert_eq!(
        "a: replaced, 2 lines before, 3 lines now; its lines end with CR LF, as before\n",
        workspace.text("write", &write("1\n2\n3"))
    );
    assert_eq!("\u{feff}1\r\n2\r\n3".as_bytes(), workspace.bytes("a"));
    let why = workspace.refused("write", &write("1\n2\n3"), FailureKind::NoChange);
    assert!(why.contains("exactly this content already"), "{why}");
    workspace.text("write", &write(""));
    assert_eq!("\u{feff}".as_bytes(), workspace.bytes("a"));
    workspace.put("b", b"\0\x01\x02");
    let over = json!({"file_path": "b", "content": "x"});
    workspace.refused("write", &over, FailureKind::NotRead);
}
