//! What a text may be like so that it is given to the parser at all. The parser descends into what is nested and tries
//! alternatives, so that depth costs stack and time; this is what keeps both small.

use super::Dialect;

/// The longest text that is read, in bytes. Longer ones are for people.
pub const MAX_BYTES: usize = 16 * 1024;
/// How many signs and words that open something may be in a text, nested or not. Quotes are not looked at, so that no
/// trick with them makes a text deeper than it seems.
pub const MAX_OPENERS: usize = 32;
/// The parser reads what is between backticks once for each level around them.
const MAX_BACKTICKS: usize = 4;
/// How many signs of arithmetic, where there is any: the parser descends with each.
const MAX_OPERATORS: usize = 128;
/// How many signs that join commands: the parser's lists are as deep as they are long.
const MAX_JOINS: usize = 2 * MAX_SEGMENTS;
/// How many segments a text may have, all levels together.
pub const MAX_SEGMENTS: usize = 256;

/// Words that open a construct, where the shell takes them for one.
const OPENING_WORDS: [&str; 11] = [
    "if", "elif", "while", "until", "for", "case", "select", "function", "time", "coproc", "[[",
];

/// Whether a text is of a size and depth that is read.
pub(super) fn hold(text: &str) -> bool {
    if text.len() > MAX_BYTES {
        return false;
    }
    let signs = text.matches(['(', '{', '`', '!']).count();
    let backticks = text.matches('`').count();
    let words = text
        .split(|it: char| it.is_whitespace() || ";|&(){}!".contains(it))
        .filter(|it| OPENING_WORDS.contains(it))
        .count();
    let joins = text.matches(['|', '&', ';', '\n']).count();
    let counts = text.contains("((") || text.contains('[');
    let operators = text.matches(|it| "+-*/%=<>!~^?:&|,".contains(it)).count();
    if counts && operators > MAX_OPERATORS {
        return false;
    }
    // A new line behind a backslash would join what was counted apart.
    joins <= MAX_JOINS
        && signs + words <= MAX_OPENERS
        && backticks <= MAX_BACKTICKS
        && !text.contains("\\\n")
        && !text.chars().any(is_control)
}

/// Control characters have no business in a command, and parsers differ about them.
fn is_control(it: char) -> bool {
    it.is_control() && !matches!(it, '\n' | '\t')
}

/// Whether what bash makes of a text is what the dialect makes of it, as far as the text alone tells; the tree tells more.
pub(super) fn is_same_in(text: &str, dialect: Dialect) -> bool {
    match dialect {
        Dialect::Sh | Dialect::Bash | Dialect::Zsh => true,
        // Parentheses run what is in them, wherever they stand.
        Dialect::Fish => text
            .match_indices('(')
            .all(|(at, _)| text.get(..at).is_some_and(|it| it.ends_with('$'))),
    }
}
