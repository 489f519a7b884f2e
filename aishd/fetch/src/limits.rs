//! What one call may take. A server that wants more, or is slower, is cut off.

use std::time::Duration;

/// Redirects that are followed.
pub(crate) const MOST_REDIRECTS: u32 = 5;
/// For what is done with a page once it is there.
pub(crate) const TO_CONVERT: Duration = Duration::from_secs(10);
/// For the start and the end of the program.
const BESIDE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// From the wish for a host to the head of its answer, besides the time that a person has to allow the host.
    pub answer: Duration,
    /// Without a byte of the body.
    pub idle: Duration,
    /// For the whole body.
    pub body: Duration,
    /// Bytes of a body as they are sent, and of its text once it is unpacked.
    pub body_bytes: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(20),
            idle: Duration::from_secs(10),
            body: Duration::from_secs(40),
            body_bytes: 4 << 20,
        }
    }
}

/// What a call takes at most, where a person has so long to allow each host on the way.
pub fn longest(host_wait: Duration) -> Duration {
    let limits = FetchLimits::default();
    let each = host_wait.saturating_add(limits.answer);
    let hops = each.saturating_mul(MOST_REDIRECTS + 1);
    hops.saturating_add(limits.body)
        .saturating_add(TO_CONVERT)
        .saturating_add(BESIDE)
}
