use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

/// A reading on a few lines: one for each segment, what is within it further in.
fn shown(segments: &[Segment], depth: usize, out: &mut String) {
    for segment in segments {
        let joined = match segment.joined {
            Joined::First => "",
            Joined::Then => "; ",
            Joined::And => "&& ",
            Joined::Or => "|| ",
            Joined::Pipe => "| ",
            Joined::Beside => "& ",
        };
        write!(
            out,
            "{:depth$}{joined}{:?}",
            "",
            segment.shape,
            depth = 2 * depth
        )
        .unwrap();
        for set in &segment.sets {
            let value = set.value.as_ref().map(|it| &it.value);
            write!(out, " {}={value:?}", set.name).unwrap();
        }
        for word in &segment.words {
            match &word.value {
                Value::Fixed(value) => write!(out, " [{value}]"),
                Value::Pattern(value) => write!(out, " *[{value}]"),
                Value::Open {
                    before,
                    one_word: true,
                } => write!(out, " [{before}…]"),
                Value::Open { before, .. } => write!(out, " [{before}…] [?]"),
            }
            .unwrap();
        }
        for redirect in &segment.redirects {
            match redirect {
                Redirect::From(word) => write!(out, " < {}", word.written),
                Redirect::To(word, how) => write!(out, " {how:?} {}", word.written),
                Redirect::Descriptor => write!(out, " descriptor"),
                Redirect::Here(word) => write!(out, " here {:?}", word.written),
            }
            .unwrap();
        }
        out.push('\n');
        shown(&segment.substitutes, depth + 2, out);
        shown(&segment.inner, depth + 1, out);
    }
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    check_in(Dialect::Bash, text, expected);
}

#[track_caller]
fn check_in(dialect: Dialect, text: &str, expected: &[&str]) {
    let reading = read(text, dialect);
    assert!(reading.understood, "{text:?}");
    let mut found = String::new();
    shown(&reading.segments, 0, &mut found);
    assert_eq!(expected, found.lines().collect::<Vec<_>>(), "{text:?}");
}

#[track_caller]
fn refused(dialect: Dialect, texts: &[&str]) {
    let read = texts.iter().map(|it| (it, read(it, dialect)));
    let understood: Vec<_> = read.filter(|(_, it)| it.understood).collect();
    assert!(understood.is_empty(), "{dialect:?}: {understood:#?}");
}

#[test]
fn words_are_what_they_are_without_their_quotes() {
    check(
        r#"rm -r"f" 'x  y' a\ b "q\"r\n" e''m"p"ty"#,
        &[r#"Runs [rm] [-rf] [x  y] [a b] [q"r\n] [empty]"#],
    );
    check(
        r#"ls *.rs ~/x {a,b}/c $HOME "$HOME" pre$x "a${b:-c}" $(date)"#,
        &[
            r#"Runs [ls] *[*.rs] *[~/x] *[{a,b}/c] […] [?] […] [pre…] [?] [a…] […] [?]"#,
            "    Runs [date]",
        ],
    );
    check("'r'm x", &["Runs [rm] [x]"]);
    check("$cmd x", &["Runs […] [?] [x]"]);
    check("echo $((1 + 2))", &["Runs [echo] […]"]);
    check("echo 5$ # and a remark", &["Runs [echo] [5$]"]);
    check("", &[]);
    check("# nothing", &[]);
}

#[test]
fn segments_stand_in_order_with_how_they_are_joined() {
    check(
        "a; b && c || d | e & f\ng",
        &[
            "Runs [a]",
            "; Runs [b]",
            "&& Runs [c]",
            "|| Runs [d]",
            "| Runs [e]",
            "& Runs [f]",
            "; Runs [g]",
        ],
    );
    check(
        "X=1 Y='a b' make >out 2>&1 <in >>log",
        &[
            r#"Runs X=Some(Fixed("1")) Y=Some(Fixed("a b")) [make] Anew out descriptor < in Append log"#,
        ],
    );
    check(
        "cat <<'E' | sh\nrm $x\nE",
        &[r#"Runs [cat] here "rm $x\n""#, "| Runs [sh]"],
    );
}

#[test]
fn constructs_hold_what_runs_within_them() {
    check(
        "for f in *.c; do cc $f; done > log; (cd x && ls); { a; }",
        &[
            "Loop f=None *[*.c] Anew log",
            "  Runs [cc] […] [?]",
            "; Subshell",
            "  Runs [cd] [x]",
            "  && Runs [ls]",
            "; Group",
            "  Runs [a]",
        ],
    );
    check(
        "if a; then b; elif c; then d; else e; fi; while f; do g; done; case $x in y) h;; *) i;; esac",
        &[
            "Condition",
            "  Runs [a]",
            "  Runs [b]",
            "  Condition",
            "    Runs [c]",
            "    Runs [d]",
            "    Runs [e]",
            "; Loop",
            "  Runs [f]",
            "  Runs [g]",
            "; Choice […] [?]",
            "  Runs [h]",
            "  Runs [i]",
        ],
    );
    check(
        "ls() { rm x; }; [[ -f a && $b == c ]]; diff <(a) <(b `c`)",
        &[
            "Function [ls]",
            "  Group",
            "    Runs [rm] [x]",
            "; Test […] […] […]",
            "; Runs [diff] [/dev/fd/…] [/dev/fd/…]",
            "    Runs [a]",
            "    Runs [b] […] [?]",
            "        Runs [c]",
        ],
    );
    check(
        "i=0; while (( i < 3 )); do echo \"$(a $(b))\"; i=$((i+1)); done",
        &[
            r#"Runs i=Some(Fixed("0"))"#,
            "; Loop",
            "  Arithmetic",
            "  Runs [echo] […]",
            "      Runs [a] […] [?]",
            "          Runs [b]",
            "  ; Runs i=Some(Open { before: \"\", one_word: true })",
        ],
    );
}

#[test]
fn what_could_mean_more_than_it_says_is_not_understood() {
    refused(
        Dialect::Bash,
        &[
            "echo 'open",
            "echo \"open",
            "if a; then b",
            "a &&",
            ")",
            "echo $'\\x72m'",
            "echo $\"x\"",
            "echo ${!x}",
            "echo ${x@P}",
            "echo ${x/a/b}",
            "echo ${x:-$(rm y)}",
            "echo ${x:=y}",
            "echo ${x[$(rm y)]}",
            "x='a[$(rm y)]'; echo $((x))",
            "x='a[$(rm y)]'; [[ $x -eq 1 ]]",
            "[[ -v 'a[$(rm y)]' ]]",
            "[[ -n $(rm y) ]]",
            "echo $((a[$(rm y)]))",
            "echo $[x]",
            "cat <<E\n'$(rm y)'\nE",
            "cat <<E\n`rm y`\nE",
            "ls \\\n-l",
            "ls\r",
            "ls \0",
            "ls \u{1b}[31m",
            "coproc rm x",
            "select x in a; do b; done",
            "echo ${ rm x; }",
            "exec {fd}>x",
            "echo `echo \\`rm x\\``",
            "ls *(x)",
        ],
    );
}

#[test]
fn other_shells_are_read_only_where_they_mean_the_same() {
    for dialect in [Dialect::Sh, Dialect::Bash, Dialect::Zsh, Dialect::Fish] {
        check_in(
            dialect,
            "ls -l 'a b' | wc; echo \"$HOME\" > x && a $(b)",
            &[
                "Runs [ls] [-l] [a b]",
                "| Runs [wc]",
                "; Runs [echo] […] Anew x",
                "&& Runs [a] […] [?]",
                "    Runs [b]",
            ],
        );
    }
    refused(
        Dialect::Fish,
        &[
            "ls (rm x)",
            "echo 'a\\'; rm x; echo '",
            "echo \\x72m",
            "echo `ls`",
            "cat <<E\nx\nE",
            "cat <<< x",
            "(ls)",
            "for f in a; do b; done",
            "f() { ls; }",
            "echo ${x}[(rm y)]",
            "diff <(a) b",
            "echo $((1+2))",
            "! ls",
        ],
    );
    refused(
        Dialect::Zsh,
        &[
            "=rm x",
            "cat =ls",
            "echo ${x:-y}",
            "ls *(e:'rm x':)",
            "echo =(rm x)",
        ],
    );
    assert_eq!(Dialect::Zsh, Dialect::of("/usr/bin/zsh"));
    assert_eq!(Dialect::Fish, Dialect::of("fish"));
    assert_eq!(Dialect::Sh, Dialect::of("/bin/tcsh"));
}

/// As many as they may be, the reading comes to an end, on the 2 MiB of stack that a test's thread has as the daemon's do.
#[test]
fn depth_and_length_cost_neither_stack_nor_time() {
    let pairs = [
        ("$(", ")"),
        ("( ", ")"),
        ("{ ", ";}"),
        ("`", "`"),
        ("\"$(", ")\""),
        ("$((", "))"),
        ("((", "))"),
        ("if true;then ", ";fi"),
        ("for i in a;do ", ";done"),
        ("${a:-", "}"),
        ("cat <(", ")"),
        ("! ", ""),
        ("[[ ( ", " )"),
        ("[[ ! ", ""),
        ("case a in a) ", ";;esac"),
        ("f(){ ", ";}"),
        ("$(`", "`)"),
        ("while ", ";do :;done"),
        ("time ", ""),
        ("cat <<E\n$(", "\nE\n)"),
        ("a|", ""),
        ("a&&", ""),
        ("a;", ""),
        ("x=", ""),
        ("<a ", ""),
        ("$[", "]"),
        ("\\", ""),
        ("'", ""),
        ("\"", ""),
        ("é\u{301}", ""),
        ("\0", ""),
        ("a[", "]"),
        ("-", ""),
        ("((- ", "))"),
        ("$((1+", "))"),
        ("[[ a && ", "]]"),
        ("function f ", ""),
        ("f() ", ""),
    ];
    // Chains within one pair of parentheses.
    let chains = ["- ", "1+", "~", "a?b:", "a=", "2**", "1,", "++"];
    for (open, close) in pairs {
        for count in [3, 6, 9, 15, 31, 200, 4000, 262_144 / open.len()] {
            for close in [close.repeat(count), String::new()] {
                let text = format!("{}x{close}", open.repeat(count));
                drop(read(&text, Dialect::Bash));
            }
        }
    }
    for link in chains {
        for count in [10, 60, 120, 1000, 8000] {
            for (open, close) in [
                ("((", "))"),
                ("echo $((", "))"),
                ("a[", "]=1"),
                ("echo $[", "]"),
            ] {
                let text = format!("{open}{}1{close}", link.repeat(count));
                drop(read(&text, Dialect::Bash));
            }
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(
        plain in ".{0,300}",
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "$(", ")", "`", "'", "\"", "\\", "\n", " ", ";", "|", "&", "<", ">", "<<E", "E\n", "${", "}", "{", "((",
                "[[", "]]", "if", "then", "fi", "for", "do", "done", "case", "in", "esac", "$", "x", "-rf", "rm", "=", "*",
                "~", "#", "!", "\u{202e}", "é", "\0", "\t", "function", "time", "<(", "<<<", "1", "@", "a[",
            ]),
            0..60,
        ),
    ) {
        for text in [plain, parts.concat()] {
            for dialect in [Dialect::Sh, Dialect::Bash, Dialect::Zsh, Dialect::Fish] {
                let reading = read(&text, dialect);
                prop_assert!(reading.understood || reading.segments.is_empty());
                prop_assert!(!text.contains('\0') || !reading.understood);
            }
        }
    }
}
