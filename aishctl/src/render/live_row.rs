//! The one row that changes while a turn is at work: what the model thinks, which call it writes, how far a call is.
//! It is taken away again, and nothing of it is part of the conversation.

use std::time::Duration;

use aish_proto::event::{ClientEvent, Event, ToolProgress};
use tokio::time::Instant;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::render::markdown::GlyphSet;
use crate::render::{call_frame, size, table};
use crate::safe;

/// What is over sooner needs no row.
const SHOWN_AFTER: Duration = Duration::from_millis(400);
const SECOND: Duration = Duration::from_secs(1);
/// So much of the end of what is thought is kept.
const KEPT_BYTES: usize = 1024;
/// A call in the row.
const CALL_COLUMNS: usize = 50;

/// What goes on now.
#[derive(Debug, Default)]
pub(crate) struct LiveRow {
    work: Option<LiveWork>,
    calls: Vec<LiveCall>,
    glyphs: GlyphSet,
}

#[derive(Debug)]
enum LiveWork {
    Thinking {
        since: Instant,
        end: String,
    },
    /// The arguments of a call are being written.
    Writing {
        since: Instant,
        name: String,
        bytes: u64,
    },
}

#[derive(Debug)]
struct LiveCall {
    call: String,
    said: String,
    since: Instant,
    progress: Option<String>,
}

impl LiveRow {
    pub(crate) fn drawn_with(glyphs: GlyphSet) -> Self {
        Self {
            glyphs,
            ..Self::default()
        }
    }

    /// Takes an event in. How long was thought, where that ends with it.
    pub(crate) fn take(&mut self, event: &ClientEvent, now: Instant) -> Option<Duration> {
        match &event.data {
            Event::ReasoningDelta(delta) => {
                self.think(&delta.text, now);
                return None;
            }
            Event::ToolArgumentsDelta(delta) => {
                let end = delta.offset + delta.text.len() as u64;
                return self.write(&delta.name, end, now);
            }
            Event::ToolCall(called) => self.calls.push(LiveCall {
                call: called.call.clone(),
                said: call_frame::head(called, CALL_COLUMNS),
                since: now,
                progress: None,
            }),
            Event::ToolProgress(said) => {
                let call = self.calls.iter_mut().find(|it| it.call == said.call);
                if let Some(call) = call {
                    call.progress = how_far(said);
                }
                return None;
            }
            Event::ToolResult(result) => {
                self.calls.retain(|it| it.call != result.call);
                return None;
            }
            Event::TurnStarted(_) | Event::TurnFinished(_) | Event::Snapshot(_) => {
                self.calls.clear();
            }
            Event::TextDelta(_) | Event::AssistantMessage(_) => {}
            _ => return None,
        }
        self.end_work(now)
    }

    /// Nobody knows any more what goes on.
    pub(crate) fn clear(&mut self) {
        self.work = None;
        self.calls.clear();
    }

    fn think(&mut self, text: &str, now: Instant) {
        if !matches!(self.work, Some(LiveWork::Thinking { .. })) {
            self.work = Some(LiveWork::Thinking {
                since: now,
                end: String::new(),
            });
        }
        if let Some(LiveWork::Thinking { end, .. }) = &mut self.work {
            end.push_str(text);
            if end.len() > KEPT_BYTES {
                let from = end.ceil_char_boundary(end.len() - KEPT_BYTES);
                end.drain(..from);
            }
        }
    }

    fn write(&mut self, of: &str, end: u64, now: Instant) -> Option<Duration> {
        if let Some(LiveWork::Writing { name, bytes, .. }) = &mut self.work
            && name == of
        {
            *bytes = end;
            return None;
        }
        let thought = self.end_work(now);
        self.work = Some(LiveWork::Writing {
            since: now,
            name: of.to_owned(),
            bytes: end,
        });
        thought
    }

    fn end_work(&mut self, now: Instant) -> Option<Duration> {
        match self.work.take()? {
            LiveWork::Thinking { since, .. } => Some(now.duration_since(since)),
            LiveWork::Writing { .. } => None,
        }
    }

    fn since(&self) -> Option<Instant> {
        match &self.work {
            Some(LiveWork::Thinking { since, .. } | LiveWork::Writing { since, .. }) => {
                Some(*since)
            }
            None => self.calls.first().map(|it| it.since),
        }
    }

    /// When the row is another one by itself; never where there is none.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let since = self.since()?;
        let passed = now.duration_since(since);
        let next = if passed < SHOWN_AFTER {
            SHOWN_AFTER
        } else {
            SECOND * u32::try_from(passed.as_secs() + 1).unwrap_or(u32::MAX)
        };
        Some(since + next)
    }

    /// The row as it is now, in so many columns at most.
    pub(crate) fn row(&self, now: Instant, columns: usize) -> Option<String> {
        let passed = now.duration_since(self.since()?);
        if passed < SHOWN_AFTER {
            return None;
        }
        let seconds = passed.as_secs();
        let between = match self.glyphs {
            GlyphSet::Drawn => " · ",
            GlyphSet::Words => ", ",
        };
        let row = match &self.work {
            Some(LiveWork::Thinking { end, .. }) => {
                let begin = format!("thinking {seconds} s{between}");
                let room = columns.saturating_sub(begin.width());
                begin + &last_words(end, room)
            }
            Some(LiveWork::Writing { name, bytes, .. }) => {
                let (name, bytes) = (safe::visible(name), size::bytes(*bytes));
                format!("writing a call of {name}{between}{bytes}{between}{seconds} s")
            }
            None => {
                // The one that says something of itself.
                let call = self.calls.iter().rev().find(|it| it.progress.is_some());
                let call = call.or(self.calls.first())?;
                let seconds = now.duration_since(call.since).as_secs();
                let progress = call.progress.as_ref();
                let progress = progress.map_or_else(String::new, |it| format!("{between}{it}"));
                let more = match self.calls.len() {
                    0 | 1 => String::new(),
                    count => format!("{between}{} more", count - 1),
                };
                format!("{}{between}{seconds} s{progress}{more}", call.said)
            }
        };
        Some(table::cut(&row, columns))
    }
}

/// `300/1000 at it`.
fn how_far(said: &ToolProgress) -> Option<String> {
    let how_far = match (said.progress, said.total) {
        (Some(progress), Some(total)) => Some(format!("{progress}/{total}")),
        (Some(progress), None) => Some(progress.to_string()),
        (None, _) => None,
    };
    let message = said.message.as_deref().map(safe::one_line);
    let parts: Vec<String> = how_far.into_iter().chain(message).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// The end of a text in so many columns; it begins with a whole word.
fn last_words(text: &str, room: usize) -> String {
    let text = safe::one_line(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    if text.width() <= room {
        return text;
    }
    let mut left = room.saturating_sub(1);
    let fits = text.chars().rev().take_while(|it| {
        let wide = it.width().unwrap_or(0);
        let fits = wide <= left;
        left = left.saturating_sub(wide);
        fits
    });
    let from = text.len() - fits.map(char::len_utf8).sum::<usize>();
    let end = text.get(from..).unwrap_or_default();
    let whole = match text.get(..from) {
        Some(before) if !before.ends_with(' ') => end.split_once(' ').map(|it| it.1),
        Some(_) | None => None,
    };
    // One long word, as in a script without spaces, is cut.
    format!("…{}", whole.unwrap_or(end))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_daemon;

    struct Scene {
        live: LiveRow,
        now: Instant,
    }

    impl Scene {
        fn new() -> Self {
            Self {
                live: LiveRow::default(),
                now: Instant::now(),
            }
        }

        fn take(&mut self, kind: &str, data: Value) -> Option<Duration> {
            let event = test_daemon::event(test_daemon::envelope(None, kind, data));
            self.live.take(&event, self.now)
        }

        #[track_caller]
        fn check(&mut self, after_ms: u64, expected: Option<&str>) {
            self.now += Duration::from_millis(after_ms);
            assert_eq!(expected, self.live.row(self.now, 40).as_deref());
        }
    }

    fn delta(text: &str) -> Value {
        json!({"item": 0, "offset": 0, "text": text})
    }

    #[tokio::test(start_paused = true)]
    async fn thinking_is_seconds_and_last_words() {
        let mut scene = Scene::new();
        scene.check(0, None);
        scene.take("reasoningDelta", delta("first I\nlook"));
        scene.check(300, None);
        assert_eq!(
            Some(scene.now + Duration::from_millis(100)),
            scene.live.due(scene.now)
        );
        scene.check(200, Some("thinking 0 s · first I look"));
        scene.take(
            "reasoningDelta",
            delta(" at the linker, and then\u{1b}[2J further"),
        );
        scene.check(4000, Some("thinking 4 s · …and then[2J further"));
        assert_eq!(
            Some(scene.now + Duration::from_millis(500)),
            scene.live.due(scene.now)
        );
        let thought = scene.take("textDelta", delta("It"));
        assert_eq!(Some(Duration::from_millis(4500)), thought);
        scene.check(0, None);
        assert_eq!(None, scene.live.due(scene.now));
        scene.take("reasoningDelta", delta(&"漢".repeat(2000)));
        scene.check(1000, Some("thinking 1 s · …漢漢漢漢漢漢漢漢漢漢漢漢"));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_say_how_far_they_are() {
        let mut scene = Scene::new();
        let arguments = |text: &str| json!({"item": 0, "call": 0, "name": "files__write", "offset": 2048, "text": text});
        scene.take("toolArgumentsDelta", arguments("x"));
        scene.check(1000, Some("writing a call of files__write · 2.0 Ki…"));
        scene.take(
            "assistantMessage",
            json!({"item": 0, "text": "", "complete": true, "usage": null}),
        );
        scene.check(0, None);
        let call = |id: &str| {
            json!({"call": id, "name": "a__b", "arguments": "{}", "digest": "", "rule": "",
                "ok": true, "content": "", "progress": 3.0, "total": 10.0, "message": "at\nit"})
        };
        scene.take("toolCall", call("1"));
        scene.check(2000, Some("a__b · 2 s"));
        scene.take("toolCall", call("2"));
        scene.take("toolProgress", call("2"));
        scene.check(1000, Some("a__b · 1 s · 3/10 at it · 1 more"));
        scene.take("toolResult", call("2"));
        scene.check(0, Some("a__b · 3 s"));
        scene.take(
            "turnFinished",
            json!({"stopReason": "end", "text": "", "usage": null}),
        );
        scene.check(0, None);
    }
}
