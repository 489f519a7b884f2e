//! The program that somebody edits with, and arguments while they are edited in it. Only a client starts one, with the
//! environment and the terminal of the person who sits there.

use std::fs::File;
use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use aish_proto::confirm::ConfirmSubject;
use serde_json::{Map, Value};
use tempfile::NamedTempFile;

use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;

const NAME_ONE: &str = "set VISUAL or EDITOR to a program that is there";

/// `ui.editor`, then `$VISUAL`, then `$EDITOR`, then vi. Taken apart into words here; no shell sees it.
pub fn program(around: &ClientEnvironment, configured: &str) -> Result<Vec<String>, Failure> {
    let names = ["VISUAL", "EDITOR"];
    let said = Some(configured).filter(|it| !it.is_empty());
    let said = said.or_else(|| names.iter().find_map(|it| around.variable(it)));
    let words = shlex::split(said.unwrap_or("vi")).unwrap_or_default();
    if words.is_empty() {
        let message = "ui.editor, VISUAL and EDITOR name no program";
        return Err(Failure::new(Exit::USAGE, message).hint(NAME_ONE));
    }
    Ok(words)
}

/// Where the program is seen and typed at.
#[derive(Debug)]
pub enum EditorPlace {
    /// Where we are ourselves.
    Ours,
    On(File),
    Between {
        keys: File,
        screen: File,
    },
}

impl EditorPlace {
    /// The terminal of this process, also where our output goes elsewhere.
    pub fn terminal() -> Self {
        let open = File::options().read(true).write(true).open("/dev/tty");
        open.map_or(Self::Ours, Self::On)
    }

    fn keys(&self) -> io::Result<Stdio> {
        match self {
            Self::Ours => Ok(Stdio::inherit()),
            Self::On(terminal) | Self::Between { keys: terminal, .. } => {
                Ok(terminal.try_clone()?.into())
            }
        }
    }

    fn screen(&self) -> io::Result<Stdio> {
        match self {
            Self::Ours => Ok(Stdio::inherit()),
            Self::On(terminal)
            | Self::Between {
                screen: terminal, ..
            } => Ok(terminal.try_clone()?.into()),
        }
    }
}

/// Starts it on a file and waits until it has ended well.
pub fn run(words: &[String], file: &std::path::Path, at: &EditorPlace) -> Result<(), Failure> {
    let Some((program, args)) = words.split_first() else {
        return Err(Failure::new(Exit::USAGE, "no editor is named").hint(NAME_ONE));
    };
    let start = || -> io::Result<_> {
        let mut command = Command::new(program);
        command.args(args).arg(file);
        command.stdin(at.keys()?).stdout(at.screen()?).status()
    };
    let status = start().map_err(|error| {
        Failure::new(Exit::FAILED, format!("cannot start {program}: {error}")).hint(NAME_ONE)
    })?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(
        Exit::FAILED,
        format!("{program} ended with {status}"),
    ))
}

/// A text in a file that nobody else can read, and that is gone with this value.
#[derive(Debug)]
pub struct TextDraft {
    file: NamedTempFile,
    words: Vec<String>,
}

impl TextDraft {
    /// In a file whose name ends like this, for the program of these words.
    pub fn new(text: &str, suffix: &str, words: Vec<String>) -> Result<Self, Failure> {
        let cannot =
            |error: io::Error| Failure::new(Exit::FAILED, format!("cannot edit it: {error}"));
        let mut file = tempfile::Builder::new()
            .prefix("aish-edit-")
            .suffix(suffix)
            .tempfile()
            .map_err(cannot)?;
        file.write_all(text.as_bytes()).map_err(cannot)?;
        Ok(Self { file, words })
    }

    /// Has it edited, and gives it back.
    pub fn edit(&self, at: &EditorPlace) -> Result<String, Failure> {
        run(&self.words, self.file.path(), at)?;
        std::fs::read_to_string(self.file.path()).map_err(|error| {
            Failure::new(
                Exit::FAILED,
                format!("cannot read what was edited: {error}"),
            )
        })
    }
}

/// The arguments of a call as such a text; those of a command are its text alone.
#[derive(Debug)]
pub struct ArgumentDraft {
    draft: TextDraft,
    /// What was edited.
    before: Value,
    is_command: bool,
}

/// The argument that has it.
const COMMAND: &str = "command";

impl ArgumentDraft {
    /// For the program of these words: a command as it is written, other arguments with a member a line.
    pub fn new(subject: &ConfirmSubject, words: Vec<String>) -> Result<Self, Failure> {
        let before: Value = serde_json::from_str(subject.arguments()).unwrap_or_default();
        let command = before.get(COMMAND).and_then(Value::as_str);
        let command = command.filter(|_| matches!(subject, ConfirmSubject::Command(_)));
        let (text, suffix) = match command {
            Some(command) => (command.to_owned(), ".sh"),
            None => {
                let text = serde_json::to_string_pretty(&before);
                (text.unwrap_or_default(), ".json")
            }
        };
        Ok(Self {
            draft: TextDraft::new(&format!("{text}\n"), suffix, words)?,
            is_command: command.is_some(),
            before,
        })
    }

    /// Has them edited, and gives them back on one line. What is no JSON object any more, or no command, is refused, and
    /// so is what was not changed.
    pub fn edit(&self, at: &EditorPlace) -> Result<String, Failure> {
        let edited = self.draft.edit(at)?;
        let arguments = if self.is_command {
            // Editors end the last line, whether it was ended or not.
            let command = edited.strip_suffix('\n').unwrap_or(&edited);
            if command.trim().is_empty() {
                return Err(Failure::new(Exit::USAGE, "no command is left"));
            }
            let mut arguments = self.before.clone();
            arguments[COMMAND] = Value::from(command);
            arguments
        } else {
            Value::Object(object(&edited)?)
        };
        if arguments == self.before {
            return Err(Failure::new(Exit::USAGE, "nothing was changed"));
        }
        Ok(arguments.to_string())
    }
}

fn object(text: &str) -> Result<Map<String, Value>, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::new(
            Exit::USAGE,
            format!("the arguments are not one JSON object: {error}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subject(kind: &str, arguments: &str, more: &Value) -> ConfirmSubject {
        let mut subject = json!({
            "type": kind, "levelRequired": 1,
            "call": {"id": "1", "tool": "t", "arguments": arguments, "cwd": "/", "server": "s"},
        });
        let members = subject.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        serde_json::from_value(subject).unwrap()
    }

    fn call() -> ConfirmSubject {
        let more = json!({"definition": {}});
        subject("call", "{\"b\":1,\"a\":\"é\"}", &more)
    }

    fn command() -> ConfirmSubject {
        let more = json!({"asked": {"command": "ls", "shell": "/bin/sh", "environment": []}});
        subject("command", "{\"command\":\"ls\",\"seconds\":7}", &more)
    }

    #[track_caller]
    fn check(subject: &ConfirmSubject, script: &str, expected: Result<&str, &str>) {
        let words = ["sh", "-c", script, "sh"].map(str::to_owned).to_vec();
        let draft = ArgumentDraft::new(subject, words).unwrap();
        let edited = draft.edit(&EditorPlace::Ours);
        match (&edited, expected) {
            (Ok(text), Ok(expected)) => assert_eq!(expected, text),
            (Err(failure), Err(expected)) => {
                assert!(failure.message.starts_with(expected), "{failure:?}");
            }
            (_, _) => panic!("{edited:?}"),
        }
    }

    #[test]
    fn arguments_are_edited_with_a_member_a_line_and_come_back_on_one() {
        let call = call();
        check(
            &call,
            "grep -c : \"$1\" | grep -qx 2 && sed -i s/1/2/ \"$1\"",
            Ok("{\"a\":\"é\",\"b\":2}"),
        );
        check(&call, "echo '{\"c\": [ 2 ]}' > \"$1\"", Ok("{\"c\":[2]}"));
        for script in ["echo '[2]' > \"$1\"", "echo > \"$1\""] {
            check(&call, script, Err("the arguments are not one JSON object"));
        }
        check(&call, "exit 1", Err("sh ended with"));
        check(&call, ":", Err("nothing was changed"));
    }

    #[test]
    fn a_command_is_edited_as_it_is_written_and_keeps_what_stands_beside_it() {
        let command = command();
        check(
            &command,
            "grep -qx ls \"$1\" && printf 'cat <<E\n\"x\"\nE\n' > \"$1\"",
            Ok("{\"command\":\"cat <<E\\n\\\"x\\\"\\nE\",\"seconds\":7}"),
        );
        check(
            &command,
            "printf pwd > \"$1\"",
            Ok("{\"command\":\"pwd\",\"seconds\":7}"),
        );
        check(&command, "echo ' ' > \"$1\"", Err("no command is left"));
        check(&command, ":", Err("nothing was changed"));
    }

    #[test]
    fn the_program_is_words_and_no_shell_line() {
        let mut around = ClientEnvironment::default();
        assert_eq!(vec!["vi"], program(&around, "").unwrap());
        around.variables.insert("EDITOR".into(), "code -w".into());
        assert_eq!(vec!["code", "-w"], program(&around, "").unwrap());
        around.variables.insert("VISUAL".into(), "emacs".into());
        assert_eq!(vec!["emacs"], program(&around, "").unwrap());
        assert_eq!(vec!["my ed", "x"], program(&around, "'my ed' x").unwrap());
        assert!(program(&around, "'").is_err());
    }
}
