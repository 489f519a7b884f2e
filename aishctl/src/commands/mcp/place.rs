//! Where a server is and what it is called here, in each order in which people say it.

use super::ConnectArgs;
use crate::commands::typed_answer;
use crate::exit::Exit;
use crate::failure::Failure;

/// A URL, or the words of a command; and its name, if one was said.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerPlace {
    pub(super) alias: Option<String>,
    pub(super) url: Option<String>,
    pub(super) command: Vec<String>,
}

impl ServerPlace {
    /// `URL|COMMAND [ALIAS]`, as well as `ALIAS -- PROGRAM ARGUMENTS…`, `ALIAS URL` and `ALIAS PATH`, as other programs want it.
    pub(super) fn of(args: &ConnectArgs) -> Result<Self, Failure> {
        let (target, alias) = (&args.target, &args.alias);
        match (args.words.as_slice(), alias) {
            ([], Some(url)) if is_url(url) && !is_url(target) => Self::at(url, Some(target)),
            // A path is no name, and a name is no path; `@scope/server` is the name of a package.
            ([], Some(program))
                if program.starts_with(['/', '.', '~']) && !target.contains(['/', ' ']) =>
            {
                Self::at(program, Some(target))
            }
            ([], alias) => Self::at(target, alias.as_ref()),
            (words, None) => Ok(Self {
                alias: Some(target.clone()),
                ..Self::started(words.to_vec())
            }),
            (_words, Some(_alias)) => {
                let problem = "before -- stands the name of the server, and nothing else";
                Err(Failure::new(Exit::USAGE, problem)
                    .hint("aishctl mcp add NAME -- npx -y some-server /tmp"))
            }
        }
    }

    fn at(target: &str, alias: Option<&String>) -> Result<Self, Failure> {
        let alias = alias.cloned();
        if is_url(target) {
            return Ok(Self {
                alias,
                url: Some(target.to_owned()),
                command: vec![],
            });
        }
        let hint = "aishctl mcp connect \"npx -y some-server /tmp\" NAME";
        let words = typed_answer::words(target).map_err(|it| it.hint(hint))?;
        Ok(Self {
            alias,
            ..Self::started(words)
        })
    }

    fn started(command: Vec<String>) -> Self {
        Self {
            alias: None,
            url: None,
            command,
        }
    }
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: ConnectArgs,
    }

    #[track_caller]
    fn said(words: &[&str]) -> ConnectArgs {
        let words = std::iter::once(&"add").chain(words);
        Line::try_parse_from(words).expect("a line").args
    }

    #[track_caller]
    fn place(line: &str) -> Result<ServerPlace, String> {
        let words: Vec<&str> = line.split(' ').collect();
        ServerPlace::of(&said(&words)).map_err(|it| it.message)
    }

    #[track_caller]
    fn check(line: &str, alias: &str, url: Option<&str>, command: &[&str]) {
        let expected = ServerPlace {
            alias: Some(alias.to_owned()),
            url: url.map(str::to_owned),
            command: command.iter().map(|it| (*it).to_owned()).collect(),
        };
        assert_eq!(Ok(expected), place(line), "{line}");
    }

    #[test]
    fn the_name_stands_on_either_side() {
        let url = "https://example.org/mcp";
        check(&format!("{url} web"), "web", Some(url), &[]);
        check(&format!("web {url}"), "web", Some(url), &[]);
        check("uvx clock", "clock", None, &["uvx"]);
        check("clock /opt/a-clock", "clock", None, &["/opt/a-clock"]);
        check("/opt/a-clock clock", "clock", None, &["/opt/a-clock"]);
        let args = said(&["clock", "--", "uvx", "a-clock", "--zone", "a b"]);
        let place = ServerPlace::of(&args).expect("a place");
        assert_eq!(Some("clock"), place.alias.as_deref());
        assert_eq!(["uvx", "a-clock", "--zone", "a b"], place.command[..]);
        check(
            "--contain read clock -- uvx a-clock --contain x",
            "clock",
            None,
            &["uvx", "a-clock", "--contain", "x"],
        );
    }

    #[test]
    fn two_names_are_one_too_many() {
        let problem = place("clock zone -- uvx a-clock").expect_err("two names");
        assert!(problem.starts_with("before -- stands"), "{problem}");
    }
}
