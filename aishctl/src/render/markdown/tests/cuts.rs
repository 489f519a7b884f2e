//! How a text was cut into pieces must not be seen.

use proptest::prelude::*;

use super::*;
use crate::render::markdown::inline::{self, InlinePart};
use crate::render::markdown::markers::MarkerReader;
use crate::render::markdown::row::TextLook;
use crate::safe;

/// Words, and what makes trouble between them.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-wyz]{1,9}",
        1 => "\\*[a-wyz]{1,6}\\*",
        1 => "\\*\\*[a-wyz]{1,6}\\*\\*",
        1 => "_[a-w]{1,4} [a-w]{1,4}_",
        1 => "\\*\\*[a-w]{1,4} [*_][a-w]{1,4}[*_] [a-w]\\*\\*[,.“]?",
        1 => "\\[[a-w]{1,4} [*_`][a-w]{1,4}[*_`]\\]\\([a-w_*]{1,4}( \"[a-w ]{3}\")?\\)",
        1 => "<[a-w]{1,3}( [a-w*_]{1,3})?>",
        1 => "`[a-wyz ]{1,12}`",
        1 => "~~[a-wyz]{1,6}~~",
        1 => "\\[[a-w]{1,5}\\]\\(https://[a-w]{3}\\.yz\\)",
        1 => "[日本語。、한국어]{1,20}",
        1 => Just("👩\u{200d}💻e\u{301}❤\u{fe0f}".to_owned()),
        1 => "[*_`\\[\\]()<>~\\\\|!&]{1,3}",
        1 => "[a-w]{30,60}",
        1 => Just("<b>".to_owned()),
        1 => Just("snake_case_name".to_owned()),
    ]
}

fn words() -> impl Strategy<Value = String> {
    proptest::collection::vec(word(), 1..30).prop_map(|it| it.join(" "))
}

fn block() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => words(),
        2 => proptest::collection::vec(words(), 1..4).prop_map(|it| it.join("\n")),
        1 => proptest::collection::vec(words(), 1..3).prop_map(|it| it.join("  \n")),
        2 => proptest::collection::vec(words(), 1..4).prop_map(|it| format!("- {}", it.join("\n- "))),
        1 => proptest::collection::vec(words(), 1..4).prop_map(|it| format!("1. {}", it.join("\n   1. "))),
        1 => words().prop_map(|it| format!("- [x] {it}\n- [ ] {it}\n")),
        1 => words().prop_map(|it| format!("> {it}\n> > {it}\n{it}")),
        1 => words().prop_map(|it| format!("## {it}")),
        1 => words().prop_map(|it| format!("{it}\n---")),
        1 => words().prop_map(|it| format!("```rust\nlet a = \"{it}\";\n{it}\n```")),
        1 => words().prop_map(|it| format!("~~~~\n{it}")),
        1 => words().prop_map(|it| format!("    {it}\n\n    {it}")),
        1 => words().prop_map(|it| format!("CMD: {it}")),
        1 => proptest::collection::vec("[a-wé日 *`]{0,14}", 2..6)
            .prop_map(|it| format!("| {} |\n|{}\n| {} |", it.join("|"), "---|".repeat(it.len()), it.join(" | "))),
        1 => words().prop_map(|it| format!("<div>\n{it}\n</div>")),
        1 => Just("***".to_owned()),
        2 => "[-*_`\\[\\]()<>~\\\\|!#+>=:. \t\r\na1é日\u{301}\u{200d}]{0,60}",
    ]
}

/// Documents, whole and broken.
pub(super) fn document() -> impl Strategy<Value = String> {
    let separator =
        prop_oneof![3 => Just("\n\n"), 2 => Just("\n"), 1 => Just("\r\n\r\n"), 1 => Just("")];
    proptest::collection::vec((block(), separator), 0..7)
        .prop_map(|it| it.into_iter().map(|(block, end)| block + end).collect())
}

pub(super) fn style() -> impl Strategy<Value = Style> {
    let width = prop_oneof![Just(None), (1usize..130).prop_map(Some)];
    let colours = prop_oneof![
        Just(Colours::None),
        Just(Colours::Sixteen),
        Just(Colours::True)
    ];
    let glyphs = prop_oneof![Just(GlyphSet::Drawn), Just(GlyphSet::Words)];
    let links = prop_oneof![Just(LinkStyle::Written), Just(LinkStyle::Clickable)];
    (width, colours, glyphs, links).prop_map(|(width, colours, glyphs, links)| Style {
        width,
        colours,
        glyphs,
        links,
        code: CodeStyle::Plain,
    })
}

/// The rows of a text that comes in pieces of so many characters.
fn rows_in_pieces(text: &str, lengths: &[usize], style: Style) -> Vec<ScreenRow> {
    let mut writer = MarkdownWriter::new(style);
    let mut rows = Vec::new();
    let characters: Vec<char> = text.chars().collect();
    let mut rest = characters.as_slice();
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, more) = rest.split_at((*length).clamp(1, rest.len()));
        rows.extend(writer.push(&piece.iter().collect::<String>()));
        rest = more;
    }
    rows.extend(writer.finish());
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Also: what was shown early is what is shown when all of it comes at once.
    #[test]
    fn the_rows_do_not_depend_on_the_cuts(text in document(), style in style(), lengths in proptest::collection::vec(1usize..40, 1..20)) {
        let whole = rows(&text, style);
        prop_assert_eq!(&whole, &rows_in_pieces(&text, &[1], style));
        prop_assert_eq!(&whole, &rows_in_pieces(&text, &lengths, style));
    }

    #[test]
    fn a_writer_that_has_finished_is_as_new(one in document(), two in document(), style in style()) {
        let mut writer = MarkdownWriter::new(style);
        writer.push(&one);
        writer.finish();
        let mut again = writer.push(&two);
        again.extend(writer.finish());
        prop_assert_eq!(rows(&two, style), again);
    }

    /// Nothing is wider than the screen but code and commands, which stand there as in the source; so does what a
    /// fence says of its code, before a colon of ours.
    #[test]
    fn no_row_is_wider_than_the_screen(text in document(), style in style()) {
        let room = style.columns();
        let bare = |text: &str| text.replace([' ', '\t'], "");
        let source = safe::screen(&text);
        for row in rows(&text, style).iter().filter(|it| it.width() > room) {
            let plain = bare(&row.plain());
            let plain = plain.strip_prefix("code").and_then(|it| it.strip_suffix(':')).unwrap_or(&plain);
            let end: String = plain.chars().skip(plain.chars().count().saturating_sub(15)).collect();
            let verbatim = source.lines().any(|it| bare(it).ends_with(&end));
            prop_assert!(verbatim, "{:?} of {:?}", plain, text);
        }
    }

    /// Where the markers say that a text may be cut, both parts mean the same apart as together.
    #[test]
    fn a_cut_between_markers_changes_nothing(text in proptest::collection::vec(word(), 1..14).prop_map(|it| it.join(" "))) {
        check_cuts(&text);
    }

    #[test]
    fn nor_does_one_in_a_soup_of_markers(text in "([-*_`~\\[\\]()<>\\\\!\"'/:. aé“。]|~~){0,40}") {
        check_cuts(&text);
    }

    #[test]
    fn nor_among_few_markers(one in "[*_`~a é]{0,12}", more in "([*_`~a ]|\\[|\\]|\\(|\\)|~~){0,16}") {
        check_cuts(&one);
        check_cuts(&more);
    }
}

#[test]
fn a_lone_tilde_closes_nothing_that_stands_between_two() {
    check_cuts("~_ [wl _u`](_) `~ snake_case_name _t tff_");
    check_cuts("~a _b c~ d_ e");
    check_cuts("\\~~a _b c~ d_ e ~~f~~");
}

fn check_cuts(text: &str) {
    let style = Style {
        colours: Colours::Sixteen,
        ..Style::plain(None)
    };
    let looks = |text: &str| -> Vec<(char, TextLook)> {
        let parts = inline::parts(text, &TextLook::default(), &style);
        let text = parts.into_iter().filter_map(|it| match it {
            InlinePart::Text(text, look) => Some((text, look)),
            InlinePart::Break => None,
        });
        text.flat_map(|(text, look)| {
            let characters: Vec<char> = text.chars().filter(|it| *it != ' ').collect();
            characters.into_iter().map(move |it| (it, look.clone()))
        })
        .collect()
    };
    let whole = looks(text);
    let mut markers = MarkerReader::default();
    for (at, it) in text.char_indices() {
        markers.take(it);
        if it == ' ' && markers.is_closed() {
            let (before, after) = text.split_at(at + 1);
            let apart = [looks(before), looks(after)].concat();
            assert!(whole == apart, "{before:?} + {after:?}");
        }
    }
}
