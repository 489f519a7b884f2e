//! What was taken of models, as sums for each day, conversation, preset and model, so that nobody has to read logs for
//! them. They change in the batch of the records that they are made of, and replay makes the same of the same lines.

use std::collections::BTreeMap;

use aish_proto::id::ConversationId;
use aishd_log::event::Record;
use aishd_log::spending::{Day, NanoUsd, Payee, SpentSum};
use aishd_log::usage::Usage;
use sha2::{Digest as _, Sha256};
use sled::{Batch, Db};

use super::index::IndexFault;
use super::{ReadError, Store, values};

impl Store {
    /// What was taken from this day on, oldest first.
    pub fn spent_since(&self, day: Day) -> Result<Vec<SpentSum>, ReadError> {
        self.read(|db| {
            let entries = db.range(values::spent_from(day)..values::spent_end());
            entries.map(|it| read(&it?.1)).collect()
        })
    }

    /// The money of one day, by prices that were known.
    pub fn spent_on(&self, day: Day) -> Result<NanoUsd, ReadError> {
        self.read(|db| {
            let mut sum = NanoUsd(0);
            for entry in db.range(values::spent_from(day)..values::spent_from(Day(day.0 + 1))) {
                sum = sum.plus(read(&entry?.1)?.usage.cost.unwrap_or_default());
            }
            Ok(sum)
        })
    }
}

fn read(stored: &[u8]) -> Result<SpentSum, IndexFault> {
    Ok(serde_json::from_slice(stored)?)
}

/// Sums that a batch changes.
#[derive(Debug, Default)]
pub(super) struct SpendingSums(BTreeMap<Vec<u8>, SpentSum>);

impl SpendingSums {
    /// Counts what a record says was taken.
    pub(super) fn count(
        &mut self,
        db: &Db,
        conversation: ConversationId,
        record: &Record,
    ) -> Result<(), IndexFault> {
        match of_record(conversation, record) {
            Some(spent) => self.add(db, spent),
            None => Ok(()),
        }
    }

    fn add(&mut self, db: &Db, spent: SpentSum) -> Result<(), IndexFault> {
        let key = key(&spent);
        if let Some(sum) = self.0.get_mut(&key) {
            sum.usage = sum.usage.plus(spent.usage);
            return Ok(());
        }
        let mut sum = spent;
        if let Some(stored) = db.get(&key)? {
            sum.usage = read(&stored)?.usage.plus(sum.usage);
        }
        self.0.insert(key, sum);
        Ok(())
    }

    /// A conversation goes, and what it took stays under no name: `spent`, or else what is known of it. Everything that was
    /// counted before must have been applied.
    pub(super) fn orphan(
        &mut self,
        db: &Db,
        batch: &mut Batch,
        conversation: ConversationId,
        spent: &[SpentSum],
    ) -> Result<(), IndexFault> {
        let known = of_conversation(db, conversation)?;
        for spent in &known {
            batch.remove(key(spent));
            batch.remove(named_key(conversation, spent));
        }
        let taken = if spent.is_empty() { &known } else { spent };
        for spent in taken {
            let nameless = SpentSum {
                conversation: None,
                ..spent.clone()
            };
            self.add(db, nameless)?;
        }
        Ok(())
    }

    /// Puts them into the batch.
    pub(super) fn write(&mut self, batch: &mut Batch) -> Result<(), IndexFault> {
        for (key, spent) in std::mem::take(&mut self.0) {
            batch.insert(key.as_slice(), serde_json::to_vec(&spent)?);
            if let Some(conversation) = spent.conversation {
                batch.insert(named_key(conversation, &spent), key);
            }
        }
        Ok(())
    }
}

/// What a conversation has taken, with what `records` add that are not applied yet.
pub(super) fn with<'a>(
    db: &Db,
    conversation: ConversationId,
    records: impl Iterator<Item = &'a Record>,
) -> Result<Vec<SpentSum>, IndexFault> {
    let known = of_conversation(db, conversation)?;
    let later = records.filter_map(|it| of_record(conversation, it));
    Ok(summed(known.into_iter().chain(later)))
}

/// What such records say was taken.
pub(super) fn sums_of<'a>(
    conversation: ConversationId,
    records: impl Iterator<Item = &'a Record>,
) -> Vec<SpentSum> {
    summed(records.filter_map(|it| of_record(conversation, it)))
}

fn summed(parts: impl Iterator<Item = SpentSum>) -> Vec<SpentSum> {
    let mut sums: BTreeMap<Vec<u8>, SpentSum> = BTreeMap::new();
    for spent in parts {
        let sum = sums.entry(key(&spent)).or_insert_with(|| SpentSum {
            usage: Usage::default(),
            ..spent.clone()
        });
        sum.usage = sum.usage.plus(spent.usage);
    }
    sums.into_values().collect()
}

fn of_conversation(db: &Db, conversation: ConversationId) -> Result<Vec<SpentSum>, IndexFault> {
    let mut found = vec![];
    for entry in db.scan_prefix(values::spent_by(conversation)) {
        let stored = db.get(entry?.1)?;
        let stored = stored.ok_or_else(|| IndexFault::garbled("a sum that was named"))?;
        found.push(read(&stored)?);
    }
    Ok(found)
}

fn of_record(conversation: ConversationId, record: &Record) -> Option<SpentSum> {
    let (payee, usage) = record.event.paid()?;
    let Payee {
        preset,
        model_id,
        price: _,
        purpose: _,
    } = payee;
    Some(SpentSum {
        day: Day::of(record.at),
        conversation: Some(conversation),
        preset: preset.clone(),
        model_id: model_id.clone(),
        usage: *usage,
    })
}

fn key(spent: &SpentSum) -> Vec<u8> {
    values::spent(spent.day, spent.conversation, &which(spent))
}

/// The same is found by its conversation, to be taken out with it.
fn named_key(conversation: ConversationId, spent: &SpentSum) -> Vec<u8> {
    values::spent_named(conversation, spent.day, &which(spent))
}

/// Names may be long and hold anything.
fn which(spent: &SpentSum) -> [u8; 16] {
    let mut digest = Sha256::new();
    digest.update((spent.preset.len() as u64).to_be_bytes());
    digest.update(spent.preset.as_bytes());
    digest.update(spent.model_id.as_bytes());
    let digest: [u8; 32] = digest.finalize().into();
    std::array::from_fn(|at| digest[at])
}
