//! The repository explains itself: nothing in it refers to a document that is not there.

use aish_testkit::repository;

use crate::none;

/// `SHA-256`, `UTF-8`, and other standards that have such names.
const STANDARDS: &[&str] = &["SHA", "UTF", "ISO", "RFC", "CVE"];

/// Here they are examples.
const OWN: &str = "tests/tidy/references.rs";
/// Corpora are what other people wrote.
const CORPORA: &str = "tests/data";

#[test]
fn no_requirement_is_called_by_a_number() {
    let mut wrong = vec![];
    for file in repository::files() {
        let name = file.display().to_string();
        let is_text = [".rs", ".md", ".toml", ".json", ".sh"]
            .iter()
            .any(|it| name.ends_with(it));
        if !is_text || name.starts_with(CORPORA) || name == OWN {
            continue;
        }
        let text = repository::text(&file).unwrap();
        for (number, line) in text.lines().enumerate() {
            if let Some(found) = reference(line) {
                wrong.push(format!("{name}:{}: {found}", number + 1));
            }
        }
    }
    none(
        &wrong,
        "say the reason in words: who reads this has no other document",
    );
}

/// `ABC-12`, `spec 34` or `(R5)`, where one stands in the line.
fn reference(line: &str) -> Option<String> {
    let is_separator = |it: char| !(it.is_ascii_alphanumeric() || it == '-' || it == '_');
    let words: Vec<&str> = line.split(is_separator).collect();
    let is_number =
        |it: &str| !it.is_empty() && it.len() <= 2 && it.bytes().all(|b| b.is_ascii_digit());
    let is_requirement = |word: &&&str| {
        let Some((area, number)) = word.split_once('-') else {
            return false;
        };
        let is_area =
            (3..=4).contains(&area.len()) && area.bytes().all(|it| it.is_ascii_uppercase());
        is_area && is_number(number) && !STANDARDS.contains(&area)
    };
    if let Some(found) = words.iter().find(is_requirement) {
        return Some((*found).to_owned());
    }
    let pair = words
        .windows(2)
        .find(|it| it[0].eq_ignore_ascii_case("spec") && it[1].len() == 2 && is_number(it[1]));
    if let Some(pair) = pair {
        return Some(pair.join(" "));
    }
    let rule = line.split('(').skip(1).find(|it| {
        let inside = it.split([')', ',', ';']).next().unwrap_or_default();
        inside.strip_prefix(['R', 'G']).is_some_and(is_number)
    });
    rule.map(|it| format!("({it}"))
}

#[test]
fn what_a_reference_is() {
    let told = |line: &str| reference(line).is_some();
    for line in [
        "as XYZ-1 says",
        "by the book (R5)",
        "/// Spec 80, 2.3",
        "(G4, R9)",
    ] {
        assert!(told(line), "{line}");
    }
    for line in [
        "UTF-8 of SHA-256",
        "ISO-8859-1",
        "fn f(R: u8)",
        "a spec of 80 pages",
    ] {
        assert!(!told(line), "{line}");
    }
}
