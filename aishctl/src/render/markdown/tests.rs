//! What a person sees of a text.

use expect_test::{Expect, expect};

use super::*;

mod cuts;
mod safety;

/// All rows of the text, as they come when it comes at once.
fn rows(text: &str, style: Style) -> Vec<ScreenRow> {
    let mut writer = MarkdownWriter::new(style);
    let mut rows = writer.push(text);
    rows.extend(writer.finish());
    rows
}

fn shown(text: &str, style: Style) -> String {
    let rows = rows(text, style);
    rows.iter()
        .map(|it| it.painted(style.colours) + "\n")
        .collect()
}

/// Drawn, without colours: markers stay where a colour would be.
#[track_caller]
fn check(text: &str, expected: &Expect) {
    expected.assert_eq(&shown(text, Style::plain(Some(40))));
}

/// Coloured; the escape sequences are written as `‹1;36›` and `‹›`, links as `‹→address›`.
#[track_caller]
fn check_coloured(text: &str, expected: &Expect) {
    let style = Style {
        colours: Colours::Sixteen,
        links: LinkStyle::Clickable,
        code: CodeStyle::Highlighted,
        ..Style::plain(Some(40))
    };
    let text = shown(text, style)
        .replace("\u{1b}]8;;\u{1b}\\", "‹→›")
        .replace("\u{1b}]8;;", "‹→")
        .replace("\u{1b}\\", "›")
        .replace("\u{1b}[0m", "‹›");
    let mut readable = String::new();
    for (at, part) in text.split("\u{1b}[").enumerate() {
        if at == 0 {
            readable.push_str(part);
        } else {
            readable.push_str(&format!("‹{}", part.replacen('m', "›", 1)));
        }
    }
    expected.assert_eq(&readable);
}

/// For people who listen.
#[track_caller]
fn check_words(text: &str, expected: &Expect) {
    let style = Style {
        glyphs: GlyphSet::Words,
        ..Style::plain(Some(40))
    };
    expected.assert_eq(&shown(text, style));
}

#[test]
fn an_answer_reads_well_without_colours() {
    check(
        "# Title\n\nA *short* paragraph with **bold**, `code` and ~~old~~ text.\nSecond line.  \nBroken here.\n\n- one\n- two\n  1. deep\n  2. deeper\n\n  still two\n- [ ] open\n- [x] done\n\n> quoted\nlazily\n\n---\n\nafter",
        &expect![[r#"
            # Title

            A *short* paragraph with **bold**,
            `code` and ~~old~~ text. Second line.
            Broken here.

            • one
            • two
              1. deep
              2. deeper

              still two
            ☐ open
            ☑ done

            │ quoted lazily

            ────────────────────────────────────────

            after
        "#]],
    );
}

#[test]
fn colours_take_the_place_of_markers() {
    check_coloured(
        "## Title with `code`\n\n*it* **bo** ***both*** ~~no~~ ~5 `code` [label](https://a.b/c) <https://a.b> [x](javascript:y) ![alt](https://a.b/i.png)\n\n> quote\n\nCMD: ls *\n\n```rust\nfn main() { // hi\n    let a = \"b\";\n}\n```\n\n```nonsense\nx\n```",
        &expect![[r#"
            ‹1›Title with ‹›‹1;36›code‹›

            ‹3›it‹› ‹1›bo‹› ‹1;3›both‹› ‹9›no‹› ~5 ‹36›code‹› ‹→https://a.b/c›‹4›label‹›‹→› ‹→https://a.b›‹4›https://a.b‹›‹→›
            ‹4›x‹›‹2› (javascript:y)‹› ‹→https://a.b/i.png›‹4›[image: alt]‹›‹→›

            ‹2›│ ‹›quote

            ‹1›CMD: ls *‹›

            ‹2›```rust‹›
            ‹35›fn‹› ‹34›main‹›() { ‹2›// hi‹›
                ‹35›let‹› a = ‹32›"b"‹›;
            }
            ‹2›```‹›

            ‹2›```nonsense‹›
            x
            ‹2›```‹›
        "#]],
    );
}

/// Where there is no grammar of that name, a near one will do; where there is none, the code is plain.
#[test]
fn code_has_the_colours_of_its_language() {
    let colours = |language: &str, code: &str| {
        let style = Style {
            colours: Colours::True,
            code: CodeStyle::Highlighted,
            ..Style::plain(Some(40))
        };
        let rows = rows(&format!("```{language}\n{code}\n"), style);
        rows.last()
            .unwrap()
            .painted(style.colours)
            .contains("38;2;")
    };
    for language in [
        "rust", "rs", "python", "sh", "console", "c", "cpp", "go", "java", "js", "ts", "sql",
        "ruby",
    ] {
        assert!(colours(language, "x = \"text\" 'text' 1"), "{language}");
    }
    for (language, code) in [
        ("json", "{\"a\": 1}"),
        ("yaml", "a: 1"),
        ("toml", "a = \"b\""),
        ("html", "<a b=\"c\">"),
        ("diff", "+a"),
        ("Rust,ignore", "1"),
    ] {
        assert!(colours(language, code), "{language}");
    }
    assert!(!colours("nonsense", "1") && !colours("", "1"));
}

/// Rows that were given out stay; those to come are as wide as the terminal is now.
#[test]
fn a_terminal_may_change_its_width() {
    let mut writer = MarkdownWriter::new(Style::plain(Some(40)));
    let text = "these are words enough for some rows of twenty columns ";
    let mut shown: Vec<String> = writer.push(text).iter().map(ScreenRow::plain).collect();
    writer.resize(Some(20));
    let rest = [writer.push(text), writer.finish()].concat();
    shown.extend(rest.iter().map(ScreenRow::plain));
    assert_eq!("these are words enough for some rows of", shown[0]);
    assert!(
        shown.len() > 3 && shown[1..].iter().all(|it| it.len() <= 20),
        "{shown:?}"
    );
}

/// Who listens hears what a line is before what it says.
#[test]
fn words_take_the_place_of_signs() {
    check_words(
        "## Title\n\n*it* is **so** `x`\n\n> quoted\n> text that is longer than one row is here\n\n- [x] shop\n- [ ] cook\n- eat\n\n```sh\nls\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\n---",
        &expect![[r#"
            heading 2: Title

            it is so x

            quote: quoted text that is longer than
              one row is here

            - done: shop
            - to do: cook
            - eat

            code sh:
            ls
            end of code

            a: 1
            b: 2

            a: 3
            b: 4

            ---
        "#]],
    );
}

#[test]
fn links_say_where_they_lead() {
    check(
        "[label](https://a.b) <https://a.b> <me@a.b> [https://a.b](https://evil.example) [ref][id]\n\n[id]: https://a.b\n\n![alt](i.png \"title\") [^1]\n\n[^1]: note",
        &expect![[r#"
            label (https://a.b) https://a.b me@a.b
            https://a.b (https://evil.example)
            [ref][id]

            [id]: https://a.b

            [image: alt] (i.png "title") [^1]

            [^1]: note
        "#]],
    );
}

/// A click must lead where the label says it does.
#[test]
fn a_label_that_looks_like_an_address_is_no_disguise() {
    check_coloured(
        "[bank.example](https://evil.example) [https://bank.example](https://evil.example) [docs](https://a.b/\u{e9}) [](https://a.b)",
        &expect![[r#"
            ‹→https://evil.example›‹4›bank.example‹›‹→›‹2› (https://evil.example)‹›
            ‹→https://evil.example›‹4›https://bank.example‹›‹→›
            ‹2›(https://evil.example)‹› ‹→https://a.b/%C3%A9›‹4›docs‹›‹→›
            ‹2›(https://a.b)‹›
        "#]],
    );
}

#[test]
fn tables_fit_the_screen() {
    check(
        "| name | what it is | n |\n|:-----|:----------:|--:|\n| `a\\|b` | **short** | 1 |\n| 日本語 | a longer text that has to be wrapped | 22 |\n| x |\n| x | y | z | more |\nafter",
        &expect![[r#"
            ┌────────┬──────────────────┬──────────┐
            │ name   │    what it is    │        n │
            ├────────┼──────────────────┼──────────┤
            │ `a|b`  │    **short**     │        1 │
            │ 日本語 │  a longer text   │       22 │
            │        │  that has to be  │          │
            │        │     wrapped      │          │
            │ x      │                  │          │
            │ x      │        y         │ z | more │
            └────────┴──────────────────┴──────────┘
            after
        "#]],
    );
    check(
        "| a | b | c | d | e | f |\n|---|---|---|---|---|---|\n| one | two words | three more words | four | five | and six of them |\n| 1 | 2 | 3 | 4 | 5 | 6 |",
        &expect![[r#"
            a: one
            b: two words
            c: three more words
            d: four
            e: five
            f: and six of them

            a: 1
            b: 2
            c: 3
            d: 4
            e: 5
            f: 6
        "#]],
    );
    check(
        "| a | b |\n|---|\n| no table |",
        &expect![[r#"
        | a | b | |---| | no table |
    "#]],
    );
}

#[test]
fn code_is_never_wrapped_and_stands_as_it_is() {
    check(
        "```\nvery long code that is longer than the forty columns of this screen\n  *not* `markdown`\n\n\ttab\n```\ntext\n\n    indented *code*\n\n    goes on\n\n1. item\n   ```py\n   print()\n   ```\nCMD: echo *one* two three four five six seven eight nine ten\n\n~~~\nopen",
        &expect![[r#"
            ```
            very long code that is longer than the forty columns of this screen
              *not* `markdown`

                tab
            ```
            text

                indented *code*

                goes on

            1. item
               ```py
               print()
               ```
            CMD: echo *one* two three four five six seven eight nine ten

            ~~~
            open
        "#]],
    );
}

#[test]
fn html_and_what_is_broken_is_text() {
    check(
        "<div align=\"center\">\n<b>*not* bold</b>\n</div>\n\na <b>c</b> &lt;d&gt; &amp; e\n\n**open and `never closed\n\n[a](b\n\n> \n\n-\n- \n\n####### seven\n#hash\n\n1986\\. A year\n\n| just | pipes |",
        &expect![[r#"
            <div align="center">
            <b>*not* bold</b>
            </div>

            a <b>c</b> <d> & e

            **open and `never closed

            [a](b

            •
            •

            ####### seven #hash

            1986. A year

            | just | pipes |
        "#]],
    );
}

/// What is held for more than three rows is shown as it is, markers and all; the rest is as ever.
#[test]
fn an_open_marker_holds_three_rows_and_no_more() {
    let long = "these are words that nobody ends with a marker ".repeat(4);
    check(
        &format!(
            "before **{long} and *this* is here. And *then* it goes on with `code` again and more of it."
        ),
        &expect![[r#"
            before **these are words that nobody
            ends with a marker these are words that
            nobody ends with a marker these are
            words that nobody ends with a marker
            these are words that nobody ends with a
            marker and *this* is here. And *then* it
            goes on with `code` again and more of
            it.
        "#]],
    );
}

#[test]
fn wide_characters_wrap_where_they_may() {
    check(
        "日本語の文章は空白なしで書かれるので、どこでも折り返すことができます。**重点：**説明は続きます、そしてさらに続きます。\n\n👩\u{200d}💻👩\u{200d}💻👩\u{200d}💻 e\u{301}e\u{301} ❤\u{fe0f} averylongwordthatfitsnowhereatallandmustbebrokensomewhere",
        &expect![[r#"
            日本語の文章は空白なしで書かれるので、ど
            こでも折り返すことができます。**重点：**
            説明は続きます、そしてさらに続きます。

            👩‍💻👩‍💻👩‍💻 éé ❤️
            averylongwordthatfitsnowhereatallandmust
            bebrokensomewhere
        "#]],
    );
}

#[test]
fn lists_count_and_nest() {
    check(
        "3. three\n3. four\n\n   a paragraph of four that is long enough to be wrapped\n   - deep\n     1) deeper\n        > quoted there\n7. five\n- other\n* another\n\ntext\n1. right after\n2. text",
        &expect![[r#"
            3. three
            4. four

               a paragraph of four that is long
               enough to be wrapped
               • deep
                 1) deeper
                    │ quoted there
            5. five
            • other
            • another

            text
            1. right after
            2. text
        "#]],
    );
}

/// What is being written is there before its row is whole, in the look that it will have.
#[test]
fn a_row_that_has_begun_can_be_seen() {
    let mut writer = MarkdownWriter::new(Style::plain(Some(20)));
    let begun = |writer: &MarkdownWriter| {
        let row = writer.row_begun();
        row.map(|it| it.painted(Colours::None)).unwrap_or_default()
    };
    assert_eq!("", begun(&writer));
    for (text, rows, expected) in [
        ("one", 0, "one"),
        (" **two", 0, "one **two"),
        ("** three four", 0, "one **two** three"),
        (" five and", 1, "four five and"),
        ("\n\n- a", 1, "- a"),
        ("n item\n", 0, "• an item"),
        ("\n```\nlet a", 4, "let a"),
        ("\n```\n", 2, ""),
    ] {
        let finished = writer.push(text);
        println!("{finished:?}");
        assert_eq!(
            (rows, expected),
            (finished.len(), &*begun(&writer)),
            "{text:?}"
        );
    }
}
