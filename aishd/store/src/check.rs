//! Whether the store is as it was written: each line of the journal, what the index has for it, and the audit trail.

use std::cell::RefCell;
use std::ops::Bound;
use std::path::Path;

use aish_proto::id::{ConversationId, Seq};
use aishd_log::audit::chain::ChainHead;
use aishd_log::audit::verdict::ChainVerdict;
use sled::Db;

use super::body::{BodyPlace, JournalFiles};
use super::index::{self, IndexFault, guarded, read_state};
use super::index_witness::copy_index;
use super::line::JournalPosition;
use super::lock::StoreLock;
use super::relocation::key_of;
use super::scan::{self, CommitLines, JournalDamage, ScanError};
use super::segment::{self, JournalSegment};
use super::verify::TrailCheck;
use super::{
    Alive, OpenError, ReadError, Store, audit_trail, disk, index_copy, journal_exchange, recover,
    values,
};

/// As many findings about the index are told in full.
const MOST: usize = 50;
/// Entries of the index that are looked at in one go; a compaction waits for that.
const PAGE: usize = 256;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreVerdict {
    pub journal_bytes: u64,
    pub segments: u64,
    /// Lines of the journal that could be read.
    pub records: u64,
    /// Bytes of a last write that was not finished; the next start cuts them off.
    pub torn: u64,
    /// Where the journal cannot be read.
    pub damage: Vec<JournalDamage>,
    /// What the index has otherwise than the journal, in words. It is made anew without loss.
    pub index: Vec<String>,
    pub trail: ChainVerdict,
}

impl StoreVerdict {
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty() && self.index.is_empty() && self.trail.is_whole()
    }

    fn in_index(&mut self, finding: String) {
        if self.index.len() < MOST {
            self.index.push(finding);
        }
    }
}

/// Told how many bytes of how many were looked at.
pub type CheckProgress<'a> = &'a dyn Fn(u64, u64);

impl Store {
    /// Reads all that there is. What is written meanwhile is not looked at. Blocks.
    pub fn check(&self, progress: CheckProgress<'_>) -> Result<StoreVerdict, ReadError> {
        let head = self.trail_head()?;
        let mut verdict = self.read_unchanged(
            |segments| {
                let index = CheckedIndex::Running(self);
                let trail = TrailCheck::new(Some(head), None);
                StoreCheck::new(segments, &index, 0, progress).run(trail)
            },
            |it| it.damage.is_empty(),
        )?;
        // What is not finished is being written.
        verdict.torn = 0;
        Ok(verdict)
    }

    /// What the journal says while it may be written anew: a segment that was exchanged between the look at its head and the one at
    /// its body looks damaged, and one that another holds since is not there. It is read again then.
    pub(super) fn read_unchanged<T>(
        &self,
        read: impl Fn(&[JournalSegment]) -> Result<T, ReadError>,
        is_whole: impl Fn(&T) -> bool,
    ) -> Result<T, ReadError> {
        let dir = self.shared.dir.join("journal");
        let list = || segment::list(&dir).map_err(|it| ReadError::Unavailable(it.to_string()));
        let heads =
            |it: &[JournalSegment]| it.iter().map(|it| it.header.clone()).collect::<Vec<_>>();
        let mut segments = list()?;
        loop {
            let found = read(&segments);
            let now = list()?;
            if found.as_ref().is_ok_and(&is_whole) || heads(&now) == heads(&segments) {
                return found;
            }
            segments = now;
        }
    }
}

/// The same of a store that nobody has open. Nothing that it says is changed: the index is looked at in a copy.
pub fn check(dir: &Path, progress: CheckProgress<'_>) -> Result<StoreVerdict, OpenError> {
    let io_error = |source| OpenError::Io {
        path: dir.display().to_string(),
        source,
    };
    let is_there = |it| dir.join(it).exists();
    if !["journal", "journal.old", "db"].into_iter().any(is_there) {
        return Ok(StoreVerdict::default());
    }
    let mut lock = StoreLock::take(dir)?;
    lock.write_pid().map_err(io_error)?;
    // Whatever else was left is for the next start to see to, which says so.
    journal_exchange::fill_place(dir).map_err(io_error)?;
    let segments = segment::list(&dir.join("journal")).map_err(io_error)?;
    recover::refuse_newer(dir, &segments)?;
    let copied = CopiedIndex::make(dir, &segments);
    let (index, fault) = match &copied {
        Ok(copied) => (copied.as_checked(), None),
        Err(fault) => (CheckedIndex::None, Some(fault.to_string())),
    };
    let end = copied.as_ref().ok().and_then(CopiedIndex::trail_head);
    let known = match &copied {
        Ok(copied) => copied.committed,
        Err(IndexFault::OtherFormat { applied }) => applied.map_or(0, |it| it.committed),
        Err(_) => 0,
    };
    let trail = TrailCheck::new(end, None);
    let verdict = StoreCheck::new(&segments, &index, known, progress).run(trail);
    let mut verdict = verdict.map_err(|it| io_error(std::io::Error::other(it)))?;
    if let Some(fault) = fault {
        verdict.in_index(format!("the index cannot be used: {fault}"));
    }
    if segments.is_empty() {
        let what = "the journal is gone, and only its index is there";
        verdict
            .damage
            .push(JournalDamage::of(&dir.join("journal"), what));
    }
    Ok(verdict)
}

/// The index that the journal is compared with.
enum CheckedIndex<'a> {
    Running(&'a Store),
    Copied(&'a Db, &'a JournalFiles),
    None,
}

impl CheckedIndex<'_> {
    fn with<T: Default>(
        &self,
        work: impl Fn(&Db, &JournalFiles) -> Result<T, IndexFault>,
    ) -> Result<T, ReadError> {
        match self {
            Self::Running(store) => store.read(|db| work(db, &store.shared.files)),
            Self::Copied(db, files) => Ok(guarded(|| work(db, files))?),
            Self::None => Ok(T::default()),
        }
    }
}

/// A copy of an index that lies there, brought up to the journal as the next start would do it.
struct CopiedIndex<'a> {
    dir: &'a Path,
    db: Option<Db>,
    files: JournalFiles,
    /// Up to where the index had seen commits.
    committed: JournalPosition,
}

impl<'a> CopiedIndex<'a> {
    fn make(dir: &'a Path, segments: &[JournalSegment]) -> Result<Self, IndexFault> {
        let mut made = Self {
            dir,
            db: None,
            files: JournalFiles::new(&dir.join("journal")),
            committed: 0,
        };
        let copy = index_copy::looked_at(dir);
        copy_index(dir)?;
        let brought =
            recover::bring_up(&copy, &dir.join("journal"), segments, 0, &Alive::default());
        match brought {
            Ok(current) => {
                made.committed = current.applied.map_or(0, |it| it.committed);
                made.db = Some(current.db);
            }
            Err(recover::BuildError::Index(fault)) => return Err(fault),
            Err(error) => return Err(IndexFault::garbled(&error.to_string())),
        }
        Ok(made)
    }

    fn as_checked(&self) -> CheckedIndex<'_> {
        match &self.db {
            Some(db) => CheckedIndex::Copied(db, &self.files),
            None => CheckedIndex::None,
        }
    }

    fn trail_head(&self) -> Option<ChainHead> {
        let db = self.db.as_ref()?;
        guarded(|| audit_trail::head(db)).ok()
    }
}

impl Drop for CopiedIndex<'_> {
    fn drop(&mut self) {
        if let Some(db) = self.db.take() {
            index::close(db);
        }
        let _left_for_the_next_start = disk::remove_dir(&index_copy::looked_at(self.dir));
    }
}

/// One way through all of it.
struct StoreCheck<'a> {
    segments: &'a [JournalSegment],
    index: &'a CheckedIndex<'a>,
    /// Up to here the journal was committed, as the index remembers.
    known: JournalPosition,
    progress: CheckProgress<'a>,
    total: u64,
    done: u64,
    verdict: StoreVerdict,
}

impl<'a> StoreCheck<'a> {
    fn new(
        segments: &'a [JournalSegment],
        index: &'a CheckedIndex<'a>,
        known: JournalPosition,
        progress: CheckProgress<'a>,
    ) -> Self {
        let journal_bytes = recover::total_bytes(segments);
        Self {
            segments,
            index,
            known,
            progress,
            // Once as it stands there and once by way of the index.
            total: 2 * journal_bytes,
            done: 0,
            verdict: StoreVerdict {
                journal_bytes,
                segments: segments.len() as u64,
                ..StoreVerdict::default()
            },
        }
    }

    fn run(mut self, mut trail: TrailCheck) -> Result<StoreVerdict, ReadError> {
        let journal = self.journal(&mut trail)?;
        (self.verdict.torn, self.verdict.damage) = journal;
        self.places()?;
        let is_deleted = |id| self.index.with(|db, _| index::is_deleted(db, id));
        self.verdict.trail = trail.finish(vec![], is_deleted)?;
        (self.progress)(self.total, self.total);
        Ok(self.verdict)
    }

    /// Reads the journal as it stands there, and looks whether the index has each of its lines.
    fn journal(&mut self, trail: &mut TrailCheck) -> Result<(u64, Vec<JournalDamage>), ReadError> {
        let fault = RefCell::new(None);
        let read = scan::read_all(self.segments, self.known, &mut |lines| {
            trail.commit(&lines);
            self.lines(&lines).map_err(|it| {
                let text = it.to_string();
                *fault.borrow_mut() = Some(it);
                text
            })
        });
        match (read, fault.into_inner()) {
            (Ok(ended), _) => Ok((ended.torn, ended.damage)),
            (Err(_), Some(fault)) => Err(fault),
            (Err(error @ (ScanError::Io(_) | ScanError::Refused(_))), None) => {
                Err(ReadError::Unavailable(error.to_string()))
            }
        }
    }

    fn lines(&mut self, lines: &CommitLines<'_>) -> Result<(), ReadError> {
        self.verdict.records += lines.len() as u64;
        let bytes: u64 = lines.iter().map(|(_, at)| at.end - at.line).sum();
        let findings = self.index.with(|db, files| {
            let applied = index::applied(db)?.map_or(0, |it| it.pos);
            let mut findings = vec![];
            for (rec, at) in lines.iter().filter(|(_, at)| at.pos <= applied) {
                let Some(key) = key_of(rec)? else { continue };
                let place = db
                    .get(&key)?
                    .map(|it| BodyPlace::from_bytes(&it))
                    .transpose()?;
                if place != Some(BodyPlace::from(*at)) {
                    findings.extend(another(db, files, &key, place)?);
                }
            }
            Ok(findings)
        })?;
        findings
            .into_iter()
            .for_each(|it| self.verdict.in_index(it));
        self.step(bytes);
        Ok(())
    }

    fn step(&mut self, bytes: u64) {
        self.done = self.total.min(self.done + bytes);
        (self.progress)(self.done, self.total);
    }

    /// Reads each line by way of the index.
    fn places(&mut self) -> Result<(), ReadError> {
        let mut before: Option<(ConversationId, Seq)> = None;
        for kind in values::kinds_of_places() {
            let mut after = vec![kind];
            loop {
                let page = self
                    .index
                    .with(|db, files| page(db, files, kind, &after, before))?;
                // What the journal lacks was told of.
                let is_told = !self.verdict.damage.is_empty();
                let unreadable = page.unreadable.into_iter().filter(|_| !is_told);
                for finding in page.findings.into_iter().chain(unreadable) {
                    self.verdict.in_index(finding);
                }
                self.step(page.bytes);
                before = page.last;
                let Some(through) = page.through else { break };
                after = through;
            }
        }
        Ok(())
    }
}

/// Entries of the index that were looked at.
#[derive(Default)]
struct CheckedPage {
    findings: Vec<String>,
    /// Lines that the journal has not where the index looks for them.
    unreadable: Vec<String>,
    bytes: u64,
    /// The last key; `None`: there is nothing behind them.
    through: Option<Vec<u8>>,
    last: Option<(ConversationId, Seq)>,
}

fn page(
    db: &Db,
    files: &JournalFiles,
    kind: u8,
    after: &[u8],
    before: Option<(ConversationId, Seq)>,
) -> Result<CheckedPage, IndexFault> {
    let mut checked = CheckedPage {
        last: before,
        ..CheckedPage::default()
    };
    let mut reader = files.reader();
    let rest = (Bound::Excluded(after), Bound::Unbounded);
    for (count, entry) in db.range::<&[u8], _>(rest).enumerate() {
        let (key, place) = entry?;
        if key.first() != Some(&kind) {
            break;
        }
        if count == PAGE {
            return Ok(checked);
        }
        checked.through = Some(key.to_vec());
        let place = BodyPlace::from_bytes(&place)?;
        checked.bytes += u64::from(place.length);
        match reader.read(place) {
            Ok(rec) if key_of(&rec)?.as_deref() == Some(&key[..]) => {}
            Ok(_) => checked.findings.push(format!(
                "what it has for {} is another line",
                values::spelled(&key)
            )),
            Err(IndexFault::Journal(what)) => checked.unreadable.push(what),
            Err(fault) => return Err(fault),
        }
        if let Some((id, seq)) = values::conversation_in(&key).zip(values::seq_in(&key))
            && values::is_event(&key)
        {
            let due = match checked.last {
                Some((of, last)) if of == id => last.next(),
                Some(_) | None => Seq(1),
            };
            if seq != due && index::check_whole(db, id).is_ok() {
                let finding = format!("conversation {id} goes on with {seq} where {due} was due");
                checked.findings.push(finding);
            }
            if !db.contains_key(values::event(id, seq.next()))? && !ends_right(db, id, seq)? {
                let finding = format!("conversation {id} ends at {seq}, and its state elsewhere");
                checked.findings.push(finding);
            }
            checked.last = Some((id, seq));
        }
    }
    checked.through = None;
    Ok(checked)
}

/// Whether the state is the one after the last record, which was `seq` a moment ago.
fn ends_right(db: &Db, id: ConversationId, seq: Seq) -> Result<bool, IndexFault> {
    Ok(match read_state(db, id)? {
        Some((state, _)) => {
            state.last_seq >= seq && db.contains_key(values::event(id, state.last_seq))?
        }
        None => index::is_deleted(db, id)?,
    })
}

/// What is wrong where the index has another place for what a line says, or none.
fn another(
    db: &Db,
    files: &JournalFiles,
    key: &[u8],
    place: Option<BodyPlace>,
) -> Result<Option<String>, IndexFault> {
    let Some(place) = place else {
        let is_missed = values::is_kept_until_deleted(key)
            && match values::conversation_in(key).filter(|_| values::is_event(key)) {
                Some(id) => !index::is_deleted(db, id)?,
                None => true,
            };
        return Ok(is_missed.then(|| format!("it lacks {}", values::spelled(key))));
    };
    match files.reader().read(place) {
        Ok(rec) if key_of(&rec)?.as_deref() == Some(key) => Ok(None),
        Ok(_) => Ok(Some(format!(
            "what it has for {} is another line",
            values::spelled(key)
        ))),
        // Told of where that line stands.
        Err(IndexFault::Journal(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}
