//! `ask --code` and `ask --cmd`: parts of a finished answer.

/// The content of all fenced code blocks, each ending in a line feed; an open fence ends with the text.
pub fn code(text: &str) -> String {
    let mut found = String::new();
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let start = line.trim_start();
        match fence {
            None => fence = opening(start),
            Some(mark)
                if start.starts_with(mark)
                    && start.trim_end().chars().all(|it| mark.starts_with(it)) =>
            {
                fence = None;
            }
            Some(_) => {
                found.push_str(line);
                found.push('\n');
            }
        }
    }
    found
}

/// The fence that a line opens: three or more backticks or tildes.
fn opening(line: &str) -> Option<&str> {
    let mark = line.chars().next().filter(|it| matches!(it, '`' | '~'))?;
    let length = line.chars().take_while(|it| *it == mark).count();
    let info = line.get(length..)?;
    (length >= 3 && !(mark == '`' && info.contains('`')))
        .then(|| line.get(..length))
        .flatten()
}

/// The commands of all `CMD:` lines outside fenced code, one a line.
pub fn commands(text: &str) -> String {
    let commands = aish_proto::proposed::commands(text).commands;
    commands.iter().map(|it| format!("{it}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected_code: &str, expected_commands: &str) {
        assert_eq!(expected_code, code(text));
        assert_eq!(expected_commands, commands(text));
    }

    #[test]
    fn code_is_what_stands_in_fences_and_commands_what_stands_outside() {
        check("no code", "", "");
        check(
            "a\n```rust\nfn x() {}\n\n```\nb\n~~~\nq\n~~~",
            "fn x() {}\n\nq\n",
            "",
        );
        check("````\n```\ninner\n```\n````", "```\ninner\n```\n", "");
        check("```\nopen", "open\n", "");
        check(
            "CMD: ls -S | head\ntext CMD: no\n```\nCMD: not this\n```\nCMD:\nCMD:date",
            "CMD: not this\n",
            "ls -S | head\ndate\n",
        );
        check("`one` ```two``` three", "", "");
    }
}
