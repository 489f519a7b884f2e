//! Keys and values in sled's one tree. A batch over one tree is atomic, and few trees keep sled small.
//!
//! What was said is not in here: events, texts that are being written, notes and records of the audit trail are places in the
//! journal (`body`). A value that can be long is cut into parts of its key, because sled writes long ones as files of their
//! own. The first part begins with the number of parts.

use aish_proto::id::{ConfirmId, ConversationId, Seq, TurnId};
use aishd_log::resource::ResourceName;
use aishd_log::spending::Day;
use sha2::{Digest as _, Sha256};
use sled::{Batch, Tree};

use super::line::JournalPosition;
use super::page_cache::CachePassing;

/// Sixteen of them share a page of sled, which must stay well below its limit for a page in the log.
pub(super) const PART_BYTES: usize = 4096;
const PARTS_BYTES: usize = 2;

const STATE: u8 = b's';
const EVENT: u8 = b'e';
const KEY: u8 = b'k';
const TURN: u8 = b't';
const UNSETTLED: u8 = b'u';
const PARTIAL: u8 = b'p';
const DELETED: u8 = b'd';
const NOTE: u8 = b'n';
const CONFIRM: u8 = b'c';
const CONFIRM_END: u8 = b'C';
const AUDIT: u8 = b'a';
const RESOURCE: u8 = b'r';
const RESOURCE_GONE: u8 = b'R';
const SPENT: u8 = b'$';
const SPENT_NAMED: u8 = b'%';
const FOUND_BY: u8 = b'f';
const HOME: u8 = b'h';
const NOTE_HOME: u8 = b'H';
const NOTE_ERASED: u8 = b'E';
const SEGMENT: u8 = b'g';
const DAMAGED: u8 = b'x';
const GONE: u8 = b'D';
const LISTED: u8 = b'l';
const TITLED: u8 = b'L';
const DIRECTORY: u8 = b'w';

pub(super) const APPLIED: &[u8] = b"mapplied";
/// The last record of the audit trail.
pub(super) const AUDIT_HEAD: &[u8] = b"maudit";
/// What the values look like.
pub(super) const FORMAT: &[u8] = b"mformat";
/// How large its files were when it was made.
pub(super) const MADE_BYTES: &[u8] = b"mmade";
/// How many conversations lists have.
pub(super) const LISTED_COUNT: &[u8] = b"mlisted";

pub(super) fn state(conversation: ConversationId) -> Vec<u8> {
    of(STATE, conversation)
}

pub(super) fn states() -> [u8; 1] {
    [STATE]
}

/// Behind all of them.
pub(super) fn behind_states() -> Vec<u8> {
    vec![STATE + 1]
}

/// Behind all parts of this one.
pub(super) fn behind_state(conversation: ConversationId) -> Vec<u8> {
    [&part_key(&state(conversation), u16::MAX)[..], &[0]].concat()
}

/// What begins the keys of the list (`listing`).
pub(super) fn listed() -> [u8; 1] {
    [LISTED]
}

/// What begins those of titles.
pub(super) fn titled() -> [u8; 1] {
    [TITLED]
}

/// What begins those of directories.
pub(super) fn directories() -> [u8; 1] {
    [DIRECTORY]
}

/// Behind all of them.
pub(super) fn behind_directories() -> [u8; 1] {
    [DIRECTORY + 1]
}

pub(super) fn events(conversation: ConversationId) -> Vec<u8> {
    of(EVENT, conversation)
}

pub(super) fn event(conversation: ConversationId, seq: Seq) -> Vec<u8> {
    let mut key = events(conversation);
    key.extend_from_slice(&seq.0.to_be_bytes());
    key
}

pub(super) fn idempotency_keys(conversation: ConversationId) -> Vec<u8> {
    of(KEY, conversation)
}

pub(super) fn idempotency_key(conversation: ConversationId, key: &str) -> Vec<u8> {
    let mut stored = idempotency_keys(conversation);
    stored.extend_from_slice(&Sha256::digest(key.as_bytes()));
    stored
}

pub(super) fn turn(turn: TurnId) -> Vec<u8> {
    [&[TURN], &turn.to_bytes()[..]].concat()
}

/// Where a confirm was requested.
pub(super) fn confirm(confirm: ConfirmId) -> Vec<u8> {
    [&[CONFIRM], &confirm.to_bytes()[..]].concat()
}

/// Where it was resolved.
pub(super) fn confirm_end(confirm: ConfirmId) -> Vec<u8> {
    [&[CONFIRM_END], &confirm.to_bytes()[..]].concat()
}

pub(super) fn unsettled(conversation: ConversationId) -> Vec<u8> {
    of(UNSETTLED, conversation)
}

pub(super) fn all_unsettled() -> [u8; 1] {
    [UNSETTLED]
}

pub(super) fn partials(conversation: ConversationId) -> Vec<u8> {
    of(PARTIAL, conversation)
}

pub(super) fn all_partials() -> [u8; 1] {
    [PARTIAL]
}

/// A piece of it, by its position in the journal: the order in which it was written.
pub(super) fn partial(conversation: ConversationId, pos: JournalPosition) -> Vec<u8> {
    let mut key = partials(conversation);
    key.extend_from_slice(&pos.to_be_bytes());
    key
}

/// There was such a conversation, for as long as there is the store.
pub(super) fn gone(conversation: ConversationId) -> Vec<u8> {
    of(GONE, conversation)
}

pub(super) fn all_gone() -> [u8; 1] {
    [GONE]
}

pub(super) fn note(key: &str) -> Vec<u8> {
    [&[NOTE], &Sha256::digest(key.as_bytes())[..]].concat()
}

/// By what an event is found besides its own key.
pub(super) fn found_by(conversation: ConversationId, seq: Seq) -> Vec<u8> {
    [&all_found_by(conversation)[..], &seq.0.to_be_bytes()].concat()
}

pub(super) fn all_found_by(conversation: ConversationId) -> Vec<u8> {
    of(FOUND_BY, conversation)
}

/// Whose lines a segment may hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LineOwner(Vec<u8>);

impl LineOwner {
    pub(super) fn conversation(conversation: ConversationId) -> Self {
        Self(of(HOME, conversation))
    }

    pub(super) fn note(key: &str) -> Self {
        Self([&[NOTE_HOME], &Sha256::digest(key.as_bytes())[..]].concat())
    }

    /// A segment that holds lines of it.
    pub(super) fn home(&self, segment: JournalPosition) -> Vec<u8> {
        [&self.0[..], &segment.to_be_bytes()].concat()
    }

    pub(super) fn homes(&self) -> &[u8] {
        &self.0
    }

    /// Whose home it is, and which.
    pub(super) fn of_home(key: &[u8]) -> Option<(Self, JournalPosition)> {
        let (owner, segment) = key.split_last_chunk::<8>()?;
        Some((Self(owner.to_vec()), u64::from_be_bytes(*segment)))
    }

    /// Where it was erased that is to leave the journal; there until it has.
    pub(super) fn erased(&self) -> Vec<u8> {
        let kind = if self.0[0] == HOME {
            DELETED
        } else {
            NOTE_ERASED
        };
        [&[kind], &self.0[1..]].concat()
    }

    /// Who was erased, from such a key.
    pub(super) fn of_erased(key: &[u8]) -> Option<Self> {
        let (kind, rest) = key.split_first()?;
        let kind = match *kind {
            DELETED => HOME,
            NOTE_ERASED => NOTE_HOME,
            _ => return None,
        };
        Some(Self([&[kind], rest].concat()))
    }
}

/// What begins the key of every home.
pub(super) fn all_homes() -> [[u8; 1]; 2] {
    [[HOME], [NOTE_HOME]]
}

/// What begins the keys of those who were erased.
pub(super) fn all_erased() -> [[u8; 1]; 2] {
    [[DELETED], [NOTE_ERASED]]
}

/// What is known of a segment of the journal.
pub(super) fn segment(first: JournalPosition) -> Vec<u8> {
    [&[SEGMENT], &first.to_be_bytes()[..]].concat()
}

pub(super) fn all_segments() -> [u8; 1] {
    [SEGMENT]
}

/// The first position in such a key.
pub(super) fn segment_in(key: &[u8]) -> Option<JournalPosition> {
    let first = key.get(1..9)?.try_into().ok()?;
    Some(u64::from_be_bytes(first))
}

/// Why a conversation cannot be read.
pub(super) fn damaged(conversation: ConversationId) -> Vec<u8> {
    of(DAMAGED, conversation)
}

pub(super) fn resources(conversation: ConversationId) -> Vec<u8> {
    of(RESOURCE, conversation)
}

/// What there is under a name in the shared context.
pub(super) fn resource(conversation: ConversationId, name: &ResourceName) -> Vec<u8> {
    [&resources(conversation)[..], name.as_str().as_bytes()].concat()
}

pub(super) fn gone_resources(conversation: ConversationId) -> Vec<u8> {
    of(RESOURCE_GONE, conversation)
}

/// The last revision of what was under a name.
pub(super) fn gone_resource(conversation: ConversationId, name: &ResourceName) -> Vec<u8> {
    [&gone_resources(conversation)[..], name.as_str().as_bytes()].concat()
}

/// The name in such a key.
pub(super) fn resource_in(key: &[u8]) -> Option<ResourceName> {
    let name = str::from_utf8(key.get(17..)?).ok()?;
    name.parse().ok()
}

/// What was taken on a day; no conversation has sixteen zeros.
pub(super) fn spent(day: Day, conversation: Option<ConversationId>, which: &[u8; 16]) -> Vec<u8> {
    let conversation = conversation.map_or([0; 16], ConversationId::to_bytes);
    [&spent_from(day)[..], &conversation, which].concat()
}

pub(super) fn spent_from(day: Day) -> Vec<u8> {
    [&[SPENT], &day.0.to_be_bytes()[..]].concat()
}

/// Behind all of them.
pub(super) fn spent_end() -> Vec<u8> {
    vec![SPENT + 1]
}

pub(super) fn spent_by(conversation: ConversationId) -> Vec<u8> {
    of(SPENT_NAMED, conversation)
}

/// Where such a sum is found by its conversation.
pub(super) fn spent_named(conversation: ConversationId, day: Day, which: &[u8; 16]) -> Vec<u8> {
    [&spent_by(conversation)[..], &day.0.to_be_bytes(), which].concat()
}

/// A record of the audit trail.
pub(super) fn audit(n: u64) -> Vec<u8> {
    [&[AUDIT], &n.to_be_bytes()[..]].concat()
}

/// The number in such a key.
pub(super) fn audit_in(key: &[u8]) -> Option<u64> {
    let n = key.get(1..9)?.try_into().ok()?;
    Some(u64::from_be_bytes(n))
}

/// What begins the keys under which there are places of lines.
pub(super) fn kinds_of_places() -> [u8; 4] {
    [EVENT, NOTE, AUDIT, PARTIAL]
}

pub(super) fn is_event(key: &[u8]) -> bool {
    key.first() == Some(&EVENT)
}

/// Whether what such a key is about is there until it is deleted; a piece of text goes when its answer is whole.
pub(super) fn is_kept_until_deleted(key: &[u8]) -> bool {
    key.first() != Some(&PARTIAL)
}

/// What a place is of, in words.
pub(super) fn spelled(key: &[u8]) -> String {
    match key.first() {
        Some(&EVENT) => match conversation_in(key).zip(seq_in(key)) {
            Some((id, seq)) => format!("event {seq} of conversation {id}"),
            None => "an event".to_owned(),
        },
        Some(&PARTIAL) => "a piece of text".to_owned(),
        Some(&NOTE) => "a note".to_owned(),
        Some(&AUDIT) => match audit_in(key) {
            Some(n) => format!("record {n} of the audit trail"),
            None => "a record of the audit trail".to_owned(),
        },
        Some(_) | None => "a line".to_owned(),
    }
}

fn of(kind: u8, conversation: ConversationId) -> Vec<u8> {
    [&[kind], &conversation.to_bytes()[..]].concat()
}

/// The conversation that a key is about.
pub(super) fn conversation_in(key: &[u8]) -> Option<ConversationId> {
    let id = key.get(1..17)?.try_into().ok()?;
    Some(ConversationId::from_bytes(id))
}

/// The seq in an event's key.
pub(super) fn seq_in(key: &[u8]) -> Option<Seq> {
    let seq = key.get(17..25)?.try_into().ok()?;
    Some(Seq(u64::from_be_bytes(seq)))
}

fn part_key(key: &[u8], part: u16) -> Vec<u8> {
    [key, &part.to_be_bytes()].concat()
}

pub(super) fn first_part(key: &[u8]) -> Vec<u8> {
    part_key(key, 0)
}

/// Puts a value in parts. Returns how many; `None` when it would be too many, at about 256 MiB.
pub(super) fn put(batch: &mut Batch, key: &[u8], value: &[u8]) -> Option<u16> {
    let head = value.len().min(PART_BYTES - PARTS_BYTES);
    let (head, rest) = value.split_at(head);
    let parts = u16::try_from(1 + rest.len().div_ceil(PART_BYTES)).ok()?;
    batch.insert(part_key(key, 0), [&parts.to_be_bytes()[..], head].concat());
    for (part, bytes) in (1..parts).zip(rest.chunks(PART_BYTES)) {
        batch.insert(part_key(key, part), bytes);
    }
    Some(parts)
}

/// Takes a value's parts away from `from` on.
pub(super) fn remove(batch: &mut Batch, key: &[u8], from: u16, parts: u16) {
    for part in from..parts {
        batch.remove(part_key(key, part));
    }
}

/// The number of parts that a first part speaks of, and its share of the value.
pub(super) fn head(first_part: &[u8]) -> Option<(u16, &[u8])> {
    let (parts, bytes) = first_part.split_first_chunk::<PARTS_BYTES>()?;
    Some((u16::from_be_bytes(*parts), bytes))
}

/// A part that its first part speaks of is not there.
#[derive(Debug)]
pub(super) enum GetError {
    Sled(sled::Error),
    PartMissing,
}

impl From<sled::Error> for GetError {
    fn from(error: sled::Error) -> Self {
        Self::Sled(error)
    }
}

/// A whole value, and of how many parts it is.
pub(super) fn get(tree: &Tree, key: &[u8]) -> Result<Option<(Vec<u8>, u16)>, GetError> {
    let Some(first) = tree.get(part_key(key, 0))? else {
        return Ok(None);
    };
    let (parts, bytes) = head(&first).ok_or(GetError::PartMissing)?;
    let mut value = bytes.to_vec();
    let mut passing = CachePassing::through(tree);
    for part in 1..parts {
        let key = part_key(key, part);
        let bytes = tree.get(&key)?.ok_or(GetError::PartMissing)?;
        passing.value(&key, bytes.len());
        value.extend_from_slice(&bytes);
    }
    Ok(Some((value, parts)))
}
