//! What journal lines do to the index: one function for live commits and one for replay, which must agree.

use std::collections::HashMap;

use aish_proto::id::{ConversationId, Seq, TurnId};
use aishd_log::audit::chain;
use aishd_log::event::{Event, Record};
use aishd_log::resource::ResourceChanged;
use aishd_log::spending::SpentSum;
use aishd_log::state::ConversationState;
use sled::{Batch, Db};

use super::body::{BodyPlace, JournalFiles};
use super::index::{self, IndexFault, StoredKeyUse, read_state};
use super::index_copy::IndexCopy;
use super::journal::LineLocation;
use super::line::{JournalPosition, JournalRecord, PartialRec};
use super::listing::{ListEntry, ListedCount};
use super::page_cache::CachePassing;
use super::segment::JournalSegment;
use super::segment_use::LiveBytes;
use super::spending::SpendingSums;
use super::values::LineOwner;
use super::{Note, Partial, listing, scan, values};

/// A replayed batch is applied when it has so many lines, so that memory stays small.
const REPLAY_LINES: usize = 256;
const REPLAY_BYTES: usize = 1024 * 1024;
/// Of a place with what sled has beside it.
const PLACE_BYTES: usize = 32;

/// What the writer knows of the index without asking it.
#[derive(Debug, Default)]
pub(super) struct IndexCache {
    heads: HashMap<ConversationId, LogHead>,
    partials: HashMap<ConversationId, TextChunks>,
    /// The last segment that is known to hold lines of each.
    homes: HashMap<LineOwner, JournalPosition>,
    listed: ListedCount,
    /// The index that is to take the place of this one gets the same changes.
    pub(super) copy: Option<IndexCopy>,
}

#[derive(Clone, Copy, Debug, Default)]
struct LogHead {
    last_seq: Seq,
    state_parts: u16,
    /// Where lists have it.
    listed: Option<ListEntry>,
}

/// Text being written, as pieces in the journal.
#[derive(Debug)]
struct TextChunks {
    turn: TurnId,
    item: u32,
    bytes: u64,
    keys: Vec<Vec<u8>>,
}

impl IndexCache {
    /// Learns which texts are being written; the rest is read when it is needed.
    pub(super) fn read(db: &Db, files: &JournalFiles) -> Result<Self, IndexFault> {
        let mut memory = Self::default();
        for (key, piece) in index::pieces(db, files, &values::all_partials()) {
            let piece = match piece {
                Ok(piece) => piece,
                // It was never acknowledged.
                Err(IndexFault::Journal(_)) => {
                    db.remove(key)?;
                    continue;
                }
                Err(fault) => return Err(fault),
            };
            let known = memory.partials.entry(piece.conversation);
            let pieces = known.or_insert(TextChunks {
                turn: piece.turn,
                item: piece.item,
                bytes: 0,
                keys: vec![],
            });
            pieces.bytes = piece.offset + piece.text.len() as u64;
            pieces.keys.push(key);
        }
        Ok(memory)
    }

    /// Makes changes true, here and in the index that is to come.
    pub(super) fn apply(&mut self, db: &Db, batch: Batch) -> Result<(), IndexFault> {
        let same = self.copy.as_ref().map(|_| batch.clone());
        db.apply_batch(batch)?;
        if let (Some(copy), Some(batch)) = (&mut self.copy, same) {
            copy.follow(batch);
        }
        Ok(())
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
                listed: ListEntry::of(&state),
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
    live: LiveBytes,
    /// Places that the batch puts.
    placed: HashMap<Vec<u8>, BodyPlace>,
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
            live: LiveBytes::default(),
            placed: HashMap::new(),
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
        at: LineLocation,
    ) -> Result<(), IndexFault> {
        self.line(at);
        self.place(values::event(conversation, record.seq), at);
        self.home(LineOwner::conversation(conversation), at)?;
        self.sums.count(self.db, conversation, record)?;
        if let (Event::UserMessage { key, .. }, Some(turn)) = (&record.event, record.turn) {
            self.found_by(values::turn(turn), conversation, record.seq);
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
        match &record.event {
            Event::ConfirmRequested(confirm) => {
                self.found_by(values::confirm(confirm.id), conversation, record.seq);
            }
            Event::ConfirmResolved(resolution) => {
                let key = values::confirm_end(resolution.confirm);
                self.found_by(key, conversation, record.seq);
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
            self.drop_pieces(conversation)?;
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
        let listed = ListEntry::of(state);
        listing::relist(
            &mut self.batch,
            conversation,
            before.listed,
            listed,
            &state.cwd,
        );
        let count = &mut self.memory.listed;
        count.change(self.db, &mut self.batch, before.listed, listed)?;
        let head = LogHead {
            last_seq: state.last_seq,
            state_parts,
            listed,
        };
        self.memory.heads.insert(conversation, head);
        Ok(())
    }

    pub(super) fn partial(
        &mut self,
        partial: &Partial,
        at: LineLocation,
    ) -> Result<(), IndexFault> {
        self.line(at);
        let same = |it: &TextChunks| it.turn == partial.turn && it.item == partial.item;
        let known = self.memory.partials.get(&partial.conversation);
        if !known.is_some_and(same) {
            self.drop_pieces(partial.conversation)?;
        }
        self.home(LineOwner::conversation(partial.conversation), at)?;
        let known = self.memory.partials.get(&partial.conversation);
        if partial.offset > known.map_or(0, |it| it.bytes) {
            // A piece before it was lost: what follows a hole is of no use.
            return Ok(());
        }
        let key = values::partial(partial.conversation, at.pos);
        self.place(key.clone(), at);
        let known = self.memory.partials.entry(partial.conversation);
        let pieces = known.or_insert(TextChunks {
            turn: partial.turn,
            item: partial.item,
            bytes: 0,
            keys: vec![],
        });
        pieces.bytes = partial.offset + partial.text.len() as u64;
        pieces.keys.push(key);
        Ok(())
    }

    pub(super) fn note(&mut self, note: &Note, at: LineLocation) -> Result<(), IndexFault> {
        self.line(at);
        let key = values::note(&note.key);
        self.give_up(&key)?;
        self.place(key, at);
        let owner = LineOwner::note(&note.key);
        if note.forgets {
            self.batch.insert(owner.erased(), &at.pos.to_be_bytes());
        }
        self.home(owner, at)
    }

    /// Adds a record of the audit trail.
    pub(super) fn audit(
        &mut self,
        head: chain::ChainHead,
        at: LineLocation,
    ) -> Result<(), IndexFault> {
        self.line(at);
        self.place(values::audit(head.n), at);
        self.batch
            .insert(values::AUDIT_HEAD, serde_json::to_vec(&head)?);
        Ok(())
    }

    /// Records of a conversation are missing in the journal.
    fn damage(&mut self, conversation: ConversationId, what: &str) {
        self.batch.insert(values::damaged(conversation), what);
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
        self.line(at);
        self.live.add(at.into());
        for prefix in [values::events(conversation), values::partials(conversation)] {
            for entry in self.db.scan_prefix(prefix) {
                let (key, place) = entry?;
                self.live.give_up(BodyPlace::from_bytes(&place)?);
                self.batch.remove(key);
            }
        }
        for entry in self.db.scan_prefix(values::all_found_by(conversation)) {
            let (key, found_by) = entry?;
            self.batch.remove(found_by);
            self.batch.remove(key);
        }
        let others = [
            values::state(conversation),
            values::idempotency_keys(conversation),
            values::unsettled(conversation),
            values::resources(conversation),
            values::gone_resources(conversation),
            values::damaged(conversation),
        ];
        for prefix in others {
            for entry in self.db.scan_prefix(prefix) {
                self.batch.remove(entry?.0);
            }
        }
        let listed = self.memory.head(self.db, conversation)?.listed;
        listing::relist(&mut self.batch, conversation, listed, None, "");
        let count = &mut self.memory.listed;
        count.change(self.db, &mut self.batch, listed, None)?;
        self.sums
            .orphan(self.db, &mut self.batch, conversation, spent)?;
        self.batch.insert(values::gone(conversation), &[]);
        let owner = LineOwner::conversation(conversation);
        self.batch.insert(owner.erased(), &at.pos.to_be_bytes());
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
        self.live.write(self.db, &mut self.batch)?;
        self.placed.clear();
        let mut batch = std::mem::take(&mut self.batch);
        batch.insert(values::APPLIED, serde_json::to_vec(&at)?);
        (self.lines, self.bytes) = (0, 0);
        self.memory.apply(self.db, batch)?;
        let mut passing = CachePassing::through(self.db);
        for (key, bytes) in self.passed.drain(..) {
            passing.value(&values::first_part(&key), bytes);
        }
        Ok(())
    }

    fn line(&mut self, at: LineLocation) {
        self.lines += 1;
        self.bytes += usize::try_from(at.end - at.line).unwrap_or_default();
        self.at = Some(at);
    }

    /// The index speaks of this line from now on.
    fn place(&mut self, key: Vec<u8>, at: LineLocation) {
        let place = BodyPlace::from(at);
        self.live.add(place);
        self.batch.insert(key.as_slice(), &place.to_bytes());
        self.passed.push((key.clone(), key.len() + PLACE_BYTES));
        self.placed.insert(key, place);
    }

    /// It speaks no more of the line that it has under this key, if it has one.
    fn give_up(&mut self, key: &[u8]) -> Result<(), IndexFault> {
        let place = match self.placed.remove(key) {
            Some(place) => Some(place),
            None => match self.db.get(key)? {
                Some(place) => Some(BodyPlace::from_bytes(&place)?),
                None => None,
            },
        };
        if let Some(place) = place {
            self.live.give_up(place);
            self.batch.remove(key);
        }
        Ok(())
    }

    /// The line's segment holds something of this one.
    fn home(&mut self, owner: LineOwner, at: LineLocation) -> Result<(), IndexFault> {
        if self.memory.homes.get(&owner) == Some(&at.segment) {
            return Ok(());
        }
        let home = owner.home(at.segment);
        if !self.db.contains_key(&home)? {
            self.batch.insert(home, &at.pos.to_be_bytes());
        }
        self.memory.homes.insert(owner, at.segment);
        Ok(())
    }

    fn found_by(&mut self, key: Vec<u8>, conversation: ConversationId, seq: Seq) {
        let place = [&conversation.to_bytes()[..], &seq.0.to_be_bytes()].concat();
        self.batch
            .insert(values::found_by(conversation, seq), key.as_slice());
        self.batch.insert(key, place);
    }

    fn drop_pieces(&mut self, conversation: ConversationId) -> Result<(), IndexFault> {
        let pieces = self.memory.partials.remove(&conversation);
        for key in pieces.into_iter().flat_map(|it| it.keys) {
            self.give_up(&key)?;
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<u16, IndexFault> {
        self.passed.push((key.to_vec(), value.len()));
        values::put(&mut self.batch, key, value).ok_or_else(too_long)
    }
}

fn too_long() -> IndexFault {
    IndexFault::garbled("a value is too long")
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
                    self.changes.audit(head, at)?;
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
        let known = self.states.get(&conversation);
        let last_seq = known.map(|it| it.last_seq).unwrap_or_default();
        if record.seq <= last_seq {
            // The index was ahead of the place that it remembers.
            self.changes.at = Some(at);
            return Ok(());
        }
        if record.seq != last_seq.next() {
            if self.is_deleted_behind(conversation, at.pos) {
                // Compaction has begun to take it out: what it lacks is deleted and not lost, and the rest is to go.
                self.changes.line(at);
                let owner = LineOwner::conversation(conversation);
                return self.changes.home(owner, at);
            }
            let what = format!(
                "conversation {conversation} has no records between {last_seq} and {}: the journal is damaged",
                record.seq
            );
            self.changes.damage(conversation, &what);
        }
        self.states.entry(conversation).or_default().apply(&record);
        self.changes.record(conversation, &record, at)
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
