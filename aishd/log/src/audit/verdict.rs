//! What a check of the trail came to.

use aish_proto::id::{ConversationId, Seq};

use super::chain::{ChainBreak, ChainHead};

/// As many findings are told in full.
const MOST: usize = 50;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainVerdict {
    /// The last record that was looked at, which a person may note elsewhere.
    pub head: ChainHead,
    pub findings: Vec<ChainFinding>,
    /// So many more than are told.
    pub more: u64,
    /// Records that are lost, as repairs of the store have told.
    pub lost: u64,
}

/// Something that is not as it was written, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainFinding {
    /// The number of the record.
    pub n: Option<u64>,
    /// A file of the journal, and a byte in it.
    pub place: Option<(String, u64)>,
    pub fault: ChainFault,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    #[error(transparent)]
    Broken(ChainBreak),
    #[error("the trail was cut: there was a record {0}")]
    Cut(u64),
    #[error("the journal cannot be read: {0}")]
    Journal(String),
    #[error("event {1} of conversation {0} is not what it was when this was told of it")]
    FactChanged(ConversationId, Seq),
    #[error("event {1} of conversation {0} is gone")]
    FactGone(ConversationId, Seq),
    #[error("event {1} of conversation {0} has no record")]
    Untold(ConversationId, Seq),
    #[error("it is not the record that was noted elsewhere")]
    NotAsNoted,
}

impl ChainVerdict {
    pub fn add(&mut self, finding: ChainFinding) {
        if self.findings.len() < MOST {
            self.findings.push(finding);
        } else {
            self.more += 1;
        }
    }

    pub fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }
}
