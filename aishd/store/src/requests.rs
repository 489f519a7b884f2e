//! What the writer is asked for, and whether it follows on what is stored.

use std::collections::HashMap;

use aish_proto::id::{ConversationId, Seq};
use aishd_log::audit::AuditDraft;
use aishd_log::audit::chain::ChainHead;
use aishd_log::event::Record;
use aishd_log::spending::SpentSum;
use aishd_log::state::ConversationState;
use aishd_log::tool::ContentDigest;
use serde_json::value::RawValue;
use sled::Db;
use tokio::sync::oneshot;

use super::change_batch::{ChangeBatch, IndexCache};
use super::compaction_plan::CompactionGoal;
use super::index::IndexFault;
use super::journal::{JournalEntry, LineLocation};
use super::{Commit, CommitError, DiskClaim, Note, Partial, spending};

/// The journal's lines can have eight digits of length; nothing that we accept comes near.
const RECORD_BYTES: usize = 64 * 1024 * 1024;

/// About what a record of the audit trail takes.
const DRAFT_BYTES: usize = 512;

pub(super) type WriteAck = oneshot::Sender<Result<(), CommitError>>;

/// Told when what was deleted and forgotten before has left every file, or why it has not.
pub(super) type ErasureAck = oneshot::Sender<Result<(), String>>;

#[derive(Debug)]
pub(super) enum WriteRequest {
    Commit(Box<PreparedCommit>, Option<WriteAck>),
    Partial(Partial),
    Delete(Box<ConversationDeletion>, Option<WriteAck>),
    /// Something kept beside the conversations, and what is told of it.
    Note(Note, AuditAdditions, Option<WriteAck>),
    /// What is told beside the conversations.
    Audit(AuditAdditions, Option<WriteAck>),
    /// What was deleted and forgotten before is to leave every file.
    Erase(CompactionGoal, Option<ErasureAck>),
}

/// A conversation that is to go.
#[derive(Debug)]
pub(super) struct ConversationDeletion {
    conversation: ConversationId,
    trail: AuditAdditions,
    /// What it took until then; filled in by the writer, who alone knows what was before.
    spent: Vec<SpentSum>,
}

impl ConversationDeletion {
    pub(super) fn new(conversation: ConversationId, audit: Vec<AuditDraft>) -> Self {
        Self {
            conversation,
            trail: AuditAdditions::new(audit),
            spent: vec![],
        }
    }

    /// Reckons up what it took, up to what is taken in before it.
    fn reckon(&mut self, db: &Db, before: &[WriteRequest]) -> Result<(), IndexFault> {
        let again = |it: &WriteRequest| matches!(it, WriteRequest::Delete(other, _) if other.conversation == self.conversation);
        let from = before.iter().rposition(again).map_or(0, |it| it + 1);
        let records = before[from..].iter().flat_map(|it| match it {
            WriteRequest::Commit(commit, _) if commit.conversation == self.conversation => {
                commit.records.as_slice()
            }
            WriteRequest::Commit(..)
            | WriteRequest::Partial(_)
            | WriteRequest::Delete(..)
            | WriteRequest::Note(..)
            | WriteRequest::Audit(..)
            | WriteRequest::Erase(..) => &[],
        });
        let records = records.map(|(record, _)| record);
        self.spent = if from == 0 {
            spending::with(db, self.conversation, records)?
        } else {
            spending::sums_of(self.conversation, records)
        };
        Ok(())
    }
}

/// What a request adds to the audit trail: drafts until the writer gives them their places.
#[derive(Debug, Default)]
pub(super) struct AuditAdditions {
    drafts: Vec<AuditDraft>,
    sealed: Vec<(ChainHead, Box<RawValue>)>,
}

impl AuditAdditions {
    pub(super) fn new(drafts: Vec<AuditDraft>) -> Self {
        Self {
            drafts,
            sealed: vec![],
        }
    }

    fn bytes(&self) -> usize {
        self.drafts.len() * DRAFT_BYTES
    }

    fn seal(&mut self, head: &mut ChainHead) -> Result<(), CommitError> {
        let failed = |it| CommitError::Io(format!("encode a record of the audit trail: {it}"));
        self.sealed.clear();
        for draft in &self.drafts {
            let sealed = head.seal(draft).map_err(failed)?;
            let text = RawValue::from_string(sealed.text.clone()).map_err(failed)?;
            self.sealed.push((sealed.head(), text));
        }
        Ok(())
    }

    /// Its lines complete the commit.
    fn entries(&self) -> impl Iterator<Item = JournalEntry<'_>> {
        let count = self.sealed.len();
        let lines = self.sealed.iter().zip(1..);
        lines.map(move |((head, entry), number)| JournalEntry::Audit {
            head: *head,
            entry,
            last: number == count,
        })
    }

    fn apply(
        &self,
        changes: &mut ChangeBatch<'_>,
        locations: &mut impl Iterator<Item = LineLocation>,
    ) -> Result<(), IndexFault> {
        for ((head, _), at) in self.sealed.iter().zip(locations) {
            changes.audit(*head, at)?;
        }
        Ok(())
    }
}

/// A commit whose records were encoded by who made it, so that the writer need not.
#[derive(Debug)]
pub(super) struct PreparedCommit {
    conversation: ConversationId,
    records: Vec<(Record, Box<RawValue>)>,
    state: ConversationState,
    /// What is kept beside the conversations together with it.
    note: Option<Note>,
    trail: AuditAdditions,
    claim: DiskClaim,
}

impl PreparedCommit {
    pub(super) fn new(commit: Commit, note: Option<Note>) -> Result<Self, CommitError> {
        let mut records = Vec::with_capacity(commit.records.len());
        for record in commit.records {
            let stored = serde_json::value::to_raw_value(&record)
                .map_err(|it| CommitError::Io(format!("encode a record: {it}")))?;
            if stored.get().len() > RECORD_BYTES {
                return Err(CommitError::Io("a record is too long".to_owned()));
            }
            records.push((record, stored));
        }
        let mut drafts = commit.audit;
        for draft in &mut drafts {
            let mut told_of = records.iter();
            let told_of = told_of.find(|(record, _)| Some(record.seq) == draft.seq);
            draft.fact = told_of.map(|(_, stored)| ContentDigest::of(stored.get().as_bytes()));
        }
        Ok(Self {
            trail: AuditAdditions::new(drafts),
            conversation: commit.conversation,
            records,
            state: commit.state,
            claim: commit.claim,
            note,
        })
    }

    /// The seq of its last record, if it follows on the last one that is stored.
    fn follows_on(&self, last_seq: Seq) -> Result<Seq, CommitError> {
        let mut next = last_seq;
        for (record, _) in &self.records {
            next = next.next();
            if record.seq != next {
                return Err(CommitError::Io(format!(
                    "record {} of conversation {} where {next} was due",
                    record.seq, self.conversation
                )));
            }
        }
        if self.records.is_empty() || self.state.last_seq != next {
            return Err(CommitError::Io(format!(
                "the state of conversation {} is not the one after its records",
                self.conversation
            )));
        }
        Ok(next)
    }

    fn bytes(&self) -> usize {
        let records: usize = self.records.iter().map(|(_, it)| it.get().len()).sum();
        let note = self.note.as_ref().map_or(0, |it| it.text.len());
        records + note + self.trail.bytes()
    }
}

impl WriteRequest {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Commit(commit, _) => commit.bytes(),
            Self::Partial(partial) => partial.text.len(),
            Self::Delete(deletion, _) => deletion.trail.bytes(),
            Self::Audit(trail, _) => trail.bytes(),
            Self::Note(note, trail, _) => note.text.len() + trail.bytes(),
            Self::Erase(..) => 0,
        }
    }

    pub(super) fn claim(&self) -> DiskClaim {
        match self {
            Self::Commit(commit, _) => commit.claim,
            Self::Delete(..) | Self::Erase(..) => DiskClaim::End,
            Self::Partial(_) | Self::Audit(..) | Self::Note(..) => DiskClaim::GoOn,
        }
    }

    pub(super) fn refuse(self, error: &CommitError) {
        match self {
            Self::Commit(_, Some(ack))
            | Self::Delete(_, Some(ack))
            | Self::Note(_, _, Some(ack))
            | Self::Audit(_, Some(ack)) => {
                answer(ack, Err(error.clone()));
            }
            Self::Erase(_, Some(ack)) => {
                let _gone = ack.send(Err(error.to_string()));
            }
            Self::Erase(_, None)
            | Self::Commit(_, None)
            | Self::Delete(_, None)
            | Self::Note(_, _, None)
            | Self::Audit(_, None)
            | Self::Partial(_) => {}
        }
    }

    /// Whom it is to be answered to; asked once.
    pub(super) fn take_ack(&mut self) -> Option<WriteAck> {
        match self {
            Self::Commit(_, ack)
            | Self::Delete(_, ack)
            | Self::Note(_, _, ack)
            | Self::Audit(_, ack) => ack.take(),
            Self::Partial(_) | Self::Erase(..) => None,
        }
    }

    pub(super) fn take_erasure(&mut self) -> Option<(CompactionGoal, ErasureAck)> {
        match self {
            Self::Erase(goal, ack) => Some(*goal).zip(ack.take()),
            Self::Commit(..)
            | Self::Partial(_)
            | Self::Delete(..)
            | Self::Note(..)
            | Self::Audit(..) => None,
        }
    }

    fn trail(&mut self) -> Option<&mut AuditAdditions> {
        match self {
            Self::Commit(commit, _) => Some(&mut commit.trail),
            Self::Delete(deletion, _) => Some(&mut deletion.trail),
            Self::Note(_, trail, _) | Self::Audit(trail, _) => Some(trail),
            Self::Partial(_) | Self::Erase(..) => None,
        }
    }
}

/// Gives what a group tells its places in the trail, behind `head`. Returns the last of them.
pub(super) fn seal(
    group: &mut [WriteRequest],
    mut head: ChainHead,
) -> Result<ChainHead, CommitError> {
    for trail in group.iter_mut().filter_map(WriteRequest::trail) {
        trail.seal(&mut head)?;
    }
    Ok(head)
}

pub(super) fn answer(ack: WriteAck, outcome: Result<(), CommitError>) {
    // Who asked may be gone; what was stored stays stored.
    let _gone = ack.send(outcome);
}

/// Refuses what does not follow on what is stored, so that no gap comes into a log.
pub(super) fn in_order(
    db: &Db,
    memory: &mut IndexCache,
    group: Vec<WriteRequest>,
) -> Result<Vec<WriteRequest>, (Vec<WriteRequest>, IndexFault)> {
    let mut last_seqs: HashMap<ConversationId, Seq> = HashMap::new();
    let mut taken = Vec::with_capacity(group.len());
    let mut waiting = group.into_iter();
    while let Some(mut request) = waiting.next() {
        match &mut request {
            WriteRequest::Partial(_)
            | WriteRequest::Note(..)
            | WriteRequest::Audit(..)
            | WriteRequest::Erase(..) => {}
            WriteRequest::Delete(deletion, _) => {
                if let Err(fault) = deletion.reckon(db, &taken) {
                    taken.push(request);
                    taken.extend(waiting);
                    return Err((taken, fault));
                }
                last_seqs.insert(deletion.conversation, Seq(0));
            }
            WriteRequest::Commit(commit, _) => {
                let known = match last_seqs.get(&commit.conversation) {
                    Some(known) => Ok(*known),
                    None => memory.last_seq(db, commit.conversation),
                };
                let last_seq = match known {
                    Ok(last_seq) => last_seq,
                    Err(fault) => {
                        taken.push(request);
                        taken.extend(waiting);
                        return Err((taken, fault));
                    }
                };
                match commit.follows_on(last_seq) {
                    Ok(last_seq) => last_seqs.insert(commit.conversation, last_seq),
                    Err(error) => {
                        request.refuse(&error);
                        continue;
                    }
                };
            }
        }
        taken.push(request);
    }
    Ok(taken)
}

/// The lines of a group, in its order.
pub(super) fn entries(group: &[WriteRequest]) -> Vec<JournalEntry<'_>> {
    let mut entries = vec![];
    for request in group {
        match request {
            WriteRequest::Partial(partial) => entries.push(JournalEntry::Partial(partial)),
            WriteRequest::Delete(deletion, _) => {
                entries.push(JournalEntry::Delete {
                    conversation: deletion.conversation,
                    spent: &deletion.spent,
                    last: deletion.trail.sealed.is_empty(),
                });
                entries.extend(deletion.trail.entries());
            }
            WriteRequest::Audit(trail, _) => entries.extend(trail.entries()),
            WriteRequest::Erase(..) => {}
            WriteRequest::Note(note, trail, _) => {
                let last = trail.sealed.is_empty();
                entries.push(JournalEntry::Note { note, last });
                entries.extend(trail.entries());
            }
            WriteRequest::Commit(commit, _) => {
                let untold = commit.trail.sealed.is_empty();
                let count = commit.records.len();
                let lines = commit.records.iter().zip(1..);
                let alone = untold && commit.note.is_none();
                entries.extend(lines.map(|((_, record), number)| JournalEntry::Event {
                    conversation: commit.conversation,
                    record,
                    last: alone && number == count,
                }));
                entries.extend(
                    commit
                        .note
                        .iter()
                        .map(|note| JournalEntry::Note { note, last: untold }),
                );
                entries.extend(commit.trail.entries());
            }
        }
    }
    entries
}

/// Applies a group whose lines stand at `locations`.
pub(super) fn apply(
    db: &Db,
    memory: &mut IndexCache,
    group: &[WriteRequest],
    locations: &[LineLocation],
) -> Result<(), IndexFault> {
    let mut changes = ChangeBatch::new(db, memory);
    let mut locations = locations.iter().copied();
    for request in group {
        match request {
            WriteRequest::Commit(commit, _) => {
                for ((record, _), at) in commit.records.iter().zip(&mut locations) {
                    changes.record(commit.conversation, record, at)?;
                }
                for (note, at) in commit.note.iter().zip(&mut locations) {
                    changes.note(note, at)?;
                }
                commit.trail.apply(&mut changes, &mut locations)?;
                changes.state(commit.conversation, &commit.state)?;
            }
            WriteRequest::Partial(partial) => {
                for at in locations.by_ref().take(1) {
                    changes.partial(partial, at)?;
                }
            }
            WriteRequest::Delete(deletion, _) => {
                let conversation = deletion.conversation;
                for at in locations.by_ref().take(1) {
                    changes.delete(conversation, &deletion.spent, at)?;
                }
                deletion.trail.apply(&mut changes, &mut locations)?;
            }
            WriteRequest::Audit(trail, _) => trail.apply(&mut changes, &mut locations)?,
            WriteRequest::Erase(..) => {}
            WriteRequest::Note(note, trail, _) => {
                for at in locations.by_ref().take(1) {
                    changes.note(note, at)?;
                }
                trail.apply(&mut changes, &mut locations)?;
            }
        }
    }
    changes.apply()?;
    Ok(())
}
