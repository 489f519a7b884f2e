//! The thin clients of `aishd`: `aishctl` for scripts, `aish` for people. They know the wire and
//! nothing of models, keys or configuration; the conversation lives in the daemon.

pub(crate) mod alone;
pub mod args;
pub mod ask;
pub mod attach;
pub mod colon;
pub mod config;
pub mod confirm;
pub mod connect;
pub mod consent;
pub mod conversations;
pub mod desk;
pub mod doctor;
pub mod editor;
pub mod exit;
pub mod extract;
pub mod failure;
pub mod follow;
pub mod form;
pub mod hello;
pub mod input;
pub mod log;
pub mod markdown;
pub mod mcp;
pub mod mention;
pub mod model;
pub mod notice;
pub mod output;
pub mod pager;
pub(crate) mod parse;
#[cfg(test)]
pub(crate) mod peer;
pub mod permission;
pub(crate) mod program;
pub mod progress;
pub mod prompt;
pub mod queue;
pub mod receipt;
pub mod resolve;
pub mod rows;
pub mod rpc;
pub mod run;
pub mod safe;
pub mod screen;
pub mod service;
pub mod signals;
pub mod span;
pub mod spawn;
pub mod spinner;
pub mod status;
pub mod stdout;
pub mod stream;
pub mod surroundings;
pub mod table;

pub use alone::main as alone;
pub use run::main;
