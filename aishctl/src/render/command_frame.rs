//! Commands on a screen: where they begin, what they print, how they end. A fold without IO. What a command
//! prints is a stranger's text: it is shown without what steers a terminal, line by line behind a bar.

use std::collections::BTreeMap;

use aish_proto::event::{ClientEvent, Event, ShellFinished, ShellOutput};
use aish_proto::id::TurnId;
use aish_proto::shell::ShellEnding;

use crate::render::frame_marks::FrameMarks;
use crate::render::markdown::GlyphSet;
use crate::safe;

/// Lines of one command that are shown while they come.
const MOST_LINES: u32 = 400;
/// A line that does not end is shown in pieces.
const MOST_OPEN_BYTES: usize = 4 << 10;
/// How a line begins that aish adds to what a command has printed.
const REMARK: &str = "[aish] ";

/// The commands that run, as far as they have been seen.
#[derive(Debug, Default)]
pub struct CommandFrames {
    running: BTreeMap<String, CommandFrame>,
    /// Where commands run from now on, of whose turn: their ends say so, or do not.
    moved: Vec<(Option<TurnId>, String)>,
    glyphs: GlyphSet,
    marks: FrameMarks,
}

#[derive(Debug, Default)]
struct CommandFrame {
    marks: FrameMarks,
    turn: Option<TurnId>,
    /// The beginning of a line whose end has not come.
    open: String,
    lines: u32,
    /// How much of the output was taken in.
    seen: u64,
    /// Lines that were not shown.
    left_out: u64,
}

impl CommandFrames {
    /// Whether a frame begins with the rows of this event.
    pub fn begins(event: &ClientEvent) -> bool {
        match &event.data {
            Event::ShellStarted(_) => true,
            Event::ShellFinished(finished) => finished.ending == ShellEnding::Refused,
            _ => false,
        }
    }

    /// With these marks in front of its rows.
    pub fn drawn_with(glyphs: GlyphSet) -> Self {
        Self {
            running: BTreeMap::new(),
            moved: vec![],
            glyphs,
            marks: FrameMarks::of(glyphs),
        }
    }

    /// What they are drawn with.
    pub fn glyphs(&self) -> GlyphSet {
        self.glyphs
    }

    /// The rows that an event adds; `None`: it is about no command.
    pub fn take(&mut self, event: &ClientEvent) -> Option<Vec<String>> {
        let Self {
            running,
            moved,
            marks,
            ..
        } = self;
        let frame = || CommandFrame {
            marks: *marks,
            turn: event.turn,
            ..CommandFrame::default()
        };
        Some(match &event.data {
            Event::ShellStarted(started) => {
                running.insert(started.call.clone(), frame());
                command_rows(&started.command, marks.begins, marks.goes_on)
            }
            Event::ShellOutput(output) => {
                let frame = running.entry(output.call.clone()).or_insert_with(frame);
                frame.print(output)
            }
            Event::ShellFinished(finished) => {
                let begun = running.remove(&finished.call);
                let mut rows = begun.unwrap_or_else(frame).finish(finished);
                let of_it = moved.extract_if(.., |it| it.0 == event.turn);
                for (_, directory) in of_it.collect::<Vec<_>>() {
                    let prints = marks.prints;
                    let said = format!("{prints}{REMARK}commands run in {directory} from now on");
                    if !rows.contains(&said) {
                        rows.insert(rows.len() - 1, directory_row(*marks, &directory));
                    }
                }
                rows
            }
            Event::CwdChanged(changed) => {
                let directory = safe::one_line(&changed.cwd);
                if !running.values().any(|it| it.turn == event.turn) {
                    return Some(vec![directory_row(*marks, &directory)]);
                }
                moved.push((event.turn, directory));
                vec![]
            }
            _ => return None,
        })
    }
}

fn directory_row(marks: FrameMarks, directory: &str) -> String {
    format!("{}directory: {directory}", marks.prints)
}

/// A row for each line of a command, the first with another mark than those behind it.
fn command_rows(command: &str, first: &str, behind: &str) -> Vec<String> {
    let lines = command.split('\n').enumerate();
    let row = |(at, line)| {
        let mark = if at == 0 { first } else { behind };
        format!("{mark}{}", safe::visible(line))
    };
    lines.map(row).collect()
}

impl CommandFrame {
    fn print(&mut self, output: &ShellOutput) -> Vec<String> {
        let end = output.offset + output.text.len() as u64;
        if end <= self.seen {
            return vec![];
        }
        let mut rows = vec![];
        // What came before may come again after a reconnect.
        let known = usize::try_from(self.seen.saturating_sub(output.offset)).unwrap_or(0);
        let text = output.text.get(known..).unwrap_or(&output.text);
        if output.offset > self.seen && self.seen > 0 || output.gap {
            self.open.clear();
            rows.push(format!("{}{}", self.marks.prints, self.marks.gap));
        }
        self.seen = end;
        self.add(text, &mut rows);
        rows
    }

    fn add(&mut self, text: &str, rows: &mut Vec<String>) {
        for piece in text.split_inclusive('\n') {
            self.open.push_str(piece.trim_end_matches('\n'));
            if piece.ends_with('\n') || self.open.len() > MOST_OPEN_BYTES {
                self.row(rows);
            }
        }
    }

    fn row(&mut self, rows: &mut Vec<String>) {
        let line = std::mem::take(&mut self.open);
        self.lines += 1;
        if self.lines > MOST_LINES {
            self.left_out += 1;
            return;
        }
        // A progress bar draws over itself: its last word counts.
        let line = line.trim_end_matches('\r');
        let line = line.rsplit('\r').next().unwrap_or(line);
        let prints = self.marks.prints;
        rows.push(format!("{prints}{}", safe::screen(line).replace('\n', " ")));
    }

    fn finish(mut self, finished: &ShellFinished) -> Vec<String> {
        let mut rows = vec![];
        let FrameMarks {
            begins: _,
            goes_on,
            prints,
            ends,
            refused,
            gap,
            between,
        } = self.marks;
        if finished.ending == ShellEnding::Refused {
            let why = finished.output.strip_prefix(REMARK);
            let why = safe::one_line(why.unwrap_or(&finished.output));
            let mut rows = command_rows(&finished.command, refused, goes_on);
            rows.push(format!("    not run: {why}"));
            return rows;
        }
        // Deltas are a courtesy: what they did not bring is here, unless it is too long.
        let whole = finished.kept.is_none() && self.seen < finished.bytes.max(1);
        let unseen = usize::try_from(self.seen).ok().filter(|_| whole);
        if let Some(rest) = unseen.and_then(|it| finished.output.get(it..)) {
            self.add(rest, &mut rows);
        }
        if !self.open.is_empty() {
            self.row(&mut rows);
        }
        if !whole {
            let said = remarks(&finished.output).into_iter();
            rows.extend(said.map(|it| format!("{prints}{}", safe::one_line(it))));
        }
        if self.left_out > 0 {
            rows.push(format!("{prints}{gap} {} lines more", self.left_out));
        }
        if let Some(kept) = &finished.kept {
            let bytes = kept.bytes;
            let what = if finished.ending == ShellEnding::Cut {
                "its beginning"
            } else {
                "all of it"
            };
            rows.push(format!(
                "{prints}{what}, {bytes} bytes: aishctl result {}",
                kept.result
            ));
        }
        rows.push(format!("{ends}{}", ending_with(finished, between)));
        rows
    }
}

/// What aish has added below what was printed: no piece of the output has brought it.
fn remarks(output: &str) -> Vec<&str> {
    let last = output.lines().rev();
    let mut said: Vec<&str> = last.take_while(|it| it.starts_with(REMARK)).collect();
    said.reverse();
    said
}

pub(crate) fn ending(finished: &ShellFinished) -> String {
    ending_with(finished, FrameMarks::default().between)
}

fn ending_with(finished: &ShellFinished, between: &str) -> String {
    let ShellFinished {
        ending,
        exit_code,
        signal,
        ms,
        job,
        ..
    } = finished;
    let how = how_it_ended(*ending, *exit_code, *signal, *ms, between);
    match job {
        Some(job) => format!("{job} {how}"),
        None => how,
    }
}

/// How a command ended and how long it took, in a few words.
pub(crate) fn how_it_ended(
    ending: ShellEnding,
    exit_code: Option<i32>,
    signal: Option<i32>,
    ms: Option<u64>,
    between: &str,
) -> String {
    let how = match ending {
        ShellEnding::Exited => format!("exit {}", exit_code.unwrap_or_default()),
        ShellEnding::Signalled => format!("signal {}", signal.unwrap_or_default()),
        ShellEnding::TimedOut => "ended: its time was over".to_owned(),
        ShellEnding::Cut => "ended: it printed too much".to_owned(),
        ShellEnding::Full => "ended: what it wrote takes too much room".to_owned(),
        ShellEnding::Cancelled => "cancelled".to_owned(),
        ShellEnding::Unknown => {
            "interrupted: what it did is not known, and it is not run again".to_owned()
        }
        ShellEnding::Failed => "could not be started".to_owned(),
        ShellEnding::Refused => "not run".to_owned(),
        ShellEnding::Background => return "goes on in the background".to_owned(),
    };
    match ms {
        Some(ms @ ..1000) => format!("{how}{between}{ms} ms"),
        Some(ms) => format!("{how}{between}{}.{} s", ms / 1000, ms % 1000 / 100),
        None => how,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_daemon;

    #[track_caller]
    fn check(events: &[(&str, Value)], expected: &[&str]) {
        check_drawn(GlyphSet::default(), events, expected);
    }

    #[track_caller]
    fn check_drawn(glyphs: GlyphSet, events: &[(&str, Value)], expected: &[&str]) {
        let mut frames = CommandFrames::drawn_with(glyphs);
        let mut rows = vec![];
        for (kind, data) in events {
            let event = test_daemon::envelope(None, kind, data.clone());
            let event = test_daemon::event(event);
            rows.extend(frames.take(&event).unwrap());
        }
        assert_eq!(expected, rows);
    }

    fn started() -> (&'static str, Value) {
        let data = json!({
            "call": "cmd0-0", "command": "ls\u{1b}[2J", "cwd": "/w", "shell": "/bin/sh", "digest": "", "rule": ""
        });
        ("shellStarted", data)
    }

    fn output(offset: u64, text: &str) -> (&'static str, Value) {
        let data = json!({"call": "cmd0-0", "offset": offset, "text": text});
        ("shellOutput", data)
    }

    fn finished(output: &str, more: &Value) -> (&'static str, Value) {
        let mut data = json!({
            "call": "cmd0-0", "command": "ls", "ending": "exited", "exitCode": 0, "output": output,
            "bytes": output.len(), "ms": 6, "intoContext": true
        });
        data.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        ("shellFinished", data)
    }

    #[test]
    fn a_command_of_several_lines_has_as_many_rows() {
        let (kind, mut data) = started();
        data["command"] = json!("for f in *; do\n  echo $f\u{1b}\ndone");
        check(
            &[(kind, data), finished("", &json!({}))],
            &[
                "  ┌ for f in *; do",
                "  ┊   echo $f\\u{1b}",
                "  ┊ done",
                "  └ exit 0 · 6 ms",
            ],
        );
    }

    #[test]
    fn where_commands_run_from_now_on_is_said_once() {
        let moved = ("cwdChanged", json!({"cwd": "/w/sub", "from": "/w"}));
        let said = "[aish] commands run in /w/sub from now on\n";
        check(
            &[started(), moved.clone(), finished(said, &json!({}))],
            &[
                "  ┌ ls\\u{1b}[2J",
                "  │ [aish] commands run in /w/sub from now on",
                "  └ exit 0 · 6 ms",
            ],
        );
        check(
            &[started(), moved.clone(), finished("", &json!({}))],
            &[
                "  ┌ ls\\u{1b}[2J",
                "  │ directory: /w/sub",
                "  └ exit 0 · 6 ms",
            ],
        );
        check(&[moved], &["  │ directory: /w/sub"]);
    }

    #[test]
    fn a_command_stands_in_a_frame_and_steers_no_terminal() {
        check(
            &[
                started(),
                output(0, "a\n\u{1b}]0;evil\u{7}b"),
                output(12, "c\n"),
                finished("a\n\u{1b}]0;evil\u{7}bc\n", &json!({})),
            ],
            &[
                "  ┌ ls\\u{1b}[2J",
                "  │ a",
                "  │ ]0;evilbc",
                "  └ exit 0 · 6 ms",
            ],
        );
    }

    #[test]
    fn who_listens_hears_words_and_no_boxes() {
        check_drawn(
            GlyphSet::Words,
            &[
                started(),
                output(0, "a\n"),
                output(9, "b\n"),
                finished("", &json!({})),
            ],
            &[
                "  run: ls\\u{1b}[2J",
                "  out: a",
                "  out: ...",
                "  out: b",
                "  end: exit 0, 6 ms",
            ],
        );
        let denied = finished("[aish] denied by user", &json!({"ending": "refused"}));
        check_drawn(
            GlyphSet::Words,
            &[denied],
            &["  refused: ls", "    not run: denied by user"],
        );
    }

    #[test]
    fn what_no_delta_brought_stands_before_the_end() {
        check(
            &[started(), finished("a\nb\n", &json!({}))],
            &["  ┌ ls\\u{1b}[2J", "  │ a", "  │ b", "  └ exit 0 · 6 ms"],
        );
        check(
            &[
                started(),
                output(0, "a\n"),
                output(0, "a\n"),
                finished("a\nb", &json!({})),
            ],
            &["  ┌ ls\\u{1b}[2J", "  │ a", "  │ b", "  └ exit 0 · 6 ms"],
        );
    }

    #[test]
    fn the_way_it_ended_is_told() {
        for (more, expected) in [
            (json!({"exitCode": 3}), "  └ exit 3 · 6 ms"),
            (
                json!({"ending": "signalled", "signal": 9, "ms": 61_234}),
                "  └ signal 9 · 61.2 s",
            ),
            (
                json!({"ending": "timedOut"}),
                "  └ ended: its time was over · 6 ms",
            ),
            (
                json!({"ending": "cut"}),
                "  └ ended: it printed too much · 6 ms",
            ),
        ] {
            check(&[finished("", &more)], &[expected]);
        }
        check(
            &[finished(
                "[aish] denied by user",
                &json!({"ending": "refused"}),
            )],
            &["  ✗ ls", "    not run: denied by user"],
        );
    }

    /// What aish says of it is seen though all that was printed has been.
    #[test]
    fn a_remark_stands_below_what_was_printed() {
        check(
            &[
                started(),
                output(0, "one"),
                finished(
                    "one\n[aish] commands run in /w from now on\n",
                    &json!({"bytes": 3}),
                ),
            ],
            &[
                "  ┌ ls\\u{1b}[2J",
                "  │ one",
                "  │ [aish] commands run in /w from now on",
                "  └ exit 0 · 6 ms",
            ],
        );
    }

    #[test]
    fn a_progress_bar_is_its_last_word_and_a_flood_is_bounded() {
        check(
            &[
                started(),
                output(0, "10%\r50%\r100%\r\n"),
                finished("", &json!({"bytes": 14})),
            ],
            &["  ┌ ls\\u{1b}[2J", "  │ 100%", "  └ exit 0 · 6 ms"],
        );
        let mut frames = CommandFrames::default();
        let flood = "y\n".repeat(100_000);
        let (kind, data) = output(0, &flood);
        let event = test_daemon::event(test_daemon::envelope(None, kind, data));
        assert_eq!(400, frames.take(&event).unwrap().len());
    }
}
