//! `ask --code` and `ask --cmd`: parts of a finished answer.

use aish_proto::event::CalledTool;
use serde_json::Value;

use crate::safe;

/// The content of all fenced code blocks, each ending in a line feed; an open fence ends with the text.
pub fn code(text: &str) -> String {
    blocks(text).concat()
}

/// That of the last one.
pub fn last_code(text: &str) -> Option<String> {
    blocks(text).pop()
}

fn blocks(text: &str) -> Vec<String> {
    let mut found: Vec<String> = vec![];
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let start = line.trim_start();
        match fence {
            None => {
                fence = opening(start);
                if fence.is_some() {
                    found.push(String::new());
                }
            }
            Some(mark)
                if start.starts_with(mark)
                    && start.trim_end().chars().all(|it| mark.starts_with(it)) =>
            {
                fence = None;
            }
            Some(_) => {
                if let Some(block) = found.last_mut() {
                    block.push_str(line);
                    block.push('\n');
                }
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

/// The tool by which a model proposes a command, where it takes tools.
pub const SHELL_TOOL: &str = "shell__run";

/// The commands that a model proposed by calls, each as it is and ended by a line feed.
pub fn called_commands(calls: &[CalledTool]) -> String {
    let proposals = calls.iter().filter(|it| it.name == SHELL_TOOL);
    let commands = proposals.filter_map(|call| {
        let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
        let command = arguments.get("command")?.as_str()?.trim().to_owned();
        (!command.is_empty()).then(|| command + "\n")
    });
    commands.collect()
}

/// The longest command that is put on a line, in bytes.
const LINE_BYTES: usize = 4096;

/// The one line of code of an answer, as it may stand on a command line: none if there are more, or if it has a character
/// that is not plainly visible.
pub fn line(answer: &str) -> Option<String> {
    let code = code(answer);
    let mut lines = code.lines().map(str::trim).filter(|it| !it.is_empty());
    let (Some(only), None) = (lines.next(), lines.next()) else {
        return None;
    };
    // A prompt before it is no part of it; nothing behind one is no command.
    let only = match only.strip_prefix('$') {
        Some(rest) if rest.is_empty() || rest.starts_with(' ') => rest.trim_start(),
        Some(_) | None => only,
    };
    let plain = !only.is_empty() && only.len() <= LINE_BYTES && safe::visible(only) == only;
    plain.then(|| format!("{only}\n"))
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

    #[test]
    fn calls_of_the_shell_are_commands_too() {
        let call = |name: &str, arguments: &str| CalledTool {
            id: String::new(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        };
        let calls = [
            call(SHELL_TOOL, "{\"command\": \"date\\nuptime\\n\"}"),
            call("files__read", "{\"command\": \"no\"}"),
            call(SHELL_TOOL, "{}"),
            call(SHELL_TOOL, "{\"command\": \"ls\", \"why\": \"to see\"}"),
        ];
        assert_eq!("date\nuptime\nls\n", called_commands(&calls));
    }

    #[track_caller]
    fn check_line(answer: &str, expected: Option<&str>) {
        assert_eq!(expected.map(|it| format!("{it}\n")), line(answer));
    }

    #[test]
    fn one_visible_line_of_code_is_a_proposal() {
        check_line("```sh\nls -la\n```", Some("ls -la"));
        check_line(
            "Here:\n```\n$ ls -la | wc -l\n\n```\ndone",
            Some("ls -la | wc -l"),
        );
        check_line("~~~\necho 'größe 日本'\n~~~", Some("echo 'größe 日本'"));
        for answer in [
            "ls -la",
            "CMD: ls",
            "",
            "```\n```",
            "```\n$ \n```",
            "```\nls\nrm -rf x\n```",
            "```\nls\n```\n```\nrm\n```",
            "```\nls\u{1b}[2J\n```",
            "```\nls\rrm\n```",
            "```\nls\u{202e}x\n```",
            "```\nls\u{200b}x\n```",
            "```\nls\tx\n```",
            "```\nls\u{85}rm\n```",
            "```\nls\u{2028}rm\n```",
            "```\nls\u{0}x\n```",
        ] {
            check_line(answer, None);
        }
        check_line(&format!("```\n{}\n```", "x".repeat(LINE_BYTES + 1)), None);
    }
}
