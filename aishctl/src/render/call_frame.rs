//! Calls of tools on a screen: what is called, the beginning of what came of it, how it ended. A fold without IO.
//! Arguments and results are strangers' text: they are shown without what steers a terminal, and in few rows.

use std::collections::BTreeMap;

use aish_proto::event::{CalledTool, ClientEvent, Event, ToolCall, ToolResult};
use serde_json::{Map, Value};
use unicode_width::UnicodeWidthStr as _;

use crate::render::frame_marks::FrameMarks;
use crate::render::markdown::GlyphSet;
use crate::render::{progress, table, todos};
use crate::safe;

/// Rows of a result that are shown.
const RESULT_ROWS: usize = 3;
/// Where nothing says how wide rows are.
const COLUMNS: usize = 100;
/// One argument among others.
const ARGUMENT_COLUMNS: usize = 40;
/// Our own tools for files, whose calls have words of their own.
const FILES: &str = "files__";

/// The calls that run, as far as they have been seen.
#[derive(Debug, Default)]
pub(crate) struct CallFrames {
    /// By the id of the call.
    running: BTreeMap<String, String>,
    /// What the last message called, for those that never begin.
    called: Vec<CalledTool>,
    /// The call whose first row is the last that was shown.
    on_top: Option<String>,
    /// The row of the daemon's own words that came last: what failed on the way is told in one before its result.
    warned: String,
    marks: FrameMarks,
    columns: Option<usize>,
    /// How a person sees the rest of a result.
    pub(crate) more: Option<&'static str>,
}

impl CallFrames {
    pub(crate) fn drawn_with(self, glyphs: GlyphSet) -> Self {
        Self {
            marks: FrameMarks::of(glyphs),
            ..self
        }
    }

    pub(crate) fn in_columns(self, columns: Option<usize>) -> Self {
        Self { columns, ..self }
    }

    /// The rows to come are of that many columns.
    pub(crate) fn resize(&mut self, columns: Option<usize>) {
        self.columns = columns;
    }

    /// Other rows were shown since.
    pub(crate) fn covered(&mut self) {
        self.on_top = None;
    }

    /// The rows that an event adds; `None`: it is about no call that runs or has run.
    pub(crate) fn take(&mut self, event: &ClientEvent) -> Option<Vec<String>> {
        match &event.data {
            Event::AssistantMessage(message) => {
                self.called.clone_from(&message.tool_calls);
                None
            }
            // The list itself is shown.
            Event::ToolCall(called) if called.name == todos::WRITTEN_BY => Some(vec![]),
            Event::ToolResult(result) if result.ok && result.name == todos::WRITTEN_BY => {
                Some(vec![])
            }
            Event::ToolCall(called) => Some(vec![self.begin(called)]),
            Event::ToolResult(result) if result.denied.is_none() => Some(self.end(result)),
            Event::Status(said) => {
                self.warned.clone_from(&said.text);
                None
            }
            _ => None,
        }
    }

    fn columns(&self) -> usize {
        self.columns.unwrap_or(COLUMNS).max(ARGUMENT_COLUMNS / 2)
    }

    fn begin(&mut self, called: &ToolCall) -> String {
        let begins = self.marks.begins;
        let room = self.columns().saturating_sub(begins.width());
        let said = head(called, room);
        self.running.insert(called.call.clone(), said.clone());
        self.on_top = Some(called.call.clone());
        // Where a person said yes a moment ago nobody has to be told.
        let rule = format!("{}{}", self.marks.between, safe::one_line(&called.rule));
        let tells = called.confirm.is_none() && said.width() + rule.width() <= room;
        format!("{begins}{said}{}", if tells { &rule } else { "" })
    }

    fn end(&mut self, result: &ToolResult) -> Vec<String> {
        let FrameMarks {
            begins,
            goes_on: _,
            prints,
            ends,
            gap,
            between,
            refused: _,
        } = self.marks;
        let mut rows = vec![];
        let begun = self.running.remove(&result.call);
        if begun.is_none() {
            let called = self.called.iter().find(|it| it.id == result.call);
            let arguments = called.map_or("{}", |it| it.arguments.as_str());
            let room = self.columns().saturating_sub(begins.width());
            let said = in_short(&result.name, arguments, room);
            rows.push(format!("{begins}{said}"));
        } else if self.on_top.take().as_ref() != Some(&result.call) {
            let begun = begun.unwrap_or_default();
            rows.push(format!("{begins}{begun}"));
        }
        let trouble = progress::trouble(result);
        let is_said =
            trouble.is_some() && trouble == std::mem::take(&mut self.warned).lines().next();
        let trouble = trouble.map(safe::one_line);
        if trouble.is_none() {
            let room = self.columns().saturating_sub(prints.width());
            let lines = result.content.lines().map(str::trim_end);
            let mut lines = lines.filter(|it| !it.is_empty());
            let shown = lines.by_ref().take(RESULT_ROWS);
            rows.extend(shown.map(|it| format!("{prints}{}", table::cut(it, room))));
            let rest = lines.count();
            if rest > 0 || result.kept.is_some() {
                let lines = match (rest, &result.kept) {
                    (_, Some(kept)) => {
                        format!("{} bytes: aishctl result {}", kept.bytes, kept.result)
                    }
                    (1, None) => "1 line more".to_owned(),
                    (rest, None) => format!("{rest} lines more"),
                };
                let more = self.more.filter(|_| result.kept.is_none());
                let more = more.map_or_else(String::new, |it| format!(" ({it})"));
                rows.push(format!("{prints}{gap} {lines}{more}"));
            }
        }
        let how = match (trouble, result.ok) {
            (Some(_), _) if is_said => "failed".to_owned(),
            (Some(trouble), _) => trouble,
            (None, true) => "ok".to_owned(),
            (None, false) => "failed".to_owned(),
        };
        let ms = result.ms.map(|ms| format!("{between}{}", length(ms)));
        rows.push(format!("{ends}{how}{}", ms.unwrap_or_default()));
        rows
    }
}

/// `38 ms`, `6.1 s`.
fn length(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        _ => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
    }
}

/// A call in a few words that fit into so many columns: `edit src/main.rs`, `fs__read path=Cargo.toml`.
pub(crate) fn head(called: &ToolCall, columns: usize) -> String {
    in_short(&called.name, &called.arguments, columns)
}

/// The same of a name and the JSON of its arguments.
pub(crate) fn in_short(name: &str, arguments: &str, columns: usize) -> String {
    let Ok(given) = serde_json::from_str::<Map<String, Value>>(arguments) else {
        return table::cut(
            &format!("{} {}", safe::visible(name), safe::visible(arguments)),
            columns,
        );
    };
    let of_files = name
        .strip_prefix(FILES)
        .and_then(|it| file_words(it, &given));
    let said = of_files.unwrap_or_else(|| {
        let mut said = safe::visible(name);
        for (name, value) in &given {
            let value = table::cut(&word(value), ARGUMENT_COLUMNS);
            said.push_str(&format!(" {}={value}", safe::visible(name)));
        }
        said
    });
    table::cut(&said, columns)
}

/// What is done to which file, without the texts.
fn file_words(tool: &str, given: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| given.get(name).and_then(Value::as_str).map(safe::visible);
    Some(match tool {
        "read" | "edit" | "write" => format!("{tool} {}", text("file_path")?),
        "list" => match (text("path"), text("glob")) {
            (path, Some(glob)) => {
                format!("list {glob} in {}", path.unwrap_or_else(|| ".".to_owned()))
            }
            (path, None) => format!("list {}", path.unwrap_or_else(|| ".".to_owned())),
        },
        "search" => {
            let place = text("path").map_or_else(String::new, |it| format!(" in {it}"));
            format!("search {:?}{place}", text("pattern")?)
        }
        _ => return None,
    })
}

/// A value on one line; a text that is one word without quotes.
fn word(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() && !text.contains([' ', '\n', '\t', '"', '=']) => {
            safe::visible(text)
        }
        other => safe::visible(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_daemon;

    #[track_caller]
    fn check(name: &str, arguments: &str, expected: &str) {
        assert_eq!(expected, in_short(name, arguments, 60));
    }

    #[test]
    fn a_call_is_a_few_words() {
        check(
            "fs__read",
            r#"{"path":"Cargo.toml"}"#,
            "fs__read path=Cargo.toml",
        );
        check(
            "a__b",
            r#"{"n":3,"text":"two words","on":true,"l":[1,2]}"#,
            r#"a__b l=[1,2] n=3 on=true text="two words""#,
        );
        check("a__b", "{}", "a__b");
        check("a__b", "no json", "a__b no json");
        check(
            "a__b",
            r#"{"x":"a\u001b[2J\u202e"}"#,
            r"a__b x=a\u{1b}[2J\u{202e}",
        );
        let long = json!({"text": "x".repeat(500)}).to_string();
        assert_eq!(60, in_short("files__remember", &long, 60).width());
        check(
            "files__edit",
            r#"{"file_path":"src/main.rs","old_string":"a","new_string":"b"}"#,
            "edit src/main.rs",
        );
        check(
            "files__write",
            r#"{"file_path":"n.md","content":"x"}"#,
            "write n.md",
        );
        check("files__list", "{}", "list .");
        check(
            "files__list",
            r#"{"glob":"*.rs","path":"src"}"#,
            "list *.rs in src",
        );
        check(
            "files__search",
            r#"{"pattern":"a \"b\"","path":"src"}"#,
            r#"search "a \"b\"" in src"#,
        );
        check("files__edit", r#"{"file":"x"}"#, "files__edit file=x");
    }

    fn event(kind: &str, call: &str, more: &Value) -> ClientEvent {
        let mut data = json!({"call": call, "name": "fs__read", "arguments": "{\"path\":\"a\"}",
            "digest": "", "rule": "auto", "ok": true, "content": "", "ms": 38});
        for (name, value) in more.as_object().unwrap() {
            data[name] = value.clone();
        }
        test_daemon::event(test_daemon::envelope(None, kind, data))
    }

    fn rows(events: &[(&str, &str, Value)]) -> String {
        let mut frames = CallFrames {
            columns: Some(40),
            more: Some(":result last"),
            ..CallFrames::default()
        };
        let mut rows = String::new();
        for (kind, call, more) in events {
            for row in frames.take(&event(kind, call, more)).unwrap_or_default() {
                // All are indented alike, which an expectation does not show.
                rows.push_str(row.strip_prefix("  ").unwrap_or(&row));
                rows.push('\n');
            }
        }
        rows
    }

    #[test]
    fn the_head_of_a_result_stands_in_its_frame() {
        let long = format!("one\n\n{}\nthree\nfour\nfive\n", "w".repeat(99));
        expect_test::expect![[r#"
              ┌ fs__read path=a · auto
              │ one
              │ wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww…
              │ three
              │ … 2 lines more (:result last)
              └ ok · 38 ms
        "#]]
        .assert_eq(&rows(&[
            ("toolCall", "1", json!({})),
            ("toolResult", "1", json!({"content": long})),
        ]));
    }

    #[test]
    fn what_failed_on_the_way_is_said_once() {
        let refused =
            json!({"ok": false, "ms": null, "content": "[aish] the server is gone\nand more"});
        let said = json!({"level": "warning", "text": "the server is gone\nand more"});
        expect_test::expect![[r#"
              ┌ fs__read
              └ failed
              ┌ fs__read
              └ the server is gone
        "#]]
        .assert_eq(&rows(&[
            ("status", "", said),
            ("toolResult", "1", refused.clone()),
            ("toolResult", "2", refused),
        ]));
    }

    #[test]
    fn a_frame_that_is_covered_begins_again() {
        expect_test::expect![[r#"
              ┌ fs__read path=a · auto
              ┌ fs__read path=b · auto
              │ bee
              └ ok · 38 ms
              ┌ fs__read path=a
              └ failed · 6.1 s
        "#]]
        .assert_eq(&rows(&[
            ("toolCall", "1", json!({})),
            ("toolCall", "2", json!({"arguments": "{\"path\":\"b\"}"})),
            ("toolResult", "2", json!({"content": "bee"})),
            ("toolResult", "1", json!({"ok": false, "ms": 6123})),
        ]));
    }

    #[test]
    fn trouble_is_the_end_and_what_never_began_says_its_name() {
        expect_test::expect![[r#"
              ┌ fs__read path=a
              └ the server is gone
              ┌ fs__read
              └ failed · 38 ms
        "#]]
        .assert_eq(&rows(&[
            (
                "toolCall",
                "1",
                json!({"confirm": test_daemon::conversation()}),
            ),
            (
                "toolResult",
                "1",
                json!({"ok": false, "content": "[aish] the server is gone\nmore", "ms": null}),
            ),
            ("toolResult", "9", json!({"ok": false})),
            ("toolResult", "8", json!({"denied": "policy"})),
        ]));
    }
}
