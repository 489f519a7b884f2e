//! What `read` shows: lines with numbers, pictures, notebooks, and of everything else what it is.

use std::fs;
use std::os::unix::net::UnixListener;

use aishd_files::FailureKind;
use serde_json::json;

use crate::Test;
use crate::workspace::Workspace;

pub(crate) const TESTS: &[Test] = &[
    ("a_file_is_shown_with_the_numbers_of_its_lines", lines),
    ("what_is_long_is_cut_and_says_how_to_go_on", long),
    ("what_a_file_is_written_in_is_said", encodings),
    ("a_picture_is_shown_and_other_files_are_named", kinds),
    (
        "what_is_no_file_is_refused_and_waited_for_by_nobody",
        special,
    ),
    ("a_file_that_is_never_held_in_memory_is_read_too", large),
];

#[track_caller]
fn check(workspace: &Workspace, arguments: &serde_json::Value, expected: &str) {
    assert_eq!(expected, workspace.text("read", arguments));
}

fn lines() {
    let workspace = Workspace::new();
    workspace.put("a.txt", "one\n\ttwo\nthree\n");
    let all = "     1\tone\n     2\t\ttwo\n     3\tthree\n";
    check(&workspace, &json!({"file_path": "a.txt"}), all);
    let absolute = workspace.path("a.txt");
    check(&workspace, &json!({"file_path": absolute}), all);
    check(&workspace, &json!({"file_path": "~/a.txt"}), all);
    check(
        &workspace,
        &json!({"file_path": "a.txt", "offset": 2, "limit": 1}),
        "     2\t\ttwo\n[lines 2 to 2 of 3; `offset`: 3 reads on]\n",
    );
    check(
        &workspace,
        &json!({"file_path": "a.txt", "offset": 3}),
        "     3\tthree\n[lines 3 to 3 of 3]\n",
    );
    let beyond = json!({"file_path": "a.txt", "offset": u64::MAX});
    assert_eq!(
        format!("a.txt has 3 lines: there is no line {}", u64::MAX),
        workspace.refused("read", &beyond, FailureKind::BadRequest)
    );
    workspace.put("empty", "");
    check(
        &workspace,
        &json!({"file_path": "empty"}),
        "[the file is empty]\n",
    );
    workspace.link("a.txt", "link");
    check(&workspace, &json!({"file_path": "link"}), all);
    assert_eq!(
        "A.txt is not there; did you mean a.txt?",
        workspace.refused(
            "read",
            &json!({"file_path": "A.txt"}),
            FailureKind::NotThere
        )
    );
}

fn long() {
    let workspace = Workspace::new();
    workspace.put("many", "line\n".repeat(5000));
    let text = workspace.text("read", &json!({"file_path": "many", "limit": u64::MAX}));
    assert_eq!(2001, text.lines().count());
    assert!(text.ends_with("[lines 1 to 2000 of 5000; `offset`: 2001 reads on]\n"));
    workspace.put("wide", format!("{}\nend", "x".repeat(3_000)));
    let text = workspace.text("read", &json!({"file_path": "wide"}));
    let row = format!(
        "     1\t{}… [1000 more characters in this line]\n",
        "x".repeat(2000)
    );
    let expected = format!(
        "{row}     2\tend\n[the rest of a long line is read by a command: sed -n 1p 'wide' | cut -c 2001-4000]\n[the last line has no newline at its end]\n"
    );
    assert_eq!(expected, text);
    workspace.put("heavy", format!("{}\n", "y".repeat(1000)).repeat(100));
    let text = workspace.text("read", &json!({"file_path": "heavy"}));
    assert!(text.len() < 50_000 && text.contains("lines 1 to 48 of 100; `offset`: 49 reads on"));
}

fn encodings() {
    let workspace = Workspace::new();
    let check = |content: &[u8], expected: &str| {
        workspace.put("file", content);
        check(&workspace, &json!({"file_path": "file"}), expected);
    };
    check(
        b"a\r\nb\r\n",
        "     1\ta\n     2\tb\n[its lines end with CR LF, which `edit` keeps]\n",
    );
    check(
        b"a\r\nb\nc\n",
        "     1\ta\n     2\tb\n     3\tc\n[1 line ends with CR LF and 2 with LF; `edit` keeps each]\n",
    );
    check(
        b"\xef\xbb\xbfa\n",
        "     1\ta\n[it begins with a byte order mark, which `edit` keeps]\n",
    );
    check(
        b"caf\xe9, s'il vous pla\xeet\n",
        "     1\tcaf\\xe9, s'il vous pla\\xeet\n[2 bytes are no UTF-8, shown as \\xNN: it can be read here, not edited]\n",
    );
    check(
        b"\xff\xfea\0\xe9\0\n\0",
        "     1\taé\n[it is UTF-16: it can be read here, not edited]\n",
    );
}

fn kinds() {
    let workspace = Workspace::new();
    for (name, head, media_type) in [
        ("a.png", &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], "image/png"),
        ("b", b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        ("c.txt", b"GIF89a\x01\0\x01\0", "image/gif"),
        ("d", b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    ] {
        workspace.put(name, head);
        let reply = workspace.ask("read", &json!({"file_path": name}));
        let bytes = head.len();
        assert_eq!(
            format!("[{name}: a picture, {media_type}, {bytes} B]\n"),
            reply.text
        );
        let picture = reply.picture.unwrap();
        assert_eq!((media_type, None), (&*picture.media_type, reply.seen));
        assert!(picture.base64.len() >= bytes);
    }
    let mut large = b"\x89PNG\r\n\x1a\n".to_vec();
    large.resize(4_000_000, 7);
    workspace.put("large.png", large);
    let why = workspace.refused(
        "read",
        &json!({"file_path": "large.png"}),
        FailureKind::TooLarge,
    );
    assert!(
        why.contains("3.7 MB are the most that can be shown"),
        "{why}"
    );
    workspace.put("program", b"\x7fELF\x02\x01\x01\0\0\0");
    assert_eq!(
        "program is a program or a library (ELF), 10 B: it cannot be read as text; a command such as `file` or `strings` says more",
        workspace.refused(
            "read",
            &json!({"file_path": "program"}),
            FailureKind::NotText
        )
    );
    workspace.put(
        "a.ipynb",
        r#"{"cells": [{"cell_type": "code", "source": ["1 + 1"], "outputs": []}]}"#,
    );
    let reply = workspace.ask("read", &json!({"file_path": "a.ipynb"}));
    assert!(
        reply.text.starts_with("[cell 1, code]\n1 + 1\n"),
        "{}",
        reply.text
    );
    assert!(reply.seen.is_some());
    workspace.put("broken.ipynb", "{\"cells\":");
    let text = workspace.text("read", &json!({"file_path": "broken.ipynb"}));
    assert!(text.starts_with("     1\t{\"cells\":"), "{text}");
}

fn special() {
    let workspace = Workspace::new();
    let pipe = workspace.path("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let _listener = UnixListener::bind(workspace.path("socket")).unwrap();
    fs::create_dir(workspace.path("directory")).unwrap();
    for (path, why) in [
        ("pipe", "pipe is a pipe, not a file"),
        ("socket", "socket is a socket, not a file"),
        (
            "directory",
            "directory is a directory: `list` shows what is in it",
        ),
        ("/dev/zero", "/dev/zero is a device, not a file"),
    ] {
        for (tool, arguments) in [
            ("read", json!({"file_path": path})),
            (
                "edit",
                json!({"file_path": path, "old_string": "a", "new_string": "b"}),
            ),
            ("write", json!({"file_path": path, "content": "b"})),
        ] {
            assert_eq!(
                why,
                workspace.refused(tool, &arguments, FailureKind::WrongKind)
            );
        }
    }
    let found = workspace.text("search", &json!({"pattern": "a"}));
    assert_eq!("[nothing found in 0 files]\n", found);
    let status = workspace.text(
        "read",
        &json!({"file_path": "/proc/self/status", "limit": 1}),
    );
    assert!(
        status.starts_with("     1\tName:\taish-files\n"),
        "{status}"
    );
}

fn large() {
    let workspace = Workspace::new();
    let file = fs::File::create(workspace.path("sparse")).unwrap();
    file.set_len(1 << 40).unwrap();
    let why = workspace.refused(
        "read",
        &json!({"file_path": "sparse"}),
        FailureKind::NotText,
    );
    assert!(why.starts_with("sparse is no text, 1.0 TB"), "{why}");
    workspace.put("log", "a line of a log\n".repeat(5 << 20));
    let reply = workspace.ask("read", &json!({"file_path": "log", "offset": 5_242_880}));
    assert_eq!(
        "5242880\ta line of a log\n[lines 5242880 to 5242880, the end]\n[the file has 83.8 MB: it can be read here, not edited]\n",
        reply.text
    );
    assert_eq!(None, reply.seen);
    let part = workspace.text("read", &json!({"file_path": "log", "limit": 1}));
    assert!(
        part.contains("lines 1 to 1; `offset`: 2 reads on"),
        "{part}"
    );
    let why = workspace.refused(
        "read",
        &json!({"file_path": "log", "offset": 5_242_882}),
        FailureKind::BadRequest,
    );
    assert_eq!("log has 5242880 lines: there is no line 5242882", why);
    let edit =
        json!({"file_path": "log", "old_string": "a", "new_string": "b", "replace_all": true});
    let why = workspace.refused("edit", &edit, FailureKind::TooLarge);
    assert!(why.contains("33.5 MB are the most"), "{why}");
}
