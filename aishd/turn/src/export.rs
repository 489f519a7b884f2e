//! Exporting: the messages of a log in the order in which they were said, exchange by exchange, whatever has left the
//! context or was asked again. Pure; what it holds is a page, the exchange that goes on and the questions that wait.

use std::collections::HashSet;
use std::ops::{ControlFlow, Range};

use aish_proto::id::{Seq, TurnId};
use aishd_log::event::{Event, Record, TurnOrigin};
use aishd_log::picture::NamedPicture;
use aishd_log::tool_call::ToolCall;

use crate::exchange::Exchange;
use crate::request::NO_RESULT;
use crate::transcript::{Transcript, TranscriptMessage};

/// A message on its way out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExportLine<'a> {
    User {
        text: &'a str,
        pictures: &'a [NamedPicture],
    },
    Assistant {
        text: &'a str,
        calls: &'a [ToolCall],
        /// That the model made.
        pictures: &'a [NamedPicture],
    },
    Tool {
        call: &'a str,
        content: &'a str,
    },
}

impl ExportLine<'_> {
    /// About the bytes that it takes as JSON.
    pub fn bytes(&self) -> usize {
        match self {
            Self::User { text, pictures } => {
                let pictures = pictures.iter().map(|it| it.picture.data.len());
                text.len() + pictures.sum::<usize>()
            }
            Self::Assistant { text, calls, .. } => {
                let calls = calls.iter().map(|it| it.arguments.len() + it.name.len());
                text.len() + calls.sum::<usize>()
            }
            Self::Tool { content, .. } => content.len(),
        }
    }
}

/// The messages of an exchange. Behind every answer stands exactly one result for each of its calls, in their order, and no
/// result is without its call.
pub fn exported_messages(exchange: &Exchange) -> Vec<ExportLine<'_>> {
    let mut out = vec![];
    let mut owed: Vec<(&str, Option<&str>)> = vec![];
    for message in exchange.messages() {
        match message {
            TranscriptMessage::User { text, pictures } => {
                settle(&mut out, &mut owed);
                out.push(ExportLine::User { text, pictures });
            }
            TranscriptMessage::Assistant {
                text,
                calls,
                pictures,
                ..
            } => {
                settle(&mut out, &mut owed);
                if text.is_empty() && calls.is_empty() && pictures.is_empty() {
                    continue;
                }
                owed.extend(calls.iter().map(|it| (it.id.as_str(), None)));
                out.push(ExportLine::Assistant {
                    text,
                    calls,
                    pictures,
                });
            }
            TranscriptMessage::Tool { call, content, .. } => {
                let mut open = owed.iter_mut();
                let open = open.find(|(id, result)| id == call && result.is_none());
                if let Some((_, result)) = open {
                    *result = Some(content);
                }
            }
        }
    }
    settle(&mut out, &mut owed);
    out
}

fn settle<'a>(out: &mut Vec<ExportLine<'a>>, owed: &mut Vec<(&'a str, Option<&'a str>)>) {
    let result = |(call, content): (&'a str, Option<&'a str>)| ExportLine::Tool {
        call,
        content: content.unwrap_or(NO_RESULT),
    };
    out.extend(owed.drain(..).map(result));
}

/// How far an export is. As text it is the cursor of its next page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportProgress {
    /// The last event that it is about.
    pub through: Seq,
    /// The eviction that the archive is found by, as it was when the export began.
    pub last_eviction: Seq,
    /// Reading goes on behind this record.
    pub read: Seq,
    /// Exchanges whose last message stands here or before are not told any more.
    pub told: Seq,
    /// Messages of the next exchange that have been told.
    pub messages: usize,
}

impl ExportProgress {
    pub fn cursor(&self) -> String {
        let Self {
            through,
            last_eviction,
            read,
            told,
            messages,
        } = self;
        format!("{through}-{last_eviction}-{read}-{told}-{messages}")
    }

    /// `None`: no export gave this.
    pub fn parse(cursor: &str) -> Option<Self> {
        let mut parts = cursor.split('-').map(|it| it.parse::<u64>().ok());
        let mut next = || parts.next().flatten();
        let progress = Self {
            through: Seq(next()?),
            last_eviction: Seq(next()?),
            read: Seq(next()?),
            told: Seq(next()?),
            messages: usize::try_from(next()?).ok()?,
        };
        parts.next().is_none().then_some(progress)
    }
}

/// Messages of an exchange that belong to a page.
#[derive(Debug)]
pub struct ExportPart {
    pub exchange: Exchange,
    /// Which of its messages.
    pub messages: Range<usize>,
}

/// A page, and how to go on. `None`: that was all.
#[derive(Debug)]
pub struct ExportPage<T> {
    pub items: Vec<T>,
    pub next: Option<ExportProgress>,
}

/// A page of messages that is being filled, from the records behind [`ExportProgress::read`].
#[derive(Debug)]
pub struct ExportPaging {
    transcript: Transcript,
    /// Turns whose exchanges are told. `None`: all.
    wanted: Option<HashSet<TurnId>>,
    /// As if the page ended here.
    progress: ExportProgress,
    /// About so much fits.
    most: usize,
    bytes: usize,
    items: Vec<ExportPart>,
    is_full: bool,
}

impl ExportPaging {
    pub fn new(progress: ExportProgress, wanted: Option<HashSet<TurnId>>, most: usize) -> Self {
        Self {
            transcript: Transcript::default(),
            wanted,
            progress,
            most,
            bytes: 0,
            items: vec![],
            is_full: false,
        }
    }

    /// Takes the next record in. Breaks when the page is full.
    pub fn take(&mut self, record: &Record) -> ControlFlow<()> {
        self.apply(record);
        while let Some(exchange) = self.transcript.take_oldest() {
            let begin = exchange.begin();
            if self.push_exchange(exchange).is_break() {
                // What is to come may have been asked before what was told: questions wait, and their order can change.
                let first = self.transcript.begins().map_or(begin, |it| it.min(begin));
                self.progress.read = Seq(first.0.saturating_sub(1));
                self.is_full = true;
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// The page; after a break, or when there is no further record.
    pub fn end(mut self) -> ExportPage<ExportPart> {
        if !self.is_full {
            let rest: Vec<Exchange> = self.transcript.drain().collect();
            for exchange in rest {
                let begin = exchange.begin();
                if self.push_exchange(exchange).is_break() {
                    self.progress.read = Seq(begin.0.saturating_sub(1));
                    self.is_full = true;
                    break;
                }
            }
        }
        ExportPage {
            items: self.items,
            next: self.is_full.then_some(self.progress),
        }
    }

    fn apply(&mut self, record: &Record) {
        // What the context holds does not matter to what was said.
        let of_context = matches!(
            record.event,
            Event::Evicted(_) | Event::Restored(_) | Event::SummaryUpdated(_)
        );
        if of_context {
            return;
        }
        if let Event::UserMessage {
            origin: TurnOrigin::Retry(_),
            ..
        } = &record.event
        {
            let mut record = record.clone();
            if let Event::UserMessage { origin, .. } = &mut record.event {
                // What was answered first was said too.
                *origin = TurnOrigin::Asked;
            }
            self.transcript.apply(&record);
        } else {
            self.transcript.apply(record);
        }
    }

    /// Breaks where there is no room for the rest of it.
    fn push_exchange(&mut self, exchange: Exchange) -> ControlFlow<()> {
        // One that was read from its middle has been told too.
        if exchange.last() <= self.progress.told {
            return ControlFlow::Continue(());
        }
        let wanted = self.wanted.as_ref();
        if wanted.is_some_and(|it| exchange.turn().is_none_or(|turn| !it.contains(&turn))) {
            return ControlFlow::Continue(());
        }
        let begin = std::mem::take(&mut self.progress.messages);
        let said = exported_messages(&exchange);
        let (mut end, count) = (begin, said.len());
        for message in said.iter().skip(begin) {
            let bytes = message.bytes().max(1);
            if self.bytes > 0 && self.bytes + bytes > self.most {
                break;
            }
            self.bytes += bytes;
            end += 1;
        }
        drop(said);
        let is_whole = end >= count;
        if is_whole {
            self.progress.told = exchange.last();
        } else {
            // Whatever a page that begins further up finds before this has been told, or was never said.
            self.progress.told = Seq(exchange.first().0.saturating_sub(1));
            self.progress.messages = end;
        }
        if end > begin {
            let messages = begin..end;
            self.items.push(ExportPart { exchange, messages });
        }
        if is_whole {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
}

#[cfg(test)]
mod tests;
