//! `store/*`: looking after what the daemon keeps: how much room it takes, whether all of it can be read, and giving back
//! what is not needed. Backups and repairs need no daemon: `aishctl backup`, `aishctl store repair`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{ConversationId, Epoch};
use crate::method::{Empty, methods};

methods! {
    /// How much room the store takes, and how far a check is that runs.
    Stat: "store/stat", Observer, Unordered, Empty => StoreStat;
    /// Reads every record of the journal, of the index and of the audit trail, and returns when all were read; how far it is says
    /// `store/stat` meanwhile. One runs at a time: whoever comes later waits for it, and is told what it found.
    Check: "store/check", Driver, Unordered, Empty => StoreCheck;
    /// Gives back all the room that is not needed, also where that would not be worth it otherwise.
    Compact: "store/compact", Driver, Unordered, Empty => StoreCompactResult;
}

/// Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreStat {
    /// The directory.
    pub path: String,
    /// Absent: nobody has it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversations: Option<u64>,
    /// Files of the journal.
    pub segments: u64,
    pub journal_bytes: u64,
    /// Of the journal, what is not deleted, replaced or whole elsewhere. Absent: nobody has it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_bytes: Option<u64>,
    pub index_bytes: u64,
    /// Kept for the day on which the disk is full.
    pub reserve_bytes: u64,
    /// On its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// How large it may become: `store.max_bytes`. Absent: as large as the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// When its oldest part was begun; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
    /// Old parts of the journal that were found damaged since the daemon began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
    /// A check that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checking: Option<CheckedBytes>,
}

/// How far a check is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckedBytes {
    pub done: u64,
    pub total: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreCheck {
    /// Nothing was found.
    pub whole: bool,
    pub segments: u64,
    pub journal_bytes: u64,
    /// Those that could be read.
    pub records: u64,
    /// Bytes of a last write that was not finished. The next start cuts them off; nothing acknowledged is in them.
    pub torn: u64,
    /// Where the journal cannot be read.
    pub damage: Vec<StoreDamage>,
    /// Where the index has something else than the journal. It is made anew of it without loss.
    pub index: Vec<String>,
    /// What is wrong with the audit trail.
    pub trail: Vec<String>,
}

/// A part of the journal that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreDamage {
    pub file: String,
    pub offset: u64,
    /// 0: it is not there.
    pub bytes: u64,
    pub what: String,
    /// Conversations that the damaged bytes still name.
    pub conversations: Vec<ConversationId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreCompactResult {
    /// Bytes of journal and index before.
    pub before: u64,
    pub after: u64,
}
