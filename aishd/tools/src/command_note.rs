//! What a shell says of its exported variables at its end, on a pipe of ours and not in its output.

use std::collections::BTreeMap;

use aishd_process::spec::NOTE;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

/// More than variables that last, and those that every command has, come to.
const MAX_NOTE_BYTES: usize = 512 << 10;
/// What stands behind the last variable: without it the note was cut.
const END: &[u8] = b"\0\n";

/// The text that a shell reads in the place of a command, where it can say what it exported. It is said when the shell ends in
/// order: one that becomes another program, or is killed, says nothing.
pub(super) fn noting(shell: &str, command: &str) -> Option<String> {
    let name = shell.rsplit_once('/').map_or(shell, |(_, name)| name);
    // Where a message shows the line that it is about, ours is another one.
    let between = match name {
        "sh" | "zsh" => " ",
        "bash" => "\n",
        _ => return None,
    };
    Some(format!(
        "trap '{{ /usr/bin/env -0 && echo; }} 2>/dev/null >|{NOTE}' EXIT;{between}{command}"
    ))
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

/// The variables in a note that is whole. What is no text is none of them.
pub(super) fn variables(note: &[u8]) -> Option<BTreeMap<String, String>> {
    let note = note.strip_suffix(b"\n").filter(|_| note.ends_with(END))?;
    if note.len() > MAX_NOTE_BYTES {
        return None;
    }
    let lines = note.split(|it| *it == 0);
    let lines = lines.filter_map(|it| std::str::from_utf8(it).ok()?.split_once('='));
    let all = lines.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_taken_whole_or_not_at_all() {
        let check = |note: &[u8], expected: Option<&[(&str, &str)]>| {
            let all = expected.map(|it| {
                let all = it.iter();
                all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect::<BTreeMap<String, String>>()
            });
            assert_eq!(all, variables(note), "{}", String::from_utf8_lossy(note));
        };
        check(b"A=1\0B=x=y\nz\0\n", Some(&[("A", "1"), ("B", "x=y\nz")]));
        check(b"A=1\0B=\xff\0\n", Some(&[("A", "1")]));
        check(b"A=1\0B=2", None);
        check(b"A=1\0B=2\0", None);
        check(b"", None);
        check(
            &[b"A=".to_vec(), vec![b'x'; 600 << 10], END.to_vec()].concat(),
            None,
        );
    }

    #[test]
    fn only_shells_that_know_it_are_given_more_than_the_command() {
        for (shell, is_noting) in [
            ("/bin/sh", true),
            ("/usr/bin/bash", true),
            ("/bin/zsh", true),
            ("/usr/bin/fish", false),
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
