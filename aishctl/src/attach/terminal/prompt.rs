//! What stands before the line being typed: `proj · deep ● `.

use unicode_width::UnicodeWidthChar as _;

use super::layout::columns_of;
use crate::attach::look::PromptGlyphs;
use crate::attach::ui::{PromptHead, PromptState};
use crate::safe;

/// The glyph with a space on each side.
const GLYPH_COLUMNS: usize = 3;
/// The widest prompt; a long name is cut.
const COLUMNS: usize = 40;

/// How many columns the prompt takes on a terminal of this width.
pub(super) fn width(head: &PromptHead, glyphs: PromptGlyphs, columns: usize) -> usize {
    let most = COLUMNS.min(columns / 2).max(GLYPH_COLUMNS + 1);
    (columns_of(&name(head, glyphs)) + GLYPH_COLUMNS).min(most)
}

/// The prompt in exactly that many columns.
pub(super) fn text(head: &PromptHead, glyphs: PromptGlyphs, width: usize, color: bool) -> String {
    let room = width.saturating_sub(GLYPH_COLUMNS);
    let mut shown = name(head, glyphs);
    if columns_of(&shown) > room {
        let mut left = room.saturating_sub(1);
        let fits = shown.chars().take_while(|it| {
            let columns = it.width().unwrap_or(0);
            let fits = columns <= left;
            left = left.saturating_sub(columns);
            fits
        });
        shown = fits.chain((room > 0).then_some(glyphs.cut())).collect();
    }
    let pad = " ".repeat(room.saturating_sub(columns_of(&shown)));
    let (glyph, style) = glyph(head.state, glyphs);
    if color {
        format!("{shown}{pad} {style}{glyph}\u{1b}[0m ")
    } else {
        format!("{shown}{pad} {glyph} ")
    }
}

/// What the editor asks while it searches, and how many columns that takes: ``(reverse-i-search)`fo': `` where it leaves
/// half of the row to what is found, else `/fo: `, and `no fo: ` where nothing is.
pub(super) fn search(asked: &str, glyphs: PromptGlyphs, columns: usize) -> (String, usize) {
    let asked = safe::one_line(asked);
    let most = (columns / 2).max(GLYPH_COLUMNS + 1);
    let said = asked
        .split_once('`')
        .and_then(|(how, rest)| Some((how, rest.rsplit_once('\'')?.0)));
    let shown = match said {
        Some((how, sought)) if columns_of(&asked) > most => {
            let begin = if how.contains("failed") { "no " } else { "/" };
            let room = most.saturating_sub(begin.len() + 2);
            format!("{begin}{}: ", ending(sought, glyphs, room))
        }
        Some(_) | None => asked,
    };
    let taken = columns_of(&shown);
    (shown, taken)
}

/// The end of a text in so many columns.
fn ending(text: &str, glyphs: PromptGlyphs, room: usize) -> String {
    if columns_of(text) <= room {
        return text.to_owned();
    }
    let mut left = room.saturating_sub(1);
    let fits = text.chars().rev().take_while(|it| {
        let columns = it.width().unwrap_or(0);
        let fits = columns <= left;
        left = left.saturating_sub(columns);
        fits
    });
    let fits: Vec<char> = fits.collect();
    let cut = (room > 0).then_some(glyphs.cut());
    cut.into_iter().chain(fits.into_iter().rev()).collect()
}

fn name(head: &PromptHead, glyphs: PromptGlyphs) -> String {
    let between = match glyphs {
        PromptGlyphs::Unicode => " · ",
        PromptGlyphs::Plain => ", ",
    };
    let conversation = safe::one_line(&head.conversation);
    match head.model.as_deref().map(safe::one_line) {
        Some(model) => conversation + between + &model,
        None => conversation,
    }
}

fn glyph(state: PromptState, glyphs: PromptGlyphs) -> (char, &'static str) {
    let (unicode, plain, style) = match state {
        PromptState::Idle => ('○', '-', "\u{1b}[2m"),
        PromptState::Running => ('●', '*', "\u{1b}[32m"),
        PromptState::Waiting => ('?', '?', "\u{1b}[1;33m"),
        PromptState::Problem => ('!', '!', "\u{1b}[1;31m"),
    };
    match glyphs {
        PromptGlyphs::Unicode => (unicode, style),
        PromptGlyphs::Plain => (plain, style),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(conversation: &str, model: Option<&str>, width: usize, expected: &str) {
        let head = PromptHead {
            conversation: conversation.to_owned(),
            model: model.map(str::to_owned),
            state: PromptState::Running,
        };
        let shown = text(&head, PromptGlyphs::Unicode, width, false);
        assert_eq!(expected, shown);
        assert_eq!(width, columns_of(&shown));
    }

    #[test]
    fn it_says_where_one_is_in_the_width_that_it_has() {
        check("proj", Some("deep"), 14, "proj · deep ● ");
        check("proj", Some("fast-one"), 14, "proj · fas… ● ");
        check("proj", Some("a"), 14, "proj · a    ● ");
        check("proj", None, 7, "proj ● ");
        check("日本語", Some("m"), 8, "日本… ● ");
        check("日本語", Some("m"), 7, "日…  ● ");
        check("a\u{1b}[2J\nb", None, 10, "a[2J b  ● ");
    }

    #[test]
    fn plain_glyphs_are_ascii_and_of_the_same_width() {
        for (state, glyph) in [
            (PromptState::Idle, '-'),
            (PromptState::Running, '*'),
            (PromptState::Waiting, '?'),
            (PromptState::Problem, '!'),
        ] {
            let head = PromptHead {
                conversation: "proj".into(),
                model: Some("deep".into()),
                state,
            };
            let columns = width(&head, PromptGlyphs::Plain, 80);
            assert_eq!(
                format!("proj, deep {glyph} "),
                text(&head, PromptGlyphs::Plain, columns, false)
            );
        }
    }

    #[test]
    fn a_search_leaves_room_for_what_it_finds() {
        let check = |asked: &str, columns: usize, expected: &str| {
            let (shown, taken) = search(asked, PromptGlyphs::Unicode, columns);
            assert_eq!(
                (expected, columns_of(expected)),
                (&*shown, taken),
                "{asked}"
            );
        };
        let found = "(reverse-i-search)`fo': ";
        check(found, 80, found);
        check(found, 30, "/fo: ");
        check(found, 20, "/fo: ");
        check(found, 4, "/…: ");
        check("(failed reverse-i-search)`it's': ", 20, "no it's: ");
        check("(failed reverse-i-search)`cargo test': ", 20, "no …test: ");
        check("(reverse-i-search)`日本語日本': ", 20, "/…語日本: ");
        check("(reverse-i-search)`': ", 20, "/: ");
        check("(arg: 3) ", 4, "(arg: 3) ");
    }

    #[test]
    fn it_leaves_half_of_the_row_to_the_line() {
        let head = PromptHead {
            conversation: "a long name of a conversation".into(),
            model: None,
            state: PromptState::Idle,
        };
        assert_eq!(10, width(&head, PromptGlyphs::Unicode, 20));
        assert_eq!(32, width(&head, PromptGlyphs::Unicode, 80));
        assert_eq!(4, width(&head, PromptGlyphs::Unicode, 3));
    }
}
