//! Random edits of random files, by the real program: each is right to the byte, or refused with the reason that it should have,
//! and the file is untouched; killed at any step, it is the one or the other.
//!
//! `AISH_FILE_EDITS=1000` makes as many; `AISH_TEST_SEED` repeats.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use aish_testkit::{Chance, surroundings};
use aishd_files::FailureKind;
use serde_json::json;

use crate::Test;
use crate::workspace::Workspace;

pub(crate) const TESTS: &[Test] = &[("random_edits_are_right_or_refused", random_edits)];

const WORDS: [&str; 12] = [
    "a", "aa", "let", "\t", "  ", "größe", "🦀", "=", "{", "}", "x1", "\\n",
];

fn random_edits() {
    let edits = surroundings::count("AISH_FILE_EDITS").unwrap_or(300) as u64;
    let seed = surroundings::seed().unwrap_or(0x00ed_1755);
    println!("AISH_TEST_SEED={seed}");
    let mut came: BTreeMap<String, usize> = BTreeMap::new();
    for number in 0..edits {
        let outcome = one(seed.wrapping_mul(1_000_003).wrapping_add(number));
        *came.entry(outcome).or_default() += 1;
    }
    println!("{came:#?}");
    assert!(came.contains_key("made") && came.len() > 6, "{came:?}");
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileShape {
    Plain,
    Windows,
    Mixed,
}

#[derive(Debug)]
struct RandomFile {
    shape: FileShape,
    has_mark: bool,
    /// With plain ends.
    text: String,
    bytes: Vec<u8>,
}

/// What stands in the way of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    Nothing,
    NotRead,
    Stale,
    ReadOnly,
    HardLink,
    Latin,
    Utf16,
    Gone,
    Directory,
}

#[derive(Debug)]
struct RandomEdit {
    old: String,
    new: String,
    all: bool,
}

fn one(seed: u64) -> String {
    let mut chance = Chance::seeded(seed);
    let workspace = Workspace::new();
    let mut file = random_file(&mut chance);
    let obstacle = obstacle(&mut chance);
    spoil(&mut file, obstacle);
    workspace.put("real", &file.bytes);
    workspace.set_mode("real", *chance.pick(&[0o644, 0o600, 0o755]));
    let is_link = chance.odds(1, 4);
    if is_link {
        workspace.link("real", "link");
    }
    let name = if is_link { "link" } else { "real" };
    if obstacle != Obstacle::NotRead {
        workspace.text("read", &json!({"file_path": name}));
    }
    put_in_the_way(&workspace, obstacle, &mut file);
    let edits = random_edits_of(&mut chance, &file);
    let expected = expected(&file, obstacle, &edits);
    let call = json!({
        "file_path": name,
        "edits": edits.iter().map(|it| json!({
            "old_string": it.old, "new_string": it.new, "replace_all": it.all,
        })).collect::<Vec<_>>(),
    });
    let before = fs::symlink_metadata(workspace.path("real")).ok();
    let killed_at = chance.odds(1, 3).then(|| 1 + chance.below(8));
    let reply = match killed_at {
        Some(nth) => workspace.ask_killed(nth, "edit", &call),
        None => Some(workspace.ask("edit", &call)),
    };
    let told = || format!("seed {seed}: {obstacle:?} {killed_at:?} {file:?} {edits:?} {reply:?}");
    let now = fs::read(workspace.path("real")).ok();
    let kept =
        (obstacle != Obstacle::Gone && obstacle != Obstacle::Directory).then_some(&file.bytes[..]);
    let outcome = match (&reply, &expected) {
        (None, Ok(after)) => {
            let is_one =
                now.as_deref() == kept || now.as_deref().is_some_and(|it| is_as(after, it));
            assert!(is_one, "{}", told());
            return "killed".to_owned();
        }
        (None, Err(_)) => panic!("{}", told()),
        (Some(reply), Ok(after)) => {
            assert_eq!(None, reply.failure, "{}", told());
            assert!(is_as(after, now.as_deref().unwrap()), "{} {now:?}", told());
            let (before, meta) = (
                before.unwrap(),
                fs::metadata(workspace.path("real")).unwrap(),
            );
            assert_eq!(
                (before.mode(), before.uid(), before.gid(), 1),
                (meta.mode(), meta.uid(), meta.gid(), meta.nlink()),
                "{}",
                told()
            );
            "made".to_owned()
        }
        (Some(reply), Err(kind)) => {
            assert_eq!(Some(*kind), reply.failure, "{}", told());
            assert!(now.as_deref() == kept, "{}", told());
            let meta = fs::symlink_metadata(workspace.path("real")).ok();
            let stamp = |it: &fs::Metadata| (it.ino(), it.mtime_nsec(), it.mode());
            assert_eq!(
                before.as_ref().map(stamp),
                meta.as_ref().map(stamp),
                "{}",
                told()
            );
            format!("{kind:?}")
        }
    };
    let left = workspace.names();
    assert!(
        !left.iter().any(|it| it.starts_with('.')),
        "{left:?} {}",
        told()
    );
    assert_eq!(is_link, left.iter().any(|it| it == "link"));
    outcome
}

fn random_file(chance: &mut Chance) -> RandomFile {
    let shape = *chance.pick(&[
        FileShape::Plain,
        FileShape::Plain,
        FileShape::Windows,
        FileShape::Mixed,
    ]);
    let has_mark = chance.odds(1, 5);
    let mut lines: Vec<String> = (0..chance.below(30)).map(|_| words(chance, 6)).collect();
    if chance.odds(1, 60) {
        let many = (10 << 20) / 40;
        lines.extend((0..many).map(|it| format!("a line that is there to be long, {it:>6}")));
    }
    let ends_plainly = chance.odds(1, 3);
    let (mut text, mut bytes) = (String::new(), String::new());
    let count = lines.len();
    for (at, line) in lines.into_iter().enumerate() {
        text.push_str(&line);
        bytes.push_str(&line);
        if at + 1 == count && ends_plainly {
            break;
        }
        let is_windows = match shape {
            FileShape::Plain => false,
            FileShape::Windows => true,
            FileShape::Mixed => chance.odds(1, 2),
        };
        text.push('\n');
        bytes.push_str(if is_windows { "\r\n" } else { "\n" });
    }
    let mark = if has_mark { "\u{feff}" } else { "" };
    RandomFile {
        shape,
        has_mark,
        text,
        bytes: format!("{mark}{bytes}").into_bytes(),
    }
}

fn words(chance: &mut Chance, most: usize) -> String {
    (0..chance.below(most + 1))
        .map(|_| *chance.pick(&WORDS))
        .collect()
}

fn obstacle(chance: &mut Chance) -> Obstacle {
    if chance.odds(1, 2) {
        return Obstacle::Nothing;
    }
    *chance.pick(&[
        Obstacle::NotRead,
        Obstacle::Stale,
        Obstacle::Stale,
        Obstacle::ReadOnly,
        Obstacle::HardLink,
        Obstacle::Latin,
        Obstacle::Utf16,
        Obstacle::Gone,
        Obstacle::Directory,
    ])
}

/// Makes it a file that can be read and not edited.
fn spoil(file: &mut RandomFile, obstacle: Obstacle) {
    match obstacle {
        Obstacle::Latin => file
            .bytes
            .extend_from_slice(b"some more text with one caf\xe9"),
        Obstacle::Utf16 => {
            let units = file.text.encode_utf16().flat_map(u16::to_le_bytes);
            file.bytes = [0xff, 0xfe].into_iter().chain(units).collect();
        }
        _ => {}
    }
}

/// What happens after it was read.
fn put_in_the_way(workspace: &Workspace, obstacle: Obstacle, file: &mut RandomFile) {
    let real = workspace.path("real");
    match obstacle {
        Obstacle::Stale => {
            file.bytes.extend_from_slice("somebody was here".as_bytes());
            workspace.put("real", &file.bytes);
        }
        Obstacle::ReadOnly => workspace.set_mode("real", 0o444),
        Obstacle::HardLink => fs::hard_link(&real, workspace.path("other")).unwrap(),
        Obstacle::Gone => fs::remove_file(&real).unwrap(),
        Obstacle::Directory => {
            fs::remove_file(&real).unwrap();
            fs::create_dir(&real).unwrap();
        }
        Obstacle::Nothing | Obstacle::NotRead | Obstacle::Latin | Obstacle::Utf16 => {}
    }
}

fn random_edits_of(chance: &mut Chance, file: &RandomFile) -> Vec<RandomEdit> {
    let count = match file.shape {
        // What is expected of one place is known to the byte.
        FileShape::Mixed => 1,
        FileShape::Plain | FileShape::Windows => 1 + chance.below(3),
    };
    let mut text = file.text.clone();
    let mut edits = vec![];
    for _ in 0..count {
        let mut old = match chance.odds(1, 6) {
            true => words(chance, 4),
            false => part(chance, &text),
        };
        if old.is_empty() {
            old = "\n".to_owned();
        }
        let mut new = words(chance, 4);
        if chance.odds(1, 2) {
            new = format!("{new}\n{}", words(chance, 4));
        }
        if new == old {
            new.push('!');
        }
        let all = chance.odds(1, 4);
        text = match all {
            true => text.replace(&old, &new),
            false => text.replacen(&old, &new, 1),
        };
        if file.shape == FileShape::Windows && chance.odds(1, 5) {
            (old, new) = (old.replace('\n', "\r\n"), new.replace('\n', "\r\n"));
        }
        edits.push(RandomEdit { old, new, all });
    }
    edits
}

fn part(chance: &mut Chance, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    // Of a long file its beginning: there is what is not the same all over.
    let near = text.floor_char_boundary(text.len().min(600));
    let from = text.floor_char_boundary(chance.below(near.max(1)));
    let to = text.ceil_char_boundary((from + 1 + chance.below(40)).min(text.len()));
    text[from..to].to_owned()
}

/// What the file is afterwards.
#[derive(Debug)]
enum RandomResult {
    Exactly(Vec<u8>),
    /// Of a file with mixed ends: the text with plain ends, and what is before and behind the place.
    Mixed {
        text: String,
        before: Vec<u8>,
        behind: Vec<u8>,
    },
}

fn is_as(expected: &RandomResult, bytes: &[u8]) -> bool {
    match expected {
        RandomResult::Exactly(wanted) => wanted == bytes,
        RandomResult::Mixed {
            text,
            before,
            behind,
        } => {
            let plain = String::from_utf8(bytes.to_vec()).unwrap();
            *text == plain.replace("\r\n", "\n")
                && bytes.starts_with(before)
                && bytes.ends_with(behind)
        }
    }
}

fn expected(
    file: &RandomFile,
    obstacle: Obstacle,
    edits: &[RandomEdit],
) -> Result<RandomResult, FailureKind> {
    match obstacle {
        Obstacle::Nothing => {}
        Obstacle::NotRead => return Err(FailureKind::NotRead),
        Obstacle::Stale => return Err(FailureKind::Stale),
        Obstacle::ReadOnly => return Err(FailureKind::NotAllowed),
        Obstacle::HardLink => return Err(FailureKind::CannotKeep),
        Obstacle::Latin | Obstacle::Utf16 => return Err(FailureKind::NotText),
        Obstacle::Gone => return Err(FailureKind::NotThere),
        Obstacle::Directory => return Err(FailureKind::WrongKind),
    }
    let mark = if file.has_mark { "\u{feff}" } else { "" };
    let mut text = file.text.clone();
    for edit in edits {
        let plain = |it: &str| match file.shape {
            FileShape::Windows => it.replace("\r\n", "\n"),
            FileShape::Plain | FileShape::Mixed => it.to_owned(),
        };
        let (old, new) = (plain(&edit.old), plain(&edit.new));
        // Wherever it begins, also where that overlaps.
        let count = text
            .char_indices()
            .filter(|(at, _)| text[*at..].starts_with(&old))
            .count();
        match (count, edit.all) {
            (0, _) => return Err(FailureKind::NoMatch),
            (1, _) | (_, true) => text = text.replace(&old, &new),
            (_, false) => return Err(FailureKind::ManyMatches),
        }
    }
    if text == file.text {
        return Err(FailureKind::NoChange);
    }
    Ok(match file.shape {
        FileShape::Plain => RandomResult::Exactly(format!("{mark}{text}").into_bytes()),
        FileShape::Windows => {
            let text = text.replace('\n', "\r\n");
            RandomResult::Exactly(format!("{mark}{text}").into_bytes())
        }
        FileShape::Mixed => {
            let (before, behind) = around(file, &edits[0]);
            RandomResult::Mixed {
                text: format!("{mark}{text}"),
                before,
                behind,
            }
        }
    })
}

/// What of a file with mixed ends stays to the byte, before the first place and behind the last.
fn around(file: &RandomFile, edit: &RandomEdit) -> (Vec<u8>, Vec<u8>) {
    let first = file.text.find(&edit.old).unwrap();
    let last = file.text.rfind(&edit.old).unwrap() + edit.old.len();
    let bytes = String::from_utf8(file.bytes.clone()).unwrap();
    let mark = if file.has_mark {
        '\u{feff}'.len_utf8()
    } else {
        0
    };
    // Where a place of the plain text is in the file.
    let place = |at: usize| {
        let mut plain = 0;
        let mut real = mark;
        let body = &bytes.as_bytes()[mark..];
        while plain < at {
            if body[real - mark..].starts_with(b"\r\n") {
                real += 1;
            }
            real += 1;
            plain += 1;
        }
        real
    };
    (
        bytes.as_bytes()[..place(first)].to_vec(),
        bytes.as_bytes()[place(last)..].to_vec(),
    )
}
