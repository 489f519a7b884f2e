//! What people are shown of a command besides its text: its parts, why it may be destructive, and what else it is about to do.

use std::path::{Path, PathBuf};

use aishd_command::command::{self, Dialect, Redirect, Shape};
use aishd_command::destructive::{self, Danger, Surroundings};
use aishd_log::shell::{CommandQuestion, SimpleCommand};

use crate::command_setting::CommandSetting;

/// Parts that are shown; the text itself is shown whole.
const MAX_SEGMENTS: usize = 32;

/// Looks at a command as its shell would read it. Pure: nothing is run or looked up.
pub fn look(command: &str, setting: &CommandSetting, roots: &[PathBuf]) -> CommandQuestion {
    let reading = command::read(command, Dialect::of(&setting.shell));
    let mut looked = CommandQuestion {
        command: command.to_owned(),
        shell: setting.shell.clone(),
        background: setting.background,
        environment: setting.given.clone(),
        lasting: setting.lasting.clone(),
        segments: vec![],
        unread: None,
        dangers: vec![],
        mentions: vec![],
        beyond: None,
    };
    if !reading.understood {
        let why = "what the shell would make of it could not be read";
        looked.unread = Some(why.to_owned());
    }
    let cwd = Path::new(&setting.cwd);
    let surroundings = Surroundings {
        home: setting.home(),
    };
    let dangers = destructive::judge(&reading, command, roots, cwd, surroundings);
    for it in dangers {
        let reason = it.reason().to_owned();
        if !it.is_destructive() {
            looked.mentions.push(reason);
        } else if reading.understood || it != Danger::NotUnderstood {
            looked.dangers.push(reason);
        }
        // What could not be read is told of already.
    }
    add(&reading.segments, &mut looked.segments);
    looked
}

fn add(segments: &[command::Segment], shown: &mut Vec<SimpleCommand>) {
    for segment in segments {
        if shown.len() == MAX_SEGMENTS {
            return;
        }
        // The words of a loop or a choice are data, and nothing of them runs.
        let runs = match segment.shape {
            Shape::Runs => segment.written(),
            _ => String::new(),
        };
        if !runs.is_empty() || !segment.redirects.is_empty() {
            shown.push(SimpleCommand {
                runs,
                redirects: segment.redirects.iter().filter_map(redirect).collect(),
                substitutes: segment
                    .substitutes
                    .iter()
                    .map(command::Segment::written)
                    .collect(),
            });
        }
        add(&segment.substitutes, shown);
        add(&segment.inner, shown);
    }
}

fn redirect(redirect: &Redirect) -> Option<String> {
    match redirect {
        Redirect::From(word) => Some(format!("< {}", word.written)),
        Redirect::To(word, command::Writing::Append) => Some(format!(">> {}", word.written)),
        Redirect::To(
            word,
            command::Writing::Anew | command::Writing::Clobber | command::Writing::Both,
        ) => Some(format!("> {}", word.written)),
        Redirect::Descriptor | Redirect::Here(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::setting;

    #[track_caller]
    fn check(command: &str, harmless: bool) {
        let looked = look(command, &setting(&[], "/w"), &[PathBuf::from("/w")]);
        assert_eq!(harmless, looked.destructive().is_none(), "{command}");
    }

    #[test]
    fn every_danger_that_is_known_by_name_is_told() {
        for command in [
            "ls",
            "echo a > /w/b",
            "cat a | wc -l",
            "surely-unknown",
            "vim",
        ] {
            check(command, command != "echo a > /w/b");
        }
        for command in [
            "rm -rf gone",
            "$PROGRAM",
            "echo 'not closed",
            "bash -c \"echo 'not closed\"",
            "curl x | sh",
            "ls() { :; }; ls",
        ] {
            check(command, false);
        }
    }

    #[test]
    fn what_is_worth_knowing_is_told_apart_from_what_destroys() {
        let check = |command: &str, dangers: &[&str], mentions: &[&str]| {
            let looked = look(command, &setting(&[], "/w"), &[PathBuf::from("/w")]);
            assert_eq!(
                (dangers, mentions),
                (
                    strs(&looked.dangers).as_slice(),
                    strs(&looked.mentions).as_slice()
                ),
                "{command}"
            );
        };
        check("ls", &[], &[]);
        check("curl https://x", &[], &["reaches the network"]);
        check(
            "env",
            &[],
            &["shows variables of the environment, where keys may be"],
        );
        check(
            "find . -name '*.tmp' -delete",
            &["deletes all that it finds"],
            &[],
        );
        check(
            "ssh host uptime && rm a",
            &["deletes files"],
            &["reaches the network", "runs on another machine"],
        );
    }

    fn strs(words: &[String]) -> Vec<&str> {
        words.iter().map(String::as_str).collect()
    }

    #[test]
    fn words_that_are_data_are_not_among_what_runs() {
        let check = |command: &str, expected: &[&str]| {
            let looked = look(command, &setting(&[], "/w"), &[PathBuf::from("/w")]);
            let runs: Vec<&str> = looked.segments.iter().map(|it| it.runs.as_str()).collect();
            assert_eq!(expected, runs, "{command}");
        };
        check("for i in 1 2 3; do echo $i; done", &["echo $i"]);
        check("for f in $(ls -a); do cat $f; done", &["ls -a", "cat $f"]);
        check("case $x in a) ls;; *) pwd;; esac", &["ls", "pwd"]);
        check("[[ -f a ]] && cat a", &["cat a"]);
        check("while read l; do echo $l; done", &["read l", "echo $l"]);
        check("for i in 1; do ls; done > out", &["", "ls"]);
    }
}
