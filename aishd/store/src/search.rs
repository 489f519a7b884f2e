//! Going through a log for records that are worth reading, without understanding the others.

use aish_proto::id::{ConversationId, Seq};
use aishd_log::event::Record;

use super::index::{self, IndexFault};
use super::{ReadError, Store, values};

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
        self.read(|db| {
            let mut found = FoundRecords::new(max_bytes, &wanted);
            let mut value = vec![];
            let mut missing_parts = 0;
            let from = values::event(conversation, after.next());
            let to = values::event(conversation, Seq(u64::MAX));
            for entry in db.range(from..to) {
                let (key, part) = entry?;
                missing_parts = index::collect_part(&key, &part, &mut value, missing_parts)?;
                if missing_parts > 0 {
                    continue;
                }
                if found.look_at(&value)? {
                    let through = values::seq_in(&key);
                    let through =
                        through.ok_or_else(|| IndexFault::garbled("the key of a record"))?;
                    return Ok(found.through(Some(through)));
                }
            }
            Ok(found.through(None))
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
        self.read(|db| {
            let mut found = FoundRecords::new(max_bytes, &wanted);
            let mut value = vec![];
            // The last part of a value comes first.
            let mut parts = vec![];
            let from = values::event(conversation, Seq(0));
            let to = values::event(conversation, before);
            for entry in db.range(from..to).rev() {
                let (key, part) = entry?;
                if values::part_in(&key) != Some(0) {
                    parts.push(part);
                    continue;
                }
                value.clear();
                let mut missing = index::collect_part(&key, &part, &mut value, 0)?;
                for (number, part) in (1_u16..).zip(parts.drain(..).rev()) {
                    let key = [&key[..key.len() - 2], &number.to_be_bytes()].concat();
                    missing = index::collect_part(&key, &part, &mut value, missing)?;
                }
                if missing > 0 {
                    return Err(IndexFault::garbled("a record has not all its parts"));
                }
                if found.look_at(&value)? {
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
