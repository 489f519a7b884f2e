//! `cd DIR` alone changes the directory of the conversation, and no process runs for it. With anything beside it, it is a
//! command like others, and its shell says where it ended.

use crate::command::{self, Dialect, Segment, Shape, Value, Word};

/// Where a conversation is, for a change that is relative to it.
#[derive(Clone, Copy, Debug)]
pub struct StartingDirectory<'a> {
    pub cwd: &'a str,
    /// Where it was before.
    pub previous: Option<&'a str>,
    pub home: Option<&'a str>,
}

/// The directory that a command changes to and nothing else, or why that cannot be said. `None`: it is no such command.
/// Whether it is there is not looked at.
pub fn target(command: &str, from: StartingDirectory<'_>) -> Option<Result<String, String>> {
    let words = plain_words(command)?;
    let (program, mut words) = words.split_first()?;
    if program.fixed() != Some("cd") {
        return None;
    }
    if words.first().and_then(Word::fixed) == Some("--") {
        words = &words[1..];
    }
    Some(match words {
        [] => home(from).map(str::to_owned),
        [word] => resolved(word, from),
        [..] => Err("cd takes one directory".to_owned()),
    })
}

fn resolved(word: &Word, from: StartingDirectory<'_>) -> Result<String, String> {
    match &word.value {
        Value::Fixed(text) if text == "-" => {
            let previous = from.previous.map(str::to_owned);
            previous.ok_or_else(|| "cd: there is no directory to go back to".to_owned())
        }
        Value::Fixed(text) if text.is_empty() => Ok(from.cwd.to_owned()),
        Value::Fixed(text) => Ok(joined(from.cwd, text)),
        Value::Pattern(text) | Value::Open { before: text, .. } => match text.strip_prefix('~') {
            Some("") => home(from).map(str::to_owned),
            Some(rest) if rest.starts_with('/') => Ok(joined(home(from)?, &rest[1..])),
            Some(_) | None => Err(format!("cd: {text}: only ~ itself is known here")),
        },
    }
}

fn home(from: StartingDirectory<'_>) -> Result<&str, String> {
    from.home
        .ok_or_else(|| "cd: the home directory is not known".to_owned())
}

/// As shells do it: `..` takes the last name away, whatever that is a link to.
fn joined(base: &str, path: &str) -> String {
    let mut names: Vec<&str> = vec![];
    let whole = if path.starts_with('/') { "" } else { base };
    for name in whole.split('/').chain(path.split('/')) {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

/// The words of a text that is one plain command, in which a shell would expand nothing but a first `~`.
fn plain_words(command: &str) -> Option<Vec<Word>> {
    let reading = command::read(command, Dialect::Sh);
    let [only] = <[Segment; 1]>::try_from(reading.segments).ok()?;
    let is_plain = only.shape == Shape::Runs
        && only.sets.is_empty()
        && only.redirects.is_empty()
        && only.substitutes.is_empty();
    let expands_little = |it: &Word| match &it.value {
        Value::Fixed(_) => true,
        Value::Pattern(text) => text.starts_with('~') && !text.contains(['*', '?', '[', '{']),
        Value::Open { .. } => false,
    };
    // What stands beside it may be a comment, or mean something in another shell.
    let alone = !command.contains(['#', '!', '=', '\n']);
    (alone && is_plain && only.words.iter().all(expands_little)).then_some(only.words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, expected: Option<Result<&str, &str>>) {
        let from = StartingDirectory {
            cwd: "/home/u/proj",
            previous: Some("/tmp"),
            home: Some("/home/u"),
        };
        let target = target(command, from);
        let target = target
            .as_ref()
            .map(|it| it.as_deref().map_err(String::as_str));
        assert_eq!(expected, target, "{command}");
    }

    #[test]
    fn cd_alone_is_a_change_of_directory() {
        for (command, expected) in [
            ("cd /etc", "/etc"),
            ("  cd   src  ", "/home/u/proj/src"),
            ("cd", "/home/u"),
            ("cd ~", "/home/u"),
            ("cd ~/a/../b", "/home/u/b"),
            ("cd -", "/tmp"),
            ("cd ..", "/home/u"),
            ("cd ../../../../..", "/"),
            ("cd ./a//b/.", "/home/u/proj/a/b"),
            ("cd 'a b'", "/home/u/proj/a b"),
            ("cd \"a b\"", "/home/u/proj/a b"),
            ("cd a\\ b", "/home/u/proj/a b"),
            ("cd '~'", "/home/u/proj/~"),
            ("cd -- -x", "/home/u/proj/-x"),
            ("cd übung", "/home/u/proj/übung"),
            ("cd ''", "/home/u/proj"),
        ] {
            check(command, Some(Ok(expected)));
        }
    }

    #[test]
    fn anything_beside_it_makes_it_a_command_like_others() {
        for command in [
            "ls",
            "cdx /etc",
            "cd /etc; ls",
            "cd /etc && ls",
            "cd $HOME",
            "cd `pwd`",
            "cd \"$HOME\"",
            "cd *",
            "cd /etc > x",
            "cd /etc\nls",
            "cd 'open",
            "cd a # b",
            "A=1 cd /etc",
            "(cd /etc)",
            "",
        ] {
            check(command, None);
        }
    }

    #[test]
    fn what_cannot_be_said_is_an_error_and_no_command() {
        check("cd a b", Some(Err("cd takes one directory")));
        check(
            "cd ~root",
            Some(Err("cd: ~root: only ~ itself is known here")),
        );
        let nowhere = StartingDirectory {
            cwd: "/",
            previous: None,
            home: None,
        };
        for command in ["cd", "cd -", "cd ~"] {
            assert!(
                matches!(target(command, nowhere), Some(Err(_))),
                "{command}"
            );
        }
    }
}
