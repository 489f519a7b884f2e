//! Characters with which a text can look like another.

/// Whether there is one that is not plainly seen: control and format characters, spaces that are no space, fillers,
/// selectors, tags, private and unassigned ones.
pub(super) fn hidden(text: &str) -> bool {
    !text
        .chars()
        .all(|it| matches!(it, '\n' | '\t') || is_seen(it))
}

/// Printable ASCII, letters and digits of all scripts, and the common signs.
fn is_seen(it: char) -> bool {
    let is_filler = matches!(
        u32::from(it),
        0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x3164 | 0xFFA0 | 0x34F
    );
    let is_sign = matches!(u32::from(it),
        0x20..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF | 0x300..=0x36F | 0x2010..=0x2027 | 0x2030..=0x205E | 0x20A0..=0x20C0
        | 0x2100..=0x23FF | 0x2500..=0x27BF | 0x3001..=0x3020 | 0x1F300..=0x1F64F | 0x1F680..=0x1F6FF | 0x1F900..=0x1F9FF);
    !is_filler && (it.is_alphanumeric() || is_sign)
}

/// Whether a word mixes Latin letters with such of scripts that look like them, or has a dash, a slash or another sign of
/// the shell that is none.
pub(super) fn alike(text: &str) -> bool {
    let word = |it: char| it.is_alphanumeric() || it == '_' || it == '-';
    let mixed = text
        .split(|it| !word(it))
        .any(|it| it.contains(|it: char| it.is_ascii_alphabetic()) && it.contains(is_latin_alike));
    let mut before = ' ';
    let dashed = text.chars().any(|it| {
        let begins = before.is_whitespace() && is_dash(it);
        before = it;
        begins
    });
    // A dash between spaces is prose; one at the start of a word wants to be an option.
    let options = text.split_whitespace().any(|it| {
        let mut signs = it.chars();
        signs.next().is_some_and(is_dash) && signs.next().is_some()
    });
    mixed || (dashed && options) || text.contains(is_sign_alike)
}

fn is_dash(it: char) -> bool {
    matches!(
        it,
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}'
    )
}

/// Cyrillic, Greek, Armenian, Cherokee, full width and mathematical letters.
fn is_latin_alike(it: char) -> bool {
    it.is_alphanumeric()
        && matches!(u32::from(it),
            0x370..=0x3FF | 0x400..=0x52F | 0x530..=0x58F | 0x13A0..=0x13FF | 0xAB70..=0xABBF
            | 0x1E00..=0x1EFF | 0x2C60..=0x2C7F | 0xA640..=0xA69F | 0xFF10..=0xFF5A | 0x1D400..=0x1D7FF | 0x250..=0x2AF)
}

/// Signs that look like those of the shell.
fn is_sign_alike(it: char) -> bool {
    matches!(u32::from(it),
        0xFF01..=0xFF0F | 0xFF1A..=0xFF20 | 0xFF3B..=0xFF40 | 0xFF5B..=0xFF60 | 0x2044 | 0x2215 | 0x29F8 | 0x2024 | 0x37E
        | 0x2223 | 0x2236)
}
