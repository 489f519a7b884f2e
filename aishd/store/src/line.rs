//! One line of the journal: JSON that a person can read, with a checksum and a length that a machine checks
//! before it believes a byte of it.
//!
//! `{"crc":"xxxxxxxx","len":"dddddddd","rec":<rec>}` and a newline; the CRC32C is over the bytes of `rec`.

use aish_proto::id::{ConversationId, Epoch, TurnId};
use aishd_log::spending::SpentSum;
use aishd_log::time::Timestamp;
use aishd_log::tool::ContentDigest;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The newest format that this program writes and understands. 2: audit records; 3: a question has a subject;
/// 4: segments that were written anew count how often, and may hold several.
pub(super) const FORMAT: u32 = 4;
/// What eight digits can say.
const MAX_REC_BYTES: usize = 99_999_999;

const CRC: &[u8] = b"{\"crc\":\"";
const LEN: &[u8] = b"\",\"len\":\"";
const REC: &[u8] = b"\",\"rec\":";
const END: &[u8] = b"}\n";
const REC_AT: usize = CRC.len() + 8 + LEN.len() + 8 + REC.len();

/// Place in the journal: counts every line but headers, over all segments, from 1.
pub(super) type JournalPosition = u64;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum JournalRecord<'a> {
    Header(SegmentHeader),
    #[serde(borrow)]
    Event(EventRec<'a>),
    Partial(PartialRec),
    Delete(DeleteRec),
    Note(NoteRec),
    /// Since format 2.
    #[serde(borrow)]
    Audit(AuditRec<'a>),
}

/// The first line of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SegmentHeader {
    pub(super) format: u32,
    pub(super) epoch: Epoch,
    pub(super) first: JournalPosition,
    /// Up to here everything was durable when this segment was begun; what earlier segments hold beyond it
    /// was never acknowledged and does not count.
    pub(super) after: JournalPosition,
    /// The segment before, so that a missing one is noticed.
    #[serde(default)]
    pub(super) previous: Option<JournalPosition>,
    /// Records of deleted conversations were taken out: positions have gaps.
    #[serde(default)]
    pub(super) compacted: bool,
    /// How often it was written anew. Since format 4.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) generation: u64,
    /// It holds the segments up to the one that began here, which are no more. Since format 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) through: Option<JournalPosition>,
    /// When it was written anew last. Since format 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rewritten: Option<Timestamp>,
    pub(super) created: Timestamp,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Where a record stands among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordPlace {
    pub(super) pos: JournalPosition,
    /// Known to be synced when this was written.
    pub(super) durable: JournalPosition,
    /// This line completes its commit.
    pub(super) last: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EventRec<'a> {
    #[serde(rename = "at")]
    pub(super) place: RecordPlace,
    pub(super) conversation: ConversationId,
    #[serde(borrow)]
    pub(super) record: &'a RawValue,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PartialRec {
    #[serde(rename = "at")]
    pub(super) place: RecordPlace,
    pub(super) conversation: ConversationId,
    pub(super) turn: TurnId,
    pub(super) item: u32,
    pub(super) offset: u64,
    pub(super) text: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DeleteRec {
    #[serde(rename = "at")]
    pub(super) place: RecordPlace,
    pub(super) conversation: ConversationId,
    /// What it had taken of models, for when its records are gone: its money was spent all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) spent: Vec<SpentSum>,
}

/// Something that is kept under a key beside the conversations; the newest counts.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NoteRec {
    #[serde(rename = "at")]
    pub(super) place: RecordPlace,
    pub(super) key: String,
    pub(super) text: String,
    /// What it replaces is to leave the journal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) forgets: bool,
}

/// A record of the audit trail, behind what it tells of in one commit with it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AuditRec<'a> {
    #[serde(rename = "at")]
    pub(super) place: RecordPlace,
    pub(super) n: u64,
    /// Over the bytes of `entry`.
    pub(super) hash: ContentDigest,
    #[serde(borrow)]
    pub(super) entry: &'a RawValue,
}

impl JournalRecord<'_> {
    pub(super) fn place(&self) -> Option<RecordPlace> {
        match self {
            Self::Header(_) => None,
            Self::Event(it) => Some(it.place),
            Self::Partial(it) => Some(it.place),
            Self::Delete(it) => Some(it.place),
            Self::Note(it) => Some(it.place),
            Self::Audit(it) => Some(it.place),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum EncodeError {
    #[error("a record of {0} bytes is too long for the journal")]
    TooLong(usize),
    #[error("encode a record")]
    Json(#[from] serde_json::Error),
}

/// Puts one line behind what `out` holds; leaves `out` as it was on an error.
pub(super) fn encode(rec: &JournalRecord<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = out.len();
    let outcome = encode_at(rec, out, start);
    if outcome.is_err() {
        out.truncate(start);
    }
    outcome
}

fn encode_at(rec: &JournalRecord<'_>, out: &mut Vec<u8>, start: usize) -> Result<(), EncodeError> {
    out.resize(start + REC_AT, b'0');
    serde_json::to_writer(&mut *out, rec)?;
    let bytes = out.len() - start - REC_AT;
    if bytes > MAX_REC_BYTES {
        return Err(EncodeError::TooLong(bytes));
    }
    let crc = crc32c::crc32c(&out[start + REC_AT..]);
    let crc = format!("{crc:08x}");
    let len = format!("{bytes:08}");
    let prefix = [CRC, crc.as_bytes(), LEN, len.as_bytes(), REC].concat();
    out[start..start + REC_AT].copy_from_slice(&prefix);
    out.extend_from_slice(END);
    Ok(())
}

/// The rec bytes of the line at the start of `bytes` and the length of the whole line; `None` unless the line
/// is complete and its checksum right.
pub(super) fn check(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let rest = bytes.strip_prefix(CRC)?;
    let (crc, rest) = rest.split_at_checked(8)?;
    let rest = rest.strip_prefix(LEN)?;
    let (len, rest) = rest.split_at_checked(8)?;
    let rest = rest.strip_prefix(REC)?;
    let len: usize = std::str::from_utf8(len).ok()?.parse().ok()?;
    let (rec, rest) = rest.split_at_checked(len)?;
    let said = u32::from_str_radix(std::str::from_utf8(crc).ok()?, 16).ok()?;
    let right = rest.starts_with(END) && crc32c::crc32c(rec) == said;
    right.then_some((rec, REC_AT + len + END.len()))
}

/// Where the next line begins behind damage at `at` that can be read, or the end.
pub(super) fn next_readable(bytes: &[u8], at: usize) -> usize {
    let mut further = at;
    while let Some(newline) = bytes[further..].iter().position(|it| *it == b'\n') {
        further += newline + 1;
        if check(&bytes[further..]).is_some() {
            return further;
        }
    }
    bytes.len()
}

/// The place alone, without a look at the texts: cheap enough to search behind damage with.
pub(super) fn parse(rec: &[u8]) -> Result<JournalRecord<'_>, serde_json::Error> {
    serde_json::from_slice(rec)
}
