//! Which harmless commands only read. Of most programs nobody knows; of few it is certain.

use std::path::Path;

use super::harmless_programs::{LISTED, OperandKind, READS};
use super::{Reading, Redirect, Segment, Shape, Word, judge, places};

/// Whether a text certainly changes nothing: only programs run that are known to write nothing, and nothing is sent to a
/// file or into a network. False says nothing: most commands that change nothing are not known to.
pub fn only_reads(reading: &Reading, text: &str, cwd: &Path) -> bool {
    // Without a root everything that is written by an option or an operand is a danger.
    judge(reading, text, &[], cwd).is_empty() && all_read(&reading.segments)
}

fn all_read(segments: &[Segment]) -> bool {
    segments.iter().all(reads)
}

fn reads(segment: &Segment) -> bool {
    let keeps = |it: &Redirect| match it {
        Redirect::From(_) | Redirect::Here(_) | Redirect::Descriptor => true,
        Redirect::To(word, _) => word.fixed().is_some_and(places::is_nowhere),
    };
    let runs = match segment.shape {
        Shape::Runs => segment.words.first().is_none_or(is_reader),
        Shape::Group
        | Shape::Loop
        | Shape::Condition
        | Shape::Choice
        | Shape::Subshell
        | Shape::Test
        | Shape::Arithmetic => true,
        Shape::Function => false,
    };
    runs && segment.redirects.iter().all(keeps)
        && all_read(&segment.substitutes)
        && all_read(&segment.inner)
}

fn is_reader(program: &Word) -> bool {
    let Some(name) = program.fixed().map(places::program) else {
        return false;
    };
    let named = |list: &str| list.split_whitespace().any(|it| it == name);
    let listed = LISTED.iter().any(|(names, _, operands)| match operands {
        OperandKind::Read | OperandKind::AtMost(_) => named(names),
        OperandKind::Written => false,
    });
    (named(READS) && name != "getent") || listed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Dialect, read};

    #[track_caller]
    fn check(text: &str, expected: bool) {
        let reading = read(text, Dialect::of("/bin/sh"));
        assert_eq!(
            expected,
            only_reads(&reading, text, Path::new("/w")),
            "{text}"
        );
    }

    #[test]
    fn only_what_certainly_changes_nothing_only_reads() {
        for text in [
            "ls -l",
            "cat a b | grep x | sort | uniq -c",
            "if grep -q x a; then head -3 a; else wc -l a; fi",
            "du -sh . 2>/dev/null",
            "/usr/bin/wc -l <a",
        ] {
            check(text, true);
        }
        for text in [
            "touch a",
            "ls > files.txt",
            "ls >> files.txt",
            "echo x | tee a.txt",
            "sort -o a.txt a.txt",
            "ls; mkdir d",
            "echo $(touch a)",
            "(cp a b)",
            "cargo build",
            "git commit -m x",
            "rm a",
            "ping -c1 host",
            "dig x.example",
            "getent hosts x.example",
            "unknown",
            "ls 'not closed",
            "$PROGRAM",
            "f() { ls; }",
        ] {
            check(text, false);
        }
    }
}
