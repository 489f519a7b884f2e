//! What joins a person's shell with aish: `init` prints a script for it, and `propose` is what that script
//! calls to make a command of what was typed. Neither runs anything that a model said.

use std::io::Read;

use clap::{Args, ValueEnum};

use crate::args::AskArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{extract, safe};

/// More than a line of text is no request for one command, in bytes.
const REQUEST_BYTES: u64 = 16 * 1024;
/// The longest command that is put on a line, in bytes.
const LINE_BYTES: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShellCommand {
    Bash,
    Zsh,
    Fish,
}

impl ShellCommand {
    /// The script for `eval "$(aishctl init SHELL)"`. It may be read twice.
    pub fn script(self) -> &'static str {
        match self {
            Self::Bash => include_str!("shell/bash.sh"),
            Self::Zsh => include_str!("shell/zsh.zsh"),
            Self::Fish => include_str!("shell/fish.fish"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }
}

#[derive(Args, Clone, Debug)]
pub struct ProposeArgs {
    /// The shell that the command is for
    #[arg(long, value_enum, default_value = "bash")]
    pub shell: ShellCommand,
}

impl ProposeArgs {
    /// The question for what stands on stdin. The answer is asked for as code, so that no line of it is one that the
    /// daemon would ask to run; what a tool wants of a person is denied.
    pub fn ask_args(&self, stdin: &mut dyn Read) -> Result<AskArgs, Failure> {
        let mut request = vec![];
        stdin
            .take(REQUEST_BYTES + 1)
            .read_to_end(&mut request)
            .map_err(|error| Failure::new(Exit::FAILED, format!("cannot read stdin: {error}")))?;
        if request.len() as u64 > REQUEST_BYTES {
            return Err(Failure::new(Exit::USAGE, "that is too long for a request"));
        }
        let request = String::from_utf8_lossy(&request);
        let request = request.trim();
        if request.is_empty() {
            return Err(Failure::new(Exit::USAGE, "nothing was asked for")
                .hint("write what the command is to do on stdin"));
        }
        let shell = self.shell.name();
        let question = format!(
            "Write one command for {shell} that does what is described below. Answer with one fenced code block that \
             holds this command on one line, and with nothing else.\n\n{request}"
        );
        Ok(AskArgs {
            text: vec![question],
            no_stdin: true,
            as_it_stands: true,
            confirm: vec!["deny".to_owned()],
            ..AskArgs::default()
        })
    }
}

/// The one line of code of an answer, as it may stand on a command line: none if there are more, or if it has a character
/// that is not plainly visible.
pub fn line(answer: &str) -> Option<String> {
    let code = extract::code(answer);
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
    fn check(answer: &str, expected: Option<&str>) {
        assert_eq!(expected.map(|it| format!("{it}\n")), line(answer));
    }

    #[test]
    fn one_visible_line_of_code_is_a_proposal() {
        check("```sh\nls -la\n```", Some("ls -la"));
        check(
            "Here:\n```\n$ ls -la | wc -l\n\n```\ndone",
            Some("ls -la | wc -l"),
        );
        check("~~~\necho 'größe 日本'\n~~~", Some("echo 'größe 日本'"));
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
            check(answer, None);
        }
        check(&format!("```\n{}\n```", "x".repeat(LINE_BYTES + 1)), None);
    }

    #[test]
    fn a_request_goes_into_the_question_as_it_is() {
        let shell = ProposeArgs {
            shell: ShellCommand::Fish,
        };
        let text = "count `lines`; $(rm x)\n";
        let asked = shell.ask_args(&mut text.as_bytes()).unwrap();
        assert!(asked.text[0].ends_with("\n\ncount `lines`; $(rm x)"));
        assert!(asked.text[0].contains("for fish"));
        assert_eq!(
            (vec!["deny".to_owned()], true),
            (asked.confirm, asked.no_stdin)
        );
        for text in ["", " \n", &"x".repeat(20_000)] {
            assert!(shell.ask_args(&mut text.as_bytes()).is_err());
        }
    }
}
