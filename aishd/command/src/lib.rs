//! Reads shell commands and judges what they may destroy; knows nothing of conversations.

pub mod change_directory;
pub mod command;
pub mod destructive;
