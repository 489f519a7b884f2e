//! Whole screens as a person sees them, on a narrow, an ordinary and a wide terminal: no row is longer than the terminal, no
//! word is cut that fits on a row, and no prompt stands twice.

use aish_testkit::{Answer, Screen, Upstream, World};
use expect_test::{Expect, expect};

use crate::terminal::open;

const ANSWER: &str = "Here:\n\n| name | what it does | cost |\n|---|---|---|\n| alpha | reads files and prints them | 1 |\n| 日本語 | 表を表示します | 2 |\n\nSee https://example.com/a/long/way/to/it for more, and `code` too.\n\n- one item that is longer than forty columns are wide\n- 日本語のとても長い文章はここで折り返される必要がありますから\n\n```rust\nfn main() { println!(\"a row of code\"); }\n```\n";

/// What a person sees after this session.
#[track_caller]
fn check(columns: u16, expected: &Expect) {
    let upstream = Upstream::start();
    let world = World::new();
    world.write_config(&format!(
        "{}\n[models.down]\nendpoint = \"http://127.0.0.1:1/v1\"\nmodel = \"gone\"\n[tools]\nbuiltin = true\n[mcp.auto_approve]\n\"aish__time\" = true\n",
        upstream.config("test")
    ));
    let _daemon = world.daemon().spawn();
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    let call = Answer::stream().then_call(0, "call_1", "aish__time", "{\"zone\":\"utc\"}");
    upstream.answer(call);
    upstream.answer(Answer::text(
        "It is late, and nothing more is known of it here.",
    ));
    upstream.answer(Answer::text(ANSWER));
    let mut screen = open(&world, columns, 40);
    let mut say = |line: &str, then: &str, prompt: &str| {
        screen.key(&format!("{line}\r"));
        screen.wait_for(then);
        screen.wait_rows("the prompt", |rows| {
            rows.last().is_some_and(|it| it.ends_with(prompt))
        });
    };
    say("what time is it?", "here.", "test ○");
    say("show me a table", "a row of code", "test ○");
    say(":edit", "", "test ○ :edit show me a table");
    // Ctrl-U
    say("\u{15}:model down", "model: down", "down ○");
    say("are you there?", "doctor", "down !");
    say("?", "suspends", "down !");
    expected.assert_eq(&seen(&screen));
}

/// The rows, without what another run has otherwise.
fn seen(screen: &Screen) -> String {
    let rows = screen.rows();
    // The greeting has the name of the terminal in it.
    let rows = rows.iter().skip_while(|it| !it.starts_with("proj · test"));
    let timeless = rows.map(|row| {
        if row.contains("+00:00") {
            return "  │ THE TIME\n".to_owned();
        }
        let words: Vec<&str> = row.split(' ').collect();
        let shown = words.iter().enumerate().map(|(at, word)| {
            let is_time = matches!(words.get(at + 1), Some(&("ms" | "s")));
            if is_time { "N" } else { word }
        });
        shown.collect::<Vec<_>>().join(" ") + "\n"
    });
    timeless.collect()
}

#[test]
fn a_narrow_terminal() {
    check(
        40,
        &expect![[r#"
            proj · test ○ what time is it?
              ┌ aish__time zone=utc
              │ THE TIME
              └ ok · N ms
            It is late, and nothing more is known of
            it here.
            14 in · 10 out · N s
            proj · test ○ show me a table
            Here:

            ┌────────┬──────────────────────┬──────┐
            │ name   │ what it does         │ cost │
            ├────────┼──────────────────────┼──────┤
            │ alpha  │ reads files and      │ 1    │
            │        │ prints them          │      │
            │ 日本語 │ 表を表示します       │ 2    │
            └────────┴──────────────────────┴──────┘

            See https://example.com/a/long/way/to/it
            for more, and code too.

            • one item that is longer than forty
              columns are wide
            • 日本語のとても長い文章はここで折り返さ
              れる必要がありますから

            ```rust
            fn main() { println!("a row of code"); }
            ```
            7 in · 5 out · N s
            proj · test ○ :edit
            proj · test ○ :model down
            proj uses down from its next turn on
            [aish] model: down
            proj · down ○ are you there?
            [aish] the server of models.down failed;
                   :retry asks again: transport:
                   Connection refused
            [aish] hint: start the server of
                   models.down, or ask another
                   preset with :model NAME; aishctl
                   doctor looks at all of them
            proj · down ! ?
            [aish] a plain line is a question;
                   !COMMAND runs here, and the model
                   sees it
            [aish] behind a colon or a slash:
            [aish] :help [COMMAND]   :queue   :queue
                   drop N   :cancel   :retry
                   :continue
            [aish] :now TEXT cancels and asks   :ask
                   TEXT asks what begins with a sign
            [aish] :send sends what is dear
            [aish] :edit asks the last question in
                   other words, in a branch
            [aish] :copy   :copy code   :thinking
                   :result last   :log
            [aish] :confirm   :confirm allow c1
                   :confirm deny c1 [REASON]
            [aish] or at the question: y, n, e,
                   Alt-y, Alt-n, ?
            [aish] :norris GOAL   :norris pause
                   :norris resume   :norris halt
            [aish] :changes   :undo   :redo   :todo
                   :usage   :status
            [aish] :new [TITLE]   :switch [NAME]
                   :conv ls   :model NAME
            [aish] :route on   :fallback on   :quit
                   (or Ctrl-D)   Ctrl-C cancels
            [aish] every other aishctl command too,
                   e.g. :search TEXT
            [aish] on a terminal: \ at the end or an
                   open ``` goes on in the next row;
            [aish] Tab completes, Ctrl-R searches;
                   Ctrl-C stops the answer or the
                   command
            [aish] and keeps the line, else clears
                   it; twice leaves; Ctrl-Z suspends
            proj · down !
        "#]],
    );
}

#[test]
fn an_ordinary_terminal() {
    check(
        80,
        &expect![[r#"
            proj · test ○ what time is it?
              ┌ aish__time zone=utc · mcp.auto_approve aish__time
              │ THE TIME
              └ ok · N ms
            It is late, and nothing more is known of it here.
            14 in · 10 out · N s
            proj · test ○ show me a table
            Here:

            ┌────────┬─────────────────────────────┬──────┐
            │ name   │ what it does                │ cost │
            ├────────┼─────────────────────────────┼──────┤
            │ alpha  │ reads files and prints them │ 1    │
            │ 日本語 │ 表を表示します              │ 2    │
            └────────┴─────────────────────────────┴──────┘

            See https://example.com/a/long/way/to/it for more, and code too.

            • one item that is longer than forty columns are wide
            • 日本語のとても長い文章はここで折り返される必要がありますから

            ```rust
            fn main() { println!("a row of code"); }
            ```
            7 in · 5 out · N s
            proj · test ○ :edit
            proj · test ○ :model down
            proj uses down from its next turn on
            [aish] model: down
            proj · down ○ are you there?
            [aish] the server of models.down failed; :retry asks again: transport:
                   Connection refused
            [aish] hint: start the server of models.down, or ask another preset with :model
                   NAME; aishctl doctor looks at all of them
            proj · down ! ?
            [aish] a plain line is a question; !COMMAND runs here, and the model sees it
            [aish] behind a colon or a slash:
            [aish] :help [COMMAND]   :queue   :queue drop N   :cancel   :retry   :continue
            [aish] :now TEXT cancels and asks   :ask TEXT asks what begins with a sign
            [aish] :send sends what is dear
            [aish] :edit asks the last question in other words, in a branch
            [aish] :copy   :copy code   :thinking   :result last   :log
            [aish] :confirm   :confirm allow c1   :confirm deny c1 [REASON]
            [aish] or at the question: y, n, e, Alt-y, Alt-n, ?
            [aish] :norris GOAL   :norris pause   :norris resume   :norris halt
            [aish] :changes   :undo   :redo   :todo   :usage   :status
            [aish] :new [TITLE]   :switch [NAME]   :conv ls   :model NAME
            [aish] :route on   :fallback on   :quit (or Ctrl-D)   Ctrl-C cancels
            [aish] every other aishctl command too, e.g. :search TEXT
            [aish] on a terminal: \ at the end or an open ``` goes on in the next row;
            [aish] Tab completes, Ctrl-R searches; Ctrl-C stops the answer or the command
            [aish] and keeps the line, else clears it; twice leaves; Ctrl-Z suspends
            proj · down !
        "#]],
    );
}

#[test]
fn a_wide_terminal() {
    check(
        140,
        &expect![[r#"
            proj · test ○ what time is it?
              ┌ aish__time zone=utc · mcp.auto_approve aish__time
              │ THE TIME
              └ ok · N ms
            It is late, and nothing more is known of it here.
            14 in · 10 out · N s
            proj · test ○ show me a table
            Here:

            ┌────────┬─────────────────────────────┬──────┐
            │ name   │ what it does                │ cost │
            ├────────┼─────────────────────────────┼──────┤
            │ alpha  │ reads files and prints them │ 1    │
            │ 日本語 │ 表を表示します              │ 2    │
            └────────┴─────────────────────────────┴──────┘

            See https://example.com/a/long/way/to/it for more, and code too.

            • one item that is longer than forty columns are wide
            • 日本語のとても長い文章はここで折り返される必要がありますから

            ```rust
            fn main() { println!("a row of code"); }
            ```
            7 in · 5 out · N s
            proj · test ○ :edit
            proj · test ○ :model down
            proj uses down from its next turn on
            [aish] model: down
            proj · down ○ are you there?
            [aish] the server of models.down failed; :retry asks again: transport: Connection refused
            [aish] hint: start the server of models.down, or ask another preset with :model NAME; aishctl doctor looks at all of them
            proj · down ! ?
            [aish] a plain line is a question; !COMMAND runs here, and the model sees it
            [aish] behind a colon or a slash:
            [aish] :help [COMMAND]   :queue   :queue drop N   :cancel   :retry   :continue
            [aish] :now TEXT cancels and asks   :ask TEXT asks what begins with a sign
            [aish] :send sends what is dear
            [aish] :edit asks the last question in other words, in a branch
            [aish] :copy   :copy code   :thinking   :result last   :log
            [aish] :confirm   :confirm allow c1   :confirm deny c1 [REASON]
            [aish] or at the question: y, n, e, Alt-y, Alt-n, ?
            [aish] :norris GOAL   :norris pause   :norris resume   :norris halt
            [aish] :changes   :undo   :redo   :todo   :usage   :status
            [aish] :new [TITLE]   :switch [NAME]   :conv ls   :model NAME
            [aish] :route on   :fallback on   :quit (or Ctrl-D)   Ctrl-C cancels
            [aish] every other aishctl command too, e.g. :search TEXT
            [aish] on a terminal: \ at the end or an open ``` goes on in the next row;
            [aish] Tab completes, Ctrl-R searches; Ctrl-C stops the answer or the command
            [aish] and keeps the line, else clears it; twice leaves; Ctrl-Z suspends
            proj · down !
        "#]],
    );
}
