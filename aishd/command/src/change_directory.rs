//! `cd DIR` alone changes the directory of the conversation. With anything beside it, it is a command like others,
//! which a process of its own runs and forgets.

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
    let words = split_words(command)?;
    let mut words = words.iter();
    if words.next().map(|it| it.text.as_str()) != Some("cd") {
        return None;
    }
    let mut words: Vec<&ShellWord> = words.collect();
    if words.first().is_some_and(|it| it.text == "--") {
        words.remove(0);
    }
    let word = match words[..] {
        [] => return Some(home(from).map(str::to_owned)),
        [word] => word,
        [..] => return Some(Err("cd takes one directory".to_owned())),
    };
    Some(resolved(word, from))
}

fn resolved(word: &ShellWord, from: StartingDirectory<'_>) -> Result<String, String> {
    let text = word.text.as_str();
    if text == "-" {
        let previous = from.previous.map(str::to_owned);
        return previous.ok_or_else(|| "cd: there is no directory to go back to".to_owned());
    }
    if text.is_empty() {
        return Ok(from.cwd.to_owned());
    }
    if word.expands && text.starts_with('~') {
        return match text[1..].split_once('/') {
            None if text == "~" => home(from).map(str::to_owned),
            Some(("", rest)) => Ok(joined(home(from)?, rest)),
            None | Some(_) => Err(format!("cd: {text}: only ~ itself is known here")),
        };
    }
    Ok(joined(from.cwd, text))
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

#[derive(Debug)]
struct ShellWord {
    text: String,
    /// Its beginning stands outside of quotes.
    expands: bool,
}

/// The words of a text in which a shell would expand nothing but a first `~`. `None`: it is more than that.
fn split_words(command: &str) -> Option<Vec<ShellWord>> {
    let mut words: Vec<ShellWord> = vec![];
    let mut open = false;
    let mut signs = command.chars().peekable();
    while let Some(sign) = signs.next() {
        if sign == ' ' || sign == '\t' {
            open = false;
            continue;
        }
        if !open {
            words.push(ShellWord {
                text: String::new(),
                expands: !matches!(sign, '\'' | '"' | '\\'),
            });
            open = true;
        }
        let word = words.last_mut()?;
        match sign {
            '\'' => loop {
                match signs.next()? {
                    '\'' => break,
                    inside => word.text.push(inside),
                }
            },
            '"' => loop {
                match signs.next()? {
                    '"' => break,
                    '$' | '`' | '!' => return None,
                    '\\' => match signs.next()? {
                        escaped @ ('"' | '\\') => word.text.push(escaped),
                        _ => return None,
                    },
                    inside => word.text.push(inside),
                }
            },
            '\\' => word.text.push(signs.next()?),
            '$' | '`' | ';' | '&' | '|' | '<' | '>' | '(' | ')' | '{' | '}' | '*' | '?' | '['
            | ']' | '#' | '!' | '=' => return None,
            sign if sign.is_control() => return None,
            sign => word.text.push(sign),
        }
    }
    Some(words)
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
