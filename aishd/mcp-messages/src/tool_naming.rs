//! What a server's tool is called here. A name stands in rules, on screens, in paths and in requests to models, so it is one
//! to 128 letters and digits of ASCII, `_` and `-`. A name that is no more than unusual gets another one that says so; one
//! that means something else to whoever reads it costs its tool.

use sha2::{Digest as _, Sha256};

/// As long as the specification allows; the model's wire has a limit of its own.
const MAX_CHARS: usize = 128;
/// Of the name that another is made of, so that its mark fits behind it and both before the limit of most models.
const KEPT_CHARS: usize = 32;
const MARK_BYTES: usize = 4;

/// The name itself where it is plain, else one made of it: `read.file` becomes `read_file-9b0c5b2e`. The mark is made of the
/// whole name, so that two names stay two.
pub(super) fn safe_name(name: &str) -> Result<String, String> {
    let length = name.chars().count();
    if !(1..=MAX_CHARS).contains(&length) {
        return Err(format!("a name has 1 to {MAX_CHARS} characters"));
    }
    if name.chars().all(is_plain) {
        return Ok(name.to_owned());
    }
    let known =
        |it: char| is_plain(it) || it.is_alphanumeric() || matches!(it, '.' | '/' | ':' | ' ');
    let ends = [name.chars().next(), name.chars().next_back()];
    let ends_well = ends.into_iter().flatten().all(char::is_alphanumeric);
    if !name.chars().all(known) || !ends_well || name.contains("..") || name.contains("//") {
        return Err("its name is no name: letters, digits, `_` and `-` are".to_owned());
    }
    let mut near = String::new();
    for it in name.chars().map(|it| if is_plain(it) { it } else { '_' }) {
        if near.len() < KEPT_CHARS && !(it == '_' && near.ends_with('_')) {
            near.push(it);
        }
    }
    let digest = Sha256::digest(name.as_bytes());
    let mark = digest.iter().take(MARK_BYTES);
    let mark: String = mark.map(|it| format!("{it:02x}")).collect();
    Ok(format!("{}-{mark}", near.trim_matches(['_', '-']))
        .trim_start_matches('-')
        .to_owned())
}

fn is_plain(it: char) -> bool {
    it.is_ascii_alphanumeric() || matches!(it, '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: Option<&str>) {
        assert_eq!(expected, safe_name(name).ok().as_deref(), "{name:?}");
    }

    #[test]
    fn a_plain_name_is_kept_and_an_unusual_one_gets_another() {
        let long = "x".repeat(128);
        for name in ["read_file", "a", "A-9_", "__", &long] {
            check(name, Some(name));
        }
        // Rules hold these: they stay the same for ever.
        check("read.file", Some("read_file-dd32cdf5"));
        check("files/read", Some("files_read-2b733164"));
        check("two words", Some("two_words-a03f1d61"));
        check("été", Some("t-bd010c64"));
        check("読む", Some("818417a1"));
    }

    #[test]
    fn what_means_something_else_is_no_name() {
        let long = "x".repeat(129);
        for name in [
            "",
            &long,
            "*",
            "a*",
            "../x",
            "..",
            ".",
            ".x",
            "x.",
            "/etc",
            "a//b",
            "a..b",
            " a",
            "a ",
            "a\nb",
            "a\u{1b}[8m",
            "a\u{202e}b",
            "a\u{200b}b",
            "a\u{e0041}",
            "a\"b",
            "a'b",
            "$(a)",
            "a;b",
            "`a`",
            "a|b",
            "a=b",
            "<a>",
            "a\\b",
            "a\0b",
        ] {
            check(name, None);
        }
    }

    #[test]
    fn two_names_never_become_one() {
        let names = ["a.b", "a/b", "a:b", "a b", "a_b", "a-b", "aéb", "é", "è"];
        let mut seen: Vec<String> = names.iter().map(|it| safe_name(it).unwrap()).collect();
        assert!(
            seen.iter().all(|it| safe_name(it).as_ref() == Ok(it)),
            "{seen:?}"
        );
        seen.sort();
        seen.dedup();
        assert_eq!(names.len(), seen.len(), "{seen:?}");
    }
}
