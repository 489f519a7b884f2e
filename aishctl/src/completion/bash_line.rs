//! A line as bash is given it: cut into words without their quotes, and what more of the last word has to look like there.

/// What was typed before the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BashLine {
    /// From the program on; the last one is empty behind a blank.
    pub(super) words: Vec<String>,
    /// The quote that is still open.
    open: Option<char>,
}

/// Reads it as the shell will, as far as that can be said before it is all there: nothing is expanded.
pub(super) fn read(line: &str) -> BashLine {
    let mut words = vec![];
    let mut word: Option<String> = None;
    let mut open = None;
    let mut rest = line.chars().peekable();
    while let Some(it) = rest.next() {
        match (open, it) {
            (Some(quote), _) if it == quote => open = None,
            (None, '\'' | '"') => {
                open = Some(it);
                word.get_or_insert_default();
            }
            (None, '\\') => {
                let escaped = rest.next().filter(|it| *it != '\n');
                word.get_or_insert_default().extend(escaped);
            }
            (Some('"'), '\\') => {
                let special = rest.next_if(|it| ['"', '\\', '$', '`'].contains(it));
                word.get_or_insert_default().push(special.unwrap_or(it));
            }
            (None, _) if it.is_whitespace() => words.extend(word.take()),
            (Some(_) | None, _) => word.get_or_insert_default().push(it),
        }
    }
    words.push(word.unwrap_or_default());
    let assignments = words.iter().take_while(|it| is_assignment(it)).count();
    words.drain(..assignments.min(words.len() - 1));
    BashLine { words, open }
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty()
        && name
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || it == '_')
}

impl BashLine {
    /// More of the last word, so that the shell reads it as it stands. An open quote is closed by bash.
    pub(super) fn quoted(&self, rest: &str) -> String {
        let mut quoted = String::new();
        for it in rest.chars() {
            match self.open {
                // Nothing but its end is special in it.
                Some('\'') if it == '\'' => quoted.push_str("'\\''"),
                Some('"') if ['"', '\\', '$', '`'].contains(&it) => quoted.extend(['\\', it]),
                None if !is_plain(it) => quoted.extend(['\\', it]),
                Some(_) | None => quoted.push(it),
            }
        }
        quoted
    }
}

fn is_plain(it: char) -> bool {
    it.is_alphanumeric() || !it.is_ascii() || "_-./:=,@%+".contains(it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, words: &[&str], more: &str) {
        let read = read(line);
        assert_eq!(words, read.words, "{line}");
        assert_eq!(more, read.quoted("it's $x"), "{line}");
    }

    #[test]
    fn a_line_is_cut_as_bash_cuts_it() {
        let bare = "it\\'s\\ \\$x";
        check("aishctl log two\\ w", &["aishctl", "log", "two w"], bare);
        check(
            "aishctl log \"two w",
            &["aishctl", "log", "two w"],
            "it's \\$x",
        );
        check(
            "aishctl log 'two w",
            &["aishctl", "log", "two w"],
            "it'\\''s $x",
        );
        check("A=1 B='2 3'  aishctl  ", &["aishctl", ""], bare);
        check("aishctl --a=\"b c\" d", &["aishctl", "--a=b c", "d"], bare);
        check("aishctl \"\\$\\n\" ''", &["aishctl", "$\\n", ""], bare);
        check("", &[""], bare);
        check("A=1", &["A=1"], bare);
    }
}
