//! The corpus in tests/data/routing has two parts: one written beside the rules, and one labelled by what the classes mean in
//! plain words.

use std::collections::BTreeMap;

use super::*;

/// Right in so many of a hundred, in each class.
const RIGHT: usize = 95;

const LABELLED: [&str; 2] = [
    include_str!("../../../../tests/data/routing/first.tsv"),
    include_str!("../../../../tests/data/routing/second.tsv"),
];

/// One prompt a line: the class, a tab, the text with `\n`, `\t` and `\\`.
fn text(written: &str) -> String {
    let mut text = String::new();
    let mut signs = written.chars();
    while let Some(sign) = signs.next() {
        if sign != '\\' {
            text.push(sign);
            continue;
        }
        text.push(match signs.next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('\\') => '\\',
            other => panic!("what is \\{other:?} in {written}?"),
        });
    }
    text
}

#[test]
fn most_prompts_of_the_corpus_are_what_people_say_they_are() {
    for (part, corpus) in ["by the author", "by plain words"]
        .into_iter()
        .zip(LABELLED)
    {
        let mut table: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut wrong = vec![];
        for line in corpus.lines() {
            let (label, written) = line.split_once('\t').unwrap();
            let found = classify(&text(written));
            let said = found.class.name();
            let label = QuestionClass::ALL.into_iter().find(|it| it.name() == label);
            let label = label.unwrap_or_else(|| panic!("{line}")).name();
            *table.entry((label, said)).or_default() += 1;
            if said != label {
                wrong.push(format!(
                    "{written:?}: {label}, and was said to be {said} ({})",
                    found.rule
                ));
            }
        }
        println!("{part}, (label, said): {table:?}\n{}", wrong.join("\n"));
        for class in QuestionClass::ALL {
            let of = |it: &(&(&str, &str), &usize)| it.0.0 == class.name();
            let all: usize = table.iter().filter(of).map(|it| it.1).sum();
            let right = table
                .get(&(class.name(), class.name()))
                .copied()
                .unwrap_or(0);
            println!("{part}: {right} of {all} {} right", class.name());
            assert!(
                right * 100 >= all * RIGHT,
                "{part}: {right} of {all} {}",
                class.name()
            );
        }
    }
    let lines: Vec<&str> = LABELLED.iter().flat_map(|it| it.lines()).collect();
    assert!(lines.len() >= 300, "{} labelled prompts", lines.len());
    let mut once = lines.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(lines.len(), once.len(), "no prompt counts twice");
}

#[track_caller]
fn check(text: &str, class: QuestionClass, rule: ClassRule) {
    assert_eq!(Classified { class, rule }, classify(text), "{text:?}");
}

fn code(text: &str, rule: ClassRule) {
    check(text, QuestionClass::Code, rule);
}

fn reasoning(text: &str, rule: ClassRule) {
    check(text, QuestionClass::Reasoning, rule);
}

fn none(text: &str) {
    check(text, QuestionClass::Default, ClassRule::None);
}

#[test]
fn the_first_rule_that_fits_is_the_one_that_counts() {
    code("why ``` why", ClassRule::Fence);
    code("explain the traceback in ./x.py", ClassRule::Traceback);
    code("compare this stack trace: error: x", ClassRule::StackTrace);
    code("why error: ./x", ClassRule::Error);
    code("Exception: in ./x.rs", ClassRule::Exception);
    code("why is ./x.rs there", ClassRule::Path);
    code("why is x.rs there", ClassRule::SourceFile);
    code("why\n a\nb\nc\nd", ClassRule::Paste);
    reasoning("why explain", ClassRule::Explain);
    reasoning("why, and how does it compare", ClassRule::Why);
    reasoning("how does it compare", ClassRule::HowDoes);
    let long = format!("compare {}?", "x ".repeat(60));
    reasoning(&long, ClassRule::Compare);
}

#[test]
fn near_the_start_is_within_two_hundred_characters() {
    // The word may begin with the 200th character, whatever the characters are.
    for filling in ["x ", "é "] {
        code(
            &format!("{}error: it", filling.repeat(99)),
            ClassRule::Error,
        );
        code(
            &format!("{}  exception: it", filling.repeat(98)),
            ClassRule::Exception,
        );
        none(&format!("{}error: it", filling.repeat(100)));
    }
}

#[test]
fn a_paste_has_more_than_four_lines_and_one_is_indented() {
    code("a\n b\nc\nd\ne", ClassRule::Paste);
    code("a\nb\nc\nd\n\te\n", ClassRule::Paste);
    code("a\r\n  b\r\nc\r\nd\r\ne\r\n", ClassRule::Paste);
    none("a\n b\nc\nd");
    none("a\n b\nc\nd\n\n\n");
    none("a\nb\nc\nd\ne\nf");
    none("a\nb\n   \nd\ne\nf");
}

#[test]
fn a_long_question_has_a_question_mark_and_more_than_a_hundred_characters() {
    let text = |count: usize, end: &str| format!("{}{end}", "é".repeat(count - 1));
    none(&text(100, "?"));
    reasoning(&text(101, "?"), ClassRule::LongQuestion);
    reasoning(&text(101, "？"), ClassRule::LongQuestion);
    none(&text(101, "."));
    none(&format!("{}   ", text(100, "?")));
}

#[test]
fn words_are_words() {
    for text in [
        "explains",
        "whyever",
        "somehow does",
        "how doesn",
        "comparing",
        "the_why_of",
    ] {
        none(text);
    }
    reasoning("WHY", ClassRule::Why);
    reasoning("(explain)", ClassRule::Explain);
    reasoning("how\tdoes", ClassRule::HowDoes);
    reasoning("请explain一下", ClassRule::Explain);
}

#[test]
fn paths_and_source_files_are_told_from_prose() {
    for text in [
        "./x",
        "cd ../x",
        "~/",
        "in '~/x'",
        "/usr",
        "/usr/bin",
        "FLAG=./x",
        "/etc/hosts",
        r"C:\x",
    ] {
        code(text, ClassRule::Path);
    }
    for text in [
        "a.py",
        "a.lua, b",
        "x/a.c:12",
        "a.js?",
        "(a.go)",
        "`a.rs`",
        "*.py",
        "看main.py吧",
        "a-b.tsx",
    ] {
        code(text, ClassRule::SourceFile);
    }
    for text in [
        "and/or",
        "/tmp",
        "/",
        "~5",
        "https://example.com/usr/x",
        "user/usr/x",
        "x./y",
        "e.g. this",
        "example.com",
        "example.go/x",
        "p.ex. ceci",
        "in 300 b.c. or so",
        "no. 3.c there",
        "a.pyx",
        ".",
        "…rs",
        "/users",
        "D.C.",
    ] {
        none(text);
    }
}

#[test]
fn nothing_of_any_length_takes_long_or_breaks() {
    for text in ["", " ", "\n\n", "?", ".", "é", "\u{1f980}"] {
        none(text);
    }
    for filling in ["error ", "./", "how ", ". ", "\u{1f980}.", "~ /", "aé\n "] {
        // Only that it comes back: a megabyte is the longest question there is.
        let _class = classify(&filling.repeat((1 << 20) / filling.len()));
    }
}

#[test]
fn a_class_without_a_preset_keeps_the_active_one() {
    let routing = Routing {
        auto: true,
        classes: [
            (QuestionClass::Code, "deep".to_owned()),
            (QuestionClass::Reasoning, "gone".to_owned()),
        ]
        .into(),
        ..Routing::default()
    };
    let meant = |class| routing.resolve(class, |name| name == "deep");
    assert_eq!(Meant::Preset("deep".to_owned()), meant(QuestionClass::Code));
    assert_eq!(
        Meant::Unknown("gone".to_owned()),
        meant(QuestionClass::Reasoning)
    );
    assert_eq!(Meant::Active, meant(QuestionClass::Default));
}
