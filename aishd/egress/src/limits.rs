//! The bounds of a listener. What is within them is a child that somebody hostile may have written.

use std::time::Duration;

/// How much a child can have of the daemon through one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EgressLimits {
    /// At once. More wait in the kernel's queue until one ends.
    pub connections: usize,
    /// From the first byte of a connection until it has said where it goes.
    pub handshake: Duration,
    /// For the lookup of a name and the connection together.
    pub connect: Duration,
    /// A connection on which nothing moves for this long ends, at the latest after twice of it.
    pub idle: Duration,
    /// The head of a request, and that of an answer to a plain one.
    pub head_bytes: usize,
    /// Hosts in the report; what comes later is counted together.
    pub hosts_reported: usize,
}

impl Default for EgressLimits {
    fn default() -> Self {
        Self {
            connections: 128,
            handshake: Duration::from_secs(10),
            connect: Duration::from_secs(20),
            idle: Duration::from_secs(15 * 60),
            head_bytes: 32 << 10,
            hosts_reported: 200,
        }
    }
}
