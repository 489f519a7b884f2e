//! From events to rows of a screen or transcript: who asked, what was answered, what aish has to say.
//! A fold without IO; a row is a whole line, so that rows never mix.

use std::collections::BTreeMap;

use aish_proto::event::{
    ClientEvent, ConfirmRequested, Event, PresentClient, Snapshot, StatusLevel, TurnFinished,
    UserMessage,
};
use aish_proto::id::{ClientId, ConfirmId, TurnId};
use aish_proto::shell::ShellEnding;

use crate::render::call_frame::CallFrames;
use crate::render::command_frame::CommandFrames;
use crate::render::markdown::{Colours, GlyphSet, MarkdownWriter, ScreenRow, Style};
use crate::render::mcp_status::AwayServers;
use crate::render::picture_line::picture_line;
use crate::render::question;
use crate::render::thought_rows::ThoughtRows;
use crate::render::told_questions::{self, ToldQuestions};
use crate::render::turn_figures::TurnFigures;
use crate::render::turn_stream::{StreamStep, StreamedAnswer};
use crate::render::waiting_notice::WaitingNotice;
use crate::render::{auto_approve, event_lines, todos, turn_ending, undone};
use crate::safe;

/// One line, safe to show, without its line feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SafeRow {
    /// A question.
    Asked(RowAsker, String),
    /// A piece of an answer.
    Text(String),
    /// Shown as `[aish] …`.
    Notice(String),
    /// Dim, beside what was said.
    Aside(String),
}

/// Whose question it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowAsker {
    Us,
    Other,
}

/// What the rows are read by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowReader {
    /// A pipe, or a transcript.
    #[default]
    Plain,
    /// Somebody who can type a command.
    Person,
}

/// More rows of a command do not wait for the end of a block.
const MOST_BESIDE: usize = 20;

/// The conversation as far as it has been seen.
#[derive(Debug, Default)]
pub struct ConversationRows {
    us: Option<ClientId>,
    /// What we were called on connections that are gone.
    former: Vec<ClientId>,
    reader: RowReader,
    verbose: bool,
    /// Who is or was here, by the name that people know.
    names: BTreeMap<ClientId, String>,
    here: Vec<PresentClient>,
    answer: Option<StreamedAnswer>,
    /// Questions that wait for the running turn. They are shown when theirs starts: deltas come to each window
    /// in their own time, and the rows of all windows shall be in one order.
    waiting: Vec<(TurnId, Vec<SafeRow>)>,
    /// The beginning of a line whose end has not come.
    open: String,
    /// Where answers are laid out.
    writer: Option<(MarkdownWriter, Colours)>,
    /// Commands that run.
    frames: CommandFrames,
    /// Calls that run.
    calls: CallFrames,
    /// What models think, where that is shown.
    thoughts: Option<ThoughtRows>,
    /// Rows of commands that wait for a block of the answer to end: code with another program's rows in it is no code.
    beside: Vec<SafeRow>,
    unstored: WaitingNotice,
    questions: ToldQuestions,
    /// A window's confirms: those that waited when it was opened, until all that was before has been shown.
    past: Option<Vec<ConfirmId>>,
    servers: AwayServers,
    figures: TurnFigures,
}

impl ConversationRows {
    pub fn new(us: Option<ClientId>, verbose: bool) -> Self {
        Self {
            us,
            verbose,
            ..Self::default()
        }
    }

    pub fn read_by(mut self, reader: RowReader) -> Self {
        self.reader = reader;
        self.calls.more = match reader {
            RowReader::Plain => None,
            RowReader::Person => Some(":result last"),
        };
        self
    }

    /// Answers are laid out like this.
    pub fn laid_out(mut self, style: Option<Style>) -> Self {
        self.writer = style.map(|it| (MarkdownWriter::new(it), it.colours));
        self.calls.resize(style.and_then(|it| it.width));
        self
    }

    /// Commands stand in frames of these.
    pub fn framed_with(mut self, glyphs: GlyphSet) -> Self {
        self.frames = CommandFrames::drawn_with(glyphs);
        self.calls = std::mem::take(&mut self.calls).drawn_with(glyphs);
        self
    }

    /// What models think is shown as it comes, or not.
    pub fn show_thinking(&mut self, shows: bool) {
        self.thoughts = shows.then(ThoughtRows::default);
    }

    /// The rows to come are of that many columns.
    pub fn resize(&mut self, columns: usize) {
        self.calls.resize(Some(columns));
        if let Some((writer, _)) = &mut self.writer {
            writer.resize(Some(columns));
        }
    }

    /// The rows that an event adds. The same stored event must not come twice.
    pub fn take(&mut self, event: &ClientEvent) -> Vec<SafeRow> {
        let mut rows = Vec::new();
        rows.extend(self.unstored.event_line(event).map(|it| notice(&it)));
        let is_past = self.past.is_some();
        let thought = self.thoughts.as_mut().map(|it| it.take(event, is_past));
        rows.extend(thought.into_iter().flatten().map(SafeRow::Aside));
        if let Some(frame) = self.calls.take(event) {
            // A model's message is over when what it called runs.
            self.close(&mut rows);
            rows.extend(frame.into_iter().map(SafeRow::Text));
            return rows;
        }
        self.other(event, &mut rows);
        if !rows.is_empty() {
            self.calls.covered();
        }
        rows
    }

    /// The rows of what is no call that runs.
    fn other(&mut self, event: &ClientEvent, rows: &mut Vec<SafeRow>) {
        let is_person = self.reader == RowReader::Person;
        let figures = self.figures.take(event).filter(|_| is_person);
        if let Event::TurnStarted(_) | Event::TurnFinished(_) = &event.data {
            self.no_longer_waiting(event.turn, rows);
        }
        match &event.data {
            Event::UserMessage(message) => {
                let running = self.answer.as_ref().filter(|it| it.ended.is_none());
                match (running.map(|it| it.turn), event.turn) {
                    (Some(running), Some(turn)) if running != turn => {
                        let mut question = Vec::new();
                        self.question(event, message, &mut question);
                        self.waiting.push((turn, question));
                    }
                    (Some(_) | None, _) => {
                        self.close(rows);
                        self.question(event, message, rows);
                    }
                }
            }
            Event::Presence(presence) => self.presence(&presence.clients, rows),
            Event::Snapshot(snapshot) => self.snapshot(event, snapshot, rows),
            Event::ReplayComplete(_) => {
                self.past = None;
                if let Some(turn) = self.answer.as_ref().map(|it| it.turn) {
                    self.write(turn, event, rows);
                }
            }
            // No turn waits for it, so that it breaks into none that is being shown.
            Event::ConfirmRequested(request) if event.turn.is_none() => {
                self.question_rows(request, rows);
            }
            Event::ConfirmResolved(resolved) if event.turn.is_none() => {
                rows.push(self.questions.ended(resolved, self.reader_now()));
            }
            Event::CommandTried(tried) => {
                let colours = self.writer.as_ref().map(|it| it.1);
                rows.extend(self.questions.tried(tried, colours.unwrap_or_default()));
            }
            Event::ChangesSettled(settled) => {
                rows.extend(question::changes::settled(&settled.end).map(SafeRow::Text));
            }
            Event::ChangesPart(part) => {
                rows.extend(question::changes::part(&part.part).map(SafeRow::Text));
            }
            Event::TodosChanged(changed) => {
                let listed = todos::rows(&changed.todos, self.frames.glyphs());
                rows.extend(listed.into_iter().map(SafeRow::Text));
            }
            Event::ChangesUndo(undo) => rows.push(SafeRow::Text(undone::of_event(undo))),
            // It stands in the row that changes.
            Event::ToolProgress(_) if is_person => {}
            Event::TextDelta(_)
            | Event::ToolProgress(_)
            | Event::AssistantMessage(_)
            | Event::TurnFinished(_)
            | Event::TurnStarted(_)
            | Event::ConfirmRequested(_)
            | Event::ConfirmResolved(_) => {
                let Some(turn) = event.turn else { return };
                self.write(turn, event, rows);
                if let Event::TurnFinished(finished) = &event.data {
                    self.finish(event, finished, rows);
                    rows.extend(figures.map(SafeRow::Aside));
                }
            }
            _ => match self.frames.take(event) {
                Some(frame) => self.frame(event, frame, rows),
                // Before a line that has begun: none of it is on the screen yet, and it stays whole.
                None => rows.extend(self.event_line(event).map(|it| notice(&it))),
            },
        }
    }

    fn snapshot(&mut self, event: &ClientEvent, snapshot: &Snapshot, rows: &mut Vec<SafeRow>) {
        self.remember(&snapshot.presence);
        self.unasked(&[], rows);
        let waiting = snapshot.pending_confirms.iter();
        self.past = Some(waiting.map(|it| it.request.confirm).collect());
        for it in &snapshot.pending_confirms {
            self.questions.remember(&it.request);
        }
        rows.extend(snapshot.notice.iter().map(|it| notice(it)));
        if let Some(turn) = snapshot.running.as_ref().map(|it| it.turn) {
            self.write(turn, event, rows);
        }
    }

    /// The rows of a command.
    fn frame(&mut self, event: &ClientEvent, frame: Vec<String>, rows: &mut Vec<SafeRow>) {
        if event.turn.is_some() {
            // A model's message is over when what it proposed runs.
            self.close(rows);
        }
        self.beside.extend(frame.into_iter().map(SafeRow::Text));
        let stopped = self.stopped_by(event).map(|it| notice(&it));
        self.beside.extend(stopped);
        let is_over = matches!(event.data, Event::ShellFinished(_));
        if is_over || self.beside.len() > MOST_BESIDE || !self.is_within_block() {
            rows.append(&mut self.beside);
        }
    }

    /// Whether a person at this window can still be asked. A transcript asks nobody.
    /// Who types a command types it about what happens now.
    fn reader_now(&self) -> RowReader {
        match self.past {
            Some(_) => RowReader::Plain,
            None => self.reader,
        }
    }

    fn waits(&self, confirm: ConfirmId) -> bool {
        let waited = |past: &Vec<ConfirmId>| past.contains(&confirm);
        self.us.is_some() && self.past.as_ref().is_none_or(waited)
    }

    fn no_longer_waiting(&mut self, turn: Option<TurnId>, rows: &mut Vec<SafeRow>) {
        if let Some(at) = self.waiting.iter().position(|it| Some(it.0) == turn) {
            self.close(rows);
            rows.extend(self.waiting.remove(at).1);
        }
    }

    /// What waits still, for a transcript that ends here.
    pub fn rest(&mut self) -> Vec<SafeRow> {
        let waiting = std::mem::take(&mut self.waiting);
        let beside = std::mem::take(&mut self.beside);
        let waiting = waiting.into_iter().flat_map(|it| it.1);
        beside.into_iter().chain(waiting).collect()
    }

    /// A new connection gave us a new id.
    pub fn we_are(&mut self, us: ClientId) {
        self.former.extend(self.us.replace(us));
    }

    /// Takes from an event only who is here.
    pub fn learn_names(&mut self, event: &ClientEvent) {
        match &event.data {
            Event::Snapshot(snapshot) => self.remember(&snapshot.presence),
            Event::Presence(presence) => self.remember(&presence.clients),
            _ => {}
        }
    }

    /// Who is here, for the line that greets: `2 here: pts/3 you, pts/5`.
    pub fn here(&self) -> String {
        let names: Vec<String> = self
            .here
            .iter()
            .map(|it| {
                let name = self.name(Some(it.client_id));
                if Some(it.client_id) == self.us {
                    format!("{name} you")
                } else {
                    name
                }
            })
            .collect();
        format!("{} here: {}", names.len(), names.join(", "))
    }

    fn question(&self, event: &ClientEvent, message: &UserMessage, rows: &mut Vec<SafeRow>) {
        let text = safe::screen(&message.text);
        let mut lines = text.lines();
        let name = self.name(event.client);
        let asker = match event.client {
            Some(it) if Some(it) == self.us || self.former.contains(&it) => RowAsker::Us,
            Some(_) | None => RowAsker::Other,
        };
        rows.push(SafeRow::Asked(
            asker,
            format!("{name} › {}", lines.next().unwrap_or_default())
                .trim_start()
                .to_owned(),
        ));
        rows.extend(lines.map(|it| SafeRow::Asked(asker, format!("  {it}"))));
        for attached in &message.attachments {
            if let Some(picture) = &attached.picture {
                let line = safe::one_line(&picture_line(&attached.name, picture));
                rows.push(SafeRow::Asked(asker, format!("  + {line}")));
                continue;
            }
            let size = attached.text.len();
            let name = safe::one_line(&attached.name);
            rows.push(SafeRow::Asked(asker, format!("  + {name} ({size} bytes)")));
        }
    }

    /// Facts that are one line for people.
    fn event_line(&mut self, event: &ClientEvent) -> Option<String> {
        Some(match &event.data {
            Event::McpStatus(status) => {
                return self.servers.status_line(&status.server, self.verbose);
            }
            Event::Status(status) => {
                let is_told = status.level != StatusLevel::Debug || self.verbose;
                return is_told.then(|| status.text.clone());
            }
            Event::TurnQueued(queued) => {
                let position = queued.position;
                let who = event.client.map(|it| format!(" from {}", self.you(it)));
                let hint = match self.reader {
                    RowReader::Plain => String::new(),
                    RowReader::Person => format!(" — :queue to see, :queue drop {position}"),
                };
                format!("queued #{position}{}{hint}", who.unwrap_or_default())
            }
            Event::ResourceChanged(changed) => event_lines::resource_line(changed),
            Event::JobEnded(ended) => {
                let who = event.client.map(|it| self.you(it));
                return event_lines::job_line(ended, who.as_deref());
            }
            Event::ToolsChosen(chosen) => return event_lines::chosen_line(chosen),
            Event::ResourcePinned(pinned) => format!("pinned @{}:{}", pinned.alias, pinned.uri),
            Event::ResourceUnpinned(pinned) => {
                format!("no longer pinned: @{}:{}", pinned.alias, pinned.uri)
            }
            Event::Renamed(renamed) => {
                format!("this conversation is called {} now", renamed.title)
            }
            Event::ModelChanged(changed) => {
                format!(
                    "model: {}",
                    changed.model.as_deref().unwrap_or("the default")
                )
            }
            Event::ArchivedChanged(changed) if changed.archived => "archived".to_owned(),
            Event::ArchivedChanged(_) => "no longer archived".to_owned(),
            // What left the context is told by the status that comes with it.
            Event::Restored(_) => {
                "a turn that had left the model's context is in it again".to_owned()
            }
            Event::ResyncRequired(required) => format!(
                "what was missed cannot be shown here ({}); :log has what there is, and :switch CONV goes elsewhere",
                required.reason
            ),
            Event::ConfigReloaded(reloaded) => crate::render::notice::reloaded(reloaded),
            Event::ToolsChanged(changed) => return crate::render::notice::tools(changed),
            Event::Shutdown(shutdown) => format!("aishd stops ({})", shutdown.reason),
            _ => return event_lines::turn_line(event).or_else(|| event_lines::budget_line(event)),
        })
    }

    fn write(&mut self, turn: TurnId, event: &ClientEvent, rows: &mut Vec<SafeRow>) {
        if self.answer.as_ref().is_none_or(|it| it.turn != turn) {
            self.close(rows);
            self.answer = Some(StreamedAnswer::new(turn));
        }
        let steps = self
            .answer
            .as_mut()
            .map(|it| it.take(event))
            .unwrap_or_default();
        for step in steps {
            match step {
                StreamStep::Text(text) => self.text(&text, rows),
                StreamStep::Rewritten => {
                    self.close(rows);
                    rows.push(notice(
                        "the answer ended otherwise than it was shown; all of it follows",
                    ));
                }
                StreamStep::Notice(level, text) => {
                    if level != StatusLevel::Debug {
                        rows.push(notice(&text));
                    }
                }
                StreamStep::Resync | StreamStep::ReplayComplete | StreamStep::Tried(_) => {}
                StreamStep::Asked(request) => {
                    self.close(rows);
                    self.question_rows(&request, rows);
                }
                StreamStep::Settled(resolved) => {
                    rows.push(self.questions.ended(&resolved, self.reader_now()));
                }
            }
        }
        if let Event::AssistantMessage(_) | Event::TurnFinished(_) = &event.data {
            self.close(rows);
        }
    }

    fn question_rows(&mut self, request: &ConfirmRequested, rows: &mut Vec<SafeRow>) {
        // What waits is asked by the window itself.
        if !self.waits(request.confirm) {
            rows.extend(told_questions::past(request));
        }
        self.questions.remember(request);
    }

    fn text(&mut self, text: &str, rows: &mut Vec<SafeRow>) {
        if self.beside.is_empty() {
            self.write_down(text, rows);
            return;
        }
        for line in text.split_inclusive('\n') {
            self.write_down(line, rows);
            if !self.is_within_block() {
                rows.append(&mut self.beside);
            }
        }
    }

    fn write_down(&mut self, text: &str, rows: &mut Vec<SafeRow>) {
        if let Some((writer, colours)) = &mut self.writer {
            return rows.extend(painted(&writer.push(text), *colours));
        }
        for piece in safe::screen(text).split_inclusive('\n') {
            match piece.strip_suffix('\n') {
                Some(end) => rows.push(SafeRow::Text(std::mem::take(&mut self.open) + end)),
                None => self.open.push_str(piece),
            }
        }
    }

    /// The row of an answer that is being written, with its columns; none that would be two.
    pub fn row_begun(&self, columns: usize) -> Option<(String, usize)> {
        let (writer, colours) = self.writer.as_ref()?;
        let row = writer.row_begun()?;
        let width = row.width();
        (width < columns).then(|| (row.painted(*colours), width))
    }

    /// Whether what is being written goes on in a block that has begun; without a layout that is a line.
    fn is_within_block(&self) -> bool {
        match &self.writer {
            Some((writer, _)) => writer.is_within_block(),
            None => !self.open.is_empty(),
        }
    }

    /// Shows the beginning of a line that will not go on here.
    fn close(&mut self, rows: &mut Vec<SafeRow>) {
        if let Some((writer, colours)) = &mut self.writer {
            rows.extend(painted(&writer.finish(), *colours));
        }
        if !self.open.is_empty() {
            rows.push(SafeRow::Text(std::mem::take(&mut self.open)));
        }
        rows.append(&mut self.beside);
    }

    fn finish(&mut self, event: &ClientEvent, finished: &TurnFinished, rows: &mut Vec<SafeRow>) {
        let who = event.client.map(|it| self.you(it));
        let preset = self.answer.as_ref().and_then(|it| it.model.as_deref());
        let told = turn_ending::told(finished, who.as_deref(), preset);
        rows.extend(told.iter().map(|it| notice(it)));
    }

    fn presence(&mut self, clients: &[PresentClient], rows: &mut Vec<SafeRow>) {
        let before = std::mem::take(&mut self.here);
        self.remember(clients);
        let count = self.here.len();
        let is_in = |all: &[PresentClient], one: &PresentClient| {
            all.iter().any(|it| it.client_id == one.client_id)
        };
        for joined in self
            .here
            .iter()
            .filter(|it| !is_in(&before, it) && Some(it.client_id) != self.us)
        {
            rows.push(notice(&format!(
                "{} attached ({count} here)",
                self.name(Some(joined.client_id))
            )));
        }
        for left in before.iter().filter(|it| !is_in(&self.here, it)) {
            rows.push(notice(&format!(
                "{} left ({count} here)",
                self.name(Some(left.client_id))
            )));
        }
        self.unasked(&before, rows);
    }

    /// What clients let run unasked, where that is another thing than before.
    fn unasked(&self, before: &[PresentClient], rows: &mut Vec<SafeRow>) {
        let name = |it| self.name(Some(it));
        let said = auto_approve::auto_approve_line(before, &self.here, self.us, name);
        rows.extend(said.iter().map(|it| notice(it)));
    }

    fn remember(&mut self, clients: &[PresentClient]) {
        self.here = clients.to_vec();
        for client in clients {
            let name = client.tty.clone().unwrap_or_else(|| client.name.clone());
            self.names.insert(client.client_id, safe::one_line(&name));
        }
    }

    fn name(&self, client: Option<ClientId>) -> String {
        client
            .and_then(|it| self.names.get(&it))
            .cloned()
            .unwrap_or_default()
    }

    /// Somebody elsewhere ended a command.
    fn stopped_by(&self, event: &ClientEvent) -> Option<String> {
        let client = event.client.filter(|it| Some(*it) != self.us)?;
        let Event::ShellFinished(finished) = &event.data else {
            return None;
        };
        let cancelled = finished.ending == ShellEnding::Cancelled;
        cancelled.then(|| format!("cancelled by {}", self.you(client)))
    }

    fn you(&self, client: ClientId) -> String {
        match self.name(Some(client)) {
            _ if Some(client) == self.us => "you".to_owned(),
            name if name.is_empty() => "somebody".to_owned(),
            name => name,
        }
    }
}

fn painted(rows: &[ScreenRow], colours: Colours) -> impl Iterator<Item = SafeRow> {
    rows.iter()
        .map(move |it| SafeRow::Text(it.painted(colours)))
}

fn notice(text: &str) -> SafeRow {
    SafeRow::Notice(safe::one_line(text))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_daemon;

    /// The rows after a snapshot in which we are `pts/3`.
    #[track_caller]
    fn check(events: &[(&str, Value)], expected: &[&str]) {
        let us = ClientId::from_bytes([5; 16]);
        let mut rows = ConversationRows::new(Some(us), false);
        rows.take(&test_daemon::event(test_daemon::envelope(
            None,
            "snapshot",
            test_daemon::snapshot(0, Value::Null),
        )));
        let mut shown = Vec::new();
        for (kind, data) in events {
            let mut event = test_daemon::envelope(None, kind, data.clone());
            event["client"] = json!(us);
            for row in rows.take(&test_daemon::event(event)) {
                shown.push(match row {
                    SafeRow::Text(text) | SafeRow::Asked(_, text) | SafeRow::Aside(text) => text,
                    SafeRow::Notice(text) => format!("[aish] {text}"),
                });
            }
        }
        assert_eq!(expected, shown);
    }

    fn client(byte: u8, tty: &str) -> Value {
        json!({"clientId": ClientId::from_bytes([byte; 16]), "name": "aish", "tty": tty, "pid": 1, "role": "driver"})
    }

    #[test]
    fn questions_and_answers_stand_on_whole_lines() {
        check(
            &[
                (
                    "userMessage",
                    json!({"text": "why\nso", "attachments": [{"name": "a\u{1b}", "text": "abc"}]}),
                ),
                (
                    "textDelta",
                    json!({"item": 0, "offset": 0, "text": "one\ntw"}),
                ),
                ("status", json!({"level": "info", "text": "between\u{7}"})),
                (
                    "textDelta",
                    json!({"item": 0, "offset": 6, "text": "o\u{1b}[2J\n"}),
                ),
                (
                    "assistantMessage",
                    json!({"item": 0, "text": "one\ntwo\u{1b}[2J\nend", "complete": true, "usage": null}),
                ),
                (
                    "turnFinished",
                    json!({"stopReason": "end", "text": "one\ntwo\u{1b}[2J\nend", "usage": null}),
                ),
            ],
            &[
                "pts/3 › why",
                "  so",
                "  + a (3 bytes)",
                "one",
                "[aish] between",
                "two[2J",
                "end",
            ],
        );
    }

    /// What a person's command prints while an answer is written stands between its blocks; the code stays code.
    #[test]
    fn a_command_beside_an_answer_does_not_cut_into_it() {
        let style = Style::plain(None);
        let mut rows = ConversationRows::new(None, false).laid_out(Some(style));
        let turn = json!(TurnId::from_bytes([1; 16]));
        let mut shown = |kind: &str, data: Value, turn: &Value| -> Vec<String> {
            let mut event = test_daemon::envelope(None, kind, data);
            event["turn"] = turn.clone();
            let rows = rows.take(&test_daemon::event(event));
            rows.into_iter()
                .map(|it| match it {
                    SafeRow::Text(text)
                    | SafeRow::Asked(_, text)
                    | SafeRow::Notice(text)
                    | SafeRow::Aside(text) => text,
                })
                .collect()
        };
        let mut offset = 0;
        let mut delta = |text: &str| {
            let data = json!({"item": 0, "offset": offset, "text": text});
            offset += text.len();
            data
        };
        let begins = json!({
            "call": "own", "command": "make", "cwd": "/w", "shell": "/bin/sh", "digest": "", "rule": ""
        });
        let prints = |at: usize, text: &str| json!({"call": "own", "offset": at, "text": text});
        let nobody = Value::Null;
        assert_eq!(
            vec!["```", "one"],
            shown("textDelta", delta("```\none\ntw"), &turn)
        );
        assert_eq!(0, shown("shellStarted", begins.clone(), &nobody).len());
        assert_eq!(0, shown("shellOutput", prints(0, "cc\n"), &nobody).len());
        assert_eq!(
            vec!["two", "```", "  ┌ make", "  │ cc"],
            shown("textDelta", delta("o\n```\nafter\n"), &turn)
        );
        assert_eq!(0, shown("shellOutput", prints(3, "ld\n"), &nobody).len());
        let ends = json!({
            "call": "own", "command": "make", "ending": "exited", "exitCode": 0, "output": "cc\nld\n",
            "bytes": 6, "ms": 6, "intoContext": false
        });
        assert_eq!(
            vec!["  │ ld", "  └ exit 0 · 6 ms"],
            shown("shellFinished", ends, &nobody),
            "its end is told at once"
        );
        assert_eq!(0, shown("shellStarted", begins, &nobody).len());
        let flood = "x\n".repeat(MOST_BESIDE);
        assert_eq!(
            1 + MOST_BESIDE,
            shown("shellOutput", prints(0, &flood), &nobody).len(),
            "so much waits for nothing"
        );
    }

    /// It is tried again for as long as it is configured, which is nothing to hear of each time.
    #[test]
    fn a_server_that_went_away_says_so_once_and_one_that_never_was_there_does_not() {
        let server = |state: &str, why: Option<&str>| {
            let why = why.map_or(json!({}), |it| json!({"why": it}));
            let mut server = json!({"alias": "fs", "endpoint": "npx fs", "transport": "stdio", "state": state,
                "since": "2026-01-01T00:00:00Z", "tools": 2, "name": "", "version": "", "protocol": "", "resources": false, "prompts": false, "connectMs": null});
            server
                .as_object_mut()
                .unwrap()
                .extend(why.as_object().unwrap().clone());
            ("mcpStatus", json!({ "server": server }))
        };
        let away = Some("nobody answers");
        check(
            &[
                server("connecting", None),
                server("failed", away),
                server("ready", None),
                server("connecting", None),
                server("failed", away),
                server("failed", Some("401")),
                server("failed", away),
                server("failed", Some("401")),
                server("ready", None),
                server("failed", Some("401")),
            ],
            &[
                "[aish] mcp fs: 2 tools",
                "[aish] mcp fs: nobody answers",
                "[aish] mcp fs: 401",
                "[aish] mcp fs: 2 tools",
                "[aish] mcp fs: 401",
            ],
        );
    }

    /// A turn that waits is shown where it starts, or where it is taken out.
    #[test]
    fn a_question_that_waits_is_shown_when_its_turn_starts() {
        let mut rows = ConversationRows::new(None, false);
        let other = serde_json::to_value(TurnId::from_bytes([9; 16])).unwrap();
        let mut take = |kind: &str, data: Value, waits: bool| {
            let mut event = test_daemon::envelope(None, kind, data);
            if waits {
                event["turn"] = other.clone();
            }
            rows.take(&test_daemon::event(event))
        };
        let asked = |text: &str| json!({"text": text, "attachments": []});
        let ended = json!({"stopReason": "end", "text": "two", "usage": null});
        take("userMessage", asked("one"), false);
        let started = json!({"model": "m", "modelId": "m", "source": "configured"});
        take("turnStarted", started.clone(), false);
        assert!(take("userMessage", asked("later"), true).is_empty());
        let answered = take("turnFinished", ended, false);
        assert_eq!(vec![SafeRow::Text("two".into())], answered);
        let begun = take("turnStarted", started, true);
        assert_eq!(
            vec![SafeRow::Asked(RowAsker::Other, "› later".into())],
            begun
        );
        assert!(rows.rest().is_empty());
    }

    #[test]
    fn an_end_that_is_no_answer_says_what_to_do() {
        check(
            &[(
                "turnFinished",
                json!({"stopReason": "cancelled", "text": "", "usage": null}),
            )],
            &["[aish] cancelled by you"],
        );
        check(
            &[
                ("textDelta", json!({"item": 0, "offset": 0, "text": "half"})),
                (
                    "turnFinished",
                    json!({"stopReason": "upstream", "text": "half", "usage": null, "error": {"class": "cut", "message": "transport: cut"}}),
                ),
            ],
            &[
                "half",
                "[aish] the model's server failed; :retry asks again: transport: cut",
            ],
        );
        // What was refused for good is not to be asked again as it is.
        check(
            &[(
                "turnFinished",
                json!({"stopReason": "upstream", "text": "", "usage": null, "error": {"class": "rejected", "message": "transport: HTTP 400: no tools", "hint": "models.m.tools = false"}}),
            )],
            &[
                "[aish] the model's server failed: transport: HTTP 400: no tools",
                "[aish] hint: models.m.tools = false",
            ],
        );
    }

    #[test]
    fn tools_that_are_written_down_and_change_are_one_line() {
        let changed = |changes: &[&str]| json!({"added": ["a__b"], "removed": [], "updated": [], "version": 2, "changes": changes});
        check(
            &[
                ("toolsChanged", changed(&[])),
                (
                    "toolsChanged",
                    changed(&["data-tool 1.0.0 → 1.1.0 (+ delete-resource)"]),
                ),
            ],
            &["[aish] data-tool 1.0.0 → 1.1.0 (+ delete-resource)"],
        );
    }

    #[test]
    fn a_configuration_that_was_read_again_is_one_line() {
        check(
            &[
                (
                    "configReloaded",
                    json!({"changed": ["x"], "errors": [], "restartNeeded": []}),
                ),
                (
                    "configReloaded",
                    json!({
                        "changed": ["routing.auto", "x"],
                        "values": {"routing.auto": "true"},
                        "by": {"clientId": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "name": "aish", "tty": "pts/4", "pid": 7, "uid": 0},
                        "errors": [],
                        "restartNeeded": [],
                    }),
                ),
                (
                    "configReloaded",
                    json!({"changed": [], "errors": ["line 3:\u{7}\nno such key", "b", "c"], "restartNeeded": []}),
                ),
            ],
            &[
                "[aish] the configuration has changed: x",
                "[aish] the configuration has changed: routing.auto = true, x (by pts/4)",
                "[aish] the configuration is invalid, and the one before stays: line 3: no such key (and 2 more); aishctl config check",
            ],
        );
    }

    #[test]
    fn who_comes_and_goes_is_told() {
        check(
            &[
                (
                    "presence",
                    json!({"clients": [client(5, "pts/3"), client(6, "pts/5")]}),
                ),
                ("presence", json!({"clients": [client(5, "pts/3")]})),
                ("turnQueued", json!({"position": 2})),
            ],
            &[
                "[aish] pts/5 attached (2 here)",
                "[aish] pts/5 left (1 here)",
                "[aish] queued #2 from you",
            ],
        );
    }
}
