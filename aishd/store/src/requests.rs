//! What the writer is asked for, and whether it follows on what is stored.

use std::collections::HashMap;

use aish_proto::id::{ConversationId, Seq};
use serde_json::value::RawValue;
use sled::Db;
use tokio::sync::oneshot;

use super::change::{Changes, Memory};
use super::index::Fault;
use super::journal::{Entry, Location};
use super::{Claim, Commit, CommitError, Note, Partial, spending};
use aishd_log::audit::Draft;
use aishd_log::audit::chain::Head;
use aishd_log::event::Record;
use aishd_log::spending::Spent;
use aishd_log::state::State;
use aishd_log::tool::Sha;

/// The journal's lines can have eight digits of length; nothing that we accept comes near.
const RECORD_BYTES: usize = 64 * 1024 * 1024;

/// About what a record of the audit trail takes.
const DRAFT_BYTES: usize = 512;

pub(super) type Ack = oneshot::Sender<Result<(), CommitError>>;

#[derive(Debug)]
pub(super) enum Request {
    Commit(Box<Prepared>, Option<Ack>),
    Partial(Partial),
    Delete(Box<Deletion>, Option<Ack>),
    /// Something kept beside the conversations, and what is told of it.
    Note(Note, Trail, Option<Ack>),
    /// What is told beside the conversations.
    Audit(Trail, Option<Ack>),
}

/// A conversation that is to go.
#[derive(Debug)]
pub(super) struct Deletion {
    conversation: ConversationId,
    trail: Trail,
    /// What it took until then; filled in by the writer, who alone knows what was before.
    spent: Vec<Spent>,
}

impl Deletion {
    pub(super) fn new(conversation: ConversationId, audit: Vec<Draft>) -> Self {
        Self {
            conversation,
            trail: Trail::new(audit),
            spent: vec![],
        }
    }

    /// Reckons up what it took, up to what is taken in before it.
    fn reckon(&mut self, db: &Db, before: &[Request]) -> Result<(), Fault> {
        let again = |it: &Request| matches!(it, Request::Delete(other, _) if other.conversation == self.conversation);
        let from = before.iter().rposition(again).map_or(0, |it| it + 1);
        let records = before[from..].iter().flat_map(|it| match it {
            Request::Commit(commit, _) if commit.conversation == self.conversation => {
                commit.records.as_slice()
            }
            Request::Commit(..)
            | Request::Partial(_)
            | Request::Delete(..)
            | Request::Note(..)
            | Request::Audit(..) => &[],
        });
        let records = records.map(|(record, _)| record);
        self.spent = if from == 0 {
            spending::with(db, self.conversation, records)?
        } else {
            spending::alone(self.conversation, records)
        };
        Ok(())
    }
}

/// What a request adds to the audit trail: drafts until the writer gives them their places.
#[derive(Debug, Default)]
pub(super) struct Trail {
    drafts: Vec<Draft>,
    sealed: Vec<(Head, Box<RawValue>)>,
}

impl Trail {
    pub(super) fn new(drafts: Vec<Draft>) -> Self {
        Self {
            drafts,
            sealed: vec![],
        }
    }

    fn bytes(&self) -> usize {
        self.drafts.len() * DRAFT_BYTES
    }

    fn seal(&mut self, head: &mut Head) -> Result<(), CommitError> {
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
    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let count = self.sealed.len();
        let lines = self.sealed.iter().zip(1..);
        lines.map(move |((head, entry), number)| Entry::Audit {
            head: *head,
            entry,
            last: number == count,
        })
    }

    fn apply(
        &self,
        changes: &mut Changes<'_>,
        locations: &mut impl Iterator<Item = Location>,
    ) -> Result<(), Fault> {
        for ((head, entry), at) in self.sealed.iter().zip(locations) {
            changes.audit(*head, entry.get(), at)?;
        }
        Ok(())
    }
}

/// A commit whose records were encoded by who made it, so that the writer need not.
#[derive(Debug)]
pub(super) struct Prepared {
    conversation: ConversationId,
    records: Vec<(Record, Box<RawValue>)>,
    state: State,
    /// What is kept beside the conversations together with it.
    note: Option<Note>,
    trail: Trail,
    claim: Claim,
}

impl Prepared {
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
            draft.fact = told_of.map(|(_, stored)| Sha::of(stored.get().as_bytes()));
        }
        Ok(Self {
            trail: Trail::new(drafts),
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

impl Request {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Commit(commit, _) => commit.bytes(),
            Self::Partial(partial) => partial.text.len(),
            Self::Delete(deletion, _) => deletion.trail.bytes(),
            Self::Audit(trail, _) => trail.bytes(),
            Self::Note(note, trail, _) => note.text.len() + trail.bytes(),
        }
    }

    pub(super) fn claim(&self) -> Claim {
        match self {
            Self::Commit(commit, _) => commit.claim,
            Self::Delete(..) => Claim::End,
            Self::Partial(_) | Self::Audit(..) | Self::Note(..) => Claim::GoOn,
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
            Self::Commit(_, None)
            | Self::Delete(_, None)
            | Self::Note(_, _, None)
            | Self::Audit(_, None)
            | Self::Partial(_) => {}
        }
    }

    /// Whom it is to be answered to; asked once.
    pub(super) fn take_ack(&mut self) -> Option<Ack> {
        match self {
            Self::Commit(_, ack)
            | Self::Delete(_, ack)
            | Self::Note(_, _, ack)
            | Self::Audit(_, ack) => ack.take(),
            Self::Partial(_) => None,
        }
    }

    fn trail(&mut self) -> Option<&mut Trail> {
        match self {
            Self::Commit(commit, _) => Some(&mut commit.trail),
            Self::Delete(deletion, _) => Some(&mut deletion.trail),
            Self::Note(_, trail, _) | Self::Audit(trail, _) => Some(trail),
            Self::Partial(_) => None,
        }
    }
}

/// Gives what a group tells its places in the trail, behind `head`. Returns the last of them.
pub(super) fn seal(group: &mut [Request], mut head: Head) -> Result<Head, CommitError> {
    for trail in group.iter_mut().filter_map(Request::trail) {
        trail.seal(&mut head)?;
    }
    Ok(head)
}

pub(super) fn answer(ack: Ack, outcome: Result<(), CommitError>) {
    // Who asked may be gone; what was stored stays stored.
    let _gone = ack.send(outcome);
}

/// Refuses what does not follow on what is stored, so that no gap comes into a log.
pub(super) fn in_order(
    db: &Db,
    memory: &mut Memory,
    group: Vec<Request>,
) -> Result<Vec<Request>, (Vec<Request>, Fault)> {
    let mut last_seqs: HashMap<ConversationId, Seq> = HashMap::new();
    let mut taken = Vec::with_capacity(group.len());
    let mut waiting = group.into_iter();
    while let Some(mut request) = waiting.next() {
        match &mut request {
            Request::Partial(_) | Request::Note(..) | Request::Audit(..) => {}
            Request::Delete(deletion, _) => {
                if let Err(fault) = deletion.reckon(db, &taken) {
                    taken.push(request);
                    taken.extend(waiting);
                    return Err((taken, fault));
                }
                last_seqs.insert(deletion.conversation, Seq(0));
            }
            Request::Commit(commit, _) => {
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
pub(super) fn entries(group: &[Request]) -> Vec<Entry<'_>> {
    let mut entries = vec![];
    for request in group {
        match request {
            Request::Partial(partial) => entries.push(Entry::Partial(partial)),
            Request::Delete(deletion, _) => {
                entries.push(Entry::Delete {
                    conversation: deletion.conversation,
                    spent: &deletion.spent,
                    last: deletion.trail.sealed.is_empty(),
                });
                entries.extend(deletion.trail.entries());
            }
            Request::Audit(trail, _) => entries.extend(trail.entries()),
            Request::Note(note, trail, _) => {
                let last = trail.sealed.is_empty();
                entries.push(Entry::Note { note, last });
                entries.extend(trail.entries());
            }
            Request::Commit(commit, _) => {
                let untold = commit.trail.sealed.is_empty();
                let count = commit.records.len();
                let lines = commit.records.iter().zip(1..);
                let alone = untold && commit.note.is_none();
                entries.extend(lines.map(|((_, record), number)| Entry::Event {
                    conversation: commit.conversation,
                    record,
                    last: alone && number == count,
                }));
                entries.extend(
                    commit
                        .note
                        .iter()
                        .map(|note| Entry::Note { note, last: untold }),
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
    memory: &mut Memory,
    group: &[Request],
    locations: &[Location],
) -> Result<(), Fault> {
    let mut changes = Changes::new(db, memory);
    let mut locations = locations.iter().copied();
    for request in group {
        match request {
            Request::Commit(commit, _) => {
                for ((record, stored), at) in commit.records.iter().zip(&mut locations) {
                    changes.record(commit.conversation, record, stored.get().as_bytes(), at)?;
                }
                for (note, at) in commit.note.iter().zip(&mut locations) {
                    changes.note(note, at)?;
                }
                commit.trail.apply(&mut changes, &mut locations)?;
                changes.state(commit.conversation, &commit.state)?;
            }
            Request::Partial(partial) => {
                for at in locations.by_ref().take(1) {
                    changes.partial(partial, at)?;
                }
            }
            Request::Delete(deletion, _) => {
                let conversation = deletion.conversation;
                for at in locations.by_ref().take(1) {
                    changes.delete(conversation, &deletion.spent, at)?;
                }
                deletion.trail.apply(&mut changes, &mut locations)?;
            }
            Request::Audit(trail, _) => trail.apply(&mut changes, &mut locations)?,
            Request::Note(note, trail, _) => {
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
