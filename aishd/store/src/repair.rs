//! Writing a journal anew that cannot be read to its end: what is damaged is set aside, what was lost is said where it stood, and
//! everything else is as it was. It goes on in a new epoch, because places of before do not hold.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use aish_proto::id::{ConversationId, Epoch, Seq};
use aishd_log::audit::chain::ChainHead;
use aishd_log::audit::{AuditDraft, AuditFact};
use aishd_log::event::{Event, Record};
use aishd_log::spending::SpentSum;
use aishd_log::time::Timestamp;
use aishd_platform::{clock, failpoint};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::index_witness::IndexWitness;
use super::journal::{AppendError, Journal, JournalEntry, JournalResume};
use super::line::{JournalPosition, JournalRecord};
use super::lock::StoreLock;
use super::scan::{self, CommitLines, JournalDamage, ScanError};
use super::segment::{self, JournalSegment};
use super::{Note, OpenError, Partial, Store, disk, journal_exchange, recover};

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreRepair {
    /// What could not be read.
    pub damage: Vec<JournalDamage>,
    /// Conversations that lost records, and how many.
    pub lost: Vec<(ConversationId, u64)>,
    /// Records of the audit trail that are lost.
    pub lost_of_trail: u64,
    /// Where the damaged bytes are now; `None`: there were none.
    pub set_aside: Option<PathBuf>,
}

/// Repairs the store in `dir`, which nobody may have open; damaged bytes are put into files in a new directory in `aside`. Where
/// nothing is damaged nothing is changed. Blocks.
pub fn repair(dir: &Path, aside: &Path) -> Result<StoreRepair, OpenError> {
    let io_error = |source| OpenError::Io {
        path: dir.display().to_string(),
        source,
    };
    if !dir.exists() {
        return Ok(StoreRepair::default());
    }
    let mut lock = StoreLock::take(dir)?;
    lock.write_pid().map_err(io_error)?;
    let _said_in_the_log = journal_exchange::settle(dir).map_err(io_error)?;
    let segments = segment::list(&dir.join("journal")).map_err(io_error)?;
    recover::refuse_newer(dir, &segments)?;
    if segments.is_empty() && dir.join("db").exists() {
        return Err(OpenError::Damaged {
            path: dir.display().to_string(),
            detail: "its journal is gone, and what was said was there alone; restore a backup"
                .to_owned(),
        });
    }
    if segments.is_empty() {
        return Ok(StoreRepair::default());
    }
    let deletions = scan::deletions(&segments, None);
    let deletions = deletions.map_err(|it| io_error(io::Error::other(it)))?;
    let repaired = write_anew(dir, &segments, deletions, aside);
    let repaired = repaired.map_err(|it| io_error(it.into()))?;
    drop(lock);
    if !repaired.damage.is_empty() {
        // Makes the index.
        Store::open(dir)?.close();
    }
    Ok(repaired)
}

/// Makes the index of a store anew that nobody has open. Blocks.
pub fn make_index_anew(dir: &Path) -> Result<(), OpenError> {
    let lock = StoreLock::take(dir)?;
    disk::remove_dir(&dir.join("db")).map_err(|source| OpenError::Io {
        path: dir.display().to_string(),
        source,
    })?;
    drop(lock);
    Store::open(dir)?.close();
    Ok(())
}

#[derive(Debug, thiserror::Error)]
enum RepairError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Scan(#[from] ScanError),
    #[error("write the journal anew: {0}")]
    Append(#[from] AppendError),
}

impl From<RepairError> for io::Error {
    fn from(error: RepairError) -> Self {
        match error {
            RepairError::Io(error) => error,
            other => Self::other(other),
        }
    }
}

fn write_anew(
    dir: &Path,
    segments: &[JournalSegment],
    deletions: HashMap<ConversationId, JournalPosition>,
    aside: &Path,
) -> Result<StoreRepair, RepairError> {
    let draft = journal_exchange::draft(dir);
    disk::remove_dir(&draft)?;
    disk::make_dir(&draft)?;
    // Without an index it is one that has seen nothing.
    let witness = IndexWitness::of_store(dir).unwrap_or_default();
    let mut rewriting = JournalRewriting::new(&draft, deletions, &witness.gone)?;
    let mut failed = None;
    let read = scan::read_all(segments, witness.committed, &mut |lines| {
        rewriting.commit(lines).map_err(|it| {
            let text = it.to_string();
            failed = Some(it);
            text
        })
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let damage = read?.damage;
    if damage.is_empty() {
        disk::remove_dir(&draft)?;
        return Ok(StoreRepair::default());
    }
    let (lost, lost_of_trail) = rewriting.finish(&damage, &witness)?;
    let set_aside = set_aside(aside, &damage)?;
    failpoint::pass("repair.mid");
    // First: an index of before looks for lines where they were.
    disk::remove_dir(&dir.join("db"))?;
    journal_exchange::put_in_place(dir)?;
    Ok(StoreRepair {
        damage,
        lost,
        lost_of_trail,
        set_aside,
    })
}

/// The journal that takes the place of the damaged one.
struct JournalRewriting {
    journal: Journal,
    deletions: HashMap<ConversationId, JournalPosition>,
    /// Of these, the ones whose lines are lost.
    untold: Vec<ConversationId>,
    /// The last record of each conversation.
    last: HashMap<ConversationId, LastRecord>,
    trail: ChainHead,
    /// Lines of a commit whose others are to come.
    begun: Vec<KeptLine>,
    lost: HashMap<ConversationId, u64>,
    /// The first and the last record of each gap in the audit trail.
    trail_gaps: Vec<(u64, u64)>,
}

impl JournalRewriting {
    /// `gone`: deleted, as the index remembers, whatever became of the lines that said so.
    fn new(
        journal: &Path,
        mut deletions: HashMap<ConversationId, JournalPosition>,
        gone: &HashSet<ConversationId>,
    ) -> Result<Self, RepairError> {
        let known = gone.iter().filter(|it| !deletions.contains_key(it));
        let untold: Vec<_> = known.copied().collect();
        deletions.extend(untold.iter().map(|it| (*it, JournalPosition::MAX)));
        Ok(Self {
            journal: Journal::resume(journal, Epoch(clock::ulid()), JournalResume::NEW)?,
            deletions,
            untold,
            last: HashMap::new(),
            trail: ChainHead::default(),
            begun: vec![],
            lost: HashMap::new(),
            trail_gaps: vec![],
        })
    }

    fn commit(&mut self, lines: CommitLines<'_>) -> Result<(), RepairError> {
        let mut kept = std::mem::take(&mut self.begun);
        let is_whole = lines.last().and_then(|(rec, _)| rec.place());
        let is_whole = is_whole.is_none_or(|it| it.last);
        for (rec, at) in lines {
            match rec {
                JournalRecord::Header(_) => {}
                JournalRecord::Event(it) => {
                    if self.is_deleted_behind(it.conversation, at.pos) {
                        continue;
                    }
                    kept.extend(self.gap(it.conversation, it.record, at.pos)?);
                    kept.push(KeptLine::Event(it.conversation, it.record.to_owned()));
                }
                JournalRecord::Partial(it) => {
                    if self.is_deleted_behind(it.conversation, at.pos) {
                        continue;
                    }
                    kept.push(KeptLine::Partial(Partial {
                        conversation: it.conversation,
                        turn: it.turn,
                        item: it.item,
                        offset: it.offset,
                        text: it.text,
                    }));
                }
                JournalRecord::Note(it) => kept.push(KeptLine::Note(Note {
                    key: it.key,
                    text: it.text,
                    forgets: it.forgets,
                })),
                JournalRecord::Audit(it) => {
                    if it.n > self.trail.n + 1 {
                        self.trail_gaps.push((self.trail.n + 1, it.n - 1));
                    }
                    self.trail = ChainHead {
                        n: it.n,
                        hash: it.hash,
                    };
                    kept.push(KeptLine::Audit(self.trail, it.entry.to_owned()));
                }
                JournalRecord::Delete(it) => {
                    self.last.remove(&it.conversation);
                    kept.push(KeptLine::Delete(it.conversation, it.spent));
                }
            }
        }
        if !is_whole {
            // Damage stands in it; what comes behind that belongs together with it.
            self.begun = kept;
            return Ok(());
        }
        self.append(&kept)
    }

    /// Compaction may have begun to take it out, which is no loss.
    fn is_deleted_behind(&self, conversation: ConversationId, pos: JournalPosition) -> bool {
        let deleted = self.deletions.get(&conversation);
        deleted.is_some_and(|it| pos < *it)
    }

    /// Records that stand for those that are missing before this one.
    fn gap(
        &mut self,
        conversation: ConversationId,
        stored: &RawValue,
        pos: JournalPosition,
    ) -> Result<Vec<KeptLine>, RepairError> {
        let read = |it| io::Error::other(format!("read a record: {it}"));
        let next: StoredPlace = serde_json::from_str(stored.get()).map_err(read)?;
        let before = self.last.get(&conversation).copied();
        let before = before.unwrap_or(LastRecord {
            seq: Seq(0),
            at: next.at,
            pos,
        });
        let lost = self.lost_records(conversation, before, Seq(next.seq.0.saturating_sub(1)))?;
        let last = LastRecord {
            seq: next.seq,
            at: next.at,
            pos,
        };
        self.last.insert(conversation, last);
        Ok(lost)
    }

    /// Stand-ins for the records behind `before` up to `through`.
    fn lost_records(
        &mut self,
        conversation: ConversationId,
        before: LastRecord,
        through: Seq,
    ) -> Result<Vec<KeptLine>, RepairError> {
        let numbers = before.seq.0 + 1..=through.0;
        let lost = numbers.map(|it| lost_record(conversation, Seq(it), before.at));
        let lost = lost.collect::<Result<Vec<_>, _>>()?;
        if !lost.is_empty() {
            *self.lost.entry(conversation).or_default() += lost.len() as u64;
        }
        Ok(lost)
    }

    /// Behind what the index had seen nobody knows how long a conversation was: which of them may have lost their ends there, and one
    /// record more than each of these has. Damaged bytes that still name a conversation that there is cost that one, and others
    /// whoever ended before.
    fn doubted_ends(
        &self,
        damage: &[JournalDamage],
        seen: JournalPosition,
    ) -> BTreeMap<ConversationId, Seq> {
        let may_have_lost = |id: &ConversationId, last: &LastRecord| {
            let mut behind = damage.iter().filter(|it| {
                let missing = &it.missing;
                !missing.is_empty() && *missing.end() > seen && *missing.start() > last.pos
            });
            behind.any(|it| {
                let mut named = it.conversations.iter();
                let is_attributed = it.is_attributed && named.all(|it| self.last.contains_key(it));
                !is_attributed || it.conversations.contains(id)
            })
        };
        let ends = self.last.iter();
        let ends = ends.filter(|(id, last)| may_have_lost(id, last));
        ends.map(|(id, last)| (*id, last.seq.next())).collect()
    }

    fn append(&mut self, lines: &[KeptLine]) -> Result<(), RepairError> {
        let count = lines.len();
        let entries = lines.iter().zip(1..);
        let entries: Vec<_> = entries
            .map(|(it, number)| it.entry(number == count))
            .collect();
        if !entries.is_empty() {
            self.journal.append(&entries)?;
        }
        Ok(())
    }

    /// Says at their ends what conversations lost, and in the audit trail what was done.
    fn finish(
        mut self,
        damage: &[JournalDamage],
        witness: &IndexWitness,
    ) -> Result<(Vec<(ConversationId, u64)>, u64), RepairError> {
        let begun = std::mem::take(&mut self.begun);
        self.append(&begun)?;
        for conversation in std::mem::take(&mut self.untold) {
            self.append(&[KeptLine::Delete(conversation, vec![])])?;
        }
        let mut ends = self.doubted_ends(damage, witness.committed);
        for (conversation, last) in &witness.last_seqs {
            let end = ends.entry(*conversation).or_default();
            *end = (*end).max(*last);
        }
        for (conversation, end) in ends {
            if self.deletions.contains_key(&conversation) {
                continue;
            }
            let before = self.last.get(&conversation).copied();
            let before = before.unwrap_or(LastRecord {
                seq: Seq(0),
                at: clock::now(),
                pos: 0,
            });
            // One after the other, so that a group is no longer than others are.
            for record in self.lost_records(conversation, before, end)? {
                self.append(&[record])?;
            }
        }
        if witness.trail.n > self.trail.n {
            self.trail_gaps.push((self.trail.n + 1, witness.trail.n));
            self.trail = witness.trail;
        }
        let told = AuditFact::StoreRepaired {
            records: self.lost.values().sum(),
            trail: self.trail_gaps.clone(),
        };
        let draft = AuditDraft::outside_conversation(clock::now(), told);
        let sealed = self.trail.seal(&draft).map_err(io::Error::other)?;
        let text = RawValue::from_string(sealed.text.clone()).map_err(io::Error::other)?;
        self.append(&[KeptLine::Audit(sealed.head(), text)])?;
        self.journal.sync()?;
        disk::sync_dir(self.journal.dir())?;
        let mut lost: Vec<_> = self.lost.into_iter().collect();
        lost.sort();
        let of_trail = self.trail_gaps.iter().map(|(first, last)| last - first + 1);
        Ok((lost, of_trail.sum()))
    }
}

/// The last record of a conversation that could be read.
#[derive(Clone, Copy, Debug)]
struct LastRecord {
    seq: Seq,
    at: Timestamp,
    pos: JournalPosition,
}

/// Of a record, where it stands and when it happened.
#[derive(Deserialize)]
struct StoredPlace {
    seq: Seq,
    at: Timestamp,
}

fn lost_record(
    conversation: ConversationId,
    seq: Seq,
    at: Timestamp,
) -> Result<KeptLine, RepairError> {
    let record = Record {
        seq,
        at,
        turn: None,
        client: None,
        event: Event::RecordLost {},
    };
    let stored = serde_json::value::to_raw_value(&record).map_err(io::Error::other)?;
    Ok(KeptLine::Event(conversation, stored))
}

/// What a line says that is written again.
enum KeptLine {
    Event(ConversationId, Box<RawValue>),
    Partial(Partial),
    Delete(ConversationId, Vec<SpentSum>),
    Note(Note),
    Audit(ChainHead, Box<RawValue>),
}

impl KeptLine {
    fn entry(&self, last: bool) -> JournalEntry<'_> {
        match self {
            Self::Event(conversation, record) => JournalEntry::Event {
                conversation: *conversation,
                record,
                last,
            },
            Self::Partial(partial) => JournalEntry::Partial(partial),
            Self::Delete(conversation, spent) => JournalEntry::Delete {
                conversation: *conversation,
                spent,
                last,
            },
            Self::Note(note) => JournalEntry::Note { note, last },
            Self::Audit(head, entry) => JournalEntry::Audit {
                head: *head,
                entry,
                last,
            },
        }
    }
}

/// Puts the damaged bytes into files of their own, named after where they stood.
fn set_aside(aside: &Path, damage: &[JournalDamage]) -> io::Result<Option<PathBuf>> {
    let with_bytes = damage.iter().filter(|it| it.bytes > 0);
    let mut with_bytes = with_bytes.peekable();
    if with_bytes.peek().is_none() {
        return Ok(None);
    }
    let dir = aside.join(format!("damaged-{}", clock::ulid()));
    disk::make_dir(&dir)?;
    for damage in with_bytes {
        let mut bytes = vec![];
        let mut file = File::open(&damage.file)?;
        file.seek(SeekFrom::Start(damage.offset))?;
        file.take(damage.bytes).read_to_end(&mut bytes)?;
        let name = damage.file.file_stem().unwrap_or_default();
        let name = format!("{}-{}", name.display(), damage.offset);
        let mut kept = disk::create_new(&dir.join(name))?;
        kept.write_all(&bytes)?;
        kept.sync_all()?;
    }
    disk::sync_dir(&dir)?;
    Ok(Some(fs::canonicalize(dir)?))
}
