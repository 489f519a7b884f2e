//! What journal lines do to the index: one function for live commits and one for replay, which must agree.

use std::collections::HashMap;

use aish_proto::id::{ConversationId, Seq, TurnId};
use aishd_log::audit::chain;
use aishd_log::event::{Event, Record};
use aishd_log::resource::ResourceChanged;
use aishd_log::spending::SpentSum;
use aishd_log::state::ConversationState;
use serde::{Deserialize, Serialize};
use sled::{Batch, Db};

use super::index::{IndexFault, StoredKeyUse, read_state};
use super::journal::LineLocation;
use super::line::{JournalPosition, JournalRecord, PartialRec};
use super::page_cache::CachePassing;
use super::segment::JournalSegment;
use super::spending::SpendingSums;
use super::{Note, Partial, audit_trail, scan, values};

/// A replayed batch is applied when it has so many lines, so that memory stays small.
const REPLAY_LINES: usize = 256;
const REPLAY_BYTES: usize = 1024 * 1024;
/// A longer event is not in memory once more in order to be stored.
const LONG_BYTES: usize = 128 * 1024;

/// What the writer knows of the index without asking it.
#[derive(Debug, Default)]
pub(super) struct IndexCache {
    heads: HashMap<ConversationId, LogHead>,
    partials: HashMap<ConversationId, TextChunks>,
}

#[derive(Clone, Copy, Debug, Default)]
struct LogHead {
    last_seq: Seq,
    state_parts: u16,
}

/// Text being written, as pieces under keys of their own.
#[derive(Debug)]
struct TextChunks {
    turn: TurnId,
    item: u32,
    bytes: u64,
    /// Of each piece, the parts of its value.
    parts: Vec<u16>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredPiece {
    pub(super) turn: TurnId,
    pub(super) item: u32,
    pub(super) offset: u64,
    pub(super) text: String,
}

impl IndexCache {
    /// Learns which texts are being written; the rest is read when it is needed.
    pub(super) fn read(db: &Db) -> Result<Self, IndexFault> {
        let mut memory = Self::default();
        for entry in db.scan_prefix(values::all_partials()) {
            let (key, first) = entry?;
            if values::part_in(&key) != Some(0) {
                continue;
            }
            let conversation = values::conversation_in(&key);
            let (parts, _) = values::head(&first).unwrap_or_default();
            let whole = values::get(db, &key[..key.len() - 2])?;
            let (Some(conversation), Some((value, _))) = (conversation, whole) else {
                return Err(IndexFault::garbled("a piece of text has no whole value"));
            };
            let piece: StoredPiece = serde_json::from_slice(&value)?;
            let pieces = memory.partials.entry(conversation).or_insert(TextChunks {
                turn: piece.turn,
                item: piece.item,
                bytes: 0,
                parts: vec![],
            });
            pieces.bytes = piece.offset + piece.text.len() as u64;
            pieces.parts.push(parts);
        }
        Ok(memory)
    }

    /// The seq of the last record that is stored.
    pub(super) fn last_seq(
        &mut self,
        db: &Db,
        conversation: ConversationId,
    ) -> Result<Seq, IndexFault> {
        self.head(db, conversation).map(|it| it.last_seq)
    }

    fn head(&mut self, db: &Db, conversation: ConversationId) -> Result<LogHead, IndexFault> {
        if let Some(head) = self.heads.get(&conversation) {
            return Ok(*head);
        }
        let head = match read_state(db, conversation)? {
            Some((state, state_parts)) => LogHead {
                last_seq: state.last_seq,
                state_parts,
            },
            None => LogHead::default(),
        };
        self.heads.insert(conversation, head);
        Ok(head)
    }
}

/// Changes that become true together.
#[derive(Debug)]
pub(super) struct ChangeBatch<'a> {
    db: &'a Db,
    memory: &'a mut IndexCache,
    batch: Batch,
    sums: SpendingSums,
    /// Values that are put, and their lengths.
    passed: Vec<(Vec<u8>, usize)>,
    at: Option<LineLocation>,
    lines: usize,
    bytes: usize,
}

impl<'a> ChangeBatch<'a> {
    pub(super) fn new(db: &'a Db, memory: &'a mut IndexCache) -> Self {
        Self {
            db,
            memory,
            batch: Batch::default(),
            sums: SpendingSums::default(),
            passed: vec![],
            at: None,
            lines: 0,
            bytes: 0,
        }
    }

    /// Adds one record and what is found by it; the state follows with `state`.
    pub(super) fn record(
        &mut self,
        conversation: ConversationId,
        record: &Record,
        stored: &[u8],
        at: LineLocation,
    ) -> Result<(), IndexFault> {
        self.lines += 1;
        self.bytes += stored.len();
        self.at = Some(at);
        let key = values::event(conversation, record.seq);
        if stored.len() > LONG_BYTES {
            values::put_new(self.db, &mut self.batch, &key, stored)?.ok_or_else(too_long)?;
        } else {
            self.put(&key, stored)?;
        }
        self.sums.count(self.db, conversation, record)?;
        if let (Event::UserMessage { key, .. }, Some(turn)) = (&record.event, record.turn) {
            let place = [&conversation.to_bytes()[..], &record.seq.0.to_be_bytes()].concat();
            self.batch.insert(values::turn(turn), place);
            if let Some(key) = key {
                let used = StoredKeyUse {
                    turn,
                    message_seq: record.seq,
                    body: key.body.clone(),
                    at: record.at,
                };
                let name = values::idempotency_key(conversation, &key.key);
                self.put(&name, &serde_json::to_vec(&used)?)?;
            }
        }
        let place = [&conversation.to_bytes()[..], &record.seq.0.to_be_bytes()].concat();
        match &record.event {
            Event::ConfirmRequested(confirm) => {
                self.batch.insert(values::confirm(confirm.id), place);
            }
            Event::ConfirmResolved(resolution) => {
                let key = values::confirm_end(resolution.confirm);
                self.batch.insert(key, place);
            }
            Event::ResourceChanged(changed) => self.resource(conversation, record, changed)?,
            _ => {}
        }
        let ends_text = matches!(
            record.event,
            Event::AssistantMessage { .. } | Event::TurnFinished { .. }
        );
        if ends_text
            && self
                .memory
                .partials
                .get(&conversation)
                .is_some_and(|it| Some(it.turn) == record.turn)
        {
            self.drop_pieces(conversation);
        }
        Ok(())
    }

    /// What there is under a name from now on. The values are short, so that each is whole under its key.
    fn resource(
        &mut self,
        conversation: ConversationId,
        record: &Record,
        changed: &ResourceChanged,
    ) -> Result<(), IndexFault> {
        let here = values::resource(conversation, &changed.name);
        let gone = values::gone_resource(conversation, &changed.name);
        if let Some(head) = changed.head(record) {
            self.batch.insert(here, serde_json::to_vec(&head)?);
            self.batch.remove(gone);
        } else {
            self.batch.remove(here);
            self.batch.insert(gone, &changed.revision.to_be_bytes());
        }
        Ok(())
    }

    /// The state after the last record that was added.
    pub(super) fn state(
        &mut self,
        conversation: ConversationId,
        state: &ConversationState,
    ) -> Result<(), IndexFault> {
        let before = self.memory.head(self.db, conversation)?;
        let key = values::state(conversation);
        let state_parts = self.put(&key, &serde_json::to_vec(state)?)?;
        values::remove(&mut self.batch, &key, state_parts, before.state_parts);
        if state.is_unsettled() {
            self.batch.insert(values::unsettled(conversation), &[]);
        } else {
            self.batch.remove(values::unsettled(conversation));
        }
        let head = LogHead {
            last_seq: state.last_seq,
            state_parts,
        };
        self.memory.heads.insert(conversation, head);
        Ok(())
    }

    pub(super) fn partial(
        &mut self,
        partial: &Partial,
        at: LineLocation,
    ) -> Result<(), IndexFault> {
        self.lines += 1;
        self.bytes += partial.text.len();
        self.at = Some(at);
        let same = |it: &TextChunks| it.turn == partial.turn && it.item == partial.item;
        let known = self.memory.partials.get(&partial.conversation);
        if !known.is_some_and(same) {
            self.drop_pieces(partial.conversation);
        }
        let known = self.memory.partials.get(&partial.conversation);
        if partial.offset > known.map_or(0, |it| it.bytes) {
            // A piece before it was lost: what follows a hole is of no use.
            return Ok(());
        }
        let number = known.map_or(0, |it| it.parts.len());
        let number = u32::try_from(number).map_err(|_| IndexFault::garbled("too many pieces"))?;
        let piece = StoredPiece {
            turn: partial.turn,
            item: partial.item,
            offset: partial.offset,
            text: partial.text.clone(),
        };
        let key = values::partial(partial.conversation, number);
        let parts = self.put(&key, &serde_json::to_vec(&piece)?)?;
        let pieces = self
            .memory
            .partials
            .entry(partial.conversation)
            .or_insert(TextChunks {
                turn: partial.turn,
                item: partial.item,
                bytes: 0,
                parts: vec![],
            });
        pieces.bytes = partial.offset + partial.text.len() as u64;
        pieces.parts.push(parts);
        Ok(())
    }

    pub(super) fn note(&mut self, note: &Note, at: LineLocation) -> Result<(), IndexFault> {
        self.lines += 1;
        self.bytes += note.text.len();
        self.at = Some(at);
        let key = values::note(&note.key);
        // What is applied already counts: a note of the same key further up in this group would be longer for nothing.
        let before = values::get(self.db, &key)?.map_or(0, |(_, parts)| parts);
        let parts = self.put(&key, note.text.as_bytes())?;
        values::remove(&mut self.batch, &key, parts, before);
        if note.forgets {
            self.batch.insert(values::FORGOTTEN, &at.pos.to_be_bytes());
        }
        Ok(())
    }

    /// Adds a record of the audit trail.
    pub(super) fn audit(
        &mut self,
        head: chain::ChainHead,
        entry: &str,
        at: LineLocation,
    ) -> Result<(), IndexFault> {
        self.lines += 1;
        self.bytes += entry.len();
        self.at = Some(at);
        let stored = audit_trail::stored(head.hash, entry);
        self.put(&values::audit(head.n), stored.as_bytes())?;
        self.batch
            .insert(values::AUDIT_HEAD, serde_json::to_vec(&head)?);
        Ok(())
    }

    /// Takes a conversation out. What was collected is applied first, because the search for what there is to
    /// take out only finds what is applied. What it took of models stays (`spent`), under no name.
    pub(super) fn delete(
        &mut self,
        conversation: ConversationId,
        spent: &[SpentSum],
        at: LineLocation,
    ) -> Result<(), IndexFault> {
        self.apply()?;
        self.at = Some(at);
        self.lines += 1;
        for entry in self.db.scan_prefix(values::events(conversation)) {
            let (key, value) = entry?;
            if let Some(found_by) = found_by(self.db, &key, &value) {
                self.batch.remove(found_by);
            }
            self.batch.remove(key);
        }
        let others = [
            values::state(conversation),
            values::idempotency_keys(conversation),
            values::partials(conversation),
            values::unsettled(conversation),
            values::resources(conversation),
            values::gone_resources(conversation),
        ];
        for prefix in others {
            for entry in self.db.scan_prefix(prefix) {
                self.batch.remove(entry?.0);
            }
        }
        self.sums
            .orphan(self.db, &mut self.batch, conversation, spent)?;
        self.batch
            .insert(values::deleted(conversation), &at.pos.to_be_bytes());
        self.memory.heads.remove(&conversation);
        self.memory.partials.remove(&conversation);
        self.apply()
    }

    /// Makes the collected changes true, with the place in the journal up to which they go.
    pub(super) fn apply(&mut self) -> Result<(), IndexFault> {
        let Some(at) = self.at.take() else {
            return Ok(());
        };
        self.sums.write(&mut self.batch)?;
        let mut batch = std::mem::take(&mut self.batch);
        batch.insert(values::APPLIED, serde_json::to_vec(&at)?);
        (self.lines, self.bytes) = (0, 0);
        self.db.apply_batch(batch)?;
        let mut passing = CachePassing::through(self.db);
        for (key, bytes) in self.passed.drain(..) {
            passing.value(&values::first_part(&key), bytes);
        }
        Ok(())
    }

    fn drop_pieces(&mut self, conversation: ConversationId) {
        let Some(pieces) = self.memory.partials.remove(&conversation) else {
            return;
        };
        for (number, parts) in (0..).zip(pieces.parts) {
            let key = values::partial(conversation, number);
            values::remove(&mut self.batch, &key, 0, parts);
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<u16, IndexFault> {
        self.passed.push((key.to_vec(), value.len()));
        values::put(&mut self.batch, key, value).ok_or_else(too_long)
    }
}

fn too_long() -> IndexFault {
    IndexFault::garbled("a value is too long")
}

/// The key by which an event is found besides its own, looked up only where the record looks like one that has any.
fn found_by(db: &Db, key: &[u8], first: &[u8]) -> Option<Vec<u8>> {
    if values::part_in(key) != Some(0) {
        return None;
    }
    let (_, head) = values::head(first)?;
    let kinds: [&[u8]; 5] = [
        br#""user_message""#,
        br#""confirm_requested""#,
        // Of the older layout.
        br#""raise_requested""#,
        br#""memory_proposed""#,
        br#""confirm_resolved""#,
    ];
    let looks_like = |kind: &&[u8]| head.windows(kind.len()).any(|it| it == *kind);
    if !kinds.iter().any(looks_like) {
        return None;
    }
    let (value, _) = values::get(db, &key[..key.len() - 2]).ok()??;
    let record: Record = serde_json::from_slice(&value).ok()?;
    if let Event::ConfirmRequested(confirm) = &record.event {
        return Some(values::confirm(confirm.id));
    }
    if let Event::ConfirmResolved(resolution) = &record.event {
        return Some(values::confirm_end(resolution.confirm));
    }
    matches!(record.event, Event::UserMessage { .. })
        .then_some(record.turn)
        .flatten()
        .map(values::turn)
}

/// Brings the index up to the journal, commit by commit.
#[derive(Debug)]
pub(super) struct IndexReplay<'a> {
    changes: ChangeBatch<'a>,
    segments: &'a [JournalSegment],
    /// Up to here the index had everything.
    applied: Option<LineLocation>,
    /// Where the journal deletes conversations, when somebody had to know.
    deletions: Option<HashMap<ConversationId, JournalPosition>>,
    states: HashMap<ConversationId, ConversationState>,
    pub(super) lines: usize,
}

impl<'a> IndexReplay<'a> {
    pub(super) fn new(
        db: &'a Db,
        memory: &'a mut IndexCache,
        segments: &'a [JournalSegment],
        applied: Option<LineLocation>,
    ) -> Self {
        Self {
            changes: ChangeBatch::new(db, memory),
            segments,
            applied,
            deletions: None,
            states: HashMap::new(),
            lines: 0,
        }
    }

    pub(super) fn commit(&mut self, lines: scan::CommitLines<'_>) -> Result<(), IndexFault> {
        for (rec, at) in lines {
            self.lines += 1;
            match rec {
                JournalRecord::Header(_) => {}
                JournalRecord::Event(it) => self.event(it.conversation, it.record.get(), at)?,
                JournalRecord::Partial(it) => self.changes.partial(&from_line(it), at)?,
                JournalRecord::Note(it) => {
                    let note = Note {
                        key: it.key,
                        text: it.text,
                        forgets: it.forgets,
                    };
                    self.changes.note(&note, at)?;
                }
                JournalRecord::Audit(it) => {
                    let head = chain::ChainHead {
                        n: it.n,
                        hash: it.hash,
                    };
                    self.changes.audit(head, it.entry.get(), at)?;
                }
                JournalRecord::Delete(it) => {
                    self.settle()?;
                    self.changes.delete(it.conversation, &it.spent, at)?;
                }
            }
        }
        if self.changes.lines >= REPLAY_LINES || self.changes.bytes >= REPLAY_BYTES {
            self.settle()?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), IndexFault> {
        self.settle()
    }

    fn event(
        &mut self,
        conversation: ConversationId,
        stored: &str,
        at: LineLocation,
    ) -> Result<(), IndexFault> {
        let record: Record = serde_json::from_str(stored)?;
        if !self.states.contains_key(&conversation) {
            let state = read_state(self.changes.db, conversation)?.map(|(state, _)| state);
            self.states.insert(conversation, state.unwrap_or_default());
        }
        let Some(state) = self.states.get_mut(&conversation) else {
            return Ok(());
        };
        if record.seq <= state.last_seq {
            // The index was ahead of the place that it remembers.
            self.changes.at = Some(at);
            return Ok(());
        }
        let last_seq = state.last_seq;
        if record.seq != last_seq.next() {
            if self.is_deleted_behind(conversation, at.pos) {
                // Compaction has begun to take it out: what it lacks is deleted and not lost.
                self.changes.at = Some(at);
                return Ok(());
            }
            return Err(IndexFault::Garbled(format!(
                "conversation {conversation} has no record between {last_seq} and {}",
                record.seq
            )));
        }
        state.apply(&record);
        self.changes
            .record(conversation, &record, stored.as_bytes(), at)
    }

    /// Whether the journal deletes the conversation further on. It is read for that once, and only where a record is missing.
    fn is_deleted_behind(&mut self, conversation: ConversationId, pos: JournalPosition) -> bool {
        let deletions = self.deletions.get_or_insert_with(|| {
            // A journal that cannot be read to its end is judged by who reads it.
            scan::deletions(self.segments, self.applied.as_ref()).unwrap_or_default()
        });
        deletions.get(&conversation).is_some_and(|it| pos < *it)
    }

    /// States are written once for many records.
    fn settle(&mut self) -> Result<(), IndexFault> {
        for (conversation, state) in std::mem::take(&mut self.states) {
            self.changes.state(conversation, &state)?;
        }
        self.changes.apply()
    }
}

fn from_line(line: PartialRec) -> Partial {
    Partial {
        conversation: line.conversation,
        turn: line.turn,
        item: line.item,
        offset: line.offset,
        text: line.text,
    }
}
