//! Reading the records of a conversation by way of the index.

use aish_proto::id::{ConversationId, Seq};
use aishd_log::event::Record;
use sled::Db;

use super::body::{BodyPlace, BodyReader, JournalFiles};
use super::index::{IndexFault, read_state};
use super::line::JournalRecord;
use super::values;

/// The stored form of a record, which must be the one that the index takes it for.
pub(super) fn body<'a>(
    reader: &'a mut BodyReader<'_>,
    place: BodyPlace,
    conversation: ConversationId,
) -> Result<&'a [u8], IndexFault> {
    match reader.read(place)? {
        JournalRecord::Event(it) if it.conversation == conversation => {
            Ok(it.record.get().as_bytes())
        }
        _ => Err(IndexFault::garbled("a record is something else")),
    }
}

pub(super) fn stored_event(
    db: &Db,
    files: &JournalFiles,
    conversation: ConversationId,
    seq: Seq,
) -> Result<Option<Vec<u8>>, IndexFault> {
    let Some(place) = db.get(values::event(conversation, seq))? else {
        return Ok(None);
    };
    let place = BodyPlace::from_bytes(&place)?;
    let mut reader = files.reader();
    Ok(Some(body(&mut reader, place, conversation)?.to_vec()))
}

pub(super) fn record(
    db: &Db,
    files: &JournalFiles,
    conversation: ConversationId,
    seq: Seq,
) -> Result<Option<Record>, IndexFault> {
    let Some(stored) = stored_event(db, files, conversation, seq)? else {
        return Ok(None);
    };
    let record: Record = serde_json::from_slice(&stored)?;
    if record.seq != seq {
        return Err(IndexFault::garbled("a record has another number"));
    }
    Ok(Some(record))
}

pub(super) fn records_after(
    db: &Db,
    files: &JournalFiles,
    conversation: ConversationId,
    after: Seq,
    max_bytes: usize,
) -> Result<Vec<Record>, IndexFault> {
    let last = last_seq(db, conversation)?;
    if after >= last {
        return Ok(vec![]);
    }
    let mut page = RecordPage::new(max_bytes, usize::MAX);
    let mut reader = files.reader();
    let from = values::event(conversation, after.next());
    let to = values::event(conversation, last.next());
    for entry in db.range(from..to) {
        let (key, place) = entry?;
        let expected = Seq(after.0 + 1 + page.records.len() as u64);
        if values::seq_in(&key) != Some(expected) {
            return Err(gap(db, conversation));
        }
        let place = BodyPlace::from_bytes(&place)?;
        if !page.take(body(&mut reader, place, conversation)?, expected)? {
            return Ok(page.records);
        }
    }
    if after.0 + (page.records.len() as u64) < last.0 {
        return Err(gap(db, conversation));
    }
    Ok(page.records)
}

pub(super) fn records_before(
    db: &Db,
    files: &JournalFiles,
    conversation: ConversationId,
    before: Seq,
    limit: usize,
    max_bytes: usize,
) -> Result<Vec<Record>, IndexFault> {
    let last = last_seq(db, conversation)?;
    let mut page = RecordPage::new(max_bytes, limit);
    let mut reader = files.reader();
    let newest = last.0.min(before.0.saturating_sub(1));
    for seq in (1..=newest).rev() {
        let stored = db.get(values::event(conversation, Seq(seq)))?;
        let place = stored.ok_or_else(|| gap(db, conversation))?;
        let place = BodyPlace::from_bytes(&place)?;
        if !page.take(body(&mut reader, place, conversation)?, Seq(seq))? {
            break;
        }
    }
    page.records.reverse();
    Ok(page.records)
}

fn last_seq(db: &Db, conversation: ConversationId) -> Result<Seq, IndexFault> {
    let state = read_state(db, conversation)?;
    Ok(state.map(|(state, _)| state.last_seq).unwrap_or_default())
}

/// A record is missing: it was damaged when the index was built, or the index is.
fn gap(db: &Db, conversation: ConversationId) -> IndexFault {
    match db.get(values::damaged(conversation)) {
        Ok(Some(why)) => IndexFault::Journal(String::from_utf8_lossy(&why).into_owned()),
        Ok(None) | Err(_) => IndexFault::Garbled(format!(
            "records of conversation {conversation} are missing"
        )),
    }
}

/// As many records as fit, at least one.
#[derive(Debug)]
struct RecordPage {
    records: Vec<Record>,
    bytes_left: usize,
    limit: usize,
}

impl RecordPage {
    fn new(bytes_left: usize, limit: usize) -> Self {
        Self {
            records: vec![],
            bytes_left,
            limit,
        }
    }

    /// Returns whether it was taken.
    fn take(&mut self, value: &[u8], seq: Seq) -> Result<bool, IndexFault> {
        let fits = self.records.is_empty() || value.len() <= self.bytes_left;
        if !fits || self.records.len() >= self.limit {
            return Ok(false);
        }
        let record: Record = serde_json::from_slice(value)?;
        if record.seq != seq {
            return Err(IndexFault::garbled("a record has another number"));
        }
        self.records.push(record);
        self.bytes_left = self.bytes_left.saturating_sub(value.len());
        Ok(true)
    }
}
