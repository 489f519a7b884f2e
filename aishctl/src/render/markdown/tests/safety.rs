//! Nothing but text and our own escape sequences reaches the screen, and all of the text does; nothing takes longer
//! because it was meant to.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::render::markdown::tests::cuts::{document, style};
use crate::safe;

/// What is left when our own sequences are taken out, by their exact grammar.
fn without_ours(painted: &str) -> String {
    let mut left = String::new();
    let mut rest = painted;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        left.push_str(before);
        rest = sgr(after).or_else(|| osc_8(after)).unwrap_or_else(|| {
            left.push('\u{1b}');
            after
        });
    }
    left + rest
}

fn sgr(after: &str) -> Option<&str> {
    let codes = after.strip_prefix('[')?;
    let rest = codes.trim_start_matches(|it: char| it.is_ascii_digit() || it == ';');
    rest.strip_prefix('m')
}

fn osc_8(after: &str) -> Option<&str> {
    let (address, rest) = after.strip_prefix("]8;;")?.split_once("\u{1b}\\")?;
    let known = ["", "http://", "https://", "mailto:", "file://"];
    let fine = address.is_empty()
        || (address.chars().all(|it| it.is_ascii_graphic())
            && known
                .iter()
                .skip(1)
                .any(|it| address.to_ascii_lowercase().starts_with(it)));
    fine.then_some(rest)
}

fn check_safe(text: &str, style: Style) {
    for row in rows(text, style) {
        let painted = row.painted(style.colours);
        let left = without_ours(&painted);
        assert_eq!(row.plain(), left, "{painted:?}");
        assert_eq!(safe::screen(&left), left, "{painted:?}");
        assert!(!left.chars().any(char::is_control), "{painted:?}");
        if style.colours == Colours::None {
            assert!(!painted.contains('\u{1b}'));
        }
    }
}

/// A link whose label is its address is written once.
fn without_links(text: &str) -> String {
    text.replace('[', "")
}

fn letters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|it| it.is_alphabetic())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_escape_reaches_a_screen(text in any::<String>(), wild in "([\\x00-\\x1f\\x7f-\\x9f\u{200b}-\u{202e}\u{2066}-\u{2069}\u{e0041}]|[-*_`\\[\\]()<>#;&:/a0-9日]|&#27;|&#x9b;|&#x202e;|\\]\\(https://|\\x1b\\]8;;|\\x1b\\[2J|\n){0,60}", style in style()) {
        check_safe(&text, style);
        check_safe(&wild, style);
        check_safe(&format!("[a](https://x/{wild}) ![{wild}](file:///{wild} \"{wild}\")\n\n```{wild}\n{wild}\n```"), style);
    }

    /// Every letter of the source is on the screen, however wide that is and however it is drawn.
    #[test]
    fn all_letters_reach_the_screen(text in document(), style in style()) {
        let text = without_links(&text);
        let shown: String = rows(&text, style).iter().map(ScreenRow::plain).collect();
        let mut counts = BTreeMap::new();
        for it in letters(&shown) {
            *counts.entry(it).or_insert(0) += 1;
        }
        for it in letters(&safe::screen(&text)) {
            let count = counts.entry(it).or_insert(0);
            *count -= 1;
            prop_assert!(*count >= 0, "{it:?} of {text:?} in {shown:?}");
        }
    }

    /// And in their order, where no cell has to be wrapped.
    #[test]
    fn in_their_order(text in document()) {
        let text = without_links(&text);
        let shown: String = rows(&text, Style::plain(Some(4000))).iter().map(ScreenRow::plain).collect();
        let mut shown = shown.chars();
        for it in letters(&safe::screen(&text)) {
            prop_assert!(shown.any(|other| other == it), "{it:?} of {text:?}");
        }
    }
}

#[test]
fn what_an_entity_stands_for_is_looked_at_too() {
    for text in [
        "&#27;[31mred&#x9b;2J&#7;&#x202e;",
        "[a](https://x/&#27;]8;;y&#x9c; \"&#27;c\")",
        "![&#27;[0m](file:///&#x1b;)",
        "<https://a.b/\u{202e}c>",
        "`\u{1b}[2J`\n\n| \u{9b}a |\n|---|\n| &#27;c |",
    ] {
        for colours in [Colours::None, Colours::Sixteen, Colours::True] {
            let style = Style {
                colours,
                links: LinkStyle::Clickable,
                code: CodeStyle::Highlighted,
                ..Style::plain(Some(40))
            };
            check_safe(text, style);
        }
    }
}

/// A table that is being read has 500 rows, and nothing else so many.
const MOST_HELD_ROWS: usize = 503;

/// How long the text takes in pieces as a model sends them, and that little of it waits for the end.
#[track_caller]
fn check_time(name: &str, text: &str, most: Duration) {
    let style = Style {
        colours: Colours::Sixteen,
        ..Style::plain(Some(80))
    };
    let mut writer = MarkdownWriter::new(style);
    let began = Instant::now();
    let mut count = 0;
    let characters: Vec<char> = text.chars().collect();
    for piece in characters.chunks(40) {
        count += writer.push(&piece.iter().collect::<String>()).len();
    }
    let held = began.elapsed();
    let held_rows = writer.finish().len();
    count += held_rows;
    let took = began.elapsed();
    let last = took.saturating_sub(held);
    println!(
        "{name}: {} KiB, {count} rows, {} ms, of it {} ms at the end",
        text.len() >> 10,
        took.as_millis(),
        last.as_millis()
    );
    assert!(took < most, "{name} took {took:?}");
    assert!(held_rows <= MOST_HELD_ROWS, "{name}: {held_rows} rows");
}

/// Bounds far above what is measured (unoptimised, on two slow cores): what is quadratic takes minutes.
#[test]
fn nothing_that_is_meant_to_take_long_does() {
    let most = Duration::from_secs(20);
    let check = |name: &str, unit: &str, bytes: usize| {
        check_time(name, &unit.repeat(bytes / unit.len()), most);
    };
    let (mib, part) = (1 << 20, 1 << 18);
    check("a word", "a", mib);
    check("brackets", "[", mib);
    check("quotes", ">", mib);
    check("words", "word and ", part);
    check("ideographs", "日本語", part);
    check("stars", "*a ", part);
    check("backticks", "`a ``", part);
    check("quotes of lines", "> a\n", part);
    check("signs", "- ", part);
    check("items", "- a\n", part);
    check("marks", "a\u{301}\u{200d}", part);
    check("entities", "&amp;", part);
    check("a row", "| a ", part);
    check_time(
        "a heading",
        &format!("# {}", "long ".repeat(part / 5)),
        most,
    );
    check_time("an info", &format!("```{}", "long ".repeat(part / 5)), most);
    check_time("a tag", &format!("<div {}", "long ".repeat(part / 5)), most);
    check_time("a line of code", &format!("```\n{}", "x".repeat(mib)), most);
    let fence = format!("```\n{}", "let x\n".repeat(part / 6));
    check_time("a fence that stays open", &fence, most);
    let table = format!(
        "| a | b |\n|---|---|\n{}",
        "| one | two `three` |\n".repeat(10_000)
    );
    check_time("a table", &table, most);
    let deep: String = (0..2000).map(|it| " ".repeat(it) + "- a\n").collect();
    check_time("a staircase", &deep, most);
}

/// A model writes about a word in 40 ms; what is shown before its block is complete is what a person sees move.
#[test]
fn rows_come_before_their_block_is_complete() {
    let text = "# How it works\n\nThe linker looks for the library in each of the directories that it was given, in the order in which they were given to it, and takes the first one that has a file of that name, whether or not it fits. After that it reads the symbols.\n\n1. Find the library with `pkg-config --libs openssl`, which prints the directories and the names that the linker needs to be given.\n2. Install the headers.\n\n```sh\nsudo apt-get install libssl-dev\npkg-config --libs openssl\n```\n\n| what | where |\n|---|---|\n| headers | /usr/include |\n| library | /usr/lib |\n\nThat is all.\n";
    let mut writer = MarkdownWriter::new(Style::plain(Some(60)));
    let mut early = 0;
    let mut all = 0;
    for (at, it) in text.char_indices() {
        let rows = writer.push(it.encode_utf8(&mut [0; 4])).len();
        all += rows;
        let ends = text.get(at..).is_some_and(|it| it.starts_with('\n'));
        if !ends {
            early += rows;
        }
    }
    all += writer.finish().len();
    println!("{early} of {all} rows came in the middle of a line");
    assert!(early >= 5, "{early} of {all}");
}
