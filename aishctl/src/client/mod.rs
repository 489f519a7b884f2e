//! Reaching the daemon, and what is asked of it for every command.

pub mod connect;
pub mod conversation_choice;
pub mod daemon_link;
pub mod editor;
pub mod last_used;
pub mod service;
pub mod spawn;
