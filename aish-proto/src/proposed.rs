//! The commands that a text proposes, by lines that begin with `CMD:`. One function for the daemon, which asks
//! about them, and for clients that print them. Whether the text may propose anything at all is not known here.

/// The longest command that is taken, in bytes.
pub const MAX_COMMAND_BYTES: usize = 8 * 1024;
/// How many commands one text may propose.
pub const MAX_COMMANDS: usize = 16;

const MARKER: &str = "CMD:";

/// What a text proposes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextProposal<'a> {
    /// In the order of the text, without the spaces around them; none is empty.
    pub commands: Vec<&'a str>,
    /// Lines that were passed over because they, or they all, were too many: [`MAX_COMMAND_BYTES`], [`MAX_COMMANDS`].
    pub left_out: usize,
}

/// The lines that begin with `CMD:` after optional spaces, outside fenced code. A command is one line. A fence that is
/// never closed goes to the end, and where it is unclear whether one is closed, it is open.
pub fn commands(text: &str) -> TextProposal<'_> {
    let mut proposed = TextProposal::default();
    for line in outside_code(text) {
        let command = line.trim_start_matches(' ').strip_prefix(MARKER);
        let Some(command) = command.map(|it| it.trim_matches([' ', '\t'])) else {
            continue;
        };
        if command.is_empty() {
            continue;
        }
        if command.len() > MAX_COMMAND_BYTES || proposed.commands.len() == MAX_COMMANDS {
            proposed.left_out += 1;
        } else {
            proposed.commands.push(command);
        }
    }
    proposed
}

/// The lines of a text that stand outside fenced code, without those of the fences.
pub fn outside_code(text: &str) -> impl Iterator<Item = &str> {
    let mut open: Option<CodeFence<'_>> = None;
    text.lines().filter(move |line| {
        if let Some(fence) = &open {
            if fence.is_closed_by(line) {
                open = None;
            }
            return false;
        }
        open = CodeFence::opened_by(line);
        open.is_none()
    })
}

/// A run of backticks or tildes that opened a block of code.
struct CodeFence<'a> {
    mark: &'a str,
    /// How many signs of a quotation stood before it.
    quoted: usize,
}

impl<'a> CodeFence<'a> {
    /// Wherever the line stands: indented, in a quotation, as the first line of an item of a list.
    fn opened_by(line: &'a str) -> Option<Self> {
        let mut rest = line.trim_start();
        let mut quoted = 0;
        while let Some(inner) = without_mark(rest) {
            quoted += usize::from(rest.starts_with('>'));
            rest = inner.trim_start();
        }
        let sign = rest.chars().next().filter(|it| matches!(it, '`' | '~'))?;
        let length = rest.len() - rest.trim_start_matches(sign).len();
        let (mark, info) = rest.split_at_checked(length)?;
        (length >= 3 && !(sign == '`' && info.contains('`'))).then_some(Self { mark, quoted })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let mut rest = line.trim_start();
        for _ in 0..self.quoted {
            let Some(inner) = rest.strip_prefix('>') else {
                return false;
            };
            rest = inner.trim_start();
        }
        let rest = rest.trim_end();
        let sign = self.mark.chars().next();
        rest.starts_with(self.mark) && rest.chars().all(|it| Some(it) == sign)
    }
}

/// The line behind one sign of a quotation or one mark of a list.
fn without_mark(line: &str) -> Option<&str> {
    if let Some(inner) = line.strip_prefix('>') {
        return Some(inner);
    }
    let inner = line.strip_prefix(['-', '*', '+']).or_else(|| {
        let number = line.trim_start_matches(|it: char| it.is_ascii_digit());
        (number.len() < line.len())
            .then(|| number.strip_prefix(['.', ')']))
            .flatten()
    })?;
    inner.starts_with([' ', '\t']).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(expected, commands(text).commands, "{text:?}");
    }

    #[test]
    fn lines_that_begin_with_the_marker_are_taken_in_order() {
        check(
            "CMD: ls -S | head\nthen\n  CMD:date\r\nCMD:\t a  b \t",
            &["ls -S | head", "date", "a  b"],
        );
        check("CMD:\nCMD:   \n", &[]);
        check("CMD: CMD: x", &["CMD: x"]);
    }

    #[test]
    fn only_the_plain_marker_at_the_start_of_a_line_counts() {
        for text in [
            "text CMD: no",
            "> CMD: no",
            "- CMD: no",
            "`CMD: no`",
            "cmd: no",
            "ＣＭＤ: no",
            "СMD: no",
            "CMD： no",
            "\u{200b}CMD: no",
            "\u{a0}CMD: no",
            "\tCMD: no",
            "CMD : no",
        ] {
            check(text, &[]);
        }
    }

    #[test]
    fn nothing_is_taken_out_of_fenced_code() {
        for fence in [
            "```", "~~~", "````", "```sh", "  ```", "    ```", "\t```", "- ```", "1. ```sh",
            "> ```", "> - ~~~", "12) ```",
        ] {
            check(&format!("{fence}\nCMD: no\nCMD: neither"), &[]);
        }
        check("```\nCMD: no\n```\nCMD: yes", &["yes"]);
        check("````\n```\nCMD: no\n````\nCMD: yes", &["yes"]);
        check("~~~\n```\nCMD: no\n~~~~  \nCMD: yes", &["yes"]);
        check("```\nCMD: no\n``` sh\nCMD: no\n  ```\nCMD: yes", &["yes"]);
        check("- ```sh\n  CMD: no\n  ```\nCMD: yes", &["yes"]);
        check("> ```\n> x\n> ```\nCMD: yes", &["yes"]);
        check("> ```\n> x\nCMD: no", &[]);
        check("```x``` is no fence\nCMD: yes", &["yes"]);
        check("``\nCMD: yes", &["yes"]);
    }

    #[test]
    fn there_are_limits_and_what_is_beyond_them_is_counted() {
        let long = format!("CMD: {}\nCMD: ok", "x".repeat(MAX_COMMAND_BYTES + 1));
        assert_eq!(
            TextProposal {
                commands: vec!["ok"],
                left_out: 1
            },
            commands(&long)
        );
        let many = "CMD: x\n".repeat(MAX_COMMANDS + 3);
        let many = commands(&many);
        assert_eq!((MAX_COMMANDS, 3), (many.commands.len(), many.left_out));
    }
}
