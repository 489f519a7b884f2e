//! What joins a person's shell with aish: `init` prints a script for it, and `propose` is what that script
//! calls to make a command of what was typed. Neither runs anything that a model said.

use std::io::Read;

use clap::{Args, ValueEnum};

use crate::ask_args::AskArgs;
use crate::exit::Exit;
use crate::failure::Failure;

/// More than a line of text is no request for one command, in bytes.
const REQUEST_BYTES: u64 = 16 * 1024;
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShellCommand {
    Bash,
    Zsh,
    Fish,
}

impl ShellCommand {
    /// The script for `eval "$(aishctl init SHELL)"`: keys, questions and completion. It may be read twice.
    /// With `ring` the shell goes on in a recorder first.
    pub fn script(self, ring: bool) -> String {
        let (recorder, keys) = match self {
            Self::Bash => (
                include_str!("shell/ring.bash"),
                include_str!("shell/bash.sh"),
            ),
            Self::Zsh => (
                include_str!("shell/ring.zsh"),
                include_str!("shell/zsh.zsh"),
            ),
            Self::Fish => (
                include_str!("shell/ring.fish"),
                include_str!("shell/fish.fish"),
            ),
        };
        let recorder = if ring { recorder } else { "" };
        format!("{recorder}{keys}\n{}", self.completion())
    }

    /// The script of completion alone, also as a file where the shell looks for one.
    pub fn completion(self) -> &'static str {
        match self {
            Self::Bash => include_str!("../completion/bash.sh"),
            Self::Zsh => include_str!("../completion/zsh.zsh"),
            Self::Fish => include_str!("../completion/fish.fish"),
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

#[cfg(test)]
mod tests {
    use super::*;

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
