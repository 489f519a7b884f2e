//! The working state in sled: opening it within a time, and what is read from it.
//!
//! sled can panic and hang on damaged files, and its errors stick until every handle is gone. So nothing here
//! trusts it: it is opened in a thread that may be left behind, and read behind a guard.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};

use aish_proto::id::{ConfirmId, ConversationId, Seq, TurnId};
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use aishd_platform::clock;
use serde::{Deserialize, Serialize};
use sled::{Config, Db, Mode};

use super::body::{BodyPlace, BodyReader, JournalFiles};
use super::journal::LineLocation;
use super::line::{JournalPosition, JournalRecord, PartialRec};
use super::values::{self, GetError, LineOwner};
use super::{ConfirmPlace, KeyUse, Loaded, Partial, ReadError, TurnPlace, disk};

const CACHE_BYTES: u64 = 4 * 1024 * 1024;
/// Opening a whole index takes milliseconds; one that takes so long is hung.
const OPEN_LIMIT: Duration = Duration::from_secs(5);
const LOCK_LIMIT: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(5);
const CLOSE_LIMIT: Duration = Duration::from_secs(3);
/// How long a key answers.
const KEY_LIFE_MS: i64 = 24 * 60 * 60 * 1000;
/// 2: events, notes, texts and records of the audit trail are places in the journal. 3: lists of conversations have keys.
const FORMAT: &[u8] = b"3";

/// The index did not do what it should.
#[derive(Debug, thiserror::Error)]
pub(super) enum IndexFault {
    #[error("{0}")]
    Sled(#[from] sled::Error),
    #[error("sled panicked")]
    Panicked,
    #[error("sled did not open in time")]
    Hung,
    #[error("{0}")]
    Garbled(String),
    /// What the index speaks of cannot be read in the journal: another index would not help.
    #[error("{0}")]
    Journal(String),
    #[error("the index is one of an older program")]
    OtherFormat {
        /// What it has.
        applied: Option<LineLocation>,
    },
}

impl IndexFault {
    pub(super) fn garbled(what: &str) -> Self {
        Self::Garbled(what.to_owned())
    }

    /// sled says so in words only.
    fn is_locked(&self) -> bool {
        matches!(self, Self::Sled(sled::Error::Io(error)) if error.to_string().contains("could not acquire lock"))
    }

    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Sled(sled::Error::Io(error)) if disk::is_full(error))
    }

    pub(super) fn disk(error: io::Error) -> Self {
        Self::Sled(error.into())
    }

    /// The disk's trouble, not the index's: building it anew would not help.
    pub(super) fn is_disk(&self) -> bool {
        let Self::Sled(sled::Error::Io(error)) = self else {
            return false;
        };
        disk::is_full(error)
            || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
            || matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
            )
    }
}

impl From<serde_json::Error> for IndexFault {
    fn from(error: serde_json::Error) -> Self {
        Self::Garbled(error.to_string())
    }
}

impl From<GetError> for IndexFault {
    fn from(error: GetError) -> Self {
        match error {
            GetError::Sled(error) => Self::Sled(error),
            GetError::PartMissing => Self::garbled("a part of a value is missing"),
        }
    }
}

impl From<IndexFault> for ReadError {
    fn from(fault: IndexFault) -> Self {
        match fault {
            IndexFault::Garbled(what) | IndexFault::Journal(what) => Self::Damaged(what),
            IndexFault::Sled(_)
            | IndexFault::Panicked
            | IndexFault::Hung
            | IndexFault::OtherFormat { .. } => Self::Unavailable(fault.to_string()),
        }
    }
}

/// Runs something that touches sled; a panic in there is a fault like others.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, IndexFault>) -> Result<T, IndexFault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(IndexFault::Panicked))
}

pub(super) fn open(path: &Path) -> Result<Db, IndexFault> {
    disk::make_dir(path).map_err(IndexFault::disk)?;
    remove_half_snapshots(path).map_err(IndexFault::disk)?;
    let config = Config::new()
        .path(path)
        .cache_capacity(CACHE_BYTES)
        .mode(Mode::HighThroughput)
        .flush_every_ms(None);
    let opened = disk::run_within(OPEN_LIMIT, "sled-open", move || open_unlocked(&config));
    let db = opened.unwrap_or(Err(IndexFault::Hung))?;
    match guarded(|| check_format(&db)) {
        Ok(()) => Ok(db),
        Err(fault) => {
            close(db);
            Err(fault)
        }
    }
}

fn check_format(db: &Db) -> Result<(), IndexFault> {
    match db.get(values::FORMAT)? {
        Some(format) if format == FORMAT => Ok(()),
        None if db.is_empty() => {
            db.insert(values::FORMAT, FORMAT)?;
            Ok(())
        }
        Some(_) | None => {
            let applied = db.get(values::APPLIED)?;
            let applied = applied.and_then(|it| serde_json::from_slice(&it).ok());
            Err(IndexFault::OtherFormat { applied })
        }
    }
}

/// Opens once nobody has sled's lock any more. We hold ours, so that is only a child that is being started and
/// has a copy of the descriptor until it runs its program.
fn open_unlocked(config: &Config) -> Result<Db, IndexFault> {
    let started = Instant::now();
    loop {
        let opened = guarded(|| Ok(config.open()?));
        let locked = opened.as_ref().is_err_and(IndexFault::is_locked);
        if !locked || started.elapsed() > LOCK_LIMIT {
            return opened;
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// A kill while sled writes a snapshot leaves one that it would take for the newest, and fail on for ever.
fn remove_half_snapshots(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|it| it.to_str());
        if name.is_some_and(|it| it.starts_with("snap.") && it.ends_with(".generating")) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Lets go of sled, which writes when its last handle goes, and can hang in that.
pub(super) fn close(db: Db) {
    let closed = disk::run_within(CLOSE_LIMIT, "sled-close", move || {
        guarded(|| {
            drop(db);
            Ok(())
        })
    });
    if !matches!(closed, Some(Ok(()))) {
        tracing::warn!("sled did not close; it is left behind");
    }
}

pub(super) fn flush(db: &Db) -> Result<(), IndexFault> {
    guarded(|| {
        db.flush()?;
        Ok(())
    })
}

/// The place in the journal up to which the index has everything.
pub(super) fn applied(db: &Db) -> Result<Option<LineLocation>, IndexFault> {
    guarded(|| match db.get(values::APPLIED)? {
        Some(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        None => Ok(None),
    })
}

pub(super) fn is_deleted(db: &Db, conversation: ConversationId) -> Result<bool, IndexFault> {
    Ok(db.contains_key(values::gone(conversation))?)
}

/// Whose lines are to leave the journal, and where they were erased.
pub(super) fn erased(db: &Db) -> Result<Vec<(LineOwner, JournalPosition)>, IndexFault> {
    guarded(|| {
        let mut found = vec![];
        for prefix in values::all_erased() {
            for entry in db.scan_prefix(prefix) {
                let (key, pos) = entry?;
                let pos = <[u8; 8]>::try_from(&*pos).ok().map(u64::from_be_bytes);
                found.extend(LineOwner::of_erased(&key).zip(pos));
            }
        }
        Ok(found)
    })
}

/// The segments that may hold lines of `owner` from before `erased`.
pub(super) fn homes_before(
    db: &Db,
    owner: &LineOwner,
    erased: JournalPosition,
) -> Result<Vec<JournalPosition>, IndexFault> {
    let mut found = vec![];
    for entry in db.scan_prefix(owner.homes()) {
        let (key, clean) = entry?;
        let clean = <[u8; 8]>::try_from(&*clean).ok().map(u64::from_be_bytes);
        let (Some((_, segment)), Some(clean)) = (LineOwner::of_home(&key), clean) else {
            return Err(IndexFault::garbled("a home"));
        };
        if clean < erased {
            found.push(segment);
        }
    }
    Ok(found)
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredKeyUse {
    pub(super) turn: TurnId,
    pub(super) message_seq: Seq,
    pub(super) body: String,
    pub(super) at: Timestamp,
}

pub(super) fn read_state(
    db: &Db,
    conversation: ConversationId,
) -> Result<Option<(ConversationState, u16)>, IndexFault> {
    let key = values::state(conversation);
    loop {
        let first = db.get(values::first_part(&key))?;
        let read = values::get(db, &key);
        // A commit may come between two parts. It changes the first one, which has the seq.
        let is_one = matches!(read, Ok(Some((_, 1))));
        if !is_one && db.get(values::first_part(&key))? != first {
            continue;
        }
        return match read? {
            Some((bytes, parts)) => Ok(Some((serde_json::from_slice(&bytes)?, parts))),
            None => Ok(None),
        };
    }
}

/// Whether no record of it is known to be damaged.
pub(super) fn check_whole(db: &Db, conversation: ConversationId) -> Result<(), IndexFault> {
    match db.get(values::damaged(conversation))? {
        Some(why) => Err(IndexFault::Journal(
            String::from_utf8_lossy(&why).into_owned(),
        )),
        None => Ok(()),
    }
}

pub(super) fn load(
    db: &Db,
    files: &JournalFiles,
    conversation: ConversationId,
) -> Result<Option<Loaded>, IndexFault> {
    check_whole(db, conversation)?;
    let Some((state, _)) = read_state(db, conversation)? else {
        return Ok(None);
    };
    let partial = read_partial(db, files, conversation)?;
    Ok(Some(Loaded { state, partial }))
}

/// The pieces of texts that are being written, each with its key, in the order in which they were.
pub(super) fn pieces(
    db: &Db,
    files: &JournalFiles,
    prefix: &[u8],
) -> impl Iterator<Item = (Vec<u8>, Result<PartialRec, IndexFault>)> {
    let mut reader = files.reader();
    db.scan_prefix(prefix).map(move |entry| match entry {
        Ok((key, place)) => (key.to_vec(), piece(&mut reader, &place)),
        Err(error) => (vec![], Err(error.into())),
    })
}

fn piece(reader: &mut BodyReader<'_>, place: &[u8]) -> Result<PartialRec, IndexFault> {
    match reader.read(BodyPlace::from_bytes(place)?)? {
        JournalRecord::Partial(piece) => Ok(piece),
        _ => Err(IndexFault::garbled("a piece of text is something else")),
    }
}

fn read_partial(
    db: &Db,
    files: &JournalFiles,
    conversation: ConversationId,
) -> Result<Option<Partial>, IndexFault> {
    let mut whole: Option<Partial> = None;
    for (_, piece) in pieces(db, files, &values::partials(conversation)) {
        let piece = match piece {
            Ok(piece) => piece,
            // It was never acknowledged.
            Err(IndexFault::Journal(_)) => break,
            Err(fault) => return Err(fault),
        };
        let whole = whole.get_or_insert(Partial {
            conversation,
            turn: piece.turn,
            item: piece.item,
            offset: 0,
            text: String::new(),
        });
        // A repeated piece begins before the end of what was there.
        let keep = usize::try_from(piece.offset).unwrap_or(usize::MAX);
        if whole.text.is_char_boundary(keep) {
            whole.text.truncate(keep);
            whole.text.push_str(&piece.text);
        }
    }
    Ok(whole)
}

pub(super) fn find_key(
    db: &Db,
    conversation: ConversationId,
    key: &str,
) -> Result<Option<KeyUse>, IndexFault> {
    let name = values::idempotency_key(conversation, key);
    let Some((bytes, _)) = values::get(db, &name)? else {
        return Ok(None);
    };
    let used: StoredKeyUse = serde_json::from_slice(&bytes)?;
    let age_ms = clock::now().0.saturating_sub(used.at.0);
    Ok((age_ms < KEY_LIFE_MS).then_some(KeyUse {
        turn: used.turn,
        message_seq: used.message_seq,
        body: used.body,
        at: used.at,
    }))
}

pub(super) fn find_turn(db: &Db, turn: TurnId) -> Result<Option<TurnPlace>, IndexFault> {
    let place = find(db, &values::turn(turn))?;
    Ok(place.map(|(conversation, message_seq)| TurnPlace {
        conversation,
        message_seq,
    }))
}

pub(super) fn find_confirm(
    db: &Db,
    confirm: ConfirmId,
) -> Result<Option<ConfirmPlace>, IndexFault> {
    let Some((conversation, requested)) = find(db, &values::confirm(confirm))? else {
        return Ok(None);
    };
    let resolved = find(db, &values::confirm_end(confirm))?;
    Ok(Some(ConfirmPlace {
        conversation,
        requested,
        resolved: resolved.map(|(_, seq)| seq),
    }))
}

/// A place in a log that is found by something else.
fn find(db: &Db, key: &[u8]) -> Result<Option<(ConversationId, Seq)>, IndexFault> {
    let Some(place) = db.get(key)? else {
        return Ok(None);
    };
    let place = place
        .split_first_chunk::<16>()
        .and_then(|(id, seq)| Some((*id, <[u8; 8]>::try_from(seq).ok()?)));
    let (id, seq) = place.ok_or_else(|| IndexFault::garbled("a place in a log"))?;
    Ok(Some((
        ConversationId::from_bytes(id),
        Seq(u64::from_be_bytes(seq)),
    )))
}

pub(super) fn note(db: &Db, files: &JournalFiles, key: &str) -> Result<Option<String>, IndexFault> {
    let Some(place) = db.get(values::note(key))? else {
        return Ok(None);
    };
    let mut reader = files.reader();
    match reader.read(BodyPlace::from_bytes(&place)?)? {
        JournalRecord::Note(note) if note.key == key => Ok(Some(note.text)),
        _ => Err(IndexFault::garbled("a note is something else")),
    }
}

pub(super) fn unsettled(db: &Db) -> Result<Vec<ConversationId>, IndexFault> {
    let mut found = vec![];
    for key in db.scan_prefix(values::all_unsettled()).keys() {
        found.extend(values::conversation_in(&key?));
    }
    Ok(found)
}
