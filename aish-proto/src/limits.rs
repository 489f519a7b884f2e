//! Sizes and counts that both sides hold to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest line from a client, the line feed included.
pub const LINE_TO_DAEMON_BYTES: usize = 1 << 20;
/// Longest line from the daemon, the line feed included.
pub const LINE_FROM_DAEMON_BYTES: usize = 8 << 20;
/// Text and attachments of one turn together.
pub const INPUT_BYTES: usize = 1 << 20;
/// One picture that goes along with a question: services take 5 MB of base64.
pub const PICTURE_BYTES: usize = 3_750_000;
/// All that goes along with one question as bytes, and so one PDF as well.
pub const PDF_BYTES: usize = 5_000_000;
/// Pictures and PDFs of one question.
pub const PICTURES: usize = 20;
/// Calls in one JSON-RPC batch.
pub const BATCH_CALLS: usize = 16;
/// `conversation/attach` subscriptions of one connection.
pub const SUBSCRIPTIONS: usize = 32;
/// Calls of one connection that may be unanswered at a time; the daemon reads no further until one is.
pub const CALLS_IN_FLIGHT: usize = 64;
/// Time from accepting a connection to its first complete request.
pub const FIRST_REQUEST_MS: u64 = 5_000;
/// Encoded events of one follower that are in memory at a time.
pub const PAGE_BYTES: usize = 256 << 10;
/// Newest part of a text being written that a late follower can still get.
pub const LIVE_WINDOW_BYTES: usize = 256 << 10;
/// Rules that one client may let tools run unasked by in a conversation.
pub const AUTO_APPROVE_PATTERNS: usize = 64;
/// Longest title of a conversation.
pub const TITLE_CHARS: usize = 200;
/// Longest idempotency key.
pub const KEY_BYTES: usize = 128;

/// What this daemon allows, as told at `daemon/hello`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProtocolLimits {
    pub line_bytes: usize,
    pub input_bytes: usize,
    pub batch_calls: usize,
    pub subscriptions: usize,
    pub clients: usize,
    pub queue: usize,
    pub client_stall_ms: u64,
}
