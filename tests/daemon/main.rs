//! The daemon as strangers see it: over its socket, as a process, and at the model server's end.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on ends here; the runner shows where"
)]

mod bad_input;
mod consent;
mod consent_crash;
mod crash;
mod disk;
mod fanout;
mod order;
mod place;
mod protocol;
mod trust;
mod turns;
