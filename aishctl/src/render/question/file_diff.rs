//! What a call would put into a file, beside what the file holds now: the `d` of a question.
//!
//! Only calls that name one file and give its text can be shown so; what a server makes of them is known to the server
//! alone, and the text says so. The file is read here, by the person's own rights, when the person asks for it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use aish_proto::confirm::ConfirmSubject;
use aish_proto::event::ConfirmRequested;
use rustix::fs::{Mode, OFlags, open};
use serde_json::{Map, Value};
use similar::TextDiff;

use crate::safe;

/// Arguments that name a file, and those that hold its text, as servers of files call them.
const PATHS: [&str; 6] = [
    "path",
    "file",
    "file_path",
    "filePath",
    "filename",
    "filepath",
];
const TEXTS: [&str; 5] = ["content", "contents", "text", "new_content", "file_text"];
/// Larger files are not compared.
const MAX_BYTES: u64 = 1 << 20;
const MAX_LINES: usize = 200;

/// Whether the call writes a text into a file, as far as its arguments tell.
pub fn is_possible(request: &ConfirmRequested) -> bool {
    matches!(&*request.subject, ConfirmSubject::Call(it) if it.level_required > 1)
        && written(request).is_some()
}

/// Lines that go and come, or why that cannot be shown. All of it is made visible.
pub fn diff(request: &ConfirmRequested) -> String {
    let Some((path, text)) = written(request) else {
        return "  this call names no file with its text; v shows all of it\n".to_owned();
    };
    let shown = safe::visible(&path.to_string_lossy());
    let before = match current_text(&path) {
        Ok(before) => before,
        Err(why) => return format!("  {shown} {why}; v shows the call\n"),
    };
    let is_new = before.is_none();
    let before = before.unwrap_or_default();
    let compared = TextDiff::from_lines(before.as_str(), text.as_str());
    let mut lines = vec![];
    for hunk in compared.unified_diff().context_radius(3).iter_hunks() {
        lines.push(format!("    {}", hunk.header().to_string().trim_end()));
        lines.extend(hunk.iter_changes().map(|it| {
            let line = it.value().trim_end_matches(['\r', '\n']);
            format!("    {}{}", it.tag(), safe::visible(line))
        }));
    }
    let rest = lines.len().saturating_sub(MAX_LINES);
    lines.truncate(MAX_LINES);
    if rest > 0 {
        lines.push(format!("    … {rest} lines more; v shows the call"));
    }
    let about = match (is_new, lines.is_empty()) {
        (true, _) => "is not there yet",
        (false, true) => "holds exactly this text already",
        (false, false) => "as it is now, against the text of this call",
    };
    let mut said = format!("  {shown} {about}; what the tool makes of it only its server knows\n");
    for line in lines {
        said.push_str(line.trim_end());
        said.push('\n');
    }
    said
}

/// The file and the text that the arguments speak of, if they speak of one.
fn written(request: &ConfirmRequested) -> Option<(PathBuf, String)> {
    let call = request.subject.call()?;
    let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).ok()?;
    let one = |names: &[&str]| {
        let mut found = names.iter().filter_map(|it| arguments.get(*it)?.as_str());
        found.next().filter(|_| found.next().is_none())
    };
    let (path, text) = (one(&PATHS)?, one(&TEXTS)?);
    (!path.is_empty()).then(|| (Path::new(&call.cwd).join(path), text.to_owned()))
}

/// The text of a file, `None` where there is none, or why it is not compared.
fn current_text(path: &Path) -> Result<Option<String>, &'static str> {
    // Nothing waits for whoever holds the other end of a pipe.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(_) => return Err("cannot be read here"),
    };
    let about = file.metadata().map_err(|_| "cannot be read here")?;
    if !about.is_file() {
        return Err("is no ordinary file");
    }
    let mut bytes = vec![];
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|_| "cannot be read here")?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err("is larger than 1 MiB and is not compared");
    }
    let text = String::from_utf8(bytes).map_err(|_| "holds no text")?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::question::tests::{call_of, request};

    #[track_caller]
    fn check(held: Option<&[u8]>, arguments: &str, level: u8, expected: &[&str]) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.txt");
        if let Some(held) = held {
            std::fs::write(&path, held).unwrap();
        }
        let mut asked = request("fs__write", arguments, level);
        call_of(&mut asked).call.cwd = place.path().display().to_string();
        assert_eq!(!expected.is_empty(), is_possible(&asked));
        let said = diff(&asked);
        for line in expected {
            assert!(said.contains(line), "{said}");
        }
        assert!(!said.contains('\u{1b}'), "{said}");
    }

    #[test]
    fn a_write_is_shown_against_the_file() {
        let call = r#"{"path": "a.txt", "content": "one\ntwo\u001b[2J\n"}"#;
        check(
            Some(b"one\nthree\n"),
            call,
            2,
            &[
                "a.txt as it is now",
                "\n     one\n",
                "\n    -three\n",
                "\n    +two\\u{1b}[2J\n",
            ],
        );
        check(None, call, 2, &["is not there yet", "\n    +one\n"]);
        check(
            Some(b"one\ntwo\x1b[2J\n"),
            call,
            3,
            &["exactly this text already"],
        );
        check(Some(b"\xff"), call, 2, &["holds no text"]);
        check(
            Some(&[b'x'; (1 << 20) + 1]),
            call,
            2,
            &["larger than 1 MiB"],
        );
        check(
            None,
            r#"{"path": "..", "content": ""}"#,
            2,
            &["is no ordinary file"],
        );
    }

    #[test]
    fn what_writes_no_text_into_one_file_has_no_such_view() {
        for (arguments, level) in [
            (r#"{"path": "a.txt", "content": "x"}"#, 1),
            (r#"{"path": "a.txt"}"#, 2),
            (r#"{"path": "a.txt", "file": "b", "content": "x"}"#, 2),
            (r#"{"path": 1, "content": "x"}"#, 2),
            ("[]", 2),
        ] {
            check(None, arguments, level, &[]);
        }
    }
}
