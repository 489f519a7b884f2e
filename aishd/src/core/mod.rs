//! What is true without IO: facts, state, the turn machine, requests. No clock, no files, no network.

pub mod access;
pub mod assemble;
pub mod audit;
pub mod block;
pub mod call_list;
pub mod canonical;
pub mod catalog;
pub mod confirm;
pub mod constraints;
pub mod elicitation;
pub mod event;
pub mod gate;
pub mod mcp;
pub mod pinned;
pub mod policy;
pub mod preset;
pub mod reach;
pub mod reply;
pub mod request;
pub mod secret_name;
pub mod shorten;
pub mod state;
pub mod tool;
pub mod tool_name;
pub mod transcript;
pub mod turn;
