//! A line as bash is given it: cut into words without their quotes, and what more of the last word has to look like there.

/// What was typed before the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BashLine {
    /// From the program on; the last one is empty behind a blank.
    pub(crate) words: Vec<String>,
    /// Where the last word begins in the line, its quote with it.
    pub(crate) begins: usize,
    /// The quote that is still open.
    open: Option<char>,
}

/// Reads it as the shell will, as far as that can be said before it is all there: nothing is expanded.
pub(crate) fn read(line: &str) -> BashLine {
    let mut words = vec![];
    let mut word: Option<String> = None;
    let mut open = None;
    let mut begins = line.len();
    let mut rest = line.char_indices().peekable();
    while let Some((at, it)) = rest.next() {
        if word.is_none() {
            begins = at;
        }
        match (open, it) {
            (Some(quote), _) if it == quote => open = None,
            (None, '\'' | '"') => {
                open = Some(it);
                word.get_or_insert_default();
            }
            (None, '\\') => {
                let escaped = rest.next().map(|(_, it)| it).filter(|it| *it != '\n');
                word.get_or_insert_default().extend(escaped);
            }
            (Some('"'), '\\') => {
                let special = rest.next_if(|(_, it)| ['"', '\\', '$', '`'].contains(it));
                let special = special.map_or(it, |(_, it)| it);
                word.get_or_insert_default().push(special);
            }
            (None, _) if it.is_whitespace() => words.extend(word.take()),
            (Some(_) | None, _) => word.get_or_insert_default().push(it),
        }
    }
    if word.is_none() {
        begins = line.len();
    }
    words.push(word.unwrap_or_default());
    let assignments = words.iter().take_while(|it| is_assignment(it)).count();
    words.drain(..assignments.min(words.len() - 1));
    BashLine {
        words,
        begins,
        open,
    }
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

/// Whether it stands for itself outside of quotes.
pub(crate) fn is_plain(it: char) -> bool {
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
        for (line, begins) in [("a 'b c", 2), ("a b ", 4), ("a x='b c'd", 2), ("", 0)] {
            assert_eq!(begins, read(line).begins, "{line}");
        }
    }
}
