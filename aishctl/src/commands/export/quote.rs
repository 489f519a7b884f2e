//! Strangers' text in a Markdown document: it stands in a quote or a fence, and nothing in it ends that, becomes HTML,
//! or has a reader's program fetch a picture.

use pulldown_cmark::{Event, Options, Parser, Tag};

use crate::safe;

/// Each turn takes at least one sign away; a text that needs more is shown as it is, in a fence.
const TURNS: usize = 16;

/// Markdown of a stranger, as a block quote. Its HTML is shown instead of obeyed, and its pictures become links.
pub(super) fn quoted(text: &str) -> String {
    let text = safe::screen(text);
    let mut quote = String::with_capacity(text.len() + 16);
    for line in text.lines() {
        quote.push_str(if line.is_empty() { ">" } else { "> " });
        quote.push_str(line);
        quote.push('\n');
    }
    for _ in 0..TURNS {
        let places = wild(&quote);
        if places.is_empty() {
            return quote;
        }
        let mut tamed = String::with_capacity(quote.len() + 8 * places.len());
        let mut from = 0;
        for place in places {
            tamed.push_str(&quote[from..place]);
            if quote[place..].starts_with('<') {
                tamed.push_str("&lt;");
            } else {
                tamed.push_str("\\!");
            }
            from = place + 1;
        }
        tamed.push_str(&quote[from..]);
        quote = tamed;
    }
    fenced("markdown", &text)
}

/// Where HTML or a picture begins, in order, for any reader of the kinds that there are.
fn wild(text: &str) -> Vec<usize> {
    let mut places = vec![];
    let tables = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH;
    for options in [Options::empty(), tables] {
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            let is_html = matches!(
                event,
                Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::HtmlBlock)
            );
            if is_html {
                let signs = text[range.clone()].match_indices('<');
                places.extend(signs.map(|(at, _)| range.start + at));
            } else if let Event::Start(Tag::Image { .. }) = event {
                let sign = text[range.clone()].find('!');
                places.extend(sign.map(|at| range.start + at));
            }
        }
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// Text in a fence that is longer than any run of its sign in the text.
pub(super) fn fenced(language: &str, text: &str) -> String {
    let text = safe::screen(text);
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    let newline = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{fence}{language}\n{text}{newline}{fence}\n")
}

/// A word of a stranger within a line.
pub(super) fn code(text: &str) -> String {
    let text = safe::one_line(text);
    let ticks = "`".repeat(longest_run(&text) + 1);
    if text.trim().is_empty() {
        return "` `".to_owned();
    }
    // A space keeps a backtick of the text off ours; readers take one off again.
    let blank = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{ticks}{blank}{text}{blank}{ticks}")
}

/// One line of plain text: no sign in it is one of Markdown or of HTML.
pub(super) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for it in safe::one_line(text).chars() {
        match it {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '!' | '|' | '~' | '>' | '$' => {
                shown.push('\\');
                shown.push(it);
            }
            _ => shown.push(it),
        }
    }
    shown
}

/// Text within HTML of ours.
pub(super) fn html(text: &str) -> String {
    let text = safe::one_line(text);
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn longest_run(text: &str) -> usize {
    let runs = text.split(|it| it != '`').map(str::len);
    runs.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use pulldown_cmark::TagEnd;

    use super::*;

    /// The document that a quote stands in, and what a reader makes of it.
    #[track_caller]
    fn check(text: &str) -> Result<(), TestCaseError> {
        let document = format!("# ours\n\n{}\n\n## ours\n\nend\n", quoted(text));
        for options in [Options::empty(), Options::all()] {
            let (mut depth, mut headings, mut html, mut pictures) = (0, 0, 0, 0);
            for event in Parser::new_ext(&document, options) {
                let inside = |it: &Tag<'_>| matches!(it, Tag::BlockQuote(_) | Tag::CodeBlock(_));
                if let Event::Start(tag) = &event {
                    depth += i32::from(inside(tag));
                    headings += i32::from(depth == 0 && matches!(tag, Tag::Heading { .. }));
                    pictures += i32::from(matches!(tag, Tag::Image { .. }));
                } else if let Event::End(TagEnd::BlockQuote(_) | TagEnd::CodeBlock) = event {
                    depth -= 1;
                } else if let Event::Html(_) | Event::InlineHtml(_) = event {
                    html += 1;
                }
            }
            // Metadata blocks and the like are kinds of text that no reader has unasked.
            if options.is_empty() {
                prop_assert_eq!((2, 0, 0), (headings, html, pictures), "{}", document);
            }
        }
        prop_assert!(
            document
                .chars()
                .all(|it| it == '\n' || it == '\t' || !it.is_control())
        );
        Ok(())
    }

    #[test]
    fn hostile_text_stays_in_its_quote() {
        for text in [
            "",
            "</details></blockquote><script>alert(1)</script>",
            "```\nopen\n## not ours",
            "~~~~\nopen",
            "- ```\n<b>x</b>",
            "\t<i>tab</i>\n\n\t<i>tab</i>",
            "a `b\n<c> ` d `<e>`",
            "\\`<b>\\`",
            "![x](http://evil/?q) [![y](z)](w)",
            "<!-- \n\n```\n<b>\n```\n-->",
            "<https://a.b>",
            "Vec<T> and `Vec<T>`",
            "# mine\n***\n| a | `b|<c>` |\n|---|---|\n| `x|<d>` | y |",
            "\u{1b}[2J\u{202e}x",
            "> > > <a>",
        ] {
            check(text).unwrap();
        }
        assert_eq!("> Vec&lt;T> and `Vec<T>`\n", quoted("Vec<T> and `Vec<T>`"));
        assert_eq!("> a\n>\n> \\![x](y)\n", quoted("a\n\n![x](y)"));
    }

    #[test]
    fn a_fence_is_longer_than_what_is_in_it() {
        assert_eq!("```text\na\n```\n", fenced("text", "a"));
        assert_eq!("`````text\n````\nx\n`````\n", fenced("text", "````\nx"));
        assert_eq!("```json\n```\n", fenced("json", ""));
        assert_eq!("`a`", code("a"));
        assert_eq!("`` `a`` ``", code("`a``").replace("```", "``"));
        assert_eq!("\\# \\*a\\* &lt;b\\> &amp;amp;", plain("# *a* <b> &amp;"));
        assert_eq!("&lt;/summary&gt;", html("</summary>"));
    }

    proptest! {
        #[test]
        fn no_text_breaks_out(text in "[<>/a`~!\\[\\]()\\-#|&;= \t\n\\\\'\"]{0,60}") {
            check(&text)?;
        }
    }
}
