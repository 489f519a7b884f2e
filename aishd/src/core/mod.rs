//! What is true without IO: facts, state, the turn machine, requests. No clock, no files, no network.

pub mod assemble;
pub mod event;
pub mod mcp;
pub mod preset;
pub mod reach;
pub mod reply;
pub mod request;
pub mod secret_name;
pub mod state;
pub mod tool_name;
pub mod transcript;
pub mod turn;
