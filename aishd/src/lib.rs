//! The daemon as a library: `main` is thin, and a test can start the real thing.

pub mod args;
pub mod broker;
pub mod child;
pub mod clock;
pub mod config;
pub mod conversation;
pub mod core;
pub mod daemon;
pub mod event_lines;
pub mod failpoint;
pub mod file_lock;
pub mod folder;
pub mod logging;
pub mod mcp;
pub mod rpc;
pub mod service;
pub mod socket;
pub mod store;
pub mod tls;
pub mod tools;
