//! Code fences of Markdown, so that what stands in an example is not taken for a word of the model.

/// Reads lines one after another and knows which of them stand outside.
#[derive(Debug, Default)]
pub struct Fences {
    /// The sign of the open fence and how many of it there are.
    open: Option<(char, usize)>,
}

impl Fences {
    /// Whether this line stands outside of every fence; the fence's own lines do not.
    pub fn is_outside(&mut self, line: &str) -> bool {
        let marker = marker(line);
        match (self.open, marker) {
            (None, Some((sign, count, info))) => {
                // A sign of its own kind behind it makes it a line of code in a text.
                if sign == '`' && info.contains('`') {
                    return true;
                }
                self.open = Some((sign, count));
                false
            }
            (None, None) => true,
            (Some((sign, count)), Some((closes, times, rest))) => {
                if sign == closes && times >= count && rest.trim().is_empty() {
                    self.open = None;
                }
                false
            }
            (Some(_), None) => false,
        }
    }
}

/// The sign of a fence, how often it stands there, and what follows.
fn marker(line: &str) -> Option<(char, usize, &str)> {
    let text = line.trim_start_matches(' ');
    let sign = text.chars().next().filter(|it| matches!(it, '`' | '~'))?;
    let rest = text.trim_start_matches(sign);
    let count = text.len() - rest.len();
    (line.len() - text.len() <= 3 && count >= 3).then_some((sign, count, rest))
}
