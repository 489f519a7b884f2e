//! The daemon as a library: `main` is thin, and a test can start the real thing.

pub mod args;
pub mod daemon;
pub mod service;
pub mod socket;
