//! What a conversation is called that nobody gave a title.

/// Longest title that is taken from a first message.
const TITLE_FROM_TEXT_CHARS: usize = 60;

/// The first words of a first message.
pub(super) fn from_question(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|it| !it.is_empty())?;
    let words: String = line
        .chars()
        .map(|it| if it.is_control() { ' ' } else { it })
        .collect();
    if words.chars().count() <= TITLE_FROM_TEXT_CHARS {
        return Some(words);
    }
    let cut: String = words.chars().take(TITLE_FROM_TEXT_CHARS - 1).collect();
    Some(format!("{}…", cut.trim_end()))
}
