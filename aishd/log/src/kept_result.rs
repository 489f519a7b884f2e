//! Where the whole of a text is that the log has in part.

use aish_proto::id::ResultId;
use serde::{Deserialize, Serialize};

/// A result that is kept whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptResult {
    pub result: ResultId,
    pub bytes: u64,
}
