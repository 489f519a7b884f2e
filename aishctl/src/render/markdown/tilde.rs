//! One tilde means "about" or "home" in what people and models write, but the parser makes a marker of it, which
//! may strike a text or close what stands between. So the parser gets another mark in its place.

/// Marks that are punctuation for the parser as a tilde is, and hardly ever written.
const MARKS: [char; 4] = ['\u{2053}', '\u{2e1b}', '\u{2e1e}', '\u{2e1f}'];

/// What stands for a lone tilde.
#[derive(Clone, Copy, Debug)]
pub(super) struct TildeStandIn(Option<char>);

impl TildeStandIn {
    /// A mark that this text has not; without one the tilde stands for itself.
    pub(super) fn not_in(text: &str) -> Self {
        let lone = text.contains('~');
        Self(MARKS.into_iter().find(|it| lone && !text.contains(*it)))
    }

    /// The text without lone tildes. One that a backslash escapes is none of a pair.
    pub(super) fn hide(self, text: &str) -> String {
        let Some(mark) = self.0 else {
            return text.to_owned();
        };
        let mut hidden = String::with_capacity(text.len());
        let mut rest = text.chars().peekable();
        let mut escaped = false;
        while let Some(it) = rest.next() {
            if it != '~' || escaped {
                escaped = it == '\\' && !escaped;
                hidden.push(it);
                continue;
            }
            let mut run = 1;
            while rest.next_if_eq(&'~').is_some() {
                run += 1;
            }
            match run {
                1 => hidden.push(mark),
                _ => hidden.extend(std::iter::repeat_n('~', run)),
            }
        }
        hidden
    }

    /// What [`Self::hide`] has hidden is a tilde again.
    pub(super) fn show(self, text: &str) -> String {
        match self.0 {
            Some(mark) => text.replace(mark, "~"),
            None => text.to_owned(),
        }
    }
}
