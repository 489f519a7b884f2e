//! What the model is shown of a conversation: messages in the order in which turns ran, folded from the log.

mod edits;
mod message;
mod picture_parts;
mod request_extras;
mod run_course;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use aish_proto::id::{Seq, TurnId};
use aishd_log::block::BlockForm;
use aishd_log::event::{Event, PresetSource, Record, TurnOrigin};
use aishd_log::eviction::Eviction;
use aishd_log::norris::launch::RunLaunch;
use aishd_log::picture::NamedPicture;
use aishd_log::rolling_summary::RollingSummary;
use aishd_log::shell::{OutputUse, TOOL};
use aishd_log::state::ConversationState;
use aishd_log::tool_call::ToolCall;
use aishd_model::context_budget::LoopMode;
use aishd_rules::command_instructions::CommandInstructions;

use self::edits::TranscriptEdits;
pub use self::message::TranscriptMessage;
use self::message::{CommandOutputs, WaitingQuestionText, pictures_of, with_attachments};
use self::picture_parts::PictureParts;
use crate::command_report::{self, CommandReport};
use crate::exchange::{Exchange, ExchangeEntry, OutputPlaces};
use crate::project::ProjectBlocks;

/// What a continued turn says to a model that has already written something.
const CONTINUE: &str = "[aish] Your last answer was interrupted. Continue exactly where it ended.";

/// The messages that are in the context, and the questions that wait for their turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    /// In the order of their first records.
    exchanges: VecDeque<Exchange>,
    /// Exchanges that had left, at hand for when the log says that they are back.
    shelf: HashMap<TurnId, Exchange>,
    summary: Option<Box<RollingSummary>>,
    /// What people keep for all conversations; no part of the log.
    background: Option<Arc<str>>,
    /// The same for all requests of the conversation, and of no other; no part of the log.
    cache_key: Option<Arc<str>>,
    /// What the system message begins with, where somebody has said so.
    opening: Option<Arc<str>>,
    /// What is told of the shell, where commands can run.
    shell: Option<Arc<CommandInstructions>>,
    /// What is told of the directory, in the sizes that there are, and the one that is shown.
    project: Option<(ProjectBlocks, Arc<str>)>,
    waiting: HashMap<TurnId, WaitingQuestionText>,
    outputs: CommandOutputs,
    model_id: String,
    /// Where the last turn started.
    started: Seq,
    /// The model that writes the next message, where it is not the turn's own.
    falls_back_to: Option<String>,
    /// The last turn that ran a list of calls, and where it started.
    listed: Option<(TurnId, Seq)>,
    /// The run that works by itself, and its turn.
    run: Option<(TurnId, Box<RunLaunch>)>,
    edits: TranscriptEdits,
    /// What a person did to the changes of the run, for behind its next output.
    parts: Vec<String>,
    picture_parts: PictureParts,
}

impl Transcript {
    /// Takes the next record in; the same function live and on load.
    pub fn apply(&mut self, record: &Record) {
        match &record.event {
            Event::UserMessage {
                text,
                attachments,
                origin,
                calls,
                ..
            } => {
                let text = with_attachments(text, attachments);
                let asked = (text, pictures_of(attachments));
                self.on_question(record, asked, *origin, calls.is_some());
            }
            Event::TurnStarted {
                model_id, source, ..
            } => self.started(record, model_id, *source),
            Event::FellBack { model_id, .. } => self.falls_back_to = Some(model_id.clone()),
            Event::AssistantMessage {
                text,
                calls,
                extra,
                sealed,
                ..
            } => {
                let writer = self.falls_back_to.take();
                let message = TranscriptMessage::Assistant {
                    text: text.clone(),
                    calls: calls
                        .iter()
                        .map(|it| self.call_as_named(record, it))
                        .collect(),
                    extra: extra.clone(),
                    sealed: sealed.clone(),
                    model_id: writer.unwrap_or_else(|| self.model_id.clone()),
                    pictures: vec![],
                };
                self.push(record, message, /*keeps_more*/ false);
            }
            Event::AnswerPictures { blocks, .. } => {
                let made = self.picture_parts.take(blocks);
                self.newest().show_last(made, record.seq);
            }
            Event::ToolResult {
                call,
                name,
                content,
                kept,
                blocks,
                ..
            } => {
                let reads = blocks.iter().any(|it| it.form == BlockForm::Text);
                let message = TranscriptMessage::Tool {
                    call: self.id(record, call),
                    name: name.clone(),
                    content: content.clone(),
                    pictures: self.picture_parts.take(blocks),
                };
                self.reply(record, message, kept.is_some() || reads);
            }
            Event::ResultKept { result, text } => self.picture_parts.push(*result, text),
            Event::ConfirmRequested(confirm) => self.edits.on_confirm(confirm),
            Event::ConfirmResolved(resolution) => self.edits.resolved(resolution),
            Event::ShellFinished { .. } => self.command_ended(record),
            Event::ChangesSettled(settled) => self.outside_told(record, settled.told()),
            Event::ChangesUndo(undo) => self.outside_told(record, Some(undo.told())),
            Event::JobEnded(ended) => self.outside_told(record, ended.told()),
            Event::ChangesPart(part) => {
                let running = self.run.as_ref().map(|(turn, _)| *turn);
                // Where the run is over, the last word about its changes says it.
                if running == Some(part.turn) {
                    self.parts.extend(part.told());
                }
            }
            Event::Evicted(eviction) => self.keep(|it| eviction.spares(it.at)),
            Event::Restored(left) => self.put_back(left.turn),
            Event::SummaryUpdated(summary) => self.summary = Some(summary.clone()),
            Event::Norris(event) => self.run_goes_on(record, event),
            Event::TurnFinished { merged_into, .. } => {
                self.turn_finished(record, merged_into.is_some());
            }
            _ => {}
        }
    }

    fn on_question(
        &mut self,
        record: &Record,
        (text, pictures): (String, Vec<NamedPicture>),
        origin: TurnOrigin,
        is_list: bool,
    ) {
        let origin = match origin {
            // The rest of a list has its own question: no answer of a model goes on.
            TurnOrigin::Continue(_) if is_list => TurnOrigin::Asked,
            TurnOrigin::Asked
            | TurnOrigin::Retry(_)
            | TurnOrigin::Continue(_)
            | TurnOrigin::Imported => origin,
        };
        let at = record.seq;
        let waiting = WaitingQuestionText {
            text,
            pictures,
            origin,
            at,
        };
        self.waiting.extend(record.turn.map(|it| (it, waiting)));
    }

    fn started(&mut self, record: &Record, model_id: &str, source: PresetSource) {
        model_id.clone_into(&mut self.model_id);
        self.started = record.seq;
        self.falls_back_to = None;
        if source == PresetSource::None {
            self.listed = record.turn.map(|it| (it, record.seq));
        }
        self.place(record, record.turn);
    }

    /// Who leads the conversation now.
    pub fn mode(&self) -> LoopMode {
        if self.run.is_some() {
            LoopMode::Norris
        } else {
            LoopMode::Talk
        }
    }

    /// What the model is told of its run.
    pub fn run(&self) -> Option<&RunLaunch> {
        self.run.as_ref().map(|(_, launch)| launch.as_ref())
    }

    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &TranscriptMessage> {
        self.exchanges.iter().flat_map(Exchange::messages)
    }

    /// About what its messages take in requests.
    pub fn bytes(&self) -> u64 {
        self.exchanges.iter().map(Exchange::bytes).sum()
    }

    /// About what it takes in memory.
    pub fn held_bytes(&self) -> u64 {
        let pictures = self.messages().flat_map(TranscriptMessage::pictures);
        let pictures: usize = pictures.map(|it| it.picture.data.len()).sum();
        self.bytes() + pictures as u64
    }

    /// The oldest first.
    pub fn exchanges(&self) -> impl ExactSizeIterator<Item = &Exchange> + DoubleEndedIterator {
        self.exchanges.iter()
    }

    /// What was said before the first exchange, as a model has summed it up.
    pub fn summary(&self) -> Option<&RollingSummary> {
        self.summary.as_deref().filter(|it| !it.text.is_empty())
    }

    /// What left up to here has been summed up, or forgotten.
    pub fn summed_through(&self) -> Seq {
        self.summary.as_ref().map_or(Seq(0), |it| it.through)
    }

    /// Takes the summary out; whether there was one.
    pub(super) fn take_summary(&mut self) -> bool {
        let had = self.summary().is_some();
        self.summary = None;
        had
    }

    /// What the next answer goes on from: all that was written of one that broke off, some of it more than once.
    pub fn goes_on_from(&self) -> String {
        let mut written: Vec<&str> = vec![];
        let mut messages = self.messages().rev();
        while let (
            Some(TranscriptMessage::User { text, .. }),
            Some(TranscriptMessage::Assistant { text: said, .. }),
        ) = (messages.next(), messages.next())
            && text == CONTINUE
        {
            written.push(said);
        }
        written.into_iter().rev().collect()
    }

    /// Takes the oldest exchange out; never the last.
    pub fn take_oldest(&mut self) -> Option<Exchange> {
        if self.exchanges.len() > 1 {
            self.exchanges.pop_front()
        } else {
            None
        }
    }

    /// Reading what is here, and what waits, begins with this record. `None`: nothing is here.
    pub(super) fn begins(&self) -> Option<Seq> {
        let here = self.exchanges.iter().map(Exchange::begin);
        here.chain(self.waits_from()).min()
    }

    /// Where the first stands of what waits: a question, or an output for the next one.
    fn waits_from(&self) -> Option<Seq> {
        let questions = self.waiting.values().map(|it| it.at);
        questions.chain(self.outputs.from).min()
    }

    /// All that is here, the oldest first.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Exchange> {
        self.exchanges.drain(..)
    }

    /// The exchange that begins with the question of this turn.
    pub fn take(&mut self, turn: TurnId) -> Option<Exchange> {
        let place = self.exchanges.iter().position(|it| it.turn() == Some(turn));
        self.exchanges.remove(place?)
    }

    /// Has an exchange at hand that left, until its [`Event::Restored`] puts it back.
    pub fn shelve(&mut self, exchange: Exchange) {
        if let Some(turn) = exchange.turn() {
            self.shelf.insert(turn, exchange);
        }
    }

    /// Nothing is to be put back any more.
    pub fn clear_shelf(&mut self) {
        self.shelf.clear();
    }

    /// The last exchange, whose results may be shown shortened.
    pub(super) fn newest_mut(&mut self) -> Option<&mut Exchange> {
        self.exchanges.back_mut()
    }

    /// Whether there is more to read of a result than it shows, or of an output that the next question takes along.
    pub fn keeps_results(&self) -> bool {
        self.outputs.keeps_more || self.exchanges.iter().any(Exchange::keeps_results)
    }

    /// What is written down where the oldest `count` exchanges leave; the last exchange never does. `state` is
    /// that of the log so far. `None`: nothing leaves.
    pub fn eviction(&self, count: usize, state: &ConversationState) -> Option<Eviction> {
        let count = count.min(self.exchanges.len().saturating_sub(1));
        if count == 0 {
            return None;
        }
        let is_back = |it: &Exchange| it.is_back(state.evicted_through);
        let stay = self.exchanges.iter().skip(count);
        // What is back is read from its own place.
        let read_here = stay.clone().filter(|it| !is_back(it)).map(Exchange::begin);
        let mut eviction = Eviction {
            previous: state.last_eviction,
            before: stay.clone().next().map(Exchange::first),
            // What waits is no part of the queue any more when it is read after its turn.
            begin: read_here.chain(self.waits_from()).min(),
            count: count as u64,
            ..Eviction::default()
        };
        for exchange in self.exchanges.iter().take(count) {
            eviction.through = eviction.through.max(exchange.last());
            // One that was back is listed where it left first.
            let left = exchange.left_exchange().filter(|_| !is_back(exchange));
            eviction.exchanges.extend(left);
        }
        Some(eviction)
    }

    /// What a model's server is told a call is called: people name the calls of each list alike, and no two of a
    /// conversation may have one id.
    fn id(&self, record: &Record, id: &str) -> String {
        match self.listed {
            Some((turn, seq)) if record.turn == Some(turn) => format!("list{seq}-{id}"),
            Some(_) | None => id.to_owned(),
        }
    }

    fn call_as_named(&self, record: &Record, call: &ToolCall) -> ToolCall {
        ToolCall {
            id: self.id(record, &call.id),
            ..call.clone()
        }
    }

    /// A reply takes its place among those to the same message, in the order of the calls.
    fn reply(&mut self, record: &Record, message: TranscriptMessage, keeps_more: bool) {
        let called = match &message {
            TranscriptMessage::Tool { call, .. } => call.clone(),
            TranscriptMessage::User { .. } | TranscriptMessage::Assistant { .. } => return,
        };
        let entry = ExchangeEntry {
            at: record.seq,
            turn: record.turn,
            message,
            keeps_more,
            outputs: vec![],
        };
        let exchange = self.newest();
        let entries = exchange.entries();
        let mut place = entries.len();
        let asked = entries.iter().rev().find_map(|it| match &it.message {
            TranscriptMessage::Assistant { calls, .. } => Some(calls),
            TranscriptMessage::User { .. } | TranscriptMessage::Tool { .. } => None,
        });
        if let Some(calls) = asked {
            let rank = |id: &str| calls.iter().position(|it| it.id == id);
            let own = rank(&called);
            let later = |it: &ExchangeEntry| match &it.message {
                TranscriptMessage::Tool { call, .. } => own.is_some() && rank(call) > own,
                TranscriptMessage::User { .. } | TranscriptMessage::Assistant { .. } => false,
            };
            while place > 0 && entries.get(place - 1).is_some_and(later) {
                place -= 1;
            }
        }
        exchange.insert(place, entry);
    }

    fn push(&mut self, record: &Record, message: TranscriptMessage, keeps_more: bool) {
        self.push_with(record, message, keeps_more, vec![]);
    }

    fn push_with(
        &mut self,
        record: &Record,
        message: TranscriptMessage,
        keeps_more: bool,
        outputs: OutputPlaces,
    ) {
        self.newest().push(ExchangeEntry {
            at: record.seq,
            turn: record.turn,
            message,
            keeps_more,
            outputs,
        });
    }

    /// The exchange that goes on; one without a question where there is none.
    fn newest(&mut self) -> &mut Exchange {
        if self.exchanges.is_empty() {
            self.exchanges.push_back(Exchange::new(None, self.started));
        }
        let last = self.exchanges.len() - 1;
        &mut self.exchanges[last]
    }

    fn place(&mut self, record: &Record, turn: Option<TurnId>) {
        let Some(waiting) = turn.and_then(|it| self.waiting.remove(&it)) else {
            // Its question was before what is read, and took them along.
            self.outputs = CommandOutputs::default();
            return;
        };
        let mut begin = waiting.at.min(self.started);
        let (mut text, pictures) = (waiting.text, waiting.pictures);
        let mut keeps_more = false;
        let mut places = vec![];
        match waiting.origin {
            TurnOrigin::Asked | TurnOrigin::Imported => {
                let outputs = std::mem::take(&mut self.outputs);
                (text, places) = command_report::question_with_outputs(&outputs.texts, &text);
                begin = outputs.from.map_or(begin, |it| it.min(begin));
                keeps_more = outputs.keeps_more;
                self.exchanges.push_back(Exchange::new(turn, begin));
            }
            TurnOrigin::Retry(old) => {
                self.outputs.stay_behind(waiting.at);
                // The same question, with what went with it. One that was put back is not there on a load.
                let mut exchanges = self.exchanges.iter().filter(|it| !it.was_put_back());
                if let Some(old) = exchanges.find(|it| it.turn() == Some(old))
                    && let Some(first) = old.entries().first()
                    && let TranscriptMessage::User { text: asked, .. } = &first.message
                    && asked.ends_with(&text)
                {
                    text.clone_from(asked);
                    begin = begin.min(old.begin());
                    (keeps_more, places) = (first.keeps_more, first.outputs.clone());
                }
                // It leaves with what went on after it.
                self.exchanges.retain(|it| it.turn() != Some(old));
                self.keep(|it| it.turn != Some(old));
                self.exchanges.push_back(Exchange::new(turn, begin));
            }
            TurnOrigin::Continue(_) => {
                self.outputs.stay_behind(waiting.at);
                let last = self.exchanges.back();
                match last.and_then(|it| it.messages().next_back()) {
                    // Nothing was written yet, or results wait: the same request says it all.
                    Some(TranscriptMessage::User { .. } | TranscriptMessage::Tool { .. }) => return,
                    // It goes on in the exchange whose answer it continues, and may have been asked before that.
                    Some(TranscriptMessage::Assistant { .. }) => {
                        self.newest().reach_back(waiting.at);
                    }
                    None => self.exchanges.push_back(Exchange::new(turn, begin)),
                }
            }
        }
        let text = match waiting.origin {
            TurnOrigin::Asked | TurnOrigin::Retry(_) | TurnOrigin::Imported => text,
            TurnOrigin::Continue(_) => CONTINUE.to_owned(),
        };
        let message = TranscriptMessage::User { text, pictures };
        self.push_with(record, message, keeps_more, places);
    }

    /// What a person did to files beside the turns; the next question has it, as it has what a command printed.
    fn outside_told(&mut self, record: &Record, text: Option<String>) {
        if let Some(text) = text {
            self.outputs.from.get_or_insert(record.seq);
            let told = CommandReport { text, output: None };
            self.outputs.texts.push(told);
        }
    }

    /// What it printed is the reply of the call that proposed it, goes with the next question, or stands where the turn goes on with
    /// it.
    fn command_ended(&mut self, record: &Record) {
        let Event::ShellFinished {
            call,
            command,
            cwd,
            ending,
            output,
            kept,
            given,
            ..
        } = &record.event
        else {
            return;
        };
        let author = if record.turn.is_none() {
            command_report::ReportAuthor::Person
        } else if self.edits.take(call) {
            command_report::ReportAuthor::PersonInstead
        } else {
            command_report::ReportAuthor::Model
        };
        let mut told = command_report::of(command, cwd.as_deref(), *ending, output, author);
        let has_call = self.exchanges.back().is_some_and(|it| it.calls_last(call));
        if record.turn.is_some() && has_call {
            // The call says the command, unless a person has.
            if author == command_report::ReportAuthor::Model {
                told = command_report::outcome(*ending, output);
            }
            for part in self.parts.drain(..) {
                told.text.push_str(&format!("\n{part}"));
            }
            let message = TranscriptMessage::Tool {
                call: call.clone(),
                name: TOOL.to_owned(),
                content: told.text,
                pictures: vec![],
            };
            return self.reply(record, message, kept.is_some());
        }
        match given {
            OutputUse::Never => {}
            OutputUse::WithNextQuestion => {
                self.outputs.from.get_or_insert(record.seq);
                self.outputs.keeps_more |= kept.is_some();
                self.outputs.texts.push(told);
            }
            OutputUse::AtOnce => {
                for part in self.parts.drain(..) {
                    told.text.push_str(&format!("\n{part}"));
                }
                if !self.newest().go_on_with(&told, kept.is_some()) {
                    let CommandReport { text, output } = told;
                    let places = output.into_iter().collect();
                    self.push_with(
                        record,
                        TranscriptMessage::said(text),
                        kept.is_some(),
                        places,
                    );
                }
            }
        }
    }

    /// Keeps only such messages, and exchanges that have any.
    fn keep(&mut self, keep: impl Fn(&ExchangeEntry) -> bool) {
        for exchange in &mut self.exchanges {
            if !exchange.entries().iter().all(&keep) {
                exchange.retain(&keep);
            }
        }
        self.exchanges.retain(|it| !it.entries().is_empty());
    }

    fn put_back(&mut self, turn: TurnId) {
        // It stays at hand: read from far back, a log may say so more than once.
        let Some(mut exchange) = self.shelf.get(&turn).cloned() else {
            return;
        };
        exchange.put_back();
        let first = exchange.first();
        let place = self.exchanges.partition_point(|it| it.first() < first);
        self.exchanges.insert(place, exchange);
    }
}

#[cfg(test)]
mod tests;
