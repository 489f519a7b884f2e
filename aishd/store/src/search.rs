//! Going through a log for records that are worth reading, without understanding the others.

use aish_proto::id::{ConversationId, Seq};
use aishd_log::event::Record;
use sled::{Db, IVec};

use super::body::BodyPlace;
use super::index::{self, IndexFault};
use super::{ReadError, Store, records, values};

/// Part of a log that was looked through.
#[derive(Clone, Debug)]
pub struct SearchedPart {
    /// Those that were wanted, in the order in which they were met.
    pub records: Vec<Record>,
    /// The last position that was looked at; `None`: there is nothing after it.
    pub through: Option<Seq>,
}

impl Store {
    /// Records with seq > `after` whose stored bytes are wanted, of about `max_bytes` of the log.
    pub fn records_where(
        &self,
        conversation: ConversationId,
        after: Seq,
        max_bytes: usize,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<SearchedPart, ReadError> {
        self.look_through(conversation, wanted, max_bytes, |db| {
            let from = values::event(conversation, after.next());
            db.range(from..=values::event(conversation, Seq(u64::MAX)))
        })
    }

    /// The same backwards: records with seq < `before`.
    pub fn records_where_before(
        &self,
        conversation: ConversationId,
        before: Seq,
        max_bytes: usize,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<SearchedPart, ReadError> {
        self.look_through(conversation, wanted, max_bytes, |db| {
            let from = values::event(conversation, Seq(0));
            db.range(from..values::event(conversation, before)).rev()
        })
    }

    fn look_through<I: Iterator<Item = sled::Result<(IVec, IVec)>>>(
        &self,
        conversation: ConversationId,
        wanted: impl Fn(&[u8]) -> bool,
        max_bytes: usize,
        places: impl Fn(&Db) -> I,
    ) -> Result<SearchedPart, ReadError> {
        self.read(|db| {
            index::check_whole(db, conversation)?;
            let mut found = FoundRecords::new(max_bytes, &wanted);
            let mut reader = self.shared.files.reader();
            for entry in places(db) {
                let (key, place) = entry?;
                let place = BodyPlace::from_bytes(&place)?;
                if found.look_at(records::body(&mut reader, place, conversation)?)? {
                    let through = values::seq_in(&key);
                    let through =
                        through.ok_or_else(|| IndexFault::garbled("the key of a record"))?;
                    return Ok(found.through(Some(through)));
                }
            }
            Ok(found.through(None))
        })
    }
}

/// What was found among the records that were looked at.
struct FoundRecords<W> {
    wanted: W,
    records: Vec<Record>,
    bytes: usize,
    max_bytes: usize,
}

impl<W: Fn(&[u8]) -> bool> FoundRecords<W> {
    fn new(max_bytes: usize, wanted: W) -> Self {
        Self {
            wanted,
            records: vec![],
            bytes: 0,
            max_bytes,
        }
    }

    /// Whether enough was looked at with this one.
    fn look_at(&mut self, value: &[u8]) -> Result<bool, IndexFault> {
        if (self.wanted)(value) {
            self.records.push(serde_json::from_slice(value)?);
        }
        self.bytes += value.len();
        Ok(self.bytes > self.max_bytes)
    }

    fn through(self, through: Option<Seq>) -> SearchedPart {
        SearchedPart {
            records: self.records,
            through,
        }
    }
}
