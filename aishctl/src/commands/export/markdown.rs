//! For people: who asked and when, what was answered, what tools did, folded. Strangers' text stands in quotes and fences.

use std::collections::BTreeMap;

use aish_proto::conversation::ConversationStatus;
use aish_proto::envelope::Envelope;
use aish_proto::event::{
    AssistantMessage, AttachedText, ClientEvent, Event, ShellFinished, StatusLevel, ToolResult,
    TurnFinished, TurnStarted, UserMessage,
};
use aish_proto::id::{ConfirmId, TurnId};
use aish_proto::model::ModelSource;
use aish_proto::turn::StopReason;

use crate::commands::export::instant::to_minute;
use crate::commands::export::quote::{code, fenced, html, plain, quoted};
use crate::failure;
use crate::render::command_frame::ending;
use crate::render::event_lines::turn_line;
use crate::render::picture_line::picture_line;
use crate::render::question;

#[derive(Debug)]
pub(super) struct MarkdownExport {
    /// What stands at the top, until something stands below it.
    head: Option<String>,
    /// The turn that goes on, and who answers.
    answers: Option<(Option<TurnId>, String)>,
    /// It has not ended.
    goes_on: bool,
    /// Questions that were asked meanwhile: each stands above its answer.
    waiting: Vec<(Option<TurnId>, String)>,
    /// What confirms are called, and what they are about.
    confirms: BTreeMap<ConfirmId, (u32, String)>,
}

impl MarkdownExport {
    pub(super) fn new(of: &ConversationStatus) -> Self {
        let head = format!(
            "# {}\n\nA conversation of aish, `{}`, begun on {}.\n",
            plain(&of.title),
            of.id,
            to_minute(&of.created_at)
        );
        Self {
            head: Some(head),
            answers: None,
            goes_on: false,
            waiting: vec![],
            confirms: BTreeMap::new(),
        }
    }

    pub(super) fn event(&mut self, event: &Envelope) -> String {
        let mut text = self.head.take().unwrap_or_default();
        let at = to_minute(&event.ts);
        let turn = event.turn;
        let event = ClientEvent::from(event.clone());
        match &event.data {
            Event::AnswerPictures(_) => {
                text.extend(turn_line(&event).map(|it| aside(&plain(&it))));
            }
            Event::UserMessage(message) if self.goes_on => {
                let mut asked = String::new();
                question(message, &at, &mut asked);
                self.waiting.push((turn, asked));
            }
            Event::UserMessage(message) => question(message, &at, &mut text),
            Event::TurnStarted(started) => {
                text.push_str(&self.asked(turn));
                self.answers = Some((turn, name(started)));
                self.goes_on = true;
            }
            Event::AssistantMessage(message) => self.answer(turn, message, &at, &mut text),
            Event::ToolResult(result) => self::result(result, &mut text),
            Event::ShellFinished(finished) => command(finished, &mut text),
            Event::ConfirmRequested(request) => {
                let tool = request.subject.call().map(|it| &it.tool);
                let about = tool.unwrap_or(&request.title).clone();
                let number = request.number;
                let note = format!("c{number}: {} asks for consent", code(&about));
                self.confirms.insert(request.confirm, (number, about));
                text.push_str(&aside(&note));
            }
            Event::ConfirmResolved(resolved) => {
                let about = self.confirms.remove(&resolved.confirm).unwrap_or_default();
                let ending = plain(&question::ending(about.0, resolved));
                text.push_str(&aside(&format!("{ending}: {}", code(&about.1))));
            }
            Event::TurnFinished(finished) => {
                text.push_str(&self.asked(turn));
                text.push_str(&ended(finished));
                let runs = self.answers.as_ref().is_some_and(|it| it.0 == turn);
                self.goes_on &= !runs;
            }
            other => text.extend(event_text(other).map(|it| aside(&it))),
        }
        text
    }

    /// What waits still.
    pub(super) fn end(&mut self) -> String {
        self.waiting.drain(..).map(|it| it.1).collect()
    }

    fn asked(&mut self, turn: Option<TurnId>) -> String {
        let asked = self.waiting.extract_if(.., |it| it.0 == turn);
        asked.map(|it| it.1).collect()
    }

    fn answer(
        &self,
        turn: Option<TurnId>,
        message: &AssistantMessage,
        at: &str,
        text: &mut String,
    ) {
        let of_turn = self.answers.as_ref().filter(|it| it.0 == turn);
        let name = of_turn.map_or("", |it| it.1.as_str());
        let cut = if message.complete { "" } else { ", cut off" };
        text.push_str(&format!("\n### Answer{name} · {at}{cut}\n"));
        if !message.reasoning.is_empty() {
            folded("reasoning", &fenced("text", &message.reasoning), text);
        }
        if !message.text.is_empty() {
            text.push_str(&format!("\n{}", quoted(&message.text)));
        }
        let is_command = |id: &str| message.commands.iter().any(|it| it.call == id);
        // What became of a command tells of it.
        for call in message.tool_calls.iter().filter(|it| !is_command(&it.id)) {
            let summary = format!("called <code>{}</code>", html(&call.name));
            folded(&summary, &fenced("json", &call.arguments), text);
        }
    }
}

fn question(message: &UserMessage, at: &str, text: &mut String) {
    let what = match (message.retry_of, message.continues) {
        (Some(_), _) => "Asked again",
        (None, Some(_)) => "Continued",
        (None, None) => "Asked",
    };
    text.push_str(&format!("\n## {what} · {at}\n"));
    if !message.text.is_empty() {
        text.push_str(&format!("\n{}", quoted(&message.text)));
    }
    for AttachedText {
        name,
        text: whole,
        picture,
    } in &message.attachments
    {
        if let Some(picture) = picture {
            text.push_str(&format!("\n{}\n", html(&picture_line(name, picture))));
            continue;
        }
        let summary = format!("attached: {} ({} bytes)", html(name), whole.len());
        folded(&summary, &fenced("text", whole), text);
    }
    for call in &message.calls {
        let summary = format!("listed call <code>{}</code>", html(&call.name));
        folded(&summary, &fenced("json", &call.arguments), text);
    }
}

fn result(result: &ToolResult, text: &mut String) {
    let how = match (&result.denied, result.ok) {
        (Some(_), _) => "not permitted",
        (None, true) => "ok",
        (None, false) => "failed",
    };
    let ms = result.ms.map_or(String::new(), |it| format!(" · {it} ms"));
    let summary = format!("result of <code>{}</code> · {how}{ms}", html(&result.name));
    folded(&summary, &fenced("text", &result.content), text);
}

fn command(finished: &ShellFinished, text: &mut String) {
    let command = html(&finished.command);
    let summary = format!("command <code>{command}</code> · {}", ending(finished));
    folded(&summary, &fenced("text", &finished.output), text);
}

/// Who answers, as it stands behind "Answer".
fn name(started: &TurnStarted) -> String {
    match started.source {
        ModelSource::Configured | ModelSource::Discovered | ModelSource::Demo => {
            format!(" of {} ({})", code(&started.model), code(&started.model_id))
        }
        ModelSource::Imported => " from elsewhere".to_owned(),
        ModelSource::None => " of a list of calls".to_owned(),
    }
}

fn ended(finished: &TurnFinished) -> String {
    let why = match finished.stop_reason {
        StopReason::End => return String::new(),
        StopReason::Cancelled => "cancelled",
        StopReason::Interrupted => "interrupted: aishd ended while this was being written",
        StopReason::MaxTokens => "cut at the model's limit of tokens",
        StopReason::ToolDepth => "tool-call depth limit reached",
        StopReason::Refusal => "the model refused",
        StopReason::Denied => "an action was not permitted",
        StopReason::NoApprover => "an action needed approval and nobody was there",
        StopReason::Budget => "the budget is used up",
        StopReason::Upstream => "the model's server failed",
    };
    let detail = finished.error.as_ref().map(failure::of_turn);
    let detail = detail.map_or(String::new(), |it| format!(": {}", plain(&it)));
    aside(&format!("{why}{detail}"))
}

/// Facts that are one line.
fn event_text(event: &Event) -> Option<String> {
    Some(match event {
        Event::Status(status) if status.level != StatusLevel::Debug => plain(&status.text),
        Event::Renamed(renamed) => format!("called {} from here on", code(&renamed.title)),
        Event::ModelChanged(changed) => {
            let model = changed.model.as_deref();
            let model = model.map_or("the default".to_owned(), code);
            format!("model: {model}")
        }
        Event::Imported(imported) => format!("{} messages were imported", imported.messages),
        _ => return None,
    })
}

fn aside(text: &str) -> String {
    format!("\n*aish:* {text}\n")
}

/// The blank lines end the HTML, so that the fence is one.
fn folded(summary: &str, body: &str, text: &mut String) {
    text.push_str(&format!(
        "\n<details><summary>{summary}</summary>\n\n{body}\n</details>\n"
    ));
}
