//! What `#?` in a person's shell asks: the question, with the last command, where it ran, its status, and the end of what it printed
//! where a recorder keeps that.

use std::io::Read;

use crate::ask_args::AskArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::recorder::kept_output::{KeptOutput, RecorderAddress};
use crate::safe;

/// More than a line and its command have, in bytes.
const INPUT_BYTES: u64 = 256 * 1024;
/// What is shown of a command, in characters.
const SHOWN: usize = 60;
/// The name that it has beside the question.
const NAME: &str = "the last command in this shell";

/// What the shell's script says on stdin, each of them ended by a zero byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellQuestion {
    question: String,
    command: String,
    directory: String,
    status: String,
    output: OutputSource,
}

/// Where the output of the last command is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum OutputSource {
    /// The script was made without `--ring`.
    #[default]
    NotWanted,
    /// It was made with it, but this shell has no recorder.
    NotRecorded,
    Recorder(RecorderAddress, u64),
}

/// What is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LastOutput {
    Kept(KeptOutput),
    Missing(&'static str),
}

impl ShellQuestion {
    pub fn read(stdin: &mut dyn Read) -> Result<Self, Failure> {
        let mut input = vec![];
        stdin
            .take(INPUT_BYTES + 1)
            .read_to_end(&mut input)
            .map_err(|error| Failure::new(Exit::FAILED, format!("cannot read stdin: {error}")))?;
        if input.len() as u64 > INPUT_BYTES {
            return Err(Failure::new(Exit::USAGE, "that is too long for a question"));
        }
        let input = String::from_utf8_lossy(&input);
        let fields: Vec<&str> = input.split('\0').collect();
        let [question, command, directory, status, recorder, ""] = fields[..] else {
            return Err(
                Failure::new(Exit::USAGE, "that is not what the script of a shell says")
                    .hint("open a new shell: the script of this one is of another version"),
            );
        };
        let question = question.trim();
        if question.is_empty() {
            return Err(Failure::new(Exit::USAGE, "nothing to ask").hint("#? why did that fail"));
        }
        let output = match recorder {
            "" => OutputSource::NotWanted,
            _ => recorder
                .rsplit_once(':')
                .and_then(|(address, prompt)| {
                    let address = address.parse().ok()?;
                    Some(OutputSource::Recorder(address, prompt.parse().ok()?))
                })
                .unwrap_or(OutputSource::NotRecorded),
        };
        Ok(Self {
            question: question.to_owned(),
            command: command.trim().to_owned(),
            directory: directory.to_owned(),
            status: status.to_owned(),
            output,
        })
    }

    /// The question as it is asked, and the row that says what goes along.
    pub async fn ask_args(&self) -> (AskArgs, Option<String>) {
        let mut asked = AskArgs {
            text: vec![self.question.clone()],
            no_stdin: true,
            as_it_stands: true,
            ..AskArgs::default()
        };
        if self.directory.is_empty() {
            // No command has run in this shell.
            return (asked, None);
        }
        let output = self.last_output().await;
        asked.attached = vec![(NAME.to_owned(), self.context(&output))];
        (asked, Some(self.row(&output)))
    }

    async fn last_output(&self) -> LastOutput {
        match &self.output {
            OutputSource::NotWanted => {
                LastOutput::Missing("no output; aishctl init SHELL --ring keeps it")
            }
            OutputSource::NotRecorded => {
                LastOutput::Missing("no output; this shell is not recorded")
            }
            OutputSource::Recorder(address, prompt) => match address.ask(*prompt).await {
                Ok(Some(kept)) => LastOutput::Kept(kept),
                Ok(None) | Err(_) => LastOutput::Missing("no output; its recorder has none"),
            },
        }
    }

    fn context(&self, output: &LastOutput) -> String {
        let command = if self.command.is_empty() {
            "(not known: the history does not keep it)".to_owned()
        } else {
            safe::screen(&self.command)
        };
        let directory = safe::one_line(&self.directory);
        let status = safe::one_line(&self.status);
        let about = format!("command: {command}\ndirectory: {directory}\nexit status: {status}\n");
        match output {
            LastOutput::Missing(_) => format!("{about}output: not recorded\n"),
            LastOutput::Kept(kept) if kept.kept == 0 => format!("{about}output: none\n"),
            LastOutput::Kept(kept) => {
                let text = safe::screen(&kept.text);
                let rows = rows(kept);
                format!("{about}output, {rows}:\n{text}\n")
            }
        }
    }

    fn row(&self, output: &LastOutput) -> String {
        let first = self.command.lines().next().unwrap_or_default();
        let mut command: String = first.chars().take(SHOWN).collect();
        if command.len() < self.command.len() {
            command.push('…');
        }
        if command.is_empty() {
            command.push_str("a command that the history does not keep");
        }
        let (directory, status) = (&self.directory, &self.status);
        let output = match output {
            LastOutput::Missing(why) => (*why).to_owned(),
            LastOutput::Kept(kept) if kept.kept == 0 => "it printed nothing".to_owned(),
            LastOutput::Kept(kept) => rows(kept),
        };
        safe::one_line(&format!(
            "with: {command} · {directory} · status {status} · {output}"
        ))
    }
}

fn rows(kept: &KeptOutput) -> String {
    let (rows, all) = (kept.kept, kept.all);
    let unit = if rows == 1 { "row" } else { "rows" };
    if rows < all {
        format!("the last {rows} {unit} of {all}")
    } else {
        format!("{rows} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: &str, kept: Option<KeptOutput>, row: &str, context: &str) {
        let question = ShellQuestion::read(&mut input.as_bytes()).unwrap();
        let output = kept.map_or(LastOutput::Missing("no output"), LastOutput::Kept);
        assert_eq!(row, question.row(&output));
        assert_eq!(context, question.context(&output));
    }

    fn kept(text: &str, all: usize) -> KeptOutput {
        KeptOutput {
            text: text.to_owned(),
            kept: text.lines().count(),
            all,
        }
    }

    #[test]
    fn a_row_and_a_block_say_what_goes_along() {
        let input = " why \0cargo test\0/x\u{0}101\0\0";
        check(
            input,
            Some(kept("a\nb", 9)),
            "with: cargo test · /x · status 101 · the last 2 rows of 9",
            "command: cargo test\ndirectory: /x\nexit status: 101\noutput, the last 2 rows of 9:\na\nb\n",
        );
        check(
            input,
            Some(kept("a\u{1b}", 1)),
            "with: cargo test · /x · status 101 · 1 row",
            "command: cargo test\ndirectory: /x\nexit status: 101\noutput, 1 row:\na\n",
        );
        check(
            input,
            Some(kept("", 0)),
            "with: cargo test · /x · status 101 · it printed nothing",
            "command: cargo test\ndirectory: /x\nexit status: 101\noutput: none\n",
        );
        let long = format!("why\0{}\nand more\0/x\u{0}1\0none\0", "x".repeat(80));
        check(
            &long,
            None,
            &format!("with: {}… · /x · status 1 · no output", "x".repeat(60)),
            &format!(
                "command: {}\nand more\ndirectory: /x\nexit status: 1\noutput: not recorded\n",
                "x".repeat(80)
            ),
        );
    }

    #[test]
    fn what_no_script_says_is_refused() {
        for input in [
            "",
            "why",
            "why\0a\0b\0c\0d",
            " \0a\0b\0c\0d\0",
            "why\0a\0b\0c\0d\0e\0",
        ] {
            assert!(
                ShellQuestion::read(&mut input.as_bytes()).is_err(),
                "{input:?}"
            );
        }
        let recorded = "why\0a\0b\0c\0name:word:12\0";
        let recorded = ShellQuestion::read(&mut recorded.as_bytes()).unwrap();
        let address = "name:word".parse().unwrap();
        assert_eq!(OutputSource::Recorder(address, 12), recorded.output);
    }
}
