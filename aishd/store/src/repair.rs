//! Writing a journal anew that cannot be read to its end: what is damaged is set aside, what was lost is said where it stood, and
//! everything else is as it was. It goes on in a new epoch, because places of before do not hold.

use std::collections::HashMap;
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
    journal_exchange::remove_left_overs(dir).map_err(io_error)?;
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
    let mut rewriting = JournalRewriting::new(&draft, deletions)?;
    let mut failed = None;
    let read = scan::read(segments, None, &mut |lines| {
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
    let (lost, lost_of_trail) = rewriting.finish(&damage)?;
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
    /// The last record of each conversation.
    last: HashMap<ConversationId, (Seq, Timestamp)>,
    trail: ChainHead,
    lost: HashMap<ConversationId, u64>,
    /// The first and the last record of each gap in the audit trail.
    trail_gaps: Vec<(u64, u64)>,
}

impl JournalRewriting {
    fn new(
        journal: &Path,
        deletions: HashMap<ConversationId, JournalPosition>,
    ) -> Result<Self, RepairError> {
        let nothing = JournalResume {
            newest: None,
            at: None,
            next_pos: 1,
            durable: 0,
            committed: 0,
            bytes: 0,
        };
        Ok(Self {
            journal: Journal::resume(journal, Epoch(clock::ulid()), nothing)?,
            deletions,
            last: HashMap::new(),
            trail: ChainHead::default(),
            lost: HashMap::new(),
            trail_gaps: vec![],
        })
    }

    fn commit(&mut self, lines: CommitLines<'_>) -> Result<(), RepairError> {
        let mut kept = vec![];
        for (rec, at) in lines {
            match rec {
                JournalRecord::Header(_) => {}
                JournalRecord::Event(it) => {
                    if self.is_deleted_behind(it.conversation, at.pos) {
                        continue;
                    }
                    kept.extend(self.gap(it.conversation, it.record)?);
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
    ) -> Result<Vec<KeptLine>, RepairError> {
        let read = |it| io::Error::other(format!("read a record: {it}"));
        let next: StoredPlace = serde_json::from_str(stored.get()).map_err(read)?;
        let (mut seq, at) = self
            .last
            .get(&conversation)
            .copied()
            .unwrap_or((Seq(0), next.at));
        let mut gap = vec![];
        while seq.next() < next.seq {
            seq = seq.next();
            gap.push(lost_record(conversation, seq, at)?);
        }
        if !gap.is_empty() {
            *self.lost.entry(conversation).or_default() += gap.len() as u64;
        }
        self.last.insert(conversation, (next.seq, next.at));
        Ok(gap)
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

    /// Says at their ends what conversations lost that the damaged bytes still name, and in the audit trail what was done.
    fn finish(
        mut self,
        damage: &[JournalDamage],
    ) -> Result<(Vec<(ConversationId, u64)>, u64), RepairError> {
        let mut named: Vec<_> = damage.iter().flat_map(|it| &it.conversations).collect();
        named.sort();
        named.dedup();
        for conversation in named {
            let is_told = self.lost.contains_key(conversation);
            if is_told || self.deletions.contains_key(conversation) {
                continue;
            }
            let (seq, at) = self.last.get(conversation).copied().unwrap_or_default();
            self.append(&[lost_record(*conversation, seq.next(), at)?])?;
            self.lost.insert(*conversation, 1);
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
