//! Following a conversation from a position on: stored records first, then the text being written, and on
//! as both grow. Attaching is nothing but choosing the position, so there is no gap between "what was" and
//! "what comes" (architecture, decision 4).

use std::collections::HashMap;
use std::sync::Arc;

use aish_proto::id::{Seq, TurnId};
use aishd_log::event::Record;
use aishd_log::state::ConversationState;
use aishd_store::ReadError;
use tokio::sync::watch;

use crate::commands::command_output::{CommandKey, CommandPrinting};
use crate::handle::ConversationHandle;
use crate::view::ConversationView;
use crate::view::live_item::{LiveItem, UnseenText};
use crate::view::tail_buffer::TailPart;
use crate::view::tool_progress::ProgressMessage;

/// One follower; it holds at most the page that it has just given out.
#[derive(Debug)]
pub struct LogFollower {
    handle: ConversationHandle,
    view: watch::Receiver<ConversationView>,
    cursor: Seq,
    wants_live: bool,
    /// The item whose text was given last, and how far.
    item: Option<(TurnId, u32)>,
    positions: Vec<u64>,
    /// How much of what calls say was given.
    heard: u64,
    /// How much of what commands print was given.
    printed: HashMap<CommandKey, u64>,
}

/// The next things to show.
#[derive(Debug)]
pub enum FollowPage {
    Records(Vec<Arc<Record>>),
    Live {
        live: Arc<LiveItem>,
        pieces: Vec<UnseenText>,
    },
    /// What commands print.
    Printed(Vec<(Arc<CommandPrinting>, TailPart)>),
    /// What running calls say.
    Said(Vec<Arc<ProgressMessage>>),
    /// Nothing new in the log or the text, but the view changed.
    Changed,
    /// The actor has gone; the conversation can be opened again.
    Ended,
}

impl LogFollower {
    pub(crate) fn new(handle: ConversationHandle, cursor: Seq, wants_live: bool) -> Self {
        let view = handle.view();
        let heard = view.borrow().doing.end();
        Self {
            handle,
            view,
            cursor,
            wants_live,
            item: None,
            positions: vec![],
            heard,
            printed: HashMap::new(),
        }
    }

    /// The conversation as it is at this moment.
    pub fn now(&self) -> ConversationView {
        self.view.borrow().clone()
    }

    /// The state as of the head of the log.
    pub fn state(&self) -> Arc<ConversationState> {
        self.view.borrow().state.clone()
    }

    pub fn cursor(&self) -> Seq {
        self.cursor
    }

    pub fn handle(&self) -> &ConversationHandle {
        &self.handle
    }

    /// Goes to a position; what lies before it is not given out.
    pub fn begin_at(&mut self, cursor: Seq) {
        self.cursor = cursor;
    }

    /// Stored records after the position, none of them after `last`; the position moves along.
    pub fn records_until(
        &mut self,
        last: Seq,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Record>>, ReadError> {
        let records = self.handle.records_after(self.cursor, max_bytes)?;
        let records: Vec<_> = records
            .into_iter()
            .take_while(|it| it.seq <= last)
            .collect();
        if let Some(last) = records.last() {
            self.cursor = last.seq;
        }
        Ok(records)
    }

    /// The follower has been given the item's text up to there by other means (a snapshot).
    pub fn skip_live(&mut self, live: &LiveItem, offset: u64, tail: &str) {
        self.item = Some((live.turn, live.item));
        self.positions = live.positions_after_tail(offset, tail);
    }

    /// What is there now and has not been given out, without waiting.
    pub fn ready(&mut self, max_bytes: usize) -> Result<Option<FollowPage>, ReadError> {
        let (head, live, doing, printing) = {
            let view = self.view.borrow_and_update();
            let (live, doing) = (view.live.clone(), view.doing.clone());
            (view.state.last_seq, live, doing, view.printing.clone())
        };
        let parts = self.unseen_output(&printing, max_bytes);
        if !parts.is_empty() {
            return Ok(Some(FollowPage::Printed(parts)));
        }
        if head > self.cursor {
            // The store may have more than the view says; the rest waits for its view.
            let records = self.records_until(head, max_bytes)?;
            if !records.is_empty() {
                return Ok(Some(FollowPage::Records(records)));
            }
        }
        if self.wants_live {
            let words = doing.after(&mut self.heard);
            if !words.is_empty() {
                return Ok(Some(FollowPage::Said(words)));
            }
        }
        let Some(live) = live.filter(|it| self.wants_live && it.after_seq <= self.cursor) else {
            return Ok(None);
        };
        if self.item != Some((live.turn, live.item)) {
            self.item = Some((live.turn, live.item));
            self.positions.clear();
        }
        let pieces = live.unseen(&mut self.positions, max_bytes);
        Ok((!pieces.is_empty()).then_some(FollowPage::Live { live, pieces }))
    }

    /// What commands printed whose start was given out and whose end was not: it goes before that end.
    fn unseen_output(
        &mut self,
        printing: &[Arc<CommandPrinting>],
        max_bytes: usize,
    ) -> Vec<(Arc<CommandPrinting>, TailPart)> {
        if !self.wants_live {
            return vec![];
        }
        self.printed
            .retain(|which, _| printing.iter().any(|it| it.is_of(which)));
        let mut left = max_bytes;
        let mut parts = vec![];
        let cursor = self.cursor;
        for it in printing.iter().filter(|it| it.is_shown_at(cursor)) {
            let position = self.printed.entry(it.which()).or_default();
            if let Some(part) = it.unseen(position, left) {
                left -= part.text.len();
                parts.push((it.clone(), part));
            }
        }
        parts
    }

    /// Waits for the next page. May be dropped while it waits: it takes nothing that it could lose.
    pub async fn next(&mut self, max_bytes: usize) -> Result<FollowPage, ReadError> {
        if let Some(page) = self.ready(max_bytes)? {
            return Ok(page);
        }
        match self.view.changed().await {
            Err(_actor_gone) => Ok(FollowPage::Ended),
            Ok(()) => Ok(self.ready(max_bytes)?.unwrap_or(FollowPage::Changed)),
        }
    }
}
