//! What Tab gives behind an `@`: names of files, as [`crate::commands::file_mention`] reads them back.

use std::fs;

use crate::commands::file_mention::PersonLocation;

/// More names are no help.
const MOST: usize = 200;

/// Where the path begins and what it may become; `None`: no file is named where the line ends.
pub(super) fn complete(typed: &str, here: &PersonLocation) -> Option<(usize, Vec<String>)> {
    let line = typed.rfind('\n').map_or(0, |it| it + 1);
    let open = open_quote(&typed[line..]).map(|it| line + it);
    let start = match open {
        Some(quote) => quote,
        None => {
            let word = typed.rfind(char::is_whitespace);
            let word = word.map_or(0, |it| {
                it + typed[it..].chars().next().map_or(1, char::len_utf8)
            });
            word + typed[word..].strip_prefix('@').map(|_| 1)?
        }
    };
    let path = typed[start..].trim_start_matches(['"', '\'']);
    let (folder, begun) = path.rsplit_once('/').map_or(("", path), |(folder, begun)| {
        (&path[..=folder.len()], begun)
    });
    let place = here.place(if folder.is_empty() { "." } else { folder });
    let mut found = vec![];
    for entry in fs::read_dir(place).ok()?.flatten() {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let hidden = name.starts_with('.') && !begun.starts_with('.');
        let odd = |it: char| it.is_control() || matches!(it, '"' | '\'');
        if !name.starts_with(begun) || hidden || name.contains(odd) {
            continue;
        }
        let is_folder = fs::metadata(entry.path()).is_ok_and(|it| it.is_dir());
        let path = format!("{folder}{name}");
        let quoted = open.is_some() || path.contains(char::is_whitespace);
        found.push(match (quoted, is_folder) {
            (false, false) => path,
            (false, true) => path + "/",
            // One that goes on stays open.
            (true, true) => format!("\"{path}/"),
            (true, false) => format!("\"{path}\""),
        });
        if found.len() == MOST {
            break;
        }
    }
    found.sort();
    // The directory itself is meant, or what another Tab gives: something in it.
    if let [only] = &found[..]
        && only.ends_with('/')
        && let Some((_, inside)) = complete(&format!("{}{only}", &typed[..start]), here)
    {
        let closed = if only.starts_with('"') { "\"" } else { "" };
        found[0].push_str(closed);
        found.extend(inside);
    }
    Some((start, found))
}

/// Where the quote of a path stands that is not closed yet.
fn open_quote(line: &str) -> Option<usize> {
    let at = line.rfind("@\"")?;
    let begins = line[..at]
        .chars()
        .next_back()
        .is_none_or(char::is_whitespace);
    (begins && !line[at + 2..].contains('"')).then_some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, expected: Option<(usize, &[&str])>) {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "work/src/main.rs",
            "work/src/two words.rs",
            "work/.env",
            "work/a\u{1b}b",
            "work/sea.md",
            "home.md",
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let here = PersonLocation {
            directory: folder.path().join("work"),
            home: Some(folder.path().to_path_buf()),
            list: None,
        };
        let found = complete(typed, &here);
        let found = found
            .as_ref()
            .map(|(at, it)| (*at, it.iter().map(String::as_str).collect::<Vec<_>>()));
        assert_eq!(expected.map(|(at, it)| (at, it.to_vec())), found, "{typed}");
    }

    #[test]
    fn tab_knows_the_files_behind_an_at() {
        check("see @s", Some((5, &["sea.md", "src/"])));
        check("@", Some((1, &["sea.md", "src/"])));
        check(
            "@sr",
            Some((1, &["src/", "\"src/two words.rs\"", "src/main.rs"])),
        );
        check(
            "@\"sr",
            Some((1, &["\"src/\"", "\"src/main.rs\"", "\"src/two words.rs\""])),
        );
        check("@.e", Some((1, &[".env"])));
        check(
            "é @src/",
            Some((4, &["\"src/two words.rs\"", "src/main.rs"])),
        );
        check("@src/m", Some((1, &["src/main.rs"])));
        check("@~/h", Some((1, &["~/home.md"])));
        check("@\"src/two w", Some((1, &["\"src/two words.rs\""])));
        check("@nowhere/", None);
        check("me@s", None);
        check(":sw", None);
        check("plain", None);
    }
}
