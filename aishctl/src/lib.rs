//! The thin clients of `aishd`: `aishctl` for scripts, `aish` for people. They know the wire and
//! nothing of models, keys or configuration; the conversation lives in the daemon.

pub mod args;
pub mod ask_args;
pub mod attach;
pub mod attach_args;
pub mod client;
pub mod colon_line;
mod command_groups;
pub mod command_output;
pub mod commands;
pub mod completion;
pub mod controlling_terminal;
mod dispatch;
pub mod environment;
mod examples;
pub mod exit;
pub mod failure;
pub(crate) mod fast_path;
pub mod file;
pub mod gateway;
pub mod global_args;
mod help;
mod near_tip;
pub(crate) mod parse;
mod picker;
pub(crate) mod picture;
pub mod private_file;
pub mod recorder;
pub mod render;
pub mod run;
pub mod safe;
pub mod signals;
pub mod since;
pub mod span;
pub mod stdout;
#[cfg(test)]
pub(crate) mod test_daemon;
mod window_help;

pub use fast_path::main as fast_path_main;
pub use run::main;
