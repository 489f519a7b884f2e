//! What a shell says of its exported variables and of its directory at its end, on a pipe of ours and not in its output.

use std::collections::BTreeMap;

use aishd_log::command_result::LeftByShell;
use aishd_log::lasting_environment::EnvironmentChange;
use aishd_process::spec::NOTE;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

/// More than variables that last, and those that every command has, come to twice.
const MAX_NOTE_BYTES: usize = 1 << 20;
/// What stands behind the last variable: without it the note was cut.
const END: &[u8] = b"\0\n";
/// What stands behind the variables of the beginning, where they are told.
const BEGUN: &[u8] = b"\0\0";
/// What a shell says at its beginning, where it has read files of its user by then: what those set, no command has.
const SAY_BEGINNING: &str = r#"/usr/bin/env -0; printf "\0";"#;

/// The text that a shell reads in the place of a command, so that it says what it exported and where it was. It is said when
/// the shell ends in order: one that becomes another program, or is killed, says nothing.
pub(super) fn noting(shell: &str, command: &str) -> Option<String> {
    let name = shell.rsplit_once('/').map_or(shell, |(_, name)| name);
    let at_end = format!(
        r#"trap '{{ pwd; printf "\0"; /usr/bin/env -0 && echo; }} 2>/dev/null >|{NOTE}' EXIT;"#
    );
    // Where a message shows the line that it is about, ours is another one.
    Some(match name {
        "sh" => format!("{at_end} {command}"),
        "bash" => format!("{at_end}\n{command}"),
        "zsh" => format!("{{ {SAY_BEGINNING} }} 2>/dev/null >|{NOTE}; {at_end} {command}"),
        "fish" => format!(
            r#"begin; {SAY_BEGINNING} end 2>/dev/null >{NOTE}; function __aish_note --on-event fish_exit; begin; pwd; printf "\0"; /usr/bin/env -0; and echo; end 2>/dev/null >{NOTE}; end
{command}"#
        ),
        _ => return None,
    })
}

/// Reads a note as far as it is one, into `note`.
pub(super) async fn read(pipe: Option<Receiver>, note: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut piece = vec![0; 16 << 10];
    while let Ok(got @ 1..) = pipe.read(&mut piece).await {
        note.extend_from_slice(&piece[..got]);
        if note.len() > MAX_NOTE_BYTES || note.ends_with(END) {
            return;
        }
    }
}

/// What a note that is whole says of a shell that was started in this directory with these variables. `None`: it left nothing.
pub(super) fn left(
    note: &[u8],
    began_in: &str,
    given: &BTreeMap<String, String>,
) -> Option<LeftByShell> {
    let (directory, before, after) = read_note(note)?;
    let left = LeftByShell {
        exported: EnvironmentChange::between(before.as_ref().unwrap_or(given), after),
        directory: directory.filter(|it| it != began_in),
        hidden: vec![],
    };
    (left != LeftByShell::default()).then_some(left)
}

/// The directory, the variables of the beginning where they are told, and those of the end.
fn read_note(note: &[u8]) -> Option<(Option<String>, Option<Variables>, Variables)> {
    let note = note.strip_suffix(b"\n").filter(|_| note.ends_with(END))?;
    if note.len() > MAX_NOTE_BYTES {
        return None;
    }
    let begun = note.windows(2).position(|it| it == BEGUN);
    let (before, note) = match begun {
        Some(at) => (Some(variables(&note[..at])), &note[at + BEGUN.len()..]),
        None => (None, note),
    };
    let end = note.iter().position(|it| *it == 0)?;
    let directory = note[..end].strip_suffix(b"\n");
    let directory = directory.and_then(|it| std::str::from_utf8(it).ok());
    let directory = directory.map(str::to_owned);
    Some((directory, before, variables(&note[end + 1..])))
}

type Variables = BTreeMap<String, String>;

/// What is no text is none of them.
fn variables(all: &[u8]) -> Variables {
    let lines = all.split(|it| *it == 0);
    let lines = lines.filter_map(|it| std::str::from_utf8(it).ok()?.split_once('='));
    let all = lines.map(|(name, value)| (name.to_owned(), value.to_owned()));
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(all: &[(&str, &str)]) -> Variables {
        let all = all.iter();
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// A directory, and variables.
    type Told<'a> = (Option<&'a str>, &'a [(&'a str, &'a str)]);

    #[track_caller]
    fn check(note: &[u8], expected: Option<Told<'_>>) {
        let expected =
            expected.map(|(directory, after)| (directory.map(str::to_owned), all(after)));
        let read = read_note(note).map(|(directory, _, after)| (directory, after));
        assert_eq!(expected, read, "{}", String::from_utf8_lossy(note));
    }

    #[test]
    fn a_note_is_taken_whole_or_not_at_all() {
        check(
            b"/w\n\0A=1\0B=x=y\nz\0\n",
            Some((Some("/w"), &[("A", "1"), ("B", "x=y\nz")])),
        );
        check(
            b"A=0\0C=\0\0/a\nb\n\0A=1\0\n",
            Some((Some("/a\nb"), &[("A", "1")])),
        );
        check(b"\0A=1\0B=\xff\0\n", Some((None, &[("A", "1")])));
        check(b"/\xff\n\0A=1\0\n", Some((None, &[("A", "1")])));
        check(b"/w\n\0A=1\0B=2", None);
        check(b"/w\n\0A=1\0B=2\0", None);
        check(b"A=1\0\0", None);
        check(b"", None);
        check(
            &[b"/w\n\0A=".to_vec(), vec![b'x'; 1100 << 10], END.to_vec()].concat(),
            None,
        );
    }

    /// What files of the user set at each start would pile up in what lasts.
    #[test]
    fn only_what_the_command_itself_did_is_left() {
        let given = all(&[("PATH", "/bin")]);
        let left = |note: &[u8]| left(note, "/w", &given);
        assert_eq!(None, left(b"PATH=/u:/bin\0\0/w\n\0PATH=/u:/bin\0\n"));
        let moved = left(b"PATH=/u:/bin\0\0/v\n\0PATH=/u:/bin\0\n").unwrap();
        assert_eq!(Some("/v"), moved.directory.as_deref());
        assert!(moved.exported.is_empty());
        let exported = left(b"/w\n\0PATH=/u:/bin\0\n").unwrap();
        assert_eq!(
            (all(&[("PATH", "/u:/bin")]), None),
            (exported.exported.set, exported.directory)
        );
    }

    #[test]
    fn only_shells_that_know_it_are_given_more_than_the_command() {
        for (shell, is_noting) in [
            ("/bin/sh", true),
            ("/usr/bin/bash", true),
            ("/bin/zsh", true),
            ("/usr/bin/fish", true),
            ("/usr/bin/nu", false),
        ] {
            let text = noting(shell, "ls\nls");
            assert_eq!(
                is_noting,
                text.is_some_and(|it| it.ends_with("ls\nls")),
                "{shell}"
            );
        }
    }
}
